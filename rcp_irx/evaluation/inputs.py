"""Reads gains and runs (frames, nested dicts, gain tables) into arrays with checked ids; `dcg` scores them."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pandas as pd

from rcp_irx.documents import flags
from rcp_irx.errors import RCPError, examples, warn
from rcp_irx.evaluation.columns import Nested, QueryKey, Texts, as_objects, flat, floats, query_keys, texts

if TYPE_CHECKING:
    from rcp_irx.gains import GainTable

RunInput: TypeAlias = "pd.DataFrame | Nested"
GainsInput: TypeAlias = "pd.DataFrame | Nested | GainTable"
ExcludedInput: TypeAlias = "pd.DataFrame | Mapping[Any, Iterable[Any]]"

BLOCK = 50_000


@dataclass(frozen=True)
class Pools:
    """The judged pools as arrays, one entry per (query, document), sorted by both.

    Attributes
    ----------
    queries : list of (dataset, qid)
        The queries to score, sorted.
    documents : Index, shape (N,)
        The distinct docnos.
    query, document : int64 ndarray, shape (D,)
        Indices into `queries` and `documents`.
    gain : float64 ndarray, shape (D,)
        NaN: no gain.
    excluded : bool ndarray, shape (D,)
    pool_rank : float64 ndarray, shape (D,), or None
        NaN: not in the pool's order.
    """

    queries: list[QueryKey]
    documents: pd.Index
    query: np.ndarray
    document: np.ndarray
    gain: np.ndarray
    excluded: np.ndarray
    pool_rank: np.ndarray | None = None

    @cached_property
    def _key(self) -> np.ndarray:
        return self.query * len(self.documents) + self.document

    def find(self, query: np.ndarray, docno: np.ndarray) -> np.ndarray:
        """The position of each (query, docno), -1 where there is none."""
        document = self.documents.get_indexer(pd.Index(docno, dtype=object))
        key = query * len(self.documents) + document
        place = np.searchsorted(self._key, key)
        there = (document >= 0) & (np.append(self._key, -1)[place] == key)
        return np.where(there, place, -1)

    @cached_property
    def rated(self) -> np.ndarray:
        """Whether each entry has a gain and is not excluded, bool, shape (D,)."""
        return ~np.isnan(self.gain) & ~self.excluded

    @cached_property
    def largest_gain(self) -> np.ndarray:
        """The largest gain of each query's documents that are not excluded, shape (Q,); 0 where there is none."""
        largest = np.zeros(len(self.queries))
        np.maximum.at(largest, self.query[self.rated], self.gain[self.rated])
        return largest

    def per_query(self, chosen: np.ndarray) -> np.ndarray:
        """How many of the chosen documents (bool, shape (D,)) each query has, shape (Q,)."""
        return np.bincount(self.query[chosen], minlength=len(self.queries))

    def pair(self, row: int) -> tuple[str, str]:
        """The (query, docno) of one entry, for messages."""
        return self.queries[self.query[row]][1], self.documents[self.document[row]]

    def name(self, chosen: np.ndarray) -> str:
        """Up to three (query, docno) of the chosen documents (bool, shape (D,)), for messages."""
        pairs = zip(self.query[chosen].tolist(), self.documents[self.document[chosen]], strict=True)
        return examples((self.queries[query][1], docno) for query, docno in pairs)


@dataclass(frozen=True)
class Run:
    """The rows of the scored queries, grouped by query, in the run's order within each; no document twice.

    `query` indexes the pools' queries, `docno` holds ids, `score` is finite; each has shape (rows,).
    """

    query: np.ndarray
    docno: Texts
    score: np.ndarray

    def ids(self, rows: np.ndarray | slice) -> np.ndarray:
        """The ids in some rows, as an object array."""
        return as_objects(self.docno[rows])


def read_pools(
    gains: GainsInput,
    excluded: ExcludedInput | None = None,
    *,
    column: str = "gain",
    ignore_identical_ids: bool = False,
) -> Pools:
    """The judged pools of a frame, a nested dict or a gain table.

    Parameters
    ----------
    column : str
        The gains' column in a frame.
    ignore_identical_ids : bool
        Whether a document whose id is its query's is excluded.

    Raises
    ------
    RCPError
        Missing columns or ids; negative or infinite gains; NaN in a dict; a query whose every gain is NaN; two gains
        for one document.
    """
    frame, empty = _gains_frame(gains, column)
    codes, keys = query_keys(frame, "gains")
    queries = sorted({*keys, *(("", qid) for qid in empty)})
    place = {key: i for i, key in enumerate(queries)}
    query = np.array([place[key] for key in keys], dtype=np.int64)[codes]
    docno = as_objects(texts(frame, "docno", "gains"))
    if (docno == "").any():
        raise RCPError(f"the gains: a document id is an empty string, row {examples(frame.index[docno == ''])}")
    gain = floats(frame, column, "gains")
    if isinstance(gains, Mapping):
        _refuse_nan(queries, query, docno, gain)
    _refuse_bad_gains(queries, query, docno, gain)
    marked = flags(frame, "excluded", "gains")
    pool_rank = floats(frame, "pool_rank", "gains") if "pool_rank" in frame.columns else None
    listed = 0
    more_queries, more_docnos = _excluded_pairs({} if excluded is None else excluded, queries)
    if ignore_identical_ids:
        more_queries = np.append(more_queries, np.arange(len(queries)))
        more_docnos = np.append(more_docnos, np.array([qid for _, qid in queries], dtype=object))
    if len(more_queries):
        listed = len(more_queries)
        query, docno = np.append(query, more_queries), np.append(docno, more_docnos)
        gain, marked = np.append(gain, np.full(listed, np.nan)), np.append(marked, np.ones(listed, dtype=bool))
        pool_rank = None if pool_rank is None else np.append(pool_rank, np.full(listed, np.nan))
    return _distinct(queries, query, docno, gain, marked, pool_rank, listed)


def _gains_frame(gains: GainsInput, column: str) -> tuple[pd.DataFrame, list[str]]:
    """The gains as a frame, and the ids of queries whose pool is empty."""
    if isinstance(gains, Mapping):
        return flat(gains, column, "gains")
    frame = gains if isinstance(gains, pd.DataFrame) else getattr(gains, "scored", None)  # of a table
    if not isinstance(frame, pd.DataFrame):
        raise RCPError(f"gains must be a frame, a dict of dicts or a GainTable, not {type(gains).__name__}")
    return frame, []


def _refuse_nan(queries: list[QueryKey], query: np.ndarray, docno: np.ndarray, gain: np.ndarray) -> None:
    """A dict names the documents that have a gain, and need not name others."""
    wrong = np.flatnonzero(np.isnan(gain))[:3]
    if len(wrong):
        found = examples((queries[query[row]][1], docno[row]) for row in wrong)
        raise RCPError(f"the dict of gains holds NaN for query, document {found}; leave out what has no gain")


def _refuse_bad_gains(queries: list[QueryKey], query: np.ndarray, docno: np.ndarray, gain: np.ndarray) -> None:
    wrong = np.flatnonzero((gain < 0) | np.isinf(gain))[:3]
    if len(wrong):
        found = examples((queries[query[row]][1], docno[row], gain[row].item()) for row in wrong)
        raise RCPError(f"gains must be finite and >= 0; query, document, gain: {found}")
    rows = np.bincount(query, minlength=len(queries))
    rows_with_gain = np.bincount(query[~np.isnan(gain)], minlength=len(queries))
    without = np.flatnonzero((rows > 0) & (rows_with_gain == 0))
    if len(without):
        names = examples(queries[i][1] for i in without)
        raise RCPError(f"every gain is NaN for query {names}; leave out queries without gains")


def read_run(run: RunInput, pools: Pools) -> Run:
    """The run's rows for the queries of the pools.

    Raises
    ------
    RCPError
        Missing columns or ids; NaN or infinite scores; no query in common where both hold rows.

    Warns
    -----
    RCPWarning
        If a document is ranked twice: its highest score counts (of equal ones, the first).
    """
    if isinstance(run, Mapping):
        frame, _ = flat(run, "score", "run")
    elif isinstance(run, pd.DataFrame):
        frame = run
    else:
        raise RCPError(f"a run must be a frame or a dict of dicts, not {type(run).__name__}")
    codes, keys = query_keys(frame, "run")
    docno = texts(frame, "docno", "run")
    score = floats(frame, "score", "run")
    finite = np.isfinite(score)
    if not finite.all():
        wrong = np.flatnonzero(~finite)[:3]
        found = examples((keys[codes[row]][1], docno[row], score[row].item()) for row in wrong)
        raise RCPError(f"the run's scores must be finite numbers; query, document, score: {found}")
    match = _matched(frame, keys, pools.queries, "run")
    if len(frame) and len(pools.query) and (match < 0).all():
        raise RCPError(
            f"the run and the gains share no query: the run's queries are {_named(keys)}, "
            f"the gains' {_named(pools.queries)}"
        )
    query = match[codes]
    if (match < 0).any():
        scored = query >= 0
        query, docno, score = query[scored], docno[scored], score[scored]
    if (query[1:] < query[:-1]).any():
        order = np.argsort(query, kind="stable")
        query, docno, score = query[order], docno[order], score[order]
    return _best_of_duplicates(Run(query, docno, score), pools)


def _best_of_duplicates(run: Run, pools: Pools) -> Run:
    """The run with each document once per query, at its highest score; equal scores: the first."""
    repeated = _queries_with_duplicates(run, len(pools.queries))
    if not repeated:
        return run
    rows = np.flatnonzero(np.isin(run.query, repeated))
    document = pd.factorize(run.ids(rows))[0]
    order = np.lexsort((-run.score[rows], document, run.query[rows]))
    again = (np.diff(run.query[rows][order]) == 0) & (np.diff(document[order]) == 0)
    dropped = rows[order[1:][again]]
    names = examples((pools.queries[run.query[row]][1], run.docno[row]) for row in dropped)
    warn(f"ranked twice, its best rank counts: query, document {names}")
    kept = np.ones(len(run.query), dtype=bool)
    kept[dropped] = False
    return Run(run.query[kept], run.docno[kept], run.score[kept])


def _queries_with_duplicates(run: Run, n_queries: int) -> list[int]:
    """The queries that rank a document twice."""
    ends = np.cumsum(np.bincount(run.query, minlength=n_queries)).tolist()
    repeated = []
    block_start, block = 0, run.ids(slice(0, 0))
    for query, (start, end) in enumerate(itertools.pairwise([0, *ends])):
        if end > block_start + len(block):  # a block of whole queries at a time, as objects may take more room
            block_start, block = start, run.ids(slice(start, max(end, start + BLOCK)))
        if len(set(block[start - block_start : end - block_start])) < end - start:
            repeated.append(query)
    return repeated


def _distinct(
    queries: list[QueryKey],
    query: np.ndarray,
    docno: np.ndarray,
    gain: np.ndarray,
    excluded: np.ndarray,
    pool_rank: np.ndarray | None,
    listed: int,
) -> Pools:
    """Pools without repetitions: excluded if one of a document's rows is, at the best pool rank.

    The last `listed` rows only exclude; they have no gain that could disagree.
    """
    document, ids = pd.factorize(docno)
    documents = pd.Index(ids, dtype=object)
    if not len(query):
        return Pools(queries, documents, query, document, gain, excluded, pool_rank)
    only_excludes = np.arange(len(query)) >= len(query) - listed
    key = query * len(documents) + document
    order = np.argsort(2 * key + only_excludes, kind="stable")
    new = np.append(True, np.diff(key[order]) > 0)
    first = np.flatnonzero(new)
    kept = order[first]
    ordered, reference = gain[order], gain[kept][np.cumsum(new) - 1]
    differs = (ordered != reference) & ~(np.isnan(ordered) & np.isnan(reference)) & ~only_excludes[order]
    pools = Pools(
        queries,
        documents,
        query[kept],
        document[kept],
        gain[kept],
        np.logical_or.reduceat(excluded[order], first),
        None if pool_rank is None else np.fmin.reduceat(pool_rank[order], first),
    )
    if differs.any():
        first_gain = reference[np.flatnonzero(differs)][:3]
        other_gain = ordered[differs][:3]
        rows = np.cumsum(new)[differs][:3] - 1
        found = examples(
            (queries[pools.query[row]][1], documents[pools.document[row]], float(one), float(two))
            for row, one, two in zip(rows, first_gain, other_gain, strict=True)
        )
        raise RCPError(f"two different gains for one document; query, document, gains: {found}")
    return pools


def _excluded_pairs(excluded: ExcludedInput, queries: list[QueryKey]) -> tuple[np.ndarray, np.ndarray]:
    """The excluded (query, docno) of the scored queries; those of other queries are ignored."""
    if isinstance(excluded, Mapping):
        for qid, docnos in excluded.items():
            if isinstance(docnos, str) or not isinstance(docnos, Iterable):
                raise RCPError(f"excluded[{qid!r}] must hold several document ids, not {docnos!r}")
        excluded, _ = flat(
            {qid: dict.fromkeys(docnos, 1.0) for qid, docnos in excluded.items()}, "excluded", "excluded"
        )
    elif not isinstance(excluded, pd.DataFrame):
        raise RCPError(f"excluded must be a frame or a dict of ids, not {type(excluded).__name__}")
    codes, keys = query_keys(excluded, "excluded documents")
    query = _matched(excluded, keys, queries, "excluded documents")[codes]
    if len(query) and len(queries) and (query < 0).all():
        warn(f"no excluded document is of a scored query: they are of {_named(keys)}, scored are {_named(queries)}")
    return query[query >= 0], as_objects(texts(excluded, "docno", "excluded documents"))[query >= 0]


def _named(keys: Iterable[QueryKey]) -> str:
    """Up to three queries for a message, with their datasets where any is named."""
    given = list(keys)
    return examples(given) if any(dataset for dataset, _ in given) else examples(qid for _, qid in given)


def _matched(frame: pd.DataFrame, keys: list[QueryKey], queries: list[QueryKey], what: str) -> np.ndarray:
    """For each key its index among the scored queries, -1 where it is not one of them."""
    own = {dataset for dataset, _ in queries}
    given = {dataset for dataset, _ in keys}
    if len(frame) and len(own) > 1 and "dataset" not in frame.columns:
        raise RCPError(
            f"the gains hold the datasets {examples(own)}: give the {what} a 'dataset' column, or select one dataset"
        )
    if own == {""} and len(given) > 1:
        raise RCPError(f"the {what} holds the datasets {examples(given)}, and the gains have no 'dataset' column")
    if len(own) == 1 and (own == {""} or given == {""}):
        keys = [(next(iter(own)), qid) for _, qid in keys]
    place = {key: i for i, key in enumerate(queries)}
    return np.array([place.get(key, -1) for key in keys], dtype=np.int64)
