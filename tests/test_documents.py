"""Ids and pools read from frames."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from rcp_irx import Document, RCPError, RCPWarning
from rcp_irx.documents import id_column, identifier, pools

pytestmark = pytest.mark.quick

ODD_IDS = ["007", "1e3", "True", "NA", "null", "a#b", "a/b:c", '"q"', "a b", "a\tb", "x" * 300, "é漢🙂"]


@pytest.mark.parametrize("value", ODD_IDS)
def test_ids_that_are_text_survive(value):
    assert identifier(value) == value


@pytest.mark.parametrize(("value", "text"), [(7, "7"), (np.int64(7), "7"), (10**20, "100000000000000000000")])
def test_whole_numbers_become_their_digits(value, text):
    assert identifier(value) == text


@pytest.mark.parametrize("value", [None, float("nan"), pd.NA, 7.0, np.float32(7), ""])
def test_ids_that_cannot_be_meant_are_refused(value):
    with pytest.raises(RCPError):
        identifier(value)


def test_a_missing_id_is_named_with_its_column_and_row():
    with pytest.raises(RCPError, match=r"column 'docno' of the frame has no id \(None or NaN\) in row 5"):
        id_column(pd.DataFrame({"docno": ["a", None]}, index=[4, 5]), "docno")


def frame(**columns):
    return pd.DataFrame({"qid": ["q", "q"], "query": ["why", "why"], "docno": ["a", "b"], "text": ["x", "y"]} | columns)


def test_a_pool_keeps_its_rank_order():
    (pool,) = pools(frame(rank=[1, 0]))
    assert pool.documents == (Document("b", "y"), Document("a", "x"))


def test_two_datasets_that_share_ids_are_two_pools():
    both = pd.concat([frame().assign(dataset="one"), frame().assign(dataset="two")])
    assert [(p.query.dataset, p.query.id) for p in pools(both)] == [("one", "q"), ("two", "q")]


def test_the_first_query_text_that_is_not_null_counts():
    (pool,) = pools(frame(query=[None, "why"]))
    assert pool.query.text == "why"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"text": ["x", None]}, "query 'q': document 'b' has no text in column 'text'"),
        ({"text": ["x", float("nan")]}, "query 'q': document 'b' has no text in column 'text'"),
        ({"text": ["x", 3]}, "query 'q': document 'b' holds int in column 'text'"),
        ({"query": [None, None]}, "query 'q' has no text in column 'query'"),
        ({"docno": ["a", "a"]}, "query 'q': document 'a' has two different texts"),
        ({"qid": ["q", None]}, "column 'qid' of the pool has no id"),
        ({"qid": [1.0, 2.0]}, "decimal point"),
    ],
)
def test_bad_pools_are_refused_with_query_document_and_column(columns, message):
    with pytest.raises(RCPError, match=message):
        pools(frame(**columns))


def test_a_missing_column_is_named():
    with pytest.raises(RCPError, match="no column 'text'"):
        pools(frame().drop(columns="text"))


def test_a_repeated_row_is_one_document_and_a_warning():
    with pytest.warns(RCPWarning, match="'a' is in the pool twice"):
        (pool,) = pools(frame(docno=["a", "a"], text=["x", "x"]))
    assert pool.documents == (Document("a", "x"),)


def test_one_text_under_two_ids_is_two_documents():
    (pool,) = pools(frame(text=["x", "x"]))
    assert len(pool.documents) == 2


def test_an_empty_text_is_judged_as_empty_with_a_warning():
    with pytest.warns(RCPWarning, match="'b' has an empty text"):
        (pool,) = pools(frame(text=["x", " "]))
    assert pool.documents[1].text == " "


def test_context_and_task_are_part_of_the_query():
    (pool,) = pools(frame(narrative=["n", "n"]), context_fields=["narrative"], task="find proofs")
    assert pool.query.context == (("narrative", "n"),)
    assert pool.query.task == "find proofs"


def test_a_column_tells_the_task_of_each_query_where_none_is_given():
    frame = pd.DataFrame(
        {"qid": ["1", "1", "2"], "query": "q", "docno": list("abc"), "text": "t", "task": ["x", None, ""]}
    )
    assert [pool.query.task for pool in pools(frame)] == ["x", None]
    assert [pool.query.task for pool in pools(frame, task="y")] == ["y", "y"]
    with pytest.raises(RCPError, match="query '1': column 'task' must hold one text, not 'x', 'z'"):
        pools(frame.assign(task=["x", "z", "x"]))
