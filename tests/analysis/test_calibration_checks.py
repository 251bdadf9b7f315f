"""Numbers about pass probabilities: to reproduce, against scikit-learn, against slow loops and the paper's formulas."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit

from rcp_irx import RCPError, calibration
from rcp_irx.analysis.calibration_checks import (
    assess,
    auc,
    brier_by_query,
    correlations,
    cross_entropy,
    information_efficiency,
    logistic_curves,
    pass_shares,
    peak_information,
    yen_q3,
)
from tests.analysis.simulated_suites import BETA, GAMMA
from tests.conftest import cases

quick = pytest.mark.quick


def case(name):
    (found,) = [parameter.values[0] for parameter in cases("diag") if parameter.values[0]["id"] == f"diag/{name}"]
    return found


def drawn(seed=0, size=400):
    """Probabilities, outcomes that follow them, shares of repeated outcomes and their numbers."""
    random = np.random.default_rng(seed)
    p = random.beta(0.5, 1.5, size)
    n = random.integers(1, 8, size)
    return p, (random.random(size) < p).astype(float), random.binomial(n, p) / n, n


@quick
def test_calibration_error_and_brier_to_reproduce():
    given_ = case("01-ece-brier")
    of, expected, tolerance = given_["input"], given_["expected"], given_["tolerance"]
    found = {
        "ece10": assess(of["p"], of["y"], bins=10).ece,
        "ece20": assess(of["p"], of["y"]).ece,
        "ece10_weighted": assess(of["p"], of["share"], of["weight"], bins=10).ece,
        "brier": assess(of["p"], of["y"]).brier,
        "brier_skill": assess(of["p"], of["y"]).skill,
    }
    assert set(found) == set(expected)
    for name, value in found.items():
        assert value == pytest.approx(expected[name], abs=tolerance[name]), name


@quick
def test_auc_to_reproduce():
    given_ = case("02-agreement")
    of = given_["input"]
    found = auc(of["score"], np.array(of["grade"]) >= 2)
    assert found == pytest.approx(given_["expected"]["auc_at_2"], abs=given_["tolerance"]["auc_at_2"])


def test_calibration_curve_brier_score_and_auc_of_scikit_learn():
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    from sklearn.calibration import calibration_curve
    from sklearn.metrics import brier_score_loss, roc_auc_score

    p, outcome, _, weight = drawn()
    found = assess(p, outcome)
    filled = found.bins.weight > 0
    observed, predicted = calibration_curve(outcome, p, n_bins=20, strategy="uniform")
    np.testing.assert_allclose(found.bins.observed[filled], observed, atol=1e-12)
    np.testing.assert_allclose(found.bins.predicted[filled], predicted, atol=1e-12)
    assert found.brier == pytest.approx(brier_score_loss(outcome, p), abs=1e-12)
    weighted = assess(p, outcome, weight).brier
    assert weighted == pytest.approx(brier_score_loss(outcome, p, sample_weight=weight), abs=1e-12)
    for score in (p, np.round(p, 1)):
        assert auc(score, outcome == 1) == pytest.approx(roc_auc_score(outcome, score), abs=1e-12)


@quick
def test_calibration_error_by_a_slow_loop():
    p, _, share, n = drawn()
    found, total = 0.0, 0.0
    for low in range(20):
        cells = [i for i in range(len(p)) if low <= p[i] * 20 < low + 1]
        found += abs(sum(n[i] * (p[i] - share[i]) for i in cells))
        total += sum(n[i] for i in cells)
    assert assess(p, share, n).ece == pytest.approx(found / total, abs=1e-12)


@quick
def test_a_share_of_n_answers_counts_as_its_n_single_answers():
    p, _, share, n = drawn()
    single = np.concatenate([np.arange(k) < round(s * k) for s, k in zip(share, n, strict=True)]).astype(float)
    of_shares, of_answers = assess(p, share, n), assess(np.repeat(p, n), single)
    assert of_shares.ece == pytest.approx(of_answers.ece, abs=1e-12)
    noise = np.average(share * (1 - share), weights=n)  # answers of one cell differ among themselves
    assert of_shares.brier + noise == pytest.approx(of_answers.brier, abs=1e-12)
    assert of_shares.reliability == pytest.approx(of_answers.reliability, abs=1e-12)
    assert of_shares.resolution == pytest.approx(of_answers.resolution, abs=1e-12)
    assert of_shares.uncertainty + noise == pytest.approx(of_answers.uncertainty, abs=1e-12)


@quick
def test_murphys_parts_by_their_formulas():
    # Ten predictions of .2 of which 3 come true, ten of .7 of which 6 do: nothing differs within a bin.
    p, outcome = np.repeat([0.2, 0.7], 10), np.repeat([1, 0, 1, 0], [3, 7, 6, 4])
    found = assess(p, outcome)
    assert found.reliability == pytest.approx((0.1**2 + 0.1**2) / 2, abs=1e-15)
    assert found.resolution == pytest.approx(0.15**2, abs=1e-15)
    assert found.uncertainty == pytest.approx(0.45 * 0.55, abs=1e-15)
    assert found.within == pytest.approx(0, abs=1e-15)
    assert found.skill == pytest.approx((found.resolution - found.reliability) / found.uncertainty, abs=1e-15)


@quick
@given(st.integers(0, 10_000), st.integers(1, 40))
@settings(deadline=None, max_examples=30)
def test_murphys_parts_add_up_and_within_is_what_a_bin_hides(seed, bins):
    p, _, share, n = drawn(seed, 60)
    found = assess(p, share, n, bins=bins)
    parts = found.reliability - found.resolution + found.uncertainty + found.within
    assert parts == pytest.approx(found.brier, abs=1e-12)
    code = np.minimum((p * bins).astype(int), bins - 1)
    hidden = 0.0
    for b in set(code.tolist()):
        x, y, w = p[code == b], share[code == b], n[code == b]
        dx, dy = x - np.average(x, weights=w), y - np.average(y, weights=w)
        hidden += np.sum(w * dx**2) - 2 * np.sum(w * dx * dy)
    assert found.within == pytest.approx(hidden / n.sum(), abs=1e-12)


@quick
def test_zero_one_and_bounds_have_their_bins():
    bins = assess([0.0, 0.05, 0.999, 1.0], [0, 0, 1, 1]).bins
    assert bins.weight.tolist() == [1, 1, *[0] * 17, 2]
    assert (bins.low[0], bins.high[-1]) == (0, 1)
    assert np.isnan(bins.observed[5])


@quick
def test_what_chance_leaves_of_the_calibration_error():
    p, _, _, n = drawn(size=2000)
    random = np.random.default_rng(1)
    placed = np.maximum(n, 1)
    of_one_answer = [assess(p, random.random(len(p)) < p) for _ in range(100)]
    independent = [assess(p, random.binomial(placed.astype(int), p) / placed, placed) for _ in range(100)]
    repeated = [assess(p, random.random(len(p)) < p, placed) for _ in range(100)]  # each answer as the first
    for drawings in (of_one_answer, independent, repeated):
        assert np.mean([one.ece for one in drawings]) == pytest.approx(
            np.mean([one.chance_ece for one in drawings]), rel=0.1
        )
    assert np.mean([one.ece for one in repeated]) > 1.5 * np.mean([one.ece for one in independent])


@quick
def test_brier_scores_of_queries_by_a_slow_loop():
    random = np.random.default_rng(2)
    query = np.array([0, 2, 0, 2, 0, 1])
    n = np.array([3, 0, 2, 5, 0, 0])
    p, passes = random.random((6, 2)), np.array([[1, 3], [0, 0], [2, 0], [5, 1], [0, 0], [0, 0]])
    found = brier_by_query(p, pass_shares(passes, n), np.repeat(n[:, None], 2, axis=1), query)
    for code in (0, 2):
        cells = [(i, c) for i in range(6) for c in range(2) if query[i] == code and n[i]]
        errors = [n[i] * (passes[i, c] / n[i] - p[i, c]) ** 2 for i, c in cells]
        assert found[code] == pytest.approx(sum(errors) / sum(n[i] for i, _ in cells), abs=1e-12)
    assert np.isnan(found[1])


@quick
def test_q3_is_the_correlation_of_residuals_over_placed_documents():
    random = np.random.default_rng(3)
    n = random.integers(0, 5, 80)
    p = random.random((80, 3))
    passes = random.binomial(n[:, None], p)
    found = yen_q3(passes, n, p)
    placed = n > 0
    expected = np.corrcoef((passes[placed] / n[placed, None] - p[placed]).T)
    np.testing.assert_allclose(found, expected, atol=1e-12)


@quick
def test_q3_of_copied_and_of_opposite_answers():
    p = np.full((50, 4), 0.5)
    passes = np.zeros((50, 4))
    passes[:25, 0] = passes[:25, 1] = 1
    passes[25:, 2] = 1
    found = yen_q3(passes, np.ones(50), p)
    assert found[0, 1] == pytest.approx(1)
    assert found[0, 2] == pytest.approx(-1)
    assert np.isnan(found[0, 3])  # criterion 3 is never passed, and P is the same everywhere: nothing varies


@quick
def test_correlations_of_columns_with_gaps():
    values = np.array([[1.0, 2, np.nan], [2, 1, 3], [4, 0, 1], [np.nan, 5, 2]])
    found = correlations(values)
    assert found[0, 1] == pytest.approx(np.corrcoef(values[:3, 0], values[:3, 1])[0, 1])
    assert found[1, 2] == pytest.approx(np.corrcoef(values[1:, 1], values[1:, 2])[0, 1])
    assert found[0, 2] == pytest.approx(-1)


@quick
def test_one_criterion_tells_most_at_its_difficulty():
    # Eq. 8 at theta = beta: gamma^2 / 4.
    assert peak_information([0.8], [1.5]) == pytest.approx((1.5, 0.16))
    assert information_efficiency([1.5], [0.8], [1.5]).tolist() == [1.0]


@quick
@given(st.lists(st.tuples(st.floats(0.3, 2), st.floats(-5, 8)), min_size=1, max_size=6))
@settings(deadline=None, max_examples=40)
def test_nothing_beats_the_peak(criteria):
    gamma, beta = map(list, zip(*criteria, strict=True))
    ability, peak = peak_information(gamma, beta)
    everywhere = np.linspace(min(beta) - 1, max(beta) + 1, 20_001)
    assert calibration.test_information(everywhere, gamma, beta).max() <= peak * (1 + 1e-12)
    assert calibration.test_information(ability, gamma, beta) == pytest.approx(peak)
    assert information_efficiency(everywhere, gamma, beta).max() <= 1


def test_logistic_curves_of_scikit_learn():
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    from sklearn.linear_model import LogisticRegression

    random = np.random.default_rng(4)
    x, n = random.normal(0, 2, 500), random.integers(0, 6, 500)
    passes = random.binomial(n[:, None], expit(GAMMA * (x[:, None] - BETA)))
    slope, intercept = logistic_curves(x, passes, n)
    for c in range(5):
        answers = np.repeat([1, 0], 500)
        weight = np.concatenate([passes[:, c], n - passes[:, c]])
        theirs = LogisticRegression(C=1e9, tol=1e-10, max_iter=1000).fit(
            np.tile(x, 2)[:, None], answers, sample_weight=weight
        )
        assert slope[c] == pytest.approx(theirs.coef_[0, 0], rel=1e-4)
        assert intercept[c] == pytest.approx(theirs.intercept_[0], rel=1e-4, abs=1e-4)


@quick
def test_logistic_curves_of_separated_constant_and_absent_answers_are_finite():
    x = np.linspace(-2, 2, 40)
    passes = np.column_stack([x > 0, np.zeros(40), np.ones(40), np.zeros(40)])
    n = np.ones((40, 4))
    n[:, 3] = 0
    slope, intercept = logistic_curves(x, passes, n)
    assert np.isfinite([*slope, *intercept]).all()
    p = expit(x[:, None] * slope + intercept)
    np.testing.assert_allclose(p[:, :3], passes[:, :3], atol=1e-3)
    assert (slope[3], intercept[3]) == (0, 0)


def test_cross_entropy_of_scikit_learn():
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    from sklearn.metrics import log_loss

    random = np.random.default_rng(5)
    z, n = random.normal(0, 2, (30, 2)), random.integers(1, 6, 30)
    passes = random.binomial(n[:, None], 0.4, (30, 2))
    answers = np.repeat([1, 0], 60)
    weight = np.concatenate([passes.ravel(), (n[:, None] - passes).ravel()])
    expected = log_loss(answers, expit(np.tile(z.ravel(), 2)), sample_weight=weight)
    assert cross_entropy(z, passes, n) == pytest.approx(expected, abs=1e-12)


@quick
def test_cross_entropy_of_certainty():
    sure = [[np.inf, -np.inf]]
    assert cross_entropy(sure, [[3, 0]], [3]) == 0
    assert cross_entropy(sure, [[2, 0]], [3]) == np.inf
    assert cross_entropy([[900.0, -900.0]], [[2, 0]], [3]) == pytest.approx(900 / 6)
    assert np.isnan(cross_entropy(sure, [[0, 0]], [0]))


@quick
@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=1, max_size=25))
def test_auc_is_the_share_of_pairs_in_order(documents):
    score, positive = map(np.array, zip(*documents, strict=True))
    pairs = list(itertools.product(score[positive], score[~positive]))
    wins = [1.0 if yes > no else 0.5 if yes == no else 0.0 for yes, no in pairs]
    found = auc(score, positive)
    assert np.isnan(found) if not pairs else found == pytest.approx(np.mean(wins), abs=1e-12)


@quick
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: assess([0.5, 1.2], [0, 1]), r"p must lie in \[0, 1\]; it holds 1.2"),
        (lambda: assess([0.5, 0.2], [0, 2]), r"outcome must lie in \[0, 1\]; it holds 2"),
        (lambda: assess([0.5], [0, 1]), "outcome must have shape"),
        (lambda: assess([0.5], [0], [-1]), "weight must hold no number below 0"),
        (lambda: assess([0.5], [0], [0]), "one above it"),
        (lambda: assess([0.5], [np.nan]), "outcome must be finite"),
        (lambda: auc([1.0, np.nan], [True, False]), "score must be finite"),
        (lambda: auc([1.0], [True, False]), "positive must have shape"),
        (lambda: yen_q3([[1, 0]], [1], [[0.5]]), "p must have shape"),
        (lambda: cross_entropy([[0.0]], [[2]], [1]), "2 passes in 1 placements"),
    ],
)
def test_bad_numbers_are_refused(call, message):
    with pytest.raises(RCPError, match=message):
        call()
