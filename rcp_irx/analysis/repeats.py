"""What a judge's repeated answers tell of its noise: sums that add up over windows, documents and queries.

Arrays in, arrays out. Each `..._sums` gives what one window or document adds; its `..._statistics` makes numbers of
the sums, so that `jackknife` can leave out queries.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import rankdata

FloatArray = NDArray[np.float64]


def position_sums(first: ArrayLike, second: ArrayLike) -> FloatArray:
    r"""Sums for the position effect of windows that were shown in both orders: (N, w) scores give (N, 4).

    With x from 1 (first) to -1 (last place of the first showing) and d the difference of a document's two scores, less
    its window's mean (a window's level means nothing): :math:`\sum xd, \sum x^2, \sum d^2` and w - 1.

    Parameters
    ----------
    first, second : (N, w)
        Scores of the two showings, both in the order of the first; w >= 2.
    """
    first, second = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    x = np.linspace(1.0, -1.0, first.shape[1])
    d = first - second
    d = d - d.mean(axis=1, keepdims=True)
    constant = np.ones(len(d))
    return np.stack([d @ x, constant * (x @ x), np.sum(d * d, axis=1), constant * (len(x) - 1)], axis=1)


def position_statistics(sums: FloatArray) -> FloatArray:
    """From summed `position_sums` (..., 4): the score at the first place minus that at the last, and the noise.

    Both in logits: the effect is linear in the place, fitted by least squares; the noise is the standard deviation of
    one score around document, window and place.
    """
    xd, xx, dd, free = np.moveaxis(sums, -1, 0)
    noise = np.sqrt(np.maximum(dd - xd**2 / xx, 0.0) / (2.0 * np.where(free > 1, free - 1, np.nan)))
    return np.stack([xd / xx, noise], axis=-1)


def place_sums(first: ArrayLike, second: ArrayLike) -> FloatArray:
    """Sums for the effect of each place: (N, w) scores give (N, w, 2), half of the centred difference, and 1."""
    d = np.asarray(first, dtype=np.float64) - np.asarray(second, dtype=np.float64)
    half = (d - d.mean(axis=1, keepdims=True)) / 2.0
    return np.stack([half, np.ones_like(half)], axis=-1)


def flip_sums(first: ArrayLike, second: ArrayLike) -> FloatArray:
    """Sums for order flips of windows that were shown in both orders: (N, w) scores give (N, 4).

    Pairs of documents that no showing ties, those of them whose order differs between the showings, those where the
    document shown before the other wins both times, and all pairs. Parameters as in `position_sums`.
    """
    first, second = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    i, j = np.triu_indices(first.shape[1], k=1)
    before, after = first[:, i] - first[:, j], second[:, i] - second[:, j]
    product = np.sign(before) * np.sign(after)
    early = (before > 0) & (after < 0)
    pairs = np.full(len(first), float(len(i)))
    return np.stack([(product != 0).sum(axis=1), (product < 0).sum(axis=1), early.sum(axis=1), pairs], axis=1)


def flip_statistics(sums: FloatArray) -> FloatArray:
    """From summed `flip_sums` (..., 4): the share of flips, of these the share won by the earlier, the tied share."""
    untied, flips, early, pairs = np.moveaxis(sums, -1, 0)
    return np.stack([flips / untied, early / flips, 1.0 - untied / pairs], axis=-1)


def answer_sums(passes: ArrayLike, placements: ArrayLike) -> FloatArray:
    """Sums for the agreement of repeated answers: pass counts (D, C) and placements (D,) give (D, C, 3).

    Per document and criterion n times the share of its pairs of answers that differ, its passes, and n; zeros for a
    document that was placed less than twice.
    """
    passes = np.asarray(passes, dtype=np.float64)
    n = np.broadcast_to(np.asarray(placements, dtype=np.float64)[:, None], passes.shape)
    again = n >= 2
    differing = np.divide(2.0 * passes * (n - passes), n - 1.0, out=np.zeros_like(passes), where=again)
    sums: FloatArray = np.stack([differing, passes * again, n * again], axis=-1)
    return sums


def answer_statistics(sums: FloatArray) -> FloatArray:
    """From summed `answer_sums` (..., C, 3), flattened to (..., 3C): flip rate, pass rate, chance, alpha of each.

    The flip rate is the chance that two answers to one document differ; `chance` what it would be for two answers
    drawn from all documents; alpha = 1 - flip rate / chance is Krippendorff's alpha for yes and no.
    """
    differing, passes, n = np.moveaxis(sums, -1, 0)
    flips, rate = differing / n, passes / n
    chance = 2.0 * passes * (n - passes) / (n * (n - 1.0))
    found: FloatArray = np.stack([flips, rate, chance, 1.0 - flips / chance], axis=-1)
    return found.reshape(*found.shape[:-2], -1)


def correlation_sums(x: ArrayLike, y: ArrayLike) -> FloatArray:
    """Sums for Pearson's correlation: (D,) and (D,) give (D, 6). Centre both over all rows first."""
    x, y = np.asarray(x, dtype=np.float64), np.asarray(y, dtype=np.float64)
    return np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=-1)


def correlation(sums: FloatArray) -> FloatArray:
    """Pearson's correlation from summed `correlation_sums`: (..., 6) gives (...)."""
    n, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    found: FloatArray = (n * xy - x * y) / np.sqrt((n * xx - x * x) * (n * yy - y * y))
    return found


def spearman(x: ArrayLike, y: ArrayLike) -> float:
    """Spearman's correlation of (D,) and (D,); NaN for fewer than three or where one side is one tie."""
    first, second = (rankdata(values) for values in (x, y))
    if len(first) < 3 or np.ptp(first) == 0 or np.ptp(second) == 0:
        return float("nan")
    return float(np.corrcoef(first, second)[0, 1])


def spearman_brown(r: FloatArray) -> FloatArray:
    """The correlation of two whole measurements from that of two halves: 2 r / (1 + r) (B.2)."""
    return 2.0 * r / (1.0 + r)
