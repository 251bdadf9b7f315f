"""Runs that are killed: what was answered is on disk, and a later run asks only the rest."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pandas as pd

from rcp_irx import FULL, Document, Judge, JudgmentLog, Query, Rubric, RubricAnswer, TournamentAnswer
from rcp_irx.documents import Pool
from rcp_irx.judging.runner import PoolRunner, run_pools
from rcp_irx.judging.spending import Spending

ROOT = Path(__file__).parents[2]
RUNS = 30


class Deterministic(Judge):
    """Async; its answers depend on the texts shown; it writes down every call before it answers."""

    name = "deterministic"
    max_concurrency = 6

    def __init__(self, calls: str):
        self.calls = calls

    async def _call(self, documents):
        import asyncio

        with open(self.calls, "a") as file:  # one short line in one write: no two calls mix
            file.write(json.dumps([document.id for document in documents]) + "\n")
        await asyncio.sleep(0.002)

    async def atournament(self, query, documents):
        await self._call(documents)
        return TournamentAnswer([(hash_of(d.text + query.text) % 1000) / 100 - 5 for d in documents])

    async def arubric(self, query, documents, rubric):
        await self._call(documents)
        return RubricAnswer([[hash_of(d.text) % 7 > c for c in range(len(rubric))] for d in documents])


def hash_of(text: str) -> int:
    import zlib

    return zlib.crc32(text.encode())


def judge_all(log: str, calls: str) -> None:
    pools = [
        Pool(Query(f"q{i}", f"query {i}"), tuple(Document(f"d{j:02d}", f"text {i} {j}") for j in range(14)))
        for i in range(4)
    ]
    held = JudgmentLog(log)
    judge = Deterministic(calls)
    run_pools([PoolRunner(pool, judge, Rubric.load(), FULL.scaled(0.5), held) for pool in pools], Spending())


def lines(path: Path) -> int:
    return len(path.read_text().splitlines()) if path.exists() else 0


def test_killed_at_random_moments_and_resumed(tmp_path):
    judge_all(str(tmp_path / "whole.judgments"), str(tmp_path / "whole.calls"))
    whole = JudgmentLog(tmp_path / "whole.judgments").calibrate()
    total = lines(tmp_path / "whole.calls")
    moments, lost = random.Random(7), 0
    for number in range(RUNS):
        log, calls = tmp_path / f"{number}.judgments", tmp_path / f"{number}.calls"
        process = subprocess.Popen([sys.executable, "-m", "tests.judging.test_killed", str(log), str(calls)], cwd=ROOT)
        wanted = moments.randrange(1, total)
        while lines(calls) < wanted and process.poll() is None:
            time.sleep(0.001)
        time.sleep(moments.random() * 0.003)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        before = lines(calls)
        answered = int(JudgmentLog(log).usage()["answered"].sum())
        lost += before - answered
        assert before - answered <= Deterministic.max_concurrency  # what was in flight
        judge_all(str(log), str(calls))
        assert lines(calls) - before == total - answered  # nothing that had an answer is asked again
        resumed = JudgmentLog(log).calibrate()
        pd.testing.assert_frame_equal(resumed.documents, whole.documents, check_exact=True)
        assert resumed.fit_id == whole.fit_id
    print(f"\n{RUNS} runs killed; {lost} calls were in flight; {total} calls each")


if __name__ == "__main__":
    judge_all(sys.argv[1], sys.argv[2])
