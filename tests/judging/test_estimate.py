"""What a run will take, and where it stops: estimates, protocols for a budget, limits of a run."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from rcp_irx import FULL, JudgmentLog, RCPError, RunStopped
from rcp_irx.judging.judges.base import Usage
from tests.judging.test_concurrency import Slow

pytest.importorskip("pyterrier", reason="RCPJudge is a PyTerrier transformer")

from rcp_irx import RCPJudge

pytestmark = [pytest.mark.quick, pytest.mark.filterwarnings("ignore::rcp_irx.RCPWarning")]


class Priced(Slow):
    """Knows what a window takes: 50 tokens and 20 a document in a prompt, 10 a document in an answer; $1 a million."""

    paid = True

    def __init__(self):
        super().__init__(seconds=0)

    def prompt_tokens(self, stage, query, documents, rubric=None):
        return 50 + 20 * len(documents)

    def answer_tokens(self, stage, n_documents, rubric=None):
        return 10 * n_documents

    def cost(self, usage):
        return (usage.prompt_tokens + usage.completion_tokens) / 1e6


def frame(n=30, queries=2):
    rows = [(f"q{i}", "why", f"d{j:02d}", "x" * (j + 1)) for i in range(queries) for j in range(n)]
    return pd.DataFrame(rows, columns=["qid", "query", "docno", "text"])


def judge(tmp_path, **options):
    return RCPJudge(Priced(), tmp_path / "log.judgments", **options)


def test_estimate_before_anything_is_asked(tmp_path):
    found = judge(tmp_path).estimate(frame())
    counts = FULL.counts(30)
    assert found.calls == 2 * (counts.tournament + counts.rubric) == 2 * 66
    assert found.prompt_tokens == found.calls * 250
    assert found.completion_tokens == found.calls * 100
    assert found.cost == pytest.approx(found.calls * 350 / 1e6)
    assert found.queries["qid"].tolist() == ["q0", "q1"]
    assert str(found) == "132 calls for 2 queries, about 33,000 prompt and 13,200 completion tokens, about $0.05"
    assert len(JudgmentLog(tmp_path / "log.judgments").windows()) == 0


def test_what_is_in_the_log_is_not_estimated_again(tmp_path):
    judge(tmp_path)(frame(queries=1))
    again = judge(tmp_path)
    assert again.estimate(frame()).calls == 66
    grown = again.estimate(frame(33, queries=1))
    assert grown.calls == 14 * 3 // 3 + 4 * 3 // 3 + 1  # three new documents in each window: 15 and 4 placements
    again(frame(33, queries=1))
    assert again.judge.calls == grown.calls
    assert again.estimate(frame(33, queries=1)).calls == 0


def test_judges_without_prices_have_no_cost():
    free = RCPJudge(Slow())
    free.judge.cost = lambda usage: None
    found = free.estimate(frame())
    assert found.cost is None
    assert str(found) == "132 calls for 2 queries, about 17,200 prompt and 2,920 completion tokens"
    with pytest.raises(RCPError, match="has no prices, so max_cost cannot be kept"):
        RCPJudge(free.judge, max_cost=1.0)
    with pytest.raises(RCPError, match="has no prices, so max_cost cannot be kept"):
        free.protocol_for(frame(), max_cost=1.0)


@pytest.mark.parametrize(
    "limit", [{"max_cost": 0.03}, {"max_calls": 60}, {"max_tokens_total": 30_000, "max_calls": 100}], ids=str
)
def test_largest_protocol_within_a_limit(tmp_path, limit):
    made = judge(tmp_path)
    protocol = made.protocol_for(frame(), **limit)
    found = judge(tmp_path, protocol=protocol).estimate(frame())
    used = {"max_cost": found.cost, "max_calls": found.calls, "max_tokens_total": found.calls * 350}
    assert all(used[name] <= value for name, value in limit.items())
    share = float(protocol.random / FULL.random)
    more = judge(tmp_path, protocol=FULL.scaled(round(share + 0.02, 2))).estimate(frame())
    used = {"max_cost": more.cost, "max_calls": more.calls, "max_tokens_total": more.calls * 350}
    assert share == 1 or any(used[name] > 0.9 * value for name, value in limit.items())


def test_protocol_for_a_generous_budget_is_the_judges_own(tmp_path):
    assert judge(tmp_path).protocol_for(frame(), max_cost=100) == FULL


def test_no_protocol_places_documents_too_rarely(tmp_path):
    with pytest.raises(RCPError, match=r"no protocol within max_calls=10 places every document 3 times in the tourn"):
        judge(tmp_path).protocol_for(frame(), max_calls=10)
    with pytest.raises(RCPError, match="give a limit: one of max_calls, max_tokens_total, max_cost"):
        judge(tmp_path).protocol_for(frame())


@pytest.mark.parametrize("limit", [{"max_calls": 70}, {"max_tokens_total": 15_000}, {"max_cost": 0.015}], ids=str)
def test_a_run_stops_at_its_limit_says_what_is_whole_and_goes_on(tmp_path, limit):
    made = judge(tmp_path, **limit)
    made.judge.max_concurrency = 2
    with pytest.raises(
        RunStopped, match=r"the run stopped at max_\w+=.*; \d of 2 queries judged to the end. Run again"
    ):
        made(frame())
    used = made.log.usage()
    assert used["calls"].sum() <= limit.get("max_calls", math.inf)
    assert used["prompt_tokens"].sum() + used["completion_tokens"].sum() <= limit.get("max_tokens_total", math.inf)
    done = judge(tmp_path)(frame())
    assert len(done) == 60
    assert done["bt"].notna().all()


def test_progress_shows_calls_tokens_and_cost(tmp_path, capsys):
    judge(tmp_path, verbose=True)(frame(queries=1))
    shown = capsys.readouterr().err
    assert "66/66" in shown
    assert "66 calls, " in shown
    assert "tokens, $0.0" in shown


def test_usage_is_plain():
    assert Usage() == Usage(0, 0, "", "")
