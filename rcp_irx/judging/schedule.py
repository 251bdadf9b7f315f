"""Which documents each window holds: random, stratified and adaptive windows (C.2).

Pure functions of what is known so far.

Documents are indices into the pool sorted by docno, so that the order of rows never matters. Random choices use one
generator
per window, seeded by its place, so that a window does not depend on how many were drawn before it in this process.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Sequence

import numpy as np

Window = tuple[int, ...]
Source = Callable[[str, int], random.Random]
"""Gives the random generator of a window: (phase, index) -> generator."""


def random_source(seed: int, dataset: str, qid: str, docnos: Sequence[str]) -> Source:
    """Generators seeded by a hash of the seed, the query and its sorted pool, and a window's place.

    Python's generator is used, whose `random()` is the same in every version and on every machine.
    """
    pool = hashlib.sha256(json.dumps([seed, dataset, qid, sorted(docnos)]).encode()).hexdigest()

    def source(phase: str, index: int) -> random.Random:
        return random.Random(int.from_bytes(hashlib.sha256(f"{pool}/{phase}/{index}".encode()).digest(), "big"))

    return source


def random_windows(
    n_documents: int, size: int, count: int, phase: str, source: Source, planned: Sequence[Window] = ()
) -> list[Window]:
    """`count` windows in all, of the documents shown least so far, ties at random; each is shuffled.

    Exposure differs by at most one document to document. Windows already `planned` are kept and counted.
    """
    windows = list(planned[:count])
    shown = np.zeros(n_documents, dtype=int)
    for window in windows:
        shown[list(window)] += 1
    for index in range(len(windows), count):
        generator = source(phase, index)
        least = sorted(range(n_documents), key=lambda i: (shown[i], generator.random()))[:size]
        shown[least] += 1
        windows.append(_shuffled(least, generator))
    return windows


def stratified_windows(
    order: Sequence[int], size: int, count: int, phase: str, source: Source, planned: Sequence[Window] = ()
) -> list[Window]:
    """`count` windows in all, of runs of neighbours in a provisional order, the least covered first; each is shuffled.

    Ties between runs are broken at random. Windows already `planned` are kept and counted as covered.
    """
    windows = list(planned[:count])
    place = {document: rank for rank, document in enumerate(order)}
    covered = np.zeros(len(order), dtype=int)
    for window in windows:
        covered[[place[document] for document in window]] += 1
    for index in range(len(windows), count):
        generator = source(phase, index)
        sums = np.convolve(covered, np.ones(size, dtype=int), mode="valid")
        starts = np.flatnonzero(sums == sums.min())
        start = int(starts[int(generator.random() * len(starts))])
        covered[start : start + size] += 1
        windows.append(_shuffled(order[start : start + size], generator))
    return windows


def adaptive_windows(
    order: Sequence[int],
    theta: np.ndarray,
    together: np.ndarray,
    size: int,
    count: int,
    *,
    depth: int = 150,
    discount: float = 0.3,
    planned: Sequence[Window] = (),
) -> list[Window]:
    """One batch of distinct windows of consecutive documents, greedily by the boundaries they cover (Eq. 6).

    Parameters
    ----------
    order : sequence of int
        The current order, best first. Windows are shown in it.
    theta : ndarray, shape (documents,)
        Bradley-Terry scores (logit) of the documents.
    together : ndarray, shape (documents, documents)
        How many windows have held both documents.
    planned : sequence of windows
        Windows that the batch holds already.
    """
    ranked = np.asarray(order[:depth], dtype=int)
    values = boundary_values(theta[ranked], together[ranked[:-1], ranked[1:]])
    windows = list(planned[:count])
    for window in windows:
        held = np.isin(ranked, window)
        values[held[:-1] & held[1:]] *= discount
    taken = np.zeros(len(ranked) - size + 1, dtype=bool)
    while len(windows) < count and not taken.all():
        sums = np.convolve(values, np.ones(size - 1), mode="valid")
        start = int(np.argmax(np.where(taken, -np.inf, np.round(sums, 12))))
        taken[start] = True
        values[start : start + size - 1] *= discount
        window = tuple(int(i) for i in ranked[start : start + size])
        if window not in windows:
            windows.append(window)
    return windows


def growth_windows(
    new: Sequence[int],
    order: Sequence[int],
    size: int,
    placements: int,
    phase: str,
    source: Source,
    planned: Sequence[Window] = (),
) -> list[Window]:
    """Windows that place documents which joined a pool: each new one `placements` times, on average or more.

    Half of a window's places, at most, are for new documents, those shown least so far; the others are opponents,
    one from each of as many equal parts of the present order, again those shown least. Each window is shuffled.

    Parameters
    ----------
    new, order : sequence of int
        The new documents, and the others from best to last.
    planned : sequence of windows
        Windows of this phase that are there already.
    """
    fresh, count = growth_shape(len(new), len(order), size, placements)
    parts = np.array_split(np.asarray(order, dtype=int), max(1, min(size - fresh, len(order))))
    windows = list(planned)
    shown = np.zeros(len(new) + len(order), dtype=int)
    for window in windows:
        shown[list(window)] += 1
    for index in range(len(windows), count):
        generator = source(phase, index)
        held = sorted(new, key=lambda i: (shown[i], generator.random()))[:fresh]
        held += [min(part.tolist(), key=lambda i: (shown[i], generator.random())) for part in parts if len(part)]
        shown[held] += 1
        windows.append(_shuffled(held, generator))
    return windows


def growth_shape(new: int, known: int, size: int, placements: int) -> tuple[int, int]:
    """How many new documents each window of a growth holds, and how many windows place each of them often enough."""
    fresh = min(new, max(1, size // 2, size - known))
    return fresh, -(-placements * new // fresh)


def boundary_values(theta: np.ndarray, together: np.ndarray) -> np.ndarray:
    """Eq. 6: p (1 - p) / log2(r + 1) / (1 + n_r) of each boundary between ranks r and r + 1.

    Parameters
    ----------
    theta : ndarray, shape (K,)
        Scores (logit) in the current order.
    together : ndarray, shape (K - 1,)
        n_r, the windows that have held both documents of the boundary.
    """
    p = 1.0 / (1.0 + np.exp(-np.clip(theta[:-1] - theta[1:], -500, 500)))
    rank = np.arange(1, len(theta))
    return p * (1.0 - p) / np.log2(rank + 1.0) / (1.0 + together)


def order_of(scores: np.ndarray) -> list[int]:
    """Documents from highest score to lowest, ties in index order; scores equal to 1e-9 tie on every machine."""
    return [int(i) for i in np.argsort(-np.round(scores, 9), kind="stable")]


def _shuffled(window: Sequence[int], generator: random.Random) -> Window:
    return tuple(int(i) for i in sorted(window, key=lambda _: generator.random()))
