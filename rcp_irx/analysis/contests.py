"""Which of two systems people prefer on a query, by their grades, and by how much metrics differ between the two.

A query with a pair of systems is a contest (Sections D.2 and H.3).
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rcp_irx.analysis.graded import as_in_table
from rcp_irx.analysis.grades import read_grades
from rcp_irx.analysis.plotted import share_interval
from rcp_irx.analysis.results import Results, Runs, read_runs, score_runs
from rcp_irx.analysis.significance import ROUNDING, TIE, group_sums, pairs_of
from rcp_irx.errors import RCPError, counted, examples, warn
from rcp_irx.evaluation.inputs import read_pools, read_run
from rcp_irx.evaluation.options import DEFAULT_TIES
from rcp_irx.evaluation.ranking import ranked
from rcp_irx.gains import KEYS, GainTable

GAP = 0.005
"""A smaller difference between two lists is no person's pick and names no metric's winner (Sections B.2 and D.2)."""
EDGES = (TIE, 0.05, 0.1, 0.2)
"""Where the bands of margins begin, after the one that is read as ties."""


def contests(
    runs: Runs, gains: GainTable, grades: pd.DataFrame, qrels: pd.DataFrame | None = None, *, k: int = 5
) -> pd.DataFrame:
    """The contests that people can decide: somebody graded every document of both systems' first k.

    Parameters
    ----------
    runs : mapping of str to DataFrame or path
    grades : DataFrame
        `qid, docno, grade`, optionally `dataset` and `annotator`.
    qrels : DataFrame, optional
        `qid, docno, label`: adds the margins of nDCG.

    Returns
    -------
    DataFrame
        `dataset, qid, system_a, system_b`; `people`: how many graded both lists (1 where no annotator is named: the
        mean grades are one person's); `verdict`: 1 where more of them pick a than b, -1 where fewer, 0 where as many;
        per measure (RCPnDCG, CountnDCG, nDCG) its margin, the score of a less that of b. A person picks the list with
        the larger nDCG@k, grades as linear gains, ideal over what that person graded; a gap below 0.005 is no pick.
        Excluded documents have left.

    Raises
    ------
    RCPError
        Unreadable input; fewer than two systems; no contest that people can decide.

    Warns
    -----
    RCPWarning
        How many contests of graded queries are left out for want of grades.
    """
    frames = read_runs(runs)
    if len(frames) < 2:
        raise RCPError(f"margins lie between systems, and runs holds only {examples(frames)}; give two or more")
    people = as_in_table(read_grades(grades, gains.dataset_of(grades, "grades"), together=True)[0], gains)
    results = score_runs(frames, gains, qrels, k=k)
    place = {key: row for row, key in enumerate(results.queries)}
    people["query"] = [place.get(key, -1) for key in people[KEYS[:2]].itertuples(index=False, name=None)]
    scored = gains.scored
    out = scored.loc[scored["excluded"], KEYS]
    left = pd.MultiIndex.from_frame(people[KEYS]).isin(pd.MultiIndex.from_frame(out))
    people = people[(people["query"] >= 0) & ~left]
    if people.empty:
        raise RCPError("no graded query is one that systems are scored on: those with gains (and labels, where given)")
    query, scores = _people_scores(_lists(frames, out, people, k), people, k, results.systems)
    return _decided(results, query, scores, people["query"].nunique())


def sided(contests: pd.DataFrame, measure: str) -> pd.DataFrame:
    """How often people side with a measure's winner, by its absolute margin (Figure 7a).

    Parameters
    ----------
    contests : DataFrame
        As `contests` gives it; those without a verdict, or in which the measure names no winner, do not count.

    Returns
    -------
    DataFrame
        One row per band: `low_margin` (a band begins there and ends where the next begins), `contests`, `share` with
        `low, high` (95%, clustered by query; NaN in a band without contests).
    """
    margin = contests[measure].to_numpy()
    decided = (contests["verdict"] != 0).to_numpy() & (np.abs(margin) >= GAP - ROUNDING)
    rows, margin = contests[decided], margin[decided]
    hits = np.sign(margin) == rows["verdict"].to_numpy()
    query = rows.groupby(KEYS[:2], sort=False).ngroup().to_numpy()
    band = np.searchsorted(EDGES, np.abs(margin) + ROUNDING, side="right")
    found: list[tuple[float, ...]] = []
    for b, low in enumerate((0.0, *EDGES)):
        here = band == b
        share = share_interval(hits[here], query[here]) if here.any() else (np.nan, np.nan, np.nan)
        found.append((low, int(here.sum()), *share))
    return pd.DataFrame(found, columns=["low_margin", "contests", "share", "low", "high"])


def _lists(frames: Mapping[str, pd.DataFrame], out: pd.DataFrame, people: pd.DataFrame, k: int) -> pd.DataFrame:
    """The first k of each system on the graded queries: `system, query, rank, depth, docno`; ungraded ones are NaN."""
    documents = people[[*KEYS, "query"]].drop_duplicates(KEYS, ignore_index=True)
    out = out.merge(documents[KEYS[:2]].drop_duplicates())
    pools = read_pools(documents.assign(row=np.arange(len(documents), dtype=np.float64)), out, column="row")
    code = documents.drop_duplicates(KEYS[:2]).set_index(KEYS[:2])["query"]
    query = code.loc[pd.MultiIndex.from_tuples(pools.queries)].to_numpy()
    parts = []
    for system, frame in frames.items():
        try:
            top = ranked(read_run(frame, pools), pools, k, DEFAULT_TIES)
        except RCPError as error:
            raise RCPError(f"run {system!r} on the graded queries: {error}") from error
        graded = top.judged == 1
        docno = np.full(len(top.query), None, dtype=object)
        docno[graded] = documents["docno"].to_numpy(dtype=object)[top.gain[graded].astype(np.intp)]
        depth = np.bincount(top.query, minlength=len(query))[top.query]
        columns = {"query": query[top.query], "rank": top.rank, "depth": depth, "docno": docno}
        parts.append(pd.DataFrame(columns).assign(system=system))
    return pd.concat(parts, ignore_index=True)


def _people_scores(
    lists: pd.DataFrame, people: pd.DataFrame, k: int, systems: list[str]
) -> tuple[NDArray[np.intp], NDArray[np.float64]]:
    """Each person's nDCG of each system by query: query codes (R,), scores (R, S); NaN where a grade is missing."""
    who = ["query", "annotator"]
    rows = lists[lists["docno"].notna()].merge(people[[*who, "docno", "grade"]], on=["query", "docno"])
    rows = rows.assign(dcg=rows["grade"] / np.log2(rows["rank"] + 2.0))
    reached = rows.groupby([*who, "system"]).agg(dcg=("dcg", "sum"), graded=("dcg", "size"), depth=("depth", "first"))
    reached = reached.loc[reached["graded"] == reached["depth"], "dcg"].unstack("system").reindex(columns=systems)
    best = people.sort_values([*who, "grade"], ascending=[True, True, False])
    best = best.assign(rank=best.groupby(who).cumcount())
    best = best[best["rank"] < k]
    best = best.assign(dcg=best["grade"] / np.log2(best["rank"] + 2.0))
    ideal = best.groupby(who)["dcg"].sum().reindex(reached.index).to_numpy()[:, None]
    dcg = reached.to_numpy(dtype=np.float64)
    scores = np.where(ideal > 0, dcg / np.where(ideal > 0, ideal, 1.0), np.where(np.isnan(dcg), np.nan, 0.0))
    return reached.index.get_level_values("query").to_numpy(dtype=np.intp), scores


def _decided(
    results: Results, query: NDArray[np.intp], scores: NDArray[np.float64], graded_queries: int
) -> pd.DataFrame:
    """The contests, from every person's scores."""
    first, second = pairs_of(len(results.systems))
    gaps = scores[:, first] - scores[:, second]
    there = ~np.isnan(gaps)
    picks = np.where(there & (np.abs(gaps) >= GAP - ROUNDING), np.sign(gaps), 0.0)
    queries, code = np.unique(query, return_inverse=True)
    if not there.any():
        raise RCPError(
            f"no contest can be decided: nobody graded all of two systems' first {results.k} documents of a query;"
            " a smaller k needs fewer grades"
        )
    people, votes = group_sums(there.astype(np.float64), code), group_sums(picks, code)
    row, pair = np.nonzero(people > 0)
    left = graded_queries * len(first) - len(row)
    if left:
        of = counted(left, "contest")
        warn(f"{of} left out: nobody graded all of both systems' first {results.k}; {len(row)} stay")
    keys = results.queries.to_frame(index=False).iloc[queries[row]].reset_index(drop=True)
    names = np.array(results.systems, dtype=object)
    margins = {
        measure: frame.to_numpy()[queries[row], first[pair]] - frame.to_numpy()[queries[row], second[pair]]
        for measure, frame in results.scores.items()
    }
    return keys.assign(
        system_a=names[first[pair]],
        system_b=names[second[pair]],
        people=people[row, pair].astype(np.int64),
        verdict=np.sign(votes[row, pair]).astype(np.int64),
        **margins,
    )
