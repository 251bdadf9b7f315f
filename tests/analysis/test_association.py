"""Rank statistics of weighted documents: a weight is so many copies; against scipy, loops and every permutation."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from rcp_irx.analysis import association
from rcp_irx.analysis.association import auc, ranked, spearman, ties
from tests.conftest import cases

pytestmark = pytest.mark.quick


def drawn(seed: int, documents: int = 40, queries: int = 6):
    """Scores and grades with ties, queries that stand together, five resamples' counts of the queries."""
    random = np.random.default_rng(seed)
    query = np.sort(random.integers(0, queries, documents))
    query = np.unique(query, return_inverse=True)[1]
    score, grade = random.integers(0, 12, documents) / 4.0, random.integers(0, 4, documents) / 1.0
    weights = random.integers(0, 3, (query.max() + 1, 5)).astype(float)
    return score, grade, query, weights


def pairwise_auc(score, positive):
    pairs = [(s > o) + (s == o) / 2 for s in score[positive] for o in score[~positive]]
    return np.mean(pairs)


@pytest.mark.parametrize("seed", range(5))
def test_weights_are_copies(seed):
    score, grade, query, weights = drawn(seed)
    each = weights[query]
    x, y = ranked(ties(score), each), ranked(ties(grade), each)
    for r in range(weights.shape[1]):
        copies = np.repeat(np.arange(len(score)), each[:, r].astype(int))
        s, g = score[copies], grade[copies]
        assert spearman(x, y)[r] == pytest.approx(stats.spearmanr(s, g).statistic, abs=1e-12)
        assert auc(x, grade >= 2, each)[r] == pytest.approx(pairwise_auc(s, g >= 2), abs=1e-12)
        np.testing.assert_allclose(x.centred[copies, r], stats.rankdata(s) - (len(s) + 1) / 2, atol=1e-12)


def test_what_has_no_value_is_nan():
    one = np.ones((4, 1))
    flat, rising = ranked(ties(np.zeros(4)), one), ranked(ties(np.arange(4.0)), one)
    assert np.isnan(spearman(flat, rising)).all()
    assert np.isnan(auc(rising, np.zeros(4, bool), one)).all()
    assert np.isnan(auc(rising, np.ones(4, bool), one)).all()
    assert auc(flat, np.arange(4) > 1, one) == 0.5
    assert np.isnan(association.concordance(np.zeros((3, 2)))).all()


def test_the_floor_is_the_mean_over_every_shuffle_within_queries():
    score = np.array([3.0, 1.0, 1.0, 5.0, 4.0, 9.0, 2.0])
    grade = np.array([0.0, 1.0, 2.0, 3.0, 3.0, 1.0, 2.0])
    query = np.array([0, 0, 0, 1, 1, 1, 2])
    values = [
        stats.spearmanr(np.concatenate([first, second, score[6:]]), grade).statistic
        for first in itertools.permutations(score[:3])
        for second in itertools.permutations(score[3:6])
    ]
    one = np.ones((7, 1))
    x, y = ranked(ties(score), one), ranked(ties(grade), one)
    floor = association.shuffled_spearman(x, y, np.array([0, 3, 6]), one)
    assert floor[0] == pytest.approx(np.mean(values), abs=1e-12)
    dealt = association.in_grade_order(score, grade, query)
    assert sorted(score[dealt][:3]) == sorted(score[:3])
    assert stats.spearmanr(score[dealt], grade).statistic == pytest.approx(max(values), abs=1e-12)


@pytest.mark.parametrize("seed", range(3))
def test_concordance_counts_are_those_of_a_loop(seed):
    score, grade, query, _ = drawn(seed)
    starts = np.flatnonzero(np.diff(query, prepend=-1))
    expected = np.zeros((3, len(starts)))
    for a, b in itertools.combinations(range(len(score)), 2):
        if query[a] == query[b] and grade[a] != grade[b]:
            sign = np.sign(score[a] - score[b]) * np.sign(grade[a] - grade[b])
            expected[:, query[a]] += 1, sign > 0, sign == 0
    assert np.array_equal(association.concordance_counts(score, grade, starts), expected)


def test_calibration_error_by_hand():
    predicted = np.array([0.1, 0.2, 0.45, 0.5, 1.0, 0.9])
    happened = np.array([False, True, False, True, True, False])
    codes = np.array([0, 0, 1, 1, 0, 1])
    counts = association.calibration_counts(predicted, happened, codes, 2, 2)
    # the lower bin: 0.1, 0.2, 0.45 (mean 0.25, share 1/3); the upper: 0.5, 1, 0.9 (mean 0.8, share 2/3)
    expected = (3 * abs(0.25 - 1 / 3) + 3 * abs(0.8 - 2 / 3)) / 6
    assert association.calibration_error(counts.sum(axis=1)) == pytest.approx(expected, abs=1e-15)
    only_first = (2 * abs(0.15 - 0.5) + 0.0) / 3
    assert association.calibration_error(counts @ [[1.0], [0.0]])[0] == pytest.approx(only_first, abs=1e-15)


def test_documents_that_tie_at_the_cut_share_what_is_left():
    scores, weights = ties(np.array([5.0, 3.0, 3.0, 1.0])), np.array([[1.0, 2.0], [1.0, 1.0], [1.0, 0.0], [1.0, 1.0]])
    share = association.top_shares(scores, np.array([2.0, 4.0]), weights)
    np.testing.assert_allclose(share[:, 0], [1, 0.5, 0.5, 0])
    np.testing.assert_allclose(share[[0, 1, 3], 1], [1, 1, 1])
    assert association.top_shares(scores, np.array([0.0, 0.0]), weights).max() == 0


def test_numbers_of_an_exact_oracle():
    case = next(c for c in (p.values[0] for p in cases("diag")) if "auc_at_2" in c["expected"])
    score, grade, query = (np.array(case["input"][name], dtype=float) for name in ("score", "grade", "query"))
    expected, tolerance, one = case["expected"], case["tolerance"], np.ones((len(score), 1))
    x, y = ranked(ties(score), one), ranked(ties(grade), one)
    counts = association.concordance_counts(score, grade, np.flatnonzero(np.diff(query, prepend=-1))).sum(axis=1)
    found = {
        "auc_at_2": auc(x, grade >= 2, one)[0],
        "concordance_ties_half": association.concordance(counts),
        "concordance_ties_zero": counts[1] / counts[0],
        "pooled_spearman": spearman(x, y)[0],
        "tied_pairs": counts[2],
    }
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        assert abs(found[name] - value) <= tolerance[name], name
