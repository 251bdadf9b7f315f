"""`rcp-irx/demo`: the demo collection of rcp_irx.demo as an ir_datasets dataset.

Nothing is downloaded, and no file is written: the documents are looked up in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Any

import ir_datasets
from ir_datasets.formats import BaseDocs, GenericDoc, TrecQrels, TsvQueries
from ir_datasets.indices.base import Docstore
from ir_datasets.util.docs.lazy import LazyDocsIter
from ir_datasets.util.fileio import PackageDataFile
from ir_datasets.util.metadata import MetadataComponent, MetadataProvider

from rcp_irx import demo
from rcp_irx.errors import RCPError

DEMO = "rcp-irx/demo"


@cache
def _documents() -> dict[str, GenericDoc]:
    return {docno: GenericDoc(docno, text) for docno, text in demo.documents()}


class DemoStore(Docstore):
    """Looks the passages up in memory; ir_datasets' own stores write an index into the user's home folder."""

    def get_many_iter(self, doc_ids: Iterable[str]) -> Iterator[GenericDoc]:
        """The passages with these ids; an unknown id is left out, as in the other stores of ir_datasets."""
        return (_documents()[doc_id] for doc_id in doc_ids if doc_id in _documents())


class DemoDocs(BaseDocs):
    """The passages, in the order of their ids; the iterator can be sliced."""

    def docs_iter(self) -> LazyDocsIter:
        return LazyDocsIter(lambda: list(_documents().values()), iter(_documents().values()))

    def docs_store(self, field: str = "doc_id", options: object = None) -> DemoStore:
        """The store; `options` say how files are read, and there are none to read."""
        if field != "doc_id":
            raise RCPError(f"the documents of {DEMO} are looked up by 'doc_id', not by {field!r}")
        return DemoStore(GenericDoc)

    def docs_count(self) -> int:
        return len(_documents())

    def docs_cls(self) -> type[GenericDoc]:
        return GenericDoc

    def docs_namespace(self) -> str:
        return DEMO

    def docs_lang(self) -> str:
        return "en"


class DemoDocumentation:
    """What ir_datasets shows about the collection."""

    def documentation(self) -> dict[str, str]:
        return {"pretty_name": "rcp-irx demo", "desc": f"<p>{demo.__doc__}</p>"}


def register_demo() -> None:
    """Register the demo collection, unless that was done before."""
    if DEMO not in ir_datasets.registry:
        ir_datasets.registry.register(DEMO, _dataset())


def _dataset() -> ir_datasets.Dataset:
    queries = TsvQueries(_bundled("topics.tsv"), namespace=DEMO, lang="en")
    parts = (DemoDocs(), queries, TrecQrels(_bundled("qrels.tsv"), demo.LABELS), DemoDocumentation())
    metadata = MetadataComponent(DEMO, ir_datasets.Dataset(*parts), MetadataProvider(_metadata))
    return ir_datasets.Dataset(metadata, *parts)


def _bundled(name: str) -> PackageDataFile:
    return PackageDataFile(name, package="rcp_irx.demo")


def _metadata() -> dict[str, Any]:
    dataset = ir_datasets.load(DEMO)
    kinds = ("docs", "queries", "qrels")
    return {DEMO: {kind: getattr(dataset, f"{kind}_calc_metadata")(verbose=False) for kind in kinds}}
