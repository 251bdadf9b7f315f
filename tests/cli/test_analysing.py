"""rcp-irx compare, diagnose, explain: the library's numbers, and exit codes that a script can use."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pandas as pd
import pytest

import rcp_irx as rcp_irx_package
from rcp_irx import GainTable
from rcp_irx.analysis import compare, explain
from rcp_irx.cli import IN_THE_SHELL
from rcp_irx.demo import results
from tests.cli.conftest import installed, ran, rcp_irx

RUNS = ("rare-words.run", "trigrams.run", "longest.run")


def test_compare_prints_every_pair_and_gives_the_librarys_numbers(demo):
    said = json.loads(installed("compare", "demo.gains", *RUNS, "--qrels", "demo.qrels", "--json", cwd=demo))
    runs = {name.replace(" ", "-"): run for name, run in results.runs().items()}
    expected = compare(runs, GainTable.load(demo / "demo.gains"), results.qrels())
    for got, row in zip(said["pairs"], expected.pairs.to_dict("records"), strict=True):
        assert (got["measure"], got["system_a"], got["system_b"]) == (row["measure"], row["system_a"], row["system_b"])
        assert got["p"] == pytest.approx(row["p"], abs=1e-12)
        assert got["difference"] == pytest.approx(row["difference"], abs=1e-12)
    assert said["warnings"] == expected.warnings
    text = rcp_irx("compare", "demo.gains", *RUNS, cwd=demo)
    assert "RCPnDCG@10, every pair" in text
    assert len([line for line in text.splitlines() if line.split()[:1] == ["rare-words"]]) == 3


def test_families_are_left_out_in_turn(demo):
    families = [f"--family={name}={kind}" for name, kind in [("rare-words", "a"), ("trigrams", "b"), ("longest", "b")]]
    said = json.loads(rcp_irx("compare", "demo.gains", *RUNS, *families, "--json", cwd=demo))
    assert {row["left_out"] for row in said["families"]} == {"", "a", "b"}
    few = rcp_irx("compare", "demo.gains", *RUNS, families[0], cwd=demo, code=2)
    assert "trigrams" in few


def test_diagnose_exits_with_1_where_a_sign_warns(demo):
    error = installed("diagnose", "demo.gains", *RUNS, "--qrels", "demo.qrels", cwd=demo, code=1)
    assert error == "" or "warning" in error
    assert "exit code 1" in " ".join(rcp_irx("diagnose", "--help", cwd=demo).split())


def test_explain_adds_up_to_the_difference(demo):
    said = json.loads(installed("explain", "demo.gains", *RUNS[:2], "--qid", "3", "--json", cwd=demo))
    runs = {"rare-words": results.runs()["rare words"], "trigrams": results.runs()["trigrams"]}
    expected = explain("3", runs, GainTable.load(demo / "demo.gains"))
    assert said["scores"] == pytest.approx(list(expected.scores), abs=1e-12)
    total = sum(row["difference"] for row in said["documents"])
    assert total == pytest.approx(said["scores"][0] - said["scores"][1], abs=1e-9)


def test_the_judges_noise_widens_the_intervals(demo, tmp_path):
    plain, wider = (
        json.loads(rcp_irx("compare", "demo.gains", *RUNS, *more, "--json", cwd=demo))["systems"]
        for more in ((), ("--label-noise",))
    )
    for one, other in zip(plain, wider, strict=True):
        assert one["mean"] == other["mean"]
        if one["measure"] == "RCPnDCG":
            assert other["interval"] == "judge noise and query sample"
            assert other["high"] - other["low"] > one["high"] - one["low"]
    gains = GainTable.load(demo / "demo.gains")
    bare = GainTable(gains.documents.drop(columns="gain_se"), gains.queries, gains.criteria, gains.metadata)
    bare.save(tmp_path / "bare.gains")
    assert "gain_se" in rcp_irx("compare", tmp_path / "bare.gains", *RUNS, "--label-noise", cwd=demo, code=2)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["explain", "demo.gains", *RUNS, "--qid", "3"], "explain compares two runs, not 3"),
        (["explain", "demo.gains", *RUNS[:2], "--qid", "nope"], "query 'nope' has no gains"),
        (["compare", "demo.gains", RUNS[0], "-k", "0"], "Invalid value for '-k'"),
        (["compare", "demo.gains"], "Missing argument 'RUN...'. See `rcp-irx compare --help`."),
        (["compare", "demo.gains", *RUNS, "--family", "trigrams"], "--family is SYSTEM=FAMILY, not 'trigrams'"),
        (["nothing"], "No such command 'nothing'. See `rcp-irx --help`."),
        (["diagnose", "demo.gains", "--dataset", "x"], "no gains for dataset 'x'"),
        (["diagnose", "demo.qrels"], "demo.qrels"),
        (["diagnose", "nowhere"], "nowhere does not exist"),
    ],
)
def test_bad_input_is_told_in_one_line(demo, arguments, said):
    error = rcp_irx(*arguments, cwd=demo, code=2)
    assert said in error
    assert error.count("\n") == 1


def test_gains_of_several_datasets_ask_for_one_in_the_shells_words(demo, tmp_path):
    gains = GainTable.load(demo / "demo.gains")
    parts = [gains.documents.assign(dataset=name) for name in ("one", "two")]
    queries = [gains.queries.assign(dataset=name) for name in ("one", "two")]
    both = GainTable(pd.concat(parts), pd.concat(queries), gains.criteria, gains.metadata)
    both.save(tmp_path / "both.gains")
    for command in (["compare"], ["diagnose"], ["describe"], ["evaluate"], ["report", "-o", tmp_path / "r.html"]):
        asked = rcp_irx(*command, tmp_path / "both.gains", *RUNS, cwd=demo, code=2)
        assert "the gains hold the datasets 'one', 'two': give --dataset\n" in asked, command
    for source in (["--grades", "demo.qrels"], ["--qrels", "demo.qrels"]):
        asked = rcp_irx("describe", tmp_path / "both.gains", *source, cwd=demo, code=2)
        assert "'one', 'two': give --dataset\n" in asked, source
    of_one = rcp_irx("diagnose", tmp_path / "both.gains", *RUNS, "--dataset", "two", "--json", cwd=demo, code=1)
    assert of_one == rcp_irx("diagnose", "demo.gains", *RUNS, "--json", cwd=demo, code=1)
    own = ("--qid", "3", "--json")
    one = rcp_irx("explain", tmp_path / "both.gains", *RUNS[:2], "--dataset", "two", *own, cwd=demo)
    assert (
        json.loads(one)["scores"] == json.loads(rcp_irx("explain", "demo.gains", *RUNS[:2], *own, cwd=demo))["scores"]
    )
    (tmp_path / "file").write_text("not a log")
    asked = rcp_irx("diagnose", tmp_path / "file", "--dataset", "two", cwd=demo, code=2)
    assert "--dataset is for gains" in asked


def test_a_warning_is_told_once(demo, tmp_path):
    rows = (demo / "trigrams.run").read_text().splitlines()
    (tmp_path / "twice.run").write_text("\n".join([*rows, rows[3]]))
    _, _, error = ran("report", "demo.gains", tmp_path / "twice.run", "-o", tmp_path / "r.html", cwd=demo)
    told = [line for line in error.splitlines() if line.startswith("rcp-irx: warning:")]
    assert told
    assert len(set(told)) == len(told)


def test_without_a_command_the_commands_are_shown(demo):
    code, out, _ = ran(cwd=demo)
    assert code == 2
    assert "\n  compare " in out


def test_every_word_for_the_shell_stands_in_a_message_of_the_library():
    """A message that is reworded must not lose its translation in silence."""
    folder = Path(rcp_irx_package.__file__).parent
    sources = [path.read_text() for path in folder.rglob("*.py") if "cli" not in path.parts]
    whole = re.sub(r'"\s*f?"', "", "\n".join(sources))  # parts of one message
    for pattern in IN_THE_SHELL:
        assert re.search(pattern, whole), pattern


def test_one_system_has_no_pairs_and_no_empty_table(demo):
    text = rcp_irx("compare", "demo.gains", RUNS[0], cwd=demo)
    assert "Empty" not in text
    assert "every pair" not in text


def test_noise_is_asked_for_in_the_shells_words(demo, tmp_path):
    gains = GainTable.load(demo / "demo.gains")
    bare = GainTable(gains.documents.drop(columns="gain_se"), gains.queries, gains.criteria, gains.metadata)
    bare.save(tmp_path / "bare.gains")
    said = rcp_irx("compare", tmp_path / "bare.gains", *RUNS, "--label-noise", cwd=demo, code=2)
    assert "label_noise" not in said
    assert "`rcp-irx fit` gives it" in said
    assert "name it without #" in rcp_irx("compare", f"{demo / 'demo.gains'}#x", *RUNS, cwd=demo, code=2)


def test_queries_that_are_not_compared_are_told_in_the_result(demo, tmp_path):
    rows = [line for line in (demo / "demo.qrels").read_text().splitlines() if line.startswith(("1 ", "2 "))]
    (tmp_path / "two.qrels").write_text("\n".join(rows))
    said = json.loads(rcp_irx("compare", "demo.gains", *RUNS, "--qrels", tmp_path / "two.qrels", "--json", cwd=demo))
    assert "2 of 10 queries are compared: the others have no label" in said["warnings"]
