"""Length effects against least squares and a general optimiser; what was planted comes back, shared taste does not."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit, log_expit

from rcp_irx.analysis.jackknife import jackknife
from rcp_irx.analysis.lengths import beyond_rubric, noise_leak, slope_statistics, slope_sums
from rcp_irx.calibration import fit_2pl

GAMMA = np.array([1.17, 1.05, 0.94, 1.16, 0.68])
BETA = np.array([-2.57, -2.0, -0.25, 0.71, 4.11])


@pytest.mark.quick
def test_the_slope_is_that_of_least_squares_with_a_level_for_each_window():
    generator = np.random.default_rng(1)
    windows = [(generator.normal(size=n), generator.normal(size=n)) for n in (4, 7, 10, 10)]
    sums = np.array([slope_sums(scores, lengths) for scores, lengths in windows])
    codes = np.repeat(np.arange(4), [4, 7, 10, 10])
    design = np.hstack([np.eye(4)[codes], np.concatenate([lengths for _, lengths in windows])[:, None]])
    solution = np.linalg.lstsq(design, np.concatenate([scores for scores, _ in windows]), rcond=None)[0]
    assert slope_statistics(sums.sum(axis=0))[0] == pytest.approx(solution[-1], abs=1e-12)


def world(seed, queries=15, documents=40, taste=0.0, shared=0.0, noise=0.0):
    """Stage A scores (whole, two halves), passes, lengths; both stages like length by `shared`, A by `taste` more."""
    generator = np.random.default_rng(seed)
    codes = np.repeat(np.arange(queries), documents)
    lengths = generator.normal(9.0, 1.0, codes.size)
    ability = shared * lengths + generator.normal(0.0, 1.5, codes.size)
    ability += (generator.normal(-0.5, 1.0, queries) - shared * 9.0)[codes]
    errors = noise * np.sqrt(2.0) * generator.standard_normal((2, codes.size))
    halves = ability + taste * lengths + errors
    halves = halves - (np.array([np.bincount(codes, half) for half in halves]) / documents)[:, codes]
    passes = generator.binomial(7, expit(GAMMA * (ability[:, None] - BETA)))
    return halves.mean(axis=0), halves, passes, codes, lengths


@pytest.mark.quick
def test_the_fit_is_that_of_a_general_optimiser():
    bt, _, passes, codes, lengths = world(1, queries=3, documents=30, taste=0.4)
    n = np.full(90, 7.0)

    def objective(point):
        tau, alpha, delta = point[:3], point[3:6], point[6]
        logits = GAMMA * ((tau[codes] * bt + alpha[codes] - delta * lengths)[:, None] - BETA)
        fit = passes * log_expit(logits) + (n[:, None] - passes) * log_expit(-logits)
        mean = np.array([lengths[codes == q].mean() for q in range(3)])
        offset = alpha - delta * mean  # the prior is on the offset at the query's mean length
        return -fit.sum() + np.sum((tau - 1.0) ** 2) / 2.0 + np.sum(offset**2) / 8.0

    best = minimize(objective, np.r_[np.ones(3), np.zeros(4)], method="BFGS", options={"gtol": 1e-7})
    found = beyond_rubric(bt, passes, n, codes, GAMMA, BETA, lengths)
    assert found.value[0] == pytest.approx(best.x[6], abs=1e-5)
    assert found.queries == 3


def estimate(seed, **planted):
    bt, halves, passes, codes, lengths = world(seed, **planted)
    n = np.full(codes.size, 7.0)
    fit = fit_2pl(bt, passes, n, codes)
    leak = noise_leak(bt, *halves, lengths, codes)
    return beyond_rubric(bt, passes, n, codes, fit.gamma, fit.beta, lengths, leak), leak.reliability


@pytest.mark.parametrize(
    "planted",
    [
        {},
        {"taste": 0.3},
        {"taste": -0.2, "shared": 0.5},
        {"shared": 0.5},
        {"shared": 0.5, "noise": 0.5},
        {"taste": 0.3, "shared": 0.5, "noise": 0.5},
    ],
    ids=str,
)
def test_the_tournaments_own_taste_comes_back_and_a_shared_one_does_not(planted):
    found = [estimate(seed, **planted)[0] for seed in range(60)]
    z = np.array([(one.value[0] - planted.get("taste", 0.0)) / one.se[0] for one in found])
    print(f"\nmean z {z.mean():.2f}, rms {np.sqrt((z**2).mean()):.2f}, within two {(np.abs(z) <= 2).mean():.2f}")
    assert abs(z.mean()) < 0.5
    assert 0.75 < np.sqrt((z**2).mean()) < 1.4
    assert (np.abs(z) <= 2).mean() >= 0.85


@pytest.mark.quick
def test_the_leak_is_that_of_regression_calibration():
    bt, halves, _, codes, lengths = world(2, queries=100, documents=100, shared=0.5, noise=0.9)
    leak = noise_leak(bt, *halves, lengths, codes)
    reliability = 1.5**2 / (1.5**2 + 0.9**2)
    assert leak.reliability == pytest.approx(reliability, abs=0.01)
    assert leak.value == pytest.approx(0.5 * (1 - reliability) / reliability, abs=0.02)
    # the noiseless score is bt drawn to its mean at that length: reliability x (bt + leak x length)
    centred = lengths - (np.bincount(codes, lengths) / 100)[codes]
    design = np.stack([bt, centred, np.ones(codes.size)], axis=1)
    true = world(2, queries=100, documents=100, shared=0.5)[0]
    on_bt, on_length, _ = np.linalg.lstsq(design, true, rcond=None)[0]
    assert on_length / on_bt == pytest.approx(leak.value, abs=0.02)


@pytest.mark.quick
def test_the_leak_without_a_query_is_that_of_the_others():
    bt, halves, _, codes, lengths = world(3, queries=5, shared=0.5, noise=0.9)
    halves = np.stack([halves, halves[:, ::-1] * 0.5 + halves])  # two halvings
    halves[1, 0, 7] = np.nan
    leak = noise_leak(bt, halves[:, 0], halves[:, 1], lengths, codes)
    for query in range(5):
        kept = codes != query
        others = np.unique(codes[kept], return_inverse=True)[1]
        alone = noise_leak(bt[kept], halves[:, 0][:, kept], halves[:, 1][:, kept], lengths[kept], others)
        assert leak.left[query] == pytest.approx(alone.value, abs=1e-12)


@pytest.mark.quick
def test_documents_of_one_length_tell_nothing():
    bt, halves, passes, codes, _ = world(3, queries=4)
    same = np.full(codes.size, 9.0)
    for leak in (None, noise_leak(bt, *halves, same, codes)):
        found = beyond_rubric(bt, passes, np.full(codes.size, 7.0), codes, GAMMA, BETA, same, leak)
        assert np.isnan(found.value[0])
        assert np.isnan(found.se[0])
    assert np.isnan(jackknife(np.zeros((4, 2)), slope_statistics).value[0])


@pytest.mark.quick
def test_one_query_has_a_value_and_no_standard_error():
    bt, _, passes, codes, lengths = world(4, queries=1, taste=1.0)
    found = beyond_rubric(bt, passes, np.full(codes.size, 7.0), codes, GAMMA, BETA, lengths)
    assert 0.5 < found.value[0] < 1.5
    assert np.isnan(found.se[0])
