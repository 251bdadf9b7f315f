"""How reliably people grade: what their grades, alone and averaged, are worth as a yardstick (Section D.4)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from rcp_irx.analysis import raters
from rcp_irx.analysis.association import FloatArray, IntArray, Ties, ranked, spearman, ties
from rcp_irx.analysis.clusters import RESAMPLES, SEED, Estimate, bootstrap, totals
from rcp_irx.analysis.estimates import (
    Key,
    by_dataset,
    interval_notes,
    measure_rows,
    text,
    value_of,
    with_dataset,
)
from rcp_irx.analysis.grades import panels, reaches, read_grades
from rcp_irx.errors import RCPError, counted, examples, finite, whole
from rcp_irx.tables import KEYS

SPLITS = 50
CATEGORIES = 101
"""Of more different grades than these it says nothing whether two are the same."""
TENTATIVE = 0.667
"""Below this alpha Krippendorff (2018) draws no conclusion, not even a tentative one."""
RARE = 0.2
"""An answer with a smaller share is rare."""
BANDS = ((0.5, "poor"), (0.75, "moderate"))
"""What Koo and Li (2016) call reliabilities below these."""

AGREEMENT, AC1, AC2, KAPPA = "observed agreement", "Gwet's AC1", "Gwet's AC2", "Fleiss' kappa"
EXACT, QUADRATIC = "exact grade", "grade, quadratic weights"
ALPHA: Key = ("Krippendorff's alpha", "one grade")
ICC_ONE: Key = ("ICC(1,1)", "one grade")
ICC_MEAN: Key = ("ICC(1,k)", "mean grade")
HALVES: Key = ("split-half, Spearman-Brown", "mean grade")

_NO_SPREAD = "the grades of documents with several annotators are all equal"
_REASONS: dict[str | Key, str] = {
    **dict.fromkeys([ALPHA[0], ICC_ONE[0]], _NO_SPREAD),
    ICC_MEAN[0]: "the documents' mean grades are all equal",
    HALVES[0]: "one half's mean grades are all equal",
    **dict.fromkeys([AC1, AC2, KAPPA], "every answer is the same"),
}


@dataclass(frozen=True)
class Reliability:
    """How reliably annotators grade.

    Attributes
    ----------
    measures : DataFrame
        `dataset, measure, of, value, low, high, n, unit`: each measure with its 95% query-clustered bootstrap interval;
        where there is none, NaN, and `warnings` says why. Of several datasets the first rows pool all.
    annotators : DataFrame
        `annotator, grades, mean, difference` (from the mean of the others on the same documents; NaN: never with
        others), `alpha_without` (Krippendorff's alpha of the others; NaN: they share no document, or give one grade
        only). Empty where annotators have no names.
    panel : float
        Mean number of grades of the documents that have several.
    warnings : list of str
    """

    measures: pd.DataFrame
    annotators: pd.DataFrame
    panel: float
    warnings: list[str]

    def value(self, measure: str, of: str, dataset: str | None = None) -> float:
        """One value of `measures`; of its first rows' dataset if none is named."""
        return value_of(self.measures, measure, of, dataset)

    def __str__(self) -> str:
        more = [f"A mean grade is that of {self.panel:.3g} annotators."]
        others = self.annotators["alpha_without"].dropna()
        if len(others):
            more.append(
                f"With any one of {len(self.annotators)} annotators left out, alpha is from {others.min():.3f} to"
                f" {others.max():.3f}."
            )
        return text("Reliability of the annotators", self.measures, more, self.warnings)

    __repr__ = __str__


def reliability(
    grades: pd.DataFrame,
    *,
    threshold: float = 2.0,
    scale: Sequence[float] | None = None,
    splits: int = SPLITS,
    resamples: int = RESAMPLES,
    seed: int = SEED,
) -> Reliability:
    """How well annotators agree: how reliable one grade is, and the mean of a document's grades (Section D.4).

    Parameters
    ----------
    grades : DataFrame
        `qid, docno, grade`, optionally `dataset` and `annotator`: a row per annotator and document. Nobody needs to
        have graded everything. An annotator's grades of the same document count once, with their mean.
    threshold : float
        A grade at or above it is a yes; 2 is the paper's Useful.
    scale : sequence of float, optional
        The grades that could be given; without it those that were. Gwet's coefficients depend on it.
    splits : int
        Random halvings of the panels that the split-half reliability is taken over.
    resamples, seed : int
        Of the bootstrap, which draws queries within datasets (Section B.3); the seed also halves the panels.

    Returns
    -------
    Reliability
        For single grades ICC(1,1) and Krippendorff's alpha (interval metric); for mean grades ICC(1,k) and the
        split-half reliability: Spearman's correlation, over documents and splits, of the mean grades of two random
        halves of equal size (of an odd panel one annotator sits out), stepped up to the panel by the Spearman-Brown
        formula.
        Gwet's AC2 with quadratic weights; for exact grades, and for yes or no at the threshold, the observed
        agreement, Gwet's AC1 and Fleiss' kappa, which allow for panels of different sizes. Documents with one grade
        count for the shares of the grades in Gwet's and Fleiss' coefficients, and for nothing else. Of more than 101
        different grades, only yes and no are compared. A mean of an annotator's several grades that is none of the
        grades counts everywhere but where grades are compared as such.

    Raises
    ------
    RCPError
        Unreadable grades; fewer than two documents with several annotators' grades; grades that are all equal, or
        outside the scale.

    Warns
    -----
    RCPWarning
        Rows without a grade, repeated grades, rows without annotators.
    """
    whole("splits", splits)
    finite(threshold=threshold)
    rows, notes = read_grades(grades)
    steps = _steps(grades["grade"], scale)
    problem = _problem(rows)
    if problem:
        raise RCPError(f"{problem}; reliability is of documents that several people graded, and not all alike")
    frames = []
    for dataset, part in by_dataset(rows):
        problem = _problem(part)
        if problem:
            notes += with_dataset(dataset, [f"{problem}: no reliability"])
            continue
        frame, found = _measured(dataset, part, threshold, steps, splits, resamples, seed)
        frames.append(frame)
        notes += with_dataset(dataset, found)
    sizes = panels(rows)["grades"]
    return Reliability(pd.concat(frames, ignore_index=True), _annotators(rows), float(sizes[sizes > 1].mean()), notes)


def _steps(grades: pd.Series, scale: Sequence[float] | None) -> FloatArray:
    """The grades that could be given, ascending."""
    given = np.unique(pd.to_numeric(grades).dropna().to_numpy(dtype=np.float64).round(12))
    if scale is None:
        return given
    for step in scale:
        finite(scale=step)
    steps = np.unique(np.asarray(scale, dtype=np.float64).round(12))
    outside = np.setdiff1d(given, steps)
    if len(outside):
        raise RCPError(f"grades outside the scale {steps.tolist()}: {examples(outside.tolist())}")
    return steps


def _problem(rows: pd.DataFrame) -> str:
    """Why these grades have no reliability, or nothing."""
    if (panels(rows)["grades"] > 1).sum() < 2:
        return "fewer than two documents have grades of several annotators"
    if rows["grade"].nunique() == 1:
        return f"every grade is {rows['grade'].iloc[0]:g}"
    return ""


def _measured(
    dataset: str, rows: pd.DataFrame, threshold: float, scale: FloatArray, splits: int, resamples: int, seed: int
) -> tuple[pd.DataFrame, list[str]]:
    """The measures of one dataset, or of several pooled, and what is to be said about them."""
    documents = panels(rows)
    strata = pd.factorize(documents.drop_duplicates(KEYS[:2])["dataset"])[0]
    query = pd.factorize(pd.MultiIndex.from_frame(documents[KEYS[:2]]))[0]
    values = rows["grade"].to_numpy(dtype=np.float64)
    document = np.repeat(np.arange(len(documents)), documents["grades"])
    several = (documents["grades"] > 1).to_numpy()
    spread = totals(raters.spread_sums(values, document), query, len(strata))
    coefficients = _coefficients(values, document, scale, threshold)
    added = {of: totals(raters.chance_sums(*what), query, len(strata)) for of, what in coefficients.items()}
    halves = _halves(values, document, query, splits, seed)
    sizes = documents["grades"].to_numpy()[several]

    def statistics(weights: FloatArray) -> dict[Key, FloatArray]:
        icc = raters.icc(spread @ weights)
        found = {ICC_ONE: icc.single, ALPHA: raters.alpha(spread @ weights), ICC_MEAN: icc.mean}
        found[HALVES] = raters.spearman_brown(halves.correlation(weights), sizes.sum() / (sizes // 2).sum())
        for of, sums in added.items():
            chance = raters.chance_corrected(sums @ weights, coefficients[of][1])
            if of == QUADRATIC:
                found[AC2, of] = chance.ac
            else:
                found |= {(AGREEMENT, of): chance.observed, (AC1, of): chance.ac, (KAPPA, of): chance.kappa}
        return found

    found = bootstrap(statistics, strata, len(halves.query), resamples, seed)
    size = (int(several.sum()), "documents")
    frame = measure_rows(dataset, found, dict.fromkeys(found, size))
    notes = interval_notes(found, strata, _REASONS) + _notes(found, threshold, float(reaches(values, threshold).mean()))
    off = int(np.sum(~np.isin(values, scale)))
    if off and len(scale) <= CATEGORIES:
        number = counted(off, "mean of an annotator's grades is", "means of an annotator's grades are")
        notes.insert(0, f"{number} no grade of the scale: left out where grades are compared as such")
    if not several.all():
        number = counted(int((~several).sum()), "document has", "documents have")
        notes.insert(0, f"{number} one grade, left out of all but the shares of the grades")
    if len(scale) > CATEGORIES:
        notes.insert(0, f"{len(scale):,} different grades are no categories: of these only yes and no are compared")
    if f"grade >= {threshold:g}" not in coefficients:
        side = "below" if values.max() < threshold else "at or above"
        notes.insert(0, f"every grade is {side} the threshold {threshold:g}: nothing is said of yes and no")
    return frame, notes


def _coefficients(
    values: FloatArray, document: IntArray, scale: FloatArray, threshold: float
) -> dict[str, tuple[FloatArray, FloatArray]]:
    """What agreement corrected for chance is taken of: counts of the categories, and how far they agree."""
    found = {}
    if len(scale) <= CATEGORIES:
        on = np.isin(values, scale)
        counts = raters.category_counts(values[on], document[on], scale, int(document.max()) + 1)
        found[QUADRATIC] = (counts, raters.quadratic_weights(scale))
        found[EXACT] = (counts, np.eye(len(scale)))
    yes = reaches(values, threshold)
    if yes.any() and not yes.all():
        answers = raters.category_counts(yes.astype(np.float64), document, np.array([0.0, 1.0]), document.max() + 1)
        found[f"grade >= {threshold:g}"] = (answers, np.eye(2))
    return found


@dataclass(frozen=True, eq=False)
class _Halves:
    """Mean grades of a panel's halves, and how many of a query's documents have these in a split, on average."""

    query: IntArray
    first: Ties
    second: Ties
    times: FloatArray

    def correlation(self, weights: FloatArray) -> FloatArray:
        """Spearman's, over documents and splits, when queries count `weights` times."""
        each = weights[self.query] * self.times[:, None]
        return spearman(ranked(self.first, each), ranked(self.second, each))


def _halves(values: FloatArray, document: IntArray, query: IntArray, splits: int, seed: int) -> _Halves:
    random = np.random.default_rng(seed)
    rows = [np.column_stack([query, *raters.half_panels(values, document, random)]) for _ in range(splits)]
    halved = np.concatenate(rows)
    alike, times = np.unique(halved[~np.isnan(halved[:, 1])], axis=0, return_counts=True)
    return _Halves(alike[:, 0].astype(np.intp), ties(alike[:, 1]), ties(alike[:, 2]), times / splits)


def _notes(found: dict[Key, Estimate], threshold: float, yes: float) -> list[str]:
    """What the values mean, where they warn; `yes` is the share of grades at or above the threshold."""
    notes = []
    alpha, panel = found[ALPHA].value, found[ICC_MEAN].value
    if alpha < TENTATIVE:
        notes.append(
            f"Krippendorff's alpha is {alpha:.3f}; below {TENTATIVE} he draws no conclusion from grades: rest on mean"
            " grades, not on single ones"
        )
    band = next((name for bound, name in BANDS if panel < bound), "")
    if band:
        notes.append(f"ICC(1,k) is {panel:.3f}: Koo and Li call mean grades of that reliability {band}")
    of = f"grade >= {threshold:g}"
    rare = min(yes, 1 - yes)
    if (KAPPA, of) in found and rare < RARE and found[KAPPA, of].value < 0.5 * found[AC1, of].value:
        notes.append(
            f"{KAPPA} of {of} is {found[KAPPA, of].value:.3f} at an observed agreement of"
            f" {found[AGREEMENT, of].value:.3f}: one answer is rare ({rare:.1%}), which lowers kappa whatever the"
            f" annotators do (AC1 {found[AC1, of].value:.3f} depends less on it)"
        )
    return notes


def _annotators(rows: pd.DataFrame) -> pd.DataFrame:
    """Each named annotator beside the others."""
    columns = ["annotator", "grades", "mean", "difference", "alpha_without"]
    if "annotator" not in rows.columns:
        return pd.DataFrame({name: pd.Series(dtype=object if name == "annotator" else float) for name in columns})
    panel = rows.groupby(KEYS)["grade"]
    count, total = panel.transform("size"), panel.transform("sum")
    others = ((total - rows["grade"]) / (count - 1).where(count > 1)).astype(float)
    named = rows.assign(difference=rows["grade"] - others).groupby("annotator", sort=True)
    found = named.agg(grades=("grade", "size"), mean=("grade", "mean"), difference=("difference", "mean")).reset_index()
    values, names = rows["grade"].to_numpy(dtype=np.float64), rows["annotator"].to_numpy()
    document = pd.factorize(pd.MultiIndex.from_frame(rows[KEYS]))[0]
    without = [_alpha(values[names != name], document[names != name]) for name in found["annotator"]]
    return found.assign(alpha_without=without)[columns]


def _alpha(values: FloatArray, document: IntArray) -> float:
    """Krippendorff's alpha; NaN where no document has two grades, or all are equal."""
    if not len(values):
        return float("nan")
    return float(raters.alpha(raters.spread_sums(values, document).sum(axis=1)))
