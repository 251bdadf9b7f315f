"""`judge_noise`: how much a judge's answers depend on where and how often a document was shown, from its log alone.

No label is read, so nothing here says whether the judge is right.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from rcp_irx.analysis import lengths, repeats
from rcp_irx.analysis.doublings import doublings_of
from rcp_irx.analysis.halvings import halvings, reliabilities
from rcp_irx.analysis.jackknife import Estimate, FloatArray, half_width, jackknife
from rcp_irx.analysis.screen import screen, table
from rcp_irx.analysis.subsamples import listed, reversals, rubric_of, unfinished_notes
from rcp_irx.errors import RCPError, counted, examples, whole
from rcp_irx.gains import GainTable
from rcp_irx.judging.calibrate import JudgedPool
from rcp_irx.judging.judges.base import USUAL_SCORE
from rcp_irx.judging.log import JudgmentLog
from rcp_irx.judging.rubric import Rubric
from rcp_irx.judging.tournament import TOURNAMENT
from rcp_irx.tables import KEYS

FEW = 20
"""Queries below which a standard error over queries is rough; answers of one kind below which alpha tells nothing."""

MANY = 0.02
"""The share of scores at the scale's ends above which effects on scores are doubtful: at .03 noise is 4% too small."""

NOTHING = Estimate(np.full(1, np.nan), np.full(1, np.nan), 0)

MEANINGS = {
    "position effect": "logits: a document's score when shown first, minus when shown last",
    "order flips": "share of document pairs that change order when their window is shown reversed",
    "flips to the earlier": "share of these flips in which the document shown before the other wins; even: 0.5",
    "tied pairs": "share of document pairs whose scores are equal in a showing",
    "score noise": "logits: standard deviation of one score around document, window and place",
    "scores at the ends": "share of tournament scores at -5 or 5, where differences are cut",
    "ability reliability": "split-half, Spearman-Brown: rank correlation of two such logs' abilities, queries pooled",
    "order reliability": "split-half, Spearman-Brown: the same within a query, mean over queries",
    "length effect": "logits of score per doubling of length: the judge's taste, or longer documents answer better",
    "length beyond rubric": "logits of ability per doubling that the tournament gives and the rubric does not",
}
"""What the summary holds, by its index."""


@dataclass(frozen=True, eq=False, repr=False)
class JudgeNoise:
    """A judge's noise and biases, as far as its log shows them.

    Attributes
    ----------
    judge : str
    summary : DataFrame
        Index: the keys of `MEANINGS`. Columns `value, se` (delete-one-query jackknife; for "length beyond rubric" a
        sandwich clustered by query), `low, high` (95%, Student's t over queries), `queries`. NaN: the log does not
        tell.
    places : DataFrame
        Place by place in windows of the usual size: `place` (1 is first), `effect` (logits, half of the difference
        between a document's score there and at the mirrored place), `se, low, high`.
    criteria : DataFrame
        From documents that were placed at least twice, one row per criterion: `id, documents, pass_rate, flip_rate`
        (the chance that two answers to one document differ), `flip_se`, `chance` (that of two answers drawn from all
        documents), `alpha` (1 - flip rate / chance: Krippendorff's), `alpha_se, alpha_low, alpha_high`.
    warnings : list of str
    """

    judge: str
    summary: pd.DataFrame
    places: pd.DataFrame
    criteria: pd.DataFrame
    warnings: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [f"Judge {self.judge!r}; nothing here says whether it is right.", ""]
        lines += [f"{'':22} {'value':>7}  {'95% interval':^16}"]
        for name, row in self.summary.iterrows():
            interval = f"{row['low']:6.3f} to {row['high']:6.3f}" if np.isfinite(row["se"]) else ""
            lines.append(f"{name:22} {row['value']:7.3f}  {interval:16}  {MEANINGS[str(name)]}")
        shown = self.criteria.drop(columns=["alpha_low", "alpha_high"]).rename(columns={"id": "criterion"})
        return screen(lines[0], [*lines[1:], "\n" + table(shown, " in .criteria")], self.warnings)

    __repr__ = __str__


def judge_noise(
    log: JudgmentLog,
    documents: pd.DataFrame | None = None,
    *,
    datasets: Iterable[str] | None = None,
    judge: str | None = None,
    rubric: Rubric | str | None = None,
    leave_out: Iterable[str | tuple[str, ...]] = (),
    splits: int = 4,
    seed: int = 42,
) -> JudgeNoise:
    """Measure a judge's noise and its biases of place and length from the windows that it was asked more than once.

    Position effect, order flips and score noise come from windows that were shown in both orders (C.2); flips of
    criteria from documents that were placed more than once in Stage B; reliability from two random halves of each
    query's windows, both stages fitted again on each (a window and its reversal stay together), stepped up by
    Spearman-Brown (B.2). The length effect is the slope of scores on log2 length within the random windows, which no
    answer chose; "beyond rubric" is what of it the rubric's answers do not share (`lengths.beyond_rubric`).

    Parameters
    ----------
    log : JudgmentLog
    documents : DataFrame, optional
        `docno` and `text` (its length is its number of characters) or `length` (any unit), optionally `qid` and
        `dataset`; needed for the length effect unless the log keeps texts.
    datasets, judge, rubric, leave_out
        As in `JudgmentLog.calibrate`. Queries that are not judged to the end are left out.
    splits : int
        How many random halvings are averaged.

    Raises
    ------
    RCPError
        Several judges, prompts, rubrics or texts; what the calibration refuses; documents without a length (named).

    Notes
    -----
    Effects are on scores as given, which end at -5 and 5 (see "scores at the ends"). Reversed windows show only effects
    that differ between mirrored places. Of a judge that gives the same window the same answer, noise is how answers
    vary with the order and the company of documents. The halves share windows that all answers chose: reliabilities of
    .9 come out right, those of .7 to .8 up to .1 high, beyond their intervals. Whether long documents answer better, no
    label-free number can tell.
    """
    whole("splits", splits)
    whole("seed", seed, 0)
    datasets, leave_out = listed(datasets), listed(leave_out) or []
    notes: list[str] = []
    gains = _calibrated(log, datasets, judge, rubric, leave_out, notes)
    wanted = set(gains.queries[["dataset", "qid"]].itertuples(index=False, name=None))
    name, digest = str(gains.metadata["judge"]), str(gains.metadata["rubric"])
    judged = [j for j in log.judged(datasets=datasets, judge=name, rubric=digest) if j.key in wanted]
    summary, places = _both_orders(judged, notes)
    summary["scores at the ends"] = _at_the_ends(judged, notes)
    halved = halvings(judged, rubric_of(gains), leave_out, splits, seed, notes)
    ability, order = reliabilities(halved, [one.key for one in judged])
    summary |= {"ability reliability": _row(ability, 0), "order reliability": _row(order, 0)}
    summary |= _length(log, gains, documents, halved, notes)
    criteria = _criteria(gains, notes)
    if len(judged) == 1:
        notes.append("one query: no standard errors, which are over queries")
    elif len(judged) < FEW:
        notes.append(f"standard errors over {counted(len(judged), 'query', 'queries')} are rough")
    frame = pd.DataFrame([summary[row] for row in MEANINGS], index=pd.Index(list(MEANINGS), name="measure"))
    return JudgeNoise(name, frame, places, criteria, notes)


def _calibrated(
    log: JudgmentLog,
    datasets: Iterable[str] | None,
    judge: str | None,
    rubric: Rubric | str | None,
    leave_out: Iterable[str | tuple[str, ...]],
    notes: list[str],
) -> GainTable:
    """The gains of all queries that are judged to the end."""
    if not isinstance(log, JudgmentLog):
        raise RCPError(f"log must be a JudgmentLog, such as JudgmentLog('dl19.judgments'), not {log!r}")
    gains = log.calibrate(
        datasets=datasets, judge=judge, rubric=rubric, max_failed=1.0, incomplete="leave_out", leave_out=leave_out
    )
    notes += unfinished_notes(gains, leave_out)
    failed = gains.queries["failed"].sum() / max(1, gains.queries["planned"].sum())
    if failed > 0.05:
        notes.append(f"{failed:.0%} of the windows failed: what they would have shown is not in these numbers")
    return gains


def _both_orders(judged: Sequence[JudgedPool], notes: list[str]) -> tuple[dict[str, dict[str, Any]], pd.DataFrame]:
    """What windows shown in both orders tell, and the effect of each place in windows of the usual size."""
    pairs: dict[int, list[tuple[int, Any, Any]]] = {}
    for query, one in enumerate(judged):
        for forward, backward in reversals(one.tournament):
            scores = one.tournament[forward][1]
            pairs.setdefault(len(scores), []).append((query, scores, one.tournament[backward][1][::-1]))
    position, flips = np.zeros((len(judged), 4)), np.zeros((len(judged), 4))
    arrays = {}
    for size, rows in pairs.items():
        codes = np.array([query for query, _, _ in rows])
        first, second = (np.array([row[side] for row in rows], dtype=np.float64) for side in (1, 2))
        arrays[size] = codes, first, second
        np.add.at(position, codes, repeats.position_sums(first, second))
        np.add.at(flips, codes, repeats.flip_sums(first, second))
    moved, turned = jackknife(position, repeats.position_statistics), jackknife(flips, repeats.flip_statistics)
    rows_of = {
        "position effect": _row(moved, 0),
        "score noise": _row(moved, 1),
        "order flips": _row(turned, 0),
        "flips to the earlier": _row(turned, 1),
        "tied pairs": _row(turned, 2),
    }
    if not pairs:
        notes.append(
            "no window was answered in both orders (FULL shows them so, REDUCED does not): position effect, order flips"
            " and score noise are unknown"
        )
        return rows_of, _places(np.zeros((1, 0, 2)))
    effect = rows_of["position effect"]
    if effect["low"] > 0 or effect["high"] < 0:
        notes.append(
            f"the same document scores {_signed(effect)} logits when shown first instead of last: the place counts for"
            " the judge; reversals cancel it, adaptive windows, shown best first, do not"
        )
    usual = max(arrays, key=lambda size: len(arrays[size][0]))
    codes, first, second = arrays[usual]
    by_place = np.zeros((len(judged), usual, 2))
    np.add.at(by_place, codes, repeats.place_sums(first, second))
    return rows_of, _places(by_place)


def _at_the_ends(judged: Sequence[JudgedPool], notes: list[str]) -> dict[str, Any]:
    """How many tournament scores lie where the scale ends."""
    totals = np.zeros((len(judged), 2))
    for query, one in enumerate(judged):
        scores = np.abs([score for _, scores in one.tournament for score in scores])
        totals[query] = np.sum(scores >= USUAL_SCORE), scores.size
    row = _row(jackknife(totals, lambda sums: sums[..., :1] / sums[..., 1:]), 0)
    row["low"] = np.maximum(row["low"], 0.0)
    if row["value"] > MANY:
        notes.append(
            f"{row['value']:.0%} of the tournament's scores lie at -5 or 5: effects of place and length and the noise"
            " come out too small, and what length brings beyond the rubric may be a bent scale"
        )
    return row


def _places(totals: FloatArray) -> pd.DataFrame:
    found = jackknife(totals, lambda sums: sums[..., 0] / sums[..., 1])
    low, high = found.interval()
    return pd.DataFrame(
        {"place": np.arange(1, totals.shape[1] + 1), "effect": found.value, "se": found.se, "low": low, "high": high}
    )


def _criteria(gains: GainTable, notes: list[str]) -> pd.DataFrame:
    """How repeated answers to each criterion agree."""
    rows = gains.documents
    n = rows["n"].to_numpy(dtype=np.float64)
    codes = _codes(rows)
    sums = repeats.answer_sums(gains.passes, n)
    totals = np.zeros((codes.max() + 1, *sums.shape[1:]))
    np.add.at(totals, codes, sums)
    found = jackknife(totals, repeats.answer_statistics)
    low, high = (ends.reshape(-1, 4) for ends in found.interval())
    value, se = found.value.reshape(-1, 4), found.se.reshape(-1, 4)
    frame = pd.DataFrame(
        {
            "id": gains.criteria["id"],
            "documents": int((n >= 2).sum()),
            "pass_rate": value[:, 1],
            "flip_rate": value[:, 0],
            "flip_se": se[:, 0],
            "chance": value[:, 2],
            "alpha": value[:, 3],
            "alpha_se": se[:, 3],
            "alpha_low": low[:, 3],
            "alpha_high": high[:, 3],
        }
    )
    if not (n >= 2).any():
        notes.append("no document was placed twice in Stage B: flip rates of the criteria are unknown")
    answers, yes = float(n[n >= 2].sum()), gains.passes[n >= 2].sum(axis=0)
    rare = np.minimum(yes, answers - yes)
    for row in frame.itertuples():
        if answers and rare[row.Index] < FEW:
            notes.append(
                f"repeated answers to criterion {row.id!r} hold {yes[row.Index]:.0f} yes of {answers:.0f}: too few of"
                " one kind to tell how they agree, whatever the interval of alpha"
            )
        elif row.alpha_low <= 0:
            notes.append(
                f"repeated answers to criterion {row.id!r} may agree no more than answers to different documents do"
                f" (alpha {row.alpha:.2f}, 95% {row.alpha_low:.2f} to {row.alpha_high:.2f};"
                f" {row.pass_rate:.1%} are yes)"
            )
    return frame


def _length(
    log: JudgmentLog,
    gains: GainTable,
    documents: pd.DataFrame | None,
    halved: Sequence[pd.DataFrame],
    notes: list[str],
) -> dict[str, dict[str, Any]]:
    """How scores go with length, and what of that the rubric's answers do not share."""
    rows = gains.documents
    given = log.texts().merge(rows[KEYS], on=KEYS) if documents is None else documents
    found = doublings_of(given, rows)
    if documents is None and found.isna().any():
        notes.append(
            f"no length effect: the log keeps no text of {counted(int(found.isna().sum()), 'document')}; give"
            " documents=, a frame of docno and text (or length)"
        )
        return {"length effect": _row(NOTHING, 0), "length beyond rubric": _row(NOTHING, 0)}
    if found.isna().any():
        absent = rows.loc[found.isna(), KEYS].itertuples(index=False, name=None)
        raise RCPError(f"documents has no text or length for {examples(absent)}; every judged document needs one")
    slope = _row(jackknife(_random_windows(log, gains, found), lengths.slope_statistics), 0)
    more = _row(_beyond_rubric(gains, found.to_numpy(dtype=np.float64), halved), 0)
    if more["low"] > 0 or more["high"] < 0:
        notes.append(
            f"twice the length brings a document {_signed(more)} logits of ability in the tournament beyond what the"
            " rubric's answers say: one of the two stages weighs length"
        )
    return {"length effect": slope, "length beyond rubric": more}


def _random_windows(log: JudgmentLog, gains: GainTable, doublings: pd.Series) -> FloatArray:
    """Each query's sums for the slope of scores on length, over its random tournament windows."""
    rows, judge = gains.documents, gains.metadata["judge"]
    codes = _codes(rows)
    length = dict(zip(rows[KEYS].itertuples(index=False, name=None), doublings, strict=True))
    place = dict(zip(rows[KEYS[:2]].itertuples(index=False, name=None), codes, strict=True))
    totals = np.zeros((codes.max() + 1, 2))
    windows = log.windows()
    windows = windows[(windows["stage"] == TOURNAMENT) & (windows["phase"] == "random") & (windows["judge"] == judge)]
    windows = windows[windows["answer"].notna()]
    for dataset, qid, docnos, answer in windows[["dataset", "qid", "docnos", "answer"]].itertuples(index=False):
        keys = [(dataset, qid, docno) for docno in docnos]
        held = [(score, length[key]) for score, key in zip(answer, keys, strict=True) if key in length]
        if len(held) > 1:
            totals[place[dataset, qid]] += lengths.slope_sums(*zip(*held, strict=True))
    return totals


def _beyond_rubric(gains: GainTable, doublings: FloatArray, halved: Sequence[pd.DataFrame]) -> Estimate:
    """What of the length effect the rubric's answers do not share; the tournament's noise is allowed for."""
    if not halved:
        return NOTHING
    rows, criteria = gains.documents, gains.criteria
    codes = _codes(rows)
    scores = [rows[KEYS].merge(both, on=KEYS, how="left", validate="one_to_one") for both in halved]
    first, second = (np.stack([both[name].to_numpy(dtype=np.float64) for both in scores]) for name in ("bt_1", "bt_2"))
    leak = lengths.noise_leak(rows["bt"], first, second, doublings, codes)
    gamma, beta = criteria["gamma"], criteria["beta"]
    return lengths.beyond_rubric(rows["bt"], gains.passes, rows["n"], codes, gamma, beta, doublings, leak)


def _codes(rows: pd.DataFrame) -> np.ndarray:
    """The query of each row as a number from 0."""
    return pd.factorize(pd.MultiIndex.from_frame(rows[KEYS[:2]]))[0]


def _row(found: Estimate, which: int) -> dict[str, Any]:
    value, se = float(found.value[which]), float(found.se[which])
    reach = half_width(found.queries) * se
    return {"value": value, "se": se, "low": value - reach, "high": value + reach, "queries": found.queries}


def _signed(row: dict[str, Any]) -> str:
    return f"{row['value']:+.2f} (95% {row['low']:+.2f} to {row['high']:+.2f})"
