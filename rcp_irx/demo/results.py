"""Runs of three toy rankers on the demo collection and a stand-in judge's gains for it, to try things on.

No framework is needed, and nothing is stored. The collection itself is in `rcp_irx.demo`.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from copy import deepcopy
from functools import cache
from typing import TypeAlias

import pandas as pd

from rcp_irx import demo
from rcp_irx.documents import pools
from rcp_irx.gains import GainTable
from rcp_irx.judging.judges.lexical import LexicalJudge
from rcp_irx.judging.log import JudgmentLog
from rcp_irx.judging.protocol import FULL
from rcp_irx.judging.rubric import Rubric
from rcp_irx.judging.runner import PoolRunner
from rcp_irx.pooling import fuse

Ranker: TypeAlias = Callable[[str, str], float]

DEPTH, POOL, KAPPA = 50, 30, 60


def runs() -> dict[str, pd.DataFrame]:
    """The runs by name, each `qid, docno, score` with the best 50 passages of every topic."""
    return {name: run.copy() for name, run in _runs().items()}


@cache
def _runs() -> dict[str, pd.DataFrame]:
    documents = demo.documents()
    containing = Counter(word for _, text in documents for word in set(_words(text)))
    rarity = {word: math.log(len(documents) / count) for word, count in containing.items()}

    def rare_words(query: str, text: str) -> float:
        return sum(rarity[word] for word in set(_words(query)) & set(_words(text)))

    rankers: dict[str, Ranker] = {
        "rare words": rare_words,
        "trigrams": shared_trigrams,
        "longest": lambda query, text: float(len(text)),
    }
    return {name: _run(ranker, documents) for name, ranker in rankers.items()}


def qrels() -> pd.DataFrame:
    """The labels as a frame `qid, docno, label`."""
    return pd.DataFrame(demo.qrels(), columns=["qid", "docno", "label"])


def gains() -> GainTable:
    """Gains of the runs' fused top 30, judged by `LexicalJudge`: they show the path, and nothing about rankers."""
    return deepcopy(_gains())


@cache
def _gains() -> GainTable:
    texts, systems = dict(demo.documents()), runs().values()
    rows = []
    for qid, query in demo.topics():
        rankings = [run["docno"][run["qid"] == qid].tolist() for run in systems]
        fused = fuse([{docno: rank for rank, docno in enumerate(ranking, start=1)} for ranking in rankings], KAPPA)
        rows += [(qid, query, docno, texts[docno], rank) for rank, docno in enumerate(list(fused)[:POOL])]
    log = JudgmentLog(None)
    for pool in pools(pd.DataFrame(rows, columns=["qid", "query", "docno", "text", "pool_rank"])):
        PoolRunner(pool, LexicalJudge(), Rubric.load(), FULL, log).run()
    return log.calibrate()


def shared_trigrams(query: str, text: str) -> float:
    """The share of the query's letter trigrams that the passage holds."""
    in_query, in_text = (Counter(s[i : i + 3] for i in range(len(s) - 2)) for s in (query.lower(), text.lower()))
    return sum((in_query & in_text).values()) / max(1, sum(in_query.values()))


def _run(ranker: Ranker, documents: list[tuple[str, str]]) -> pd.DataFrame:
    rows = []
    for qid, query in demo.topics():
        scored = sorted(((ranker(query, text), docno) for docno, text in documents), reverse=True)[:DEPTH]
        rows += [(qid, docno, score) for score, docno in scored]
    return pd.DataFrame(rows, columns=["qid", "docno", "score"])


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())
