"""Which gains belong to which subset: what is found, what is ambiguous, what is refused."""

from __future__ import annotations

import pytest

pytest.importorskip("mteb", reason="mteb is not installed: pip install 'rcp-irx[mteb]'")

from rcp_irx import RCPError, RCPWarning
from rcp_irx.mteb import with_rcp
from rcp_irx.mteb.sources import stamped
from tests.mteb.collection import OneSubset, TwoSubsets, gains

pytestmark = pytest.mark.mteb

TWO = gains("one", "two")


def found(task, given):
    return {subset: own.datasets for subset, own in with_rcp(task, given).rcp.gains.items()}


def test_a_table_whose_datasets_are_called_like_the_subsets():
    assert found(TwoSubsets(), TWO) == {"one": ["one"], "two": ["two"]}
    assert found(TwoSubsets(), gains("one", "two", "three")) == {"one": ["one"], "two": ["two"]}
    assert found(TwoSubsets(), gains("InMemoryTwo/one", "InMemoryTwo/two", "Other/one")) == {
        "one": ["InMemoryTwo/one"],
        "two": ["InMemoryTwo/two"],
    }


@pytest.mark.parametrize("dataset", ["", "default", "InMemory", "InMemory/default", "whatever"])
def test_a_table_of_one_dataset_for_a_task_with_one_subset(dataset):
    assert found(OneSubset(), gains(dataset)) == {"default": [dataset]}


def test_a_suites_table_names_the_task():
    assert found(OneSubset(), gains("InMemory", "Other")) == {"default": ["InMemory"]}


def test_a_mapping():
    mapping = {"two": TWO.select("one"), "one": TWO.select("two")}
    assert found(TwoSubsets(), mapping) == {"one": ["two"], "two": ["one"]}
    task = TwoSubsets()
    task.hf_subsets = ["two"]
    assert found(task, mapping) == {"two": ["one"]}


def test_what_may_mean_two_things_is_refused():
    with pytest.raises(RCPError, match="'InMemory', 'default' of the gains may all be subset 'default' of InMemory"):
        with_rcp(OneSubset(), gains("InMemory", "default"))


@pytest.mark.parametrize(
    ("task", "given", "message"),
    [
        (TwoSubsets, gains("one"), "no gains for subset 'two' of InMemoryTwo: .* found 'one'"),
        (TwoSubsets, gains(""), "no gains for subset 'one', 'two' of InMemoryTwo: .* found ''"),
        (
            OneSubset,
            TWO,
            "no gains for subset 'default' of InMemory: looked .*'InMemory', 'default', and found 'one', 'two'",
        ),
        (TwoSubsets, {"one": TWO.select("one")}, "no gains for subset 'two' of InMemoryTwo; there are gains for 'one'"),
        (TwoSubsets, {"one": TWO, "two": TWO}, "of subset 'one' .* hold the datasets 'one', 'two', and must be of one"),
        (TwoSubsets, {"three": TWO}, "InMemoryTwo has no subset 'three'"),
        (TwoSubsets, {}, "there are gains for none"),
        (OneSubset, {"default": 3}, "GainTables, or their names or folders, not int"),
        (OneSubset, None, "GainTables, or their names or folders, not NoneType"),
        (OneSubset, "no such folder", "neither a gain folder nor one of the registered gains"),
    ],
    ids=str,
)
def test_gains_that_do_not_fit_are_refused(task, given, message):
    with pytest.raises(RCPError, match=message):
        with_rcp(task(), given)


def test_one_subset_of_several_needs_gains_by_name():
    """The one that is left may not be the one that an unnamed table is of."""
    task = TwoSubsets()
    task.hf_subsets = ["two"]
    assert found(task, TWO) == {"two": ["two"]}
    with pytest.raises(RCPError, match="no gains for subset 'two'"):
        with_rcp(task, gains("one"))


def test_a_subset_that_is_taken_in_after_wrapping_has_no_gains():
    task = TwoSubsets()
    task.hf_subsets = ["two"]
    wrapped = with_rcp(task, TWO)
    wrapped.filter_languages(None, hf_subsets=["one"])
    wrapped.load_data()
    with pytest.raises(RCPError, match="InMemoryTwo, one, test: the task was wrapped with gains for 'two' only"):
        wrapped.task_specific_scores({}, {"q": {"d": 1}}, {}, hf_split="test", hf_subset="one")


def test_subsets_of_several_fits_are_warned_of():
    other = gains("two", seed=5)
    assert other.fit_id != TWO.fit_id
    with pytest.warns(RCPWarning, match="InMemoryTwo: the subsets' gains come from 2 fits"):
        wrapped = with_rcp(TwoSubsets(), {"one": TWO.select("one"), "two": other})
    assert stamped(wrapped.metadata.revision).fits == tuple(sorted([TWO.fit_id, other.fit_id]))
    assert stamped("an unstamped revision") is None
