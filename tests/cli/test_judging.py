"""rcp-irx judge, estimate, fit on the demo: resumed, stopped, refused."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rcp_irx import GainTable, JudgmentLog
from tests.cli.conftest import installed, rcp_irx

pytest.importorskip("ir_datasets")
RUNS = ("rare-words.run", "trigrams.run")
COLLECTION = (
    "--topics",
    "irds:rcp-irx/demo",
    "--docs",
    "irds:rcp-irx/demo",
    "--judge",
    "lexical",
    "--num-results",
    "15",
)


def test_judge_stops_at_a_limit_goes_on_and_fit_saves_the_gains(demo, tmp_path):
    log = tmp_path / "my.judgments"
    common = (*RUNS, *COLLECTION, "--log", log, "--json")
    estimated = json.loads(rcp_irx("estimate", *common, cwd=demo))["calls"]
    assert json.loads(rcp_irx("judge", *common, "--dry-run", cwd=demo))["calls"] == estimated
    said = installed("judge", *common, "--max-calls", "100", cwd=demo, code=1)
    assert "the run stopped at max_calls=100" in said
    assert "Run again to go on" in said
    assert "not judged to the end" in rcp_irx("fit", log, "-o", tmp_path / "x.gains", cwd=demo, code=2)
    assert json.loads(rcp_irx("judge", *common, cwd=demo))["calls"] == estimated - 100
    assert json.loads(rcp_irx("judge", *common, cwd=demo))["calls"] == 0
    fitted = json.loads(installed("fit", log, "-o", tmp_path / "my.gains", "--json", cwd=demo))
    gains = GainTable.load(tmp_path / "my.gains")
    assert fitted["fit_id"] == gains.fit_id == JudgmentLog(log).calibrate().fit_id
    assert [row["gamma"] for row in fitted["criteria"]] == gains.criteria["gamma"].tolist()
    rcp_irx("fit", log, "-o", tmp_path / "my.gains", cwd=demo)
    kept = rcp_irx("fit", log, "-o", tmp_path / "k.gains", "--criteria", "demo.gains", "--json", cwd=demo)
    assert json.loads(kept)["criteria"] == json.loads(json.dumps(
        GainTable.load(demo / "demo.gains").criteria[["id", "name", "gamma", "beta"]].to_dict("records")))  # fmt: skip
    assert "holds other gains" in rcp_irx("fit", log, "-o", demo / "demo.gains", cwd=demo, code=2)


def test_files_of_topics_and_documents_serve_as_well(demo, tmp_path):
    from rcp_irx import demo as collection

    (tmp_path / "topics.tsv").write_text("".join(f"{qid}\t{text}\n" for qid, text in collection.topics()))
    rows = [json.dumps({"_id": docno, "text": text}) for docno, text in collection.documents()]
    (tmp_path / "docs.jsonl").write_text("\n".join(rows[:-60]))
    files = ("--topics", tmp_path / "topics.tsv", "--docs", tmp_path / "docs.jsonl", "--judge", "lexical")
    said = rcp_irx("judge", *RUNS, *files, "--num-results", "15", "--log", tmp_path / "f", "--quiet", cwd=demo)
    assert "10 queries judged by 'lexical" in said


def test_ctrl_c_leaves_a_good_log_and_says_how_to_go_on(demo, tmp_path):
    log = tmp_path / "c.judgments"
    script = Path(sys.executable).parent / "rcp-irx"
    command = [script, "judge", *RUNS, *COLLECTION, "--log", log]
    running = subprocess.Popen(command, cwd=demo, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    for _ in range(600):
        time.sleep(0.1)
        if log.exists() and os.path.getsize(log) and len(JudgmentLog(log).usage()):
            break
    running.send_signal(signal.SIGINT)
    _, said = running.communicate(timeout=60)
    if running.returncode == 0:
        pytest.skip("the run was over before it was interrupted")
    assert running.returncode == 130
    assert "every answer is in the log, run again to go on" in said
    assert "Traceback" not in said
    rcp_irx("judge", *RUNS, *COLLECTION, "--log", log, cwd=demo)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ([*RUNS, *COLLECTION[:4], "--log", "l"], "--model is missing"),
        ([*RUNS, *COLLECTION, "--log", "l", "--protocol", "huge"], "--protocol is full, reduced, or a factor"),
        ([*RUNS, *COLLECTION, "--log", "l", "--context-field", "mood"], "have no field 'mood'"),
        ([*RUNS, *COLLECTION, "--log", "l", "--add", "judged"], "needs --qrels"),
        ([*RUNS, *COLLECTION, "--log", "l", "--max-cost", "3"], "prices"),
        (
            [*RUNS, *COLLECTION, "--log", "l", "--prices", "1", "1", "--timeout", "0"],
            "--timeout, --prices is for --judge",
        ),
        ([*RUNS, *COLLECTION, "--log", "l", "--qrels", "demo.qrels"], "--qrels is for --add"),
        ([*RUNS, "--topics", "none.tsv", *COLLECTION[2:], "--log", "l"], "topics none.tsv cannot be read"),
        ([*RUNS, *COLLECTION, "--log", "no/such/folder"], "cannot be used"),
        ([*RUNS, *COLLECTION, "--log", "demo.qrels"], "demo.qrels"),
        ([*RUNS, *COLLECTION, "--log", ""], "the judgment log's path is empty"),
        ([*RUNS, *COLLECTION, "--log", "l", "--protocol", "1e400"], "--protocol is full"),
    ],
)
def test_bad_input_is_told_in_one_line(demo, arguments, said):
    error = rcp_irx("judge", *arguments, cwd=demo, code=2)
    assert said in error
    assert error.count("\n") == 1


def test_an_empty_file_is_no_log_and_stays_empty(demo, tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    for command in (["fit", tmp_path / "empty", "-o", tmp_path / "g"], ["diagnose", tmp_path / "empty"],
                    ["report", "demo.gains", "--log", tmp_path / "empty", "-o", tmp_path / "r.html"]):  # fmt: skip
        assert "is empty, and no judgment log" in rcp_irx(*command, cwd=demo, code=2)
    assert (tmp_path / "empty").read_bytes() == b""
    assert "there is no judgment log" in rcp_irx("fit", tmp_path / "none", "-o", tmp_path / "g", cwd=demo, code=2)


def test_half_a_character_is_named_with_its_line(demo, tmp_path):
    (tmp_path / "topics.jsonl").write_text('{"qid": "1", "query": "a"}\n{"qid": "2", "query": "\\ud800"}\n')
    arguments = (*RUNS, "--topics", tmp_path / "topics.jsonl", *COLLECTION[2:], "--log", tmp_path / "l")
    assert "topics.jsonl, line 2: no Unicode text" in rcp_irx("judge", *arguments, cwd=demo, code=2)


def test_an_estimate_makes_no_log_and_topics_without_text_are_refused(demo, tmp_path):
    log = tmp_path / "new.judgments"
    rcp_irx("estimate", *RUNS, *COLLECTION, "--log", log, cwd=demo)
    rcp_irx("judge", *RUNS, *COLLECTION, "--log", log, "--dry-run", cwd=demo)
    assert not log.exists()
    for name, text in (
        ("t.tsv", "1\ttea\n2\t \n"),
        ("t.jsonl", '{"qid": "1", "query": "a"}\n{"qid": "2", "query": ""}\n'),
    ):
        (tmp_path / name).write_text(text)
        arguments = (*RUNS, "--topics", tmp_path / name, *COLLECTION[2:], "--log", log)
        assert f"{name}, line 2" in rcp_irx("judge", *arguments, cwd=demo, code=2)
