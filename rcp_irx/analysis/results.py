"""Every system's score on every query, under the gains and under people's labels; what they mean is for others.

Systems are runs by name: frames (`qid, docno, score`, optionally `dataset`) or the paths of TREC runs.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pandas as pd

from rcp_irx.documents import with_labels
from rcp_irx.errors import RCPError, counted, examples, warn
from rcp_irx.evaluation import scores
from rcp_irx.evaluation.coverage import warn_of_no_overlap
from rcp_irx.evaluation.inputs import Pools, Run, read_pools, read_run
from rcp_irx.evaluation.options import options
from rcp_irx.evaluation.ranking import Ranked, ranked
from rcp_irx.gains import KEYS, GainTable
from rcp_irx.judging.log import JudgmentLog
from rcp_irx.tables import named
from rcp_irx.trec import read_run as read_trec_run

Runs: TypeAlias = Mapping[str, "pd.DataFrame | str | os.PathLike[str]"]

GAINS = {"RCPnDCG": "gain", "CountnDCG": "count_gain"}
"""The measures of the gains, with the column that each reads."""

QREL = "nDCG"
"""The measure of people's labels."""


@dataclass(frozen=True)
class Results:
    """What each system scores on each query.

    Attributes
    ----------
    scores : dict of str to DataFrame
        For "RCPnDCG", "CountnDCG" (where the table has pass counts) and, with labels, "nDCG" (linear gain, labels below
        0 as 0): one row per (dataset, qid), sorted, one column per system.
    coverage : DataFrame
        The share of the first k documents that has a gain, likewise; NaN where a system ranks nothing.
    k : int
    """

    scores: dict[str, pd.DataFrame]
    coverage: pd.DataFrame
    k: int

    @property
    def systems(self) -> list[str]:
        """The systems' names, in the order given."""
        return list(self.coverage.columns)

    @property
    def queries(self) -> pd.MultiIndex:
        """The scored queries as (dataset, qid)."""
        return pd.MultiIndex.from_tuples(list(self.coverage.index), names=["dataset", "qid"])


def gain_table(gains: object) -> GainTable:
    """A gain table that holds a query.

    Raises
    ------
    RCPError
        If it is none, or empty.
    """
    if not isinstance(gains, GainTable):
        hint = "; log.calibrate() makes one" if isinstance(gains, JudgmentLog) else ""
        raise RCPError(f"gains must be a GainTable, not {type(gains).__name__}{hint}")
    if not len(gains):
        raise RCPError(f"{gains!r} has no document")
    return gains


def read_runs(runs: Runs) -> dict[str, pd.DataFrame]:
    """The systems' rankings as frames.

    Raises
    ------
    RCPError
        If there is none, or one is neither a frame nor a readable TREC run.
    """
    if not isinstance(runs, Mapping) or not runs:
        raise RCPError("runs is a mapping of a system's name to its ranking: a frame or the path of a TREC run")
    found = {}
    for name, run in runs.items():
        if str(name) in found:
            raise RCPError(f"two runs are called {str(name)!r}: names are texts")
        if isinstance(run, (str, os.PathLike)):
            found[str(name)] = read_trec_run(run)
        elif isinstance(run, pd.DataFrame):
            found[str(name)] = run
        else:
            raise RCPError(f"run {name!r} must be a frame or the path of a TREC run, not {type(run).__name__}")
    return found


def score_runs(
    runs: Runs, gains: GainTable, qrels: pd.DataFrame | None = None, *, k: int = 10, ties: str | None = None
) -> Results:
    """Score systems on the queries that have gains and, where labels are given, labels too.

    Parameters
    ----------
    runs : mapping of str to DataFrame or path
    qrels : DataFrame, optional
        `qid, docno, label` (optionally `dataset`).
    ties : str, optional
        As in `evaluation.ndcg`.

    Raises
    ------
    RCPError
        Unreadable runs; no query in common.

    Warns
    -----
    RCPWarning
        If queries have gains and no label, or labels and no gain; if a run's documents are of another collection.
    """
    gains, chosen = gain_table(gains), options(k, ties)
    if chosen.cutoff is None:
        raise RCPError("systems are compared to a cutoff: k is a whole number of ranks, not None")
    pools = {measure: pools_of for measure, pools_of in _pools(gains, qrels)}
    frames = read_runs(runs)
    index = pd.MultiIndex.from_tuples(pools["RCPnDCG"].queries, names=["dataset", "qid"])
    found: dict[str, dict[str, np.ndarray]] = {measure: {} for measure in pools}
    coverage = {}
    for name, frame in frames.items():
        rows = read_named_run(name, frame, pools["RCPnDCG"])
        for measure, of in pools.items():
            top = ranked(rows, of, chosen.cutoff, chosen.ties)
            found[measure][name] = scores.ndcg(top, of, chosen.cutoff)
            if measure == "RCPnDCG":
                warn_of_no_overlap(top, rows, of, name)
                coverage[name] = _coverage(top, len(index))
    return Results(
        {measure: pd.DataFrame(columns, index=index) for measure, columns in found.items()},
        pd.DataFrame(coverage, index=index),
        chosen.cutoff,
    )


def common_queries(gains: GainTable, qrels: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """The gains (as `GainTable.scored`) and labels of the queries that have both.

    Raises
    ------
    RCPError
        If there is none, or none of their labelled documents has a gain.

    Warns
    -----
    RCPWarning
        If queries have only one of them.
    """
    dataset = gains.dataset_of(qrels, "qrels")
    labels = with_labels(qrels, "qrels", dataset)
    if len(gains.datasets) == 1 and "dataset" in labels and set(labels["dataset"]) == {""}:
        labels = labels.assign(dataset=dataset)
    scored = gains.scored
    ours, theirs = _keys(scored), _keys(labels)
    both = ours.isin(theirs)
    if not both.any():
        raise RCPError(f"qrels and gains share no query: the qrels' are {named(labels)}, the gains' {named(scored)}")
    for lacking, what in [(scored[~both], "gains and no label"), (labels[~theirs.isin(ours)], "labels and no gain")]:
        if len(lacking):
            number = counted(len(lacking[KEYS[:2]].drop_duplicates()), "query has", "queries have")
            warn(f"{number} {what}, left out: {named(lacking)}")
    scored, labels = scored[both].reset_index(drop=True), labels[theirs.isin(ours)].reset_index(drop=True)
    if set(labels["docno"]).isdisjoint(scored["docno"]):
        raise RCPError(
            f"no labelled document has a gain: the qrels' documents are {examples(labels['docno'])}, the gains'"
            f" {examples(scored['docno'])}; are these the same collection?"
        )
    return scored, labels


def _pools(gains: GainTable, qrels: pd.DataFrame | None) -> Iterator[tuple[str, Pools]]:
    """The pools of each measure; all have the same queries."""
    rows, labels = (gains.scored, None) if qrels is None else common_queries(gains, qrels)
    for measure, column in GAINS.items():
        if column in rows.columns:
            yield measure, read_pools(rows, column=column)
    if labels is not None:
        out = rows.loc[rows["excluded"], KEYS]
        labels = labels.assign(gain=labels["label"].clip(lower=0).astype(np.float64))
        labels = labels.merge(rows[[*KEYS, "pool_rank"]], on=KEYS, how="left")
        yield QREL, read_pools(labels, out)


def read_named_run(name: str, frame: pd.DataFrame, pools: Pools) -> Run:
    """The run's rows for the queries of the pools; errors name the run."""
    try:
        return read_run(frame, pools)
    except RCPError as error:
        raise RCPError(f"run {name!r}: {error}") from error


def _coverage(top: Ranked, queries: int) -> np.ndarray:
    """The judged share of each query's first documents."""
    depth = np.bincount(top.query, minlength=queries).astype(np.float64)
    depth[depth == 0] = np.nan
    share: np.ndarray = np.bincount(top.query, weights=top.judged, minlength=queries) / depth
    return share


def _keys(frame: pd.DataFrame) -> pd.Series:
    return pd.Series(list(zip(frame["dataset"], frame["qid"], strict=True)), index=frame.index, dtype=object)
