"""The kernel's speed bar, measured as ratios in one run: python -m tests.benchmarks.evaluation."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
from ir_measures import nDCG

from rcp_irx.evaluation import ndcg

QUERIES, DOCUMENTS, JUDGED, K = 2_000, 1_000, 100, 10
SPEED_BAR, MEMORY_BAR = 8.0, 2.0


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


def best_seconds(call: Callable[[], Any], repeats: int) -> float:
    """Processor time, which other work on the machine disturbs least."""
    times = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        times.append(time.process_time() - start)
    return min(times)


def peak_bytes(call: Callable[[], Any]) -> int:
    """The most memory that the call held at once beyond what was there before it."""
    tracemalloc.start()
    call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return peak


def verdict(levels: int | None, held: bool) -> str:
    """Where all scores are equal every document is a contender, and no bar is set."""
    if levels == 1:
        return "no bar"
    return "bar held" if held else "bar missed"


def main() -> None:
    print(f"nDCG@{K}, {QUERIES} queries x {DOCUMENTS} documents, {JUDGED} judged a query, from a frame")
    for name, levels in [("no ties", None), ("many ties (50 scores a query)", 50), ("all scores equal", 1)]:
        run, labels = simulated_run(levels)
        gains = labels.rename(columns={"relevance": "gain"})
        theirs = best_seconds(lambda: (nDCG @ K).calc_aggregate(labels, run), 3)  # noqa: B023  (called at once)
        for ties in ("docno", "mean"):
            ours = best_seconds(lambda: ndcg(run, gains, K, ties=ties), 3)  # noqa: B023
            ratio = theirs / ours
            says = verdict(levels, ratio >= SPEED_BAR)
            print(
                f"  {name}, ties {ties!r}: {ours:.2f} s, ir_measures {theirs:.2f} s, {ratio:.1f} times as fast: {says}"
            )
        own = int(run.memory_usage(deep=True).sum())
        share = (own + peak_bytes(lambda: ndcg(run, gains, K))) / own  # noqa: B023
        says = verdict(levels, share <= MEMORY_BAR)
        print(f"  {name}: peak memory {share:.2f} times the run's {own / 1e6:.0f} MB: {says}")


if __name__ == "__main__":
    main()
