"""One call at a window: the judge is asked, its answer checked and put into the log at once, within a run's limits.

Which windows are asked, and how often, is `runner`'s work.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias

from rcp_irx.documents import Document, Query
from rcp_irx.errors import RCPError
from rcp_irx.judging.concurrency import PriorityLimit, Turn
from rcp_irx.judging.judges.base import (
    USUAL_SCORE,
    Judge,
    JudgeFailure,
    JudgeUnavailable,
    checked_passes,
    checked_scores,
)
from rcp_irx.judging.rubric import Rubric
from rcp_irx.judging.spending import Spending
from rcp_irx.judging.store import JudgmentStore, Outcome
from rcp_irx.judging.tournament import TOURNAMENT

OnWindow: TypeAlias = Callable[[Outcome], None]


@dataclass(frozen=True)
class Window:
    """A window as a judge is shown it: the documents in their order; and its key in the log."""

    judge: Judge
    stage: str
    query: Query
    documents: tuple[Document, ...]
    rubric: Rubric
    key: str
    log: JudgmentStore


class Ask:
    """Calls a judge and puts what comes of it into the log at once, within the limits of the run."""

    def __init__(self, spending: Spending, on_window: OnWindow, limit: PriorityLimit | None = None):
        self.spending, self.on_window, self._limit = spending, on_window, limit

    def now(self, window: Window) -> Outcome:
        """One call of a plain method."""
        self.spending.start()
        start, ended = time.perf_counter(), False
        try:
            if window.stage == TOURNAMENT:
                given: Any = window.judge.tournament(window.query, window.documents)
            else:
                given = window.judge.rubric(window.query, window.documents, window.rubric)
            outcome, ended = self._answered(window, given, start), True
        except JudgeFailure as failure:
            outcome, ended = self._failed(window, failure, start), True
        finally:
            if not ended:
                self.spending.abandon()
        return outcome

    async def later(self, window: Window, attempt: int, turn: Turn) -> Outcome:
        """One call of an async method, once there is a place for it; `attempt` counts those that failed before."""
        assert self._limit is not None
        judge: Any = window.judge
        await self._limit.acquire(turn)
        try:
            self.spending.start()
            start, ended = time.perf_counter(), False
            try:
                method = judge.atournament if window.stage == TOURNAMENT else judge.arubric
                more = {"attempt": attempt} if _takes_attempt(method) else {}
                rest = () if window.stage == TOURNAMENT else (window.rubric,)
                given = await method(window.query, window.documents, *rest, **more)
                outcome, ended = self._answered(window, given, start), True
            except JudgeFailure as failure:
                outcome, ended = self._failed(window, failure, start), True
            finally:
                if not ended:
                    self.spending.abandon()
        finally:
            self._limit.release()
        return outcome

    def _answered(self, window: Window, given: Any, start: float) -> Outcome:
        """The answer, checked and in the log. Exceptions other than JudgeFailure end the run."""
        try:
            if window.stage == TOURNAMENT:
                answer: Any = checked_scores(given, window.query, window.documents)
                note = _note(answer)
            else:
                answer, note = checked_passes(given, window.query, window.documents, window.rubric), ""
        except JudgeFailure as failure:
            failure.usage = given.usage
            raise
        seconds = time.perf_counter() - start
        window.log.record(window.key, answer=answer, note=note, raw=given.raw, usage=given.usage, seconds=seconds)
        self.spending.end(given.usage, window.judge.cost(given.usage), failed=False)
        return Outcome(answer, "", 1)

    def _failed(self, window: Window, failure: JudgeFailure, start: float) -> Outcome:
        seconds = time.perf_counter() - start
        window.log.record(window.key, failure=failure.kind, raw=failure.raw, usage=failure.usage, seconds=seconds)
        self.spending.end(failure.usage, window.judge.cost(failure.usage), failed=True)
        if isinstance(failure, JudgeUnavailable):
            raise RCPError(f"{failure.reason}; every answer so far is in the log, run again to go on") from failure
        return Outcome(None, failure.kind, 1)


def _takes_attempt(method: Any) -> bool:
    """Whether a coroutine method wants to know how often a window has failed."""
    return _has_attempt(getattr(method, "__func__", method))


@lru_cache(maxsize=64)
def _has_attempt(function: Callable[..., Any]) -> bool:
    return "attempt" in inspect.signature(function).parameters


def _note(scores: Sequence[float]) -> str:
    """What is odd about scores that count."""
    beyond = sum(abs(score) > USUAL_SCORE for score in scores)
    return f"{beyond} of {len(scores)} scores beyond {USUAL_SCORE:g} in size" if beyond else ""
