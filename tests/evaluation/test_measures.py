"""RCPnDCG in ir_measures: the measure as a value, where its gains come from, which queries it scores."""

from __future__ import annotations

import importlib
import math
import pickle
import subprocess
import sys
from collections import namedtuple
from typing import NamedTuple

import ir_measures
import numpy as np
import pandas as pd
import pytest
from ir_measures import Judged, P, Qrel, ScoredDoc, nDCG

import rcp_irx.evaluation.measures
from rcp_irx import (
    RCPDCG,
    RCPERR,
    CountnDCG,
    GainTable,
    RawBTnDCG,
    RCPBest,
    RCPError,
    RCPGain,
    RCPJudged,
    RCPnDCG,
    RCPRecall,
    register_gains,
)
from rcp_irx.evaluation import ndcg
from rcp_irx.evaluation.measures import MEASURES

pytestmark = [pytest.mark.quick, pytest.mark.filterwarnings("ignore::rcp_irx.RCPWarning")]

QRELS = pd.DataFrame(
    [
        ["q1", "a", 2, 0.9, False],
        ["q1", "b", 1, 0.4, False],
        ["q1", "c", 0, math.nan, False],
        ["q2", "a", 0, 0.1, False],
        ["q2", "d", 1, 0.8, False],
        ["q3", "e", 1, 0.3, False],
    ],
    columns=["query_id", "doc_id", "relevance", "gain", "excluded"],
)
RUN = pd.DataFrame(
    [["q1", "b", 3.0], ["q1", "c", 3.0], ["q1", "a", 1.0], ["q2", "d", 2.0], ["q2", "x", 3.0], ["q9", "a", 1.0]],
    columns=["query_id", "doc_id", "score"],
)
Q1 = (0.4 / math.log2(3) + 0.9 / 2) / (0.9 + 0.4 / math.log2(3))  # c, b, a: the tie goes to the greater docno
Q2 = (0.8 / math.log2(3)) / (0.8 + 0.1 / math.log2(3))


class GainQrel(NamedTuple):
    query_id: str
    doc_id: str
    relevance: int
    gain: float


def table(rows: list, name: str = "study") -> GainTable:
    """A table of (dataset, qid, docno, gain, pool_rank, excluded)."""
    documents = pd.DataFrame(rows, columns=["dataset", "qid", "docno", "gain", "pool_rank", "excluded"])
    documents = documents.assign(theta=0.0, bt=0.0, n=5, C1=2)
    queries = documents[["dataset", "qid"]].drop_duplicates().assign(query="text", tau=1.0, alpha=0.0)
    criteria = pd.DataFrame(
        [["C1", "topic", "On topic?", 1.0, 0.0]], columns=["id", "name", "question", "gamma", "beta"]
    )
    return GainTable(documents, queries, criteria, {"name": name})


def as_table(name: str = "study", scale: float = 1.0) -> GainTable:
    """The gains of QRELS, and one query more, as a table."""
    rows = [
        ["", q, d, g * scale, i, x]
        for i, (q, d, _, g, x) in enumerate(QRELS.dropna().itertuples(index=False, name=None))
    ]
    return table([*rows, ["", "q8", "a", 0.5, 0, False]], name)


def per_query(measure: ir_measures.Measure, qrels: object, run: object = RUN) -> dict[str, float]:
    found = list(measure.iter_calc(qrels, run))
    values = {metric.query_id: metric.value for metric in found}
    assert len(values) == len(found)
    assert {type(value) for value in values.values()} <= {float}
    return values


# --- the measure as a value


@pytest.mark.parametrize(
    ("measure", "text"),
    [
        (RCPnDCG, "RCPnDCG"),
        (RCPnDCG @ 10, "RCPnDCG@10"),
        (RCPnDCG @ np.int64(10), "RCPnDCG@10"),
        (RCPnDCG(ties="mean") @ 10, "RCPnDCG(ties='mean')@10"),
        (RCPnDCG(ties="docno") @ 10, "RCPnDCG@10"),
        (RCPnDCG(cutoff=5, ties="pool"), "RCPnDCG(ties='pool')@5"),
        (RCPnDCG(gains="dl19") @ 10, "RCPnDCG(gains='dl19')@10"),
        (RCPnDCG(gains="dl19", ties="mean"), "RCPnDCG(gains='dl19',ties='mean')"),
        (RCPnDCG(rules="trec-dl") @ 10, "RCPnDCG(rules='trec-dl')@10"),
        (RCPnDCG(unjudged="condensed") @ 10, "RCPnDCG(unjudged='condensed')@10"),
        (RCPnDCG(judged_only=True) @ np.uint8(3), "RCPnDCG(judged_only=True)@3"),
        (RCPnDCG(ignore_identical_ids=np.True_), "RCPnDCG(ignore_identical_ids=True)"),
        (CountnDCG(weighted=True) @ 10, "CountnDCG(weighted=True)@10"),
        (RawBTnDCG @ 10, "RawBTnDCG@10"),
        (RCPJudged(ties="mean") @ 10, "RCPJudged(ties='mean')@10"),
        (RCPGain @ 10, "RCPGain@10"),
        (RCPDCG @ 10, "RCPDCG@10"),
        (RCPRecall(unjudged="upper") @ 10, "RCPRecall(unjudged='upper')@10"),
        (RCPERR, "RCPERR"),
        (RCPBest @ 1, "RCPBest@1"),
    ],
)
def test_printed_as_typed_and_parsed_back(measure: ir_measures.Measure, text: str) -> None:
    assert str(measure) == text
    assert ir_measures.parse_measure(text) == measure
    assert hash(ir_measures.parse_measure(text)) == hash(measure)
    assert pickle.loads(pickle.dumps(measure)) == measure


def test_order_of_parameters_does_not_matter() -> None:
    assert RCPnDCG(ties="mean", gains="dl19") @ 5 == RCPnDCG(cutoff=5, gains="dl19")(ties="mean")


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"cutof": 10}, "RCPnDCG has no parameter 'cutof'; it takes cutoff, gains, ties, rules"),
        ({"weighted": True}, "RCPnDCG has no parameter 'weighted'"),
        ({"rules": "beir"}, "RCPnDCG: rules must be one of"),
        ({"rules": "vidore", "ties": "pool"}, "RCPnDCG: rules='vidore' orders ties by 'mean'"),
        ({"judged_only": "yes"}, "judged_only must be True or False"),
        ({"cutoff": 0}, "whole number >= 1"),
        ({"cutoff": True}, "whole number >= 1"),
        ({"cutoff": 10.0}, "whole number >= 1"),
        ({"ties": "random"}, "ties must be one of"),
        ({"gains": 3}, "gains must be a GainTable"),
        ({"gains": ""}, "gains must be a GainTable"),
    ],
)
def test_refused_parameters(params: dict, message: str) -> None:
    for kind in (RCPError, AssertionError):  # ir_measures raises the second
        with pytest.raises(kind, match=message):
            RCPnDCG(**params)


def test_coverage_has_no_rule_for_documents_without_a_gain() -> None:
    with pytest.raises(RCPError, match="RCPJudged has no parameter 'unjudged'"):
        RCPJudged(unjudged="upper")


def test_measures_go_to_another_process_and_come_back() -> None:
    measures = [CountnDCG(weighted=True) @ 10, RCPERR, as_table().RCPGain(ties="mean") @ 5]
    code = (
        "import pickle, sys; m = pickle.load(sys.stdin.buffer); pickle.dump((list(map(str, m)), m), sys.stdout.buffer)"
    )
    done = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(measures), capture_output=True, check=True)
    text, back = pickle.loads(done.stdout)
    assert text == ["CountnDCG(weighted=True)@10", "RCPERR", "RCPGain(gains='study',ties='mean')@5"]
    assert back == measures
    assert [hash(measure) for measure in back] == [hash(measure) for measure in measures]


def test_bound_measure_prints_its_label_and_pickles_with_its_table() -> None:
    measure = as_table().RCPnDCG(ties="mean") @ 10
    assert str(measure) == "RCPnDCG(gains='study',ties='mean')@10"
    again = pickle.loads(pickle.dumps(measure))
    assert again == measure
    assert per_query(again, QRELS) == per_query(measure, QRELS)


def test_a_table_binds_every_measure() -> None:
    gains = as_table()
    for measure in MEASURES:
        bound = getattr(gains, measure.NAME)
        assert str(bound @ 3) == f"{measure.NAME}(gains='study')@3"
        assert getattr(GainTable, measure.NAME) == measure
        assert set(per_query(bound @ 3, QRELS.drop(columns="gain"))) == {"q1", "q2", "q3"}
    discount = 1 / math.log2(3)  # c, b, ..: c is not in the table; every other document passed 2 of 5 times
    assert per_query(gains.CountnDCG @ 2, QRELS)["q1"] == pytest.approx(discount / (1 + discount))


def test_tables_with_one_name_are_never_taken_for_each_other() -> None:
    one, other = as_table().RCPnDCG @ 10, as_table(scale=0.5).RCPnDCG @ 10
    assert str(one) == str(other)
    assert one != other
    assert one == as_table().RCPnDCG @ 10
    with pytest.raises(RCPError, match="two different gain tables are both printed as gains='study'"):
        ir_measures.calc_aggregate([one, other], QRELS, RUN)
    with pytest.raises(RCPError, match="two different gain tables"):
        ir_measures.calc_aggregate([one, other @ 5], QRELS, RUN)
    assert len(ir_measures.calc_aggregate([one, as_table(name="half", scale=0.5).RCPnDCG @ 10], QRELS, RUN)) == 2


def test_importing_again_registers_once() -> None:
    before = RCPnDCG(ties="mean") @ 10
    importlib.reload(rcp_irx.evaluation.measures)
    names = [provider.NAME for provider in ir_measures.DefaultPipeline.providers]
    assert names.count("rcp_irx") == 1
    assert "rcp_irx" in ir_measures.providers.registry
    assert before == rcp_irx.evaluation.measures.RCPnDCG(ties="mean") @ 10
    assert pickle.loads(pickle.dumps(before)) == before
    assert per_query(before, QRELS)["q1"] == pytest.approx(
        per_query(ir_measures.parse_measure(str(before)), QRELS)["q1"]
    )


HEAVY = ["numpy", "scipy", "pandas", "ir_datasets", "pyterrier", "ranx", "mteb", "torch", "openai"]


@pytest.mark.parametrize(
    "statement", ["import rcp_irx", "import rcp_irx.evaluation", "from rcp_irx import RCPnDCG; RCPnDCG @ 10"]
)
def test_import_loads_nothing_heavy(statement: str) -> None:
    code = f"{statement}; import sys; print([name for name in {HEAVY} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


@pytest.mark.parametrize(
    "first", ["from rcp_irx.evaluation.dcg import ndcg", "from rcp_irx import RCPnDCG; RCPnDCG.calc({}, {})"]
)
def test_ndcg_is_the_function_whatever_is_imported_first(first: str) -> None:
    code = f"{first}; import rcp_irx.evaluation as e; print(e.ndcg({{'q': {{'a': 1}}}}, {{'q': {{'a': 1}}}})['q'])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "1.0\n"


# --- where the gains come from


def test_gain_column_of_the_qrels() -> None:
    assert per_query(RCPnDCG @ 10, QRELS) == pytest.approx({"q1": Q1, "q2": Q2, "q3": 0.0}, abs=1e-15)


def test_every_form_of_qrels_and_runs_agrees() -> None:
    tuples = [GainQrel(*row) for row in QRELS.drop(columns="excluded").itertuples(index=False, name=None)]
    nested = {q: dict(zip(rows.doc_id, rows.gain, strict=True)) for q, rows in QRELS.dropna().groupby("query_id")}
    docs = [ScoredDoc(*row) for row in RUN.itertuples(index=False, name=None)]
    run_dict = {q: dict(zip(rows.doc_id, rows.score, strict=True)) for q, rows in RUN.groupby("query_id")}
    expected = per_query(RCPnDCG @ 10, QRELS)
    for qrels in (QRELS, tuples, nested):
        for run in (RUN, docs, run_dict):
            assert per_query(RCPnDCG @ 10, qrels, run) == expected
    assert per_query(RCPnDCG @ 10, (row for row in tuples), (row for row in docs)) == expected
    assert per_query(as_table().RCPnDCG @ 10, [Qrel("q1", "z", 1)], docs) == {"q1": expected["q1"]}


def test_generators_beside_another_measure_and_for_two_runs() -> None:
    tuples = (GainQrel(*row) for row in QRELS.drop(columns="excluded").itertuples(index=False, name=None))
    evaluator = ir_measures.evaluator([RCPnDCG @ 10, P @ 1], tuples)
    expected = ir_measures.calc_aggregate([RCPnDCG @ 10, P @ 1], QRELS, RUN)
    for _ in range(2):
        run = (ScoredDoc(*row) for row in RUN.itertuples(index=False, name=None))
        assert evaluator.calc_aggregate(run) == pytest.approx(expected)


def test_table_by_name_path_and_object(tmp_path) -> None:  # type: ignore[no-untyped-def]  # pytest's own Path fixture
    gains = as_table()
    gains.save(tmp_path / "study.gains")
    register_gains("registered study", gains)
    expected = per_query(RCPnDCG @ 10, QRELS)
    for source in (gains, "registered study", str(tmp_path / "study.gains"), tmp_path / "study.gains"):
        assert per_query(RCPnDCG(gains=source) @ 10, QRELS.drop(columns="gain")) == expected
    with pytest.raises(RCPError, match="'nobody' is neither"):
        per_query(RCPnDCG(gains="nobody") @ 10, QRELS)


def test_labels_are_never_taken_for_gains() -> None:
    with pytest.raises(RCPError, match=r"qrels have no column 'gain'.*table.qrels\(labels\).*table.RCPnDCG"):
        per_query(RCPnDCG @ 10, QRELS.drop(columns="gain"))
    with pytest.raises(RCPError, match="no column 'gain'"):
        per_query(RCPnDCG @ 10, [Qrel("q1", "a", 1)])
    with pytest.raises(RCPError, match="whole numbers only, which are labels"):
        per_query(RCPnDCG @ 10, {"q1": {"a": 1, "b": 0.0}})
    assert per_query(RCPnDCG @ 10, {"q1": {"a": 1, "b": 0.5}}, {"q1": {"a": 1.0, "b": 0.0}}) == {"q1": 1.0}


def test_named_tuples_of_two_kinds() -> None:
    other = namedtuple("other", ["query_id", "doc_id", "relevance"])
    with pytest.raises(RCPError, match="named tuples with the same fields"):
        per_query(RCPnDCG @ 10, [GainQrel("q1", "a", 1, 0.5), other("q1", "b", 1)])


@pytest.mark.parametrize("gain", [1.1, -0.1, math.inf])
def test_gains_are_probabilities(gain: float) -> None:
    with pytest.raises(RCPError, match=r"gains .*\('q1', 'a'"):
        per_query(RCPnDCG @ 10, QRELS.assign(gain=QRELS.gain.where(QRELS.gain != 0.9, gain)))


# --- which queries


def test_query_of_the_qrels_without_any_gain_names_three() -> None:
    labels = pd.DataFrame([[f"new{i}", "a", 1, math.nan, False] for i in range(4)], columns=QRELS.columns)
    with pytest.raises(RCPError, match="'new0', 'new1', 'new2' and 1 more"):
        per_query(RCPnDCG @ 10, pd.concat([QRELS, labels]))
    both = "4 of the qrels' 7 queries have no gain: 'new0', .* and 1 more; there are gains for 'q1', 'q2', 'q3'"
    with pytest.raises(RCPError, match=both):
        per_query(as_table().RCPnDCG @ 10, pd.concat([QRELS, labels]))


@pytest.mark.parametrize("column", ["relevance", "label"])
def test_labels_with_decimals_are_refused_whatever_else_the_qrels_hold(column: str) -> None:
    qrels = QRELS.rename(columns={"relevance": column})
    qrels[column] = qrels[column].astype(float)
    assert per_query(RCPnDCG @ 10, qrels) == per_query(RCPnDCG @ 10, QRELS)  # 2.0 is a whole number
    qrels.loc[1, column] = 0.5
    with pytest.raises(
        RCPError, match=rf"column '{column}' must hold whole numbers.*\('q1', 'b', 0.5\).*column 'gain'"
    ):
        per_query(RCPnDCG @ 10, qrels)
    with pytest.raises(RCPError, match=rf"column '{column}' must hold whole numbers"):
        per_query(as_table().RCPnDCG @ 10, qrels.drop(columns="gain"))


def test_no_common_query_is_an_error_only_where_both_hold_rows() -> None:
    other = RUN.assign(query_id=RUN.query_id + ".x")
    for measure in (RCPnDCG @ 10, as_table().RCPnDCG @ 10):
        with pytest.raises(RCPError, match=r"share no query.*'q1.x', 'q2.x', 'q9.x'.*'q1', 'q2', 'q3'"):
            per_query(measure, QRELS, other)
        assert per_query(measure, QRELS, RUN[:0]) == {"q1": 0.0, "q2": 0.0, "q3": 0.0}
        assert per_query(measure, QRELS, {}) == {"q1": 0.0, "q2": 0.0, "q3": 0.0}
        assert per_query(measure, QRELS, []) == {"q1": 0.0, "q2": 0.0, "q3": 0.0}
        assert per_query(measure, QRELS[:0], RUN) == {}
        assert per_query(measure, {}, RUN) == {}


def test_integer_query_ids_in_the_run() -> None:
    qrels = QRELS.assign(query_id=QRELS.query_id.str[1:])
    run = RUN.assign(query_id=RUN.query_id.str[1:].astype(int))
    assert per_query(RCPnDCG @ 10, qrels, run) == pytest.approx({"1": Q1, "2": Q2, "3": 0.0})


def test_other_measures_beside_it_keep_their_queries() -> None:
    for measure in (RCPnDCG @ 10, as_table().RCPnDCG @ 10):
        found = ir_measures.calc([measure, nDCG @ 10, Judged @ 10, P @ 5], QRELS, RUN)
        queries = {str(m): sorted(r.query_id for r in found.per_query if r.measure == m) for m in found.aggregated}
        assert set(map(tuple, queries.values())) == {("q1", "q2", "q3")}
        assert found.aggregated[measure] == pytest.approx((Q1 + Q2) / 3)
        assert found.aggregated[nDCG @ 10] == (nDCG @ 10).calc_aggregate(QRELS, RUN)


# --- excluded documents, ties, datasets


def test_excluded_by_qrels_column_and_by_table_alike() -> None:
    expected = 0.4 / 0.4  # a is gone; c (no gain) is gone; b leads
    qrels = QRELS.assign(excluded=(QRELS.query_id == "q1") & QRELS.doc_id.isin(["a", "c"]))
    assert per_query(RCPnDCG @ 10, qrels)["q1"] == expected
    assert per_query(as_table().RCPnDCG @ 10, qrels)["q1"] == expected
    without_a = as_table().exclude(pd.DataFrame({"qid": ["q1"], "docno": ["a"]}))
    assert per_query(without_a.RCPnDCG @ 10, qrels[qrels.doc_id != "a"])["q1"] == expected
    assert per_query(without_a.RCPnDCG @ 1, QRELS)["q1"] == 0.0


def test_pool_order_by_qrels_column_and_by_table() -> None:
    run = {"q1": {"a": 1.0, "b": 1.0}}
    assert per_query(RCPnDCG(ties="pool") @ 1, QRELS.assign(pool_rank=range(len(QRELS))), run)["q1"] == 1.0
    assert per_query(as_table().RCPnDCG(ties="pool") @ 1, QRELS, run)["q1"] == 1.0
    assert per_query(RCPnDCG @ 1, QRELS, run)["q1"] == 0.4 / 0.9
    with pytest.raises(RCPError, match="needs the column 'pool_rank'"):
        per_query(RCPnDCG(ties="pool") @ 1, QRELS, run)


def test_bound_table_whose_datasets_share_query_ids() -> None:
    gains = table([["x", "q1", "a", 0.9, 0, False], ["y", "q1", "a", 0.1, 0, False], ["y", "q1", "b", 0.8, 1, False]])
    qrels = [Qrel("q1", "a", 1)]
    with pytest.raises(RCPError, match=r"query 'q1' in several datasets; bind one: table.select\(dataset\)"):
        per_query(gains.RCPnDCG @ 10, qrels)
    assert per_query(gains.select("x").RCPnDCG @ 1, qrels, {"q1": {"a": 1.0}}) == {"q1": 1.0}
    assert per_query(gains.select("y").RCPnDCG @ 1, qrels, {"q1": {"a": 1.0}}) == {"q1": 0.1 / 0.8}


def test_bound_table_of_several_datasets_whose_query_ids_differ() -> None:
    gains = table([["x", "q1", "a", 0.9, 0, False], ["y", "q2", "a", 0.1, 0, False]])
    run = pd.DataFrame(
        [["x", "q1", "a", 1.0], ["y", "q2", "a", 1.0]], columns=["dataset", "query_id", "doc_id", "score"]
    )
    assert per_query(gains.RCPnDCG @ 10, QRELS[QRELS.query_id != "q3"], run) == {"q1": 1.0, "q2": 1.0}


def test_agrees_with_the_kernel_on_random_runs() -> None:
    random = np.random.default_rng(3)
    run = pd.DataFrame(
        {"query_id": np.repeat([f"q{i}" for i in range(20)], 30), "doc_id": [f"d{i % 30}" for i in range(600)]}
    )
    run["score"] = random.integers(0, 8, 600).astype(float)
    qrels = (
        run[["query_id", "doc_id"]].sample(frac=0.5, random_state=3).assign(gain=lambda rows: random.random(len(rows)))
    )
    for ties in ("docno", "mean", "order"):
        for k in (1, 10, None):
            expected = ndcg(run, qrels, k, ties=ties)
            assert per_query(RCPnDCG(ties=ties, cutoff=k), qrels, run) == expected.to_dict()


def test_no_query_to_score_needs_no_pool_order() -> None:
    nothing = pd.DataFrame(columns=["query_id", "doc_id", "gain", "pool_rank"])
    assert list(RCPnDCG(rules="trec-dl").iter_calc(nothing, RUN)) == []
    with pytest.raises(RCPError, match="needs the column 'pool_rank'"):
        per_query(RCPnDCG(ties="pool"), QRELS.assign(pool_rank=math.nan))


def test_a_dict_may_say_that_a_pool_is_empty() -> None:
    assert per_query(RCPnDCG @ 1, {"q1": {"a": 0.5}, "q2": {}}, {"q1": {"a": 1.0}}) == {"q1": 1.0, "q2": 0.0}


def test_datasets_that_are_named_must_fit() -> None:
    gains = table([["A", "1", "a", 0.9, 0, False], ["B", "1", "a", 0.1, 0, False]])
    qrels = pd.DataFrame([("B", "1", "a", 1)], columns=["dataset", "query_id", "doc_id", "relevance"])
    run = qrels.assign(score=1.0)
    assert per_query(gains.RCPGain @ 1, qrels, run) == {"1": 0.1}
    with pytest.raises(RCPError, match="qrels are of dataset 'B', the gains of 'A'"):
        per_query(gains.select("A").RCPGain @ 1, qrels, run)
    with pytest.raises(RCPError, match="run is of dataset 'A', the qrels of 'B'"):
        per_query(gains.RCPGain @ 1, qrels, run.assign(dataset="A"))
    with pytest.raises(RCPError, match=r"the run's queries are \('B', '1'\), the gains' \('A', '1'\)"):
        ndcg(run, gains.select("A").scored)


@pytest.mark.parametrize(
    ("qrels", "run", "message"),
    [
        (None, RUN, "the qrels must be a frame, a dict of dicts or named tuples, not NoneType"),
        (QRELS, None, "the run must be a frame"),
        ({"q1": ["a"]}, RUN, r"must map each query to a dict of documents; 'q1' has \['a'\]"),
        (QRELS, [("q1", "a", 1.0)], "named tuples with the same fields; there are 'without field names'"),
        (QRELS, RUN.assign(score=pd.Timestamp("2020-01-01")), "column 'score' must hold numbers, not datetime64"),
        (QRELS, RUN.assign(score=10**400), "column 'score' must hold numbers"),
        (QRELS, pd.concat([RUN, RUN[["score"]]], axis=1), "the run has several columns 'score'"),
        (QRELS, RUN.assign(doc_id=""), "the run ranks a document whose id is an empty string for query 'q1', 'q2'"),
        (QRELS.assign(relevance=math.inf), RUN, r"'relevance' must hold whole numbers.*inf"),
        (QRELS.assign(gain=1.5), RUN, r"from 0 to 1; not so query, document, gain: \('q1', 'a', 1.5\)"),
    ],
)
def test_input_of_the_wrong_kind(qrels: object, run: object, message: str) -> None:
    with pytest.raises(RCPError, match=message):
        per_query(RCPnDCG @ 10, qrels, run)


def test_text_parameters_of_numpy_print_as_text() -> None:
    assert str(RCPnDCG(ties=np.str_("mean"), unjudged=np.str_("upper"))) == "RCPnDCG(ties='mean',unjudged='upper')"
    with pytest.raises(RCPError, match="not DataFrame"):
        RCPnDCG(gains=QRELS)


def test_inputs_that_the_measures_need() -> None:
    assert set(ir_measures.run_inputs([RCPnDCG @ 10])) == {"query_id", "doc_id", "score"}
    assert set(ir_measures.qrel_inputs([RCPnDCG @ 10])) == {"query_id", "doc_id", "gain"}
    assert set(ir_measures.qrel_inputs([RCPnDCG(gains="dl19") @ 10])) == {"query_id"}
    several = {"query_id", "doc_id", "gain", "count_gain"}
    assert set(ir_measures.qrel_inputs([RCPGain @ 1, CountnDCG @ 1, RCPERR(gains="dl19")])) == several
