"""Reliability statistics against published worked examples, other packages, an analysis of variance and simulations."""

from __future__ import annotations

import numpy as np
import pytest

from rcp_irx.analysis import raters

pytestmark = pytest.mark.quick

SHROUT_FLEISS = [[9, 2, 5, 8], [6, 1, 3, 2], [8, 4, 6, 8], [7, 1, 2, 6], [10, 5, 6, 9], [6, 2, 4, 7]]
"""Six subjects by four judges (Shrout and Fleiss 1979, Table 2); ICC(1,1) .17, ICC(1,4) .44 (Table 4)."""

FLEISS = [
    [0, 0, 0, 0, 14],
    [0, 2, 6, 4, 2],
    [0, 0, 3, 5, 6],
    [0, 3, 9, 2, 0],
    [2, 2, 8, 1, 1],
    [7, 7, 0, 0, 0],
    [3, 2, 6, 3, 0],
    [2, 5, 3, 2, 2],
    [6, 5, 2, 1, 0],
    [0, 2, 2, 3, 7],
]
"""Counts of ten subjects in five categories by 14 raters, a common worked example of Fleiss' kappa: .210."""

GAPS = [
    [1, 1, None, 1],
    [2, 2, 3, 2],
    [3, 3, 3, 3],
    [3, 3, 3, 3],
    [2, 2, 2, 2],
    [1, 2, 3, 4],
    [4, 4, 4, 4],
    [1, 1, 2, 1],
    [2, 2, 2, 2],
    [None, 5, 5, 5],
    [None, None, 1, 1],
    [None, 3, None, None],
]
"""Twelve units by four observers (Krippendorff 2011: interval alpha .849); Gwet (2014): AC1 .775, kappa .761."""


def long(rows):
    """Grades and document codes of a table with gaps."""
    found = [(grade, document) for document, row in enumerate(rows) for grade in row if grade is not None]
    grades, documents = zip(*found, strict=True)
    return np.array(grades, dtype=float), np.array(documents)


def icc_of(rows):
    return raters.icc(raters.spread_sums(*long(rows)).sum(axis=1))


def chance_of(counts, weights):
    return raters.chance_corrected(raters.chance_sums(np.asarray(counts, float), weights).sum(axis=1), weights)


def test_shrout_and_fleiss():
    found = icc_of(SHROUT_FLEISS)
    assert found.single == pytest.approx(0.1657, abs=5e-5)
    assert found.mean == pytest.approx(0.4428, abs=5e-5)
    assert found.k == pytest.approx(4, abs=1e-12)


def test_fleiss():
    assert chance_of(FLEISS, np.eye(5)).kappa == pytest.approx(0.210, abs=5e-4)


def test_gaps_in_the_table():
    grades, documents = long(GAPS)
    scale = np.arange(1.0, 6.0)
    counts = raters.category_counts(grades, documents, scale, documents.max() + 1)
    exact = chance_of(counts, np.eye(5))
    assert exact.observed == pytest.approx(0.818182, abs=5e-7)
    assert exact.ac == pytest.approx(0.77544, abs=5e-6)
    assert exact.kappa == pytest.approx(0.76117, abs=5e-6)
    # quadratic weights: irrCAC 0.4.4 gives .9140007236 and .8649350649
    squares = chance_of(counts, raters.quadratic_weights(scale))
    assert squares.ac == pytest.approx(0.9140007236, abs=1e-9)
    assert squares.kappa == pytest.approx(0.8649350649, abs=1e-9)
    assert raters.alpha(raters.spread_sums(grades, documents).sum(axis=1)) == pytest.approx(0.849, abs=5e-4)


def random_table(seed, documents=30, annotators=5, gaps=0.4):
    random = np.random.default_rng(seed)
    ability = random.normal(2, 1, documents)
    table = np.clip(np.round(ability[:, None] + random.normal(0, 1, (documents, annotators))), 0, 4)
    return np.where(random.random(table.shape) < gaps, np.nan, table)


def without_gaps(table):
    return [[value for value in row if not np.isnan(value)] or [None] for row in table]


@pytest.mark.parametrize("seed", range(4))
def test_alpha_is_the_definition_of_pairs(seed):
    grades, documents = long(random_table(seed).tolist())
    grades, documents = grades[~np.isnan(grades)], documents[~np.isnan(grades)]
    panel = [grades[documents == d] for d in np.unique(documents) if (documents == d).sum() > 1]
    values = np.concatenate(panel)
    observed = sum(((p[:, None] - p) ** 2).sum() / (len(p) - 1) for p in panel) / len(values)
    expected = ((values[:, None] - values) ** 2).sum() / (len(values) * (len(values) - 1))
    found = raters.alpha(raters.spread_sums(grades, np.unique(documents, return_inverse=True)[1]).sum(axis=1))
    assert found == pytest.approx(1 - observed / expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_icc_of_unequal_panels_is_that_of_an_analysis_of_variance(seed):
    table = random_table(seed)
    table = table[(~np.isnan(table)).sum(axis=1) > 1]
    panels = [row[~np.isnan(row)] for row in table]
    sizes, total = np.array([len(p) for p in panels]), np.concatenate(panels)
    among = sum(len(p) * (p.mean() - total.mean()) ** 2 for p in panels) / (len(panels) - 1)
    within = sum(((p - p.mean()) ** 2).sum() for p in panels) / (len(total) - len(panels))
    k = (sizes.sum() - (sizes**2).sum() / sizes.sum()) / (len(panels) - 1)
    found = icc_of([list(p) for p in panels])
    assert found.single == pytest.approx((among - within) / (among + (k - 1) * within), abs=1e-12)
    assert found.mean == pytest.approx((among - within) / among, abs=1e-12)
    assert found.k == pytest.approx(k, abs=1e-12)


def test_documents_with_one_grade_change_no_spread_statistic():
    several, more = [[1, 2], [3, 3], [0, 2]], [[1, 2], [3, 3], [0, 2], [4], [0]]
    before, after = (raters.spread_sums(*long(rows)).sum(axis=1) for rows in (several, more))
    assert raters.alpha(after) == pytest.approx(raters.alpha(before), abs=1e-12)
    np.testing.assert_allclose(raters.icc(after), raters.icc(before), atol=1e-12)


def test_sums_add_up_with_weights_as_copies():
    grades, documents = long(SHROUT_FLEISS)
    times = np.array([2, 0, 1, 1, 3, 1])
    copied = icc_of([row for row, count in zip(SHROUT_FLEISS, times, strict=True) for _ in range(count)])
    np.testing.assert_allclose(raters.icc(raters.spread_sums(grades, documents) @ times), copied, atol=1e-12)


def test_grades_without_spread_have_no_reliability():
    alike = raters.spread_sums(*long([[0.1, 0.1], [0.1, 0.1, 0.1]])).sum(axis=1)
    assert np.isnan(raters.alpha(alike))
    assert np.isnan(raters.icc(alike).single)
    drawn_alike = raters.spread_sums(*long([[0.7, 0.7], [0.7, 0.7], [0.1, 0.3]])) @ np.array([1.0, 3.0, 0.0])
    assert np.isnan(raters.alpha(drawn_alike))
    perfect = icc_of([[1, 1], [2, 2], [3, 3]])
    assert (perfect.single, perfect.mean) == (1, 1)
    rare = chance_of([[0, 3], [0, 3]], np.eye(2))
    assert rare.ac == 1
    assert np.isnan(rare.kappa)


def test_icc_recovers_what_was_planted():
    random = np.random.default_rng(5)
    estimates = []
    for _ in range(60):
        grades = random.normal(size=(150, 1)) + random.normal(0, np.sqrt(0.75), (150, 3))
        estimates.append(icc_of(grades.tolist())[:2])
    truth = 1 / 1.75
    error = np.std(estimates, axis=0) / np.sqrt(60)
    assert (np.abs(np.mean(estimates, axis=0) - [truth, 3 * truth / (1 + 2 * truth)]) < 3 * error).all()


def test_half_panels_are_disjoint_and_of_equal_size():
    grades, documents = long([[1, 2, 4, 8, 16], [1, 2], [5], [1, 2, 4, 8]])
    sums = set()
    for seed in range(40):
        first, second = raters.half_panels(grades, documents, np.random.default_rng(seed))
        assert np.isnan([first[2], second[2]]).all()
        assert sorted([first[1], second[1]]) == [1, 2]
        assert first[3] + second[3] == 7.5
        left_out = 31 - 2 * (first[0] + second[0])
        assert left_out in (1, 2, 4, 8, 16)
        sums.add(left_out)
    assert len(sums) == 5


def test_spearman_brown():
    assert raters.spearman_brown(np.array(0.5), 2) == pytest.approx(2 / 3)
    assert raters.spearman_brown(np.array(0.3), 1) == 0.3


@pytest.mark.parametrize("seed", range(3))
def test_the_krippendorff_package_agrees(seed):
    krippendorff = pytest.importorskip("krippendorff", reason="krippendorff is not installed")
    table = random_table(seed)
    grades, documents = long(without_gaps(table))
    found = raters.alpha(raters.spread_sums(grades, np.unique(documents, return_inverse=True)[1]).sum(axis=1))
    expected = krippendorff.alpha(reliability_data=table.T, level_of_measurement="interval")
    assert found == pytest.approx(expected, abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_statsmodels_agrees_where_nothing_is_missing(seed):
    inter_rater = pytest.importorskip("statsmodels.stats.inter_rater", reason="statsmodels is not installed")
    table = random_table(seed, gaps=0.0)
    grades, documents = long(table.tolist())
    counts = raters.category_counts(grades, documents, np.unique(grades), documents.max() + 1)
    found = chance_of(counts, np.eye(counts.shape[1])).kappa
    assert found == pytest.approx(inter_rater.fleiss_kappa(counts), abs=1e-12)
