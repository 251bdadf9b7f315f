"""A folder of tables that reads back exactly: JSON lines (gzip) with a checked index.

Knows nothing of what the tables mean.

Text is JSON, so that any id survives; floats are written in the shortest form that reads back to the same float64;
NaN is null. The index, `metadata.json`, holds each table's columns with their kinds and each file's SHA-256.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rcp_irx.errors import RCPError, examples

VERSION = 1
INDEX = "metadata.json"
DTYPES = {"bool": "bool", "int": "int64", "float": "float64", "text": "object"}
_KINDS = {"b": "bool", "i": "int", "u": "int", "f": "float"}


def normal(frame: pd.DataFrame) -> pd.DataFrame:
    """The frame with the column types and the index that it would have after being written and read."""
    columns = {}
    for column in frame.columns:
        kind = _KINDS.get(frame[column].dtype.kind, "text")
        try:
            values = pd.Series(_nullable(frame[column]), dtype=object) if kind == "text" else frame[column]
            columns[str(column)] = values.astype(np.dtype(DTYPES[kind])).reset_index(drop=True)
        except (ValueError, TypeError) as error:
            raise RCPError(f"column {column!r} cannot be kept as {kind}: {error}") from error
        odd = [value for value in _distinct_of(columns[str(column)]) if not isinstance(value, str)]
        if kind == "text" and odd:
            raise RCPError(f"column {column!r} holds {type(odd[0]).__name__} values; make them text or numbers")
    return pd.DataFrame(columns)


def write_folder(
    folder: str | os.PathLike[str],
    tables: dict[str, pd.DataFrame],
    metadata: dict[str, Any],
    extra: dict[str, Any],
    overwrite: bool = False,
) -> Path:
    """Write tables and metadata as one folder; it is complete or not there at all.

    Parameters
    ----------
    tables : name -> DataFrame
        Columns of text, bool, int or float.
    extra : file name -> JSON value
        Further files, which are not read back.
    """
    target = Path(folder)
    empty = target.is_dir() and not any(target.iterdir())
    if target.exists() and not (overwrite or empty):
        raise RCPError(f"{target} exists; give overwrite=True to replace it")
    if target.exists() and not empty and not (target / INDEX).is_file():
        raise RCPError(f"{target} exists and is no gain folder (it has no {INDEX}); choose another place")
    with whole_folder(target) as part:
        index: dict[str, Any] = {"version": VERSION, "metadata": metadata, "tables": {}}
        for name, frame in tables.items():
            kinds = {column: _KINDS.get(frame[column].dtype.kind, "text") for column in frame.columns}
            data = _compressed(_lines(frame, kinds))
            (part / f"{name}.jsonl.gz").write_bytes(data)
            sha256 = hashlib.sha256(data).hexdigest()
            index["tables"][name] = {"rows": len(frame), "columns": list(kinds.items()), "sha256": sha256}
        for file, value in {**extra, INDEX: index}.items():
            (part / file).write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    return target


@contextmanager
def whole_folder(target: Path) -> Iterator[Path]:
    """A folder to write into, which takes the target's place once the block has ended, and is gone if it failed.

    Raises
    ------
    RCPError
        If the place cannot be written to.
    """
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        part = Path(tempfile.mkdtemp(prefix=f".{target.name}.", dir=target.parent))
    except OSError as error:
        raise RCPError(f"{target} cannot be written: {error}") from error
    try:
        part.chmod(0o777 & ~_umask())
        yield part
        if target.exists():
            shutil.rmtree(target)
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def read_folder(folder: str | os.PathLike[str]) -> tuple[dict[str, pd.DataFrame], dict[str, Any]]:
    """The tables and metadata of a folder.

    Raises
    ------
    RCPError
        If the folder is absent, of a newer version, or damaged: a file is missing or changed.
    """
    source = Path(folder)
    if not source.is_dir():
        raise RCPError(f"no gain folder at {source}")
    try:
        index = json.loads((source / INDEX).read_text(encoding="utf-8"))
        version, entries, metadata = index["version"], index["tables"], index["metadata"]
    except FileNotFoundError:
        raise RCPError(
            f"{source} is no gain folder: it has no {INDEX} (files: {examples(os.listdir(source))})"
        ) from None
    except (ValueError, KeyError, TypeError) as error:
        raise RCPError(f"{source / INDEX} is damaged: {error}") from error
    if version != VERSION:
        raise RCPError(f"{source} has format version {version}; this rcp_irx reads version {VERSION}: upgrade rcp-irx")
    return {name: _read_table(source / f"{name}.jsonl.gz", entry) for name, entry in entries.items()}, metadata


def _read_table(file: Path, entry: dict[str, Any]) -> pd.DataFrame:
    try:
        data = file.read_bytes()
    except OSError as error:
        raise RCPError(f"the gain folder is damaged: {file} cannot be read ({error.strerror})") from error
    if hashlib.sha256(data).hexdigest() != entry["sha256"]:
        raise RCPError(f"the gain folder is damaged: {file} is not the file that was written (SHA-256 differs)")
    rows = [json.loads(line) for line in gzip.decompress(data).decode().splitlines()]
    columns = {}
    for position, (column, kind) in enumerate(entry["columns"]):
        values = [row[position] for row in rows]
        columns[column] = pd.Series(values, dtype=DTYPES[kind])
    return pd.DataFrame(columns)


def _lines(frame: pd.DataFrame, kinds: dict[str, str]) -> str:
    """One JSON array a row, in the order of the columns; NaN and None are null."""
    columns = [
        _nullable(frame[column]) if kind in ("float", "text") else frame[column].tolist()
        for column, kind in kinds.items()
    ]
    return "".join(json.dumps(row, ensure_ascii=True, allow_nan=False) + "\n" for row in zip(*columns, strict=True))


def _compressed(text: str) -> bytes:
    """The same bytes on every Python: the header names neither time nor file nor system."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0) as file:
        file.write(text.encode())
    return buffer.getvalue()


def _distinct_of(values: pd.Series) -> list[Any]:
    return values.dropna().unique().tolist() if values.dtype == object else []


def _nullable(values: pd.Series) -> list[Any]:
    return values.astype(object).where(values.notna(), None).tolist()


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask
