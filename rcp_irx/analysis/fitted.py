"""A gain table as the arrays that its fit is checked on, and what rankings put first; it judges nothing itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from rcp_irx.analysis import signs
from rcp_irx.analysis.calibration_checks import FloatArray, information_efficiency, pass_shares
from rcp_irx.analysis.results import Runs, read_runs
from rcp_irx.calibration import pass_probabilities
from rcp_irx.errors import RCPError
from rcp_irx.evaluation import scores
from rcp_irx.evaluation.coverage import warn_of_no_overlap
from rcp_irx.evaluation.inputs import Pools, read_pools, read_run
from rcp_irx.evaluation.options import DEFAULT_TIES
from rcp_irx.evaluation.ranking import Ranked, ideal_ranking, ranked
from rcp_irx.gains import GainTable
from rcp_irx.judging.log import JudgmentLog

IntArray = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Fitted:
    """One row per document, in the table's order; what was not released is NaN.

    Attributes
    ----------
    table : GainTable
    documents : DataFrame
    queries : DataFrame
        `dataset, qid, tau, alpha` of the queries that have documents, sorted by the first two.
    query : (D,)
        Each document's row in `queries`.
    criteria : list of str
        The criteria's ids, in rubric order.
    gamma, beta : (C,)
    """

    table: GainTable
    documents: pd.DataFrame
    queries: pd.DataFrame
    query: IntArray
    criteria: list[str]
    gamma: FloatArray
    beta: FloatArray

    @cached_property
    def theta(self) -> FloatArray:
        """Abilities (logit), (D,)."""
        return self._numbers("theta")

    @cached_property
    def bt(self) -> FloatArray:
        """Stage A scores (logit), (D,)."""
        return self._numbers("bt")

    @cached_property
    def n(self) -> FloatArray:
        """Stage B placements, (D,)."""
        return self._numbers("n")

    @cached_property
    def passes(self) -> FloatArray:
        """Pass counts, (D, C)."""
        return self.table.passes

    @cached_property
    def gain(self) -> FloatArray:
        """Gains, (D,)."""
        return self._numbers("gain")

    @cached_property
    def excluded(self) -> NDArray[np.bool_]:
        """What rankings and ideals leave out, (D,)."""
        return self.documents["excluded"].to_numpy(dtype=bool)

    @cached_property
    def p(self) -> FloatArray:
        """Pass probabilities (Eq. 2), (D, C)."""
        return pass_probabilities(self.theta, self.gamma, self.beta)

    @cached_property
    def efficiency(self) -> FloatArray:
        """The information efficiency at each ability, (D,); NaN without abilities."""
        if not self.has_abilities:
            return np.full(len(self.query), np.nan)
        return information_efficiency(self.theta, self.gamma, self.beta)

    @cached_property
    def shares(self) -> FloatArray:
        """Pass shares, (D, C); NaN without a placement."""
        return pass_shares(self.passes, self.n)

    @cached_property
    def weight(self) -> FloatArray:
        """The answers behind each pass share, (D, C)."""
        return np.repeat(self.n[:, None], len(self.criteria), axis=1)

    @cached_property
    def all_fail(self) -> NDArray[np.bool_]:
        """Documents that were placed and failed every criterion in every window, (D,) (Section I.3)."""
        return (self.n > 0) & (self.passes.sum(axis=1) == 0)

    @property
    def has_abilities(self) -> bool:
        """Whether abilities were released."""
        return not np.isnan(self.theta).any()

    @property
    def has_answers(self) -> bool:
        """Whether placements and pass counts were released, and any document is placed."""
        return not np.isnan(self.n).any() and not np.isnan(self.passes).any() and bool(self.n.any())

    @property
    def why_no_answers(self) -> str:
        """Why there are no answers to check."""
        released = not np.isnan(self.n).any() and not np.isnan(self.passes).any()
        return signs.NOT_PLACED if released else signs.NO_ANSWERS

    @property
    def has_scores(self) -> bool:
        """Whether Stage A scores were released."""
        return not np.isnan(self.bt).any()

    @property
    def by_difficulty(self) -> IntArray:
        """The criteria's positions, the easiest first."""
        return np.argsort(self.beta, kind="stable")

    def ideal(self, k: int, ability: FloatArray | None = None) -> IntArray:
        """The rows of each query's k documents of largest ability (the table's, or this one, (D,)), best first.

        Excluded documents have left. Without abilities, the order is that of the gains.
        """
        kept = np.flatnonzero(~self.excluded)
        if ability is None:
            ability = self.theta if self.has_abilities else self.gain
        order = kept[np.lexsort((-ability[kept], self.query[kept]))]
        place = np.arange(order.size) - np.searchsorted(self.query[order], self.query[order])
        return order[place < k]

    def mean_by_query(self, rows: IntArray, values: FloatArray) -> FloatArray:
        """The mean of the values of some rows per query, (J,); NaN for a query without a row."""
        size = np.bincount(self.query[rows], minlength=len(self.queries)).astype(np.float64)
        size[size == 0] = np.nan
        mean: FloatArray = np.bincount(self.query[rows], weights=values, minlength=len(self.queries)) / size
        return mean

    def _numbers(self, column: str) -> FloatArray:
        return self.documents[column].to_numpy(dtype=np.float64)


@dataclass(frozen=True, eq=False)
class Tops:
    """What runs rank first, under any gains of the same table.

    Attributes
    ----------
    pools : Pools
        Its "gains" are the documents' rows in the table; its queries are those of `Fitted.queries`.
    top : dict of str to Ranked
        Per run, the first k ranks of each query; the "gain" of a judged document is its row.
    k : int
    """

    pools: Pools
    top: dict[str, Ranked]
    k: int

    def rows(self, name: str) -> IntArray:
        """The table rows of a run's judged documents."""
        of = self.top[name]
        return of.gain[of.judged == 1].astype(np.intp)

    def ndcg(self, gain: FloatArray) -> FloatArray:
        """nDCG@k under these gains of the table's documents, (queries, runs); 0 where every gain is 0 (Eq. 1)."""
        pools = replace(self.pools, gain=_looked_up(gain, self.pools.gain))
        ideal = scores.dcg(ideal_ranking(pools, self.k), pools, self.k)
        values = []
        for of in self.top.values():
            gains = np.where(of.judged == 1, _looked_up(gain, of.gain), 0.0)
            reached = scores.dcg(replace(of, gain=gains), pools, self.k)
            values.append(np.divide(reached, ideal, out=np.zeros_like(ideal), where=ideal > 0))
        return np.column_stack(values)


def read_fitted(gains_or_log: GainTable | JudgmentLog) -> Fitted:
    """The arrays of a gain table, or of a log calibrated with its defaults.

    Raises
    ------
    RCPError
        Something else; a table without a document or a criterion; what `JudgmentLog.calibrate` refuses.
    """
    table = gains_or_log.calibrate() if isinstance(gains_or_log, JudgmentLog) else gains_or_log
    if not isinstance(table, GainTable):
        raise RCPError(f"give a GainTable or a JudgmentLog, not {type(gains_or_log).__name__}")
    documents, criteria = table.documents, table.criteria
    if not len(documents) or not len(criteria):
        raise RCPError(f"{table!r} has no document or no criterion: there is nothing to check")
    keys = list(zip(documents["dataset"].tolist(), documents["qid"].tolist(), strict=True))
    place = {key: row for row, key in enumerate(sorted(set(keys)))}
    queries = pd.DataFrame(list(place), columns=["dataset", "qid"])
    given = table.queries.set_index(["dataset", "qid"])[["tau", "alpha"]]
    found = given.loc[pd.MultiIndex.from_tuples(list(place))].to_numpy(dtype=np.float64)
    return Fitted(
        table,
        documents,
        queries.assign(tau=found[:, 0], alpha=found[:, 1]),
        np.array([place[key] for key in keys], dtype=np.intp),
        list(criteria["id"]),
        criteria["gamma"].to_numpy(dtype=np.float64),
        criteria["beta"].to_numpy(dtype=np.float64),
    )


def read_tops(runs: Runs, fitted: Fitted, k: int) -> Tops:
    """The first k ranks of each run; excluded documents have left, ties go by document id as in `evaluation.ndcg`.

    Raises
    ------
    RCPError
        Unreadable runs, named; no query in common.

    Warns
    -----
    RCPWarning
        A run whose documents are of another collection.
    """
    scored = fitted.table.scored
    row = np.full(len(scored), np.nan)
    row[: len(fitted.documents)] = np.arange(len(fitted.documents))
    pools = read_pools(scored.assign(row=row), column="row")
    top = {}
    for name, frame in read_runs(runs).items():
        try:
            rows = read_run(frame, pools)
        except RCPError as error:
            raise RCPError(f"run {name!r}: {error}") from error
        top[name] = ranked(rows, pools, k, DEFAULT_TIES)
        warn_of_no_overlap(top[name], rows, pools, name)
    return Tops(pools, top, k)


def _looked_up(gain: FloatArray, rows: FloatArray) -> FloatArray:
    """The gain in each row; NaN where there is no row."""
    there = ~np.isnan(rows)
    found = np.full(rows.shape, np.nan)
    found[there] = gain[rows[there].astype(np.intp)]
    return found
