"""How the error of each window moves Stage A's Bradley-Terry scores: the sandwich, clustered by window, in its parts.

What becomes of it in abilities and gains is `uncertainty`'s.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from rcp_irx.calibration._numeric import FloatArray, IntArray, checked_numbers, one_blas_thread


@one_blas_thread()
def tournament_influence(
    theta: ArrayLike,
    windows: Sequence[Sequence[int]],
    scores: Sequence[Sequence[float]],
    *,
    clip: float | None = 0.01,
    ridge: float = 1e-4,
) -> FloatArray:
    r"""How far the error of each cluster of windows moves Bradley-Terry scores (Section 3.1).

    The inverse Hessian takes each pair for the toss of a coin, which soft preferences are not. Here the residuals of a
    window stand for its error. A window, its reversal and its repeats are answers to the same documents, share what
    these do to the judge, and are one cluster. An item is in few clusters and its score follows them, so that each
    cluster g is held against the scores that the others alone would give, to first order (the jackknife, CR3):

    .. math:: (H - A_g)^{-1} r_g = H^{-1} (I - A_g H^{-1})^{-1} r_g

    with H the Hessian of all answers, A_g the cluster's part of it and r_g its residuals. Windows count as given: that
    later ones were chosen by earlier answers adds an error that is not in it, small unless the judge is very noisy.

    Parameters
    ----------
    theta : (n_items,)
        The fitted scores.
    windows, scores, clip, ridge
        As they were given to `fit_bradley_terry`.

    Returns
    -------
    (n_items, clusters)
        ``np.sqrt((influence**2).sum(axis=1))`` are standard errors (logit). The residuals of an item's only cluster
        tell nothing of its error, which is then taken to be, against the inverse Hessian, what it is for the others on
        average, in a last column of its own. NaN where there are no others, and for an item in no window.
    """
    fitted = checked_numbers(theta, "theta")
    n_items = fitted.size
    by_size: dict[int, list[int]] = defaultdict(list)
    for number, window in enumerate(windows):
        by_size[len(window)].append(number)
    clusters = [
        _clusters([windows[n] for n in numbers], [scores[n] for n in numbers], fitted, clip)
        for size, numbers in sorted(by_size.items())
        if size > 1
    ]
    if not clusters:
        return np.zeros((n_items, 0))
    hessian = ridge * sum(len(window) - 1.0 for window in windows if len(window)) * np.eye(n_items)
    held = np.zeros(n_items, dtype=np.intp)
    for items, _, parts in clusters:
        cells = items[:, :, None] * n_items + items[:, None, :]
        hessian += np.bincount(cells.ravel(), parts.ravel(), n_items**2).reshape(n_items, n_items)
        held += np.bincount(items.ravel(), minlength=n_items)
    inverse = np.linalg.inv(hessian)
    # Without its only cluster an item would be nowhere: that cluster is corrected for its other items alone.
    shared = inverse * np.outer(held > 1, held > 1)
    columns = []
    for items, residuals, parts in clusters:
        others = np.eye(items.shape[1]) - parts @ shared[items[:, :, None], items[:, None, :]]
        column = np.zeros((n_items, len(items)))
        column[items, np.arange(len(items))[:, None]] = np.linalg.solve(others, residuals[:, :, None])[:, :, 0]
        columns.append(column)
    influence = np.asarray(inverse @ np.hstack(columns), dtype=np.float64)
    centred = np.diag(inverse) - 2 * inverse.mean(axis=0) + inverse.mean()
    known, alone = held > 1, np.flatnonzero(held == 1)
    scale = np.sum(influence[known] ** 2) / centred[known].sum() if known.any() else np.nan
    influence[alone] = 0.0
    own = np.zeros((n_items, alone.size))
    own[alone, np.arange(alone.size)] = np.sqrt(scale * centred[alone])
    influence = np.hstack([influence, own])
    influence[held == 0] = np.nan
    return influence


def _clusters(
    windows: Sequence[Sequence[int]], scores: Sequence[Sequence[float]], theta: FloatArray, clip: float | None
) -> tuple[IntArray, FloatArray, FloatArray]:
    """Windows of one size by cluster: items (G, w), residuals (G, w) and parts of the Hessian (G, w, w)."""
    items, values = np.array(windows, dtype=np.intp), np.array(scores, dtype=np.float64)
    backwards = (items[:, 0] > items[:, -1])[:, None]
    items, values = np.where(backwards, items[:, ::-1], items), np.where(backwards, values[:, ::-1], values)
    order = np.lexsort(np.hstack([values, items]).T)
    items, values = items[order], values[order]
    first = np.flatnonzero(np.append(True, (items[1:] != items[:-1]).any(axis=1)))
    answers = np.diff(first, append=len(items))
    soft = expit(values[:, :, None] - values[:, None, :])
    if clip is not None:
        soft = np.clip(soft, clip, 1 - clip)
    items, wins = items[first], np.add.reduceat(soft.sum(axis=2), first)
    expected = expit(theta[items][:, :, None] - theta[items][:, None, :])
    residuals = wins - answers[:, None] * expected.sum(axis=2)
    parts = expected * (expected - 1)
    diagonal = np.arange(items.shape[1])
    parts[:, diagonal, diagonal] = 0.0
    parts[:, diagonal, diagonal] = -parts.sum(axis=2)
    weight = 2 / items.shape[1]
    return items, weight * residuals, weight * answers[:, None, None] * parts
