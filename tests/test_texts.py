"""Topics and documents from files: odd ids and tabs survive, fields are found, malformed lines are named."""

from __future__ import annotations

import gzip
import json

import pytest

from rcp_irx import RCPError
from rcp_irx.texts import read_documents, read_topics
from tests.conftest import data_folder

pytestmark = pytest.mark.quick


def write(path, text):
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


@pytest.mark.parametrize("name", ["topics.tsv", "topics.tsv.gz"])
def test_topics_of_a_tsv_file(tmp_path, name):
    path = write(tmp_path / name, 'NA\tone\ttab\r\n\n007\t"two\n#\t three\u2028four \n')
    assert read_topics(path).to_dict("records") == [
        {"qid": "NA", "query": "one\ttab"},
        {"qid": "007", "query": '"two'},
        {"qid": "#", "query": " three\u2028four "},
    ]


def test_topics_of_json_lines_keep_their_other_texts(tmp_path):
    rows = [{"_id": 7, "title": "a", "narrative": "b", "year": 3}, {"_id": "null", "title": "c", "narrative": "d"}]
    path = write(tmp_path / "topics.jsonl", "\n".join(map(json.dumps, rows)))
    assert read_topics(path).to_dict("list") == {"qid": ["7", "null"], "query": ["a", "c"], "narrative": ["b", "d"]}


def test_documents_join_a_title_and_only_those_wanted_are_kept(tmp_path):
    rows = [{"_id": "a", "title": "T", "text": "x"}, {"_id": "b", "title": "", "text": "y"}, {"_id": "c", "text": "z"}]
    path = write(tmp_path / "corpus.jsonl", "\n".join(map(json.dumps, rows)))
    assert read_documents(path) == {"a": "T x", "b": "y", "c": "z"}
    assert read_documents(path, {"b", "elsewhere"}) == {"b": "y"}
    with pytest.raises(RCPError, match=r"none of the 1 documents wanted .* it holds 'a', 'b', 'c'"):
        read_documents(path, {"elsewhere"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("q1\tone\nq2 two\n", "line 2: an id, a tab and a text are expected, not 'q2 two'"),
        ("\tone\n", "line 1: an id"),
        ('{"qid": "1", "query": "a"}\n{"qid": "2", "que', "line 2: no JSON"),
        ('{"qid": "1", "query": "a"}\n[1]', "line 2: a JSON object"),
        ('{"number": "1", "query": "a"}', "line 1: none of the fields qid, .* it has 'number', 'query'"),
        ('{"qid": "1", "words": "a"}', "line 1: none of the fields query"),
        ('{"qid": 1.5, "query": "a"}', "must be texts, not 1.5"),
        ('{"qid": "1", "query": null}', "must be texts"),
        ("q1\tone\nq1\ttwo\n", "line 2: topic 'q1' was there before"),
        ("", "is empty"),
    ],
)
def test_a_malformed_file_is_named_with_its_line(tmp_path, text, message):
    with pytest.raises(RCPError, match=message):
        read_topics(write(tmp_path / "odd", text))


def test_real_files():
    assert len(read_documents(data_folder("noveleval") / "corpus.tsv")) == 420
    dl19 = data_folder("dl19")
    assert len(read_topics(dl19 / "queries.tsv")) == 200
    assert read_documents(dl19 / "documents.jsonl.gz", {"1017759"})["1017759"].startswith("Man and environment")
