"""Reads TREC runs and qrels as frames, gzipped or not; ids stay as they are written, a malformed line is named."""

from __future__ import annotations

import gzip
import os
import zlib
from pathlib import Path

import numpy as np
import pandas as pd

from rcp_irx.documents import with_labels
from rcp_irx.errors import RCPError, examples

RUN = ("qid", "Q0", "docno", "rank", "score", "name")
QRELS = ("qid", "iteration", "docno", "label")
_GZIP = b"\x1f\x8b"


def read_run(path: str | os.PathLike[str]) -> pd.DataFrame:
    """A run: `qid, docno, rank, score, name`, in the file's order.

    Raises
    ------
    RCPError
        No such file; an empty one; a line without six fields, or whose score is no finite number.
    """
    frame, lines = _fields(path, RUN, "run")
    frame["score"] = _numbers(path, frame["score"], lines, "score")
    return frame[["qid", "docno", "rank", "score", "name"]]


def read_qrels(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Labels: `qid, docno, label`, whole numbers, in the file's order.

    Raises
    ------
    RCPError
        No such file; an empty one; a line without four fields; a label that is no whole number; two labels for one
        document.
    """
    frame, lines = _fields(path, QRELS, "qrels")
    frame["label"] = _numbers(path, frame["label"], lines, "label")
    return with_labels(frame, f"qrels {os.fspath(path)}").drop(columns="dataset")


def _fields(path: str | os.PathLike[str], names: tuple[str, ...], what: str) -> tuple[pd.DataFrame, np.ndarray]:
    """The fields of each line that is not blank, as text, and the lines' numbers."""
    try:
        data = Path(path).read_bytes()
        data = gzip.decompress(data) if data.startswith(_GZIP) else data
    except (OSError, EOFError, zlib.error) as error:
        raise RCPError(f"the {what} {os.fspath(path)} cannot be read: {error}") from error
    rows = [line.split() for line in data.removeprefix(b"\xef\xbb\xbf").split(b"\n")]
    sizes = np.array([len(row) for row in rows])
    wrong = np.flatnonzero((sizes != len(names)) & (sizes > 0))
    if len(wrong):
        line = b" ".join(rows[wrong[0]]).decode("utf-8", "replace")
        raise RCPError(
            f"{os.fspath(path)}, line {wrong[0] + 1}: a TREC {what} has {len(names)} fields ({' '.join(names)}), this"
            f" line has {sizes[wrong[0]]}: {line[:100]!r}"
        )
    lines = np.flatnonzero(sizes) + 1
    if not len(lines):
        raise RCPError(f"the {what} {os.fspath(path)} is empty")
    try:
        columns = [b"\n".join(column).decode("utf-8").split("\n") for column in zip(*filter(None, rows), strict=True)]
    except UnicodeDecodeError as error:
        raise RCPError(f"the {what} {os.fspath(path)} is no UTF-8 text: {error}") from error
    return pd.DataFrame({name: pd.Series(c, dtype=object) for name, c in zip(names, columns, strict=True)}), lines


def _numbers(path: str | os.PathLike[str], values: pd.Series, lines: np.ndarray, what: str) -> np.ndarray:
    numbers = pd.to_numeric(values, errors="coerce").to_numpy(dtype=np.float64)
    wrong = np.flatnonzero(~np.isfinite(numbers))
    if len(wrong):
        found = examples(values.iloc[wrong])
        raise RCPError(f"{os.fspath(path)}, line {lines[wrong[0]]}: a {what} must be a finite number, not {found}")
    return numbers
