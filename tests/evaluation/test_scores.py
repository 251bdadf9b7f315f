"""What rankings are worth: every measure's number by hand, and what the options do to it."""

from __future__ import annotations

import math
import tracemalloc

import ir_measures
import numpy as np
import pandas as pd
import pytest
from ir_measures import RR, P, R, Success, nDCG

from rcp_irx import (
    RCPDCG,
    RCPERR,
    CountnDCG,
    RawBTnDCG,
    RCPBest,
    RCPError,
    RCPGain,
    RCPJudged,
    RCPnDCG,
    RCPRecall,
)
from rcp_irx.evaluation import ndcg

pytestmark = [pytest.mark.quick, pytest.mark.filterwarnings("ignore::rcp_irx.RCPWarning")]

D2, D3, D4 = math.log2(3), 2.0, math.log2(5)
POOL = {"a": 0.75, "b": 0.5, "c": 0.25, "d": 0.0}  # of query q; x and y have no gain
RUN = {"q": {"b": 5.0, "x": 4.0, "a": 3.0, "d": 2.0}}
IDEAL3 = 0.75 + 0.5 / D2 + 0.25 / D3


def qrels(gains: dict[str, float] = POOL, **columns: object) -> pd.DataFrame:
    frame = pd.DataFrame({"query_id": "q", "doc_id": list(gains), "gain": list(gains.values())})
    return frame.assign(relevance=1, **columns)


def value(measure: ir_measures.Measure, labels: pd.DataFrame | None = None, run: dict = RUN) -> float:
    return measure.calc_aggregate(qrels() if labels is None else labels, run)


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        (RCPnDCG @ 3, (0.5 + 0.75 / D3) / IDEAL3),
        (RCPDCG @ 3, 0.5 + 0.75 / D3),
        (RCPDCG @ 1, 0.5),
        (RCPGain @ 3, 1.25 / 3),
        (RCPGain @ 8, 1.25 / 8),  # ranks that the run lacks count 0, as in P@k
        (RCPGain, 1.25 / 4),
        (RCPRecall @ 1, 0.5 / 1.5),
        (RCPRecall @ 3, 1.25 / 1.5),
        (RCPRecall, 1.25 / 1.5),
        (RCPERR @ 1, 0.5),
        (RCPERR @ 3, 0.5 + 0.5 * 0.75 / 3),
        (RCPERR, 0.5 + 0.5 * 0.75 / 3),
        (RCPBest @ 1, 0.5),
        (RCPBest @ 3, 0.75),
        (RCPJudged @ 1, 1.0),
        (RCPJudged @ 2, 0.5),
        (RCPJudged @ 10, 0.75),  # of the four that are ranked
        (RCPJudged, 0.75),
    ],
    ids=str,
)
def test_numbers_by_hand(measure: ir_measures.Measure, expected: float) -> None:
    assert value(measure) == pytest.approx(expected, abs=1e-15)


FAMILY = [RCPnDCG, RCPDCG, RCPGain, RCPRecall, RCPERR, RCPBest, RCPJudged]


@pytest.mark.parametrize("measure", FAMILY, ids=str)
@pytest.mark.parametrize("k", [1, 10, None])
def test_missed_query_empty_run_and_gains_that_are_all_zero_score_zero(measure: ir_measures.Measure, k: int) -> None:
    at = measure if k is None else measure @ k
    assert value(at, run={}) == 0.0
    assert value(at, run={"q": {}}) == 0.0
    nothing = value(at, qrels(dict.fromkeys("abd", 0.0)), {"q": {"a": 1.0}})
    assert nothing == (1.0 if measure == RCPJudged else 0.0)


def test_unjudged_documents_count_zero_or_are_left_out_or_bound_the_score() -> None:
    assert value(RCPnDCG(unjudged="zero") @ 3) == value(RCPnDCG @ 3)
    condensed = (0.5 + 0.75 / D2 + 0.0 / D3) / IDEAL3
    assert value(RCPnDCG(unjudged="condensed") @ 3) == pytest.approx(condensed, abs=1e-15)
    assert value(RCPnDCG(judged_only=True) @ 3) == value(RCPnDCG(unjudged="condensed") @ 3)
    upper = (0.25 + 0.75 / D2) / (0.75 + 0.5 / D2)
    low = {"q": {"c": 3.0, "x": 2.0}}
    assert value(RCPnDCG(unjudged="upper") @ 2, run=low) == pytest.approx(upper, abs=1e-15)
    assert ndcg(low, {"q": POOL}, 2, unjudged="upper")["q"] == pytest.approx(upper, abs=1e-15)
    assert ndcg(RUN, {"q": POOL}, 3, unjudged="condensed")["q"] == pytest.approx(condensed, abs=1e-15)
    assert value(RCPGain(unjudged="condensed") @ 2) == pytest.approx(1.25 / 2)
    assert value(RCPGain(unjudged="upper") @ 2) == pytest.approx(1.25 / 2)
    assert value(RCPBest(unjudged="upper") @ 2) == 0.75


def test_condensed_lists_reach_below_the_cutoff() -> None:
    run = {"q": {**{f"x{i}": 100.0 - i for i in range(50)}, "a": 2.0, "b": 1.0}}
    assert value(RCPnDCG @ 2, run=run) == 0.0
    assert value(RCPnDCG(unjudged="condensed") @ 2, run=run) == 1.0


@pytest.mark.parametrize("measure", [RCPnDCG, RCPRecall], ids=str)
def test_bound_is_never_above_one(measure: ir_measures.Measure) -> None:
    assert value(measure(unjudged="upper") @ 5, run={"q": {f"x{i}": 1.0 * i for i in range(5)}}) == 1.0


def test_excluded_documents_leave_the_bound_the_pool_and_the_ranking() -> None:
    labels = qrels(excluded=[True, False, False, False])  # a
    assert value(RCPRecall @ 3, labels) == pytest.approx(0.5 / 0.75)
    assert value(RCPGain @ 3, labels) == pytest.approx(0.5 / 3)
    assert value(RCPBest(unjudged="upper") @ 2, labels) == 0.5
    assert value(RCPJudged @ 3, labels) == pytest.approx(2 / 3)


def test_document_whose_id_is_the_querys_is_dropped_on_demand() -> None:
    labels = pd.concat([qrels(), pd.DataFrame({"query_id": ["q"], "doc_id": ["q"], "gain": [1.0], "relevance": [1]})])
    run = {"q": {"q": 9.0, **RUN["q"]}}
    assert value(RCPnDCG(ignore_identical_ids=True) @ 3, labels, run) == pytest.approx(value(RCPnDCG @ 3), abs=1e-15)
    assert value(RCPnDCG(ignore_identical_ids=True) @ 3, run=run) == value(RCPnDCG @ 3)
    assert value(RCPnDCG @ 1, labels, run) == 1.0
    assert ndcg(run, {"q": {**POOL, "q": 1.0}}, 3, ignore_identical_ids=True)["q"] == pytest.approx(value(RCPnDCG @ 3))
    both = ndcg(run, {"q": {**POOL, "q": 1.0}}, 2, ignore_identical_ids=True, excluded={"q": ["b", "x"]})["q"]
    assert both == pytest.approx(0.75 / (0.75 + 0.25 / D2))


TIED = {"q": dict.fromkeys("abcx", 1.0)}


@pytest.mark.parametrize(
    ("measure", "expected"),
    [
        (RCPGain(ties="mean") @ 2, 1.5 / 4),
        (RCPJudged(ties="mean") @ 2, 0.75),
        (RCPJudged @ 1, 0.0),  # x leads by id
        (RCPBest(ties="mean") @ 2, 1.5 / 4),
        (RCPRecall(ties="mean") @ 2, 0.5),
        (RCPGain(ties="mean", unjudged="condensed") @ 2, 0.5),
        (RCPGain(ties="mean", unjudged="upper") @ 2, 2.25 / 4),
    ],
    ids=str,
)
def test_tied_documents_share_their_groups_mean(measure: ir_measures.Measure, expected: float) -> None:
    assert value(measure, run=TIED) == pytest.approx(expected, abs=1e-15)


@pytest.mark.parametrize(
    ("rules", "ties"), [("nanobeir", "docno"), ("bright", "docno"), ("vidore", "mean"), ("trec-dl", "pool")]
)
def test_rules_of_the_papers_suites(rules: str, ties: str) -> None:
    labels = qrels(pool_rank=[3, 0, 1, 2], excluded=[False, False, True, False])
    run = {"q": dict.fromkeys("dcbaxy", 1.0)}
    by_rules = value(RCPnDCG(rules=rules) @ 2, labels, run)
    assert by_rules == value(RCPnDCG(ties=ties) @ 2, labels, run)
    by_hand = {
        "docno": 0.0,  # y, x
        "mean": 1.25 / 5 * (1 + 1 / D2) / (0.75 + 0.5 / D2),  # d, b, a, x, y: c is excluded
        "pool": 0.5 / (0.75 + 0.5 / D2),  # b, d
    }
    assert by_rules == pytest.approx(by_hand[ties], abs=1e-15)
    gains = labels.rename(columns={"query_id": "qid", "doc_id": "docno"})
    assert ndcg(run, gains, 2, rules=rules)["q"] == by_rules


def test_each_measure_reads_its_own_column_and_no_other() -> None:
    columns = {"count_gain": [0.2, 0.8, 0.4, 0.6], "weighted_count_gain": [0.1, 0.9, 0.3, 0.5]}
    labels = qrels(**columns, raw_bt_gain=[0.9, 0.3, 0.2, 0.1])
    run = {"q": {"a": 1.0}}
    assert value(RCPnDCG @ 1, labels, run) == 1.0
    assert value(CountnDCG @ 1, labels, run) == 0.2 / 0.8
    assert value(CountnDCG(weighted=True) @ 1, labels, run) == 0.1 / 0.9
    assert value(CountnDCG(weighted=False) @ 1, labels, run) == value(CountnDCG @ 1, labels, run)
    assert value(RawBTnDCG @ 1, labels, run) == 1.0
    for measure, column in [
        (RCPnDCG, "gain"),
        (CountnDCG, "count_gain"),
        (CountnDCG(weighted=True), "weighted_count_gain"),
        (RawBTnDCG, "raw_bt_gain"),
        (RCPJudged, "gain"),
    ]:
        with pytest.raises(RCPError, match=f"no column '{column}'"):
            value(measure @ 1, labels.drop(columns=column), run)
    with pytest.raises(RCPError, match="a dict holds one number for each document, and no 'count_gain'"):
        value(CountnDCG @ 1, {"q": {"a": 0.5}}, run)  # type: ignore[arg-type]  # refused


def test_recall_depends_on_no_order_of_the_gains() -> None:
    gains = {f"d{i}": 0.1 + 0.7 * (i * 7919 % 101) / 101 for i in range(60)}
    first = value(RCPRecall @ 7, qrels(gains), {"q": {f"d{i}": float(i) for i in range(60)}})
    for seed in range(20):
        shuffled = qrels(gains).sample(frac=1, random_state=seed)
        assert value(RCPRecall @ 7, shuffled, {"q": {f"d{i}": float(i) for i in range(60)}}) == first


def test_one_deep_ranking_among_shallow_ones_takes_no_more_room_than_its_own() -> None:
    run = {**{f"q{i}": {"a": 2.0, "b": 1.0} for i in range(2000)}, "deep": {f"d{i}": -float(i) for i in range(20_000)}}
    gains = pd.DataFrame([(q, d, 0.5) for q in run for d in ("a", "b", "d1")], columns=["query_id", "doc_id", "gain"])
    tracemalloc.start()
    found = {metric.query_id: metric.value for metric in RCPERR.iter_calc(gains, run)}
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found["q7"] == 0.5 + 0.25 / 2
    assert found["deep"] == 0.25
    assert peak < 100e6  # a matrix of every query by the deepest would hold 320 MB


def test_gains_of_zero_and_one_make_the_known_measures() -> None:
    random = np.random.default_rng(11)
    rows = [(f"q{i}", f"d{j}") for i in range(40) for j in range(30)]
    run = pd.DataFrame(rows, columns=["query_id", "doc_id"])
    run["score"] = random.integers(0, 9, len(run)).astype(float)  # tied: both sides order by docno, descending
    judged = run[["query_id", "doc_id"]].sample(frac=0.4, random_state=11)
    labels = judged.assign(relevance=random.integers(0, 2, len(judged)), gain=lambda rows: rows.relevance.astype(float))
    pairs = [
        (RCPGain @ 7, P @ 7),
        (RCPRecall @ 7, R @ 7),
        (RCPBest @ 7, Success @ 7),
        (RCPERR, RR),  # the reader stops at the first relevant document
        (RCPnDCG @ 7, nDCG @ 7),
        (RCPnDCG(judged_only=True) @ 7, nDCG(judged_only=True) @ 7),
        (RCPnDCG, nDCG),
    ]
    for ours, theirs in pairs:
        got = {m.query_id: m.value for m in ours.iter_calc(labels, run)}
        expected = {m.query_id: m.value for m in theirs.iter_calc(labels, run)}
        assert got == pytest.approx(expected, abs=1e-12), str(ours)
