"""rcp-irx evaluate on the demo: the library's numbers, for people and machines; bad input in one line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from rcp_irx import GainTable, RCPnDCG
from rcp_irx.demo import results
from rcp_irx.evaluation import ndcg
from rcp_irx.trec import write_run
from tests.cli.conftest import installed, ran, rcp_irx

RUNS = ("rare-words.run", "longest=longest.run")


def test_means_are_those_of_the_library(demo):
    said = json.loads(installed("evaluate", "demo.gains", *RUNS, "--qrels", "demo.qrels", "--json", cwd=demo))
    gains = GainTable.load(demo / "demo.gains")
    assert said["gains"] == gains.label
    for row, name in zip(said["scores"], ["rare words", "longest"], strict=True):
        assert row["system"] == name.replace(" ", "-")
        assert row["queries"] == 10
        assert row["RCPnDCG@10"] == pytest.approx(ndcg(results.runs()[name], gains, 10).mean(), abs=1e-12)
        assert set(row) == {"system", "queries", "RCPnDCG@10", "RCPJudged@10", "nDCG@10"}


def test_people_see_a_table_and_shells_a_tsv(demo):
    text = rcp_irx("evaluate", "demo.gains", *RUNS, "-m", str(RCPnDCG(ties="mean") @ 5), cwd=demo)
    assert text.split("\n")[0].split() == ["system", "queries", "RCPnDCG(ties='mean')@5"]
    lines = rcp_irx("evaluate", "demo.gains", *RUNS, "--per-query", "--tsv", cwd=demo).splitlines()
    assert lines[0] == "system\tqid\tRCPnDCG@10\tRCPJudged@10"
    assert len(lines) == 21


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nowhere", "longest.run"], "nowhere does not exist: GAINS is a folder"),
        (["demo.qrels", "longest.run"], "demo.qrels is a file"),
        (["demo.gains", "nowhere.run"], "the run nowhere.run cannot be read"),
        (["demo.gains", "demo.qrels"], "demo.qrels, line 1: a TREC run has 6 fields"),
        (["demo.gains", "demo.gains"], "Is a directory"),
        (["demo.gains", "longest.run", "./longest.run"], "two runs are called 'longest'"),
        (["demo.gains", "longest.run", "-m", "AP"], "the measure 'AP' reads people's labels: give --qrels"),
        (["demo.gains", "longest.run", "-m", "Nothing@10"], "none that ir_measures knows"),
        (["demo.gains", "longest.run", "--tsv", "--json"], "give one"),
        (["demo.gains", "=longest.run"], "gives a run no name"),
        (["demo.gains", "longest.run", "--qrels", "longest.run"], "longest.run, line 1: a TREC qrels has 4 fields"),
        (["demo.gains", "longest.run", "--dataset", "x"], "no gains for dataset 'x'"),
        (["demo.gains", "longest.run", "--qrels", "irds:no-such"], "ir_datasets has no dataset 'no-such'"),
        (["demo.gains"], "Missing argument 'RUN...'"),
        (["demo.gains", "longest.run", "--qrels", "demo.qrels", "-m", "nDCG(foo=1)@10"], "nDCG"),
        (["demo.gains", "longest.run", "--qrels", "demo.qrels", "-m", "INST"], "INST"),
    ],
)
def test_bad_input_is_told_in_one_line(demo, arguments, said):
    error = rcp_irx("evaluate", *arguments, cwd=demo, code=2)
    assert said in error
    assert error.count("\n") == 1


def test_other_collections_and_newer_gains_are_told(demo, tmp_path):
    (tmp_path / "other.run").write_text("zzz Q0 a 1 1.0 t\n")
    assert "share no query" in rcp_irx("evaluate", demo / "demo.gains", "other.run", cwd=tmp_path, code=2)
    GainTable.load(demo / "demo.gains").save(tmp_path / "newer.gains")
    metadata = tmp_path / "newer.gains" / "metadata.json"
    held = json.loads(metadata.read_text())
    version = next(name for name in held if "version" in name)
    metadata.write_text(json.dumps({**held, version: 99}))
    assert "99" in rcp_irx("evaluate", "newer.gains", demo / "longest.run", cwd=tmp_path, code=2)


def test_the_help_of_each_command_has_an_example(demo):
    listed = rcp_irx("--help", cwd=demo).split("Commands:")[1]
    for command in [line.split()[0] for line in listed.strip().splitlines() if line.startswith("  ")]:
        assert f"rcp-irx {command}" in rcp_irx(command, "--help", cwd=demo).split("Example")[1]
    assert rcp_irx("--version", cwd=demo).startswith("rcp-irx ")


def test_released_labels_are_gains_too(demo, tmp_path):
    pytest.importorskip("pyarrow")
    GainTable.load(demo / "demo.gains").to_released(tmp_path / "released", "toy")
    arguments = ("longest.run", "--tsv")
    own = rcp_irx("evaluate", "demo.gains", *arguments, cwd=demo)
    assert rcp_irx("evaluate", f"{tmp_path / 'released'}#toy", *arguments, cwd=demo) == own
    said = rcp_irx("evaluate", f"{tmp_path / 'released'}#other", *arguments, cwd=demo, code=2)
    assert "'toy'" in said


@pytest.mark.parametrize("name", ["empty.run", "empty.qrels"])
def test_empty_files_are_told(demo, tmp_path, name):
    (tmp_path / name).write_text("")
    given = [tmp_path / name] if name.endswith("run") else [demo / "longest.run", "--qrels", tmp_path / name]
    assert f"{name} is empty" in rcp_irx("evaluate", demo / "demo.gains", *given, cwd=tmp_path, code=2)


def test_queries_without_labels_are_left_out_and_told(demo, tmp_path):
    rows = [line for line in (demo / "demo.qrels").read_text().splitlines() if not line.startswith("3 ")]
    (tmp_path / "short.qrels").write_text("\n".join(rows))
    arguments = ("evaluate", demo / "demo.gains", demo / "longest.run", "--qrels", tmp_path / "short.qrels", "--json")
    said = json.loads(rcp_irx(*arguments, cwd=tmp_path))["scores"][0]
    assert said["queries"] == 9
    done = json.loads(rcp_irx(*arguments[:-1], "--per-query", "--json", cwd=tmp_path))["scores"]
    assert said["nDCG@10"] == pytest.approx(sum(row["nDCG@10"] for row in done) / 9)
    assert "3" not in {row["qid"] for row in done}


def test_gains_without_pass_counts_or_abilities_serve_what_they_can(demo, tmp_path):
    gains = GainTable.load(demo / "demo.gains")
    ids = dict.fromkeys(gains.criteria["id"], np.nan)
    fewer = GainTable(gains.documents.assign(n=np.nan, bt=np.nan, **ids), gains.queries, gains.criteria, {"judge": "x"})
    fewer.save(tmp_path / "few#er.gains")
    assert "RCPnDCG@10, every pair" in rcp_irx("compare", tmp_path / "few#er.gains", *RUNS, cwd=demo)
    bare = GainTable(fewer.documents.assign(theta=np.nan), fewer.queries, fewer.criteria, {"judge": "x"})
    bare.save(tmp_path / "bare.gains")
    rcp_irx("report", tmp_path / "bare.gains", *RUNS, "-o", tmp_path / "bare.html", cwd=demo)
    assert "Raw and calibrated" not in (tmp_path / "bare.html").read_text()


def test_pipes_are_read_and_a_reader_that_leaves_is_no_failure(demo):
    script = Path(sys.executable).parent / "rcp-irx"
    line = f"set -o pipefail; '{script}' evaluate demo.gains a=<(cat longest.run) --per-query | true"
    done = subprocess.run(["bash", "-c", line], cwd=demo, capture_output=True, text=True)
    assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stderr


def test_the_scored_documents_of_a_dataset_are_a_run(demo, tmp_path):
    pytest.importorskip("ir_datasets")
    import ir_datasets

    from rcp_irx.ir_datasets import register

    gains = GainTable.load(demo / "demo.gains")
    register("rcp-irx/scored", gains, base="rcp-irx/demo")
    rows = [(row.query_id, row.doc_id, row.score) for row in ir_datasets.load("rcp-irx/scored").scoreddocs_iter()]
    write_run(pd.DataFrame(rows, columns=["qid", "docno", "score"]), tmp_path / "pool.run")
    arguments = ("evaluate", "demo.gains", "--json")
    of_file = json.loads(rcp_irx(*arguments, tmp_path / "pool.run", cwd=demo))["scores"]
    of_dataset = json.loads(rcp_irx(*arguments, "irds:rcp-irx/scored", "p=irds:rcp-irx/scored", cwd=demo))["scores"]
    assert [row.pop("system") for row in of_dataset] == ["rcp-irx/scored", "p"]
    assert of_file[0].pop("system") == "pool"
    assert of_dataset == of_file * 2
    said = rcp_irx("evaluate", "demo.gains", "irds:rcp-irx/demo", cwd=demo, code=2)
    assert "'rcp-irx/demo' has no scored documents" in said


def test_queries_that_a_run_lacks_score_0_and_are_told(demo, tmp_path):
    rows = [line for line in (demo / "longest.run").read_text().splitlines() if not line.startswith("3 ")]
    (tmp_path / "short.run").write_text("\n".join(rows))
    _, out, error = ran("evaluate", "demo.gains", tmp_path / "short.run", "longest.run", "--json", cwd=demo)
    short, whole = json.loads(out)["scores"]
    queries = json.loads(rcp_irx("evaluate", "demo.gains", "longest.run", "-q", "--json", cwd=demo))["scores"]
    lost = next(row["RCPJudged@10"] for row in queries if row["qid"] == "3") / 10
    assert error.splitlines()[:1] == ["rcp-irx: warning: short ranks nothing for 1 query, 0 there: '3'"]
    assert short["RCPJudged@10"] == pytest.approx(whole["RCPJudged@10"] - lost)


def test_runs_and_labels_of_another_collection_are_refused_whatever_their_queries_are_called(demo, tmp_path):
    rows = (demo / "longest.run").read_text().splitlines()
    (tmp_path / "other.run").write_text("\n".join(line.replace(" d", " z", 1) for line in rows))
    (tmp_path / "queries.run").write_text("\n".join(f"q{line}" for line in rows))
    labels = (demo / "demo.qrels").read_text().splitlines()
    (tmp_path / "other.qrels").write_text("\n".join(line.replace(" d", " z", 1) for line in labels))
    for command in (["evaluate"], ["compare"], ["diagnose"], ["describe"], ["report", "-o", tmp_path / "r.html"]):
        for run, what in (("other", "document"), ("queries", "query")):
            said = rcp_irx(*command, "demo.gains", tmp_path / f"{run}.run", cwd=demo, code=2)
            assert said.count("\n") == 1
            assert f"run {run} and the gains share no {what}: " in said, command
        said = rcp_irx(*command, "demo.gains", "longest.run", "--qrels", tmp_path / "other.qrels", cwd=demo, code=2)
        assert "no labelled document has a gain: the qrels' documents are 'z" in said.splitlines()[-1], command


def test_warnings_of_a_measure_name_the_run(demo):
    _, _, error = ran("evaluate", "demo.gains", "longest.run", "rare-words.run", cwd=demo)
    told = [line.removeprefix("rcp-irx: warning: ").split(": ")[0] for line in error.splitlines()]
    assert told
    assert set(told) <= {"longest", "rare-words"}


def test_a_dataset_that_cannot_be_read_is_told_in_one_line(demo, monkeypatch):
    reading = pytest.importorskip("rcp_irx.ir_datasets.reading", reason="ir_datasets is not installed")

    def unreachable(source):
        raise RuntimeError(("All download sources failed", []))

    monkeypatch.setattr(reading, "labels", unreachable)
    said = rcp_irx("evaluate", "demo.gains", "longest.run", "--qrels", "irds:rcp-irx/demo", cwd=demo, code=2)
    assert said.count("\n") == 1
    assert "ir_datasets cannot read irds:rcp-irx/demo: RuntimeError" in said


def test_huge_labels_are_no_labels(demo, tmp_path):
    (tmp_path / "huge.qrels").write_text("1 0 d002 99999999999999999999\n")
    said = rcp_irx("evaluate", "demo.gains", "longest.run", "--qrels", tmp_path / "huge.qrels", cwd=demo, code=2)
    assert "whole numbers" in said
