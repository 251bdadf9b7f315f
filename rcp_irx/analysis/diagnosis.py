"""How far a calibration can be trusted, without labels: Table 8, the judge's own answers (E.3), all-fail documents.

From where on a check warns is in `signs`, the numbers are in `calibration_checks`; whether criteria carry over to
other queries is `transfer`'s question.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

import pandas as pd

from rcp_irx.analysis import diagnosed, signs
from rcp_irx.analysis.all_fail import all_fail_rows, zeroed_rows
from rcp_irx.analysis.answers import answer_frames
from rcp_irx.analysis.fitted import read_fitted, read_tops
from rcp_irx.analysis.results import Runs
from rcp_irx.calibration._numeric import one_blas_thread
from rcp_irx.errors import RCPError, counted
from rcp_irx.evaluation.options import whole_cutoff
from rcp_irx.gains import GainTable
from rcp_irx.judging.log import JudgmentLog

WIDTH = 120


@dataclass(frozen=True, eq=False, repr=False)
class Diagnosis:
    """What a calibration looks like from inside; printing it shows every check and explains those that warn.

    Attributes
    ----------
    checks : DataFrame
        One row per check: `check, value, found, sign, warning, may_mean`.
    criteria : DataFrame
        `id, name, gamma, beta, pass_rate` (of all answers).
    pairs : DataFrame
        Per pair of criteria `a, b, q3, correlation`: Yen's Q3, and the correlation of the pass shares themselves.
    maps : DataFrame
        Five predictions of the answers, from one pass rate for all to the 2PL (Section E.3): `map, brier, skill,
        removed` (share of the first map's Brier score that this map takes off the one before), `ece`, and Murphy's
        parts of `brier`: `reliability, resolution, uncertainty, within`. The outcome is a document's pass share of a
        criterion, weighted by its answers; `brier_of_answers` is for single answers, which differ among themselves.
    bins : DataFrame
        The 2PL's reliability in 20 equal bins: `low, high, answers, predicted, observed`.
    datasets : DataFrame
        `dataset, queries, documents, tau_p5, tau_p95, tau_ratio, mean_alpha, below` and `above` (shares of the
        pool), `efficiency`, `efficiency_runs`, `ece, skill, better` (share of queries with a lower Brier score than by
        logistic curves), and the all-fail documents' `placed, all_fail, share, mean_gain, ideal_share` (of the ideal
        DCG@k).
    queries : DataFrame
        `dataset, qid, tau, alpha, efficiency` (ideal top k), `brier, brier_logistic`.
    systems : DataFrame
        Per run: `system, efficiency, judged` (documents of its top k that have a gain).
    zeroed : DataFrame
        What gains of 0 for all-fail documents change between the runs: `dataset, queries, pairs, separated,
        separated_zeroed, changed, reversed, largest_change, system`.
    labels : DataFrame
        With qrels: `dataset, positives, others, auc`.
    failures : DataFrame
        From a log: `stage, failure, attempts, answered` (by a later attempt).
    warnings : list of str
    k : int
    """

    checks: pd.DataFrame
    criteria: pd.DataFrame
    pairs: pd.DataFrame
    maps: pd.DataFrame
    bins: pd.DataFrame
    datasets: pd.DataFrame
    queries: pd.DataFrame
    systems: pd.DataFrame
    zeroed: pd.DataFrame
    labels: pd.DataFrame
    failures: pd.DataFrame
    warnings: list[str]
    k: int

    def __repr__(self) -> str:
        sizes = [
            counted(len(self.queries), "query", "queries"),
            counted(int(self.datasets["documents"].sum()), "document"),
            counted(len(self.criteria), "criterion", "criteria"),
        ]
        lines = [f"Diagnosis of {', '.join(sizes)}: {counted(len(self.warnings), 'warning sign')}"]
        for row in self.checks.itertuples():
            name = f"{'!' if row.warning else ' '} {row.check:<32} "
            lines += textwrap.wrap(str(row.found), WIDTH, initial_indent=name, subsequent_indent=" " * len(name))
            if row.warning:
                text = f"sign: {row.sign}; may mean: {row.may_mean}"
                lines += textwrap.wrap(text, WIDTH, initial_indent=" " * 6, subsequent_indent=" " * 6)
        return "\n".join(lines)


def diagnose(
    gains_or_log: GainTable | JudgmentLog,
    *,
    runs: Runs | None = None,
    qrels: pd.DataFrame | None = None,
    k: int = 10,
) -> Diagnosis:
    """Check a calibration: without labels, as in Sections E.2 and E.3, and with `qrels` whether it is the same task.

    Passing every check is no proof: a rubric can pass them all and still miss aspects of relevance. A sign says that
    something is unlike the fits of the paper, or beyond a bound that it names; what it may mean is for a person to
    decide. Checks on the answers look at the fit's own data.

    Parameters
    ----------
    gains_or_log : GainTable or JudgmentLog
        A log is calibrated with its defaults, and its failures are reported too. What a released table lacks is named
        in the check that needs it. Excluded documents stay in what the fit was made on, as in the paper, and are out of
        every top k and of the AUC.
    runs : mapping of str to DataFrame or path, optional
        Systems: their top k for the information efficiency, their comparisons for the all-fail documents.
    qrels : DataFrame, optional
        `qid, docno, label` (optionally `dataset`); a label above 0 is positive, every other pool document is not.
    k : int

    Raises
    ------
    RCPError
        Neither a table nor a log, an empty table, unreadable runs or qrels, no query in common, what
        `JudgmentLog.calibrate` refuses.
    """
    cutoff = whole_cutoff(k)
    if cutoff is None:
        raise RCPError("k is a whole number of ranks, not None")
    with one_blas_thread():
        return _diagnosis(gains_or_log, runs, qrels, cutoff)


def _diagnosis(
    gains_or_log: GainTable | JudgmentLog, runs: Runs | None, qrels: pd.DataFrame | None, k: int
) -> Diagnosis:
    fitted = read_fitted(gains_or_log)
    tops = None if runs is None else read_tops(runs, fitted, k)
    answers = answer_frames(fitted)
    queries = diagnosed.query_frame(fitted, k).merge(answers.queries, on=["dataset", "qid"])
    systems = diagnosed.system_frame(fitted, tops)
    datasets = diagnosed.dataset_frame(fitted, queries, tops).merge(answers.datasets, on="dataset")
    pairs, independence = diagnosed.pair_frame(fitted)
    checks = [
        signs.rising(fitted.criteria, fitted.beta),
        signs.largest_discrimination(fitted.criteria, fitted.gamma),
        diagnosed.scales(fitted),
        diagnosed.efficiency(fitted, queries, systems, k),
        independence,
        *diagnosed.pool_shares(fitted),
        *answers.checks,
    ]
    zeroed, labels = pd.DataFrame(), pd.DataFrame()
    if fitted.has_answers:
        fails = all_fail_rows(fitted, k)
        datasets = datasets.merge(fails.drop(columns="documents"), on="dataset")
        zeroed = zeroed if tops is None else zeroed_rows(fitted, tops)
        checks.append(signs.all_fail(fails, None if tops is None else zeroed))
    else:
        checks.append(signs.not_made("documents that fail everything", fitted.why_no_answers))
    if qrels is not None:
        labels = diagnosed.label_frame(fitted, qrels)
        checks.append(signs.positives(labels))
    checks += diagnosed.window_checks(fitted, gains_or_log)
    return Diagnosis(
        checks=pd.DataFrame(checks),
        criteria=diagnosed.criterion_frame(fitted),
        pairs=pairs,
        maps=answers.maps,
        bins=answers.bins,
        datasets=datasets,
        queries=queries,
        systems=systems,
        zeroed=zeroed,
        labels=labels,
        failures=diagnosed.failure_frame(gains_or_log),
        warnings=[check.line for check in checks if check.warning],
        k=k,
    )
