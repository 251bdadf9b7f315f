"""The gains and the base dataset behind a registered dataset: its queries, its qrels, its pool, as lists.

How ir_datasets is given them is for `registered`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any, NamedTuple

import ir_datasets
import pandas as pd
from ir_datasets.formats import GenericQuery, GenericScoredDoc

from rcp_irx import tables
from rcp_irx.errors import RCPError, counted, examples, warn
from rcp_irx.gains import GainTable
from rcp_irx.ir_datasets.reading import check_labels, labels, name_of


class GainQrel(NamedTuple):
    """A qrel with its gain (probability, NaN outside the pool) and ability `theta` (logit)."""

    query_id: str
    doc_id: str
    relevance: int
    gain: float
    theta: float


class GainQrelWithExclusion(NamedTuple):
    """The same for gains that exclude documents, which leave every ranking and every ideal."""

    query_id: str
    doc_id: str
    relevance: int
    gain: float
    theta: float
    excluded: bool


class Source:
    """The gains and the base dataset of one registered dataset, each read when it is first needed.

    Parameters
    ----------
    load : callable
        Gives the table.
    base : ir_datasets.Dataset, optional
    origin : tuple of str, optional
        Where the table is read from; sources of the same origin and version are the same without being read.
    version : str
        What changes where that place is changed.
    """

    def __init__(
        self,
        id: str,
        load: Callable[[], GainTable],
        base: ir_datasets.Dataset | None,
        origin: tuple[str, ...] | None = None,
        version: str = "",
    ):
        if not isinstance(id, str) or not id or id != "".join(id.split()):
            raise RCPError(f"the id of a dataset is text without spaces, such as 'rcp-irx/my-gains', not {id!r}")
        self.id, self.base, self.origin, self.version, self._load = id, base, origin, version, load
        self._queries: list[Any] | None = None
        self._qrels: list[Any] | None = None

    def is_same_as(self, other: Source) -> bool:
        """Whether both hold the same gains over the same base, wherever they are read from."""
        if self.base is not other.base:
            return False
        if self.origin is not None and (self.origin, self.version) == (other.origin, other.version):
            return True
        return _without_place(self.table) == _without_place(other.table)

    def __str__(self) -> str:
        where = f"from {', '.join(self.origin)}" if self.origin else repr(self.table.label)
        return f"gains {where} and {'no base' if self.base is None else 'base ' + name_of(self.base)}"

    @cached_property
    def table(self) -> GainTable:
        table = self._load()
        if len(table.datasets) > 1:
            raise RCPError(
                f"the gains hold the datasets {examples(table.datasets)}: register one at a time, gains.select(dataset)"
            )
        if not table.datasets:
            raise RCPError(f"the gains for {self.id!r} hold no query")
        return table

    def check(self) -> None:
        """Read gains and queries, and refuse what no qrels could be made of."""
        len(self.queries)
        if self.base is not None and self.has_labels:
            check_labels(self.base)
        elif self._own_labels is None and not tables.has_abilities(self.table.documents, self.table.criteria):
            raise RCPError(
                f"the gains for {self.id!r} hold neither abilities nor labels, and no relevance can be made of them:"
                " give register a base that has qrels"
            )

    @property
    def queries(self) -> list[Any]:
        """The queries that have gains, in the base's order."""
        if self._queries is None:
            self._queries = self._read_queries()
        return self._queries

    def _read_queries(self) -> list[Any]:
        known = self.table.queries
        if self.base is None or not self.base.has_queries():
            empty = known["qid"][known["query"].isna() | known["query"].eq("")]
            if len(empty):
                raise RCPError(
                    f"the gains hold no text of query {examples(empty)}: give register a base that has queries"
                )
            return [GenericQuery(qid, text) for qid, text in zip(known["qid"], known["query"], strict=True)]
        judged = set(known["qid"])
        given = list(self.base.queries_iter())
        kept = [query for query in given if query.query_id in judged]
        absent = judged - {query.query_id for query in kept}
        name = name_of(self.base)
        if not kept:
            raise RCPError(
                f"{name} and the gains share no query: its queries are {examples(query.query_id for query in given)}, "
                f"the gains' {examples(judged)}"
            )
        if absent:
            raise RCPError(
                f"{name} lacks {len(absent)} of the {len(judged)} queries that have gains: {examples(absent)}; "
                "give the base that was judged"
            )
        if len(kept) < len(given):
            left = [query.query_id for query in given if query.query_id not in judged]
            number = counted(len(left), "query", "queries")
            warn(f"{number} of {name} without gains left out of {self.id!r}: {examples(left)}")
        return kept

    @property
    def qrels(self) -> list[Any]:
        """Labels and gains, as `GainTable.qrels` joins them, with the abilities."""
        if self._qrels is None:
            self._qrels = self._read_qrels()
        return self._qrels

    def _read_qrels(self) -> list[Any]:
        labels = self._labels()
        frame = self.table.qrels(labels).drop(columns="dataset", errors="ignore")
        without = set() if labels is None else set(frame["qid"]) - set(frame["qid"][frame["label"] >= 0])
        if without:
            number = counted(len(without), "query", "queries")
            warn(
                f"{number} of {self.id!r} with gains and no label, where measures of labels give 0: {examples(without)}"
            )
        theta = self.table.documents[["qid", "docno", "theta"]]
        frame = frame.merge(theta, on=["qid", "docno"], how="left", sort=False)
        columns = ["qid", "docno", "label", "gain", "theta"]
        if frame["excluded"].any():
            return [GainQrelWithExclusion(*row) for row in _rows(frame[[*columns, "excluded"]])]
        return [GainQrel(*row) for row in _rows(frame[columns])]

    def _labels(self) -> pd.DataFrame | None:
        if not self.has_labels:
            return self._own_labels
        assert self.base is not None
        found = labels(self.base)
        known = found["qid"].isin(set(self.table.queries["qid"]))  # the queries that are left out were named before
        return found[known] if known.any() else found

    @property
    def _own_labels(self) -> pd.DataFrame | None:
        own = self.table.human_labels
        return own if len(own) else None

    @property
    def has_labels(self) -> bool:
        """Whether the base has qrels."""
        return self.base is not None and self.base.has_qrels()

    @cached_property
    def pool(self) -> list[GenericScoredDoc]:
        """The judged pool of every query, in the order of the queries and of the pool.

        Documents that have gains but no pool rank follow by their ids.
        """
        place = {query.query_id: number for number, query in enumerate(self.queries)}
        rows = self.table.documents[["qid", "docno", "pool_rank"]]
        rows = rows.assign(place=rows["qid"].map(place)).sort_values(["place", "pool_rank", "docno"], kind="stable")
        rows = rows.assign(score=0.0 - rows.groupby("qid").cumcount())
        return [GenericScoredDoc(*row) for row in _rows(rows[["qid", "docno", "score"]])]


def _without_place(table: GainTable) -> GainTable:
    """The table without the place that it was read from."""
    metadata = {name: value for name, value in table.metadata.items() if name != "released"}
    return GainTable(
        table.documents, table.queries, table.criteria, metadata, table.excluded_outside, table.human_labels
    )


def _rows(frame: pd.DataFrame) -> Iterator[tuple[Any, ...]]:
    """The rows with Python's own values."""
    return zip(*(frame[column].tolist() for column in frame.columns), strict=True)
