"""PyTerrier: RRFPool makes a pool of candidates, RCPJudge judges it, GainArtifact opens saved gains.

Nothing else imports this.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pandas as pd
from tqdm.auto import tqdm

from rcp_irx.documents import Pool, dataset_column, id_column, pools, with_labels
from rcp_irx.errors import MissingExtra, RCPError, counted, examples, warn
from rcp_irx.gains import GainTable
from rcp_irx.judging.calibrate import StageScores, stage_scores
from rcp_irx.judging.estimate import (
    Estimate,
    estimate,
    largest_protocol,
    refuse_cost_without_prices,
    window_costs,
)
from rcp_irx.judging.judges.base import Judge
from rcp_irx.judging.log import JudgmentLog
from rcp_irx.judging.protocol import FULL, Protocol
from rcp_irx.judging.rubric import Rubric
from rcp_irx.judging.runner import PoolRunner, fitted, refuse_mixture, remaining, run_pools
from rcp_irx.judging.spending import RunStopped, Spending
from rcp_irx.judging.store import Outcome
from rcp_irx.pooling import fill_pool, fuse

try:
    import pyterrier as pt
except ImportError as error:
    raise MissingExtra("pyterrier", "pyterrier") from error

SOURCE_RANK = "source_rank_"
POOL_COLUMNS = ("origin",)


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
        What counts as relevant here.
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
        if not isinstance(judge, Judge):
            raise RCPError(f"judge must be a Judge such as LexicalJudge(), not {judge!r}")
        if not isinstance(protocol, Protocol):
            raise RCPError(f"protocol must be FULL, REDUCED or another Protocol, not {protocol!r}")
        if rubric is not None and not isinstance(rubric, Rubric):
            raise RCPError(f"rubric must be a Rubric, such as Rubric.load('mine.toml'), not {rubric!r}")
        if not isinstance(judge.name, str) or not judge.name:
            raise RCPError(
                f"{type(judge).__name__} has no name; it must tell the model and every setting that changes answers"
            )
        self.judge = judge
        self.log = log if isinstance(log, JudgmentLog) else JudgmentLog(log, keep_text=keep_text)
        self.log.keep_text |= keep_text
        if judge.paid and self.log.path is None:
            raise RCPError(
                f"judge {judge.name!r} costs money: give log='some.judgments', so that no answer is paid for twice"
            )
        self.protocol = protocol
        self.rubric = rubric if rubric is not None else Rubric.load()
        self.dataset = dataset
        self.text_field = text_field
        self.context_fields = (context_fields,) if isinstance(context_fields, str) else tuple(context_fields)
        self.task = task
        self.retry_failed = retry_failed
        self.max_calls, self.max_tokens_total, self.max_cost = max_calls, max_tokens_total, max_cost
        Spending(max_calls, max_tokens_total, max_cost)  # refuses what is no limit
        refuse_cost_without_prices(judge, max_cost)
        self.verbose = verbose

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
        for pool in found:
            refuse_mixture(pool, self.judge, self.protocol, self.log)
        runners = [
            PoolRunner(pool, self.judge, self.rubric, self.protocol, self.log, retry_failed=self.retry_failed)
            for pool in found
        ]  # all are in the log before the first window is asked, so that a stopped run shows what is missing
        self._run(runners)
        scores = [self._scores(pool) for pool in found]
        _warn_of_cuts(found)
        return _with_scores(frame, found, scores, self.rubric, self.dataset)[[*_without(inp.columns, added), *added]]

    def estimate(self, pool: pd.DataFrame) -> Estimate:
        """What judging a pool would still take: calls, tokens and, where the judge has prices, cost; nothing is asked.

        Answers in the log are not counted. Failed windows take up to three calls.
        """
        found = self._pools(pool)
        calls = [
            remaining(one, self.judge, self.rubric, self.protocol, self.log, retry_failed=self.retry_failed)
            for one in found
        ]
        costs = [window_costs(one, self.judge, self.rubric, self.protocol.size) for one in found]
        return estimate(found, calls, self.judge, costs)

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
        keep = [name for name in frame.columns if name in POOL_COLUMNS or name.startswith(SOURCE_RANK)]
        found = pools(
            frame,
            text_field=self.text_field,
            context_fields=self.context_fields,
            task=self.task,
            dataset=self.dataset,
            keep=keep,
        )
        return [fitted(pool, self.judge, self.rubric, self.protocol.size) for pool in found]

    def _run(self, runners: Sequence[PoolRunner]) -> None:
        """Ask what is missing, with progress."""
        spending = Spending(self.max_calls, self.max_tokens_total, self.max_cost)
        total = sum(runner.windows() for runner in runners)
        with tqdm(total=total, disable=not self.verbose, desc="RCPJudge", unit="window") as progress:

            def shown(outcome: Outcome) -> None:
                progress.set_postfix_str(spending.describe(), refresh=False)
                progress.update()

            try:
                run_pools(runners, spending, shown)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(
                    f"stopped after {spending.describe()}; every answer is in the log, run again to go on"
                ) from None
            except RunStopped as stopped:
                whole = sum(runner.finished() for runner in runners)
                raise RunStopped(
                    f"{stopped}; {whole} of {counted(len(runners), 'query', 'queries')} judged to the end. Run again "
                    "to go on; log.calibrate(incomplete='leave_out') uses what is whole"
                ) from None

    def _scores(self, pool: Pool) -> StageScores:
        """A judged pool's scores from the log, which may hold more windows than this run."""
        key = (pool.query.dataset, pool.query.id)
        judged = self.log.judged(judge=self.judge.name, rubric=self.rubric.digest, queries=[key])[0]
        if judged.failed:
            warn(f"{pool.query}: {judged.failed} of {judged.planned} windows failed; see log.failures()")
        return stage_scores(judged, len(self.rubric))


def _warn_of_cuts(found: Sequence[Pool]) -> None:
    hidden = [
        (pool.query.id, document.id, f"{columns['not_shown']:.0%}")
        for pool in found
        for document, columns in zip(pool.documents, pool.columns, strict=False)
        if columns.get("not_shown")
    ]
    if hidden:
        number = counted(len(hidden), "document was", "documents were")
        warn(f"{number} cut to fit the context; query, document, share not shown: {examples(hidden)}")


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


class RRFPool(pt.Transformer):
    """The candidate pool of a query: reciprocal rank fusion (C.1), with judged documents added on request.

    Adds `docno, score, rank, pool_rank`, one `source_rank_1, source_rank_2, ...` per retriever (1 is its first; NaN
    where it did not retrieve the document) and `origin`: "fused", "positive" or "judged", why a document is there.

    Parameters
    ----------
    retrievers : sequence of pyterrier.Transformer
        First-stage retrievers; each takes the topics.
    num_results : int
        Size of the fused pool.
    kappa : float
        A document scores the sum of 1 / (kappa + rank) over the retrievers; ties go to the better single rank, then
        to the smaller
        docno.
    qrels : DataFrame, optional
        `qid, docno, label`, for `add`.
    add : None, "positives" or "judged"
        "positives": documents labelled 1 or more that fusion missed replace the lowest documents that are not
        positive themselves, by grade, then docno; the pool keeps its size. "judged": every document labelled 0 or
        more joins the pool. Added documents
        have score 0 and follow the fused ones.
    """

    schematic: ClassVar[dict[str, str]] = {"label": "RRFPool", "inner_pipelines_mode": "combine"}

    def __init__(
        self,
        retrievers: Sequence[pt.Transformer],
        num_results: int = 150,
        kappa: float = 60,
        qrels: pd.DataFrame | None = None,
        add: str | None = None,
    ):
        super().__init__()
        if add not in (None, "positives", "judged"):
            raise RCPError(f"add is None, 'positives' or 'judged', not {add!r}")
        if add is not None and qrels is None:
            raise RCPError(f"add={add!r} needs qrels=")
        if not isinstance(num_results, (int, np.integer)) or num_results < 1:
            raise RCPError(f"num_results is a whole number of at least 1, not {num_results!r}")
        if not kappa > 0:
            raise RCPError(f"kappa is above 0, not {kappa!r}")
        self.retrievers = [retrievers] if isinstance(retrievers, pt.Transformer) else list(retrievers)
        wrong = [retriever for retriever in self.retrievers if not isinstance(retriever, pt.Transformer)]
        if wrong or not self.retrievers:
            what = f"not {type(wrong[0]).__name__}" if wrong else "and at least one"
            raise RCPError(
                f"retrievers are PyTerrier transformers, {what}; pt.Transformer.from_df makes one of a frame"
            )
        self.num_results = num_results
        self.kappa = kappa
        self.qrels = qrels
        self.add = add
        self._labels = _labels_by_query(qrels) if qrels is not None else {}

    def __repr__(self) -> str:
        return f"RRFPool({len(self.retrievers)} retrievers, {self.num_results})"

    def transform(self, inp: pd.DataFrame) -> pd.DataFrame:
        """The pool of every topic."""
        pt.validate.query_frame(inp, ["query"], context=self)
        sources = [f"{SOURCE_RANK}{i + 1}" for i in range(len(self.retrievers))]
        columns = [*inp.columns, "docno", "score", "rank", "pool_rank", *sources, "origin"]
        if inp.empty:
            return pd.DataFrame({c: pd.Series(dtype=inp[c].dtype if c in inp.columns else object) for c in columns})
        topics = inp.assign(qid=id_column(inp, "qid", "topics frame")).reset_index(drop=True)
        repeated = topics["qid"][topics["qid"].duplicated()]
        if len(repeated):
            raise RCPError(
                f"query {examples(repeated)} is in the topics twice; pool one dataset at a time, each query once"
            )
        rankings = [_ranking(retriever, topics) for retriever in self.retrievers]
        parts, empty = [], []
        for qid in topics["qid"]:
            rows = self._pool([ranking.get(qid, []) for ranking in rankings], self._labels.get(qid, {}), sources)
            parts.append(rows.assign(qid=qid))
            if rows.empty:
                empty.append(qid)
        if empty:
            warn(f"no candidate was found for query {examples(empty)}")
        return topics.merge(pd.concat(parts, ignore_index=True), on="qid", how="inner")[columns]

    def _pool(self, rankings: Sequence[list[str]], labels: dict[str, int], sources: Sequence[str]) -> pd.DataFrame:
        """One query's pool from its rankings (docnos, best first) and labels."""
        ranks = [{docno: rank for rank, docno in enumerate(ranking, start=1)} for ranking in rankings]
        fused = fuse(ranks, self.kappa)
        kept, added = fill_pool(list(fused), labels, self.num_results, self.add)
        origin = {"positives": "positive", "judged": "judged"}.get(self.add or "", "")
        docnos = [*kept, *added]
        return pd.DataFrame(
            {
                "docno": pd.Series(docnos, dtype=object),
                "score": [fused[docno] for docno in kept] + [0.0] * len(added),
                "rank": np.arange(len(docnos)) + pt.model.FIRST_RANK,
                "pool_rank": np.arange(len(docnos)),
                **{
                    name: np.array([rank.get(docno, np.nan) for docno in docnos], dtype=float)
                    for name, rank in zip(sources, ranks, strict=True)
                },
                "origin": pd.Series(["fused"] * len(kept) + [origin] * len(added), dtype=object),
            }
        )


def _ranking(retriever: pt.Transformer, topics: pd.DataFrame) -> dict[str, list[str]]:
    """A retriever's documents by query, best first."""
    results = retriever.transform(topics)
    if results.empty:
        return {}
    order = "rank" if "rank" in results.columns else "score"
    if order not in results.columns:
        raise RCPError(f"{retriever} gives neither 'rank' nor 'score' (it gives {list(results.columns)})")
    results = results.assign(qid=id_column(results, "qid", "results"), docno=id_column(results, "docno", "results"))
    results = results.sort_values(order, ascending=order == "rank", kind="stable").drop_duplicates(["qid", "docno"])
    return {str(qid): rows["docno"].tolist() for qid, rows in results.groupby("qid", sort=False)}


def _labels_by_query(qrels: pd.DataFrame) -> dict[str, dict[str, int]]:
    labels: dict[str, dict[str, int]] = {}
    for _, qid, docno, label in with_labels(qrels, "qrels").itertuples(index=False, name=None):
        if docno in labels.setdefault(qid, {}):
            raise RCPError(
                f"the qrels hold query {qid!r}, document {docno!r} in two datasets; give those of one dataset"
            )
        labels[qid][docno] = label
    return labels


class GainArtifact(pt.Artifact):
    """Saved gains as a PyTerrier artifact: `pt.Artifact.load("dl19.gains")`, and `.to_hf(...)` shares them.

    Whatever a `GainTable` has (`qrels`, `RCPnDCG`, `documents`, ...) is there under the same name; `table` is the
    table itself.
    """

    ARTIFACT_TYPE = "rcp_gains"
    ARTIFACT_FORMAT = "rcp_irx"
    ARTIFACT_PACKAGE_HINT = "rcp-irx"

    def __init__(self, path: str | os.PathLike[str]):
        super().__init__(os.fspath(path))
        self.table = GainTable.load(path)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "table":
            raise AttributeError(name)
        return getattr(self.table, name)

    def __repr__(self) -> str:
        return f"GainArtifact({self.table!r})"
