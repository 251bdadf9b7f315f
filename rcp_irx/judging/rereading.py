"""Reads stored raw answers again: what an attempt means to the present parser. The file is `store`'s."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from rcp_irx.documents import Document, Query
from rcp_irx.judging.judges.base import JudgeFailure, RubricAnswer, TournamentAnswer, checked_passes, checked_scores
from rcp_irx.judging.prompts import example_of
from rcp_irx.judging.responses import read_passes, read_scores
from rcp_irx.judging.rubric import Rubric

READ = ("", "no_json", "invalid_json", "schema", "incomplete")
"""Outcomes of reading an answer; all others are of the call."""


class Attempt(NamedTuple):
    """A stored attempt: its place in the log, its outcome, the raw text, what the window asked (rubric "": scores)."""

    key: str
    attempt: int
    failure: str
    answer: Any
    raw: str
    documents: int
    rubric: str
    prompt: str


class Change(NamedTuple):
    """What an attempt means now; `failure` "" is an answer."""

    key: str
    attempt: int
    before: str
    failure: str
    answer: Any


def changes(attempts: Iterable[Attempt]) -> list[Change]:
    """The attempts whose outcome differs when their raw text is read again."""
    found = []
    for attempt in attempts:
        if attempt.failure not in READ:
            continue
        try:
            failure, answer = "", _read(attempt)
        except JudgeFailure as error:
            failure, answer = error.kind, None
        if (failure, answer) != (attempt.failure, attempt.answer):
            found.append(Change(attempt.key, attempt.attempt, attempt.failure, failure, answer))
    return found


def _read(attempt: Attempt) -> Any:
    query, shown = Query("", ""), [Document(str(i), "") for i in range(attempt.documents)]
    rubric = Rubric.from_json(attempt.rubric) if attempt.rubric else None
    example = example_of(attempt.prompt, rubric)
    if rubric is None:
        scores = read_scores(attempt.raw, len(shown), example=example)
        return checked_scores(TournamentAnswer(scores, raw=attempt.raw), query, shown)
    passes = read_passes(attempt.raw, len(shown), rubric.ids, example=example)
    return checked_passes(RubricAnswer(passes, raw=attempt.raw), query, shown, rubric)
