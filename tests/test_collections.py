"""The whole path on real public collections; skipped where they are not at hand (RCP_IRX_DATA)."""

from __future__ import annotations

import json
import re

import pandas as pd
import pytest

pt = pytest.importorskip("pyterrier", reason="PyTerrier is not installed")

from ir_measures import AP, nDCG  # noqa: E402

from rcp_irx import FULL, LexicalJudge, RCPJudge, RCPnDCG, RRFPool  # noqa: E402
from rcp_irx.evaluation import ndcg  # noqa: E402
from tests.conftest import data_folder  # noqa: E402


def test_noveleval_pools_are_judged_and_calibrated(tmp_path):
    folder = data_folder("noveleval")
    pools = json.loads((folder / "data.json").read_text())
    pool = pd.DataFrame(
        [
            {"qid": hit["qid"], "query": entry["query"], "docno": hit["docid"], "text": hit["content"], "rank": rank}
            for entry in pools
            for rank, hit in enumerate(entry["hits"])
        ]
    )
    names = ["qid", "iteration", "docno", "label"]
    qrels = pd.read_csv(folder / "qrels.txt", sep=" ", names=names, dtype={"qid": str, "docno": str})
    judge = RCPJudge(LexicalJudge(), tmp_path / "noveleval.judgments")
    judged = judge(pool)
    counts = FULL.counts(20)
    assert judge.log.usage()["calls"].sum() == 21 * (counts.tournament + counts.rubric)
    gains = judge.log.calibrate()
    assert len(gains) == 420
    assert gains.documents["gain"].between(0, 1, inclusive="neither").all()
    table = pt.Experiment(
        [pool.assign(score=-pool["rank"].astype(float)), judged],
        gains.queries[["qid", "query"]],
        gains.qrels(qrels),
        eval_metrics=[nDCG @ 10, AP, RCPnDCG @ 10],
        names=["search engine", "lexical judge"],
    ).set_index("name")
    print("\n" + table.round(4).to_string())
    assert table.loc["lexical judge", "RCPnDCG@10"] == pytest.approx(1.0, abs=1e-12)
    assert table.loc["search engine", "RCPnDCG@10"] < 1.0


def vaswani(folder):
    """Documents, topics and labels of the collection's TREC files."""
    entries = re.findall(
        r"<DOC>\s*<DOCNO>(.*?)</DOCNO>(.*?)</DOC>", (folder / "corpus" / "doc-text.trec").read_text(), re.S
    )
    topics = re.findall(r"<num>(.*?)</num><title>\s*(.*?)\s*</title>", (folder / "query-text.trec").read_text(), re.S)
    qrels = pd.read_csv(folder / "qrels", sep=r"\s+", names=["qid", "iteration", "docno", "label"], dtype=str)
    return (
        [{"docno": docno.strip(), "text": " ".join(text.split())} for docno, text in entries],
        pd.DataFrame([(qid.strip(), " ".join(text.lower().split())) for qid, text in topics], columns=["qid", "query"]),
        qrels.astype({"label": int})[["qid", "docno", "label"]],
    )


@pytest.mark.filterwarnings("ignore:73 label queries have no gains")
def test_vaswani_through_an_index_a_pool_the_judge_and_an_experiment(tmp_path):
    pisa = pytest.importorskip("pyterrier_pisa", reason="pyterrier-pisa is not installed")
    corpus, topics, qrels = vaswani(data_folder("vaswani"))
    assert (len(corpus), len(topics), len(qrels)) == (11429, 93, 2083)
    topics = topics.head(20)
    texts = pd.DataFrame(corpus)
    index = pisa.PisaIndex(str(tmp_path / "index"), text_field="text")
    index.index(corpus)
    bm25, dph = index.bm25(num_results=100), index.dph(num_results=100)
    pool = RRFPool([bm25, dph], num_results=50, qrels=qrels, add="positives") >> pt.apply.generic(
        lambda frame: frame.merge(texts, on="docno")
    )
    judge = RCPJudge(LexicalJudge(), tmp_path / "vaswani.judgments")
    judged = (pool >> judge)(topics)
    assert judged.groupby("qid").size().eq(50).all()
    gains = judge.log.calibrate()
    assert set(gains.documents["origin"]) == {"fused", "positive"}
    table = pt.Experiment(
        [bm25, dph],
        gains.topics(topics),
        gains.qrels(qrels),
        eval_metrics=[nDCG @ 10, AP, RCPnDCG @ 10],
        names=["BM25", "DPH"],
    ).set_index("name")
    print("\n" + table.round(4).to_string())
    assert table.loc["BM25", "RCPnDCG@10"] == pytest.approx(ndcg(bm25(topics), gains).mean(), abs=1e-12)
    plain = pt.Experiment([bm25, dph], topics, qrels, eval_metrics=[nDCG @ 10, AP], names=["BM25", "DPH"])
    for measure in ("nDCG@10", "AP"):
        assert table[measure].tolist() == pytest.approx(plain[measure].tolist(), abs=1e-12)
