"""Reads grades that people gave to documents; what they say is for `agreeing` and `annotators`."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rcp_irx.documents import id_column, with_keys
from rcp_irx.errors import RCPError, counted, examples, warn
from rcp_irx.tables import KEYS


def read_grades(grades: pd.DataFrame, dataset: str = "", *, together: bool = False) -> tuple[pd.DataFrame, list[str]]:
    """One row per annotator and document: `dataset, qid, docno, annotator, grade`, sorted; and what was noted.

    Parameters
    ----------
    grades : DataFrame
        `qid, docno, grade` (finite, from 0 up), optionally `dataset` and `annotator`. An annotator who graded a
        document twice counts once, with the mean (Section F.1). Without annotators each row is somebody's of their
        own, and the result has no column `annotator`.
    dataset : str
        The dataset of a frame without that column.
    together : bool
        Without annotators, take the mean of a document's rows as one person's grade, whose `annotator` is "".

    Raises
    ------
    RCPError
        No frame; missing columns or ids; a grade that is no finite number, or below 0; no grade at all.

    Warns
    -----
    RCPWarning
        Rows without a grade; an annotator's second grades; several rows of a document without annotators.
    """
    frame = with_keys(grades, ["qid", "docno"], "frame of grades", dataset)
    if "grade" not in frame.columns:
        raise RCPError(f"the frame of grades has no column 'grade' (it has {list(grades.columns)})")
    named = "annotator" in frame.columns
    if together and not named:
        frame["annotator"] = ""
    elif named:
        frame["annotator"] = id_column(frame, "annotator", "frame of grades")
    keys = [*KEYS, "annotator"] if named or together else KEYS
    frame["grade"], given = _numbers(frame)
    notes = []
    if not given.all():
        notes.append(f"{counted(int((~given).sum()), 'row has', 'rows have')} no grade, left out")
    frame = frame.loc[given, [*keys, "grade"]]
    if frame.empty:
        raise RCPError("the frame of grades holds no grade")
    repeated = frame[frame.duplicated(keys)]
    if len(repeated) and named:
        notes.append(
            f"an annotator graded a document more than once, {counted(len(repeated), 'grade')} too many: their mean"
            f" counts, once ({examples(repeated[keys[1:]].itertuples(index=False, name=None))})"
        )
    elif len(repeated) and together:
        notes.append("no column 'annotator': the mean of a document's rows counts as one person's grade")
    elif len(repeated):
        notes.append("no column 'annotator': each row of a document counts as another annotator's grade")
    if named or together:
        frame = frame.groupby(keys, as_index=False, sort=True)["grade"].mean()
    frame["grade"] = frame["grade"].round(12)  # a mean of equal grades is that grade
    for note in notes:
        warn(note)
    return frame.sort_values([*keys, "grade"], ignore_index=True), notes


def panels(grades: pd.DataFrame) -> pd.DataFrame:
    """Per document its mean grade and the number of grades: `dataset, qid, docno, grade, grades`, sorted."""
    found = grades.groupby(KEYS, as_index=False, sort=True).agg(grade=("grade", "mean"), grades=("grade", "size"))
    # Equal means of different panels may differ in their last bit, and would not tie.
    return found.assign(grade=found["grade"].round(12))


def reaches(grades: NDArray[np.float64], threshold: float) -> NDArray[np.bool_]:
    """Which grades are at or above a threshold, up to rounding: a mean of three may be 7/3."""
    return np.round(grades, 12) >= round(threshold, 12)


def _numbers(frame: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """The grades as numbers, and which rows have one."""
    given = frame["grade"].notna().to_numpy()
    numbers = pd.to_numeric(frame["grade"], errors="coerce").to_numpy(dtype=np.float64, na_value=np.nan)
    for wrong, what in [
        (given & ~np.isfinite(numbers), "a grade must be a finite number"),
        (given & (numbers < 0), "grades start at 0 (leave out what nobody graded, such as labels of -1)"),
    ]:
        if wrong.any():
            rows = frame.loc[wrong, ["qid", "docno", "grade"]].itertuples(index=False, name=None)
            raise RCPError(f"{what}; query, document, grade: {examples(rows)}")
    return numbers, given
