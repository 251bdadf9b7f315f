"""`compare`: which system is better, by how much, and whether that is more than chance; every pair, every dataset.

The scores come from `results`, the frames from `leaderboards`, what a reader should be wary of from `cautions`.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from rcp_irx.analysis import cautions
from rcp_irx.analysis.gain_noise import noise_covariances, with_errors
from rcp_irx.analysis.leaderboards import (
    RCP,
    SAMPLE,
    agreement_rows,
    board,
    family_rows,
    pair_rows,
    resolution_rows,
    suite_rows,
    system_rows,
)
from rcp_irx.analysis.results import QREL, Runs, gain_table, read_runs, score_runs
from rcp_irx.analysis.screen import screen, table
from rcp_irx.errors import RCPError, counted, examples, whole
from rcp_irx.evaluation.options import DEFAULT_TIES
from rcp_irx.gains import GainTable

Families: TypeAlias = "Mapping[str, str] | Callable[[str], str]"
Clusters: TypeAlias = "str | Mapping[Any, Hashable] | pd.Series"


@dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Systems compared on the queries that have gains (and labels, where these are given).

    Attributes
    ----------
    systems : DataFrame
        One row per dataset, measure ("RCPnDCG", "CountnDCG"; with labels "nDCG") and system: `n` (queries), `mean`,
        `low`, `high` (95% interval), `interval` (what it holds), `rank` (1 is the best), `coverage` (mean share of the
        first k that has a gain), `mean_answered` (over the queries that are not in `unanswered`); with `label_noise`
        also `noise_se` (of the mean, from the judge's noise alone).
    pairs : DataFrame
        One row per dataset, measure and pair: `n`, `difference` (mean of a less b), `low`, `high`, `interval`, `t`,
        `p` (paired t-test, B.2), `p_holm` (over all pairs of the dataset and measure), `wins`, `ties`, `losses`
        (queries; a difference below 0.02 on one is a tie, H.3; the 0.02 says nothing about means), `detectable` (the
        smallest mean difference that the test would find with 80% power); with `label_noise` also `noise_se`.
    resolution : DataFrame
        One row per dataset and measure: `systems`, the `best`, `pairs`, `separated` (p < .05), `separated_holm`,
        `resolution` (the share separated, the paper's sensitivity) and the median `detectable`. It says how often a
        measure tells systems apart, not how often rightly: without any difference it would be about 5%.
    agreement : DataFrame
        One row per dataset, measure and `reference`: `kendall_tau` of the two leaderboards, the pairs that the
        reference separates, and on how many of these the measure has the same winner (H.1), separates them alike, and
        separates them the other way.
    families : DataFrame
        Resolution and agreement with nDCG, each family left out in turn (`left_out` is "" where none is).
        `changed_holm` counts the pairs of others whose Holm decision changes. Empty without families.
    suite, suite_pairs : DataFrame
        Means over datasets and their differences, with intervals from queries drawn within each dataset. Empty for one
        dataset. There is no test over datasets.
    unanswered : DataFrame
        `dataset, qid, best_gain` of queries without a document that reaches the easiest criterion's difficulty: whose
        best gain is below the gain of Eq. 4 there.
    warnings : list of str
    k : int
    """

    systems: pd.DataFrame
    pairs: pd.DataFrame
    resolution: pd.DataFrame
    agreement: pd.DataFrame
    families: pd.DataFrame
    suite: pd.DataFrame
    suite_pairs: pd.DataFrame
    unanswered: pd.DataFrame
    warnings: list[str]
    k: int

    def __repr__(self) -> str:
        datasets = self.systems["dataset"].nunique()
        over = f", means over {datasets} datasets" if datasets > 1 else ""
        queries = self.systems.groupby("dataset")["n"].first().sum()
        systems = counted(self.systems["system"].nunique(), "system")
        heading = f"{systems} on {counted(int(queries), 'query', 'queries')}{over}, @{self.k}"
        parts = [_leaderboard(self), _resolution(self), *_agreement(self), _families_text(self)]
        return screen(heading, parts, self.warnings)


def compare(
    runs: Runs,
    gains: GainTable,
    qrels: pd.DataFrame | None = None,
    *,
    k: int = 10,
    families: Families | None = None,
    cluster: Clusters | None = None,
    label_noise: bool = False,
    ties: str | None = None,
    seed: int = 42,
) -> Comparison:
    """Compare systems under the gains and, where given, people's labels.

    Parameters
    ----------
    runs : mapping of str to DataFrame or path
        The systems' rankings by name: `qid, docno, score` (and `dataset`), or TREC runs.
    qrels : DataFrame, optional
        `qid, docno, label` (and `dataset`): adds nDCG, linear in the labels. Documents that the gains exclude leave it
        too, so that all measures are of the same documents (ir_measures' own nDCG counts them).
    families : mapping of str to str, or callable, optional
        Each system's model family, to leave out each in turn. A mapping may name the judge's too, under its identity or
        the model's name in it; else the names tell.
    cluster : str or mapping, optional
        Queries that go together, such as versions of one question: a column of `gains.queries`, or from qid (or
        (dataset, qid)) to a group. Tests and intervals then take the group as the unit. Groups lie within datasets.
    label_noise : bool
        Widen the intervals of RCPnDCG by the spread of the judge's noise, from the column `gain_se` of the gain table:
        what a query's documents share of it and what is each one's own, carried by the delta method.
    ties : str, optional
        As in `evaluation.ndcg`.
    seed : int

    Returns
    -------
    Comparison

    Raises
    ------
    RCPError
        Unreadable runs; no query in common; a system without a family, a query without a cluster; `label_noise` without
        the column.

    Notes
    -----
    Intervals are 95% percentile bootstraps over queries, 2,000 replicates, drawn within datasets (Section B.3). The
    judge's noise differs from query to query, so the spread over queries holds it already, in the tests too:
    `label_noise` counts it once more, as if the same sample were judged anew. `noise_se` is that part alone. What noise
    does to the means themselves is in none of these: it blurs the gains' order, so that good systems score less and
    differences shrink, however many queries there are (in simulations by about .01 at a noise of SD 1 and .05 at 2).
    Neither is the judge's systematic error.
    """
    gains = gain_table(gains)
    whole("seed", seed, 0)
    errors = with_errors(gains) if label_noise else None
    frames = read_runs(runs)
    family = families_of(families, list(frames))
    results = score_runs(frames, gains, qrels, k=k, ties=ties)
    keys, noise = results.queries, {}
    clusters = None if cluster is None else _clusters(cluster, gains, keys)
    if errors is not None:
        rows = errors[pd.MultiIndex.from_frame(errors[["dataset", "qid"]]).isin(keys)]
        noise = noise_covariances(frames, rows, results.k, ties or DEFAULT_TIES)
    about = cautions.gains_by_query(gains, keys)
    answered = about["answered"].to_numpy(dtype=bool)
    names = keys.get_level_values("dataset")
    boards = []
    for name in sorted(set(names)):
        own = np.asarray(names == name)
        scores = {measure: frame[own] for measure, frame in results.scores.items()}
        groups = None if clusters is None else clusters[own]
        boards.append(board(name, scores, results.coverage[own], answered[own], groups, noise.get(name), seed))
    systems = pd.concat(map(system_rows, boards), ignore_index=True)
    suite, suite_pairs = suite_rows(boards)
    warnings = [
        *cautions.left_out(gains, keys),
        *cautions.own_rankings(results, about["differ"]),
        *cautions.judges_family(gains, list(frames), family, families),
        *cautions.missed_queries(results),
        *cautions.coverage(boards, results.k),
        *cautions.unanswered(gains, boards, systems),
        *cautions.few_queries(boards),
    ]
    return Comparison(
        systems,
        pd.concat(map(pair_rows, boards), ignore_index=True),
        pd.DataFrame([row for of in boards for row in resolution_rows(of)]),
        pd.DataFrame([row for of in boards for row in agreement_rows(of)]),
        pd.DataFrame(family_rows(boards, family) if family else []),
        suite,
        suite_pairs,
        about.loc[~answered, "best_gain"].reset_index(),
        warnings,
        results.k,
    )


def families_of(families: Families | None, systems: list[str]) -> dict[str, str]:
    """Each system's family; empty where none is given.

    Raises
    ------
    RCPError
        A system without a family.
    """
    if families is None:
        return {}
    if not isinstance(families, Mapping) and not callable(families):
        raise RCPError(f"families maps a system to its family, or is a function that does, not {families!r}")
    named = families.get if isinstance(families, Mapping) else families
    found = {system: named(system) for system in systems}
    absent = [system for system, family in found.items() if not isinstance(family, str) or not family]
    if absent:
        raise RCPError(f"families gives no family's name for {examples(absent)}; it needs one for every system")
    return {system: str(family) for system, family in found.items()}


def _clusters(cluster: Clusters, gains: GainTable, queries: pd.MultiIndex) -> np.ndarray:
    """Each query's cluster, shape (Q,)."""
    if isinstance(cluster, str):
        table_of = gains.queries
        if cluster not in table_of.columns:
            raise RCPError(f"gains.queries has no column {cluster!r} to cluster by (it has {list(table_of.columns)})")
        given = dict(
            zip(table_of[["dataset", "qid"]].itertuples(index=False, name=None), table_of[cluster], strict=True)
        )
    elif isinstance(cluster, (Mapping, pd.Series)):
        given = dict(cluster.items())
    else:
        raise RCPError(f"cluster is a column of gains.queries, or maps a query to its group, not {cluster!r:.50}")
    unfit = [value for value in given.values() if not isinstance(value, Hashable)]
    if unfit:
        raise RCPError(f"cluster names groups by texts or numbers, not {unfit[0]!r:.50}")
    found = np.array([given.get(key, given.get(key[1])) for key in queries] + [None], dtype=object)[:-1]
    absent = pd.isna(found)
    if absent.any():
        raise RCPError(f"cluster names none for query {examples(queries[absent])}")
    return found


def _leaderboard(of: Comparison) -> str:
    """The systems with each measure's mean and interval, the best under RCPnDCG first."""
    rows = of.systems if of.suite.empty else of.suite
    shown = rows.assign(
        text=[f"{row.mean:.3f} [{row.low:.3f}, {row.high:.3f}]" for row in rows.itertuples(index=False)]
    ).pivot(index="system", columns="measure", values="text")
    order = rows[rows["measure"] == RCP].sort_values("rank", kind="stable")["system"]
    shown = shown.loc[order, list(dict.fromkeys(rows["measure"]))].reset_index()
    shown["coverage"] = of.systems.groupby("system")["coverage"].min().loc[order].to_numpy()
    kind = rows.loc[rows["measure"] == RCP, "interval"].iloc[0]
    more = f"; of {RCP}: {kind} (their spread: that noise lowers good systems' means is not in it)"
    note = f"95% intervals: {SAMPLE}" + ("" if kind == SAMPLE else more)
    return table(shown, " in .systems") + f"\n{note}"


def _resolution(of: Comparison) -> str:
    """Each measure's resolution, over all datasets."""
    rows = of.resolution.groupby("measure", sort=False).agg(
        pairs=("pairs", "sum"),
        separated=("separated", "sum"),
        separated_holm=("separated_holm", "sum"),
        resolution=("resolution", "mean"),
        detectable=("detectable", "median"),
    )
    return (
        table(rows.reset_index())
        + "\nResolution is the share of pairs with p < .05, not validity; levels of different measures do not compare."
    )


def _agreement(of: Comparison) -> list[str]:
    if not len(of.agreement):
        return []
    rows = of.agreement[of.agreement["reference"] == QREL]
    lines = []
    for measure, own in rows.groupby("measure", sort=False):
        separated, same, alike, opposite = (int(number) for number in own.iloc[:, -4:].sum())
        lines.append(
            f"{measure!s}: the same winner in {same} of {counted(separated, 'pair')} that {QREL} separates,"
            f" {alike} separated alike, {opposite} the other way; Kendall's tau {own['kendall_tau'].mean():.3f}"
        )
    return lines


def _families_text(of: Comparison) -> str:
    if of.families.empty or of.systems["dataset"].nunique() > 1:
        return ""
    rows = of.families[(of.families["measure"] == RCP) & (of.families["left_out"] != "")]
    names = ["left_out", "systems", "best", "resolution", "separated_holm", "changed_holm"]
    if QREL in set(of.systems["measure"]):
        names += ["kendall_tau", "reference_separated", "same_winner"]
        rows = rows.astype({"reference_separated": int, "same_winner": int})
    return f"{RCP} without each family:\n" + table(rows[names])
