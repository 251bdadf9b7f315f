"""How warnings find the user's line, and how messages count and list."""

from __future__ import annotations

import warnings

import ir_measures
import pytest

from rcp_irx import RCPnDCG
from rcp_irx.errors import counted, examples, warn
from rcp_irx.evaluation import ndcg

pytestmark = pytest.mark.quick


def test_examples_are_at_most_three_in_a_stable_order() -> None:
    assert examples(["b", "a"]) == "'a', 'b'"
    assert examples(["d", "c", "b", "a", "a"]) == "'a', 'b', 'c' and 1 more"


def test_numbers_agree_with_their_nouns() -> None:
    assert [counted(n, "query", "queries") for n in (0, 1, 2)] == ["0 queries", "1 query", "2 queries"]
    assert counted(2, "window") == "2 windows"


@pytest.mark.parametrize(
    "call",
    [
        lambda: warn("here"),
        lambda: ndcg({"q": {"x": 1.0}}, {"q": {"a": 0.5}}),
        lambda: ir_measures.calc([RCPnDCG @ 1], {"q": {"a": 0.5}}, {"q": {"x": 1.0}}),
    ],
    ids=["directly", "through this package", "through a framework"],
)
def test_warnings_point_at_the_line_outside_of_packages(call) -> None:  # type: ignore[no-untyped-def]  # any callable
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    assert [warning.filename for warning in caught] == [__file__]
