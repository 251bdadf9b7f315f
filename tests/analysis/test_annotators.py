"""Reliability of annotators: known reliabilities come back; gaps, single annotators and constant grades are met."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from rcp_irx import RCPError, RCPWarning
from rcp_irx.analysis import raters
from rcp_irx.analysis.annotators import reliability
from tests.conftest import data_folder

pytestmark = pytest.mark.quick

KEYS = ["dataset", "qid", "docno"]


def annotated(
    seed: int = 1,
    queries: int = 60,
    documents: int = 10,
    annotators: int = 3,
    noise: float = 1.0,
    query_sd: float = 0.0,
) -> pd.DataFrame:
    """Grades without bounds: ability (SD 1, and its query's) plus noise, so that ICC(1,1) is known."""
    random = np.random.default_rng(seed)
    of_query = np.repeat(random.normal(0, query_sd, queries), documents) if query_sd else np.zeros(queries * documents)
    ability = 10 + random.normal(size=queries * documents) + of_query
    rows = [
        (f"q{d // documents}", f"d{d % documents}", name, value + random.normal(0, noise))
        for d, value in enumerate(ability)
        for name in random.choice(list("abcdefg"), annotators, replace=False)
    ]
    return pd.DataFrame(rows, columns=["qid", "docno", "annotator", "grade"])


@pytest.mark.parametrize(("annotators", "noise"), [(3, 1.0), (2, 0.5), (5, 2.0)])
def test_known_reliabilities_come_back(annotators, noise):
    found = reliability(annotated(2, 100, 10, annotators, noise), threshold=10, splits=10, resamples=200)
    single = 1 / (1 + noise**2)
    panel = 1 / (1 + noise**2 / annotators)
    assert found.panel == annotators
    for measure, of, truth in [
        ("ICC(1,1)", "one grade", single),
        ("Krippendorff's alpha", "one grade", single),
        ("ICC(1,k)", "mean grade", panel),
    ]:
        row = found.measures[(found.measures["measure"] == measure) & (found.measures["of"] == of)].iloc[0]
        assert row["value"] == pytest.approx(truth, abs=0.05)
        assert row["low"] - 0.02 < truth < row["high"] + 0.02
    # for normal grades Spearman's is 6 / pi * arcsin(r / 2) of the halves' correlation
    half = annotators // 2
    halves = 6 / np.pi * np.arcsin(1 / (1 + noise**2 / half) / 2)
    stepped = raters.spearman_brown(halves, annotators / half)
    assert found.value("split-half, Spearman-Brown", "mean grade") == pytest.approx(stepped, abs=0.05)


def test_split_halves_of_pairs_are_a_correlation_of_both_orders():
    grades = annotated(3, 30, 5, 2).assign(grade=lambda frame: frame["grade"].round())
    pairs = grades.groupby(KEYS[1:])["grade"].agg(["first", "last"])
    both = stats.spearmanr([*pairs["first"], *pairs["last"]], [*pairs["last"], *pairs["first"]]).statistic
    found = reliability(grades, splits=400, resamples=1, threshold=10)
    expected = raters.spearman_brown(both, 2)
    assert found.value("split-half, Spearman-Brown", "mean grade") == pytest.approx(expected, abs=0.01)


def test_intervals_draw_queries():
    grades = annotated(4, 40, 10, 3, 1.0, query_sd=2.0)
    found = reliability(grades, threshold=10, splits=2, resamples=400).measures.set_index("measure").loc["ICC(1,1)"]
    queries = [frame["grade"].to_numpy().reshape(-1, 3) for _, frame in grades.sort_values(KEYS[1:]).groupby("qid")]
    random, plain = np.random.default_rng(0), []
    for _ in range(400):
        panels = np.concatenate([queries[q] for q in random.integers(0, 40, 40)])
        among, within = 3 * panels.mean(axis=1).var(ddof=1), panels.var(axis=1, ddof=1).mean()
        plain.append((among - within) / (among + 2 * within))
    np.testing.assert_allclose([found["low"], found["high"]], np.quantile(plain, [0.025, 0.975]), atol=0.02)


def test_categories_and_a_threshold():
    random = np.random.default_rng(5)
    truth = random.choice([0, 1, 2, 3], 200, p=[0.5, 0.2, 0.2, 0.1])
    table = np.where(random.random((200, 3)) < 0.7, truth[:, None], random.integers(0, 4, (200, 3)))
    grades = pd.DataFrame(
        [(f"q{d % 40}", f"d{d}", f"a{a}", table[d, a]) for d in range(200) for a in range(3)],
        columns=["qid", "docno", "annotator", "grade"],
    )
    found = reliability(grades, threshold=2, resamples=50)
    counts = np.stack([(table == grade).sum(axis=1) for grade in range(4)], axis=1)
    answers = np.stack([(table < 2).sum(axis=1), (table >= 2).sum(axis=1)], axis=1)
    for of, of_counts in [("exact grade", counts), ("grade >= 2", answers)]:
        agreed = (of_counts * (of_counts - 1)).sum(axis=1).mean() / 6
        shares = of_counts.mean(axis=0) / 3
        chance = (shares * (1 - shares)).sum() / (len(shares) - 1)
        assert found.value("observed agreement", of) == pytest.approx(agreed, abs=1e-12)
        assert found.value("Gwet's AC1", of) == pytest.approx((agreed - chance) / (1 - chance), abs=1e-12)
        by_shares = (shares**2).sum()
        assert found.value("Fleiss' kappa", of) == pytest.approx((agreed - by_shares) / (1 - by_shares), abs=1e-12)
    wider = reliability(grades, threshold=2, resamples=50, scale=[0, 1, 2, 3, 4])
    assert wider.value("Gwet's AC1", "exact grade") > found.value("Gwet's AC1", "exact grade")
    assert wider.value("Fleiss' kappa", "exact grade") == found.value("Fleiss' kappa", "exact grade")
    assert wider.value("ICC(1,1)", "one grade") == found.value("ICC(1,1)", "one grade")
    with pytest.raises(RCPError, match=r"grades outside the scale \[0.0, 1.0, 2.0\]: 3.0"):
        reliability(grades, scale=[0, 1, 2])


def test_each_annotator_beside_the_others():
    grades = annotated(6, 40, 10, 3)
    grades["grade"] += 2 * (grades["annotator"] == "g")
    found = reliability(grades, threshold=10, resamples=5, splits=2)
    rows = found.annotators.set_index("annotator")
    assert list(rows.index) == list("abcdefg")
    assert rows["grades"].sum() == len(grades)
    others = []
    for row in grades[grades["annotator"] == "g"].itertuples():
        same = grades[(grades["qid"] == row.qid) & (grades["docno"] == row.docno) & (grades["annotator"] != "g")]
        others.append(row.grade - same["grade"].mean())
    assert rows.loc["g", "difference"] == pytest.approx(np.mean(others), abs=1e-12)
    assert rows.loc["g", "difference"] == pytest.approx(2, abs=0.3)
    without = reliability(grades[grades["annotator"] != "g"], threshold=10, resamples=5, splits=2)
    assert rows.loc["g", "alpha_without"] == pytest.approx(
        without.value("Krippendorff's alpha", "one grade"), abs=1e-12
    )
    assert rows["alpha_without"].idxmax() == "g"
    assert "With any one of 7 annotators left out, alpha is from" in str(found)


def test_gaps_single_grades_and_nameless_annotators():
    grades = annotated(7, 25, 6, 3)
    lone = pd.DataFrame({"qid": "q0", "docno": ["x", "y"], "annotator": "a", "grade": 10.0})
    full = reliability(grades, threshold=10, resamples=20)
    with pytest.warns(RCPWarning, match="2 rows have no grade, left out"):
        found = reliability(
            pd.concat([grades, lone, lone.assign(annotator="b", grade=np.nan)]), threshold=10, resamples=20
        )
    assert "2 documents have one grade, left out of all but the shares of the grades" in found.warnings
    for measure, of in [("ICC(1,1)", "one grade"), ("ICC(1,k)", "mean grade"), ("Krippendorff's alpha", "one grade")]:
        assert found.value(measure, of) == pytest.approx(full.value(measure, of), abs=1e-12)
    with pytest.warns(RCPWarning, match="no column 'annotator': each row of a document counts as another annotator's"):
        nameless = reliability(grades.drop(columns="annotator"), threshold=10, resamples=20)
    halves = full.measures["measure"].str.contains("split")  # by chance others
    pd.testing.assert_frame_equal(nameless.measures[~halves], full.measures[~halves])
    assert nameless.measures["value"][halves].tolist() == pytest.approx(full.measures["value"][halves], abs=0.03)
    assert nameless.annotators.empty
    assert list(nameless.annotators) == list(full.annotators)


def test_datasets_are_pooled_and_told_apart():
    grades = pd.concat([annotated(8).assign(dataset="one"), annotated(9, noise=2).assign(dataset="two")])
    alone = grades.head(0).assign(dataset="three")
    alone = pd.concat([alone, annotated(10, 3, 2, 1).assign(dataset="three")])
    found = reliability(pd.concat([grades, alone]), threshold=10, resamples=20, splits=2)
    assert list(found.measures["dataset"].unique()) == ["all datasets", "one", "two"]
    assert "three: fewer than two documents have grades of several annotators: no reliability" in found.warnings
    assert found.value("ICC(1,1)", "one grade", "one") > found.value("ICC(1,1)", "one grade", "two")
    one = reliability(grades[grades["dataset"] == "one"], threshold=10, resamples=20, splits=2)
    assert found.value("ICC(1,1)", "one grade", "one") == one.value("ICC(1,1)", "one grade")


def test_warnings_say_what_was_found():
    noisy = reliability(annotated(11, 15, 8, 3, noise=3.0), threshold=10, resamples=20)
    said = " ".join(noisy.warnings)
    assert "below 0.667 he draws no conclusion from grades: rest on mean grades, not on single ones" in said
    assert "Koo and Li call mean grades of that reliability poor" in said
    assert "only 15 queries: the intervals, which draw queries, are rough" in said
    good = reliability(annotated(12, 30, 8, 3, noise=0.2), threshold=10, resamples=20)
    assert good.warnings == ["720 different grades are no categories: of these only yes and no are compared"]
    whole = reliability(annotated(12, 30, 8, 3, noise=0.2).round({"grade": 1}), threshold=10, resamples=20)
    assert whole.warnings == []
    random = np.random.default_rng(1)
    rare = annotated(13, 30, 8, 3).assign(grade=lambda frame: (random.random(len(frame)) < 0.03) * 2.0)
    assert "which lowers kappa whatever the annotators do" in " ".join(reliability(rare, resamples=20).warnings)
    below = reliability(annotated(12, 30, 8, 3, noise=0.2), threshold=100, resamples=20)
    assert "every grade is below the threshold 100: nothing is said of yes and no" in below.warnings
    assert not below.measures["of"].str.contains(">=").any()


def test_one_query_has_no_interval():
    found = reliability(annotated(14, 1, 20, 3), threshold=10, resamples=20)
    assert found.measures[["low", "high"]].isna().all(axis=None)
    assert "one query: no intervals, which draw queries" in found.warnings
    assert np.isfinite(found.value("ICC(1,1)", "one grade"))


def test_what_has_no_reliability_is_refused():
    grades = annotated(15, 5, 4, 2)
    wrong = [
        (grades[grades["annotator"] == "a"], {}, "fewer than two documents have grades of several annotators"),
        (grades.drop_duplicates(["qid", "docno"]), {}, "fewer than two documents have grades of several annotators"),
        (grades.assign(grade=2), {}, "every grade is 2; reliability is of documents that several people graded"),
        (
            grades.assign(grade="2,5"),
            {},
            "a grade must be a finite number; query, document, grade: ('q0', 'd0', '2,5')",
        ),
        (grades.drop(columns="grade"), {}, "has no column 'grade'"),
        (grades, {"splits": 2.5}, "splits is a whole number from 1 up, not 2.5"),
        (grades, {"threshold": np.nan}, "threshold is a finite number"),
        (grades, {"scale": [0, 1, np.nan]}, "scale is a finite number"),
        (grades, {"scale": ["a"]}, "scale is a finite number, not 'a'"),
        (grades, {"splits": 0}, "splits is a whole number from 1 up, not 0"),
        (grades, {"resamples": 0}, "resamples is a whole number from 1 up, not 0"),
    ]
    for frame, options, message in wrong:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RCPWarning)
            with pytest.raises(RCPError) as caught:
                reliability(frame, **options)
        assert message in str(caught.value)


def test_a_mean_of_ones_own_grades_makes_no_new_grade():
    grades = annotated(16, 20, 8, 3)
    grades["grade"] = (grades["grade"] - grades["grade"].mean() + 2).round().clip(0, 4)
    again = grades.iloc[:2].assign(grade=(grades["grade"].iloc[:2] + 1).where(grades["grade"].iloc[:2] < 4, 3))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RCPWarning)
        found = reliability(pd.concat([grades, again]), scale=[0, 1, 2, 3, 4], resamples=5)
        plain = reliability(pd.concat([grades, again]), resamples=5)
    assert any("2 means of an annotator's grades are no grade of the scale" in note for note in found.warnings)
    rest = grades.iloc[2:]
    pd.testing.assert_frame_equal(found.measures, plain.measures)
    for of in ("exact grade", "grade, quadratic weights"):  # as if these two had not been given
        name = "Gwet's AC2" if "weights" in of else "Gwet's AC1"
        expected = reliability(rest, scale=[0, 1, 2, 3, 4], resamples=5).value(name, of)
        assert found.value(name, of) == pytest.approx(expected, abs=1e-12)


def test_kappa_is_called_low_for_a_rare_answer_only_where_one_is_rare():
    random = np.random.default_rng(2)
    coins = annotated(17, 30, 10, 4).assign(grade=lambda frame: 4.0 * (random.random(len(frame)) < 0.5))
    assert "is rare" not in " ".join(reliability(coins, resamples=5).warnings)


def test_dl19_reliability_is_that_of_independent_packages():
    """NIST's grades and two language models' as three annotators."""
    krippendorff = pytest.importorskip("krippendorff", reason="krippendorff is not installed")
    raters = pytest.importorskip("statsmodels.stats.inter_rater", reason="statsmodels is not installed")
    folder = data_folder("dl19")
    columns = ["qid", "q0", "docno", "grade"]
    parts = {}
    for name, file in [("nist", "qrels.dl19-passage.txt"), ("v3", "dl19.zeroshot_bing_DSV3.txt"),
                       ("llama", "dl19.zeroshot_bing_Llama-3-8B-Instruct.txt")]:  # fmt: skip
        rows = pd.read_csv(folder / file, sep=r"\s+", names=columns, dtype={"qid": str, "docno": str})
        parts[name] = rows.assign(annotator=name)[["qid", "docno", "annotator", "grade"]]
    grades = pd.concat(parts.values())
    whole = grades.pivot(index=["qid", "docno"], columns="annotator", values="grade").dropna().astype(int)
    grades = whole.stack().rename("grade").reset_index()
    found = reliability(grades, resamples=2)
    table = whole.to_numpy()
    expected = krippendorff.alpha(table.T.astype(float), level_of_measurement="interval")
    assert found.value("Krippendorff's alpha", "one grade") == pytest.approx(expected, abs=1e-9)
    fleiss = raters.fleiss_kappa(raters.aggregate_raters(table)[0])
    assert found.value("Fleiss' kappa", "exact grade") == pytest.approx(fleiss, abs=1e-9)
    means, k = table.mean(axis=1), table.shape[1]
    between = k * means.var(ddof=1)
    within = ((table - means[:, None]) ** 2).sum() / (len(table) * (k - 1))
    icc = (between - within) / (between + (k - 1) * within)
    assert found.value("ICC(1,1)", "one grade") == pytest.approx(icc, abs=1e-9)


def test_grades_in_tenths_given_three_times_are_those_grades():
    grades = annotated(18, 20, 8, 3)
    grades["grade"] = (grades["grade"] - grades["grade"].mean() + 2).round().clip(0, 4) / 10
    own = grades[grades["annotator"] == "a"]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RCPWarning)
        found = reliability(pd.concat([grades, own, own]), threshold=0.2, resamples=5)
    pd.testing.assert_frame_equal(found.measures, reliability(grades, threshold=0.2, resamples=5).measures)
    assert not any("no grade of the scale" in note for note in found.warnings)
    assert (
        reliability(grades, threshold=0.2, scale=np.arange(0, 1.01, 0.1), resamples=5).measures["value"].notna().any()
    )
