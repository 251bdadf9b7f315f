"""Where the files of a released subset are found: folders, splits, parts, the default subset."""

from __future__ import annotations

import json
import re

import pytest

pytest.importorskip("pyarrow")

from rcp_irx import GainTable, RCPError, RCPWarning
from tests.released.folders import (
    POOL,
    ROWS,
    by_document,
    newer,
    older,
    qrels,
    write,
)


@pytest.mark.parametrize(
    ("source", "options", "message"),
    [
        (None, {}, "given as text or a path, not None"),
        (5, {}, "given as text or a path, not 5"),
        (b"folder", {}, "given as text or a path, not b'folder'"),
        ("", {}, "an empty text names none"),
        ("a" * 5000, {}, "cannot be looked up"),
        ("x", {"subset": None}, "subset is named by a text that is not empty, not None"),
        ("x", {"subset": 2019}, "not 2019"),
        ("x", {"subset": ""}, "not ''"),
        ("x", {"dataset": 5}, "dataset is a text or None, not 5"),
        ("x", {"split": ["test"]}, "split is a text or None"),
        ("x", {"revision": 1}, "revision is a text or None, not 1"),
        ("x", {"item_parameters": {}}, "item_parameters is a text or None"),
    ],
)
def test_arguments_of_another_type_are_refused(source, options, message):
    with pytest.raises(RCPError, match=message):
        GainTable.from_released(source, **options)


def test_messages_name_the_whole_path(tmp_path, monkeypatch):
    newer(tmp_path / "r")
    monkeypatch.chdir(tmp_path)
    for options, message in [({"subset": "y"}, "has no subset"), ({"subset": "x", "split": "dev"}, "has no split")]:
        with pytest.raises(RCPError, match=message) as error:
            GainTable.from_released("r", **options)
        assert str(tmp_path / "r") in str(error.value)
    (tmp_path / "r" / "items.json").write_text(json.dumps({"gamma": [], "beta": []}))
    with pytest.raises(RCPError, match=re.escape(str(tmp_path / "r" / "items.json"))):
        GainTable.from_released("r", "x")
    with pytest.raises(RCPError, match=re.escape(f"{tmp_path / 'nowhere'} is not there")):
        GainTable.from_released("./nowhere", "x")


def test_a_folder_in_neither_layout_is_named_with_what_it_holds(tmp_path):
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(RCPError, match=r"neither '\{subset\}-qrels/.* nor '\{subset\}/qrels.parquet' .*'notes.txt'"):
        GainTable.from_released(tmp_path, "x")


def test_a_subset_that_is_not_there_names_those_that_are(tmp_path):
    older(newer(tmp_path, "one"), "two")
    with pytest.raises(RCPError, match="has no subset 'three'; it has 'one', 'two'"):
        GainTable.from_released(tmp_path, "three")


def test_places_that_cannot_be_datasets_are_refused(tmp_path):
    with pytest.raises(RCPError, match="is not there"):
        GainTable.from_released(tmp_path / "nowhere", "x")
    (tmp_path / "file").write_text("x")
    with pytest.raises(RCPError, match="is a file"):
        GainTable.from_released(tmp_path / "file", "x")
    with pytest.raises(RCPError, match="revision='main' is of a repository on the Hub"):
        GainTable.from_released(newer(tmp_path / "d"), "x", revision="main")
    GainTable.from_released(tmp_path / "d", "x").save(tmp_path / "saved")
    with pytest.raises(RCPError, match=r"open it with GainTable.load"):
        GainTable.from_released(tmp_path / "saved", "x")


def test_a_split_is_chosen_by_name_where_there_are_several(tmp_path):
    newer(newer(tmp_path, split="dev"), split="test", qrels=qrels(ROWS[:2]), top_ranked=POOL)
    with pytest.raises(RCPError, match="has the splits 'dev', 'test'; choose one"):
        GainTable.from_released(tmp_path, "x")
    with pytest.raises(RCPError, match="has no split 'train'; it has 'dev', 'test'"):
        GainTable.from_released(tmp_path, "x", split="train")
    with pytest.warns(RCPWarning, match="no gain"):  # the pools' one split serves both, and q2 has gains in one
        assert len(GainTable.from_released(tmp_path, "x", split="test")) == 2
    assert len(GainTable.from_released(tmp_path, "x", split="dev")) == 4
    with pytest.raises(RCPError, match="older layout, which has no splits"):
        GainTable.from_released(older(tmp_path / "old"), "x", split="test")


def test_a_file_in_parts_is_read_whole_or_not_at_all(tmp_path):
    newer(tmp_path, qrels=None, top_ranked=POOL)
    for part, rows in enumerate([ROWS[:2], ROWS[2:3], ROWS[3:]]):
        write(tmp_path / "x-qrels" / f"test-0000{part}-of-00003.parquet", qrels(rows))
    assert len(GainTable.from_released(tmp_path, "x")) == 4
    (tmp_path / "x-qrels" / "test-00001-of-00003.parquet").unlink()
    with pytest.raises(RCPError, match=r"lacks parts: of 3 files it has .*test-00000-of-00003"):
        GainTable.from_released(tmp_path, "x")


@pytest.mark.parametrize("folder", ["qrels", "default", "data"])
def test_the_default_subset_has_no_prefix(tmp_path, folder):
    newer(tmp_path, "default", qrels=None, top_ranked=POOL)
    write(tmp_path / folder / "test-00000-of-00001.parquet", qrels())
    table = GainTable.from_released(tmp_path)
    assert by_document(table, "pool_rank")["q1", "b"] == 0
    assert table.datasets == [""]
