"""Continuous nDCG over rankings, vectorised: top-k selection, tie rules, ideals. `inputs` reads the runs and gains."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rcp_irx.errors import RCPError
from rcp_irx.evaluation.inputs import ExcludedInput, GainsInput, Pools, Run, RunInput, read_pools, read_run
from rcp_irx.evaluation.options import DEFAULT_TIES, printed, tie_rule, whole_cutoff


def ndcg(
    run: RunInput,
    gains: GainsInput,
    k: int | None = 10,
    *,
    ties: str = DEFAULT_TIES,
    excluded: ExcludedInput | None = None,
) -> pd.Series:
    """nDCG@k of every query that has gains: linear gain, discount 1/log2(rank + 1), ideal over the whole judged pool.

    Parameters
    ----------
    run : DataFrame or dict
        `qid, docno, score` (or `query_id, doc_id, score`; optional `dataset`), or qid -> docno -> score.
    gains : DataFrame, dict or GainTable
        `qid, docno, gain` (optional `dataset, excluded, pool_rank`), or qid -> docno -> gain: finite and >= 0; NaN is
        no gain.
    k : int, optional
        The cutoff; None: every rank counts.
    ties : str
        How equal scores are ordered. "docno": docno descending by code point, as trec_eval; "mean": every tied document
        gets the mean gain of its tie group, which is the expectation over all orders, also where the group straddles
        the cutoff; "pool": by `pool_rank`, then documents without one, by docno descending; "order": as in the run.
    excluded : DataFrame or dict, optional
        `qid, docno`, or qid -> docnos: documents that leave every ranking and every ideal.

    Returns
    -------
    Series
        float64 in [0, 1], index `qid`, sorted; (`dataset`, `qid`) where the gains hold several datasets. A query that
        the run misses, or whose gains are all zero, scores 0; queries without gains are ignored. A ranked document
        without a gain counts 0 and keeps its rank.

    Raises
    ------
    RCPError
        Missing columns or ids, scores that are not finite, gains below 0 or infinite, two gains for one document, a
        query whose every gain is NaN, no query in common where both sides hold rows, `ties="pool"` without `pool_rank`.

    Warns
    -----
    RCPWarning
        If a document is ranked twice; its best rank counts.

    Examples
    --------
    >>> ndcg({"q1": {"d1": 2.0, "d2": 1.0}}, {"q1": {"d1": 0.25, "d2": 0.5, "d3": 0.75}}).round(4).to_dict()
    {'q1': 0.475}
    """
    k, ties = whole_cutoff(k), tie_rule(ties)
    pools = read_pools(gains, excluded)
    values = ndcg_by_query(read_run(run, pools), pools, k, ties)
    return pd.Series(values, index=_index(pools), name=printed("RCPnDCG", k, ties), dtype=np.float64)


@dataclass(frozen=True)
class Ranked:
    """The first k ranks of each query, in rank order: `query` index, `rank` from 0, `gain` (0 without one)."""

    query: np.ndarray
    rank: np.ndarray
    gain: np.ndarray


def ndcg_by_query(run: Run, pools: Pools, k: int | None, ties: str) -> np.ndarray:
    """nDCG@k of every query of the pools, shape (Q,)."""
    ideal = _dcg(ideal_ranking(pools, k), len(pools.queries))
    if not np.isfinite(ideal).all():
        raise RCPError("the gains are too large to be added up; divide them by their largest")
    actual = _dcg(ranked(run, pools, k, ties), len(pools.queries))
    ratio = np.divide(actual, ideal, out=np.zeros_like(ideal), where=ideal > 0)
    return np.minimum(ratio, 1.0)  # a mean over ties may round to just above the ideal


def ranked(run: Run, pools: Pools, k: int | None, ties: str) -> Ranked:
    """The gains at the first k ranks under a tie rule; excluded documents have left."""
    if ties == "pool" and pools.pool_rank is None:
        raise RCPError("ties='pool' needs the column 'pool_rank' beside the gains")
    rows = _contenders(run, pools, k)
    docno = run.ids(rows)
    found = pools.find(run.query[rows], docno)
    staying = ~np.append(pools.excluded, False)[found]
    rows, found, docno = rows[staying], found[staying], docno[staying]
    query, score = run.query[rows], run.score[rows]
    gain = _at(pools.gain, found, missing=0.0)
    order = np.lexsort((-score, query))
    equal = (np.diff(query[order]) == 0) & (np.diff(score[order]) == 0)
    if ties != "order" and equal.any():
        group = np.empty(len(order), dtype=np.int64)
        group[order] = np.concatenate([[0], np.cumsum(~equal)])
        tied = np.bincount(group)[group] > 1
        order = np.lexsort((*_tie_keys(ties, pools, found, query, docno, gain, tied), group))
        if ties == "mean":
            gain = _group_means(gain[order], group[order])[group]
    return _cut(query[order], gain[order], k)


def ideal_ranking(pools: Pools, k: int | None) -> Ranked:
    """The largest k gains of each judged pool."""
    judged = ~np.isnan(pools.gain) & ~pools.excluded
    query, gain = pools.query[judged], pools.gain[judged]
    order = np.lexsort((-gain, query))
    return _cut(query[order], gain[order], k)


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


def _group_means(gain: np.ndarray, group: np.ndarray) -> np.ndarray:
    """The mean of each tie group, unjudged members counted as 0."""
    return np.bincount(group, weights=gain) / np.bincount(group)


def _at(values: np.ndarray, found: np.ndarray, missing: float) -> np.ndarray:
    """The value at each position; `missing` where the position is -1 or the value is NaN."""
    result = np.append(values, np.nan)[found]
    result[np.isnan(result)] = missing
    return result


def _cut(query: np.ndarray, gain: np.ndarray, k: int | None) -> Ranked:
    """The first k of each query of entries that are sorted by query and rank."""
    rank = np.arange(len(query)) - np.searchsorted(query, query)
    top = rank < (len(query) if k is None else k)
    return Ranked(query[top], rank[top], gain[top])


def _dcg(top: Ranked, n_queries: int) -> np.ndarray:
    """Discounted cumulative gain per query, shape (Q,)."""
    discounted = top.gain / np.log2(top.rank + 2.0)
    return np.bincount(top.query, weights=discounted, minlength=n_queries).astype(np.float64)


def _index(pools: Pools) -> pd.Index:
    if len({dataset for dataset, _ in pools.queries}) > 1:
        return pd.MultiIndex.from_tuples(pools.queries, names=["dataset", "qid"])
    return pd.Index([qid for _, qid in pools.queries], name="qid")
