"""Prints a result for people: a heading, tables, warnings; no more than a screen."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

import pandas as pd

from rcp_irx.errors import counted

WIDTH, WARNINGS, ROWS = 120, 8, 16


def screen(heading: str, parts: Sequence[str], warnings: Sequence[str]) -> str:
    """The text; of many warnings, the first eight and the number of the others."""
    lines = [heading, *(part for part in parts if part)]
    for warning in warnings[:WARNINGS]:
        lines.append(textwrap.fill(warning, WIDTH, initial_indent="! ", subsequent_indent="  "))
    if len(warnings) > WARNINGS:
        lines.append(f"! and {len(warnings) - WARNINGS} more in .warnings")
    return "\n".join(lines)


def table(frame: pd.DataFrame, more: str = "", rows: int = ROWS) -> str:
    """A frame as text, its first rows; `more` says where the others are."""
    text = str(frame.head(rows).to_string(index=False, float_format=lambda value: f"{value:.3f}"))
    return text if len(frame) <= rows else f"{text}\n... and {counted(len(frame) - rows, 'more row')}{more}"
