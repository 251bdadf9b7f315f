"""How full the limit of calls in flight is kept, as a ratio in one run: python -m tests.benchmarks.calls [repeats].

A server that answers after 200 ms is asked twice for as much: by a bare loop of the openai package's client, and by the
runner, with its log on disk, its fits and its rounds.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import median

from openai import AsyncOpenAI

from rcp_irx import FULL, Document, JudgmentLog, OpenAIJudge, Query, Rubric
from rcp_irx.documents import Pool
from rcp_irx.judging.runner import PoolRunner, run_pools
from rcp_irx.judging.spending import Spending
from tests.benchmarks.calibration import verdict

CALLS, IN_FLIGHT, DELAY, BAR = 2_000, 64, 0.2, 0.9


@contextmanager
def served() -> Iterator[str]:
    """A stub server in a process of its own, so that it takes no time from who asks."""
    command = [sys.executable, "-m", "tests.judging.stub_server", "--delay", str(DELAY)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        yield server.stdout.readline().split()[-1]
    finally:
        server.kill()


def pools(documents: int, queries: int) -> list[Pool]:
    text = "A passage of some sixty words would stand here in a real run. " * 5
    return [
        Pool(Query(f"q{i}", f"question {i}"), tuple(Document(f"d{j:03d}", f"{text}{i} {j}") for j in range(documents)))
        for i in range(queries)
    ]


def bare(base_url: str, prompts: list[str]) -> float:
    """Seconds that a plain loop needs for these prompts."""

    async def loop() -> None:
        client, limit = AsyncOpenAI(base_url=base_url, api_key="none", max_retries=0), asyncio.Semaphore(IN_FLIGHT)

        async def call(prompt: str) -> None:
            async with limit:
                await client.chat.completions.create(model="m", messages=[{"role": "user", "content": prompt}])

        await asyncio.gather(*(call(prompt) for prompt in prompts))
        await client.close()

    start = time.perf_counter()
    asyncio.run(loop())
    return time.perf_counter() - start


def ours(base_url: str, found: list[Pool]) -> tuple[float, OpenAIJudge, Spending]:
    """Seconds that the runner needs for these pools."""
    with tempfile.TemporaryDirectory() as folder:
        judge = OpenAIJudge("m", base_url=base_url, max_concurrency=IN_FLIGHT)
        log = JudgmentLog(f"{folder}/calls.judgments")
        runners = [PoolRunner(pool, judge, Rubric.load(), FULL, log) for pool in found]
        spending = Spending()
        start = time.perf_counter()
        run_pools(runners, spending)
        return time.perf_counter() - start, judge, spending


def main(repeats: int = 1) -> None:
    rubric = Rubric.load()
    print(f"{CALLS} calls or a few more, {IN_FLIGHT} in flight, {DELAY * 1000:.0f} ms each, log on disk")
    for documents in (150, 50, 20):
        counts = FULL.counts(documents)
        each = counts.tournament + counts.rubric
        found = pools(documents, -(-CALLS // each))
        ratios = []
        for _ in range(repeats):
            with served() as base_url:
                taken, judge, spending = ours(base_url, found)
                prompts = [
                    judge.prompts.render(stage, pool.query, pool.documents[:10], rubric)
                    for pool in found
                    for stage, number in (("tournament", counts.tournament), ("rubric", counts.rubric))
                    for _ in range(number)
                ]
                theirs = bare(base_url, prompts)
            ratios.append(theirs / taken * spending.calls / len(prompts))
            print(
                f"  {len(found)} queries x {documents} documents, {spending.calls} calls ({spending.failed} failed): "
                f"{spending.calls / taken:.0f} a second, a bare loop {len(prompts) / theirs:.0f}; {ratios[-1]:.1%}"
            )
        ratio = median(ratios)
        print(f"  {documents} documents, median of {repeats}: {ratio:.1%}: bar {BAR:.0%} {verdict(ratio >= BAR)}")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 1)
