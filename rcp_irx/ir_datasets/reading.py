"""Reads datasets of ir_datasets: their queries, texts, labels and scored documents, as this package has them."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import ir_datasets
import pandas as pd

from rcp_irx.errors import RCPError, examples

RESULT = ["qid", "query", "docno", "text", "score", "rank"]
TAKEN = [*RESULT, "dataset", "pool_rank"]
"""Columns that mean something else in a pool than a field of a query would."""


def find(dataset: Any) -> ir_datasets.Dataset:
    """The ir_datasets dataset of an id (also "irds:..."), of a PyTerrier dataset of it, or the dataset itself.

    Raises
    ------
    RCPError
        If there is none.
    """
    if isinstance(dataset, str):
        name = dataset.removeprefix("irds:")
        try:
            return ir_datasets.load(name)
        except KeyError:
            near = difflib.get_close_matches(name, list(ir_datasets.registry))
            hint = f"; near it: {examples(near)}" if near else ""
            raise RCPError(f"ir_datasets has no dataset {name!r}{hint}") from None
    found = dataset.irds_ref() if hasattr(dataset, "irds_ref") else dataset
    if not isinstance(found, ir_datasets.Dataset):
        raise RCPError(f"a dataset is an id of ir_datasets or one of its datasets, not {type(dataset).__name__}")
    return found


def name_of(dataset: ir_datasets.Dataset) -> str:
    """The dataset's id, for messages."""
    return repr(dataset.dataset_id()) if hasattr(dataset, "dataset_id") else "the given dataset"


def topics(source: ir_datasets.Dataset, query_field: str | None = None) -> pd.DataFrame:
    """The queries as `qid, query` and their other text fields; one whose name is `TAKEN` is called `query_<name>`.

    Raises
    ------
    RCPError
        If there are none, or they have no such field.
    """
    _has(source, "queries")
    kind = source.queries_cls()
    text_of = _text_of(kind, query_field, "queries", source)
    queries = list(source.queries_iter())
    texts = [text_of(query) for query in queries]
    columns = {"qid": [query.query_id for query in queries], "query": texts}
    for name in kind._fields:
        values = [getattr(query, name) for query in queries]
        is_text = all(value is None or isinstance(value, str) for value in values)
        if is_text and name not in ("query_id", query_field) and values != texts:
            columns[f"query_{name}" if name in TAKEN else name] = values
    return pd.DataFrame({name: pd.Series(values, dtype=object) for name, values in columns.items()})


def texts(
    source: ir_datasets.Dataset, docnos: Iterable[str], fields: str | Sequence[str] | None = None
) -> dict[str, str]:
    """The texts of those of the documents that the corpus holds, by id; `fields` as in `pool_from`.

    Raises
    ------
    RCPError
        If there is no corpus, or it has no such field.
    """
    _has(source, "docs")
    text_of = _text_of(source.docs_cls(), fields, "documents", source)
    found = source.docs_store().get_many_iter(dict.fromkeys(docnos))
    return {document.doc_id: text_of(document) for document in found}


def check_labels(source: ir_datasets.Dataset) -> None:
    """Refuse a dataset without qrels, or with qrels that are no relevance."""
    _has(source, "qrels")
    fields = source.qrels_cls()._fields
    if "relevance" not in fields:
        raise RCPError(f"the qrels of {name_of(source)} have no 'relevance' (they have {list(fields)})")


def labels(source: ir_datasets.Dataset) -> pd.DataFrame:
    """People's labels: `qid, docno, label`.

    Raises
    ------
    RCPError
        If there are none, or they have no `relevance`.
    """
    check_labels(source)
    rows = [(qrel.query_id, qrel.doc_id, qrel.relevance) for qrel in source.qrels_iter()]
    return pd.DataFrame(rows, columns=["qid", "docno", "label"])


def scored_documents(source: ir_datasets.Dataset) -> pd.DataFrame:
    """The dataset's own ranking: `qid, docno, score`.

    Raises
    ------
    RCPError
        If it has none.
    """
    _has(source, "scoreddocs")
    rows = [(row.query_id, row.doc_id, row.score) for row in source.scoreddocs_iter()]
    return pd.DataFrame(rows, columns=["qid", "docno", "score"])


def _has(source: ir_datasets.Dataset, what: str) -> None:
    if not getattr(source, f"has_{what}")():
        name = {"docs": "documents", "scoreddocs": "scored documents"}.get(what, what)
        raise RCPError(f"the ir_datasets dataset {name_of(source)} has no {name}")


def _text_of(
    kind: type, fields: str | Sequence[str] | None, what: str, source: ir_datasets.Dataset
) -> Callable[[Any], str]:
    """A function that gives the text of a query or a document of this kind."""
    held = [name for name in getattr(kind, "_fields", ()) if name not in ("query_id", "doc_id")]
    if fields is None and hasattr(kind, "default_text"):
        return lambda row: _without_none(row).default_text().strip()
    chosen = ["text"] if fields is None else [fields] if isinstance(fields, str) else list(fields)
    absent = [name for name in chosen if name not in held]
    if absent or not chosen:
        raise RCPError(f"the {what} of {name_of(source)} have no field {examples(absent) or 'named'}; they have {held}")

    def joined(row: Any) -> str:
        values = [getattr(row, name) for name in chosen]
        for name, value in zip(chosen, values, strict=True):
            if value is not None and not isinstance(value, str):
                raise RCPError(f"field {name!r} of {row[0]!r} holds {type(value).__name__}, not text")
        return " ".join(value for value in values if value)

    return joined


def _without_none(row: Any) -> Any:
    """The row with empty text where it holds None, which `default_text` would spell out."""
    missing = [name for name, value in zip(row._fields, row, strict=True) if value is None]
    return row._replace(**dict.fromkeys(missing, "")) if missing else row
