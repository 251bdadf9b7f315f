"""Reads the columns of frames and nested dicts, ids checked; what runs and gains make of them is for `inputs`."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import chain
from typing import Any, TypeAlias

import numpy as np
import pandas as pd
from pandas.api.extensions import ExtensionArray

from rcp_irx.documents import id_column, identifier
from rcp_irx.errors import RCPError, examples

Nested: TypeAlias = Mapping[Any, Mapping[Any, float]]
QueryKey: TypeAlias = tuple[str, str]
Texts: TypeAlias = "np.ndarray | ExtensionArray"

NAMES = {"qid": ("qid", "query_id"), "docno": ("docno", "doc_id")}


def flat(nested: Nested, value: str, what: str) -> tuple[pd.DataFrame, list[str]]:
    """A dict of dicts as a frame, and the ids of its queries without documents."""
    for qid, documents in nested.items():
        if not isinstance(documents, Mapping):
            raise RCPError(f"the {what} must map each query to a dict of documents; {qid!r} has {documents!r}")
    qids = np.empty(len(nested), dtype=object)
    qids[:] = list(nested)
    columns = {
        "qid": np.repeat(qids, np.array([len(documents) for documents in nested.values()], dtype=np.int64)),
        "docno": list(chain.from_iterable(nested.values())),
        value: list(chain.from_iterable(documents.values() for documents in nested.values())),
    }
    frame = pd.DataFrame({name: pd.Series(column, dtype=object) for name, column in columns.items()})
    return frame, [identifier(qid, "a query id") for qid, documents in nested.items() if not documents]


def query_keys(frame: pd.DataFrame, what: str) -> tuple[np.ndarray, list[QueryKey]]:
    """A code per row, and the (dataset, qid) that each code stands for; dataset "" where the frame has none."""
    query, qids = _coded(frame, column_of(frame, "qid", what), what)
    if "dataset" not in frame.columns:
        return query, [("", qid) for qid in qids]
    dataset, names = _coded(frame, "dataset", what)
    codes, unique = pd.factorize(dataset * len(qids) + query)
    return codes, [(names[pair // len(qids)], qids[pair % len(qids)]) for pair in unique.tolist()]


def column_of(frame: pd.DataFrame, name: str, what: str) -> str:
    """The frame's name for a column, PyTerrier's or ir_measures'."""
    names = NAMES.get(name, (name,))
    for candidate in names:
        if candidate in frame.columns:
            return candidate
    raise RCPError(f"the {what} has no column {' or '.join(map(repr, names))} (it has {list(frame.columns)})")


def _coded(frame: pd.DataFrame, column: str, what: str) -> tuple[np.ndarray, list[str]]:
    """A code per row of an id column, and the distinct ids as text (7 and "7" are one)."""
    values = frame[column]
    if isinstance(values, pd.DataFrame):
        raise RCPError(f"the {what} has several columns {column!r}")
    if _in_arrow(values):
        codes, distinct = pd.factorize(values)
    elif _all_text(rows := values.to_numpy(dtype=object)):
        # a run's rows come query by query: only the first of each stretch needs its text looked up
        head = np.append(True, rows[1:] != rows[:-1])
        codes, distinct = pd.factorize(pd.Series(rows[head], dtype=object))
        codes = np.repeat(codes, np.diff(np.append(np.flatnonzero(head), len(rows))))
    else:
        try:
            codes, distinct = pd.factorize(pd.Series(rows, dtype=object))
        except TypeError as error:
            raise RCPError(f"the {what}: column {column!r} must hold ids ({error})") from error
    if (codes < 0).any():
        raise RCPError(f"the {what}: no id (None or NaN) in column {column!r}, row {examples(frame.index[codes < 0])}")
    ids = [
        "" if column == "dataset" and value == "" else identifier(value, f"the {what}: an id in column {column!r}")
        for value in distinct.tolist()
    ]
    if len(set(ids)) == len(ids):
        return codes, ids
    merged, texts = pd.factorize(np.array(ids, dtype=object))
    return merged[codes], texts.tolist()


def texts(frame: pd.DataFrame, name: str, what: str) -> Texts:
    """An id column as text; a column that is all text already is not copied."""
    column = column_of(frame, name, what)
    if _in_arrow(frame[column]) and not frame[column].isna().any():
        return frame[column].array
    values = frame[column].to_numpy(dtype=object)
    if not len(values) or _all_text(values):
        return values
    if isinstance(frame[column].dtype, np.dtype) and frame[column].dtype.kind in "iu":
        return frame[column].to_numpy().astype(str).astype(object)
    return id_column(frame, column, what).to_numpy(dtype=object)


def as_objects(values: Texts) -> np.ndarray:
    """Texts as an object array."""
    return np.asarray(values, dtype=object)


def _in_arrow(values: pd.Series) -> bool:
    """Whether texts are kept in Arrow memory, where objects would take several times the room."""
    return isinstance(values.dtype, pd.StringDtype) and values.dtype.storage == "pyarrow"


def _all_text(values: np.ndarray) -> bool:
    return pd.api.types.infer_dtype(values, skipna=False) == "string"


def floats(frame: pd.DataFrame, column: str, what: str) -> np.ndarray:
    """A column of numbers as float64; missing values are NaN."""
    values = frame[column_of(frame, column, what)]
    if isinstance(values, pd.DataFrame):
        raise RCPError(f"the {what} has several columns {column!r}")
    if values.dtype == np.float64:
        return values.to_numpy()
    if getattr(values.dtype, "kind", "O") in "Mmc":
        raise RCPError(f"the {what}: column {column!r} must hold numbers, not {values.dtype}")
    try:
        return pd.to_numeric(values).to_numpy(dtype=np.float64, na_value=np.nan)
    except (ValueError, TypeError, OverflowError) as error:
        raise RCPError(f"the {what}: column {column!r} must hold numbers ({error})") from error
