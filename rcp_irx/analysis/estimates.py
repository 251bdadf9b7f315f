"""Measures of one kind or another with their intervals: as a frame, as text, and what is to be said about them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rcp_irx.analysis.clusters import Estimate
from rcp_irx.analysis.screen import screen
from rcp_irx.errors import RCPError, counted, examples

POOLED = "all datasets"
FEW_QUERIES = 20

Key: TypeAlias = tuple[str, str]
"""A measure, and what it is of."""


def by_dataset(rows: pd.DataFrame) -> list[tuple[str, pd.DataFrame]]:
    """The rows of all datasets together, where there are several, then of each."""
    parts = [(str(name), part.reset_index(drop=True)) for name, part in rows.groupby("dataset", sort=True)]
    return parts if len(parts) == 1 else [(POOLED, rows), *parts]


def measure_rows(dataset: str, found: Mapping[Key, Estimate], sizes: Mapping[Key, tuple[int, str]]) -> pd.DataFrame:
    """The estimates as `dataset, measure, of, value, low, high, n, unit`; `n` counts what the measure is taken over."""
    rows = [(dataset, *key, e.value, e.low, e.high, *sizes[key]) for key, e in found.items()]
    return pd.DataFrame(rows, columns=["dataset", "measure", "of", "value", "low", "high", "n", "unit"])


def interval_notes(
    found: Mapping[Key, Estimate], strata: NDArray[np.intp], reasons: Mapping[str | Key, str]
) -> list[str]:
    """Why measures or their intervals are missing or rough.

    Parameters
    ----------
    strata : (Q,)
        Codes of the queries' datasets, within which a bootstrap draws them.
    reasons : mapping
        By measure, or by measure and what it is of, when it has no value.
    """
    notes = []
    named = {
        f"{measure} of {of}": (reasons.get((measure, of), reasons.get(measure, "")), found[measure, of])
        for measure, of in found
    }
    for name, (reason, estimate) in named.items():
        if np.isnan(estimate.value):
            notes.append(f"{name} has no value: {reason}")
    queries, sizes = len(strata), np.unique(strata, return_counts=True)[1]
    lone = int(np.sum(sizes == 1))
    if lone == len(sizes):
        each = "one query" if lone == 1 else "one query in each dataset"
        notes.append(f"{each}: no intervals, which draw queries")
    elif lone:
        of = counted(len(sizes), "dataset")
        notes.append(f"{lone} of {of} have one query, which is drawn every time: intervals are too narrow")
    elif queries < FEW_QUERIES:
        notes.append(f"only {counted(queries, 'query', 'queries')}: the intervals, which draw queries, are rough")
    partly = {name: e.undefined for name, (_, e) in named.items() if e.undefined and not np.isnan(e.value)}
    if partly:
        notes.append(
            f"in up to {counted(max(partly.values()), 'resample')} {examples(partly)} had no value: intervals are of"
            " the others, and none where these are fewer than half"
        )
    return notes


def with_dataset(dataset: str, notes: Iterable[str]) -> list[str]:
    """The notes, with the dataset that they are about."""
    return [f"{dataset}: {note}" if dataset else note for note in notes]


def value_of(measures: pd.DataFrame, measure: str, of: str, dataset: str | None) -> float:
    """One value of a frame of measures; of its first dataset (where there are several: all pooled) if none is named.

    Raises
    ------
    RCPError
        If it has no such row.
    """
    dataset = measures["dataset"].iloc[0] if dataset is None else dataset
    chosen = (measures["dataset"] == dataset) & (measures["measure"] == measure) & (measures["of"] == of)
    if not chosen.any():
        raise RCPError(f"no row of dataset {dataset!r}, measure {measure!r}, of {of!r}; see .measures")
    return float(measures.loc[chosen, "value"].iloc[0])


def text(heading: str, measures: pd.DataFrame, more: Iterable[str], warnings: Sequence[str]) -> str:
    """The first dataset's measures (where there are several: all pooled) for people, and the warnings."""
    datasets = list(dict.fromkeys(measures["dataset"]))
    lines = [
        heading + (f", {datasets[0]}" if datasets[0] else ""),
        _table(measures[measures["dataset"] == datasets[0]]),
    ]
    if len(datasets) > 1:
        lines.append(f"Each of the {len(datasets) - 1} datasets by itself: .measures")
    return screen(lines[0], [*lines[1:], *more], warnings)


def _table(measures: pd.DataFrame) -> str:
    repeated = measures["measure"] == measures["measure"].shift()
    shown = pd.DataFrame(
        {
            "measure": measures["measure"].mask(repeated, ""),
            "of": measures["of"],
            "value": [_number(value) for value in measures["value"]],
            "95% interval": [
                "" if np.isnan(low) else f"[{_number(low)}, {_number(high)}]"
                for low, high in zip(measures["low"], measures["high"], strict=True)
            ],
            "over": [f"{n:,} {unit}" for n, unit in zip(measures["n"], measures["unit"], strict=True)],
        }
    )
    widths = {name: max(len(name), *(len(cell) for cell in shown[name])) for name in shown.columns}
    rows = [list(shown.columns), *shown.to_numpy().tolist()]
    return "\n".join(
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths.values(), strict=True)).rstrip() for row in rows
    )


def _number(value: float) -> str:
    return "none" if np.isnan(value) else f"{value:.3f}"
