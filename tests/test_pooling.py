"""Reciprocal rank fusion pools against the stated numbers."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from rcp_irx import RCPError
from rcp_irx.pooling import fill_pool, fuse, pool_runs
from tests.conftest import cases

pytestmark = pytest.mark.quick


def ranks(*rankings):
    return [{docno: rank for rank, docno in enumerate(ranking, start=1)} for ranking in rankings]


@pytest.mark.parametrize("case", cases("pool"))
def test_pools_with_missed_positives(case):
    given, expected = case["input"], case["expected"]
    fused = fuse(ranks(*given["rankings"]), given["kappa"])
    kept, added = fill_pool(list(fused), dict.fromkeys(given["positives"], 1), given["size"], "positives")
    assert kept == expected["kept"]
    assert kept + added == expected["pool"]


def test_fusion_scores_are_summed_reciprocal_ranks():
    assert fuse(ranks(["a", "b"], ["b"]), 60) == {"b": 1 / 62 + 1 / 61, "a": 1 / 61}


def test_fusion_ties_go_to_the_best_single_rank_and_then_to_the_docno():
    # kappa 0: 1/2 + 1/2 = 1/1 for a (ranks 2 and 2) and b (rank 1)
    assert list(fuse([{"a": 2, "b": 1}, {"a": 2}], 0)) == ["b", "a"]
    assert list(fuse([{"y": 1}, {"x": 1}], 60)) == ["x", "y"]


def test_missed_positives_come_by_grade_and_then_by_docno():
    assert fill_pool(["a", "b", "c"], {"z": 1, "y": 2, "x": 1}, 3, "positives") == ([], ["y", "x", "z"])


def test_a_short_pool_is_filled_before_anything_is_replaced():
    assert fill_pool(["a"], {"z": 1}, 3, "positives") == (["a"], ["z"])


def test_judged_documents_join_without_replacing_any():
    labels = {"z": 0, "y": 2, "a": 3, "u": -1}
    assert fill_pool(["a", "b"], labels, 2, "judged") == (["a", "b"], ["y", "z"])


def test_without_add_labels_do_not_matter():
    assert fill_pool(["a", "b", "c"], {"z": 3}, 2, None) == (["a", "b"], [])


def test_the_pools_of_runs_follow_their_scores_with_ties_as_trec_eval_has_them():
    first = pd.DataFrame({"qid": ["1", "1", "1", "2"], "docno": ["a", "b", "c", "x"], "score": [1.0, 2.0, 2.0, 0.5]})
    second = pd.DataFrame({"qid": ["1"], "docno": ["a"], "score": [9.0]})
    labels = pd.DataFrame({"qid": ["1", "1"], "docno": ["z", "c"], "label": [2, 1]})
    pool = pool_runs([first, second], num_results=2, qrels=labels, add="judged")
    assert pool[["qid", "docno", "pool_rank", "origin"]].values.tolist() == [
        ["1", "a", 0, "fused"],
        ["1", "c", 1, "fused"],
        ["1", "z", 2, "judged"],
        ["2", "x", 0, "fused"],
    ]
    assert pool["score"].tolist() == [1 / 63 + 1 / 61, 1 / 61, 0.0, 1 / 61]
    np.testing.assert_array_equal(pool["source_rank_1"], [3, 1, np.nan, 1])
    np.testing.assert_array_equal(pool["source_rank_2"], [1, np.nan, np.nan, np.nan])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"num_results": 0}, "num_results is a whole number"),
        ({"kappa": 0}, "kappa is above 0"),
        ({"add": "all"}, "add is None"),
        ({"add": "judged"}, "needs qrels"),
    ],
)
def test_settings_that_cannot_be(options, message):
    run = pd.DataFrame({"qid": ["1"], "docno": ["a"], "score": [9.0]})
    with pytest.raises(RCPError, match=message):
        pool_runs([run], **options)
    with pytest.raises(RCPError, match="no run"):
        pool_runs([])
