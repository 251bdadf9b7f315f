"""Registers gains as an ir_datasets dataset: documents and queries of another one, qrels with gains, the judged pool.

What they hold is read in `source`; which datasets a released suite becomes is for `released`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import ir_datasets
from ir_datasets.formats import BaseQrels, BaseQueries, BaseScoredDocs, GenericQuery, GenericScoredDoc
from ir_datasets.util.metadata import MetadataComponent

from rcp_irx.errors import RCPError
from rcp_irx.gains import GainTable
from rcp_irx.ir_datasets.reading import find
from rcp_irx.ir_datasets.source import GainQrel, Source
from rcp_irx.registry import resolve_gains

UNLABELLED = "in the judged pool, and without a label"


def register(
    id: str, gains: GainTable | str | os.PathLike[str], base: ir_datasets.Dataset | str | None = None
) -> ir_datasets.Dataset:
    """Make gains an ir_datasets dataset, which PyTerrier opens too: `pt.get_dataset("irds:" + id)`.

    Its documents are those of `base`, its queries those of `base` that have gains. Its qrels are named tuples
    `(query_id, doc_id, relevance, gain, theta)`, with `excluded` at the end where the gains exclude documents. Its
    scored documents are the judged pool, excluded documents among them, in pool order: the first scores 0, the next
    -1. In PyTerrier `get_qrels()` has columns `label` and `gain`, and `get_results()` is a pool to rerank; where the
    queries of `base` have several fields, `get_topics` and `get_results` take the name of one, as for every ir_datasets
    dataset. Nothing is copied: documents are read, and downloaded, when they are asked for.

    Parameters
    ----------
    id : str
        The name of the new dataset, such as "rcp-irx/my-gains".
    gains : GainTable, str or path
        The gains of one dataset; a folder, or a name given to `register_gains`.
    base : str or ir_datasets.Dataset, optional
        The dataset that was judged. Its labels are the relevance: -1 where a pool document has none, NaN gain where a
        labelled document is in no pool. Where it has none, the relevance is the table's `human_labels`, and where that
        has none either, the number of criteria whose difficulty lies at or below the document's ability. None: queries
        from the gain table, and no documents.

    Returns
    -------
    ir_datasets.Dataset
        What `ir_datasets.load(id)` gives from now on.

    Raises
    ------
    RCPError
        If the id is taken by something else (registering the same again does nothing); if the table holds several
        datasets; if `base` is unknown or lacks a query of the table, or its qrels have no relevance; if neither the
        table nor `base` has anything that a relevance could be made of.

    Warns
    -----
    RCPWarning
        If queries of `base` have no gains: they are left out. When qrels are read, if queries have gains and no label.
    """
    table = resolve_gains(os.fspath(gains)) if isinstance(gains, (str, os.PathLike)) else gains
    if not isinstance(table, GainTable):
        raise RCPError(f"gains must be a GainTable or its folder, not {type(table).__name__}")
    return add(Source(id, lambda: table, None if base is None else find(base)), check=True)


class GainQueries(BaseQueries):
    """The queries that have gains."""

    def __init__(self, source: Source):
        self._source = source
        self._base = source.base if source.base is not None and source.base.has_queries() else None

    def queries_iter(self) -> Iterator[Any]:
        return iter(self._source.queries)

    def queries_count(self) -> int:
        return len(self._source.queries)

    def queries_cls(self) -> type:
        return GenericQuery if self._base is None else self._base.queries_cls()

    def queries_namespace(self) -> str | None:
        return self._source.id if self._base is None else self._base.queries_namespace()

    def queries_lang(self) -> str | None:
        return None if self._base is None else self._base.queries_lang()


class GainQrels(BaseQrels):
    """The labels with the gains."""

    def __init__(self, source: Source):
        self._source = source

    def qrels_iter(self) -> Iterator[Any]:
        return iter(self._source.qrels)

    def qrels_count(self) -> int:
        return len(self._source.qrels)

    def qrels_cls(self) -> type:
        return type(self._source.qrels[0]) if self._source.qrels else GainQrel

    def qrels_defs(self) -> dict[int, str]:
        if self._source.has_labels:
            assert self._source.base is not None
            return {**self._source.base.qrels_defs(), -1: UNLABELLED}
        if len(self._source.table.human_labels):
            return {-1: UNLABELLED}
        return {
            number: f"{number} criteria lie at or below the document's ability"
            for number in range(len(self._source.table.criteria) + 1)
        }


class GainPool(BaseScoredDocs):
    """The judged pool."""

    def __init__(self, source: Source):
        self._source = source

    def scoreddocs_iter(self) -> Iterator[GenericScoredDoc]:
        return iter(self._source.pool)

    def scoreddocs_count(self) -> int:
        return len(self._source.pool)


class Provenance:
    """What ir_datasets shows about the dataset; it also leads back to the gains."""

    def __init__(self, source: Source):
        self._source = source

    def rcp_source(self) -> Source:
        """The gains and the base that were registered."""
        return self._source

    def documentation(self) -> dict[str, str]:
        table = self._source.table
        judge = f"judge {table.metadata.get('judge', 'unknown')!r}, fit {table.fit_id}"
        return {"pretty_name": self._source.id, "desc": f"<p>Relevance gains: {judge}.</p>"}


class Counts:
    """The metadata of the dataset's parts, counted when asked for; that of the documents is the base's."""

    def __init__(self, source: Source, parts: ir_datasets.Dataset):
        self._source, self._parts = source, parts

    def get_metadata(self, dataset_id: str, entity_type: ir_datasets.EntityType | str) -> dict[str, Any]:
        kind = ir_datasets.EntityType(entity_type).value
        if kind == "docs":
            of_base = getattr(self._source.base, "docs_metadata", None)
            return of_base() if of_base is not None else {}
        return getattr(self._parts, f"{kind}_calc_metadata")(verbose=False)


def add(source: Source, check: bool = False) -> ir_datasets.Dataset:
    """Register a source under its id, or find that it is there; `check` reads gains and queries first."""
    if source.id in ir_datasets.registry:
        known = ir_datasets.load(source.id)
        if not hasattr(known, "rcp_source"):
            raise RCPError(f"{source.id!r} is a dataset of ir_datasets already; choose another id")
        if not source.is_same_as(known.rcp_source()):
            raise RCPError(
                f"{source.id!r} is registered already, with {known.rcp_source()}; choose another id for {source}"
            )
        return known
    if check:
        source.check()
    docs = source.base.docs_handler() if source.base is not None and source.base.has_docs() else None
    parts = ir_datasets.Dataset(docs, GainQueries(source), GainQrels(source), GainPool(source), Provenance(source))
    metadata = MetadataComponent(source.id, parts, Counts(source, parts))
    ir_datasets.registry.register(source.id, ir_datasets.Dataset(metadata, parts))
    return ir_datasets.load(source.id)
