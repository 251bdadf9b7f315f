"""Runs that were begun, stopped or changed: nothing paid for is lost, asked again, or left out of the gains."""

from __future__ import annotations

import threading

import pandas as pd
import pytest

from rcp_irx import FULL, Document, JudgeFailure, JudgmentLog, Query, RCPError, Rubric
from rcp_irx.documents import Pool, pools
from rcp_irx.judging.judges.base import Usage
from rcp_irx.judging.runner import PoolRunner, remaining, run_pools
from rcp_irx.judging.spending import RunStopped, Spending
from tests.judging.test_concurrency import Slow
from tests.judging.test_growth import Texts, pool
from tests.judging.test_replay import Model
from tests.judging.test_runner import SMALL, Counting

pytestmark = pytest.mark.quick

RUBRIC = Rubric.load()


def judged(log, judge, *pools, protocol=SMALL, spending=None):
    run_pools([PoolRunner(of, judge, RUBRIC, protocol, log) for of in pools], spending or Spending())


def begun(log, judge, *pools, protocol=SMALL):
    """Put into the log, nothing asked."""
    for of in pools:
        PoolRunner(of, judge, RUBRIC, protocol, log)


def reworded(of, text="another question", document=None):
    documents = of.documents if document is None else (Document(of.documents[0].id, document), *of.documents[1:])
    return Pool(Query(of.query.id, text if document is None else of.query.text), documents)


@pytest.mark.parametrize("document", [None, "another text"], ids=["query", "document"])
def test_a_run_that_asked_nothing_spoils_no_later_one(document):
    log, judge = JudgmentLog(), Texts()
    begun(log, judge, reworded(pool(range(12)), document=document))
    judged(log, judge, pool(range(12)))
    assert len(log.calibrate()) == 12
    assert log.calibrate().queries["query"][0] == "why"


def test_two_wordings_of_which_none_was_asked_are_the_later_one():
    log, judge = JudgmentLog(), Texts()
    begun(log, judge, reworded(pool(range(12))), pool(range(12)))
    (only,) = log.judged()
    assert only.pool.query.text == "why"
    assert not only.finished


def test_what_is_judged_to_the_end_stays_so_when_a_run_stops_before_it():
    log, judge = JudgmentLog(), Texts()
    judged(log, judge, pool(range(12), "b"), pool(range(12), "c"))
    with pytest.raises(RunStopped):
        judged(log, judge, *(pool(range(12), qid) for qid in "abc"), spending=Spending(max_calls=1))
    assert [j.finished for j in log.judged()] == [False, True, True]
    assert set(log.calibrate(incomplete="leave_out").queries["qid"]) == {"b", "c"}


def test_a_pool_that_lost_documents_asks_nothing_and_one_that_changed_asks_for_the_new_ones():
    log, judge = JudgmentLog(), Texts()
    judged(log, judge, pool(range(40)), protocol=FULL)
    calls = sum(judge.calls.values())
    judged(log, judge, pool(range(1, 40)), protocol=FULL)
    assert sum(judge.calls.values()) == calls
    assert len(log.calibrate()) == 39
    judge.shown.clear()
    changed = pool([*range(5, 40), 50, 51, 52])
    expected = remaining(changed, judge, RUBRIC, FULL, log)
    judged(log, judge, changed, protocol=FULL)
    assert len(judge.shown) == sum(expected) < 25
    assert all({"d050", "d051", "d052"} & set(window) for _, window in judge.shown)
    assert set(log.calibrate().documents["docno"]) == {d.id for d in changed.documents}


@pytest.mark.parametrize(
    "steps",
    [
        [(20, FULL), (60, FULL)],
        [(40, FULL.scaled(0.5)), (50, FULL.scaled(0.5)), (50, FULL)],
        [(30, FULL), (30, FULL.scaled(0.5)), (30, FULL.scaled(2))],
        [(9, FULL), (11, FULL), (10, FULL), (24, FULL)],
        [(2, FULL), (2, FULL.scaled(0.3)), (2, FULL)],
    ],
    ids=str,
)
def test_what_remains_is_what_is_asked(steps):
    log, judge = JudgmentLog(), Texts()
    for n, protocol in steps:
        expected = remaining(pool(range(n)), judge, RUBRIC, protocol, log)
        before = dict(judge.calls)
        judged(log, judge, pool(range(n)), protocol=protocol)
        assert tuple(judge.calls[stage] - before[stage] for stage in ("tournament", "rubric")) == expected


def test_a_smaller_protocol_leaves_no_answer_out():
    log, judge = JudgmentLog(), Texts()
    for n in (2, 30):
        of = pool(range(n), f"q{n}")
        judged(log, judge, of, protocol=FULL)
        calls = dict(judge.calls)
        judged(log, judge, of, protocol=FULL.scaled(0.3))
        assert judge.calls == calls
        (found,) = [j for j in log.judged() if j.key[1] == of.query.id]
        counts = FULL.counts(n)
        assert (len(found.tournament), len(found.rubric)) == (counts.tournament, counts.rubric)


def test_windows_and_failures_are_told_once_however_often_a_pool_grows():
    log = JudgmentLog()
    judge = Texts()
    judge.fail = lambda call: JudgeFailure("refused") if call == 5 else None
    for n in (20, 24, 28):
        judged(log, judge, pool(range(n)))
    assert len(log.failures()) == 1
    assert len(log.windows()) == sum(judge.calls.values()) == log.usage()["windows"].sum()


def test_a_run_at_its_limit_does_not_wait_for_others(tmp_path):
    path, slow = tmp_path / "log", Slow()
    other = JudgmentLog(path)
    assert other.locks.take("", "b", wait=False)
    with pytest.raises(RunStopped):
        judged(JudgmentLog(path), slow, pool(range(12), "a"), pool(range(12), "b"), spending=Spending(max_calls=3))
    other.locks.give_back("", "b")


def test_two_logs_on_one_path_in_two_threads_ask_no_window_twice(tmp_path):
    judges = [Texts(), Texts()]

    def work(judge):
        judged(JudgmentLog(tmp_path / "log"), judge, *(pool(range(12), qid) for qid in "abc"))

    threads = [threading.Thread(target=work, args=(judge,)) for judge in judges]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    once = Texts()
    judged(JudgmentLog(), once, *(pool(range(12), qid) for qid in "abc"))
    assert sum(sum(judge.calls.values()) for judge in judges) == sum(once.calls.values())


def test_closing_one_log_frees_no_place_of_another(tmp_path):
    first, second = JudgmentLog(tmp_path / "log"), JudgmentLog(tmp_path / "log")
    assert first.locks.take("", "q", wait=False)
    assert not second.locks.take("", "q", wait=False)
    second.close()
    third = JudgmentLog(tmp_path / "log")
    assert not third.locks.take("", "q", wait=False)
    first.locks.give_back("", "q")
    assert third.locks.take("", "q", wait=False)


def test_an_echo_of_a_prompts_own_example_stays_a_failure_when_it_is_read_again():
    class Echo(Model):
        def prompt(self, stage):
            return 'Answer as in {"scores": {"1": 1, "2": 1}} or {"answers": {"1": {"C1": true}}}'

    log = JudgmentLog()
    judge = Echo(lambda text: 'Answer as in {"scores": {"1": 1, "2": 1}}', "schema")
    PoolRunner(pool(range(2)), judge, RUBRIC, SMALL, log).run()
    assert len(log.reparse().query("after == ''")) == 0


def test_a_limit_is_kept_from_the_first_calls_on_and_without_reported_usage():
    class Silent(Slow):
        async def atournament(self, query, documents):
            answer = await super().atournament(query, documents)
            return type(answer)(answer.scores)

    for kind in (Slow, Silent):
        judge, log = kind(), JudgmentLog()
        spending = Spending(max_tokens=1_000)
        with pytest.raises(RunStopped):
            judged(log, judge, pool(range(12)), spending=spending)
        assert judge.calls * 110 <= 1_000


@pytest.mark.parametrize("limit", [float("nan"), -1, "5"])
def test_a_limit_that_is_none(limit):
    with pytest.raises(RCPError, match="max_calls must be a number from 0 up"):
        Spending(max_calls=limit)


def test_usage_of_the_wrong_kind_is_refused():
    with pytest.raises(RCPError, match="prompt_tokens of a Usage must be a whole number, not None"):
        Usage(None, 3)  # type: ignore[arg-type]  # refused


def test_several_texts_of_one_query_are_refused():
    frame = pd.DataFrame([("q", "one", "a", "x"), ("q", "two", "b", "y")], columns=["qid", "query", "docno", "text"])
    with pytest.raises(RCPError, match="query 'q' has several texts in column 'query': 'one', 'two'"):
        pools(frame)


def test_counting_judge_is_not_async():
    assert not Counting().is_async
