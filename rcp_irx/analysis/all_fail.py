"""Documents that fail every criterion in every window, and what a gain of 0 for them would change (Section I.3)."""

from __future__ import annotations

import itertools
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy.stats import ttest_rel

from rcp_irx.analysis.calibration_checks import FloatArray
from rcp_irx.analysis.fitted import Fitted, Tops

LEVEL = 0.05


class Decisions(NamedTuple):
    """How paired t-tests decide every pair of systems before and after a change of the gains: numbers of pairs.

    `changed`: separated before or after, and not both. `reversed`: separated before, with the other winner after.
    """

    pairs: int
    separated: int
    separated_after: int
    changed: int
    reversed: int


def decisions(before: ArrayLike, after: ArrayLike) -> Decisions:
    """Two-sided paired t-tests of every pair at the 5% level (Section B.2).

    Parameters
    ----------
    before, after : (Q, S)
        Scores, queries by systems. Fewer than two queries separate nothing.
    """
    mean, separated = _tests(before)
    mean_after, separated_after = _tests(after)
    return Decisions(
        len(mean),
        int(separated.sum()),
        int(separated_after.sum()),
        int((separated != separated_after).sum()),
        int((separated & (np.sign(mean) * np.sign(mean_after) < 0)).sum()),
    )


def all_fail_rows(fitted: Fitted, k: int) -> pd.DataFrame:
    """Per dataset, how many documents fail everything and what their gains amount to.

    Returns
    -------
    DataFrame
        `dataset, documents, placed, all_fail, share` (of the pool), `mean_gain` (of those), `ideal_share` (of the
        ideal DCG@k they hold, mean over queries).
    """
    fails = fitted.all_fail
    dataset = fitted.documents["dataset"].to_numpy()
    top = fitted.ideal(k)
    rank = np.arange(top.size) - np.searchsorted(fitted.query[top], fitted.query[top])
    worth = fitted.gain[top] / np.log2(rank + 2.0)
    queries = len(fitted.queries)
    ideal = np.bincount(fitted.query[top], worth, queries)
    part = np.bincount(fitted.query[top], worth * fails[top], queries)
    held = np.divide(part, ideal, out=np.full(queries, np.nan), where=ideal > 0)
    rows = []
    for name in fitted.table.datasets:
        here = dataset == name
        those = here & fails
        of = held[(fitted.queries["dataset"] == name).to_numpy()]
        rows.append(
            {
                "dataset": name,
                "documents": int(here.sum()),
                "placed": int((here & (fitted.n > 0)).sum()),
                "all_fail": int(those.sum()),
                "share": those.sum() / here.sum() if here.any() else np.nan,
                "mean_gain": fitted.gain[those].mean() if those.any() else np.nan,
                "ideal_share": np.nanmean(of) if np.isfinite(of).any() else np.nan,
            }
        )
    return pd.DataFrame(rows)


def zeroed_rows(fitted: Fitted, tops: Tops) -> pd.DataFrame:
    """Per dataset, what RCP-nDCG@k decides between the runs, and what it would decide were those gains 0.

    Returns
    -------
    DataFrame
        `dataset, queries, pairs, separated, separated_zeroed, changed, reversed` (pairs), `largest_change` (of a
        system's mean, signed) and `system` (whose it is).
    """
    before = tops.ndcg(fitted.gain)
    after = tops.ndcg(np.where(fitted.all_fail, 0.0, fitted.gain))
    names = list(tops.top)
    rows = []
    for dataset in fitted.table.datasets:
        here = (fitted.queries["dataset"] == dataset).to_numpy()
        if not here.any():
            continue
        found = decisions(before[here], after[here])
        change = after[here].mean(axis=0) - before[here].mean(axis=0)
        most = int(np.abs(change).argmax())
        rows.append(
            {
                "dataset": dataset,
                "queries": int(here.sum()),
                "pairs": found.pairs,
                "separated": found.separated,
                "separated_zeroed": found.separated_after,
                "changed": found.changed,
                "reversed": found.reversed,
                "largest_change": change[most],
                "system": names[most],
            }
        )
    return pd.DataFrame(rows)


def _tests(scores: ArrayLike) -> tuple[FloatArray, NDArray[np.bool_]]:
    """The mean difference of every pair, and whether it is separated."""
    values = np.asarray(scores, dtype=np.float64)
    pairs = list(itertools.combinations(range(values.shape[1]), 2))
    if not pairs:
        return np.zeros(0), np.zeros(0, dtype=bool)
    first, second = (values[:, list(side)] for side in zip(*pairs, strict=True))
    mean: FloatArray = (first - second).mean(axis=0)
    if len(values) < 2:
        return mean, np.zeros(len(pairs), dtype=bool)
    alike = np.ptp(first - second, axis=0) == 0  # no spread: the same winner everywhere, or no difference at all
    with np.errstate(divide="ignore", invalid="ignore"):
        p = ttest_rel(first[:, ~alike], second[:, ~alike]).pvalue
    separated = mean != 0
    separated[~alike] = p < LEVEL
    return mean, separated
