"""Score runs with stored gains through ir_measures: RCP-nDCG beside nDCG, coverage, measures on the gains' scale.

Run it from a clone: pip install -e . && python examples/evaluate_with_ir_measures.py
"""

import tempfile

import ir_measures
import pandas as pd
from ir_measures import nDCG

from rcp_irx import RCPERR, CountnDCG, GainTable, RCPBest, RCPGain, RCPJudged, RCPnDCG
from rcp_irx.demo import results

# Yours: a folder of gains that somebody saved, TREC runs (ir_measures.read_trec_run) and qrels.
folder = f"{tempfile.mkdtemp()}/demo.gains"
results.gains().save(folder)  # judged by a stand-in without a language model
runs, labels = results.runs(), results.qrels()

gains = GainTable.load(folder)
print(gains, "\n")

# Labels and gains side by side, as columns of one qrels frame: every measure finds what it reads.
qrels = gains.qrels(labels).rename(columns={"qid": "query_id", "docno": "doc_id", "label": "relevance"})
measures = [nDCG @ 10, RCPnDCG @ 10, CountnDCG @ 10, RCPJudged @ 10, RCPGain @ 3, RCPERR @ 10, RCPBest @ 1]
table = {}
for name, run in runs.items():
    run = run.rename(columns={"qid": "query_id", "docno": "doc_id"})
    table[name] = ir_measures.calc_aggregate(measures, qrels, run)
print(pd.DataFrame(table).T[measures].round(3).to_string(), "\n")

# Or bound to the table, with any qrels whose queries have gains; as text too. How ties and unjudged documents count
# is part of the measure's name.
plain = labels.rename(columns={"qid": "query_id", "docno": "doc_id", "label": "relevance"})
run = runs["trigrams"].rename(columns={"qid": "query_id", "docno": "doc_id"})
for measure in [
    gains.RCPnDCG @ 10,
    gains.RCPnDCG(rules="vidore") @ 10,
    gains.RCPnDCG(unjudged="upper") @ 10,
    ir_measures.parse_measure(f"RCPnDCG(gains={folder!r},ties='mean')@10"),
]:
    print(f"{ir_measures.calc_aggregate([measure], plain, run)[measure]:.4f}  {measure}".replace(folder, "demo.gains"))
