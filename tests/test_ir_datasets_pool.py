"""Pools for the judge out of ir_datasets datasets: order, texts, context fields, what is left out."""

from __future__ import annotations

import warnings
from typing import NamedTuple

import numpy as np
import pandas as pd
import pytest

from rcp_irx import LexicalJudge, RCPError, RCPWarning, demo
from rcp_irx.demo import results
from rcp_irx.documents import pools

ir_datasets = pytest.importorskip("ir_datasets", reason="ir_datasets is not installed")

from ir_datasets.formats import GenericDoc, GenericQuery, GenericScoredDoc, TrecQuery  # noqa: E402

from rcp_irx.ir_datasets import pool_from, register  # noqa: E402
from tests import in_memory  # noqa: E402


class TitledDoc(NamedTuple):
    doc_id: str
    text: str
    title: str
    year: int

    def default_text(self):
        return f"{self.title} {self.text}"


class BareDoc(NamedTuple):
    doc_id: str
    code: str
    language: str


DOCUMENTS = [TitledDoc(docno, f"text of {docno}", f"Title {docno}", 1999) for docno in ["a", "b", "c", "NA"]]
TOPICS = [TrecQuery("q1", "first title", "first description", "first narrative"), TrecQuery("007", "t", "d", "n")]
SCORED = [("q1", "b", 1.5), ("q1", "a", 2.5), ("007", "NA", 0.0), ("q1", "c", 1.5), ("007", "c", -1.0)]


def titled(scored=SCORED, documents=DOCUMENTS, topics=TOPICS):
    return in_memory.dataset(documents, topics, scored=[GenericScoredDoc(*row) for row in scored])


def frame(rows, columns="qid docno score"):
    return pd.DataFrame(rows, columns=columns.split())


@pytest.fixture(autouse=True)
def strict():
    """No warning but those that a test asks for."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RCPWarning)
        yield


def test_a_datasets_scored_documents_become_the_judges_frame():
    found = pool_from(titled())
    assert found.columns.tolist() == [
        "qid",
        "query",
        "docno",
        "text",
        "score",
        "rank",
        "description",
        "narrative",
    ]
    assert found.to_dict("split")["data"] == [
        ["q1", "first title", "a", "Title a text of a", 2.5, 0, "first description", "first narrative"],
        ["q1", "first title", "b", "Title b text of b", 1.5, 1, "first description", "first narrative"],
        ["q1", "first title", "c", "Title c text of c", 1.5, 2, "first description", "first narrative"],
        ["007", "t", "NA", "Title NA text of NA", 0.0, 0, "d", "n"],
        ["007", "t", "c", "Title c text of c", -1.0, 1, "d", "n"],
    ]
    assert [[d.id for d in pool.documents] for pool in pools(found, context_fields=["narrative"])] == [
        ["a", "b", "c"],
        ["NA", "c"],
    ]


def test_fields_of_documents_and_queries_can_be_chosen():
    found = pool_from(titled(), text_fields=["text", "title"], query_field="description")
    assert found["text"].iloc[0] == "text of a Title a"
    assert found["query"].iloc[0] == "first description"
    assert found["title"].iloc[0] == "first title"
    assert "description" not in found.columns
    assert pool_from(titled(), text_fields="title")["text"].tolist()[0] == "Title a"


def test_a_query_field_whose_name_is_taken_is_renamed():
    class Question(NamedTuple):
        query_id: str
        text: str
        query: str
        dataset: str
        number: int

        def default_text(self):
            return self.query

    given = titled(topics=[Question("q1", "long text", "short", "x", 3), Question("007", "other", "brief", "y", 4)])
    found = pool_from(given)
    assert found.columns.tolist() == ["qid", "query", "docno", "text", "score", "rank", "query_text", "query_dataset"]
    assert found[["query", "query_text", "query_dataset"]].iloc[0].tolist() == ["short", "long text", "x"]


def test_an_empty_title_leaves_no_space_and_missing_parts_are_no_text_none():
    documents = [TitledDoc("a", "body", "", 0), TitledDoc("b", "body", None, 0)]
    scored = [("q1", "a", 1.0), ("q1", "b", 0.5), ("007", "a", 1.0)]
    given = titled(scored, documents)
    assert pool_from(given, text_fields=["title", "text"])["text"].tolist() == ["body", "body", "body"]
    assert pool_from(given)["text"].tolist() == ["body", "body", "body"]


def test_num_results_cuts_each_query():
    assert pool_from(titled(), num_results=2)["docno"].tolist() == ["a", "b", "NA", "c"]
    many = [("q1", f"d{number:03d}", -float(number)) for number in range(160)] + [("007", "d000", 1.0)]
    large = titled(many, [GenericDoc(f"d{number:03d}", "x") for number in range(160)])
    assert pool_from(large).groupby("qid").size().to_dict() == {"q1": 150, "007": 1}
    assert len(pool_from(large, num_results=None)) == 161
    for bad in [0, -1, 2.5, "3"]:
        with pytest.raises(RCPError, match="num_results is a whole number"):
            pool_from(titled(), num_results=bad)


@pytest.mark.parametrize("columns", ["qid docno score", "query_id doc_id score"])
def test_a_run_frame_is_ordered_by_its_scores(columns):
    run = frame([("q1", "c", 0.1), ("007", "a", 7), ("q1", "b", 0.3), ("q1", "a", 0.1)], columns)
    found = pool_from(titled(), run=run)
    assert found[["qid", "docno", "rank"]].to_dict("split")["data"] == [
        ["q1", "b", 0],
        ["q1", "a", 1],
        ["q1", "c", 2],
        ["007", "a", 0],
    ]
    shuffled = pool_from(titled(), run=run.sample(frac=1, random_state=3))
    pd.testing.assert_frame_equal(shuffled, found)


def test_ranks_go_before_scores():
    run = frame([("q1", "c", 1, 9.0), ("q1", "a", 3, 8.0), ("007", "a", 1, 1.0)], "qid docno rank score")
    found = pool_from(titled(), run=run)
    assert found[["docno", "rank", "score"]].to_dict("split")["data"] == [["c", 0, 9.0], ["a", 1, 8.0], ["a", 0, 1.0]]
    found = pool_from(titled(), run=run.drop(columns="score"))
    assert found["docno"].tolist() == ["c", "a", "a"]
    assert found["score"].isna().all()


def test_a_trec_run_file_is_read_by_its_scores(tmp_path):
    path = tmp_path / "run.txt"
    path.write_text("q1 Q0 NA 1 0.5 x\nq1 Q0 b 2 0.75 x\n007 Q0 a 1 3 x\n")
    assert pool_from(titled(), run=path)["docno"].tolist() == ["b", "NA", "a"]
    assert pool_from(titled(), run=str(path))["score"].tolist() == [0.75, 0.5, 3.0]
    path.write_text("q1 Q0 NA 1 high x\n")
    with pytest.raises(RCPError, match=r"run.txt, line 1: a score must be a finite number, not 'high'"):
        pool_from(titled(), run=path)


def test_candidates_missing_from_the_corpus_are_counted_named_and_left_out():
    rows = [("q1", "a", 9.0), ("007", "b", 1.0), *(("q1", f"gone{number}", float(number)) for number in range(5))]
    with pytest.warns(RCPWarning) as caught:
        found = pool_from(titled(), run=frame(rows))
    assert [str(warning.message) for warning in caught] == [
        "5 candidates are missing from the corpus of the given dataset, left out; query, document: ('q1', 'gone0'), "
        "('q1', 'gone1'), ('q1', 'gone2') and 2 more"
    ]
    assert caught[0].filename == __file__
    assert found[["qid", "docno", "rank"]].to_dict("split")["data"] == [["q1", "a", 0], ["007", "b", 0]]


def test_the_next_known_document_moves_up_where_one_is_missing():
    with pytest.warns(RCPWarning, match="^1 candidate is missing"):
        found = pool_from(titled(), run=frame([("q1", "x", 2.0), ("q1", "a", 1.0), ("007", "a", 1.0)]))
    assert found["rank"].tolist() == [0, 0]


def test_queries_without_candidates_and_queries_of_another_set_are_named():
    with pytest.warns(RCPWarning) as caught:
        found = pool_from(titled(), run=frame([("q1", "a", 1.0), ("q8", "a", 1.0), ("q9", "a", 1.0)]))
    assert sorted(str(warning.message) for warning in caught) == [
        "1 query has no candidates, left out: '007'",
        "2 queries of the run, which the given dataset does not have, left out: 'q8', 'q9'",
    ]
    assert found["qid"].tolist() == ["q1"]


def test_a_candidate_ranked_twice_keeps_its_best_rank():
    with pytest.warns(RCPWarning, match=r"^ranked twice, the best rank counts: query, document \('q1', 'a'\)$"):
        found = pool_from(titled(), run=frame([("q1", "a", 1), ("q1", "b", 2), ("q1", "a", 3), ("007", "b", 1)]))
    assert found[["docno", "score"]].to_dict("split")["data"] == [["a", 3.0], ["b", 2.0], ["b", 1.0]]


def test_scores_that_are_all_equal_cannot_choose_candidates_unnoticed():
    run = frame([("q1", docno, 0.0) for docno in "cab"] + [("007", "a", 0.0)])
    assert pool_from(titled(), run=run)["docno"].tolist() == ["a", "b", "c", "a"]
    with pytest.warns(RCPWarning, match="all candidates of 1 query have one score; the first 2 by id are taken: 'q1'"):
        assert pool_from(titled(), run=run, num_results=2)["docno"].tolist() == ["a", "b", "a"]


@pytest.mark.parametrize(
    ("run", "message"),
    [
        (
            frame([("q8", "a", 1.0)]),
            "the run and the given dataset share no query: the run's are 'q8', the dataset's '007', 'q1'",
        ),
        (frame([]), "the run's are none"),
        (
            frame([("q1", "x", 1.0)]),
            r"none of the candidates; query, document: \('q1', 'x'\); it holds 'a', 'b', 'c'",
        ),
        (frame([("q1", "a", np.nan)]), r"a score is a finite number; query, document, score: \('q1', 'a', nan\)"),
        (frame([("q1", "a", "high")]), "'high'"),
        (frame([("q1", "a")], "qid docno"), r"neither 'rank' nor 'score' \(it has \['qid', 'docno'\]\)"),
        (frame([("q1", 1.0)], "qid score"), "no column 'docno'"),
        (frame([(None, "a", 1.0)]), "no id"),
        (frame([("x", "q1", "a", 1), ("y", "q1", "a", 1)], "dataset qid docno rank"), "of the datasets 'x', 'y'"),
        ({"q1": {"a": 1.0}}, "must be a frame or the path of a TREC run file, not dict"),
        ("nowhere.txt", "cannot be read"),
    ],
)
def test_bad_runs_are_errors_that_say_what_was_found(run, message):
    with pytest.raises(RCPError, match=message):
        pool_from(titled(), run=run)


def test_bad_fields_and_datasets_are_errors_that_say_what_there_is():
    with pytest.raises(RCPError, match=r"documents .* no field 'body'; they have \['text', 'title', 'year'"):
        pool_from(titled(), text_fields=["title", "body"])
    with pytest.raises(RCPError, match=r"field 'year' of '[abc]' holds int, not text"):
        pool_from(titled(), text_fields=["title", "year"])
    with pytest.raises(RCPError, match=r"queries .* have no field 'text'; they have \['title', 'desc"):
        pool_from(titled(), query_field="text")
    bare = titled(documents=[BareDoc("a", "print()", "python")])
    with pytest.raises(RCPError, match=r"no field 'text'; they have \['code', 'language'\]"):
        pool_from(bare, run=frame([("q1", "a", 1.0)]))
    with pytest.raises(RCPError, match=r"'rcp-irx/demo' has no scored documents: give run="):
        pool_from("rcp-irx/demo")
    with pytest.raises(RCPError, match="has no documents"):
        pool_from(in_memory.dataset(None, TOPICS))
    with pytest.raises(RCPError, match="has no queries"):
        pool_from(in_memory.dataset(DOCUMENTS))
    with pytest.raises(RCPError, match="no dataset 'nowhere'"):
        pool_from("nowhere")


def test_a_document_kind_without_a_text_of_its_own_needs_chosen_fields():
    bare = titled(documents=[BareDoc("a", "print()", "python")])
    run = frame([("q1", "a", 1.0), ("007", "a", 1.0)])
    assert pool_from(bare, run=run, text_fields="code")["text"].tolist() == ["print()", "print()"]


def test_ids_of_every_kind_survive():
    ids = ["007", "1e3", "True", "NA", "null", "a/b:c#d", "it's", 'say "x"', "ä" * 300]
    given = titled(
        [(qid, docno, 1.0) for qid in ids for docno in ids],
        [GenericDoc(docno, f"text {docno}") for docno in ids],
        [GenericQuery(qid, f"query {qid}") for qid in ids],
    )
    found = pool_from(given)
    assert found["qid"].unique().tolist() == ids
    assert set(found["docno"]) == set(ids)
    assert (found["text"] == "text " + found["docno"]).all()


def test_the_demo_collections_pool_goes_straight_into_the_judge():
    pytest.importorskip("pyterrier", reason="PyTerrier is not installed")
    from rcp_irx import RCPJudge

    found = pool_from("rcp-irx/demo", run=results.runs()["trigrams"], num_results=12)
    assert found["query"].drop_duplicates().tolist() == [query for _, query in demo.topics()]
    assert found["text"].tolist() == [dict(demo.documents())[docno] for docno in found["docno"]]
    judge = RCPJudge(LexicalJudge())
    judged = judge(found[found["qid"].isin(["1", "2"])])
    assert judged.groupby("qid").size().to_dict() == {"1": 12, "2": 12}
    gains = judge.log.calibrate()
    register("rcp-irx-test/pool/judged", gains.select(gains.datasets), None)
    order = [row.doc_id for row in ir_datasets.load("rcp-irx-test/pool/judged").scoreddocs_iter()]
    assert order == found[found["qid"].isin(["1", "2"])]["docno"].tolist()


def test_a_pyterrier_dataset_does_as_well():
    pt = pytest.importorskip("pyterrier", reason="PyTerrier is not installed")
    run = results.runs()["longest"]
    found = pool_from(pt.get_dataset("irds:rcp-irx/demo"), run=run, num_results=3)
    pd.testing.assert_frame_equal(found, pool_from("rcp-irx/demo", run=run, num_results=3))


def test_a_registered_pool_comes_back_as_it_was_judged():
    register("rcp-irx-test/demo", in_memory.demo_gains(), "rcp-irx/demo")
    found = pool_from("irds:rcp-irx-test/demo", num_results=None)
    expected = in_memory.demo_gains().documents.sort_values(["qid", "pool_rank"])
    keyed = found.sort_values(["qid", "rank"])
    assert keyed["docno"].tolist() == expected["docno"].tolist()
    assert keyed["rank"].tolist() == expected["pool_rank"].tolist()
