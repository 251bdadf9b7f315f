"""Whether gains agree with people's grades: as labels, within queries and across them (Sections E.3, E.4, F.1).

How far the people agree among each other is for `annotators`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rcp_irx.analysis.agreement_measures import (
    ABILITY,
    BT,
    ECE,
    ECE_CHANCE,
    GAIN,
    ONE,
    POSITIVE,
    SECOND,
    Block,
    beyond_chance,
    block,
    calibration_sums,
    measures,
    sizes,
)
from rcp_irx.analysis.clusters import RESAMPLES, SEED, Estimate, bootstrap
from rcp_irx.analysis.estimates import Key, by_dataset, interval_notes, measure_rows, text, value_of, with_dataset
from rcp_irx.analysis.graded import graded_documents
from rcp_irx.analysis.grades import reaches
from rcp_irx.analysis.results import gain_table
from rcp_irx.errors import RCPError, counted, finite, whole
from rcp_irx.gains import KEYS, GainTable

BINS = 20
LOW_AUC = 0.7
"""An AUC of the gains below this is a sign that the rubric is not the task."""

_ONE_SIDE = "its documents are all on one side of the threshold"
_NO_SPREAD = "the scores or the grades are all equal"
_REASONS: dict[str | Key, str] = {
    "AUC": _ONE_SIDE,
    "AUC at qrel 0": _ONE_SIDE,
    "true positive rate": "no document is relevant",
    "false positive rate": "every document is relevant",
    "relevant at qrel 0": "every document has a positive qrel",
    "not relevant at a positive qrel": "no document has a positive qrel",
    "Spearman": _NO_SPREAD,
    "Spearman of query means": "the queries' mean scores or mean grades are all equal",
    ("Spearman of query means", BT): (
        "Bradley-Terry scores are centred on their query, and where whole pools are graded their means are all 0"
    ),
    "concordance": "no query has two documents with different grades",
}
_OF_ONE_QUERY: dict[str | Key, str] = {
    ("Spearman of query means", name): "there is one query" for name in (ABILITY, BT)
}
_SHOULD_BE_ABOVE_0 = {
    ("AUC", f"{GAIN} less {POSITIVE}"): (
        "the gains are not shown to label these documents better than the qrels do",
        "the qrels label these documents better than the gains do",
    ),
    ("Spearman", f"{ABILITY} less {BT}"): (
        "calibration is not shown to place documents of different queries better than raw scores do",
        "raw scores place documents of different queries better than calibrated ones do",
    ),
}


@dataclass(frozen=True)
class Agreement:
    """How far gains agree with people's grades.

    Attributes
    ----------
    measures : DataFrame
        `dataset, measure, of, value, low, high, n, unit`: each measure with its 95% query-clustered bootstrap interval
        (of the ECE see `agreement`); where there is none, NaN, and `warnings` says why. Of several datasets the first
        rows pool all.
    queries : DataFrame
        `dataset, qid, documents, grade, ability`, and `bt` where released: means over the graded documents (Figure 4a).
    documents : DataFrame
        `dataset, qid, docno, grade` (mean), `grades` (how many), `gain, ability`, where released `bt, z_bt`, with qrels
        `label`: what was compared (Figure 4c).
    bins : DataFrame
        `dataset, low, high, grades, gain, share`: per bin of the gain, its number of single grades, mean gain and
        share of grades at or above the threshold (Figure 4b). Empty bins are left out.
    threshold : float
    warnings : list of str
    """

    measures: pd.DataFrame
    queries: pd.DataFrame
    documents: pd.DataFrame
    bins: pd.DataFrame
    threshold: float
    warnings: list[str]

    def value(self, measure: str, of: str, dataset: str | None = None) -> float:
        """One value of `measures`; of its first rows' dataset if none is named."""
        return value_of(self.measures, measure, of, dataset)

    def __str__(self) -> str:
        heading = f"Agreement with people; relevant: a grade of {self.threshold:g} or more"
        return text(heading, self.measures, [], self.warnings)

    __repr__ = __str__


def agreement(
    gains: GainTable,
    grades: pd.DataFrame,
    qrels: pd.DataFrame | None = None,
    *,
    threshold: float = 2.0,
    positive: int = 1,
    gain_threshold: float = 0.5,
    bins: int = BINS,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Agreement:
    """How well gains, and qrels beside them, say what people say of the same documents.

    Parameters
    ----------
    gains : GainTable
    grades : DataFrame
        `qid, docno, grade`, optionally `dataset` and `annotator`. A document's grade is the mean of its annotators';
        one who graded it twice counts once.
    qrels : DataFrame, optional
        `qid, docno, label`, optionally `dataset`: labels to compare with the gains. All is then measured on the
        queries that have some, and a document without a label has label 0, as in the paper.
    threshold : float
        A document is relevant if its mean grade is at or above it; 2 is the paper's Useful, and NIST's highly
        relevant.
    positive : int
        Labels from here on are positive.
    gain_threshold : float
        The gain from which on a document counts as relevant where it is compared with single grades.
    bins : int
        Equal bins of the gain for its calibration error.
    resamples, seed : int
        Of the bootstrap, which draws queries within datasets (Section B.3).

    Returns
    -------
    Agreement
        - AUC, over all pairs of a relevant document and another, of any queries (ties half): of the gains, of raw
          Bradley-Terry scores and of these standardised per query's pool (Table 9), of positive qrels and, if there are
          more than two, of the qrels' labels; of the gains among documents without a positive qrel.
        - true and false positive rate: of the positive qrels, and of equally many documents with the highest gains
          (Table 10; documents that tie at the cut share what is left).
        - relevant at qrel 0, not relevant at a positive qrel: shares of those documents.
        - Spearman, pooled over queries, with the mean grade (Table 9). Floor: expected, if each query's abilities were
          shuffled within it. Ceiling: if they stood in the order of the grades (Section E.4).
        - Spearman of query means (Figure 4a).
        - concordance: the share of same-query pairs with different grades that a score orders alike; score ties count
          half. It is Stage A's alone.
        - ECE of the gain as the chance that a single grade is at or above the threshold (Section E.3), and what chance
          alone would make of it. Drawing queries again adds to this error, so its interval is reflected at the value,
          and begins at 0 where chance explains it; in simulations it held the true error in 82 to 99 of 100 studies.
        - agreement with one annotator: the share of single grades that are on the same side of the threshold as the
          gain of its own, the qrel, or another annotator of the document.

        How closely a second panel of the same people would follow these mean grades, also a pooled Spearman's, is
        `reliability`'s split-half value. Excluded documents are left out.

    Raises
    ------
    RCPError
        Unreadable grades or qrels; no document in common; mean grades that are all equal, or all on one side of the
        threshold.

    Warns
    -----
    RCPWarning
        Whatever was left out: grades without gains, queries without labels, rows without grades.
    """
    whole("bins", bins)
    finite(threshold=threshold, positive=positive, gain_threshold=gain_threshold)
    found = graded_documents(gain_table(gains), grades, qrels)
    problem = _problem(found.documents, threshold)
    if problem:
        raise RCPError(problem)
    notes, frames, binned = list(found.notes), [], []
    for dataset, documents in by_dataset(found.documents):
        problem = _problem(documents, threshold)
        if problem:
            notes += with_dataset(dataset, [problem])
            continue
        pooled = len(documents) == len(found.documents)
        singles = found.singles if pooled else found.singles[found.singles["dataset"] == dataset]
        of = block(documents, singles, threshold, positive)
        sums = calibration_sums(of, bins)
        drawn = bootstrap(measures(of, gain_threshold, sums), of.strata, len(documents), resamples, seed)
        estimates = beyond_chance(drawn, sums)
        sized = {key: (len(documents), "documents") for key in estimates} | sizes(of)
        frames.append(measure_rows(dataset, estimates, sized))
        binned.append(_bins(dataset, of, bins))
        notes += with_dataset(dataset, _notes(of, estimates, threshold))
    return Agreement(
        pd.concat(frames, ignore_index=True),
        _queries(found.documents),
        found.documents.drop(columns="order"),
        pd.concat(binned, ignore_index=True),
        float(threshold),
        notes,
    )


def _problem(documents: pd.DataFrame, threshold: float) -> str:
    """Why nothing can be measured on these documents, or nothing."""
    grade = documents["grade"]
    if grade.nunique() == 1:
        return f"every document's mean grade is {grade.iloc[0]:g}: there is no order to agree with"
    relevant = reaches(grade.to_numpy(dtype=np.float64), threshold).sum()
    if relevant in (0, len(grade)):
        return (
            f"{'no' if relevant == 0 else 'every'} document has a mean grade of {threshold:g} or more; grades are from"
            f" {grade.min():g} to {grade.max():g}: choose another threshold"
        )
    return ""


def _queries(documents: pd.DataFrame) -> pd.DataFrame:
    """Means over each query's graded documents."""
    scores = [name for name in ("ability", "bt") if name in documents.columns]
    queries = documents.groupby(KEYS[:2], sort=True)
    means = queries[["grade", *scores]].mean().reset_index()
    means.insert(2, "documents", queries.size().to_numpy())
    return means


def _bins(dataset: str, of: Block, bins: int) -> pd.DataFrame:
    """The calibration of the gain, bin by bin."""
    place = np.minimum((of.single_gain * bins).astype(np.intp), bins - 1)
    grouped = pd.DataFrame({"gain": of.single_gain, "share": of.single_relevant.astype(float)}).groupby(place)
    found, where = grouped.mean().reset_index(drop=True), np.unique(place)
    found.insert(0, "grades", grouped.size().to_numpy())
    found.insert(0, "high", (where + 1) / bins)
    found.insert(0, "low", where / bins)
    found.insert(0, "dataset", dataset)
    return found


def _notes(of: Block, found: Mapping[Key, Estimate], threshold: float) -> list[str]:
    """What the values mean where they warn, and what is missing."""
    notes = []
    auc = found["AUC", GAIN].value
    if auc < LOW_AUC:
        notes.append(
            f"the gains' AUC for grades of {threshold:g} or more is {auc:.3f}, below {LOW_AUC}: what the rubric asks"
            " may not be what these people graded"
        )
    notes += _differences(found)
    if found[ECE].low == 0:
        notes.append(
            f"ECE of {GAIN} is {found[ECE].value:.3f}, and about {found[ECE_CHANCE].value:.3f} would be expected of"
            " gains that are right: with so few grades it shows no miscalibration"
        )
    if (ONE, SECOND) not in found:
        notes.append("no document has two annotators' grades: agreement with one annotator has no yardstick")
    lone = int((np.diff(of.starts, append=len(of.query)) == 1).sum())
    if lone:
        number = counted(lone, "query has", "queries have")
        notes.append(f"{number} one graded document: nothing to compare within a query")
    return notes + interval_notes(found, of.strata, _REASONS | _OF_ONE_QUERY if of.queries == 1 else _REASONS)


def _differences(found: Mapping[Key, Estimate]) -> list[str]:
    """Differences that should be above 0, and are not, or not surely."""
    notes = []
    for key, (unsure, below) in _SHOULD_BE_ABOVE_0.items():
        if key in found and not found[key].low > 0 and not np.isnan(found[key].low):
            value, low, high, _ = found[key]
            meaning = below if high < 0 else unsure
            notes.append(f"{key[0]} of {key[1]} is {value:+.3f} [{low:+.3f}, {high:+.3f}]: {meaning}")
    return notes
