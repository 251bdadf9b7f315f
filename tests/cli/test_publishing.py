"""rcp-irx report and describe: files that are whole or not there, texts that say what was recorded."""

from __future__ import annotations

import base64
import gzip
import json
import re
from dataclasses import replace

import pandas as pd
import pytest

from rcp_irx import GainTable, JudgmentLog
from rcp_irx import demo as collection
from rcp_irx.judging.judges.base import Usage
from rcp_irx.judging.judges.lexical import LexicalJudge
from rcp_irx.judging.labelling import Labelling
from rcp_irx.judging.protocol import REDUCED
from rcp_irx.judging.rubric import Rubric
from tests.cli.conftest import installed, rcp_irx

RUNS = ("rare-words.run", "longest.run")


def test_a_report_of_everything_and_of_gains_alone(demo, tmp_path):
    pytest.importorskip("ir_datasets")
    page = tmp_path / "report.html"
    options = ("--qrels", "demo.qrels", "--docs", "irds:rcp-irx/demo", "--title", "Mine", "--json")
    said = json.loads(installed("report", "demo.gains", *RUNS, *options, "-o", page, cwd=demo))
    assert said["bytes"] == page.stat().st_size
    assert [text for text in said["missing"] if "--log" in text]
    assert len(said["missing"]) == 1
    assert "<title>Mine</title>" in page.read_text()
    assert "10 queries" in rcp_irx("report", "demo.gains", "-o", page, cwd=demo)
    assert "cannot be written" in rcp_irx("report", "demo.gains", "-o", tmp_path / "no" / "r.html", cwd=demo, code=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["report.html"]


def test_describe_says_what_a_reviewer_asks(demo):
    text = installed("describe", "demo.gains", *RUNS, "--qrels", "demo.qrels", "--grades", "demo.qrels", cwd=demo)
    for fact in ("lexical-stand-in/1", "53 random and 27 stratified windows of 10", "0 of 660 windows", "SHA-256",
                 "10 queries were judged", "under 0.95", "share their score", "people's grades", "| C5 |"):  # fmt: skip
        assert fact in text, fact
    tex = rcp_irx("describe", "demo.gains", *RUNS, "--latex", cwd=demo)
    assert "\\begin{tabular}" in tex
    assert "rcp\\_irx" in tex
    assert "63.0\\%" in tex


def test_grades_of_several_annotators_come_as_a_table(demo, tmp_path):
    rows = ["qid\tdocno\tgrade\tannotator"]
    for line in (demo / "demo.qrels").read_text().splitlines():
        qid, _, docno, label = line.split()
        rows += [f"{qid}\t{docno}\t{label}\tann{i}" for i in range(2)]
    (tmp_path / "grades.tsv").write_text("\n".join(rows))
    assert "people's grades" in rcp_irx("describe", "demo.gains", "--grades", tmp_path / "grades.tsv", cwd=demo)
    (tmp_path / "odd.tsv").write_text(f"{rows[0]}\n1\td001\thigh\ta\n")
    said = rcp_irx("describe", "demo.gains", "--grades", tmp_path / "odd.tsv", cwd=demo, code=2)
    assert "odd.tsv, line 2: a grade must be a number, not 'high'" in said


class Metered(LexicalJudge):
    """Says that each call took a million prompt tokens and 50,000 of an answer."""

    name = "metered"

    def tournament(self, query, documents):
        return replace(super().tournament(query, documents), usage=Usage(1_000_000, 50_000))

    def rubric(self, query, documents, rubric):
        return replace(super().rubric(query, documents, rubric), usage=Usage(1_000_000, 50_000))


def test_the_judging_costs_what_its_prices_say(demo, tmp_path):
    log = JudgmentLog(tmp_path / "my.judgments")
    labelling = Labelling(Metered(), log, Rubric.load(), REDUCED)
    documents = [*collection.documents()][:12]
    rows = [("1", "tea", docno, text) for docno, text in documents]
    labelling.run(labelling.pools(pd.DataFrame(rows, columns=["qid", "query", "docno", "text"])))
    calls = int(log.usage()["calls"].sum())
    page = tmp_path / "r.html"
    log.calibrate().save(tmp_path / "my.gains")
    arguments = ("report", tmp_path / "my.gains", "--log", tmp_path / "my.judgments", "-o", page, "--json")
    unpriced = "No prices of tokens were given: no dollars are shown (--prices)."
    assert unpriced in json.loads(rcp_irx(*arguments, cwd=demo))["missing"]
    assert unpriced not in json.loads(rcp_irx(*arguments, "--prices", "2", "10", cwd=demo))["missing"]
    cells = re.findall(r"<td class=\"num\">([\d.,]+)</td></tr>", page.read_text().split("<caption>Calls</caption>")[1])
    assert sum(map(float, cells[:2])) == pytest.approx(2.5 * calls)
    assert "a price" in rcp_irx(*arguments, "--prices", "-2", "10", cwd=demo, code=2)
    said = rcp_irx("report", "demo.gains", "--log", tmp_path / "my.judgments", "-o", page, cwd=demo, code=2)
    assert "holds nothing of the gains' judge 'lexical-stand-in/1" in said
    assert "give both" in rcp_irx("report", "demo.gains", "-o", page, "--prices", "2", "10", cwd=demo, code=2)


def test_line_ends_in_names_break_no_table(demo, tmp_path):
    gains = GainTable.load(demo / "demo.gains")
    criteria = gains.criteria.assign(name=[f"a\nb{i}" for i in range(len(gains.criteria))])
    GainTable(gains.documents, gains.queries, criteria, gains.metadata).save(tmp_path / "odd.gains")
    lines = rcp_irx("describe", tmp_path / "odd.gains", cwd=demo).splitlines()
    table = lines[next(i for i, line in enumerate(lines) if line.startswith("| criterion")) :]
    assert len(table) == 2 + len(criteria)
    assert {line.count("|") for line in table} == {6}


def test_a_log_of_several_datasets_tells_of_the_gains_own(demo, tmp_path):
    log = JudgmentLog(tmp_path / "two.judgments")
    for dataset, size in (("one", 12), ("two", 20)):
        labelling = Labelling(LexicalJudge(), log, Rubric.load(), REDUCED)
        rows = [("1", "tea", docno, text, dataset) for docno, text in [*collection.documents()][:size]]
        labelling.run(labelling.pools(pd.DataFrame(rows, columns=["qid", "query", "docno", "text", "dataset"])))
    log.calibrate().save(tmp_path / "two.gains")
    own = log.usage(["one"])
    assert 0 < own["calls"].sum() < log.usage()["calls"].sum()
    arguments = ("--dataset", "one", "--log", tmp_path / "two.judgments", "-o", tmp_path / "r.html")
    rcp_irx("report", tmp_path / "two.gains", *arguments, cwd=demo)
    calls = (tmp_path / "r.html").read_text().split("<caption>Calls</caption>")[1].split("</table>")[0]
    assert [int(row.split("</td>")[2].split(">")[1]) for row in calls.split("<tr>")[2:]] == own["windows"].tolist()
    planned = int(log.calibrate().select("one").queries["planned"].sum())
    text = rcp_irx("describe", tmp_path / "two.gains", "--dataset", "one", cwd=demo)
    assert f"0 of {planned} windows had no usable answer" in text


def test_a_log_of_other_queries_is_refused(demo, tmp_path):
    log = JudgmentLog(tmp_path / "other.judgments")
    labelling = Labelling(LexicalJudge(), log, Rubric.load(), REDUCED)
    rows = [("another", "tea", docno, text) for docno, text in [*collection.documents()][:12]]
    labelling.run(labelling.pools(pd.DataFrame(rows, columns=["qid", "query", "docno", "text"])))
    arguments = ("report", "demo.gains", "--log", tmp_path / "other.judgments", "-o", tmp_path / "r.html")
    assert "other.judgments is of other gains" in rcp_irx(*arguments, cwd=demo, code=2)


def test_texts_that_are_missing_are_counted(demo, tmp_path):
    docno = GainTable.load(demo / "demo.gains").documents["docno"].iloc[0]
    (tmp_path / "one.tsv").write_text(f"{docno}\t{dict(collection.documents())[docno]}\n")
    page = ("-o", tmp_path / "r.html")
    said = rcp_irx("report", "demo.gains", "--docs", tmp_path / "one.tsv", *page, cwd=demo)
    assert "No text was given of " in said
    (tmp_path / "none.tsv").write_text("zz\ttext\n")
    assert "none.tsv" in rcp_irx("report", "demo.gains", "--docs", tmp_path / "none.tsv", *page, cwd=demo, code=2)


def test_an_appendix_tells_only_what_is_known(demo, tmp_path):
    gains = GainTable.load(demo / "demo.gains")
    GainTable(gains.documents, gains.queries, gains.criteria, {"rcp_irx": ""}).save(tmp_path / "bare.gains")
    rows = [line for line in (demo / "longest.run").read_text().splitlines() if not line.startswith("3 ")]
    (tmp_path / "short.run").write_text("\n".join(rows))
    text = rcp_irx("describe", tmp_path / "bare.gains", tmp_path / "short.run", "--grades", "demo.qrels", cwd=demo)
    assert "made with a program that is not recorded" in text
    assert "counts 0, for some queries of short (1 query)" in text
    assert "nan" not in text
    assert "ECE of chance alone" in text
    assert "no tournament prompt" in rcp_irx("describe", "demo.gains", cwd=demo)


def test_criteria_may_be_called_as_they_like(demo, tmp_path):
    gains = GainTable.load(demo / "demo.gains")
    ids = dict(zip(gains.criteria["id"], ["label", "rank:longest", "gain_", "x", "y"], strict=True))
    criteria = gains.criteria.assign(id=gains.criteria["id"].map(ids))
    GainTable(gains.documents.rename(columns=ids), gains.queries, criteria, {"judge": "x"}).save(tmp_path / "odd.gains")
    page = tmp_path / "r.html"
    rcp_irx("report", tmp_path / "odd.gains", *RUNS, "--qrels", "demo.qrels", "-o", page, cwd=demo)
    held = json.loads(re.search(r'id="documents">(.*?)</script>', page.read_text(), re.DOTALL)[1])
    rows = json.loads(gzip.decompress(base64.b64decode(held["0"])))
    assert {"label", "pass:label", "rank:longest", "pass:rank:longest"} <= set(rows)
