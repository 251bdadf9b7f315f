"""How reliably annotators grade: statistics of the grades of documents, on arrays (Section B.2).

Most come in two steps: sums of each document, which add up over documents, and the statistic of what was added up; so a
bootstrap adds up the sums of the queries that it draws. Statistics without a value are NaN.

Grades have shape (M,), with the code (from 0) of each one's document; who gave a grade does not matter.
"""

from __future__ import annotations

from typing import NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rcp_irx.analysis.association import ratio

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.intp]


class Icc(NamedTuple):
    """One-way random intraclass correlations: of single grades, of means of `k` grades; each of shape (...)."""

    single: FloatArray
    mean: FloatArray
    k: FloatArray


class Chance(NamedTuple):
    """Agreement corrected for chance: observed, Gwet's AC1 (with weights AC2), Fleiss' kappa; each of shape (...)."""

    observed: FloatArray
    ac: FloatArray
    kappa: FloatArray


def spread_sums(grades: FloatArray, documents: IntArray) -> FloatArray:
    """Per document what `icc` and `alpha` are made of; documents with one grade have zeros.

    Returns
    -------
    (7, N)
        Documents, grades, grades squared, sum of the grades, sum of mean times sum, squares within, squares within over
        grades less one, times grades. Grades are less their overall mean, which changes neither statistic.
    """
    count = np.bincount(documents).astype(np.float64)
    values = grades - grades.mean()
    total = np.bincount(documents, weights=values)
    mean = ratio(total, count)
    within = np.bincount(documents, weights=(values - mean[documents]) ** 2)
    sums = np.stack([np.ones_like(count), count, count**2, total, mean * total, within, within])
    sums[:, count < 2] = 0.0
    sums[6] *= np.divide(count, count - 1, out=np.zeros_like(count), where=count > 1)
    return sums


def icc(sums: FloatArray) -> Icc:
    """ICC(1,1) and ICC(1,k) of Shrout and Fleiss (1979), of `spread_sums` added up, (7, ...).

    The documents' panels may differ in size; k is then the analysis of variance's mean size, a little below the plain
    one. Both may be negative: annotators differ more on a document than documents do.
    """
    documents, grades, squares, total, between, within, _ = sums
    free = ratio(np.ones_like(documents), documents - 1)
    k = (grades - ratio(squares, grades)) * free
    among = _beyond_rounding(between - ratio(total**2, grades), between) * free
    error = ratio(within, grades - documents)
    return Icc(ratio(among - error, among + (k - 1) * error), ratio(among - error, among), k)


def alpha(sums: FloatArray) -> FloatArray:
    """Krippendorff's alpha with the interval metric, of `spread_sums` added up, (7, ...)."""
    _, grades, _, total, between, within, disagreement = sums
    overall = _beyond_rounding(between + within - ratio(total**2, grades), between)
    found: FloatArray = 1 - ratio((grades - 1) * disagreement, grades * overall)
    return found


def category_counts(grades: FloatArray, documents: IntArray, scale: FloatArray, number: int) -> FloatArray:
    """How many annotators gave each of a number of documents each grade of the (ascending) scale: shape (N, V)."""
    cell = documents * len(scale) + np.searchsorted(scale, grades)
    return np.bincount(cell, minlength=number * len(scale)).astype(np.float64).reshape(number, len(scale))


def chance_sums(counts: FloatArray, weights: FloatArray) -> FloatArray:
    """Per document what `chance_corrected` is made of, from `category_counts`.

    Parameters
    ----------
    counts : (N, V)
    weights : (V, V)
        How far two grades agree, from 0 to 1; the identity matrix for exact agreement.

    Returns
    -------
    (V + 3, N)
        Agreement, documents with two grades or more, documents, the shares of the grades. As Gwet (2014) has it, a
        document with one grade counts for how common grades are, and not for agreement.
    """
    size = counts.sum(axis=1)
    pairs: FloatArray = size * (size - 1)
    agreed = ratio(np.sum(counts * (counts @ weights - 1), axis=1), pairs)
    several = (pairs > 0).astype(np.float64)
    shares = counts / np.maximum(size, 1)[:, None]
    return np.vstack([np.where(pairs > 0, agreed, 0.0), several, size > 0, shares.T])


def chance_corrected(sums: FloatArray, weights: FloatArray) -> Chance:
    """Gwet's AC1 or AC2 (2008, 2014) and Fleiss' kappa (1971), of `chance_sums` added up, (V + 3, ...).

    Documents may have different numbers of grades, which is Gwet's form of Fleiss' kappa; with equal numbers and
    without weights it is Fleiss'.
    """
    observed = ratio(sums[0], sums[1])
    shares = sums[3:] / sums[2]
    grades = len(weights)
    by_chance = weights.sum() / (grades * (grades - 1)) * np.sum(shares * (1 - shares), axis=0)
    by_shares = np.sum((weights @ shares) * shares, axis=0)
    return Chance(observed, ratio(observed - by_chance, 1 - by_chance), ratio(observed - by_shares, 1 - by_shares))


def quadratic_weights(scale: FloatArray) -> FloatArray:
    """How far two grades agree: one less their squared distance over the scale's, (V,) to (V, V)."""
    weights: FloatArray = 1 - (np.subtract.outer(scale, scale) / (scale[-1] - scale[0])) ** 2
    return weights


def half_panels(grades: FloatArray, documents: IntArray, random: np.random.Generator) -> tuple[FloatArray, FloatArray]:
    """The mean grades of two random half panels of each document; shapes (N,).

    Both halves hold half of the document's annotators, rounded down: of an odd number one sits out. NaN for a document
    with one grade.
    """
    count = np.bincount(documents)
    order = np.lexsort((random.random(len(grades)), documents))
    place = np.arange(len(grades)) - (np.cumsum(count) - count)[documents[order]]
    size = count // 2
    half = size[documents[order]]
    first, second = (
        ratio(np.bincount(documents[order], weights=grades[order] * chosen), size).round(12)
        for chosen in (place < half, (place >= half) & (place < 2 * half))
    )
    return first, second


def spearman_brown(correlation: FloatArray, factor: float) -> FloatArray:
    """The reliability of a panel `factor` times as large, from a panel's."""
    stepped: FloatArray = factor * correlation / (1 + (factor - 1) * correlation)
    return stepped


def _beyond_rounding(difference: FloatArray, size: FloatArray) -> FloatArray:
    """The difference of sums of this size, 0 where it is rounding: grades that are all alike have no spread."""
    return np.where(np.abs(difference) <= 1e-12 * size, 0.0, difference)
