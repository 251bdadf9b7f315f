"""What a run of judge calls has used, and the limits at which it stops; prices are the judge's."""

from __future__ import annotations

from dataclasses import dataclass, field

from rcp_irx.errors import RCPError, counted
from rcp_irx.judging.judges.base import Usage


class RunStopped(RCPError):
    """A run reached its limit of calls, tokens or cost; every answer so far is in the log."""


@dataclass
class Spending:
    """The calls, tokens and dollars of one run, and its limits (None: no limit).

    Calls under way count as the largest call so far, so that a limit is not passed by what is in flight.
    """

    max_calls: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None
    calls: int = 0
    failed: int = 0
    tokens: int = 0
    cost: float = 0.0
    in_flight: int = 0
    stopped_at: str = ""
    _largest: dict[str, float] = field(default_factory=lambda: {"tokens": 0.0, "cost": 0.0})

    def start(self) -> None:
        """One more call.

        Raises
        ------
        RunStopped
            If a limit does not allow it.
        """
        under_way = self.in_flight + 1
        for name, used, limit in [
            ("max_calls", self.calls + self.in_flight + 1, self.max_calls),
            ("max_tokens_total", self.tokens + under_way * self._largest["tokens"], self.max_tokens),
            ("max_cost", self.cost + under_way * self._largest["cost"], self.max_cost),
        ]:
            if limit is not None and used > limit:
                self.stopped_at = f"{name}={limit:g}"
                raise self.stop()
        self.in_flight += 1

    def stop(self) -> RunStopped:
        """The error that says where the run stopped and what it has used by now."""
        return RunStopped(f"the run stopped at {self.stopped_at}: {self.describe()}")

    def end(self, usage: Usage, cost: float | None, *, failed: bool) -> None:
        """A call came back."""
        tokens = usage.prompt_tokens + usage.completion_tokens
        self.in_flight -= 1
        self.calls += 1
        self.failed += failed
        self.tokens += tokens
        self.cost += cost or 0.0
        self._largest = {
            "tokens": max(self._largest["tokens"], tokens),
            "cost": max(self._largest["cost"], cost or 0.0),
        }

    def abandon(self) -> None:
        """A call was cancelled or ended the run."""
        self.in_flight -= 1

    def describe(self) -> str:
        """What was used, in words."""
        parts = [counted(self.calls, "call")]
        parts += [f"{self.failed} failed"] * bool(self.failed)
        parts += [f"{self.tokens} tokens"] * bool(self.tokens)
        parts += [f"${self.cost:.4g}"] * bool(self.cost)
        return ", ".join(parts)
