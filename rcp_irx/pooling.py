"""Which documents a query's pool holds (C.1): reciprocal rank fusion, and judged documents that fusion missed.

Lists alone.
"""

from __future__ import annotations

from collections.abc import Sequence


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
