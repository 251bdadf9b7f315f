"""Protocol: how many windows of which kind a pool gets. Which documents they hold is for `schedule`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import ceil

from rcp_irx.errors import RCPError

REFERENCE = 150
"""The pool size at which a protocol's counts are stated (Table 2)."""


@dataclass(frozen=True)
class Counts:
    """The windows of one pool: their size, and how many each phase asks for.

    `random`, `stratified` and `rubric_*` count windows before reversal; `adaptive` has one entry a batch.
    """

    size: int
    random: int
    stratified: int
    reversals: bool
    adaptive: tuple[int, ...]
    rubric_random: int
    rubric_stratified: int

    @property
    def tournament(self) -> int:
        """Tournament calls in all; a reversed window is a call of its own."""
        return (2 if self.reversals else 1) * (self.random + self.stratified) + sum(self.adaptive)

    @property
    def rubric(self) -> int:
        """Rubric calls in all."""
        return self.rubric_random + self.rubric_stratified


@dataclass(frozen=True)
class Protocol:
    """Window counts at a pool of 150 documents, and the settings of the schedules (Table 2, C.2).

    Parameters
    ----------
    random, stratified : Fraction
        Tournament windows of the first two phases, before reversal.
    reversals : bool
        Whether each of these is shown again in reverse order.
    batches, adaptive : int, Fraction
        Adaptive batches, and the windows of each.
    rubric : Fraction
        Rubric windows; the larger half is random.
    size : int
        Documents in a window (w).
    discount : float
        What a picked window leaves of the value of the boundaries it covers.
    depth : int
        Adaptive windows lie within this many top ranks.
    seed : int
        Of every random choice, together with dataset, query and pool.
    """

    random: Fraction = Fraction(53)
    stratified: Fraction = Fraction(27)
    reversals: bool = True
    batches: int = 7
    adaptive: Fraction = Fraction(8)
    rubric: Fraction = Fraction(100)
    size: int = 10
    discount: float = 0.3
    depth: int = 150
    seed: int = 42

    def scaled(self, factor: float | Fraction) -> Protocol:
        """The protocol with its counts multiplied; the random phases still show every document once."""
        try:
            share = Fraction(str(factor))
        except ValueError:
            share = Fraction(0)
        if share <= 0:
            raise RCPError(f"a protocol is scaled by a positive factor, not {factor!r}")
        return replace(
            self,
            random=self.random * share,
            stratified=self.stratified * share,
            adaptive=self.adaptive * share,
            rubric=self.rubric * share,
        )

    def counts(self, n_documents: int) -> Counts:
        """The windows that a pool of this many documents gets.

        Counts grow in proportion to the pool, rounded half to even on the exact fraction. Pools below the window
        size are counted as if they filled it, and each window holds the whole pool; a pool of one has no tournament.
        """
        if n_documents < 1:
            raise RCPError("a pool needs at least one document")
        size = min(self.size, n_documents)
        counted = max(self.size, n_documents)
        once = ceil(n_documents / size)

        def share(count: Fraction) -> int:
            return round(count * counted / REFERENCE)

        rubric = share(self.rubric)
        rubric_random, rubric_stratified = max(rubric - rubric // 2, once), rubric // 2
        if n_documents == 1:
            return Counts(1, 0, 0, self.reversals, (), rubric_random, rubric_stratified)
        batches = 1 if n_documents <= self.size else self.batches
        distinct = max(1, min(n_documents, self.depth) - size + 1)
        batch = min(distinct, max(1, share(self.adaptive)))
        return Counts(
            size,
            max(share(self.random), once),
            share(self.stratified),
            self.reversals,
            (batch,) * batches,
            rubric_random,
            rubric_stratified,
        )

    def growth_placements(self, n_documents: int) -> tuple[int, int]:
        """How often a document that joins a pool of now `n_documents` is placed: in the tournament, in the rubric.

        The tournament as often as this protocol places a document (14 under FULL); the rubric 0.6 times as often (4),
        as most of what it tells of a document comes through the criteria that all documents share.
        """
        counts = self.counts(n_documents)
        share = counts.size / n_documents
        return max(1, round(counts.tournament * share)), max(2, round(0.6 * counts.rubric * share))

    def describe(self) -> dict[str, float | int | bool | str]:
        """The settings as plain values, for logs and tables."""
        return {key: str(value) if isinstance(value, Fraction) else value for key, value in sorted(vars(self).items())}


FULL = Protocol()
"""The paper's full protocol (Table 2)."""

REDUCED = Protocol(
    random=Fraction(106),
    stratified=Fraction(54),
    reversals=False,
    batches=6,
    adaptive=Fraction(4),
    rubric=Fraction(59),
)
"""The placements of the reduced protocol (Table 4: 12.27 and 3.93 a document); the split over phases is ours."""
