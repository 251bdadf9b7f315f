"""Label a candidate pool and evaluate with RCP-nDCG: the whole path, to copy from.

Run it from a clone: pip install -e '.[demo]' && python examples/quickstart.py
"""

import tempfile

import pyterrier as pt
from ir_measures import AP, nDCG
from pyterrier_pisa import PisaIndex

import rcp_irx.ir_datasets  # noqa: F401  (registers the dataset rcp-irx/demo)
from rcp_irx import LexicalJudge, RCPJudge, RCPnDCG, RRFPool

folder = tempfile.mkdtemp()  # yours: a place that stays, so that no answer is asked for twice
dataset = pt.get_dataset("irds:rcp-irx/demo")
topics, qrels = dataset.get_topics(), dataset.get_qrels()

# Retrieve: any PyTerrier pipelines.
index = PisaIndex(f"{folder}/index", text_field="text")
index.index(dataset.get_corpus_iter())
bm25, dph, qld = index.bm25(num_results=50), index.dph(num_results=50), index.qld(num_results=50)

# Judge: the fused pool of the retrievers; the log can be stopped and resumed at any time.
pool = RRFPool([bm25, dph, qld], num_results=30) >> dataset.text_loader(["text"])
judge = RCPJudge(LexicalJudge(), log=f"{folder}/demo.judgments", verbose=True)  # a stand-in; put your LLM judge here
(pool >> judge)(topics)

# Calibrate: one scale for all queries.
gains = judge.log.calibrate()
gains.save(f"{folder}/demo.gains")
print(gains)
print(gains.criteria[["id", "name", "gamma", "beta"]].round(2).to_string(index=False))

# Evaluate: labels and gains side by side.
table = pt.Experiment(
    [bm25, dph, qld],
    topics,
    gains.qrels(qrels),
    eval_metrics=[nDCG @ 10, AP, RCPnDCG @ 10],
    names=["BM25", "DPH", "QLD"],
)
print(table.round(4).to_string(index=False))
