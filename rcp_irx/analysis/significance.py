"""What paired scores of systems on the same queries can tell apart: tests, intervals, ranks, on arrays.

Scores have shape (Q, S), queries by systems; differences (Q, P), queries by pairs. Frames and ids are for `comparing`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats
from scipy.optimize import brentq

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

LEVEL = 0.05
TIE = 0.02
"""Differences of RCP-nDCG on one query below this are ties: people side with them only at chance (Section H.3)."""
POWER = 0.8
REPLICATES = 2000
ROUNDING = 1e-9
BLOCK = 4_000_000
"""Numbers at a time: bounds the memory that many queries or pairs take."""


class PairedT(NamedTuple):
    """Paired t-tests; `mean`, `se`, `t` and `p` (two-sided) have shape (P,), `df` is one number."""

    mean: FloatArray
    se: FloatArray
    t: FloatArray
    p: FloatArray
    df: int


class Alike(NamedTuple):
    """How a metric decides the pairs that a reference separates: counts of pairs."""

    separated: int
    same_winner: int
    separated_alike: int
    separated_opposite: int


def pairs_of(systems: int) -> tuple[IntArray, IntArray]:
    """Every pair of systems once: the indices of the first and of the second, shape (P,)."""
    return np.triu_indices(systems, 1)


def differences_of(scores: ArrayLike) -> FloatArray:
    """The differences of every pair of systems on every query: scores (Q, S) give (Q, P)."""
    values = np.asarray(scores, dtype=np.float64)
    first, second = pairs_of(values.shape[1])
    found: FloatArray = values[:, first] - values[:, second]
    return found


def paired_t(differences: ArrayLike, cluster: ArrayLike | None = None) -> PairedT:
    """Paired t-tests of a mean difference of 0 (Section B.2).

    Parameters
    ----------
    differences : (Q, P)
        A column per pair of systems.
    cluster : (Q,), optional
        Codes from 0 of queries that go together. The standard error is then that of clusters' sums, with as many
        degrees of freedom as clusters less one; where each query is its own cluster this is the plain test.

    Returns
    -------
    PairedT
        Systems that score alike on every query have t = 0 and p = 1; another difference without spread has p = 0. NaN
        where there are fewer than two clusters. Differences below 1e-9 are rounding and count as 0.
    """
    values = _without_rounding(differences)
    codes = np.arange(len(values)) if cluster is None else np.asarray(cluster, dtype=np.intp)
    groups = len(np.unique(codes))
    mean = values.mean(axis=0) if len(values) else np.full(values.shape[1], np.nan)
    if groups < 2:
        missing = np.full(values.shape[1], np.nan)
        return PairedT(mean, missing, missing.copy(), missing.copy(), max(groups - 1, 0))
    sums = group_sums(values - mean, codes)
    se = np.sqrt(groups / (groups - 1) * np.sum(sums**2, axis=0)) / len(values)
    se[(values == values[0]).all(axis=0)] = 0.0
    with np.errstate(divide="ignore", invalid="ignore"):
        t = np.where(mean == 0, 0.0, mean / se)
    return PairedT(mean, se, t, 2 * stats.t.sf(np.abs(t), groups - 1), groups - 1)


def holm(p: ArrayLike) -> FloatArray:
    """Holm's adjusted p values over a family of tests, shape (P,); NaN is no test and stays NaN."""
    values = np.asarray(p, dtype=np.float64)
    adjusted = np.full(values.shape, np.nan)
    tests = np.flatnonzero(~np.isnan(values))
    order = tests[np.argsort(values[tests], kind="stable")]
    steps = np.maximum.accumulate(values[order] * np.arange(len(order), 0, -1)) if len(order) else values[order]
    adjusted[order] = np.minimum(steps, 1.0)
    return adjusted


def resampled_means(
    scores: ArrayLike, seed: int | Sequence[int], cluster: ArrayLike | None = None, replicates: int = REPLICATES
) -> FloatArray:
    """Each system's mean over queries drawn again with replacement, shape (replicates, S) (Section B.3).

    Parameters
    ----------
    scores : (Q, S)
        Of one stratum.
    seed : int or sequence of int
    cluster : (Q,), optional
        Codes from 0; whole clusters are drawn. Of fewer than two nothing can be drawn: NaN.
    """
    values = np.asarray(scores, dtype=np.float64)
    codes = np.arange(len(values)) if cluster is None else np.asarray(cluster, dtype=np.intp)
    sums, sizes = group_sums(values, codes), np.bincount(codes).astype(np.float64)
    groups, random = len(sizes), np.random.default_rng(seed)
    means = np.full((replicates, values.shape[1]), np.nan)
    if groups < 2:
        return means
    block = max(1, BLOCK // groups)
    for start in range(0, replicates, block):
        end = min(start + block, replicates)
        drawn = random.multinomial(groups, np.full(groups, 1 / groups), size=end - start).astype(np.float64)
        means[start:end] = (drawn @ sums) / (drawn @ sizes)[:, None]
    return means


def interval(samples: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """The 95% percentile interval over the first axis: its lower and its upper ends."""
    low, high = np.quantile(np.asarray(samples, dtype=np.float64), [LEVEL / 2, 1 - LEVEL / 2], axis=0)
    return low, high


def pair_intervals(samples: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The 95% percentile interval of each pair's difference, from resampled means of shape (replicates, S)."""
    first, second = pairs_of(samples.shape[1])
    low, high = np.empty(len(first)), np.empty(len(first))
    block = max(1, BLOCK // len(samples))
    for start in range(0, len(first), block):
        part = slice(start, start + block)
        low[part], high[part] = interval(samples[:, first[part]] - samples[:, second[part]])
    return low, high


def wins_ties_losses(differences: ArrayLike, tie: float = TIE) -> tuple[IntArray, IntArray, IntArray]:
    """On how many queries each pair's first system wins, ties (by less than `tie`) and loses; shapes (P,)."""
    values = np.asarray(differences, dtype=np.float64)
    wins = np.sum(values >= tie - ROUNDING, axis=0)
    losses = np.sum(values <= -tie + ROUNDING, axis=0)
    return wins, len(values) - wins - losses, losses


def detectable_difference(se: ArrayLike, df: int) -> FloatArray:
    """The smallest true difference that a two-sided test at 5% finds with 80% power, in the unit of `se`.

    Parameters
    ----------
    se : (P,)
        Standard errors of the mean differences, taken as if they were the true ones.
    df : int
        Their degrees of freedom. Below 1 there is no test: NaN, as where the standard error is 0.
    """
    values = np.asarray(se, dtype=np.float64)
    return np.where(values > 0, values, np.nan) * (_noncentrality(df) if df >= 1 else np.nan)


@lru_cache(maxsize=1024)
def _noncentrality(df: int) -> float:
    """The mean in standard errors whose t statistic is beyond the critical value with 80% probability."""
    critical = stats.t.isf(LEVEL / 2, df)

    def lacking(noncentrality: float) -> float:
        # the square of a noncentral t is a noncentral F, which counts both tails
        return float(stats.ncf.sf(critical**2, 1, df, noncentrality**2)) - POWER

    return float(brentq(lacking, 0.0, 10 * critical, xtol=1e-12))


def resolution(p: ArrayLike) -> float:
    """The share of pairs with p below .05: how often a metric tells systems apart, not how often rightly (E.5)."""
    values = np.asarray(p, dtype=np.float64)
    values = values[~np.isnan(values)]
    return float(np.mean(values < LEVEL)) if len(values) else np.nan


def decided_alike(reference: PairedT, other: PairedT) -> Alike:
    """Of the pairs that a reference separates, on how many another metric has its winner (Section H.1), and decides."""
    separated = reference.p < LEVEL
    same = separated & (np.sign(reference.mean) == np.sign(other.mean))
    opposite = separated & (np.sign(reference.mean) == -np.sign(other.mean))
    decided = other.p < LEVEL
    return Alike(*(int(np.sum(chosen)) for chosen in (separated, same, same & decided, opposite & decided)))


def kendall_tau(one: ArrayLike, other: ArrayLike) -> float:
    """Kendall's tau-b of two lists of means; NaN for fewer than two systems, or where a list is one tie."""
    first, second = (np.round(np.asarray(means, dtype=np.float64), 9) for means in (one, other))
    return float(stats.kendalltau(first, second)[0]) if len(first) > 1 else np.nan


def ranks(means: ArrayLike) -> IntArray:
    """The rank of each system, 1 for the largest mean; equal means share the best of their ranks."""
    found: IntArray = stats.rankdata(-np.round(np.asarray(means, dtype=np.float64), 9), method="min").astype(np.intp)
    return found


def group_sums(values: FloatArray, codes: IntArray) -> FloatArray:
    """The sums of rows by their codes (0 to G - 1), shape (G, columns)."""
    order = np.argsort(codes, kind="stable")
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    sums: FloatArray = np.add.reduceat(values[order], starts, axis=0)
    return sums


def _without_rounding(differences: ArrayLike) -> FloatArray:
    values = np.asarray(differences, dtype=np.float64)
    return np.where(np.abs(values) < ROUNDING, 0.0, values)
