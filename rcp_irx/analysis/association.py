"""How well scores order and predict grades: rank statistics of weighted documents, on arrays.

A document counts as often as its weight says, so that a bootstrap of queries needs no copies: weights have shape
(N, R), a column per resample, and results (R,). A weight of 0 leaves a document out. What has no value is NaN.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.intp]
BoolArray: TypeAlias = NDArray[np.bool_]


class Ranks(NamedTuple):
    """Ranks of weighted documents, ties at their mean rank, less the mean of all.

    Attributes
    ----------
    centred, weighted : (N, R)
        The ranks, and the ranks times the weights.
    norm : (R,)
        Root of the weighted sum of their squares; 0 where all documents tie.
    """

    centred: FloatArray
    weighted: FloatArray
    norm: FloatArray


class Ties(NamedTuple):
    """The order of scores: documents ascending, where each group of equal ones starts there, each document's group."""

    order: IntArray
    starts: IntArray
    group: IntArray


def ties(values: FloatArray) -> Ties:
    """The order of scores, (N,)."""
    order = np.argsort(values, kind="stable")
    first = np.diff(values[order], prepend=np.nan) != 0
    group = np.empty(len(values), dtype=np.intp)
    group[order] = np.cumsum(first) - 1
    return Ties(order, np.flatnonzero(first), group)


def ranked(scores: Ties, weights: FloatArray) -> Ranks:
    """The ranks of documents that count `weights` times, (N, R)."""
    size = _sizes(scores, weights)
    ranks = np.cumsum(size, axis=0)
    ranks -= (size + ranks[-1]) / 2
    centred: FloatArray = ranks[scores.group]
    weighted = centred * weights
    return Ranks(centred, weighted, np.sqrt(_dot(weighted, centred)))


def auc(ranks: Ranks, positive: BoolArray, weights: FloatArray) -> FloatArray:
    """The share of pairs, one positive and one not, in which the positive ranks higher; ties count half (Section B.2).

    Parameters
    ----------
    ranks : Ranks
        Of the scores, with these weights.
    positive : (N,)
    weights : (N, R)

    Returns
    -------
    (R,)
        NaN where one side is empty.
    """
    side = positive.astype(np.float64)
    return 0.5 + ratio(side @ ranks.weighted, (side @ weights) * ((1 - side) @ weights))


def spearman(x: Ranks, y: Ranks) -> FloatArray:
    """Spearman's correlation of two scores ranked with the same weights; NaN where one ties everything."""
    return ratio(_dot(x.weighted, y.centred), x.norm * y.norm)


def shuffled_spearman(x: Ranks, y: Ranks, starts: IntArray, weights: FloatArray) -> FloatArray:
    """The expected Spearman's correlation when the scores x are shuffled within each query: the floor of Section E.4.

    Parameters
    ----------
    x, y : Ranks
        The documents of a query stand together.
    starts : (Q,)
        Where each query starts.
    weights : (N, R)
        Equal within a query.
    """
    of_x, of_y, size = (np.add.reduceat(values, starts, axis=0) for values in (x.weighted, y.weighted, weights))
    within = np.divide(of_x * of_y, size, out=np.zeros_like(size), where=size > 0)
    return ratio(np.sum(within, axis=0), x.norm * y.norm)


def in_grade_order(values: FloatArray, grades: FloatArray, queries: IntArray) -> IntArray:
    """Each document's source when a query's scores are dealt out in the order of its grades: indices, shape (N,).

    ``values[found]`` are the scores of the ceiling of Section E.4. Who gets which score among equal grades changes no
    correlation with the grades.
    """
    found = np.empty(len(values), dtype=np.intp)
    found[np.lexsort((grades, queries))] = np.lexsort((values, queries))
    return found


def concordance_counts(values: FloatArray, grades: FloatArray, starts: IntArray) -> FloatArray:
    """Per query: pairs of differently graded documents, those that the score orders alike, those that it ties.

    Parameters
    ----------
    values, grades : (N,)
        The documents of a query stand together.
    starts : (Q,)
        Where each query starts.

    Returns
    -------
    (3, Q)
    """
    ends = np.append(starts[1:], len(values))
    found = np.zeros((3, len(starts)))
    for query, (start, end) in enumerate(zip(starts, ends, strict=True)):
        score, grade = values[start:end], grades[start:end]
        higher = grade[:, None] > grade
        above, same = score[:, None] > score, score[:, None] == score
        found[:, query] = higher.sum(), (higher & above).sum(), (higher & same).sum()
    return found


def concordance(counts: FloatArray) -> FloatArray:
    """The share of pairs ordered alike, of `concordance_counts` added up over queries; score ties count half."""
    pairs, alike, tied = counts
    return ratio(alike + tied / 2, pairs)


def calibration_counts(
    predicted: FloatArray, happened: BoolArray, codes: IntArray, queries: int, bins: int
) -> FloatArray:
    """Per query and equal bin of the probability: observations, their predicted sum, how many happened.

    A bin holds its lower bound, the last one both.

    Parameters
    ----------
    predicted, happened, codes : (M,)
        Probability, outcome and query code of each observation.

    Returns
    -------
    (3 * bins, queries)
        All observations, then all predicted sums, then all that happened.
    """
    cell = codes * bins + np.minimum((predicted * bins).astype(np.intp), bins - 1)
    parts = [
        np.bincount(cell, weights=value, minlength=queries * bins).reshape(queries, bins)
        for value in (np.ones(len(cell)), predicted, happened.astype(np.float64))
    ]
    return np.concatenate(parts, axis=1).T


def calibration_error(counts: FloatArray) -> FloatArray:
    """The expected calibration error, of `calibration_counts` added up over queries (Section B.2).

    The mean over observations of the gap, in their bin, between mean probability and share that happened.
    """
    size, predicted, happened = np.split(counts, 3)
    return ratio(np.abs(predicted - happened).sum(axis=0), size.sum(axis=0))


def chance_error(counts: FloatArray) -> tuple[float, float]:
    """What chance alone makes of the calibration error where the probabilities are right, and its standard deviation.

    Each bin's chance is estimated from how far its queries are off, so that observations of one query may depend on
    each other in any way.

    Parameters
    ----------
    counts : (3 * bins, queries)
        As `calibration_counts` gives them.
    """
    size, predicted, happened = np.split(counts, 3)
    variance = np.sum((predicted - happened) ** 2, axis=1)
    total = float(size.sum())
    mean = float(np.sqrt(variance).sum() * np.sqrt(2 / np.pi)) / total
    return mean, float(np.sqrt(variance.sum() * (1 - 2 / np.pi))) / total


def top_shares(scores: Ties, budget: FloatArray, weights: FloatArray) -> FloatArray:
    """How much of each document is flagged when the `budget` highest are: from 0 to 1, shape (N, R).

    Documents that tie at the cut share what is left of the budget.

    Parameters
    ----------
    scores : Ties
    budget : (R,)
        In documents, of which one counts `weights` times.
    weights : (N, R)
    """
    size = _sizes(scores, weights)
    total = np.cumsum(size, axis=0)
    left = budget - (total[-1] - total)
    share: FloatArray = np.divide(np.clip(left, 0.0, size), size, out=np.zeros_like(size), where=size > 0)
    return share[scores.group]


def ratio(above: ArrayLike, below: ArrayLike) -> FloatArray:
    """above / below; NaN where there is nothing below."""
    numbers = np.asarray(below, dtype=np.float64)
    return np.divide(
        np.asarray(above, dtype=np.float64), numbers, out=np.full(numbers.shape, np.nan), where=numbers > 0
    )


def _sizes(scores: Ties, weights: FloatArray) -> FloatArray:
    """What the documents of each tie group weigh together."""
    ordered: FloatArray = weights[scores.order]
    return ordered if len(scores.starts) == len(scores.order) else np.add.reduceat(ordered, scores.starts, axis=0)


def _dot(x: FloatArray, y: FloatArray) -> FloatArray:
    return np.asarray(np.einsum("ir,ir->r", x, y))
