"""Compare runs with ranx, RCP-nDCG among its metrics: a report with significance tests.

Run it from a clone: pip install -e '.[ranx]' && python examples/compare_with_ranx.py
"""

import ranx

from rcp_irx.demo import results
from rcp_irx.ranx import compare, evaluate, to_qrels


def nested(frame, value):
    """A frame as ranx takes it: query -> document -> number."""
    return {qid: dict(zip(rows["docno"], rows[value], strict=True)) for qid, rows in frame.groupby("qid")}


# Yours: GainTable.load("dl19.gains"), ranx.Run.from_file(...) and ranx.Qrels.from_file(...).
gains = results.gains()  # judged by a stand-in without a language model
qrels = ranx.Qrels(nested(results.qrels(), "label"))
runs = [ranx.Run(nested(frame, "score"), name=name) for name, frame in results.runs().items()]

# ranx computes its own metrics on the labels, rcp_irx the others on the gains.
found = evaluate(gains, runs[0], ["ndcg@10", "rcp_ndcg@10", "rcp_judged@10"], qrels=qrels)
print({metric: round(float(value), 4) for metric, value in found.items()})
print(compare(gains, runs, ["ndcg@10", "rcp_ndcg@10", "rcp_gain@10"], qrels=qrels, max_p=0.05), "\n")
print("per query:", {qid: round(float(score), 3) for qid, score in list(runs[0].scores["rcp_ndcg@10"].items())[:3]})

# Gains as float qrels, for ranx's own metrics at relevance level 0; at its default level 1 they would all be dropped.
found = ranx.evaluate(to_qrels(gains), runs[0], ["ndcg@10-l0", "ndcg@10"])
print("ranx alone:", {metric: round(float(value), 4) for metric, value in found.items()})
