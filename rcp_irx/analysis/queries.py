"""Queries and documents one by one: where nDCG cannot tell systems apart, why one beats another, what is in dispute."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from rcp_irx.analysis.results import QREL, Runs, common_queries, gain_table, read_named_run, read_runs
from rcp_irx.analysis.screen import screen, table
from rcp_irx.analysis.significance import pairs_of
from rcp_irx.documents import with_keys, with_labels
from rcp_irx.errors import RCPError, counted, examples, finite
from rcp_irx.evaluation import scores
from rcp_irx.evaluation.inputs import Run, read_pools
from rcp_irx.evaluation.options import options
from rcp_irx.evaluation.ranking import ranked
from rcp_irx.gains import GainTable
from rcp_irx.tables import UNJUDGED, reach_easiest

MODES = ("saturated", "floored", "compressed")
ALIKE = 1e-6
ROUNDING = 1e-12
LOWEST = 0.25
"""The share of positives, those of the lowest gain, that Section H.2 examines."""


@dataclass(frozen=True, eq=False, repr=False)
class FailureModes:
    """On which queries nDCG cannot tell the systems apart (Section G.1).

    Attributes
    ----------
    queries : DataFrame
        One row per (dataset, qid): `mode` ("saturated": every system scores 1; "floored": every one 0; "compressed":
        neither, and at least half of the pairs tie, by at most 1e-6; "": none), `tied` (the share of pairs that tie),
        `lowest`, `highest` (scores).
    shares : DataFrame
        One row per dataset: `queries`, and the share of them in each mode and in `any`.
    warnings : list of str
    k : int
    """

    queries: pd.DataFrame
    shares: pd.DataFrame
    warnings: list[str]
    k: int

    def __repr__(self) -> str:
        return screen(f"Share of queries on which {QREL}@{self.k} fails", [table(self.shares)], self.warnings)


@dataclass(frozen=True, eq=False, repr=False)
class Explanation:
    """Why one system's RCP-nDCG beats another's on a query.

    Attributes
    ----------
    documents : DataFrame
        One row per document that either system or the ideal list has in its first k: `docno`, `gain` (NaN: none, which
        counts 0), `theta`, `bt`, `n` and pass counts as in the gain table, `label` where labels are given;
        `ideal_rank`, `rank_a`, `rank_b` (from 1, also beyond k; NaN: not ranked); `credit_a`, `credit_b` (what it adds
        to each score) and their `difference`, the largest first. The differences add up to that of the scores.
    systems, scores : pair of str, pair of float
    qid, dataset : str
    warnings : list of str
    k : int
    """

    documents: pd.DataFrame
    systems: tuple[str, str]
    scores: tuple[float, float]
    qid: str
    dataset: str
    warnings: list[str]
    k: int

    def __repr__(self) -> str:
        (a, b), (score_a, score_b) = self.systems, self.scores
        heading = (
            f"query {self.qid!r}: RCPnDCG@{self.k} of {a} (a) {score_a:.3f}, of {b} (b) {score_b:.3f}, difference"
            f" {score_a - score_b:+.3f}"
        )
        shown = ["docno", "gain", "label", "ideal_rank", "rank_a", "rank_b", "credit_a", "credit_b", "difference"]
        rows = self.documents[[name for name in shown if name in self.documents.columns]]
        ranks = {name: rows[name].astype("Int64") for name in ("ideal_rank", "rank_a", "rank_b")}
        return screen(heading, [table(rows.assign(**ranks), " in .documents")], self.warnings)


@dataclass(frozen=True, eq=False, repr=False)
class Disputed:
    """Documents on which people's labels and the gains are farthest apart: candidates to look at, by gain.

    Attributes
    ----------
    positives : DataFrame
        Labelled as relevant, with a gain in the lowest quarter of all such documents of the dataset (Section H.2), the
        lowest first: `dataset, qid, query, docno, label, gain, theta`, `gain_rank` (1 is the query's highest) and
        `pool` (its number of documents).
    unlabelled : DataFrame
        Without a label, the highest gain first.
    negatives : DataFrame
        Labelled, but not as relevant; likewise.
    warnings : list of str
    """

    positives: pd.DataFrame
    unlabelled: pd.DataFrame
    negatives: pd.DataFrame
    warnings: list[str]

    def __repr__(self) -> str:
        parts = []
        for name in ("positives", "unlabelled", "negatives"):
            frame, which = getattr(self, name), "lowest" if name == "positives" else "highest"
            shown = frame.drop(columns=["query", "theta"])
            parts.append(f"{name}, {which} gains first ({len(frame)}):")
            parts.append(table(shown, f" in .{name}", 6) if len(frame) else "none")
        return screen("Labels and gains in dispute: either may be wrong", parts, self.warnings)


def modes(values: ArrayLike, tolerance: float = ALIKE) -> tuple[np.ndarray, np.ndarray]:
    """Each query's failure mode and its share of tied pairs, from scores of shape (Q, S); both of shape (Q,)."""
    found = np.asarray(values, dtype=np.float64)
    first, second = pairs_of(found.shape[1])
    tied = np.mean(np.abs(found[:, first] - found[:, second]) <= tolerance + ROUNDING, axis=1)
    saturated = (found >= 1 - tolerance - ROUNDING).all(axis=1)
    floored = (found <= tolerance + ROUNDING).all(axis=1)
    chosen = np.select([saturated, floored, tied >= 0.5], MODES, "")
    return chosen.astype(object), tied


def failure_modes(runs: Runs, qrels: pd.DataFrame, k: int = 10, *, ties: str | None = None) -> FailureModes:
    """Find the queries that nDCG@k of people's labels saturates, floors or compresses (Section G.1).

    Parameters
    ----------
    runs : mapping of str to DataFrame or path
        Two systems or more.
    qrels : DataFrame
        `qid, docno, label` (and `dataset`, `excluded`, `pool_rank`); labels below 0 count 0. All its queries count; a
        query that a run misses scores 0.
    ties : str, optional
        As in `evaluation.ndcg`. The paper keeps the first-stage order here ("pool").

    Raises
    ------
    RCPError
        Fewer than two systems, unreadable runs or labels.
    """
    chosen, frames = options(k, ties), read_runs(runs)
    if len(frames) < 2:
        raise RCPError("failure modes compare systems; give at least two runs")
    if chosen.cutoff is None:
        raise RCPError("failure modes need a cutoff: give a whole number as k")
    labels = with_labels(qrels, "qrels")
    keyed = with_keys(qrels, ["qid", "docno"], "qrels")
    if "excluded" in keyed.columns:
        keyed["excluded"] = keyed.groupby(["dataset", "qid", "docno"])["excluded"].transform("max")
    keyed = keyed.drop_duplicates(["dataset", "qid", "docno"])
    pools = read_pools(keyed.assign(gain=labels["label"].clip(lower=0).astype(np.float64)))
    values, silent = np.empty((len(pools.queries), len(frames))), np.ones(len(pools.queries), dtype=bool)
    for column, (name, frame) in enumerate(frames.items()):
        rows = read_named_run(name, frame, pools)
        values[:, column] = scores.ndcg(ranked(rows, pools, chosen.cutoff, chosen.ties), pools, chosen.cutoff)
        silent[rows.query] = False
    mode, tied = modes(values)
    queries = pd.DataFrame(pools.queries, columns=["dataset", "qid"]).assign(
        mode=mode, tied=tied, lowest=values.min(axis=1), highest=values.max(axis=1)
    )
    warnings = []
    barren = pools.largest_gain == 0
    for wrong, what in [(barren, "no label above 0"), (silent & ~barren, "no document in any run")]:
        if wrong.any():
            number = counted(int(wrong.sum()), "query has", "queries have")
            warnings.append(f"{number} {what}, so that all systems score 0: counted as floored")
    return FailureModes(queries, _shares(queries), warnings, chosen.cutoff)


def explain(
    qid: str,
    runs: Runs,
    gains: GainTable,
    *,
    k: int = 10,
    dataset: str | None = None,
    systems: Sequence[str] | None = None,
    qrels: pd.DataFrame | None = None,
    ties: str | None = None,
) -> Explanation:
    """Say, document by document, why one system's RCP-nDCG@k is above another's on a query.

    Parameters
    ----------
    qid : str
    runs : mapping of str to DataFrame or path
    dataset : str, optional
        Needed where the id occurs in several datasets of the table.
    systems : pair of str, optional
        Which two of the runs; needed where there are more than two.
    qrels : DataFrame, optional
        Labels to show beside the gains.
    ties : str, optional
        As in `evaluation.ndcg`, but "mean".

    Raises
    ------
    RCPError
        A query without gains; not two systems; `ties="mean"`, under which tied documents have no rank of their own.
    """
    chosen, frames = options(k, ties), read_runs(runs)
    if chosen.cutoff is None or chosen.ties == "mean":
        raise RCPError("explain follows each document's rank: k is a whole number, and ties another rule than 'mean'")
    pair, key = _two(systems, list(frames)), _key(qid, dataset, gain_table(gains))
    rows, pools = gains.scored, read_pools(gains.scored)
    found = [_rows_of(read_named_run(name, frames[name], pools), pools.queries.index(key)) for name in pair]
    listed = _listed(rows[(rows["dataset"] == key[0]) & (rows["qid"] == key[1])], found)
    places = read_pools(listed.assign(place=np.arange(1.0, len(listed) + 1)), column="place")
    documents = listed.assign(
        ideal_rank=listed["gain"].where(~listed["excluded"]).rank(ascending=False, method="first")
    )
    ideal = np.nansum(documents["gain"] * _discounts(documents["ideal_rank"], chosen.cutoff))
    warnings = []
    for side, system, run in zip("ab", pair, found, strict=True):
        top = ranked(run, places, None, chosen.ties)  # over the documents' places, which tell which is ranked where
        rank = pd.Series(top.rank + 1.0, index=listed.index[top.gain.astype(np.intp) - 1])
        documents[f"rank_{side}"] = rank.reindex(documents.index)
        credit = documents["gain"].fillna(0.0) * _discounts(documents[f"rank_{side}"], chosen.cutoff)
        documents[f"credit_{side}"] = credit / ideal if ideal > 0 else 0.0
        if not len(run.query):
            warnings.append(f"{system} ranks nothing for this query, and scores 0")
        missing = int((documents["gain"].isna() & (documents[f"rank_{side}"] <= chosen.cutoff)).sum())
        if missing:
            number = counted(missing, "document has", "documents have")
            warnings.append(f"{number} no gain among the first {chosen.cutoff} of {system}: no credit")
    documents["difference"] = documents["credit_a"] - documents["credit_b"]
    top_of_any = (documents[["ideal_rank", "rank_a", "rank_b"]] <= chosen.cutoff).any(axis=1)
    documents = _with_details(documents[top_of_any], key, gains, qrels)
    size = -documents["difference"].abs().round(12)
    documents = documents.iloc[np.lexsort((documents["docno"], documents["ideal_rank"], size))].reset_index(drop=True)
    totals = float(documents["credit_a"].sum()), float(documents["credit_b"].sum())
    return Explanation(documents, pair, totals, key[1], key[0], warnings, chosen.cutoff)


def disputed(gains: GainTable, qrels: pd.DataFrame, *, positive: int = 1) -> Disputed:
    """Find the labelled positives of the lowest gains, and other documents of the highest (Section H.2).

    Parameters
    ----------
    qrels : DataFrame
        `qid, docno, label` (and `dataset`); a label below 0 is none.
    positive : int
        The lowest label that counts as relevant; the paper's is 2 of NIST's 0 to 3.

    Raises
    ------
    RCPError
        No query in common; labels that are not whole numbers.
    """
    finite(positive=positive)
    scored, labels = common_queries(gain_table(gains), qrels)
    keys = ["dataset", "qid", "docno"]
    labels = labels[labels["label"] > UNJUDGED]
    rows = scored[~scored["excluded"]][[*keys, "gain"]].merge(labels, on=keys, how="left")
    rows = rows.merge(gains.documents[[*keys, "theta"]], on=keys).merge(
        gains.queries[["dataset", "qid", "query"]], on=["dataset", "qid"]
    )
    groups = rows.groupby(["dataset", "qid"])["gain"]
    rows = rows.assign(gain_rank=groups.rank(ascending=False, method="min").astype(int), pool=groups.transform("size"))
    rows = rows[["dataset", "qid", "query", "docno", "label", "gain", "theta", "gain_rank", "pool"]]
    chosen = rows["label"] >= positive
    low = rows[chosen]
    low = low[low["gain"] <= low.groupby("dataset")["gain"].transform("quantile", LOWEST)]
    low = low.astype({"label": int}).sort_values(["gain", *keys], ignore_index=True)
    others = rows.sort_values(["gain", *keys], ascending=[False, True, True, True])
    warnings = []
    pooled = pd.MultiIndex.from_frame(labels[keys]).isin(pd.MultiIndex.from_frame(scored[keys]))
    outside = int(np.sum(~pooled & (labels["label"] >= positive).to_numpy()))
    if outside:
        number = counted(outside, "positive is", "positives are")
        warnings.append(f"{number} in no pool, without a gain, and not compared")
    documents = gains.documents
    documents = documents[~reach_easiest(documents, gains.criteria)]
    below = int(pd.MultiIndex.from_frame(rows.loc[chosen, keys]).isin(pd.MultiIndex.from_frame(documents[keys])).sum())
    if below:
        warnings.append(
            f"of {counted(int(chosen.sum()), 'positive')}, {below} below the easiest criterion's difficulty: label"
            " errors, judge errors, or relevance that the rubric does not ask about"
        )
    negatives = others[others["label"] < positive].astype({"label": int})
    return Disputed(
        low,
        others[others["label"].isna()].drop(columns="label").reset_index(drop=True),
        negatives.reset_index(drop=True),
        warnings,
    )


def _shares(queries: pd.DataFrame) -> pd.DataFrame:
    """The share of each dataset's queries in each mode."""
    by = queries["dataset"]
    shares = {mode: queries["mode"].eq(mode).groupby(by).mean() for mode in MODES}
    frame = pd.DataFrame({"queries": by.groupby(by).size(), **shares, "any": queries["mode"].ne("").groupby(by).mean()})
    return frame.reset_index()


def _two(systems: Sequence[str] | None, given: list[str]) -> tuple[str, str]:
    """The two systems to compare."""
    chosen = given if systems is None else list(systems)
    absent = [name for name in chosen if name not in given]
    if absent:
        raise RCPError(f"no run is named {examples(absent)}; there are {examples(given)}")
    if isinstance(systems, str) or len(chosen) != 2:
        raise RCPError(f"explain compares two systems, not {len(chosen)}; name them: systems=(a, b)")
    return chosen[0], chosen[1]


def _key(qid: str, dataset: str | None, gains: GainTable) -> tuple[str, str]:
    """The query as (dataset, qid)."""
    held = gains.documents
    names = sorted(held.loc[held["qid"] == str(qid), "dataset"].unique())
    if dataset is not None:
        names = [name for name in names if name == dataset]
    if not names:
        where = "" if dataset is None else f" in dataset {dataset!r}"
        raise RCPError(f"query {qid!r}{where} has no gains; there are gains for {examples(held['qid'])}")
    if len(names) > 1:
        raise RCPError(f"query {qid!r} is in the datasets {examples(names)}; say which: dataset=...")
    return names[0], str(qid)


def _rows_of(run: Run, query: int) -> Run:
    """The run's rows of one query, which becomes query 0."""
    rows = np.flatnonzero(run.query == query)
    return Run(np.zeros(len(rows), dtype=np.int64), run.ids(rows), run.score[rows])


def _listed(pool: pd.DataFrame, runs: Sequence[Run]) -> pd.DataFrame:
    """The query's documents with gains, exclusions and pool ranks, then those that only runs hold."""
    known = set(pool["docno"])
    more = sorted({docno for run in runs for docno in run.docno.tolist()} - known)
    first = pool[["dataset", "qid", "docno", "gain", "excluded", "pool_rank"]].sort_values("docno")
    frame = first.iloc[:1].drop(columns=["docno"]).merge(pd.DataFrame({"docno": more}), how="cross")
    others = frame.assign(gain=np.nan, excluded=False, pool_rank=np.nan)[first.columns]
    return pd.concat([first, others], ignore_index=True) if len(others) else first.reset_index(drop=True)


def _discounts(rank: pd.Series, k: int) -> pd.Series:
    """1 / log2(rank + 1) of ranks from 1 to k, 0 of others and of NaN."""
    return (1 / np.log2(rank + 1)).where(rank <= k, 0.0)


def _with_details(
    documents: pd.DataFrame, key: tuple[str, str], gains: GainTable, qrels: pd.DataFrame | None
) -> pd.DataFrame:
    """The documents with their labels, abilities and pass counts."""
    held = gains.documents
    held = held[(held["dataset"] == key[0]) & (held["qid"] == key[1])].set_index("docno")
    details = held[["theta", "bt", "n", *gains.criteria["id"]]]
    found = documents.drop(columns=["dataset", "qid", "excluded", "pool_rank"]).join(details, on="docno")
    if qrels is not None:
        labels = with_labels(qrels, "qrels", key[0])
        if len(gains.datasets) == 1 and set(labels["dataset"]) == {""}:
            labels = labels.assign(dataset=key[0])
        own = labels[(labels["dataset"] == key[0]) & (labels["qid"] == key[1]) & (labels["label"] > UNJUDGED)]
        found.insert(2, "label", found["docno"].map(own.set_index("docno")["label"]).astype("Int64"))
    return found
