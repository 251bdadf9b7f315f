"""The warnings about documents without gains: low coverage, coverage that differs, nothing in common."""

from __future__ import annotations

import warnings

import ir_measures
import pandas as pd
import pytest
from ir_measures import nDCG

from rcp_irx import RCPGain, RCPJudged, RCPnDCG, RCPWarning
from rcp_irx.evaluation import ndcg

pytestmark = pytest.mark.quick

QUERIES = [f"q{i}" for i in range(10)]
GAINS = {qid: {f"d{i}": 0.5 + i / 100 for i in range(10)} for qid in QUERIES}
QRELS = pd.DataFrame(
    [(qid, docno, 1, gain) for qid, docs in GAINS.items() for docno, gain in docs.items()],
    columns=["query_id", "doc_id", "relevance", "gain"],
)


def run(unjudged: int) -> dict[str, dict[str, float]]:
    """Ten documents for each of ten queries, of which some in all have no gain; the last rank is at 0."""
    documents = {qid: {f"d{i}": 10.0 - i for i in range(10)} for qid in QUERIES}
    for n in range(unjudged):
        documents[QUERIES[n % 10]].pop(f"d{n // 10}")
        documents[QUERIES[n % 10]][f"x{n // 10}"] = 10.0 - n // 10
    return documents


def messages(call, *args: object, **options: object) -> list[str]:  # type: ignore[no-untyped-def]  # any callable
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*args, **options)
    return [str(warning.message) for warning in caught if issubclass(warning.category, RCPWarning)]


@pytest.mark.parametrize(("unjudged", "warned"), [(0, False), (5, False), (6, True), (100, True)])
def test_coverage_below_95_percent(unjudged: int, warned: bool) -> None:
    for said in (
        messages(ndcg, run(unjudged), GAINS),
        messages((RCPnDCG @ 10).calc_aggregate, QRELS, run(unjudged)),
    ):
        assert len(said) == warned
    if unjudged == 6:
        assert "94.0% of the top 10 has a gain (10 queries), below 95%" in said[0]


def test_only_the_first_k_count_and_missed_queries_do_not() -> None:
    deep = {qid: {**docs, **{f"y{i}": -1.0 - i for i in range(90)}} for qid, docs in run(0).items()}
    assert messages(ndcg, deep, GAINS, 10) == []
    assert "10.0% of all ranked documents has a gain" in messages(ndcg, deep, GAINS, None)[0]
    assert messages(ndcg, {"q0": run(0)["q0"]}, GAINS) == []


def test_excluded_documents_are_not_missing_gains() -> None:
    assert messages(ndcg, run(10), GAINS, excluded={qid: ["x0"] for qid in QUERIES}) == []


def test_no_warning_where_unjudged_documents_are_dealt_with_and_one_for_all_measures() -> None:
    for unjudged in ("condensed", "upper"):
        assert messages(ndcg, run(20), GAINS, unjudged=unjudged) == []
        assert messages((RCPnDCG(unjudged=unjudged) @ 10).calc_aggregate, QRELS, run(20)) == []
    assert messages((RCPJudged @ 10).calc_aggregate, QRELS, run(20)) == []
    said = messages(ir_measures.calc_aggregate, [RCPnDCG @ 10, RCPGain @ 10, RCPJudged @ 10, nDCG @ 10], QRELS, run(20))
    assert len(said) == 1


def test_documents_of_another_collection() -> None:
    other = {qid: {f"{docno}.txt": score for docno, score in docs.items()} for qid, docs in run(0).items()}
    for said in (messages(ndcg, other, GAINS), messages((RCPnDCG @ 10).calc_aggregate, QRELS, other)):
        assert len(said) == 1
        assert "no ranked document has a gain: the run's documents are 'd0.txt', 'd1.txt', 'd2.txt'" in said[0]
        assert "the gains' 'd0', 'd1', 'd2'" in said[0]
    for options in ({"unjudged": "upper"}, {"unjudged": "condensed"}, {"judged_only": True}):
        assert "same collection?" in messages((RCPnDCG(**options) @ 10).calc_aggregate, QRELS, other)[0]
    assert "same collection?" in messages(ndcg, other, GAINS, unjudged="upper")[0]
    assert "same collection?" in messages((RCPJudged @ 10).calc_aggregate, QRELS, other)[0]
    below = {qid: {**docs, "d0": -9.0} for qid, docs in other.items()}
    assert "0.0% of the top 10 has a gain" in messages(ndcg, below, GAINS)[0]


@pytest.mark.parametrize(("others", "warned"), [(2, False), (3, True), (4, True)])
def test_systems_whose_coverage_differs(others: int, warned: bool) -> None:
    evaluator = ir_measures.evaluator([RCPnDCG @ 10], QRELS)
    assert messages(evaluator.calc_aggregate, run(0)) == []
    said = messages(evaluator.calc_aggregate, run(others))
    assert len(said) == warned
    if others == 3:
        assert "by more than 0.02: 0.970 for this system, 1.000 for one scored before" in said[0]


def test_a_system_that_is_scored_again_says_nothing_new() -> None:
    measure = RCPnDCG @ 10
    for unjudged, said in [(0, 0), (4, 1), (0, 0), (4, 0), (1, 1), (1, 0)]:
        assert len(messages(measure.calc_aggregate, QRELS, run(unjudged))) == said, unjudged


def test_every_query_weighs_the_same_as_in_rcpjudged() -> None:
    uneven = {"q0": {"x": 1.0, "d0": 0.5}, "q1": run(0)["q1"]}
    said = messages(ndcg, uneven, {qid: GAINS[qid] for qid in uneven})
    assert "75.0% of the top 10 has a gain (2 queries)" in said[0]
    assert (RCPJudged @ 10).calc_aggregate(QRELS[QRELS.query_id.isin(["q0", "q1"])], uneven) == 0.75


def test_comparison_is_what_one_measure_object_scored() -> None:
    measure = RCPnDCG @ 10
    assert messages(measure.calc_aggregate, QRELS, run(0)) == []
    assert messages((RCPnDCG @ 10).calc_aggregate, QRELS, run(4)) == []
    assert messages(measure.calc_aggregate, QRELS[QRELS.query_id == "q0"], run(4)) != []  # other queries: low by itself
    assert len(messages(measure.calc_aggregate, QRELS, run(4))) == 1


@pytest.mark.parametrize("options", [{}, {"batch_size": 5}, {"plan": "tree"}], ids=str)
def test_systems_of_an_experiment(options: dict) -> None:
    pt = pytest.importorskip("pyterrier")

    def system(unjudged: int):  # type: ignore[no-untyped-def]  # a transformer of a framework that is imported late
        rows = [(q, d, s) for q, docs in run(unjudged).items() for d, s in docs.items()]
        return pt.Transformer.from_df(pt.model.add_ranks(pd.DataFrame(rows, columns=["qid", "docno", "score"])))

    topics = pd.DataFrame({"qid": QUERIES, "query": QUERIES})
    qrels = QRELS.rename(columns={"query_id": "qid", "doc_id": "docno", "relevance": "label"})

    def experiment(*unjudged: int) -> list[str]:
        systems = [system(n) for n in unjudged]
        said = messages(pt.Experiment, systems, topics, qrels, [RCPnDCG @ 10, nDCG @ 10], verbose=False, **options)
        return [message for message in said if "differs between the compared systems" in message]

    assert experiment(0, 1) == []
    assert experiment(4, 4) == []
    assert experiment(0, 4) != []
