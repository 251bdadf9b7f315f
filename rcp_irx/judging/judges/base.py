"""Judge: what a judge must do, what it answers with, and how an answer is checked against its window."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from rcp_irx.documents import Document, Query
from rcp_irx.errors import RCPError, examples
from rcp_irx.judging.rubric import Rubric

LARGEST_SCORE = 10.0
"""A score beyond this size is no answer."""

USUAL_SCORE = 5.0
"""Where the range ends that judges are told of; a score beyond it counts and is noted in the log."""

RETRIED = ("transport", "rate_limited")
"""Failures of the way to the judge, not of its answer: asked again by every later run."""

FINAL = ("refused",)
"""Failures that a second call would not mend."""


@dataclass(frozen=True)
class Usage:
    """What a call took and how it ended, as the server reports it; zeros and "" where it does not."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    finish_reason: str = ""
    model: str = ""

    def __post_init__(self) -> None:
        for name in ("prompt_tokens", "completion_tokens"):
            if not isinstance(getattr(self, name), (int, np.integer)):
                raise RCPError(f"{name} of a Usage must be a whole number, not {getattr(self, name)!r}")


class JudgeFailure(Exception):
    """The judge gave no usable answer: the window counts as failed, and nothing of it is used.

    Parameters
    ----------
    kind : str
        The class of failure, such as "refused", "truncated", "schema", "transport".
    raw : str
        What the judge answered, for the log.
    usage : Usage
        What the call took.
    """

    def __init__(self, kind: str, raw: str = "", usage: Usage | None = None):
        if not isinstance(kind, str) or not kind:
            raise RCPError(f"a JudgeFailure needs a kind, such as 'refused'; it is {kind!r}")
        text = raw if isinstance(raw, str) else repr(raw)
        super().__init__(f"{kind}: {text[:200]}" if text else kind)
        self.kind = kind
        self.raw = text
        self.usage = usage or Usage()


class JudgeUnavailable(JudgeFailure):
    """The judge cannot be reached, and waiting has not helped: the attempt is kept in the log, and the run ends.

    Parameters
    ----------
    reason : str
        What a person should know: where, how long, the last error.
    """

    def __init__(self, kind: str, reason: str, raw: str = "", usage: Usage | None = None):
        super().__init__(kind, raw or reason, usage)
        self.reason = reason


@dataclass(frozen=True)
class TournamentAnswer:
    """Scores on a logit scale, one per document in the order shown or by docno; or a ranking alone (best first).

    An answer that has only a `ranking` is kept in the log, but counts as failed unless hard preferences are asked for.
    """

    scores: Sequence[float] | Mapping[str, float] | None
    ranking: Sequence[str] | None = None
    raw: str = ""
    usage: Usage = Usage()


@dataclass(frozen=True)
class RubricAnswer:
    """Passes: one row of booleans per document in the order shown (documents, criteria), or by docno."""

    passes: Sequence[Sequence[bool]] | Mapping[str, Sequence[bool]]
    raw: str = ""
    usage: Usage = Usage()


class Judge:
    """Base class of judges: give it a `name` and the two methods.

    An answer may depend on the texts that are shown and on nothing else: the log finds answers again by the texts, not
    by ids.

    Attributes
    ----------
    name : str
        The model and every setting that can change an answer. It is part of each window's key in the log.
    paid : bool
        Whether answers cost money or much time; such a judge needs a log on disk.
    note : str
        A caution that every gain table made with this judge carries.
    max_concurrency : int
        The most calls in flight, over all queries, of a judge that has async methods.
    reader : str
        What reads its raw answers: "json" is `rcp_irx.judging.responses`, so that `log.reparse()` may read them again.

    Notes
    -----
    A judge may have the coroutine methods `atournament` and `arubric` in place of the plain ones, with the same
    parameters. Methods that take `attempt` are told how many calls at the window have failed before, those that take
    `key` the window's key in the log.
    """

    name: str = ""
    paid: bool = False
    note: str = ""
    max_concurrency: int = 8
    reader: str = ""

    def prompt(self, stage: str) -> str:
        """The text that a stage ("tournament" or "rubric") sends beside query, documents and rubric.

        It is part of every window's key. The default is empty: return the prompt here, or put its version in `name`;
        otherwise a changed prompt goes unnoticed and old answers are reused.
        """
        return ""

    @property
    def is_async(self) -> bool:
        """Whether the judge is called through its coroutine methods."""
        return hasattr(self, "atournament") and hasattr(self, "arubric")

    async def aclose(self) -> None:
        """Let go of what belongs to the running event loop, such as connections; called at the end of each run."""

    def cost(self, usage: Usage) -> float | None:
        """What a call cost, in dollars; None where no price is known."""
        return None

    def prompt_tokens(
        self, stage: str, query: Query, documents: Sequence[Document], rubric: Rubric | None = None
    ) -> int:
        """About how many tokens a window's prompt has; 0 where that is not known."""
        return 0

    def answer_tokens(self, stage: str, n_documents: int, rubric: Rubric | None = None) -> int:
        """About how many tokens a window's answer has; 0 where that is not known."""
        return 0

    def document_tokens(self, query: Query, rubric: Rubric, size: int) -> int | None:
        """The most tokens that each of `size` documents may take in a prompt; None: texts are shown whole."""
        return None

    def tournament(self, query: Query, documents: Sequence[Document]) -> TournamentAnswer:
        """Score the documents of one window against each other (Stage A).

        Raises
        ------
        JudgeFailure
            If there is no usable answer. Any other exception ends the run.
        """
        raise NotImplementedError

    def rubric(self, query: Query, documents: Sequence[Document], rubric: Rubric) -> RubricAnswer:
        """Answer every criterion for each document of one window, each on its own (Stage B).

        Raises
        ------
        JudgeFailure
            If there is no usable answer. Any other exception ends the run.
        """
        raise NotImplementedError


def checked_scores(answer: TournamentAnswer, query: Query, documents: Sequence[Document]) -> list[float]:
    """The scores of a window in the order shown.

    Raises
    ------
    RCPError
        Scores for other documents than those shown, too few or too many, NaN or infinite ones, or not numbers: the
        judge is
        at fault.
    JudgeFailure
        "ranking_only" where there are no scores; "schema" for a score beyond 10 in size.
    """
    if not isinstance(answer, TournamentAnswer):
        raise RCPError(f"{query}: the judge gave {type(answer).__name__}, not a TournamentAnswer")
    if answer.scores is None:
        raise JudgeFailure("ranking_only", json.dumps({"ranking": list(answer.ranking or []), "raw": answer.raw}))
    values = _in_order(answer.scores, "score", query, documents)
    scores = []
    for document, value in zip(documents, values, strict=True):
        if isinstance(value, (bool, np.bool_, str)) or not isinstance(value, (Real, np.number)):
            raise RCPError(f"{query}: the judge scored document {document.id!r} with {value!r}, which is no number")
        score = float(value)
        if not math.isfinite(score):
            raise RCPError(f"{query}: the judge scored document {document.id!r} with {score}; scores must be finite")
        scores.append(score)
    largest = max(scores, key=abs)
    if abs(largest) > LARGEST_SCORE:
        raise JudgeFailure("schema", answer.raw or f"score {largest} is beyond {LARGEST_SCORE:g} in size")
    return scores


def checked_passes(
    answer: RubricAnswer, query: Query, documents: Sequence[Document], rubric: Rubric
) -> list[list[bool]]:
    """The passes of a window, (documents in the order shown, criteria).

    Raises
    ------
    RCPError
        Answers for other documents or another number of criteria, or values that are not yes or no.
    """
    if not isinstance(answer, RubricAnswer):
        raise RCPError(f"{query}: the judge gave {type(answer).__name__}, not a RubricAnswer")
    rows = _in_order(answer.passes, "rubric answer", query, documents)
    passes = []
    for document, row in zip(documents, rows, strict=True):
        if isinstance(row, str) or not isinstance(row, (Sequence, np.ndarray)):
            raise RCPError(
                f"{query}: the judge answered document {document.id!r} with {row!r}, not with one yes or no each"
            )
        values = list(row)
        if len(values) != len(rubric):
            raise RCPError(
                f"{query}: the judge answered {len(values)} criteria for document {document.id!r};"
                f" the rubric has {len(rubric)}"
            )
        wrong = [v for v in values if not isinstance(v, (bool, np.bool_, int, np.integer)) or v not in (0, 1)]
        if wrong:
            raise RCPError(f"{query}: the judge answered {wrong[0]!r} for document {document.id!r}, not yes or no")
        passes.append([bool(value) for value in values])
    return passes


def _in_order(values: Any, what: str, query: Query, documents: Sequence[Document]) -> list[Any]:
    """The judge's values in the order in which the documents were shown."""
    shown = [document.id for document in documents]
    if hasattr(values, "keys") and hasattr(values, "__getitem__"):  # a dict, or a pandas Series indexed by docno
        values = {key: values[key] for key in values.keys()}  # noqa: SIM118  (a Series iterates its values)
        others, absent = set(values) - set(shown), set(shown) - set(values)
        if others or absent:
            parts = [f"none for {examples(absent)}"] * bool(absent) + [f"some for {examples(others)}"] * bool(others)
            raise RCPError(f"{query}: the judge's {what}s are not for the documents shown: {', '.join(parts)}")
        return [values[docno] for docno in shown]
    if isinstance(values, str) or not isinstance(values, (Sequence, np.ndarray)):
        raise RCPError(
            f"{query}: the judge's {what}s are {type(values).__name__}; give a list in the order shown, or a dict"
        )
    given = list(values)
    if len(given) != len(shown):
        raise RCPError(f"{query}: the judge gave {len(given)} {what}s for {len(shown)} documents ({examples(shown)})")
    return given
