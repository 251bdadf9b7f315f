"""The bundled demo collection as plain lists; its registration with ir_datasets is in rcp_irx.ir_datasets.

Ten topics, and for each of them 16 to 18 short passages with a label from 0 to 3. A passage written for one topic has
no label for the others. Some answers avoid the words of their query, and some useless passages are full of them.
"""

from __future__ import annotations

import json
from importlib.resources import files

LABELS = {
    3: "answers the query directly and thoroughly",
    2: "answers a part of the query, or gives specific information that helps to answer it",
    1: "is on the topic of the query, but of no use for it",
    0: "is off topic",
}


def documents() -> list[tuple[str, str]]:
    """The passages as (docno, text), in the order of their docnos."""
    passages = [json.loads(line) for line in _lines("documents.jsonl")]
    return [(passage["doc_id"], passage["text"]) for passage in passages]


def topics() -> list[tuple[str, str]]:
    """The topics as (qid, query)."""
    rows = [line.split("\t") for line in _lines("topics.tsv")]
    return [(qid, query) for qid, query in rows]


def qrels() -> list[tuple[str, str, int]]:
    """The labels as (qid, docno, label), a label being a key of `LABELS`."""
    rows = [line.split("\t") for line in _lines("qrels.tsv")]
    return [(qid, docno, int(label)) for qid, _, docno, label in rows]


def _lines(name: str) -> list[str]:
    return files("rcp_irx.demo").joinpath(name).read_text(encoding="utf-8").splitlines()
