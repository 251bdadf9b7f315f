"""The calibration fit: the numbers to reproduce, Eq. 7 and its derivatives, symmetries, edges, errors, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit
from threadpoolctl import threadpool_limits

from rcp_irx import RCPError, RCPWarning
from rcp_irx.calibration import TwoPLFit, fit_2pl, gain
from rcp_irx.calibration._posterior import Posterior, make_posterior
from tests.analysis import simulated_suites
from tests.benchmarks.calibration import BETA, GAMMA, simulated_suite
from tests.conftest import cases

pytestmark = pytest.mark.quick

ESTIMATES = ("theta", "tau", "alpha", "gamma", "beta")
ERRORS = ("theta_se", "tau_se", "alpha_se", "gamma_se", "beta_se")


def assert_same(one: TwoPLFit, other: TwoPLFit, atol: float) -> None:
    for field in (*ESTIMATES, *ERRORS):
        np.testing.assert_allclose(getattr(one, field), getattr(other, field), rtol=0, atol=atol, err_msg=field)


def assert_sound(fit: TwoPLFit) -> None:
    assert fit.converged
    assert fit.gradient_norm < 1e-10
    for field in (*ESTIMATES, *ERRORS):
        assert np.isfinite(getattr(fit, field)).all(), field
    assert (fit.tau > 0).all()
    assert fit.gamma.sum() == pytest.approx(len(fit.gamma), abs=1e-12)
    assert fit.beta.sum() == pytest.approx(0.0, abs=1e-12)


def differences(posterior: Posterior, point: np.ndarray, h: float = 1e-5) -> np.ndarray:
    """The Hessian by central differences of the gradient."""
    steps = h * np.eye(point.size)
    slope = [
        posterior.objective_and_gradient(point + e)[1] - posterior.objective_and_gradient(point - e)[1] for e in steps
    ]
    return np.array(slope) / (2 * h)


@pytest.mark.parametrize("case", cases("fit2pl"))
def test_numbers_to_reproduce(case: dict) -> None:
    given_, expected, tolerance = case["input"], case["expected"], case["tolerance"]
    fit = fit_2pl(
        given_["bt"],
        given_["S"],
        given_["n"],
        given_["query_index"],
        sigma_tau=given_["sigma_tau"],
        sigma_alpha=given_["sigma_alpha"],
        ridge=given_["ridge"],
    )
    found = {field: getattr(fit, field) for field in (*ESTIMATES, "objective")}
    found["gain"] = gain(fit.theta, fit.gamma, fit.beta)
    assert set(expected) == set(found)
    for field, numbers in expected.items():
        np.testing.assert_allclose(found[field], numbers, rtol=0, atol=tolerance[field], err_msg=field)
    assert_sound(fit)
    assert fit.n_iter <= 13


def test_objective_is_equation_7() -> None:
    bt, passes = np.array([0.5, -1.0, 2.0]), np.array([[2, 0], [1, 1], [3, 2]])
    placements, queries = np.array([2, 3, 3]), np.array([0, 1, 1])
    t, alpha, u, v = np.array([0.3, -0.2]), np.array([0.4, -1.0]), np.array([0.2, -0.5]), np.array([1.0, -0.3])
    tau, gamma, beta = np.log1p(np.exp(t)), 2 * np.exp(u) / np.exp(u).sum(), v - v.mean()
    chance = expit(gamma * ((tau[queries] * bt + alpha[queries])[:, None] - beta))
    loss = -np.sum(passes * np.log(chance) + (placements[:, None] - passes) * np.log(1 - chance))
    priors = np.sum((tau - 1) ** 2) / (2 * 0.8**2) + np.sum(alpha**2) / (2 * 1.5**2)
    expected = (loss + priors) / (8 * 2) + 0.01 / 2 * (u @ u + v @ v)
    posterior, _ = make_posterior(bt, passes, placements, queries, sigma_tau=0.8, sigma_alpha=1.5, ridge=0.01)
    objective, _ = posterior.objective_and_gradient(np.concatenate([t, alpha, u, v]))
    assert objective == pytest.approx(expected, abs=1e-14)


@pytest.mark.parametrize("frozen", [{}, {"gamma": GAMMA, "beta": BETA}])
def test_gradient_and_hessian_match_central_differences(frozen: dict) -> None:
    bt, passes, placements, queries = simulated_suite(3, 6, 4, seed=1)
    posterior, _ = make_posterior(bt, passes, placements, queries, **frozen)
    point, h = np.random.default_rng(5).normal(size=6 if frozen else 16), 1e-5
    objective = [posterior.objective_and_gradient(point + e)[0] for e in h * np.eye(point.size)]
    opposite = [posterior.objective_and_gradient(point - e)[0] for e in h * np.eye(point.size)]
    here = posterior.evaluate(point)
    np.testing.assert_allclose(here.gradient, (np.array(objective) - opposite) / (2 * h), atol=1e-9)

    blocks = here.hessian()
    hessian = np.zeros((point.size, point.size))
    for j in range(3):
        hessian[np.ix_([j, 3 + j], [j, 3 + j])] = blocks.query[j]
        hessian[np.ix_([j, 3 + j], range(6, point.size))] = blocks.cross[j]
    hessian[6:, :6] = hessian[:6, 6:].T
    hessian[6:, 6:] = blocks.criterion
    np.testing.assert_allclose(hessian, differences(posterior, point) * posterior.answers, atol=1e-6)


def test_another_optimiser_from_random_starts_finds_nothing_better() -> None:
    suite = simulated_suite(4, 15, 3, seed=2)
    fit, (posterior, _) = fit_2pl(*suite), make_posterior(*suite)
    for seed in range(5):
        start = posterior.start() + np.random.default_rng(seed).normal(size=posterior.start().size)
        other = minimize(posterior.objective_and_gradient, start, jac=True, method="BFGS", options={"gtol": 1e-9})
        at = posterior.unpack(other.x)
        assert other.fun == pytest.approx(fit.objective, abs=1e-11)
        for field in ("tau", "alpha", "gamma", "beta"):
            np.testing.assert_allclose(getattr(at, field), getattr(fit, field), atol=1e-4, err_msg=field)


def test_standard_errors_are_those_of_the_dense_inverse_hessian() -> None:
    suite = simulated_suite(3, 10, 5, seed=3)
    bt, _, _, queries = suite
    fit, (posterior, _) = fit_2pl(*suite), make_posterior(*suite)
    u = np.log(fit.gamma) - np.log(fit.gamma).mean()
    point = np.concatenate([np.log(np.expm1(fit.tau)), fit.alpha, u, fit.beta])
    assert np.abs(posterior.objective_and_gradient(point)[1]).max() < 1e-10

    def estimates(parameters: np.ndarray) -> np.ndarray:
        at = posterior.unpack(parameters)
        theta = at.tau[queries] * bt + at.alpha[queries]
        return np.concatenate([theta, at.tau, at.alpha, at.gamma, at.beta])

    covariance = np.linalg.inv(differences(posterior, point) * posterior.answers)
    jacobian = np.array([(estimates(point + e) - estimates(point - e)) / 2e-5 for e in 1e-5 * np.eye(point.size)]).T
    expected = np.sqrt(np.diag(jacobian @ covariance @ jacobian.T))
    found = np.concatenate([getattr(fit, field) for field in ERRORS])
    np.testing.assert_allclose(found, expected, rtol=1e-4)


def test_standard_errors_cover_the_truth() -> None:
    # 80 queries of the paper's criteria: about 95% of offsets should lie within 1.96 standard errors of the truth.
    random = np.random.default_rng(7)
    codes = np.repeat(np.arange(80), 40)
    bt, alpha = random.normal(0, 1.5, codes.size), random.normal(0, 1.5, 80)
    passes = random.binomial(5, expit(GAMMA * ((bt + alpha[codes])[:, None] - BETA)))
    fit = fit_2pl(bt, passes, np.full(codes.size, 5), codes, gamma=GAMMA, beta=BETA)
    assert np.mean(np.abs(fit.alpha - alpha) < 1.96 * fit.alpha_se) == pytest.approx(0.95, abs=0.05)


def test_known_criteria_come_back() -> None:
    bt, passes, placements, queries = simulated_suite(40, 60, 7, seed=4)
    fit = fit_2pl(bt, passes, placements, queries)
    np.testing.assert_allclose(fit.gamma, GAMMA * 5 / GAMMA.sum(), atol=0.05)
    # The ridge does not fade with the data: it pulls the hardest criterion in by about 0.3, which moves the mean too.
    np.testing.assert_allclose(fit.beta, BETA - BETA.mean(), atol=0.4)
    assert (np.diff(fit.beta) > 0).all()


@given(st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_order_of_rows_changes_no_bit(seed: int) -> None:
    random = np.random.default_rng(seed)
    bt, passes, placements, queries = simulated_suite(4, 8, 3, seed=seed)
    bt = bt.round(1)  # ties, too
    order = random.permutation(bt.size)
    one = fit_2pl(bt, passes, placements, queries)
    other = fit_2pl(bt[order], passes[order], placements[order], queries[order])
    for field in ESTIMATES + ERRORS:
        expected = getattr(one, field)[order] if field.startswith("theta") else getattr(one, field)
        assert getattr(other, field).tobytes() == expected.tobytes(), field


@given(st.integers(0, 10_000))
@settings(max_examples=20, deadline=None)
def test_calibration_keeps_each_querys_order(seed: int) -> None:
    bt, passes, placements, queries = simulated_suite(3, 10, 3, seed=seed)
    fit = fit_2pl(bt, passes, placements, queries)
    assert_sound(fit)
    for j in range(3):
        rows = np.flatnonzero(queries == j)
        assert np.argsort(fit.theta[rows]).tolist() == np.argsort(bt[rows]).tolist()
        np.testing.assert_allclose(fit.theta[rows], fit.tau[j] * bt[rows] + fit.alpha[j], rtol=1e-14)


def test_blas_threads_change_no_bit() -> None:
    suite = simulated_suite(50, 30, seed=6)
    with threadpool_limits(1, user_api="blas"):
        one = fit_2pl(*suite)
    with threadpool_limits(4, user_api="blas"):
        many = fit_2pl(*suite)
    assert one.theta.tobytes() == many.theta.tobytes()
    assert one.gamma_se.tobytes() == many.gamma_se.tobytes()


def test_missing_answers_equal_answers_that_were_never_asked() -> None:
    # A document asked about its criteria apart is the same as two rows, each asked about some of them.
    bt, passes, placements, queries = simulated_suite(3, 8, 4, seed=8)
    placed = np.repeat(placements[:, None], 5, axis=1)
    missing = np.random.default_rng(9).random(passes.shape) < 0.3
    passes, placed = np.where(missing, 0, passes), np.where(missing, 0, placed)
    fit = fit_2pl(bt, passes, placed, queries)
    first, second = np.array([1, 1, 0, 0, 0]), np.array([0, 0, 1, 1, 1])
    halves = fit_2pl(
        np.tile(bt, 2),
        np.vstack([passes * first, passes * second]),
        np.vstack([placed * first, placed * second]),
        np.tile(queries, 2),
    )
    assert_sound(fit)
    assert halves.objective == pytest.approx(fit.objective, abs=1e-14)
    np.testing.assert_allclose(halves.gamma, fit.gamma, atol=1e-10)
    np.testing.assert_allclose(halves.theta, np.tile(fit.theta, 2), atol=1e-10)


def test_placements_per_document_and_per_criterion_are_alike() -> None:
    bt, passes, placements, queries = simulated_suite(3, 8, 4, seed=8)
    one = fit_2pl(bt, passes, placements, queries)
    assert_same(one, fit_2pl(bt, passes, np.repeat(placements[:, None], 5, axis=1), queries), atol=0.0)


def test_a_document_without_placements_gets_an_ability_and_changes_nothing() -> None:
    bt, passes, placements, queries = simulated_suite(2, 6, 4, seed=10)
    one = fit_2pl(bt, passes, placements, queries)
    other = fit_2pl([*bt, 0.5], np.vstack([passes, np.zeros(5)]), [*placements, 0], [*queries, 1])
    np.testing.assert_allclose(other.tau, one.tau, atol=1e-10)
    assert other.theta[-1] == pytest.approx(one.tau[1] * 0.5 + one.alpha[1], abs=1e-9)


def test_a_query_without_placements_gets_the_priors() -> None:
    bt, passes, placements, queries = simulated_suite(2, 6, 4, seed=11)
    fit = fit_2pl([*bt, 0.7, -0.7], np.vstack([passes, np.zeros((2, 5))]), [*placements, 0, 0], [*queries, 2, 2])
    assert fit.tau[2] == pytest.approx(1.0, abs=1e-9)
    assert fit.alpha[2] == 0.0
    assert (fit.tau_se[2], fit.alpha_se[2]) == (pytest.approx(1.0, abs=1e-9), pytest.approx(2.0, abs=1e-9))
    assert fit.theta[-2:].tolist() == pytest.approx([0.7, -0.7], abs=1e-9)


@pytest.mark.parametrize("share", [0, 1])
def test_queries_that_fail_or_pass_everything_stay_finite(share: int) -> None:
    bt, passes, placements, queries = simulated_suite(4, 20, 5, seed=12)
    passes = np.where((queries == 1)[:, None], share * 5, passes)
    fit = fit_2pl(bt, passes, placements, queries)
    assert_sound(fit)
    assert np.sign(fit.alpha[1]) == (1 if share else -1)
    assert abs(fit.alpha[1]) == np.abs(fit.alpha).max()
    assert fit.alpha_se[1] == fit.alpha_se.max()


@pytest.mark.parametrize("share", [0, 1])
def test_a_whole_suite_that_fails_or_passes_everything_stays_finite(share: int) -> None:
    bt, passes, placements, queries = simulated_suite(3, 10, 5, seed=13)
    assert_sound(fit_2pl(bt, np.full_like(passes, 5 * share), placements, queries))


def test_answers_against_the_tournament_leave_a_small_positive_scale() -> None:
    bt, passes, placements, queries = simulated_suite(3, 20, 7, seed=14)
    bt[queries == 0] *= -1
    fit = fit_2pl(bt, passes, placements, queries)
    assert_sound(fit)
    assert 0 < fit.tau[0] < 1e-3
    rows = np.flatnonzero(queries == 0)
    assert np.argsort(fit.theta[rows]).tolist() == np.argsort(bt[rows]).tolist()


@pytest.mark.parametrize("spread", [0.0, 0.01, 10.0, 1000.0])
def test_scores_of_any_spread(spread: float) -> None:
    bt, passes, placements, queries = simulated_suite(4, 20, 5, seed=15)
    assert_sound(fit_2pl(spread * bt, passes, placements, queries))


def test_a_fit_beyond_float64_says_so() -> None:
    bt, passes, placements, queries = simulated_suite(4, 20, 5, seed=15)
    with pytest.warns(RCPWarning, match="the 2PL fit stopped at a gradient of"):
        fit = fit_2pl(1e150 * bt, passes, placements, queries)
    assert not fit.converged
    assert np.isnan(fit.tau_se).all()


@pytest.mark.parametrize("criteria", [1, 2, 7])
def test_any_number_of_criteria(criteria: int) -> None:
    random = np.random.default_rng(16)
    bt, queries = random.normal(size=60), np.repeat(np.arange(3), 20)
    passes = random.binomial(4, expit(bt[:, None] - np.linspace(-1, 1, criteria)))
    fit = fit_2pl(bt, passes, np.full(60, 4), queries)
    assert_sound(fit)
    if criteria == 1:
        assert (fit.gamma[0], fit.beta[0], fit.gamma_se[0], fit.beta_se[0]) == (1.0, 0.0, 0.0, 0.0)


def test_pools_of_one_and_ragged_pools() -> None:
    bt, passes, placements, _ = simulated_suite(1, 12, 5, seed=17)
    fit = fit_2pl(bt, passes, placements, [0, 1, 1, 1, 2, 3, 3, 3, 3, 3, 3, 4])
    assert_sound(fit)
    assert_sound(fit_2pl([0.4], [[1, 0]], [2], [0]))


def test_repeating_all_answers_only_lightens_the_priors() -> None:
    # Eq. 7 divides likelihood and priors by N C alike: k-fold answers with priors k-fold in precision fit the same.
    bt, passes, placements, queries = simulated_suite(4, 12, 3, seed=18)
    one = fit_2pl(bt, passes, placements, queries)
    four = fit_2pl(bt, 4 * passes, 4 * placements, queries, sigma_tau=0.5, sigma_alpha=1.0)
    assert four.objective == pytest.approx(one.objective, abs=1e-12)
    for field in ESTIMATES:
        np.testing.assert_allclose(getattr(four, field), getattr(one, field), atol=1e-8, err_msg=field)
    for field in ERRORS:
        np.testing.assert_allclose(getattr(four, field), getattr(one, field) / 2, atol=1e-8, err_msg=field)


def test_frozen_criteria_are_used_as_given() -> None:
    bt, passes, placements, queries = simulated_suite(4, 12, 5, seed=19)
    free = fit_2pl(bt, passes, placements, queries)
    frozen = fit_2pl(bt, passes, placements, queries, gamma=free.gamma, beta=free.beta)
    np.testing.assert_allclose(frozen.theta, free.theta, atol=1e-8)
    assert frozen.gamma_se.tolist() == frozen.beta_se.tolist() == [0.0] * 5
    assert (frozen.alpha_se <= free.alpha_se).all()
    unnormalised = fit_2pl(bt, passes, placements, queries, gamma=2 * GAMMA, beta=BETA + 1)
    assert unnormalised.gamma.tolist() == (2 * GAMMA).tolist()
    assert unnormalised.beta.tolist() == (BETA + 1).tolist()
    assert unnormalised.converged


def test_a_query_alone_fits_as_in_company_once_criteria_are_frozen() -> None:
    bt, passes, placements, queries = simulated_suite(3, 12, 5, seed=20)
    together = fit_2pl(bt, passes, placements, queries, gamma=GAMMA, beta=BETA)
    rows = queries == 1
    alone = fit_2pl(bt[rows], passes[rows], placements[rows], queries[rows] - 1, gamma=GAMMA, beta=BETA)
    np.testing.assert_allclose(alone.theta, together.theta[rows], atol=1e-8)
    np.testing.assert_allclose(alone.theta_se, together.theta_se[rows], atol=1e-8)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bt": [0.0, np.nan, 1.0]}, "bt must be finite: row 1"),
        ({"bt": [0.0, 1.0]}, "bt must have shape"),
        ({"passes": [[1, 1], [1, 3], [0, 0]]}, "row 1, criterion 1: 3 passes in 2 placements"),
        ({"passes": [[1, 1], [-1, 1], [0, 0]]}, "row 1, criterion 0: -1 passes"),
        ({"passes": [[1, 1], [1, np.nan], [0, 0]]}, "passes must be finite: row 1"),
        ({"placements": [2, 2]}, "placements must have shape"),
        ({"placements": [2, np.inf, 2]}, "placements must be finite: row 1"),
        ({"placements": [0, 0, 0], "passes": [[0, 0]] * 3}, "no Stage B answer"),
        ({"placements": [[2, 0]] * 3, "passes": [[1, 0]] * 3}, "criterion 1 has no answer"),
        ({"queries": [0, 0, 2]}, "query code 1 has no row"),
        ({"queries": [0, -1, 1]}, "row 1: query code -1"),
        ({"queries": [0, 10**12, 1]}, "row 1: query code 1000000000000"),
        ({"queries": [0.0, 0.0, 1.0]}, "queries must be integer codes"),
        ({"queries": ["q1", "q1", "q2"]}, "queries must be integer codes"),
        ({"queries": [0, 1]}, "queries must have shape"),
        ({"gamma": [1.0, 1.0]}, "both gamma and beta"),
        ({"beta": [1.0, 1.0]}, "both gamma and beta"),
        ({"gamma": [1.0, 0.0], "beta": [0.0, 0.0]}, "gamma must be above 0"),
        ({"gamma": [1.0], "beta": [0.0]}, "gamma must have shape"),
        ({"sigma_tau": 0.0}, "sigma_tau must be"),
        ({"sigma_alpha": np.inf}, "sigma_alpha must be"),
        ({"ridge": -1.0}, "ridge must be"),
    ],
)
def test_bad_input_is_named(change: dict, message: str) -> None:
    good = {"bt": [0.0, 0.5, 1.0], "passes": [[1, 1], [1, 2], [0, 0]], "placements": [2, 2, 2], "queries": [0, 0, 1]}
    with pytest.raises(RCPError, match=message):
        fit_2pl(**{**good, **change})


def test_one_hard_criterion_for_many_queries_converges() -> None:
    suite = simulated_suites.suite(649, 150)
    fit = fit_2pl(suite.bt, suite.passes[:, [2]], suite.n, suite.query)
    assert fit.converged
    assert fit.tau.min() > 1e-3  # no scale was thrown to where its gradient vanishes
