"""Every system's scores: the same as the measures give, on the same queries; bad runs are named."""

from __future__ import annotations

import gzip

import ir_measures
import numpy as np
import pandas as pd
import pytest
from ir_measures import nDCG

from rcp_irx import CountnDCG, GainTable, RCPError, RCPnDCG, RCPWarning
from rcp_irx.analysis.results import read_runs, score_runs
from rcp_irx.demo import results as demo

pytestmark = pytest.mark.quick


def by_measure(run, qrels, measure):
    frame = run.rename(columns={"qid": "query_id", "docno": "doc_id"})
    qrels = qrels.rename(columns={"qid": "query_id", "docno": "doc_id", "label": "relevance"})
    return {m.query_id: m.value for m in ir_measures.iter_calc([measure], qrels, frame)}


def test_scores_are_those_of_the_measures():
    gains, runs, labels = demo.gains(), demo.runs(), demo.qrels()
    found = score_runs(runs, gains, labels, k=5)
    joined = gains.qrels(labels)
    assert found.systems == list(runs)
    for name, run in runs.items():
        for measure, of in [("RCPnDCG", RCPnDCG @ 5), ("CountnDCG", CountnDCG @ 5)]:
            expected = by_measure(run, joined, of)
            assert found.scores[measure][name].droplevel("dataset").to_dict() == pytest.approx(expected, abs=1e-12)
        expected = by_measure(run, labels, nDCG @ 5)
        assert found.scores["nDCG"][name].droplevel("dataset").to_dict() == pytest.approx(expected, abs=1e-12)
    assert ((found.coverage > 0) & (found.coverage <= 1)).all(axis=None)


def test_labels_below_zero_count_nothing_and_queries_with_one_source_are_left_out_with_a_warning():
    gains, runs, labels = demo.gains(), demo.runs(), demo.qrels()
    with_more = pd.concat([labels, pd.DataFrame({"qid": ["new"], "docno": ["x"], "label": [1]})])
    fewer = with_more[with_more.qid != "1"]
    with pytest.warns(RCPWarning) as caught:
        found = score_runs(runs, gains, fewer.assign(label=fewer.label.where(fewer.label > 0, -1)))
    said = " ".join(str(w.message) for w in caught)
    assert "1 query has gains and no label" in said
    assert "1 query has labels and no gain" in said
    assert "1" not in found.queries.get_level_values("qid")
    plain = score_runs(runs, gains, labels)
    assert found.scores["nDCG"].equals(plain.scores["nDCG"].loc[found.queries])


def test_runs_may_be_files(tmp_path):
    gains, runs = demo.gains(), demo.runs()
    paths = {}
    for name, run in runs.items():
        text = "".join(f"{row.qid} Q0 {row.docno} 0 {row.score!r} t\n" for row in run.itertuples())
        (tmp_path / f"{name}.gz").write_bytes(gzip.compress(text.encode()))
        paths[name] = tmp_path / f"{name}.gz"
    assert score_runs(paths, gains).scores["RCPnDCG"].equals(score_runs(runs, gains).scores["RCPnDCG"])


def test_bad_runs_are_named():
    gains, runs = demo.gains(), demo.runs()
    one = next(iter(runs.values()))
    with pytest.raises(RCPError, match="mapping of a system's name"):
        read_runs({})
    with pytest.raises(RCPError, match="run 'x' must be a frame or the path"):
        read_runs({"x": 3})
    with pytest.raises(RCPError, match=r"run 'x'.*share no query"):
        score_runs({"x": one.assign(qid="other")}, gains)
    with pytest.raises(RCPError, match="share no query"):
        score_runs(runs, gains, demo.qrels().assign(qid="other"))
    with pytest.warns(RCPWarning, match=r"no ranked document.*same collection"):
        score_runs({"x": one.assign(docno="z" + one.docno)}, gains)


def test_ties_in_pool_order_serve_labels_too_and_released_tables_have_no_count():
    gains, runs, labels = demo.gains(), demo.runs(), demo.qrels()
    tied = {"tied": next(iter(runs.values())).assign(score=1.0)}
    found = score_runs(tied, gains, labels, ties="pool").scores["nDCG"]["tied"]
    assert not found.equals(score_runs(tied, gains, labels, ties="docno").scores["nDCG"]["tied"])
    bare = GainTable(gains.documents.assign(bt=np.nan, n=np.nan, **dict.fromkeys(gains.criteria["id"], np.nan)),
                     gains.queries, gains.criteria, gains.metadata)  # fmt: skip
    assert set(score_runs(runs, bare, labels).scores) == {"RCPnDCG", "nDCG"}
