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

from rcp_irx.errors import RCPError, counted, examples, warn
from rcp_irx.gains import GainTable
from rcp_irx.mteb.scoring import Results, Rules, read_rules, score
from rcp_irx.mteb.sources import TaskGains, as_table, gains_by_subset, one_to_one
from rcp_irx.mteb.tasks import asked_queries, own_name, retrieval_task, retrieval_tasks, task_rules

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
    tasks: Iterable[AbsTask | str] | AbsTask | str = (),
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
    tasks : iterable of AbsTask or str, or one
        Tasks that mteb does not know by name: their subsets, and which documents their scores leave out. Others are
        looked up; what mteb does not know and is not given here leaves out nothing. No data are loaded; where those of
        a task given here are, its queries with labels are scored, as `with_rcp` does.
    k_values, ties, rules, ignore_identical_ids
        As in `with_rcp`.
    per_query : bool
        A row for each query instead of the means: what significance tests need, and mteb's result files lack.

    Returns
    -------
    DataFrame
        `model, revision, task, subset, split`, then the scores that `with_rcp` adds; with `per_query` `qid` comes
        before them. Scored are the queries that have gains. One that the file lacks scores 0; but where it cannot be
        told of which split it is, as the subset has several, it is left out.

    Raises
    ------
    RCPError
        No prediction file, a damaged one, scores that are no numbers, gains that do not fit, more than half of a
        subset's queries with gains missing from the file, and what `with_rcp` refuses; the file is named.

    Warns
    -----
    RCPWarning
        For queries with gains that the file lacks, with their number; for `tasks` without predictions; for queries
        without gains, and low coverage.
    """
    given = {own_name(task): task for task in retrieval_tasks(tasks)}
    files = [read_predictions(path) for path in _files(folder)]
    names = list(dict.fromkeys(file.task for file in files))
    by_task = _gains_by_task(gains, names)
    if set(given) - set(names):
        warn(f"no predictions of {examples(set(given) - set(names))}; there are predictions of {examples(names)}")
    known = {name: given.get(name) or _known(name) for name in names}
    tables = [_tables(file, known[file.task], by_task[file.task]) for file in files]
    if not isinstance(gains, Mapping):
        users = [
            (own.datasets[0], f.task, subset) for f, of in zip(files, tables, strict=True) for subset, own in of.items()
        ]
        one_to_one(users, "predictions")
    parts = []
    for file, by_subset in zip(files, tables, strict=True):
        how = _rules(known[file.task], k_values, ties, rules, ignore_identical_ids)
        for subset, table in by_subset.items():
            for split, asked in _asked(file, subset, table, known[file.task]).items():
                parts.append(_part(file, (subset, split), table, asked, how, per_query))
    return pd.concat(parts, ignore_index=True)


def read_predictions(path: str | os.PathLike[str]) -> Predictions:
    """A prediction file, checked.

    Raises
    ------
    RCPError
        If it is no JSON, or not of mteb's layout: subset -> split -> query -> document -> score, a number.
    """
    path = _path(path)
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
    return Predictions(
        path, _task_of(path), str(meta.get("model_name") or ""), str(meta.get("revision") or ""), results
    )


def prediction_file(place: str | os.PathLike[str], task: AbsTask) -> Path:
    """The task's file in a prediction folder, or the file itself.

    Raises
    ------
    RCPError
        If the folder has none for this task, what it has is named; if the file's name is another task's.
    """
    place, name = _path(place), own_name(task)
    if place.is_file():
        if place.name.endswith(ENDING) and _task_of(place) != name:
            raise RCPError(f"{place} is of the task {_task_of(place)!r}, not of {name!r}")
        return place
    path = place / f"{name}{ENDING}"
    if not path.is_file():
        found = examples(other.name for other in place.glob(f"*{ENDING}")) if place.is_dir() else "no such folder"
        raise RCPError(f"no {path.name} in {place}; found: {found or 'no prediction file'}")
    return path


def _path(place: Any) -> Path:
    if not isinstance(place, (str, os.PathLike)):
        raise RCPError(f"a folder or file of predictions must be given as a path, not {type(place).__name__}")
    return Path(place)


def _task_of(path: Path) -> str:
    """The task that a file's name tells."""
    return path.name.removesuffix(ENDING).removesuffix(path.suffix)


def _files(folder: str | os.PathLike[str]) -> list[Path]:
    place = _path(folder)
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
    if task is None:
        return read_rules(k_values, ties, rules, False if identical is None else identical)
    how = task_rules(task, k_values, ties, rules, identical)
    return replace(how, skip_first_result=bool(task.skip_first_result))


def _asked(file: Predictions, subset: str, table: GainTable, task: AbsTaskRetrieval | None) -> dict[str, list[str]]:
    """The queries to score of each of the file's splits of a subset: the task's where its data are loaded, else the
    file's, and those with gains that it lacks.
    """
    splits = {split: list(results) for (own, split), results in file.results.items() if own == subset}
    dataset = None if task is None else task.dataset
    theirs = {split: own for split in splits if (own := asked_queries(dataset, None, subset, split)) is not None}
    loaded = theirs.keys() == splits.keys()
    asked = theirs if loaded else splits
    judged = dict.fromkeys(table.documents["qid"])
    scored = set().union(*theirs.values())
    expected = [qid for qid in judged if not loaded or qid in scored]
    held = set().union(*splits.values())
    missing = [qid for qid in expected if qid not in held]
    if not missing or (held.isdisjoint(expected) and not loaded):  # gains of another task: scoring says so
        return asked
    number = f"{len(missing)} of the {counted(len(expected), 'query', 'queries')} that have gains"
    lack = f"{file.path}, subset {subset!r}, lacks {number}: {examples(missing)}"
    if 2 * len(missing) > len(expected):
        raise RCPError(f"{lack}; more than half: is the run whole, and are these the gains of these splits alone?")
    several = len(splits) > 1 or (task is not None and len(task.eval_splits) > 1)
    if several and not loaded:
        warn(f"{lack}; they are left out, as it cannot be told of which split they are (load the task's data to tell)")
        return asked
    warn(f"{lack}; they score 0")
    return asked if loaded else {split: [*qids, *missing] for split, qids in asked.items()}


def _part(
    file: Predictions, key: tuple[str, str], table: GainTable, asked: list[str], how: Rules, per_query: bool
) -> pd.DataFrame:
    results = file.results[key]
    try:
        scored = score(results, table, asked, how, ", ".join((file.task, *key)))
    except RCPError as error:
        raise RCPError(f"{file.path}: {error}") from None
    head = {"model": file.model, "revision": file.revision, "task": file.task, "subset": key[0], "split": key[1]}
    if not per_query:
        return pd.DataFrame([{**head, **scored.means()}])
    rows = len(scored.qids)
    return pd.DataFrame({name: [value] * rows for name, value in head.items()} | {"qid": scored.qids, **scored.scores})
