"""The log's file: what it refuses, what survives, how windows are keyed."""

from __future__ import annotations

import sqlite3

import pytest

from rcp_irx import Document, JudgmentLog, Query, RCPError
from rcp_irx.documents import Pool
from rcp_irx.judging.store import window_key

pytestmark = pytest.mark.quick


def pool(*docnos, qid="q", text="why", dataset=""):
    return Pool(Query(qid, text, dataset), tuple(Document(d, f"text of {d}") for d in docnos))


def test_an_answer_is_there_when_the_log_is_opened_again(tmp_path):
    log = JudgmentLog(tmp_path / "a.judgments")
    log.record("key", failure="truncated", raw="{")
    log.record("key", answer=[1.5, -0.1])
    del log  # not closed, as after a kill
    outcome = JudgmentLog(tmp_path / "a.judgments").outcome("key")
    assert (outcome.answer, outcome.failure, outcome.attempts) == ([1.5, -0.1], "", 2)


def test_failures_are_counted_and_the_last_is_named(tmp_path):
    log = JudgmentLog()
    assert log.outcome("key").attempts == 0
    log.record("key", failure="refused")
    log.record("key", failure="schema")
    assert (log.outcome("key").answer, log.outcome("key").failure, log.outcome("key").attempts) == (None, "schema", 2)


def test_two_writers_share_one_log(tmp_path):
    one, two = JudgmentLog(tmp_path / "a.judgments"), JudgmentLog(tmp_path / "a.judgments")
    one.record("a", answer=[1.0])
    two.record("b", answer=[2.0])
    assert one.outcome("b").answer == [2.0]
    assert two.outcome("a").answer == [1.0]


def test_everything_that_can_change_an_answer_changes_the_key():
    base = ("tournament", "judge", "prompt", "question", "rubric", ["t1", "t2"], 0)
    keys = {window_key(*base)}
    for i, other in enumerate(["rubric", "judge2", "prompt2", "question2", "rubric2", ["t2", "t1"], 1]):
        keys.add(window_key(*base[:i], other, *base[i + 1 :]))
    assert len(keys) == 8


def test_the_same_documents_are_the_same_pool_in_any_order():
    log = JudgmentLog()
    assert log.add_pool(pool("a", "b")) == log.add_pool(pool("b", "a"))
    assert log.add_pool(pool("a", "b", "c")) != log.add_pool(pool("a", "b"))
    assert log.add_pool(pool("a", "b", dataset="two")) != log.add_pool(pool("a", "b"))


def test_a_file_that_is_no_log_is_refused(tmp_path):
    file = tmp_path / "notes.txt"
    file.write_text("these are notes, and more than a hundred bytes of them " * 5)
    with pytest.raises(RCPError, match=r"notes\.txt cannot be used: file is not a database"):
        JudgmentLog(file)
    assert file.read_text().startswith("these are notes")


def test_a_database_of_another_program_is_refused(tmp_path):
    file = tmp_path / "other.db"
    db = sqlite3.connect(file)
    db.execute("CREATE TABLE t (x)")
    db.close()
    with pytest.raises(RCPError, match="of another program"):
        JudgmentLog(file)


def test_a_log_of_another_version_is_refused(tmp_path):
    file = tmp_path / "new.judgments"
    JudgmentLog(file).close()
    db = sqlite3.connect(file)
    db.execute("PRAGMA user_version=99")
    db.close()
    with pytest.raises(RCPError, match="judgment log of version 99; this rcp_irx reads version 1"):
        JudgmentLog(file)


def test_a_folder_is_no_log(tmp_path):
    with pytest.raises(RCPError, match="is a folder"):
        JudgmentLog(tmp_path)


def test_a_log_that_cannot_be_written_is_named(tmp_path):
    with pytest.raises(RCPError, match="nowhere"):
        JudgmentLog(tmp_path / "nowhere" / "a.judgments")
