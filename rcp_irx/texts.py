"""Reads topics and documents from files: TSV (an id, a tab, a text) and JSON lines, gzipped or not."""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterator
from typing import Any

import pandas as pd

from rcp_irx.errors import RCPError, examples
from rcp_irx.files import lines, text_of

IDS = {"topics": ("qid", "query_id", "_id", "id"), "documents": ("docno", "doc_id", "docid", "_id", "id")}
TEXTS = {"topics": ("query", "text", "title"), "documents": ("text", "doc", "contents", "body")}


def read_topics(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Topics: `qid, query` and, from JSON lines, what other texts they have (a description, a narrative).

    In JSON lines the id is the first there is of `qid, query_id, _id, id`, the query of `query, text, title`.

    Raises
    ------
    RCPError
        An unreadable or empty file; a line that has no id or no text; two texts for one id.
    """
    rows: dict[str, dict[str, str]] = {}
    for number, qid, query, others in _entries(path, "topics"):
        row = {"qid": qid, "query": query, **{name: text for name, text in others.items() if isinstance(text, str)}}
        if rows.setdefault(qid, row) != row:
            raise RCPError(f"{os.fspath(path)}, line {number}: topic {qid!r} was there before, with another text")
    return pd.DataFrame(list(rows.values()))


def read_documents(path: str | os.PathLike[str], wanted: Collection[str] | None = None) -> dict[str, str]:
    """The texts of documents by their ids: of all, or of those wanted.

    In JSON lines the id is the first there is of `docno, doc_id, docid, _id, id`, the text of `text, doc, contents,
    body`; a `title` that is not empty goes before it, with a blank between.

    Raises
    ------
    RCPError
        As `read_topics`; also if none of the wanted documents is there.
    """
    found: dict[str, str] = {}
    seen: list[str] = []
    for number, docno, text, others in _entries(path, "documents"):
        seen = [*seen, docno] if len(seen) < 3 else seen
        if wanted is not None and docno not in wanted:
            continue
        title = others.get("title")
        text = f"{title} {text}" if isinstance(title, str) and title.strip() else text
        if found.setdefault(docno, text) != text:
            raise RCPError(f"{os.fspath(path)}, line {number}: document {docno!r} was there before, with another text")
    if wanted and not found:
        raise RCPError(
            f"none of the {len(wanted)} documents wanted is in {os.fspath(path)}: it holds {examples(seen)} ...,"
            f" wanted are {examples(wanted)}"
        )
    return found


def _entries(path: str | os.PathLike[str], what: str) -> Iterator[tuple[int, str, str, dict[str, Any]]]:
    """Line number, id, text and other fields of each entry."""
    as_json: bool | None = None
    for number, line in lines(path, f"file of {what}"):
        text = text_of(line, path, number)
        if as_json is None:
            as_json = text.lstrip().startswith("{")
        where = f"{os.fspath(path)}, line {number}"
        if as_json:
            yield (number, *_of_json(text, where, what))
        else:
            name, tab, rest = text.partition("\t")
            if not tab or not name or (what == "topics" and not rest.strip()):
                raise RCPError(f"{where}: an id, a tab and a text are expected, not {text[:100]!r}")
            yield number, name, rest, {}


def _of_json(text: str, where: str, what: str) -> tuple[str, str, dict[str, Any]]:
    try:
        row = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise RCPError(f"{where}: no JSON ({error})") from error
    if not isinstance(row, dict):
        raise RCPError(f"{where}: a JSON object is expected, not {text[:100]!r}")
    names = [_first(row, kinds[what], where) for kinds in (IDS, TEXTS)]
    identity, content = (row.pop(name) for name in names)
    if isinstance(identity, int) and not isinstance(identity, bool):
        identity = str(identity)
    if not isinstance(identity, str) or not identity or not isinstance(content, str):
        raise RCPError(f"{where}: {names[0]!r} and {names[1]!r} must be texts, not {identity!r} and {content!r:.50}")
    if what == "topics" and not content.strip():
        raise RCPError(f"{where}: topic {identity!r} has no text")
    try:
        f"{identity}{content}{row.get('title', '')}".encode()
    except UnicodeEncodeError as error:
        raise RCPError(f"{where}: no Unicode text: it holds half of a character (a lone surrogate)") from error
    return identity, content, row


def _first(row: dict[str, Any], names: tuple[str, ...], where: str) -> str:
    for name in names:
        if name in row:
            return name
    raise RCPError(f"{where}: none of the fields {', '.join(names)}; it has {', '.join(map(repr, row))}")
