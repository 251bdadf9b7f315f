"""evaluation.ndcg: the numbers, the tie rules, and what is refused."""

from __future__ import annotations

import itertools
import math

import ir_measures
import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rcp_irx import RCPError, RCPWarning
from rcp_irx.evaluation import ndcg
from tests.conftest import cases

pytestmark = [pytest.mark.quick, pytest.mark.filterwarnings("ignore::rcp_irx.RCPWarning")]

GAINS = {"q": {"a": 0.9, "b": 0.5, "c": 0.2, "d": 0.0}}


def frame(rows: list, columns: str) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=columns.split())


def dcg(*gains: float) -> float:
    return sum(gain / math.log2(rank + 2) for rank, gain in enumerate(gains))


def pytrec_ndcg(run: pd.DataFrame, labels: pd.DataFrame, k: int | None) -> pd.Series:
    """trec_eval's nDCG of every judged query, through ir_measures."""
    measure = ir_measures.nDCG if k is None else ir_measures.nDCG @ k
    qrels = labels.rename(columns={"qid": "query_id", "docno": "doc_id", "gain": "relevance"})
    found = measure.iter_calc(qrels, run.rename(columns={"qid": "query_id", "docno": "doc_id"}))
    return pd.Series({metric.query_id: metric.value for metric in found}).sort_index()


@pytest.mark.filterwarnings("ignore:ranked twice")
@pytest.mark.parametrize("case", cases("ndcg"))
@pytest.mark.parametrize("ties", ["docno", "mean", "order"])
def test_reference_numbers(case: dict, ties: str) -> None:
    given = case["input"]
    run = frame(given["ranking"], "docno score").assign(qid="q")
    value = ndcg(run, {"q": given["gains"]}, given["k"], ties=ties, excluded={"q": given["excluded"]})["q"]
    assert value == pytest.approx(case["expected"][ties], abs=case["tolerance"][ties])


def test_gain_is_linear_and_the_ideal_is_the_whole_pool() -> None:
    value = ndcg({"q": {"b": 3.0, "x": 2.0, "c": 1.0}}, GAINS, 3)
    assert value["q"] == pytest.approx((0.5 + 0.2 / 2) / dcg(0.9, 0.5, 0.2), abs=1e-15)


def test_result_is_a_sorted_float_series() -> None:
    value = ndcg({"10": {"a": 1.0}, "9": {"a": 1.0}}, {"9": {"a": 0.4}, "10": {"a": 0.4}, "1": {"a": 0.4}})
    assert list(value.index) == ["1", "10", "9"]
    assert value.index.name == "qid"
    assert value.dtype == np.float64
    assert value.to_dict() == {"1": 0.0, "10": 1.0, "9": 1.0}


@pytest.mark.parametrize(
    ("k", "ties", "name"),
    [
        (10, "docno", "RCPnDCG@10"),
        (None, "docno", "RCPnDCG"),
        (np.int32(5), "mean", "RCPnDCG(ties='mean')@5"),
    ],
)
def test_name_says_cutoff_and_tie_rule(k: int | None, ties: str, name: str) -> None:
    assert ndcg({"q": {"a": 1.0}}, GAINS, k, ties=ties).name == name


@pytest.mark.parametrize("k", [0, -1, True, 2.0, "10", np.bool_(True), np.float64(3)])
def test_cutoff_that_is_no_whole_number_from_one(k: object) -> None:
    with pytest.raises(RCPError, match="cutoff must be a whole number >= 1"):
        ndcg({"q": {"a": 1.0}}, GAINS, k)  # type: ignore[arg-type]  # refused input


def test_tie_rule_that_is_not_known() -> None:
    with pytest.raises(RCPError, match="ties must be one of 'docno', 'mean', 'pool', 'order'; it is 'random'"):
        ndcg({"q": {"a": 1.0}}, GAINS, ties="random")


@pytest.mark.parametrize("k", [5, 1000, 10**30, None])
def test_cutoff_beyond_run_and_pool_counts_everything(k: int | None) -> None:
    value = ndcg({"q": {"c": 2.0, "a": 1.0}}, GAINS, k)["q"]
    assert value == pytest.approx(dcg(0.2, 0.9) / dcg(0.9, 0.5, 0.2), abs=1e-15)


# --- which queries


def test_missed_query_is_zero_and_a_query_of_the_run_alone_is_ignored() -> None:
    value = ndcg({"q1": {"a": 1.0}, "q9": {"a": 1.0}}, {"q1": {"a": 0.5}, "q2": {"a": 0.5}})
    assert value.to_dict() == {"q1": 1.0, "q2": 0.0}


def test_all_gains_zero_is_zero() -> None:
    assert ndcg({"q": {"a": 1.0}}, {"q": {"a": 0.0, "b": 0.0}})["q"] == 0.0


def test_empty_run_empty_gains_and_empty_pool() -> None:
    no_rows = frame([], "qid docno score")
    assert ndcg({}, GAINS).to_dict() == {"q": 0.0}
    assert ndcg(no_rows, GAINS).to_dict() == {"q": 0.0}
    assert ndcg({"q": {"a": 1.0}}, {}).to_dict() == {}
    assert ndcg({"q": {"a": 1.0}}, frame([], "qid docno gain")).to_dict() == {}
    assert ndcg({"q": {"a": 1.0}}, {"q": {}, "p": {"a": 0.5}}).to_dict() == {"p": 0.0, "q": 0.0}


def test_no_common_query_names_three_of_each_side() -> None:
    run = {f"{i}-suffix": {"a": 1.0} for i in range(4)}
    gains = {f"{i}": {"a": 0.5} for i in range(4)}
    with pytest.raises(RCPError, match=r"'0-suffix', '1-suffix', '2-suffix' and 1 more.*'0', '1', '2' and 1 more"):
        ndcg(run, gains)


def test_two_datasets_with_the_same_ids_keep_apart() -> None:
    gains = frame(
        [["x", "1", "d", 1.0], ["x", "1", "e", 0.5], ["y", "1", "d", 0.5], ["y", "1", "e", 1.0]],
        "dataset qid docno gain",
    )
    run = frame(
        [["x", "1", "d", 2.0], ["x", "1", "e", 1.0], ["y", "1", "d", 2.0], ["y", "1", "e", 1.0]],
        "dataset qid docno score",
    )
    value = ndcg(run, gains)
    assert list(value.index.names) == ["dataset", "qid"]
    assert value[("x", "1")] == 1.0
    assert value[("y", "1")] == pytest.approx(dcg(0.5, 1.0) / dcg(1.0, 0.5))
    with pytest.raises(RCPError, match=r"datasets 'x', 'y': give the run a 'dataset' column"):
        ndcg(run.drop(columns="dataset"), gains)
    one = ndcg(run.drop(columns="dataset")[:2], gains[:2])
    assert one.to_dict() == {"1": 1.0}
    assert ndcg(run, gains[2:])["1"] == value[("y", "1")]
    with pytest.raises(RCPError, match="the run holds the datasets 'x', 'y'"):
        ndcg(run, gains[:2].drop(columns="dataset"))


# --- ties


def test_mean_is_the_average_over_all_orders() -> None:
    scores = {"a": 2.0, "x": 1.0, "b": 1.0, "c": 1.0, "y": 1.0, "d": 0.0}
    gains = {"q": {"a": 0.3, "b": 0.9, "c": 0.2, "d": 0.7, "e": 0.8}}
    for k in (1, 2, 3, 4, 5, 6, None):
        orders = [
            ndcg(
                frame([["q", docno, scores[docno]] for docno in ("a", *middle, "d")], "qid docno score"),
                gains,
                k,
                ties="order",
            )["q"]
            for middle in itertools.permutations("xbcy")
        ]
        assert ndcg({"q": scores}, gains, k, ties="mean")["q"] == pytest.approx(np.mean(orders), abs=1e-14)


def test_pool_order_puts_unpooled_documents_last_by_descending_id() -> None:
    gains = frame(
        [["q", "a", 0.9, 2], ["q", "b", 0.5, 0], ["q", "c", 0.2, 1], ["q", "y", 0.0, np.nan]],
        "qid docno gain pool_rank",
    )
    run = {"q": dict.fromkeys("xyabc", 1.0)}
    assert ndcg(run, gains, ties="pool")["q"] == pytest.approx(dcg(0.5, 0.2, 0.9) / dcg(0.9, 0.5, 0.2))
    unpooled = frame([["q", "x", 0.9, np.nan], ["q", "y", 0.5, np.nan], ["q", "b", 0.1, 7]], "qid docno gain pool_rank")
    assert ndcg({"q": dict.fromkeys("xyb", 1.0)}, unpooled, ties="pool")["q"] == pytest.approx(
        dcg(0.1, 0.5, 0.9) / dcg(0.9, 0.5, 0.1)
    )


def test_pool_order_needs_pool_ranks() -> None:
    with pytest.raises(RCPError, match="needs the column 'pool_rank'"):
        ndcg({"q": {"a": 2.0, "b": 1.0}}, GAINS, ties="pool")


def test_ids_are_compared_by_code_point_which_is_the_order_of_their_bytes() -> None:
    ids = ["\U0001f600", "\uff5e", "é", "z", "Z", "10", "9", " "]
    assert ids[:2] == sorted(ids, key=lambda i: i.encode(), reverse=True)[:2]
    gains = {"q": {docno: 1 / (2 + i) for i, docno in enumerate(sorted(ids, key=lambda i: i.encode(), reverse=True))}}
    assert ndcg({"q": dict.fromkeys(ids, 0.0)}, gains)["q"] == 1.0


def test_ties_wider_than_the_cutoff_with_excluded_documents() -> None:
    gains = {"q": {f"d{i}": i / 10 for i in range(10)}}
    run = {"q": {f"d{i}": 1.0 for i in range(10)}}
    value = ndcg(run, gains, 2, excluded={"q": ["d9", "d7", "unseen"]})["q"]
    assert value == 1.0  # d8 and d6 lead the ranking by id, and the ideal
    mean = ndcg(run, gains, 2, ties="mean", excluded=frame([["q", "d9"], ["q", "d7"]], "qid docno"))["q"]
    assert mean == pytest.approx(dcg(2.9 / 8, 2.9 / 8) / dcg(0.8, 0.6))


RUNS = st.lists(
    st.tuples(st.sampled_from(["q1", "q2", "q3"]), st.sampled_from("abcdefghijkl"), st.integers(0, 3)),
    min_size=1,
    max_size=40,
    unique_by=lambda row: row[:2],
)
LABELS = st.lists(
    st.tuples(st.sampled_from(["q1", "q2", "q3"]), st.sampled_from("abcdefghijkl"), st.integers(0, 4)),
    min_size=1,
    max_size=30,
    unique_by=lambda row: row[:2],
)
CUTOFFS = st.sampled_from([1, 2, 3, 5, 10, None])
TIES = st.sampled_from(["docno", "mean", "order"])


@given(RUNS, LABELS, CUTOFFS)
@settings(max_examples=100, deadline=None)
def test_integer_labels_agree_with_trec_eval(run: list, labels: list, k: int | None) -> None:
    assume({row[0] for row in run} & {row[0] for row in labels})
    rows, judged = frame(run, "qid docno score"), frame(labels, "qid docno gain")
    ours = ndcg(rows.astype({"score": float}), judged, k)
    theirs = pytrec_ndcg(rows.astype({"score": float}), judged, k)
    assert list(ours.index) == list(theirs.index)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)


@given(RUNS, LABELS, CUTOFFS, TIES, st.randoms())
@settings(max_examples=100, deadline=None)
def test_between_zero_and_one_and_free_of_row_order(run: list, labels: list, k: int | None, ties: str, random) -> None:  # type: ignore[no-untyped-def]  # hypothesis' own Random
    assume({row[0] for row in run} & {row[0] for row in labels})
    gains = frame(labels, "qid docno gain")
    gains["gain"] /= 7
    value = ndcg(frame(run, "qid docno score"), gains, k, ties=ties)
    assert ((value >= 0) & (value <= 1)).all()
    shuffled_run, shuffled_gains = random.sample(run, len(run)), gains.sample(frac=1, random_state=random.randrange(99))
    again = ndcg(frame(shuffled_run, "qid docno score"), shuffled_gains, k, ties=ties)
    if ties != "order":
        pd.testing.assert_series_equal(again, value, check_exact=True)


@given(RUNS, LABELS, CUTOFFS, st.permutations("abcdefghijkl"))
@settings(max_examples=50, deadline=None)
def test_renaming_documents_does_not_change_the_mean(run: list, labels: list, k: int | None, names: list) -> None:
    assume({row[0] for row in run} & {row[0] for row in labels})
    to = dict(zip("abcdefghijkl", names, strict=True))
    rows, gains = frame(run, "qid docno score"), frame(labels, "qid docno gain")
    renamed = ndcg(rows.assign(docno=rows.docno.map(to)), gains.assign(docno=gains.docno.map(to)), k, ties="mean")
    pd.testing.assert_series_equal(renamed, ndcg(rows, gains, k, ties="mean"), check_exact=True)


def test_agrees_with_trec_eval_on_a_large_run_with_ties() -> None:
    random = np.random.default_rng(7)
    run = pd.DataFrame(
        {"qid": np.repeat([f"q{i}" for i in range(60)], 200), "docno": [f"d{i % 200}" for i in range(12000)]}
    )
    run["score"] = random.integers(0, 12, len(run)).astype(float)
    labels = (
        run[["qid", "docno"]]
        .sample(frac=0.3, random_state=7)
        .assign(gain=lambda rows: random.integers(0, 4, len(rows)))
    )
    for k in (1, 10, 100, None):
        ours, theirs = ndcg(run.sample(frac=1, random_state=1), labels, k), pytrec_ndcg(run, labels, k)
        np.testing.assert_allclose(ours, theirs, rtol=0, atol=1e-12)


def test_scores_closer_than_single_precision_tie_in_trec_eval_only() -> None:
    run = frame([["q", "a", 1.0 + 1e-12], ["q", "b", 1.0]], "qid docno score")
    labels = frame([["q", "a", 1]], "qid docno gain")
    assert ndcg(run, labels)["q"] == 1.0
    assert pytrec_ndcg(run, labels, 10)["q"] == pytest.approx(1 / math.log2(3))
    assert ndcg(run.assign(score=run.score.astype(np.float32)), labels)["q"] == pytest.approx(1 / math.log2(3))


# --- documents


def test_document_without_a_gain_counts_nothing_and_keeps_its_rank() -> None:
    gains = frame([["q", "a", 0.5], ["q", "x", math.nan]], "qid docno gain")
    assert ndcg({"q": {"x": 2.0, "a": 1.0}}, gains)["q"] == pytest.approx(1 / math.log2(3))
    assert ndcg({"q": {"z": 2.0, "a": 1.0}}, gains)["q"] == pytest.approx(1 / math.log2(3))
    with pytest.raises(RCPError, match=r"dict of gains holds NaN for query, document \('q', 'x'\)"):
        ndcg({"q": {"a": 1.0}}, {"q": {"a": 0.5, "x": math.nan}})


def test_document_ranked_twice_counts_once_at_its_best_rank() -> None:
    rows = [
        ["q", "c", 9.0],
        ["q", "a", 8.0],
        *[["q", f"x{i}", 7.0 - i] for i in range(12)],
        ["q", "a", -9.0],
        ["q", "c", 9.0],
    ]
    with pytest.warns(RCPWarning, match=r"ranked twice.*\('q', 'a'\), \('q', 'c'\)"):
        value = ndcg(frame(rows, "qid docno score"), GAINS, 3)["q"]
    assert value == pytest.approx(dcg(0.2, 0.9) / dcg(0.9, 0.5, 0.2))


def test_document_ranked_twice_in_a_tie_counts_once_in_the_mean() -> None:
    rows = frame([["q", "a", 1.0], ["q", "a", 1.0], ["q", "b", 1.0]], "qid docno score")
    with pytest.warns(RCPWarning, match="ranked twice"):
        value = ndcg(rows, GAINS, 2, ties="mean")["q"]
    assert value == pytest.approx(dcg(0.7, 0.7) / dcg(0.9, 0.5))


def test_same_gain_twice_is_fine_and_two_gains_are_refused() -> None:
    gains = frame([["q", "a", 0.5], ["q", "a", 0.5], ["q", "b", 0.25]], "qid docno gain")
    assert ndcg({"q": {"a": 2.0, "b": 1.0}}, gains)["q"] == 1.0
    gains.loc[1, "gain"] = 0.75
    with pytest.raises(RCPError, match=r"two different gains for one document.*\('q', 'a', 0.5, 0.75\)"):
        ndcg({"q": {"a": 1.0}}, gains)


def test_excluded_column_of_the_gains_leaves_ranking_and_ideal() -> None:
    gains = frame([["q", "a", 0.9, True], ["q", "b", 0.5, False], ["q", "c", 0.2, None]], "qid docno gain excluded")
    assert ndcg({"q": {"a": 3.0, "b": 2.0, "c": 1.0}}, gains)["q"] == 1.0
    assert ndcg({"q": {"a": 3.0}}, gains, excluded={"q": ["b", "c"]})["q"] == 0.0
    with pytest.raises(RCPError, match="column 'excluded' must hold True or False, not 'no'"):
        ndcg({"q": {"a": 3.0}}, gains.assign(excluded="no"))


def test_excluded_text_is_not_a_list_of_letters() -> None:
    with pytest.raises(RCPError, match="must hold several document ids, not 'abc'"):
        ndcg({"q": {"a": 1.0}}, GAINS, excluded={"q": "abc"})


# --- refused, converted


@pytest.mark.parametrize("score", [math.nan, math.inf, -math.inf, None])
def test_score_that_is_not_finite(score: float | None) -> None:
    run = frame([["q1", "a", 1.0], ["q2", "b", score]], "qid docno score")
    with pytest.raises(RCPError, match=r"finite numbers.*\('q2', 'b', "):
        ndcg(run, {"q1": {"a": 0.5}})


@pytest.mark.parametrize("gain", [-0.1, math.inf])
def test_gain_below_zero_or_infinite(gain: float) -> None:
    with pytest.raises(RCPError, match=r"finite and >= 0.*\('q', 'b', "):
        ndcg({"q": {"a": 1.0}}, frame([["q", "a", 0.5], ["q", "b", gain]], "qid docno gain"))


def test_query_whose_every_gain_is_nan() -> None:
    gains = frame([["q1", "a", 0.5], ["q2", "b", math.nan]], "qid docno gain")
    with pytest.raises(RCPError, match="every gain is NaN for query 'q2'"):
        ndcg({"q1": {"a": 1.0}}, gains)


def test_gains_too_large_to_add() -> None:
    with pytest.raises(RCPError, match="too large"), np.errstate(over="ignore"):
        ndcg({"q": {"a": 1.0}}, {"q": dict.fromkeys("abc", 1.7e308)})


@pytest.mark.parametrize("value", [None, math.nan, pd.NA])
@pytest.mark.parametrize("column", ["qid", "docno"])
def test_missing_id(column: str, value: object) -> None:
    run = frame([["q", "a", 1.0], ["q", "b", 2.0]], "qid docno score").astype({column: object})
    run.loc[1, column] = value
    with pytest.raises(RCPError, match=f"column '{column}'.*row 1"):
        ndcg(run, GAINS)
    with pytest.raises(RCPError, match=f"column '{column}'.*row 1"):
        ndcg({"q": {"a": 1.0}}, run.rename(columns={"score": "gain"}))


@pytest.mark.parametrize("column", ["qid", "docno", "score"])
def test_missing_column(column: str) -> None:
    run = frame([["q", "a", 1.0]], "qid docno score").drop(columns=column)
    with pytest.raises(RCPError, match=f"the run has no column '{column}'"):
        ndcg(run, GAINS)


def test_text_where_a_number_must_be() -> None:
    with pytest.raises(RCPError, match="column 'score' must hold numbers"):
        ndcg(frame([["q", "a", "high"]], "qid docno score"), GAINS)


def test_integer_ids_are_their_digits() -> None:
    gains = frame([["7", "1", 0.9], ["007", "1", 0.5]], "qid docno gain")
    assert ndcg(frame([[7, 1, 1.0]], "qid docno score"), gains).to_dict() == {"007": 0.0, "7": 1.0}
    assert ndcg({np.int64(7): {1: 1.0}}, gains)["7"] == 1.0
    mixed = pd.DataFrame({"qid": pd.Series([7, "7"], dtype=object), "docno": ["1", "2"], "score": [1.0, 2.0]})
    assert ndcg(mixed, gains)["7"] == pytest.approx(1 / math.log2(3))


ODD_IDS = [
    "007",
    "1e3",
    "True",
    "NA",
    "null",
    "nan",
    "a#b",
    "a/b:c",
    "it's",
    'say "x"',
    "two words",
    "a\tb",
    "ü€😀",
    "x" * 300,
]


def test_odd_ids_survive() -> None:
    run = {qid: {docno: float(-i) for i, docno in enumerate(ODD_IDS)} for qid in ODD_IDS}
    gains = {qid: {docno: 1 / (i + 1) for i, docno in enumerate(ODD_IDS)} for qid in ODD_IDS}
    assert ndcg(run, gains, None).to_dict() == dict.fromkeys(sorted(ODD_IDS), 1.0)


def test_column_types_and_names_do_not_matter() -> None:
    plain = frame([["q", "b", 2], ["q", "a", 1]], "qid docno score")
    expected = ndcg(plain, GAINS)["q"]
    for changed in (
        plain.rename(columns={"qid": "query_id", "docno": "doc_id"}),
        plain.astype({"qid": "string", "docno": "string", "score": "Int64"}),
        plain.astype({"qid": "category", "docno": "category", "score": "float32"}),
        plain.astype(object),
    ):
        assert ndcg(changed, GAINS)["q"] == expected


def test_inputs_are_left_as_they_were() -> None:
    run, gains = (
        frame([["q", "b", 2.0], ["q", "a", 3.0]], "qid docno score"),
        frame([["q", "a", 0.9]], "qid docno gain"),
    )
    before = run.copy(), gains.copy()
    ndcg(run, gains)
    pd.testing.assert_frame_equal(run, before[0])
    pd.testing.assert_frame_equal(gains, before[1])
