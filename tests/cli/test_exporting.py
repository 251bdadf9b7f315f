"""rcp-irx export: exact in TSV and JSON lines; TREC qrels only of whole numbers, or scaled and said so."""

from __future__ import annotations

import gzip
import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import ir_measures
import numpy as np
import pandas as pd
import pytest
from ir_measures import nDCG

from rcp_irx import GainTable, RCPnDCG
from rcp_irx.trec import read_qrels, read_run
from tests.cli.conftest import installed, rcp_irx


def test_tsv_and_json_lines_are_exact(demo, tmp_path):
    table = GainTable.load(demo / "demo.gains")
    expected = table.qrels().drop(columns="label")  # which would be made of the gains
    rest = table.documents.drop(columns=["dataset", "gain", "excluded", "pool_rank"])
    expected = expected.merge(rest, on=["qid", "docno"], how="left")
    rcp_irx("export", "demo.gains", "-o", tmp_path / "a.tsv", cwd=demo)
    rcp_irx("export", "demo.gains", "-o", tmp_path / "a.jsonl", "--jsonl", cwd=demo)
    rows = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    for back in (
        pd.read_csv(tmp_path / "a.tsv", sep="\t", dtype={"qid": str}, keep_default_na=False),
        pd.DataFrame(rows),
    ):
        assert list(back.columns) == list(expected.columns)
        for name in ("gain", "gain_se", "theta", "C3"):
            np.testing.assert_array_equal(back[name].astype(float), expected[name])
        assert back["docno"].tolist() == expected["docno"].tolist()


def test_scaled_qrels_say_so_and_score_as_the_gains_up_to_rounding(demo, tmp_path):
    installed("export", "demo.gains", "-o", tmp_path / "a.qrels", "--trec", "--scale", "100000", cwd=demo)
    assert {line.split()[1] for line in (tmp_path / "a.qrels").read_text().splitlines()} == {"x100000"}
    run = read_run(demo / "rare-words.run")[["qid", "docno", "score"]].rename(
        columns={"qid": "query_id", "docno": "doc_id"}
    )
    scaled = read_qrels(tmp_path / "a.qrels").rename(
        columns={"qid": "query_id", "docno": "doc_id", "label": "relevance"}
    )
    joined = GainTable.load(demo / "demo.gains").qrels().rename(columns={"label": "relevance"})
    ours = ir_measures.calc_aggregate([RCPnDCG @ 10], joined, run)[RCPnDCG @ 10]
    assert ir_measures.calc_aggregate([nDCG @ 10], scaled, run)[nDCG @ 10] == pytest.approx(ours, abs=2e-5)


def test_fractions_are_not_written_as_whole_numbers(demo, tmp_path):
    target = tmp_path / "a.qrels"
    said = rcp_irx("export", "demo.gains", "-o", target, "--trec", cwd=demo, code=2)
    assert "whole numbers" in said
    assert "--scale" in said
    assert not target.exists()
    rcp_irx("export", "demo.gains", "-o", target, "--trec", "--column", "label", "--qrels", "demo.qrels", cwd=demo)
    labels = read_qrels(target)
    assert set(labels["label"]) == {-1, 0, 1, 2, 3}
    assert "people's labels: give --qrels" in rcp_irx(
        "export", "demo.gains", "-o", target, "--trec", "--column", "label", cwd=demo, code=2
    )
    assert "no column of numbers" in rcp_irx(
        "export", "demo.gains", "-o", target, "--trec", "--column", "docno", cwd=demo, code=2
    )
    assert "cannot be written" in rcp_irx("export", "demo.gains", "-o", tmp_path / "no" / "a", cwd=demo, code=2)
    assert "give one" in rcp_irx("export", "demo.gains", "-o", target, "--trec", "--jsonl", cwd=demo, code=2)
    assert "--scale is for --trec" in rcp_irx("export", "demo.gains", "-o", target, "--scale", "9", cwd=demo, code=2)


def test_devices_and_links_are_written_through_and_no_name_is_no_place(demo, tmp_path):
    target, link, pipe = tmp_path / "real.tsv", tmp_path / "link.tsv", tmp_path / "pipe"
    target.write_text("old")
    link.symlink_to(target)
    rcp_irx("export", "demo.gains", "-o", link, cwd=demo)
    assert link.is_symlink()
    assert target.read_text().startswith("qid\t")
    os.mkfifo(pipe)
    reader = threading.Thread(target=lambda: read.append(pipe.read_text()))
    read: list[str] = []
    reader.start()
    rcp_irx("export", "demo.gains", "-o", pipe, cwd=demo)
    reader.join(30)
    assert read[0] == target.read_text()
    assert stat.S_ISFIFO(pipe.stat().st_mode)
    for place in ("", ".", "/", demo / "demo.qrels" / "x", "x" * 300):
        assert "cannot be written" in rcp_irx("export", "demo.gains", "-o", place, cwd=demo, code=2)
    assert rcp_irx("export", "demo.gains", "-o", target, "--trec", "--scale", "9" * 20, cwd=demo, code=2)


def test_a_name_that_ends_in_gz_is_gzipped(demo, tmp_path):
    for kind in (["--tsv"], ["--jsonl"], ["--trec", "--scale", "1000"]):
        for name in ("a", "a.gz"):
            rcp_irx("export", "demo.gains", "-o", tmp_path / name, *kind, cwd=demo)
        assert gzip.decompress((tmp_path / "a.gz").read_bytes()) == (tmp_path / "a").read_bytes()


def test_quotes_in_ids_stay_as_they_are_and_tabs_are_refused(demo, tmp_path):
    gains = GainTable.load(demo / "demo.gains")
    for odd in ('"d002"', "d'0\"", "NA", "#1"):
        documents = gains.documents.assign(docno=gains.documents["docno"].replace("d002", odd))
        GainTable(documents, gains.queries, gains.criteria, gains.metadata).save(tmp_path / "odd.gains", overwrite=True)
        rcp_irx("export", tmp_path / "odd.gains", "-o", tmp_path / "a.tsv", cwd=demo)
        assert odd in {line.split("\t")[1] for line in (tmp_path / "a.tsv").read_text().splitlines()}
    documents = gains.documents.assign(docno=gains.documents["docno"].replace("d002", "d\t1"))
    GainTable(documents, gains.queries, gains.criteria, gains.metadata).save(tmp_path / "odd.gains", overwrite=True)
    said = rcp_irx("export", tmp_path / "odd.gains", "-o", tmp_path / "b.tsv", cwd=demo, code=2)
    assert "no tab or line's end; docno" in said
    assert not (tmp_path / "b.tsv").exists()


def test_what_the_shell_opened_is_added_to_and_stays_clean(demo, tmp_path):
    script = Path(sys.executable).parent / "rcp-irx"
    kept, pipe = tmp_path / "all.tsv", tmp_path / "pipe.tsv"
    kept.write_text("keep\n")
    for line in (f"'{script}' export demo.gains -o /dev/stdout >> '{kept}'",
                 f"'{script}' export demo.gains -o /dev/stdout | cat > '{pipe}'",
                 f"'{script}' export demo.gains -o >(cat > '{tmp_path / 'sub.tsv'}') && sleep 1"):  # fmt: skip
        done = subprocess.run(["bash", "-c", line], cwd=demo, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    assert kept.read_text() == "keep\n" + pipe.read_text()
    assert pipe.read_text().startswith("qid\t")
    assert (tmp_path / "sub.tsv").read_text() == pipe.read_text()
