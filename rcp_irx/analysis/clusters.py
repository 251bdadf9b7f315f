"""Intervals of statistics whose units come in queries: a bootstrap that draws whole queries (Section B.3).

A statistic is a function of weights, how often each query counts; what it measures is for others.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from rcp_irx.errors import whole

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.intp]
Key = TypeVar("Key", bound=Hashable)

LEVEL = 0.95
RESAMPLES = 2000
SEED = 42
BLOCK = 100_000
"""Resamples times units at a time: what a processor's cache holds."""


class Estimate(NamedTuple):
    """A statistic on the queries as they are, and its percentile interval.

    `value` is NaN where the statistic has none; `low` and `high` are NaN where that is so, where there is nothing to
    draw (one query a stratum), or where more than half of the resamples have no value. `undefined` counts these.
    """

    value: float
    low: float
    high: float
    undefined: int


def draws(strata: IntArray, resamples: int, seed: int) -> FloatArray:
    """How often each resample draws each query, with replacement within its stratum: shape (queries, resamples).

    Parameters
    ----------
    strata : (Q,)
        Codes of the queries' strata.
    """
    random = np.random.default_rng(seed)
    weights = np.zeros((len(strata), resamples))
    for stratum in np.unique(strata):
        members = np.flatnonzero(strata == stratum)
        weights[members] = random.multinomial(len(members), np.full(len(members), 1 / len(members)), resamples).T
    return weights


def bootstrap(
    statistics: Callable[[FloatArray], Mapping[Key, FloatArray]],
    strata: IntArray,
    units: int,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> dict[Key, Estimate]:
    """Each statistic with its 95% percentile interval over queries drawn again (Section B.3).

    Parameters
    ----------
    statistics : callable
        From weights of shape (Q, R) to the statistics, each of shape (R,); NaN: no value.
    strata : (Q,)
        Codes of the queries' strata; queries are drawn within them.
    units : int
        What the statistics hold in memory for each resample, about; sets how many resamples are computed at a time.
    resamples, seed : int

    Raises
    ------
    RCPError
        If `resamples` is no whole number from 1 up, or `seed` none from 0 up.
    """
    whole("resamples", resamples)
    whole("seed", seed, 0)
    values = {key: float(value[0]) for key, value in statistics(np.ones((len(strata), 1))).items()}
    if len(np.unique(strata)) == len(strata):
        return {key: Estimate(value, np.nan, np.nan, 0) for key, value in values.items()}
    weights = draws(strata, resamples, seed)
    step = max(4, BLOCK // max(units, 1))
    blocks = [statistics(weights[:, start : start + step]) for start in range(0, resamples, step)]
    return {
        key: _estimate(value, np.concatenate([np.asarray(block[key]) for block in blocks]))
        for key, value in values.items()
    }


def totals(sums: FloatArray, codes: IntArray, queries: int) -> FloatArray:
    """Sums per query: (S, units) and the units' query codes give (S, queries)."""
    return np.stack([np.bincount(codes, weights=row, minlength=queries) for row in sums])


def _estimate(value: float, samples: FloatArray) -> Estimate:
    defined = samples[~np.isnan(samples)]
    undefined = len(samples) - len(defined)
    if np.isnan(value) or undefined > len(samples) / 2:
        return Estimate(value, np.nan, np.nan, undefined)
    low, high = np.quantile(defined, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Estimate(value, float(low), float(high), undefined)
