"""Evaluates this package's measures for ir_measures; each ranking is made once for all measures that read it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from ir_measures import Evaluator, Metric

from rcp_irx.errors import RCPError, examples
from rcp_irx.evaluation.coverage import (
    ComparedCoverage,
    coverage,
    warn_of_differing_coverage,
    warn_of_low_coverage,
    warn_of_no_overlap,
)
from rcp_irx.evaluation.inputs import Pools, Run, read_run
from rcp_irx.evaluation.measures import RCPMeasure
from rcp_irx.evaluation.options import DEFAULT_UNJUDGED
from rcp_irx.evaluation.ranking import Ranked, ranked
from rcp_irx.evaluation.scores import SCORES
from rcp_irx.evaluation.sources import as_frame, datasets_of, of_datasets, pools_of, query_ids, refuse_labels
from rcp_irx.registry import resolve_gains

if TYPE_CHECKING:
    from rcp_irx.gains import GainTable


class Source(NamedTuple):
    """What a measure's pools are read from: the printed name of a table (None: the qrels), and the gains' column."""

    table: str | None
    column: str
    ignore_identical_ids: bool


class Watched(NamedTuple):
    """A ranking whose coverage is watched, the measure that reads it, and what it was made from."""

    measure: RCPMeasure
    top: Ranked
    run: Run
    pools: Pools


class RCPEvaluator(Evaluator):
    """Scores any number of runs for the queries of the qrels, which are read once.

    Raises
    ------
    RCPError
        If there is no source of gains, or a query of the qrels has none; if two different tables are printed alike.
    """

    def __init__(self, measures: Iterable[RCPMeasure], qrels: Any):
        self._measures = sorted(measures, key=str)
        self._datasets = datasets_of(qrels)
        qrels = qrels if isinstance(qrels, Mapping) else as_frame(qrels, "qrels")
        if isinstance(qrels, Mapping) and any(_source(measure).table is None for measure in self._measures):
            refuse_labels(qrels)
        self._ids = query_ids(qrels)
        super().__init__(self._measures, set(self._ids.values()))
        tables = {name: of_datasets(table, self._datasets, "qrels") for name, table in _tables(self._measures).items()}
        self._pools = {
            source: pools_of(
                qrels,
                None if source.table is None else tables[source.table],
                list(self._ids),
                source.column,
                source.ignore_identical_ids,
            )
            for source in dict.fromkeys(map(_source, self._measures))
        }

    def _of_own_datasets(self, run: Any) -> Any:
        """The run's rows for the datasets of the qrels, where both name any."""
        named = datasets_of(run)
        if not named or not self._datasets:
            return run
        if named.isdisjoint(self._datasets):
            raise RCPError(f"the run is of dataset {examples(named)}, the qrels of {examples(self._datasets)}")
        return run[run["dataset"].isin(self._datasets)]

    def _iter_calc(self, run: Any) -> Iterator[Metric]:
        if not isinstance(run, Mapping):
            run = as_frame(self._of_own_datasets(run), "run")
        rows: dict[tuple[Any, ...], Run] = {}
        tops: dict[tuple[Any, ...], Ranked] = {}
        watched: list[Watched] = []
        for measure in self._measures:
            source, options = _source(measure), measure.options
            pools = self._pools[source]
            queries = tuple(pools.queries)
            if queries not in rows:
                rows[queries] = read_run(run, pools)
            key = (source, options)
            if key not in tops:
                tops[key] = ranked(rows[queries], pools, options.cutoff, options.ties, options.unjudged)
            watched.append(Watched(measure, tops[key], rows[queries], pools))
            values = SCORES[measure.SCORE](tops[key], pools, options.cutoff)
            for (_, qid), value in zip(pools.queries, values.tolist(), strict=True):
                yield Metric(query_id=self._ids[qid], measure=measure, value=value)
        _watch_coverage(watched)


def _watch_coverage(watched: list[Watched]) -> None:
    """Warn of a run's lowest coverage, and of the one that differs most from what the same measure object saw before.

    Frameworks evaluate each system on its own, with the measure as the one thing that all have in common. One warning
    of each kind is enough for a run: that of the cutoff where it is worst.
    """
    if not watched or warn_of_no_overlap(watched[0].top, watched[0].run, watched[0].pools):
        return
    shares = [
        (share, entry)
        for entry in watched
        if entry.measure.options.unjudged == DEFAULT_UNJUDGED
        and entry.measure.SCORE != "judged"
        and (share := coverage(entry.top)) is not None
    ]
    if not shares:
        return
    _, lowest = min(shares, key=lambda pair: pair[0])
    warn_of_low_coverage(lowest.top, lowest.measure.options.cutoff)
    gaps = []
    for share, entry in shares:
        pools = entry.pools
        same_pools = (tuple(pools.queries), len(pools.gain), float(np.nansum(pools.gain)))
        other = entry.measure.coverage.setdefault(same_pools, ComparedCoverage()).gap(share)
        if other is not None:
            gaps.append((abs(share - other), share, other, entry.measure.options.cutoff))
    if gaps:
        _, share, other, cutoff = max(gaps, key=lambda gap: gap[0])
        warn_of_differing_coverage({"this system": share, "one scored before": other}, cutoff)


def _source(measure: RCPMeasure) -> Source:
    gains = measure.params.get("gains")
    table = gains if gains is None or isinstance(gains, str) else str(gains.label)
    return Source(table, measure.column, measure.options.ignore_identical_ids)


def _tables(measures: Iterable[RCPMeasure]) -> dict[str, GainTable]:
    """The table behind each printed name; two that differ cannot be told apart in any result."""
    tables: dict[str, GainTable] = {}
    for measure in measures:
        name = _source(measure).table
        if name is None:
            continue
        gains = measure.params["gains"]
        table = resolve_gains(gains) if isinstance(gains, str) else gains
        known = tables.setdefault(name, table)
        if known is not table and known != table:
            raise RCPError(f"two different gain tables are both printed as gains={name!r}; give one another name")
    return tables
