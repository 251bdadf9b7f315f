"""Gains and information: the numbers to reproduce, Lemma I.1, Propositions 3.1 and I.3, the gains of Section E.5."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq
from scipy.special import expit

from rcp_irx import RCPError, calibration
from rcp_irx.calibration import (
    centre,
    count_gain,
    criterion_gain,
    gain,
    linear_gain,
    logistic_gain,
    min_max_gain,
    pass_probabilities,
    unweighted_gain,
)
from tests.conftest import cases

pytestmark = pytest.mark.quick

# Table 1 of the paper, rounded as printed.
GAMMA = [1.17, 1.05, 0.94, 1.16, 0.69]
BETA = [-2.57, -2.00, -0.25, 0.71, 4.12]


@st.composite
def rubrics(draw: st.DrawFn) -> tuple[list[float], list[float]]:
    """Discriminations and difficulties of one to six criteria; logits stay below 20 in size for abilities up to 6."""
    criteria = draw(st.integers(1, 6))
    gamma = draw(st.lists(st.floats(0.2, 2.0), min_size=criteria, max_size=criteria))
    return gamma, draw(st.lists(st.floats(-4.0, 4.0), min_size=criteria, max_size=criteria))


@pytest.mark.parametrize("case", cases("gain"))
def test_gain_and_information_to_reproduce(case: dict) -> None:
    given_, expected, tolerance = case["input"], case["expected"], case["tolerance"]
    assert gain(**given_) == pytest.approx(expected["gain"], abs=tolerance["gain"])
    information = calibration.test_information(**given_)
    assert information == pytest.approx(expected["information"], abs=tolerance["information"])


@pytest.mark.parametrize("case", cases("count"))
def test_count_gains_to_reproduce(case: dict) -> None:
    given_, expected, tolerance = case["input"], case["expected"], case["tolerance"]
    assert count_gain(given_["S"], given_["n"]) == pytest.approx(expected["count"], abs=tolerance["count"])
    weighted = count_gain(given_["S"], given_["n"], given_["gamma"])
    assert weighted == pytest.approx(expected["weighted"], abs=tolerance["weighted"])


def test_the_papers_gains_at_two_difficulties() -> None:
    # Section 3.4: on NanoBEIR the gain is 0.22 at C1's difficulty and 0.69 at C4's.
    np.testing.assert_allclose(gain([-2.57, 0.71], GAMMA, BETA), [0.22, 0.69], atol=0.005)


@given(rubrics(), st.floats(-8, 8))
@settings(deadline=None)
def test_slope_is_information_over_the_sum_of_discriminations(rubric: tuple, theta: float) -> None:
    gamma, beta = rubric
    slope = (gain(theta + 1e-5, gamma, beta) - gain(theta - 1e-5, gamma, beta)) / 2e-5
    assert slope == pytest.approx(calibration.test_information(theta, gamma, beta) / sum(gamma), abs=1e-9)


@given(rubrics(), st.lists(st.floats(-2, 2), min_size=2, max_size=8), st.floats(0.1, 2), st.floats(-2, 2))
@settings(deadline=None)
def test_gain_keeps_the_order_of_scores(rubric: tuple, bt: list[float], tau: float, alpha: float) -> None:
    gamma, beta = rubric
    scores = np.sort(bt)
    gains = gain(tau * scores + alpha, gamma, beta)
    assert (np.diff(gains) >= 0).all()
    assert (gains[1:] > gains[:-1])[np.diff(scores) > 1e-3].all()  # closer ones may round to one gain
    assert ((gains > 0) & (gains < 1)).all()


@given(rubrics(), st.floats(-1e300, 1e300))
@settings(deadline=None)
def test_gain_saturates_and_never_leaves_the_unit_interval(rubric: tuple, theta: float) -> None:
    gamma, beta = rubric
    assert 0 <= gain(theta, gamma, beta) <= 1
    assert np.isfinite(calibration.test_information(theta, gamma, beta))


def test_gain_at_large_abilities() -> None:
    assert gain([-1e6, 1e6], GAMMA, BETA).tolist() == [0.0, 1.0]


@given(rubrics(), st.integers(1, 6), st.data())
@settings(deadline=None)
def test_counting_is_rubric_only_scoring(rubric: tuple, placements: int, data: st.DataObject) -> None:
    # Proposition I.3: the gain at the rubric-only maximum-likelihood ability is the weighted pass share.
    gamma, beta = rubric
    passes = np.array([data.draw(st.integers(0, placements)) for _ in gamma])
    share = count_gain(passes, placements, gamma)
    if 0 < passes.sum() < placements * len(gamma):

        def slope(theta: float) -> float:
            return float(np.sum(gamma * (passes - placements * pass_probabilities(theta, gamma, beta))))

        assert gain(brentq(slope, -200, 200, xtol=1e-13), gamma, beta) == pytest.approx(share, abs=1e-9)
    else:
        assert share in (0.0, 1.0)


def test_the_scale_of_gamma_cancels_in_a_weighted_share() -> None:
    passes, placements = [[2, 0, 1], [3, 3, 0]], [2, 3]
    np.testing.assert_allclose(
        count_gain(passes, placements, [2.0, 1.0, 0.5]), count_gain(passes, placements, [4.0, 2.0, 1.0]), rtol=1e-15
    )
    np.testing.assert_allclose(count_gain(passes, placements, [7.0] * 3), count_gain(passes, placements), rtol=1e-15)


def test_count_gain_without_a_placement_is_nan() -> None:
    np.testing.assert_array_equal(count_gain([[0, 0], [1, 2]], [0, 2]), [np.nan, 0.75])
    np.testing.assert_array_equal(count_gain([[0, 1], [0, 0]], [[0, 2], [0, 0]]), [0.5, np.nan])


def test_shapes() -> None:
    theta = np.zeros((2, 3))
    assert pass_probabilities(theta, GAMMA, BETA).shape == (2, 3, 5)
    assert gain(theta, GAMMA, BETA).shape == calibration.test_information(theta, GAMMA, BETA).shape == (2, 3)
    assert pass_probabilities(0.0, GAMMA, BETA).shape == (5,)
    assert gain([], GAMMA, BETA).shape == (0,)
    assert count_gain(np.zeros((4, 2, 5)), np.ones((4, 2))).shape == (4, 2)


def test_pass_probability_is_one_half_at_the_difficulty() -> None:
    assert np.diag(pass_probabilities(BETA, GAMMA, BETA)).tolist() == [0.5] * 5


def test_raw_scores_are_centred_per_query() -> None:
    assert centre([1.0, 5.0, 3.0, 9.0], [0, 1, 0, 1]).tolist() == [-1.0, -2.0, 1.0, 2.0]
    assert centre([4.0], [0]).tolist() == [0.0]


@given(
    st.lists(st.tuples(st.floats(-5, 5), st.integers(0, 2)), min_size=1, max_size=12), st.randoms(use_true_random=False)
)
@settings(deadline=None)
def test_centring_does_not_depend_on_row_order(rows: list, random: object) -> None:
    order = list(range(len(rows)))
    random.shuffle(order)  # type: ignore[attr-defined]  # hypothesis's Random
    bt = np.array([row[0] for row in rows])
    codes = np.unique([row[1] for row in rows], return_inverse=True)[1]
    assert centre(bt[order], codes[order]).tobytes() == centre(bt, codes)[order].tobytes()


def test_alternative_gains_by_hand() -> None:
    theta = np.array([-1.0, 0.0, 3.0])
    np.testing.assert_allclose(unweighted_gain(theta, [2.0, 1.0], [0.0, 0.0]), (expit(2 * theta) + expit(theta)) / 2)
    np.testing.assert_allclose(logistic_gain(theta), 1 / (1 + np.exp(-theta)))
    np.testing.assert_allclose(criterion_gain(theta, GAMMA, BETA, 3), expit(1.16 * (theta - 0.71)))
    assert linear_gain(theta, -2.0, 2.0).tolist() == [0.25, 0.5, 1.0]
    assert min_max_gain([-1.0, 7.0, 0.0, 7.0, 3.0, 9.0], [0, 1, 0, 1, 0, 2]).tolist() == [0.0, 1.0, 0.25, 1.0, 1.0, 1.0]


@pytest.mark.parametrize(
    ("gamma", "beta", "message"),
    [
        ([1.0, 0.0], [0.0, 1.0], "criterion 1 has 0.0"),
        ([1.0, -1.0], [0.0, 1.0], "criterion 1 has -1.0"),
        ([1.0], [0.0, 1.0], "gamma must have shape"),
        ([1.0, np.nan], [0.0, 1.0], "gamma must be finite"),
        ([], [], "beta must have shape"),
        (1.0, 0.0, "beta must have shape"),
    ],
)
def test_bad_criteria_are_refused(gamma: Any, beta: Any, message: str) -> None:
    for function in (gain, calibration.test_information, pass_probabilities):
        with pytest.raises(RCPError, match=message):
            function(0.0, gamma, beta)


def test_bad_arguments_are_refused() -> None:
    with pytest.raises(RCPError, match="criterion 5 is not one of"):
        criterion_gain(0.0, GAMMA, BETA, 5)
    with pytest.raises(RCPError, match="low must be below high"):
        linear_gain([0.0], 1.0, 1.0)
    with pytest.raises(RCPError, match="do not fit"):
        count_gain([[1, 2]], [1, 2, 3])
    with pytest.raises(RCPError, match="3 passes in 2"):
        count_gain([3, 0], 2)
    with pytest.raises(RCPError, match="bt must be finite: row 1"):
        centre([0.0, np.nan], [0, 0])
    with pytest.raises(RCPError, match="query code 1 has no row"):
        centre([0.0, 1.0, 1.0], [0, 0, 2])
