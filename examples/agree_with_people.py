"""Do gains agree with people's grades, and people with each other?

    python examples/agree_with_people.py

Offline, on the bundled collection: three made-up annotators stand in for people, and a stand-in judge made the gains.
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
print(reliability(grades), "\n")
print(agreement(gains, grades, labels))
