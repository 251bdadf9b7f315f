"""What judging pools will take, before anything is asked: calls, tokens, cost; and the largest protocol that fits.

Prices and token counts are the judge's; what the log has answered already is not asked again, and not counted here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import pandas as pd

from rcp_irx.documents import Pool
from rcp_irx.errors import RCPError, counted
from rcp_irx.judging.judges.base import Judge, Usage
from rcp_irx.judging.protocol import Protocol
from rcp_irx.judging.rubric import Rubric
from rcp_irx.judging.tournament import RUBRIC, TOURNAMENT

LEAST_PLACEMENTS = (3, 2)
"""The fewest tournament and rubric placements of a document, on average, that a protocol is cut down to."""


@dataclass(frozen=True)
class Estimate:
    """Calls, tokens (0 where the judge cannot tell) and dollars (None without prices); `queries` has one row each.

    `queries` has the columns `dataset, qid, documents, tournament, rubric, prompt_tokens, completion_tokens, cost`.
    """

    queries: pd.DataFrame

    @property
    def calls(self) -> int:
        """Tournament and rubric calls, where every window is answered at once."""
        return int(self.queries["tournament"].sum() + self.queries["rubric"].sum())

    @property
    def prompt_tokens(self) -> int:
        """Tokens read by the model."""
        return int(self.queries["prompt_tokens"].sum())

    @property
    def completion_tokens(self) -> int:
        """Tokens written by the model; one that reasons writes more."""
        return int(self.queries["completion_tokens"].sum())

    @property
    def cost(self) -> float | None:
        """Dollars, or None where the judge knows no prices."""
        return None if self.queries["cost"].isna().any() else float(self.queries["cost"].sum())

    def __str__(self) -> str:
        text = f"{counted(self.calls, 'call')} for {counted(len(self.queries), 'query', 'queries')}"
        if self.prompt_tokens:
            text += f", about {self.prompt_tokens:,} prompt and {self.completion_tokens:,} completion tokens"
        return text + ("" if self.cost is None else f", about ${self.cost:.2f}")


@dataclass(frozen=True)
class WindowCost:
    """The tokens of one average window of a pool, at a stage."""

    prompt: float
    completion: float


def window_costs(pool: Pool, judge: Judge, rubric: Rubric, size: int) -> dict[str, WindowCost]:
    """The average tokens of a window of each stage: the pool's documents, `size` at a time."""
    documents = pool.documents
    chunks = [documents[start : start + size] for start in range(0, len(documents), size)]
    costs = {}
    for stage in (TOURNAMENT, RUBRIC):
        of = rubric if stage == RUBRIC else None
        prompts = [judge.prompt_tokens(stage, pool.query, chunk, of) * len(chunk) for chunk in chunks]
        full = judge.answer_tokens(stage, min(size, len(documents)), of)
        costs[stage] = WindowCost(sum(prompts) / len(documents), full)
    return costs


def estimate(
    pools: Sequence[Pool],
    calls: Sequence[tuple[int, int]],
    judge: Judge,
    costs: Sequence[dict[str, WindowCost]],
) -> Estimate:
    """The estimate for pools whose (tournament, rubric) calls are given."""
    rows: list[dict[str, Any]] = []
    for pool, (tournament, rubric), cost in zip(pools, calls, costs, strict=True):
        number = {TOURNAMENT: tournament, RUBRIC: rubric}
        prompt = round(sum(number[stage] * cost[stage].prompt for stage in number))
        completion = round(sum(number[stage] * cost[stage].completion for stage in number))
        rows.append(
            {
                "dataset": pool.query.dataset,
                "qid": pool.query.id,
                "documents": len(pool.documents),
                "tournament": tournament,
                "rubric": rubric,
                "prompt_tokens": prompt,
                "completion_tokens": completion,
                "cost": judge.cost(Usage(prompt, completion)),
            }
        )
    names = "dataset qid documents tournament rubric prompt_tokens completion_tokens cost".split()
    return Estimate(pd.DataFrame(rows, columns=names).astype({"cost": float}))


def refuse_cost_without_prices(judge: Judge, max_cost: float | None) -> None:
    """A limit of cost can be kept only where calls have a price.

    Raises
    ------
    RCPError
        If there is such a limit, and the judge knows no prices.
    """
    if max_cost is not None and judge.cost(Usage(1, 1)) is None:
        raise RCPError(f"judge {judge.name!r} has no prices, so max_cost cannot be kept: give it prices=")


def largest_protocol(
    pools: Sequence[Pool],
    judge: Judge,
    rubric: Rubric,
    protocol: Protocol,
    limits: dict[str, float | None],
) -> Protocol:
    """The protocol scaled down, in steps of 1%, as far as the limits (calls, tokens, cost) ask for.

    Raises
    ------
    RCPError
        If no limit is given, the judge knows no prices for a limit of cost, or even the fewest placements do not fit.
    """
    given = {name: limit for name, limit in limits.items() if limit is not None}
    if not given:
        raise RCPError(f"give a limit: one of {', '.join(limits)}")
    refuse_cost_without_prices(judge, limits["max_cost"])
    if not pools:
        return protocol
    costs = [window_costs(pool, judge, rubric, protocol.size) for pool in pools]
    found = None
    for step in range(100, 0, -1):
        scaled = protocol if step == 100 else protocol.scaled(Fraction(step, 100))
        if not _enough(scaled, pools):
            break
        calls = [(c.tournament, c.rubric) for c in (scaled.counts(len(pool.documents)) for pool in pools)]
        found = estimate(pools, calls, judge, costs)
        used = {
            "max_calls": found.calls,
            "max_tokens_total": found.prompt_tokens + found.completion_tokens,
            "max_cost": found.cost or 0.0,
        }
        if all(used[name] <= limit for name, limit in given.items()):
            return scaled
    least = "" if found is None else f"; the smallest that does takes {found}"
    tournament, placed = LEAST_PLACEMENTS
    raise RCPError(
        f"no protocol within {', '.join(f'{name}={limit:g}' for name, limit in given.items())} places every document "
        f"{tournament} times in the tournament and {placed} times in the rubric{least}"
    )


def _enough(protocol: Protocol, pools: Sequence[Pool]) -> bool:
    """Whether the documents of every pool are placed often enough."""
    for size in {len(pool.documents) for pool in pools}:
        counts = protocol.counts(size)
        placed = (counts.tournament * counts.size / size, counts.rubric * counts.size / size)
        if placed[1] < LEAST_PLACEMENTS[1] or (size > 1 and placed[0] < LEAST_PLACEMENTS[0]):
            return False
    return True
