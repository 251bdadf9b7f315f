"""Standard errors over queries: the textbook's for a mean, a slow loop's for a ratio, NaN where there are none."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from rcp_irx.analysis.jackknife import half_width, jackknife

pytestmark = pytest.mark.quick


def ratio(sums):
    return sums[..., :1] / sums[..., 1:]


def test_the_mean_of_one_value_per_query_has_the_usual_standard_error():
    values = np.random.default_rng(1).normal(3.0, 2.0, 17)
    found = jackknife(np.stack([values, np.ones(17)], axis=1), ratio)
    assert found.value[0] == pytest.approx(values.mean(), abs=1e-12)
    assert found.se[0] == pytest.approx(stats.sem(values), abs=1e-12)
    low, high = found.interval()
    expected = stats.t.interval(0.95, 16, values.mean(), stats.sem(values))
    np.testing.assert_allclose([low[0], high[0]], expected, atol=1e-12)


def test_a_ratio_of_sums_is_that_of_leaving_out_one_query_at_a_time():
    generator = np.random.default_rng(2)
    totals = generator.uniform(0.5, 2.0, (12, 2))
    found = jackknife(totals, ratio)
    left = [np.delete(totals, i, axis=0).sum(axis=0) for i in range(12)]
    left = np.array([one / other for one, other in left])
    assert found.value[0] == pytest.approx(totals[:, 0].sum() / totals[:, 1].sum())
    assert found.se[0] == pytest.approx(np.sqrt(11 / 12 * np.sum((left - left.mean()) ** 2)))


def test_sums_may_have_any_shape():
    totals = np.random.default_rng(3).uniform(1.0, 2.0, (9, 4, 2))
    found = jackknife(totals, lambda sums: sums[..., 0] / sums[..., 1])
    for column in range(4):
        alone = jackknife(totals[:, column], ratio)
        assert found.value[column] == pytest.approx(alone.value[0])
        assert found.se[column] == pytest.approx(alone.se[0])


def test_queries_that_add_nothing_do_not_count():
    totals = np.array([[1.0, 2.0], [0.0, 0.0], [3.0, 4.0], [2.0, 1.0]])
    found, without = jackknife(totals, ratio), jackknife(totals[[0, 2, 3]], ratio)
    assert found.queries == 3
    assert found.se[0] == without.se[0]


@pytest.mark.parametrize("queries", [0, 1])
def test_fewer_than_two_queries_have_no_standard_error(queries):
    found = jackknife(np.ones((queries, 2)), ratio)
    assert found.queries == queries
    assert np.isnan(found.se[0])
    assert np.isnan(found.value[0]) == (queries == 0)
    assert np.isnan(half_width(queries))
