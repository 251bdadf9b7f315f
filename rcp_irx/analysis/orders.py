"""Leaderboards as arrays of scores, queries by systems: which pairs they separate, how two of them agree (B.2)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

LEVEL = 0.05
"""A pair is separated where the paired t-test's p lies below."""

ROUNDING = 1e-9
"""Differences of scores up to this size are none."""


def pairs_of(systems: int) -> tuple[IntArray, IntArray]:
    """Every pair of systems once: the indices of the first and of the second, (P,)."""
    return np.triu_indices(systems, k=1)


def paired_differences(scores: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Each pair's mean difference and its p in a paired, two-sided t-test: (Q, S) gives (P,) and (P,).

    Identical systems have difference 0 and p 1; systems that differ alike on every query p 0; one query p NaN, unless
    the systems are identical there.
    """
    scores = np.asarray(scores, dtype=np.float64)
    first, second = pairs_of(scores.shape[1])
    d = scores[:, first] - scores[:, second]
    d = np.where(np.abs(d) < ROUNDING, 0.0, d)
    mean = d.mean(axis=0)
    p = np.full(mean.shape, np.nan)
    if len(d) > 1:
        se = d.std(axis=0, ddof=1) / np.sqrt(len(d))
        t = np.divide(np.abs(mean), se, out=np.full(mean.shape, np.inf), where=se > 0)
        p = 2.0 * stats.t.sf(t, len(d) - 1)
    p[~d.any(axis=0)] = 1.0
    return mean, p


def kendall(one: ArrayLike, other: ArrayLike) -> float:
    """Kendall's tau-b of two lists of means (S,); NaN for fewer than two, or where a list is one tie."""
    first, second = (np.round(np.asarray(means, dtype=np.float64), 9) for means in (one, other))
    return float(stats.kendalltau(first, second)[0]) if len(first) > 1 else float("nan")


def ranks(means: ArrayLike) -> IntArray:
    """The rank of each system, 1 for the largest mean; equal means share the best of their ranks."""
    found: IntArray = stats.rankdata(-np.round(np.asarray(means, dtype=np.float64), 9), method="min").astype(np.intp)
    return found
