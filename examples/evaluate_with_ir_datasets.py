"""Gains as an ir_datasets dataset: evaluate and rerank with it, and make the next pool to judge.

Run it from a clone: pip install -e '.[demo]' && python examples/evaluate_with_ir_datasets.py
"""

import ir_datasets
import ir_measures
import pyterrier as pt
from ir_measures import nDCG

from rcp_irx import LexicalJudge, RCPJudge, RCPnDCG
from rcp_irx.demo import results
from rcp_irx.ir_datasets import pool_from, register

# Yours: GainTable.load("dl19.gains") over base="msmarco-passage/trec-dl-2019/judged", or a released suite at once:
# register_released("nanobeir") makes rcp-irx/nanobeir/arguana and its twelve siblings.
gains = results.gains()  # judged by a stand-in without a language model
register("rcp-irx/demo-gains", gains, base="rcp-irx/demo")

# In ir_datasets: labels and gains are fields of one qrel, and ir_measures finds what each measure reads.
dataset = ir_datasets.load("rcp-irx/demo-gains")
print(dataset)
print(next(dataset.qrels_iter()), "\n")
for name, run in results.runs().items():
    run = run.rename(columns={"qid": "query_id", "docno": "doc_id"})
    found = ir_measures.calc_aggregate([nDCG @ 10, RCPnDCG @ 10], dataset.qrels_iter(), run)
    print(f"{name}: " + ", ".join(f"{measure} {value:.3f}" for measure, value in found.items()))

# In PyTerrier: get_results() is the judged pool, to be reordered by a new reranker; qrels have columns label and gain.
dataset = pt.get_dataset("irds:rcp-irx/demo-gains")
reranker = dataset.text_loader(["text"]) >> pt.apply.doc_score(
    lambda row: results.shared_trigrams(row["query"], row["text"])
)
pool = dataset.get_results()
table = pt.Experiment(
    [pt.Transformer.from_df(pool), reranker(pool)],
    dataset.get_topics(),
    dataset.get_qrels(),
    eval_metrics=[nDCG @ 10, RCPnDCG @ 10],
    names=["the pool's order", "trigrams"],
)
print("\n" + table.round(3).to_string(index=False), "\n")

# The other way: a dataset and a run (here) or its own scored documents make the frame that the judge takes.
pool = pool_from("rcp-irx/demo", run=results.runs()["trigrams"], num_results=10)
judge = RCPJudge(LexicalJudge())  # put your LLM judge here, with a log on disk
judge(pool)
print(judge.log.calibrate())
