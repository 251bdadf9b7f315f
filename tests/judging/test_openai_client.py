"""The way of a request: waiting, faults on the way, many calls and several event loops."""

from __future__ import annotations

import asyncio
import time
from email.utils import formatdate

import pytest

from rcp_irx import (
    JudgeFailure,
    Query,
    RCPWarning,
)
from rcp_irx.judging.judges.base import JudgeUnavailable
from rcp_irx.judging.judges.server import retry_after
from tests.judging.openai_calls import (
    DOCUMENTS,
    QUERY,
    SCORES,
    ask,
    failure,
    judge_of,
    many,
)
from tests.judging.stub_server import (
    Action,
    StubServer,
    answers,
    closed_port,
    completion,
    error,
    fails,
    late,
)

pytest.importorskip("openai")
pytestmark = pytest.mark.filterwarnings("ignore:.*has not answered yet")

# waiting


@pytest.mark.parametrize("status", [408, 409, 429, 500, 502, 503, 529])
def test_a_busy_server_is_asked_again(status):
    with StubServer([error(status), error(status)]) as server:
        assert ask(judge_of(server)).scores == SCORES
    assert len(server) == 3


def test_an_error_behind_status_200_counts_as_what_it_says():
    busy = Action(200, {"error": {"code": 429, "message": "slow down"}})
    with StubServer([lambda request: busy, lambda request: Action(200, {"error": "overloaded"})]) as server:
        assert ask(judge_of(server)).scores == SCORES
    assert len(server) == 3


def test_waits_grow_to_a_cap():
    with StubServer([error(503)] * 6) as server:
        ask(judge_of(server, first=0.02, longest=0.1))
    gaps = [later - sooner for sooner, later in zip(server.times, server.times[1:], strict=False)]
    for gap, wait in zip(gaps, [0.02, 0.04, 0.08, 0.1, 0.1, 0.1], strict=True):
        assert wait / 2 <= gap < wait * 1.1 + 0.1


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0.2", 0.2),
        (" 7 ", 7.0),
        ("120", 120.0),
        (formatdate(1_000_030, usegmt=True), 30.0),
        (formatdate(999_970, usegmt=True), None),
        ("-3", None),
        ("0", None),
        ("nan", None),
        ("inf", float("inf")),
        ("soon", None),
        ("", None),
        ("Thu, 99 Foo 2026", None),
    ],
)
def test_what_a_server_asks_to_wait(value, seconds):
    assert retry_after({"retry-after": value}, now=lambda: 1_000_000.0) == seconds


def test_milliseconds_go_before_seconds_and_an_absent_header_says_nothing():
    assert retry_after({"retry-after-ms": "250", "retry-after": "9"}) == 0.25
    assert retry_after({}) is None


def test_the_seconds_asked_for_are_waited():
    with StubServer([error(429, headers={"retry-after": "0.3"})]) as server:
        ask(judge_of(server))
    assert 0.3 <= server.times[1] - server.times[0] < 0.6


@pytest.mark.parametrize("header", ["nan", "-5", "0", "soon", formatdate(1_000, usegmt=True)])
def test_what_cannot_be_waited_is_as_if_it_were_not_said(header):
    with StubServer([error(429, headers={"retry-after": header})]) as server:
        ask(judge_of(server))
    assert 0.005 <= server.times[1] - server.times[0] < 0.3


@pytest.mark.parametrize(
    "header", ["1e9", "inf", pytest.param(formatdate(time.time() + 1e6, usegmt=True), id="a date")]
)
def test_a_huge_wait_is_capped(header):
    with StubServer([error(429, headers={"retry-after": header})]) as server:
        ask(judge_of(server, longest=0.2))
    assert 0.2 <= server.times[1] - server.times[0] < 0.5


def test_all_calls_hold_back_until_the_wait_is_over():
    with StubServer([error(429, headers={"retry-after": "0.6"})]) as server:

        async def calls():
            judge = judge_of(server)
            first = asyncio.ensure_future(judge.atournament(QUERY, DOCUMENTS))
            while not len(server):
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.2)
            await asyncio.gather(first, *(judge.atournament(QUERY, DOCUMENTS) for _ in range(4)))

        asyncio.run(calls())
    assert min(server.times[1:]) - server.times[0] >= 0.6
    assert len(server) == 6


def test_requests_that_failed_together_lengthen_the_wait_once():
    with StubServer(lambda request: late(0.02, error(503) if request.number < 20 else answers)(request)) as server:
        asyncio.run(many(judge_of(server, first=0.1), 20))
    assert len(server) == 40
    assert min(server.times[20:]) - max(server.times[:20]) < 0.1 + 0.3


def test_a_wait_does_not_hold_up_the_loop():
    with StubServer([error(429, headers={"retry-after": "0.3"})]) as server:

        async def beside():
            beats, call = 0, asyncio.ensure_future(judge_of(server).atournament(QUERY, DOCUMENTS))
            while not call.done():
                await asyncio.sleep(0.01)
                beats += 1
            return beats

        assert asyncio.run(beside()) >= 15


@pytest.mark.parametrize(("status", "kind"), [(429, "rate_limited"), (503, "transport")])
def test_a_server_without_an_answer_is_given_up_when_patience_is_over(status, kind):
    with StubServer(error(status, "come back later")) as server:
        judge = judge_of(server, patience=0.3)
        start = time.monotonic()
        found = failure(judge)
    assert isinstance(found, JudgeUnavailable)
    assert found.kind == kind
    assert 0.3 <= time.monotonic() - start < 10.0
    assert found.reason.startswith(f"{server.base_url} has given no answer for 0.")
    assert found.reason.endswith(f"the last error: HTTP {status}: come back later")


def test_patience_is_over_within_a_longer_wait():
    with StubServer(error(429, headers={"retry-after": "30"})) as server:
        start = time.monotonic()
        assert isinstance(failure(judge_of(server, patience=0.2)), JudgeUnavailable)
    assert time.monotonic() - start < 10.0
    assert len(server) == 1


def test_patience_begins_anew_with_every_answer():
    with StubServer(lambda request: answers(request) if request.number % 4 == 3 else error(503)(request)) as server:
        judge = judge_of(server, first=0.05, longest=0.05, patience=0.5)

        async def calls():
            return [await judge.atournament(QUERY, DOCUMENTS) for _ in range(5)]

        assert len(asyncio.run(calls())) == 5


def test_patience_begins_anew_after_giving_up():
    with StubServer(lambda request: error(503)(request) if len(server) < 4 else answers(request)) as server:
        judge = judge_of(server, patience=0.05)

        async def calls():
            with pytest.raises(JudgeUnavailable):
                await judge.atournament(QUERY, DOCUMENTS)
            return await judge.atournament(QUERY, DOCUMENTS)

        assert asyncio.run(calls()).scores == SCORES


def test_a_server_that_is_down_is_waited_for_and_a_warning_says_so():
    server = StubServer(port=closed_port())

    async def calls():
        judge = judge_of(server, first=0.1, longest=0.1)
        call = asyncio.ensure_future(judge.atournament(QUERY, DOCUMENTS))
        await asyncio.sleep(0.3)
        with server:
            return await call

    with pytest.warns(RCPWarning, match=r"http://127.0.0.1:\d+/v1 has not answered yet \(.*waiting for it up to 5 s"):
        assert asyncio.run(calls()).scores == SCORES


def test_a_server_that_stays_down_is_reported():
    with pytest.warns(RCPWarning, match="has not answered yet"):
        found = failure(judge_of(f"http://127.0.0.1:{closed_port()}/v1", patience=0.2))
    assert isinstance(found, JudgeUnavailable)
    assert found.kind == "transport"
    assert "ConnectError" in found.reason


def test_a_connection_that_is_reset_before_an_answer_is_made_again():
    with StubServer([fails("reset"), fails("reset")]) as server:
        assert ask(judge_of(server)).scores == SCORES
    assert len(server) == 3


# faults on the way


@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        (fails("reset_body"), "cut off"),
        (fails("cut"), "cut off"),
        (lambda request: Action(200, b'{"choices": [{"mess'), '{"choices": [{"mess'),
        (lambda request: Action(200, b""), "no JSON"),
        (lambda request: Action(200, b"[1, 2]"), "[1, 2]"),
        (lambda request: Action(200, b"\xff\xfe"), ""),
        (lambda request: Action(200, {"choices": []}), '{"choices": []}'),
        (lambda request: Action(200, {"choices": [{"finish_reason": "stop"}]}), "stop"),
        (lambda request: Action(200, completion({"content": "half"}, "error")), "half"),
    ],
)
def test_a_broken_answer_is_a_transport_failure_at_once(behaviour, said):
    with StubServer([behaviour]) as server:
        found = failure(judge_of(server))
    assert found.kind == "transport"
    assert not isinstance(found, JudgeUnavailable)
    assert said in found.raw
    assert len(server) == 1


@pytest.mark.parametrize("behaviour", [fails("hang"), late(5.0), fails("slow", pace=0.05)])
def test_an_answer_that_takes_too_long_is_a_transport_failure(behaviour):
    with StubServer([behaviour]) as server:
        start = time.monotonic()
        found = failure(judge_of(server, timeout=0.3))
    assert time.monotonic() - start < 4.0
    assert (found.kind, found.raw) == ("transport", "no answer within timeout=0.3 s")


def test_a_server_that_only_breaks_off_is_given_up():
    with StubServer(fails("cut")) as server:
        judge = judge_of(server, patience=0.4, first=0.05)

        async def calls():
            kinds = []
            while True:
                try:
                    await judge.atournament(QUERY, DOCUMENTS)
                except JudgeUnavailable:
                    return kinds
                except JudgeFailure as found:
                    kinds.append(found.kind)

        kinds = asyncio.run(calls())
    assert set(kinds) == {"transport"}
    assert len(kinds) < 10  # each after a longer wait: windows are not used up while the server is broken


def test_a_request_that_always_fails_does_not_stop_the_others():
    def behave(request):
        return error(500, "out of luck")(request) if "query 0" in request.prompt else late(0.02)(request)

    with StubServer(behave) as server:

        async def calls():
            judge = judge_of(server)
            poisoned = asyncio.ensure_future(judge.atournament(Query("q", "query 0"), DOCUMENTS))
            while not poisoned.done():
                assert (await judge.atournament(QUERY, DOCUMENTS)).scores == SCORES
            return poisoned.exception()

        found = asyncio.run(calls())
    assert (found.kind, found.raw) == ("transport", "HTTP 500: out of luck")
    assert not isinstance(found, JudgeUnavailable)


def test_a_request_that_is_never_let_in_fails_when_patience_is_over():
    def behave(request):
        return error(429, "too large")(request) if "query 0" in request.prompt else late(0.02)(request)

    with StubServer(behave) as server:

        async def calls():
            judge = judge_of(server, patience=0.3)
            shut_out = asyncio.ensure_future(judge.atournament(Query("q", "query 0"), DOCUMENTS))
            while not shut_out.done():
                assert (await judge.atournament(QUERY, DOCUMENTS)).scores == SCORES
            return shut_out.exception()

        found = asyncio.run(calls())
    assert (found.kind, found.raw) == ("rate_limited", "HTTP 429: too large")
    assert not isinstance(found, JudgeUnavailable)


def test_a_cancelled_call_ends_at_once():
    with StubServer(late(5.0)) as server:

        async def calls():
            call = asyncio.ensure_future(judge_of(server).atournament(QUERY, DOCUMENTS))
            await asyncio.sleep(0.1)
            call.cancel()
            start = time.monotonic()
            with pytest.raises(asyncio.CancelledError):
                await call
            return time.monotonic() - start

        assert asyncio.run(calls()) < 0.5


# many calls, several loops


def test_many_calls_are_in_flight_on_as_many_connections():
    with StubServer(delay=0.2) as server:
        asyncio.run(many(judge_of(server, max_concurrency=64), 64))
    assert server.most_in_flight == 64


def test_connections_are_kept():
    with StubServer() as server:

        async def calls():
            judge = judge_of(server)
            for _ in range(3):
                await asyncio.gather(*(judge.atournament(QUERY, DOCUMENTS) for _ in range(4)))

        asyncio.run(calls())
    assert server.connections <= 4


def test_a_judge_works_in_one_loop_after_another():
    with StubServer() as server:
        judge = judge_of(server)
        for _ in range(3):
            assert asyncio.run(judge.atournament(QUERY, DOCUMENTS)).scores == SCORES
