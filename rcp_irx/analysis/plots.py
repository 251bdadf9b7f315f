"""Pictures of gains, of their agreement with people, and of comparisons (extra `plot`), as matplotlib axes.

Each function takes `ax`, the axes to draw on, and returns it; without one it makes a figure (`ax.figure.savefig(path)`
saves it). No setting of matplotlib is changed. What is drawn is computed in `plotted` and `contests`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from rcp_irx.analysis.calibration_checks import BINS
from rcp_irx.analysis.comparing import Comparison, Families, families_of
from rcp_irx.analysis.contests import EDGES, contests, sided
from rcp_irx.analysis.drawing import (
    BLACK,
    BLUE,
    GREY,
    VERMILLION,
    above,
    axes,
    bands,
    boxes,
    legend,
    plain,
    series,
    signed,
    style,
)
from rcp_irx.analysis.leaderboards import RCP
from rcp_irx.analysis.plotted import (
    boards,
    calibration_bins,
    gains_by_grade,
    graded_gains,
    levels,
    score_percentiles,
)
from rcp_irx.analysis.results import QREL, Runs, gain_table
from rcp_irx.calibration import gain, pass_probabilities
from rcp_irx.errors import RCPError, counted, examples, warn, whole
from rcp_irx.gains import GainTable
from rcp_irx.tables import is_shaped

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LETTER = 0.085
"""About the width of a letter of a tick's label (inches)."""
MOVES = {
    "rises": {"color": BLUE, "linestyle": "-", "marker": "o"},
    "falls": {"color": VERMILLION, "linestyle": "--", "marker": "s"},
    "stays": {"color": GREY, "linestyle": "-", "marker": "o"},
}


def criterion_curves(gains: GainTable, *, ax: Axes | None = None) -> Axes:
    """Each criterion's pass probability and the gain, over the ability (Figure 3).

    The legend gives discrimination, difficulty and the share of answers that pass. The gain is that of Eq. 4, also
    where the table holds another (`with_gain`); the legend says so. Shading splits at the difficulties of the easiest
    and the second hardest criterion (C1 and C4 of the paper); above stand the shares of pool documents. What was not
    released (answers, abilities) is not told.

    Raises
    ------
    RCPError
        No gain table, or one without criteria.
    MissingExtra
        Without matplotlib.
    """
    criteria = gain_table(gains).criteria
    if criteria.empty:
        raise RCPError(f"{gains!r} has no criteria: there are no curves")
    documents = gains.documents
    gamma, beta = criteria["gamma"].to_numpy(dtype=np.float64), criteria["beta"].to_numpy(dtype=np.float64)
    ids, placed = criteria["id"].tolist(), documents["n"].sum()
    rates = gains.passes.sum(axis=0) / placed if placed > 0 else np.full(len(beta), np.nan)
    theta = np.linspace((beta - 4.5 / gamma).min(), (beta + 4.5 / gamma).max(), 401)
    chances = pass_probabilities(theta, gamma, beta)
    ax = axes(ax, (7.0, 4.8))
    for place, c in enumerate(np.argsort(beta, kind="stable")):
        rate = "" if np.isnan(rates[c]) else f", {rates[c]:.1%} passed"
        label = series(f"{ids[c]}: γ {gamma[c]:.2f}, β {signed(beta[c])}{rate}")
        ax.plot(theta, chances[:, c], label=label, linewidth=1.8, **{**style(place), "marker": ""})
    label = "gain of Eq. 4, not this table's" if is_shaped(documents, criteria) else "gain g"
    ax.plot(theta, gain(theta, gamma, beta), label=label, color=BLACK, linewidth=2.6)
    ax.set(xlim=(theta[0], theta[-1]), ylim=(-0.02, 1.02), xlabel="Ability θ (logit)", ylabel="Probability, gain")
    _shade(ax, documents["theta"].to_numpy(dtype=np.float64), *levels(criteria)["beta"])
    legend(ax, 2 if max(map(len, ids)) < 14 else 1, points=18)
    return ax


def raw_and_calibrated(gains: GainTable, *, ax: Axes | None = None) -> Axes:
    """Pool scores of each dataset before and after calibration (Figure 8).

    Boxes hold the middle half, whiskers reach from the 5th to the 95th percentile, a line marks the median. A dot marks
    the median of the queries' offsets alpha, dotted lines the difficulties of the easiest and second hardest criterion.

    Raises
    ------
    RCPError
        No gain table; one without documents, Bradley-Terry scores or abilities.
    MissingExtra
        Without matplotlib.

    Warns
    -----
    RCPWarning
        If offsets were not released.
    """
    rows = score_percentiles(gain_table(gains))
    raw, calibrated = rows[rows["score"] == "raw"], rows[rows["score"] == "calibrated"]
    datasets, places = calibrated["dataset"].tolist(), np.arange(len(calibrated), dtype=np.float64)
    alpha = calibrated["alpha"].to_numpy(dtype=np.float64)
    known = ~np.isnan(alpha)
    if not known.all():
        warn(f"no offsets alpha for dataset {examples(np.array(datasets, dtype=object)[~known])}: no dot")
    longest = max(map(len, datasets))
    ax = axes(ax, (6.0 + LETTER * max(longest, 12), 1.3 + 0.5 * len(datasets)))
    boxes(ax, places - 0.19, raw, GREY, 0.32, upright=False, label="raw, centred per query")
    boxes(ax, places + 0.19, calibrated, BLUE, 0.32, upright=False, label="calibrated")
    if known.any():
        ax.plot(alpha[known], (places + 0.19)[known], "o", color=BLACK, markersize=5, label="median α", zorder=4)
    marked = levels(gains.criteria).drop_duplicates("id")
    for level in marked.itertuples(index=False):
        ax.axvline(level.beta, color=BLACK, linestyle=":", linewidth=1, zorder=0)
    low, high = ax.get_xlim()
    if np.ptp(marked["beta"]) < 0.05 * (high - low):  # too near for two names
        marked = pd.DataFrame({"id": [", ".join(marked["id"])], "beta": [marked["beta"].mean()]})
    for level in marked.itertuples(index=False):
        above(ax, level.beta, plain(level.id))
    names = ["pool"] if datasets == [""] else [plain(name or "(no name)") for name in datasets]
    ax.set_yticks(places, names)
    ax.set(ylim=(len(datasets) - 0.5, -0.5), xlabel="Score (logit)")
    legend(ax, 3, points=16)
    return ax


def calibration(
    gains: GainTable, grades: pd.DataFrame, *, threshold: float = 2.0, bins: int = BINS, ax: Axes | None = None
) -> Axes:
    """How often people's single grades reach a threshold, by the gain: on the diagonal, the gain is that chance (4b).

    A point is a bin of the gain, its area the number of grades; lines are 95% intervals, clustered by query (none in a
    bin of one query). Above stands the expected calibration error (Section E.3), and what chance alone makes of it.
    Grades of all datasets are pooled.

    Parameters
    ----------
    grades : DataFrame
        `qid, docno, grade`, optionally `dataset` and `annotator`.
    threshold : float
        The least grade that counts as relevant: Useful, on the paper's scale from 0 to 4.
    bins : int
        Equal bins; empty ones are left out.

    Raises
    ------
    RCPError
        Unreadable input; no graded document has a gain; every grade lies on one side of the threshold.
    MissingExtra
        Without matplotlib.

    Warns
    -----
    RCPWarning
        Grades that are left out.
    """
    whole("bins", bins)
    graded = graded_gains(gain_table(gains), grades)
    rows, ece, chance = calibration_bins(graded, threshold, int(bins))
    ax = axes(ax, (4.6, 4.8))
    ax.plot([0, 1], [0, 1], color=GREY, linestyle="--", linewidth=1, zorder=1)
    known = rows[rows["low"].notna()]
    ax.vlines(known["gain"], known["low"], known["high"], color=BLUE, linewidth=1.2, zorder=2)
    sizes = 16 + 144 * rows["grades"] / rows["grades"].max()
    ax.scatter(rows["gain"], rows["share"], s=sizes, color=BLUE, edgecolor="white", zorder=3)
    ax.set(xlim=(-0.04, 1.04), ylim=(-0.04, 1.04), aspect="equal", xlabel="Mean gain of the bin")
    ax.set_ylabel(f"Share of grades at or above {threshold:g}")
    sizes_of = f"{len(graded):,} grades in {counted(int(bins), 'bin')}"
    ax.set_title(f"ECE {ece:.3f} (chance alone: {chance:.3f}): {sizes_of}", fontsize="medium")
    return ax


def gain_by_grade(gains: GainTable, grades: pd.DataFrame, *, ax: Axes | None = None) -> Axes:
    """The gains of documents by the single grades that people gave them (Figure 4c).

    Boxes hold the middle half, whiskers reach from the 5th to the 95th percentile, a line marks the median. Grades of
    all datasets are pooled.

    Parameters
    ----------
    grades : DataFrame
        As in `calibration`.

    Raises
    ------
    RCPError
        Unreadable input; no graded document has a gain; more than 15 different grades.
    MissingExtra
        Without matplotlib.

    Warns
    -----
    RCPWarning
        Grades that are left out.
    """
    rows = gains_by_grade(graded_gains(gain_table(gains), grades))
    ax = axes(ax, (max(4.0, 1.2 + 0.8 * len(rows)), 3.8))
    places = np.arange(len(rows), dtype=np.float64)
    boxes(ax, places, rows, BLUE, 0.6, upright=True)
    ax.set_xticks(places, [f"{row.grade:g}\nn = {row.grades:,}" for row in rows.itertuples(index=False)])
    ax.set(xlim=(-0.6, len(rows) - 0.4), ylim=(-0.03, 1.03), xlabel="Grade", ylabel="Gain")
    return ax


def leaderboard(
    compared: Comparison,
    *,
    against: str = QREL,
    dataset: str | None = None,
    families: Families | None = None,
    ax: Axes | None = None,
) -> Axes:
    """Systems in the order of another measure (left) and of RCP-nDCG (right), with their changes of rank (Figure 5).

    With each name stand its rank, mean and 95% interval, as in `compared`; a figure of its own is as wide as they need,
    given axes need that room on both sides.
    Heights are places, not scores: levels of different measures do not compare. Systems with the same mean share a
    rank. Colours are families, or tell who rises and who falls.

    Parameters
    ----------
    compared : Comparison
        What `compare` returned.
    against : str
        The measure on the left: "nDCG", which needs labels in `compare`, or "CountnDCG".
    dataset : str, optional
        One of several datasets; means over all where not given.
    families : mapping of str to str, or callable, optional
        Each system's model family, as in `compare`.

    Raises
    ------
    RCPError
        No comparison; a measure or dataset that it lacks; a system without a family.
    MissingExtra
        Without matplotlib.
    """
    left, right, over = boards(compared, against, dataset)
    kinds = list(families_of(families, right["system"].tolist()).values())
    place = {system: row for row, system in enumerate(left["system"])}
    rank = dict(zip(left["system"], left["rank"], strict=True))
    changes = [int(rank[system] - now) for system, now in zip(right["system"], right["rank"], strict=True)]
    styles: Mapping[str, dict[str, Any]] = {kind: style(i) for i, kind in enumerate(sorted(set(kinds)))}
    if not kinds:
        kinds = ["rises" if change > 0 else "falls" if change < 0 else "stays" for change in changes]
        styles = MOVES
    starts = [f"{_mean(row)}  {row.rank}" for row in left.itertuples(index=False)]
    ranks = _aligned(right["rank"].astype(str).tolist())
    entries = zip(ranks, right.itertuples(index=False), changes, strict=True)
    ends = [f"{rank}  {_mean(row)}{_moved(by)}" for rank, row, by in entries]
    ax = axes(ax, (2.6 + LETTER * (max(map(len, starts)) + max(map(len, ends))), 1.4 + 0.3 * len(right)))
    for kind, look in styles.items():
        rows = [row for row, own in enumerate(kinds) if own == kind]
        for row in rows:
            label = series(kind) if row == rows[0] else None
            ax.plot([0, 1], [place[right["system"].iloc[row]], row], label=label, linewidth=1.8, clip_on=False, **look)
    ax.set_yticks(range(len(left)), starts)
    opposite = ax.secondary_yaxis("right")
    opposite.set_yticks(range(len(right)), ends)
    ax.set_xticks([0, 1], [f"{measure}@{compared.k}" for measure in (against, RCP)])
    ax.tick_params(axis="x", labeltop=True, labelbottom=False)
    ax.set(xlim=(0, 1), ylim=(len(right) - 0.5, -0.5), title=plain(over))
    for side in (ax, opposite):
        side.tick_params(length=0, pad=10)
        side.spines[:].set_visible(False)
    legend(ax, 3, below=True)
    return ax


def margins(
    runs: Runs,
    gains: GainTable,
    grades: pd.DataFrame,
    qrels: pd.DataFrame | None = None,
    *,
    k: int = 5,
    ax: Axes | None = None,
) -> Axes:
    """How often people side with a measure's winner between two systems on a query, by its margin (Figure 7a).

    A margin is the difference of two systems' scores on a query. People prefer the system whose first k have the larger
    nDCG under their grades (`contests.contests` says how); lists that nobody graded in full do not count. Numbers are
    contests, without those whose margin is below 0.005 (Section B.2), lines 95% intervals, clustered by query; half is
    chance. Where a measure sees what people see, its share
    rises with its margin. Left of the dotted line are margins below 0.02, which the paper reads as ties.

    Parameters
    ----------
    runs : mapping of str to DataFrame or path
    grades : DataFrame
        `qid, docno, grade`, optionally `dataset` and `annotator`.
    qrels : DataFrame, optional
        `qid, docno, label`: adds nDCG. Labels that are the grades themselves agree by construction.
    k : int
        How many documents of each list count; the paper's people graded five.

    Raises
    ------
    RCPError
        Unreadable input; fewer than two systems; no contest in which people prefer one.
    MissingExtra
        Without matplotlib.

    Warns
    -----
    RCPWarning
        Contests that are left out for want of grades.
    """
    found = contests(runs, gain_table(gains), grades, qrels, k=k)
    if not found["verdict"].any():
        raise RCPError(f"people prefer neither list in any of {counted(len(found), 'contest')}: there is no share")
    shares = {measure: sided(found, measure) for measure in (RCP, QREL) if measure in found}
    ax = axes(ax, (6.4, 4.2))
    ax.axhline(0.5, color=GREY, linestyle="--", linewidth=1, zorder=1)
    ax.axvline(0.5, color=GREY, linestyle=":", linewidth=1.4, zorder=1)
    for place, (measure, rows) in enumerate(shares.items()):
        x = np.arange(len(rows)) + 0.2 * (place - (len(shares) - 1) / 2)
        ax.plot(x, rows["share"], label=f"{measure}@{k}", linewidth=1.6, markersize=7, zorder=3, **style(place))
        known = rows["low"].notna().to_numpy()
        ax.vlines(x[known], rows["low"][known], rows["high"][known], color=style(place)["color"], linewidth=1.4)
        y = -0.1 - 0.08 * place
        for band, number in enumerate(rows["contests"]):
            ax.text(band, y, f"{number}", ha="center", va="center", fontsize="small", color=style(place)["color"])
    ax.set_xticks(range(len(EDGES) + 1), bands(EDGES))
    ticks = np.linspace(0, 1, 6)
    ax.set_yticks([(y - 0.1) / 2, *ticks], ["contests", *(f"{tick:.1f}" for tick in ticks)])
    ax.set(xlim=(-0.5, len(EDGES) + 0.5), ylim=(y - 0.06, 1.05), xlabel="Margin between two systems on a query")
    ax.set_ylabel("Share in which people prefer the winner")
    legend(ax, 2)
    return ax


def _shade(ax: Axes, theta: np.ndarray, easy: float, hard: float) -> None:
    """Shades below the easy and above the hard level, with the shares of pool documents in the three parts."""
    low, high = ax.get_xlim()
    ax.axvspan(low, easy, color=GREY, alpha=0.18, linewidth=0, zorder=0)
    ax.axvspan(hard, high, color=GREY, alpha=0.18, linewidth=0, zorder=0)
    if not len(theta) or np.isnan(theta).any():
        return
    parts = [(low, easy, theta < easy), (easy, hard, (theta >= easy) & (theta < hard)), (hard, high, theta >= hard)]
    for start, end, here in parts:
        if end > start:
            text = f"{here.mean():.1%}" + (" of the pool" if start == low else "")
            above(ax, (start + end) / 2, text)


def _mean(row: Any) -> str:
    interval = "" if np.isnan(row.low) else f" [{row.low:.3f}, {row.high:.3f}]"
    return plain(f"{row.system}  {row.mean:.3f}{interval}")


def _aligned(numbers: list[str]) -> list[str]:
    """Numbers of one width: a digit is about as wide as two spaces."""
    width = max(map(len, numbers))
    return ["  " * (width - len(number)) + number for number in numbers]


def _moved(by: int) -> str:
    return f"  up {by}" if by > 0 else f"  down {-by}" if by < 0 else ""
