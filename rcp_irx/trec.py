"""TREC runs and qrels as frames, read (gzipped or not) and written; ids stay as they are, a malformed line is named."""

from __future__ import annotations

import os

import numpy as np
import pandas as pd

from rcp_irx.documents import with_labels
from rcp_irx.errors import RCPError, examples
from rcp_irx.files import lines, text_of, write

RUN = ("qid", "Q0", "docno", "rank", "score", "name")
QRELS = ("qid", "iteration", "docno", "label")


def read_run(path: str | os.PathLike[str]) -> pd.DataFrame:
    """A run: `qid, docno, rank, score, name`, in the file's order.

    Raises
    ------
    RCPError
        No such file; an empty one; a line without six fields, or whose score is no finite number.
    """
    frame, numbers = _fields(path, RUN, "run")
    frame["score"] = _finite(path, frame["score"], numbers, "score")
    return frame[["qid", "docno", "rank", "score", "name"]]


def read_qrels(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Labels: `qid, docno, label`, whole numbers, in the file's order.

    Raises
    ------
    RCPError
        No such file; an empty one; a line without four fields; a label that is no whole number; two labels for one
        document.
    """
    frame, numbers = _fields(path, QRELS, "qrels")
    frame["label"] = _finite(path, frame["label"], numbers, "label")
    first = frame.groupby(["qid", "docno"], sort=False)["label"].transform("first")
    fraction, other = frame["label"] % 1 != 0, frame["label"] != first
    for wrong, what in [(fraction, "labels must be whole numbers"), (other, "two different labels for one document")]:
        if wrong.any():
            row = int(np.flatnonzero(wrong)[0])
            said = f"query {frame['qid'][row]!r}, document {frame['docno'][row]!r}, label {frame['label'][row]:g}"
            raise RCPError(f"{os.fspath(path)}, line {numbers[row]}: {what}; {said}")
    return with_labels(frame, f"qrels {os.fspath(path)}").drop(columns="dataset")


def write_run(run: pd.DataFrame, path: str | os.PathLike[str], name: str = "rcp_irx") -> None:
    """Write a run (`qid, docno, score`) as TREC lines, best first within each query; scores read back exactly.

    Raises
    ------
    RCPError
        If an id holds white space, or the file cannot be written.
    """
    rows = run.sort_values(["score", "docno"], ascending=False, kind="stable")
    parts = []
    for qid, of in rows.groupby("qid", sort=False):
        pairs = zip(of["docno"], of["score"].tolist(), strict=True)
        parts += [f"{qid} Q0 {docno} {rank} {score!r} {name}" for rank, (docno, score) in enumerate(pairs)]
    _write(path, run, parts)


def write_qrels(qrels: pd.DataFrame, path: str | os.PathLike[str], iteration: str = "0") -> None:
    """Write labels (`qid, docno, label`, whole numbers) as TREC lines; `iteration` is their second field.

    Raises
    ------
    RCPError
        If an id holds white space, or the file cannot be written.
    """
    rows = zip(qrels["qid"], qrels["docno"], qrels["label"].tolist(), strict=True)
    _write(path, qrels, [f"{qid} {iteration} {docno} {label}" for qid, docno, label in rows])


def _write(path: str | os.PathLike[str], frame: pd.DataFrame, rows: list[str]) -> None:
    for column in ("qid", "docno"):
        wrong = [text for text in dict.fromkeys(frame[column]) if len(str(text).encode().split()) != 1]
        if wrong:
            raise RCPError(f"TREC files hold no id with white space: {column} {examples(wrong)}")
    write(path, "".join(f"{row}\n" for row in rows))


def _fields(path: str | os.PathLike[str], names: tuple[str, ...], what: str) -> tuple[pd.DataFrame, list[int]]:
    """The fields of each line as text, and the lines' numbers. Fields are set apart by blanks and tabs of ASCII."""
    rows, numbers = [], []
    for number, line in lines(path, what):
        row = line.split()
        if len(row) != len(names):
            raise RCPError(
                f"{os.fspath(path)}, line {number}: a TREC {what} has {len(names)} fields ({' '.join(names)}), this"
                f" line has {len(row)}: {line[:100].decode('utf-8', 'replace')!r}"
            )
        rows.append(row)
        numbers.append(number)
    try:
        columns = [b"\n".join(column).decode("utf-8").split("\n") for column in zip(*rows, strict=True)]
    except UnicodeDecodeError:
        for number, row in zip(numbers, rows, strict=True):
            text_of(b" ".join(row), path, number)
        raise
    return pd.DataFrame({name: pd.Series(c, dtype=object) for name, c in zip(names, columns, strict=True)}), numbers


def _finite(path: str | os.PathLike[str], values: pd.Series, numbers: list[int], what: str) -> np.ndarray:
    found = np.fromiter(map(_number, values), dtype=np.float64, count=len(values))
    wrong = np.flatnonzero(~np.isfinite(found))
    if len(wrong):
        place = f"{os.fspath(path)}, line {numbers[wrong[0]]}"
        raise RCPError(f"{place}: a {what} must be a finite number, not {examples(values.iloc[wrong])}")
    return found


def _number(text: str) -> float:
    """The number that a text is, to the last bit; NaN where it is none."""
    try:
        return np.nan if "_" in text else float(text)
    except ValueError:
        return np.nan
