"""From a log's judgments to gains: Stage A scores per query, one 2PL fit over all of them, a GainTable.

Reads no log itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from rcp_irx.calibration import TwoPLFit, comparison_components, fit_2pl, fit_bradley_terry, gain
from rcp_irx.calibration.influence import tournament_influence
from rcp_irx.calibration.uncertainty import calibration_errors
from rcp_irx.documents import Pool
from rcp_irx.errors import RCPError, counted, examples, warn
from rcp_irx.gains import GainTable
from rcp_irx.judging.rubric import Rubric

FLAT = 0.05
"""A query's scale (tau) below which its tournament hardly shows in its gains."""


@dataclass
class JudgedPool:
    """The judgments of one query's pool: every valid window, and how many were planned and failed.

    Windows hold document ids in the order shown. `tournament` has their scores, `passes` the answers (documents,
    criteria).
    """

    pool: Pool
    tournament: list[tuple[tuple[str, ...], tuple[float, ...]]] = field(default_factory=list)
    rubric: list[tuple[tuple[str, ...], tuple[tuple[bool, ...], ...]]] = field(default_factory=list)
    planned: int = 0
    failed: int = 0
    finished: bool = True

    @property
    def key(self) -> tuple[str, str]:
        """(dataset, qid)."""
        return self.pool.query.dataset, self.pool.query.id


@dataclass(frozen=True)
class StageScores:
    """What both stages say of a pool's documents, in the order of `docnos`: the input of the calibration.

    `bt` (D,) is centred over the pool and NaN for a document that no valid tournament window holds; `passes` (D, C);
    `n` (D,); `pieces` counts the parts of the pool that no window connects, which only the ridge orders. `tournament`
    holds the scores of all that the windows hold, the windows and the judge's scores; the documents are its `rows`.
    """

    docnos: tuple[str, ...]
    bt: np.ndarray
    passes: np.ndarray
    n: np.ndarray
    pieces: int = 1
    rows: np.ndarray = field(default_factory=lambda: np.zeros(0, dtype=np.intp))
    tournament: tuple[np.ndarray, list[list[int]], list[tuple[float, ...]]] = (np.zeros(0), [], [])

    def influence(self) -> np.ndarray:
        """How far the error of each cluster of windows moves `bt`: (D, clusters); see `tournament_influence`."""
        moved = tournament_influence(*self.tournament)[self.rows]
        return moved - np.nan_to_num(moved).mean(axis=0)


def stage_scores(judged: JudgedPool, n_criteria: int) -> StageScores:
    """Fit Stage A and count Stage B for one pool, the documents in order of their ids.

    Windows are taken in sorted order, so that the result does not depend on when they were answered. Documents that
    have left the
    pool still count as opponents.
    """
    docnos = tuple(sorted(document.id for document in judged.pool.documents))
    others = {docno for shown, _ in judged.tournament for docno in shown} - set(docnos)
    index = {docno: i for i, docno in enumerate([*docnos, *sorted(others)])}
    windows = sorted(judged.tournament)
    seen = np.zeros(len(index), dtype=bool)
    for shown, _ in windows:
        seen[[index[docno] for docno in shown]] = True
    shown_indices = [[index[docno] for docno in shown] for shown, _ in windows]
    fit = fit_bradley_terry(shown_indices, [scores for _, scores in windows], len(index))
    pieces = len(np.unique(comparison_components(shown_indices, len(index))[: len(docnos)][seen[: len(docnos)]]))
    bt = np.where(seen, fit.theta, np.nan)[: len(docnos)]
    if len(docnos) == 1:
        bt = np.zeros(1)
    bt = bt - (np.nanmean(bt) if seen.any() else 0.0)
    passes, n = np.zeros((len(docnos), n_criteria)), np.zeros(len(docnos))
    for shown, answers in judged.rubric:
        for docno, answer in zip(shown, answers, strict=True):
            if docno not in others and index.get(docno, len(docnos)) < len(docnos):
                passes[index[docno]] += answer
                n[index[docno]] += 1
    tournament = (fit.theta, shown_indices, [scores for _, scores in windows])
    return StageScores(docnos, bt, passes, n, pieces, np.arange(len(docnos)), tournament)


def calibrate(
    judged: Sequence[JudgedPool],
    rubric: Rubric,
    *,
    criteria: GainTable | None = None,
    excluded: pd.DataFrame | None = None,
    max_failed: float = 0.05,
    incomplete: str = "refuse",
    leave_out: Iterable[str | tuple[str, ...]] = (),
    metadata: dict[str, Any] | None = None,
) -> GainTable:
    """Fit the 2PL over all judged pools (Eq. 7) and give every document its gain (Eq. 4).

    Columns `bt_se`, `theta_se`, `gain_se` and those of the query and criterion parameters are standard errors that
    count the noise of both stages' answers, not what the judge gets wrong every time (`calibration.uncertainty`). NaN:
    unknown, as for pools of one or two documents. In simulations they are .85 to 1.15 times the true SD; up to 1.25
    times in pools of three to five documents under much noise (SD 2), and .8 times where half of FULL meets that noise.

    Parameters
    ----------
    criteria : GainTable, optional
        Its criterion parameters are kept (frozen); only the queries' scales and offsets are fitted. The new table's
        metadata say under `moved` how far the gains of the documents that both hold have moved.
    excluded : DataFrame, optional
        `qid, docno` (and `dataset`) of documents that leave every ranking and every ideal. The fit keeps them (C.5).
    max_failed : float
        Largest share of a query's planned windows that may have failed.
    incomplete : "refuse" or "leave_out"
        What to do with queries that are not judged to the end.
    leave_out : iterable
        Queries (`qid` or `(dataset, qid)`) and documents (`(dataset, qid, docno)`) that get no gain.

    Raises
    ------
    RCPError
        No judged query; unfinished queries; too many failed windows; documents in no valid tournament window;
        queries without any rubric answer; a rubric that differs from the frozen criteria.

    Warns
    -----
    RCPWarning
        Unfinished queries that are left out; answers that the fit can make little of.
    """
    left = _left_out(judged, leave_out)
    judged = [j for j in judged if j.key not in left]
    judged, unfinished = _complete(judged, incomplete)
    _refuse_failures(judged, max_failed)
    judged = sorted(judged, key=lambda j: j.key)
    if not judged:
        more = f": {counted(len(unfinished), 'query is', 'queries are')} not judged to the end; run the judge again"
        raise RCPError(f"there is no judged query to calibrate{more if unfinished else ''}")
    scored = [_kept(stage_scores(j, len(rubric)), j, left) for j in judged]
    _refuse_unseen(judged, scored)
    gamma, beta = _frozen(criteria, rubric)
    queries = np.repeat(np.arange(len(scored)), [len(s.docnos) for s in scored])
    bt, n = np.concatenate([s.bt for s in scored]), np.concatenate([s.n for s in scored])
    passes = np.concatenate([s.passes for s in scored])
    fit = fit_2pl(bt, passes, n, queries, gamma=gamma, beta=beta)
    influences = (s.influence() for s in scored)
    if criteria is not None and metadata and criteria.metadata.get("judge") != metadata.get("judge"):
        theirs, ours = criteria.metadata.get("judge"), metadata.get("judge")
        warn(f"the criteria are those of judge {theirs!r}, the answers those of {ours!r}: one may be stricter")
    errors = calibration_errors(fit, bt, passes, n, queries, influences, frozen=criteria is not None)
    _warn(judged, scored, fit, rubric)
    documents = pd.DataFrame(
        {
            "dataset": [judged[code].key[0] for code in queries],
            "qid": [judged[code].key[1] for code in queries],
            "docno": [docno for s in scored for docno in s.docnos],
            "gain": gain(fit.theta, fit.gamma, fit.beta),
            "gain_se": errors.gain,
            "theta": fit.theta,
            "theta_se": errors.theta,
            "bt": bt,
            "bt_se": errors.bt,
            "n": n.astype(np.int64),
            **{name: passes[:, c].astype(np.int64) for c, name in enumerate(rubric.ids)},
            "excluded": False,
        }
    )
    table = GainTable(
        _with_pool_columns(documents, judged),
        pd.DataFrame(
            {
                "dataset": [j.key[0] for j in judged],
                "qid": [j.key[1] for j in judged],
                "query": [j.pool.query.text for j in judged],
                "tau": fit.tau,
                "alpha": fit.alpha,
                "tau_se": errors.tau,
                "alpha_se": errors.alpha,
                "tau_alpha_cov": errors.tau_alpha,
                "documents": [len(s.docnos) for s in scored],
                "planned": [j.planned for j in judged],
                "failed": [j.failed for j in judged],
            }
        ),
        pd.DataFrame(
            {
                "id": rubric.ids,
                "name": [c.name for c in rubric.criteria],
                "question": [c.question for c in rubric.criteria],
                "gamma": fit.gamma,
                "beta": fit.beta,
                "gamma_se": errors.gamma,
                "beta_se": errors.beta,
            }
        ),
        {
            **(metadata or {}),
            "rubric": rubric.digest,
            "criteria_from": criteria.fit_id if criteria is not None else "",
            **({} if criteria is None else {"moved": _moved(documents, criteria)}),
            "left_out": sorted(map(list, left | set(unfinished))),
            "windows": {"planned": sum(j.planned for j in judged), "failed": sum(j.failed for j in judged)},
            "fit": {
                "objective": fit.objective,
                "gradient_norm": fit.gradient_norm,
                "n_iter": fit.n_iter,
                "converged": bool(fit.converged),
            },
        },
    )
    return table if excluded is None else table.exclude(excluded)


def _left_out(judged: Sequence[JudgedPool], leave_out: Iterable[str | tuple[str, ...]]) -> set[tuple[str, ...]]:
    """The queries (dataset, qid) and documents (dataset, qid, docno) that `leave_out` names; each must be there."""
    given = [leave_out] if isinstance(leave_out, str) else list(leave_out)
    queries = {j.key for j in judged}
    documents = {(*j.key, document.id) for j in judged for document in j.pool.documents}
    left: set[tuple[str, ...]] = set()
    for key in given:
        named = {q for q in queries if q[1] == key} if isinstance(key, str) else {tuple(key)} & (queries | documents)
        if not named:
            raise RCPError(
                f"leave_out names {key!r}, which was not judged; give a qid, (dataset, qid) or (dataset, qid, docno)"
            )
        left |= named
    gone = {j.key for j in judged if j.key in left or {(*j.key, d.id) for d in j.pool.documents} <= left}
    return gone | {key for key in left if key[:2] not in gone}


def _complete(judged: Sequence[JudgedPool], incomplete: str) -> tuple[list[JudgedPool], list[tuple[str, str]]]:
    """The finished pools, and the keys of the others where these may be left out."""
    if incomplete not in ("refuse", "leave_out"):
        raise RCPError(f"incomplete is 'refuse' or 'leave_out', not {incomplete!r}")
    unfinished = [j.key for j in judged if not j.finished]
    if unfinished and incomplete == "refuse":
        raise RCPError(
            f"{counted(len(unfinished), 'query is', 'queries are')} not judged to the end: {examples(unfinished)}; run"
            " the judge again (it asks only what is missing), or log.calibrate(incomplete='leave_out')"
        )
    if unfinished and len(unfinished) < len(judged):
        number = counted(len(unfinished), "query is", "queries are")
        warn(f"{number} not judged to the end, left out: {examples(unfinished)}")
    return [j for j in judged if j.finished], unfinished


def _refuse_failures(judged: Sequence[JudgedPool], max_failed: float) -> None:
    if not 0 <= max_failed <= 1:
        raise RCPError(f"max_failed is a share from 0 to 1, not {max_failed}")
    failing = [j for j in judged if j.failed > max_failed * j.planned]
    if failing:
        worst = [f"{j.pool.query}: {j.failed} of {j.planned}" for j in failing]
        raise RCPError(
            f"more than {max_failed:.0%} of the windows failed for {len(failing)} queries"
            f" ({'; '.join(sorted(worst)[:3])}); see log.failures(), ask them again with retry_failed=True, or raise"
            " max_failed"
        )


def _kept(scores: StageScores, judged: JudgedPool, left: set[tuple[str, ...]]) -> StageScores:
    """The scores without the documents that get no gain; `bt` stays centred over those that do."""
    keep = np.array([(*judged.key, docno) not in left for docno in scores.docnos])
    if keep.all():
        return scores
    bt = scores.bt[keep]
    return StageScores(
        tuple(d for d, k in zip(scores.docnos, keep, strict=True) if k),
        bt - np.nanmean(bt),
        scores.passes[keep],
        scores.n[keep],
        scores.pieces,
        scores.rows[keep],
        scores.tournament,
    )


def _refuse_unseen(judged: Sequence[JudgedPool], scored: Sequence[StageScores]) -> None:
    """Refuse documents without a Stage A score and queries without a Stage B answer: their gains would be made up."""
    unseen = [
        (*j.key, docno)
        for j, s in zip(judged, scored, strict=True)
        for docno, bt in zip(s.docnos, s.bt, strict=True)
        if np.isnan(bt)
    ]
    if unseen:
        raise RCPError(
            f"{len(unseen)} documents are in no valid tournament window: {examples(unseen)}; ask their windows again"
            " with retry_failed=True, or give leave_out=[(dataset, qid, docno), ...]"
        )
    silent = [j.key for j, s in zip(judged, scored, strict=True) if not s.n.any()]
    if silent:
        raise RCPError(
            f"no rubric window of {examples(silent)} was answered; ask again with retry_failed=True, or leave it out"
        )


def _warn(judged: Sequence[JudgedPool], scored: Sequence[StageScores], fit: TwoPLFit, rubric: Rubric) -> None:
    """Say what makes gains doubtful although the fit is what it should be."""

    def say(text: str) -> None:
        warn(text)

    gone = {
        (*j.key, docno)
        for j in judged
        for docno in {docno for shown, _ in j.tournament for docno in shown} - {d.id for d in j.pool.documents}
    }
    if gone:
        say(f"{len(gone)} judged documents are not in their query's latest pool and get no gain: {examples(gone)}")
    apart = [j.key for j, s in zip(judged, scored, strict=True) if s.pieces > 1]
    if apart:
        say(f"no window connects all documents of {examples(apart)}: only the ridge orders the parts; judge more")
    flat = [j.key for j, tau in zip(judged, fit.tau, strict=True) if tau < FLAT]
    if flat:
        say(f"rubric answers contradict the tournament of {examples(flat)} (tau below {FLAT}): gains hardly differ")
    share = fit.gamma / fit.gamma.sum()
    if share.max() > (1 + 1 / len(share)) / 2 and len(share) > 1:  # over half way from equal weights to all of it
        name = rubric.ids[int(share.argmax())]
        say(f"criterion {name!r} carries {share.max():.0%} of the gain: look at its answers before using these gains")


def _frozen(criteria: GainTable | None, rubric: Rubric) -> tuple[np.ndarray | None, np.ndarray | None]:
    """The discriminations and difficulties to keep, if any."""
    if criteria is None:
        return None, None
    given = criteria.criteria
    if list(given["question"]) != [c.question for c in rubric.criteria]:
        raise RCPError("the frozen criteria belong to another rubric: their questions differ from the log's")
    return given["gamma"].to_numpy(dtype=float), given["beta"].to_numpy(dtype=float)


def _moved(documents: pd.DataFrame, earlier: GainTable) -> dict[str, Any]:
    """How far the gains of documents that an earlier table holds have moved: how many, mean and largest size, which."""
    both = documents.merge(earlier.documents, on=["dataset", "qid", "docno"], suffixes=("", "_before"))
    if both.empty:
        return {"documents": 0}
    size = (both["gain"] - both["gain_before"]).abs()
    farthest = both.loc[size.idxmax()]
    return {
        "documents": len(both),
        "mean": float(size.mean()),
        "largest": float(size.max()),
        "farthest": [farthest["dataset"], farthest["qid"], farthest["docno"]],
    }


def _with_pool_columns(documents: pd.DataFrame, judged: Sequence[JudgedPool]) -> pd.DataFrame:
    """The documents with their rank in the pool and the columns that were kept beside them."""
    rows = [
        {"dataset": j.key[0], "qid": j.key[1], "docno": document.id, "pool_rank": rank, **columns}
        for j in judged
        for rank, (document, columns) in enumerate(
            zip(j.pool.documents, j.pool.columns or ({},) * len(j.pool.documents), strict=True)
        )
    ]
    return documents.merge(pd.DataFrame(rows), on=["dataset", "qid", "docno"], how="left", validate="one_to_one")
