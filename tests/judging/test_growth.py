"""Pools that grow: what is asked, and how well the new documents are placed."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from rcp_irx import FULL, REDUCED, Document, JudgmentLog, Query, Rubric, SimulatedJudge, TournamentAnswer
from rcp_irx.documents import Pool
from rcp_irx.judging import schedule
from rcp_irx.judging.runner import PoolRunner, remaining
from tests.judging.test_runner import Counting

pytestmark = pytest.mark.quick

RUBRIC = Rubric.load()
GAMMA, BETA = [1.17, 1.05, 0.94, 1.16, 0.68], [-2.57, -2.0, -0.25, 0.71, 4.11]


def pool(numbers, qid="q"):
    return Pool(Query(qid, "why"), tuple(Document(f"d{i:03d}", f"text {i} of {qid}") for i in numbers))


def judged(log, judge, of, protocol=FULL, rubric=RUBRIC):
    PoolRunner(of, judge, rubric, protocol, log).run()


class Texts(Counting):
    """Scores by a number in the text; keeps what it was shown."""

    def __init__(self):
        super().__init__()
        self.shown = []

    def tournament(self, query, documents):
        self.shown.append(("tournament", [d.id for d in documents]))
        self._call("tournament")
        return TournamentAnswer([int(d.text.split()[1]) % 7 - 3.0 for d in documents])

    def rubric(self, query, documents, rubric):
        self.shown.append(("rubric", [d.id for d in documents]))
        return super().rubric(query, documents, rubric)


def test_only_windows_for_the_new_documents_are_asked_among_opponents_from_the_whole_order():
    log, judge = JudgmentLog(), Texts()
    judged(log, judge, pool(range(100)))
    assert judge.calls == {"tournament": 141, "rubric": 67}
    judge.shown.clear()
    judged(log, judge, pool(range(120)))
    new = {f"d{i:03d}" for i in range(100, 120)}
    for stage, least, most in [("tournament", 14, 15), ("rubric", 4, 4)]:
        windows = [docnos for of, docnos in judge.shown if of == stage]
        assert all(len(new & set(window)) == 5 for window in windows)
        placed = pd.Series([docno for window in windows for docno in window]).value_counts()
        assert placed[sorted(new)].between(least, most).all()
        assert len(windows) == -(-least * 20 // 5)
    opponents = pd.Series([d for of, docnos in judge.shown if of == "tournament" for d in docnos if d not in new])
    assert opponents.nunique() == 100  # from all of the order
    assert opponents.value_counts().max() <= 4


def test_a_grown_pool_is_judged_to_the_end_and_asks_nothing_again():
    log, judge = JudgmentLog(), Texts()
    judged(log, judge, pool(range(60)))
    judged(log, judge, pool(range(70)))
    calls = dict(judge.calls)
    judged(log, judge, pool(range(70)))
    judged(log, judge, pool(reversed(range(70))))
    assert judge.calls == calls
    table = log.calibrate()
    assert len(table) == 70
    assert table.queries["planned"][0] == sum(calls.values())
    assert table.documents["n"].min() >= 4


def test_a_pool_may_grow_again_and_again():
    log, judge = JudgmentLog(), Texts()
    for n in (40, 50, 55, 80):
        judged(log, judge, pool(range(n)))
    again = dict(judge.calls)
    judged(log, judge, pool(range(80)))
    assert judge.calls == again
    assert len(log.calibrate()) == 80
    whole = Texts()
    judged(JudgmentLog(), whole, pool(range(80)))
    assert sum(again.values()) < 3 * sum(whole.calls.values())


def test_a_stopped_growth_goes_on_where_it_was():
    log, judge = JudgmentLog(), Texts()
    judged(log, judge, pool(range(30)))
    before = sum(judge.calls.values())
    judge.fail = lambda call: KeyboardInterrupt() if call == before + 10 else None
    with pytest.raises(KeyboardInterrupt):
        judged(log, judge, pool(range(36)))
    judge.fail = lambda call: None
    judged(log, judge, pool(range(36)))
    once = Texts()
    other = JudgmentLog()
    judged(other, once, pool(range(30)))
    judged(other, once, pool(range(36)))
    assert sum(judge.calls.values()) == sum(once.calls.values()) + 1  # the call that was stopped
    pd.testing.assert_frame_equal(log.calibrate().documents, other.calibrate().documents)


def test_a_pool_that_more_than_doubles_is_judged_anew():
    log, judge = JudgmentLog(), Texts()
    judged(log, judge, pool(range(20)))
    judge.calls = {"tournament": 0, "rubric": 0}
    judged(log, judge, pool(range(60)))
    assert judge.calls == {"tournament": FULL.counts(60).tournament, "rubric": FULL.counts(60).rubric}


def test_another_rubric_after_a_growth_repeats_no_tournament_window():
    log, judge = JudgmentLog(), Texts()
    judged(log, judge, pool(range(40)))
    judged(log, judge, pool(range(50)))
    before = dict(judge.calls)
    judged(log, judge, pool(range(50)), rubric=Rubric(RUBRIC.criteria[:3]))
    assert judge.calls["tournament"] == before["tournament"]
    assert judge.calls["rubric"] == before["rubric"] + FULL.counts(50).rubric


def test_a_larger_protocol_after_a_growth_asks_the_missing_windows():
    log, judge = JudgmentLog(), Texts()
    small = FULL.scaled(0.5)
    judged(log, judge, pool(range(40)), small)
    judged(log, judge, pool(range(50)), small)
    before = sum(judge.calls.values())
    judged(log, judge, pool(range(50)), FULL)
    counts = FULL.counts(50)
    assert sum(judge.calls.values()) - before < 0.75 * (counts.tournament + counts.rubric)
    assert log.calibrate().documents["n"].min() >= 4


@pytest.mark.parametrize("protocol", [FULL, REDUCED], ids=["full", "reduced"])
def test_remaining_calls_are_known_before_they_are_made(protocol):
    log, judge = JudgmentLog(), Texts()
    sizes = [30, 30, 36, 36, 44]
    for n in sizes:
        expected = remaining(pool(range(n)), judge, RUBRIC, protocol, log)
        before = dict(judge.calls)
        judged(log, judge, pool(range(n)), protocol)
        assert (judge.calls["tournament"] - before["tournament"], judge.calls["rubric"] - before["rubric"]) == expected
    assert expected != (0, 0)


def test_asking_for_the_remaining_calls_leaves_the_log_as_it_was():
    log, judge = JudgmentLog(), Texts()
    judged(log, judge, pool(range(30)))
    before = log.calibrate()
    remaining(pool(range(40)), judge, RUBRIC, FULL, log)
    assert log.calibrate() == before


def test_growth_windows_of_a_few_known_documents_still_hold_them():
    windows = schedule.growth_windows([2, 3, 4], [1, 0], 10, 4, "p", schedule.random_source(42, "", "q", ["a"]))
    assert len(windows) == 4
    assert all(sorted(window) == [0, 1, 2, 3, 4] for window in windows)


def errors(new_share, seed):
    """Root mean square errors of the new documents' gains: after growth, and after judging the whole pool anew."""
    random = np.random.default_rng(seed)
    queries, n, old = 12, 60, round(60 * (1 - new_share))
    truth = {("", f"q{q}", f"d{i:03d}"): float(random.normal(-2, 2)) for q in range(queries) for i in range(n)}
    judge = SimulatedJudge(truth, GAMMA, BETA, noise=1.0, seed=seed)
    grown, anew = JudgmentLog(), JudgmentLog()
    for q in range(queries):
        numbers = random.permutation(n).tolist()
        judged(grown, judge, pool(numbers[:old], f"q{q}"))
        judged(grown, judge, pool(numbers, f"q{q}"))
        judged(anew, judge, pool(numbers, f"q{q}"))
        for i in numbers[:old]:
            truth.pop(("", f"q{q}", f"d{i:03d}"))
    found = []
    for log in (grown, anew):
        table = log.calibrate()
        gains = table.documents.set_index(["dataset", "qid", "docno"])["gain"]
        true = np.array(
            [np.average(expit(np.multiply(GAMMA, t - np.array(BETA))), weights=GAMMA) for t in truth.values()]
        )
        found.append(float(np.sqrt(np.mean((gains[list(truth)].to_numpy() - true) ** 2))))
    return found


@pytest.mark.parametrize("seed", [1, 2])
def test_new_documents_are_placed_nearly_as_well_as_by_judging_all_anew(seed):
    grown, anew = errors(1 / 6, seed)
    print(f"\nerror of new gains: grown {grown:.4f}, anew {anew:.4f}, ratio {grown / anew:.2f}")
    assert grown <= 1.5 * anew


def test_another_tables_criteria_are_kept_and_moved_gains_are_told():
    log, judge = JudgmentLog(), Texts()
    judged(log, judge, pool(range(30)))
    first = log.calibrate()
    assert "moved" not in first.metadata
    judged(log, judge, pool(range(36)))
    second = log.calibrate(criteria=first)
    pd.testing.assert_frame_equal(
        second.criteria[["id", "gamma", "beta"]], first.criteria[["id", "gamma", "beta"]], check_exact=True
    )
    moved = second.metadata["moved"]
    both = second.documents.merge(first.documents, on=["dataset", "qid", "docno"])
    size = (both["gain_x"] - both["gain_y"]).abs()
    assert moved["documents"] == 30
    assert moved["largest"] == size.max() > 0
    assert moved["mean"] == pytest.approx(size.mean())
    assert moved["farthest"] == ["", "q", both.loc[size.idxmax(), "docno"]]
