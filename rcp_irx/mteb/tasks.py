"""`with_rcp`: a retrieval or reranking task of mteb whose results also hold RCP-nDCG; mteb's own scores stay."""

from __future__ import annotations

import copy
import re
from abc import ABCMeta
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import mteb
from mteb.abstasks import AbsTask, AbsTaskRetrieval
from mteb.abstasks.task_metadata import TaskMetadata

from rcp_irx.errors import RCPError, examples, warn
from rcp_irx.gains import GainTable
from rcp_irx.mteb.cached import warn_of_other_results
from rcp_irx.mteb.scoring import GAINS, Results, Rules, read_rules, score
from rcp_irx.mteb.sources import TaskGains, gains_by_subset, stamp

SUFFIX, MAIN_SUFFIX = "rcp", "rcp-main"


def with_rcp(
    task: AbsTask | str,
    gains: TaskGains,
    *,
    k_values: Iterable[int] | None = None,
    main_score: bool = False,
    ties: str | None = None,
    rules: str | None = None,
    ignore_identical_ids: bool | None = None,
    suffix: str | None = None,
) -> AbsTaskRetrieval:
    """A task whose results also hold RCP scores, beside mteb's own, which stay what they were.

    Parameters
    ----------
    task : AbsTask or str
        A retrieval or reranking task, or its name. It is not changed, and shares its data with the new one.
    gains : GainTable, str or mapping
        The gains of each subset: subset -> table of one dataset; or one table (or its registered name, or its folder)
        whose datasets are called like the subsets, or `task/subset`; for a task with one subset also like the task, or
        any table of one dataset. All splits read the same gains.
    k_values : iterable of int, optional
        Cutoffs of the RCP scores, at most the depth to which mteb asks models; by default those of the task.
    main_score : bool
        Whether the main score, which mteb's tables show, is RCP-nDCG at 10 (at the largest cutoff, where 10 is none).
    ties, rules : str, optional
        How equal scores are ordered, as in `rcp_irx.evaluation.ndcg`. mteb hands over scores by document, so that
        `ties="order"` is the order in which the model put them there.
    ignore_identical_ids : bool, optional
        Whether a document whose id is its query's leaves RCP's rankings and ideals, as the paper does on NanoArguAna
        (Section C.5), where mteb keeps it. By default as in mteb's own scores of the task.
    suffix : str, optional
        The new task is called `<name>.<suffix>`: by default `<name>.rcp`, and with `main_score` `<name>.rcp-main`, so
        that main scores of both kinds never meet under one name.

    Returns
    -------
    AbsTaskRetrieval
        For `mteb.evaluate`. Its scores hold, for each cutoff k, `rcp_ndcg_at_k`, `count_ndcg_at_k` (the same with the
        gains of Eq. 5; absent where the table has no pass counts) and `rcp_judged_at_k` (the share of the top k that
        has a gain), all means over the task's queries with gains, and the numbers of queries with and without gains,
        `rcp_queries` and `rcp_queries_without_gains`. A query that the model's results miss scores 0.

    Raises
    ------
    RCPError
        Other kinds of tasks; gains that do not fit the task's subsets (see `sources.gains_by_subset`); unknown options.
        When evaluated: more than half of the queries without gains, scores that are not finite.

    Warns
    -----
    RCPWarning
        When identical ids leave only RCP's scores; when results of other gains, options or data lie under the new name
        in mteb's default result cache. When evaluated: for queries without gains, and low coverage.

    Notes
    -----
    mteb's result cache knows a task by its name alone. The new name keeps results of the task itself apart, but for
    other gains or options under the same name mteb gives the old results back, and no task can hinder it. Take another
    `suffix`, evaluate with `overwrite_strategy="always"`, or give a cache of one's own. Such results are looked for,
    and warned of, in the default cache alone. Which gains, options, cutoffs and main score a result is of stands in its
    `dataset_revision`. Models are shown the task under its own name, so that prompts by task name hold; predictions are
    saved under that name too.

    Where a task skips the first result, RCP's rankings skip it too; its gain stays in the ideal (`gains.exclude` takes
    documents out of both).
    """
    plain = retrieval_task(task)
    if isinstance(plain, RCPTask):
        raise RCPError(f"{plain.metadata.name} holds RCP scores already; wrap the task itself, with another suffix")
    if suffix is None:
        suffix = MAIN_SUFFIX if main_score else SUFFIX
    if not isinstance(suffix, str) or not re.fullmatch(r"[\w-]+", suffix):
        raise RCPError(f"suffix must be letters, digits, '_' or '-'; it is {suffix!r}")
    subsets, known = list(plain.hf_subsets or plain.metadata.hf_subsets), list(plain.metadata.hf_subsets)
    tables = gains_by_subset(gains, plain.metadata.name, subsets, known, len(known) == 1)
    how = task_rules(plain, plain.k_values if k_values is None else k_values, ties, rules, ignore_identical_ids)
    if how.options.ignore_identical_ids and not plain.ignore_identical_ids:
        whose = f"{plain.metadata.name}: documents whose id is the query's"
        warn(f"{whose} leave RCP's rankings and ideals; mteb's own scores keep them")
    wrapped: Any = _blank(type(plain))
    vars(wrapped).update(vars(plain), hf_subsets=list(subsets), dataset=unshared(plain.dataset))
    wrapped.rng_state, wrapped.np_rng = copy.deepcopy((plain.rng_state, plain.np_rng))
    wrapped.rcp = Settings(tables, how, suffix, bool(main_score))
    wrapped.wrapped_metadata = plain.metadata
    wrapped.metadata = wrapped.rcp.renamed(plain.metadata)
    warn_of_other_results(wrapped.metadata.name, wrapped.metadata.revision)
    return wrapped


@dataclass(frozen=True)
class Settings:
    """What `with_rcp` was given: the gains by subset, the rules, the name's suffix, whether RCP-nDCG is main."""

    gains: Mapping[str, GainTable]
    rules: Rules
    suffix: str
    main_score: bool

    def renamed(self, metadata: TaskMetadata) -> TaskMetadata:
        """The metadata under the new name; the revision says which gains, options, cutoffs and main score."""
        main = f"{GAINS['gain']}_at_{self.rules.headline}" if self.main_score else None
        revision = metadata.revision + stamp(self.gains, str(self.rules), self.rules.k_values, main)
        return metadata.model_copy(
            update={
                "name": f"{metadata.name}.{self.suffix}",
                "description": f"{metadata.description} Scored with calibrated gains too (RCP-nDCG).",
                "dataset": {**metadata.dataset, "revision": revision},
                "main_score": main or metadata.main_score,
                "adapted_from": [metadata.name],
            }
        )


class RCPTask(AbsTaskRetrieval):
    """What `with_rcp` puts in front of a task's own class.

    Data are loaded, and models asked, under the task's own metadata; results are filed under the new one.
    """

    metadata: TaskMetadata
    rcp: Settings
    wrapped_metadata: TaskMetadata

    @contextmanager
    def _under_its_own_name(self) -> Iterator[None]:
        kept, self.metadata = self.metadata, self.wrapped_metadata
        try:
            yield
        finally:
            self.metadata = kept

    def load_data(self, *args: Any, **kwargs: Any) -> None:
        """Load the data as the task does."""
        with self._under_its_own_name():
            super().load_data(*args, **kwargs)

    def unload_data(self) -> None:
        """Unload the data; the metadata that a task has of its own while its data are cleaned goes too, as in mteb."""
        own: Any = type(self)
        kept, published = self.metadata, own.metadata
        super().unload_data()
        if "metadata" not in vars(self) and published.name != self.wrapped_metadata.name:
            self.wrapped_metadata, kept = published, self.rcp.renamed(published)
        self.metadata = kept

    @property
    def prediction_file_name(self) -> str:
        """The name of the task's own prediction file: a model's answers do not depend on the gains."""
        return f"{self.wrapped_metadata.name}_predictions.json"

    def _evaluate_subset(self, *args: Any, **kwargs: Any) -> Any:
        with self._under_its_own_name():
            return super()._evaluate_subset(*args, **kwargs)

    def task_specific_scores(
        self,
        scores: dict[str, dict[str, float]],
        qrels: Any,
        results: Any,
        hf_split: str,
        hf_subset: str,
    ) -> dict[str, float]:
        """The task's own additional scores, and the RCP scores."""
        own = super().task_specific_scores(scores, qrels, results, hf_split=hf_split, hf_subset=hf_subset)
        return {**own, **self._rcp_scores(qrels, results, hf_split, hf_subset)}

    def _rcp_scores(
        self, qrels: Mapping[str, Mapping[str, int]], results: Results, split: str, subset: str
    ) -> dict[str, float]:
        where = f"{self.wrapped_metadata.name}, {subset}, {split}"
        if subset not in self.rcp.gains:
            raise RCPError(f"{where}: the task was wrapped with gains for {examples(self.rcp.gains)} only")
        asked = asked_queries(self.dataset, qrels, subset, split) or []
        how = replace(self.rcp.rules, skip_first_result=self.skip_first_result)
        return score(results, self.rcp.gains[subset], asked, how, where).means()

    def __reduce__(self) -> tuple[Any, ...]:
        return _blank, (type(self).__mro__[2],), vars(self)


def retrieval_task(task: AbsTask | str) -> AbsTaskRetrieval:
    """The retrieval or reranking task of that name, or as given.

    Raises
    ------
    RCPError
        If mteb knows no such task, or it is of another kind.
    """
    if isinstance(task, str):
        try:
            task = mteb.get_task(task)
        except KeyError as error:
            raise RCPError(f"mteb has no task {task!r} ({error.args[0]})") from None
    if isinstance(task, AbsTask) and task.is_aggregate:
        parts = examples(part.metadata.name for part in getattr(task, "tasks", []))
        raise RCPError(f"{task.metadata.name} only sums up other tasks ({parts}); take these")
    if not isinstance(task, AbsTaskRetrieval):
        what = f"{task.metadata.name} is {task.metadata.type}" if isinstance(task, AbsTask) else f"{task!r} is none"
        raise RCPError(f"gains are for retrieval and reranking tasks of mteb, as objects or names; {what}")
    return task


def retrieval_tasks(tasks: Any) -> list[AbsTaskRetrieval]:
    """Tasks or their names, or one of them, as `retrieval_task` gives each.

    Raises
    ------
    RCPError
        If it is neither, and what `retrieval_task` refuses.
    """
    given = [tasks] if isinstance(tasks, (str, AbsTask)) else tasks
    if not isinstance(given, Iterable):
        raise RCPError(f"tasks must be tasks of mteb or their names, not {type(tasks).__name__}")
    return [retrieval_task(task) for task in given]


def own_name(task: AbsTask) -> str:
    """The task's name; of a wrapped task, that of the task itself."""
    return str(getattr(task, "wrapped_metadata", task.metadata).name)


def unshared(dataset: Any) -> Any:
    """The data of all subsets and splits in dicts of their own, which mteb changes when it evaluates."""
    if not isinstance(dataset, dict):
        return dataset
    return dict(dataset) if "corpus" in dataset else {name: unshared(part) for name, part in dataset.items()}


@cache
def _wrapping(own: Any) -> Any:
    return ABCMeta(own.__name__, (RCPTask, own), {"__module__": own.__module__, "__doc__": own.__doc__})


def _blank(own: Any) -> Any:
    """A task of the wrapped class without any state: nothing is seeded or loaded anew."""
    wrapping = _wrapping(own)
    return wrapping.__new__(wrapping)


def task_rules(task: AbsTaskRetrieval, k_values: Any, ties: Any, rules: Any, identical: bool | None) -> Rules:
    """The rules as given by a user for a task, but for the first result.

    Raises
    ------
    RCPError
        What `read_rules` refuses; cutoffs below the depth that mteb asks for; identical ids that mteb dropped before.
    """
    name, theirs = own_name(task), bool(task.ignore_identical_ids)
    how = read_rules(k_values, ties, rules, theirs if identical is None else identical)
    depth = max(task.k_values)
    if how.k_values[-1] > depth:
        raise RCPError(f"k_values up to {how.k_values[-1]}: mteb asks for {depth} documents a query on {name}")
    if theirs and not how.options.ignore_identical_ids:
        raise RCPError(f"mteb drops documents whose id is the query's on {name}, before anything is scored")
    return how


def asked_queries(dataset: Any, qrels: Mapping[str, Any] | None, subset: str, split: str) -> list[str] | None:
    """The queries of a split that a task scores, those with labels; None where it is not known.

    Parameters
    ----------
    qrels : mapping or None
        The split's labels by query; None: those in the data.
    """
    parts = dataset or {}
    part = parts.get(subset, parts).get(split) or {}
    labels = part.get("relevant_docs") if qrels is None else qrels
    if labels is None:
        return None
    known = set(part["queries"]["id"]) if "queries" in part else labels
    return [qid for qid, own in labels.items() if own and qid in known]
