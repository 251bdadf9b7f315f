"""Window counts of the full and the reduced protocol."""

from __future__ import annotations

from math import ceil

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rcp_irx import FULL, REDUCED, RCPError

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(
    ("documents", "tournament", "rubric"),
    [
        (1, 0, 7),
        (2, 13, 7),
        (9, 13, 7),
        (10, 13, 7),
        (11, 19, 7),
        (20, 29, 13),
        (30, 46, 20),
        (60, 85, 40),
        (100, 141, 67),
        (150, 216, 100),
        (287, 411, 191),
    ],
)
def test_full_protocol_counts(documents, tournament, rubric):
    counts = FULL.counts(documents)
    assert (counts.tournament, counts.rubric) == (tournament, rubric)


def test_full_protocol_at_150_is_table_2():
    counts = FULL.counts(150)
    assert 2 * (counts.random + counts.stratified) == 160  # 80 windows, each reversed
    assert counts.adaptive == (8,) * 7
    assert (counts.rubric_random, counts.rubric_stratified) == (50, 50)
    assert counts.tournament * 10 / 150 == pytest.approx(14.4)
    assert counts.rubric * 10 / 150 == pytest.approx(6.67, abs=0.005)


def test_reduced_protocol_has_the_placements_of_table_4():
    counts = REDUCED.counts(150)
    assert counts.tournament * 10 / 150 == pytest.approx(12.27, abs=0.005)
    assert counts.rubric * 10 / 150 == pytest.approx(3.93, abs=0.005)
    assert not counts.reversals


def test_odd_rubric_counts_have_the_larger_half_random():
    counts = FULL.counts(20)
    assert (counts.rubric_random, counts.rubric_stratified) == (7, 6)


def test_rounding_is_half_to_even_on_the_exact_fraction():
    assert FULL.counts(75).random == 26  # 26.5
    assert FULL.counts(75).stratified == 14  # 13.5


def test_scaling_multiplies_the_counts():
    half = FULL.scaled(0.5).counts(150)
    assert (half.random, half.stratified, half.adaptive, half.rubric) == (26, 14, (4,) * 7, 50)


def test_a_protocol_is_scaled_by_a_positive_factor():
    with pytest.raises(RCPError, match="positive"):
        FULL.scaled(0)


@given(st.integers(1, 400), st.floats(0.01, 3))
def test_random_phases_can_show_every_document_once(documents, factor):
    counts = FULL.scaled(factor).counts(documents)
    once = ceil(documents / counts.size)
    assert counts.rubric_random >= once
    assert counts.random >= once or documents == 1
    assert max(counts.adaptive, default=0) <= max(1, documents - counts.size + 1)
