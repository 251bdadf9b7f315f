"""Do gains agree with people's grades, and people with each other?

    python examples/agree_with_people.py

Offline, on the bundled collection, with a stand-in judge. Three made-up annotators stand in for people: their grades
scatter around the collection's labels. The qrels to compare with are sparse, as in many collections: one positive per
query, everything else counts as 0. So the numbers show what is measured, and nothing about a judge.
"""

import numpy as np
import pandas as pd

from rcp_irx.analysis import agreement, reliability
from rcp_irx.demo import results

gains, labels = results.gains(), results.qrels()
pool = gains.documents[["qid", "docno"]].merge(labels, how="left").fillna({"label": 0})
noise = np.random.default_rng(0)
grades = pd.concat(  # yours: a frame `qid, docno, grade`, and `annotator` where there are several
    pool.assign(annotator=name, grade=(2.5 * pool["label"] + noise.normal(0.5, 0.8, len(pool))).round().clip(0, 4))
    for name in ["Ann", "Ben", "Cas"]
)
best = pool.sort_values(["qid", "label"], ascending=[True, False]).groupby("qid").head(1)
sparse = best.assign(label=1)

print(reliability(grades), "\n")
print(agreement(gains, grades, sparse))
