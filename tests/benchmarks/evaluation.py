"""The evaluation's bars, as ratios to ir_measures and ranx in one run: python -m tests.benchmarks.evaluation."""

from __future__ import annotations

import itertools
import time
import tracemalloc
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import ranx
from ir_measures import Judged, P, R, calc_aggregate, nDCG

from rcp_irx import RCPGain, RCPJudged, RCPnDCG, RCPRecall, RCPWarning
from rcp_irx.evaluation import ndcg

QUERIES, DOCUMENTS, JUDGED, K = 2_000, 1_000, 100, 10
IR_MEASURES_BAR, RANX_BAR, MEMORY_BAR = 8.0, 1.0, 2.0
WARM_UP = 50  # queries; of fewer than 10 ranx would take one thread from then on


def simulated_run(levels: int | None, seed: int = 42) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A run and its labels in ir_measures' columns; `levels`: how many different scores a query has (None: no ties)."""
    random = np.random.default_rng(seed)
    rows = QUERIES * DOCUMENTS
    numbers = random.integers(0, 5_000_000, QUERIES)[:, None] + random.permutation(DOCUMENTS) * 7919
    scores = random.random(rows) if levels is None else random.integers(0, levels, rows).astype(np.float64)
    run = pd.DataFrame(
        {
            "query_id": [f"query-{i // DOCUMENTS}" for i in range(rows)],
            "doc_id": [f"doc{number}" for number in numbers.ravel().tolist()],
            "score": scores,
        }
    )
    run = run.sort_values(["query_id", "score"], ascending=[True, False], kind="stable", ignore_index=True)
    judged = np.arange(rows).reshape(QUERIES, DOCUMENTS)[:, :: DOCUMENTS // JUDGED].ravel()
    labels = run.loc[judged, ["query_id", "doc_id"]].assign(relevance=random.integers(0, 4, len(judged)))
    return run, labels.reset_index(drop=True)


def nested(frame: pd.DataFrame, value: str) -> dict[str, dict[str, Any]]:
    """A frame that is grouped by query as a dict of dicts, which ranx reads under pandas 3 too."""
    queries = frame["query_id"].to_numpy(dtype=object)
    starts = np.flatnonzero(np.append(True, queries[1:] != queries[:-1])).tolist()
    docnos, values = frame["doc_id"].tolist(), frame[value].tolist()
    return {
        queries[start]: dict(zip(docnos[start:end], values[start:end], strict=True))
        for start, end in itertools.pairwise([*starts, len(frame)])
    }


def ranx_ndcg(run: pd.DataFrame, labels: pd.DataFrame) -> float:
    """ranx's nDCG by its fastest way from frames: nested dicts; a `ranx.Run` made of them first takes twice as long."""
    return float(ranx.evaluate(nested(labels, "relevance"), nested(run, "score"), f"ndcg@{K}"))


def best_seconds(call: Callable[[], Any], repeats: int) -> float:
    """Processor time, which other work on the machine disturbs least; elapsed time where threads make that the less."""
    times = []
    for _ in range(repeats):
        processor, clock = time.process_time(), time.perf_counter()
        call()
        times.append(min(time.process_time() - processor, time.perf_counter() - clock))
    return min(times)


def peak_bytes(call: Callable[[], Any]) -> int:
    """The most memory that the call held at once beyond what was there before it."""
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def verdict(levels: int | None, bar: float, held: bool) -> str:
    """Where all scores are equal every document is a contender, and no bar is set."""
    if levels == 1:
        return "no bar"
    return f"bar {bar:.0f} {'held' if held else 'missed'}"


def peers(levels: int | None, run: pd.DataFrame, labels: pd.DataFrame) -> dict[str, tuple[float, float]]:
    """The seconds of each peer, and how many times as fast as it the kernel must be; ranx is left out without a bar."""
    repeats = 1 if levels == 1 else 2
    measured = {"ir_measures": (best_seconds(lambda: (nDCG @ K).calc_aggregate(labels, run), repeats), IR_MEASURES_BAR)}
    if levels != 1:
        ranx_ndcg(run[: WARM_UP * DOCUMENTS], labels[: WARM_UP * JUDGED])  # compiles
        measured["ranx"] = best_seconds(lambda: ranx_ndcg(run, labels), 1), RANX_BAR
    return measured


def compare_ndcg(name: str, levels: int | None) -> None:
    """Print the kernel's seconds and memory on one shape of run beside its peers'."""
    run, labels = simulated_run(levels)
    gains = labels.rename(columns={"relevance": "gain"})
    measured = peers(levels, run, labels)
    repeats = 1 if levels == 1 else 5
    for ties in ("docno", "mean"):
        ours = best_seconds(lambda: ndcg(run, gains, K, ties=ties), repeats)  # noqa: B023  (called at once)
        print(f"  {name}, ties {ties!r}: {ours:.2f} s")
        for peer, (theirs, bar) in measured.items():
            says = verdict(levels, bar, theirs / ours > bar)
            print(f"    {theirs / ours:.1f} times as fast as {peer} ({theirs:.2f} s): {says}")
    own = int(run.memory_usage(deep=True).sum())
    share = (own + peak_bytes(lambda: ndcg(run, gains, K))) / own
    says = verdict(levels, MEMORY_BAR, share <= MEMORY_BAR)
    print(f"    peak memory {share:.2f} times the run's {own / 1e6:.0f} MB: {says}")


def compare_measures() -> None:
    """Print what four measures cost in ir_measures, ours beside the ones they resemble."""
    run, labels = simulated_run(None)
    qrels = labels.assign(gain=labels["relevance"] / 3)
    ours = [RCPnDCG @ K, RCPJudged @ K, RCPGain @ K, RCPRecall @ K]
    theirs = [nDCG @ K, Judged @ K, P @ K, R @ K]
    seconds = [best_seconds(lambda: calc_aggregate(kind, qrels, run), 1) for kind in (ours, theirs)]  # noqa: B023
    for kind, spent in zip((ours, theirs), seconds, strict=True):
        print(f"  calc_aggregate of {', '.join(map(str, kind))}: {spent:.2f} s")
    print(f"    {seconds[1] / seconds[0]:.1f} times as fast: no bar")


def main() -> None:
    warnings.simplefilter("ignore", RCPWarning)  # of coverage: few of the simulated documents are judged
    warnings.filterwarnings("ignore", r"(?s).*unsafe cast")  # of ranx's own code, when it is compiled
    print(f"nDCG@{K}, {QUERIES} queries x {DOCUMENTS} documents, {JUDGED} judged a query, from a frame")
    for name, levels in [("no ties", None), ("many ties (50 scores a query)", 50), ("all scores equal", 1)]:
        compare_ndcg(name, levels)
    compare_measures()


if __name__ == "__main__":
    main()
