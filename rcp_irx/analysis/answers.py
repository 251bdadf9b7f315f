"""Pass probabilities against the judge's own answers, and against simpler predictions of them (Section E.3)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy.special import expit

from rcp_irx.analysis import calibration_checks as numbers
from rcp_irx.analysis import signs
from rcp_irx.analysis.calibration_checks import FloatArray
from rcp_irx.analysis.fitted import Fitted
from rcp_irx.analysis.signs import Check

STEPS = {"criterion pass rates": "pass rates", "logistic in bt": "tournament", "2PL": "scales and offsets"}
"""The maps that each add something to the one before, from one pass rate for all on; what each adds."""


@dataclass(frozen=True, eq=False)
class AnswerFrames:
    """What `diagnose` tells about the answers: `maps`, `bins`; columns for its `queries` and `datasets`; checks."""

    maps: pd.DataFrame
    bins: pd.DataFrame
    queries: pd.DataFrame
    datasets: pd.DataFrame
    checks: list[Check]


def answer_frames(fitted: Fitted) -> AnswerFrames:
    """Every prediction's errors, overall, by dataset and by query; without the maps that lack what was not released."""
    maps = _maps(fitted)
    forecasts = {name: numbers.assess(*_cells(fitted, p)) for name, p in maps.items()}
    errors = _by_query(fitted, maps)
    frames = AnswerFrames(
        _map_frame(fitted, forecasts),
        _bin_frame(forecasts),
        fitted.queries[["dataset", "qid"]].assign(
            brier=errors.get("2PL", np.nan), brier_logistic=errors.get("logistic in bt", np.nan)
        ),
        _dataset_frame(fitted, maps, errors),
        [],
    )
    frames.checks.extend(_checks(fitted, frames.maps, errors, forecasts.get("2PL")))
    return frames


def _maps(fitted: Fitted) -> dict[str, FloatArray]:
    """Each map's predictions, (D, C), from the plainest to the 2PL."""
    if not fitted.has_answers:
        return {}
    rates = fitted.passes.sum(axis=0) / fitted.n.sum()
    found = {
        "one pass rate": np.full(fitted.passes.shape, rates.mean()),
        "criterion pass rates": np.tile(rates, (len(fitted.n), 1)),
    }
    if fitted.has_scores:
        slope, intercept = numbers.logistic_curves(fitted.bt, fitted.passes, fitted.n)
        found["sigmoid of bt"] = np.repeat(expit(fitted.bt)[:, None], len(rates), axis=1)
        found["logistic in bt"] = expit(fitted.bt[:, None] * slope + intercept)
    if fitted.has_abilities:
        found["2PL"] = fitted.p
    return found


def _map_frame(fitted: Fitted, forecasts: dict[str, numbers.Forecast]) -> pd.DataFrame:
    parts = ["brier", "skill", "ece", "reliability", "resolution", "uncertainty", "within"]
    columns = ["map", *parts[:2], "removed", *parts[2:], "brier_of_answers"]
    if not forecasts:
        return pd.DataFrame(columns=columns)
    noise = np.average(_spread(fitted), weights=fitted.n)
    rows = [
        {"map": name, "brier_of_answers": of.brier + noise, **{column: getattr(of, column) for column in parts}}
        for name, of in forecasts.items()
    ]
    frame = pd.DataFrame(rows)
    steps = frame["map"].isin(["one pass rate", *STEPS])
    removed = -frame.loc[steps, "brier"].diff() / (frame["brier"].iloc[0] or np.nan)
    return frame.assign(removed=removed)[columns]


def _bin_frame(forecasts: dict[str, numbers.Forecast]) -> pd.DataFrame:
    if "2PL" not in forecasts:
        return pd.DataFrame(columns=["low", "high", "answers", "predicted", "observed"])
    found = forecasts["2PL"].bins
    return pd.DataFrame(
        {
            "low": found.low,
            "high": found.high,
            "answers": found.weight,
            "predicted": found.predicted,
            "observed": found.observed,
        }
    )


def _by_query(fitted: Fitted, maps: dict[str, FloatArray]) -> dict[str, FloatArray]:
    """The Brier score of each query under the two maps that are compared, (J,)."""
    return {
        name: numbers.brier_by_query(maps[name], fitted.shares, fitted.weight, fitted.query)
        for name in ("logistic in bt", "2PL")
        if name in maps
    }


def _dataset_frame(fitted: Fitted, maps: dict[str, FloatArray], errors: dict[str, FloatArray]) -> pd.DataFrame:
    rows = []
    for dataset in sorted(fitted.queries["dataset"].unique()):
        here = (fitted.queries["dataset"] == dataset).to_numpy()
        row = {"dataset": dataset, "ece": np.nan, "skill": np.nan, "better": np.nan}
        documents = here[fitted.query]
        if "2PL" in maps and fitted.n[documents].any():
            of = numbers.assess(*_cells(fitted, maps["2PL"], documents))
            row |= {"ece": of.ece, "skill": of.skill}
            if "logistic in bt" in errors:
                row["better"] = _better(errors, here)[0]
        rows.append(row)
    return pd.DataFrame(rows)


def _checks(
    fitted: Fitted, maps: pd.DataFrame, errors: dict[str, FloatArray], found: numbers.Forecast | None
) -> list[Check]:
    names = ["ECE of pass probabilities", "Brier skill", "queries that scales help"]
    if found is None:
        lacking = signs.NO_ABILITIES if fitted.has_answers else fitted.why_no_answers
        return [signs.not_made(name, lacking) for name in names]
    share = dict(zip(maps["map"], maps["removed"], strict=True))
    removed = [(what, float(share[name])) for name, what in STEPS.items() if name in share]
    if not fitted.has_scores:
        removed[-1] = ("tournament, scales and offsets", removed[-1][1])
        last = signs.not_made(names[2], signs.NO_SCORES)
    else:
        last = signs.better_than_logistic(*_better(errors, np.ones(len(fitted.queries), dtype=bool)))
    constant = np.isnan(found.skill)
    return [
        signs.calibration(found.ece, found.chance_ece),
        signs.not_made(names[1], "every answer is the same") if constant else signs.skill(found.skill, removed),
        last,
    ]


def _better(errors: dict[str, FloatArray], queries: np.ndarray) -> tuple[float, int]:
    """The share of some queries that the 2PL predicts better, and how many have answers."""
    ours, theirs = errors["2PL"][queries], errors["logistic in bt"][queries]
    known = ~np.isnan(ours)
    return float((ours[known] < theirs[known]).mean()), int(known.sum())


def _cells(
    fitted: Fitted, p: FloatArray, documents: np.ndarray | None = None
) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Prediction, pass share and answers of every placed document and criterion, flat."""
    rows = fitted.n > 0 if documents is None else (fitted.n > 0) & documents
    return p[rows].ravel(), fitted.shares[rows].ravel(), fitted.weight[rows].ravel()


def _spread(fitted: Fitted) -> FloatArray:
    """The variance of a document's answers to one criterion, mean over criteria, (D,); 0 without a placement."""
    shares = np.nan_to_num(fitted.shares)
    variance: FloatArray = (shares * (1 - shares)).mean(axis=1)
    return variance
