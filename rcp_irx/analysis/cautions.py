"""What a reader of a comparison should be wary of: one line each, saying what was found and what it may mean."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
import pandas as pd

from rcp_irx.analysis.families import alike
from rcp_irx.analysis.leaderboards import RCP, Board
from rcp_irx.analysis.results import Results
from rcp_irx.errors import counted, examples
from rcp_irx.evaluation.coverage import LARGEST_DIFFERENCE, LEAST_COVERAGE, ROUNDING
from rcp_irx.gains import GainTable
from rcp_irx.tables import reach_easiest

FEW = 20


def gains_by_query(gains: GainTable, queries: pd.MultiIndex) -> pd.DataFrame:
    """Of each query, excluded documents apart: `best_gain` (0 where none is left), `differ` (whether its gains do), and
    `answered` (whether a document reaches the easiest criterion's difficulty)."""
    rows = gains.documents.assign(answered=reach_easiest(gains.documents, gains.criteria))
    by = rows[~rows["excluded"]].groupby(["dataset", "qid"])
    found = by["gain"].agg(["max", "min"]).assign(answered=by["answered"].max()).reindex(queries)
    best = found["max"].fillna(0.0)
    return pd.DataFrame(
        {"best_gain": best, "differ": found["max"] > found["min"], "answered": found["answered"].eq(True)}
    )


def own_rankings(results: Results, differ: pd.Series) -> list[str]:
    """Runs that hold the gains' order on every query that they rank and whose gains differ, which are most of these.

    Of a single rank nothing is said: a good run may well have the best document first everywhere.
    """
    lines = []
    for name in results.systems:
        scores = results.scores[RCP][name][differ & results.coverage[name].notna()]
        if results.k > 1 and len(scores) > differ.sum() / 2 and (scores >= 1 - ROUNDING).all():
            lines.append(
                f"{name} scores {RCP}@{results.k} 1.0 on every query that it ranks: a run in the order of the gains"
                " everywhere is the judge's own ranking (1.0 by construction), and its score says nothing about it"
            )
    return lines


def judges_family(gains: GainTable, systems: list[str], family: Mapping[str, str], given: object) -> list[str]:
    """Systems of the judge's family: that which `families` gives the judge, or one that names tell."""
    judge = str(gains.metadata.get("judge") or "")
    model = judge.split()[0] if judge else ""
    mapping = given if isinstance(given, Mapping) else {}
    lines = []
    unused = [name for name in mapping if name not in family and name not in (judge, model)]
    if unused:
        lines.append(f"families names {examples(unused)}, no system here and not the judge ({model or 'not recorded'})")
    if not judge:
        return [*lines, "the judge is not recorded: whether a run is of its family is not known"] if family else lines
    told = mapping.get(judge, mapping.get(model))
    for name in sorted(set(family.values())):
        if name == told or (told is None and alike(name, model)):
            own = [system for system, of in family.items() if of == name]
            lines.append(
                f"{_list(own)} and the judge ({judge}) are of one family ({name}): the judge may favour its like;"
                " .families shows the results without it"
            )
    by_name = [system for system in systems if told is None and alike(system, model)]
    named = [system for system in by_name if not alike(family.get(system, ""), model)]
    if named:
        lines.append(
            f"{_list(named)} and the judge ({judge}) have names of one family: the judge may favour its like;"
            " families= leaves families out in turn"
        )
    return lines


def left_out(gains: GainTable, queries: pd.MultiIndex) -> list[str]:
    """Queries with gains that are not compared, for want of labels."""
    number = len(gains.documents[["dataset", "qid"]].drop_duplicates())
    if len(queries) == number:
        return []
    return [f"{len(queries)} of {counted(number, 'query', 'queries')} are compared: the others have no label"]


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
    what = "queries for which a system ranks nothing, or only excluded documents, score 0"
    return [f"{what}: {_list(few)}"] if few else []


def unanswered(gains: GainTable, boards: Iterable[Board], systems: pd.DataFrame) -> list[str]:
    """Queries whose pool holds nothing that reaches the easiest criterion, and the means without them."""
    if not len(gains.criteria):
        return ["the gains came without criteria: which queries nothing answers is not known"]
    lines, boards = [], list(boards)
    for of in boards:
        number, queries = int(np.sum(~of.answered)), len(of.answered)
        if not number:
            continue
        rows = systems[(systems["dataset"] == of.dataset) & (systems["measure"] == RCP)].sort_values("rank")
        means = [f"{row.system} {row.mean:.3f} ({row.mean_answered:.3f})" for row in rows.itertuples(index=False)]
        lines.append(
            f"{_of(of, boards)}{counted(number, 'query', 'queries')} of {queries} have no document that reaches the"
            " easiest criterion's difficulty: nothing there may answer, and the order of what does not is all that is"
            f" scored; mean {RCP} with (and without) them: {_list(means)}"
        )
    return lines


def few_queries(boards: Iterable[Board]) -> list[str]:
    """Datasets of fewer than 20 queries, or clusters."""
    lines, boards = [], list(boards)
    for of in boards:
        if of.units == 1:
            unit = "cluster" if len(of.answered) > 1 else "query"
            lines.append(f"{_of(of, boards)}1 {unit}: no test, and no interval")
        elif of.units < FEW:
            clustered = of.units < len(of.answered)
            number = counted(of.units, "cluster" if clustered else "query", "clusters" if clustered else "queries")
            lines.append(
                f"{_of(of, boards)}{number}, fewer than {FEW}: p values and intervals are rough, and only large"
                " differences can show"
            )
    lone = sum(of.units == 1 for of in boards)
    if lone and len(boards) > 1:
        lines.append(
            f"{counted(lone, 'dataset is', 'datasets are')} of one query or cluster, which is drawn every time:"
            " intervals of means over datasets are too narrow"
        )
    return lines


def _of(of: Board, boards: list[Board]) -> str:
    return f"{of.dataset}: " if len(boards) > 1 else ""


def _list(names: list[str], limit: int = 3) -> str:
    text = ", ".join(names[:limit])
    return text if len(names) <= limit else f"{text} and {len(names) - limit} more"
