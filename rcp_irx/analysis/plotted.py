"""What plots show, as frames: people's grades beside gains, percentiles, shares with intervals, leaderboards.

`plots` draws it; people's preferences between systems are in `contests`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from rcp_irx.analysis.association import calibration_counts, calibration_error, chance_error
from rcp_irx.analysis.calibration_checks import BINS
from rcp_irx.analysis.comparing import Comparison
from rcp_irx.analysis.graded import as_in_table, named_documents
from rcp_irx.analysis.grades import reaches, read_grades
from rcp_irx.analysis.leaderboards import RCP
from rcp_irx.analysis.results import QREL
from rcp_irx.analysis.significance import LEVEL, group_sums
from rcp_irx.calibration import centre
from rcp_irx.errors import RCPError, counted, examples, warn
from rcp_irx.gains import KEYS, GainTable

FloatArray = NDArray[np.float64]

PERCENTILES = (5, 25, 50, 75, 95)
MOST_GRADES = 15
"""More different grades than this are no grades but numbers, and no boxes side by side."""


class Share(NamedTuple):
    """A share with its 95% interval; NaN where there is none."""

    share: float
    low: float
    high: float


def share_interval(hits: ArrayLike, clusters: ArrayLike) -> Share:
    """The share of hits, with an analytic interval clustered by query (Section B.3).

    Parameters
    ----------
    hits : (N,)
        Outcomes of 0 and 1, one or more.
    clusters : (N,)
        Codes of the queries that they belong to.

    Returns
    -------
    Share
        The interval is Wilson's, over as many outcomes as would vary so much were they independent; where they do not
        vary, over as many as there are queries. None of a single query.
    """
    values, codes = np.asarray(hits, dtype=np.float64), np.unique(np.asarray(clusters), return_inverse=True)[1]
    share, groups = float(values.mean()), int(codes.max()) + 1
    if groups < 2:
        return Share(share, np.nan, np.nan)
    variance = (
        groups / (groups - 1) * float(np.sum(group_sums((values - share)[:, None], codes) ** 2)) / len(values) ** 2
    )
    size = share * (1 - share) / variance if variance > 1e-15 else np.inf
    size = float(groups) if share in (0.0, 1.0) else min(size, float(len(values)))
    z = float(stats.norm.isf(LEVEL / 2))
    middle = (share + z**2 / (2 * size)) / (1 + z**2 / size)
    half = z / (1 + z**2 / size) * float(np.sqrt(share * (1 - share) / size + z**2 / (4 * size**2)))
    return Share(share, max(middle - half, 0.0), min(middle + half, 1.0))


def graded_gains(gains: GainTable, grades: pd.DataFrame) -> pd.DataFrame:
    """The single grades of documents that have gains: `dataset, qid, docno, grade, gain`.

    An annotator's second grade of a document counts in the mean of theirs (Section F.1).

    Raises
    ------
    RCPError
        As `read_grades`; no graded document has a gain.

    Warns
    -----
    RCPWarning
        As `read_grades`; grades that are left out: of documents without a gain, or that the gains exclude.
    """
    singles = as_in_table(read_grades(grades, gains.dataset_of(grades, "grades"))[0], gains)
    documents = gains.documents
    rows = singles.merge(documents.loc[~documents["excluded"], [*KEYS, "gain"]], on=KEYS, how="left", sort=False)
    lacking = rows["gain"].isna()
    if lacking.all():
        theirs, ours = named_documents(singles), named_documents(documents)
        raise RCPError(f"no graded document has a gain: grades are for {theirs}, gains for {ours}")
    if lacking.any():
        of = counted(int(lacking.sum()), "grade is of a document", "grades are of documents")
        warn(f"{of} without a gain, or excluded from the gains, left out: {named_documents(rows[lacking])}")
    return rows.loc[~lacking, [*KEYS, "grade", "gain"]].reset_index(drop=True)


def calibration_bins(graded: pd.DataFrame, threshold: float, bins: int = BINS) -> tuple[pd.DataFrame, float, float]:
    """The share of single grades at or above a threshold per bin of the gain, and the calibration error (Section E.3).

    Parameters
    ----------
    graded : DataFrame
        As `graded_gains` gives it.
    threshold : float
        The least grade that counts as relevant.
    bins : int
        Equal bins of the gain; empty ones are left out of the frame.

    Returns
    -------
    frame, ece, chance
        The frame has `gain` (mean), `grades` (how many), `share, low, high`. `chance` is what chance alone makes of the
        error.

    Raises
    ------
    RCPError
        If every grade lies on one side of the threshold.
    """
    gain = graded["gain"].to_numpy(dtype=np.float64)
    hits = reaches(graded["grade"].to_numpy(dtype=np.float64), threshold).astype(np.float64)
    if hits.all() or not hits.any():
        least, largest = graded["grade"].min(), graded["grade"].max()
        raise RCPError(
            f"{'every' if hits.all() else 'no'} grade reaches the threshold {threshold:g}; they run from {least:g} to"
            f" {largest:g}: choose another"
        )
    query = graded.groupby(KEYS[:2], sort=False).ngroup().to_numpy()
    counts = calibration_counts(gain, hits > 0, query, int(query.max()) + 1, bins)
    code = np.minimum((gain * bins).astype(np.intp), bins - 1)
    rows = []
    for b in np.unique(code):
        here = code == b
        rows.append((float(gain[here].mean()), int(here.sum()), *share_interval(hits[here], query[here])))
    found = pd.DataFrame(rows, columns=["gain", "grades", "share", "low", "high"])
    return found, float(calibration_error(counts.sum(axis=1))), chance_error(counts)[0]


def gains_by_grade(graded: pd.DataFrame) -> pd.DataFrame:
    """Percentiles 5, 25, 50, 75 and 95 of the gain at each single grade: `grade, grades` (how many), `p5` to `p95`.

    Raises
    ------
    RCPError
        If there are more than 15 different grades.
    """
    levels = graded["grade"].nunique()
    if levels > MOST_GRADES:
        raise RCPError(f"the grades hold {levels} different values; round them to {MOST_GRADES} or fewer")
    rows = [
        (float(own["grade"].iloc[0]), len(own), *np.percentile(own["gain"], PERCENTILES))
        for _, own in graded.groupby("grade", sort=True)
    ]
    return pd.DataFrame(rows, columns=["grade", "grades", *(f"p{p}" for p in PERCENTILES)])


def score_percentiles(gains: GainTable) -> pd.DataFrame:
    """Percentiles of each dataset's pool scores before and after calibration (Section E.1).

    Returns
    -------
    DataFrame
        Two rows per dataset: `dataset, score` ("raw": Bradley-Terry scores, centred per query; "calibrated":
        abilities), `p5` to `p95`, `alpha` (the median of the queries' offsets; NaN: not released), `queries`.

    Raises
    ------
    RCPError
        If the table has no document, or scores or abilities were not released.
    """
    documents, queries = gains.documents, gains.queries
    if documents.empty:
        raise RCPError(f"{gains!r} has no document")
    for column, what in [("bt", "Bradley-Terry scores"), ("theta", "abilities")]:
        if documents[column].isna().all():
            raise RCPError(f"the {what} of these gains were not released: there is no {column!r} to show")
    codes = documents.groupby(KEYS[:2], sort=False).ngroup().to_numpy()
    raw = centre(documents["bt"].to_numpy(dtype=np.float64), codes)
    rows = []
    for dataset in sorted(documents["dataset"].unique()):
        here, own = (documents["dataset"] == dataset).to_numpy(), queries[queries["dataset"] == dataset]
        alpha = own["alpha"].to_numpy(dtype=np.float64)
        alpha = alpha[~np.isnan(alpha)]
        for name, values in [("raw", raw), ("calibrated", documents["theta"].to_numpy(dtype=np.float64))]:
            median = float(np.median(alpha)) if len(alpha) else np.nan
            rows.append((dataset, name, *np.percentile(values[here], PERCENTILES), median, len(own)))
    return pd.DataFrame(rows, columns=["dataset", "score", *(f"p{p}" for p in PERCENTILES), "alpha", "queries"])


def levels(criteria: pd.DataFrame) -> pd.DataFrame:
    """`id` and `beta` of the easiest and of the second hardest criterion, two rows; none without criteria."""
    rows = criteria.sort_values("beta", kind="stable")[["id", "beta"]]
    return pd.concat([rows.iloc[:1], rows.iloc[-2:].iloc[:1]])


def boards(compared: Comparison, against: str, dataset: str | None) -> tuple[pd.DataFrame, pd.DataFrame, str]:
    """A comparison's systems under another measure and under RCP-nDCG, best first, and what the means are over.

    Raises
    ------
    RCPError
        No comparison; a measure or dataset that it lacks.
    """
    if not isinstance(compared, Comparison):
        raise RCPError(f"compared must be what compare returned, not {type(compared).__name__}")
    rows, datasets = compared.systems, compared.systems["dataset"].unique().tolist()
    if dataset is None and len(datasets) > 1:
        rows, over = compared.suite, f"means over {len(datasets)} datasets"
    else:
        name = datasets[0] if dataset is None else dataset
        rows = rows[rows["dataset"] == name]
        if rows.empty:
            raise RCPError(f"the comparison has no dataset {name!r}; it has {examples(datasets)}")
        queries = counted(int(rows["n"].iloc[0]), "query", "queries")
        over = f"{name}: {queries}" if name else queries
    others = [measure for measure in rows["measure"].unique() if measure != RCP]
    if against not in others:
        hint = "; compare(runs, gains, qrels) adds nDCG" if against == QREL else ""
        raise RCPError(f"there is no {against!r} to set {RCP} against; the comparison has {examples(others)}{hint}")
    left, right = (rows[rows["measure"] == measure].sort_values("rank", kind="stable") for measure in (against, RCP))
    return left, right, over
