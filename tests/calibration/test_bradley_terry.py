"""Stage A's fit: the numbers to reproduce, its derivatives, its symmetries, and what it refuses."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import expit, xlogy
from threadpoolctl import threadpool_info, threadpool_limits

from rcp_irx import RCPError
from rcp_irx.calibration import comparison_components, fit_bradley_terry
from rcp_irx.calibration.bradley_terry import add_up_preferences, evaluate_bradley_terry
from tests.benchmarks.calibration import simulated_tournament
from tests.conftest import cases

pytestmark = pytest.mark.quick


def indexed(case: dict) -> tuple[list[list[int]], list[list[float]], list[list[int]]]:
    """A case's windows and rankings with documents as indices."""
    given_ = case["input"]
    number = {docno: i for i, docno in enumerate(given_["docs"])}
    if "window_docs" in given_:
        windows, scores = given_["window_docs"], given_["window_scores"]
    else:
        windows, scores = [w[0] for w in given_["windows"]], [w[1] for w in given_["windows"]]
    return [[number[d] for d in w] for w in windows], scores, [[number[d] for d in r] for r in given_["rankings"]]


@st.composite
def tournaments(draw: st.DrawFn) -> tuple[list[list[int]], list[list[float]], int]:
    """A few windows of mixed sizes over up to eight items."""
    n_items = draw(st.integers(2, 8))
    windows, scores = [], []
    for _ in range(draw(st.integers(1, 6))):
        window = draw(st.lists(st.integers(0, n_items - 1), min_size=2, max_size=n_items, unique=True))
        windows.append(window)
        scores.append(
            draw(st.lists(st.integers(-50, 50).map(lambda x: x / 10), min_size=len(window), max_size=len(window)))
        )
    return windows, scores, n_items


@pytest.mark.parametrize("case", cases("bt"))
def test_numbers_to_reproduce(case: dict) -> None:
    windows, scores, rankings = indexed(case)
    fit = fit_bradley_terry(
        windows,
        scores,
        len(case["input"]["docs"]),
        rankings=rankings,
        clip=case["input"]["clip"],
        ridge=case["input"]["ridge"],
    )
    np.testing.assert_allclose(fit.theta, case["expected"]["theta"], rtol=0, atol=case["tolerance"]["theta"])
    assert fit.converged
    assert fit.gradient_norm < 1e-10


def test_two_items_one_window_by_hand() -> None:
    # With a negligible ridge the optimum reproduces the only preference there is: theta_0 - theta_1 = s_0 - s_1 = 1.5.
    fit = fit_bradley_terry([[0, 1]], [[2.0, 0.5]], 2, ridge=1e-9)
    assert fit.theta[0] - fit.theta[1] == pytest.approx(1.5, abs=1e-6)
    p = expit(1.5)
    assert fit.objective == pytest.approx(-xlogy(p, p) - xlogy(1 - p, 1 - p), abs=1e-6)


def test_objective_is_the_papers_sum_over_pairs() -> None:
    windows, scores, ranking = [[0, 1, 2], [3, 1]], [[1.0, -0.5, 0.2], [4.0, -4.0]], [2, 0, 3]
    theta, ridge = np.array([0.3, -0.7, 1.1, 0.4]), 0.01
    loss = total = 0.0
    for window, score in zip(windows, scores, strict=True):
        for a in range(len(window)):
            for b in range(a + 1, len(window)):
                p = np.clip(expit(score[a] - score[b]), 0.01, 0.99)
                q = expit(theta[window[a]] - theta[window[b]])
                loss -= 2 / len(window) * (p * np.log(q) + (1 - p) * np.log(1 - q))
                total += 2 / len(window)
    for better, worse in ((2, 0), (2, 3), (0, 3)):
        loss -= np.log(expit(theta[better] - theta[worse]))
        total += 1
    preferences = add_up_preferences(windows, scores, 4, [ranking], clip=0.01)
    assert evaluate_bradley_terry(theta, preferences, ridge).objective == pytest.approx(
        loss / total + ridge / 2 * theta @ theta, abs=1e-14
    )


def test_gradient_and_newton_step_match_central_differences() -> None:
    windows, scores = simulated_tournament(documents=12, windows=9, size=5, seed=1)
    preferences = add_up_preferences(windows, scores, 12, [[3, 1, 7]], clip=0.01)
    theta, h = np.random.default_rng(2).normal(size=12), 1e-5

    def at(point: np.ndarray) -> tuple[float, np.ndarray]:
        here = evaluate_bradley_terry(point, preferences, 1e-2)
        return here.objective, here.gradient

    steps = h * np.eye(12)
    slopes = [(at(theta + e)[0] - at(theta - e)[0]) / (2 * h) for e in steps]
    hessian = np.array([(at(theta + e)[1] - at(theta - e)[1]) / (2 * h) for e in steps])
    here = evaluate_bradley_terry(theta, preferences, 1e-2)
    np.testing.assert_allclose(here.gradient, slopes, atol=1e-9)
    np.testing.assert_allclose(hessian @ here.newton_step(), -here.gradient, atol=1e-8)


@given(tournaments(), st.randoms(use_true_random=False))
@settings(max_examples=40, deadline=None)
def test_order_of_windows_changes_no_bit(tournament: tuple, random: object) -> None:
    windows, scores, n_items = tournament
    order = list(range(len(windows)))
    random.shuffle(order)  # type: ignore[attr-defined]  # hypothesis's Random
    one = fit_bradley_terry(windows, scores, n_items)
    other = fit_bradley_terry([windows[i] for i in order], [scores[i] for i in order], n_items)
    assert one.theta.tobytes() == other.theta.tobytes()


@given(tournaments(), st.floats(-20, 20))
@settings(max_examples=40, deadline=None)
def test_only_differences_within_a_window_count(tournament: tuple, shift: float) -> None:
    windows, scores, n_items = tournament
    shifted = [[score + shift for score in scores[0]], *scores[1:]]
    one, other = fit_bradley_terry(windows, scores, n_items), fit_bradley_terry(windows, shifted, n_items)
    np.testing.assert_allclose(one.theta, other.theta, atol=1e-8)


@given(tournaments())
@settings(max_examples=40, deadline=None)
def test_finite_centred_and_antisymmetric(tournament: tuple) -> None:
    windows, scores, n_items = tournament
    fit = fit_bradley_terry(windows, scores, n_items, clip=None)
    mirrored = fit_bradley_terry(windows, [[-score for score in window] for window in scores], n_items, clip=None)
    assert fit.converged
    assert np.isfinite(fit.theta).all()
    assert fit.theta.sum() == pytest.approx(0.0, abs=1e-7)
    np.testing.assert_allclose(mirrored.theta, -fit.theta, atol=1e-7)
    shown = {item for window in windows for item in window}
    assert all(fit.theta[item] == 0.0 for item in range(n_items) if item not in shown)


def test_an_item_that_always_wins_stays_finite() -> None:
    fit = fit_bradley_terry([], [], 3, rankings=[[0, 1, 2]] * 50, clip=None)
    assert fit.converged
    assert 0 < fit.theta[0] < 30
    assert fit.theta[0] > fit.theta[1] > fit.theta[2]


def test_a_ranking_weighs_one_a_pair_and_a_window_two_over_w() -> None:
    # A scored window of four has pair weight 1/2, so that twice shown it weighs as much as one hard ranking.
    certain = [[40.0, 0.0, -40.0, -80.0]] * 2
    scored = fit_bradley_terry([[0, 1, 2, 3]] * 2, certain, 4, clip=None)
    ranked = fit_bradley_terry([], [], 4, rankings=[[0, 1, 2, 3]], clip=None)
    np.testing.assert_allclose(scored.theta, ranked.theta, atol=1e-8)
    assert scored.objective == pytest.approx(ranked.objective, abs=1e-12)


def test_clip_bounds_what_one_window_can_say() -> None:
    # sigma(10) is above .99, so with the clip and hardly a ridge the difference is logit(.99) = log 99.
    fit = fit_bradley_terry([[0, 1]], [[5.0, -5.0]], 2, ridge=1e-9)
    assert fit.theta[0] - fit.theta[1] == pytest.approx(np.log(99), abs=1e-4)


@pytest.mark.parametrize("windows", [[], [[2]], [[]]])
def test_nothing_compared_gives_exact_zeros(windows: list) -> None:
    fit = fit_bradley_terry(windows, [[0.5] * len(window) for window in windows], 4)
    assert fit.theta.tolist() == [0.0] * 4
    assert (fit.objective, fit.gradient_norm, fit.n_iter, fit.converged) == (0.0, 0.0, 0, True)


def test_an_empty_pool_gives_no_scores() -> None:
    assert fit_bradley_terry([], [], 0).theta.shape == (0,)


def test_arrays_and_lists_are_alike() -> None:
    windows, scores = simulated_tournament(documents=20, windows=8, size=10)
    one = fit_bradley_terry(windows, scores, 20)
    other = fit_bradley_terry(list(np.array(windows)), list(np.array(scores)), 20)
    assert one.theta.tobytes() == other.theta.tobytes()


def test_blas_threads_change_no_bit() -> None:
    windows, scores = simulated_tournament()
    with threadpool_limits(1, user_api="blas"):
        one = fit_bradley_terry(windows, scores, 150)
    with threadpool_limits(4, user_api="blas"):
        many = fit_bradley_terry(windows, scores, 150)
    assert one.theta.tobytes() == many.theta.tobytes()


def test_fits_of_several_threads_leave_the_blas_as_it_was() -> None:
    windows, scores = simulated_tournament(documents=40, windows=30)
    expected = fit_bradley_terry(windows, scores, 40)
    with threadpool_limits(2, user_api="blas"):
        before = [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
        with ThreadPoolExecutor(4) as threads:
            fits = list(threads.map(lambda _: fit_bradley_terry(windows, scores, 40), range(20)))
        after = [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]
    assert before == after
    assert {fit.theta.tobytes() for fit in fits} == {expected.theta.tobytes()}


def test_separate_pieces_of_the_comparison_graph_are_told() -> None:
    labels = comparison_components([[0, 1, 2], [4, 3], [2, 5]], 7)
    assert labels[0] == labels[1] == labels[2] == labels[5]
    assert labels[3] == labels[4]
    assert len(set(labels.tolist())) == 3  # {0, 1, 2, 5}, {3, 4}, {6}
    assert comparison_components([], 2).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("windows", "scores", "message"),
    [
        ([[0, 1], [1, 2]], [[1.0, 2.0], [1.0, np.nan]], "window 1 has a score that is not finite"),
        ([[0, 1], [1, 2]], [[1.0, 2.0], [1.0, np.inf]], "window 1 has a score that is not finite"),
        ([[0, 1], [1, 2]], [[1.0, 2.0], [1.0]], "window 1 has 2 items but 1 scores"),
        ([[0, 1], [1, 3]], [[1.0, 2.0], [1.0, 2.0]], r"window 1 holds an item outside 0..2: \[1, 3\]"),
        ([[0, 1], [-1, 2]], [[1.0, 2.0], [1.0, 2.0]], "window 1 holds an item outside"),
        ([[0, 1], [0, 1, 0]], [[1.0, 2.0], [1.0, 2.0, 3.0]], r"window 1 holds an item twice: \[0, 1, 0\]"),
        ([[0, 1], [0, 1.5]], [[1.0, 2.0], [1.0, 2.0]], "window 1 must hold item indices"),
        ([[0, 1], ["0", "1"]], [[1.0, 2.0], [1.0, 2.0]], "window 1 must hold item indices"),
        ([[0, 1], 2], [[1.0, 2.0], [1.0]], "window 1 is no sequence"),
        ([[0, 1]], [["high", 2.0]], "window 0 has scores that are no numbers"),
        ([[0, 1]], [], "1 windows but 0 lists of scores"),
    ],
)
def test_bad_windows_are_named(windows: list, scores: list, message: str) -> None:
    with pytest.raises(RCPError, match=message):
        fit_bradley_terry(windows, scores, 3)


@pytest.mark.parametrize(
    ("ranking", "message"), [([0, 3], "ranking 1 holds an item outside"), ([1, 1], "ranking 1 .* twice")]
)
def test_bad_rankings_are_named(ranking: list, message: str) -> None:
    with pytest.raises(RCPError, match=message):
        fit_bradley_terry([], [], 3, rankings=[[0, 1], ranking])


@pytest.mark.parametrize("settings_", [{"ridge": 0.0}, {"ridge": np.nan}, {"clip": 0.5}, {"clip": -0.1}])
def test_bad_settings_are_refused(settings_: dict) -> None:
    with pytest.raises(RCPError, match=r"ridge|clip"):
        fit_bradley_terry([[0, 1]], [[1.0, 0.0]], 2, **settings_)
