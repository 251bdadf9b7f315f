"""The analysis and the report on a suite as large as NanoBEIR, with 14 systems: python -m tests.benchmarks.analysis."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pandas as pd

from rcp_irx import GainTable
from rcp_irx.analysis import compare, diagnose
from rcp_irx.calibration import fit_2pl, gain
from rcp_irx.report import gather, render
from tests.benchmarks.calibration import simulated_suite, verdict

QUERIES, DOCUMENTS, DATASETS, SYSTEMS = 649, 150, 13, 14
BAR, LARGEST = 20.0, 15.0


def suite() -> tuple[GainTable, dict[str, pd.DataFrame], pd.DataFrame, dict[str, str]]:
    """Gains of a simulated suite, runs of ever noisier systems, sparse labels, and texts of about 600 characters."""
    bt, passes, placements, codes = simulated_suite(QUERIES, DOCUMENTS)
    fit = fit_2pl(bt, passes, placements, codes)
    random = np.random.default_rng(1)
    ids = [f"C{c + 1}" for c in range(passes.shape[1])]
    keys = {
        "dataset": [f"set{code % DATASETS:02d}" for code in codes],
        "qid": [f"q{code}" for code in codes],
        "docno": [f"document-{i:06d}" for i in range(codes.size)],
    }
    documents = pd.DataFrame(
        {
            **keys,
            "gain": gain(fit.theta, fit.gamma, fit.beta),
            "theta": fit.theta,
            "bt": bt,
            "n": placements,
            "gain_se": 0.05,
            **dict(zip(ids, passes.T, strict=True)),
            "pool_rank": np.tile(np.arange(DOCUMENTS), QUERIES),
            "excluded": False,
        }
    )
    first = documents.drop_duplicates(["dataset", "qid"])[["dataset", "qid"]]
    queries = first.assign(query="which of these words matters here, " + first["qid"], tau=fit.tau, alpha=fit.alpha)
    criteria = pd.DataFrame({"id": ids, "name": ids, "question": ids, "gamma": fit.gamma, "beta": fit.beta})
    scores = {f"system {s}": fit.theta + random.normal(0, 0.5 + 0.2 * s, codes.size) for s in range(SYSTEMS)}
    runs = {name: pd.DataFrame({**keys, "score": score}) for name, score in scores.items()}
    qrels = documents.loc[random.random(codes.size) < 0.02, ["dataset", "qid", "docno"]].assign(label=1)
    words = np.array([f"{a}{b}{c}" for a in "bdfgklmnprst" for b in "aeiou" for c in ("n", "r", "st", "l", "ck", "")])
    texts = {docno: " ".join(words[random.integers(0, len(words), 130)]) for docno in keys["docno"]}
    return GainTable(documents, queries, criteria, {"judge": "simulated"}), runs, qrels, texts


def main() -> None:
    """Print every time, and the report's size."""
    gains, runs, qrels, texts = suite()
    warnings.simplefilter("ignore")
    start = time.perf_counter()
    compare(runs, gains, qrels)
    compared = time.perf_counter()
    diagnose(gains, runs=runs, qrels=qrels)
    diagnosed = time.perf_counter()
    both = diagnosed - start
    print(f"{QUERIES} queries x {DOCUMENTS} documents, {SYSTEMS} systems, {DATASETS} datasets, labels")
    print(
        f"compare {compared - start:.1f} s, diagnose {diagnosed - compared:.1f} s, both {both:.1f} s (bar: {BAR:g} s):"
        f" {verdict(both < BAR)}"
    )
    page, length = render(gather(gains, runs, qrels).with_texts(texts))
    size = len(page.encode()) / 1e6
    print(
        f"report with texts: {time.perf_counter() - diagnosed:.1f} s, {size:.1f} MB (bar: {LARGEST:g} MB), texts cut to"
        f" {length} characters: {verdict(size < LARGEST)}"
    )


if __name__ == "__main__":
    main()
