"""From the results that mteb hands over, query -> document -> score, to RCP scores; `evaluation` does the counting."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

import numpy as np

from rcp_irx.errors import RCPError, counted, examples, warn
from rcp_irx.evaluation.coverage import warn_of_low_coverage, warn_of_no_overlap
from rcp_irx.evaluation.inputs import read_run
from rcp_irx.evaluation.options import Options, options, printed, whole_cutoff
from rcp_irx.evaluation.ranking import Ranked, ranked
from rcp_irx.evaluation.scores import SCORES
from rcp_irx.evaluation.sources import pools_from
from rcp_irx.gains import GainTable

Results: TypeAlias = Mapping[str, Mapping[str, float]]

GAINS = {"gain": "rcp_ndcg", "count_gain": "count_ndcg"}
"""The columns of gains, and how mteb's scores call their nDCG."""
JUDGED = "rcp_judged"
QUERIES, WITHOUT = "rcp_queries", "rcp_queries_without_gains"
HEADLINE = 10


@dataclass(frozen=True)
class Rules:
    """How results are scored: the cutoffs, ascending; how ties and identical ids count; what mteb leaves out first."""

    k_values: tuple[int, ...]
    options: Options = field(default_factory=Options)
    skip_first_result: bool = False

    @property
    def headline(self) -> int:
        """The cutoff whose coverage is watched, and which is a main score: 10, else the largest."""
        return HEADLINE if HEADLINE in self.k_values else self.k_values[-1]

    def __str__(self) -> str:
        """The options that are not the default."""
        return printed("", replace(self.options, cutoff=None))


@dataclass(frozen=True)
class Scored:
    """The scores of the queries that have gains: `scores[name]` is float64 of shape (Q,), in the order of `qids`."""

    qids: list[str]
    scores: dict[str, np.ndarray]
    without: int

    def means(self) -> dict[str, float]:
        """The means over the queries, and the counts of queries with and without gains, as plain floats."""
        means = {name: float(np.mean(values)) for name, values in self.scores.items()}
        return {**means, QUERIES: float(len(self.qids)), WITHOUT: float(self.without)}


def read_rules(
    k_values: Any, ties: Any, rules: Any, ignore_identical_ids: Any, skip_first_result: bool = False
) -> Rules:
    """The rules as given by a user.

    Raises
    ------
    RCPError
        For no cutoffs, cutoffs that are no whole numbers of at least 1, and unknown options.
    """
    if isinstance(k_values, (str, bytes)) or not isinstance(k_values, Iterable):
        raise RCPError(f"k_values must be whole numbers such as (1, 5, 10), not {k_values!r}")
    cutoffs = {whole_cutoff(k) for k in k_values}
    if None in cutoffs or not cutoffs:
        raise RCPError("k_values must be one or more whole numbers >= 1: mteb's scores are named after them")
    chosen = options(None, ties, rules, ignore_identical_ids=ignore_identical_ids)
    return Rules(tuple(sorted(k for k in cutoffs if k is not None)), chosen, skip_first_result)


def score(results: Results, table: GainTable, asked: Sequence[str], how: Rules, where: str) -> Scored:
    """Score the results of one subset's split.

    Parameters
    ----------
    table : GainTable
        Of one dataset.
    asked : sequence of str
        The queries to score. One that the results miss scores 0; one without gains is left out.
    where : str
        Task, subset and split, for messages.

    Raises
    ------
    RCPError
        If more than half of the queries have no gains, results that are of none of the queries, and what
        `rcp_irx.evaluation.ndcg` refuses.

    Warns
    -----
    RCPWarning
        If some queries have no gains; for low coverage.
    """
    qids = _with_gains(table, asked, where)
    columns = [column for column in GAINS if column in table.scored.columns]
    qids, pools = pools_from(table, qids, columns, how.options.ignore_identical_ids)
    run = {qid: results[qid] for qid in qids if qid in results}
    if not run and not any(qid in results for qid in asked):
        run = dict(results)  # of other queries: refused below, with ids of both
    rows = read_run(_as_mteb_scores(run, how), pools["gain"])
    scores: dict[str, np.ndarray] = {}
    for column in columns:
        top = ranked(rows, pools[column], how.k_values[-1], how.options.ties)
        for k in how.k_values:
            scores[f"{GAINS[column]}_at_{k}"] = SCORES["ndcg"](_first(top, k), pools[column], k)
        if column == "gain":
            for k in how.k_values:
                scores[f"{JUDGED}_at_{k}"] = SCORES["judged"](_first(top, k), pools[column], k)
            if not warn_of_no_overlap(top, rows, pools[column], where):
                warn_of_low_coverage(_first(top, how.headline), how.headline, where)
    return Scored(qids, scores, len(asked) - len(qids))


def _with_gains(table: GainTable, asked: Sequence[str], where: str) -> list[str]:
    judged = set(table.documents["qid"])
    without = [qid for qid in asked if qid not in judged]
    number = f"{len(without)} of {counted(len(asked), 'query has', 'queries have')} no gains"
    lack = f"{where}: {number}: {examples(without)}"
    if 2 * len(without) > len(asked) or not asked:
        raise RCPError(f"{lack}; there are gains for {examples(judged) or 'none'}. Are these the gains of this task?")
    if without:
        warn(f"{lack}; the RCP scores are means over the others")
    return [qid for qid in asked if qid in judged]


def _as_mteb_scores(run: dict[str, Mapping[str, float]], how: Rules) -> dict[str, Mapping[str, float]]:
    """The rankings as mteb's own scorer sees them, which may skip the first document of each."""
    if not how.skip_first_result:
        return run
    skipped: dict[str, Mapping[str, float]] = {}
    for qid, documents in run.items():
        own = {qid} if how.options.ignore_identical_ids else set()
        left = [item for item in documents.items() if item[0] not in own]
        skipped[qid] = dict(sorted(left, key=lambda item: item[1], reverse=True)[1:])
    return skipped


def _first(top: Ranked, k: int) -> Ranked:
    """The first k ranks of a longer ranking."""
    kept = top.rank < k
    return Ranked(top.query[kept], top.rank[kept], top.gain[kept], top.judged[kept])
