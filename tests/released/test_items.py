"""Item parameters of a released subset: which file counts, and what cannot be right."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("pyarrow")

from rcp_irx import GainTable, RCPError
from tests.released import folders
from tests.released.folders import (
    BETA,
    GAMMA,
    ROWS,
    by_document,
    gain_of,
    items,
    newer,
    qrels,
)

table_of = folders.table

GAINS = {(qid, docno): gain_of(theta) for qid, docno, _, theta in ROWS if theta is not None}


@pytest.mark.parametrize("name", ["x/irt.json", "x-qrels/p.json", "x.json", "fit_x.json", "top.json", "items/a.json"])
def test_item_parameters_are_found_by_what_they_hold(tmp_path, name):
    newer(tmp_path, qrels=qrels())
    (tmp_path / "items.json").unlink()
    (tmp_path / "note.json").write_text('{"gamma": "is a letter"}')
    items(tmp_path / name)
    assert GainTable.from_released(tmp_path, "x").metadata["released"]["item_parameters"] == name


def test_the_nearest_item_parameters_count_and_two_that_differ_are_a_choice(tmp_path):
    newer(tmp_path)
    items(tmp_path / "other.json", gamma=[9.0, 9.0])
    with pytest.raises(RCPError, match=r"several item parameters: 'items.json', 'other.json'; choose one"):
        GainTable.from_released(tmp_path, "x")
    assert len(GainTable.from_released(tmp_path, "x", item_parameters="items.json")) == 4
    with pytest.raises(RCPError, match=r"stored gains more than 0.0001 .*/other.json"):
        GainTable.from_released(tmp_path, "x", item_parameters="other.json")
    items(tmp_path / "x.json")
    assert GainTable.from_released(tmp_path, "x").metadata["released"]["item_parameters"] == "x.json"


@pytest.mark.parametrize(
    ("subset", "others", "foreign"),
    [
        ("fever", ["climate-fever"], "climate-fever.json"),
        ("fever", ["climate_fever"], "irt-climate-fever.json"),
        ("a", ["a-b"], "a-b-qrels/irt.json"),
        ("a", ["a-b"], "a-b-items/items.json"),
        ("a", ["a-b"], "fit_a-b.json"),
        ("x", ["y"], "y.json"),
        ("x", ["y"], "y/item.json"),
        ("x", ["y"], "items/y.json"),
        ("x", ["default"], "qrels/items.json"),
        ("nq", ["nq-gpt-oss"], "nq-gpt-oss-items.json"),
    ],
)
def test_a_file_of_another_subset_never_serves(tmp_path, subset, others, foreign):
    """Where abilities alone are stored nothing else would tell."""
    for name in [subset, *others]:
        newer(tmp_path, name, qrels=qrels(gain=None))
    (tmp_path / "items.json").unlink()
    items(tmp_path / foreign, gamma=[9.0, 9.0])
    with pytest.raises(RCPError, match=f"no item parameters for subset '{subset}'"):
        GainTable.from_released(tmp_path, subset)
    assert GainTable.from_released(tmp_path, others[0]).metadata["released"]["item_parameters"] == foreign
    items(tmp_path / "shared.json")
    table = GainTable.from_released(tmp_path, subset)
    assert table.metadata["released"]["item_parameters"] == "shared.json"
    assert by_document(table, "gain") == pytest.approx(GAINS, abs=1e-15)


def test_the_file_of_exactly_the_subsets_name_comes_first(tmp_path):
    newer(tmp_path, "a-b", qrels=qrels(gain=None))
    (tmp_path / "items.json").unlink()
    items(tmp_path / "fit-a-b.json", gamma=[9.0, 9.0])
    items(tmp_path / "a_b.json")
    assert GainTable.from_released(tmp_path, "a-b").metadata["released"]["item_parameters"] == "a_b.json"


def test_a_subset_called_as_a_word_of_the_shared_file_takes_it_from_no_other(tmp_path):
    gains = table_of(keys=(("item", "q1"), ("parameters", "q1")))
    gains.to_released(tmp_path / "r")
    assert GainTable.from_released(tmp_path / "r", "parameters") == gains.select("parameters")


def test_missing_item_parameters_say_what_was_looked_for_and_found(tmp_path):
    newer(tmp_path)
    (tmp_path / "items.json").write_text('{"alpha": 1, "delta": 2}')
    with pytest.raises(
        RCPError, match=r"no item parameters for subset 'x': .*items.json \(keys \['alpha', 'delta'\]\)"
    ):
        GainTable.from_released(tmp_path, "x")
    (tmp_path / "items.json").write_text("{")
    with pytest.raises(RCPError, match=r"items.json \(unreadable"):
        GainTable.from_released(tmp_path, "x")
    with pytest.raises(RCPError, match=r"no item parameters at .*nothing.json; JSON files there: 'items.json'"):
        GainTable.from_released(tmp_path, "x", item_parameters="nothing.json")


@pytest.mark.parametrize(
    ("gamma", "beta"),
    [
        ([1.0], [1.0, 2.0]),
        ([], []),
        ([0.0, 1.0], BETA),
        (["1", "2"], BETA),
        (GAMMA, [None, 1.0]),
        ({"C1": 1.0}, [1.0]),
        ([float("nan"), 1.0], BETA),
    ],
)
def test_parameters_that_cannot_be_right_are_refused(tmp_path, gamma, beta):
    newer(tmp_path)
    (tmp_path / "items.json").write_text(json.dumps({"gamma": gamma, "beta": beta}))
    with pytest.raises(RCPError, match=r"items.json: gamma .* and beta must be lists of one number a criterion"):
        GainTable.from_released(tmp_path, "x")
