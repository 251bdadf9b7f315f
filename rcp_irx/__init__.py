"""LLM preferences as calibrated relevance gains for IR evaluation: the public names; importing registers the measures.

Nothing heavy loads here: numpy, pandas and the frameworks arrive with the name that needs them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from rcp_irx._version import __version__
from rcp_irx.errors import MissingExtra, RCPError, RCPWarning
from rcp_irx.evaluation.measures import (
    RCPDCG,
    RCPERR,
    CountnDCG,
    RawBTnDCG,
    RCPBest,
    RCPGain,
    RCPJudged,
    RCPnDCG,
    RCPRecall,
)

if TYPE_CHECKING:
    from rcp_irx.documents import Document, Query
    from rcp_irx.gains import GainTable
    from rcp_irx.judging.judges.base import Judge, JudgeFailure, RubricAnswer, TournamentAnswer
    from rcp_irx.judging.judges.lexical import LexicalJudge
    from rcp_irx.judging.judges.openai import OpenAIJudge
    from rcp_irx.judging.judges.replay import ReplayJudge
    from rcp_irx.judging.judges.simulated import SimulatedJudge
    from rcp_irx.judging.log import JudgmentLog
    from rcp_irx.judging.protocol import FULL, REDUCED, Protocol
    from rcp_irx.judging.rubric import Criterion, Rubric
    from rcp_irx.judging.spending import RunStopped
    from rcp_irx.pyterrier import RCPJudge, RRFPool
    from rcp_irx.registry import register_gains

_HOMES = {
    "Document": "documents",
    "Query": "documents",
    "GainTable": "gains",
    "register_gains": "registry",
    "Judge": "judging.judges.base",
    "JudgeFailure": "judging.judges.base",
    "RubricAnswer": "judging.judges.base",
    "TournamentAnswer": "judging.judges.base",
    "LexicalJudge": "judging.judges.lexical",
    "OpenAIJudge": "judging.judges.openai",
    "ReplayJudge": "judging.judges.replay",
    "SimulatedJudge": "judging.judges.simulated",
    "JudgmentLog": "judging.log",
    "FULL": "judging.protocol",
    "REDUCED": "judging.protocol",
    "Protocol": "judging.protocol",
    "Criterion": "judging.rubric",
    "Rubric": "judging.rubric",
    "RunStopped": "judging.spending",
    "RCPJudge": "pyterrier",
    "RRFPool": "pyterrier",
}

__all__ = [
    "FULL",
    "RCPDCG",
    "RCPERR",
    "REDUCED",
    "CountnDCG",
    "Criterion",
    "Document",
    "GainTable",
    "Judge",
    "JudgeFailure",
    "JudgmentLog",
    "LexicalJudge",
    "MissingExtra",
    "OpenAIJudge",
    "Protocol",
    "Query",
    "RCPBest",
    "RCPError",
    "RCPGain",
    "RCPJudge",
    "RCPJudged",
    "RCPRecall",
    "RCPWarning",
    "RCPnDCG",
    "RRFPool",
    "RawBTnDCG",
    "ReplayJudge",
    "Rubric",
    "RubricAnswer",
    "RunStopped",
    "SimulatedJudge",
    "TournamentAnswer",
    "__version__",
    "register_gains",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'rcp_irx' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"rcp_irx.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
