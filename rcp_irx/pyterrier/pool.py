"""RRFPool: the candidate pool of a query, fused from several retrievers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import pandas as pd
import pyterrier as pt

from rcp_irx.documents import id_column
from rcp_irx.errors import RCPError, examples, warn
from rcp_irx.pooling import SOURCE_RANK, checked_pooling, labels_by_query, pool_of


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
        checked_pooling(num_results, kappa, add, qrels)
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
        self._labels = labels_by_query(qrels) if qrels is not None else {}

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
            lists = [ranking.get(qid, []) for ranking in rankings]
            rows = pool_of(lists, self._labels.get(qid, {}), self.num_results, self.kappa, self.add)
            parts.append(rows.assign(qid=qid, rank=rows["pool_rank"] + pt.model.FIRST_RANK))
            if rows.empty:
                empty.append(qid)
        if empty:
            warn(f"no candidate was found for query {examples(empty)}")
        return topics.merge(pd.concat(parts, ignore_index=True), on="qid", how="inner")[columns]


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
