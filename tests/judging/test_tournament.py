"""One query's rounds: counts of windows, what a round may depend on, and windows that were planned before."""

from __future__ import annotations

import numpy as np
import pytest

from rcp_irx import FULL, REDUCED, Document, Query
from rcp_irx.documents import Pool
from rcp_irx.judging.tournament import Tournament


def pool(n, reverse=False):
    documents = [Document(f"d{i:03d}", "text") for i in range(n)]
    return Pool(Query("q", "why"), tuple(documents[::-1] if reverse else documents))


def play(tournament, fail=lambda place: False):
    """All windows of a run whose judge scores documents by their place in the alphabet."""
    asked = []
    for places in tournament.rounds():
        for place in places:
            shown = np.array(place.documents)
            scores = 4.0 - 8.0 * shown / len(tournament.documents)
            if place.stage == "rubric":
                answer = [[score > c for c in (-3, -1, 1)] for score in scores]
            else:
                answer = scores.tolist()
            tournament.record(place, None if fail(place) else answer)
            asked.append(place)
    return asked


def planned(asked):
    windows = {}
    for place in asked:
        if not place.reversed:
            windows.setdefault((place.stage, place.phase), []).append(place.documents)
    return windows


@pytest.mark.parametrize("n", [1, 2, 5, 10, 11, 20, 60, 150])
def test_a_run_asks_the_windows_that_the_protocol_counts(n):
    asked = play(Tournament(pool(n), FULL, 3))
    counts = FULL.counts(n)
    assert sum(place.stage == "tournament" for place in asked) == counts.tournament
    assert sum(place.stage == "rubric" for place in asked) == counts.rubric
    assert all(len(set(place.documents)) == min(10, n) for place in asked)


def test_random_and_stratified_windows_are_shown_again_reversed_and_others_are_not():
    asked = play(Tournament(pool(30), FULL, 3))
    forward = {(p.phase, p.index): p.documents for p in asked if p.stage == "tournament" and not p.reversed}
    backward = {(p.phase, p.index): p.documents for p in asked if p.reversed}
    assert backward == {key: w[::-1] for key, w in forward.items() if key[0] in ("random", "stratified")}
    assert not any(p.reversed for p in asked if p.stage == "rubric")
    assert not any(p.reversed for p in play(Tournament(pool(30), REDUCED, 3)))


def test_the_order_of_the_pool_does_not_matter():
    assert play(Tournament(pool(30), FULL, 3)) == play(Tournament(pool(30, reverse=True), FULL, 3))


def test_stratified_and_adaptive_windows_follow_the_answers():
    asked = play(Tournament(pool(60), FULL, 3))
    stratified = [sorted(p.documents) for p in asked if p.phase == "stratified" and p.stage == "tournament"]
    # the judge's order is the order of ids: runs of ten near neighbours, where random windows span about 50
    assert all(window[-1] - window[0] < 25 for window in stratified)
    adaptive = [p.documents for p in asked if p.phase.startswith("adaptive")]
    assert all(list(window) == sorted(window) for window in adaptive)


def test_planned_windows_keep_their_place_and_a_larger_protocol_adds_to_them():
    few = play(Tournament(pool(40), FULL.scaled(0.5), 3))
    many = play(Tournament(pool(40), FULL, 3, planned(few)))
    extra = FULL.counts(40).tournament - FULL.scaled(0.5).counts(40).tournament
    before = [p.documents for p in few if p.stage == "tournament"]
    after = [p.documents for p in many if p.stage == "tournament"]
    assert len(after) - len(before) == extra
    for window in set(before):
        assert after.count(window) >= before.count(window)


def test_a_window_that_fails_first_and_is_answered_later_moves_no_other_window():
    first = play(Tournament(pool(40), FULL, 3), fail=lambda p: p.phase == "random" and p.index == 0)
    assert play(Tournament(pool(40), FULL, 3, planned(first))) == first


def test_failed_windows_count_for_nothing():
    tournament = Tournament(pool(20), FULL, 3)
    assert len(play(tournament, fail=lambda place: True)) == 29 + 13
