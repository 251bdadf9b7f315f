"""Numbers from repeated answers against loops, least squares, scipy and krippendorff; what was planted comes back."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from rcp_irx.analysis import repeats
from rcp_irx.analysis.jackknife import jackknife


def showings(seed, queries=12, windows=10, size=10, bias=0.0, noise=0.5):
    """Scores of windows and of their reversals, both in the order of the first showing; the query of each window."""
    generator = np.random.default_rng(seed)
    ability = generator.normal(0.0, 1.5, (queries * windows, size))
    place = bias * np.linspace(1.0, -1.0, size)
    first = ability + place + noise * generator.standard_normal(ability.shape)
    second = ability + place[::-1] + noise * generator.standard_normal(ability.shape)
    return first, second, np.repeat(np.arange(queries), windows)


def over_queries(sums, codes):
    totals = np.zeros((codes.max() + 1, *sums.shape[1:]))
    np.add.at(totals, codes, sums)
    return totals


@pytest.mark.quick
def test_position_effect_and_noise_are_those_of_least_squares():
    first, second, _ = showings(1, bias=0.3)
    found = repeats.position_statistics(repeats.position_sums(first, second).sum(axis=0))
    n, w = first.shape
    x = np.linspace(1.0, -1.0, w)
    design = np.hstack([np.kron(np.eye(n), np.ones((w, 1))), np.tile(2.0 * x, n)[:, None]])  # a level for each window
    d = (first - second).ravel()
    solution, rest, *_ = np.linalg.lstsq(design, d, rcond=None)
    assert found[0] == pytest.approx(2.0 * solution[-1], abs=1e-12)
    assert found[1] == pytest.approx(np.sqrt(rest[0] / (n * (w - 1) - 1) / 2.0), abs=1e-12)


@pytest.mark.quick
def test_the_level_of_a_window_means_nothing():
    first, second, _ = showings(2)
    level = np.random.default_rng(0).normal(0, 3, (len(first), 1))
    for sums in (repeats.position_sums, repeats.place_sums, repeats.flip_sums):
        np.testing.assert_allclose(sums(first + level, second - level), sums(first, second), atol=1e-10)


@pytest.mark.quick
def test_flips_against_a_loop():
    first, second = (np.round(scores) for scores in showings(3, windows=2, size=5, noise=1.5)[:2])
    untied = flips = early = pairs = 0
    for one, two in zip(first, second, strict=True):
        for i, j in itertools.combinations(range(5), 2):  # i is shown before j in the first showing
            pairs += 1
            if one[i] == one[j] or two[i] == two[j]:
                continue
            untied += 1
            if (one[i] > one[j]) != (two[i] > two[j]):
                flips += 1
                early += one[i] > one[j]  # and j, then the earlier, wins the second
    assert 0 < early < flips < untied < pairs
    sums = repeats.flip_sums(first, second).sum(axis=0)
    assert sums.tolist() == [untied, flips, early, pairs]
    np.testing.assert_allclose(repeats.flip_statistics(sums), [flips / untied, early / flips, 1 - untied / pairs])


@pytest.mark.quick
def test_flips_by_hand():
    one, two = [[2.0, 1.0, 0.0]], [[0.0, 1.0, 2.0]]  # whoever is shown first wins, both times
    np.testing.assert_allclose(repeats.flip_statistics(repeats.flip_sums(one, two)[0]), [1.0, 1.0, 0.0])
    np.testing.assert_allclose(repeats.flip_statistics(repeats.flip_sums(two, one)[0]), [1.0, 0.0, 0.0])
    with np.errstate(invalid="ignore"):
        same = repeats.flip_statistics(repeats.flip_sums(one, one)[0])
    assert same[0] == 0
    assert np.isnan(same[1])


@pytest.mark.quick
def test_answers_agree_as_krippendorffs_alpha_says():
    krippendorff = pytest.importorskip("krippendorff", reason="krippendorff is not installed")
    generator = np.random.default_rng(4)
    n = generator.integers(0, 7, 60)
    chance = generator.beta(0.5, 0.5, 60)
    passes = generator.binomial(n, chance)
    values = np.full((6, 60), np.nan)
    for unit in range(60):
        values[: n[unit], unit] = np.arange(n[unit]) < passes[unit]
    sums = repeats.answer_sums(passes[:, None], n).sum(axis=0)
    flips, rate, chance_of_flip, alpha = repeats.answer_statistics(sums)
    assert alpha == pytest.approx(krippendorff.alpha(values, level_of_measurement="nominal"), abs=1e-12)
    again = n >= 2
    assert rate == pytest.approx(passes[again].sum() / n[again].sum())
    pooled = np.concatenate([values[: n[unit], unit] for unit in np.flatnonzero(again)])
    pairs = list(itertools.permutations(range(len(pooled)), 2))
    assert chance_of_flip == pytest.approx(np.mean([pooled[i] != pooled[j] for i, j in pairs]))
    assert alpha == pytest.approx(1 - flips / chance_of_flip)


@pytest.mark.quick
def test_flip_rate_by_hand():
    # 2 of 4 yes: 4 of 6 pairs differ, weighed by 4 placements; 3 of 3: none, by 3; one placement has no pair.
    flips, rate, *_ = repeats.answer_statistics(repeats.answer_sums([[2], [3], [1]], [4, 3, 1]).sum(axis=0))
    assert flips == pytest.approx((4 * 4 / 6 + 0) / 7)
    assert rate == pytest.approx(5 / 7)


@pytest.mark.quick
def test_correlations_are_scipys():
    generator = np.random.default_rng(5)
    x = generator.standard_normal(40)
    y = np.round(x + generator.standard_normal(40), 1)
    assert repeats.correlation(repeats.correlation_sums(x, y).sum(axis=0)) == pytest.approx(stats.pearsonr(x, y)[0])
    assert repeats.spearman(x, y) == pytest.approx(stats.spearmanr(x, y)[0])
    assert np.isnan(repeats.spearman(x, np.zeros(40)))
    assert np.isnan(repeats.spearman(x[:2], y[:2]))


@pytest.mark.quick
def test_spearman_brown_gives_the_reliability_of_the_whole():
    generator = np.random.default_rng(6)
    true = generator.standard_normal(200_000)
    half = [true + generator.standard_normal(true.size) for _ in range(4)]
    r = np.corrcoef(half[0], half[1])[0, 1]
    whole = np.corrcoef(half[0] + half[1], half[2] + half[3])[0, 1]
    assert repeats.spearman_brown(r) == pytest.approx(whole, abs=0.005)


@pytest.mark.parametrize("bias", [0.0, 0.1, -0.3])
def test_what_is_planted_comes_back_within_its_standard_error_and_nothing_comes_of_nothing(bias):
    z, even = [], []
    for seed in range(200):
        first, second, codes = showings(seed, bias=bias)
        found = jackknife(over_queries(repeats.position_sums(first, second), codes), repeats.position_statistics)
        z.append((found.value - [2 * bias, 0.5]) / found.se)
        flips = jackknife(over_queries(repeats.flip_sums(first, second), codes), repeats.flip_statistics)
        even.append((flips.value[1] - 0.5) / flips.se[1])
    z, even = np.array(z), np.array(even)
    print("\nposition, noise: mean z", z.mean(axis=0), "rms", np.sqrt((z**2).mean(axis=0)), "even", np.abs(even).mean())
    # t with 11 degrees of freedom: 93.0% within 2, a root mean square of 1.11
    assert (np.abs(z) <= 2).mean(axis=0) == pytest.approx([0.93, 0.93], abs=0.05)
    assert np.sqrt((z**2).mean(axis=0)) == pytest.approx([1.11, 1.11], abs=0.16)
    if bias == 0:
        assert (np.abs(even) <= 2).mean() == pytest.approx(0.93, abs=0.05)
    else:
        assert (even * np.sign(bias) > 2).mean() > 0.9


def test_places_show_the_shape_of_an_effect():
    first, second, codes = showings(7, queries=40, windows=20, bias=0.0)
    first[:, 0] += 1.0  # only the first place counts
    second[:, -1] += 1.0
    found = jackknife(over_queries(repeats.place_sums(first, second), codes), lambda sums: sums[..., 0] / sums[..., 1])
    # half the difference of mirrored places: the first gains what the last lacks
    np.testing.assert_allclose(found.value, [0.5, *[0.0] * 8, -0.5], atol=4 * found.se.max())
