"""Tests and intervals on arrays against scipy, statsmodels, numerical integration and slow loops."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from rcp_irx.analysis.significance import (
    decided_alike,
    detectable_difference,
    differences_of,
    holm,
    interval,
    kendall_tau,
    pair_intervals,
    paired_t,
    pairs_of,
    ranks,
    resampled_means,
    resolution,
    wins_ties_losses,
)


def some_scores(queries: int = 40, systems: int = 5, seed: int = 7) -> np.ndarray:
    random = np.random.default_rng(seed)
    return np.clip(random.beta(4, 2, (queries, 1)) + random.normal(0, 0.1, (queries, systems)), 0, 1)


@pytest.mark.quick
def test_pairs_are_all_pairs_once() -> None:
    first, second = pairs_of(5)
    assert list(zip(first.tolist(), second.tolist(), strict=True)) == list(itertools.combinations(range(5), 2))
    assert pairs_of(1)[0].size == 0


@pytest.mark.quick
@pytest.mark.parametrize("queries", [2, 3, 40])
def test_paired_t_is_scipys(queries: int) -> None:
    scores = some_scores(queries)
    first, second = pairs_of(5)
    ours = paired_t(scores[:, first] - scores[:, second])
    for pair, (a, b) in enumerate(zip(first, second, strict=True)):
        theirs = stats.ttest_rel(scores[:, a], scores[:, b])
        assert ours.t[pair] == pytest.approx(theirs.statistic, rel=1e-10)
        assert ours.p[pair] == pytest.approx(theirs.pvalue, rel=1e-10)
        assert ours.mean[pair] == pytest.approx(np.mean(scores[:, a] - scores[:, b]), rel=1e-12)


@pytest.mark.quick
def test_identical_systems_have_p_one_and_a_constant_difference_has_p_zero() -> None:
    same = [0.0, 1e-16, -2e-16]
    found = paired_t(np.transpose([same, [0.1, 0.1, 0.1], [-0.3, -0.3, -0.3]]))
    assert found.p.tolist() == [1.0, 0.0, 0.0]
    assert found.t.tolist() == [0.0, np.inf, -np.inf]


@pytest.mark.quick
def test_one_query_is_no_test() -> None:
    found = paired_t([[0.2, 0.0]])
    assert np.isnan(found.p).all()
    assert found.mean.tolist() == [0.2, 0.0]
    assert np.isnan(detectable_difference(found.se, found.df)).all()


@pytest.mark.quick
def test_clustered_t_by_hand_and_with_clusters_of_one() -> None:
    differences = some_scores()[:, :2] - some_scores()[:, 2:4]
    plain, alone = paired_t(differences), paired_t(differences, np.arange(40)[::-1])
    np.testing.assert_allclose(alone.p, plain.p, rtol=1e-12)
    cluster = np.arange(40) // 3
    ours = paired_t(differences, cluster)
    for pair in range(2):
        values = differences[:, pair]
        groups = [np.sum(values[cluster == g] - values.mean()) for g in range(14)]
        se = np.sqrt(14 / 13 * np.sum(np.square(groups))) / 40
        assert ours.se[pair] == pytest.approx(se, rel=1e-12)
        assert ours.p[pair] == pytest.approx(2 * stats.t.sf(abs(values.mean() / se), 13), rel=1e-10)
    assert ours.df == 13


@pytest.mark.quick
def test_queries_repeated_within_clusters_tell_nothing_new() -> None:
    differences = some_scores()[:, :1] - 0.6
    once, thrice = paired_t(differences), paired_t(np.repeat(differences, 3, axis=0), np.repeat(np.arange(40), 3))
    np.testing.assert_allclose(thrice.p, once.p, rtol=1e-10)
    assert paired_t(np.repeat(differences, 3, axis=0)).p < once.p


def test_clustered_t_is_that_of_statsmodels() -> None:
    api = pytest.importorskip("statsmodels.api", reason="statsmodels is not installed")
    values, cluster = some_scores()[:, 0] - some_scores()[:, 1], np.arange(40) % 11
    fit = api.OLS(values, np.ones(40)).fit(cov_type="cluster", cov_kwds={"groups": cluster}, use_t=True)
    ours = paired_t(values[:, None], cluster)
    assert ours.se[0] == pytest.approx(fit.bse[0], rel=1e-10)
    assert ours.p[0] == pytest.approx(fit.pvalues[0], rel=1e-8)


def slow_holm(p: list[float]) -> list[float]:
    adjusted, largest = [0.0] * len(p), 0.0
    for step, place in enumerate(sorted(range(len(p)), key=p.__getitem__)):
        largest = max(largest, min(1.0, p[place] * (len(p) - step)))
        adjusted[place] = largest
    return adjusted


@pytest.mark.quick
@given(st.lists(st.floats(0, 1), max_size=12))
def test_holm_is_the_slow_loop(p: list[float]) -> None:
    np.testing.assert_allclose(holm(p), slow_holm(p), rtol=1e-14)


@pytest.mark.quick
def test_holm_by_hand_and_without_tests() -> None:
    np.testing.assert_allclose(holm([0.01, 0.04, 0.03]), [0.03, 0.06, 0.06])
    np.testing.assert_array_equal(holm([0.01, np.nan, 0.03]), [0.02, np.nan, 0.03])
    assert holm([]).size == 0


def test_holm_is_that_of_statsmodels() -> None:
    multitest = pytest.importorskip("statsmodels.stats.multitest", reason="statsmodels is not installed")
    p = np.random.default_rng(1).beta(0.3, 2, 91)
    np.testing.assert_allclose(holm(p), multitest.multipletests(p, method="holm")[1], rtol=1e-12)


@pytest.mark.quick
@pytest.mark.parametrize("clustered", [False, True])
def test_resampled_means_are_a_slow_loops(clustered: bool) -> None:
    scores = some_scores(23, 3)
    cluster = np.random.default_rng(3).permutation(np.arange(23) % 6) if clustered else np.arange(23)
    ours = resampled_means(scores, [42, 1], cluster if clustered else None, replicates=200)
    groups = cluster.max() + 1
    drawn = np.random.default_rng([42, 1]).multinomial(groups, np.full(groups, 1 / groups), size=200)
    for replicate in range(200):
        rows = [q for g in range(groups) for _ in range(drawn[replicate, g]) for q in np.flatnonzero(cluster == g)]
        np.testing.assert_allclose(ours[replicate], scores[rows].mean(axis=0), rtol=1e-12)


@pytest.mark.quick
def test_resampled_means_spread_as_theory_and_scipy_say() -> None:
    scores = some_scores(60, 2)
    means = resampled_means(scores, 42, replicates=20_000)
    np.testing.assert_allclose(means.mean(axis=0), scores.mean(axis=0), atol=4 * 0.03 / np.sqrt(20_000))
    np.testing.assert_allclose(means.std(axis=0), scores.std(axis=0) / np.sqrt(60), rtol=0.03)
    low, high = interval(means)
    theirs = stats.bootstrap((scores[:, 0],), np.mean, n_resamples=20_000, method="percentile", random_state=1)
    np.testing.assert_allclose([low[0], high[0]], theirs.confidence_interval, atol=0.004)


@pytest.mark.quick
def test_resampling_in_blocks_draws_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    scores = some_scores()
    whole = resampled_means(scores, 42, replicates=50)
    monkeypatch.setattr("rcp_irx.analysis.significance.BLOCK", 40 * 7)
    np.testing.assert_allclose(resampled_means(scores, 42, replicates=50), whole, rtol=1e-14)


@pytest.mark.quick
def test_intervals_of_pairs_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    samples = resampled_means(some_scores(), 42, replicates=50)
    monkeypatch.setattr("rcp_irx.analysis.significance.BLOCK", 50 * 3)
    first, second = pairs_of(5)
    expected = np.quantile(samples[:, first] - samples[:, second], [0.025, 0.975], axis=0)
    np.testing.assert_allclose(pair_intervals(samples), expected, rtol=1e-14)


@pytest.mark.quick
def test_a_difference_of_two_hundredths_is_a_win_and_less_is_a_tie() -> None:
    differences = [[0.32 - 0.30, 0.5], [0.12 - 0.10, -0.0199], [0.0199, -0.02], [-0.5, 0.0]]
    wins, ties, losses = wins_ties_losses(differences)
    assert (wins.tolist(), ties.tolist(), losses.tolist()) == ([2, 1], [1, 2], [1, 1])


def power(difference: float, se: float, df: int) -> float:
    """The chance that |t| exceeds its critical value, integrated over the estimated standard error."""
    critical = stats.t.isf(0.025, df)

    def of(scale: float) -> float:  # estimated over true standard error
        beyond = stats.norm.sf(critical * scale - difference / se) + stats.norm.cdf(-critical * scale - difference / se)
        return float(beyond * stats.chi.pdf(scale * np.sqrt(df), df) * np.sqrt(df))

    return float(integrate.quad(of, 0, 1 + 20 / np.sqrt(df), limit=500, epsabs=1e-10)[0])


@pytest.mark.quick
@pytest.mark.parametrize("df", [1, 2, 5, 42, 648, 5000])
def test_the_detectable_difference_is_detected_with_eighty_percent(df: int) -> None:
    found = float(detectable_difference([0.013], df)[0])
    assert power(found, 0.013, df) == pytest.approx(0.8, abs=1e-6)


@pytest.mark.parametrize("queries", [3, 10, 43, 649])
def test_the_detectable_difference_is_that_of_statsmodels(queries: int) -> None:
    stats_power = pytest.importorskip("statsmodels.stats.power", reason="statsmodels is not installed")
    effect = stats_power.TTestPower().solve_power(nobs=queries, alpha=0.05, power=0.8)  # in standard deviations
    ours = float(detectable_difference([0.2 / np.sqrt(queries)], queries - 1)[0])
    assert ours == pytest.approx(effect * 0.2, rel=2e-5)  # its solver stops there


def slow_tau(one: np.ndarray, other: np.ndarray) -> float:
    """Kendall's tau-b, pair by pair."""
    concordant = ties_one = ties_other = 0
    pairs = list(itertools.combinations(range(len(one)), 2))
    for a, b in pairs:
        concordant += np.sign(one[a] - one[b]) * np.sign(other[a] - other[b])
        ties_one += one[a] == one[b]
        ties_other += other[a] == other[b]
    return float(concordant / np.sqrt((len(pairs) - ties_one) * (len(pairs) - ties_other)))


@pytest.mark.quick
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=2, max_size=9))
@settings(deadline=None)
def test_kendalls_tau_is_the_slow_loop(values: list[tuple[int, int]]) -> None:
    one, other = np.transpose(values) / 10
    if len(set(one)) > 1 and len(set(other)) > 1:
        assert kendall_tau(one, other) == pytest.approx(slow_tau(one, other), abs=1e-12)


@pytest.mark.quick
def test_kendalls_tau_by_hand() -> None:
    assert kendall_tau([1, 2, 3], [1, 3, 2]) == pytest.approx(1 / 3)
    assert kendall_tau([0.1, 0.1 + 1e-15, 0.3], [1, 2, 3]) == pytest.approx(2 / np.sqrt(6))
    assert np.isnan(kendall_tau([1], [1]))


@pytest.mark.quick
def test_resolution_is_the_share_of_pairs_below_five_percent() -> None:
    assert resolution([0.01, 0.05, 0.2, 0.049]) == 0.5
    assert resolution([0.01, np.nan]) == 1.0
    assert np.isnan(resolution([]))


@pytest.mark.quick
def test_pairs_decided_alike() -> None:
    random = np.random.default_rng(5)
    noise = random.normal(0, 0.05, 30)
    noise -= noise.mean()

    def test_of(*means: float):  # type: ignore[no-untyped-def]  # a PairedT
        return paired_t(np.transpose([mean + noise for mean in means]))

    # separated by the reference: all but the last; alike, same sign undecided, opposite decided, no difference
    reference = test_of(0.2, 0.2, 0.2, 0.2, 0.001)
    other = test_of(0.3, 0.001, -0.3, 0.0, 0.3)
    assert decided_alike(reference, other) == (4, 2, 1, 1)


def test_differences_are_of_every_pair_and_equal_means_share_a_rank():
    scores = np.random.default_rng(3).uniform(size=(30, 5)) + np.arange(5) / 10
    found = paired_t(differences_of(scores))
    for place, (i, j) in enumerate(itertools.combinations(range(5), 2)):
        assert found.mean[place] == pytest.approx(scores[:, i].mean() - scores[:, j].mean())
        assert found.p[place] == pytest.approx(stats.ttest_rel(scores[:, i], scores[:, j]).pvalue)
    assert ranks([0.3, 0.5, 0.3, 0.1]).tolist() == [2, 1, 2, 4]
