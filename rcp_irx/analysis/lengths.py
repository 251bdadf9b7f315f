"""How a judge's answers go with the documents' lengths; arrays in, numbers out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from rcp_irx.analysis.jackknife import Estimate
from rcp_irx.analysis.repeats import spearman_brown
from rcp_irx.calibration import pass_probabilities

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

STEPS = 50
GOAL = 1e-10
ROUNDING = 1e-9


def slope_sums(scores: ArrayLike, lengths: ArrayLike) -> FloatArray:
    """Sums of one window for the slope of scores on log2 lengths, both less the window's mean: (2,)."""
    scores, lengths = np.asarray(scores, dtype=np.float64), np.asarray(lengths, dtype=np.float64)
    centred = np.where(np.ptp(lengths) > ROUNDING, lengths - lengths.mean(), 0.0)
    return np.array([centred @ (scores - scores.mean()), centred @ centred])


def slope_statistics(sums: FloatArray) -> FloatArray:
    """The slope from summed `slope_sums`: (..., 2) gives (..., 1)."""
    with np.errstate(divide="ignore", invalid="ignore"):
        slope: FloatArray = sums[..., :1] / sums[..., 1:]
    return slope


class Leak(NamedTuple):
    """What a doubling of length adds to a Stage A score beyond what the noisy score tells (logit), see `noise_leak`.

    `value` is the estimate, `left` (Q,) what it is without each query, `reliability` that of the scores within a query
    among documents of equal length.
    """

    value: float
    left: FloatArray
    reliability: float


def noise_leak(bt: ArrayLike, first: ArrayLike, second: ArrayLike, lengths: ArrayLike, queries: IntArray) -> Leak:
    """How far a document's length tells its noiseless Stage A score where the noisy score is known.

    That is (1 - reliability) / reliability times the slope of the scores on length (regression calibration). Without
    it, `beyond_rubric` would take a part of what both stages share for a difference.

    Parameters
    ----------
    bt, lengths, queries : (D,)
        Stage A scores, log2 lengths, query codes from 0.
    first, second : (S, D)
        Scores from two halves of the windows, for S halvings; NaN: none.
    """
    count = int(queries.max()) + 1
    lengths = np.asarray(lengths, dtype=np.float64)
    x, y = _centred(lengths, queries), _centred(bt, queries)
    slope = np.stack([_sums(x * y, queries, count), _sums(x * x, queries, count)], axis=-1)
    halved = []
    for one, other in zip(np.atleast_2d(first), np.atleast_2d(second), strict=True):
        rows = ~(np.isnan(one) | np.isnan(other))
        codes = queries[rows]
        u, v, w = (_centred(values[rows], codes) for values in (lengths, one, other))
        halved.append(np.stack([_sums(p, codes, count) for p in (u * u, u * v, u * w, v * w, v * v, w * w)], axis=-1))
    halves = np.stack(halved, axis=-2)
    with np.errstate(divide="ignore", invalid="ignore"):
        value, reliability = _leak(slope.sum(axis=0), halves.sum(axis=0))
        left, _ = _leak(slope.sum(axis=0) - slope, halves.sum(axis=0) - halves)
    return Leak(float(value), left, float(reliability))


def _leak(slope: FloatArray, halves: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The leak and the reliability from sums, (..., 2) and (..., S, 6)."""
    uu, uv, uw, vw, vv, ww = np.moveaxis(halves, -1, 0)
    r = (vw - uv * uw / uu) / np.sqrt((vv - uv * uv / uu) * (ww - uw * uw / uu))
    reliability = spearman_brown(r).mean(axis=-1)
    return (1.0 - reliability) / reliability * slope[..., 0] / slope[..., 1], reliability


def beyond_rubric(
    bt: ArrayLike,
    passes: ArrayLike,
    placements: ArrayLike,
    queries: IntArray,
    gamma: ArrayLike,
    beta: ArrayLike,
    lengths: ArrayLike,
    leak: Leak | None = None,
    *,
    sigma_tau: float = 1.0,
    sigma_alpha: float = 2.0,
) -> Estimate:
    r"""How much more the tournament favours length than the rubric's answers do (logits of ability per doubling).

    Fits :math:`P(Y_{ijc}=1) = \sigma(\gamma_c(\tau_j\,bt_i + \alpha_j - \delta\,L_i - \beta_c))` with the criteria as
    given and the priors of Eq. 7; delta is the ability that the tournament gives a document for a doubling of its
    length and the rubric does not. What makes both stages prefer long documents, such as that they answer better, is
    not in it. Where the tournament's reliability within a query is as low as .8, delta comes out about 5% small.

    Parameters
    ----------
    bt, placements, lengths : (D,)
        Stage A scores (logit), Stage B placements, log2 lengths.
    passes : (D, C)
    queries : (D,)
        Query codes from 0.
    leak : Leak, optional
        What the tournament's noise asks for; None: the scores are without noise.

    Returns
    -------
    Estimate
        One value; NaN where all documents of a query are of one length. Its standard error is of leaving out one query
        at a time, to first order, the criteria taken as known.
    """
    bt, lengths = np.asarray(bt, dtype=np.float64), np.asarray(lengths, dtype=np.float64)
    passes, n = np.asarray(passes, dtype=np.float64), np.asarray(placements, dtype=np.float64)[:, None]
    gamma, beta = np.asarray(gamma, dtype=np.float64), np.asarray(beta, dtype=np.float64)
    count = int(queries.max()) + 1

    def over(values: FloatArray) -> FloatArray:
        return _sums(values, queries, count)

    long = -_centred(lengths, queries)
    nothing = Estimate(np.full(1, np.nan), np.full(1, np.nan), count)
    if np.abs(long).max() < ROUNDING or (leak is not None and not np.isfinite(leak.value)):
        return nothing
    bt = bt if leak is None else bt - leak.value * long
    tau, alpha, delta = np.ones(count), np.zeros(count), 0.0
    prior = np.array([1.0 / sigma_tau**2, 1.0 / sigma_alpha**2])
    for _ in range(STEPS):
        p = pass_probabilities(tau[queries] * bt + alpha[queries] + delta * long, gamma, beta)
        residual = np.sum(gamma * (passes - n * p), axis=1)
        weight = np.sum(gamma**2 * n * p * (1.0 - p), axis=1)
        gradient = np.stack([over(residual * bt), over(residual)], axis=1) - prior * np.stack(
            [tau - 1.0, alpha], axis=1
        )
        cross = over(weight * bt)
        blocks = np.stack([over(weight * bt * bt) + prior[0], cross, cross, over(weight) + prior[1]], axis=1)
        border = np.stack([over(weight * bt * long), over(weight * long)], axis=1)
        solved = np.linalg.solve(blocks.reshape(-1, 2, 2), np.stack([gradient, border], axis=2))
        by_query = over(residual * long) - np.sum(border * solved[:, :, 0], axis=1)
        information = over(weight * long * long) - np.sum(border * solved[:, :, 1], axis=1)
        step = float(by_query.sum() / information.sum())
        change = solved[:, :, 0] - step * solved[:, :, 1]
        largest = max(abs(step), float(np.abs(change).max()))
        if largest < GOAL:
            break
        shrink = min(1.0, 2.0 / largest)
        tau, alpha, delta = tau + shrink * change[:, 0], alpha + shrink * change[:, 1], delta + shrink * step
    if count < 2:
        return nothing._replace(value=np.array([delta]))
    left = -by_query / (information.sum() - information)
    if leak is not None:
        left = left + tau.mean() * (leak.left - leak.value)
    se = np.sqrt((count - 1) / count * np.sum((left - left.mean()) ** 2))
    return Estimate(np.array([delta]), np.array([se]), count)


def _sums(values: FloatArray, queries: IntArray, count: int) -> FloatArray:
    """The sum over each query's documents, (count,)."""
    return np.bincount(queries, weights=values, minlength=count).astype(np.float64)


def _centred(values: ArrayLike, queries: IntArray) -> FloatArray:
    """The values less their query's mean."""
    values, count = np.asarray(values, dtype=np.float64), int(queries.max()) + 1
    sizes = np.maximum(_sums(np.ones_like(values), queries, count), 1.0)
    centred: FloatArray = values - (_sums(values, queries, count) / sizes)[queries]
    return centred
