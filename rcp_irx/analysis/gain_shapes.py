"""The alternative gains of Section E.5, as tables like any other: every measure and comparison reads them.

The formulas are in `calibration.gain`.
"""

from __future__ import annotations

import numpy as np

from rcp_irx.analysis.calibration_checks import FloatArray
from rcp_irx.analysis.fitted import Fitted, read_fitted
from rcp_irx.calibration import criterion_gain, gain, linear_gain, logistic_gain, min_max_gain, unweighted_gain
from rcp_irx.errors import RCPError, examples, finite
from rcp_irx.gains import GainTable

SHAPES = ("paper", "unweighted", "logistic", "criterion", "linear", "min-max")


def with_gain(
    gains: GainTable,
    shape: str,
    *,
    criterion: str | None = None,
    low: float | None = None,
    high: float | None = None,
) -> GainTable:
    """The same abilities with gains of another shape; the order of a query's documents stays, but for new ties.

    Parameters
    ----------
    gains : GainTable
        With abilities.
    shape : str
        "paper" (Eq. 4), "unweighted" (the plain mean of the pass probabilities), "logistic" (of the ability, centred
        at 0), "criterion" (one criterion's pass probability), "linear" (from 0 at `low` to 1 at `high`, clipped), or
        "min-max" (from 0 at a query's least ability to 1 at its largest: it ignores the calibration; excluded documents
        set no end, and get the nearer end where they lie beyond).
    criterion : str, optional
        For "criterion", its id; the second hardest where not given, as C4 of the paper.
    low, high : float, optional
        For "linear", abilities (logit); the easiest and the hardest criterion's difficulty where not given. The paper
        does not give its own.

    Returns
    -------
    GainTable
        It keeps the fit id and says in its `label` what the gain is. Standard errors of the paper's gain (`gain_se`)
        are not those of another and are left out.

    Raises
    ------
    RCPError
        An unknown shape or criterion; options of another shape; abilities that were not released; `low` not below
        `high`, also where one criterion leaves no line between its difficulties.
    """
    fitted = read_fitted(gains)
    finite(**{name: value for name, value in (("low", low), ("high", high)) if value is not None})
    if shape not in SHAPES:
        raise RCPError(f"shape is one of {list(SHAPES)}, not {shape!r}")
    if criterion is not None and shape != "criterion":
        raise RCPError(f"criterion= belongs to shape 'criterion', not {shape!r}")
    if (low is not None or high is not None) and shape != "linear":
        raise RCPError(f"low= and high= belong to shape 'linear', not {shape!r}")
    if not fitted.has_abilities:
        raise RCPError("the abilities of these gains were not released, so no other gain can be made of them")
    values, name = _shaped(fitted, shape, criterion, low, high)
    metadata = {**gains.metadata, "derived": f"{gains.metadata['derived']}-{name}"}
    outside = gains.scored.iloc[len(gains) :][["dataset", "qid", "docno"]]
    labels = gains.human_labels
    return GainTable(
        gains.documents.drop(columns="gain_se", errors="ignore").assign(gain=values),
        gains.queries,
        gains.criteria,
        metadata,
        outside if len(outside) else None,
        labels if len(labels) else None,
    )


def _shaped(
    fitted: Fitted, shape: str, criterion: str | None, low: float | None, high: float | None
) -> tuple[FloatArray, str]:
    """The gains and the name that tells them apart."""
    theta, gamma, beta = fitted.theta, fitted.gamma, fitted.beta
    if shape == "paper":
        return gain(theta, gamma, beta), "paper"
    if shape == "unweighted":
        return unweighted_gain(theta, gamma, beta), "unweighted"
    if shape == "logistic":
        return logistic_gain(theta), "logistic"
    if shape == "min-max":
        return _min_max(fitted), "min-max"
    if shape == "criterion":
        chosen = fitted.criteria[fitted.by_difficulty[-2:][0]] if criterion is None else criterion
        if chosen not in fitted.criteria:
            raise RCPError(f"no criterion {chosen!r}; there are {examples(fitted.criteria, 10)}")
        return criterion_gain(theta, gamma, beta, fitted.criteria.index(chosen)), f"only:{chosen}"
    ends = float(np.min(beta)) if low is None else low, float(np.max(beta)) if high is None else high
    return linear_gain(theta, *ends), f"linear[{ends[0]:.4g},{ends[1]:.4g}]"


def _min_max(fitted: Fitted) -> FloatArray:
    """Min-max gains; the ends are those of the documents that are not excluded, where there are any."""
    kept = ~fitted.excluded
    lone = ~np.isin(fitted.query, fitted.query[kept])  # of queries that have nothing else
    kept |= lone
    theta, query = fitted.theta, fitted.query
    least, largest = np.full(len(fitted.queries), np.inf), np.full(len(fitted.queries), -np.inf)
    np.minimum.at(least, query[kept], theta[kept])
    np.maximum.at(largest, query[kept], theta[kept])
    return min_max_gain(np.clip(theta, least[query], largest[query]), query)
