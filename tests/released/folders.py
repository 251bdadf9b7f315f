"""Writes released datasets as their owners do, without this package's writer."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pandas as pd
import pytest

pytest.importorskip("pyarrow")

import pyarrow as pa
import pyarrow.parquet as pq

from rcp_irx import GainTable
from rcp_irx.calibration import gain
from tests import test_gains

GAMMA, BETA = [1.5, 0.5], [-1.0, 2.0]

ROWS = [  # query, document, label, ability
    ("q1", "a", 1, 2.5),
    ("q1", "b", 0, -1.25),
    ("q1", "c", 2, None),
    ("q2", "a", 0, 0.0),
    ("q2", "d", 1, 4.0),
]


def table(*args, **options) -> GainTable:
    """The table of tests/test_gains.py with the gains of its abilities."""
    plain = test_gains.table(*args, **options)
    criteria = plain.criteria
    gains = gain(plain.documents["theta"], criteria["gamma"], criteria["beta"])
    return GainTable(plain.documents.assign(gain=gains), plain.queries, criteria, plain.metadata)


def gain_of(theta: float | None) -> float | None:
    """Eq. 4, one document at a time."""
    if theta is None:
        return None
    passed = [1 / (1 + math.exp(-g * (theta - b))) for g, b in zip(GAMMA, BETA, strict=True)]
    return sum(g * p for g, p in zip(GAMMA, passed, strict=True)) / sum(GAMMA)


def qrels(rows=ROWS, **columns):
    """The columns of a qrels file; `columns` replace some, None leaves one out."""
    data = {
        "query-id": [row[0] for row in rows],
        "corpus-id": [row[1] for row in rows],
        "score": [row[2] for row in rows],
        "gain": [gain_of(row[3]) for row in rows],
        "theta": [row[3] for row in rows],
    }
    return {name: values for name, values in {**data, **columns}.items() if values is not None}


def write(file: Path, columns) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(columns if isinstance(columns, pa.Table) else pa.table(columns), file)


def newer(folder: Path, subset: str = "x", split: str = "test", **configs) -> Path:
    """A dataset in mteb's layout: config kind -> columns; qrels and item parameters unless given."""
    prefix = "" if subset == "default" else f"{subset}-"
    for kind, columns in {"qrels": qrels(), **configs}.items():
        if columns is not None:
            write(folder / f"{prefix}{kind}" / f"{split}-00000-of-00001.parquet", columns)
    if not list(folder.glob("*.json")):
        items(folder / "items.json")
    return folder


def older(folder: Path, subset: str = "x", **kinds) -> Path:
    for kind, columns in {"qrels": qrels(), **kinds}.items():
        write(folder / subset / f"{kind}.parquet", columns)
    items(folder / subset / "irt.json")
    return folder


def items(file: Path, gamma=GAMMA, beta=BETA) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps({"gamma": gamma, "beta": beta}))


def lists(by_query, column="corpus-ids"):
    return {"query-id": list(by_query), column: list(by_query.values())}


POOL = lists({"q1": ["b", "a"], "q2": ["d", "a"]})
OUT = lists({"q1": ["b", "elsewhere"], "q3": ["z"]}, "excluded-corpus-ids")


def by_document(table, column: str) -> dict:
    documents = table.documents
    return dict(zip(zip(documents["qid"], documents["docno"], strict=True), documents[column], strict=True))


def frame(rows, columns: str) -> pd.DataFrame:
    return pd.DataFrame(rows, columns=columns.split())
