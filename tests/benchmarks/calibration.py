"""The calibration's speed bars, in one run on one BLAS thread: python -m tests.benchmarks.calibration."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import expit

from rcp_irx.calibration import fit_2pl, fit_bradley_terry, fit_rasch
from rcp_irx.calibration._numeric import one_blas_thread
from rcp_irx.calibration._posterior import make_posterior

GAMMA = np.array([1.17, 1.05, 0.94, 1.16, 0.69])
BETA = np.array([-2.57, -2.00, -0.25, 0.71, 4.12])


def simulated_suite(
    queries: int = 649, documents: int = 150, placements: int = 7, seed: int = 42
) -> tuple[NDArray[np.float64], NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Bradley-Terry scores, pass counts, placements and query codes of a suite with the paper's criteria (Table 1)."""
    random = np.random.default_rng(seed)
    codes = np.repeat(np.arange(queries), documents)
    bt = random.normal(0.0, 1.5, codes.size)
    tau, alpha = random.uniform(0.6, 1.8, queries), random.normal(-2.0, 1.5, queries)
    theta = tau[codes] * bt + alpha[codes]
    passes = random.binomial(placements, expit(GAMMA * (theta[:, None] - BETA)))
    return bt, passes, np.full(codes.size, placements), codes


def simulated_tournament(
    documents: int = 150, windows: int = 216, size: int = 10, seed: int = 42
) -> tuple[list[list[int]], list[list[float]]]:
    """Random windows and a noisy judge's scores."""
    random = np.random.default_rng(seed)
    theta = random.normal(0.0, 1.5, documents)
    shown = [random.choice(documents, size, replace=False) for _ in range(windows)]
    scores = [np.clip(theta[window] + random.normal(0.0, 0.5, size), -5, 5).round(1).tolist() for window in shown]
    return [window.tolist() for window in shown], scores


def seconds(run: Callable[[], object]) -> float:
    """Wall-clock time of one call."""
    before = time.perf_counter()
    run()
    return time.perf_counter() - before


def compare_2pl(bar: float = 20.0) -> None:
    """`fit_2pl` against L-BFGS-B on the same objective and gradient code."""
    suite = simulated_suite()
    fit = fit_2pl(*suite)
    ours = median(seconds(lambda: fit_2pl(*suite)) for _ in range(3))
    posterior, _ = make_posterior(*suite)
    options = {"ftol": 0.0, "gtol": 1e-8, "maxiter": 100_000, "maxfun": 100_000}
    before = time.perf_counter()
    with one_blas_thread():
        other = minimize(
            posterior.objective_and_gradient, posterior.start(), jac=True, method="L-BFGS-B", options=options
        )
    theirs = time.perf_counter() - before
    held = theirs / ours >= bar and fit.gradient_norm < 1e-9
    print(f"fit_2pl, 649 queries x 150 documents: {ours:.2f} s, {fit.n_iter} steps, gradient {fit.gradient_norm:.1e}")
    print(
        f"L-BFGS-B (ftol=0, gtol=1e-8): {theirs:.2f} s, {other.nfev} evaluations,"
        f" gradient {np.abs(other.jac).max():.1e}"
    )
    print(f"objectives {fit.objective:.15f} and {other.fun:.15f}")
    print(f"ratio {theirs / ours:.1f} (bar: {bar:g}): {verdict(held)}")


def time_bradley_terry(bar: float = 10.0) -> None:
    """Median milliseconds of a 150-document tournament."""
    windows, scores = simulated_tournament()
    fit = fit_bradley_terry(windows, scores, 150)
    taken = 1e3 * median(seconds(lambda: fit_bradley_terry(windows, scores, 150)) for _ in range(50))
    held = taken < bar
    print(
        f"fit_bradley_terry, 150 documents, 216 windows: median {taken:.1f} ms, {fit.n_iter} steps,"
        f" gradient {fit.gradient_norm:.1e} (bar: {bar:g} ms): {verdict(held)}"
    )


def time_rasch() -> None:
    """Median milliseconds of one query's Rasch fit, half-way through Stage B; it has no bar."""
    _, passes, placements, _ = simulated_suite(queries=1, placements=4)
    fit = fit_rasch(passes, placements)
    taken = 1e3 * median(seconds(lambda: fit_rasch(passes, placements)) for _ in range(50))
    print(f"fit_rasch, 150 documents: median {taken:.1f} ms, {fit.n_iter} steps, gradient {fit.gradient_norm:.1e}")


def verdict(held: bool) -> str:
    return "bar held" if held else "bar missed"


def main() -> None:
    """Print every figure, and whether its bar held: how busy the machine is decides that too, so it fails nothing."""
    compare_2pl()
    time_bradley_terry()
    time_rasch()


if __name__ == "__main__":
    main()
