"""Reading TREC files: odd ids survive, gzip, malformed lines are named."""

from __future__ import annotations

import gzip

import pandas as pd
import pytest

from rcp_irx import RCPError
from rcp_irx.trec import read_qrels, read_run, write_qrels, write_run

pytestmark = pytest.mark.quick

ODD = ["NA", "null", "#", '"quoted', "007", "nan", "1e5", "d\u00a0x", "ü", "'", "True"]


def test_odd_ids_survive_and_rows_keep_their_order(tmp_path):
    path = tmp_path / "odd.run"
    path.write_text("".join(f"{qid} Q0 {qid}x {i}\t{-i / 7!r}  tag\r\n" for i, qid in enumerate(ODD)), encoding="utf-8")
    run = read_run(path)
    assert run["qid"].tolist() == ODD
    assert run["docno"].tolist() == [f"{qid}x" for qid in ODD]
    assert run["score"].tolist() == [-i / 7 for i in range(len(ODD))]
    assert run["name"].unique().tolist() == ["tag"]


def test_qrels_are_whole_numbers_gzipped_or_not_with_blank_lines(tmp_path):
    text = "\ufeff1 0 a 2\n\n1 0 b -1\n007 0 NA 0"
    (tmp_path / "qrels").write_text(text, encoding="utf-8")
    (tmp_path / "qrels.gz").write_bytes(gzip.compress(text.encode("utf-8")))
    plain, packed = read_qrels(tmp_path / "qrels"), read_qrels(tmp_path / "qrels.gz")
    assert plain.equals(packed)
    assert plain.to_dict("list") == {"qid": ["1", "1", "007"], "docno": ["a", "b", "NA"], "label": [2, -1, 0]}


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (
            read_run,
            "1 Q0 a 1 2.5 t\n\n1 Q0 b 2 2.5\n",
            r"odd, line 3: a TREC run has 6 fields .* this line has 5: '1 Q0",
        ),
        (read_run, "1 0 a 1\n", "this line has 4"),
        (read_run, "1 Q0 a 1 x t\n", "line 1: a score must be a finite number, not 'x'"),
        (read_run, "1 Q0 a 1 1.0 t\n\n1 Q0 a 1 nan t\n", "line 3: a score must be"),
        (read_run, "1 Q0 a 1 1_0 t\n", "line 1: a score must be a finite number, not '1_0'"),
        (read_run, "", "is empty"),
        (read_run, "\n \n", "is empty"),
        (
            read_qrels,
            "1 0 b 0\n1 0 a 0.5\n",
            "line 2: labels must be whole numbers; query '1', document 'a', label 0.5",
        ),
        (read_qrels, "1 0 a 1\n\n1 0 a 2\n", "line 3: two different labels for one document"),
        (read_qrels, "1 0 a high\n", "line 1: a label must be"),
        (read_qrels, "1 Q0 a 1 2.5 t\n", "4 fields"),
    ],
)
def test_a_malformed_file_is_named_with_its_line(tmp_path, read, text, message):
    (tmp_path / "odd").write_text(text)
    with pytest.raises(RCPError, match=message):
        read(tmp_path / "odd")


def test_what_is_no_text_and_what_is_not_there(tmp_path):
    (tmp_path / "latin").write_bytes("1 Q0 \xe4 1 2.0 t\n".encode("latin-1"))
    (tmp_path / "cut.gz").write_bytes(gzip.compress(b"1 Q0 a 1 2.0 t\n" * 99)[:40])
    for name, message in [
        ("latin", "no UTF-8"),
        ("cut.gz", "cannot be read"),
        ("none", "cannot be read"),
        (".", "read"),
    ]:
        with pytest.raises(RCPError, match=message):
            read_run(tmp_path / name)


def test_what_is_written_reads_back_equal(tmp_path):
    run = pd.DataFrame({"qid": ["1", "NA", "1"], "docno": ["a", "#", "b"], "score": [0.1, -1e-300, 0.1 + 1e-16]})
    write_run(run, tmp_path / "a.run")
    back = read_run(tmp_path / "a.run")
    assert back[["qid", "docno", "rank", "score"]].values.tolist() == [
        ["1", "b", "0", 0.1 + 1e-16],
        ["1", "a", "1", 0.1],
        ["NA", "#", "0", -1e-300],
    ] or back["docno"].tolist() == ["#", "b", "a"]
    qrels = pd.DataFrame({"qid": ["1", "2"], "docno": ["a", "b"], "label": [3, -1]})
    write_qrels(qrels, tmp_path / "a.qrels", "x1000")
    assert read_qrels(tmp_path / "a.qrels").equals(qrels.astype({"qid": object, "docno": object}))
    assert (tmp_path / "a.qrels").read_text() == "1 x1000 a 3\n2 x1000 b -1\n"


def test_ids_with_white_space_and_places_that_cannot_be_written_are_refused(tmp_path):
    run = pd.DataFrame({"qid": ["1"], "docno": ["a b"], "score": [0.5]})
    with pytest.raises(RCPError, match="white space: docno 'a b'"):
        write_run(run, tmp_path / "a.run")
    with pytest.raises(RCPError, match="cannot be written"):
        write_run(run.assign(docno="a"), tmp_path / "nowhere" / "a.run")
    assert not list(tmp_path.iterdir())
