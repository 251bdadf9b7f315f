"""A server: the name of a judge of it, its address, its key, copies and pickles of it."""

from __future__ import annotations

import copy
import logging
import pickle
import sys
import traceback

import pytest

from rcp_irx import (
    JudgeFailure,
    OpenAIJudge,
    RCPError,
)
from rcp_irx.errors import MissingExtra
from rcp_irx.judging.judges.server import Server
from rcp_irx.judging.prompts import Prompts
from rcp_irx.judging.tournament import TOURNAMENT
from tests.judging.openai_calls import (
    KEY,
    ask,
    judge_of,
)
from tests.judging.stub_server import (
    Action,
    StubServer,
    error,
    fails,
    says,
)

pytest.importorskip("openai")
pytestmark = pytest.mark.filterwarnings("ignore:.*has not answered yet")

# names, keys, copies


def test_the_name_holds_what_can_change_an_answer_and_nothing_else():
    base = OpenAIJudge("org/model", base_url="http://localhost:1/v1")
    assert base.name == "org/model"
    same = OpenAIJudge(
        "org/model", base_url="http://elsewhere/v1", api_key=KEY, timeout=1, prices=(1, 2), max_concurrency=2,
        patience=1, context_length=9000,
    )  # fmt: skip
    assert same.name == base.name
    every = OpenAIJudge(
        "org/model", base_url="http://localhost:1/v1", extra_body={"b": 1, "a": 2}, reasoning_effort="low",
        max_tokens=300, temperature=0, quantization="fp8", revision="abc",
    )  # fmt: skip
    assert every.name == (
        "org/model (revision='abc', quantization='fp8', temperature=0.0, max_tokens=300, reasoning_effort='low',"
        " extra_body='21501dbaf73f')"  # of SHA-256 of {"a": 2, "b": 1}
    )
    assert every.paid
    assert every.prompt(TOURNAMENT) == Prompts.load().source(TOURNAMENT)


def test_the_order_of_extra_fields_is_no_part_of_the_name():
    one, other, third = (
        OpenAIJudge("m", base_url="http://localhost:1/v1", extra_body=body).name
        for body in ({"a": 1, "b": 2}, {"b": 2, "a": 1}, {"a": 1, "b": 3})
    )
    assert one == other != third


@pytest.mark.parametrize(
    "options",
    [
        {"model": ""},
        {"temperature": -1},
        {"temperature": float("nan")},
        {"temperature": "0"},
        {"max_tokens": 0},
        {"max_tokens": 1.5},
        {"max_tokens": True},
        {"max_concurrency": 0},
        {"timeout": 0},
        {"timeout": None},
        {"patience": -1},
        {"prices": (1,)},
        {"prices": 3},
        {"prices": (-1, 1)},
        {"revision": ""},
        {"reasoning_effort": 3},
        {"extra_body": {"messages": []}},
        {"extra_body": {"a": object()}},
        {"base_url": "localhost:8000"},
        {"base_url": "http://"},
        {"base_url": f"http://localhost/v1?key={KEY}"},
        {"api_key": KEY + "\u2028x"},
        {"api_key": f"{KEY} {KEY}"},
    ],
)
def test_settings_that_cannot_be_are_refused_without_showing_a_key(options):
    with pytest.raises(RCPError) as caught:
        OpenAIJudge(**{"model": "m", "base_url": "http://localhost:1/v1", **options})
    assert KEY not in str(caught.value)


def test_the_key_comes_from_the_environment(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY + "\n")
    with StubServer() as server:
        ask(judge_of(server))
        ask(judge_of(server, api_key="another"))
    assert [r.headers["authorization"] for r in server.requests] == [f"Bearer {KEY}", "Bearer another"]


def test_the_address_comes_from_the_environment(monkeypatch):
    with StubServer() as server:
        monkeypatch.setenv("OPENAI_BASE_URL", server.base_url)
        ask(OpenAIJudge("m"))
    assert server.requests[0].path == "/v1/chat/completions"


def test_without_key_and_address_it_says_what_to_set():
    with pytest.raises(RCPError, match=r"set OPENAI_API_KEY .* or pass api_key=.*base_url="):
        OpenAIJudge("m")


def test_a_user_in_the_address_is_sent_and_not_shown():
    with StubServer(lambda request: error(401, "no such user: hunter2pass")(request)) as server:
        judge = judge_of(server.base_url.replace("//", "//user:hunter2pass@"))
        with pytest.raises(RCPError) as caught:
            ask(judge)
    assert server.requests[0].headers["authorization"] == "Basic dXNlcjpodW50ZXIycGFzcw=="
    assert "hunter2pass" not in str(caught.value) + repr(judge)


@pytest.mark.parametrize(
    "behaviour",
    [
        error(401, f"Incorrect API key provided: {KEY}"),
        error(400, f"bad request with Authorization: Bearer {KEY}"),
        error(429, f"rate limit of {KEY}"),
        fails("reset"),
        fails("cut"),
        fails("hang"),
        lambda request: Action(200, f"not JSON {KEY}".encode()),
        lambda request: Action(200, {"choices": [], "key": KEY}),
        says(None, refusal="No."),
    ],
)
def test_no_text_shows_the_key(behaviour, caplog):
    caplog.set_level(logging.DEBUG)
    with StubServer(behaviour) as server:
        judge = judge_of(server, api_key=KEY, patience=0.1, timeout=0.2)
        with pytest.raises((RCPError, JudgeFailure)) as caught:
            ask(judge)
    texts, error_ = [repr(judge), str(judge), str(judge.__dict__), repr(judge.server), caplog.text], caught.value
    texts += traceback.format_exception(error_)
    while error_ is not None:
        texts += [str(error_), repr(error_), repr(error_.args), str(vars(error_))]
        assert not hasattr(error_, "request")
        error_ = error_.__cause__ or error_.__context__
    assert KEY not in "".join(texts)


def test_an_address_with_a_user_is_not_echoed():
    with StubServer(lambda request: error(400, f"bad header {request.headers['authorization']}")(request)) as server:
        address = server.base_url.replace("://", "://someone:secret-word@")
        with pytest.raises(RCPError, match=r"bad header Basic \*\*\*"):
            ask(judge_of(address))


def test_a_copy_asks_like_the_judge_with_its_key():
    with StubServer() as server:
        judge = judge_of(server, api_key=KEY, temperature=0.5, max_tokens=77, extra_body={"seed": 3})
        ask(judge)
        for other in (copy.copy(judge), copy.deepcopy(judge)):
            assert other.name == judge.name
            ask(other)
    assert all(body == server.bodies[0] for body in server.bodies)
    assert {request.headers["authorization"] for request in server.requests} == {f"Bearer {KEY}"}


def test_a_pickle_holds_every_setting_and_no_key(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    with StubServer() as server:
        judge = judge_of(server, temperature=0.5, max_tokens=77, extra_body={"seed": 3}, prices=(1, 2))
        ask(judge)
        held = pickle.dumps(judge)
        assert KEY.encode() not in held
        other = pickle.loads(held)
        assert {**vars(other), "_lines": 0, "server": 0} == {**vars(judge), "_lines": 0, "server": 0}
        ask(other)
    assert server.bodies[0] == server.bodies[1]
    assert server.requests[1].headers["authorization"] == f"Bearer {KEY}"


def test_a_key_that_was_given_is_asked_for_again_after_a_pickle():
    with StubServer() as server:
        held = pickle.dumps(judge_of(server, api_key=KEY))
        assert KEY.encode() not in held
        with pytest.raises(RCPError, match="make the judge anew, or keep its key in OPENAI_API_KEY"):
            ask(pickle.loads(held))
    assert len(server) == 0


def test_a_server_of_ones_own_gets_no_key_and_a_pickle_of_it_works():
    with StubServer() as server:
        ask(pickle.loads(pickle.dumps(judge_of(server))))
    assert server.requests[0].headers["authorization"] == "Bearer none"
    assert repr(Server(server.base_url)) == server.base_url


def test_a_missing_package_is_named_with_what_installs_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "openai", None)
    with pytest.raises(MissingExtra, match=r"pip install 'rcp-irx\[openai\]'"):
        OpenAIJudge("m", base_url="http://localhost:1/v1")
