"""Makes the frame that RCPJudge takes from an ir_datasets dataset and a ranking: query, text, rank."""

from __future__ import annotations

import os
from collections.abc import Sequence
from itertools import islice
from typing import Any

import ir_datasets
import numpy as np
import pandas as pd

from rcp_irx.documents import with_keys
from rcp_irx.errors import RCPError, counted, examples, warn
from rcp_irx.ir_datasets.reading import RESULT, find, name_of, scored_documents, texts, topics
from rcp_irx.trec import read_run


def pool_from(
    dataset: ir_datasets.Dataset | str,
    *,
    run: pd.DataFrame | str | os.PathLike[str] | None = None,
    num_results: int | None = 150,
    text_fields: str | Sequence[str] | None = None,
    query_field: str | None = None,
) -> pd.DataFrame:
    """The candidates of every query with their text, as `RCPJudge` takes them.

    Parameters
    ----------
    dataset : str or ir_datasets.Dataset
        Where queries and documents are from.
    run : DataFrame, str or path, optional
        The candidates: `qid, docno` (or `query_id, doc_id`) and `rank` or `score`; or a TREC run file, which is read by
        its scores. Where there is no rank, the highest score is first, equal scores in the order of the ids. By default
        the dataset's own scored documents.
    num_results : int or None
        How many candidates a query has at most. None: all.
    text_fields : str or sequence of str, optional
        Fields of the documents that are joined, by a space, to the text. By default what the dataset itself calls a
        document's text: title and body, joined.
    query_field : str, optional
        The field of the queries that is the query, such as "description". By default what the dataset takes for it.

    Returns
    -------
    DataFrame
        `qid, query, docno, text, score` (NaN where the run has none), `rank` (0 is the first), in the order of the
        dataset's queries and of the ranks. The queries' other text fields (a description, a narrative) follow, for
        `RCPJudge(context_fields=...)`; one whose name is taken, such as `text`, is called `query_text`.

    Raises
    ------
    RCPError
        An unknown dataset or field; a dataset without scored documents, and no run; scores that are no finite numbers;
        a run that shares no query or no document with the dataset.

    Warns
    -----
    RCPWarning
        Candidates that the corpus does not hold, queries of the run that the dataset does not have, queries without
        candidates: each is left out. A candidate ranked twice keeps its best rank.
    """
    source = find(dataset)
    if not source.has_docs() or not source.has_queries():
        raise RCPError(f"{name_of(source)} has no {'queries' if source.has_docs() else 'documents'}")
    if num_results is not None and (not isinstance(num_results, (int, np.integer)) or num_results < 1):
        raise RCPError(f"num_results is a whole number of at least 1, or None for all, not {num_results!r}")
    queries = topics(source, query_field)
    pool = _with_text(_candidates(source, run, queries["qid"].tolist(), num_results), source, text_fields)
    without = queries["qid"][~queries["qid"].isin(pool["qid"])]
    if len(without):
        warn(f"{counted(len(without), 'query has', 'queries have')} no candidates, left out: {examples(without)}")
    pool = queries.merge(pool.assign(rank=pool.groupby("qid").cumcount()), on="qid", how="inner")
    return pool[[*RESULT, *(name for name in queries.columns if name not in RESULT)]]


def _candidates(source: ir_datasets.Dataset, run: Any, qids: list[str], num_results: int | None) -> pd.DataFrame:
    """The candidates of the dataset's queries as `qid, docno, score`, best first."""
    frame, by_rank = _ranking(source, run)
    known = frame["qid"].isin(qids)
    if not known.any():
        raise RCPError(
            f"the run and {name_of(source)} share no query: the run's are {examples(frame['qid']) or 'none'}, the "
            f"dataset's {examples(qids)}"
        )
    if not known.all():
        left = frame["qid"][~known]
        number = counted(left.nunique(), "query", "queries")
        warn(f"{number} of the run, which {name_of(source)} does not have, left out: {examples(left)}")
    order = "rank" if by_rank else "score"
    frame = frame[known].sort_values(["qid", order, "docno"], ascending=[True, by_rank, True], kind="stable")
    again = frame.duplicated(["qid", "docno"])
    if again.any():
        found = examples(frame[again][["qid", "docno"]].itertuples(index=False, name=None))
        warn(f"ranked twice, the best rank counts: query, document {found}")
    frame = frame[~again][["qid", "docno", "score"]]
    if num_results is None:
        return frame
    sizes = frame.groupby("qid")["score"].agg(["size", "nunique"])
    flat = sizes.index[(sizes["size"] > num_results) & (sizes["nunique"] == 1) & (not by_rank)]
    if len(flat):
        number = counted(len(flat), "query", "queries")
        warn(f"all candidates of {number} have one score; the first {num_results} by id are taken: {examples(flat)}")
    return frame.groupby("qid").head(num_results)


def _ranking(source: ir_datasets.Dataset, run: Any) -> tuple[pd.DataFrame, bool]:
    """The ranking as `qid, docno, score` and perhaps `rank`, and whether ranks order it."""
    if run is None:
        if not source.has_scoreddocs():
            raise RCPError(f"{name_of(source)} has no scored documents: give run=, a frame or a TREC run file")
        what, run = "scored documents", scored_documents(source)
    elif isinstance(run, (str, os.PathLike)):
        what, run = f"run {os.fspath(run)}", read_run(run).drop(columns=["rank", "name"])
    else:
        what = "run"
        if not isinstance(run, pd.DataFrame):
            raise RCPError(f"run must be a frame or the path of a TREC run file, not {type(run).__name__}")
    ids = {"query_id": "qid", "doc_id": "docno"}
    frame = run.rename(columns={old: new for old, new in ids.items() if new not in run.columns})
    frame = with_keys(frame, ["qid", "docno"], what)
    if frame["dataset"].nunique() > 1:
        raise RCPError(f"the {what} is of the datasets {examples(frame['dataset'])}: make a pool of one at a time")
    by_rank = "rank" in frame.columns
    if not by_rank and "score" not in frame.columns:
        raise RCPError(f"the {what} has neither 'rank' nor 'score' (it has {list(run.columns)})")
    order = "rank" if by_rank else "score"
    values = pd.to_numeric(frame[order], errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    wrong = frame[~np.isfinite(values)]
    if len(wrong):
        found = examples(wrong[["qid", "docno", order]].itertuples(index=False, name=None))
        raise RCPError(f"the {what}: a {order} is a finite number; query, document, {order}: {found}")
    return frame.assign(**{"score": frame.get("score", np.nan), order: values}), by_rank


def _with_text(candidates: pd.DataFrame, source: ir_datasets.Dataset, fields: Any) -> pd.DataFrame:
    """The candidates that the corpus holds, with their text."""
    found = texts(source, candidates["docno"], fields)
    missing = ~candidates["docno"].isin(list(found))
    names = examples(candidates[missing][["qid", "docno"]].itertuples(index=False, name=None))
    if missing.all():
        held = examples(document.doc_id for document in islice(source.docs_iter(), 3))
        raise RCPError(
            f"the corpus of {name_of(source)} holds none of the candidates; query, document: {names}; it holds {held}"
        )
    if missing.any():
        number = counted(int(missing.sum()), "candidate is", "candidates are")
        warn(f"{number} missing from the corpus of {name_of(source)}, left out; query, document: {names}")
    kept = candidates[~missing]
    return kept.assign(text=pd.Series([found[docno] for docno in kept["docno"]], index=kept.index, dtype=object))
