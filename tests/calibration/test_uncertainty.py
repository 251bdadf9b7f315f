"""Standard errors: against slow and dense independent computation, refits without a window, and repeated draws."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
import scipy.linalg
from scipy.special import expit

from rcp_irx import RCPError
from rcp_irx.calibration import fit_2pl, fit_bradley_terry, gain
from rcp_irx.calibration._posterior import make_posterior
from rcp_irx.calibration.influence import tournament_influence
from rcp_irx.calibration.uncertainty import StandardErrors, calibration_errors
from tests.benchmarks.calibration import BETA, GAMMA, simulated_suite, simulated_tournament

pytestmark = pytest.mark.quick

FIELDS = [field.name for field in dataclasses.fields(StandardErrors) if field.name != "tau_alpha"]


def shown_twice(n: int, rounds: int, size: int, random: np.random.Generator) -> list[list[int]]:
    """Windows that show every item `rounds` times, each followed by its reversal."""
    windows = [w.tolist() for _ in range(rounds) for w in np.array_split(random.permutation(n), n // size)]
    return [w for window in windows for w in (window, window[::-1])]


def answers(
    theta: np.ndarray, windows: list[list[int]], noise: float, random: np.random.Generator
) -> list[list[float]]:
    return [(theta[window] + noise * random.normal(size=len(window))).clip(-5, 5).tolist() for window in windows]


def residuals_and_hessian(
    theta: np.ndarray, windows: list[list[int]], scores: list[list[float]]
) -> tuple[np.ndarray, np.ndarray]:
    """Of the unnormalised objective without its ridge, pair by pair."""
    residuals, hessian = np.zeros(theta.size), np.zeros((theta.size, theta.size))
    for window, values in zip(windows, scores, strict=True):
        for a in range(len(window)):
            for b in range(a):
                i, j = window[a], window[b]
                won = np.clip(expit(values[a] - values[b]), 0.01, 0.99)
                chance = expit(theta[i] - theta[j])
                ends = np.zeros(theta.size)
                ends[i], ends[j] = 1, -1
                residuals += 2 / len(window) * (won - chance) * ends
                hessian += 2 / len(window) * chance * (1 - chance) * np.outer(ends, ends)
    return residuals, hessian


def test_influence_is_the_jackknifes_window_and_reversal_one_cluster() -> None:
    random = np.random.default_rng(1)
    theta = random.normal(0, 1.5, 12)
    windows = [*shown_twice(12, 3, 6, random), [0, 3, 5], [7, 1, 2, 9], [2, 11]]
    windows += [windows[0]]  # asked a second time
    scores = answers(theta, windows, 0.7, random)
    fitted = fit_bradley_terry(windows, scores, 12).theta
    found = tournament_influence(fitted, windows, scores)

    _, hessian = residuals_and_hessian(fitted, windows, scores)
    hessian += 1e-4 * sum(len(window) - 1 for window in windows) * np.eye(12)
    clusters: dict[tuple[int, ...], list[int]] = {}
    for number, window in enumerate(windows):
        clusters.setdefault(min(tuple(window), tuple(window[::-1])), []).append(number)
    assert found.shape == (12, len(clusters)) == (12, 9)
    expected = []
    for numbers in clusters.values():
        residuals, part = residuals_and_hessian(fitted, [windows[n] for n in numbers], [scores[n] for n in numbers])
        expected.append(np.linalg.solve(hessian - part, residuals))
    covariance = np.array(expected).T @ np.array(expected)
    np.testing.assert_allclose(found @ found.T, covariance, atol=1e-10)


def test_influence_is_near_to_what_leaving_a_window_out_does() -> None:
    random = np.random.default_rng(2)
    windows = shown_twice(30, 6, 10, random)
    scores = answers(random.normal(0, 1.5, 30), windows, 0.7, random)
    fitted = fit_bradley_terry(windows, scores, 30).theta
    square = np.zeros(30)
    for k in range(0, len(windows), 2):
        left = [n for n in range(len(windows)) if n not in (k, k + 1)]
        without = fit_bradley_terry([windows[n] for n in left], [scores[n] for n in left], 30).theta
        square += (fitted - without) ** 2
    found = np.sqrt(np.sum(tournament_influence(fitted, windows, scores) ** 2, axis=1))
    np.testing.assert_allclose(found, np.sqrt(square), rtol=0.15)


@pytest.mark.parametrize("noise", [0.3, 1.0, 2.0])
def test_scores_spread_as_their_standard_errors_say_and_not_as_the_inverse_hessian_says(noise: float) -> None:
    random = np.random.default_rng(3)
    theta, windows = random.normal(0, 1.5, 40), shown_twice(40, 7, 10, random)
    centre = np.eye(40) - 1 / 40
    fits, errors = [], []
    for _ in range(80):
        scores = answers(theta, windows, noise, random)
        fits.append(fit_bradley_terry(windows, scores, 40).theta)
        influence = centre @ tournament_influence(fits[-1], windows, scores)
        errors.append(np.sqrt(np.sum(influence**2, axis=1)))
    _, hessian = residuals_and_hessian(fits[-1], windows, scores)
    hessian_errors = np.sqrt(np.diag(centre @ np.linalg.inv(hessian + 1e-3 * np.eye(40)) @ centre))
    spread = np.std(fits, axis=0, ddof=1)
    ratio, hessian_ratio = np.mean(errors) / spread.mean(), hessian_errors.mean() / spread.mean()
    print(f"\nnoise {noise}: sandwich {ratio:.2f}, inverse Hessian {hessian_ratio:.2f} of the true SD")
    assert 0.85 <= ratio <= 1.15
    assert hessian_ratio > {0.3: 4.0, 1.0: 1.8, 2.0: 1.3}[noise]


def test_a_position_bias_that_reversal_cancels_is_no_error() -> None:
    random = np.random.default_rng(4)
    windows = shown_twice(20, 4, 5, random)
    scores = [np.linspace(1.0, -1.0, 5).tolist()] * len(windows)
    fitted = fit_bradley_terry(windows, scores, 20).theta
    np.testing.assert_allclose(fitted, 0.0, atol=1e-12)
    np.testing.assert_allclose(tournament_influence(fitted, windows, scores), 0.0, atol=1e-12)


def test_noise_that_a_window_and_its_reversal_share_is_counted_once() -> None:
    random = np.random.default_rng(5)
    windows = shown_twice(20, 4, 5, random)
    once = answers(random.normal(0, 1, 20), windows[::2], 0.7, random)
    twice = [scores for answer in once for scores in (answer, answer[::-1])]
    fitted = fit_bradley_terry(windows, twice, 20).theta
    both = tournament_influence(fitted, windows, twice)
    alone = tournament_influence(fitted, windows[::2], once)
    np.testing.assert_allclose(both @ both.T, alone @ alone.T, atol=1e-12)


def test_the_order_of_windows_changes_no_bit() -> None:
    windows, scores = simulated_tournament(40, 60)
    fitted = fit_bradley_terry(windows, scores, 40).theta
    order = np.random.default_rng(0).permutation(60)
    shuffled = tournament_influence(fitted, [windows[n] for n in order], [scores[n] for n in order])
    assert shuffled.tobytes() == tournament_influence(fitted, windows, scores).tobytes()


def test_an_item_in_one_cluster_errs_like_the_others() -> None:
    windows = [[0, 1, 2], [2, 1, 0], [1, 2, 3], [3, 1, 2], [0, 4]]
    scores = [[1.0, 0.0, -1.0], [-0.5, 0.3, 1.0], [0.4, 0.0, -1.0], [-2.0, 0.0, 0.1], [0.0, 0.5]]
    fitted = fit_bradley_terry(windows, scores, 6).theta
    found = tournament_influence(fitted, windows, scores)
    assert found.shape == (6, 5)  # clusters 012, 123, 312, 04; and item 4's own column
    assert found[:, 4].tolist()[:4] == [0.0] * 4
    assert found[4].tolist()[:4] == [0.0] * 4
    assert np.isnan(found[5]).all()
    _, hessian = residuals_and_hessian(fitted, windows, scores)
    centre = np.eye(6) - 1 / 6
    expected = np.diag(centre @ np.linalg.inv(hessian + 1e-4 * 9 * np.eye(6)) @ centre)
    scale = np.sum(found[:4] ** 2) / expected[:4].sum()
    assert found[4, 4] ** 2 == pytest.approx(scale * expected[4], rel=1e-9)


def test_one_cluster_alone_tells_nothing() -> None:
    windows, scores = [[0, 1], [1, 0], [0, 1]], [[1.0, -1.0], [-0.5, 0.3], [0.0, 0.5]]
    assert (
        np.isnan(tournament_influence(fit_bradley_terry(windows, scores, 2).theta, windows, scores)).any(axis=1).all()
    )
    assert tournament_influence([0.0], [], []).shape == (1, 0)
    assert tournament_influence([0.0, 0.0], [[0], []], [[1.0], []]).shape == (2, 0)


def influences_for(queries: np.ndarray, sd: float, random: np.random.Generator) -> list[np.ndarray]:
    """For each query, centred influences whose covariance has variances near sd^2."""
    found = []
    for size in np.bincount(queries):
        influence = sd / np.sqrt(2 * size) * random.normal(size=(size, 2 * size))
        found.append(influence - influence.mean(axis=0))
    return found


def dense_errors(suite: tuple, influences: list[np.ndarray], frozen: dict) -> dict[str, np.ndarray]:
    """The joint sandwich of (bt, t, alpha, u, v) by full matrices, with derivatives by central differences."""
    bt, passes, placements, queries = suite
    fit = fit_2pl(*suite, **frozen)
    posterior, _ = make_posterior(*suite, **frozen)
    free = [] if frozen else [np.log(fit.gamma) - np.log(fit.gamma).mean(), fit.beta]
    point = np.concatenate([np.log(np.expm1(fit.tau)), fit.alpha, *free])
    size, steps = point.size, 1e-5 * np.eye(point.size)

    def estimates(parameters: np.ndarray, scores: np.ndarray = bt) -> dict[str, np.ndarray]:
        at = posterior.unpack(parameters)
        theta = at.tau[queries] * scores + at.alpha[queries]
        gains = gain(theta, at.gamma, at.beta)
        return dict(zip(FIELDS, (scores, theta, gains, at.tau, at.alpha, at.gamma, at.beta), strict=True))

    def logits(parameters: np.ndarray, document: int, score: float) -> np.ndarray:
        at = posterior.unpack(parameters)
        return at.gamma * (at.tau[queries[document]] * score + at.alpha[queries[document]] - at.beta)

    def slopes(document: int, score: float) -> np.ndarray:
        ends = [(logits(point + e, document, score), logits(point - e, document, score)) for e in steps]
        return np.array([(above - below) / 2e-5 for above, below in ends])

    hessian = np.array(
        [
            (posterior.objective_and_gradient(point + e)[1] - posterior.objective_and_gradient(point - e)[1]) / 2e-5
            for e in steps
        ]
    )
    hessian *= posterior.answers
    own = np.array([parameter % len(fit.tau) for parameter in range(2 * len(fit.tau))])
    meat, cross, everything = np.zeros((size, size)), np.zeros((size, len(bt))), np.zeros((len(bt), len(bt)))
    for code, influence in enumerate(influences):
        rows = np.flatnonzero(queries == code)
        everything[np.ix_(rows, rows)] = influence @ influence.T
    for document, score in enumerate(bt):
        toward, chance = slopes(document, score), expit(logits(point, document, score))
        rest = passes[document] - placements[document] * chance
        # HC2: the residuals' working covariance W, and the hat matrix of the query's two parameters.
        root = np.sqrt(placements[document] * chance * (1 - chance))
        mine = np.flatnonzero(own == queries[document])
        design = root[:, None] * toward[mine].T
        hat = design @ np.linalg.inv(hessian[np.ix_(mine, mine)]) @ design.T
        whole = root * (scipy.linalg.sqrtm(np.linalg.inv(np.eye(len(root)) - hat)).real @ (rest / root))
        share = -toward @ whole

        def gradient(score: float, document: int = document) -> np.ndarray:
            chance = expit(logits(point, document, score))
            return -slopes(document, score) @ (passes[document] - placements[document] * chance)

        cross[:, document] = (gradient(score + 1e-4) - gradient(score - 1e-4)) / 2e-4
        meat += np.outer(share, share) - everything[document, document] * np.outer(
            cross[:, document], cross[:, document]
        )
    inverse = np.linalg.inv(hessian)
    through = -inverse @ cross
    covariance = np.block(
        [
            [everything, everything @ through.T],
            [through @ everything, through @ everything @ through.T + inverse @ meat @ inverse],
        ]
    )
    found, jacobians = {}, {}
    both, wide = np.concatenate([bt, point]), 1e-5 * np.eye(len(bt) + size)
    for field in FIELDS:
        ends = [
            (estimates(x[len(bt) :], x[: len(bt)])[field], estimates(y[len(bt) :], y[: len(bt)])[field])
            for x, y in ((both + e, both - e) for e in wide)
        ]
        jacobian = jacobians[field] = np.array([(above - below) / 2e-5 for above, below in ends])
        found[field] = np.sqrt(np.diag(jacobian.T @ covariance @ jacobian))
    return {**found, "tau_alpha": np.diag(jacobians["tau"].T @ covariance @ jacobians["alpha"])}


@pytest.mark.parametrize("frozen", [{}, {"gamma": GAMMA, "beta": BETA}])
@pytest.mark.parametrize("sd", [0.0, 0.2])
def test_errors_are_those_of_the_dense_sandwich(frozen: dict, sd: float) -> None:
    suite = simulated_suite(3, 12, 5, seed=3)
    influences = influences_for(suite[3], sd, np.random.default_rng(6))
    found = calibration_errors(fit_2pl(*suite, **frozen), *suite, influences, frozen=bool(frozen))
    for field, expected in dense_errors(suite, influences, frozen).items():
        np.testing.assert_allclose(getattr(found, field), expected, rtol=2e-4, atol=1e-7, err_msg=field)


def test_where_the_model_holds_and_scores_are_known_they_are_those_of_the_inverse_hessian() -> None:
    suite = simulated_suite(60, 60, 7, seed=4)
    fit = fit_2pl(*suite)
    found = calibration_errors(fit, *suite, [np.zeros((60, 1))] * 60)
    for field in ("theta", "tau", "alpha", "gamma", "beta"):
        ratio = getattr(found, field).mean() / getattr(fit, f"{field}_se").mean()
        assert ratio == pytest.approx(1.0, abs=0.12), field
    assert (found.bt == 0).all()


def test_answers_that_only_repeat_count_once() -> None:
    # Five placements that all say the same are one answer: the inverse Hessian takes them for five.
    bt, passes, placements, queries = simulated_suite(40, 60, 1, seed=5)
    once, many = fit_2pl(bt, passes, placements, queries), fit_2pl(bt, 5 * passes, 5 * placements, queries)
    nothing = [np.zeros((60, 1))] * 40
    first = calibration_errors(once, bt, passes, placements, queries, nothing)
    again = calibration_errors(many, bt, 5 * passes, 5 * placements, queries, nothing)
    assert np.median(again.alpha / first.alpha) == pytest.approx(1.0, abs=0.15)
    assert np.median(many.alpha_se / once.alpha_se) < 0.6


def test_the_order_of_rows_changes_nothing() -> None:
    bt, _, _, queries = suite = simulated_suite(5, 20, 5, seed=6)
    influences = influences_for(queries, 0.3, np.random.default_rng(7))
    found = calibration_errors(fit_2pl(*suite), *suite, influences)
    order = np.random.default_rng(8).permutation(len(bt))
    shuffled = tuple(array[order] for array in suite)
    place = np.arange(len(bt)) % 20
    moved = [influences[code][place[order][queries[order] == code]] for code in range(5)]
    other = calibration_errors(fit_2pl(*shuffled), *shuffled, iter(moved))
    for field in [*FIELDS, "tau_alpha"]:
        expected = getattr(found, field)
        expected = expected[order] if expected.shape == bt.shape else expected
        np.testing.assert_allclose(getattr(other, field), expected, rtol=1e-9, err_msg=field)


def test_what_is_unknown_is_nan_and_spoils_nothing_else() -> None:
    bt, passes, placements, queries = simulated_suite(4, 10, 5, seed=9)
    influences = influences_for(queries, 0.3, np.random.default_rng(10))
    influences[1][3] = np.nan
    placements[30:39] = passes[30:39] = 0  # one document of the last query was answered about
    suite = bt, passes, placements, queries
    found = calibration_errors(fit_2pl(*suite), *suite, influences)
    assert np.flatnonzero(np.isnan(found.bt)).tolist() == [13]
    for field in ("theta", "gain"):
        assert np.flatnonzero(np.isnan(getattr(found, field))).tolist() == [13, *range(30, 40)]
    for field in ("tau", "alpha", "tau_alpha"):
        assert np.isnan(getattr(found, field)).tolist() == [False, False, False, True], field
    assert np.isfinite(found.gamma).all()
    assert np.isfinite(found.beta).all()


def test_queries_where_nothing_or_everything_passes_and_a_scale_of_zero_have_finite_errors() -> None:
    bt, passes, placements, queries = simulated_suite(4, 20, 5, seed=11)
    passes[:20], passes[20:40] = 0, 5
    passes[40:60] = np.where(bt[40:60, None] > 0, 0, 5)  # against the tournament: tau goes to 0
    suite = bt, passes, placements, queries
    fit = fit_2pl(*suite)
    assert fit.tau[2] < 1e-3
    found = calibration_errors(fit, *suite, influences_for(queries, 0.3, np.random.default_rng(12)))
    for field in FIELDS:
        assert np.isfinite(getattr(found, field)).all(), field
    assert found.gain[:40].max() < 0.1


def test_a_fit_that_ended_at_no_minimum_has_none() -> None:
    suite = simulated_suite(2, 10, 5, seed=13)
    broken = dataclasses.replace(fit_2pl(*suite), tau_se=np.full(2, np.nan))
    found = calibration_errors(broken, *suite, [np.zeros((10, 1))] * 2)
    assert all(np.isnan(getattr(found, field)).all() for field in [*FIELDS, "tau_alpha"])


@pytest.mark.parametrize("shapes", [[(10, 1)], [(10, 1), (9, 1)], [(10, 1), (10, 1), (10, 1)]])
def test_influences_that_fit_no_query_are_refused(shapes: list[tuple[int, int]]) -> None:
    suite = simulated_suite(2, 10, 5, seed=14)
    with pytest.raises(RCPError, match="give one influence a query, with one row for each of its documents"):
        calibration_errors(fit_2pl(*suite), *suite, [np.zeros(shape) for shape in shapes])
