"""Whether criteria fitted on some queries hold on others (Section E.1), and which of them would do (Section G.6)."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pandas as pd
from scipy.special import logit

from rcp_irx.analysis import signs
from rcp_irx.analysis.calibration_checks import FloatArray, cross_entropy, information_efficiency
from rcp_irx.analysis.fitted import Fitted, IntArray, read_fitted
from rcp_irx.analysis.screen import screen, table
from rcp_irx.calibration import TwoPLFit, fit_2pl
from rcp_irx.errors import RCPError, counted, examples, whole
from rcp_irx.evaluation.options import whole_cutoff
from rcp_irx.gains import GainTable
from rcp_irx.judging.log import JudgmentLog

FOLDS = 5
MOST_CRITERIA = 8

Frozen: TypeAlias = "tuple[FloatArray, FloatArray]"


@dataclass(frozen=True, eq=False, repr=False)
class Transfer:
    """How well each group's answers are predicted by criteria that were fitted without it.

    Attributes
    ----------
    groups : DataFrame
        One row per held-out dataset or fold: `group, queries, answers`; the mean binary cross-entropy of its answers
        (nats) under the training groups' pass rates (`baseline`), under their criteria (`bce`), under these with every
        discrimination 1 (`rasch`), and under the criteria of a fit to all groups (`bce_all`); `reduction` (1 - bce /
        baseline). Scales and offsets are the held-out queries' own throughout.
    reduction : float
        Of the mean over groups. The paper's fits: 0.465 to 0.641.
    rasch_increase : float
        By how much of itself the mean rises with every discrimination 1. The paper's fits: 0.011 to 0.024.
    criteria : DataFrame
        The training fits: `group, id, gamma, beta`.
    warnings : list of str
    """

    groups: pd.DataFrame
    reduction: float
    rasch_increase: float
    criteria: pd.DataFrame
    warnings: list[str]

    def __repr__(self) -> str:
        known = int((self.groups["answers"] > 0).sum())
        without = len(self.groups) - known
        against = f"{-self.reduction:+.1%}" if np.isfinite(self.reduction) else "no number"
        head = (
            f"Transfer to {counted(known, 'held-out group')}{f' ({without} without answers)' if without else ''}:"
            f" cross-entropy {against} against pass rates; {self.rasch_increase:+.1%} with every discrimination 1"
        )
        return screen(head, [table(self.groups)], self.warnings)


@dataclass(frozen=True, eq=False, repr=False)
class RubricSubsets:
    """How precise each part of the rubric is where the best documents are.

    Attributes
    ----------
    subsets : DataFrame
        One row per subset, the most efficient first: `criteria` (ids), `size, efficiency` (at the ideal top k),
        `converged` (whether its fit did), `rank`.
    warnings : list of str
    k : int
    """

    subsets: pd.DataFrame
    warnings: list[str]
    k: int

    def __repr__(self) -> str:
        head = (
            f"{counted(len(self.subsets), 'subset')} of the rubric by information efficiency at the ideal top {self.k}"
        )
        shown = self.subsets.assign(criteria=self.subsets["criteria"].map(" ".join))
        return screen(head, [table(shown)], self.warnings)


def transfer(gains_or_log: GainTable | JudgmentLog, *, folds: int | None = None, seed: int = 42) -> Transfer:
    """Fit the criteria on all groups but one, freeze them, and predict that group's answers, each group in turn.

    Parameters
    ----------
    gains_or_log : GainTable or JudgmentLog
        With Stage A scores, placements and pass counts; a log is calibrated with its defaults.
    folds : int, optional
        Groups are so many random parts of the queries. Where not given, they are the datasets, or 5 folds of one
        dataset (fewer where there are fewer queries).
    seed : int
        Of the parts.

    Raises
    ------
    RCPError
        One query; more folds than queries or fewer than 2; scores or counts that were not released; training queries
        that leave a criterion without an answer.
    """
    fitted = read_fitted(gains_or_log)
    whole("seed", seed, 0)
    _refuse_without_answers(fitted)
    rates = fitted.passes.sum(axis=0) / fitted.n.sum()
    if np.isin(rates, (0.0, 1.0)).all():
        raise RCPError("every criterion has the same answer everywhere: there is nothing to predict")
    groups, names = _groups(fitted, folds, seed)
    of_all = _fit(fitted, np.arange(len(fitted.query)))
    rows, criteria = [], []
    for group, name in enumerate(names):
        held = groups[fitted.query] == group
        row, learned = _held_out(fitted, held, of_all)
        rows.append({"group": name, "queries": int((groups == group).sum()), **row})
        criteria += [(name, *values) for values in zip(fitted.criteria, learned.gamma, learned.beta, strict=True)]
    frame = pd.DataFrame(rows)
    frame["reduction"] = 1 - frame["bce"] / frame["baseline"]
    known = frame[frame["answers"] > 0]
    reduction = float(1 - known["bce"].mean() / known["baseline"].mean())
    increase = float(known["rasch"].mean() / known["bce"].mean() - 1)
    return Transfer(
        frame,
        reduction,
        increase,
        pd.DataFrame(criteria, columns=["group", "id", "gamma", "beta"]),
        list(_transfer_warnings(known, reduction, increase, len(fitted.criteria))),
    )


def rubric_subsets(
    gains_or_log: GainTable | JudgmentLog,
    *,
    subsets: Iterable[Sequence[str]] | None = None,
    k: int = 10,
) -> RubricSubsets:
    """Refit the model with parts of the rubric, and rank them by information efficiency at the ideal top k.

    It needs no labels and no new answers. Efficiency is precision where the best documents are; whether a subset still
    asks for what is relevant it does not say.

    Parameters
    ----------
    gains_or_log : GainTable or JudgmentLog
        As for `transfer`.
    subsets : iterable of sequences of criterion ids, optional
        Every non-empty subset where not given, of at most 8 criteria (255 fits).
    k : int

    Raises
    ------
    RCPError
        Unknown or repeated ids, no subset; more than 8 criteria without `subsets`; what was not released.
    """
    cutoff = whole_cutoff(k)
    if cutoff is None:
        raise RCPError("k is a whole number of ranks, not None")
    fitted = read_fitted(gains_or_log)
    _refuse_without_answers(fitted)
    if fitted.excluded.all():
        raise RCPError("every document is excluded: there is no top k")
    everything = np.arange(len(fitted.query))
    rows = []
    for chosen in _subsets(fitted.criteria, subsets):
        fit = _fit(fitted, everything, chosen)
        top = fitted.ideal(cutoff, fit.theta)
        by_query = fitted.mean_by_query(top, information_efficiency(fit.theta[top], fit.gamma, fit.beta))
        ids = tuple(fitted.criteria[c] for c in chosen)
        rows.append(
            {"criteria": ids, "size": len(ids), "efficiency": float(np.nanmean(by_query)), "converged": fit.converged}
        )
    frame = pd.DataFrame(rows).sort_values(["efficiency", "size"], ascending=[False, True], kind="stable")
    frame = frame.reset_index(drop=True).assign(rank=np.arange(1, len(rows) + 1))
    return RubricSubsets(frame, list(_subset_warnings(frame, fitted.criteria, cutoff)), cutoff)


def _refuse_without_answers(fitted: Fitted) -> None:
    if not fitted.has_scores:
        raise RCPError(f"the model cannot be fitted again: {signs.NO_SCORES}")
    if not fitted.has_answers:
        raise RCPError(f"the model cannot be fitted again: {fitted.why_no_answers}")


def _groups(fitted: Fitted, folds: int | None, seed: int) -> tuple[IntArray, list[str]]:
    """Each query's group, and the groups' names."""
    queries = len(fitted.queries)
    if queries < 2:
        raise RCPError("criteria transfer from queries to other queries; there is one")
    codes, names = pd.factorize(fitted.queries["dataset"], sort=True)
    if folds is None and len(names) > 1:
        return codes.astype(np.intp), [str(name) for name in names]
    parts = min(FOLDS, queries) if folds is None else whole("folds", folds, 2)
    if parts > queries:
        raise RCPError(f"folds must lie between 2 and the number of queries, {queries}; it is {folds}")
    group = np.empty(queries, dtype=np.intp)
    group[np.random.default_rng(seed).permutation(queries)] = np.arange(queries) % parts
    return group, [f"fold {part + 1}" for part in range(parts)]


def _fit(
    fitted: Fitted, rows: IntArray, criteria: Sequence[int] | None = None, frozen: Frozen | None = None
) -> TwoPLFit:
    """The model on some documents and criteria, or its scales and offsets alone."""
    passes = fitted.passes if criteria is None else fitted.passes[:, list(criteria)]
    codes = np.unique(fitted.query[rows], return_inverse=True)[1]
    gamma, beta = (None, None) if frozen is None else frozen
    return fit_2pl(fitted.bt[rows], passes[rows], fitted.n[rows], codes, gamma=gamma, beta=beta)


def _held_out(fitted: Fitted, held: np.ndarray, of_all: TwoPLFit) -> tuple[dict[str, float], TwoPLFit]:
    """A group's cross-entropies, and the fit to all others."""
    train, test = np.flatnonzero(~held), np.flatnonzero(held)
    if not fitted.n[train].any():
        raise RCPError("the queries outside one group have no placed document, so no criteria can be fitted without it")
    learned = _fit(fitted, train)
    passes, n = fitted.passes[test], fitted.n[test]
    answers = int(n.sum()) * len(fitted.criteria)
    if not answers:
        return {"answers": 0, **dict.fromkeys(["baseline", "bce", "rasch", "bce_all"], float("nan"))}, learned
    rates = fitted.passes[train].sum(axis=0) / fitted.n[train].sum()
    with np.errstate(divide="ignore"):  # a rate of 0 or 1 rules the other answer out
        logits = logit(rates)

    def entropy(gamma: FloatArray, beta: FloatArray) -> float:
        fit = _fit(fitted, test, frozen=(gamma, beta))
        return cross_entropy(fit.gamma * (fit.theta[:, None] - fit.beta), passes, n)

    row = {
        "answers": answers,
        "baseline": cross_entropy(logits, passes, n),
        "bce": entropy(learned.gamma, learned.beta),
        "rasch": entropy(np.ones_like(learned.gamma), learned.beta),
        "bce_all": entropy(of_all.gamma, of_all.beta),
    }
    return row, learned


def _transfer_warnings(groups: pd.DataFrame, reduction: float, increase: float, criteria: int) -> Iterator[str]:
    endless = groups.loc[np.isinf(groups["baseline"]), "group"]
    if len(endless):
        yield (
            f"the pass rates of other groups rule out answers of {examples(endless)} (a rate of 0 or 1): their baseline"
            " is infinite and the reduction says nothing"
        )
    useless = groups.loc[groups["bce"] >= groups["baseline"], "group"]
    if len(useless):
        yield (
            f"the criteria of other groups predict {examples(useless)} no better than plain pass rates do: there the"
            " criteria may mean something else, or the tournament says nothing about them"
        )
    span = signs.TRANSFER
    if reduction < span.low:
        yield (
            f"held-out cross-entropy against pass rates is {-reduction:+.1%}, less of a fall than in the paper's fits"
            f" ({-span.low:.1%} to {-span.high:.1%}): criteria may carry over less, or answers hold more than"
            " tournament and criteria explain"
        )
    if increase <= 0 and criteria > 1:
        yield (
            f"with every discrimination 1, held-out cross-entropy changes by {increase:+.1%} (paper: a rise of 1.1% to"
            " 2.4%): the fitted discriminations may not carry over, or hardly differ"
        )


def _subsets(criteria: list[str], subsets: Iterable[Sequence[str]] | None) -> list[tuple[int, ...]]:
    """The subsets as positions in rubric order."""
    places = range(len(criteria))
    if subsets is None:
        if len(criteria) > MOST_CRITERIA:
            raise RCPError(
                f"{len(criteria)} criteria have {2 ** len(criteria) - 1} subsets, each of which is a fit; name those to"
                " compare with subsets="
            )
        return [chosen for size in range(len(criteria), 0, -1) for chosen in itertools.combinations(places, size)]
    found = []
    for given in subsets:
        ids = [given] if isinstance(given, str) else list(given)
        unknown = set(ids) - set(criteria)
        if unknown or not ids or len(set(ids)) < len(ids):
            raise RCPError(f"a subset names criteria of {examples(criteria, 10)}, each once, and not {ids}")
        found.append(tuple(sorted(criteria.index(name) for name in ids)))
    if not found:
        raise RCPError("subsets holds no subset")
    return list(dict.fromkeys(found))


def _subset_warnings(frame: pd.DataFrame, criteria: list[str], k: int) -> Iterator[str]:
    doubtful = frame.loc[~frame["converged"], "criteria"].map(" ".join)
    if len(doubtful):
        yield f"the fit to {examples(doubtful)} did not converge: its efficiency is doubtful"
    full = frame[frame["size"] == len(criteria)]
    best = frame.iloc[0]
    if len(full) and best["efficiency"] > full["efficiency"].iloc[0]:
        dropped = [name for name in criteria if name not in best["criteria"]]
        yield (
            f"without {', '.join(dropped)} the efficiency at the ideal top {k} is {best['efficiency']:.3f}, against"
            f" {full['efficiency'].iloc[0]:.3f} of the whole rubric (rank {full['rank'].iloc[0]} of {len(frame)}):"
            " what is dropped may tell little about the best documents; more precise is not more valid"
        )
