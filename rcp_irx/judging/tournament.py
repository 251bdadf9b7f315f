"""One query's rounds as a state machine: windows to ask come out, answers go in.

Asking and storing are the runner's work.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rcp_irx.calibration import fit_bradley_terry, fit_rasch
from rcp_irx.documents import Pool
from rcp_irx.judging import schedule
from rcp_irx.judging.protocol import Protocol

TOURNAMENT, RUBRIC = "tournament", "rubric"


@dataclass(frozen=True)
class WindowPlace:
    """A window in a query's schedule: its stage, phase and number there, and the documents in the order shown."""

    stage: str
    phase: str
    index: int
    reversed: bool
    documents: schedule.Window


Planned = Mapping[tuple[str, str], Sequence[schedule.Window]]
"""Windows planned earlier, by (stage, phase), in the order of their number, without reversals."""


class Tournament:
    """The rounds of both stages for one pool.

    Windows of one round do not depend on each other's answers. Windows that were planned earlier (in a run that was
    stopped, or under a smaller protocol) keep their place, so that a later run asks only what is missing.

    Parameters
    ----------
    pool : Pool
        The query and its documents; windows hold indices into the documents sorted by id.
    n_criteria : int
        Criteria of the rubric.
    planned : mapping
        Earlier windows of this pool by (stage, phase).
    """

    def __init__(self, pool: Pool, protocol: Protocol, n_criteria: int, planned: Planned | None = None):
        self.documents = tuple(sorted(pool.documents, key=lambda document: document.id))
        self.counts = protocol.counts(len(self.documents))
        self._protocol = protocol
        self._planned = planned or {}
        query = pool.query
        self._source = schedule.random_source(protocol.seed, query.dataset, query.id, [d.id for d in self.documents])
        n = len(self.documents)
        self._windows: list[schedule.Window] = []
        self._scores: list[Sequence[float]] = []
        self._together = np.zeros((n, n), dtype=int)
        self._passes = np.zeros((n, n_criteria))
        self._placements = np.zeros(n)

    def record(self, place: WindowPlace, answer: Sequence[float] | Sequence[Sequence[bool]] | None) -> None:
        """Take a window's scores or passes, in the order shown; None where it failed: it then counts for nothing."""
        if answer is None:
            return
        shown = list(place.documents)
        if place.stage == TOURNAMENT:
            self._windows.append(place.documents)
            self._scores.append(answer)  # type: ignore[arg-type]  # the stage says which of the two it is
            self._together[np.ix_(shown, shown)] += 1
        else:
            self._passes[shown] += np.asarray(answer, dtype=float)
            self._placements[shown] += 1

    def rounds(self) -> Iterator[list[WindowPlace]]:
        """The windows of each round; a round is made once the answers to the one before are recorded."""
        counts, n = self.counts, len(self.documents)
        first = self._random(TOURNAMENT, n, counts.random) + self._random(RUBRIC, n, counts.rubric_random)
        yield first
        second = self._stratified(TOURNAMENT, self._order(), counts.stratified)
        second += self._stratified(RUBRIC, self._rasch_order(), counts.rubric_stratified)
        if second:
            yield second
        for batch, count in enumerate(counts.adaptive):
            yield self._adaptive(f"adaptive-{batch + 1}", count)

    def _random(self, stage: str, n: int, count: int) -> list[WindowPlace]:
        planned = self._planned.get((stage, "random"), ())
        phase = f"{stage}/random"
        windows = schedule.random_windows(n, self.counts.size, count, phase, self._source, planned)
        return self._places(stage, "random", windows)

    def _stratified(self, stage: str, order: Sequence[int], count: int) -> list[WindowPlace]:
        planned = self._planned.get((stage, "stratified"), ())
        phase = f"{stage}/stratified"
        windows = schedule.stratified_windows(order, self.counts.size, count, phase, self._source, planned)
        return self._places(stage, "stratified", windows)

    def _adaptive(self, phase: str, count: int) -> list[WindowPlace]:
        theta = self._theta()
        windows = schedule.adaptive_windows(
            schedule.order_of(theta),
            theta,
            self._together,
            self.counts.size,
            count,
            depth=self._protocol.depth,
            discount=self._protocol.discount,
            planned=self._planned.get((TOURNAMENT, phase), ()),
        )
        return [WindowPlace(TOURNAMENT, phase, index, False, window) for index, window in enumerate(windows)]

    def _places(self, stage: str, phase: str, windows: Sequence[schedule.Window]) -> list[WindowPlace]:
        """The windows of a phase; those of the tournament once more in reverse, where the protocol says so."""
        places = [WindowPlace(stage, phase, index, False, window) for index, window in enumerate(windows)]
        if stage == TOURNAMENT and self.counts.reversals:
            places += [WindowPlace(stage, phase, index, True, window[::-1]) for index, window in enumerate(windows)]
        return places

    def _theta(self) -> np.ndarray:
        return fit_bradley_terry(self._windows, self._scores, len(self.documents)).theta

    def _order(self) -> list[int]:
        return schedule.order_of(self._theta())

    def _rasch_order(self) -> list[int]:
        return schedule.order_of(fit_rasch(self._passes, self._placements).theta)
