"""What agreement with people is measured by, as functions of how often each query counts; arrays in, arrays out.

The frames that the arrays come from are `graded`'s, what the numbers mean is for `agreeing`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from rcp_irx.analysis import association
from rcp_irx.analysis.association import (
    BoolArray,
    FloatArray,
    IntArray,
    Ranks,
    Ties,
    auc,
    ranked,
    ratio,
    spearman,
    ties,
)
from rcp_irx.analysis.clusters import Estimate, totals
from rcp_irx.analysis.estimates import Key
from rcp_irx.analysis.grades import reaches
from rcp_irx.tables import KEYS

Found: TypeAlias = dict[Key, FloatArray]
Statistic: TypeAlias = Callable[[FloatArray], FloatArray]

ABILITY, BT, Z, GAIN = "ability", "raw BT", "z(BT)", "gain"
POSITIVE, LABEL, SECOND, GRADE = "qrel positive", "qrel label", "a second annotator", "grade"
ONE = "agreement with one annotator"
ECE: Key = ("ECE", GAIN)
ECE_CHANCE: Key = ("ECE", "chance alone")
NORMAL = 1.96


@dataclass(frozen=True, eq=False)
class Block:
    """Documents of queries that stand together, and their single grades; N documents, M grades, Q queries.

    Attributes
    ----------
    query, starts, strata : (N,), (Q,), (Q,)
        Query codes, where each query starts, its dataset's code.
    grade : (N,)
        Mean grades.
    relevant : (N,)
        Whether the mean grade reaches the threshold.
    scores : dict of (N,)
        Gains, abilities and, where there are any, raw and standardised Bradley-Terry scores.
    labels : dict of (N,)
        Of the qrels: whether a document is positive and, where there are more than two, the labels.
    single_document, single_relevant, single_gain : (M,)
        Each grade's document, whether it reaches the threshold, and the document's gain.
    """

    query: IntArray
    starts: IntArray
    strata: IntArray
    grade: FloatArray
    relevant: BoolArray
    scores: dict[str, FloatArray]
    labels: dict[str, FloatArray]
    single_document: IntArray
    single_relevant: BoolArray
    single_gain: FloatArray

    @property
    def positive(self) -> BoolArray:
        """Which documents the qrels call positive."""
        return self.labels[POSITIVE] > 0

    @property
    def queries(self) -> int:
        """How many queries there are."""
        return len(self.starts)


def block(documents: pd.DataFrame, singles: pd.DataFrame, threshold: float, positive: int) -> Block:
    """The arrays of frames as in `graded.Graded`."""
    query = pd.factorize(pd.MultiIndex.from_frame(documents[KEYS[:2]]))[0]
    starts = np.flatnonzero(np.diff(query, prepend=-1))
    columns = {"order": GAIN, "ability": ABILITY, "bt": BT, "z_bt": Z}
    scores = {name: _floats(documents[column]) for column, name in columns.items() if column in documents.columns}
    labels = {}
    if "label" in documents.columns:
        labels[POSITIVE] = _floats(documents["label"] >= positive)
        if documents["label"].nunique() > 2:
            labels[LABEL] = _floats(documents["label"])
    grade = _floats(documents["grade"])
    return Block(
        query,
        starts,
        pd.factorize(documents["dataset"].iloc[starts])[0],
        grade,
        reaches(grade, threshold),
        scores,
        labels,
        np.repeat(np.arange(len(documents)), documents["grades"]),
        reaches(_floats(singles["grade"]), threshold),
        _floats(singles["gain"]),
    )


def measures(of: Block, gain_threshold: float, calibration: FloatArray) -> Callable[[FloatArray], Found]:
    """The measures, as a function of how often each query counts: (Q, R) to (R,) each.

    `calibration` are `calibration_sums`.
    """
    added = _added(of, gain_threshold, calibration)
    order = {name: ties(values) for name, values in {**of.scores, **of.labels, GRADE: of.grade}.items()}
    dealt = association.in_grade_order(of.scores[ABILITY], of.grade, of.query)
    means = {name: ties(_query_means(of, values)) for name, values in {**of.scores, GRADE: of.grade}.items()}

    def found(weights: FloatArray) -> Found:
        each = weights[of.query]
        ranks = {name: ranked(scores, each) for name, scores in order.items()}
        result = _aucs(of, ranks, each)
        if of.labels:
            without = each * (1 - of.labels[POSITIVE])[:, None]
            result["AUC at qrel 0", GAIN] = auc(ranked(order[GAIN], without), of.relevant, without)
            result |= _matched(of, order[GAIN], each)
        result |= _spearmans(of, ranks, dealt, each)
        result |= _of_means({name: ranked(scores, weights) for name, scores in means.items()})
        return result | {key: statistic(sums @ weights) for key, (statistic, sums) in added.items()}

    return found


def calibration_sums(of: Block, bins: int) -> FloatArray:
    """What the calibration error is made of, as `association.calibration_counts` gives it."""
    code = of.query[of.single_document]
    return association.calibration_counts(of.single_gain, of.single_relevant, code, of.queries, bins)


def beyond_chance(found: Mapping[Key, Estimate], counts: FloatArray) -> dict[Key, Estimate]:
    """The estimates, the calibration error with an interval that allows for what chance adds to it, and that chance.

    Few grades in a bin are off the gain by chance, and drawn again they are off twice: the percentile interval lies
    above the error that it is for. It is reflected at the estimate, which takes that shift off, begins at 0 where
    chance alone explains the error, and holds the estimate. In simulations it held the true error in 82 to 99 of 100
    studies of 15 queries and more.
    """
    chance, spread = association.chance_error(counts)
    result = dict[Key, Estimate]()
    for key, estimate in found.items():
        result[key] = estimate
        if key == ECE:
            value, low, high, undefined = estimate
            explained = value <= chance + NORMAL * spread
            least = 0.0 if explained and not np.isnan(high) else np.clip(2 * value - high, 0.0, value)
            result[key] = Estimate(value, float(least), float(np.maximum(2 * value - low, value)), undefined)
            result[ECE_CHANCE] = Estimate(chance, np.nan, np.nan, 0)
    return result


def sizes(of: Block) -> dict[Key, tuple[int, str]]:
    """What each measure is taken over: a number and its unit; measures that are not named, over documents."""
    pairs = int(association.concordance_counts(of.grade, of.grade, of.starts)[0].sum())
    grades, others = len(of.single_document), int((_others(of) > 0).sum())
    found: dict[Key, tuple[int, str]] = {("concordance", name): (pairs, "pairs") for name in (ABILITY, POSITIVE, LABEL)}
    found |= {("Spearman of query means", name): (of.queries, "queries") for name in (ABILITY, BT)}
    found |= {(ONE, GAIN): (grades, "grades"), (ONE, POSITIVE): (grades, "grades"), (ONE, SECOND): (others, "grades")}
    found[ECE] = found[ECE_CHANCE] = (grades, "grades")
    if of.labels:
        positive = int(of.positive.sum())
        zero = (len(of.query) - positive, "documents")
        found |= {("AUC at qrel 0", GAIN): zero, ("relevant at qrel 0", POSITIVE): zero}
        found["not relevant at a positive qrel", POSITIVE] = (positive, "documents")
    return found


def _aucs(of: Block, ranks: dict[str, Ranks], each: FloatArray) -> Found:
    """Table 9's and Table 10's, of all documents."""
    found = {("AUC", name): auc(ranks[name], of.relevant, each) for name in (*of.scores, *of.labels) if name != ABILITY}
    for name in (BT, POSITIVE):
        if ("AUC", name) in found:
            found["AUC", f"{GAIN} less {name}"] = found["AUC", GAIN] - found["AUC", name]
    return found


def _matched(of: Block, gains: Ties, each: FloatArray) -> Found:
    """The rates of the qrels, and those of the gains when they flag as many documents (Table 10)."""
    positive, relevant = of.labels[POSITIVE], of.relevant.astype(np.float64)
    flagged = {
        POSITIVE: each * positive[:, None],
        GAIN: each * association.top_shares(gains, positive @ each, each),
    }
    return {
        (f"{rate} positive rate", name): ratio(side @ values, side @ each)
        for rate, side in (("true", relevant), ("false", 1 - relevant))
        for name, values in flagged.items()
    }


def _spearmans(of: Block, ranks: dict[str, Ranks], dealt: IntArray, each: FloatArray) -> Found:
    """The pooled correlations of Table 9, with the floor and the ceiling of Section E.4."""
    grade, ability = ranks[GRADE], ranks[ABILITY]
    found = {("Spearman", name): spearman(ranks[name], grade) for name in of.scores if name != GAIN}
    if BT in of.scores:
        found["Spearman", f"{ABILITY} less {BT}"] = found["Spearman", ABILITY] - found["Spearman", BT]
    ceiling = spearman(grade, Ranks(ability.centred[dealt], ability.weighted[dealt], ability.norm))
    found["Spearman", "floor"] = association.shuffled_spearman(ability, grade, of.starts, each)
    found["Spearman", "ceiling"] = ceiling
    found["Spearman", f"{ABILITY}, share of ceiling"] = ratio(found["Spearman", ABILITY], ceiling)
    return found


def _of_means(means: dict[str, Ranks]) -> Found:
    """The correlations of Figure 4a."""
    return {
        ("Spearman of query means", name): spearman(means[name], means[GRADE])
        for name in (ABILITY, BT)
        if name in means
    }


def _added(of: Block, gain_threshold: float, calibration: FloatArray) -> dict[Key, tuple[Statistic, FloatArray]]:
    """Measures that are functions of sums over queries: the function, and each query's sums."""
    found: dict[Key, tuple[Statistic, FloatArray]] = {}
    for name, values in {ABILITY: of.scores[ABILITY], **of.labels}.items():
        counts = association.concordance_counts(values, of.grade, of.starts)
        found["concordance", name] = (association.concordance, counts)
    code, yes = of.query[of.single_document], of.single_relevant
    found[ECE] = (association.calibration_error, calibration)
    agreed = {GAIN: (of.single_gain >= gain_threshold) == yes}
    if of.labels:
        agreed[POSITIVE] = of.positive[of.single_document] == yes
    for name, values in agreed.items():
        found[ONE, name] = (_share, _counted(values, np.ones(len(code)), code, of.queries))
    others = _others(of)
    if others.any():
        agreeing = np.bincount(of.single_document, weights=yes)[of.single_document]
        alike = np.where(yes, agreeing - 1, others - agreeing)
        shares = np.divide(alike, others, out=np.zeros_like(alike), where=others > 0)
        found[ONE, SECOND] = (_share, _counted(shares, others > 0, code, of.queries))
    if of.labels:
        zero = ~of.positive
        found["relevant at qrel 0", POSITIVE] = (_share, _counted(of.relevant & zero, zero, of.query, of.queries))
        wrong = ~of.relevant & of.positive
        found["not relevant at a positive qrel", POSITIVE] = (
            _share,
            _counted(wrong, of.positive, of.query, of.queries),
        )
    return found


def _others(of: Block) -> FloatArray:
    """How many others graded the document of each grade: (M,)."""
    return (np.bincount(of.single_document)[of.single_document] - 1).astype(np.float64)


def _counted(values: ArrayLike, counts: ArrayLike, code: IntArray, queries: int) -> FloatArray:
    """What is shared, and of how much, per query: (2, queries)."""
    return totals(np.stack([np.asarray(values, np.float64), np.asarray(counts, np.float64)]), code, queries)


def _share(sums: FloatArray) -> FloatArray:
    return ratio(sums[0], sums[1])


def _query_means(of: Block, values: FloatArray) -> FloatArray:
    """Each query's mean over the largest value's size; means that differ by rounding are equal."""
    means = ratio(np.add.reduceat(values, of.starts), np.diff(of.starts, append=len(values)))
    largest = np.max(np.abs(values))
    return means if largest == 0 else np.round(means / largest, 9)


def _floats(values: pd.Series) -> FloatArray:
    return values.to_numpy(dtype=np.float64)
