"""Failure modes against the numbers to reproduce, explanations against the scores, disputes against plain sorting."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from rcp_irx import GainTable, RCPError
from rcp_irx.analysis import disputed, explain, failure_modes
from rcp_irx.analysis.queries import modes
from rcp_irx.calibration import gain
from rcp_irx.demo import results as demo
from rcp_irx.evaluation import ndcg
from tests.analysis import toy
from tests.conftest import cases

# Of coverage: some of these runs rank documents that have no gain.
pytestmark = [pytest.mark.quick, pytest.mark.filterwarnings("ignore:.*has a gain:rcp_irx.RCPWarning")]

NAMES = {"saturate": "saturated", "floor": "floored", "compress": "compressed", None: ""}


@pytest.mark.parametrize("case", [c for c in cases("diag") if "modes" in c.values[0]["expected"]])
def test_failure_modes_to_reproduce(case: dict) -> None:
    given, expected = case["input"], case["expected"]
    found, _ = modes(np.transpose(given["scores"]), given["tolerance"])
    assert found.tolist() == [NAMES[mode] for mode in expected["modes"]]
    assert np.mean(found != "") == pytest.approx(expected["any_share"], abs=case["tolerance"]["any_share"])


def test_half_of_the_pairs_must_tie_and_a_millionth_is_a_tie() -> None:
    scores = [
        [0.3, 0.300001, 0.5, 0.7],  # 1 of 6 pairs
        [0.3, 0.3, 0.5, 0.5],  # 2
        [0.3, 0.3, 0.3, 0.5],  # 3: half
        [0.3, 0.300001, 0.300002, 0.5],  # 2: ties do not carry over
        [0.3, 0.3000011, 0.3, 0.9],  # 1
        [1.0, 1.0, 1.0, 0.99],  # 3, and not all are 1
    ]
    found, tied = modes(scores)
    assert found.tolist() == ["", "", "compressed", "", "", "compressed"]
    assert (tied * 6).round(9).tolist() == [1, 2, 3, 2, 1, 3]


def collection() -> tuple[dict[str, pd.DataFrame], pd.DataFrame]:
    """Three systems on four queries: all right, all wrong, two of three alike, none alike; one query in no run."""
    documents = ["x", "y", "z", "w"]
    orders = {
        "q1": ["xyzw", "xzyw", "xwyz"],
        "q2": ["yzwx", "zywx", "wyzx"],
        "q3": ["xyzw", "yxzw", "yxwz"],
        "q4": ["xyzw", "yxzw", "yzxw"],
    }
    runs = {}
    for place, name in enumerate("abc"):
        rows = [(q, d, 4.0 - order[place].index(d)) for q, order in orders.items() for d in documents]
        runs[name] = pd.DataFrame(rows, columns=["qid", "docno", "score"])
    qrels = pd.DataFrame([(q, "x", 1) for q in orders] + [("q9", "x", 2), ("q2", "y", -1), ("q8", "x", 0)])
    return runs, qrels.set_axis(["qid", "docno", "label"], axis=1)


def test_failure_modes_of_runs() -> None:
    runs, qrels = collection()
    found = failure_modes(runs, qrels, k=3)
    modes_of = found.queries.set_index("qid")["mode"].to_dict()
    assert modes_of == {"q1": "saturated", "q2": "floored", "q3": "", "q4": "", "q8": "floored", "q9": "floored"}
    assert found.queries.set_index("qid").loc["q3", "tied"] == pytest.approx(1 / 3)
    row = found.queries.set_index("qid").loc["q4"]
    assert [row["lowest"], row["highest"]] == pytest.approx([0.5, 1.0])
    assert found.shares[["queries", "saturated", "floored", "compressed", "any"]].to_numpy()[0] == pytest.approx(
        [6, 1 / 6, 3 / 6, 0, 4 / 6]
    )
    assert [line.split(",")[0] for line in found.warnings] == [
        "1 query has no label above 0",
        "1 query has no document in any run",
    ]
    assert failure_modes({"b": runs["b"], "c": runs["c"]}, qrels, k=3).queries["mode"].tolist()[2] == "compressed"
    assert failure_modes(runs, qrels, k=1).queries["mode"].tolist()[3] == ""
    assert "fails" in str(found)


def test_failure_modes_by_dataset_and_without_excluded_documents() -> None:
    runs, qrels = collection()
    two = pd.concat([qrels.assign(dataset="a"), qrels[qrels["qid"] == "q1"].assign(dataset="b")])
    both = {n: pd.concat([run.assign(dataset="a"), run.assign(dataset="b")]) for n, run in runs.items()}
    found = failure_modes(both, two, k=3)
    assert found.shares["dataset"].tolist() == ["a", "b"]
    assert found.shares["queries"].tolist() == [6, 1]
    assert found.shares["saturated"].tolist() == pytest.approx([1 / 6, 1.0])
    out = pd.concat([qrels, pd.DataFrame({"qid": ["q3"], "docno": ["y"], "label": [0], "excluded": [True]})])
    without = failure_modes(runs, out.assign(excluded=out["excluded"].eq(True)), k=3)
    assert without.queries.set_index("qid").loc["q3", "mode"] == "saturated"


def test_failure_modes_refuse() -> None:
    runs, qrels = collection()
    with pytest.raises(RCPError, match="at least two runs"):
        failure_modes({"a": runs["a"]}, qrels)
    with pytest.raises(RCPError, match="need a cutoff"):
        failure_modes(runs, qrels, None)  # type: ignore[arg-type]
    with pytest.raises(RCPError, match="two different labels for one document"):
        failure_modes(runs, pd.concat([qrels, qrels.assign(label=5)]))
    with pytest.raises(RCPError, match=r"run 'b'.*share no query"):
        failure_modes({"a": runs["a"], "b": runs["b"].assign(qid="other")}, qrels)


def tied_runs(gains: GainTable) -> dict[str, pd.DataFrame]:
    """Runs with ties, documents outside the pool, and fewer documents than the pool."""
    runs = toy.runs(gains, (1.0, 3.0))
    first = runs["s0"].assign(score=runs["s0"]["score"].round())
    second = pd.concat([runs["s1"], runs["s1"].assign(docno="x" + runs["s1"]["docno"], score=-runs["s1"]["score"])])
    return {"s0": first[first["docno"] != "d04"], "s1": second}


@pytest.mark.parametrize("ties", ["docno", "pool", "order"])
def test_explanations_add_up_to_the_scores(ties: str) -> None:
    gains = toy.suite(queries=6)
    gains = gains.exclude(pd.DataFrame({"qid": ["q01", "q01"], "docno": ["d02", "xd03"]}))
    runs = tied_runs(gains)
    for qid in ["q00", "q01", "q05"]:
        found = explain(qid, runs, gains, k=5, ties=ties)
        expected = [ndcg(run, gains, 5, ties=ties)[qid] for run in runs.values()]
        assert found.scores == pytest.approx(expected, abs=1e-12)
        assert found.documents["difference"].sum() == pytest.approx(expected[0] - expected[1], abs=1e-12)
        assert found.documents["difference"].abs().round(12).is_monotonic_decreasing
        assert not found.documents["docno"].duplicated().any()
        if qid == "q01":
            assert not found.documents["docno"].isin(["d02", "xd03"]).any()


def test_an_explanation_by_hand() -> None:
    gains = toy.suite(queries=1, documents=4)
    rows = gains.documents.assign(gain=[0.8, 0.4, 0.2, 0.1])
    gains = GainTable(rows, gains.queries, gains.criteria)
    a = pd.DataFrame({"qid": "q00", "docno": ["d00", "d02", "d03"], "score": [3.0, 2.0, 1.0]})
    b = pd.DataFrame({"qid": "q00", "docno": ["new", "d01", "d00"], "score": [3.0, 2.0, 1.0]})
    labels = pd.DataFrame({"qid": "q00", "docno": ["d00", "d01", "d03"], "label": [2, 0, -1]})
    found = explain("q00", {"a": a, "b": b}, gains, k=2, qrels=labels)
    ideal = 0.8 + 0.4 / np.log2(3)
    documents = found.documents.set_index("docno")
    assert documents.index.tolist() == ["d00", "d01", "d02", "new"]
    assert documents["credit_a"].tolist() == pytest.approx([0.8 / ideal, 0, 0.2 / np.log2(3) / ideal, 0])
    assert documents["credit_b"].tolist() == pytest.approx([0, 0.4 / np.log2(3) / ideal, 0, 0])
    np.testing.assert_array_equal(documents["rank_a"], [1, np.nan, 2, np.nan])
    np.testing.assert_array_equal(documents["rank_b"], [3, 2, np.nan, 1])
    np.testing.assert_array_equal(documents["ideal_rank"], [1, 2, 3, np.nan])
    assert documents["label"].tolist()[:2] == [2, 0]
    assert documents["label"].isna().tolist()[2:] == [True, True]
    assert documents.loc["d00", "theta"] == rows.loc[0, "theta"]
    assert documents.loc["d01", "C2"] == rows.loc[1, "C2"]
    assert found.warnings == ["1 document has no gain among the first 2 of b: no credit"]
    text = str(found)
    assert f"RCPnDCG@2 of a (a) {found.scores[0]:.3f}" in text
    assert "d03" not in text


def test_a_system_that_misses_the_query_scores_nothing() -> None:
    gains = toy.suite(queries=2)
    runs = toy.runs(gains, (1.0, 2.0))
    found = explain("q00", {"s0": runs["s0"], "s1": runs["s1"][runs["s1"]["qid"] != "q00"]}, gains)
    assert found.scores == (pytest.approx(ndcg(runs["s0"], gains)["q00"]), 0.0)
    assert found.warnings == ["s1 ranks nothing for this query, and scores 0"]


def test_which_query_and_which_systems() -> None:
    gains = toy.suite(queries=2, datasets=("a", "b"))
    runs = toy.runs(gains)
    with pytest.raises(RCPError, match="compares two systems, not 4"):
        explain("q00", runs, gains, dataset="a")
    with pytest.raises(RCPError, match="no run is named 's9'"):
        explain("q00", runs, gains, dataset="a", systems=("s0", "s9"))
    with pytest.raises(RCPError, match="in the datasets 'a', 'b'; say which"):
        explain("q00", runs, gains, systems=("s0", "s1"))
    with pytest.raises(RCPError, match="query 'q00' in dataset 'c' has no gains"):
        explain("q00", runs, gains, systems=("s0", "s1"), dataset="c")
    with pytest.raises(RCPError, match="ties another rule than 'mean'"):
        explain("q00", runs, gains, systems=("s0", "s1"), dataset="a", ties="mean")
    bare = {name: run[run["dataset"] == "a"].drop(columns="dataset") for name, run in runs.items()}
    with pytest.raises(RCPError, match="give the run a 'dataset' column"):
        explain("q00", bare, gains, systems=("s0", "s1"), dataset="a")
    found = explain("q00", runs, gains, systems=("s3", "s1"), dataset="b")
    assert found.scores[0] == pytest.approx(ndcg(runs["s3"], gains)[("b", "q00")])
    assert (found.dataset, found.systems) == ("b", ("s3", "s1"))


def test_disputed_documents_are_the_extremes() -> None:
    gains = toy.suite(queries=8, datasets=("a", "b"))
    labels = toy.labels(gains)
    labels.loc[labels["docno"] == "d00", "label"] = 1
    some = labels[labels["docno"] < "d10"].copy()
    some.loc[some["docno"] == "d03", "label"] = -1
    some = pd.concat([some, pd.DataFrame({"dataset": ["a"], "qid": ["q00"], "docno": ["outside"], "label": [2]})])
    found = disputed(gains, some)
    rows = gains.documents.merge(labels, on=["dataset", "qid", "docno"])
    labelled = (rows["docno"] < "d10") & (rows["docno"] != "d03")
    for dataset in ("a", "b"):
        positives = rows[labelled & (rows["label"] >= 1) & (rows["dataset"] == dataset)]
        low = positives[positives["gain"] <= np.quantile(positives["gain"], 0.25)].sort_values("gain")
        own = found.positives[found.positives["dataset"] == dataset]
        assert own["docno"].tolist() == low["docno"].tolist()
        assert own["gain"].tolist() == low["gain"].tolist()
    assert found.unlabelled["gain"].tolist() == sorted(rows.loc[~labelled, "gain"], reverse=True)
    assert set(found.unlabelled["docno"]) == {"d03", *(f"d{d}" for d in range(10, 15))}
    assert found.negatives["gain"].tolist() == sorted(rows.loc[labelled & (rows["label"] == 0), "gain"], reverse=True)
    first = found.unlabelled.iloc[0]
    pool = rows[(rows["dataset"] == first["dataset"]) & (rows["qid"] == first["qid"])]
    assert first["gain_rank"] == 1 + (pool["gain"] > first["gain"]).sum()
    assert first["pool"] == 15
    least = float(gain(-2.0, toy.GAMMA, toy.BETA))
    below = (rows.loc[labelled & (rows["label"] >= 1), "gain"] < least).sum()
    assert found.warnings[0] == "1 positive is in no pool, without a gain, and not compared"
    assert below > 0
    positives = (labelled & (rows["label"] >= 1)).sum()
    assert found.warnings[1].startswith(f"of {positives} positives, {below} below the easiest")
    strict = disputed(gains, some, positive=2)
    assert set(strict.positives["label"]) == {2}
    assert set(strict.negatives["label"]) == {0, 1}
    text = str(found)
    assert text.count("\n") < 40


def test_disputed_leaves_out_what_is_excluded() -> None:
    gains = toy.suite(queries=3)
    labels = toy.labels(gains)
    first = disputed(gains, labels).positives.iloc[0]
    fewer = gains.exclude(pd.DataFrame({"qid": [first["qid"]], "docno": [first["docno"]]}))
    found = disputed(fewer, labels)
    for frame in (found.positives, found.negatives, found.unlabelled):
        assert not ((frame["qid"] == first["qid"]) & (frame["docno"] == first["docno"])).any()
    assert found.positives.loc[found.positives["qid"] == first["qid"], "pool"].eq(14).all()
    assert len(disputed(gains, labels.assign(label=0)).positives) == 0
    with pytest.raises(RCPError, match="share no query"):
        disputed(gains, labels.head(5).assign(qid="other"))


def test_the_demo_fits_a_screen() -> None:
    runs, gains, qrels = demo.runs(), demo.gains(), demo.qrels()
    for a, b in itertools.combinations(runs, 2):
        text = str(explain("1", runs, gains, systems=(a, b), qrels=qrels))
        assert text.count("\n") < 30
    assert str(failure_modes(runs, qrels)).count("\n") < 10
    assert max(map(len, str(disputed(gains, qrels)).splitlines())) <= 120
