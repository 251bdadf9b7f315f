"""A small suite to compare systems on: abilities drawn at random, runs that see them through noise."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rcp_irx import GainTable
from rcp_irx.calibration import gain, pass_probabilities

GAMMA, BETA = [1.2, 1.0, 0.8], [-2.0, 0.0, 2.0]


def suite(
    queries: int = 30, documents: int = 15, datasets: tuple[str, ...] = ("",), seed: int = 1, judge: str = "judge/1"
) -> GainTable:
    """A table of that many queries in each dataset, their ids the same in all."""
    random = np.random.default_rng(seed)
    keys = [(dataset, f"q{q:02d}") for dataset in datasets for q in range(queries)]
    rows = pd.DataFrame(
        [(*key, f"d{d:02d}") for key in keys for d in range(documents)], columns=["dataset", "qid", "docno"]
    )
    theta = random.normal(-0.5, 2, len(rows))
    chances = pass_probabilities(theta, GAMMA, BETA)
    passes = {f"C{c + 1}": random.binomial(4, chances[:, c]) for c in range(3)}
    rows = rows.assign(gain=gain(theta, GAMMA, BETA), theta=theta, bt=theta, n=4, **passes, excluded=False)
    rows["pool_rank"] = rows.groupby(["dataset", "qid"]).cumcount()
    frame = pd.DataFrame(keys, columns=["dataset", "qid"]).assign(query="text", tau=1.0, alpha=0.0)
    ids = [f"C{c + 1}" for c in range(3)]
    items = pd.DataFrame({"id": ids, "name": ids, "question": ids, "gamma": GAMMA, "beta": BETA})
    return GainTable(rows, frame, items, {"judge": judge})


def with_columns(gains: GainTable, **columns: object) -> GainTable:
    """The table with other columns of its documents."""
    return GainTable(gains.documents.assign(**columns), gains.queries, gains.criteria, gains.metadata)


def runs(gains: GainTable, noise: tuple[float, ...] = (0.5, 1.0, 2.0, 4.0), seed: int = 2) -> dict[str, pd.DataFrame]:
    """Systems s0, s1, ... that rank by ability plus noise of that standard deviation."""
    random, rows = np.random.default_rng(seed), gains.documents
    frame = rows[["dataset", "qid", "docno"]]
    return {
        f"s{s}": frame.assign(score=rows["theta"] + random.normal(0, 1, len(rows)) * sd) for s, sd in enumerate(noise)
    }


def labels(gains: GainTable, seed: int = 3) -> pd.DataFrame:
    """Labels 0 to 2 that follow the abilities through noise."""
    rows = gains.documents
    seen = rows["theta"] + np.random.default_rng(seed).normal(0, 1, len(rows))
    return rows[["dataset", "qid", "docno"]].assign(label=(seen > 0).astype(int) + (seen > 2))
