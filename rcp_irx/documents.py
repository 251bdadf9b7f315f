"""Queries, documents and their ids; reading pools of them out of frames.

What a judge makes of them is for `judging`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from rcp_irx.errors import RCPError, examples, warn


@dataclass(frozen=True)
class Document:
    """A document of a pool: its id and the text that is judged."""

    id: str
    text: str


@dataclass(frozen=True)
class Query:
    """A query, and what else a judge may be shown: context fields (name, text), the task (what counts as relevant)."""

    id: str
    text: str
    dataset: str = ""
    context: tuple[tuple[str, str], ...] = ()
    task: str | None = None

    def __str__(self) -> str:
        return f"query {self.id!r}" + (f" of dataset {self.dataset!r}" if self.dataset else "")


@dataclass(frozen=True)
class Pool:
    """A query's candidate documents in pool order (rank 0 first), and the columns kept beside each."""

    query: Query
    documents: tuple[Document, ...]
    columns: tuple[dict[str, Any], ...] = field(default=(), compare=False)


def identifier(value: Any, what: str = "id") -> str:
    """An id as text: strings as they are ("007" and "1e3" survive), whole numbers as their digits.

    Raises
    ------
    RCPError
        For None, NaN, an empty string, and numbers with a decimal point ("19335.0" would match no other id).
    """
    if isinstance(value, str):
        if not value:
            raise RCPError(f"{what} is an empty string")
        return value
    if value is None or pd.isna(value):
        raise RCPError(f"{what} is missing (None or NaN)")
    if isinstance(value, bytes):
        raise RCPError(f"{what} {value!r} is bytes; decode it to text")
    if isinstance(value, float) or getattr(getattr(value, "dtype", None), "kind", "") == "f":
        raise RCPError(f"{what} {value!r} is a number with a decimal point; read ids as text, or convert them to int")
    return str(value)


def id_column(frame: pd.DataFrame, column: str, what: str = "frame") -> pd.Series:
    """A column of ids as text; the first offending row is named.

    Raises
    ------
    RCPError
        If the column is absent, or holds a value that `identifier` refuses.
    """
    if column not in frame.columns:
        raise RCPError(f"the {what} has no column {column!r} (it has {list(frame.columns)})")
    values = frame[column]
    codes, unique = pd.factorize(values, use_na_sentinel=True)
    if (codes < 0).any():
        rows = frame.index[codes < 0].tolist()
        raise RCPError(f"column {column!r} of the {what} has no id (None or NaN) in row {examples(rows)}")
    texts = [identifier(value, f"an id in column {column!r} of the {what}") for value in unique.tolist()]
    return pd.Series([texts[code] for code in codes], index=frame.index, dtype=object)


def dataset_column(frame: pd.DataFrame, default: str = "") -> pd.Series:
    """The `dataset` column as text, or `default` for every row where the frame has none."""
    if "dataset" not in frame.columns:
        return pd.Series([default] * len(frame), index=frame.index, dtype=object)
    missing = frame["dataset"].isna()
    if missing.any():
        raise RCPError(f"column 'dataset' is missing (None or NaN) in row {examples(frame.index[missing].tolist())}")
    return frame["dataset"].map(str).astype(object)


def flags(frame: pd.DataFrame, column: str, what: str) -> np.ndarray:
    """A column of True and False; absent or missing is False."""
    if column not in frame.columns:
        return np.zeros(len(frame), dtype=bool)
    values = frame[column]
    wrong = values[values.notna() & ~values.isin([True, False])]
    if len(wrong):
        raise RCPError(f"the {what}: column {column!r} must hold True or False, not {examples(wrong)}")
    return values.eq(True).fillna(False).to_numpy(dtype=bool)


def with_keys(frame: pd.DataFrame, keys: Sequence[str], what: str, dataset: str = "") -> pd.DataFrame:
    """A copy of the frame, freshly indexed, whose id columns are text and whose `dataset` column is there (first)."""
    if not isinstance(frame, pd.DataFrame):
        raise RCPError(f"the {what} must be a DataFrame, not {type(frame).__name__}")
    frame = frame.reset_index(drop=True)
    ids = {key: id_column(frame, key, what) for key in keys}
    keyed = frame.drop(columns="dataset", errors="ignore").assign(**ids)
    keyed.insert(0, "dataset", dataset_column(frame, dataset))
    return keyed


def with_labels(frame: pd.DataFrame, what: str, dataset: str = "") -> pd.DataFrame:
    """The rows of a qrels frame as `dataset, qid, docno, label`, each document once, labels as whole numbers.

    Raises
    ------
    RCPError
        Missing columns or ids; labels that are not whole numbers; two labels for one document.
    """
    keyed = with_keys(frame, ["qid", "docno"], what, dataset)
    if "label" not in keyed.columns:
        raise RCPError(f"the {what} has no column 'label' (it has {list(frame.columns)})")
    keys = ["dataset", "qid", "docno"]
    values = pd.to_numeric(keyed["label"], errors="coerce").to_numpy(dtype=float, na_value=np.nan)
    wrong = keyed[~(np.isfinite(values) & (values == np.round(values)) & (np.abs(values) < 2**53))]
    if len(wrong):
        found = examples(wrong[[*keys[1:], "label"]].itertuples(index=False, name=None))
        raise RCPError(f"labels must be whole numbers; query, document, label: {found}; gains go in a column 'gain'")
    labels = keyed[keys].assign(label=values.astype(np.int64)).drop_duplicates()
    conflicting = labels[labels.duplicated(keys)]
    if len(conflicting):
        found = examples(conflicting[keys[1:]].itertuples(index=False, name=None))
        raise RCPError(f"two different labels for one document: query, document {found}")
    return labels


def pools(
    frame: pd.DataFrame,
    *,
    text_field: str = "text",
    context_fields: Sequence[str] = (),
    task: str | None = None,
    dataset: str = "",
    keep: Sequence[str] = (),
) -> list[Pool]:
    """The pools in a frame of candidates, one per (dataset, qid), in the order in which they first appear.

    Parameters
    ----------
    frame : DataFrame
        Columns `qid, query, docno, <text_field>`; optional `dataset`, and for the pool's order `pool_rank`, else
        `rank`, else `score` (descending, then docno), else the order of the rows.
    context_fields : sequence of str
        Columns of the topic that the judge is shown beside the query.
    task : str, optional
        What counts as relevant here; where absent, a column `task` says it for each query.
    keep : sequence of str
        Columns kept beside each document.

    Raises
    ------
    RCPError
        Missing columns; None or NaN where an id or text must be; one document id with two texts in a pool.
    """
    needed = ["qid", "query", "docno", text_field, *context_fields]
    absent = [column for column in needed if column not in frame.columns]
    if absent:
        raise RCPError(f"the pool has no column {examples(absent)}; it needs {needed} and has {list(frame.columns)}")
    frame = with_keys(frame, ["qid", "docno"], "pool", dataset)
    order = next((column for column in ("pool_rank", "rank", "score") if column in frame.columns), None)
    result = []
    for (name, qid), rows in frame.groupby(["dataset", "qid"], sort=False):
        if order is not None:
            rows = rows.sort_values([order, "docno"], ascending=[order != "score", True], kind="stable")
        query = _query(rows, str(name), str(qid), context_fields, _task(rows, str(qid)) if task is None else task)
        rows = _distinct(rows, query, text_field)
        documents = tuple(Document(docno, text) for docno, text in zip(rows["docno"], rows[text_field], strict=True))
        result.append(Pool(query, documents, tuple(rows[list(keep)].to_dict("records"))))
    return result


def _task(rows: pd.DataFrame, qid: str) -> str | None:
    """What the rows of a query say counts as relevant."""
    given = rows["task"].dropna().unique().tolist() if "task" in rows.columns else []
    if len(given) > 1 or not all(isinstance(text, str) for text in given):
        raise RCPError(f"query {qid!r}: column 'task' must hold one text, not {examples(given)}")
    return given[0] if given and given[0].strip() else None


def _query(rows: pd.DataFrame, dataset: str, qid: str, context_fields: Sequence[str], task: str | None) -> Query:
    """The query of a pool's rows: the first text that is not null counts, here and in each context field."""
    query = Query(qid, "", dataset, (), task)
    texts = {}
    for column in ["query", *context_fields]:
        given = rows[column].dropna()
        if given.empty:
            raise RCPError(f"{query} has no text in column {column!r} (None or NaN in every row)")
        if not isinstance(given.iloc[0], str):
            raise RCPError(f"{query}: column {column!r} holds {type(given.iloc[0]).__name__}, not text")
        if (given != given.iloc[0]).any():
            raise RCPError(f"{query} has several texts in column {column!r}: {examples(given)}")
        texts[column] = given.iloc[0]
    return Query(qid, texts["query"], dataset, tuple((c, texts[c]) for c in context_fields), task)


def _distinct(rows: pd.DataFrame, query: Query, text_field: str) -> pd.DataFrame:
    """The rows with each document once; the text of each checked."""
    missing = rows[text_field].isna()
    if missing.any():
        names = examples(rows["docno"][missing])
        raise RCPError(f"{query}: document {names} has no text in column {text_field!r} (None or NaN)")
    for docno, text in zip(rows["docno"], rows[text_field], strict=True):
        if not isinstance(text, str):
            raise RCPError(
                f"{query}: document {docno!r} holds {type(text).__name__} in column {text_field!r}, not text"
            )
    distinct = rows.drop_duplicates(["docno", text_field])
    conflicting = distinct["docno"][distinct["docno"].duplicated()]
    if len(conflicting):
        raise RCPError(f"{query}: document {examples(conflicting)} has two different texts in one pool")
    if len(distinct) < len(rows):
        repeated = rows["docno"][rows["docno"].duplicated()]
        warn(f"{query}: document {examples(repeated)} is in the pool twice; judged once")
    empty = distinct["docno"][distinct[text_field].str.strip() == ""]
    if len(empty):
        warn(f"{query}: document {examples(empty)} has an empty text; judged as empty")
    return distinct
