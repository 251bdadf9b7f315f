"""Many calls at once: the limit, the order in which queries end, stops, event loops, the same gains as one by one."""

from __future__ import annotations

import asyncio
import threading
import time

import pytest

from rcp_irx import (
    FULL,
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
from rcp_irx.judging.concurrency import PriorityLimit, run_to_end, together
from rcp_irx.judging.judges.base import JudgeUnavailable, Usage
from rcp_irx.judging.runner import PoolRunner, run_pools
from rcp_irx.judging.spending import RunStopped, Spending

pytestmark = pytest.mark.quick

SMALL = FULL.scaled(0.2)
RUBRIC = Rubric.load()


class Slow(Judge):
    """An async judge that takes its time; counts calls, the most in flight, and when each query was last asked."""

    name = "slow"
    max_concurrency = 8
    uneven = 3

    def __init__(self, seconds=0.001, fail=lambda call: None):
        self.seconds, self.fail = seconds, fail
        self.calls = self.in_flight = self.most = 0
        self.order: list[str] = []

    async def _call(self, query):
        self.calls += 1
        call = self.calls
        self.in_flight += 1
        self.most = max(self.most, self.in_flight)
        try:
            await asyncio.sleep(self.seconds * (1 + call % self.uneven))
        finally:
            self.in_flight -= 1
        self.order.append(query.id)
        failure = self.fail(call)
        if failure:
            raise failure

    async def atournament(self, query, documents):
        await self._call(query)
        return TournamentAnswer([len(d.text) % 7 - 3.0 for d in documents], usage=Usage(100, 10))

    async def arubric(self, query, documents, rubric):
        await self._call(query)
        return RubricAnswer(
            [[len(d.text) % 7 > c for c in range(len(rubric))] for d in documents], usage=Usage(200, 50)
        )

    def prompt_tokens(self, stage, query, documents, rubric=None):
        return 100 if stage == "tournament" else 200

    def answer_tokens(self, stage, n_documents, rubric=None):
        return 10 if stage == "tournament" else 50

    def cost(self, usage):
        return (usage.prompt_tokens + usage.completion_tokens) / 1e6


class OneByOne(Slow):
    """The same judge with plain methods."""

    atournament = arubric = property()  # type: ignore[assignment]  # not there

    def tournament(self, query, documents):
        return TournamentAnswer([len(d.text) % 7 - 3.0 for d in documents])

    def rubric(self, query, documents, rubric):
        return RubricAnswer([[len(d.text) % 7 > c for c in range(len(rubric))] for d in documents])


def pool(qid, n=20):
    return Pool(Query(qid, f"query {qid}"), tuple(Document(f"d{i:02d}", "x" * i) for i in range(n)))


def runners(log, judge, qids="abcdef", protocol=SMALL):
    return [PoolRunner(pool(qid), judge, RUBRIC, protocol, log) for qid in qids]


def finished(log):
    return sorted(j.key[1] for j in log.judged() if j.finished)


def test_the_limit_is_kept_full_over_queries_and_never_passed():
    judge = Slow()
    run_pools(runners(JudgmentLog(), judge), Spending())
    assert judge.most == 8


def test_earlier_queries_are_asked_about_first():
    """On the whole: which of two windows that are in flight comes back first is the server's affair."""
    judge, log = Slow(), JudgmentLog()
    judge.uneven = 1
    run_pools(runners(log, judge), Spending())
    places = {qid: [i for i, asked in enumerate(judge.order) if asked == qid] for qid in "abcdef"}
    assert sorted(places, key=lambda qid: sum(places[qid]) / len(places[qid])) == list("abcdef")


def test_the_same_gains_as_one_call_at_a_time():
    one, many = JudgmentLog(), JudgmentLog()
    judge = OneByOne()
    assert not judge.is_async
    run_pools(runners(one, judge), Spending())
    for places in (1, 3, 50):
        slow = Slow()
        slow.max_concurrency = places
        many = JudgmentLog()
        run_pools(runners(many, slow), Spending())
        first, second = one.calibrate().documents, many.calibrate().documents
        assert first.equals(second)


def test_a_stopped_run_leaves_whole_queries_and_goes_on():
    judge, log = Slow(), JudgmentLog()
    judge.max_concurrency = 1
    total = sum(runner.windows() for runner in runners(log, judge))
    with pytest.raises(RunStopped, match=rf"stopped at max_calls={total // 2}: {total // 2} calls, {'.*'} tokens"):
        run_pools(runners(log, judge), Spending(max_calls=total // 2))
    assert judge.calls == total // 2
    assert log.usage()["answered"].sum() == total // 2
    assert finished(log)[:2] == ["a", "b"]
    run_pools(runners(log, judge), Spending())
    assert judge.calls == total
    assert finished(log) == list("abcdef")


@pytest.mark.parametrize("limit", [{"max_tokens": 8_000}, {"max_cost": 0.008}], ids=str)
def test_limits_of_tokens_and_cost_are_not_passed(limit):
    judge, log = Slow(), JudgmentLog()
    spending = Spending(**limit)
    with pytest.raises(RunStopped):
        run_pools(runners(log, judge), spending)
    assert 6_000 <= spending.tokens <= 8_000
    assert spending.in_flight == 0
    usage = log.usage()
    assert usage["prompt_tokens"].sum() + usage["completion_tokens"].sum() == spending.tokens


def test_an_error_ends_the_run_and_keeps_what_was_answered():
    judge, log = Slow(fail=lambda call: RuntimeError("broken") if call == 40 else None), JudgmentLog()
    with pytest.raises(RuntimeError, match="broken"):
        run_pools(runners(log, judge), Spending())
    assert judge.in_flight == 0
    assert 32 <= log.usage()["answered"].sum() < 60
    judge.fail = lambda call: None
    run_pools(runners(log, judge), Spending())
    assert finished(log) == list("abcdef")


def test_a_judge_that_cannot_be_reached_ends_the_run_with_its_reason():
    gone = JudgeUnavailable("transport", "http://nowhere has not answered for 10 s")
    judge, log = Slow(fail=lambda call: gone if call > 20 else None), JudgmentLog()
    with pytest.raises(RCPError, match=r"http://nowhere has not answered for 10 s; every answer so far is in the log"):
        run_pools(runners(log, judge), Spending())
    assert set(log.failures()["failure"]) == {"transport"}


def test_failures_count_and_are_asked_three_times():
    judge, log = Slow(fail=lambda call: JudgeFailure("schema", "?") if call <= 10 else None), JudgmentLog()
    spending = Spending()
    run_pools(runners(log, judge, "a"), spending)
    assert spending.failed == 10
    assert "10 failed" in spending.describe()
    assert log.failures()["answered"].any()


def test_inside_a_running_event_loop():
    judge, log = Slow(), JudgmentLog()

    async def notebook():
        run_pools(runners(log, judge, "ab"), Spending())
        return asyncio.get_running_loop()

    asyncio.run(notebook())
    assert finished(log) == ["a", "b"]


def test_errors_come_out_of_a_thread_too():
    judge, log = Slow(fail=lambda call: RuntimeError("broken")), JudgmentLog()

    async def notebook():
        run_pools(runners(log, judge, "a"), Spending())

    with pytest.raises(RuntimeError, match="broken"):
        asyncio.run(notebook())


def test_the_attempt_is_told_to_judges_that_ask_for_it():
    class Telling(Slow):
        def __init__(self):
            super().__init__(fail=lambda call: JudgeFailure("truncated", "{"))
            self.attempts = []

        async def atournament(self, query, documents, *, attempt=0):
            self.attempts.append(attempt)
            return await super().atournament(query, documents)

    judge, log = Telling(), JudgmentLog()
    judge.max_concurrency = 1
    run_pools([PoolRunner(pool("a", 2), judge, RUBRIC, SMALL, log)], Spending())
    assert sorted(judge.attempts) == sorted([0, 1, 2] * (len(judge.attempts) // 3))


def test_places_go_to_the_least_priority_first_and_survive_cancellation():
    async def scene():
        limit, got = PriorityLimit(1), []

        async def hold(name, priority):
            await limit.acquire((priority, 0))
            got.append(name)
            await asyncio.sleep(0)
            limit.release()

        await limit.acquire((0, 0))
        tasks = [
            asyncio.ensure_future(hold(name, priority)) for name, priority in [("c", 3), ("a", 1), ("x", 0), ("b", 2)]
        ]
        await asyncio.sleep(0)
        tasks[2].cancel()
        limit.release()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.wait_for(limit.acquire((0, 0)), 1)
        return got

    assert asyncio.run(scene()) == ["a", "b", "c"]


def test_a_limit_runs_low_once_fewer_wait_than_there_are_places():
    async def scene():
        limit, heard = PriorityLimit(2), []
        await asyncio.wait_for(limit.running_low(), 1)
        for _ in range(2):
            await limit.acquire((0, 0))
        tasks = [asyncio.ensure_future(limit.acquire((0, 0))) for _ in range(3)]
        await asyncio.sleep(0)

        async def listen(name):
            await limit.running_low()
            heard.append(name)

        listeners = [asyncio.ensure_future(listen(name)) for name in "ab"]
        await asyncio.sleep(0)
        listeners[0].cancel()
        for expected in ([], ["b"]):  # two wait, then one
            limit.release()
            for _ in range(3):
                await asyncio.sleep(0)
            assert heard == expected
        await asyncio.gather(*tasks[:2])
        tasks[2].cancel()

    asyncio.run(scene())


def test_a_query_begins_only_when_few_windows_wait():
    judge, log, begun = Slow(), JudgmentLog(), []
    judge.max_concurrency = 4
    many = runners(log, judge, [f"q{i:02d}" for i in range(30)])
    begin = log.begin
    log.begin = lambda plans: (begun.append(len(judge.order)), begin(plans))
    run_pools(many, Spending())
    assert begun[9] > 3 * many[0].windows()  # calls answered by then


def test_together_cancels_the_others_or_waits_for_them():
    async def scene(drain):
        done = []

        async def work():
            await asyncio.sleep(0.02)
            done.append(True)

        async def fail():
            raise KeyError("x")

        with pytest.raises(KeyError):
            await together([work(), fail()], drain=drain)
        return done

    assert asyncio.run(scene(())) == []
    assert asyncio.run(scene((KeyError,))) == [True]


def test_an_interrupt_of_the_waiting_thread_cancels_the_run(monkeypatch):
    cancelled = threading.Event()

    async def forever():
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.set()
            raise

    join = threading.Thread.join
    calls = []

    def interrupted(thread, timeout=None):
        calls.append(thread)
        if len(calls) == 1:
            time.sleep(0.05)
            raise KeyboardInterrupt
        return join(thread, timeout)

    async def notebook():
        monkeypatch.setattr(threading.Thread, "join", interrupted)
        run_to_end(forever)

    with pytest.raises(KeyboardInterrupt):
        asyncio.run(notebook())
    assert cancelled.is_set()
