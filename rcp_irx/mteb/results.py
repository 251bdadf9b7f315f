"""mteb's results of wrapped tasks as rows: reading them, and refusing what is not comparable."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

import pandas as pd
from mteb.results import BenchmarkResults, ModelResult

from rcp_irx.errors import RCPError, examples
from rcp_irx.mteb import scoring
from rcp_irx.mteb.sources import Stamped, stamped

Given: TypeAlias = "BenchmarkResults | ModelResult | Iterable[ModelResult]"

LABELS, COUNT, RCP, JUDGED = "nDCG", "CountnDCG", "RCPnDCG", "RCPJudged"
SCORES = {LABELS: "ndcg", COUNT: scoring.GAINS["count_gain"], RCP: scoring.GAINS["gain"], JUDGED: scoring.JUDGED}
"""The metrics, and what mteb's scores call them."""
WITHOUT = scoring.WITHOUT
PART = ["task", "split", "subset"]


def result_rows(results: Given, what: str, k: int, several_fits: bool) -> pd.DataFrame:
    """A row per model, task, split and subset: `model, task, suffix, revision, split, subset`, and a column per metric.

    The revision is the result's without cutoffs and main score, which change none of these scores.

    Raises
    ------
    RCPError
        No results of wrapped tasks; no scores at this cutoff; two results for one row; results that are not comparable:
        several judges, several gains or options of one task, and unless `several_fits` gains of several fits.
    """
    given = [results] if isinstance(results, ModelResult) else getattr(results, "model_results", results)
    models = list(given) if isinstance(given, Iterable) else [given]
    wrong = [model for model in models if not isinstance(model, ModelResult)]
    if wrong:
        raise RCPError(f"{what} must be mteb's BenchmarkResults or ModelResults, not {type(wrong[0]).__name__}")
    rows, others = [], set()
    for model, name in zip(models, _names(models), strict=True):
        for result in model.task_results:
            revision = stamped(result.dataset_revision)
            if revision is None:
                others.add(result.task_name)
                continue
            task, _, suffix = result.task_name.rpartition(".")
            head = {"model": name, "task": task, "suffix": suffix, "revision": str(revision)}
            for split, subsets in result.scores.items():
                for scores in subsets:
                    own = {metric: scores.get(f"{key}_at_{k}") for metric, key in SCORES.items()}
                    own[WITHOUT] = scores.get(WITHOUT)
                    rows.append({**head, "split": split, "subset": scores["hf_subset"], **own})
    if not rows:
        raise RCPError(f"{what}: no result of a wrapped task (with_rcp), only of {examples(others) or 'none'}")
    frame = pd.DataFrame(rows).astype(dict.fromkeys([*SCORES, WITHOUT], "float64"))
    _refuse_doubtful(frame, what, k)
    _refuse_incomparable(frame, what, several_fits)
    return frame


def by_task(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Models x tasks: means over splits and subsets; NaN where a model misses one that another has."""
    wide = rows.pivot(index="model", columns=PART, values=metric).T
    tasks = wide.groupby(level="task", sort=False)
    return tasks.mean().where(tasks.count().eq(tasks.size(), axis=0)).T


def stamps(rows: pd.DataFrame) -> dict[str, Stamped]:
    """What the revision of each task's results says; they have one."""
    first = rows.drop_duplicates("task")
    said = zip(first["task"], map(stamped, first["revision"]), strict=True)
    return {task: revision for task, revision in said if revision is not None}


def gaps(rows: pd.DataFrame) -> list[tuple[str, ...]]:
    """The (model, task, split, subset) that are missing, while another model has them."""
    parts = set(rows[PART].itertuples(index=False, name=None))
    return [
        (str(model), *part)
        for model, own in rows.groupby("model")
        for part in sorted(parts - set(own[PART].itertuples(index=False, name=None)))
    ]


def _names(models: list[ModelResult]) -> list[str]:
    """The models' names, with revisions and experiments where a name occurs with several of them."""
    full = [(model.model_name, model.model_revision or "", model.experiment_name or "") for model in models]
    several = {name for name, *_ in full if len({other for other in full if other[0] == name}) > 1}
    return [" ".join(filter(None, parts)) if parts[0] in several else parts[0] for parts in full]


def _refuse_doubtful(rows: pd.DataFrame, what: str, k: int) -> None:
    lacking = rows["task"][rows[[LABELS, RCP]].isna().any(axis=1)]
    if len(lacking):
        raise RCPError(f"{what}: no scores at cutoff {k} for {examples(lacking)}; k_values of with_rcp must hold it")
    twice = rows[rows.duplicated(["model", "suffix", *PART])]
    if len(twice):
        found = examples(twice[["model", *PART]].itertuples(index=False, name=None))
        raise RCPError(f"{what}: two results for model, task, split, subset {found}")


def _refuse_incomparable(rows: pd.DataFrame, what: str, several_fits: bool) -> None:
    if rows["suffix"].nunique() > 1:
        found = examples(rows["suffix"])
        raise RCPError(
            f"{what}: results of several judges or main scores (suffixes {found}); give those of one, and a second "
            "judge's as second="
        )
    revisions = {str(task): of.unique().tolist() for task, of in rows.groupby("task")["revision"]}
    for task, found in revisions.items():
        if len(found) > 1:
            raise RCPError(
                f"{what}: the results of {task} are of different gains, options or data ({examples(found)}); evaluate "
                "all models anew, with overwrite_strategy='always'"
            )
    fits = {task: said.fits for task, said in stamps(rows).items()}
    if len({fit for own in fits.values() for fit in own}) > 1 and not several_fits:
        raise RCPError(
            f"{what}: the gains come from several fits, whose scores are not comparable; task, fits: "
            f"{examples(fits.items())}; make a leaderboard for each fit, or give several_fits=True"
        )
