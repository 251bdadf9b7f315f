"""Stage A's Bradley-Terry scores from windows of judge scores (Sections 3.1 and C.2); which windows to ask is not its matter."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

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

    Minimises :math:`\sum_p w_p H\bigl(\sigma(s_i-s_{i'}), \sigma(\theta_i-\theta_{i'})\bigr) / \sum_p w_p + \lambda/2\,|\theta|^2`
    over the pairs p of all windows, with H the cross-entropy. A pair of a window of w documents weighs 2/w.

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
    preferred = _preferences(windows, scores, rankings, n_items, clip)
    theta, end, n_iter = newton(lambda point: evaluate_bradley_terry(point, preferred, ridge), np.zeros(n_items))
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


def evaluate_bradley_terry(theta: FloatArray, preferred: FloatArray, ridge: float) -> Evaluation:
    """The objective at `theta`, given the weight (n_items, n_items) with which each row's item beats each column's."""
    total = preferred.sum() or 1.0
    behind = theta[None, :] - theta[:, None]
    small = np.exp(-np.abs(behind))
    upset = np.where(behind >= 0, 1.0, small) / (1.0 + small)
    loss = preferred * (np.maximum(behind, 0.0) + np.log1p(small))
    surprise = preferred * upset
    objective = float(loss.sum() / total + ridge / 2 * np.sum(theta * theta))
    gradient = (surprise.sum(axis=0) - surprise.sum(axis=1)) / total + ridge * theta

    def newton_step() -> FloatArray:
        hessian = -(preferred + preferred.T) * (small / (1.0 + small) ** 2 / total)
        np.fill_diagonal(hessian, ridge - hessian.sum(axis=1))
        step: FloatArray = scipy.linalg.solve(hessian, -gradient, assume_a="pos", check_finite=False)
        return step

    return Evaluation(objective, gradient, newton_step)


def _preferences(
    windows: Sequence[Sequence[int]],
    scores: Sequence[Sequence[float]],
    rankings: Sequence[Sequence[int]],
    n_items: int,
    clip: float | None,
) -> FloatArray:
    """The weight with which each item (row) is preferred to each other (column), added up over all answers."""
    if len(windows) != len(scores):
        raise RCPError(f"{len(windows)} windows but {len(scores)} lists of scores; give one list for each window")
    cells: list[IntArray] = []
    weights: list[FloatArray] = []
    for size, numbers in _by_size(windows, "window"):
        items = _items([windows[number] for number in numbers], numbers, n_items, "window")
        values = _scores([scores[number] for number in numbers], numbers, size)
        # One order of addition, whatever order the windows come in.
        order = np.lexsort(np.hstack([items, values]).T)
        items, values = items[order], values[order]
        soft = expit(values[:, :, None] - values[:, None, :])
        if clip is not None:
            soft = np.clip(soft, clip, 1 - clip)
        off_diagonal = ~np.eye(size, dtype=bool)
        cells.append((items[:, :, None] * n_items + items[:, None, :])[:, off_diagonal].ravel())
        weights.append(soft[:, off_diagonal].ravel() * (2 / size))
    for size, numbers in _by_size(rankings, "ranking"):
        items = _items([rankings[number] for number in numbers], numbers, n_items, "ranking")
        better, worse = np.triu_indices(size, k=1)
        cells.append((items[:, better] * n_items + items[:, worse]).ravel())
        weights.append(np.ones(cells[-1].size))
    if not cells:
        return np.zeros((n_items, n_items))
    total = np.bincount(np.concatenate(cells), weights=np.concatenate(weights), minlength=n_items * n_items)
    return total.reshape(n_items, n_items)


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
    for number, answer in zip(numbers, answers, strict=True):
        if len(answer) != size:
            raise RCPError(f"window {number} has {size} items but {len(answer)} scores")
    try:
        values = np.array(answers, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise RCPError(f"scores of windows {numbers[0]} to {numbers[-1]} are not all numbers: {error}") from None
    infinite = ~np.isfinite(values).all(axis=1)
    if infinite.any():
        wrong = int(np.argmax(infinite))
        raise RCPError(f"window {numbers[wrong]} has a score that is not finite: {list(answers[wrong])}")
    return values
