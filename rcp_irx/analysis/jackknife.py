"""Estimates from sums over queries, with standard errors by leaving out one query at a time (B.3).

The query is the unit: all windows, documents and answers of one query share its pool.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

FloatArray = NDArray[np.float64]

LEVEL = 0.95


class Estimate(NamedTuple):
    """Values (S,), their standard errors (S,), both NaN where nothing tells, and the queries they come from."""

    value: FloatArray
    se: FloatArray
    queries: int

    def interval(self) -> tuple[FloatArray, FloatArray]:
        """The 95% interval from Student's t with a degree of freedom less than there are queries: two (S,) arrays."""
        reach = half_width(self.queries) * self.se
        return self.value - reach, self.value + reach


def half_width(queries: int) -> float:
    """How many standard errors the 95% interval reaches to each side; NaN for fewer than two queries."""
    return float(stats.t.ppf(0.5 + LEVEL / 2, queries - 1)) if queries > 1 else float("nan")


def jackknife(totals: FloatArray, statistic: Callable[[FloatArray], FloatArray]) -> Estimate:
    """A statistic of sums over queries and its delete-one-query standard error.

    Parameters
    ----------
    totals : (Q, ...)
        What each query adds to the sums. Queries that add nothing (zeros alone) do not count.
    statistic : callable
        Takes sums, (..., M) or any trailing shape of `totals`, and gives (..., S).

    Returns
    -------
    Estimate
        For the mean of one value per query the standard error is the usual one; for a ratio of sums it is the
        cluster-robust one, to first order.
    """
    totals = np.asarray(totals, dtype=np.float64)
    totals = totals[totals.any(axis=tuple(range(1, totals.ndim)))]
    queries = len(totals)
    whole = totals.sum(axis=0)
    with np.errstate(divide="ignore", invalid="ignore"):
        value = np.atleast_1d(statistic(whole))
        if queries < 2:
            return Estimate(value, np.full(value.shape, np.nan), queries)
        left = statistic(whole - totals).reshape(queries, -1)
    se: FloatArray = np.sqrt((queries - 1) / queries * np.sum((left - left.mean(axis=0)) ** 2, axis=0))
    return Estimate(value, se, queries)
