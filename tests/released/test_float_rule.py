"""mteb's rule for nDCG on float gains, as its proposal states it, and ours with ties="mean": the same to 1e-12."""

from __future__ import annotations

from fractions import Fraction
from itertools import groupby

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rcp_irx import GainTable
from rcp_irx.evaluation import ndcg
from tests.released.folders import frame

pytestmark = pytest.mark.filterwarnings("ignore::rcp_irx.RCPWarning")

DOCNOS = [f"d{number}" for number in range(9)]


def float_rule(run, qrels, gains, excluded, k):
    """The value of every query of the integer qrels that holds a judgment.

    An unjudged document has gain 0; documents of equal score take the mean gain of their group; the gain is linear; the
    ideal is over the query's gains. Excluded documents leave the ranking and the ideal first.
    """
    values = {}
    for qid, judged in qrels.items():
        if not judged:  # mteb's filter
            continue
        of = {docno: Fraction(gain) for docno, gain in gains.get(qid, {}).items() if docno not in excluded.get(qid, ())}
        ranked = [(score, docno) for docno, score in run.get(qid, {}).items() if docno not in excluded.get(qid, ())]
        ranked.sort(key=lambda entry: -entry[0])
        at_ranks = []
        for _, group in groupby(ranked, key=lambda entry: entry[0]):
            tied = [of.get(docno, Fraction(0)) for _, docno in group]
            at_ranks += [sum(tied) / len(tied)] * len(tied)
        ideal = discounted(sorted(of.values(), reverse=True)[:k])
        values[qid] = discounted(at_ranks[:k]) / ideal if ideal else 0.0
    return values


def discounted(gains):
    return sum(float(gain) / np.log2(rank + 2) for rank, gain in enumerate(gains))


gain_values = st.one_of(
    st.just(0.0), st.just(1.0), st.floats(0, 1, allow_subnormal=False), st.sampled_from([0.25, 0.5])
)
scores = st.one_of(st.sampled_from([0.0, 1.0, 2.0]), st.floats(-5, 5))


@st.composite
def cases(draw):
    gains = {qid: draw(st.dictionaries(st.sampled_from(DOCNOS), gain_values, min_size=1)) for qid in ("q1", "q2", "q3")}
    run = {qid: draw(st.dictionaries(st.sampled_from([*DOCNOS, "u", "v"]), scores)) for qid in ("q1", "q2")}
    out = {qid: draw(st.sets(st.sampled_from([*DOCNOS, "u"]), max_size=3)) for qid in ("q1", "q3")}
    labels = {qid: dict.fromkeys(documents, 1) for qid, documents in gains.items()}
    return run, {**labels, "q4": {}}, gains, out, draw(st.sampled_from([1, 2, 3, 10]))


@settings(max_examples=100, deadline=None)
@given(cases())
def test_ours_with_mean_ties_is_the_float_rule(case):
    run, qrels, gains, excluded, k = case
    expected = float_rule(run, qrels, gains, excluded, k)
    ours = ndcg(run, gains, k, ties="mean", excluded=excluded) if any(run.values()) else None
    if ours is not None:
        assert ours.index.tolist() == sorted(expected)
        assert np.abs(ours - [expected[qid] for qid in ours.index]).max() <= 1e-12


def test_a_tie_across_the_cutoff_takes_its_groups_mean():
    gains = {"q": {"a": 1.0, "b": 0.25, "c": 0.0}}
    run = {"q": {"a": 1.0, "b": 1.0, "u": 1.0, "c": 2.0}}
    mean = (1.0 + 0.25 + 0.0) / 3
    value = (mean / np.log2(3)) / (1.0 + 0.25 / np.log2(3))
    assert float_rule(run, {"q": {"a": 1}}, gains, {}, 2)["q"] == pytest.approx(value, abs=1e-15)
    assert ndcg(run, gains, 2, ties="mean")["q"] == pytest.approx(value, abs=1e-15)


def test_it_holds_for_a_released_table_with_excluded_and_unjudged_documents(tmp_path):
    pytest.importorskip("pyarrow")
    from tests.released.folders import OUT, POOL, newer

    table = GainTable.from_released(newer(tmp_path, top_ranked=POOL, excluded=OUT), "x")
    rows = table.documents
    gains = {qid: dict(zip(of["docno"], of["gain"], strict=True)) for qid, of in rows.groupby("qid")}
    run = {"q1": {"a": 1.0, "b": 3.0, "c": 1.0, "elsewhere": 9.0}, "q2": {"a": 1.0, "d": 1.0, "u": 1.0}}
    labels = {qid: dict(zip(of["docno"], of["label"], strict=True)) for qid, of in table.human_labels.groupby("qid")}
    expected = float_rule(run, labels, gains, {"q1": {"b", "elsewhere"}}, 10)
    flat = frame([(q, d, s) for q, docs in run.items() for d, s in docs.items()], "qid docno score")
    ours = ndcg(flat, table, ties="mean")
    assert ours.to_dict() == pytest.approx(expected, abs=1e-12)
    written = flat.rename(columns={"qid": "query_id", "docno": "doc_id"})
    qrels = table.human_labels.rename(columns={"qid": "query_id", "docno": "doc_id", "label": "relevance"})
    measured = (table.RCPnDCG(ties="mean") @ 10).iter_calc(qrels, written)
    assert {m.query_id: m.value for m in measured} == pytest.approx(expected, abs=1e-12)
