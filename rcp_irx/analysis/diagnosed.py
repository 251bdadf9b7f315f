"""The parts of a diagnosis that need no prediction of answers: frames of `diagnose`, and the checks made of them."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rcp_irx.analysis import calibration_checks as numbers
from rcp_irx.analysis import signs
from rcp_irx.analysis.fitted import Fitted, Tops
from rcp_irx.analysis.results import common_queries
from rcp_irx.analysis.signs import Check
from rcp_irx.gains import GainTable
from rcp_irx.judging.calibrate import FLAT
from rcp_irx.judging.log import JudgmentLog
from rcp_irx.tables import gain_order

KEYS = ["dataset", "qid", "docno"]


def criterion_frame(fitted: Fitted) -> pd.DataFrame:
    """`id, name, gamma, beta, pass_rate`."""
    rates = fitted.passes.sum(axis=0) / fitted.n.sum() if fitted.has_answers else np.nan
    return fitted.table.criteria[["id", "name", "gamma", "beta"]].assign(pass_rate=rates)


def query_frame(fitted: Fitted, k: int) -> pd.DataFrame:
    """`dataset, qid, tau, alpha, efficiency` (at the ideal top k)."""
    top = fitted.ideal(k)
    return fitted.queries.assign(efficiency=fitted.mean_by_query(top, fitted.efficiency[top]))


def system_frame(fitted: Fitted, tops: Tops | None) -> pd.DataFrame:
    """`system, efficiency, judged` of each run's top k."""
    found = {} if tops is None else {name: tops.rows(name) for name in tops.top}
    rows = [(name, _mean(fitted.mean_by_query(top, fitted.efficiency[top])), len(top)) for name, top in found.items()]
    return pd.DataFrame(rows, columns=["system", "efficiency", "judged"])


def dataset_frame(fitted: Fitted, queries: pd.DataFrame, tops: Tops | None) -> pd.DataFrame:
    """Sizes, scales, pool shares and efficiency of each dataset."""
    below, above = _levels(fitted)
    runs = [fitted.mean_by_query(rows, fitted.efficiency[rows]) for rows in map(tops.rows, tops.top)] if tops else []
    found = []
    for dataset in sorted(fitted.queries["dataset"].unique()):
        here = (fitted.queries["dataset"] == dataset).to_numpy()
        documents = here[fitted.query]
        tau, theta = fitted.queries["tau"].to_numpy()[here], fitted.theta[documents]
        low, high = np.percentile(tau, [5, 95])
        found.append(
            {
                "dataset": dataset,
                "queries": int(here.sum()),
                "documents": int(documents.sum()),
                "tau_p5": low,
                "tau_p95": high,
                "tau_ratio": high / low if low > 0 else np.nan,
                "mean_alpha": fitted.queries["alpha"].to_numpy()[here].mean(),
                "below": (theta < fitted.beta[below]).mean() if fitted.has_abilities else np.nan,
                "above": (theta >= fitted.beta[above]).mean() if fitted.has_abilities else np.nan,
                "efficiency": _mean(queries["efficiency"].to_numpy()[here]),
                "efficiency_runs": _mean(np.array([_mean(run[here]) for run in runs])),
            }
        )
    return pd.DataFrame(found)


def pair_frame(fitted: Fitted) -> tuple[pd.DataFrame, Check]:
    """`a, b, q3, correlation` of each pair of criteria, and what they say about local independence."""
    columns = ["a", "b", "q3", "correlation"]
    name = "local independence, |Q3|"
    if not fitted.has_answers or not fitted.has_abilities:
        why = signs.NO_ABILITIES if fitted.has_answers else fitted.why_no_answers
        return pd.DataFrame(columns=columns), signs.not_made(name, why)
    q3 = numbers.yen_q3(fitted.passes, fitted.n, fitted.p)
    raw = numbers.correlations(fitted.shares)
    ids = fitted.criteria
    rows = [(ids[a], ids[b], q3[a, b], raw[a, b]) for a in range(len(ids)) for b in range(a + 1, len(ids))]
    return pd.DataFrame(rows, columns=columns), signs.independence(ids, q3, raw)


def scales(fitted: Fitted) -> Check:
    """The spread of the queries' scales."""
    tau = fitted.queries["tau"].to_numpy()
    if np.isnan(tau).any():
        return signs.not_made("scales tau, p5 to p95", signs.NO_SCALES)
    return signs.scales(tau, int((tau < FLAT).sum()))


def efficiency(fitted: Fitted, queries: pd.DataFrame, systems: pd.DataFrame, k: int) -> Check:
    """The information efficiency at the ideal and the runs' top k."""
    if not fitted.has_abilities:
        return signs.not_made(f"information efficiency, top {k}", signs.NO_ABILITIES)
    top = fitted.ideal(k)
    if not len(top):
        return signs.not_made(f"information efficiency, top {k}", "every document is excluded")
    ability = _mean(fitted.mean_by_query(top, fitted.theta[top]))
    peak = numbers.peak_information(fitted.gamma, fitted.beta)[0]
    ideal, runs = _mean(queries["efficiency"].to_numpy()), _mean(systems["efficiency"].to_numpy(dtype=np.float64))
    return signs.efficiency(ideal, runs, k, ability, peak)


def pool_shares(fitted: Fitted) -> list[Check]:
    """The shares of the pool below the easiest criterion and at or above the second hardest."""
    below, above = _levels(fitted)
    names = fitted.criteria[below], fitted.criteria[above]
    if not fitted.has_abilities:
        texts = f"pool below {names[0]}", f"pool at or above {names[1]}"
        return [signs.not_made(text, signs.NO_ABILITIES) for text in texts]
    return [
        signs.below_easiest(names[0], float((fitted.theta < fitted.beta[below]).mean())),
        signs.above_hard(names[1], float((fitted.theta >= fitted.beta[above]).mean()))
        if len(fitted.criteria) > 2
        else signs.not_made(f"pool at or above {names[1]}", "the second hardest of three or more criteria is meant"),
    ]


def label_frame(fitted: Fitted, qrels: pd.DataFrame) -> pd.DataFrame:
    """`dataset, positives, others, auc` over the pool documents of the queries that have labels."""
    _, labels = common_queries(fitted.table, qrels)
    positive = labels.loc[labels["label"] > 0, KEYS].assign(positive=True)
    rows = fitted.documents[KEYS].merge(positive, on=KEYS, how="left")["positive"].eq(True).to_numpy(dtype=bool)
    labelled = pd.MultiIndex.from_frame(fitted.queries[KEYS[:2]]).isin(pd.MultiIndex.from_frame(labels[KEYS[:2]]))
    counts = labelled[fitted.query] & ~fitted.excluded
    dataset = fitted.documents["dataset"].to_numpy()
    order = gain_order(fitted.documents, fitted.table.criteria)
    found = []
    for name in sorted(set(dataset[counts])):
        here = counts & (dataset == name)
        yes = int(rows[here].sum())
        found.append((name, yes, int(here.sum()) - yes, numbers.auc(order[here], rows[here])))
    return pd.DataFrame(found, columns=["dataset", "positives", "others", "auc"])


def failure_frame(gains_or_log: GainTable | JudgmentLog) -> pd.DataFrame:
    """`stage, failure, attempts, answered` (attempts whose window was answered later); empty for a table."""
    columns = ["stage", "failure", "attempts", "answered"]
    if not isinstance(gains_or_log, JudgmentLog):
        return pd.DataFrame(columns=columns)
    failures = gains_or_log.failures()
    counts = failures.groupby(columns[:2])["answered"].agg(["size", "sum"]).reset_index()
    return counts.set_axis(columns, axis=1).astype({"attempts": int, "answered": int})


def window_checks(fitted: Fitted, gains_or_log: GainTable | JudgmentLog) -> list[Check]:
    """Windows without an answer, as far as the table counts them; from a log also their kinds, and odd answers."""
    checks = []
    if fitted.table.windows:
        failures = failure_frame(gains_or_log)
        left = failures.assign(left=failures["attempts"] - failures["answered"]).groupby("failure")["left"].sum()
        kinds = ", ".join(f"{kind}: {number}" for kind, number in left.items() if number)
        kinds = f"attempts: {kinds}" if kinds else ""
        checks.append(signs.failed_windows(*fitted.table.windows, kinds))
    if isinstance(gains_or_log, JudgmentLog):
        usage = gains_or_log.usage()
        checks.append(signs.odd_answers(int(usage["noted"].sum()), int(usage["answered"].sum())))
    return checks


def _levels(fitted: Fitted) -> tuple[int, int]:
    """The easiest and the second hardest criterion (C1 and C4 of the paper, in every fit)."""
    order = fitted.by_difficulty
    return int(order[0]), int(order[-2:][0])


def _mean(values: np.ndarray) -> float:
    """The mean of what is known; NaN where nothing is."""
    known = values[~np.isnan(values)]
    return float(known.mean()) if known.size else float("nan")
