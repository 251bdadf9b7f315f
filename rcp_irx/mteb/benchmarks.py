"""`benchmark`: several wrapped tasks as one of mteb's benchmarks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import mteb
from mteb.abstasks import AbsTask
from mteb.benchmarks.benchmark import Benchmark, BenchmarkAggregation

from rcp_irx.errors import RCPError, examples
from rcp_irx.mteb.sources import TaskGains, as_table, one_to_one
from rcp_irx.mteb.tasks import RCPTask, own_name, retrieval_tasks, with_rcp


def benchmark(
    tasks: Iterable[AbsTask | str] | AbsTask | str,
    gains: Mapping[str, TaskGains] | TaskGains,
    *,
    name: str,
    main_score: bool = True,
    **options: Any,
) -> Benchmark:
    """Tasks with gains as one of mteb's benchmarks: `mteb.evaluate(model, benchmark)` runs them all.

    Parameters
    ----------
    tasks : iterable of AbsTask or str, or AbsTask, or str
        Retrieval and reranking tasks or their names; one task; an `mteb.Benchmark`, or the name of one.
    gains : mapping, or GainTable or str
        Task name -> gains as in `with_rcp`; or one table (or its name or folder) whose datasets are called like the
        tasks or their subsets.
    name : str
        The benchmark's name.
    main_score : bool
        As in `with_rcp`, but by default True, as a benchmark's scores are of main scores alone. The tasks are then
        called `<name>.rcp-main`.
    **options
        As in `with_rcp`.

    Returns
    -------
    mteb.Benchmark
        With the mean over tasks as its only aggregate: others ask mteb's registry for the task, which has no wrapped
        ones.

    Raises
    ------
    RCPError
        What `with_rcp` refuses; no task; a task without gains; gains of a task that is not among these; a table whose
        dataset would serve two tasks.

    Warns
    -----
    RCPWarning
        What `with_rcp` warns of, such as results of other gains in mteb's default result cache.

    Notes
    -----
    `get_score(results)` of the benchmark works. mteb's own table (`get_benchmark_result()` of the results) looks tasks
    up in mteb's registry, and raises KeyError for these, whose names are not in it; `leaderboard` gives a table.
    """
    plain = retrieval_tasks(_of_benchmark(tasks) if isinstance(tasks, str) else tasks)
    names = [own_name(task) for task in plain]
    if not plain:
        raise RCPError("a benchmark needs at least one task")
    if isinstance(gains, Mapping):
        lacking, strange = set(names) - set(gains), set(gains) - set(names)
        if lacking or strange:
            raise RCPError(
                f"gains of a benchmark are by task: none for {examples(lacking) or 'none'}, and some for "
                f"{examples(strange) or 'none'}, which is none of the tasks {examples(names)}"
            )
        by_task = dict(gains)
    else:
        by_task = dict.fromkeys(names, as_table(gains))
    wrapped = [
        with_rcp(task, by_task[own], main_score=main_score, **options) for task, own in zip(plain, names, strict=True)
    ]
    if not isinstance(gains, Mapping):
        one_to_one(_users(wrapped), "tasks")
    aggregations: Any = (BenchmarkAggregation.MEAN_TASK,)
    return Benchmark(
        name=name,
        tasks=wrapped,
        description=f"{', '.join(names)}, scored with calibrated gains too (RCP-nDCG).",
        aggregations=aggregations,
    )


def _of_benchmark(name: str) -> Iterable[AbsTask]:
    try:
        return mteb.get_benchmark(name).tasks
    except KeyError as error:
        raise RCPError(f"mteb has no benchmark {name!r} ({error.args[0]}); give tasks as a list") from None


def _users(tasks: Iterable[AbsTask]) -> list[tuple[str, str, str]]:
    return [
        (table.datasets[0], own_name(task), subset)
        for task in tasks
        if isinstance(task, RCPTask)
        for subset, table in task.rcp.gains.items()
    ]
