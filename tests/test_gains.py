"""GainTable: round trips, qrels, several datasets, what it refuses."""

from __future__ import annotations

import json
import pickle

import numpy as np
import pandas as pd
import pytest

from rcp_irx import GainTable, RCPError, RCPnDCG, RCPWarning, register_gains
from rcp_irx.evaluation import ndcg
from rcp_irx.registry import resolve_gains

pytestmark = pytest.mark.quick

ODD = ["007", "1e3", "True", "NA", "null", "a#b", "a/b:c", '"q"', "a b", "a\tb", "x" * 300, "é漢🙂", "a\r\nb", "\x00"]


def table(keys=(("", "q1"), ("", "q2")), docnos=("a", "b", "c"), **metadata):
    rows = [(dataset, qid, docno) for dataset, qid in keys for docno in docnos]
    n = len(rows)
    theta = np.linspace(-3, 3, n) + 1 / 3
    documents = pd.DataFrame(rows, columns=["dataset", "qid", "docno"]).assign(
        gain=1 / (1 + np.exp(-theta)),
        theta=theta,
        bt=theta / 3,
        n=np.arange(n) % 4 + 1,
        C1=1,
        C2=0,
        pool_rank=[i % len(docnos) for i in range(n)],
        excluded=False,
    )
    queries = pd.DataFrame(keys, columns=["dataset", "qid"]).assign(query="why", tau=1.5, alpha=1 / 3)
    criteria = pd.DataFrame(
        {"id": ["C1", "C2"], "name": ["A", "B"], "question": ["a?", "b?"], "gamma": [1.2, 0.8], "beta": [-1.0, 1.0]}
    )
    return GainTable(documents, queries, criteria, {"judge": "j", **metadata})


def test_saved_gains_read_back_exactly(tmp_path):
    gains = table(docnos=ODD)
    gains.save(tmp_path / "g")
    read = GainTable.load(tmp_path / "g")
    assert read == gains
    assert read.documents["theta"].tolist() == gains.documents["theta"].tolist()  # to the last bit
    assert read.documents["docno"].tolist() == ODD * 2
    assert read.documents.dtypes.astype(str).to_dict() == gains.documents.dtypes.astype(str).to_dict()
    assert (tmp_path / "g" / "documents.jsonl.gz").is_file()
    assert json.loads((tmp_path / "g" / "pt_meta.json").read_text())["type"] == "rcp_gains"


def test_columns_kept_beside_a_document_survive_even_where_they_are_missing(tmp_path):
    gains = table()
    documents = gains.documents.assign(source_rank_1=[1.0, np.nan] * 3, origin=["fused", "judged"] * 3)
    GainTable(documents, gains.queries, gains.criteria).save(tmp_path / "g")
    pd.testing.assert_frame_equal(GainTable.load(tmp_path / "g").documents, documents, check_dtype=False)


def test_saving_the_same_again_is_harmless_and_other_gains_are_not_overwritten(tmp_path):
    table().save(tmp_path / "g")
    table().save(tmp_path / "g")
    with pytest.raises(RCPError, match="holds other gains; give overwrite=True"):
        table(docnos="xy").save(tmp_path / "g")
    table(docnos="xy").save(tmp_path / "g", overwrite=True)
    assert GainTable.load(tmp_path / "g") == table(docnos="xy")


def test_a_folder_of_something_else_is_never_overwritten(tmp_path):
    (tmp_path / "g").mkdir()
    (tmp_path / "g" / "thesis.tex").write_text("x")
    for overwrite in (False, True):
        with pytest.raises(RCPError, match="exists"):
            table().save(tmp_path / "g", overwrite=overwrite)
    assert (tmp_path / "g" / "thesis.tex").read_text() == "x"


def damaged(folder, how):
    file = folder / "documents.jsonl.gz"
    if how == "changed":
        data = bytearray(file.read_bytes())
        data[len(data) // 2] ^= 1
        file.write_bytes(bytes(data))
    elif how == "missing":
        file.unlink()
    elif how == "index":
        (folder / "metadata.json").write_text('{"version": 1, "tab')
    elif how == "version":
        index = json.loads((folder / "metadata.json").read_text())
        (folder / "metadata.json").write_text(json.dumps({**index, "version": 99}))
    elif how == "empty":
        for path in folder.iterdir():
            path.unlink()


@pytest.mark.parametrize(
    ("how", "message"),
    [
        ("changed", r"damaged: .*documents\.jsonl\.gz is not the file that was written"),
        ("missing", r"damaged: .*documents\.jsonl\.gz cannot be read"),
        ("index", r"metadata\.json is damaged"),
        ("version", "format version 99; this rcp_irx reads version 1"),
        ("empty", "no gain folder: it has no metadata.json"),
    ],
)
def test_a_damaged_folder_is_refused(tmp_path, how, message):
    table().save(tmp_path / "g")
    damaged(tmp_path / "g", how)
    with pytest.raises(RCPError, match=message):
        GainTable.load(tmp_path / "g")


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(RCPError, match=r"no gain folder at .*nowhere"):
        GainTable.load(tmp_path / "nowhere")


def test_the_fit_id_depends_on_the_estimates_and_not_on_the_order_of_rows():
    gains = table()
    shuffled = GainTable(gains.documents.sample(frac=1, random_state=1), gains.queries, gains.criteria, {"judge": "j"})
    assert shuffled.fit_id == gains.fit_id
    other = gains.documents.assign(theta=gains.documents["theta"] + 1e-15)
    assert GainTable(other, gains.queries, gains.criteria, {"judge": "j"}).fit_id != gains.fit_id


def test_changing_a_returned_frame_changes_no_gain():
    gains = table()
    frame = gains.documents
    frame.loc[0, "gain"] = 0.123
    assert gains == table()


def test_qrels_without_labels_count_the_criteria_at_or_below_the_ability():
    qrels = table().qrels()
    assert list(qrels.columns) == [
        "qid", "docno", "label", "gain", "count_gain", "weighted_count_gain", "raw_bt_gain", "excluded", "pool_rank",
    ]  # fmt: skip
    theta = table().documents["theta"]
    assert qrels["label"].tolist() == [(t >= -1) + (t >= 1) for t in theta]
    np.testing.assert_array_equal(qrels["gain"], table().documents["gain"])
    np.testing.assert_allclose(qrels["count_gain"], 1 / (2 * table().documents["n"]))


def test_raw_bt_gain_is_the_gain_of_the_scores_centred_in_their_query():
    bt = table().documents["bt"].to_numpy().reshape(2, 3)
    centred = (bt - bt.mean(axis=1, keepdims=True)).ravel()[:, None]
    gamma, beta = np.array([1.2, 0.8]), np.array([-1.0, 1.0])
    expected = (gamma / (1 + np.exp(-gamma * (centred - beta)))).sum(axis=1) / 2
    np.testing.assert_allclose(table().qrels()["raw_bt_gain"], expected, rtol=1e-12)


def labels(*rows):
    return pd.DataFrame(rows, columns=["qid", "docno", "label"])


def test_qrels_join_labels_from_outside_the_pool_and_mark_the_unlabelled():
    with pytest.warns(RCPWarning, match="1 label query has no gains, left out: 'q9'"):
        qrels = table().qrels(labels(("q1", "a", 3), ("q1", "z", 2), ("q9", "a", 1)))
    found = qrels.set_index(["qid", "docno"])
    assert found.loc[("q1", "a"), "label"] == 3
    assert found.loc[("q1", "b"), "label"] == -1
    assert found.loc[("q1", "z"), "label"] == 2
    assert np.isnan(found.loc[("q1", "z"), "gain"])
    assert not found.loc[("q1", "z"), "excluded"]
    assert len(qrels) == 7
    assert qrels["label"].dtype.kind == "i"


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([("q1", "a", 0.5)], r"whole numbers; query, document, label: \('q1', 'a', 0.5\)"),
        ([("q1", "a", None)], "whole numbers"),
        ([("q1", "a", 1), ("q1", "a", 2)], r"two different labels for one document: query, document \('q1', 'a'\)"),
        ([("q1x", "a", 1)], "share no query: labels are for 'q1x', gains for 'q1', 'q2'"),
    ],
)
def test_labels_that_cannot_be_joined_are_refused(rows, message):
    with pytest.raises(RCPError, match=message):
        table().qrels(labels(*rows))


def test_two_datasets_that_share_query_and_document_ids():
    gains = table(keys=(("one", "q1"), ("two", "q1")))
    assert gains.datasets == ["one", "two"]
    with pytest.raises(RCPError, match=r"query ids occur in two datasets: 'q1'; use \.select"):
        gains.qrels()
    one, two = gains.select("one"), gains.select("two")
    assert one.fit_id == two.fit_id == gains.fit_id
    assert len({one.label, two.label, gains.label}) == 3
    assert one.qrels()["gain"].tolist() == gains.documents["gain"].tolist()[:3]
    assert two.qrels()["gain"].tolist() == gains.documents["gain"].tolist()[3:]
    assert gains.select(["one", "two"]) is gains
    with pytest.raises(RCPError, match="no gains for dataset 'three'; the table holds 'one', 'two'"):
        gains.select("three")


def test_two_datasets_with_different_query_ids_give_one_qrels_frame_with_a_dataset_column():
    qrels = table(keys=(("one", "q1"), ("two", "q2"))).qrels()
    assert qrels["dataset"].tolist() == ["one"] * 3 + ["two"] * 3


def test_topics_keeps_those_with_gains():
    topics = pd.DataFrame({"qid": ["q0", "q2"], "query": ["x", "y"]}, index=[5, 6])
    pd.testing.assert_frame_equal(table().topics(topics), topics.loc[[6]])
    with pytest.raises(RCPError, match="no topic has gains: topics are 'q0'"):
        table().topics(topics.loc[[5]])


def test_excluded_documents_are_marked_and_the_label_says_so():
    gains = table()
    out = gains.exclude(pd.DataFrame({"qid": ["q1", "q7"], "docno": ["b", "b"]}))
    assert out.documents.loc[out.documents["excluded"], ["qid", "docno"]].values.tolist() == [["q1", "b"]]
    assert out.label.startswith(f"{gains.label}-excluded:")
    assert out.fit_id == gains.fit_id
    assert out.exclude(pd.DataFrame({"qid": ["q1"], "docno": ["b"]})) is out
    with pytest.warns(RCPWarning, match="none of the 1 excluded documents is of a query with gains"):
        assert gains.exclude(pd.DataFrame({"qid": ["q7"], "docno": ["b"]})) is gains


def test_excluded_documents_outside_the_pool_leave_rankings_that_hold_them(tmp_path):
    gains = table()
    run = pd.DataFrame({"qid": "q1", "docno": ["OUT", "c", "a"], "score": [3.0, 2.0, 1.0]})
    without = run[run["docno"] != "OUT"]
    out = gains.exclude(pd.DataFrame({"qid": ["q1"], "docno": ["OUT"]}))
    assert ndcg(run, gains)["q1"] < ndcg(run, out)["q1"] == ndcg(without, gains)["q1"]
    measure = RCPnDCG @ 10
    for qrels in (out.qrels(), out.qrels(labels(("q1", "a", 1))), out.qrels(labels(("q1", "OUT", 1)))):
        assert qrels.set_index(["qid", "docno"]).loc[("q1", "OUT"), "excluded"]
        renamed = qrels.rename(columns={"qid": "query_id", "docno": "doc_id", "label": "relevance"})
        scored = run.rename(columns={"qid": "query_id", "docno": "doc_id"})
        values = {m.query_id: m.value for m in measure.iter_calc(renamed, scored)}
        assert values["q1"] == ndcg(without, gains)["q1"]
        bound = {m.query_id: m.value for m in (out.RCPnDCG @ 10).iter_calc(renamed, scored)}
        assert bound["q1"] == values["q1"]
    out.save(tmp_path / "g")
    assert GainTable.load(tmp_path / "g") == out


def test_several_datasets_need_a_dataset_column_in_frames():
    gains = table(keys=(("one", "q1"), ("two", "q1")))
    frame = pd.DataFrame({"qid": ["q1"], "docno": ["a"]})
    with pytest.raises(RCPError, match="give excluded documents a 'dataset' column"):
        gains.exclude(frame)
    out = gains.exclude(frame.assign(dataset="two"))
    assert out.documents["excluded"].tolist() == [False] * 3 + [True, False, False]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.assign(gain=1.5), r"gains outside \[0, 1\]"),
        (lambda d: d.assign(gain=np.nan), "NaN"),
        (lambda d: d.drop(columns="theta"), "the documents table has no column 'theta'"),
        (lambda d: d.drop(columns="C2"), "the documents table has no column 'C2'"),
        (lambda d: pd.concat([d, d]), "the documents table repeats"),
        (lambda d: d.assign(excluded=np.nan), "'excluded' .* True or False"),
        (lambda d: d.assign(excluded="False"), "'excluded' .* True or False"),
        (lambda d: d.assign(pool_rank=np.inf), "'pool_rank' .* finite numbers"),
        (lambda d: d.assign(theta=np.inf), "'theta' .* finite numbers"),
        (lambda d: d.assign(qid="q3"), "repeats|queries table lacks"),
        (lambda d: d.assign(docno=[None, *d["docno"][1:]]), "column 'docno' of the documents table has no id"),
    ],
)
def test_tables_that_cannot_be_right_are_refused(change, message):
    gains = table()
    with pytest.raises(RCPError, match=message):
        GainTable(change(gains.documents), gains.queries, gains.criteria)


def test_registered_and_saved_gains_are_found_by_name(tmp_path):
    register_gains("mine", table())
    assert resolve_gains("mine") == table()
    table().save(tmp_path / "g")
    assert resolve_gains(str(tmp_path / "g")) == table()
    with pytest.raises(RCPError, match="'nothing' is neither a gain folder nor one of the registered gains"):
        resolve_gains("nothing")


def test_a_folder_that_was_written_anew_is_read_anew(tmp_path):
    table().save(tmp_path / "g")
    first = resolve_gains(str(tmp_path / "g"))
    assert resolve_gains(str(tmp_path / "g")) is first
    table(docnos="xy").save(tmp_path / "g", overwrite=True)
    assert resolve_gains(str(tmp_path / "g")) == table(docnos="xy")


def test_a_table_pickles_and_names_itself():
    gains = table(name="dl19", note="made with a stand-in")
    assert pickle.loads(pickle.dumps(gains)) == gains
    assert gains.label == "dl19"
    assert repr(gains) == "GainTable('dl19': 2 queries, 6 documents, 2 criteria; judge 'j'; made with a stand-in)"


def test_labels_that_mark_documents_as_excluded_count_as_in_a_bound_measure():
    labels = pd.DataFrame([("q1", "a", 0, True), ("q1", "b", 1, False)], columns=["qid", "docno", "label", "excluded"])
    joined = table().qrels(labels)
    assert joined[joined["excluded"]][["qid", "docno"]].values.tolist() == [["q1", "a"]]


def test_integer_ids_are_text_everywhere():
    documents = table().documents.assign(docno=range(6), qid=lambda rows: rows["qid"].str[1:].astype(int))
    queries = table().queries.assign(qid=lambda rows: rows["qid"].str[1:].astype(int))
    made = GainTable(documents, queries, table().criteria)
    assert set(made.documents["docno"]) == set("012345")
    without = made.exclude(pd.DataFrame({"qid": ["1"], "docno": [0]}))
    assert without.documents.set_index("docno")["excluded"]["0"]
    assert set(made.qrels(pd.DataFrame({"qid": [1], "docno": [0], "label": [1]}))["docno"]) == set("012345")


def test_what_is_no_frame_is_refused():
    for call in (lambda: table().qrels({"q1": {"a": 1}}), lambda: table().exclude({"q1": ["a"]})):
        with pytest.raises(RCPError, match="must be a DataFrame, not dict"):
            call()
    with pytest.raises(RCPError, match="takes a GainTable, not dict"):
        register_gains("x", {})
