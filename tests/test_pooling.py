"""Reciprocal rank fusion pools against the stated numbers."""

from __future__ import annotations

import pytest

from rcp_irx.pooling import fill_pool, fuse
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
