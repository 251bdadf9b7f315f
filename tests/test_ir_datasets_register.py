"""Gains registered as an ir_datasets dataset, read through ir_datasets, ir_measures and PyTerrier."""

from __future__ import annotations

import itertools
import math
import warnings
from typing import NamedTuple

import ir_measures
import pandas as pd
import pytest
from ir_measures import nDCG

from rcp_irx import GainTable, RCPError, RCPJudged, RCPnDCG, RCPWarning, register_gains
from rcp_irx.demo import results
from rcp_irx.evaluation import ndcg

ir_datasets = pytest.importorskip("ir_datasets", reason="ir_datasets is not installed")

from ir_datasets.formats import GenericDoc, GenericQrel, GenericQuery, TrecQuery  # noqa: E402

from rcp_irx.ir_datasets import register  # noqa: E402
from tests import in_memory  # noqa: E402

CRITERIA = [("C1", -1.0, 1.0), ("C2", 1.0, 1.0)]
ROWS = [  # qid, docno, gain, theta, pool_rank
    ("q1", "b", 0.9, 2.0, 0),
    ("q1", "a", 0.5, 0.0, 1),
    ("q1", "c", 0.1, -2.0, 2),
    ("007", "a", 0.25, -1.0, 1),
    ("007", "NA", 0.75, 1.0, 0),
]
TEXTS = {"q1": "first question", "007": "second question"}
numbers = itertools.count()


def table(rows=ROWS, *, texts=TEXTS, datasets=None, outside=None, **metadata):
    documents = pd.DataFrame(rows, columns=["qid", "docno", "gain", "theta", "pool_rank"])
    documents = documents.assign(bt=0.0, n=1, C1=1, C2=0, excluded=False)
    documents["dataset"] = datasets or ""
    queries = documents[["dataset", "qid"]].drop_duplicates()
    queries = queries.assign(query=queries["qid"].map(texts), tau=1.0, alpha=0.0)
    criteria = pd.DataFrame(CRITERIA, columns=["id", "beta", "gamma"]).assign(name="n", question="q")
    return GainTable(documents, queries, criteria, metadata, outside)


def base(queries=("007", "unjudged", "q1"), qrels=(("q1", "b", 2), ("q1", "z", 1), ("007", "a", 0))):
    return in_memory.dataset(
        [GenericDoc(docno, f"text of {docno}") for docno in ["a", "b", "c", "NA", "z"]],
        [GenericQuery(qid, f"base's text of {qid}") for qid in queries],
        None if qrels is None else [GenericQrel(*qrel) for qrel in qrels],
    )


@pytest.fixture
def name():
    """An id that nothing is registered under; ir_datasets has no way to take one back."""
    return f"rcp-irx-test/register/{next(numbers)}"


@pytest.fixture
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RCPWarning)
        yield


def test_documents_are_the_bases_and_queries_are_the_bases_that_have_gains(name):
    given = base()
    with pytest.warns(RCPWarning, match=r"^1 query of the given dataset without gains left out of .*: 'unjudged'$"):
        dataset = register(name, table(), given)
    assert ir_datasets.load(name) is dataset
    assert dataset.dataset_id() == name
    assert [query.query_id for query in dataset.queries_iter()] == ["007", "q1"]
    assert dataset.queries.lookup("q1").text == "base's text of q1"
    assert dataset.queries_count() == 2
    assert list(dataset.docs_iter()) == list(given.docs_iter())
    assert dataset.docs_count() == 5
    assert dataset.docs_store().get("NA").text == "text of NA"
    assert dataset.docs_handler() is given.docs_handler()


@pytest.mark.usefixtures("quiet")
def test_qrels_are_the_bases_labels_beside_gains_and_abilities(name):
    dataset = register(name, table(), base())
    assert dataset.qrels_cls()._fields == ("query_id", "doc_id", "relevance", "gain", "theta")
    rows = {(qrel.query_id, qrel.doc_id): tuple(qrel[2:]) for qrel in dataset.qrels_iter()}
    assert rows.pop(("q1", "z"))[0] == 1
    assert rows == {
        ("q1", "b"): (2, 0.9, 2.0),
        ("q1", "a"): (-1, 0.5, 0.0),
        ("q1", "c"): (-1, 0.1, -2.0),
        ("007", "a"): (0, 0.25, -1.0),
        ("007", "NA"): (-1, 0.75, 1.0),
    }
    outside = next(qrel for qrel in dataset.qrels_iter() if qrel.doc_id == "z")
    assert math.isnan(outside.gain)
    assert math.isnan(outside.theta)
    assert all(type(qrel.relevance) is int and type(qrel.gain) is float for qrel in dataset.qrels_iter())
    assert dataset.qrels_defs() == {1: "relevant", -1: "in the judged pool, and without a label"}
    assert dataset.qrels_count() == 6
    assert dataset.qrels_dict()["q1"] == {"b": 2, "a": -1, "c": -1, "z": 1}


@pytest.mark.usefixtures("quiet")
def test_without_labels_in_the_base_the_relevance_counts_criteria(name):
    dataset = register(name, table(), base(qrels=None))
    levels = {(qrel.query_id, qrel.doc_id): qrel.relevance for qrel in dataset.qrels_iter()}
    # difficulties are -1 and 1: an ability of 2 or 1 reaches both, 0 and -1 the first, -2 none
    assert levels == {("q1", "b"): 2, ("q1", "a"): 1, ("q1", "c"): 0, ("007", "a"): 1, ("007", "NA"): 2}
    assert list(dataset.qrels_defs()) == [0, 1, 2]


def test_the_scored_documents_are_the_pool_in_its_order(name):
    with pytest.warns(RCPWarning):
        dataset = register(name, table(), base())
    assert [tuple(row) for row in dataset.scoreddocs_iter()] == [
        ("007", "NA", 0.0),
        ("007", "a", -1.0),
        ("q1", "b", 0.0),
        ("q1", "a", -1.0),
        ("q1", "c", -2.0),
    ]
    assert dataset.scoreddocs_count() == 5


def test_without_a_base_queries_come_from_the_gains_and_there_are_no_documents(name):
    dataset = register(name, table())
    assert [tuple(query) for query in dataset.queries_iter()] == [("q1", "first question"), ("007", "second question")]
    assert not dataset.has_docs()
    assert dataset.has_qrels()
    assert dataset.has_scoreddocs()


def test_a_base_of_documents_alone_leaves_queries_to_the_gains(name):
    dataset = register(name, table(), in_memory.dataset([GenericDoc("a", "text of a")]))
    assert {query.text for query in dataset.queries_iter()} == {"first question", "second question"}
    assert dataset.docs_store().get("a").text == "text of a"


def test_gains_without_query_texts_need_a_base_that_has_queries(name):
    with pytest.raises(RCPError, match=r"no text of query 'q1': give register a base that has queries"):
        register(name, table(texts={"007": "second question", "q1": ""}))
    assert name not in list(ir_datasets.registry)


def test_labels_that_came_with_the_gains_serve_where_the_base_has_none(name):
    gains = table()
    labels = pd.DataFrame({"qid": ["q1", "q1"], "docno": ["b", "z"], "label": [1, 1]})
    labelled = GainTable(gains.documents, gains.queries, gains.criteria, gains.metadata, human_labels=labels)
    dataset = register(name, labelled)
    with pytest.warns(RCPWarning, match=f"1 query of '{name}' with gains and no label, where .* give 0: '007'"):
        dataset.qrels_iter()
    assert {(q.query_id, q.doc_id): q.relevance for q in dataset.qrels_iter()} == {
        ("q1", "b"): 1,
        ("q1", "z"): 1,
        ("q1", "a"): -1,
        ("q1", "c"): -1,
        ("007", "a"): -1,
        ("007", "NA"): -1,
    }


def test_documents_without_a_pool_rank_follow_by_their_ids(name):
    rows = [("q1", "c", 0.9, 0.0, math.nan), ("q1", "b", 0.5, 0.0, 0), ("q1", "a", 0.1, 0.0, math.nan)]
    dataset = register(name, table(rows))
    assert [(row.doc_id, row.score) for row in dataset.scoreddocs_iter()] == [("b", 0.0), ("a", -1.0), ("c", -2.0)]


@pytest.mark.usefixtures("quiet")
def test_excluded_documents_are_marked_and_leave_ranking_and_ideal(name):
    out = pd.DataFrame({"qid": ["q1", "q1"], "docno": ["b", "z"]})
    gains = table([row for row in ROWS if row[0] == "q1"]).exclude(out)
    dataset = register(name, gains, base(qrels=None))
    assert dataset.qrels_cls()._fields == ("query_id", "doc_id", "relevance", "gain", "theta", "excluded")
    assert {qrel.doc_id for qrel in dataset.qrels_iter() if qrel.excluded} == {"b", "z"}
    assert [row.doc_id for row in dataset.scoreddocs_iter()] == ["b", "a", "c"]
    run = [ir_measures.ScoredDoc("q1", docno, -float(place)) for place, docno in enumerate(["z", "c", "b", "a"])]
    # what is left: c, a against the ideal a, c
    expected = (0.1 + 0.5 / math.log2(3)) / (0.5 + 0.1 / math.log2(3))
    assert ir_measures.calc_aggregate([RCPnDCG @ 10], dataset.qrels_iter(), run)[RCPnDCG @ 10] == pytest.approx(
        expected, abs=1e-15
    )


@pytest.mark.usefixtures("quiet")
def test_ir_measures_scores_a_run_with_the_registered_qrels(name):
    dataset = register(name, table(), base())
    run = [
        ir_measures.ScoredDoc("q1", "a", 3.0),
        ir_measures.ScoredDoc("q1", "z", 2.0),
        ir_measures.ScoredDoc("q1", "b", 1.0),
        ir_measures.ScoredDoc("007", "NA", 1.0),
    ]
    third = 1 / math.log2(4)
    ideal = 0.9 + 0.5 / math.log2(3) + 0.1 * third
    expected = {
        ("q1", RCPnDCG @ 10): (0.5 + 0.9 * third) / ideal,
        ("007", RCPnDCG @ 10): 0.75 / (0.75 + 0.25 / math.log2(3)),
        ("q1", RCPJudged @ 3): 2 / 3,
        ("q1", nDCG @ 10): (1 / math.log2(3) + 2 * third) / (2 + 1 / math.log2(3)),
    }
    found = {
        (row.query_id, row.measure): row.value
        for row in ir_measures.iter_calc([RCPnDCG @ 10, RCPJudged @ 3, nDCG @ 10], dataset.qrels_iter(), run)
    }
    for key, value in expected.items():
        assert found[key] == pytest.approx(value, abs=1e-12), key
    again = ir_measures.calc_aggregate([RCPnDCG @ 10], dataset.qrels, run)  # the iterable itself works, too
    assert again[RCPnDCG @ 10] == pytest.approx((found["q1", RCPnDCG @ 10] + found["007", RCPnDCG @ 10]) / 2)


def test_gains_may_be_a_folder_or_a_registered_name(name, tmp_path):
    table().save(tmp_path / "gains")
    dataset = register(name, tmp_path / "gains")
    register_gains("test-register", table())
    assert register(name, "test-register") is dataset
    with pytest.raises(RCPError, match="neither a gain folder nor"):
        register(f"{name}/b", "nowhere.gains")
    with pytest.raises(RCPError, match="must be a GainTable or its folder, not dict"):
        register(f"{name}/b", {"q1": {"a": 1.0}})


@pytest.mark.usefixtures("quiet")
def test_registering_the_same_again_is_harmless_and_anything_else_an_error(name):
    given = base()
    dataset = register(name, table(), given)
    assert register(name, table(), given) is dataset
    assert list(ir_datasets.registry).count(name) == 1
    other = table([("q1", "a", 0.7, 0.0, 0)])
    with pytest.raises(RCPError, match=rf"{name}' is registered already, with gains .*; choose another id"):
        register(name, other, given)
    with pytest.raises(RCPError, match=r"registered already, with .* and base the given dataset; .* and no base"):
        register(name, table())
    with pytest.raises(RCPError, match="registered already"):
        register(name, table(), base())
    assert ir_datasets.load(name) is dataset


def test_an_id_of_ir_datasets_itself_is_refused():
    with pytest.raises(RCPError, match="'vaswani' is a dataset of ir_datasets already"):
        register("vaswani", table())
    with pytest.raises(RCPError, match="'rcp-irx/demo' is a dataset of ir_datasets already"):
        register("rcp-irx/demo", in_memory.demo_gains())


@pytest.mark.parametrize("bad", ["", "two words", None, 7])
def test_an_id_that_is_none_is_refused(bad):
    with pytest.raises(RCPError, match="text without spaces"):
        register(bad, table())


def test_a_table_of_several_datasets_is_refused(name):
    several = table(datasets=["x", "x", "x", "y", "y"])
    with pytest.raises(RCPError, match=r"hold the datasets 'x', 'y': register one at a time, gains.select\(dataset\)"):
        register(name, several, base())
    assert name not in list(ir_datasets.registry)
    dataset = register(name, several.select("x"), base(queries=["q1"], qrels=[("q1", "b", 2), ("q1", "z", 1)]))
    assert {qrel.query_id for qrel in dataset.qrels_iter()} == {"q1"}
    assert len(list(dataset.qrels_iter())) == 4


def test_a_table_without_queries_is_refused(name):
    with pytest.raises(RCPError, match="hold no query"):
        register(name, GainTable(table().documents.head(0), table().queries.head(0), table().criteria))


def test_a_base_that_lacks_queries_of_the_gains_is_refused(name):
    with pytest.raises(RCPError, match="the given dataset lacks 1 of the 2 queries that have gains: '007'"):
        register(name, table(), base(queries=["q1", "q2"]))
    with pytest.raises(RCPError, match=r"share no query: its queries are 'q7', 'q8', the gains' '007', 'q1'"):
        register(name, table(), base(queries=["q7", "q8"]))
    assert name not in list(ir_datasets.registry)


def test_an_unknown_base_is_refused_and_a_near_one_named(name):
    with pytest.raises(RCPError, match=r"no dataset 'rcp-irx/demmo'; near it: .*'rcp-irx/demo'"):
        register(name, table(), "rcp-irx/demmo")
    with pytest.raises(RCPError, match="not DataFrame"):
        register(name, table(), pd.DataFrame())


def test_labels_for_other_queries_are_an_error_that_names_both(name):
    dataset = register(name, table(), base(queries=["q1", "007"], qrels=[("q9", "a", 1)]))
    with pytest.raises(RCPError, match="share no query: labels are for 'q9', gains for '007', 'q1'"):
        dataset.qrels_iter()


def test_qrels_without_a_relevance_are_an_error_that_names_the_fields(name):
    class Preference(NamedTuple):
        query_id: str
        doc_id: str
        stance: str

    given = base(queries=["q1", "007"])
    other = ir_datasets.Dataset(given.docs_handler(), given.queries_handler())
    labelled = ir_datasets.Dataset(other, in_memory.Qrels([Preference("q1", "a", "pro")]))
    with pytest.raises(RCPError, match=r"have no 'relevance' \(they have \['query_id', 'doc_id', 'stance'\]\)"):
        register(name, table(), labelled)
    assert name not in list(ir_datasets.registry)


def test_gains_without_abilities_need_labels_and_that_is_told_at_once(name):
    plain = table()
    rows = plain.documents.assign(theta=math.nan)
    gains = GainTable(rows, plain.queries, plain.criteria)
    with pytest.raises(RCPError, match=r"neither abilities nor labels.*give register a base that has qrels"):
        register(name, gains)
    with pytest.raises(RCPError, match="neither abilities nor labels"):
        register(name, gains, base(queries=["q1", "007"], qrels=None))
    assert name not in list(ir_datasets.registry)
    labels = pd.DataFrame({"qid": ["q1"], "docno": ["b"], "label": [1]})
    labelled = GainTable(rows, plain.queries, plain.criteria, human_labels=labels)
    assert {qrel.relevance for qrel in register(name, labelled).qrels_iter()} == {1, -1}
    over = register(f"{name}/over", gains, base(queries=["q1", "007"]))
    assert {qrel.relevance for qrel in over.qrels_iter()} == {2, 1, 0, -1}


def test_the_same_gains_read_from_another_place_are_the_same(name):
    plain = table()
    here, there = (
        GainTable(plain.documents, plain.queries, plain.criteria, {"released": {"source": place}, "fit_id": "f"})
        for place in ("here", "there")
    )
    assert here != there
    dataset = register(name, here)
    assert register(name, there) is dataset
    with pytest.raises(RCPError, match="registered already"):
        register(name, here.exclude(plain.documents[["qid", "docno"]].head(1)))


def test_metadata_and_documentation_tell_what_is_there():
    dataset = register("rcp-irx-test/demo", in_memory.demo_gains(), "rcp-irx/demo")
    assert dataset.docs_metadata()["count"] == 165
    assert dataset.metadata()["scoreddocs"]["count"] == 300
    labels = pd.Series([qrel.relevance for qrel in dataset.qrels_iter()]).value_counts().to_dict()
    assert dataset.qrels_metadata()["fields"]["relevance"]["counts_by_value"] == labels
    assert "lexical-stand-in" in dataset.documentation()["desc"]
    assert in_memory.demo_gains().fit_id in dataset.documentation()["desc"]


@pytest.fixture
def demo_in_pyterrier():
    pt = pytest.importorskip("pyterrier", reason="PyTerrier is not installed")
    register("rcp-irx-test/demo", in_memory.demo_gains(), "irds:rcp-irx/demo")
    return pt.get_dataset("irds:rcp-irx-test/demo")


def test_pyterrier_reads_topics_and_qrels_with_label_and_gain(demo_in_pyterrier):
    topics, qrels = demo_in_pyterrier.get_topics(), demo_in_pyterrier.get_qrels()
    assert topics.columns.tolist() == ["qid", "query"]
    assert len(topics) == 10
    assert qrels.columns.tolist() == ["qid", "docno", "label", "gain", "theta"]
    expected = in_memory.demo_gains().qrels(results.qrels())
    keys = ["qid", "docno"]
    merged = expected.merge(qrels, on=keys, suffixes=("", "_read"))
    assert len(merged) == len(expected) == len(qrels)
    assert merged["label_read"].tolist() == merged["label"].tolist()
    pd.testing.assert_series_equal(merged["gain_read"], merged["gain"], check_names=False, check_exact=True)


def test_pyterrier_reranks_the_judged_pool_and_scores_it(demo_in_pyterrier):
    pt = pytest.importorskip("pyterrier")
    pool = demo_in_pyterrier.get_results()
    gains = in_memory.demo_gains()
    for qid, rows in pool.groupby("qid"):
        judged = gains.documents[gains.documents["qid"] == qid].sort_values("pool_rank")
        assert rows["docno"].tolist() == judged["docno"].tolist()
    assert (pool["query"] != "").all()
    reranker = demo_in_pyterrier.text_loader(["text"]) >> pt.apply.doc_score(
        lambda row: results.shared_trigrams(row["query"], row["text"])
    )
    reranked = reranker(pool)
    assert len(reranked) == 300
    scored = pt.Experiment(
        [pt.Transformer.from_df(pool), reranker(pool)],
        demo_in_pyterrier.get_topics(),
        demo_in_pyterrier.get_qrels(),
        eval_metrics=[RCPnDCG @ 10, nDCG @ 10],
        names=["pool", "trigrams"],
    ).set_index("name")
    for system, run in [("pool", pool), ("trigrams", reranked)]:
        assert scored.loc[system, "RCPnDCG@10"] == pytest.approx(ndcg(run, gains, k=10).mean(), abs=1e-12)
    assert scored.loc["trigrams", "RCPnDCG@10"] != pytest.approx(scored.loc["pool", "RCPnDCG@10"], abs=1e-3)


def test_pyterrier_takes_the_name_of_a_query_field_where_the_base_has_several(name):
    pt = pytest.importorskip("pyterrier", reason="PyTerrier is not installed")
    topics = [TrecQuery("q1", "title one", "description one", ""), TrecQuery("007", "title two", "description two", "")]
    documents = [GenericDoc(docno, docno) for docno in ["a", "b", "c", "NA"]]
    register(name, table(), in_memory.dataset(documents, topics))
    found = pt.get_dataset(f"irds:{name}").get_results("description")
    assert found[["qid", "docno", "query"]].to_dict("split")["data"] == [
        ["007", "NA", "description two"],
        ["007", "a", "description two"],
        ["q1", "b", "description one"],
        ["q1", "a", "description one"],
        ["q1", "c", "description one"],
    ]
    assert pt.get_dataset(f"irds:{name}").get_topics("title")["query"].tolist() == ["title one", "title two"]


def test_pyterrier_leaves_excluded_documents_out(name):
    pt = pytest.importorskip("pyterrier", reason="PyTerrier is not installed")
    best = in_memory.demo_gains().documents.sort_values("gain").groupby("qid").tail(1)[["qid", "docno"]]
    gains = in_memory.demo_gains().exclude(best)
    register(name, gains, "rcp-irx/demo")
    dataset = pt.get_dataset(f"irds:{name}")
    run = results.runs()["trigrams"]
    scored = pt.Experiment([run], dataset.get_topics(), dataset.get_qrels(), [RCPnDCG @ 10])
    assert scored["RCPnDCG@10"].item() == pytest.approx(ndcg(run, gains, k=10).mean(), abs=1e-12)
    assert scored["RCPnDCG@10"].item() != pytest.approx(ndcg(run, in_memory.demo_gains(), k=10).mean(), abs=1e-3)
