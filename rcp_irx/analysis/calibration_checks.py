"""Numbers that tell how well pass probabilities fit a judge's answers; arrays in, arrays out.

What a number means, and from where on it warns, is in `signs`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import minimize_scalar
from scipy.special import expit
from scipy.stats import rankdata

from rcp_irx.calibration import test_information
from rcp_irx.calibration._numeric import Evaluation, checked_counts, checked_numbers, newton
from rcp_irx.errors import RCPError

FloatArray = NDArray[np.float64]

BINS = 20
"""Equal bins of the probability that the calibration error is taken over (Section E.3)."""
LOGISTIC_RIDGE = 1e-8
"""Keeps a logistic curve finite where a criterion's answers are separated perfectly, and moves no other visibly."""


@dataclass(frozen=True, eq=False)
class Bins:
    """Predicted probabilities against what happened, in equal bins; NaN where a bin is empty.

    Attributes
    ----------
    low, high : (B,)
        The bins' bounds; a bin holds its lower one, the last bin both.
    weight, predicted, observed : (B,)
        Total weight, weighted mean probability and weighted mean outcome.
    chance : (B,)
        The standard deviation of the mean outcome, were the probabilities right: estimated from how far each outcome is
        from its probability, so that the answers behind one share may depend on each other in any way.
    """

    low: FloatArray
    high: FloatArray
    weight: FloatArray
    predicted: FloatArray
    observed: FloatArray
    chance: FloatArray


@dataclass(frozen=True, eq=False)
class Forecast:
    """How good probabilities are as predictions (Section B.2).

    Attributes
    ----------
    ece : float
        Expected calibration error: the weighted mean over bins of |mean outcome - mean probability|.
    chance_ece : float
        What chance alone is expected to leave of it where the probabilities are right.
    brier : float
        Weighted mean squared difference of probability and outcome.
    skill : float
        The share of the squared error of a constant, the mean outcome, that the probabilities remove: 1 is perfect, 0
        no better than the constant. NaN where the outcomes do not differ.
    reliability, resolution, uncertainty, within : float
        Murphy's parts: brier = reliability - resolution + uncertainty + within. In turn: how far the bins' mean
        outcomes are from their mean probabilities, how far from the overall mean, squared; the variance of the
        outcomes; what probabilities add that differ within a bin.
    bins : Bins
    """

    ece: float
    chance_ece: float
    brier: float
    skill: float
    reliability: float
    resolution: float
    uncertainty: float
    within: float
    bins: Bins


def assess(p: ArrayLike, outcome: ArrayLike, weight: ArrayLike | None = None, bins: int = BINS) -> Forecast:
    """Probabilities against what happened.

    Parameters
    ----------
    p : (...)
        Probabilities.
    outcome : (...)
        Answers of 0 and 1, or shares of them; any number where the weight is 0.
    weight : (...), optional
        How much each counts, such as the answers behind a share; 1 where not given.
    bins : int
        Equal bins of the probability.

    Raises
    ------
    RCPError
        Shapes that do not fit, numbers outside [0, 1], negative weights or none above 0.
    """
    chances, happened, weights = _checked(p, outcome, weight)
    binned = _binned(chances, happened, weights, bins)
    filled = binned.weight > 0
    total = weights.sum()
    size, gap = binned.weight[filled] / total, (binned.observed - binned.predicted)[filled]
    overall = weights @ happened / total
    score = float(weights @ (chances - happened) ** 2 / total)
    uncertainty = float(weights @ (happened - overall) ** 2 / total)
    off, resolved = float(size @ gap**2), float(size @ (binned.observed[filled] - overall) ** 2)
    return Forecast(
        ece=float(size @ np.abs(gap)),
        chance_ece=float(size @ binned.chance[filled] * np.sqrt(2 / np.pi)),
        brier=score,
        skill=1 - score / uncertainty if uncertainty > 0 else float("nan"),
        reliability=off,
        resolution=resolved,
        uncertainty=uncertainty,
        within=score - off + resolved - uncertainty,
        bins=binned,
    )


def brier_by_query(p: ArrayLike, outcome: ArrayLike, weight: ArrayLike, queries: ArrayLike) -> FloatArray:
    """The Brier score of each query's answers, (J,); NaN for a query without any.

    Parameters
    ----------
    p, outcome, weight : (D, C)
        Pass probabilities, pass shares (any number where the weight is 0), and the answers behind each.
    queries : (D,)
        Codes 0..J-1.
    """
    chances, weights = np.asarray(p, dtype=np.float64), np.asarray(weight, dtype=np.float64)
    error = np.where(weights > 0, (chances - np.asarray(outcome, dtype=np.float64)) ** 2, 0.0) * weights
    codes = np.asarray(queries)
    answers = np.bincount(codes, weights.sum(axis=1))
    return np.bincount(codes, error.sum(axis=1)) / np.where(answers > 0, answers, np.nan)


def pass_shares(passes: ArrayLike, placements: ArrayLike) -> FloatArray:
    """The share S/n of a document's answers that pass, (D, C); NaN without a placement."""
    passed, placed = checked_counts(passes, placements)
    return passed / np.where(placed > 0, placed, np.nan)


def yen_q3(passes: ArrayLike, placements: ArrayLike, p: ArrayLike) -> FloatArray:
    """Yen's Q3: the correlations over placed documents of S/n - P between criteria, (C, C) (Section E.2).

    NaN where a criterion's residuals do not vary, or fewer than two documents are placed for both.

    Parameters
    ----------
    passes : (D, C)
    placements : (D,) or (D, C)
    p : (D, C)
        Pass probabilities.
    """
    shares = pass_shares(passes, placements)
    return correlations(shares - checked_numbers(p, "p", shares.shape))


def correlations(values: ArrayLike) -> FloatArray:
    """Pearson correlations between columns, each over the rows where both have a number; NaN where one is constant."""
    rows = np.asarray(values, dtype=np.float64)
    there = ~np.isnan(rows)
    columns = rows.shape[1]
    found = np.full((columns, columns), np.nan)
    for a in range(columns):
        for b in range(a, columns):
            both = there[:, a] & there[:, b]
            if both.sum() > 1:
                x, y = rows[both, a], rows[both, b]
                x, y = x - x.mean(), y - y.mean()
                size = np.sqrt((x @ x) * (y @ y))
                if size > 0:
                    found[a, b] = found[b, a] = np.clip(x @ y / size, -1.0, 1.0)
    return found


def peak_information(gamma: ArrayLike, beta: ArrayLike) -> tuple[float, float]:
    """The ability (logit) at which the criteria tell most, and their test information there (Eq. 8).

    Parameters
    ----------
    gamma, beta : (C,)
        Discriminations and difficulties. The peak lies between the easiest and the hardest criterion.
    """
    difficulties = np.asarray(beta, dtype=np.float64)
    low, high = float(difficulties.min()), float(difficulties.max())
    grid = np.linspace(low, high, 2001)
    information = test_information(grid, gamma, beta)
    top = int(information.argmax())
    if high > low:
        around = (float(grid[max(top - 1, 0)]), float(grid[min(top + 1, grid.size - 1)]))
        refined = minimize_scalar(
            lambda theta: -float(test_information(theta, gamma, beta)),
            bounds=around,
            method="bounded",
            options={"xatol": 1e-10},
        )
        if -refined.fun > information[top]:
            return float(refined.x), float(-refined.fun)
    return float(grid[top]), float(information[top])


def information_efficiency(theta: ArrayLike, gamma: ArrayLike, beta: ArrayLike) -> FloatArray:
    """The test information at each ability over the rubric's peak, (...), from 0 to 1 (Section E.2)."""
    peak = peak_information(gamma, beta)[1]
    return np.minimum(test_information(theta, gamma, beta) / peak, 1.0)


def logistic_curves(x: ArrayLike, passes: ArrayLike, placements: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """A logistic regression of each criterion's answers on one number per document (Section E.3's simpler map).

    Parameters
    ----------
    x : (D,)
        Such as the raw Bradley-Terry score.
    passes : (D, C)
    placements : (D,) or (D, C)

    Returns
    -------
    slope, intercept : (C,)
        The probability is sigma(slope x + intercept); 0 and 0 for a criterion without answers.
    """
    passed, placed = checked_counts(passes, placements)
    scores = checked_numbers(x, "x", passed.shape[:1])
    pairs = [_logistic(scores, passed[:, c], placed[:, c]) for c in range(passed.shape[1])]
    slope, intercept = np.array(pairs).T
    return slope, intercept


def cross_entropy(logits: ArrayLike, passes: ArrayLike, placements: ArrayLike) -> float:
    """The mean binary cross-entropy of an answer, in nats, under pass probabilities sigma(logits).

    Parameters
    ----------
    logits, passes : (D, C)
        An infinite logit is certain.
    placements : (D,) or (D, C)
    """
    passed, placed = checked_counts(passes, placements)
    z = np.broadcast_to(np.asarray(logits, dtype=np.float64), passed.shape)
    loss = 0.0
    for count, loser in [(passed, -z), (placed - passed, z)]:
        there = count > 0  # where there is none, an infinite loss is none
        loss += float((count[there] * np.logaddexp(0.0, loser[there])).sum())
    answers = placed.sum()
    return loss / float(answers) if answers else float("nan")


def auc(score: ArrayLike, positive: ArrayLike) -> float:
    """The share of pairs of a positive and another document that the score orders rightly, ties half (Section B.2).

    NaN where there is no pair.

    Parameters
    ----------
    score : (D,)
        Finite.
    positive : (D,)
        True for a positive document.
    """
    scores = checked_numbers(score, "score")
    yes = np.asarray(positive, dtype=bool)
    if yes.shape != scores.shape:
        raise RCPError(f"positive must have shape {scores.shape}, not {yes.shape}")
    positives, others = int(yes.sum()), int((~yes).sum())
    if not positives or not others:
        return float("nan")
    return float((rankdata(scores)[yes].sum() - positives * (positives + 1) / 2) / (positives * others))


def _binned(p: FloatArray, outcome: FloatArray, weight: FloatArray, bins: int) -> Bins:
    code = np.minimum((p * bins).astype(np.intp), bins - 1)
    total: FloatArray = np.bincount(code, weight, bins).astype(np.float64)
    size = np.where(total > 0, total, np.nan)
    edges = np.arange(bins + 1) / bins
    return Bins(
        edges[:-1],
        edges[1:],
        total,
        np.bincount(code, weight * p, bins) / size,
        np.bincount(code, weight * outcome, bins) / size,
        np.sqrt(np.bincount(code, (weight * (outcome - p)) ** 2, bins)) / size,
    )


def _logistic(x: FloatArray, passed: FloatArray, placed: FloatArray) -> FloatArray:
    """Slope and intercept."""
    answers = placed.sum()
    if not answers:
        return np.zeros(2)

    def evaluate(point: FloatArray) -> Evaluation:
        z = point[0] * x + point[1]
        chance = expit(z)
        rest = (placed * chance - passed) / answers
        loss = (placed * np.logaddexp(0.0, z) - passed * z).sum() / answers
        gradient = np.array([rest @ x, rest.sum()]) + LOGISTIC_RIDGE * point

        def newton_step() -> FloatArray:
            w = placed * chance * expit(-z) / answers
            side = w @ x
            hessian = np.array([[w @ (x * x), side], [side, w.sum()]]) + LOGISTIC_RIDGE * np.eye(2)
            return np.asarray(-np.linalg.solve(hessian, gradient), dtype=np.float64)

        return Evaluation(float(loss + LOGISTIC_RIDGE / 2 * point @ point), gradient, newton_step)

    return newton(evaluate, np.zeros(2))[0]


def _checked(p: ArrayLike, outcome: ArrayLike, weight: ArrayLike | None) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Flat arrays of one shape, without what has no weight."""
    chances = checked_numbers(p, "p")
    weights = np.ones(chances.shape) if weight is None else checked_numbers(weight, "weight", chances.shape)
    if (weights < 0).any() or not weights.sum() > 0:
        raise RCPError("weight must hold no number below 0, and one above it")
    counts = weights > 0
    happened = np.asarray(outcome, dtype=np.float64)
    if happened.shape != chances.shape:
        raise RCPError(f"outcome must have shape {chances.shape}, not {happened.shape}")
    chances, happened, weights = chances[counts], checked_numbers(happened[counts], "outcome"), weights[counts]
    for values, what in [(chances, "p"), (happened, "outcome")]:
        if ((values < 0) | (values > 1)).any():
            raise RCPError(f"{what} must lie in [0, 1]; it holds {values[(values < 0) | (values > 1)][0]}")
    return chances, happened, weights
