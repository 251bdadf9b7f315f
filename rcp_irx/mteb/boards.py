"""`leaderboard`: models x tasks under several metrics, with ranks; reading mteb's results is `results`' work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import pandas as pd

from rcp_irx.errors import RCPError, examples, warn
from rcp_irx.evaluation.coverage import LEAST_COVERAGE, ROUNDING
from rcp_irx.mteb.results import COUNT, JUDGED, LABELS, PART, RCP, WITHOUT, Given, by_task, gaps, result_rows, stamps

MEAN, RANK, CHANGE = "mean", "rank", "change"
LOW = " *"
"""What marks a task of low coverage."""
SECOND = "second judge, "
SAME = 1e-4
"""Up to which difference two nDCG on labels are the same, as mteb rounds them."""


def leaderboard(
    results: Given, second: Given | None = None, *, k: int = 10, several_fits: bool = False
) -> pd.DataFrame:
    """Models x tasks under nDCG on the tasks' own labels, Count-nDCG and RCP-nDCG, as in Tables 11 and 14.

    Parameters
    ----------
    results : BenchmarkResults, ModelResult or iterable of ModelResult
        Results of wrapped tasks (`cache.load_results(tasks=...)`, what `mteb.evaluate` gives); others are passed over.
    second : same, optional
        Results of the same tasks, splits, subsets and data with the gains of a second judge (wrapped with another
        `suffix`).
    k : int
        The cutoff.
    several_fits : bool
        Whether gains of several fits are let through. Their means over tasks are then marked.

    Returns
    -------
    DataFrame
        Index: the models, best mean RCP-nDCG first. Columns (block, task): the blocks `nDCG@k`, `CountnDCG@k` (where
        the gains have pass counts), `RCPnDCG@k`, `second RCPnDCG@k` (where given) and `RCPJudged@k`, each with its
        tasks (mean over splits and subsets) and their `mean`; but for RCPJudged also the `rank` by that mean (1 is
        best), and but for nDCG `change`, the places gained (positive) or lost against the rank under nDCG. ` *` marks
        tasks where less than 95% of some model's top k has a gain in some split and subset. A model without some task,
        split or subset has NaN there, and no mean, rank or change. `frame.attrs["notes"]` says in sentences what a
        reader has to know.

    Raises
    ------
    RCPError
        No results of wrapped tasks; results of several judges (suffixes) at once; results of one task with different
        gains or options; gains of several fits; a second judge with other tasks, splits, subsets or data, or with the
        same gains and rules as the first, or no model in common.

    Warns
    -----
    RCPWarning
        For models that miss tasks, splits or subsets; for low coverage, queries without gains, several fits; for a
        second judge's scores of other runs or under other rules.

    Notes
    -----
    Levels of different metrics are never subtracted: they are not on one scale, and only ranks compare. mteb's result
    files hold no per-query values, so that no test of a difference can be made from them: `score_predictions(...,
    per_query=True)` gives such values.
    """
    rows = result_rows(results, "results", k, several_fits)
    others = None if second is None else result_rows(second, "second", k, several_fits)
    blocks = _blocks(rows, others, k)
    means = {block.name: block.mean for block in blocks}
    ranks = _ranks([block for block in blocks if block.ranked])
    columns: dict[tuple[str, str], pd.Series] = {}
    for block in blocks:
        columns |= {(block.name, block.label(task)): block.scores[task] for task in block.scores.columns}
        columns[block.name, block.mean_label] = means[block.name]
        if block.ranked:
            columns[block.name, RANK] = ranks[block.name]
        if block.compared:
            columns[block.name, CHANGE] = ranks[f"{LABELS}@{k}"] - ranks[block.name]
    best_first = means[f"{RCP}@{k}"].sort_values(ascending=False, kind="stable").index
    board = pd.DataFrame(columns).loc[best_first].rename_axis("model")
    concerns = _concerns(rows, others, blocks, k)
    for concern in concerns:
        warn(concern)
    board.attrs["notes"] = [
        "Ranks compare across metrics; levels do not, as the metrics are not on one scale.",
        "mteb's result files hold no per-query values: no difference in this table can be tested. "
        "score_predictions(..., per_query=True) gives such values.",
        *concerns,
    ]
    return board


@dataclass(frozen=True)
class Block:
    """The scores of one metric, models x tasks; the tasks of low coverage with what is to be said of each."""

    name: str
    scores: pd.DataFrame
    low: Mapping[str, str] = field(default_factory=dict)
    ranked: bool = True
    compared: bool = True
    fits: int = 1

    @property
    def mean(self) -> pd.Series:
        """The mean over tasks; NaN for a model that misses one."""
        return self.scores.mean(axis=1, skipna=False)

    @property
    def mean_label(self) -> str:
        """The mean's column, which says so where the gains come from several fits."""
        return MEAN if self.fits == 1 else f"{MEAN} of {self.fits} fits"

    def label(self, task: str) -> str:
        """The task's column."""
        return task + LOW if task in self.low else task


def _blocks(rows: pd.DataFrame, others: pd.DataFrame | None, k: int) -> list[Block]:
    low, fits = _low(rows), len(_fits(rows))
    counts = by_task(rows, COUNT)
    blocks = [Block(f"{LABELS}@{k}", by_task(rows, LABELS), compared=False)]
    if counts.notna().any(axis=None):
        blocks.append(Block(f"{COUNT}@{k}", counts, low))
    blocks.append(Block(f"{RCP}@{k}", by_task(rows, RCP), low, fits=fits))
    if others is not None:
        _refuse_no_second(others, rows)
        scores = by_task(others, RCP).reindex_like(blocks[0].scores)
        others = others[others["model"].isin(rows["model"])]
        blocks.append(Block(f"second {RCP}@{k}", scores, _low(others, SECOND), fits=len(_fits(others))))
    blocks.append(Block(f"{JUDGED}@{k}", by_task(rows, JUDGED), low, ranked=False, compared=False))
    return blocks


def _refuse_no_second(second: pd.DataFrame, first: pd.DataFrame) -> None:
    """Refuse results that are not a second judge's of the same tasks, splits, subsets and data."""
    if set(second["task"]) != set(first["task"]):
        raise RCPError(
            f"the second judge's results are of {examples(second['task'])}, the first's of {examples(first['task'])}; "
            "they must be of the same tasks"
        )
    pairs = {task: (of, stamps(second)[task]) for task, of in stamps(first).items()}
    same = [task for task, (one, other) in pairs.items() if one.judged == other.judged]
    if same:
        raise RCPError(f"the second judge's results of {examples(same)} are of the same gains and rules as the first's")
    moved = [(task, one.data, other.data) for task, (one, other) in pairs.items() if one.data != other.data]
    if moved:
        raise RCPError(f"the second judge's results are on other data: task, revisions {examples(moved)}")
    if set(first["model"]).isdisjoint(second["model"]):
        raise RCPError(
            f"the judges' results share no model; the first's are of {examples(first['model'])}, the second's of "
            f"{examples(second['model'])}"
        )
    ours, theirs = (set(rows[PART].itertuples(index=False, name=None)) for rows in (first, second))
    if ours != theirs:
        raise RCPError(
            "the judges' results must be of the same splits and subsets; task, split, subset that only the first has "
            f"{examples(ours - theirs) or 'none'}, and only the second {examples(theirs - ours) or 'none'}"
        )


def _ranks(blocks: Sequence[Block]) -> dict[str, pd.Series]:
    """The ranks under each metric, 1 the best, among the models that have a mean under all of them."""
    means = pd.DataFrame({block.name: block.mean for block in blocks})
    whole = means.dropna(axis=1, how="all").notna().all(axis=1)
    ranks = means[whole].rank(ascending=False, method="min").reindex(means.index).astype("Int64")
    return {str(name): ranks[name] for name in ranks.columns}


def _fits(rows: pd.DataFrame) -> set[str]:
    return {fit for said in stamps(rows).values() for fit in said.fits}


def _low(rows: pd.DataFrame, whose: str = "") -> dict[str, str]:
    """The tasks with a split and subset of low coverage, each with its least share and the model that has it."""
    low = rows[rows[JUDGED] < LEAST_COVERAGE - ROUNDING].sort_values(JUDGED, kind="stable").drop_duplicates("task")
    found = low[["task", "subset", "split", JUDGED, "model"]].itertuples(index=False, name=None)
    return {
        task: f"{whose}{task}, {subset}, {split}: {share:.3f} for {model}"
        for task, subset, split, share, model in found
    }


def _concerns(rows: pd.DataFrame, others: pd.DataFrame | None, blocks: Sequence[Block], k: int) -> list[str]:
    """What limits this very table."""
    concerns = []
    low = dict.fromkeys(text for block in blocks for text in block.low.values())
    if low:
        share = f"{LEAST_COVERAGE:.0%} of a model's top {k}"
        concerns.append(
            f"{LOW.strip()} less than {share} has a gain, and a document without one counts 0: {'; '.join(low)}"
        )
    without = _without(rows)
    if others is not None:
        without += _without(others[others["model"].isin(rows["model"])], SECOND)
    if without:
        concerns.append(f"queries without gains count in nDCG and not in the other scores: {'; '.join(without)}")
    fits = max(block.fits for block in blocks)
    if fits > 1:
        concerns.append(f"the gains come from {fits} fits, whose scores are not comparable with each other")
    missing = gaps(rows)
    if missing:
        concerns.append(f"no result, and so neither mean nor rank: model, task, split, subset {examples(missing)}")
    return concerns if others is None else concerns + _concerns_of_second(rows, others)


def _concerns_of_second(rows: pd.DataFrame, others: pd.DataFrame) -> list[str]:
    """What limits the comparison with the second judge."""
    concerns = []
    ours, theirs = set(rows["model"]), set(others["model"])
    if ours - theirs:
        concerns.append(f"no result of the second judge for model {examples(ours - theirs)}, which gets no rank")
    if theirs - ours:
        concerns.append(f"no result of the first judge for model {examples(theirs - ours)}, which is left out")
    missing = [gap for gap in gaps(others) if gap[0] in ours]
    if missing:
        concerns.append(
            "no result of the second judge, and so neither mean nor rank: model, task, split, subset "
            f"{examples(missing)}"
        )
    both = rows.merge(others, on=["model", *PART], suffixes=("", " second"))
    apart = both[(both[LABELS] - both[f"{LABELS} second"]).abs() > SAME]
    if len(apart):
        found = examples(apart[["model", *PART]].itertuples(index=False, name=None))
        concerns.append(
            "the two judges' results are of other runs, as their nDCG on the labels differs: model, task, split, "
            f"subset {found}"
        )
    options = [(task, said.options, stamps(others)[task].options) for task, said in stamps(rows).items()]
    differing = [entry for entry in options if entry[1] != entry[2]]
    if differing:
        concerns.append(f"the two judges' scores follow other rules; task, rules: {examples(differing)}")
    return concerns


def _without(rows: pd.DataFrame, whose: str = "") -> list[str]:
    """The splits and subsets with queries without gains, and their numbers."""
    without = rows[rows[WITHOUT] > 0].drop_duplicates(PART)
    found = without[["task", "subset", "split", WITHOUT]].itertuples(index=False, name=None)
    return [f"{whose}{task}, {subset}, {split}: {int(number)}" for task, subset, split, number in found]
