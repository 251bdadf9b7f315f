"""GainTable.from_released: both layouts, what was not released, what is refused and how."""

from __future__ import annotations

import sys

import numpy as np
import pandas as pd
import pytest

pytest.importorskip("pyarrow")

from rcp_irx import CountnDCG, GainTable, MissingExtra, RawBTnDCG, RCPError, RCPnDCG, RCPWarning
from rcp_irx.evaluation import ndcg
from tests.released.folders import (
    OUT,
    POOL,
    ROWS,
    by_document,
    frame,
    gain_of,
    lists,
    newer,
    older,
    pa,
    pq,
    qrels,
    write,
)

GAINS = {(qid, docno): gain_of(theta) for qid, docno, _, theta in ROWS if theta is not None}


def test_gains_abilities_labels_and_item_parameters_are_read(tmp_path):
    table = GainTable.from_released(newer(tmp_path, top_ranked=POOL, excluded=OUT), "x")
    assert by_document(table, "gain") == pytest.approx(GAINS, abs=1e-15)
    assert by_document(table, "theta") == {(q, d): theta for q, d, _, theta in ROWS if theta is not None}
    assert by_document(table, "pool_rank") == {("q1", "b"): 0, ("q1", "a"): 1, ("q2", "d"): 0, ("q2", "a"): 1}
    assert [key for key, out in by_document(table, "excluded").items() if out] == [("q1", "b")]
    assert table.excluded_outside.values.tolist() == [["x", "q1", "elsewhere"]]  # q3 has no gains
    assert table.human_labels.values.tolist() == [["x", *row[:3]] for row in ROWS]
    assert table.criteria[["id", "gamma", "beta"]].values.tolist() == [["C1", 1.5, -1.0], ["C2", 0.5, 2.0]]
    assert table.documents["pool_rank"].dtype == np.int64
    assert table.metadata["released"] == {
        "source": tmp_path.name,
        "revision": None,
        "subset": "x",
        "split": "test",
        "layout": "newer",
        "item_parameters": "items.json",
    }


def test_both_layouts_give_the_same_table(tmp_path):
    one = GainTable.from_released(newer(tmp_path / "new", top_ranked=POOL, excluded=OUT), "x")
    two = GainTable.from_released(older(tmp_path / "old", top_ranked=POOL, excluded=OUT), "x")
    two.metadata["released"] = one.metadata["released"]
    assert one == two


def test_the_newer_layout_counts_where_a_subset_is_in_both(tmp_path):
    older(newer(tmp_path), qrels=qrels(gain=None, theta=None))
    with pytest.warns(RCPWarning, match="in both layouts; the newer one is read"):
        assert len(GainTable.from_released(tmp_path, "x")) == 4


def test_a_gain_is_computed_where_only_abilities_were_released(tmp_path):
    table = GainTable.from_released(newer(tmp_path, qrels=qrels(gain=None)), "x")
    assert by_document(table, "gain") == pytest.approx(GAINS, abs=1e-15)


@pytest.mark.parametrize("with_qrels", [True, False])
def test_float_gains_without_abilities_are_enough_to_evaluate(tmp_path, with_qrels):
    gains = {"query-id": ["q1", "q1", "q2"], "corpus-id": ["a", "b", "a"], "gain": [0.25, 1.0, 0.0]}
    labels = qrels(gain=None, theta=None) if with_qrels else None
    table = GainTable.from_released(newer(tmp_path, "default", qrels=labels, gains=gains))
    assert by_document(table, "gain") == {("q1", "a"): 0.25, ("q1", "b"): 1.0, ("q2", "a"): 0.0}
    assert table.documents["theta"].isna().all()
    assert table.criteria.empty
    assert table.datasets == [""]
    assert ndcg({"q1": {"a": 2.0, "b": 1.0}}, table)["q1"] == pytest.approx(
        (0.25 + 1 / np.log2(3)) / (1 + 0.25 / np.log2(3)), abs=1e-15
    )
    with pytest.raises(RCPError, match=r"abilities of these gains were not released.*give labels"):
        table.qrels()
    assert len(table.human_labels) == (5 if with_qrels else 0)


def test_a_document_without_an_ability_keeps_its_label_and_gets_no_gain(tmp_path):
    table = GainTable.from_released(newer(tmp_path), "x")
    joined = table.qrels(table.human_labels).set_index(["qid", "docno"])
    assert joined.loc[("q1", "c"), "label"] == 2
    assert np.isnan(joined.loc[("q1", "c"), "gain"])
    assert joined.loc[("q1", "a"), "label"] == 1


def test_zero_gains_beside_null_abilities_are_no_gains_and_others_are_told_of(tmp_path):
    filled = [gain or 0.0 for gain in qrels()["gain"]]
    assert len(GainTable.from_released(newer(tmp_path / "zero", qrels=qrels(gain=filled)), "x")) == 4
    filled[2] = 0.5
    with pytest.warns(RCPWarning, match=r"1 document has a gain and no theta .*\('q1', 'c'\)"):
        assert len(GainTable.from_released(newer(tmp_path / "half", qrels=qrels(gain=filled)), "x")) == 4


def test_a_query_without_any_gain_is_left_out_and_named(tmp_path):
    rows = [*ROWS, ("q3", "a", 1, None)]
    with pytest.warns(RCPWarning, match="1 query has labels and no gain .*'q3'"):
        table = GainTable.from_released(newer(tmp_path, qrels=qrels(rows)), "x")
    assert table.queries["qid"].tolist() == ["q1", "q2"]
    assert set(table.human_labels["qid"]) == {"q1", "q2"}


def test_pool_documents_without_a_gain_are_told_of_and_leave_the_ranks_of_others(tmp_path):
    pool = lists({"q1": ["c", "b", "a"], "q2": ["d", "a"]})
    with pytest.warns(RCPWarning, match=r"1 document of the pools has no gain .*\('q1', 'c'\)"):
        table = GainTable.from_released(newer(tmp_path, top_ranked=pool), "x")
    assert by_document(table, "pool_rank")["q1", "a"] == 2


def test_a_judged_document_outside_the_pool_has_no_pool_rank(tmp_path):
    table = GainTable.from_released(newer(tmp_path, top_ranked=lists({"q1": ["b"], "q2": ["d", "a"]})), "x")
    assert np.isnan(by_document(table, "pool_rank")["q1", "a"])
    tied = {"q1": {"a": 1.0, "b": 1.0}, "q2": {}}
    best, other = sorted([GAINS["q1", "a"], GAINS["q1", "b"]], reverse=True)
    in_pool_order = (other + best / np.log2(3)) / (best + other / np.log2(3))
    assert ndcg(tied, table, ties="pool")["q1"] == pytest.approx(in_pool_order, abs=1e-15)


def test_without_a_pool_no_tie_follows_its_order(tmp_path):
    table = GainTable.from_released(newer(tmp_path), "x")
    assert table.documents["pool_rank"].isna().all()
    with pytest.raises(RCPError, match="ties='pool' needs"):
        ndcg({"q1": {"a": 1.0, "b": 1.0}}, table, ties="pool")


def test_what_needs_scores_or_counts_that_were_not_released_refuses(tmp_path):
    table = GainTable.from_released(newer(tmp_path), "x")
    run = frame([("q1", "a", 2.0), ("q1", "b", 1.0), ("q2", "a", 1.0)], "query_id doc_id score")
    labels = table.human_labels.rename(columns={"qid": "query_id", "docno": "doc_id", "label": "relevance"})
    values = {m.query_id: m.value for m in (table.RCPnDCG @ 10).iter_calc(labels, run)}
    assert values["q1"] == 1.0
    for unbound, column in [(RawBTnDCG, "raw_bt_gain"), (CountnDCG, "count_gain")]:
        for measure, given in [(unbound(gains=table) @ 10, labels), (unbound @ 10, table.qrels(table.human_labels))]:
            given = given.rename(columns={"qid": "query_id", "docno": "doc_id", "label": "relevance"})
            with pytest.raises((RCPError, ValueError), match=column):
                list(measure.iter_calc(given, run))
    assert "raw_bt_gain" not in table.scored
    assert "count_gain" not in table.qrels(table.human_labels)


def test_saving_selecting_and_excluding_keep_what_was_not_released(tmp_path):
    table = GainTable.from_released(newer(tmp_path / "r", top_ranked=POOL, excluded=OUT), "x")
    table.save(tmp_path / "saved")
    read = GainTable.load(tmp_path / "saved")
    assert read == table
    assert read.documents["bt"].isna().all()
    assert read.human_labels.equals(table.human_labels)
    less = read.exclude(frame([("q2", "d")], "qid docno"))
    assert less.human_labels.equals(table.human_labels)
    assert less != table


def test_texts_of_queries_are_read_where_they_are(tmp_path):
    queries = {"_id": ["q2", "q1", "q9"], "text": ["two", "one", "nine"]}
    table = GainTable.from_released(newer(tmp_path / "with", queries=queries), "x")
    assert table.queries["query"].tolist() == ["one", "two"]
    assert GainTable.from_released(newer(tmp_path / "without"), "x").queries["query"].tolist() == [None, None]


def test_the_dataset_is_the_subset_unless_named_and_all_subsets_are_of_one_fit(tmp_path):
    newer(newer(tmp_path), "y", qrels=qrels(ROWS[3:]))
    one, two = GainTable.from_released(tmp_path, "x"), GainTable.from_released(tmp_path, "y", dataset="mine")
    assert (one.datasets, two.datasets) == (["x"], ["mine"])
    assert one.fit_id == two.fit_id
    assert (one.label, two.label) == (f"{one.fit_id}[x]", f"{one.fit_id}[mine]")


def test_whole_number_ids_are_their_digits_and_text_stays_as_it_is(tmp_path):
    big = 2**63 - 1
    rows = [(7, big, 1, 1.0), (7, -3, 0, 0.5)]
    table = GainTable.from_released(newer(tmp_path / "int", qrels=qrels(rows), top_ranked=lists({7: [-3, big]})), "x")
    assert by_document(table, "pool_rank") == {("7", "-3"): 0, ("7", str(big)): 1}
    odd = ["007", "NA", "null", "1e3", "True", "a#b", "é漢🙂", "a b", "a\tb", "x" * 300, " "]
    rows = [(qid, docno, 1, 1.0) for qid in odd for docno in odd]
    table = GainTable.from_released(newer(tmp_path / "text", qrels=qrels(rows)), "x")
    assert set(by_document(table, "gain")) == {(qid, docno) for qid in odd for docno in odd}


@pytest.mark.parametrize("kind", ["large_string", "dictionary", "string_view"])
def test_other_text_types_of_parquet_are_read(tmp_path, kind):
    if not hasattr(pa, kind):
        pytest.skip(f"this pyarrow has no {kind}")

    def cast(columns):
        table = pa.table(columns)
        for number, name in enumerate(table.column_names):
            if pa.types.is_string(table[name].type):
                text = table[name]
                text = text.dictionary_encode() if kind == "dictionary" else text.cast(getattr(pa, kind)())
                table = table.set_column(number, name, text)
        return table

    folder = newer(tmp_path, qrels=cast(qrels()), queries=cast({"id": ["q1", "q2"], "text": ["one", "two"]}))
    assert kind in str(pq.read_schema(folder / "x-queries" / "test-00000-of-00001.parquet").field("text").type)
    table = GainTable.from_released(folder, "x")
    assert len(table) == 4
    assert table.queries["query"].tolist() == ["one", "two"]


@pytest.mark.parametrize("kind", ["large_list", "fixed_size_list", "list_view", "null"])
def test_other_list_types_of_parquet_are_read(tmp_path, kind):
    types = {
        "large_list": lambda: pa.large_list(pa.large_string()),
        "fixed_size_list": lambda: pa.list_(pa.string(), 2),
        "list_view": lambda: pa.list_view(pa.string()),
        "null": pa.null,
    }
    if kind == "list_view" and not hasattr(pa, kind):
        pytest.skip("this pyarrow has no list_view")
    values = [None, None] if kind == "null" else [["b", "a"], ["d", "a"]]
    pool = pa.table({"query-id": ["q1", "q2"], "corpus-ids": pa.array(values, types[kind]())})
    try:
        folder = newer(tmp_path, top_ranked=pool)
    except pa.ArrowNotImplementedError as error:
        pytest.skip(f"this pyarrow writes no {kind}: {error}")
    table = GainTable.from_released(folder, "x")
    if kind == "null":
        assert table.documents["pool_rank"].isna().all()
    else:
        assert by_document(table, "pool_rank") == {("q1", "b"): 0, ("q1", "a"): 1, ("q2", "d"): 0, ("q2", "a"): 1}


def test_single_precision_is_within_the_tolerance_and_the_stored_gain_is_kept(tmp_path):
    table = pa.table(qrels())
    for name in ("gain", "theta"):
        table = table.set_column(table.column_names.index(name), name, table[name].cast(pa.float32()))
    gains = by_document(GainTable.from_released(newer(tmp_path, qrels=table), "x"), "gain")
    assert gains == {key: float(np.float32(value)) for key, value in GAINS.items()}


def test_a_gain_that_is_not_that_of_its_ability_is_refused_with_examples(tmp_path):
    near = [gain if gain is None else gain + 0.9e-4 * (-1) ** row for row, gain in enumerate(qrels()["gain"])]
    GainTable.from_released(newer(tmp_path / "near", qrels=qrels(gain=near)), "x")
    far = [None if gain is None else gain - 1.1e-4 * (row == 0) for row, gain in enumerate(qrels()["gain"])]
    with pytest.raises(RCPError, match=r"1 stored gain more than 0.0001 .*/items.json .*'q1', 'a'") as error:
        GainTable.from_released(newer(tmp_path / "far", qrels=qrels(gain=far)), "x")
    assert "item_parameters=" in str(error.value)


def test_float_gains_beside_the_qrels_must_be_theirs(tmp_path):
    gains = {"query-id": ["q1", "q2"], "corpus-id": ["a", "d"], "gain": [GAINS["q1", "a"], 0.1]}
    with pytest.raises(RCPError, match=r"not the same.*'q2', 'd', .*, 0.1\)"):
        GainTable.from_released(newer(tmp_path, gains=gains), "x")
    of_unjudged = {"query-id": ["q1"], "corpus-id": ["c"], "gain": [0.5]}
    with pytest.raises(RCPError, match=r"not the same.*'q1', 'c'"):
        GainTable.from_released(newer(tmp_path, gains=of_unjudged), "x")


# queries that others have


@pytest.mark.parametrize(
    ("config", "columns", "message"),
    [
        ("excluded", lists({"q7": ["a"], "q8": ["b"]}, "excluded-corpus-ids"), "'q7', 'q8', theirs 'q1', 'q2'"),
        ("top_ranked", lists({"q7": ["a"]}), "'q7', theirs 'q1', 'q2'"),
        ("queries", {"id": ["q7"], "text": ["seven"]}, "'q7', theirs 'q1', 'q2'"),
    ],
)
def test_a_config_of_other_queries_is_refused(tmp_path, config, columns, message):
    with pytest.raises(RCPError, match=f"x-{config}/.* shares no query .* its queries are {message}"):
        GainTable.from_released(newer(tmp_path, **{config: columns}), "x")


def test_a_config_that_serves_all_splits_may_hold_queries_of_another(tmp_path):
    newer(newer(tmp_path, split="dev", qrels=qrels(ROWS[3:])), split="test", qrels=qrels(ROWS[:3]))
    write(tmp_path / "x-excluded" / "test-00000-of-00001.parquet", lists({"q1": ["b"]}, "excluded-corpus-ids"))
    with pytest.warns(RCPWarning, match="1 query has excluded documents and no gain, left out: 'q1'"):
        assert not GainTable.from_released(tmp_path, "x", split="dev").documents["excluded"].any()


def test_queries_of_a_config_without_gains_are_counted(tmp_path):
    with pytest.warns(RCPWarning, match=r"x-excluded/.*: 1 query has excluded documents and no gain, left out: 'q3'"):
        GainTable.from_released(newer(tmp_path / "excluded", excluded=OUT), "x")
    texts = {"id": ["q1", "q7"], "text": ["one", "seven"]}
    with pytest.warns(RCPWarning, match=r"x-queries/.* has no text of 1 query with gains: 'q2'"):
        GainTable.from_released(newer(tmp_path / "texts", queries=texts), "x")


def test_float_gains_and_labels_of_other_queries_are_refused_and_of_some_counted(tmp_path):
    labels = qrels(gain=None, theta=None)
    gains = {"query-id": ["q8", "q9"], "corpus-id": ["a", "a"], "gain": [0.5, 0.25]}
    with pytest.raises(RCPError, match="share no query: gains are for 'q8', 'q9', labels for 'q1', 'q2'"):
        GainTable.from_released(newer(tmp_path / "none", qrels=labels, gains=gains), "x")
    gains["query-id"] = ["q1", "q9"]
    with pytest.warns(RCPWarning) as told:
        table = GainTable.from_released(newer(tmp_path / "some", qrels=labels, gains=gains), "x")
    assert [str(one.message) for one in told] == [
        "1 query has labels and no gain, left out: 'q2'",
        "1 query has gains and no label: 'q9'",
    ]
    assert table.queries["qid"].tolist() == ["q1", "q9"]


# bad content


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"score": ["1", "0", "2", "0", "1"]}, "column 'score' holds string, not numbers"),
        ({"score": [1.0, 0.5, 2, 0, 1]}, r"labels, whole numbers; .*\('q1', 'b', 0.5\)"),
        ({"score": [1, None, 2, 0, 1]}, "whole numbers; .*'q1', 'b', nan"),
        ({"score": [True, False, True, True, False]}, "column 'score' holds bool"),
        ({"gain": ["high"] * 5}, "column 'gain' holds string, not numbers"),
        ({"theta": ["x"] * 5}, "column 'theta' holds string, not numbers"),
        ({"gain": [-0.1, 0.1, None, 0.1, 0.1]}, r"from 0 to 1; not so .*\('q1', 'a', -0.1\)"),
        ({"gain": [0.5, 1.5, None, 0.1, 0.1]}, r"from 0 to 1; not so .*\('q1', 'b', 1.5\).*evaluation.ndcg"),
        ({"gain": [float("nan"), 0.1, None, 0.1, 0.1]}, "column 'gain' holds NaN, row 0"),
        ({"theta": [1.0, 0.1, float("nan"), 0.1, 0.1]}, "column 'theta' holds NaN, row 2"),
        ({"gain": [None, 0.1, None, 0.1, 0.1]}, r"theta without a gain \(null\) .*\('q1', 'a'\)"),
        ({"theta": [float("inf"), -1.25, None, 0.0, 4.0]}, r"infinite theta .*\('q1', 'a'\)"),
        ({"corpus-id": ["a", "a", "c", "a", "d"]}, r"repeats query, document \('q1', 'a'\)"),
        ({"query-id": None}, "has no column 'query-id' .*it has .*'corpus-id'"),
        ({"score": None}, "has no column 'score'"),
        ({"gain": None, "theta": None}, "neither a column 'gain' nor 'theta' .*no config 'x-gains'"),
        ({"theta": [None] * 5}, "has no gain: every document is unjudged"),
        ({"query-id": [1.0, 1.0, 1.0, 2.0, 2.0]}, "column 'query-id' holds double, and ids are"),
        ({"query-id": [True, True, True, False, False]}, "column 'query-id' holds bool"),
        ({"query-id": [b"q1"] * 5}, "column 'query-id' holds binary"),
        ({"query-id": ["q1", None, "q1", "q2", "q2"]}, r"no id \(None or NaN\) in row 1"),
        ({"corpus-id": ["a", "", "c", "a", "d"]}, "is an empty string"),
    ],
)
def test_bad_qrels_are_refused_with_their_place(tmp_path, columns, message):
    with pytest.raises(RCPError, match=message) as error:
        GainTable.from_released(newer(tmp_path, qrels=qrels(**columns)), "x")
    assert str(tmp_path) in str(error.value)


@pytest.mark.parametrize(
    ("config", "columns", "message"),
    [
        ("top_ranked", lists({"q1": ["a", "b", "a"]}), r"top_ranked.* repeats query, document \('q1', 'a'\)"),
        ("top_ranked", {"query-id": ["q1", "q1"], "corpus-ids": [["a"], ["b"]]}, "repeats query"),
        ("top_ranked", {"query-id": ["q1"], "corpus-ids": ["a b"]}, "column 'corpus-ids' holds string, not lists"),
        ("top_ranked", {"query-id": ["q1"], "corpus-ids": [[1.5]]}, "column 'corpus-ids' holds double, and ids"),
        ("top_ranked", {"query-id": ["q1"], "corpus-ids": [["a", None]]}, "no id"),
        ("top_ranked", {"query-id": ["q1"], "documents": [["a"]]}, "has no column 'corpus-ids'"),
        ("excluded", lists({"q1": ["a"]}), "has no column 'excluded-corpus-ids'"),
        ("gains", {"query-id": ["q1"], "corpus-id": ["a"], "gain": ["1"]}, "column 'gain' holds string"),
        ("gains", {"query-id": ["q1"], "corpus-id": ["a"], "score": [1.0]}, "has no column 'gain'"),
        ("gains", {"query-id": ["q1"], "corpus-id": ["a"], "gain": [2.0]}, "from 0 to 1"),
        ("gains", {"query-id": ["q1"] * 2, "corpus-id": ["a"] * 2, "gain": [0.5, 0.5]}, "repeats"),
        ("gains", {"query-id": ["q1"], "corpus-id": ["a"], "gain": pa.array([None], pa.float64())}, "no gain"),
        ("queries", {"qid": ["q1"], "text": ["one"]}, "has no column 'id' or '_id'"),
        ("queries", {"id": ["q1"], "text": [1]}, "column 'text' holds int64, not text"),
        ("queries", {"id": ["q1", "q1"], "text": ["one", "two"]}, "repeats query"),
    ],
)
def test_bad_configs_beside_the_qrels_are_refused(tmp_path, config, columns, message):
    with pytest.raises(RCPError, match=message):
        GainTable.from_released(newer(tmp_path, **{config: columns}), "x")


def test_a_query_without_a_list_has_no_excluded_documents(tmp_path):
    empty = {"query-id": ["q1", "q2"], "excluded-corpus-ids": [None, ["a"]]}
    table = GainTable.from_released(newer(tmp_path, excluded=empty), "x")
    assert [key for key, out in by_document(table, "excluded").items() if out] == [("q2", "a")]


def test_a_damaged_file_is_named(tmp_path):
    newer(tmp_path)
    file = tmp_path / "x-qrels" / "test-00000-of-00001.parquet"
    file.write_bytes(file.read_bytes()[:-20])
    with pytest.raises(RCPError, match=r"test-00000-of-00001.parquet cannot be read as Parquet"):
        GainTable.from_released(tmp_path, "x")


def test_parts_of_different_columns_are_refused(tmp_path):
    newer(tmp_path, qrels=None, top_ranked=POOL)
    write(tmp_path / "x-qrels" / "test-00000-of-00002.parquet", qrels(ROWS[:2]))
    write(tmp_path / "x-qrels" / "test-00001-of-00002.parquet", qrels(ROWS[2:], gain=None))
    with pytest.raises(RCPError, match="different columns"):
        GainTable.from_released(tmp_path, "x")


def test_without_pyarrow_the_install_line_is_given(tmp_path, monkeypatch):
    newer(tmp_path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"pip install 'rcp-irx\[hub\]'"):
        GainTable.from_released(tmp_path, "x")


def test_labels_of_other_queries_are_no_labels_of_a_table(tmp_path):
    table = GainTable.from_released(newer(tmp_path), "x")
    labels = pd.concat([table.human_labels, frame([("x", "q9", "a", 1)], "dataset qid docno label")])
    with pytest.raises(RCPError, match=r"human labels of queries that are not in the queries table: .*'q9'"):
        GainTable(table.documents, table.queries, table.criteria, human_labels=labels)


def test_the_measure_of_a_released_table_prints_its_fit_and_subset(tmp_path):
    table = GainTable.from_released(newer(tmp_path), "x")
    assert str(table.RCPnDCG @ 10) == str(RCPnDCG(gains=table) @ 10) == f"RCPnDCG(gains='{table.fit_id}[x]')@10"
