"""ReplayJudge: answers from a log and from nothing else, for repeating a run without its judge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rcp_irx.documents import Document, Query
from rcp_irx.errors import RCPError, examples
from rcp_irx.judging.judges.base import Judge, JudgeFailure, RubricAnswer, TournamentAnswer
from rcp_irx.judging.rubric import Rubric
from rcp_irx.judging.store import JudgmentStore
from rcp_irx.judging.tournament import RUBRIC, TOURNAMENT


class ReplayJudge(Judge):
    """Gives the answers that a log holds; it has the name and the prompts of the judge that gave them.

    It answers the very windows that were asked: a run under the same protocol, of the same pools (of one that grew,
    every stage of its growth), and of texts as they were shown, cut where they were cut.

    Parameters
    ----------
    log : JudgmentLog
        The log to answer from. Judge into another one.
    judge : str, optional
        The judge's name, where the log holds several.

    Raises
    ------
    RCPError
        If the log holds no such judge, or several prompts of it. When asked: a window that the log has no answer to.
    """

    def __init__(self, log: JudgmentStore, judge: str | None = None):
        if not isinstance(log, JudgmentStore):
            raise RCPError(f"log must be a JudgmentLog, such as JudgmentLog('dl19.judgments'), not {log!r}")
        self._log = log
        plans = log.judges()
        names = sorted({name for name, *_ in plans if judge in (None, name)})
        if len(names) != 1:
            held = examples(name for name, *_ in plans) or "none"
            raise RCPError(f"{log!r} holds the judges {held}: give one of them as judge=")
        self.name = names[0]
        self.note = next(note for name, _, _, note in plans if name == self.name)
        self._prompts: dict[str, str] = {}
        for stage in (TOURNAMENT, RUBRIC):
            prompts = {text for name, of, text, _ in plans if name == self.name and of == stage}
            if len(prompts) > 1:
                raise RCPError(f"{log!r} holds {len(prompts)} {stage} prompts of judge {self.name!r}; replay needs one")
            self._prompts[stage] = next(iter(prompts), "")

    def prompt(self, stage: str) -> str:
        """The prompt that the log's answers were given to."""
        return self._prompts[stage]

    def tournament(self, query: Query, documents: Sequence[Document], *, key: str = "") -> TournamentAnswer:
        return TournamentAnswer(self._answer(TOURNAMENT, query, documents, key), raw="replayed")

    def rubric(self, query: Query, documents: Sequence[Document], rubric: Rubric, *, key: str = "") -> RubricAnswer:
        return RubricAnswer(self._answer(RUBRIC, query, documents, key), raw="replayed")

    def _answer(self, stage: str, query: Query, documents: Sequence[Document], key: str) -> Any:
        outcome = self._log.outcome(key)
        if outcome.answer is not None:
            return outcome.answer
        if outcome.failure:
            raise JudgeFailure(outcome.failure, "replayed")
        shown = examples(document.id for document in documents)
        raise RCPError(
            f"{query}: {self._log!r} has no answer of {self.name!r} to this {stage} window of documents {shown}; its "
            "documents, texts, order, rubric or prompt were never asked about"
        )
