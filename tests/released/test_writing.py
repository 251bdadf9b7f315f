"""GainTable.to_released: it reads back equal, others can read it, the card says what is known."""

from __future__ import annotations

import os
import re
import shutil
import sys

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pyarrow")

from rcp_irx import GainTable, LexicalJudge, MissingExtra, RCPError, RCPWarning
from tests.released.folders import OUT, POOL, by_document, frame, newer, pq, table
from tests.test_gains import ODD

LABELS = frame([("q1", "a", 2), ("q1", "unpooled", 1), ("q2", "c", 0)], "qid docno label")
CORPUS = frame([("a", "A", "one"), ("b", None, "two"), ("c", "C", "")], "docno title text")


def rows(folder, config, split="test"):
    return pq.read_table(folder / config / f"{split}-00000-of-00001.parquet").to_pandas()


def names(folder):
    return sorted(file.relative_to(folder).as_posix() for file in folder.rglob("*.parquet"))


@pytest.mark.parametrize(
    "gains",
    [
        table(keys=(("x", "q1"), ("x", "q2"))),
        table(keys=[("x", qid) for qid in ODD], docnos=ODD),
        table(keys=(("x", "q1"),)).exclude(frame([("q1", "b"), ("q1", "outside")], "qid docno")),
        table(keys=(("x", "q1"),), docnos=["a"], name="named", note="a note"),
    ],
    ids=["plain", "odd ids", "excluded", "one document"],
)
def test_what_is_written_reads_back_equal(tmp_path, gains):
    gains.to_released(tmp_path / "r")
    read = GainTable.from_released(tmp_path / "r", "x")
    assert read == gains
    assert read.label == gains.label
    assert read.documents["theta"].tolist() == gains.documents["theta"].tolist()  # to the last bit


def test_columns_kept_beside_documents_and_the_order_of_rows_read_back(tmp_path):
    gains = table()
    documents = gains.documents.assign(source_rank_1=[1.0, np.nan] * 3, origin=["fused", None] * 3).iloc[::-1]
    gains = GainTable(documents, gains.queries, gains.criteria, gains.metadata)
    gains.to_released(tmp_path / "r", "x")
    assert GainTable.from_released(tmp_path / "r", "x") == gains


def test_a_calibrated_log_reads_back_equal(tmp_path):
    pytest.importorskip("pyterrier")
    from rcp_irx import RCPJudge

    pool = pd.DataFrame(
        [(qid, "why is it", f"d{i}", f"it is {i} " * i) for qid in ("q1", "q2") for i in range(1, 12)],
        columns=["qid", "query", "docno", "text"],
    )
    judge = RCPJudge(LexicalJudge(), log=tmp_path / "log", dataset="mine")
    judge(pool)
    gains = judge.log.calibrate()
    judge.log.close()
    gains.to_released(tmp_path / "r", corpus=pool[["docno", "text"]].drop_duplicates(), licence="cc-by-4.0")
    assert GainTable.from_released(tmp_path / "r", "mine") == gains
    card = (tmp_path / "r" / "README.md").read_text(encoding="utf-8")
    for known in [
        gains.metadata["judge"],
        gains.metadata["rubric"],
        *gains.metadata["prompts"].values(),
        "stratified 27",
        f"Windows planned: {gains.metadata['windows']['planned']}",
        "Windows without a usable answer: 0 (0.00%)",
        "converged True",
        gains.fit_id,
        gains.metadata["note"],
        'license: "cc-by-4.0"',
        "Models trained on these labels",
        *gains.criteria["question"],
    ]:
        assert known in card
    assert "Revision of the judge: not recorded" in card
    gains.metadata["judge_revision"] = "0368c1b"
    gains.to_released(tmp_path / "again")
    card = (tmp_path / "again" / "README.md").read_text(encoding="utf-8")
    assert "Revision of the judge: 0368c1b" in card
    assert "No licence was given: ask the owner" in card
    assert "license:" not in card


def test_the_standard_files_alone_hold_gains_abilities_labels_pools_and_exclusions(tmp_path):
    out = frame([("q1", "b"), ("q1", "outside")], "qid docno")
    gains = table(keys=(("x", "q1"), ("x", "q2")), docnos=["007", "b", "NA"]).exclude(out)
    labels = frame([("q1", "007", 2), ("q1", "unpooled", 1), ("q2", "NA", 0)], "qid docno label")
    gains.to_released(tmp_path / "r", human_labels=labels)
    shutil.rmtree(tmp_path / "r" / "rcp_irx")
    read = GainTable.from_released(tmp_path / "r", "x")
    for column in ("gain", "theta", "pool_rank", "excluded"):
        assert by_document(read, column) == by_document(gains, column)
    assert read.human_labels[["qid", "docno", "label"]].values.tolist() == labels.values.tolist()
    assert read.excluded_outside.equals(gains.excluded_outside)
    assert read.criteria[["gamma", "beta"]].equals(gains.criteria[["gamma", "beta"]])
    assert read.queries["query"].tolist() == ["why", "why"]
    assert read.documents["bt"].isna().all()


def test_the_files_are_those_of_mteb_and_of_the_releases(tmp_path):
    gains = table(keys=(("x", "q1"), ("x", "q2"))).exclude(frame([("q1", "b"), ("q2", "z")], "qid docno"))
    gains.to_released(tmp_path / "r", split="dev", corpus=CORPUS, human_labels=LABELS)
    kinds = ["corpus", "excluded", "gains", "qrels", "queries", "top_ranked"]
    assert names(tmp_path / "r") == [f"x-{kind}/dev-00000-of-00001.parquet" for kind in kinds]
    qrels = rows(tmp_path / "r", "x-qrels", "dev")
    assert list(qrels) == ["query-id", "corpus-id", "score", "gain", "theta"]
    assert qrels.set_index(["query-id", "corpus-id"])["score"].to_dict() == {
        ("q1", "a"): 2,
        ("q1", "b"): -1,
        ("q1", "c"): -1,
        ("q2", "a"): -1,
        ("q2", "b"): -1,
        ("q2", "c"): 0,
        ("q1", "unpooled"): 1,
    }
    assert qrels["score"].dtype == np.int64
    assert qrels.loc[qrels["corpus-id"] == "unpooled", ["gain", "theta"]].isna().all().all()
    gain_rows = rows(tmp_path / "r", "x-gains", "dev")
    assert list(gain_rows) == ["query-id", "corpus-id", "gain"]
    assert ("q1", "b") not in set(zip(gain_rows["query-id"], gain_rows["corpus-id"], strict=True))
    pools = rows(tmp_path / "r", "x-top_ranked", "dev")
    assert dict(zip(pools["query-id"], map(list, pools["corpus-ids"]), strict=True)) == {
        key: ["a", "b", "c"] for key in ["q1", "q2"]
    }
    out = rows(tmp_path / "r", "x-excluded", "dev")
    assert dict(zip(out["query-id"], map(list, out["excluded-corpus-ids"]), strict=True)) == {"q1": ["b"], "q2": ["z"]}
    assert rows(tmp_path / "r", "x-queries", "dev").values.tolist() == [["q1", "why"], ["q2", "why"]]
    assert rows(tmp_path / "r", "x-corpus", "dev").values.tolist() == [
        ["a", "A", "one"],
        ["b", "", "two"],
        ["c", "C", ""],
    ]


def test_human_labels_go_into_the_score_and_come_back(tmp_path):
    gains = table()
    with pytest.warns(RCPWarning, match="1 label query has no gains, left out: 'q9'"):
        gains.to_released(
            tmp_path / "r", "x", human_labels=pd.concat([LABELS, frame([("q9", "a", 1)], "qid docno label")])
        )
    read = GainTable.from_released(tmp_path / "r", "x")
    assert read.human_labels.values.tolist() == [["", *row] for row in LABELS.values.tolist()]
    assert read == GainTable(gains.documents, gains.queries, gains.criteria, gains.metadata, human_labels=LABELS)
    read.to_released(tmp_path / "again", "x")
    assert GainTable.from_released(tmp_path / "again", "x") == read


def test_without_human_labels_the_score_is_the_number_of_criteria(tmp_path):
    gains = table(keys=(("x", "q1"),))
    gains.to_released(tmp_path / "r")
    written = rows(tmp_path / "r", "x-qrels")
    assert written["score"].tolist() == gains.qrels()["label"].tolist()
    assert "number of criteria" in (tmp_path / "r" / "README.md").read_text()
    assert GainTable.from_released(tmp_path / "r", "x").human_labels.empty


def test_counts_of_criteria_are_no_human_labels_where_only_the_parquet_files_are_read(tmp_path):
    gains = table(keys=(("x", "q1"),))
    gains.to_released(tmp_path / "r")
    shutil.rmtree(tmp_path / "r" / "rcp_irx")
    read = GainTable.from_released(tmp_path / "r", "x")
    assert read.human_labels.empty
    assert read.qrels()["label"].tolist() == gains.qrels()["label"].tolist()
    read.to_released(tmp_path / "again")
    assert GainTable.from_released(tmp_path / "again", "x").human_labels.empty
    assert "is no human label" in (tmp_path / "again" / "README.md").read_text()


def test_human_labels_of_one_dataset_are_none_of_another(tmp_path):
    gains = table(keys=(("one", "q1"), ("two", "q1")))
    gains.to_released(tmp_path / "r", human_labels=LABELS[LABELS["qid"] == "q1"].assign(dataset="two"))
    shutil.rmtree(tmp_path / "r" / "rcp_irx")
    assert GainTable.from_released(tmp_path / "r", "one").human_labels.empty
    assert len(GainTable.from_released(tmp_path / "r", "two").human_labels) == 2
    card = (tmp_path / "r" / "README.md").read_text()
    assert "The `score` (of two) is the human label" in card
    assert "The `score` (of one) is no human label" in card


def test_files_written_anew_by_a_tool_that_drops_the_mark_are_still_the_tables(tmp_path):
    gains = table(keys=(("x", "q1"),))
    gains.to_released(tmp_path / "r")
    file = tmp_path / "r" / "x-qrels" / "test-00000-of-00001.parquet"
    qrels = pq.read_table(file).replace_schema_metadata(None)
    pq.write_table(qrels, file)
    assert GainTable.from_released(tmp_path / "r", "x") == gains
    changed = qrels.to_pandas()
    changed.loc[changed["corpus-id"] == "b", "score"] += 1
    changed.to_parquet(file)
    with pytest.raises(RCPError, match=r"differ for query, document \('q1', 'b'\)"):
        GainTable.from_released(tmp_path / "r", "x")


def test_parts_that_disagree_on_their_score_are_refused(tmp_path):
    table(keys=(("x", "q1"),)).to_released(tmp_path / "r")
    place = tmp_path / "r" / "x-qrels"
    whole = pq.read_table(place / "test-00000-of-00001.parquet")
    (place / "test-00000-of-00001.parquet").unlink()
    pq.write_table(whole.slice(0, 1), place / "test-00000-of-00002.parquet")
    pq.write_table(whole.slice(1).replace_schema_metadata(None), place / "test-00001-of-00002.parquet")
    with pytest.raises(RCPError, match=r"parts disagree on 'rcp_irx\.score'"):
        GainTable.from_released(tmp_path / "r", "x")


def test_a_released_table_can_be_released_again(tmp_path):
    first = GainTable.from_released(newer(tmp_path / "one", top_ranked=POOL, excluded=OUT), "x")
    first.to_released(tmp_path / "two")
    again = GainTable.from_released(tmp_path / "two", "x")
    assert again == first
    assert names(tmp_path / "two") == [
        f"x-{k}/test-00000-of-00001.parquet" for k in ["excluded", "gains", "qrels", "top_ranked"]
    ]
    assert not (tmp_path / "two" / "x-queries").exists()  # no text was released


def test_gains_without_abilities_are_released_without_them(tmp_path):
    gains = {"query-id": ["q1", "q1"], "corpus-id": ["a", "b"], "gain": [0.25, 1.0]}
    first = GainTable.from_released(newer(tmp_path / "one", "default", qrels=None, gains=gains))
    with pytest.raises(RCPError, match="give labels"):
        first.to_released(tmp_path / "two")
    assert [file.name for file in tmp_path.iterdir()] == ["one"]
    first.to_released(tmp_path / "two", human_labels=frame([("q1", "a", 1)], "qid docno label"))
    assert list(rows(tmp_path / "two", "qrels")) == ["query-id", "corpus-id", "score", "gain"]
    shutil.rmtree(tmp_path / "two" / "rcp_irx")
    assert by_document(GainTable.from_released(tmp_path / "two"), "gain") == {("q1", "a"): 0.25, ("q1", "b"): 1.0}


def test_every_dataset_of_a_table_becomes_a_subset(tmp_path):
    gains = table(keys=(("one", "q1"), ("two", "q1")))
    corpus = pd.concat([CORPUS.assign(dataset="one"), CORPUS.assign(dataset="two", text="other")])
    gains.to_released(tmp_path / "r", corpus=corpus)
    for name in ("one", "two"):
        assert GainTable.from_released(tmp_path / "r", name) == gains.select(name)
    assert set(rows(tmp_path / "r", "two-corpus")["text"]) == {"other"}
    with pytest.raises(RCPError, match="has no subset 'three'; it has 'one', 'two'"):
        GainTable.from_released(tmp_path / "r", "three")


def test_a_mapping_names_the_subsets_of_several_datasets(tmp_path):
    gains = table(keys=(("a/b", "q1"), ("", "q1")))
    gains.to_released(tmp_path / "r", {"a/b": "a-b", "": "default"})
    assert GainTable.from_released(tmp_path / "r", "a-b") == gains.select("a/b")
    assert GainTable.from_released(tmp_path / "r") == gains.select("")


def test_a_dataset_without_a_name_is_the_default_subset(tmp_path):
    table().to_released(tmp_path / "r")
    assert "qrels/test-00000-of-00001.parquet" in names(tmp_path / "r")
    assert GainTable.from_released(tmp_path / "r") == table()


def test_a_table_that_was_written_can_be_read_under_another_name(tmp_path):
    table().to_released(tmp_path / "r", "x", human_labels=LABELS)
    read = GainTable.from_released(tmp_path / "r", "x", dataset="mine")
    assert (read.datasets, set(read.human_labels["dataset"])) == (["mine"], {"mine"})
    assert by_document(read, "gain") == by_document(table(), "gain")


def test_a_change_to_one_of_the_files_is_seen(tmp_path):
    table().to_released(tmp_path / "r", "x", human_labels=LABELS)
    file = tmp_path / "r" / "x-qrels" / "test-00000-of-00001.parquet"
    qrels = pd.read_parquet(file)
    qrels.assign(score=qrels["score"].where(qrels["corpus-id"] != "unpooled", 0)).to_parquet(file)
    with pytest.raises(RCPError, match=r"differ for query, document \('q1', 'unpooled'\): one of them was"):
        GainTable.from_released(tmp_path / "r", "x")
    qrels[qrels["corpus-id"] != "b"].to_parquet(file)
    with pytest.raises(RCPError, match="'q1', 'b'"):
        GainTable.from_released(tmp_path / "r", "x")


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_no_place_that_holds_something_is_written_to(tmp_path, kind):
    place = tmp_path / "r"
    if kind == "folder":
        place.mkdir()
        (place / "thesis.tex").write_text("x")
    else:
        place.write_text("x")
    with pytest.raises(RCPError, match=r"is not empty|is a file"):
        table().to_released(place)
    assert place.is_file() or [file.name for file in place.iterdir()] == ["thesis.tex"]
    (tmp_path / "empty").mkdir()
    table().to_released(tmp_path / "empty")
    assert GainTable.from_released(tmp_path / "empty") == table()


def test_a_place_that_cannot_be_made_is_refused(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(RCPError, match="cannot be written"):
        table().to_released(tmp_path / "file" / "r")
    if os.geteuid() != 0:  # the superuser may write everywhere
        (tmp_path / "locked").mkdir(mode=0o500)
        with pytest.raises(RCPError, match="cannot be written"):
            table().to_released(tmp_path / "locked" / "r")


def test_gains_that_abilities_do_not_give_are_not_released(tmp_path):
    gains = table()
    other = GainTable(gains.documents.assign(gain=0.5), gains.queries, gains.criteria)
    with pytest.raises(RCPError, match=r"not those of the abilities \(Eq. 4\) for \('', 'q1', 'a'\)"):
        other.to_released(tmp_path / "r")


@pytest.mark.parametrize(
    ("gains", "options", "message"),
    [
        (table(keys=(("one", "q1"), ("two", "q1"))), {"subset": "x"}, "for a table of one dataset; .*'one', 'two'"),
        (table(keys=(("a/b", "q1"),)), {}, "not 'a/b'; name it with subset="),
        (table(keys=(("a/b", "q1"), ("c", "q1"))), {}, "not 'a/b'; name it with subset=, a mapping of dataset to"),
        (table(keys=(("", "q1"), ("default", "q1"))), {}, "one of the table's datasets has no name .*'default'"),
        (table(keys=(("a", "q1"), ("b", "q1"))), {"subset": {"a": "x", "b": "x"}}, "would become one subset"),
        (
            table(keys=(("a", "q1"), ("b", "q1"))),
            {"subset": {"a": "x"}},
            "subsets of 'a', and the table holds 'a', 'b'",
        ),
        (table(), {"subset": 5}, "a subset is called by .*, not 5"),
        (table(), {"licence": 5}, "licence is a text"),
        (
            table(),
            {"corpus": CORPUS.assign(docno=["x", "y", "z"])},
            "none of the judged documents: .*'a', 'b', 'c'.*'x'",
        ),
        (table(), {"corpus": CORPUS.head(0)}, "holds none of the judged documents: .*it holds none"),
        (
            table(keys=(("one", "q1"), ("two", "q1"))),
            {"corpus": CORPUS.assign(dataset="one")},
            "none of the judged documents of dataset 'two'",
        ),
        (table(), {"corpus": CORPUS.assign(dataset="other")}, "corpus is of dataset 'other', the gains are of ''"),
        (table(keys=(("", "q1"), ("two", "q1"))), {}, "one of the table's datasets has no name .*'two'"),
        (table(), {"subset": ""}, "a subset is called by"),
        (table(), {"subset": "../x"}, "a subset is called by"),
        (table(), {"split": "a-b"}, "a split is called by"),
        (table(), {"corpus": CORPUS.drop(columns="text")}, "corpus has no column 'text'"),
        (table(), {"corpus": CORPUS.drop(columns="docno")}, "corpus has no column 'docno'"),
        (table(), {"corpus": CORPUS.assign(text=[None, "x", "y"])}, "no text .* for document 'a'"),
        (table(), {"corpus": CORPUS.assign(text=1)}, "column 'text' holds int64, not text"),
        (table(), {"corpus": pd.concat([CORPUS, CORPUS])}, "holds document 'a', 'b', 'c' twice"),
        (table(), {"corpus": {"a": "x"}}, "must be a DataFrame, not dict"),
        (table(keys=(("one", "q1"), ("two", "q1"))), {"corpus": CORPUS}, "give corpus a 'dataset' column"),
        (table(), {"human_labels": LABELS.assign(label=0.5)}, "labels must be whole numbers"),
        (table(), {"human_labels": LABELS.assign(qid="q9")}, "share no query: .*'q9'.*'q1', 'q2'"),
        (table(docnos=[]), {}, "holds no gain"),
    ],
)
def test_bad_requests_are_refused_and_nothing_is_written(tmp_path, gains, options, message):
    with pytest.raises(RCPError, match=message):
        gains.to_released(tmp_path / "r", **options)
    assert list(tmp_path.iterdir()) == []


def test_a_corpus_that_lacks_judged_documents_is_written_and_told_of(tmp_path):
    with pytest.warns(RCPWarning, match="the corpus lacks 1 document with a gain: 'c'"):
        table().to_released(tmp_path / "r", corpus=CORPUS.head(2))
    assert len(rows(tmp_path / "r", "corpus")) == 2


def test_texts_of_other_datasets_are_left_out_and_counted(tmp_path):
    corpus = pd.concat([CORPUS.assign(dataset=""), CORPUS.head(2).assign(dataset="other")])
    with pytest.warns(RCPWarning, match="2 texts of the corpus are of datasets without gains, left out: 'other'"):
        table().to_released(tmp_path / "r", corpus=corpus)
    assert len(rows(tmp_path / "r", "corpus")) == 3


def test_without_query_texts_there_is_no_config_of_queries_and_that_is_told(tmp_path):
    gains = table(keys=(("x", "q1"), ("x", "q2")))
    queries = gains.queries.assign(query=["why", None])
    gains = GainTable(gains.documents, queries, gains.criteria, gains.metadata)
    with pytest.warns(RCPWarning, match=r"1 query has no text \('q2'\): no config 'x-queries' is written, and mteb's"):
        gains.to_released(tmp_path / "r", corpus=CORPUS)
    assert not (tmp_path / "r" / "x-queries").exists()
    card = (tmp_path / "r" / "README.md").read_text()
    assert "- `queries`:" not in card
    assert "- Not here: `queries`, without which mteb's loader" in card


def test_the_card_lists_the_configs_that_were_written(tmp_path):
    gains = table(keys=(("one", "q1"), ("two", "q1"))).exclude(frame([("one", "q1", "b")], "dataset qid docno"))
    documents = gains.documents.assign(pool_rank=np.nan)
    gains = GainTable(documents, gains.queries, gains.criteria, gains.metadata)
    gains.to_released(tmp_path / "r")
    card = (tmp_path / "r" / "README.md").read_text()
    listed = re.findall(r"^- `(\w+)`(.*?):", card, re.M)
    assert listed == [("qrels", ""), ("gains", ""), ("excluded", " (of one)"), ("queries", "")]
    assert "reranking" not in card
    table().to_released(tmp_path / "pooled")
    assert "mteb treats the task as reranking" in (tmp_path / "pooled" / "README.md").read_text()


def test_the_card_names_the_method_and_does_not_guess_where_criteria_are_from(tmp_path):
    for folder, metadata, line in [
        ("unknown", {}, "not recorded"),
        ("own", {"criteria_from": ""}, "none: estimated here"),
        ("other", {"criteria_from": "abc"}, "abc"),
    ]:
        table(**metadata).to_released(tmp_path / folder)
        card = (tmp_path / folder / "README.md").read_text()
        assert f"- Criteria taken from fit: {line}\n" in card
        assert "(Rubric-Calibrated Preferences, RCP)" in card
    GainTable.from_released(newer(tmp_path / "theirs"), "x").to_released(tmp_path / "again")
    assert "- Criteria taken from fit: not recorded\n" in (tmp_path / "again" / "README.md").read_text()


@pytest.mark.parametrize("folder", [None, 5, ""])
def test_a_place_that_is_none_is_refused(folder):
    with pytest.raises(RCPError, match="the folder to write to is text or a path"):
        table().to_released(folder)


def test_the_cards_front_matter_names_every_config(tmp_path):
    yaml = pytest.importorskip("yaml")
    gains = table(keys=(("one", "q1"), ("two", "q1")))
    gains.to_released(tmp_path / "r", split="dev", licence='odd "licence": é')
    card = (tmp_path / "r" / "README.md").read_text(encoding="utf-8")
    front = yaml.safe_load(card.split("---\n")[1])
    assert front["license"] == 'odd "licence": é'
    found = {
        entry["config_name"]: [(part["split"], part["path"]) for part in entry["data_files"]]
        for entry in front["configs"]
    }
    assert found == {name.split("/")[0]: [("dev", f"{name.split('/')[0]}/dev-*")] for name in names(tmp_path / "r")}


def test_without_pyarrow_the_install_line_is_given(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"pip install 'rcp-irx\[hub\]'"):
        table().to_released(tmp_path / "r")
    assert list(tmp_path.iterdir()) == []
