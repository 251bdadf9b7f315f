"""Scoring rankings with gains: `ndcg` on frames and dicts, `measures` for ir_measures and PyTerrier.

Nothing heavy loads here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rcp_irx.evaluation.dcg import ndcg

__all__ = ["ndcg"]


def __getattr__(name: str) -> Any:
    if name != "ndcg":
        raise AttributeError(f"module 'rcp_irx.evaluation' has no attribute {name!r}")
    from rcp_irx.evaluation.dcg import ndcg

    globals()["ndcg"] = ndcg
    return ndcg
