"""Parts of a log's windows: reversals stay with their windows, halves share none, small parts show every document."""

from __future__ import annotations

import numpy as np
import pytest

from rcp_irx import FULL, REDUCED, Document, JudgmentLog, Query, Rubric, SimulatedJudge
from rcp_irx.analysis.subsamples import halves, judgments, part, reversals, rubric_of, units
from rcp_irx.documents import Pool
from rcp_irx.judging.runner import PoolRunner

pytestmark = pytest.mark.quick

RUBRIC = Rubric.load()


def judged(n, protocol=FULL):
    pool = Pool(Query("q", "why"), tuple(Document(f"d{i:03d}", f"text {i}") for i in range(n)))
    generator = np.random.default_rng(n)
    judge = SimulatedJudge(
        {("", "q", d.id): float(generator.normal()) for d in pool.documents}, [1.0] * 5, [-2, -1, 0, 1, 2]
    )
    log = JudgmentLog()
    PoolRunner(pool, judge, RUBRIC, protocol, log).run()
    return log.judged()[0], log


def test_reversed_windows_are_found_by_their_documents():
    windows = [(("a", "b", "c"), 0), (("c", "b", "a"), 1), (("a", "b"), 2), (("b", "a"), 3), (("a", "b"), 4)]
    windows += [(("a",), 5), (("a",), 6), (("b", "c"), 7)]
    assert sorted(reversals(windows)) == [(0, 1), (2, 3)]
    assert sorted(units(windows)) == [[0, 1], [2, 3], [4], [5], [6], [7]]


@pytest.mark.parametrize("n", [12, 40])
def test_every_reversed_window_of_a_log_is_paired(n):
    one, log = judged(n)
    frame = log.windows()
    found = {frozenset((one.tournament[i][0], one.tournament[j][0])) for i, j in reversals(one.tournament)}
    expected = {frozenset((tuple(shown), tuple(shown[::-1]))) for shown in frame.loc[frame["reversed"], "docnos"]}
    assert expected <= found
    assert reversals(judged(n, REDUCED)[0].tournament) == [] or n == 12


def test_halves_share_no_window_and_leave_none():
    one, _ = judged(40)
    first, second = halves(one, np.random.default_rng(1))
    for stage in ("tournament", "rubric"):
        whole = sorted(getattr(one, stage))
        assert sorted(getattr(first, stage) + getattr(second, stage)) == whole
        sizes = [len(units(getattr(half, stage))) for half in (first, second)]
        assert abs(sizes[0] - sizes[1]) <= 1
    in_first = {shown for shown, _ in first.tournament}
    assert {shown[::-1] for shown in in_first}.isdisjoint({shown for shown, _ in second.tournament})


def test_a_stage_of_one_window_cannot_be_halved():
    one, _ = judged(10)
    one.rubric = one.rubric[:1]
    assert halves(one, np.random.default_rng(1)) is None
    alone, _ = judged(1)
    assert halves(alone, np.random.default_rng(1)) is not None  # a pool of one has no tournament to halve


@pytest.mark.parametrize("share", [1.0, 0.5, 1 / 3, 0.02])
def test_a_part_holds_its_share_and_shows_every_document(share):
    one, _ = judged(60)
    less = part(one, share, np.random.default_rng(3))
    for stage in ("tournament", "rubric"):
        whole, kept = getattr(one, stage), getattr(less, stage)
        assert set(kept) <= set(whole)
        assert {docno for shown, _ in kept for docno in shown} == {d.id for d in one.pool.documents}
        held, drawn = len(units(kept)), max(1, round(share * len(units(whole))))
        assert held >= drawn
        if share >= 0.5:
            assert held <= drawn + 6
    assert less.planned == len(less.tournament) + len(less.rubric)
    assert (judgments(less) == judgments(one)) == (share == 1.0)


def test_the_same_state_gives_the_same_part_and_another_gives_another():
    one, _ = judged(40)
    first, again, other = (part(one, 0.5, np.random.default_rng(seed)) for seed in (1, 1, 2))
    assert first.tournament == again.tournament
    assert first.tournament != other.tournament


def test_the_rubric_comes_back_from_the_table():
    _, log = judged(12)
    assert rubric_of(log.calibrate()) == RUBRIC
