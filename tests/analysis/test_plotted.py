"""What plots show, against plain loops and scipy; what is refused, what is left out with a warning."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import optimize, stats

from rcp_irx import GainTable, RCPError, RCPWarning
from rcp_irx.analysis.plotted import (
    calibration_bins,
    gains_by_grade,
    graded_gains,
    levels,
    score_percentiles,
    share_interval,
)
from tests.analysis import toy

pytestmark = pytest.mark.quick


def graded(gains: GainTable, annotators: str = "xyz", seed: int = 5) -> pd.DataFrame:
    """Grades 0, 1, 2 of every document by each annotator, more often high where the gain is."""
    rows, random = gains.documents, np.random.default_rng(seed)
    parts = [
        rows[["dataset", "qid", "docno"]].assign(annotator=who, grade=random.binomial(2, rows["gain"]))
        for who in annotators
    ]
    return pd.concat(parts, ignore_index=True)


def by_score_equation(share: float, size: float) -> list[float]:
    """The chances that a share of so many outcomes is 1.96 standard errors away from."""
    z = stats.norm.ppf(0.975)

    def beyond(chance: float) -> float:
        return float((share - chance) ** 2 - z**2 * chance * (1 - chance) / size)

    return [optimize.brentq(beyond, 0, share), optimize.brentq(beyond, share, 1)]


def test_interval_of_a_share_solves_the_score_equation() -> None:
    random = np.random.default_rng(1)
    for _ in range(20):
        query = random.integers(0, 12, 80)
        hits = (random.uniform(size=80) < random.beta(2, 3, 12)[query]).astype(float)
        share = hits.mean()
        squares = sum(np.sum(hits[query == q] - share) ** 2 for q in np.unique(query))
        groups = len(np.unique(query))
        variance = groups / (groups - 1) * squares / 80**2
        found = share_interval(hits, query)
        assert found.share == share
        size = min(share * (1 - share) / variance, 80)
        assert found[1:] == pytest.approx(by_score_equation(share, size), abs=1e-9)


def test_a_share_of_all_or_none_counts_queries() -> None:
    expected = stats.binomtest(4, 4).proportion_ci(method="wilson")
    assert share_interval([1] * 12, [7, 7, 7, 8, 8, 8, 9, 9, 9, 2, 2, 2]) == pytest.approx((1.0, expected.low, 1.0))
    assert share_interval([0, 0, 0, 0], [1, 2, 3, 4]) == pytest.approx((0.0, 0.0, 1 - expected.low))


def test_a_single_query_has_no_interval() -> None:
    found = share_interval([1, 0, 1], [3, 3, 3])
    assert found.share == pytest.approx(2 / 3)
    assert np.isnan([found.low, found.high]).all()


def test_intervals_hold_the_truth_in_about_95_of_100_samples() -> None:
    random = np.random.default_rng(2)
    query, held = np.repeat(np.arange(40), 6), 0
    for _ in range(400):
        chances = random.beta(1.2, 2.8, 40)  # 0.3 on average, and alike within a query
        found = share_interval(random.uniform(size=240) < chances[query], query)
        held += found.low <= 0.3 <= found.high
    assert 0.92 < held / 400 < 0.98


def test_bins_of_the_gain_are_those_of_a_loop() -> None:
    gains = toy.suite(queries=12, datasets=("a", "b"))
    rows = graded_gains(gains, graded(gains))
    assert len(rows) == 3 * len(gains)
    found, ece, chance = calibration_bins(rows, 1, bins=10)
    assert 0 < chance < 0.1
    expected = []
    for low in range(10):
        inside = rows[(rows["gain"] * 10 >= low) & (rows["gain"] * 10 < low + 1)]
        expected.append((inside["gain"].mean(), len(inside), (inside["grade"] >= 1).mean()))
    gain, number, share = np.array(expected).T
    np.testing.assert_allclose(found[["gain", "grades", "share"]], np.array(expected))
    assert ece == pytest.approx(np.sum(number * np.abs(gain - share)) / number.sum())
    query = (rows["dataset"] + rows["qid"]).to_numpy()
    inside = ((rows["gain"] >= 0.3) & (rows["gain"] < 0.4)).to_numpy()
    interval = share_interval((rows["grade"] >= 1).to_numpy()[inside], query[inside])
    assert found.loc[3, ["share", "low", "high"]].tolist() == pytest.approx(tuple(interval))


def test_empty_bins_are_left_out() -> None:
    rows = pd.DataFrame(
        {"dataset": "", "qid": ["1", "2", "2"], "docno": "d", "grade": [0, 2, 2], "gain": [0.1, 1.0, 0.9]}
    )
    found, ece, _ = calibration_bins(rows, 2, bins=5)
    assert found[["gain", "grades", "share"]].to_numpy().tolist() == [[0.1, 1, 0.0], [0.95, 2, 1.0]]
    assert ece == pytest.approx((0.1 + 0.1) / 3)


@pytest.mark.parametrize(("threshold", "word"), [(3, "no grade reaches the threshold 3"), (0, "every grade reaches")])
def test_a_threshold_with_grades_on_one_side_is_refused(threshold: float, word: str) -> None:
    gains = toy.suite(queries=3)
    with pytest.raises(RCPError, match=f"{word}.*from 0 to 2"):
        calibration_bins(graded_gains(gains, graded(gains)), threshold)


def test_an_annotators_second_grade_counts_in_the_mean() -> None:
    gains = toy.suite(queries=2)
    rows = graded(gains, "x").head(1)
    twice = pd.concat([rows.assign(grade=0), rows.assign(grade=1), rows.assign(grade=2, annotator="y")])
    assert graded_gains(gains, twice)["grade"].tolist() == [0.5, 2.0]
    assert graded_gains(gains, twice.drop(columns="annotator"))["grade"].tolist() == [0, 1, 2]


def test_what_has_no_grade_or_gain_is_left_out_and_told() -> None:
    gains = toy.suite(queries=2)
    rows = graded(gains, "x").drop(columns="dataset").astype({"grade": float})
    rows.loc[0, "grade"] = None
    rows.loc[1, "docno"] = "elsewhere"
    out = gains.exclude(pd.DataFrame({"qid": ["q01"], "docno": ["d03"]}))
    with pytest.warns(RCPWarning) as told:
        found = graded_gains(out, rows)
    assert [str(each.message).split(":")[0] for each in told] == [
        "1 row has no grade, left out",
        "2 grades are of documents without a gain, or excluded from the gains, left out",
    ]
    assert "('q00', 'elsewhere'), ('q01', 'd03')" in str(told[1].message)
    assert len(found) == 30 - 3


def test_grades_of_a_named_dataset_need_no_column() -> None:
    gains = toy.suite(queries=2, datasets=("a",))
    plain = graded(gains, "x").drop(columns="dataset")
    assert set(graded_gains(gains, plain)["dataset"]) == {"a"}
    assert len(graded_gains(gains, plain.assign(dataset=""))) == 30
    with pytest.raises(RCPError, match=r"hold the datasets 'a', 'b': give grades a 'dataset' column, or select one"):
        graded_gains(toy.suite(queries=2, datasets=("a", "b")), plain)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"grade": "good"}, "must be a finite number; query, document, grade: .'q00', 'd00', 'good'."),
        ({"grade": -1}, "grades start at 0"),
        ({"grade": np.inf}, "must be a finite number"),
        ({"grade": None}, "holds no grade"),
        ({"docno": None}, "has no id"),
        ({"annotator": None}, "'annotator' of the frame of grades has no id"),
        ({"qid": "another"}, "no graded document has a gain: grades are for .'another', 'd00'."),
    ],
)
def test_grades_that_cannot_be_read_are_refused(change: dict[str, object], word: str) -> None:
    gains = toy.suite(queries=1)
    with pytest.raises(RCPError, match=word):
        graded_gains(gains, graded(gains, "x").assign(**change))  # type: ignore[arg-type]


def test_grades_must_be_a_frame_with_grades() -> None:
    gains = toy.suite(queries=1)
    with pytest.raises(RCPError, match="grades must be a DataFrame, not list"):
        graded_gains(gains, [1, 2])  # type: ignore[arg-type]
    with pytest.raises(RCPError, match="no column 'grade'"):
        graded_gains(gains, graded(gains, "x").rename(columns={"grade": "label"}))


def test_gains_at_each_grade_are_those_of_pandas() -> None:
    gains = toy.suite(queries=8)
    rows = graded_gains(gains, graded(gains))
    found = gains_by_grade(rows)
    expected = rows.groupby("grade")["gain"].quantile([0.05, 0.25, 0.5, 0.75, 0.95]).unstack()
    assert found["grade"].tolist() == [0, 1, 2]
    assert found["grades"].tolist() == rows["grade"].value_counts().sort_index().tolist()
    np.testing.assert_allclose(found[["p5", "p25", "p50", "p75", "p95"]], expected)
    with pytest.raises(RCPError, match="24 different values; round them to 15 or fewer"):
        gains_by_grade(rows.head(24).assign(grade=np.arange(24)))


def test_scores_are_centred_per_query_before_and_not_after() -> None:
    gains = toy.suite(queries=5, datasets=("", "b"))
    documents, queries = gains.documents, gains.queries
    random = np.random.default_rng(3)
    queries = queries.assign(alpha=random.normal(size=len(queries)))
    keys = ["dataset", "qid"]
    documents = documents.assign(theta=2 * documents["theta"] + documents.merge(queries, on=keys)["alpha"])
    found = score_percentiles(GainTable(documents, queries, gains.criteria, gains.metadata))
    assert found[["dataset", "score"]].to_numpy().tolist() == [
        [name, score] for name in ("", "b") for score in ("raw", "calibrated")
    ]
    raw = documents["bt"] - documents.groupby(keys)["bt"].transform("mean")
    for row in found.itertuples():
        own = documents["dataset"] == row.dataset
        values = (raw if row.score == "raw" else documents["theta"])[own]
        expected = values.quantile([0.05, 0.25, 0.5, 0.75, 0.95]).tolist()
        assert [row.p5, row.p25, row.p50, row.p75, row.p95] == pytest.approx(expected)
        assert row.alpha == pytest.approx(queries.loc[queries["dataset"] == row.dataset, "alpha"].median())
        assert row.queries == 5


def test_scores_that_were_not_released_are_refused() -> None:
    gains = toy.suite(queries=2)
    with pytest.raises(RCPError, match="Bradley-Terry scores of these gains were not released"):
        score_percentiles(toy.with_columns(gains, bt=np.nan))
    with pytest.raises(RCPError, match="abilities of these gains were not released"):
        score_percentiles(toy.with_columns(gains, theta=np.nan))
    with pytest.raises(RCPError, match="has no document"):
        score_percentiles(GainTable(gains.documents.head(0), gains.queries, gains.criteria, gains.metadata))


def test_levels_are_the_easiest_and_the_second_hardest() -> None:
    criteria = pd.DataFrame({"id": list("abcde"), "beta": [0.7, -2.6, 4.1, -2.0, -0.3]})
    assert levels(criteria).to_numpy().tolist() == [["b", -2.6], ["a", 0.7]]
    assert levels(criteria.head(1))["id"].tolist() == ["a", "a"]
    assert levels(criteria.head(0)).empty
