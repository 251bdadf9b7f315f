"""The judging bars, as ratios to what they must be: run with `python -m tests.benchmarks.judging`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time

import numpy as np

from rcp_irx import FULL, Document, JudgmentLog, Query, Rubric
from rcp_irx.documents import Pool
from rcp_irx.judging.judges.base import Judge, RubricAnswer, TournamentAnswer
from rcp_irx.judging.runner import PoolRunner

QUERIES, DOCUMENTS = 10, 150


class FreeJudge(Judge):
    """Costs nothing: its answers are looked up."""

    name = "free"

    def __init__(self) -> None:
        generator = np.random.default_rng(0)
        self._scores = generator.uniform(-4, 4, DOCUMENTS).tolist()

    def tournament(self, query, documents):
        return TournamentAnswer([self._scores[int(document.id)] for document in documents])

    def rubric(self, query, documents, rubric):
        return RubricAnswer([[self._scores[int(d.id)] > c for c in (-3, -2, 0, 1, 3)] for d in documents])


def seconds_a_query() -> float:
    """The full protocol on 150 documents, log on disk."""
    text = "a passage of some sixty words " * 10
    pools = [
        Pool(Query(f"q{j}", "why"), tuple(Document(str(i), f"{text}{j} {i}") for i in range(DOCUMENTS)))
        for j in range(QUERIES)
    ]
    with tempfile.TemporaryDirectory() as folder:
        log = JudgmentLog(os.path.join(folder, "bench.judgments"))
        start = time.perf_counter()
        for pool in pools:
            PoolRunner(pool, FreeJudge(), Rubric.load(), FULL, log).run()
        spent = (time.perf_counter() - start) / QUERIES
        start = time.perf_counter()
        for pool in pools:
            PoolRunner(pool, FreeJudge(), Rubric.load(), FULL, log).run()
        again = (time.perf_counter() - start) / QUERIES
        start = time.perf_counter()
        log.calibrate()
        calibrating = (time.perf_counter() - start) / QUERIES
    print(f"  a second run, all of it in the log: {again:.3f} s a query; calibrate: {calibrating:.3f} s a query")
    return spent


def import_seconds(code: str) -> float:
    """The fastest of several fresh interpreters."""
    timed = f"import time; t = time.perf_counter(); {code}; print(time.perf_counter() - t)"
    return min(
        float(subprocess.run([sys.executable, "-c", timed], capture_output=True, text=True, check=True).stdout)
        for _ in range(7)
    )


def report(what: str, measured: float, bar: float, unit: str) -> None:
    """One line: the figure, the bar, their ratio."""
    verdict = "bar held" if measured < bar else "bar missed"
    print(f"{what}: {measured:.3f} {unit}; bar {bar} {unit}; {bar / measured:.1f} times inside; {verdict}")


def main() -> None:
    """Print every figure."""
    report(
        f"full protocol, {DOCUMENTS} documents, a judge that costs nothing, log on disk",
        seconds_a_query(),
        0.3,
        "s a query",
    )
    extra = import_seconds("import rcp_irx") - import_seconds("import ir_measures")
    report("import rcp_irx beyond import ir_measures", max(extra, 1e-6), 0.1, "s")


if __name__ == "__main__":
    main()
