"""From abilities to gains: Eq. 4, Eq. 5, Eq. 8 and the alternative gains of Section E.5; fits no parameter itself."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from rcp_irx.calibration._numeric import FloatArray, IntArray, checked_codes, checked_counts, checked_numbers
from rcp_irx.errors import RCPError


def pass_probabilities(theta: ArrayLike, gamma: ArrayLike, beta: ArrayLike) -> FloatArray:
    """The probability that an ability passes each criterion (Eq. 2): theta of shape (...) gives (..., C).

    Parameters
    ----------
    theta : (...)
        Abilities in logits.
    gamma : (C,)
        Discriminations, above 0.
    beta : (C,)
        Difficulties in logits.

    Raises
    ------
    RCPError
        A discrimination that is not above 0, or shapes that do not fit.
    """
    probability: FloatArray = expit(_logits(theta, *_criteria(gamma, beta)))
    return probability


def gain(theta: ArrayLike, gamma: ArrayLike, beta: ArrayLike) -> FloatArray:
    """The discrimination-weighted mean pass probability (Eq. 4), of the shape of theta.

    Its slope is I(theta) / sum(gamma), with I the test information (Lemma I.1), so it rises strictly from 0 to 1; in
    float64 it saturates at both ends, and an order is better taken from theta. `gamma` need not be normalised. Raw-BT
    gains (Section B.1) are ``gain(centre(bt, queries), gamma, beta)``. Parameters as in `pass_probabilities`.
    """
    weights, difficulties = _criteria(gamma, beta)
    weighted = np.sum(weights * expit(_logits(theta, weights, difficulties)), axis=-1)
    return np.minimum(weighted / weights.sum(), 1.0)


def test_information(theta: ArrayLike, gamma: ArrayLike, beta: ArrayLike) -> FloatArray:
    """The Fisher information of one answer to every criterion about the ability (Eq. 8), of the shape of theta.

    Parameters as in `pass_probabilities`.
    """
    weights, difficulties = _criteria(gamma, beta)
    logits = _logits(theta, weights, difficulties)
    information: FloatArray = np.sum(weights**2 * expit(logits) * expit(-logits), axis=-1)
    return information


# A user's pytest would collect a function of this name.
test_information.__test__ = False  # type: ignore[attr-defined]


def count_gain(passes: ArrayLike, placements: ArrayLike, gamma: ArrayLike | None = None) -> FloatArray:
    """The share of passed answers (Eq. 5), or with `gamma` the discrimination-weighted share (Proposition I.3).

    Parameters
    ----------
    passes : (..., C)
        How often a document passed each criterion.
    placements : (...) or (..., C)
        How often it was asked about all criteria, or about each.
    gamma : (C,), optional
        Discriminations, above 0; need not be normalised.

    Returns
    -------
    (...)
        From 0 to 1; NaN for a document without a placement.
    """
    passed, placed = np.asarray(passes, dtype=np.float64), np.asarray(placements, dtype=np.float64)
    if passed.ndim == 0 or placed.shape not in (passed.shape, passed.shape[:-1]):
        raise RCPError(f"placements of shape {placed.shape} do not fit passes of shape {passed.shape}")
    shape, criteria = passed.shape[:-1], passed.shape[-1]
    by_criterion = placed.shape == passed.shape
    passed, placed = checked_counts(
        passed.reshape(-1, criteria), placed.reshape((-1, criteria) if by_criterion else (-1,))
    )
    weights = np.ones(criteria) if gamma is None else _criteria(gamma, np.zeros(criteria))[0]
    possible = np.sum(weights * placed, axis=1)
    share = np.sum(weights * passed, axis=1) / np.where(possible > 0, possible, np.nan)
    return share.reshape(shape)[()]


def centre(bt: ArrayLike, queries: ArrayLike) -> FloatArray:
    """Bradley-Terry scores less their query's mean: both arguments and the result have shape (D,)."""
    scores, codes, order, starts = _by_query(bt, queries, "bt")
    means = np.add.reduceat(scores[order], starts) / np.bincount(codes) if scores.size else scores
    return scores - means[codes]


def unweighted_gain(theta: ArrayLike, gamma: ArrayLike, beta: ArrayLike) -> FloatArray:
    """The plain mean of the pass probabilities (Section E.5)."""
    mean: FloatArray = pass_probabilities(theta, gamma, beta).mean(axis=-1)
    return np.minimum(mean, 1.0)


def logistic_gain(theta: ArrayLike) -> FloatArray:
    """The logistic function of the ability, centred at difficulty 0 (Section E.5)."""
    probability: FloatArray = expit(np.asarray(theta, dtype=np.float64))
    return probability


def criterion_gain(theta: ArrayLike, gamma: ArrayLike, beta: ArrayLike, criterion: int) -> FloatArray:
    """The pass probability of one criterion, counted from 0 (Section E.5 takes C4, number 3)."""
    probabilities = pass_probabilities(theta, gamma, beta)
    if not 0 <= criterion < probabilities.shape[-1]:
        raise RCPError(f"criterion {criterion} is not one of 0..{probabilities.shape[-1] - 1}")
    chosen: FloatArray = probabilities[..., criterion]
    return chosen


def linear_gain(theta: ArrayLike, low: float, high: float) -> FloatArray:
    """The ability on a line from 0 at `low` to 1 at `high` (logits), clipped to [0, 1] (Section E.5)."""
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise RCPError(f"low must be below high, both finite; they are {low} and {high}")
    return np.clip((np.asarray(theta, dtype=np.float64) - low) / (high - low), 0.0, 1.0)


def min_max_gain(theta: ArrayLike, queries: ArrayLike) -> FloatArray:
    """The ability on a line from 0 at its query's least to 1 at its query's largest (Section E.5); shapes (D,).

    Where all abilities of a query are equal, each of its documents is its best: 1.
    """
    abilities, codes, order, starts = _by_query(theta, queries, "theta")
    if not abilities.size:
        return abilities
    least = np.minimum.reduceat(abilities[order], starts)[codes]
    largest = np.maximum.reduceat(abilities[order], starts)[codes]
    spread = largest - least
    return np.where(spread > 0, (abilities - least) / np.where(spread > 0, spread, 1.0), 1.0)


def _criteria(gamma: ArrayLike, beta: ArrayLike) -> tuple[FloatArray, FloatArray]:
    difficulties = checked_numbers(beta, "beta")
    if difficulties.ndim != 1 or difficulties.size == 0:
        raise RCPError(f"beta must have shape (criteria,), not {difficulties.shape}")
    weights = checked_numbers(gamma, "gamma", difficulties.shape)
    if not (weights > 0).all():
        raise RCPError(f"gamma must be above 0; criterion {np.flatnonzero(weights <= 0)[0]} has {weights.min()}")
    return weights, difficulties


def _logits(theta: ArrayLike, gamma: FloatArray, beta: FloatArray) -> FloatArray:
    return gamma * (np.asarray(theta, dtype=np.float64)[..., None] - beta)


def _by_query(values: ArrayLike, queries: ArrayLike, what: str) -> tuple[FloatArray, IntArray, IntArray, IntArray]:
    """The values, their query codes, an order by query and value, and where each query starts in it."""
    numbers = checked_numbers(values, what)
    codes = checked_codes(queries, numbers.size)
    order = np.lexsort((numbers, codes))
    starts = np.flatnonzero(np.diff(codes[order], prepend=-1))
    return numbers, codes, order, starts
