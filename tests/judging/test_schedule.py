"""Random, stratified and adaptive windows."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rcp_irx.judging.schedule import (
    adaptive_windows,
    boundary_values,
    order_of,
    random_source,
    random_windows,
    stratified_windows,
)

pytestmark = pytest.mark.quick


def source(n=150):
    return random_source(42, "", "q", [f"d{i:03d}" for i in range(n)])


@given(st.integers(1, 200), st.integers(1, 60))
def test_random_exposure_differs_by_at_most_one(n, count):
    size = min(10, n)
    windows = random_windows(n, size, count, "p", source(n))
    shown = Counter(document for window in windows for document in window)
    exposure = [shown[i] for i in range(n)]
    assert len(windows) == count
    assert all(len(set(window)) == size for window in windows)
    assert max(exposure) - min(exposure) <= 1


def test_random_windows_depend_on_query_pool_and_phase_alone():
    first = random_windows(30, 10, 5, "p", source(30))
    assert first == random_windows(30, 10, 5, "p", source(30))
    assert first != random_windows(30, 10, 5, "other", source(30))
    assert first != random_windows(30, 10, 5, "p", random_source(42, "", "q2", [f"d{i:03d}" for i in range(30)]))
    shuffled = random_source(42, "", "q", [f"d{i:03d}" for i in reversed(range(30))])
    assert first == random_windows(30, 10, 5, "p", shuffled)


def test_more_windows_keep_the_first_ones():
    few = random_windows(50, 10, 5, "p", source(50))
    assert random_windows(50, 10, 9, "p", source(50))[:5] == few
    assert random_windows(50, 10, 9, "p", source(50), planned=few) == random_windows(50, 10, 9, "p", source(50))


def test_stratified_windows_are_runs_of_neighbours_shown_shuffled():
    order = list(np.random.default_rng(0).permutation(150))
    windows = stratified_windows(order, 10, 27, "p", source())
    ranks = {document: rank for rank, document in enumerate(order)}
    shuffled = 0
    for window in windows:
        places = [ranks[document] for document in window]
        assert sorted(places) == list(range(min(places), min(places) + 10))
        shuffled += places != sorted(places)
    assert shuffled >= 26  # a shuffle of ten leaves the order as it was once in 3.6 million


@given(st.integers(2, 150), st.integers(0, 30))
def test_stratified_windows_take_the_least_covered_run_first(n, seed):
    size = min(10, n)
    order = list(range(n))
    count = round(27 * max(n, 10) / 150)
    windows = stratified_windows(order, size, count, f"p{seed}", source(n))
    covered = np.zeros(n, dtype=int)
    for window in windows:
        runs = np.convolve(covered, np.ones(size, dtype=int), mode="valid")
        assert covered[list(window)].sum() == runs.min()
        covered[list(window)] += 1


def test_boundary_values_are_equation_6():
    theta = np.array([2.0, 1.0, 1.0])
    p = 1 / (1 + np.exp(-1.0))
    expected = [p * (1 - p) / np.log2(2) / (1 + 3), 0.25 / np.log2(3) / (1 + 0)]
    np.testing.assert_allclose(boundary_values(theta, np.array([3, 0])), expected, rtol=1e-14)


def test_adaptive_batch_equals_the_greedy_rule_written_out():
    generator = np.random.default_rng(1)
    theta = generator.standard_normal(40)
    together = generator.integers(0, 4, (40, 40))
    together = together + together.T
    order = order_of(theta)
    values = boundary_values(theta[order], together[order[:-1], order[1:]])
    expected = []
    for _ in range(5):
        sums = [values[s : s + 9].sum() if s not in expected else -1 for s in range(31)]
        start = int(np.argmax(sums))
        expected.append(start)
        values[start : start + 9] *= 0.3
    windows = adaptive_windows(order, theta, together, 10, 5)
    assert windows == [tuple(order[s : s + 10]) for s in expected]
    assert len(set(windows)) == 5


def test_adaptive_windows_stay_within_the_depth_and_are_distinct():
    theta = -np.arange(200.0) / 50
    windows = adaptive_windows(order_of(theta), theta, np.zeros((200, 200), dtype=int), 10, 200, depth=150)
    assert len(windows) == 141  # every start from 0 to 140, each once
    assert max(max(window) for window in windows) == 149


def test_adaptive_windows_turn_from_pairs_that_were_compared_often():
    theta = np.zeros(20)
    together = np.zeros((20, 20), dtype=int)
    together[:10, :10] = 50
    assert adaptive_windows(order_of(theta), theta, together, 10, 1)[0][0] > 0


def test_equal_scores_keep_the_order_of_ids_even_when_they_differ_in_the_last_bit():
    assert order_of(np.array([1.0, 1.0 + 1e-13, 2.0, 1.0])) == [2, 0, 1, 3]
