"""RCPJudge: judges the candidate pools of a frame and gives its rows back with what both stages say."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

import numpy as np
import pandas as pd
import pyterrier as pt

from rcp_irx.documents import Pool, dataset_column, id_column
from rcp_irx.errors import RCPError, examples, warn
from rcp_irx.judging.calibrate import StageScores, stage_scores
from rcp_irx.judging.estimate import Estimate, largest_protocol, refuse_cost_without_prices
from rcp_irx.judging.judges.base import Judge
from rcp_irx.judging.labelling import Labelling
from rcp_irx.judging.log import JudgmentLog
from rcp_irx.judging.protocol import FULL, Protocol
from rcp_irx.judging.rubric import Rubric
from rcp_irx.judging.spending import Spending


class RCPJudge(pt.Transformer):
    """Judges each query's candidates: a listwise tournament (Stage A) and a rubric (Stage B), kept in a log.

    The result has the same rows with `bt` (Stage A score, logit, centred per query), `n` (Stage B placements), one
    pass count per criterion, `score` (= `bt`) and `rank`, best first; ties rank as in trec_eval (docno, descending).
    Every query is judged by itself, so batches of any size give the same rows. Gains come from all judged queries
    together: `judge.log.calibrate()`.

    Parameters
    ----------
    judge : Judge
        Who answers.
    log : str, path or JudgmentLog, optional
        Where answers are kept. What is there is not asked again. None keeps them in memory, which judges that cost
        money refuse.
    protocol : Protocol
        How many windows of which kind; `FULL`, `REDUCED`, or one of them `.scaled(...)`.
    rubric : Rubric, optional
        The criteria; by default the five that the package ships.
    dataset : str
        The dataset of rows without a `dataset` column.
    text_field : str
        The column with the documents' text.
    context_fields : sequence of str
        Columns of the topic (a description, a narrative) that the judge is shown beside the query.
    task : str, optional
        What counts as relevant here; where absent, a column `task` says it for each query.
    retry_failed : bool
        Ask windows again whose failure stands after three attempts.
    keep_text : bool
        Store the documents' texts in the log, beside their hashes.
    max_calls, max_tokens_total, max_cost : optional
        Where a run (one call of the transformer) stops: `RunStopped`, with all that was answered in the log.
    verbose : bool
        Show progress.

    Raises
    ------
    RCPError
        At construction: a judge without a name, or one that costs money without a log. In `transform`: missing ids
        or texts, one
        document with two texts, a query that the log holds under another text or prompt, answers for other documents.
    """

    schematic: ClassVar[dict[str, str]] = {"label": "RCPJudge"}

    def __init__(
        self,
        judge: Judge,
        log: str | os.PathLike[str] | JudgmentLog | None = None,
        *,
        protocol: Protocol = FULL,
        rubric: Rubric | None = None,
        dataset: str = "",
        text_field: str = "text",
        context_fields: Sequence[str] = (),
        task: str | None = None,
        retry_failed: bool = False,
        keep_text: bool = False,
        max_calls: int | None = None,
        max_tokens_total: int | None = None,
        max_cost: float | None = None,
        verbose: bool = False,
    ):
        super().__init__()
        log = log if isinstance(log, JudgmentLog) else JudgmentLog(log, keep_text=keep_text)
        log.keep_text |= keep_text
        self._labelling = Labelling(judge, log, Rubric.load() if rubric is None else rubric, protocol, retry_failed)
        self.dataset = dataset
        self.text_field = text_field
        self.context_fields = (context_fields,) if isinstance(context_fields, str) else tuple(context_fields)
        self.task = task
        self.max_calls, self.max_tokens_total, self.max_cost = max_calls, max_tokens_total, max_cost
        Spending(max_calls, max_tokens_total, max_cost)  # refuses what is no limit
        refuse_cost_without_prices(judge, max_cost)
        self.verbose = verbose

    @property
    def judge(self) -> Judge:
        """Who answers."""
        return self._labelling.judge

    @property
    def log(self) -> JudgmentLog:
        """Where answers are kept."""
        return self._labelling.log

    @property
    def rubric(self) -> Rubric:
        """The criteria."""
        return self._labelling.rubric

    @property
    def protocol(self) -> Protocol:
        """How many windows of which kind; may be set."""
        return self._labelling.protocol

    @protocol.setter
    def protocol(self, protocol: Protocol) -> None:
        self._labelling = replace(self._labelling, protocol=protocol)

    def __repr__(self) -> str:
        return f"RCPJudge({self.judge.name!r})"

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """Judge the candidates of every query in the frame."""
        pt.validate.result_frame(inp, ["query", self.text_field, *self.context_fields], context=self)
        inp = inp.reset_index(drop=True)
        added = {
            "bt": "float64",
            "n": "int64",
            **dict.fromkeys(self.rubric.ids, "int64"),
            "score": "float64",
            "rank": "int64",
        }
        if inp.empty:
            return inp.assign(**{name: pd.Series(dtype=dtype, index=inp.index) for name, dtype in added.items()})
        clash = [name for name in ["bt", "n", *self.rubric.ids] if name in inp.columns]
        if clash:
            raise RCPError(
                f"the pool already has the column {examples(clash)}, which RCPJudge writes; drop or rename it"
            )
        frame = inp.assign(qid=id_column(inp, "qid", "pool"), docno=id_column(inp, "docno", "pool"))
        found = self._pools(frame)
        spending = Spending(self.max_calls, self.max_tokens_total, self.max_cost)
        self._labelling.run(found, spending, verbose=self.verbose)
        scores = [self._scores(pool) for pool in found]
        return _with_scores(frame, found, scores, self.rubric, self.dataset)[[*_without(inp.columns, added), *added]]

    def estimate(self, pool: pd.DataFrame) -> Estimate:
        """What judging a pool would still take: calls, tokens and, where the judge has prices, cost; nothing is asked.

        Answers in the log are not counted. Failed windows take up to three calls.
        """
        return self._labelling.estimate(self._pools(pool))

    def protocol_for(
        self,
        pool: pd.DataFrame,
        *,
        max_cost: float | None = None,
        max_calls: int | None = None,
        max_tokens_total: int | None = None,
    ) -> Protocol:
        """The largest protocol for a pool within these limits, at most this judge's own; see `largest_protocol`.

        It places every document at least 3 times in the tournament and twice in the rubric.

        Raises
        ------
        RCPError
            If no such protocol fits.
        """
        limits = {"max_calls": max_calls, "max_tokens_total": max_tokens_total, "max_cost": max_cost}
        return largest_protocol(self._pools(pool), self.judge, self.rubric, self.protocol, limits)

    def _pools(self, frame: pd.DataFrame) -> list[Pool]:
        """The pools of a frame, as the judge can be shown them."""
        return self._labelling.pools(
            frame,
            text_field=self.text_field,
            context_fields=self.context_fields,
            task=self.task,
            dataset=self.dataset,
        )

    def _scores(self, pool: Pool) -> StageScores:
        """A judged pool's scores from the log, which may hold more windows than this run."""
        key = (pool.query.dataset, pool.query.id)
        judged = self.log.judged(judge=self.judge.name, rubric=self.rubric.digest, queries=[key])[0]
        if judged.failed:
            warn(f"{pool.query}: {judged.failed} of {judged.planned} windows failed; see log.failures()")
        return stage_scores(judged, len(self.rubric))


def _without(columns: pd.Index, added: dict[str, str]) -> list[str]:
    return [name for name in columns if name not in added]


def _with_scores(
    frame: pd.DataFrame, found: Sequence[Pool], scores: Sequence[StageScores], rubric: Rubric, dataset: str
) -> pd.DataFrame:
    """The pool's rows, best first within each query, with what both stages say of each document."""
    frame = frame.assign(_dataset=dataset_column(frame, dataset)).drop(columns=["score", "rank"], errors="ignore")
    parts = []
    for pool, score in zip(found, scores, strict=True):
        parts.append(
            pd.DataFrame(
                {
                    "_dataset": pool.query.dataset,
                    "qid": pool.query.id,
                    "docno": score.docnos,
                    "bt": score.bt,
                    "n": score.n.astype(np.int64),
                    **{name: score.passes[:, c].astype(np.int64) for c, name in enumerate(rubric.ids)},
                    **_ranked(pool, score),
                }
            )
        )
    judged = pd.concat(parts, ignore_index=True)
    order = {(pool.query.dataset, pool.query.id): i for i, pool in enumerate(found)}
    rows = frame.drop_duplicates(["_dataset", "qid", "docno"]).merge(
        judged, on=["_dataset", "qid", "docno"], how="left"
    )
    turn = pd.Series([order[key] for key in zip(rows["_dataset"], rows["qid"], strict=True)], index=rows.index)
    return rows.assign(_turn=turn).sort_values(["_turn", "rank"], kind="stable", ignore_index=True)


def _ranked(pool: Pool, scores: StageScores) -> dict[str, np.ndarray]:
    """Score and rank by `bt`, ties by docno descending; documents without one come last, one below the lowest."""
    bt = scores.bt
    unseen = np.isnan(bt)
    if unseen.any():
        names = [docno for docno, no in zip(scores.docnos, unseen, strict=True) if no]
        warn(f"{pool.query}: no valid tournament window holds {examples(names)}; ranked last")
    score = np.where(unseen, (np.nanmin(bt) if not unseen.all() else 0.0) - 1.0, bt)
    order = sorted(range(len(bt)), key=lambda i: (score[i], scores.docnos[i]), reverse=True)
    rank = np.empty(len(bt), dtype=np.int64)
    rank[order] = np.arange(len(bt)) + pt.model.FIRST_RANK
    return {"score": score, "rank": rank}
