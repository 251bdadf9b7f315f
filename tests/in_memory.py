"""ir_datasets datasets made of lists, for tests: nothing is read, and nothing is stored."""

from __future__ import annotations

from functools import cache

import pytest

from rcp_irx.demo import results

ir_datasets = pytest.importorskip("ir_datasets", reason="ir_datasets is not installed")

from ir_datasets.formats import BaseDocs, BaseQrels, BaseQueries, BaseScoredDocs, GenericDoc  # noqa: E402
from ir_datasets.indices.base import Docstore  # noqa: E402

demo_gains = cache(results.gains)
"""The demo's gains, judged once a run of the tests."""


class Store(Docstore):
    def __init__(self, documents):
        super().__init__(type(documents[0]))
        self._documents = {document.doc_id: document for document in documents}

    def get_many_iter(self, doc_ids):
        return (self._documents[doc_id] for doc_id in sorted(doc_ids, reverse=True) if doc_id in self._documents)


class Docs(BaseDocs):
    def __init__(self, documents):
        self._documents = documents

    def docs_iter(self):
        return iter(self._documents)

    def docs_store(self, field="doc_id"):
        return Store(self._documents)

    def docs_count(self):
        return len(self._documents)

    def docs_cls(self):
        return type(self._documents[0]) if self._documents else GenericDoc


class Queries(BaseQueries):
    def __init__(self, queries):
        self._queries = queries

    def queries_iter(self):
        return iter(self._queries)

    def queries_cls(self):
        return type(self._queries[0])


class Qrels(BaseQrels):
    def __init__(self, qrels):
        self._qrels = qrels

    def qrels_iter(self):
        return iter(self._qrels)

    def qrels_cls(self):
        return type(self._qrels[0])

    def qrels_defs(self):
        return {1: "relevant"}


class Scored(BaseScoredDocs):
    def __init__(self, scored):
        self._scored = scored

    def scoreddocs_iter(self):
        return iter(self._scored)


def dataset(documents=None, queries=None, qrels=None, scored=None):
    """A dataset of the parts that are given."""
    return ir_datasets.Dataset(
        None if documents is None else Docs(documents),
        None if queries is None else Queries(queries),
        None if qrels is None else Qrels(qrels),
        None if scored is None else Scored(scored),
    )
