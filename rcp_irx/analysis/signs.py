"""The warning signs of a calibration: what each check found, from where on it warns, and what that may mean.

Where the paper names no sign, one is given where a fit does worse than every fit that the paper reports (Tables 7 and
8, Sections E.1 and E.3); the paper counts answers by query, document and criterion, so its Brier skill is read as that
of pass shares. The numbers themselves are made in `calibration_checks`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import pandas as pd

from rcp_irx.calibration._numeric import FloatArray
from rcp_irx.errors import counted

Q3_SIGN = 0.2
"""Yen's Q3 beyond which two criteria's answers depend on each other (Section E.2)."""
AUC_SIGN = 0.7
"""AUC of the gains for the labels' positives below which the rubric may not be the task."""
CHANGED_SIGN = 54 / 1183
"""Largest share of decisions that zeroing the all-fail documents changes in the paper (NanoBEIR; Section I.3)."""
NOTED_SIGN = 0.05
"""Share of answers with something odd; that of failures at which a calibration refuses a query."""


class Span(NamedTuple):
    """The least and the largest value over the fits that the paper reports."""

    low: float
    high: float


MARGIN = Span(0.012, 0.270)
TAU_RATIO = Span(2.5, 3.3)
EFFICIENCY = Span(0.35, 0.75)
BELOW = Span(0.580, 0.867)
ABOVE = Span(0.009, 0.148)
ECE = Span(0.013, 0.017)
SKILL = Span(0.789, 0.814)
BETTER = Span(0.949, 0.978)
TRANSFER = Span(0.465, 0.641)


class Check(NamedTuple):
    """One check of a calibration.

    Attributes
    ----------
    check : str
    value : float
        The number that the sign is about; NaN where it could not be made.
    found : str
        The same for people, with what belongs to it.
    sign : str
        From where on the check warns.
    warning : bool
    may_mean : str
        What the sign may mean, where it warns.
    """

    check: str
    value: float
    found: str
    sign: str
    warning: bool = False
    may_mean: str = ""

    @property
    def line(self) -> str:
        """The warning, in one line."""
        return f"{self.check}: {self.found}; sign: {self.sign}; may mean: {self.may_mean}"


NO_ABILITIES, NO_ANSWERS, NO_SCORES, NO_SCALES = (
    f"{what} were not released"
    for what in ("abilities", "placements and pass counts", "tournament scores", "the queries' scales")
)


NOT_PLACED = "no document was placed in a rubric window"


def not_made(check: str, why: str) -> Check:
    """A check that lacks what it is made of."""
    return Check(check, float("nan"), f"not made: {why}", "")


def rising(criteria: Sequence[str], beta: FloatArray) -> Check:
    """Whether the difficulties rise in the rubric's order."""
    falls = [c for c in range(1, len(beta)) if not beta[c] > beta[c - 1]]
    told = "; ".join(f"{criteria[c]} ({beta[c]:.2f}) after {criteria[c - 1]} ({beta[c - 1]:.2f})" for c in falls)
    return Check(
        "difficulties rise",
        float(len(falls)),
        told or "yes",
        "a criterion no harder than the one before it",
        bool(falls),
        "the judge does not find these criteria of rising stringency; gains follow the fitted difficulties, whatever"
        " their order",
    )


def largest_discrimination(criteria: Sequence[str], gamma: FloatArray) -> Check:
    """The largest discrimination and its margin over the runner-up."""
    name = "largest discrimination"
    if len(gamma) < 2:
        return not_made(name, "the rubric has one criterion")
    order = np.argsort(-gamma, kind="stable")
    margin = float(gamma[order[0]] - gamma[order[1]])
    return Check(
        name,
        margin,
        f"{criteria[order[0]]} ({margin:+.3f} over {criteria[order[1]]})",
        f"a margin above {MARGIN.high:.3f} (paper: {MARGIN.low:.3f} to {MARGIN.high:.3f})",
        margin > MARGIN.high,
        f"the gain follows {criteria[order[0]]} more than the others; look at its answers",
    )


def scales(tau: FloatArray, flat: int) -> Check:
    """The spread of the queries' scales; `flat` of them are near 0."""
    low, high = np.percentile(tau, [5, 95])
    ratio = float(high / low) if low > 0 else float("inf")
    none = counted(flat, "query has", "queries have")
    return Check(
        "scales tau, p5 to p95",
        ratio,
        f"{low:.2f} to {high:.2f} (ratio {ratio:.1f}, {counted(len(tau), 'query', 'queries')})"
        + (f"; {none} one near 0" if flat else ""),
        f"a ratio above {TAU_RATIO.high} (paper: {TAU_RATIO.low} to {TAU_RATIO.high})",
        ratio > TAU_RATIO.high,
        "queries differ much in how the rubric's answers go with the tournament, or have too few answers to tell: this"
        " spread holds estimation noise",
    )


def efficiency(ideal: float, runs: float, k: int, ability: float, peak: float) -> Check:
    """The information efficiency at the ideal and the runs' (NaN: none given) top k; their and the peak's ability."""
    told = f"{ideal:.2f} ideal" + ("" if np.isnan(runs) else f", {runs:.2f} runs")
    beyond = "" if np.isnan(runs) else ", or the ideal's below the runs'"
    side = "below" if peak < ability else "above"
    return Check(
        f"information efficiency, top {k}",
        ideal,
        f"{told} (mean ability {ability:.1f}, most precise at {peak:.1f})",
        f"below {EFFICIENCY.low} at the ideal (paper: {EFFICIENCY.low} to {EFFICIENCY.high}){beyond}",
        ideal < EFFICIENCY.low or ideal < runs,
        f"the rubric is most precise {side} the documents that fill the top {k}, and tells little among them",
    )


def independence(criteria: Sequence[str], q3: FloatArray, raw: FloatArray) -> Check:
    """Yen's Q3 of every pair, and the raw correlations of the answers."""
    name = "local independence, |Q3|"
    pairs = [(a, b) for a in range(len(criteria)) for b in range(a + 1, len(criteria)) if not np.isnan(q3[a, b])]
    if not pairs:
        return not_made(name, "no two criteria whose residuals vary")
    sizes = np.array([abs(q3[pair]) for pair in pairs])
    flagged = sorted((pair for pair in pairs if abs(q3[pair]) > Q3_SIGN), key=lambda pair: -abs(q3[pair]))
    named = ", ".join(f"{criteria[a]}-{criteria[b]} {q3[a, b]:.2f}" for a, b in flagged[:3])
    together = [abs(raw[pair]) for pair in pairs if not np.isnan(raw[pair])]
    answers = f"{np.mean(together):.2f}" if together else "constant"
    return Check(
        name,
        float(sizes.mean()),
        f"mean {sizes.mean():.3f} (answers: {answers}); {len(flagged)} of {counted(len(pairs), 'pair')} above"
        f" {Q3_SIGN}" + (f": {named}" if flagged else ""),
        f"a pair above {Q3_SIGN} (paper: 2 or 3 of 10)",
        bool(flagged),
        "the two answers go together beyond the ability: they ask about one thing, or about something that the"
        " tournament does not see, and count twice",
    )


def below_easiest(criterion: str, share: float) -> Check:
    """The share of the pool below the easiest criterion's difficulty."""
    return Check(
        f"pool below {criterion}",
        share,
        f"{share:.1%}",
        f"above {BELOW.high:.1%} (paper: {BELOW.low:.1%} to {BELOW.high:.1%})",
        share > BELOW.high,
        "hardly any document meets even the easiest criterion: the rubric is too hard for these pools, or the pools"
        " hold little that is relevant",
    )


def above_hard(criterion: str, share: float) -> Check:
    """The share of the pool at or above the second hardest criterion's difficulty."""
    many = share > ABOVE.high
    return Check(
        f"pool at or above {criterion}",
        share,
        f"{share:.1%}",
        f"below {ABOVE.low:.1%} or above {ABOVE.high:.1%} (paper: {ABOVE.low:.1%} to {ABOVE.high:.1%})",
        many or share < ABOVE.low,
        "the rubric is too easy to tell the best documents apart, or the pools are small or rich"
        if many
        else "the hardest criteria decide next to nothing: nothing in these pools is what they ask for",
    )


def calibration(ece: float, chance: float) -> Check:
    """The calibration error of the pass probabilities, and what chance alone would leave."""
    return Check(
        "ECE of pass probabilities",
        ece,
        f"{ece:.3f} (chance alone: {chance:.3f})",
        f"above {ECE.high} and twice chance (paper: {ECE.low} to {ECE.high})",
        ece > max(ECE.high, 2 * chance),
        "the answers do not follow the fitted curves: criteria of another fit or judge, or answers that no such curve"
        " describes",
    )


def skill(value: float, removed: Sequence[tuple[str, float]]) -> Check:
    """The Brier skill, and the shares of the baseline that each step of the model removes."""
    parts = ", ".join(f"{name} {share:.1%}" for name, share in removed)
    return Check(
        "Brier skill",
        value,
        f"{value:.3f} ({parts})",
        f"below {SKILL.low} (paper: {SKILL.low} to {SKILL.high})",
        value < SKILL.low,
        "the answers hold more than the tournament's order and the criteria explain: a noisy judge, few placements a"
        " document, or a rubric that asks for something else",
    )


def better_than_logistic(share: float, queries: int) -> Check:
    """The share of queries whose answers the 2PL predicts better than one logistic curve per criterion does."""
    return Check(
        "queries that scales help",
        share,
        f"{share:.1%} of {counted(queries, 'query', 'queries')} have a lower Brier score than by logistic curves of bt",
        f"below {BETTER.low:.1%} (paper: {BETTER.low:.1%} to {BETTER.high:.1%})",
        share < BETTER.low,
        "scales and offsets per query add little: the scores of all queries were on one scale, or there are too few"
        " answers to fit them",
    )


def all_fail(rows: pd.DataFrame, zeroed: pd.DataFrame | None) -> Check:
    """The all-fail documents' share, and with runs the decisions that gains of 0 for them would change."""
    share = float(rows["all_fail"].sum() / rows["documents"].sum())
    found = f"{share:.1%} of the pool"
    if zeroed is None or not zeroed["pairs"].sum():
        return Check("documents that fail everything", share, found, "none without runs to compare")
    cells, changed, turned = (int(zeroed[name].sum()) for name in ("pairs", "changed", "reversed"))
    of = counted(cells, "decision")
    return Check(
        "documents that fail everything",
        share,
        f"{found}; gain 0 for them changes {changed} of {of}, reverses {turned}",
        f"a reversal, or above {CHANGED_SIGN:.1%} changed (paper: none, 1.1% to {CHANGED_SIGN:.1%})",
        turned > 0 or changed > CHANGED_SIGN * cells,
        "what is concluded about these systems rests on the tournament's order of documents that meet no criterion",
    )


def positives(rows: pd.DataFrame) -> Check:
    """The AUC of the gains for the labels' positives, per dataset."""
    name = "AUC for labels' positives"
    known = rows[rows["auc"].notna()]
    if known.empty:
        return not_made(name, "no dataset has positive and other documents in its pools")
    low = known[known["auc"] < AUC_SIGN]
    worst = known.loc[known["auc"].idxmin()]
    told = ", ".join(f"{row.dataset!r} {row.auc:.3f}" for row in low.head(3).itertuples())
    more = f" and {len(low) - 3} more" if len(low) > 3 else ""
    several = f", least of {len(known)} datasets" if len(known) > 1 else ""
    return Check(
        name,
        float(worst["auc"]),
        f"{worst['auc']:.3f}{several}" + (f"; below {AUC_SIGN}: {told}{more}" if len(low) and len(known) > 1 else ""),
        f"below {AUC_SIGN}",
        bool(len(low)),
        "the rubric may not be the task: these labels call something else relevant than what its criteria ask for",
    )


def failed_windows(failed: int, planned: int, kinds: str) -> Check:
    """Windows that have no valid answer."""
    return Check(
        "windows without an answer",
        failed / planned if planned else float("nan"),
        f"{failed} of {planned}" + (f" ({kinds})" if kinds else ""),
        "any",
        failed > 0,
        "they count for nothing, so their documents rest on fewer judgments; see log.failures()",
    )


def odd_answers(noted: int, answered: int) -> Check:
    """Answers that count although something is odd about them."""
    share = noted / answered if answered else float("nan")
    return Check(
        "odd answers",
        share,
        f"{noted} of {answered}",
        f"above {NOTED_SIGN:.0%}",
        share > NOTED_SIGN,
        "scores beyond 5 in size, or all alike: the judge does not use the scale as it was told to",
    )
