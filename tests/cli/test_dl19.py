"""Every command on real runs, labels, topics and documents: TREC Deep Learning 2019."""

from __future__ import annotations

import json

import pytest

from rcp_irx.trec import read_run
from tests.analysis.dl19 import table
from tests.cli.conftest import installed
from tests.conftest import data_folder

SYSTEMS = ("BM25", "BM25_RM3", "D_BERT_KD_TASB", "OPEN_AI_ADA2", "REP_LLAMA", "SPLADE_P_P_ENSEMBLE_DISTIL")


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """A folder with the gains of one LLM's criteria."""
    folder = tmp_path_factory.mktemp("dl19")
    table().save(folder / "llama.gains")
    return folder


@pytest.fixture(scope="module")
def data():
    return data_folder("dl19")


def runs(data, *names):
    return [f"{name}={data / 'runs' / f'dl19.{name}.txt.gz'}" for name in names or SYSTEMS]


def test_runs_are_scored_with_gains_and_with_labels(place, data):
    said = json.loads(
        installed(
            "evaluate", "llama.gains", *runs(data), "--qrels", data / "qrels.dl19-passage.txt", "--json", cwd=place
        )
    )
    known = {"BM25": 0.5058, "BM25_RM3": 0.5216, "SPLADE_P_P_ENSEMBLE_DISTIL": 0.7308, "D_BERT_KD_TASB": 0.7210,
             "OPEN_AI_ADA2": 0.7035, "REP_LLAMA": 0.7384}  # fmt: skip
    assert {row["system"]: round(row["nDCG@10"], 4) for row in said["scores"]} == known
    assert {row["queries"] for row in said["scores"]} == {43}


def test_two_runs_a_qrels_file_and_a_gain_folder_make_a_comparison_and_a_report(place, data):
    two = (*runs(data, "BM25", "REP_LLAMA"), "--qrels", data / "qrels.dl19-passage.txt")
    text = installed("compare", "llama.gains", *two, cwd=place)
    pair = next(line.split() for line in text.splitlines() if line.split()[:2] == ["BM25", "REP_LLAMA"])
    assert float(pair[5]) < 0.001  # p
    said = json.loads(
        installed(
            "report", "llama.gains", *two, "--docs", data / "documents.jsonl.gz", "-o", "r.html", "--json", cwd=place
        )
    )
    assert 1e6 < said["bytes"] < 15e6
    log, texts = said["missing"]
    assert "--log" in log
    assert texts.startswith("No text was given of 23 of 9174 documents: ")
    found = json.loads(installed("explain", "llama.gains", *two[:2], "--qid", "1037798", "--json", cwd=place))
    assert found["systems"] == ["BM25", "REP_LLAMA"]


def test_checks_descriptions_and_exports(place, data):
    installed("diagnose", "llama.gains", *runs(data), "--qrels", data / "qrels.dl19-passage.txt", cwd=place, code=1)
    grades = ("--grades", data / "qrels.dl19-passage.txt")
    text = installed("describe", "llama.gains", *runs(data, "REP_LLAMA"), *grades, cwd=place)
    assert "43 queries were judged" in text
    assert "AUC of gain 0.8" in text
    said = json.loads(
        installed("export", "llama.gains", "-o", "g.qrels", "--trec", "--scale", "1000", "--json", cwd=place)
    )
    assert said["rows"] == len((place / "g.qrels").read_text().splitlines())


def test_a_pool_is_estimated_judged_and_fitted(place, data):
    queries = [*read_run(data / "runs" / "dl19.BM25.txt.gz")["qid"].unique()[:4]]
    small = place / "small.run"
    rows = read_run(data / "runs" / "dl19.BM25.txt.gz")
    graded = {json.loads(line)["docid"] for line in _lines(data / "documents.jsonl.gz")}
    rows = rows[rows["qid"].isin(queries) & rows["docno"].isin(graded)]
    small.write_text("".join(f"{r.qid} Q0 {r.docno} {r.rank} {r.score} t\n" for r in rows.itertuples()))
    common = (small, "--topics", data / "queries.tsv", "--docs", data / "documents.jsonl.gz", "--judge", "lexical",
              "--num-results", "12", "--log", "small.judgments")  # fmt: skip
    calls = json.loads(installed("estimate", *common, "--json", cwd=place))["calls"]
    assert json.loads(installed("judge", *common, "--json", cwd=place))["calls"] == calls
    fitted = json.loads(installed("fit", "small.judgments", "-o", "small.gains", "--json", cwd=place))
    assert fitted["queries"] == 4


def _lines(path):
    import gzip

    with gzip.open(path, "rt", encoding="utf-8") as file:
        yield from file
