"""A few windows through a real language model; it may answer nonsense, but never anything that is not accounted for."""

from __future__ import annotations

import os

import pandas as pd
import pytest

from rcp_irx import FULL, JudgmentLog, OpenAIJudge

pytest.importorskip("pyterrier", reason="RCPJudge is a PyTerrier transformer")

from rcp_irx import RCPJudge, demo

pytestmark = [
    pytest.mark.llm,
    pytest.mark.skipif("RCP_IRX_LLM" not in os.environ, reason="RCP_IRX_LLM names no server of a language model"),
    pytest.mark.filterwarnings("ignore::rcp_irx.RCPWarning"),
]

KINDS = {"no_json", "invalid_json", "schema", "incomplete", "truncated", "refused", "transport"}


def test_every_call_is_an_answer_in_range_or_a_typed_failure(tmp_path):
    texts = demo.documents()[:3]
    frame = pd.DataFrame([("1", demo.topics()[0][1], docno, text) for docno, text in texts])
    frame.columns = ["qid", "query", "docno", "text"]
    model = os.environ.get("RCP_IRX_LLM_MODEL", "tiny")
    llm = OpenAIJudge(model, base_url=os.environ["RCP_IRX_LLM"], max_tokens=160, max_concurrency=2, temperature=0)
    judge = RCPJudge(llm, tmp_path / "llm.judgments", protocol=FULL.scaled(0.1))
    judge(frame)
    usage, failures, windows = judge.log.usage(), judge.log.failures(), judge.log.windows()
    print("\n" + usage.to_string(index=False) + "\n" + failures["failure"].value_counts().to_string())
    assert usage["calls"].sum() == usage["answered"].sum() + len(failures)
    assert usage["prompt_tokens"].min() > 0
    assert set(failures["failure"]) <= KINDS
    for stage, answer in windows[["stage", "answer"]].itertuples(index=False):
        if answer is not None and stage == "tournament":
            assert all(-10 <= score <= 10 for score in answer)
    calls = usage["calls"].sum()
    RCPJudge(llm, JudgmentLog(tmp_path / "llm.judgments"), protocol=FULL.scaled(0.1))(frame)
    assert judge.log.usage()["calls"].sum() == calls  # nothing is asked twice
