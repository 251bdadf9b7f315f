"""mteb's prediction files: reading them, and scoring them with gains without loading a model or any data."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import pandas as pd
from mteb.abstasks import AbsTask, AbsTaskRetrieval

from rcp_irx.errors import RCPError, examples
from rcp_irx.gains import GainTable
from rcp_irx.mteb.scoring import Results, Rules, read_rules, score
from rcp_irx.mteb.sources import TaskGains, as_table, gains_by_subset, one_to_one
from rcp_irx.mteb.tasks import own_name, retrieval_task

ENDING = "_predictions.json"
META = "mteb_model_meta"
ONLY = "default"
"""What mteb calls the subset of a task that has no other."""


@dataclass(frozen=True)
class Predictions:
    """One prediction file: a model's results on a task, by (subset, split)."""

    path: Path
    task: str
    model: str
    revision: str
    results: dict[tuple[str, str], Results]

    @property
    def subsets(self) -> list[str]:
        """The subsets that the file holds, in its order."""
        return list(dict.fromkeys(subset for subset, _ in self.results))


def score_predictions(
    folder: str | os.PathLike[str],
    gains: TaskGains | Mapping[str, TaskGains],
    *,
    tasks: Iterable[AbsTask | str] = (),
    k_values: Iterable[int] = (10,),
    ties: str | None = None,
    rules: str | None = None,
    ignore_identical_ids: bool | None = None,
    per_query: bool = False,
) -> pd.DataFrame:
    """Score the predictions of past runs (`mteb.evaluate(..., prediction_folder=...)`) as `with_rcp` does.

    Parameters
    ----------
    folder : path
        A prediction folder with all that is below it, such as one folder per model, or one prediction file.
    gains : GainTable, str or mapping
        For predictions of one task as in `with_rcp`. For several tasks task name -> gains, or one table whose datasets
        are called like the tasks or their subsets.
    tasks : iterable of AbsTask or str
        Tasks that mteb does not know by name: their subsets, and which documents their scores leave out. Others are
        looked up; what mteb does not know and is not given here leaves out nothing. No data are loaded.
    k_values, ties, rules, ignore_identical_ids
        As in `with_rcp`.
    per_query : bool
        A row for each query instead of the means: what significance tests need, and mteb's result files lack.

    Returns
    -------
    DataFrame
        `model, revision, task, subset, split`, then the scores that `with_rcp` adds; with `per_query` `qid` comes
        before them. Scored are the queries of the file that have gains: mteb asks for all that a task scores.

    Raises
    ------
    RCPError
        No prediction file, a damaged one, scores that are no numbers, gains that do not fit, and what `with_rcp`
        refuses; the file is named.
    """
    given = {own_name(task): task for task in map(retrieval_task, tasks)}
    files = [read_predictions(path) for path in _files(folder)]
    names = list(dict.fromkeys(file.task for file in files))
    by_task = _gains_by_task(gains, names)
    tables = [_tables(file, given.get(file.task) or _known(file.task), by_task[file.task]) for file in files]
    if not isinstance(gains, Mapping):
        users = [
            (own.datasets[0], f.task, subset) for f, of in zip(files, tables, strict=True) for subset, own in of.items()
        ]
        one_to_one(users, "predictions")
    parts = []
    for file, by_subset in zip(files, tables, strict=True):
        how = _rules(given.get(file.task) or _known(file.task), k_values, ties, rules, ignore_identical_ids)
        parts += [_part(file, key, by_subset[key[0]], how, per_query) for key in file.results]
    return pd.concat(parts, ignore_index=True)


def read_predictions(path: str | os.PathLike[str]) -> Predictions:
    """A prediction file, checked.

    Raises
    ------
    RCPError
        If it is no JSON, or not of mteb's layout: subset -> split -> query -> document -> score, a number.
    """
    path = Path(path)
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RCPError(f"{path} is no readable prediction file ({error})") from None
    if not isinstance(content, dict):
        raise RCPError(f"{path} is no prediction file of mteb: it holds {type(content).__name__}, not subsets")
    meta = content.pop(META, None) or {}
    results = {}
    for subset, splits in content.items():
        for split, queries in _dict(splits, f"{path}: subset {subset!r}", "splits").items():
            where = f"{path}: subset {subset!r}, split {split!r}"
            for qid, documents in _dict(queries, where, "queries").items():
                _refuse_other_than_numbers(_dict(documents, f"{where}, query {qid!r}", "documents"), where, qid)
            results[subset, split] = queries
    if not results:
        raise RCPError(f"{path} is no prediction file of mteb: it holds no subset")
    task = path.name.removesuffix(ENDING).removesuffix(path.suffix)
    return Predictions(path, task, str(meta.get("model_name") or ""), str(meta.get("revision") or ""), results)


def prediction_file(place: str | os.PathLike[str], task: AbsTask) -> Path:
    """The task's file in a prediction folder, or the file itself.

    Raises
    ------
    RCPError
        If the folder has none for this task; what it has is named.
    """
    place = Path(place)
    if place.is_file():
        return place
    path = place / f"{own_name(task)}{ENDING}"
    if not path.is_file():
        found = examples(other.name for other in place.glob(f"*{ENDING}")) if place.is_dir() else "no such folder"
        raise RCPError(f"no {path.name} in {place}; found: {found or 'no prediction file'}")
    return path


def _files(folder: str | os.PathLike[str]) -> list[Path]:
    place = Path(folder)
    found = [place] if place.is_file() else sorted(place.rglob(f"*{ENDING}"))
    if not found:
        there = examples(path.name for path in place.iterdir()) if place.is_dir() else "no such folder"
        raise RCPError(f"no prediction file (*{ENDING}) in {place}; found: {there or 'nothing'}")
    return found


def _dict(value: Any, where: str, of: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise RCPError(f"{where} must hold {of}, and holds {type(value).__name__}: no prediction file of mteb")
    return value


def _refuse_other_than_numbers(documents: dict[str, Any], where: str, qid: str) -> None:
    wrong = [
        (qid, docno, value)
        for docno, value in documents.items()
        if type(value) not in (int, float) or not math.isfinite(value)
    ]
    if wrong:
        raise RCPError(f"{where}: scores must be finite numbers; query, document, score: {examples(wrong)}")


def _gains_by_task(gains: TaskGains | Mapping[str, TaskGains], names: list[str]) -> dict[str, TaskGains]:
    """The gains of each task; what is for one task alone is for a single task only."""
    if not isinstance(gains, Mapping):
        table: TaskGains = as_table(gains)
        return dict.fromkeys(names, table)
    lacking = [name for name in names if name not in gains]
    if not lacking:
        return {name: gains[name] for name in names}
    if len(names) == 1 and not any(isinstance(value, Mapping) for value in gains.values()):
        return {names[0]: cast("TaskGains", gains)}  # by subset
    raise RCPError(
        f"no gains for the predictions of {examples(lacking)}; there are gains for {examples(gains) or 'none'}"
    )


def _known(name: str) -> AbsTaskRetrieval | None:
    try:
        return retrieval_task(name)
    except RCPError:
        return None


def _tables(file: Predictions, task: AbsTaskRetrieval | None, gains: TaskGains) -> dict[str, GainTable]:
    """The gains of the file's subsets; where mteb does not know the task, its subsets are those of file and gains."""
    if task is not None:
        known = list(task.metadata.hf_subsets)
    else:
        known = [*file.subsets, *(gains if isinstance(gains, Mapping) else [])]
    alone = set(known) == {ONLY} if task is None else len(known) == 1
    return gains_by_subset(gains, file.task, file.subsets, known, alone)


def _rules(task: AbsTaskRetrieval | None, k_values: Any, ties: Any, rules: Any, identical: bool | None) -> Rules:
    theirs = task is not None and bool(task.ignore_identical_ids)
    how = read_rules(k_values, ties, rules, theirs if identical is None else identical)
    return replace(how, skip_first_result=task is not None and bool(task.skip_first_result))


def _part(file: Predictions, key: tuple[str, str], table: GainTable, how: Rules, per_query: bool) -> pd.DataFrame:
    results = file.results[key]
    try:
        scored = score(results, table, list(results), how, ", ".join((file.task, *key)))
    except RCPError as error:
        raise RCPError(f"{file.path}: {error}") from None
    head = {"model": file.model, "revision": file.revision, "task": file.task, "subset": key[0], "split": key[1]}
    if not per_query:
        return pd.DataFrame([{**head, **scored.means()}])
    rows = len(scored.qids)
    return pd.DataFrame({name: [value] * rows for name, value in head.items()} | {"qid": scored.qids, **scored.scores})
