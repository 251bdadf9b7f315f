"""`pool`: the candidates of a task as the frame that RCPJudge takes, with the texts that mteb shows to models."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import pandas as pd
from mteb.abstasks import AbsTask, AbsTaskRetrieval

from rcp_irx.errors import RCPError, counted, examples, warn, whole
from rcp_irx.mteb.predictions import Predictions, prediction_file, read_predictions
from rcp_irx.mteb.tasks import own_name, retrieval_task, unshared
from rcp_irx.pooling import fuse

Place: TypeAlias = "str | os.PathLike[str]"

COLUMNS = ["dataset", "qid", "query", "docno", "text", "pool_rank", "task"]
DEPTH, KAPPA = 150, 60
MANY = 1000
"""Candidates a query from which on `top_ranked` is a filter of the corpus and not a pool for a judge."""


def pool(
    task: AbsTask | str,
    predictions: Place | Iterable[Place] | None = None,
    *,
    num_results: int | None = None,
    split: str | None = None,
) -> pd.DataFrame:
    """The candidates of a task's queries, for RCPJudge.

    Parameters
    ----------
    task : AbsTask or str
        A retrieval or reranking task of texts, or its name. Its data are loaded where they are not; it is not changed.
    predictions : path or iterable of paths, optional
        Prediction folders (`mteb.evaluate(..., prediction_folder=...)`) or files, one per model; several are fused by
        reciprocal ranks (C.1). Without them the candidates are the task's `top_ranked`.
    num_results : int, optional
        Candidates a query; by default 150 of predictions, and all of `top_ranked`.
    split : str, optional
        Which split; needed where the task evaluates several.

    Returns
    -------
    DataFrame
        `dataset` (the subset; where there is one only, the task's name, so that tasks can share a log), `qid`, `query`
        and `text` as mteb shows them to models (a query with its instruction, a document with its title), `docno`,
        `pool_rank` and `task`, the task's instruction, as in `RCPJudge(judge, task=frame["task"].iloc[0])`.

    Raises
    ------
    RCPError
        No candidates: neither `top_ranked` nor predictions; predictions of another task, as the file's name or its
        queries tell; a task without texts; a split or subset that is not there.

    Warns
    -----
    RCPWarning
        For candidates that the corpus lacks, and queries without candidates; both are left out.

    Notes
    -----
    The order of `top_ranked` may give the labels away (positives first): `pool_rank` is then no fair rule for ties.
    """
    task = retrieval_task(task)
    name = own_name(task)
    files = (
        [] if predictions is None else [read_predictions(prediction_file(place, task)) for place in _all(predictions)]
    )
    if num_results is not None:
        whole("num_results", num_results)
    data = _loaded(task)
    split = _split(task, split)
    alone = len(task.metadata.hf_subsets) == 1
    parts = []
    for subset in task.hf_subsets:
        where = f"{name}, {subset}, {split}"
        part = data.get(subset, data if alone else {}).get(split)
        if part is None:
            raise RCPError(f"{where}: the task's data hold no such part, only {examples(data)}")
        candidates = _candidates(part, files, (subset, split), num_results, where)
        rows = _rows(part, candidates, where)
        parts.append(rows.assign(dataset=name if alone else subset, task=_instruction(task)))
    return pd.concat(parts, ignore_index=True)[COLUMNS]


def _all(predictions: Place | Iterable[Place]) -> list[Place]:
    places = (
        list(predictions) if isinstance(predictions, Iterable) and not isinstance(predictions, str) else [predictions]
    )
    if not places:
        raise RCPError("predictions names no folder")
    return places


def _loaded(task: AbsTaskRetrieval) -> Mapping[str, Any]:
    """The task's data in mteb's present layout; the task itself stays as it was."""
    own = copy.copy(task)
    own.dataset = unshared(task.dataset)
    if not own.data_loaded:
        own.load_data()
    own.convert_v1_dataset_format_to_v2(num_proc=None)
    return own.dataset or {}


def _split(task: AbsTaskRetrieval, split: str | None) -> str:
    splits = list(task.eval_splits)
    if split is None and len(splits) == 1:
        return str(splits[0])
    if split not in splits:
        raise RCPError(f"{own_name(task)} evaluates the splits {examples(splits)}: give one as split=, not {split!r}")
    return str(split)


def _candidates(
    part: Mapping[str, Any], files: Sequence[Predictions], key: tuple[str, str], num_results: int | None, where: str
) -> dict[str, list[str]]:
    """The candidates of the task's queries, best first."""
    asked = [qid for qid in part["queries"]["id"] if part["relevant_docs"].get(qid)]
    if files:
        rankings = [_rankings(file, key, asked) for file in files]
        fused = {qid: list(fuse([ranks.get(qid, {}) for ranks in rankings], KAPPA)) for qid in asked}
        found = {qid: docnos[: num_results or DEPTH] for qid, docnos in fused.items()}
    elif part.get("top_ranked"):
        found = {qid: list(part["top_ranked"].get(qid, []))[:num_results] for qid in asked}
    else:
        raise RCPError(f"{where}: the task has no top_ranked; give a folder of predictions")
    without = [qid for qid, docnos in found.items() if not docnos]
    if len(without) == len(asked):
        raise RCPError(f"{where}: no query has candidates; queries are {examples(asked) or 'none'}")
    if without:
        warn(f"{where}: no candidates for {counted(len(without), 'query', 'queries')}, left out: {examples(without)}")
    if max(map(len, found.values())) > MANY:
        warn(f"{where}: up to {max(map(len, found.values()))} candidates a query; num_results= keeps the first")
    return found


def _rankings(file: Predictions, key: tuple[str, str], asked: Iterable[str]) -> dict[str, dict[str, int]]:
    """The ranks of each query's documents, 1 first; tied ones by id, descending, as trec_eval has them."""
    if key not in file.results:
        raise RCPError(f"{file.path} has no subset {key[0]!r} with split {key[1]!r}; it has {examples(file.results)}")
    results = file.results[key]
    known = [qid for qid in asked if qid in results]
    if not known:
        raise RCPError(f"{file.path}: its queries {examples(results) or '(none)'} are not those of the task")
    ranks = {}
    for qid in known:
        ranked = sorted(((score, docno) for docno, score in results[qid].items()), reverse=True)
        ranks[qid] = {docno: rank for rank, (_, docno) in enumerate(ranked, start=1)}
    return ranks


def _rows(part: Mapping[str, Any], candidates: Mapping[str, Sequence[str]], where: str) -> pd.DataFrame:
    """A row per candidate with its texts; those that the corpus lacks are left out."""
    for what, name in (("corpus", "documents"), ("queries", "queries")):
        if "text" not in part[what].column_names:
            raise RCPError(f"{where}: the {name} have no texts (columns {list(part[what].column_names)})")
    place = {docno: row for row, docno in enumerate(part["corpus"]["id"])}
    wanted = dict.fromkeys(docno for docnos in candidates.values() for docno in docnos)
    absent = [docno for docno in wanted if docno not in place]
    if len(absent) == len(wanted):
        raise RCPError(f"{where}: the corpus holds no candidate; candidates are {examples(absent)}")
    if absent:
        number = counted(len(absent), "candidate", "candidates")
        warn(f"{where}: the corpus lacks {number}, left out: {examples(absent)}")
    known = [docno for docno in wanted if docno in place]
    found = part["corpus"].select([place[docno] for docno in known])
    texts = dict(zip(known, map(_document_text, found), strict=True))
    queries = {row["id"]: _query_text(row) for row in part["queries"] if row["id"] in candidates}
    rows = [
        (qid, queries[qid], docno, texts[docno], rank)
        for qid, docnos in candidates.items()
        for rank, docno in enumerate(docno for docno in docnos if docno in texts)
    ]
    return pd.DataFrame(rows, columns=["qid", "query", "docno", "text", "pool_rank"])


def _document_text(document: Mapping[str, Any]) -> str:
    """Title and body with a space between, as mteb joins them."""
    return " ".join(part for part in (document.get("title"), document["text"]) if part).strip()


def _query_text(query: Mapping[str, Any]) -> str:
    """The query and its instruction; of a conversation the instruction, then its turns."""
    text, instruction = query["text"], query.get("instruction")
    if isinstance(text, str):
        return text if instruction is None else f"{text} {instruction}"
    turns = [turn if isinstance(turn, str) else f"{turn['role']}: {turn['content']}" for turn in text]
    return " ".join([*([instruction] if instruction is not None else []), "; ".join(turns)])


def _instruction(task: AbsTaskRetrieval) -> str:
    """What the task says of itself to models, for queries; else what mteb says of tasks of its kind."""
    prompt = task.metadata.prompt
    own = prompt.get("query") if isinstance(prompt, dict) else prompt
    return own or task.abstask_prompt
