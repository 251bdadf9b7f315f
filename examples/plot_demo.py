"""Every plot, on the demo collection: the calibration, its agreement with people, what it does to a leaderboard.

Run it from a clone: pip install -e '.[plot]' && python examples/plot_demo.py [folder]

The pictures go into the folder, else into a temporary one. The gains are a stand-in's that has no language model, the
collection has ten topics, and its labels play the people's grades: the pictures show what there is to see, and nothing
about rankers.
"""

import sys
import tempfile
from itertools import combinations
from pathlib import Path

import matplotlib
import pandas as pd

from rcp_irx.analysis import compare, plots
from rcp_irx.demo import results
from rcp_irx.pooling import fuse

matplotlib.use("Agg")  # pictures in files, also where there is no screen

folder = Path(sys.argv[1] if len(sys.argv) > 1 else tempfile.mkdtemp(prefix="plots-"))
folder.mkdir(parents=True, exist_ok=True)

# Yours: GainTable.load, frames or paths of TREC runs, qrels, and the grades of people (qid, docno, grade).
gains, runs, labels = results.gains(), results.runs(), results.qrels()
grades = labels.rename(columns={"label": "grade"})


def fused(one, other):
    """Two runs fused by reciprocal ranks: more systems to compare."""
    rows = []
    for qid in one["qid"].unique():
        rankings = [run["docno"][run["qid"] == qid].tolist() for run in (one, other)]
        scores = fuse([{docno: rank for rank, docno in enumerate(ranking, start=1)} for ranking in rankings], 60)
        rows += [(qid, docno, score) for docno, score in scores.items()]
    return pd.DataFrame(rows, columns=["qid", "docno", "score"])


runs |= {f"{one} + {other}": fused(runs[one], runs[other]) for one, other in combinations(list(runs), 2)}
compared = compare(runs, gains, labels)
pictures = {
    "criterion_curves": plots.criterion_curves(gains),
    "raw_and_calibrated": plots.raw_and_calibrated(gains),
    "calibration": plots.calibration(gains, grades, bins=10),
    "gain_by_grade": plots.gain_by_grade(gains, grades),
    "leaderboard": plots.leaderboard(compared),
    "margins": plots.margins(runs, gains, grades, k=3),
}
for name, ax in pictures.items():
    ax.figure.savefig(folder / f"{name}.png", dpi=150)
    print(folder / f"{name}.png")
