"""Where a measure's gains come from (a bound table, or the qrels), and which queries are scored: those of the qrels.

What frameworks hand over (frames, dicts, named tuples) becomes frames and dicts here; `inputs` makes arrays of them.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from itertools import chain
from numbers import Real
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from rcp_irx.documents import dataset_column, flags, id_column, identifier
from rcp_irx.errors import RCPError, examples
from rcp_irx.evaluation.columns import column_of, flat, floats
from rcp_irx.evaluation.inputs import Pools, read_pools
from rcp_irx.gains import GainTable
from rcp_irx.registry import resolve_gains

GainSource: TypeAlias = "GainTable | pd.DataFrame | Mapping[Any, Mapping[Any, float]] | str | os.PathLike[str]"
HOW = "join them with table.qrels(labels), or bind the measure to a table: table.RCPnDCG"


def pools_of(
    qrels: Any, table: GainTable | None, qids: list[str], column: str = "gain", ignore_identical_ids: bool = False
) -> Pools:
    """The pools of the qrels' queries, from the table or else from the qrels themselves.

    Parameters
    ----------
    qrels : DataFrame or dict
        As `as_frame` gives them.
    qids : list of str
        The queries to score.
    column : str
        The gains' column.

    Raises
    ------
    RCPError
        If there is no source of gains, or a query has none; if gains are no probabilities; if labels are no whole
        numbers.
    """
    if not qids:
        return read_pools({})
    if isinstance(qrels, pd.DataFrame):
        _refuse_fractional_labels(qrels)
    if table is None:
        source, marked = _gains_of(qrels, column), None
    else:
        by_id_alone(table.queries, "gain table", "bind one: table.select(dataset)")
        source, marked = table.scored_of(qids).drop(columns="dataset"), _marked(qrels)
        if column not in source.columns:
            raise RCPError(
                f"gains {table.label!r} have no {column!r}: the scores or pass counts that it is made of were not"
                " released; RCPnDCG reads 'gain'"
            )
    pools = read_pools(source, marked, column=column, ignore_identical_ids=ignore_identical_ids)
    _refuse_queries_without_gains(pools, qids, table)
    above = np.flatnonzero(pools.gain > 1)[:3]
    if len(above):
        found = [(*pools.pair(row), float(pools.gain[row])) for row in above.tolist()]
        raise RCPError(f"gains are probabilities, from 0 to 1; not so query, document, gain: {examples(found)}")
    return pools


def pools_from(
    gains: GainSource, qids: list[str] | None, columns: Iterable[str], ignore_identical_ids: bool = False
) -> tuple[list[str], dict[str, Pools]]:
    """The queries to score, sorted (all that have gains, unless some are given), and their pools by column of gains.

    Raises
    ------
    RCPError
        As `pools_of`; also where `gains` is neither a table, a table's name or folder, a frame nor a dict.
    """
    if isinstance(gains, (str, os.PathLike)):
        gains = resolve_gains(os.fspath(gains))
    table = gains if isinstance(gains, GainTable) else None
    if table is not None:
        rows: Any = {}
        own = by_id_alone(table.queries, "gain table", "take one: table.select(dataset)")["qid"].tolist()
    elif isinstance(gains, pd.DataFrame):
        rows = by_id_alone(gains, "frame of gains", "take one dataset at a time")
        own = list(query_ids(rows))
    elif isinstance(gains, Mapping):
        rows = {identifier(qid, "a query id of the gains"): documents for qid, documents in gains.items()}
        own = list(rows)
    else:
        raise RCPError(f"gains must be a GainTable, its name or folder, a frame or a dict, not {type(gains).__name__}")
    scored = sorted(own if qids is None else qids)
    columns = list(columns)
    if isinstance(rows, pd.DataFrame):
        rows = rows[id_column(rows, column_of(rows, "qid", "gains"), "gains").isin(scored)]
    else:
        rows = {qid: rows[qid] for qid in scored if qid in rows}
    return scored, {
        column: pools_of(rows, table, scored, column, ignore_identical_ids) for column in dict.fromkeys(columns)
    }


def query_ids(qrels: Any) -> dict[str, Any]:
    """The qrels' queries: id as text -> id as given, which is what other measures report."""
    if isinstance(qrels, pd.DataFrame):
        given = qrels[column_of(qrels, "qid", "qrels")].drop_duplicates().tolist()
    else:
        given = list(qrels)
    return {identifier(qid, "a query id of the qrels"): qid for qid in reversed(given)}


def datasets_of(frame: Any) -> set[str]:
    """The datasets that a frame names; none where it has no such column."""
    if not isinstance(frame, pd.DataFrame) or "dataset" not in frame.columns:
        return set()
    return set(dataset_column(frame)) - {""}


def of_datasets(table: GainTable, datasets: set[str], what: str) -> GainTable:
    """The table's part for the datasets that a frame names, where both name any.

    Raises
    ------
    RCPError
        If the table lacks one of them.
    """
    own = set(table.datasets) - {""}
    if not own or not datasets:
        return table
    if datasets - own:
        raise RCPError(f"the {what} are of dataset {examples(datasets)}, the gains of {examples(own)}")
    return table.select(datasets)


def by_id_alone(frame: Any, what: str, remedy: str) -> pd.DataFrame:
    """The frame without its datasets, which ir_measures and ranx do not know: there a query is its id."""
    if "dataset" not in frame.columns:
        return frame
    qid = column_of(frame, "qid", what)
    ids = frame[["dataset", qid]].drop_duplicates()[qid]
    if ids.duplicated().any():
        raise RCPError(f"the {what} holds query {examples(ids[ids.duplicated()])} in several datasets; {remedy}")
    return frame.drop(columns="dataset")


def as_frame(rows: Any, what: str) -> pd.DataFrame:
    """A frame of the rows of a frame or of an iterable of named tuples."""
    if isinstance(rows, pd.DataFrame):
        return by_id_alone(rows, what, "evaluate one dataset at a time")
    if not isinstance(rows, Iterable) or isinstance(rows, (str, bytes)):
        raise RCPError(f"the {what} must be a frame, a dict of dicts or named tuples, not {type(rows).__name__}")
    tuples = list(rows)
    fields = {getattr(row, "_fields", None) for row in tuples}
    if not tuples:
        return pd.DataFrame({"query_id": [], "doc_id": [], "gain": [], "score": []})
    if len(fields) > 1 or None in fields:
        kinds = examples({str(own or "without field names") for own in fields})
        raise RCPError(f"the {what}: rows must be named tuples with the same fields; there are {kinds}")
    columns = dict(zip(tuples[0]._fields, zip(*tuples, strict=True), strict=True))
    frame = pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})
    return by_id_alone(frame, what, "evaluate one dataset at a time")


def _gains_of(qrels: Any, column: str) -> Any:
    """The qrels as a source of gains; labels are never taken for gains."""
    if isinstance(qrels, pd.DataFrame):
        if column not in qrels.columns:
            raise RCPError(f"the qrels have no column {column!r} (they have {list(qrels.columns)}); {HOW}")
        return qrels
    if column != "gain":
        raise RCPError(f"a dict holds one number for each document, and no {column!r}, which this measure reads; {HOW}")
    return qrels


def refuse_labels(qrels: Mapping[Any, Any]) -> None:
    """Refuse a dict of qrels that can only hold labels: its numbers are whole."""
    flat(qrels, "gain", "qrels")
    values = list(chain.from_iterable(documents.values() for documents in qrels.values()))
    if values and not any(isinstance(value, Real) and value == value and value % 1 != 0 for value in values):
        raise RCPError(f"the dict of qrels holds whole numbers only, which are labels and not gains; {HOW}")


def _marked(qrels: Any) -> pd.DataFrame | None:
    """The rows that the qrels' own `excluded` column takes out."""
    if not isinstance(qrels, pd.DataFrame) or "excluded" not in qrels.columns:
        return None
    return qrels[flags(qrels, "excluded", "qrels")]


def _refuse_fractional_labels(qrels: pd.DataFrame) -> None:
    """Labels with decimals are gains in the wrong column, which other measures would cut to whole numbers."""
    for column in ("label", "relevance"):
        if column not in qrels.columns:
            continue
        labels = floats(qrels, column, "qrels")
        wrong = np.flatnonzero(~np.isnan(labels) & (labels != np.round(labels)) | np.isinf(labels))[:3]
        if len(wrong):
            names = [column_of(qrels, name, "qrels") for name in ("qid", "docno")]
            found = examples(qrels.iloc[wrong][[*names, column]].itertuples(index=False, name=None))
            raise RCPError(
                f"the qrels' column {column!r} must hold whole numbers; query, document, label: {found}; "
                "put gains into a column 'gain'"
            )


def _refuse_queries_without_gains(pools: Pools, qids: list[str], table: GainTable | None) -> None:
    """Each query needs a gain; only a dict can say that a query's pool is empty, and that is no lack."""
    rows, gains = (pools.per_query(chosen) for chosen in (np.ones(len(pools.gain), dtype=bool), ~np.isnan(pools.gain)))
    with_gains = {qid for (_, qid), n, of in zip(pools.queries, gains, rows, strict=True) if n or not of}
    without = set(qids) - with_gains
    if without:
        known = with_gains if table is None else table.queries["qid"]
        raise RCPError(
            f"{len(without)} of the qrels' {len(qids)} queries have no gain: {examples(without)}; there are gains for "
            f"{examples(known) or 'none'}; leave such queries out (table.qrels(labels) does)"
        )
