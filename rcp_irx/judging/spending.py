"""What a run of judge calls has used, and the limits at which it stops; prices are the judge's."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from numbers import Real
from typing import Any, NamedTuple

from rcp_irx.errors import RCPError, counted
from rcp_irx.judging.judges.base import Usage


class Expected(NamedTuple):
    """What a call is expected to take: tokens and dollars."""

    tokens: float
    cost: float


class RunStopped(RCPError):
    """A run reached its limit of calls, tokens or cost; every answer so far is in the log."""


@dataclass
class Spending:
    """The calls, tokens and dollars of one run, and its limits (None: no limit).

    What is in flight counts as much as it is expected to take, and no less than the largest call so far, so that a
    limit is not passed by what is under way. A call whose usage the server does not report counts as expected.

    Raises
    ------
    RCPError
        For a limit that is no number from 0 up.
    """

    max_calls: float | None = None
    max_tokens: float | None = None
    max_cost: float | None = None
    calls: int = 0
    failed: int = 0
    tokens: float = 0
    cost: float = 0.0
    in_flight: int = 0
    stopped_at: str = ""
    _under_way: Any = field(default_factory=Counter)
    _largest: Any = field(default_factory=Counter)

    def __post_init__(self) -> None:
        for name, limit in self._limits():
            if limit is not None and not (isinstance(limit, Real) and limit >= 0):
                raise RCPError(f"{name} must be a number from 0 up, not {limit!r}")

    def _limits(self) -> list[tuple[str, float | None]]:
        return [("max_calls", self.max_calls), ("max_tokens_total", self.max_tokens), ("max_cost", self.max_cost)]

    @property
    def counts_tokens(self) -> bool:
        """Whether a limit needs to know what a call will take."""
        return self.max_tokens is not None or self.max_cost is not None

    def start(self, tokens: float = 0, cost: float = 0.0) -> Expected:
        """One more call, of so many tokens and dollars as far as can be told.

        Raises
        ------
        RunStopped
            If a limit does not allow it.
        """
        expected = Expected(max(tokens, self._largest["tokens"]), max(cost, self._largest["cost"]))
        used = {
            "max_calls": self.calls + self.in_flight + 1,
            "max_tokens_total": self.tokens + self._under_way["tokens"] + expected.tokens,
            "max_cost": self.cost + self._under_way["cost"] + expected.cost,
        }
        for name, limit in self._limits():
            if limit is not None and used[name] > limit:
                self.stopped_at = f"{name}={limit:g}"
                raise self.stop()
        self.in_flight += 1
        self._under_way.update(tokens=expected.tokens, cost=expected.cost)
        return expected

    def stop(self) -> RunStopped:
        """The error that says where the run stopped and what it has used by now."""
        return RunStopped(f"the run stopped at {self.stopped_at}: {self.describe()}")

    def end(self, expected: Expected, usage: Usage, cost: float | None, *, failed: bool) -> None:
        """A call came back."""
        self.abandon(expected)
        tokens: float = usage.prompt_tokens + usage.completion_tokens
        if not tokens and self.counts_tokens:
            tokens, cost = expected.tokens, expected.cost
        self.calls += 1
        self.failed += failed
        self.tokens += tokens
        self.cost += cost or 0.0
        self._largest["tokens"] = max(self._largest["tokens"], tokens)
        self._largest["cost"] = max(self._largest["cost"], cost or 0.0)

    def abandon(self, expected: Expected) -> None:
        """A call was cancelled or ended the run."""
        self.in_flight -= 1
        self._under_way.subtract(tokens=expected.tokens, cost=expected.cost)

    def describe(self) -> str:
        """What was used, in words."""
        parts = [counted(self.calls, "call")]
        parts += [f"{self.failed} failed"] * bool(self.failed)
        parts += [f"{self.tokens:.0f} tokens"] * bool(self.tokens)
        parts += [f"${self.cost:.4g}"] * bool(self.cost)
        return ", ".join(parts)
