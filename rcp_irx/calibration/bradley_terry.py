"""Stage A's Bradley-Terry scores from windows of judge scores (Sections 3.1, C.2); the windows are chosen elsewhere."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import scipy.linalg
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components
from scipy.special import expit

from rcp_irx.calibration._numeric import (
    Evaluation,
    FloatArray,
    IntArray,
    checked_positive,
    newton,
    one_blas_thread,
    warn_unless_converged,
)
from rcp_irx.errors import RCPError


@dataclass(frozen=True, eq=False)
class BradleyTerryFit:
    """A fitted tournament.

    Attributes
    ----------
    theta : (n_items,)
        Scores in logits; an item in no window has exactly 0.
    objective : float
        The minimised function, per unit of pair weight.
    gradient_norm : float
        Largest entry of its gradient.
    n_iter : int
        Newton steps.
    converged : bool
    """

    theta: FloatArray
    objective: float
    gradient_norm: float
    n_iter: int
    converged: bool


@one_blas_thread()
def fit_bradley_terry(
    windows: Sequence[Sequence[int]],
    scores: Sequence[Sequence[float]],
    n_items: int,
    *,
    rankings: Sequence[Sequence[int]] = (),
    clip: float | None = 0.01,
    ridge: float = 1e-4,
) -> BradleyTerryFit:
    r"""Fit Bradley-Terry scores to the soft preferences of scored windows (Sections 3.1 and C.2).

    Minimises, over the pairs p of all windows and with H the cross-entropy,

    .. math:: \sum_p w_p H\bigl(\sigma(s_i-s_{i'}), \sigma(\theta_i-\theta_{i'})\bigr) / \sum_p w_p
              + \lambda/2\,|\theta|^2

    where a pair of a window of w documents weighs 2/w.

    Parameters
    ----------
    windows : sequence of index sequences
        The items 0..n_items-1 of each window; windows may differ in size.
    scores : sequence of score sequences
        The judge's scores (logits) of each window, in the order of its items.
    n_items : int
        Size of the pool.
    rankings : sequence of index sequences
        Answers without scores, each best first: hard preferences (1, never clipped) of weight 1 a pair.
    clip : float or None
        Soft preferences are kept within [clip, 1 - clip]; None: as they are.
    ridge : float
        The penalty that centres the scores and keeps them finite.

    Raises
    ------
    RCPError
        Names the first window whose lengths differ, that repeats an item, or holds a score or index that cannot be.
    """
    checked_positive(ridge, "ridge")
    if clip is not None and not 0 <= clip < 0.5:
        raise RCPError(f"clip must lie from 0 to below 0.5, or be None, not {clip}")
    preferences = add_up_preferences(windows, scores, n_items, rankings, clip)
    theta, end, n_iter = newton(lambda point: evaluate_bradley_terry(point, preferences, ridge), np.zeros(n_items))
    converged = warn_unless_converged("Bradley-Terry", end.norm)
    return BradleyTerryFit(theta, end.objective, end.norm, n_iter, converged)


def comparison_components(windows: Sequence[Sequence[int]], n_items: int) -> IntArray:
    """The piece of the comparison graph that each item belongs to: (n_items,) labels from 0.

    Items of different pieces were never compared, not even through others, so only the ridge orders them. An item in no
    window is a piece of its own. Rankings count as windows.
    """
    neighbours = [np.empty((2, 0), dtype=np.intp)]
    for _, numbers in _by_size(windows, "window"):
        items = _items([windows[number] for number in numbers], numbers, n_items, "window")
        neighbours.append(np.stack([items[:, :-1].ravel(), items[:, 1:].ravel()]))
    first, second = np.concatenate(neighbours, axis=1)
    graph = coo_array((np.ones(first.size), (first, second)), shape=(n_items, n_items))
    labels: IntArray = connected_components(graph, directed=False)[1].astype(np.intp)
    return labels


class Preferences(NamedTuple):
    """All that the fit needs of the answers: each compared pair once with its weight (P,), each item's won weight."""

    first: IntArray
    second: IntArray
    weight: FloatArray
    wins: FloatArray


def evaluate_bradley_terry(theta: FloatArray, preferences: Preferences, ridge: float) -> Evaluation:
    """The objective at `theta`, its gradient and its Newton step.

    The cross-entropy is summed as log(1 + exp(x)) = x / 2 + |x| / 2 + log(1 + exp(-|x|)), whose first term is linear.
    """
    first, second, weight, wins = preferences
    items, total = theta.size, weight.sum() or 1.0
    lead = wins - (np.bincount(first, weight, items) + np.bincount(second, weight, items)) / 2
    ahead = theta[first] - theta[second]
    distance = np.abs(ahead)
    small = np.exp(-distance)
    loss = np.sum(weight * (distance / 2 + np.log1p(small))) - np.sum(lead * theta)
    objective = float(loss / total + ridge / 2 * np.sum(theta * theta))
    expected = weight * (np.exp(np.minimum(ahead, 0.0)) / (1.0 + small))
    expected_wins = np.bincount(first, expected, items) + np.bincount(second, weight - expected, items)
    gradient = (expected_wins - wins) / total + ridge * theta

    def newton_step() -> FloatArray:
        hessian = np.zeros((items, items))
        hessian[first, second] = hessian[second, first] = weight * (small / (1.0 + small) ** 2 / -total)
        np.fill_diagonal(hessian, ridge - hessian.sum(axis=1))
        factor = scipy.linalg.cho_factor(hessian, overwrite_a=True, check_finite=False)
        step: FloatArray = scipy.linalg.cho_solve(factor, -gradient, check_finite=False)
        return step

    return Evaluation(objective, gradient, newton_step)


def add_up_preferences(
    windows: Sequence[Sequence[int]],
    scores: Sequence[Sequence[float]],
    n_items: int,
    rankings: Sequence[Sequence[int]] = (),
    clip: float | None = None,
) -> Preferences:
    """The pairs and wins of all answers; arguments as in `fit_bradley_terry`."""
    if len(windows) != len(scores):
        raise RCPError(f"{len(windows)} windows but {len(scores)} lists of scores; give one list for each window")
    weight, wins = np.zeros((n_items, n_items)), np.zeros(n_items)
    for size, numbers in _by_size(windows, "window"):
        items = _items([windows[number] for number in numbers], numbers, n_items, "window")
        values = _scores([scores[number] for number in numbers], numbers, size)
        # One order of addition, whatever order the windows come in.
        order = np.lexsort(np.hstack([items, values]).T)
        items, values = items[order], values[order]
        soft = expit(values[:, :, None] - values[:, None, :])
        if clip is not None:
            soft = np.clip(soft, clip, 1 - clip)
        against_others = soft.sum(axis=2) - 0.5
        weight += 2 / size * _times_together(items, n_items)
        wins += 2 / size * np.bincount(items.ravel(), against_others.ravel(), n_items)
    for size, numbers in _by_size(rankings, "ranking"):
        items = _items([rankings[number] for number in numbers], numbers, n_items, "ranking")
        weight += _times_together(items, n_items)
        wins += np.bincount(items.ravel(), np.tile(np.arange(size)[::-1], len(items)), n_items)
    first, second = np.nonzero(np.triu(weight, k=1))
    return Preferences(first, second, weight[first, second], wins)


def _times_together(items: IntArray, n_items: int) -> IntArray:
    cells = items[:, :, None] * n_items + items[:, None, :]
    return np.bincount(cells.ravel(), minlength=n_items * n_items).reshape(n_items, n_items)


def _by_size(answers: Sequence[Sequence[int]], what: str) -> list[tuple[int, list[int]]]:
    """The numbers of the answers of each size, smallest size first; answers without a pair are checked and left out."""
    groups: dict[int, list[int]] = defaultdict(list)
    for number, answer in enumerate(answers):
        try:
            groups[len(answer)].append(number)
        except TypeError:
            raise RCPError(f"{what} {number} is no sequence of items: {answer!r}") from None
    groups.pop(0, None)
    return sorted(groups.items())


def _items(answers: list[Sequence[int]], numbers: list[int], n_items: int, what: str) -> IntArray:
    items = np.array(answers)
    if items.ndim != 2 or items.dtype.kind not in "iu":
        wrong = next(n for n, answer in zip(numbers, answers, strict=True) if np.array(answer).dtype.kind not in "iu")
        raise RCPError(f"{what} {wrong} must hold item indices (integers)")
    outside = ((items < 0) | (items >= n_items)).any(axis=1)
    if outside.any():
        wrong = int(np.argmax(outside))
        raise RCPError(f"{what} {numbers[wrong]} holds an item outside 0..{n_items - 1}: {list(answers[wrong])}")
    ordered = np.sort(items, axis=1)
    repeated = (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    if repeated.any():
        wrong = int(np.argmax(repeated))
        raise RCPError(f"{what} {numbers[wrong]} holds an item twice: {list(answers[wrong])}")
    return items.astype(np.intp)


def _scores(answers: list[Sequence[float]], numbers: list[int], size: int) -> FloatArray:
    rows = []
    for number, answer in zip(numbers, answers, strict=True):
        if len(answer) != size:
            raise RCPError(f"window {number} has {size} items but {len(answer)} scores")
        try:
            rows.append(np.array(answer, dtype=np.float64))
        except (TypeError, ValueError) as error:
            raise RCPError(f"window {number} has scores that are no numbers: {error}") from None
    values = np.stack(rows)
    infinite = ~np.isfinite(values).all(axis=1)
    if infinite.any():
        wrong = int(np.argmax(infinite))
        raise RCPError(f"window {numbers[wrong]} has a score that is not finite: {list(answers[wrong])}")
    return values
