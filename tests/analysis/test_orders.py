"""Paired tests, correlations and ranks of leaderboards against scipy; identical systems have p = 1."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats

from rcp_irx.analysis.orders import kendall, paired_differences, pairs_of, ranks

pytestmark = pytest.mark.quick


def test_paired_differences_are_scipys():
    scores = np.random.default_rng(1).uniform(size=(30, 5)) + np.arange(5) / 10
    mean, p = paired_differences(scores)
    assert list(zip(*pairs_of(5), strict=True)) == list(itertools.combinations(range(5), 2))
    for place, (i, j) in enumerate(itertools.combinations(range(5), 2)):
        assert mean[place] == pytest.approx(scores[:, i].mean() - scores[:, j].mean())
        assert p[place] == pytest.approx(stats.ttest_rel(scores[:, i], scores[:, j]).pvalue)


def test_identical_systems_have_p_one_and_rounding_is_no_difference():
    one = np.random.default_rng(2).uniform(size=12)
    mean, p = paired_differences(np.stack([one, one, one + 1e-12, one + 0.25], axis=1))
    assert mean.tolist()[:2] == [0.0, 0.0]
    assert p[[0, 1, 3]].tolist() == [1.0, 1.0, 1.0]
    assert p[2] == 0.0  # as much better on every query
    _, p = paired_differences([[0.5, 0.5, 0.25]])
    assert p[0] == 1.0
    assert np.isnan(p[1:]).all()


def test_kendall_and_ranks():
    one, other = [0.5, 0.4, 0.3, 0.3], [0.6, 0.2, 0.3, 0.1]
    assert kendall(one, other) == pytest.approx(stats.kendalltau(one, other)[0])
    assert np.isnan(kendall([0.5], [0.5]))
    assert np.isnan(kendall([0.5, 0.5 + 1e-12], [0.1, 0.2]))
    assert ranks([0.3, 0.5, 0.3, 0.1]).tolist() == [2, 1, 2, 4]
