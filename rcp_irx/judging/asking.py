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
    Usage,
    checked_passes,
    checked_scores,
)
from rcp_irx.judging.rubric import Rubric
from rcp_irx.judging.spending import Expected, Spending
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
        judge: Any = window.judge
        expected = self._start(window)
        start, ended = time.perf_counter(), False
        try:
            if window.stage == TOURNAMENT:
                given = judge.tournament(window.query, window.documents, **_told(judge.tournament, window))
            else:
                given = judge.rubric(window.query, window.documents, window.rubric, **_told(judge.rubric, window))
            outcome, ended = self._answered(window, given, start, expected), True
        except JudgeFailure as failure:
            outcome, ended = self._failed(window, failure, start, expected), True
        finally:
            if not ended:
                self.spending.abandon(expected)
        return outcome

    async def later(self, window: Window, attempt: int, turn: Turn) -> Outcome:
        """One call of an async method, once there is a place for it; `attempt` counts those that failed before."""
        assert self._limit is not None
        judge: Any = window.judge
        await self._limit.acquire(turn)
        try:
            expected = self._start(window)
            start, ended = time.perf_counter(), False
            try:
                method = judge.atournament if window.stage == TOURNAMENT else judge.arubric
                more = _told(method, window, attempt)
                rest = () if window.stage == TOURNAMENT else (window.rubric,)
                given = await method(window.query, window.documents, *rest, **more)
                outcome, ended = self._answered(window, given, start, expected), True
            except JudgeFailure as failure:
                outcome, ended = self._failed(window, failure, start, expected), True
            finally:
                if not ended:
                    self.spending.abandon(expected)
        finally:
            self._limit.release()
        return outcome

    def _start(self, window: Window) -> Expected:
        """Take up one more call within the limits of the run."""
        if not self.spending.counts_tokens:
            return self.spending.start()
        of = None if window.stage == TOURNAMENT else window.rubric
        prompt = window.judge.prompt_tokens(window.stage, window.query, window.documents, of)
        answer = window.judge.answer_tokens(window.stage, len(window.documents), of)
        return self.spending.start(prompt + answer, window.judge.cost(Usage(prompt, answer)) or 0.0)

    def _answered(self, window: Window, given: Any, start: float, expected: Expected) -> Outcome:
        """The answer, checked and in the log. Exceptions other than JudgeFailure end the run."""
        usage = getattr(given, "usage", None)
        if usage is not None and not isinstance(usage, Usage):
            raise RCPError(f"{window.query}: an answer's usage must be a Usage, not {usage!r}")
        usage = usage or Usage()
        try:
            if window.stage == TOURNAMENT:
                answer: Any = checked_scores(given, window.query, window.documents)
                note = _note(answer)
            else:
                answer, note = checked_passes(given, window.query, window.documents, window.rubric), ""
        except JudgeFailure as failure:
            failure.usage = usage
            raise
        seconds = time.perf_counter() - start
        window.log.record(window.key, answer=answer, note=note, raw=given.raw, usage=usage, seconds=seconds)
        self.spending.end(expected, usage, window.judge.cost(usage), failed=False)
        return Outcome(answer, "", 1)

    def _failed(self, window: Window, failure: JudgeFailure, start: float, expected: Expected) -> Outcome:
        seconds = time.perf_counter() - start
        window.log.record(window.key, failure=failure.kind, raw=failure.raw, usage=failure.usage, seconds=seconds)
        self.spending.end(expected, failure.usage, window.judge.cost(failure.usage), failed=True)
        if isinstance(failure, JudgeUnavailable):
            raise RCPError(f"{failure.reason}; every answer so far is in the log, run again to go on") from failure
        return Outcome(None, failure.kind, 1)


def _told(method: Any, window: Window, attempt: int = 0) -> dict[str, Any]:
    """What a judge's method wants to know beside the window: how often it failed before, its key."""
    known = {"attempt": attempt, "key": window.key}
    return {name: known[name] for name in _parameters(getattr(method, "__func__", method)) if name in known}


@lru_cache(maxsize=64)
def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    return tuple(inspect.signature(function).parameters)


def _note(scores: Sequence[float]) -> str:
    """What is odd about scores that count."""
    if len(scores) > 1 and len(set(scores)) == 1:
        return f"all {len(scores)} scores are equal"
    beyond = sum(abs(score) > USUAL_SCORE for score in scores)
    return f"{beyond} of {len(scores)} scores beyond {USUAL_SCORE:g} in size" if beyond else ""
