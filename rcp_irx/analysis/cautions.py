"""What a reader of a comparison should be wary of: one line each, saying what was found and what it may mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from rcp_irx.analysis.leaderboards import RCP, Board
from rcp_irx.analysis.results import Results
from rcp_irx.calibration import gain
from rcp_irx.errors import counted
from rcp_irx.evaluation.coverage import LARGEST_DIFFERENCE, LEAST_COVERAGE, ROUNDING
from rcp_irx.gains import GainTable

FEW = 20


def best_gains(gains: GainTable, queries: pd.MultiIndex) -> pd.Series:
    """Each query's largest gain, excluded documents apart; 0 where none is left."""
    rows = gains.documents
    found = rows[~rows["excluded"]].groupby(["dataset", "qid"])["gain"].max()
    return found.reindex(queries).fillna(0.0).rename("best_gain")


def easiest_gain(gains: GainTable) -> float:
    """The gain at the easiest criterion's difficulty (Eq. 4); 0 without criteria."""
    criteria = gains.criteria
    if not len(criteria):
        return 0.0
    difficulty = criteria["beta"].to_numpy(dtype=float)
    return float(gain(difficulty.min(), criteria["gamma"].to_numpy(dtype=float), difficulty))


def own_rankings(results: Results, best: pd.Series) -> list[str]:
    """Runs that hold the gains' order on every query."""
    scores = results.scores[RCP][(best > 0).to_numpy()]
    return [
        f"{name} scores {RCP}@{results.k} 1.0 on every query: a run in the order of the gains everywhere is the judge's"
        " own ranking (1.0 by construction), and its score says nothing about it"
        for name in results.systems
        if len(scores) and (scores[name] >= 1 - ROUNDING).all()
    ]


def judges_family(gains: GainTable, family: Mapping[str, str], given: object) -> list[str]:
    """Systems of the judge's family: that of the judge's name in `families`, or one that the judge's name holds."""
    judge = str(gains.metadata.get("judge") or "")
    told = str(given[judge]) if isinstance(given, Mapping) and judge in given else None
    lines = []
    for name in sorted(set(family.values())):
        if name == told or (name and re.search(rf"(?<![^\W_]){re.escape(name)}(?![^\W\d_])", judge, re.IGNORECASE)):
            systems = [system for system, own in family.items() if own == name]
            lines.append(
                f"{_list(systems)} and the judge ({judge}) are of one family ({name}): the judge may favour its"
                " like; .families shows the results without it"
            )
    return lines


def coverage(boards: Iterable[Board], k: int) -> list[str]:
    """Systems whose first documents have few gains, or fewer than those of others."""
    lines, boards = [], list(boards)
    for of in boards:
        known = [(float(value), name) for value, name in zip(of.coverage, of.systems, strict=True) if value == value]
        where, share = _of(of, boards), {name: value for value, name in sorted(known)}
        low = [f"{name} {value:.3f}" for name, value in share.items() if value < LEAST_COVERAGE - ROUNDING]
        if low:
            lines.append(
                f"{where}coverage of the top {k} is under {LEAST_COVERAGE} for {_list(low)}: a document without a gain"
                " counts 0, so these may be scored too low"
            )
        values = list(share.values())
        if values and values[-1] - values[0] > LARGEST_DIFFERENCE + ROUNDING:
            names = list(share)
            lines.append(
                f"{where}coverage is unequal, from {values[0]:.3f} ({names[0]}) to {values[-1]:.3f} ({names[-1]}):"
                " part of a difference may be documents without a gain"
            )
    return lines


def missed_queries(results: Results) -> list[str]:
    """Systems that rank nothing for some queries."""
    missed = results.coverage.isna().sum()
    few = [f"{name} ({counted(int(missed[name]), 'query', 'queries')})" for name in results.systems if missed[name]]
    return [f"queries for which a system ranks nothing score 0: {_list(few)}"] if few else []


def unanswered(gains: GainTable, boards: Iterable[Board], systems: pd.DataFrame) -> list[str]:
    """Queries whose pool holds nothing that reaches the easiest criterion, and the means without them."""
    lines, boards = [], list(boards)
    for of in boards:
        number, queries = int(np.sum(~of.answered)), len(of.answered)
        if not number:
            continue
        rows = systems[(systems["dataset"] == of.dataset) & (systems["measure"] == RCP)].sort_values("rank")
        means = [f"{row.system} {row.mean:.3f} ({row.mean_answered:.3f})" for row in rows.itertuples(index=False)]
        lines.append(
            f"{_of(of, boards)}{counted(number, 'query', 'queries')} of {queries} have no document with a gain of"
            f" {easiest_gain(gains):.3f}, that at the easiest criterion's difficulty: nothing there may answer, and the"
            f" order of what does not is all that is scored; mean {RCP} with (and without) them: {_list(means)}"
        )
    return lines


def few_queries(boards: Iterable[Board]) -> list[str]:
    """Datasets of fewer than 20 queries, or clusters."""
    lines, boards = [], list(boards)
    for of in boards:
        if of.units < FEW:
            clustered = of.units < len(of.answered)
            number = counted(of.units, "cluster" if clustered else "query", "clusters" if clustered else "queries")
            lines.append(
                f"{_of(of, boards)}{number}, fewer than {FEW}: p values and intervals are rough, and only large"
                " differences can show"
            )
    return lines


def _of(of: Board, boards: list[Board]) -> str:
    return f"{of.dataset}: " if len(boards) > 1 else ""


def _list(names: list[str], limit: int = 3) -> str:
    text = ", ".join(names[:limit])
    return text if len(names) <= limit else f"{text} and {len(names) - limit} more"
