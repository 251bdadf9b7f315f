"""Which documents a query's pool holds (C.1): reciprocal rank fusion, and judged documents that fusion missed.

Rankings are lists of document ids, best first; who retrieves them is for others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from rcp_irx.documents import with_keys, with_labels
from rcp_irx.errors import RCPError, whole

SOURCE_RANK = "source_rank_"
"""The columns with a document's rank in each retriever's list; its number follows."""


def fuse(ranks: Sequence[dict[str, int]], kappa: float) -> dict[str, float]:
    """Reciprocal rank fusion: docno -> score, best first; ties by best single rank, then docno."""
    scores: dict[str, float] = {}
    best: dict[str, int] = {}
    for ranking in ranks:
        for docno, rank in ranking.items():
            scores[docno] = scores.get(docno, 0.0) + 1.0 / (kappa + rank)
            best[docno] = min(best.get(docno, rank), rank)
    return {docno: scores[docno] for docno in sorted(scores, key=lambda d: (-scores[d], best[d], d))}


def fill_pool(fused: Sequence[str], labels: dict[str, int], size: int, add: str | None) -> tuple[list[str], list[str]]:
    """The fused documents that stay in a pool and those that join it (C.1), each in pool order.

    Missed positives replace the lowest documents that are not positive; where positives outnumber the places, those
    of the pool
    come first, then the others by grade and docno.
    """
    kept = list(fused[:size])
    held = set(kept)
    least = {"positives": 1, "judged": 0}.get(add or "")
    if least is None:
        return kept, []
    missed = sorted(
        (d for d, label in labels.items() if label >= least and d not in held), key=lambda d: (-labels[d], d)
    )
    if add == "judged":
        return kept, missed
    replaceable = [docno for docno in reversed(kept) if labels.get(docno, 0) < 1]
    free = size - len(kept)
    added = missed[: free + len(replaceable)]
    gone = set(replaceable[: max(0, len(added) - free)])
    return [docno for docno in kept if docno not in gone], added


def pool_of(
    rankings: Sequence[Sequence[str]], labels: dict[str, int], num_results: int, kappa: float, add: str | None
) -> pd.DataFrame:
    """One query's pool: `docno, score, pool_rank` (from 0), `source_rank_1` ... and `origin`, why a document is there.

    Parameters
    ----------
    rankings : sequence of lists of docnos
        One list per retriever, best first.
    labels : dict of str to int
        The query's labels, for `add`.
    """
    ranks = [{docno: rank for rank, docno in enumerate(ranking, start=1)} for ranking in rankings]
    fused = fuse(ranks, kappa)
    kept, added = fill_pool(list(fused), labels, num_results, add)
    origin = {"positives": "positive", "judged": "judged"}.get(add or "", "")
    docnos = [*kept, *added]
    return pd.DataFrame(
        {
            "docno": pd.Series(docnos, dtype=object),
            "score": [fused[docno] for docno in kept] + [0.0] * len(added),
            "pool_rank": np.arange(len(docnos)),
            **{
                f"{SOURCE_RANK}{i}": np.array([rank.get(docno, np.nan) for docno in docnos], dtype=float)
                for i, rank in enumerate(ranks, start=1)
            },
            "origin": pd.Series(["fused"] * len(kept) + [origin] * len(added), dtype=object),
        }
    )


def pool_runs(
    runs: Sequence[pd.DataFrame],
    num_results: int = 150,
    kappa: float = 60,
    qrels: pd.DataFrame | None = None,
    add: str | None = None,
) -> pd.DataFrame:
    """The pools of all queries of several runs (`qid, docno, score`): `qid` and the columns of `pool_of`.

    A run's order is that of its scores, ties by docno descending, as trec_eval has it.

    Raises
    ------
    RCPError
        Settings that cannot be, no run, ids that are missing.
    """
    checked_pooling(num_results, kappa, add, qrels)
    if not runs:
        raise RCPError("there is no run to make pools of")
    lists = [_ranking(run) for run in runs]
    labels = {} if qrels is None else labels_by_query(qrels)
    qids = list(dict.fromkeys(qid for ranking in lists for qid in ranking))
    parts = [
        pool_of([ranking.get(qid, []) for ranking in lists], labels.get(qid, {}), num_results, kappa, add).assign(
            qid=qid
        )
        for qid in qids
    ]
    return pd.concat(parts, ignore_index=True)


def _ranking(run: pd.DataFrame) -> dict[str, list[str]]:
    run = with_keys(run, ["qid", "docno"], "run").sort_values(["score", "docno"], ascending=False, kind="stable")
    return {str(qid): list(dict.fromkeys(rows["docno"])) for qid, rows in run.groupby("qid", sort=False)}


def checked_pooling(num_results: int, kappa: float, add: str | None, qrels: pd.DataFrame | None) -> None:
    """Refuse settings of a pool that cannot be.

    Raises
    ------
    RCPError
        Names the setting.
    """
    if add not in (None, "positives", "judged"):
        raise RCPError(f"add is None, 'positives' or 'judged', not {add!r}")
    if add is not None and qrels is None:
        raise RCPError(f"add={add!r} needs qrels=")
    whole("num_results", num_results)
    if not kappa > 0:
        raise RCPError(f"kappa is above 0, not {kappa!r}")


def labels_by_query(qrels: pd.DataFrame) -> dict[str, dict[str, int]]:
    """The labels of a qrels frame of one dataset: query -> document -> label."""
    labels: dict[str, dict[str, int]] = {}
    for _, qid, docno, label in with_labels(qrels, "qrels").itertuples(index=False, name=None):
        if docno in labels.setdefault(qid, {}):
            raise RCPError(
                f"the qrels hold query {qid!r}, document {docno!r} in two datasets; give those of one dataset"
            )
        labels[qid][docno] = label
    return labels
