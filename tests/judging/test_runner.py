"""Asking pools: what is asked once, what is asked again, what a later run costs."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from rcp_irx import (
    FULL,
    Criterion,
    Document,
    Judge,
    JudgeFailure,
    JudgmentLog,
    Query,
    RCPError,
    Rubric,
    RubricAnswer,
    TournamentAnswer,
)
from rcp_irx.documents import Pool
from rcp_irx.judging.runner import PoolRunner

SMALL = FULL.scaled(0.2)
RUBRIC = Rubric.load()


class Counting(Judge):
    """Scores by length of text; counts its calls; fails where it is told to."""

    name = "counting"

    def __init__(self, fail=lambda call: None):
        self.calls = {"tournament": 0, "rubric": 0}
        self.fail = fail

    def _call(self, stage):
        self.calls[stage] += 1
        failure = self.fail(sum(self.calls.values()))
        if failure:
            raise failure

    def tournament(self, query, documents):
        self._call("tournament")
        return TournamentAnswer([len(d.text) / 10 for d in documents])

    def rubric(self, query, documents, rubric):
        self._call("rubric")
        return RubricAnswer({d.id: [len(d.text) > 5 * c for c in range(len(rubric))] for d in documents})


def pool(n=12, text="why", extra=""):
    return Pool(Query("q", text), tuple(Document(f"d{i:02d}", "x" * i + extra) for i in range(n)))


def run(log, judge, pool=pool(), rubric=RUBRIC, protocol=SMALL, **options):  # noqa: B008
    PoolRunner(pool, judge, rubric, protocol, log, **options).run()
    return judge.calls


def test_a_second_run_asks_nothing():
    log = JudgmentLog()
    counts = SMALL.counts(12)
    assert run(log, Counting()) == {"tournament": counts.tournament, "rubric": counts.rubric}
    assert run(log, Counting()) == {"tournament": 0, "rubric": 0}


@pytest.mark.parametrize("stop", [1, 5, 10, 16])
def test_a_stopped_run_goes_on_where_it_was(stop):
    log = JudgmentLog()
    with pytest.raises(KeyboardInterrupt):
        run(log, Counting(fail=lambda call: KeyboardInterrupt() if call == stop else None), pool(30))
    counts = SMALL.counts(30)
    assert sum(run(log, Counting(), pool(30)).values()) == counts.tournament + counts.rubric - (stop - 1)


def test_another_rubric_repeats_no_tournament_window():
    log = JudgmentLog()
    run(log, Counting())
    other = Rubric((Criterion("X", "X", "Is it long?"),))
    assert run(log, Counting(), rubric=other) == {"tournament": 0, "rubric": SMALL.counts(12).rubric}


def test_a_larger_protocol_asks_only_what_is_missing():
    log = JudgmentLog()
    run(log, Counting(), pool(40))
    small, full = SMALL.counts(40), FULL.counts(40)
    expected = {"tournament": full.tournament - small.tournament, "rubric": full.rubric - small.rubric}
    assert run(log, Counting(), pool(40), protocol=FULL) == expected


def test_another_judge_is_asked_everything():
    log = JudgmentLog()
    run(log, Counting())
    other = Counting()
    other.name = "another"
    counts = SMALL.counts(12)
    assert run(log, other) == {"tournament": counts.tournament, "rubric": counts.rubric}


def test_a_repeated_window_of_a_tiny_pool_is_asked_as_often_as_the_protocol_says():
    log = JudgmentLog()
    assert run(log, Counting(), pool(2), protocol=FULL) == {"tournament": 13, "rubric": 7}
    assert run(log, Counting(), pool(2), protocol=FULL) == {"tournament": 0, "rubric": 0}
    assert run(JudgmentLog(), Counting(), pool(1), protocol=FULL) == {"tournament": 0, "rubric": 7}


def test_a_failed_window_is_asked_three_times_and_then_stands():
    log = JudgmentLog()
    always = Counting(fail=lambda call: JudgeFailure("no_json", "prose"))
    counts = SMALL.counts(12)
    windows = counts.tournament + counts.rubric
    assert sum(run(log, always).values()) == 3 * windows
    assert sum(run(log, Counting()).values()) == 0
    (judged,) = log.judged()
    assert (judged.planned, judged.failed, judged.tournament, judged.rubric) == (windows, windows, [], [])
    assert sum(run(log, Counting(), retry_failed=True).values()) == windows
    (judged,) = log.judged()
    assert judged.failed == 0


def test_a_second_attempt_may_answer():
    log = JudgmentLog()
    run(log, Counting(fail=lambda call: JudgeFailure("truncated", "{") if call == 1 else None))
    failures = log.failures()
    assert failures[["failure", "raw", "answered"]].values.tolist() == [["truncated", "{", True]]
    assert log.judged()[0].failed == 0


def test_transport_failures_are_always_asked_again_and_refusals_only_on_request():
    log = JudgmentLog()
    numbers = itertools.count()

    def fail(call):
        return JudgeFailure("transport" if next(numbers) % 2 else "refused") if call <= 2 else None

    first = Counting(fail)
    run(log, first)  # call 1 refused (final); call 2 transport, repeated and answered
    assert sum(run(log, Counting()).values()) == 0
    assert sum(run(log, Counting(), retry_failed=True).values()) == 1
    log = JudgmentLog()
    run(log, Counting(fail=lambda call: JudgeFailure("transport") if call <= 3 else None))
    assert sum(run(log, Counting()).values()) == 1


def test_a_failure_that_is_mended_later_costs_one_call():
    log = JudgmentLog()
    run(log, Counting(fail=lambda call: JudgeFailure("no_json") if call <= 3 else None), pool(30))
    assert sum(run(log, Counting(), pool(30), retry_failed=True).values()) == 1


class Answering(Counting):
    """Gives one fixed answer, right or wrong."""

    def __init__(self, scores=None, passes=None):
        super().__init__()
        self.answers = scores, passes

    def tournament(self, query, documents):
        scores = self.answers[0]
        return super().tournament(query, documents) if scores is None else TournamentAnswer(scores(documents))

    def rubric(self, query, documents, rubric):
        passes = self.answers[1]
        return super().rubric(query, documents, rubric) if passes is None else RubricAnswer(passes(documents))


@pytest.mark.parametrize(
    ("scores", "message"),
    [
        (lambda ds: [1.0] * (len(ds) - 1), "query 'q': the judge gave 9 scores for 10 documents"),
        (lambda ds: [math.nan] * len(ds), "query 'q': the judge scored document 'd.*' with nan"),
        (lambda ds: [math.inf] * len(ds), "with inf; scores must be finite"),
        (lambda ds: [True] * len(ds), "with True, which is no number"),
        (lambda ds: ["3"] * len(ds), "with '3', which is no number"),
        (lambda ds: {d.id + "?": 1.0 for d in ds}, "not for the documents shown: none for 'd"),
    ],
)
def test_answers_that_no_judge_may_give_end_the_run(scores, message):
    log = JudgmentLog()
    with pytest.raises(RCPError, match=message):
        run(log, Answering(scores=scores))
    assert log.usage()["answered"].sum() == 0


@pytest.mark.parametrize(
    ("passes", "message"),
    [
        (lambda ds: [[True] * 4 for _ in ds], "answered 4 criteria for document 'd.*'; the rubric has 5"),
        (lambda ds: [["yes"] * 5 for _ in ds], "answered 'yes' for document 'd.*', not yes or no"),
    ],
)
def test_rubric_answers_of_the_wrong_kind_end_the_run(passes, message):
    with pytest.raises(RCPError, match=message):
        run(JudgmentLog(), Answering(passes=passes))


def test_a_series_of_scores_is_read_by_its_index():
    log, other = JudgmentLog(), JudgmentLog()
    run(log, Answering(scores=lambda ds: pd.Series({d.id: len(d.text) / 10 for d in ds}).sort_values(ascending=False)))
    run(other, Counting())
    assert log.judged()[0].tournament == other.judged()[0].tournament


@pytest.mark.parametrize("scores", [lambda ds: {1.0, 2.0}, lambda ds: 3.0, lambda ds: "scores"])
def test_scores_that_are_no_list_are_refused(scores):
    with pytest.raises(RCPError, match=r"query 'q': the judge's scores are .*; give a list in the order shown"):
        run(JudgmentLog(), Answering(scores=scores))


def test_half_an_emoji_in_a_raw_answer_costs_nothing():
    class Raw(Counting):
        def tournament(self, query, documents):
            return dataclasses.replace(super().tournament(query, documents), raw="cut \ud83d")

    log = JudgmentLog()
    run(log, Raw())
    assert sum(run(log, Counting()).values()) == 0


def test_a_ranking_alone_is_kept_as_a_failure():
    class Ranks(Counting):
        def tournament(self, query, documents):
            super().tournament(query, documents)
            return TournamentAnswer(None, ranking=[d.id for d in documents])

    log = JudgmentLog()
    run(log, Ranks())
    failures = log.failures()
    assert set(failures["failure"]) == {"ranking_only"}
    assert len(json.loads(failures["raw"][0])["ranking"]) == 10


def test_attempts_of_a_stopped_run_count():
    def fail(call):
        return KeyboardInterrupt() if call == 2 else JudgeFailure("no_json")

    log = JudgmentLog()
    with pytest.raises(KeyboardInterrupt):
        run(log, Counting(fail))
    run(log, Counting(lambda call: JudgeFailure("no_json")))
    assert log.windows()["attempts"].max() == 3


def test_scores_between_five_and_ten_count_and_are_noted():
    log = JudgmentLog()
    run(log, Answering(scores=lambda ds: [7.0] + [0.0] * (len(ds) - 1)))
    usage = log.usage().set_index("stage")
    assert usage.loc["tournament", "noted"] == usage.loc["tournament", "answered"] == SMALL.counts(12).tournament
    assert usage.loc["rubric", "noted"] == 0


def test_scores_that_are_all_equal_count_and_are_noted():
    class Flat(Counting):
        def tournament(self, query, documents):
            return TournamentAnswer([1.0] * len(documents))

    log = JudgmentLog()
    run(log, Flat())
    usage = log.usage().set_index("stage")
    assert usage.loc["tournament", "noted"] == usage.loc["tournament", "answered"]


@pytest.mark.parametrize("setting", ["size", "seed"])
def test_a_protocol_of_another_window_size_or_seed_needs_another_log(setting):
    log = JudgmentLog()
    run(log, Counting())
    with pytest.raises(RCPError, match=f"another {setting} .*nothing was asked"):
        run(log, Counting(), protocol=dataclasses.replace(SMALL, **{setting: 7}))


def test_two_processes_on_one_log_ask_no_window_twice(tmp_path):
    script = """
import sys, time
sys.path.insert(0, sys.argv[1])
from tests.judging.test_runner import Counting, pool, run
from rcp_irx import JudgmentLog
class Slow(Counting):
    def _call(self, stage):
        time.sleep(0.01)
        super()._call(stage)
print(sum(run(JudgmentLog(sys.argv[2]), Slow(), pool(30)).values()))
"""
    command = [sys.executable, "-c", script, str(Path(__file__).parents[2]), str(tmp_path / "a.judgments")]
    both = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    calls = [int(process.communicate()[0]) for process in both]
    counts = SMALL.counts(30)
    assert sum(calls) == counts.tournament + counts.rubric
    assert JudgmentLog(tmp_path / "a.judgments").judged()[0].planned == sum(calls)


def test_a_log_that_is_deleted_while_it_is_used_stops_the_run(tmp_path):
    log = JudgmentLog(tmp_path / "a.judgments")
    run(log, Counting())
    (tmp_path / "a.judgments").unlink()
    with pytest.raises(RCPError, match="was moved, deleted or replaced"):
        run(log, Counting(), pool(13))


def test_a_score_beyond_ten_is_no_answer():
    log = JudgmentLog()
    run(log, Answering(scores=lambda ds: [1e15] + [0.0] * (len(ds) - 1)))
    assert set(log.failures()["failure"]) == {"schema"}
    assert log.judged()[0].tournament == []


def test_scores_by_docno_are_put_in_the_order_shown():
    log = JudgmentLog()
    run(log, Answering(scores=lambda ds: {d.id: len(d.text) / 10 for d in reversed(ds)}))
    other = JudgmentLog()
    run(other, Counting())
    assert log.judged()[0].tournament == other.judged()[0].tournament


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        (pool(text="why not"), "query 'q' was judged with another text, context or task"),
        (pool(extra="!"), "query 'q': document 'd00', 'd01', 'd02' and 9 more was judged with another text"),
    ],
)
def test_a_changed_query_or_document_is_refused_before_anything_is_asked(changed, message):
    log = JudgmentLog()
    run(log, Counting())
    judge = Counting()
    with pytest.raises(RCPError, match=message):
        run(log, judge, changed)
    assert sum(judge.calls.values()) == 0
    assert len(log.judged()) == 1


def test_usage_counts_windows_and_calls():
    log = JudgmentLog()
    run(log, Counting(fail=lambda call: JudgeFailure("truncated") if call == 1 else None))
    counts = SMALL.counts(12)
    usage = log.usage().set_index("stage")
    assert usage.loc["tournament", ["windows", "calls", "answered", "failed"]].tolist() == [
        counts.tournament,
        counts.tournament + 1,
        counts.tournament,
        1,
    ]
    assert len(log.windows()) == counts.tournament + counts.rubric
