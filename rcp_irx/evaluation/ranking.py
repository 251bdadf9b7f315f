"""From a run to the gains at each query's first ranks, vectorised: top-k selection, tie rules, unjudged documents.

`inputs` reads the runs and gains; what a ranking is worth is for `scores`.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rcp_irx.errors import RCPError, examples
from rcp_irx.evaluation.inputs import Pools, Run
from rcp_irx.evaluation.options import DEFAULT_TIES, DEFAULT_UNJUDGED


@dataclass(frozen=True)
class Ranked:
    """The first k ranks of each query, in rank order.

    `query` (index) and `rank` (from 0) are int64, `gain` and `judged` float64, all of shape (entries,). `judged` is 1
    where the document has a gain of its own, 0 where it has none, and a share in a tie group that is averaged.
    """

    query: np.ndarray
    rank: np.ndarray
    gain: np.ndarray
    judged: np.ndarray


def ranked(run: Run, pools: Pools, k: int | None, ties: str = DEFAULT_TIES, unjudged: str = DEFAULT_UNJUDGED) -> Ranked:
    """The gains at the first k ranks under a tie rule; excluded documents have left.

    Raises
    ------
    RCPError
        If the pools have no order that `ties="pool"` could follow.
    """
    if ties == "pool" and len(pools.query) and (pools.pool_rank is None or np.isnan(pools.pool_rank).all()):
        raise RCPError(
            "ties='pool' needs the column 'pool_rank' beside the gains, with the documents' ranks in the pool"
        )
    rows = np.arange(len(run.query)) if unjudged == "condensed" else _contenders(run, pools, k)
    docno = run.ids(rows)
    nameless = docno == ""
    if nameless.any():
        queries = examples(pools.queries[i][1] for i in run.query[rows][nameless])
        raise RCPError(f"the run ranks a document whose id is an empty string for query {queries}")
    found = pools.find(run.query[rows], docno)
    judged = ~np.isnan(np.append(pools.gain, np.nan)[found])
    staying = ~np.append(pools.excluded, False)[found]
    if unjudged == "condensed":
        staying &= judged
    rows, found, docno, judged = rows[staying], found[staying], docno[staying], judged[staying].astype(np.float64)
    query, score = run.query[rows], run.score[rows]
    gain = _at(pools.gain, found, missing=0.0)
    if unjudged == "upper":
        gain = np.where(judged == 1, gain, pools.largest_gain[query])
    order = np.lexsort((-score, query))
    equal = (np.diff(query[order]) == 0) & (np.diff(score[order]) == 0)
    if ties != "order" and equal.any():
        group = np.empty(len(order), dtype=np.int64)
        group[order] = np.concatenate([[0], np.cumsum(~equal)])
        tied = np.bincount(group)[group] > 1
        order = np.lexsort((*_tie_keys(ties, pools, found, query, docno, gain, tied), group))
        if ties == "mean":
            gain = _group_means(gain[order], group[order])[group]
            judged = _group_means(judged[order], group[order])[group]
    return _cut(query[order], gain[order], judged[order], k)


def ideal_ranking(pools: Pools, k: int | None) -> Ranked:
    """The largest k gains of each judged pool."""
    query, gain = pools.query[pools.rated], pools.gain[pools.rated]
    order = np.lexsort((-gain, query))
    return _cut(query[order], gain[order], np.ones(len(order)), k)


def _contenders(run: Run, pools: Pools, k: int | None) -> np.ndarray:
    """Rows that can be among the first k once excluded documents have left, with everything tied with the last."""
    if k is None:
        return np.arange(len(run.query))
    size = np.bincount(run.query, minlength=len(pools.queries))
    start = np.cumsum(size) - size
    places = np.minimum(pools.per_query(pools.excluded) + min(k, len(run.query)), size)
    threshold = np.full(len(size), -np.inf)
    shapes = pd.DataFrame({"size": size, "places": places})[places < size]
    for shape, queries in shapes.groupby(["size", "places"]).groups.items():
        n, first = int(shape[0]), int(shape[0] - shape[1])
        block = run.score[start[np.asarray(queries)][:, None] + np.arange(n)]
        block.partition(first, axis=1)
        threshold[np.asarray(queries)] = block[:, first]
    return np.flatnonzero(run.score >= np.repeat(threshold, size))


def _tie_keys(
    ties: str,
    pools: Pools,
    found: np.ndarray,
    query: np.ndarray,
    docno: np.ndarray,
    gain: np.ndarray,
    tied: np.ndarray,
) -> tuple[np.ndarray, ...]:
    """What orders the documents of a tie group, last key first (as lexsort takes them)."""
    if ties == "mean":
        return (gain,)  # the sum over a group must not depend on the order of rows
    descending = _descending_ids(query, docno, tied)
    if ties == "pool" and pools.pool_rank is not None:
        return descending, _at(pools.pool_rank, found, missing=np.inf)
    return (descending,)


def _descending_ids(query: np.ndarray, docno: np.ndarray, tied: np.ndarray) -> np.ndarray:
    """Each tied document's place among the tied ones of its query, by descending id; entries are grouped by query."""
    places = np.zeros(len(docno), dtype=np.int64)
    rows = np.flatnonzero(tied)
    bounds = np.append(np.flatnonzero(np.append(True, np.diff(query[rows]) > 0)), len(rows)).tolist()
    for start, end in itertools.pairwise(bounds):
        ids = docno[rows[start:end]].tolist()
        order = sorted(range(end - start), key=ids.__getitem__, reverse=True)
        places[rows[start:end][order]] = np.arange(end - start)
    return places


def _group_means(values: np.ndarray, group: np.ndarray) -> np.ndarray:
    """The mean of each tie group."""
    return np.bincount(group, weights=values) / np.bincount(group)


def _at(values: np.ndarray, found: np.ndarray, missing: float) -> np.ndarray:
    """The value at each position; `missing` where the position is -1 or the value is NaN."""
    result = np.append(values, np.nan)[found]
    result[np.isnan(result)] = missing
    return result


def _cut(query: np.ndarray, gain: np.ndarray, judged: np.ndarray, k: int | None) -> Ranked:
    """The first k of each query of entries that are sorted by query and rank."""
    rank = np.arange(len(query)) - np.searchsorted(query, query)
    top = rank < (len(query) if k is None else k)
    return Ranked(query[top], rank[top], gain[top], judged[top])
