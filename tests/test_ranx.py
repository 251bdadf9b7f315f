"""rcp_irx.ranx: the same numbers in ranx's own shapes, and what plain ranx would make of gains."""

from __future__ import annotations

import inspect
import math
import warnings

import numpy as np
import pandas as pd
import pytest

ranx = pytest.importorskip("ranx", reason="ranx is not installed: pip install 'rcp-irx[ranx]'")

import rcp_irx.ranx  # noqa: E402
from rcp_irx import RCPBest, RCPError, RCPGain, RCPJudged, RCPnDCG, RCPRecall, RCPWarning, register_gains  # noqa: E402
from rcp_irx.evaluation import ndcg  # noqa: E402
from rcp_irx.ranx import METRICS, compare, evaluate, to_qrels  # noqa: E402
from tests.evaluation.test_measures import table  # noqa: E402

pytestmark = [
    pytest.mark.filterwarnings("ignore:unsafe cast"),
    pytest.mark.filterwarnings("ignore::rcp_irx.RCPWarning"),
]

GAINS = {"q1": {"a": 0.9, "b": 0.4, "c": 0.2}, "q2": {"a": 0.1, "d": 0.8}, "q3": {"b": 0.3, "c": 0.7}}
LABELS = {"q1": {"a": 2, "b": 1}, "q2": {"d": 2}, "q3": {"c": 1}}
FIRST = {"q1": {"c": 3.0, "a": 2.0, "x": 2.0}, "q2": {"d": 1.0, "a": 1.0}, "q3": {"b": 2.0, "c": 1.0}}
SECOND = {"q1": {"a": 3.0, "b": 1.0}, "q2": {"d": 1.0}, "q3": {"x": 3.0, "c": 2.0}}
BOUND = table([["", q, d, g, 0, False] for q, docs in {**GAINS, "q7": {"z": 0.5}}.items() for d, g in docs.items()])


def runs() -> list:
    return [ranx.Run(FIRST, name="first"), ranx.Run(SECOND, name="second")]


def expected(run: dict = FIRST, k: int | None = 10, **options: str) -> dict[str, float]:
    return ndcg(run, GAINS, k, **options).to_dict()


# --- evaluate


def test_signatures_begin_as_ranxs_own() -> None:
    for ours, theirs in [(evaluate, ranx.evaluate), (compare, ranx.compare)]:
        mine = list(inspect.signature(ours).parameters.values())
        own = list(inspect.signature(theirs).parameters.values())
        assert [p.name for p in mine[1 : len(own)]] == [p.name for p in own[1:]]
        assert [p.default for p in mine[1 : len(own)]] == [p.default for p in own[1:]]
        assert all(p.kind is p.KEYWORD_ONLY for p in mine[len(own) :])


def test_returns_what_ranx_returns() -> None:
    run = ranx.Run(FIRST)
    mean = np.mean(list(expected().values()))
    one = evaluate(GAINS, run, "rcp_ndcg@10")
    assert isinstance(one, np.float64)
    assert one == pytest.approx(mean, abs=1e-15)
    assert evaluate(GAINS, run, ["rcp_ndcg@10"]) == one
    both = evaluate(GAINS, run, ["rcp_ndcg@10", "rcp_ndcg@1"])
    assert list(both) == ["rcp_ndcg@10", "rcp_ndcg@1"]
    assert evaluate(GAINS, run, "rcp_ndcg@10", return_std=True) == {
        "mean": one,
        "std": pytest.approx(np.std(list(expected().values()))),
    }
    np.testing.assert_array_equal(evaluate(GAINS, run, "rcp_ndcg@10", return_mean=False), list(expected().values()))


def test_scores_land_in_the_run() -> None:
    run = ranx.Run(FIRST)
    evaluate(GAINS, run, ["rcp_ndcg@10", "map"], return_std=True, qrels=ranx.Qrels(LABELS))
    plain = ranx.Run(FIRST)
    ranx.evaluate(ranx.Qrels(LABELS), plain, "map", return_std=True)
    assert run.scores["rcp_ndcg@10"] == expected()
    assert run.scores["map"] == plain.scores["map"]
    assert run.mean_scores["map"] == plain.mean_scores["map"]
    assert set(run.std_scores) == {"rcp_ndcg@10", "map"}
    untouched = ranx.Run(FIRST)
    evaluate(GAINS, untouched, "rcp_ndcg@10", save_results_in_run=False)
    assert untouched.scores == {}
    assert untouched.mean_scores == {}


@pytest.mark.parametrize(
    "metrics", ["map", ["map"], ["ndcg@10", "rcp_ndcg@3", "mrr"], ["rcp_ndcg@3", "recall@1"]], ids=str
)
def test_ranxs_own_metrics_keep_their_values_and_places(metrics: list[str] | str) -> None:
    got = evaluate(GAINS, ranx.Run(FIRST), metrics, qrels=ranx.Qrels(LABELS), return_mean=False)
    names = [metrics] if isinstance(metrics, str) else metrics
    got = {names[0]: got} if len(names) == 1 else got
    assert list(got) == names
    for name in names:
        own = (
            list(expected(k=3).values())
            if name == "rcp_ndcg@3"
            else ranx.evaluate(ranx.Qrels(LABELS), ranx.Run(FIRST), [name, "mrr"], return_mean=False)[name]
        )
        np.testing.assert_array_equal(got[name], own)


def test_every_source_of_gains_agrees(tmp_path) -> None:  # type: ignore[no-untyped-def]  # pytest's own Path fixture
    frame = pd.DataFrame(
        [(q, d, g) for q, docs in GAINS.items() for d, g in docs.items()], columns=["qid", "docno", "gain"]
    )
    BOUND.save(tmp_path / "study.gains")
    register_gains("study of ranx", BOUND)
    for gains in (GAINS, frame, BOUND, to_qrels(GAINS), tmp_path / "study.gains", "study of ranx"):
        got = evaluate(gains, ranx.Run(FIRST), "rcp_ndcg@10", return_mean=False, qrels=LABELS)
        assert dict(zip(LABELS, got, strict=True)) == expected()
    assert evaluate(GAINS, FIRST, "rcp_ndcg@10", return_mean=False).tolist() == list(expected().values())


@pytest.mark.parametrize("ties", ["docno", "mean", "order"])
@pytest.mark.parametrize("k", [1, 2, 5, None])
def test_agrees_with_the_kernel_whatever_part_of_a_run_is_unpacked(ties: str, k: int | None) -> None:
    random = np.random.default_rng(5)
    run = {f"q{i}": {f"d{j}": float(random.integers(0, 6)) for j in random.permutation(40)} for i in range(12)}
    gains = {q: {d: float(random.random()) for d in list(docs)[:25]} for q, docs in run.items()}
    name = "rcp_ndcg" if k is None else f"rcp_ndcg@{k}"
    kept = ranx.Run(run)
    got = evaluate(gains, kept, name, return_mean=False, ties=ties)
    as_kept = {q: dict(docs) for q, docs in kept.to_dict().items()}
    np.testing.assert_allclose(got, ndcg(as_kept, gains, k, ties=ties), rtol=0, atol=1e-15)
    for unjudged in ("condensed", "upper"):
        got = evaluate(gains, kept, name, return_mean=False, ties=ties, unjudged=unjudged)
        np.testing.assert_allclose(got, ndcg(as_kept, gains, k, ties=ties, unjudged=unjudged), rtol=0, atol=1e-15)


def test_the_other_measures() -> None:
    found = evaluate(BOUND, ranx.Run(FIRST), [f"{name}@2" for name in METRICS], qrels=LABELS)
    qrels = BOUND.qrels().query("qid != 'q7'").rename(columns={"qid": "query_id", "docno": "doc_id"})
    for name, measure in [
        ("rcp_judged", RCPJudged),
        ("rcp_gain", RCPGain),
        ("rcp_recall", RCPRecall),
        ("rcp_best", RCPBest),
        ("count_ndcg", BOUND.CountnDCG),
        ("weighted_count_ndcg", BOUND.CountnDCG(weighted=True)),
        ("raw_bt_ndcg", BOUND.RawBTnDCG),
    ]:
        assert found[f"{name}@2"] == pytest.approx((measure @ 2).calc_aggregate(qrels, FIRST), abs=1e-15), name


def test_queries_must_match_or_be_made_comparable() -> None:
    short = ranx.Run({"q1": FIRST["q1"], "q9": {"a": 1.0}})
    with pytest.raises(RCPError, match=r"it misses 'q2', 'q3' of them and has 'q9' beside; make_comparable=True"):
        evaluate(GAINS, short, "rcp_ndcg@10")
    got = evaluate(
        GAINS, short, ["rcp_ndcg@10", "ndcg@10"], make_comparable=True, return_mean=False, qrels=ranx.Qrels(LABELS)
    )
    assert got["rcp_ndcg@10"].tolist() == [expected()["q1"], 0.0, 0.0]
    assert got["ndcg@10"][1:].tolist() == [0.0, 0.0]
    assert evaluate(BOUND, short, "rcp_ndcg@10", make_comparable=True) == pytest.approx(expected()["q1"] / 4)


# --- compare


def test_report_of_a_comparison() -> None:
    first, second = runs()
    report = compare(GAINS, [first, second], ["rcp_ndcg@10", "map@10"], qrels=ranx.Qrels(LABELS), max_p=0.05)
    plain = ranx.compare(ranx.Qrels(LABELS), runs(), "map@10", max_p=0.05)
    assert isinstance(report, type(plain))
    assert report.results["first"]["rcp_ndcg@10"] == pytest.approx(np.mean(list(expected().values())), abs=1e-15)
    assert report.results["first"]["map@10"] == plain.results["first"]["map@10"]
    assert report.comparisons["first", "second"]["map@10"] == plain.comparisons["first", "second"]["map@10"]
    assert report.win_tie_loss["first", "second"]["map@10"] == plain.win_tie_loss["first", "second"]["map@10"]
    assert report.win_tie_loss["first", "second"]["rcp_ndcg@10"] == {"W": 2, "T": 0, "L": 1}
    assert second.scores["rcp_ndcg@10"] == expected(SECOND)
    assert "RCP-nDCG@10" in str(report)
    assert "RCP-nDCG@10" in report.to_latex()
    assert report.to_dict()["metrics"] == ["rcp_ndcg@10", "map@10"]


@pytest.mark.parametrize("test", ["student", "fisher", "tukey"])
def test_significance_tests_see_the_scores(test: str) -> None:
    random = np.random.default_rng(2)
    gains = {f"q{i}": {f"d{j}": float(random.random()) for j in range(10)} for i in range(30)}
    good = {q: {d: g + 0.1 * random.random() for d, g in docs.items()} for q, docs in gains.items()}
    bad = {q: {d: float(random.random()) for d in docs} for q, docs in gains.items()}
    report = compare(gains, [ranx.Run(good, name="good"), ranx.Run(bad, name="bad")], "rcp_ndcg@5", stat_test=test)
    assert report.comparisons["good", "bad"]["rcp_ndcg@5"]["significant"]


def test_runs_without_a_name_are_numbered_and_equal_names_are_refused() -> None:
    report = compare(GAINS, [ranx.Run(FIRST), ranx.Run(SECOND)], "rcp_ndcg")
    assert report.model_names == ["run_1", "run_2"]
    with pytest.raises(RCPError, match="two runs have the name 'same'"):
        compare(GAINS, [ranx.Run(FIRST, name="same"), ranx.Run(SECOND, name="same")], "rcp_ndcg")


def test_coverage_that_differs_is_told_with_the_systems_names() -> None:
    with pytest.warns(RCPWarning, match=r"differs .*: 0.833 for second, 0.889 for first"):
        compare(GAINS, runs(), "rcp_ndcg@10")
    with pytest.warns(RCPWarning, match=r"88.9% of the top 10 of 'first' has a gain \(3 queries\)"):
        compare(GAINS, runs(), "rcp_ndcg@10")


# --- gains as qrels, and what plain ranx does


def test_float_qrels_at_relevance_level_zero_give_the_same_number() -> None:
    run = {"q1": {"b": 3.0, "x": 2.0, "a": 1.0}, "q2": {"a": 2.0, "d": 1.0}, "q3": {"c": 1.0}}
    qrels = to_qrels(GAINS, name="gains")
    assert qrels.name == "gains"
    assert {q: dict(docs) for q, docs in qrels.to_dict().items()} == GAINS
    got = ranx.evaluate(qrels, ranx.Run(run), ["ndcg@10-l0", "ndcg-l0"], return_mean=False)
    np.testing.assert_allclose(got["ndcg@10-l0"], ndcg(run, GAINS), rtol=0, atol=1e-12)
    np.testing.assert_allclose(got["ndcg-l0"], ndcg(run, GAINS, None), rtol=0, atol=1e-12)


def test_plain_ranx_reads_every_gain_as_zero() -> None:
    assert ranx.Qrels({"q": {"a": 0.9}}).to_dict()["q"]["a"] == 0  # cast to int64
    assert ranx.evaluate({"q1": GAINS["q1"]}, {"q1": FIRST["q1"]}, "ndcg@10") == 0.0  # below relevance level 1
    assert ranx.evaluate(to_qrels(GAINS), ranx.Run(FIRST), "ndcg@10") == 0.0  # likewise, though the floats are kept
    assert evaluate(GAINS, ranx.Run(FIRST), "rcp_ndcg@10") > 0.5


def test_excluded_documents_and_gains_of_a_table() -> None:
    without = BOUND.exclude(pd.DataFrame({"qid": ["q1"], "docno": ["a"]}))
    with pytest.warns(RCPWarning, match=r"excluded documents keep their ranks in ranx: .*\('q1', 'a'\)"):
        qrels = to_qrels(without)
    assert "a" not in qrels.to_dict()["q1"]
    assert to_qrels(BOUND, column="count_gain").to_dict()["q1"] == {"a": 0.4, "b": 0.4, "c": 0.4}
    got = evaluate(without, ranx.Run(FIRST), "rcp_ndcg@2", qrels=LABELS, return_mean=False)
    assert got[0] == pytest.approx(0.2 / (0.4 + 0.2 / math.log2(3)))
    with pytest.raises(RCPError, match="no gain to make qrels of"):
        to_qrels({})


def test_odd_ids_keep_their_order_and_precision() -> None:
    ids = ["10", "9", "Z", "a b", "ü€", "é", "'", "#1", "007", "NA"]
    gains = {q: {d: (i + j + 1) / 31 for j, d in enumerate(ids)} for i, q in enumerate(ids)}
    run = {q: {d: -float(j) for j, d in enumerate(ids)} for q in ids}
    values = evaluate(gains, ranx.Run(run), ["rcp_ndcg@3", "mrr"], qrels={q: {"9": 1} for q in ids}, return_mean=False)
    assert values["rcp_ndcg@3"].tolist() == ndcg(run, gains, 3).tolist()
    assert values["mrr"].tolist() == [0.5] * len(ids)
    assert to_qrels(gains).to_dict() == gains


def test_ids_that_ranx_cuts_are_refused_and_dicts_keep_them() -> None:
    gains, run = {"q": {"a😀": 0.5, "b": 0.25}}, {"q": {"a😀": 2.0, "b": 1.0}}
    assert list(ranx.Run(run).run["q"]) == ["a", "b"]  # what a ranx.Run makes of them
    for call in (lambda: evaluate(gains, ranx.Run(run), "rcp_ndcg@1"), lambda: to_qrels(gains)):
        with pytest.raises(RCPError, match=r"ranx cuts characters beyond U\+FFFF off document ids, so 'a😀'"):
            call()
    assert evaluate(gains, run, "rcp_ndcg@1") == 1.0


# --- refused


@pytest.mark.parametrize(
    ("gains", "metrics", "options", "message"),
    [
        (GAINS, "ndcg@10", {}, "ranx's own metric 'ndcg@10' needs integer labels: give qrels="),
        (GAINS, [], {}, "metrics must be one or more names"),
        (GAINS, "rcp_ndcg@0", {}, "whole number >= 1"),
        (GAINS, "rcp_ndcg@ten", {}, "whole number >= 1"),
        (GAINS, "rcp_ndcg@10-l0", {}, "whole number >= 1"),
        (GAINS, "rcp_ndcg10", {}, "'rcp_ndcg10' is no metric; write rcp_ndcg, "),
        (GAINS, "rcp_ndcg@1", {"ties": "random"}, "ties must be one of"),
        (GAINS, "rcp_ndcg@1", {"rules": "trec-dl"}, "needs the column 'pool_rank'"),
        (GAINS, None, {}, "metrics must be one or more names"),
        ({"q1": {"a": 1.5}}, "rcp_ndcg@1", {}, r"from 0 to 1; not so .*\('q1', 'a', 1.5\)"),
        (
            {"q1": GAINS["q1"]},
            "rcp_ndcg@1",
            {"qrels": LABELS},
            "2 of the qrels' 3 queries have no gain: 'q2', 'q3'; .*'q1'",
        ),
        (3, "rcp_ndcg@1", {}, "gains must be a GainTable, its name or folder, a frame or a dict, not int"),
        (GAINS, "count_ndcg@1", {}, "and no 'count_gain', which this measure reads"),
    ],
)
def test_refused(gains: object, metrics: object, options: dict, message: str) -> None:
    with pytest.raises(RCPError, match=message):
        evaluate(gains, ranx.Run(FIRST), metrics, **options)  # type: ignore[arg-type]  # refused input


def test_gains_of_zero_and_one_are_gains_here() -> None:
    frame = pd.DataFrame([("q", "a", 1.0), ("q", "b", 0.0)], columns=["qid", "docno", "gain"])
    for gains in (frame, to_qrels(frame), {"q": {"a": 1, "b": 0}}):
        assert evaluate(gains, ranx.Run({"q": {"b": 2.0, "a": 1.0}}), "rcp_ndcg@2") == 1 / math.log2(3)


def test_dicts_are_made_comparable_beside_ranxs_own_metrics() -> None:
    run = {"q1": FIRST["q1"], "z": {"a": 1.0}}
    got = evaluate(GAINS, run, ["rcp_ndcg@10", "ndcg@10"], qrels=LABELS, make_comparable=True, return_mean=False)
    assert got["rcp_ndcg@10"].tolist() == [expected()["q1"], 0.0, 0.0]
    assert got["ndcg@10"][1:].tolist() == [0.0, 0.0]


def test_coverage_is_not_hidden_by_condensed_lists() -> None:
    got = evaluate(
        {"q": {"a": 0.5}}, ranx.Run({"q": {"X": 1.0, "a": 0.5}}), ["rcp_ndcg", "rcp_judged"], unjudged="condensed"
    )
    assert got == {"rcp_ndcg": 1.0, "rcp_judged": 0.5}


def test_other_columns_warn_of_another_collection_too() -> None:
    with pytest.warns(RCPWarning, match="no ranked document has a gain"):
        evaluate(BOUND, ranx.Run({"q1": {"X": 1.0}}), "count_ndcg@10", make_comparable=True)


def test_only_a_ranx_run_is_compared() -> None:
    with pytest.raises(RCPError, match=r"runs must be ranx\.Run objects"):
        compare(GAINS, [FIRST, SECOND], "rcp_ndcg")  # type: ignore[list-item]  # refused input


def test_scores_that_are_not_finite_and_runs_that_are_no_run() -> None:
    deep = {"q1": {**{f"d{i}": float(i) for i in range(50)}, "z": math.nan}}
    with pytest.raises(RCPError, match="finite numbers; not so for query 'q1', document 'z'"):
        evaluate({"q1": GAINS["q1"]}, ranx.Run(deep), "rcp_ndcg@10")
    with pytest.raises(RCPError, match=r"a run must be a ranx.Run or a dict of dicts, not list"):
        evaluate(GAINS, [], "rcp_ndcg@10")  # type: ignore[arg-type]  # refused input


def test_documents_of_another_collection() -> None:
    other = ranx.Run({q: {f"{d}.txt": s for d, s in docs.items()} for q, docs in FIRST.items()})
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RCPWarning)
        assert evaluate(GAINS, other, "rcp_ndcg@1") == 0.0
    assert any("no ranked document has a gain" in str(warning.message) for warning in caught)


def test_missing_ranx_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib
    import sys

    monkeypatch.setitem(sys.modules, "ranx", None)
    monkeypatch.delitem(sys.modules, "rcp_irx.ranx")
    with pytest.raises(rcp_irx.MissingExtra, match=r"pip install 'rcp-irx\[ranx\]'"):
        importlib.import_module("rcp_irx.ranx")


def test_measure_of_a_bound_table_is_the_same_number() -> None:
    qrels = [(q, d) for q, docs in LABELS.items() for d in docs]
    frame = pd.DataFrame(qrels, columns=["query_id", "doc_id"])
    bound = (BOUND.RCPnDCG @ 10).calc_aggregate(frame, FIRST)
    assert bound == pytest.approx(evaluate(BOUND, ranx.Run(FIRST), "rcp_ndcg@10", qrels=LABELS), abs=1e-15)
    assert (RCPnDCG(gains="study of ranx") @ 10).calc_aggregate(frame, FIRST) == bound
