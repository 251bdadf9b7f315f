"""Evaluates this package's measures for ir_measures: where the gains come from, and which queries are scored."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from ir_measures import Evaluator, Measure, Metric

from rcp_irx.documents import identifier
from rcp_irx.errors import RCPError, examples
from rcp_irx.evaluation.columns import column_of, flags
from rcp_irx.evaluation.dcg import ndcg_by_query
from rcp_irx.evaluation.inputs import Pools, read_pools, read_run, rows_of
from rcp_irx.evaluation.options import DEFAULT_TIES
from rcp_irx.gains import resolve_gains

if TYPE_CHECKING:
    from rcp_irx.gains import GainTable

HOW = "join them with table.qrels(labels), or bind the measure to a table: RCPnDCG(gains=table)"


class RCPEvaluator(Evaluator):
    """Scores any number of runs for the queries of the qrels, which are read once.

    Raises
    ------
    RCPError
        If there is no source of gains, or a query of the qrels has none; if two different tables are printed alike.
    """

    def __init__(self, measures: Iterable[Measure], qrels: Any):
        measures = sorted(measures, key=str)
        qrels = qrels if isinstance(qrels, Mapping) else _as_frame(qrels, "qrels")
        self._ids = _query_ids(qrels)
        super().__init__(measures, set(self._ids.values()))
        tables = _tables(measures)
        self._pools = {
            source: _pools(qrels, None if source is None else tables[source], list(self._ids))
            for source in {_source(measure) for measure in measures}
        }

    def _iter_calc(self, run: Any) -> Iterator[Metric]:
        if not isinstance(run, Mapping):
            run = _as_frame(run, "run")
        runs = {source: read_run(run, pools) for source, pools in self._pools.items()}
        for measure in self.measures:
            source = _source(measure)
            pools = self._pools[source]
            ties = measure.params.get("ties", DEFAULT_TIES)
            values = ndcg_by_query(runs[source], pools, measure.params.get("cutoff"), ties)
            for (_, qid), value in zip(pools.queries, values.tolist(), strict=True):
                yield Metric(query_id=self._ids[qid], measure=measure, value=value)


def _source(measure: Measure) -> str | None:
    """What names a measure's gains in print; None: the qrels."""
    gains = measure.params.get("gains")
    return gains if gains is None or isinstance(gains, str) else str(gains.label)


def _tables(measures: Iterable[Measure]) -> dict[str, GainTable]:
    """The table behind each printed name; two that differ cannot be told apart in any result."""
    tables: dict[str, GainTable] = {}
    for measure in measures:
        source = _source(measure)
        if source is None:
            continue
        gains = measure.params["gains"]
        table = resolve_gains(gains) if isinstance(gains, str) else gains
        known = tables.setdefault(source, table)
        if known is not table and known != table:
            raise RCPError(f"two different gain tables are both printed as gains={source!r}; give one another name")
    return tables


def _pools(qrels: Any, table: GainTable | None, qids: list[str]) -> Pools:
    """The pools of the qrels' queries, from the table or from the qrels themselves."""
    if not qids:
        return read_pools({})
    if table is None:
        pools = read_pools(_gains_of(qrels))
    else:
        documents: Any = rows_of(table)
        documents = documents[documents["qid"].isin(qids)]
        pools = read_pools(_by_id_alone(documents, "gain table", "bind one: table.select(dataset)"), _marked(qrels))
    gains = pools.per_query(~np.isnan(pools.gain))
    without = set(qids) - {qid for (_, qid), n in zip(pools.queries, gains, strict=True) if n}
    if without:
        raise RCPError(
            f"{len(without)} of the qrels' {len(qids)} queries have no gain: {examples(without)}; leave them out"
        )
    above = pools.gain > 1
    if above.any():
        raise RCPError(f"gains are probabilities in [0, 1]; larger ones for query, document {pools.name(above)}")
    return pools


def _gains_of(qrels: Any) -> Any:
    """The qrels as a source of gains; labels are never taken for gains."""
    if isinstance(qrels, pd.DataFrame):
        if "gain" not in qrels.columns:
            raise RCPError(f"the qrels have no column 'gain' (they have {list(qrels.columns)}); {HOW}")
        return qrels
    values = list(chain.from_iterable(documents.values() for documents in qrels.values()))
    if values and not any(isinstance(value, Real) and value == value and value % 1 != 0 for value in values):
        raise RCPError(f"the dict of qrels holds whole numbers only, which are labels and not gains; {HOW}")
    return qrels


def _marked(qrels: Any) -> pd.DataFrame | None:
    """The rows that the qrels' own `excluded` column takes out."""
    if not isinstance(qrels, pd.DataFrame) or "excluded" not in qrels.columns:
        return None
    return qrels[flags(qrels, "excluded", "qrels")]


def _query_ids(qrels: Any) -> dict[str, Any]:
    """The qrels' queries: id as text -> id as given, which is what other measures report."""
    if isinstance(qrels, pd.DataFrame):
        given = qrels[column_of(qrels, "qid", "qrels")].drop_duplicates().tolist()
    else:
        given = list(qrels)
    return {identifier(qid, "a query id of the qrels"): qid for qid in reversed(given)}


def _by_id_alone(frame: pd.DataFrame, what: str, remedy: str) -> pd.DataFrame:
    """The frame without its datasets, which ir_measures does not know: there a query is its id."""
    if "dataset" not in frame.columns:
        return frame
    qid = column_of(frame, "qid", what)
    ids = frame[["dataset", qid]].drop_duplicates()[qid]
    if ids.duplicated().any():
        raise RCPError(f"the {what} holds query {examples(ids[ids.duplicated()])} in several datasets; {remedy}")
    return frame.drop(columns="dataset")


def _as_frame(rows: Any, what: str) -> pd.DataFrame:
    """A frame of the rows of a frame or of an iterable of named tuples."""
    if isinstance(rows, pd.DataFrame):
        return _by_id_alone(rows, what, "evaluate one dataset at a time")
    tuples = list(rows)
    fields = {getattr(row, "_fields", None) for row in tuples}
    if not tuples:
        return pd.DataFrame({"query_id": [], "doc_id": [], "gain": [], "score": []})
    if len(fields) > 1 or None in fields:
        raise RCPError(f"the {what}: rows must be named tuples with the same fields; there are {examples(fields)}")
    columns = dict(zip(tuples[0]._fields, zip(*tuples, strict=True), strict=True))
    frame = pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})
    return _by_id_alone(frame, what, "evaluate one dataset at a time")
