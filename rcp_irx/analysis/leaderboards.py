"""The frames of a comparison: means, pairs, resolution and agreement of measures, of one dataset and of a suite.

`compare` reads the input and puts them together; the tests are in `significance`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import pandas as pd

from rcp_irx.analysis.gain_noise import noise_samples
from rcp_irx.analysis.results import QREL
from rcp_irx.analysis.significance import (
    LEVEL,
    REPLICATES,
    PairedT,
    decided_alike,
    detectable_difference,
    holm,
    interval,
    kendall_tau,
    pair_intervals,
    paired_t,
    pairs_of,
    ranks,
    resampled_means,
    resolution,
    wins_ties_losses,
)

Row: TypeAlias = dict[str, Any]

RCP, COUNT = "RCPnDCG", "CountnDCG"
SAMPLE, SAMPLE_AND_NOISE = "query sample", "judge noise and query sample"


@dataclass(frozen=True)
class Board:
    """One dataset's systems.

    Attributes
    ----------
    dataset : str
    systems : list of str
    scores : dict of str to float64 ndarray, each of shape (Q, S)
        By measure.
    coverage : float64 ndarray, shape (S,)
    answered : bool ndarray, shape (Q,)
        Whether some document of the query's pool reaches the easiest criterion.
    tests : dict of str to PairedT
        By measure, over all pairs.
    samples : dict of str to float64 ndarray, each of shape (replicates, S)
        Resampled means, by measure.
    noise : DataFrame, optional
        The covariance that the judge's noise gives the systems' mean RCPnDCG.
    """

    dataset: str
    systems: list[str]
    scores: dict[str, np.ndarray]
    coverage: np.ndarray
    answered: np.ndarray
    tests: dict[str, PairedT]
    samples: dict[str, np.ndarray]
    noise: pd.DataFrame | None = None

    @property
    def units(self) -> int:
        """How many queries, or clusters of queries, are drawn and tested."""
        return self.tests[RCP].df + 1


def board(
    dataset: str,
    scores: Mapping[str, pd.DataFrame],
    coverage: pd.DataFrame,
    answered: np.ndarray,
    clusters: np.ndarray | None,
    noise: pd.DataFrame | None,
    seed: int,
) -> Board:
    """A dataset's tests and resampled means; what is drawn depends on no other dataset and on no order of systems."""
    systems = list(coverage.columns)
    values = {measure: frame.to_numpy(dtype=np.float64) for measure, frame in scores.items()}
    codes = None if clusters is None else pd.factorize(clusters)[0]
    first, second = pairs_of(len(systems))
    tests = {measure: paired_t(of[:, first] - of[:, second], codes) for measure, of in values.items()}
    means = resampled_means(np.hstack(list(values.values())), [seed, *dataset.encode()], codes)
    samples = dict(zip(values, np.split(means, len(values), axis=1), strict=True))
    if noise is not None:
        samples[RCP] = samples[RCP] + noise_samples(noise, [seed, 1, *dataset.encode()], REPLICATES)[systems].to_numpy()
    return Board(dataset, systems, values, coverage.mean().to_numpy(), answered, tests, samples, noise)


def system_rows(of: Board) -> pd.DataFrame:
    """`Comparison.systems` of one dataset."""
    rows = []
    for measure, scores in of.scores.items():
        low, high = np.clip(interval(of.samples[measure]), 0.0, 1.0)
        frame = pd.DataFrame(
            {
                "dataset": of.dataset,
                "measure": measure,
                "system": of.systems,
                "n": len(scores),
                "mean": scores.mean(axis=0),
                "low": low,
                "high": high,
                "interval": _interval(measure, of.noise is not None),
                "rank": ranks(scores.mean(axis=0)),
                "coverage": of.coverage,
                "mean_answered": scores[of.answered].mean(axis=0) if of.answered.any() else np.nan,
            }
        )
        if of.noise is not None:
            variance = np.diag(of.noise.loc[of.systems, of.systems])
            frame["noise_se"] = np.sqrt(variance) if measure == RCP else np.nan
        rows.append(frame)
    return pd.concat(rows, ignore_index=True)


def pair_rows(of: Board) -> pd.DataFrame:
    """`Comparison.pairs` of one dataset."""
    first, second = pairs_of(len(of.systems))
    rows = []
    for measure, test in of.tests.items():
        scores = of.scores[measure]
        low, high = pair_intervals(of.samples[measure])
        wins, ties, losses = wins_ties_losses(scores[:, first] - scores[:, second])
        frame = pd.DataFrame(
            {
                "dataset": of.dataset,
                "measure": measure,
                **_named_pairs(of.systems),
                "n": len(scores),
                "difference": test.mean,
                "low": low,
                "high": high,
                "interval": _interval(measure, of.noise is not None),
                "t": test.t,
                "p": test.p,
                "p_holm": holm(test.p),
                "wins": wins,
                "ties": ties,
                "losses": losses,
                "detectable": detectable_difference(test.se, test.df),
            }
        )
        if of.noise is not None:
            own = of.noise.loc[of.systems, of.systems].to_numpy()
            variance = own[first, first] + own[second, second] - 2 * own[first, second]
            frame["noise_se"] = np.sqrt(np.clip(variance, 0.0, None)) if measure == RCP else np.nan
        rows.append(frame)
    return pd.concat(rows, ignore_index=True)


def resolution_rows(of: Board, kept: np.ndarray | None = None) -> list[Row]:
    """Rows of `Comparison.resolution` of one dataset, over some of its systems (bool, shape (S,)) or all."""
    systems, pairs = _kept(of, kept)
    rows = []
    for measure, test in of.tests.items():
        p, means = test.p[pairs], of.scores[measure].mean(axis=0)
        detectable = detectable_difference(test.se[pairs], test.df)
        rows.append(
            {
                "dataset": of.dataset,
                "measure": measure,
                "systems": int(systems.sum()),
                "best": of.systems[int(np.argmax(np.where(systems, means, -np.inf)))] if systems.any() else "",
                "pairs": len(p),
                "separated": int(np.sum(p < LEVEL)),
                "separated_holm": int(np.sum(holm(p) < LEVEL)),
                "resolution": resolution(p),
                "detectable": _median(detectable),
            }
        )
    return rows


def agreement_rows(of: Board, kept: np.ndarray | None = None) -> list[Row]:
    """Rows of `Comparison.agreement` of one dataset, over some of its systems (bool, shape (S,)) or all."""
    systems, pairs = _kept(of, kept)
    rows = []
    for measure, reference in [(RCP, QREL), (COUNT, QREL), (RCP, COUNT)]:
        if measure not in of.scores or reference not in of.scores:
            continue
        ours, theirs = (_subset(of.tests[name], pairs) for name in (measure, reference))
        alike = decided_alike(theirs, ours)
        means = [of.scores[name].mean(axis=0)[systems] for name in (measure, reference)]
        rows.append(
            {
                "dataset": of.dataset,
                "measure": measure,
                "reference": reference,
                "kendall_tau": kendall_tau(*means),
                "reference_separated": alike.separated,
                "same_winner": alike.same_winner,
                "separated_alike": alike.separated_alike,
                "separated_opposite": alike.separated_opposite,
            }
        )
    return rows


def family_rows(boards: Sequence[Board], family: Mapping[str, str]) -> list[Row]:
    """Rows of `Comparison.families`: what is left of resolution and of agreement with nDCG without each family."""
    rows = []
    for of in boards:
        own = np.array([family[system] for system in of.systems], dtype=object)
        for left_out in ["", *sorted(set(own))]:
            kept = own != left_out
            agreed = {row["measure"]: row for row in agreement_rows(of, kept) if row["reference"] == QREL}
            for row in resolution_rows(of, kept):
                changed = _changed(of, row["measure"], kept)
                more = agreed.get(row["measure"], {})
                more = {name: value for name, value in more.items() if name not in ("dataset", "measure", "reference")}
                rows.append({"dataset": of.dataset, "left_out": left_out, **row, "changed_holm": changed, **more})
    return rows


def suite_rows(boards: Sequence[Board]) -> tuple[pd.DataFrame, pd.DataFrame]:
    """`Comparison.suite` and `Comparison.suite_pairs`; empty for one dataset."""
    if len(boards) < 2:
        return pd.DataFrame(), pd.DataFrame()
    systems, first, second = boards[0].systems, *pairs_of(len(boards[0].systems))
    rows, pairs = [], []
    for measure in boards[0].scores:
        means = np.mean([of.scores[measure].mean(axis=0) for of in boards], axis=0)
        samples = np.mean([of.samples[measure] for of in boards], axis=0)
        common = {"measure": measure, "datasets": len(boards)}
        kind = _interval(measure, boards[0].noise is not None)
        low, high = np.clip(interval(samples), 0.0, 1.0)
        ends = {"low": low, "high": high, "interval": kind}
        rows.append(pd.DataFrame({**common, "system": systems, "mean": means, **ends, "rank": ranks(means)}))
        low, high = pair_intervals(samples)
        ends = {"low": low, "high": high, "interval": kind}
        differences = means[first] - means[second]
        pairs.append(pd.DataFrame({**common, **_named_pairs(systems), "difference": differences, **ends}))
    return pd.concat(rows, ignore_index=True), pd.concat(pairs, ignore_index=True)


def _median(values: np.ndarray) -> float:
    """The median of the values that are known; NaN of none."""
    known = values[~np.isnan(values)]
    return float(np.median(known)) if len(known) else np.nan


def _kept(of: Board, kept: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The chosen systems and the pairs among them (bool, shapes (S,) and (P,))."""
    systems = np.ones(len(of.systems), dtype=bool) if kept is None else kept
    first, second = pairs_of(len(of.systems))
    return systems, systems[first] & systems[second]


def _subset(test: PairedT, pairs: np.ndarray) -> PairedT:
    return PairedT(test.mean[pairs], test.se[pairs], test.t[pairs], test.p[pairs], test.df)


def _changed(of: Board, measure: str, kept: np.ndarray) -> int:
    """How many of the pairs that stay are decided otherwise by Holm once the others are gone."""
    _, pairs = _kept(of, kept)
    p = of.tests[measure].p
    return int(np.sum((holm(p)[pairs] < LEVEL) != (holm(p[pairs]) < LEVEL)))


def _named_pairs(systems: list[str]) -> dict[str, list[str]]:
    first, second = pairs_of(len(systems))
    return {"system_a": [systems[a] for a in first], "system_b": [systems[b] for b in second]}


def _interval(measure: str, noisy: bool) -> str:
    return SAMPLE_AND_NOISE if noisy and measure == RCP else SAMPLE
