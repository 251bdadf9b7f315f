"""The Rasch fit of Stage B's second half: the number to reproduce, derivatives, edges, refusals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize
from scipy.special import expit

from rcp_irx import RCPError
from rcp_irx.calibration import fit_rasch
from rcp_irx.calibration.rasch import evaluate_rasch
from tests.conftest import cases

pytestmark = pytest.mark.quick

PASSES = np.array([[3, 1, 0], [2, 2, 1], [0, 0, 0], [4, 4, 4], [0, 0, 0]])
PLACEMENTS = np.array([3, 4, 2, 4, 0])


@pytest.mark.parametrize("case", cases("rasch"))
def test_numbers_to_reproduce(case: dict) -> None:
    given_ = case["input"]
    fit = fit_rasch(given_["S"], given_["n"], ridge=given_["ridge"])
    for field in ("theta", "beta"):
        np.testing.assert_allclose(
            getattr(fit, field), case["expected"][field], rtol=0, atol=case["tolerance"][field], err_msg=field
        )
    assert fit.converged
    assert fit.gradient_norm < 1e-10


def test_objective_is_the_mean_cross_entropy_and_the_ridge() -> None:
    point = np.array([0.2, -0.4, 1.0, 0.5, -0.3, 0.9, -1.2, 0.6])
    theta, v = point[:5], point[5:]
    chance = expit(theta[:, None] - (v - v.mean()))
    failed = PLACEMENTS[:, None] - PASSES
    loss = -np.sum(PASSES * np.log(chance) + failed * np.log(1 - chance)) / (PLACEMENTS.sum() * 3)
    placed = np.repeat(PLACEMENTS[:, None], 3, axis=1).astype(float)
    here = evaluate_rasch(point, PASSES.astype(float), placed, 0.01)
    assert here.objective == pytest.approx(loss + 0.005 * point @ point, abs=1e-14)


def test_gradient_and_newton_step_match_central_differences() -> None:
    point, h = np.random.default_rng(3).normal(size=8), 1e-5
    placed = np.repeat(PLACEMENTS[:, None], 3, axis=1).astype(float)

    def at(p: np.ndarray) -> tuple[float, np.ndarray]:
        here = evaluate_rasch(p, PASSES.astype(float), placed, 0.01)
        return here.objective, here.gradient

    steps = h * np.eye(8)
    here = evaluate_rasch(point, PASSES.astype(float), placed, 0.01)
    np.testing.assert_allclose(
        here.gradient, [(at(point + e)[0] - at(point - e)[0]) / (2 * h) for e in steps], atol=1e-9
    )
    hessian = np.array([(at(point + e)[1] - at(point - e)[1]) / (2 * h) for e in steps])
    np.testing.assert_allclose(hessian @ here.newton_step(), -here.gradient, atol=1e-8)


def test_another_optimiser_from_another_start_agrees() -> None:
    placed = np.repeat(PLACEMENTS[:, None], 3, axis=1).astype(float)

    def function(point: np.ndarray) -> tuple[float, np.ndarray]:
        here = evaluate_rasch(point, PASSES.astype(float), placed, 0.01)
        return here.objective, here.gradient

    start = np.random.default_rng(4).normal(scale=3, size=8)
    other = minimize(function, start, jac=True, method="BFGS", options={"gtol": 1e-10})
    fit = fit_rasch(PASSES, PLACEMENTS, ridge=0.01)
    np.testing.assert_allclose(fit.theta, other.x[:5], atol=1e-6)
    np.testing.assert_allclose(fit.beta, other.x[5:] - other.x[5:].mean(), atol=1e-6)


@given(arrays(np.int64, (6, 3), elements=st.integers(0, 4)), arrays(np.int64, 6, elements=st.integers(0, 4)))
@settings(max_examples=50, deadline=None)
def test_finite_centred_and_ordered_by_passes(passes: np.ndarray, placements: np.ndarray) -> None:
    passes = np.minimum(passes, placements[:, None])
    fit = fit_rasch(passes, placements)
    assert fit.converged
    assert np.isfinite(fit.theta).all()
    assert fit.beta.sum() == pytest.approx(0.0, abs=1e-9)
    assert (fit.theta[placements == 0] == 0.0).all()
    # The number passed is sufficient for the ability: of equally often placed documents, more passes rank higher.
    for i in range(6):
        for j in range(6):
            if placements[i] == placements[j] and passes[i].sum() > passes[j].sum():
                assert fit.theta[i] > fit.theta[j]


def test_placements_of_single_criteria() -> None:
    whole = fit_rasch(PASSES, np.repeat(PLACEMENTS[:, None], 3, axis=1))
    assert whole.theta.tobytes() == fit_rasch(PASSES, PLACEMENTS).theta.tobytes()
    only_first = fit_rasch([[1, 0], [0, 0]], [[2, 0], [2, 0]])
    assert only_first.theta[0] > only_first.theta[1]
    with pytest.raises(RCPError, match="row 0, criterion 1: 1 passes in 0 placements"):
        fit_rasch([[1, 1], [0, 0]], [[2, 0], [2, 0]])


@pytest.mark.parametrize("documents", [0, 3])
def test_no_placement_at_all_gives_zeros(documents: int) -> None:
    fit = fit_rasch(np.zeros((documents, 4)), np.zeros(documents))
    assert fit.theta.tolist() == [0.0] * documents
    assert fit.beta.tolist() == [0.0] * 4
    assert fit.converged


@pytest.mark.parametrize(
    ("passes", "placements", "message"),
    [
        ([[1, 2], [1, 3]], [2, 2], "row 1, criterion 1: 3 passes in 2 placements"),
        ([[1, 2], [-1, 0]], [2, 2], "row 1, criterion 0: -1 passes"),
        ([[1, 2], [0.5, 0]], [2, 2], "row 1, criterion 0: 0.5 passes"),
        ([[1, 2], [1, np.nan]], [2, 2], "passes must be finite: row 1"),
        ([[1, 2], [1, 2]], [2, np.inf], "placements must be finite: row 1"),
        ([[1, 2], [1, 2]], [2, 2, 2], "placements must have shape"),
        ([[1, 2], [1, 2]], [[2], [2]], "placements must have shape"),
        ([1, 2], [2, 2], "passes must have the shape"),
        ([[], []], [2, 2], "passes must have the shape"),
        ([["a"]], [1], "passes must be an array of numbers"),
    ],
)
def test_bad_counts_are_named(passes: list, placements: list, message: str) -> None:
    with pytest.raises(RCPError, match=message):
        fit_rasch(passes, placements)
