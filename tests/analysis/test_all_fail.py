"""Documents that fail everything: which they are, and the decisions that gains of 0 for them would change."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel

from rcp_irx import GainTable
from rcp_irx.analysis.all_fail import all_fail_rows, decisions, zeroed_rows
from rcp_irx.analysis.fitted import read_fitted, read_tops
from rcp_irx.evaluation import ndcg
from tests.analysis.simulated_suites import runs, suite, table

pytestmark = pytest.mark.quick


def test_decisions_by_a_slow_loop():
    random = np.random.default_rng(0)
    before = random.normal(0, 1, (30, 1)) + random.normal(0, 0.3, (30, 6)) + np.linspace(0, 0.4, 6)
    after = before + random.normal(0, 0.2, (30, 6))
    after[:, 5] -= 1  # the best becomes the worst
    separated = changed = turned = 0
    for a, b in itertools.combinations(range(6), 2):
        was, now = ttest_rel(before[:, a], before[:, b]), ttest_rel(after[:, a], after[:, b])
        separated += was.pvalue < 0.05
        changed += (was.pvalue < 0.05) != (now.pvalue < 0.05)
        turned += was.pvalue < 0.05 and was.statistic * now.statistic < 0
    found = decisions(before, after)
    assert (found.pairs, found.separated, found.changed, found.reversed) == (15, separated, changed, turned)
    assert turned >= 3  # some pairs with the last system


def test_systems_alike_are_not_separated_and_a_constant_difference_is():
    same = np.tile([[0.2, 0.2, 0.3]], (5, 1))
    found = decisions(same, same[:, [2, 1, 0]])
    assert (found.pairs, found.separated, found.separated_after) == (3, 2, 2)
    assert (found.changed, found.reversed) == (2, 1)


@pytest.mark.parametrize("scores", [[[0.1, 0.9]], [[0.5], [0.6]]])
def test_one_query_or_one_system_decides_nothing(scores):
    found = decisions(scores, scores)
    assert (found.separated, found.changed, found.reversed) == (0, 0, 0)


def small():
    """Two queries of three documents; "c" of each fails everything, "b" of q2 was not placed."""
    rows = [
        ("q1", "a", 0.8, 2.0, 2, 2, 1),
        ("q1", "b", 0.5, 1.0, 2, 1, 0),
        ("q1", "c", 0.2, 0.0, 2, 0, 0),
        ("q2", "a", 0.6, 1.5, 2, 1, 1),
        ("q2", "b", 0.4, 0.5, 0, 0, 0),
        ("q2", "c", 0.3, 0.2, 1, 0, 0),
    ]
    documents = pd.DataFrame(rows, columns=["qid", "docno", "gain", "theta", "n", "C1", "C2"])
    documents = documents.assign(dataset="", bt=documents["theta"], pool_rank=0, excluded=False)
    queries = pd.DataFrame({"dataset": "", "qid": ["q1", "q2"], "query": "why", "tau": 1.0, "alpha": 0.0})
    criteria = pd.DataFrame({"id": ["C1", "C2"], "name": "n", "question": "q", "gamma": 1.0, "beta": [-1.0, 1.0]})
    return GainTable(documents, queries, criteria)


def test_a_document_that_was_not_placed_has_not_failed():
    (row,) = all_fail_rows(read_fitted(small()), 2).to_dict("records")
    assert (row["documents"], row["placed"], row["all_fail"]) == (6, 5, 2)
    assert row["share"] == pytest.approx(2 / 6)
    assert row["mean_gain"] == pytest.approx(0.25)
    assert row["ideal_share"] == 0  # the ideal top 2 are "a" and "b"


def test_the_ideal_share_is_of_the_ideal_dcg():
    (row,) = all_fail_rows(read_fitted(small()), 3).to_dict("records")
    of_q1 = 0.2 / 2 / (0.8 + 0.5 / np.log2(3) + 0.2 / 2)
    of_q2 = 0.3 / 2 / (0.6 + 0.4 / np.log2(3) + 0.3 / 2)
    assert row["ideal_share"] == pytest.approx((of_q1 + of_q2) / 2)


def test_scores_are_those_of_a_table_whose_gains_are_zero():
    gains = table(suite(20, 30, offset=-6), datasets=2)
    fails = gains.documents["n"].gt(0) & gains.documents[["C1", "C2", "C3", "C4", "C5"]].sum(axis=1).eq(0)
    zeroed = GainTable(
        gains.documents.assign(gain=gains.documents["gain"].mask(fails, 0.0)), gains.queries, gains.criteria
    )
    systems = runs(gains)
    fitted = read_fitted(gains)
    tops = read_tops(systems, fitted, 10)
    before = np.column_stack([ndcg(run, gains, 10) for run in systems.values()])
    after = np.column_stack([ndcg(run, zeroed, 10) for run in systems.values()])
    order = [list(ndcg(systems["noise 0.5"], gains, 10).index).index(tuple(key)) for key in
             fitted.queries[["dataset", "qid"]].itertuples(index=False, name=None)]  # fmt: skip
    np.testing.assert_allclose(tops.ndcg(fitted.gain), before[order], atol=1e-12)
    np.testing.assert_allclose(tops.ndcg(np.where(fails, 0.0, fitted.gain)), after[order], atol=1e-12)
    rows = zeroed_rows(fitted, tops).set_index("dataset")
    for dataset in ("d0", "d1"):
        here = [key[0] == dataset for key in fitted.queries[["dataset", "qid"]].itertuples(index=False, name=None)]
        change = after[order][here].mean(axis=0) - before[order][here].mean(axis=0)
        most = np.abs(change).argmax()
        assert rows.loc[dataset, "largest_change"] == pytest.approx(change[most], abs=1e-12)
        assert rows.loc[dataset, "system"] == list(systems)[most]
        assert rows.loc[dataset, "queries"] == 10
