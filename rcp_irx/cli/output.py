"""What people and machines see: tables, and JSON in which a number is as exact as it was."""

from __future__ import annotations

import csv
import dataclasses
import json
import math
from collections.abc import Mapping
from typing import Any

import click
import numpy as np
import pandas as pd

from rcp_irx.errors import RCPError, examples
from rcp_irx.files import is_stdout


def show(text: str, values: Any, as_json: bool, written: str = "") -> None:
    """Print a text for people, or values as JSON; on stderr where stdout holds what was `written`."""
    said = json.dumps(plain(values), ensure_ascii=False, indent=1) if as_json else text
    click.echo(said, err=is_stdout(written))


def table(frame: pd.DataFrame, digits: int = 4, *, index: bool = False) -> str:
    """A frame as a table for people."""
    return frame.to_string(index=index, float_format=lambda number: f"{number:.{digits}f}", na_rep="-")


def tsv_of(frame: pd.DataFrame) -> str:
    """A frame as tab-separated values: no quotes, as the values are.

    Raises
    ------
    RCPError
        If a value holds a tab or a line's end.
    """
    for name in frame.select_dtypes(exclude=["number", "bool"]):
        wrong = frame[name][frame[name].astype(str).str.contains("[\t\n\r]", regex=True)]
        if len(wrong):
            raise RCPError(f"tab-separated values hold no tab or line's end; {name} {examples(wrong)}: choose JSON")
    return frame.to_csv(sep="\t", index=False, lineterminator="\n", quoting=csv.QUOTE_NONE)


def plain(value: Any) -> Any:
    """A value as JSON has it: frames as lists of rows, numbers that are not finite as null."""
    if isinstance(value, pd.DataFrame):
        named = value.index.names != [None]
        rows = (value.reset_index() if named else value).to_dict("records")
        return [plain(row) for row in rows]
    if isinstance(value, pd.Series):
        return plain(value.to_dict())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(name): plain(held) for name, held in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [plain(held) for held in value]
    if isinstance(value, np.generic):
        value = value.item()
    return None if isinstance(value, float) and not math.isfinite(value) else value
