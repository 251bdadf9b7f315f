"""`replay_budget`: what the leaderboard would have been with a part of a log's judgments (C.4).

It compares the gains with themselves, never with people.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np
import pandas as pd

from rcp_irx.analysis.results import Results, Runs, read_runs, score_runs
from rcp_irx.analysis.screen import screen, table
from rcp_irx.analysis.significance import LEVEL, differences_of, kendall_tau, paired_t, pairs_of, ranks
from rcp_irx.analysis.subsamples import judgments, listed, part, rubric_of, unfinished_notes
from rcp_irx.errors import RCPError, RCPWarning, examples, whole
from rcp_irx.gains import GainTable
from rcp_irx.judging.calibrate import JudgedPool, calibrate
from rcp_irx.judging.log import JudgmentLog
from rcp_irx.judging.rubric import Rubric

MEASURE = "RCPnDCG"


@dataclass(frozen=True, eq=False, repr=False)
class BudgetReplay:
    """How a leaderboard holds when a part of the judgments makes it.

    Attributes
    ----------
    k : int
        The measure is RCP-nDCG@k.
    budgets : DataFrame
        One row per dataset and share: `dataset, share, kept` (share of the judgments of a document, mean over samples),
        `samples, largest_change` (of a system's mean, mean over samples), `worst_change` (of any sample),
        `kendall_tau` (of the leaderboard with the whole log's, mean over samples), `worst_tau, separated` (pairs of
        systems that the whole log separates), `reversals` (how often one of them has the other sign, all samples).
    samples : DataFrame
        The same for each sample, and the `system` that changed most.
    leaderboard : DataFrame
        One row per dataset and system: `mean` and `rank` under the whole log; per share the mean over samples
        (`mean_0.5`), and the standard deviation between samples (`sd_0.5`).
    reversed_pairs : DataFrame
        Every reversal: `dataset, share, sample, system_1, system_2, difference, p` (whole log), `sample_difference`.
    warnings : list of str
    """

    k: int
    budgets: pd.DataFrame
    samples: pd.DataFrame
    leaderboard: pd.DataFrame
    reversed_pairs: pd.DataFrame
    warnings: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        shown = self.budgets if self.budgets["dataset"].nunique() > 1 else self.budgets.drop(columns="dataset")
        heading = f"RCP-nDCG@{self.k} from random parts of the judgments, against that from all of them"
        return screen(heading, ["\n" + table(shown, " in .budgets")], self.warnings)

    __repr__ = __str__


def replay_budget(
    log: JudgmentLog,
    shares: float | Sequence[float],
    runs: Runs,
    *,
    k: int = 10,
    samples: int = 5,
    seed: int = 42,
    ties: str | None = None,
    datasets: Iterable[str] | None = None,
    judge: str | None = None,
    rubric: Rubric | str | None = None,
    excluded: pd.DataFrame | None = None,
    max_failed: float = 0.05,
    incomplete: str = "refuse",
    leave_out: Iterable[str | tuple[str, ...]] = (),
) -> BudgetReplay:
    """Fit both stages again on random parts of each query's windows, and compare the leaderboards (C.4).

    A part holds a share of the windows of each stage, a window and its reversal together, and as many more as it takes
    to show every document once; `kept` says what that comes to. All shares of a sample follow one random order.

    Parameters
    ----------
    log : JudgmentLog
    shares : float or sequence of float
        Above 0, up to 1; the paper takes a half and a third.
    runs : mapping of str to DataFrame or path
        The systems to score.
    samples : int
        Random parts for each share.
    ties : str, optional
        As in `evaluation.ndcg`.
    datasets, judge, rubric, excluded, max_failed, incomplete, leave_out
        As in `JudgmentLog.calibrate`.

    Raises
    ------
    RCPError
        A share or number of samples that cannot be; what the calibration refuses; unreadable runs.

    Notes
    -----
    The adaptive windows were chosen with all answers at hand, so a run that really asks fewer would choose others; a
    judge cannot be replayed on windows that it was never asked. A pair is separated where the paired t-test has
    p < .05 (B.2), not corrected for the number of pairs.
    """
    wanted = _checked(log, shares, samples)
    whole("seed", seed, 0)
    datasets, leave_out = listed(datasets), listed(leave_out) or []
    gains = log.calibrate(
        datasets=datasets,
        judge=judge,
        rubric=rubric,
        excluded=excluded,
        max_failed=max_failed,
        incomplete=incomplete,
        leave_out=leave_out,
    )
    held = set(gains.queries[["dataset", "qid"]].itertuples(index=False, name=None))
    name, digest = str(gains.metadata["judge"]), str(gains.metadata["rubric"])
    judged = [one for one in log.judged(datasets=datasets, judge=name, rubric=digest) if one.key in held]
    frames = read_runs(runs)
    reference = score_runs(frames, gains, k=k, ties=ties)
    left = _documents_left_out(judged, leave_out)
    rows, boards, reversed_pairs, doubts = [], [], [], dict.fromkeys(wanted, "")
    for sample in range(samples):
        for share in wanted:
            generator = np.random.default_rng([seed, sample])
            parts = [part(one, share, generator) for one in judged]
            table, doubt = _fitted(parts, gains, left, excluded)
            doubts[share] = doubts[share] or doubt
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RCPWarning)  # of the runs: said of the whole log
                found = score_runs(frames, table, k=k, ties=ties)
            kept = _kept(judged, parts)
            for dataset in gains.datasets:
                place = {"dataset": dataset, "share": share, "sample": sample}
                row, pairs = _compared(_of(reference, dataset), _of(found, dataset))
                rows.append({**place, "kept": kept[dataset], **row})
                reversed_pairs += [{**place, **pair} for pair in pairs]
                means = _of(found, dataset).mean()
                boards.append(pd.DataFrame({**place, "system": means.index, "mean": means.to_numpy()}))
    detail = pd.DataFrame(rows)
    columns = "dataset share sample system_1 system_2 difference p sample_difference".split()
    turned = pd.DataFrame(reversed_pairs, columns=columns)
    notes = unfinished_notes(gains, leave_out)
    notes += [f"at {_percent(share)} {text}" for share, text in doubts.items() if text]
    notes += _reversal_notes(turned)
    return BudgetReplay(k, _summed(detail), detail, _leaderboard(reference, pd.concat(boards)), turned, notes)


def _checked(log: JudgmentLog, shares: float | Sequence[float], samples: int) -> list[float]:
    """The shares as a list, each once."""
    if not isinstance(log, JudgmentLog):
        raise RCPError(f"log must be a JudgmentLog, such as JudgmentLog('dl19.judgments'), not {log!r}")
    given = np.ravel(np.asarray(shares, dtype=object)).tolist()
    if not given or not all(isinstance(share, (int, float, np.number)) and 0 < share <= 1 for share in given):
        raise RCPError(f"shares are above 0 and up to 1, such as (1/2, 1/3); not {shares!r}")
    names = [f"{share:.3g}" for share in dict.fromkeys(given)]
    if len(set(names)) < len(names):
        raise RCPError(f"shares differ in their first three digits; {shares!r} do not")
    whole("samples", samples)
    return [float(share) for share in dict.fromkeys(given)]


def _documents_left_out(
    judged: Sequence[JudgedPool], leave_out: Sequence[str | tuple[str, ...]]
) -> list[tuple[str, ...]]:
    """The single documents of these queries that are to get no gain."""
    held = {one.key for one in judged}
    named = [tuple(key) for key in leave_out if not isinstance(key, str)]
    return [key for key in named if len(key) == 3 and key[:2] in held]


def _fitted(
    parts: Sequence[JudgedPool], gains: GainTable, left: Sequence[tuple[str, ...]], excluded: pd.DataFrame | None
) -> tuple[GainTable, str]:
    """The gains of a part, and what its calibration warned of."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", RCPWarning)
        table = calibrate(parts, rubric_of(gains), excluded=excluded, max_failed=1.0, leave_out=left)
    said = [str(w.message) for w in caught if issubclass(w.category, RCPWarning)]
    return table, f"of the windows the calibration says: {said[0]}" if said else ""


def _kept(judged: Sequence[JudgedPool], parts: Sequence[JudgedPool]) -> dict[str, float]:
    """The share of the judgments that the parts hold, by dataset."""
    counts = pd.DataFrame(
        [(one.key[0], judgments(one), judgments(less)) for one, less in zip(judged, parts, strict=True)],
        columns=["dataset", "all", "part"],
    )
    sums = counts.groupby("dataset").sum()
    return dict(zip(sums.index, sums["part"] / sums["all"], strict=True))


def _of(results: Results, dataset: str) -> pd.DataFrame:
    """The scores of one dataset, queries by systems."""
    scores = results.scores[MEASURE]
    return scores[scores.index.get_level_values("dataset") == dataset]


def _compared(reference: pd.DataFrame, found: pd.DataFrame) -> tuple[dict[str, object], list[dict[str, object]]]:
    """How the means of a part differ from the whole log's, and the pairs that it reverses."""
    systems = list(reference.columns)
    change = (found.mean() - reference.mean()).abs()
    difference, _, _, p, _ = paired_t(differences_of(reference))
    other = paired_t(differences_of(found)).mean
    separated = p < LEVEL
    turned = separated & (np.sign(other) == -np.sign(difference)) & (difference != 0)
    first, second = pairs_of(len(systems))
    pairs = [
        {
            "system_1": systems[first[i]],
            "system_2": systems[second[i]],
            "difference": difference[i],
            "p": p[i],
            "sample_difference": other[i],
        }
        for i in np.flatnonzero(turned)
    ]
    row = {
        "largest_change": float(change.max()),
        "system": change.idxmax(),
        "kendall_tau": kendall_tau(reference.mean(), found.mean()),
        "separated": int(separated.sum()),
        "reversals": int(turned.sum()),
    }
    return row, pairs


def _summed(detail: pd.DataFrame) -> pd.DataFrame:
    """The samples of each dataset and share as one row."""
    return (
        detail.groupby(["dataset", "share"], sort=False)
        .agg(
            kept=("kept", "mean"),
            samples=("sample", "count"),
            largest_change=("largest_change", "mean"),
            worst_change=("largest_change", "max"),
            kendall_tau=("kendall_tau", "mean"),
            worst_tau=("kendall_tau", "min"),
            separated=("separated", "first"),
            reversals=("reversals", "sum"),
        )
        .reset_index()
    )


def _leaderboard(reference: Results, boards: pd.DataFrame) -> pd.DataFrame:
    """Every system's mean under the whole log and under each share."""
    found = []
    for dataset in dict.fromkeys(boards["dataset"]):
        means = _of(reference, dataset).mean()
        table = pd.DataFrame({"dataset": dataset, "system": means.index, "mean": means.to_numpy()})
        table["rank"] = ranks(means)
        for share, rows in boards[boards["dataset"] == dataset].groupby("share", sort=False):
            grouped = rows.groupby("system")["mean"]
            table[f"mean_{share:.3g}"] = table["system"].map(grouped.mean())
            table[f"sd_{share:.3g}"] = table["system"].map(grouped.std())
        found.append(table.sort_values("rank", kind="stable"))
    return pd.concat(found, ignore_index=True)


def _reversal_notes(turned: pd.DataFrame) -> list[str]:
    notes = []
    for share in dict.fromkeys(turned["share"]):
        rows = turned[turned["share"] == share]
        pairs = examples(rows[["dataset", "system_1", "system_2"]].itertuples(index=False, name=None))
        notes.append(f"at {_percent(share)} pairs that all judgments separate change sides in some sample: {pairs}")
    return notes


def _percent(share: float) -> str:
    return f"{share:.1%}".replace(".0%", "%")
