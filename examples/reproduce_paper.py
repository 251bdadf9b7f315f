"""The paper's leaderboard (Table 11) and share of separated pairs (Figure 6a) from released gains and stored runs.

Run it from a clone: pip install -e '.[hub]' && python examples/reproduce_paper.py [folder] [--rules nanobeir]

The folder is a released dataset in either layout (`GainTable.from_released` reads it), with the systems' rankings of
the judged pools beside it, as TREC runs, gzipped or not:

    folder/runs/<subset>/<system>.txt

Subsets are called there as in the release; every system needs a run in every subset. Without a folder, a small one in
that layout is written from the demo collection first: toy rankers and a stand-in judge, which show the path and nothing
else.
"""

import argparse
import tempfile
from itertools import combinations
from pathlib import Path

import numpy as np
import pandas as pd

from rcp_irx import GainTable, RCPError
from rcp_irx.analysis.significance import differences_of, paired_t, resolution
from rcp_irx.demo import results
from rcp_irx.evaluation import ndcg
from rcp_irx.pooling import fuse
from rcp_irx.trec import read_run, write_run

METRICS = ["nDCG", "RCP-nDCG"]


def stored_runs(folder):
    """The paths of the runs: subset -> system -> path."""
    runs = {}
    for path in sorted(Path(folder).glob("runs/*/*")):
        runs.setdefault(path.parent.name, {})[path.name.removesuffix(".gz").removesuffix(".txt")] = path
    if not runs:
        raise RCPError(f"{folder} has no runs: runs/<subset>/<system>.txt was looked for")
    systems = set().union(*runs.values())
    for subset, found in runs.items():
        if set(found) != systems:
            raise RCPError(f"{folder}/runs/{subset} lacks the runs of {sorted(systems - set(found))}")
    return runs


def score(folder, rules=None, k=10):
    """Per-query scores: metric -> subset -> frame of queries x systems.

    Labels and gains are scored alike: linear gain, the same rule for ties, excluded documents out of both. RCP-nDCG is
    over the queries that have gains; nDCG over those of them that have a label (0 or above), for all systems alike.
    """
    scores = {metric: {} for metric in METRICS}
    for subset, runs in stored_runs(folder).items():
        gains = GainTable.from_released(folder, subset)
        if not len(gains.human_labels):
            raise RCPError(f"subset {subset!r} of {folder} has no labels to compare with")
        qrels = gains.qrels(gains.human_labels)
        labelled = set(qrels["qid"][qrels["label"].ge(0) & ~qrels["excluded"]])
        if not labelled:
            raise RCPError(f"subset {subset!r} of {folder} has labels of excluded documents alone")
        labels = qrels[qrels["qid"].isin(labelled)]
        labels = labels.assign(gain=labels["label"].clip(lower=0))  # a document without a label counts 0
        frames = {system: read_run(path) for system, path in runs.items()}
        for metric, source in zip(METRICS, [labels, gains], strict=True):
            values = {system: ndcg(run, source, k, rules=rules) for system, run in frames.items()}
            scores[metric][subset] = pd.DataFrame(values)
    return scores


def queries_scored(scores):
    """A line for each metric: over how many queries of each subset it is; and how many have gains and no label."""
    for metric, frames in scores.items():
        sizes = {subset: len(values) for subset, values in frames.items()}
        without = sum(len(scores[METRICS[1]][subset]) - size for subset, size in sizes.items())
        left = f"; {without} with gains and no label left out" if without else ""
        each = ", ".join(f"{subset} {size}" for subset, size in sizes.items())
        yield f"{metric} is over {sum(sizes.values())} queries ({each}){left}"


def leaderboard(scores):
    """A metric's mean scores, systems x subsets, with their mean over subsets; the best first."""
    means = pd.DataFrame({subset: values.mean() for subset, values in scores.items()})
    return means.assign(Mean=means.mean(axis=1)).sort_values("Mean", ascending=False, kind="stable")


def rank_changes(boards):
    """How many ranks each system rises from nDCG to RCP-nDCG (below 0: falls); only orders can be compared."""
    before, after = (board["Mean"].rank(ascending=False, method="min").astype(int) for board in boards)
    return (before - after).loc[after.index]


def separated(scores):
    """The share of system pairs that a paired t-test separates at p < .05, by subset, and its mean over subsets."""
    shares = {subset: resolution(paired_t(differences_of(values)).p) for subset, values in scores.items()}
    return pd.Series({**shares, "Mean": np.mean(list(shares.values()))})


def write_demo(folder):
    """A small released folder with runs, from the demo collection cut into two subsets."""
    gains, labels, runs = results.gains(), results.qrels(), results.runs()
    subsets = {"first": [str(number) for number in range(1, 6)], "second": [str(number) for number in range(6, 11)]}
    for one, other in combinations(list(runs), 2):
        runs[f"{one} + {other}"] = fused(runs[one], runs[other])
    named = [
        frame.assign(dataset=np.where(frame["qid"].isin(subsets["first"]), "first", "second"))
        for frame in (gains.documents, gains.queries, labels)
    ]
    GainTable(named[0], named[1], gains.criteria, gains.metadata, human_labels=named[2]).to_released(folder)
    for subset, qids in subsets.items():
        place = Path(folder, "runs", subset)
        place.mkdir(parents=True)
        for system, run in runs.items():
            rows = run.merge(gains.documents[["qid", "docno"]])  # as the paper's rerankers, which reorder the pool
            write_run(rows[rows["qid"].isin(qids)], place / f"{system}.txt")


def fused(one, other):
    """Two runs fused by reciprocal ranks."""
    rows = []
    for qid in one["qid"].unique():
        ranks = [
            {docno: rank for rank, docno in enumerate(run["docno"][run["qid"] == qid], start=1)} for run in (one, other)
        ]
        rows += [(qid, docno, value) for docno, value in fuse(ranks, kappa=60).items()]
    return pd.DataFrame(rows, columns=["qid", "docno", "score"])


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", help="a released folder with runs/; without it, one is made of the demo")
    parser.add_argument("--rules", help="how ties are ordered: nanobeir, bright, vidore or trec-dl (Section B.1)")
    parser.add_argument("--k", type=int, default=10, help="the cutoff")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as place:
        folder = chosen.folder or f"{place}/demo"
        if not chosen.folder:
            write_demo(folder)
            print("Toy rankers and a stand-in judge, to show the path. Draw no conclusions.\n")
        scores = score(folder, chosen.rules, chosen.k)
    print("\n".join(queries_scored(scores)), "\n")
    boards = [leaderboard(scores[metric]) for metric in METRICS]
    changes = rank_changes(boards)
    for metric, board in zip(METRICS, boards, strict=True):
        print(f"{metric}@{chosen.k}, in %, the best first")
        shown = 100 * board
        if metric == METRICS[1]:
            arrows = [f"{'▲' if change > 0 else '▼'}{abs(change)}" if change else "" for change in changes]
            shown.insert(0, "rank", arrows)
        print(shown.to_string(float_format="{:.1f}".format), "\n")
    print("Pairs of systems that a paired t-test separates (p < .05), in %. It tells how often, not how often rightly.")
    shares = pd.DataFrame({metric: separated(scores[metric]) for metric in METRICS}).T
    print((100 * shares).to_string(float_format="{:.1f}".format))


if __name__ == "__main__":
    main()
