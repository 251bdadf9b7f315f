"""The bootstrap of queries: what is drawn, and that its intervals are those of a plain loop."""

from __future__ import annotations

import numpy as np
import pytest

from rcp_irx.analysis.clusters import bootstrap, draws, totals
from rcp_irx.errors import RCPError

pytestmark = pytest.mark.quick


def test_queries_are_drawn_within_their_stratum():
    strata = np.array([0, 1, 0, 1, 1, 2])
    weights = draws(strata, 500, 7)
    assert weights.shape == (6, 500)
    for stratum, size in [(0, 2), (1, 3), (2, 1)]:
        assert (weights[strata == stratum].sum(axis=0) == size).all()
    assert (weights[5] == 1).all()
    np.testing.assert_allclose(weights.mean(axis=1), 1, atol=0.12)  # three standard errors of a count with SD .82
    assert np.array_equal(weights, draws(strata, 500, 7))
    assert not np.array_equal(weights, draws(strata, 500, 8))


def test_the_interval_of_a_mean_is_that_of_a_plain_bootstrap():
    random = np.random.default_rng(3)
    values = random.normal(size=60)
    found = bootstrap(lambda weights: {"mean": values @ weights / 60}, np.zeros(60, int), 60, 4000, 1)["mean"]
    plain = [random.choice(values, 60).mean() for _ in range(4000)]
    assert found.value == pytest.approx(values.mean(), abs=1e-15)
    np.testing.assert_allclose([found.low, found.high], np.quantile(plain, [0.025, 0.975]), atol=0.02)
    assert found.undefined == 0


def test_blocks_of_resamples_change_nothing():
    values = np.random.default_rng(3).normal(size=30)
    each, together = (
        bootstrap(lambda weights: {"mean": values @ weights / 30}, np.zeros(30, int), units, 99, 1)
        for units in (10**9, 1)
    )
    assert each["mean"] == pytest.approx(together["mean"], abs=1e-14)


def test_where_there_is_nothing_to_draw_there_is_no_interval():
    def mean(weights):
        return {"mean": np.array([1.0, 3.0]) @ weights / weights.sum(axis=0)}

    found = bootstrap(mean, np.array([0, 1]), 2, 50, 1)["mean"]
    assert found.value == 2
    assert np.isnan([found.low, found.high]).all()


def test_resamples_without_a_value_are_counted():
    def share(weights):  # of the first query; none without the second
        return {"share": np.where(weights[1] > 0, weights[0] / np.maximum(weights[1], 1), np.nan)}

    found = bootstrap(share, np.zeros(2, int), 2, 1000, 1)["share"]
    assert found.undefined == pytest.approx(250, abs=45)  # (1/2)^2 of the resamples, three standard errors
    assert (found.low, found.high) == (0, 1)
    rare = bootstrap(lambda weights: {"x": np.where(weights[0] == 1, 1.0, np.nan)}, np.zeros(9, int), 9, 500, 1)["x"]
    assert rare.value == 1
    assert np.isnan(rare.low)  # more than half of the resamples have none


def test_sums_per_query_and_bad_arguments():
    sums = np.array([[1.0, 2.0, 4.0], [1.0, 1.0, 1.0]])
    assert totals(sums, np.array([0, 2, 0]), 4).tolist() == [[5, 0, 2, 0], [2, 0, 1, 0]]
    with pytest.raises(RCPError, match="resamples is a whole number from 1 up, not 0"):
        bootstrap(lambda weights: {}, np.zeros(3, int), 3, 0)
