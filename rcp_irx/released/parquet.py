"""Parquet files to columns with checked types and back; what they mean is for `reading` and `writing`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rcp_irx.documents import id_column
from rcp_irx.errors import MissingExtra, RCPError, examples

IDS, NUMBERS, TEXTS, ID_LISTS = "ids", "numbers", "texts", "lists of ids"


def pyarrow() -> Any:
    """The pyarrow module, with its Parquet part.

    Raises
    ------
    MissingExtra
        If it is not installed.
    """
    try:
        import pyarrow
        import pyarrow.parquet
    except ModuleNotFoundError as error:
        if error.name is None or error.name.split(".")[0] != "pyarrow":
            raise
        raise MissingExtra("pyarrow", "hub") from error
    return pyarrow


def read(
    folder: Path, names: Sequence[str], columns: Mapping[str, str], optional: Mapping[str, str] | None = None
) -> pd.DataFrame:
    """Columns of the files' rows: ids as text, numbers as float64 (null is NaN), texts and lists as objects.

    Parameters
    ----------
    columns, optional : name -> kind
        What must be there, and what is read where it is.

    Raises
    ------
    RCPError
        A file that is no Parquet; a missing column; a column of another type; a missing id; NaN that is not null.
    """
    parts = [_read(folder / name, columns, optional or {}) for name in names]
    if any(list(part) != list(parts[0]) for part in parts):
        raise RCPError(f"{folder / names[0]} and its other parts have different columns: {[list(p) for p in parts]}")
    return pd.concat(parts, ignore_index=True)


def _read(file: Path, columns: Mapping[str, str], optional: Mapping[str, str]) -> pd.DataFrame:
    pa = pyarrow()
    try:
        table = pa.parquet.ParquetFile(file).read()
    except (OSError, pa.ArrowException) as error:
        raise RCPError(f"{file} cannot be read as Parquet: {error}") from error
    absent = [name for name in columns if name not in table.column_names]
    if absent:
        raise RCPError(f"{file} has no column {examples(absent)} (it has {table.column_names})")
    wanted = {**columns, **{name: kind for name, kind in optional.items() if name in table.column_names}}
    return pd.DataFrame({name: _COLUMNS[kind](table.column(name), name, file) for name, kind in wanted.items()})


def mark_of(folder: Path, names: Sequence[str], key: str) -> str | None:
    """What the files' schema says under a key, as `write` put it there; None: nothing.

    Raises
    ------
    RCPError
        If the parts of a file do not agree.
    """
    pa = pyarrow()
    marks = [(pa.parquet.read_schema(folder / name).metadata or {}).get(key.encode()) for name in names]
    if any(mark != marks[0] for mark in marks):
        raise RCPError(f"{folder / names[0]} and its other parts disagree on {key!r} in their schema: {marks}")
    return marks[0].decode() if marks[0] is not None else None


def _ids(column: Any, name: str, where: Path) -> pd.Series:
    values = pd.Series(_of_id_type(column, name, where).to_pylist(), dtype=object)
    return id_column(pd.DataFrame({name: values}, dtype=object), name, f"file {where}")


def _of_id_type(column: Any, name: str, where: Path) -> Any:
    pa = pyarrow()
    kind = _value_type(column)
    if not (_is_text(kind) or pa.types.is_integer(kind)) and len(column):
        raise RCPError(f"{where}: column {name!r} holds {kind}, and ids are text or whole numbers")
    return column


def _numbers(column: Any, name: str, where: Path) -> np.ndarray:
    pa = pyarrow()
    if not (pa.types.is_integer(column.type) or pa.types.is_floating(column.type) or pa.types.is_null(column.type)):
        raise RCPError(f"{where}: column {name!r} holds {column.type}, not numbers")
    given = column.to_pylist()
    wrong = [row for row, value in enumerate(given) if value is not None and value != value]
    if wrong:
        raise RCPError(f"{where}: column {name!r} holds NaN, row {examples(wrong)}; what is not there must be null")
    return np.array([np.nan if value is None else value for value in given], dtype=np.float64)


def _texts(column: Any, name: str, where: Path) -> pd.Series:
    if not _is_text(_value_type(column)) and not pyarrow().types.is_null(column.type):
        raise RCPError(f"{where}: column {name!r} holds {column.type}, not text")
    return pd.Series(column.to_pylist(), dtype=object)


def _id_lists(column: Any, name: str, where: Path) -> pd.Series:
    pa = pyarrow()
    if pa.types.is_null(column.type):
        return pd.Series([[] for _ in range(len(column))], dtype=object)
    if not _is(column.type, "list", "large_list", "fixed_size_list", "list_view", "large_list_view"):
        raise RCPError(f"{where}: column {name!r} holds {column.type}, not lists of ids")
    lists = [values or [] for values in column.to_pylist()]
    flat = pa.array([value for values in lists for value in values], column.type.value_type)
    ids = iter(_ids(flat, name, where).tolist())
    return pd.Series([[next(ids) for _ in values] for values in lists], dtype=object)


_COLUMNS = {IDS: _ids, NUMBERS: _numbers, TEXTS: _texts, ID_LISTS: _id_lists}


def _is_text(kind: Any) -> bool:
    return _is(kind, "string", "large_string", "string_view")


def _is(kind: Any, *names: str) -> bool:
    """Whether a type is one of these; an older pyarrow does not know all of them."""
    checks = (getattr(pyarrow().types, f"is_{name}", None) for name in names)
    return any(check is not None and check(kind) for check in checks)


def _value_type(column: Any) -> Any:
    return column.type.value_type if pyarrow().types.is_dictionary(column.type) else column.type


def write(file: Path, columns: Mapping[str, tuple[str, Sequence[Any]]], marks: Mapping[str, str] | None = None) -> None:
    """Write columns, given as name -> (kind, values), to one file; None and NaN are null.

    Whole numbers are int64 where no value is missing. `marks` are kept in the file's schema, for `mark_of`.
    """
    pa = pyarrow()
    arrays = {}
    for name, (kind, values) in columns.items():
        if kind == NUMBERS:
            arrays[name] = pa.array(np.asarray(values), from_pandas=True)
        else:
            arrays[name] = pa.array(list(values), pa.list_(pa.string()) if kind == ID_LISTS else pa.string())
    file.parent.mkdir(parents=True, exist_ok=True)
    pa.parquet.write_table(pa.table(arrays, metadata=dict(marks) if marks else None), file)
