"""What a report holds, gathered from gains, runs, labels, a log and texts; how it looks is `page`'s."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from rcp_irx.analysis.comparing import Comparison, compare
from rcp_irx.analysis.diagnosis import diagnose
from rcp_irx.analysis.results import Runs, read_runs, score_runs
from rcp_irx.calibration import gain
from rcp_irx.calibration.gain import pass_probabilities
from rcp_irx.documents import with_keys, with_labels
from rcp_irx.errors import RCPError, counted, examples
from rcp_irx.evaluation.coverage import LEAST_COVERAGE
from rcp_irx.gains import KEYS, GainTable
from rcp_irx.judging.judges.settings import prices as checked_prices
from rcp_irx.judging.log import JudgmentLog
from rcp_irx.tables import named

SHOWN_BEYOND_THE_POOL = 10
"""A document without a gain is shown where a system ranks it among so many."""


NO_TEXTS = "No document texts were given: documents are shown by their ids (--docs)."


class Percentiles(NamedTuple):
    """Percentiles 5, 25, 50, 75 and 95 of one kind of score in one dataset."""

    dataset: str
    score: str
    percentiles: list[float]


@dataclass(frozen=True, eq=False)
class Content:
    """All that the page shows.

    Attributes
    ----------
    facts : list of (name, text)
    warnings, missing : list of str
        What to be wary of; what the report could not show, and which option would.
    leaderboards : list of dict
        Per dataset and measure: `dataset, measure, rows`; see `_leaderboards`.
    pairs : DataFrame
        As `Comparison.pairs`, RCPnDCG and nDCG.
    criteria, bins, usage, failures, queries : DataFrame
    systems : list of str
    documents : DataFrame
        The pool's documents and what systems rank beyond it, with `query` (position in `queries`), sorted.
    """

    title: str
    k: int
    facts: list[tuple[str, str]]
    warnings: list[str]
    missing: list[str]
    leaderboards: list[dict[str, Any]]
    pairs: pd.DataFrame
    criteria: pd.DataFrame
    bins: pd.DataFrame
    score_percentiles: list[Percentiles]
    usage: pd.DataFrame
    failures: pd.DataFrame
    queries: pd.DataFrame
    systems: list[str]
    documents: pd.DataFrame
    theta_range: tuple[float, float]
    texts: Mapping[str, str] = field(default_factory=dict)

    def curves(self, theta: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Pass probabilities, (abilities, criteria), and gains at some abilities."""
        gamma, beta = self.criteria["gamma"].to_numpy(float), self.criteria["beta"].to_numpy(float)
        return pass_probabilities(theta, gamma, beta), gain(theta, gamma, beta)

    @property
    def docnos(self) -> set[str]:
        """The ids of all documents that are shown."""
        return set(self.documents["docno"])

    def with_texts(self, texts: Mapping[str, str]) -> Content:
        """The same with the documents' texts, by id."""
        if not texts:
            return self
        missing = [text for text in self.missing if text != NO_TEXTS]
        without = self.docnos - set(texts)
        if without:
            number = f"{len(without)} of {counted(len(self.docnos), 'document')}"
            missing.append(f"No text was given of {number}: {examples(without)}.")
        return replace(self, texts=texts, missing=missing)

    def longest_text(self) -> int:
        """Characters of the longest text."""
        return max(map(len, self.texts.values()), default=0)

    def documents_of_queries(self, length: int | None, every: int = 1) -> list[dict[str, list[Any]]]:
        """For each query (or every so many-th) its documents as columns; texts of at most so many characters."""
        chosen = self.documents[self.documents["query"] % every == 0]
        by_query = chosen.groupby("query", sort=False).indices
        columns = [name for name in chosen.columns if name not in ("dataset", "qid", "query")]
        values = {name: [_plain(value) for value in chosen[name].tolist()] for name in columns}
        if self.texts:
            values["text"] = [_shortened(self.texts.get(docno), length) for docno in chosen["docno"]]
        found = []
        for query in range(0, len(self.queries), every):
            places = np.asarray(by_query.get(query, [])).tolist()
            found.append({name: [held[i] for i in places] for name, held in values.items()})
        return found


def gather(
    gains: GainTable,
    runs: Runs | None = None,
    qrels: pd.DataFrame | None = None,
    log: JudgmentLog | None = None,
    *,
    k: int = 10,
    title: str = "",
    prices: tuple[float, float] | None = None,
) -> Content:
    """Everything that a report shows but the documents' texts, which `Content.with_texts` adds.

    Parameters
    ----------
    runs : mapping of str to DataFrame or path, optional
    qrels : DataFrame, optional
        `qid, docno, label`.
    log : JudgmentLog, optional
        For failures and cost.
    prices : pair of float, optional
        Dollars per million prompt tokens and per million completion tokens; a log does not know them.
    """
    frames = None if not runs else read_runs(runs)
    compared = compare(frames, gains, qrels, k=k) if frames else None
    checks = diagnose(gains, runs=frames, qrels=qrels, k=k)
    queries = _queries(gains, frames, k)
    usage, failures = (pd.DataFrame(), pd.DataFrame()) if log is None else _judging(log, gains, prices)
    theta = gains.documents["theta"].to_numpy(float)
    beta = gains.criteria["beta"].to_numpy(float)
    return Content(
        title=title or f"Gains {gains.label}",
        k=k,
        facts=_facts(gains),
        warnings=[*checks.warnings, *([] if compared is None else compared.warnings)],
        missing=_missing(frames, qrels, usage),
        leaderboards=[] if compared is None else _leaderboards(compared),
        pairs=pd.DataFrame() if compared is None else compared.pairs,
        criteria=gains.criteria,
        bins=checks.bins,
        score_percentiles=_percentiles(gains),
        usage=usage,
        failures=_counts(failures),
        queries=queries,
        systems=list(frames or {}),
        documents=_documents(gains, queries, frames or {}, qrels),
        theta_range=(np.nanmin([*theta, *beta, 0.0]) - 1.0, np.nanmax([*theta, *beta, 0.0]) + 1.0),
    )


def _facts(gains: GainTable) -> list[tuple[str, str]]:
    held = gains.metadata
    facts = [
        ("judge", str(held.get("judge", "unknown"))),
        ("fit", gains.fit_id + held["derived"]),
        ("queries", str(len(gains.queries))),
        ("documents", f"{len(gains)} in pools of {gains.documents.groupby(KEYS[:2]).size().median():.0f} (median)"),
        ("datasets", ", ".join(name or "(one, without a name)" for name in gains.datasets)),
    ]
    if held.get("note"):
        facts.append(("note", str(held["note"])))
    return facts


def _judging(
    log: JudgmentLog, gains: GainTable, prices: tuple[float, float] | None
) -> tuple[pd.DataFrame, pd.DataFrame]:
    """What the judging of these gains took, in dollars too where prices are known; and its failed attempts.

    Raises
    ------
    RCPError
        If the log holds no judgment of these gains' queries, or none of their judge.
    """
    held, judge = log.queries(), gains.metadata.get("judge")
    own = held.merge(gains.queries[KEYS[:2]], on=KEYS[:2])
    if own.empty:
        theirs, ours = named(held), named(gains.queries)
        raise RCPError(f"the log {log.path} is of other gains: its queries are {theirs}, the gains' {ours}")
    if judge and judge not in set(own["judge"]):
        others = examples(own["judge"])
        raise RCPError(f"the log {log.path} holds nothing of the gains' judge {judge!r}; it is of {others}")
    usage, failures = log.usage(gains.datasets), log.failures().merge(gains.queries[KEYS[:2]], on=KEYS[:2])
    if judge:
        usage, failures = (rows[rows["judge"] == judge].reset_index(drop=True) for rows in (usage, failures))
    if prices is not None:
        prompt, completion = checked_prices(prices)
        usage["dollars"] = (usage["prompt_tokens"] * prompt + usage["completion_tokens"] * completion) / 1e6
    return usage, failures


def _missing(runs: Any, qrels: Any, usage: pd.DataFrame) -> list[str]:
    tokens = usage["prompt_tokens"].sum() if len(usage) else 0
    lacks = [
        (not runs, "No runs were given: there is no leaderboard (name TREC runs)."),
        (qrels is None, "No labels of people were given: nothing here was compared with them (--qrels)."),
        (not len(usage), "No judgment log was given: failures and cost of the judging are not shown (--log)."),
        (tokens and "dollars" not in usage, "No prices of tokens were given: no dollars are shown (--prices)."),
    ]
    return [*(text for lacking, text in lacks if lacking), NO_TEXTS]


def _leaderboards(compared: Comparison) -> list[dict[str, Any]]:
    """Per dataset one table of systems: each measure's mean, interval and rank; RCP's change of rank from nDCG."""
    found = []
    for dataset, rows in compared.systems.groupby("dataset", sort=True):
        by_measure = {str(measure): of.set_index("system") for measure, of in rows.groupby("measure", sort=False)}
        main = by_measure["RCPnDCG"].sort_values("rank", kind="stable")
        labelled = by_measure.get("nDCG")
        systems = []
        for name, row in main.iterrows():
            systems.append(
                {
                    "system": name,
                    "rank": int(row["rank"]),
                    "coverage": row["coverage"],
                    "low_coverage": bool(row["coverage"] < LEAST_COVERAGE),
                    "change": None if labelled is None else int(labelled.loc[name, "rank"]) - int(row["rank"]),
                    "measures": [of.loc[name, ["mean", "low", "high"]].tolist() for of in by_measure.values()],
                }
            )
        found.append(
            {"dataset": dataset, "measures": list(by_measure), "n": int(main["n"].iloc[0]), "systems": systems}
        )
    return found


def _percentiles(gains: GainTable) -> list[Percentiles]:
    found = []
    for dataset, rows in gains.documents.groupby("dataset", sort=True):
        for score, column in (("raw", "bt"), ("calibrated", "theta")):
            values = rows[column].to_numpy(float)
            values = values[np.isfinite(values)]
            if len(values):
                percentiles = np.percentile(values, [5, 25, 50, 75, 95]).tolist()
                found.append(Percentiles(str(dataset), score, percentiles))
    return found


def _counts(failures: pd.DataFrame) -> pd.DataFrame:
    if not len(failures):
        return pd.DataFrame()
    counts = failures.groupby(["stage", "failure"], sort=True)["answered"].agg(["size", "sum"])
    return counts.rename(columns={"size": "attempts", "sum": "answered"}).reset_index()


def _queries(gains: GainTable, frames: dict[str, pd.DataFrame] | None, k: int) -> pd.DataFrame:
    """One row per query: its text, scale, best gain, and what each system scores."""
    table = gains.queries[["dataset", "qid", "query", "tau", "alpha"]]
    table = table.sort_values(["dataset", "qid"], key=_as_people_sort)
    best = gains.documents[~gains.documents["excluded"]].groupby(KEYS[:2])["gain"].agg(["size", "max"])
    table = table.merge(best.rename(columns={"size": "documents", "max": "best"}), on=KEYS[:2], how="left")
    if frames:
        scored = score_runs(frames, gains, k=k).scores["RCPnDCG"]
        scored.columns = [f"score:{name}" for name in scored.columns]
        table = table.merge(scored.reset_index(), on=KEYS[:2], how="left")
    return table.reset_index(drop=True)


def _as_people_sort(ids: pd.Series) -> pd.Series:
    """Ids that are all numbers by their size, others as they are."""
    return ids.astype(int) if ids.str.fullmatch("[0-9]{1,18}").all() else ids


def _documents(
    gains: GainTable, queries: pd.DataFrame, frames: dict[str, pd.DataFrame], qrels: pd.DataFrame | None
) -> pd.DataFrame:
    """Each query's documents: the pool by gain, then what systems rank highly without a gain."""
    table = gains.documents
    kept = [*KEYS, "gain", "theta", "bt", "n", "excluded"]
    kept += [name for name in ("gain_se", "not_shown") if name in table.columns]
    rows = table[[*kept, *gains.criteria["id"]]].rename(columns={name: f"pass:{name}" for name in gains.criteria["id"]})
    dataset = gains.datasets[0] if len(gains.datasets) == 1 else ""
    ranks = _all_ranks(gains, frames)
    beyond = [of[of[name] <= SHOWN_BEYOND_THE_POOL][KEYS] for name, of in ranks.items()]
    if beyond:
        rows = rows.merge(pd.concat([rows[KEYS], *beyond]).drop_duplicates(), on=KEYS, how="right")
    for of in ranks.values():
        rows = rows.merge(of, on=KEYS, how="left")
    if qrels is not None:
        labels = with_labels(qrels, "qrels", dataset)
        if dataset:
            labels = labels.assign(dataset=dataset)
        rows = rows.merge(labels, on=KEYS, how="left")
    place = queries[KEYS[:2]].assign(query=np.arange(len(queries)))
    rows = rows.merge(place, on=KEYS[:2], how="inner")
    return rows.sort_values(["query", "gain", "docno"], ascending=[True, False, True], ignore_index=True)


def _all_ranks(gains: GainTable, frames: Mapping[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Each system's ranks, by the name of their column."""
    dataset = gains.datasets[0] if len(gains.datasets) == 1 else ""
    return {
        f"rank:{name}": _ranks(run, gains, dataset).rename(columns={"rank": f"rank:{name}"})
        for name, run in frames.items()
    }


def _ranks(run: pd.DataFrame, gains: GainTable, dataset: str) -> pd.DataFrame:
    """The ranks, from 1, that a run gives to documents of queries with gains, as trec_eval orders them."""
    keyed = with_keys(run, ["qid", "docno"], "run", dataset)
    if dataset:
        keyed = keyed.assign(dataset=dataset)
    keyed = keyed[keyed["qid"].isin(set(gains.queries["qid"]))]
    keyed = keyed.sort_values(["dataset", "qid", "score", "docno"], ascending=[True, True, False, False], kind="stable")
    keyed = keyed.drop_duplicates(KEYS)
    return keyed[KEYS].assign(rank=keyed.groupby(KEYS[:2], sort=False).cumcount() + 1)


def _shortened(text: str | None, length: int | None) -> str | None:
    if text is None or length is None or len(text) <= length:
        return text
    return f"{text[:length]} [{counted(len(text) - length, 'more character')}]"


def _plain(value: Any) -> Any:
    if isinstance(value, float):
        if not np.isfinite(value):
            return None
        return int(value) if value == int(value) else round(value, 4)
    return value
