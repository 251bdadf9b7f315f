"""ReplayJudge: the log's answers and nothing else; reading raw answers again; texts in the log."""

from __future__ import annotations

import json
import sqlite3

import pandas as pd
import pytest

from rcp_irx import FULL, Criterion, Document, JudgeFailure, JudgmentLog, Query, RCPError, ReplayJudge, Rubric
from rcp_irx.documents import Pool
from rcp_irx.judging.judges.base import Judge, RubricAnswer, TournamentAnswer, Usage
from rcp_irx.judging.runner import PoolRunner
from tests.judging.test_runner import Counting, pool

pytestmark = pytest.mark.quick

RUBRIC = Rubric.load()
SMALL = FULL.scaled(0.2)


def judged(judge, log=None, of=None, **options):
    log = log or JudgmentLog()
    PoolRunner(of or pool(), judge, RUBRIC, SMALL, log, **options).run()
    return log


@pytest.mark.parametrize("n", [2, 12])
def test_a_replayed_run_gives_the_same_gains(n):
    log = judged(Counting(), of=pool(n))
    again = judged(ReplayJudge(log), of=pool(n))
    pd.testing.assert_frame_equal(again.calibrate().documents, log.calibrate().documents, check_exact=True)
    assert again.calibrate().fit_id == log.calibrate().fit_id


def test_failures_are_replayed_too():
    log = judged(Counting(fail=lambda call: JudgeFailure("refused") if call == 3 else None))
    again = judged(ReplayJudge(log))
    assert again.failures()["failure"].tolist() == ["refused"]


def test_what_was_never_asked_is_refused_by_name():
    log = judged(Counting())
    with pytest.raises(
        RCPError, match=r"query 'q': JudgmentLog\(None\) has no answer of 'counting' to this tournament"
    ):
        judged(ReplayJudge(log), of=pool(13))
    other = Rubric((Criterion("C1", "name", "question?"),))
    with pytest.raises(RCPError, match="to this rubric window of documents 'd"):
        PoolRunner(pool(), ReplayJudge(log), other, SMALL, JudgmentLog()).run()


def test_a_log_of_several_judges_or_none_needs_a_name():
    log = judged(Counting())
    other = Counting()
    other.name = "other"
    judged(other, log)
    with pytest.raises(RCPError, match="holds the judges 'counting', 'other': give one of them"):
        ReplayJudge(log)
    assert ReplayJudge(log, "other").name == "other"
    with pytest.raises(RCPError, match="holds the judges none"):
        ReplayJudge(JudgmentLog())


class Model(Judge):
    """Answers as a language model does, in text, which is read here."""

    name = "model"
    reader = "json"

    def __init__(self, spoil=lambda text: text, failure=""):
        self.spoil, self.failure = spoil, failure

    def _given(self, text, answer, kind):
        spoiled = self.spoil(text)
        if spoiled != text:
            raise JudgeFailure(self.failure, spoiled, Usage(10, 5, "stop", "model-1"))
        return kind(answer, raw=text, usage=Usage(10, 5, "stop", "model-1"))

    def tournament(self, query, documents):
        scores = {str(i): len(d.text) / 10 for i, d in enumerate(documents, start=1)}
        return self._given(json.dumps({"scores": scores}), list(scores.values()), TournamentAnswer)

    def rubric(self, query, documents, rubric):
        passes = [[len(d.text) > 3 * c for c in range(len(rubric))] for d in documents]
        rows = {str(i): dict(zip(rubric.ids, row, strict=True)) for i, row in enumerate(passes, start=1)}
        return self._given(json.dumps({"answers": rows}), passes, RubricAnswer)


def test_raw_answers_are_read_again_without_a_call():
    spoiled = judged(Model(lambda text: "Sure! " + text, "no_json"))
    assert spoiled.usage()["answered"].sum() == 0
    changed = spoiled.reparse()
    assert set(changed["before"]) == {"no_json"}
    assert set(changed["after"]) == {""}
    assert spoiled.usage()["answered"].sum() == len(changed)
    assert len(spoiled.calibrate()) == 12
    whole = judged(Model())
    windows, others = (log.windows().query("phase == 'random'") for log in (spoiled, whole))
    assert windows["answer"].tolist() == others["answer"].tolist()
    assert len(whole.reparse()) == 0


def test_refusals_and_cut_off_answers_stay_and_wrong_answers_become_failures(tmp_path):
    log = judged(Model(lambda text: "x" + text, "truncated"))
    assert len(log.reparse()) == 0
    log = judged(Model(), JudgmentLog(tmp_path / "log"))
    log.close()
    with sqlite3.connect(tmp_path / "log") as file:
        file.execute("UPDATE attempts SET raw = 'I scored all of them 3'")
    log = JudgmentLog(tmp_path / "log")
    changed = log.reparse()
    assert set(changed["after"]) == {"no_json"}
    assert log.usage()["answered"].sum() == 0


def test_answers_of_judges_that_keep_no_models_text_are_left_alone():
    class Own(Counting):
        def tournament(self, query, documents):
            return TournamentAnswer(super().tournament(query, documents).scores, raw="my own notes")

    assert len(judged(Own()).reparse()) == 0


def test_texts_are_hashes_unless_they_are_to_be_kept(tmp_path):
    for keep in (False, True):
        path = tmp_path / f"{keep}.judgments"
        secret = Pool(Query("q", "why"), tuple(Document(f"d{i}", f"the secret text {i}") for i in range(3)))
        judged(Counting(), JudgmentLog(path, keep_text=keep), secret).close()
        with sqlite3.connect(path) as file:
            kept = [text for (text,) in file.execute("SELECT text FROM texts WHERE kind = 'document' ORDER BY text")]
        assert kept == (["the secret text 0", "the secret text 1", "the secret text 2"] if keep else [])
        assert (b"the secret text" in path.read_bytes()) == keep
        texts = JudgmentLog(path).texts().sort_values("docno")
        assert dict(zip(texts["docno"], texts["text"], strict=True)) == (
            {d.id: d.text for d in secret.documents} if keep else {}
        )


def test_usage_counts_tokens():
    usage = judged(Model()).usage()
    assert usage["prompt_tokens"].sum() == 10 * usage["calls"].sum()
    assert usage["completion_tokens"].sum() == 5 * usage["calls"].sum()
