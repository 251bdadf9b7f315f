"""What rankings are worth: functions from the top of each query's ranking to one score per query, shape (Q,).

`ranking` made the rankings; which of these a measure prints is for `measures`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np

from rcp_irx.errors import RCPError
from rcp_irx.evaluation.inputs import Pools
from rcp_irx.evaluation.ranking import Ranked, ideal_ranking

Score: TypeAlias = Callable[[Ranked, Pools, "int | None"], np.ndarray]


def ndcg(top: Ranked, pools: Pools, k: int | None) -> np.ndarray:
    """DCG@k over that of the ideal ranking of the whole judged pool (Eq. 1); 0 where every gain is 0."""
    ideal = dcg(ideal_ranking(pools, k), pools, k)
    if not np.isfinite(ideal).all():
        raise RCPError("the gains are too large to be added up; divide them by their largest")
    ratio = np.divide(dcg(top, pools, k), ideal, out=np.zeros_like(ideal), where=ideal > 0)
    return np.minimum(ratio, 1.0)  # a mean over ties may round to just above the ideal; a bound may exceed it


def dcg(top: Ranked, pools: Pools, k: int | None) -> np.ndarray:
    """The sum of gain / log2(rank + 1), ranks from 1."""
    return _sums(top, top.gain / np.log2(top.rank + 2.0), pools)


def mean_gain(top: Ranked, pools: Pools, k: int | None) -> np.ndarray:
    """The sum of the gains over k, or without a cutoff over the documents ranked; on gains of 0 and 1: precision."""
    size = _sums(top, np.ones(len(top.query)), pools) if k is None else np.full(len(pools.queries), float(k))
    return _ratio(_sums(top, top.gain, pools), size)


def recall(top: Ranked, pools: Pools, k: int | None) -> np.ndarray:
    """The gain of the first k over the gain of the whole judged pool; 0 where that is 0."""
    pool = ideal_ranking(pools, None)  # its order, so that the sum depends on no order of rows
    whole = _sums(pool, pool.gain, pools)
    return np.minimum(_ratio(_sums(top, top.gain, pools), whole), 1.0)


def expected_reciprocal_rank(top: Ranked, pools: Pools, k: int | None) -> np.ndarray:
    """The sum over ranks r of 1/r x gain at r x the product of (1 - gain) above: the reader stops with that chance."""
    depths = np.bincount(top.query, minlength=len(pools.queries))
    starts = np.cumsum(depths) - depths
    expected = np.zeros(len(depths))
    for depth in np.unique(depths[depths > 0]).tolist():  # queries of one depth at a time make full matrices
        queries = np.flatnonzero(depths == depth)
        stops = top.gain[starts[queries][:, None] + np.arange(depth)]
        arrives = np.cumprod(np.hstack([np.ones((len(queries), 1)), 1.0 - stops[:, :-1]]), axis=1)
        expected[queries] = np.sum(stops * arrives / np.arange(1, depth + 1), axis=1)
    return expected


def best(top: Ranked, pools: Pools, k: int | None) -> np.ndarray:
    """The largest gain among the first k; 0 where nothing is ranked."""
    largest = np.zeros(len(pools.queries))
    np.maximum.at(largest, top.query, top.gain)
    return largest


def judged(top: Ranked, pools: Pools, k: int | None) -> np.ndarray:
    """The share of the first k (of those ranked, where they are fewer) that has a gain; 0 where nothing is ranked."""
    return _ratio(_sums(top, top.judged, pools), _sums(top, np.ones(len(top.query)), pools))


SCORES: dict[str, Score] = {
    "ndcg": ndcg,
    "dcg": dcg,
    "gain": mean_gain,
    "recall": recall,
    "err": expected_reciprocal_rank,
    "best": best,
    "judged": judged,
}


def _sums(top: Ranked, values: np.ndarray, pools: Pools) -> np.ndarray:
    return np.bincount(top.query, weights=values, minlength=len(pools.queries)).astype(np.float64)


def _ratio(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    """The quotient, 0 where the denominator is 0."""
    return np.divide(part, whole, out=np.zeros(len(whole)), where=whole > 0)
