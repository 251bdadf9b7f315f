"""One query's rounds as a state machine: windows to ask come out, answers go in.

Asking and storing are the runner's work.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from rcp_irx.calibration import fit_bradley_terry, fit_rasch
from rcp_irx.documents import Pool
from rcp_irx.judging import schedule
from rcp_irx.judging.protocol import Protocol

TOURNAMENT, RUBRIC = "tournament", "rubric"
GROWTH = "growth-"
"""Phases of windows that place documents which joined a pool; the size of the pool then follows."""


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
    known : mapping
        For a stage in which the pool grew, the documents that were judged before: the earlier windows are kept as they
        are, and only windows that place the other documents are added.
    """

    def __init__(
        self,
        pool: Pool,
        protocol: Protocol,
        n_criteria: int,
        planned: Planned | None = None,
        known: Mapping[str, Collection[int]] | None = None,
    ):
        self.documents = tuple(sorted(pool.documents, key=lambda document: document.id))
        self.counts = protocol.counts(len(self.documents))
        self._protocol = protocol
        self._planned = planned or {}
        self._known = {stage: set(documents) for stage, documents in (known or {}).items()}
        query = pool.query
        self._source = schedule.random_source(protocol.seed, query.dataset, query.id, [d.id for d in self.documents])
        n = len(self.documents)
        self._growth_phase = f"{GROWTH}{n}"
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

    def needed(self) -> dict[tuple[str, str], int]:
        """How many windows, in the order of their number and without reversals, each phase of each stage takes."""
        counts, n = self.counts, len(self.documents)
        needed = {(TOURNAMENT, "random"): counts.random, (TOURNAMENT, "stratified"): counts.stratified}
        needed |= {(TOURNAMENT, f"adaptive-{batch}"): count for batch, count in enumerate(counts.adaptive, start=1)}
        needed |= {(RUBRIC, "random"): counts.rubric_random, (RUBRIC, "stratified"): counts.rubric_stratified}
        needed |= {key: len(self._planned.get(key, ())) for key in needed if key[0] in self._known}
        needed |= {key: len(held) for key, held in self._planned.items() if key[1].startswith(GROWTH)}
        for stage, placements in zip((TOURNAMENT, RUBRIC), self._protocol.growth_placements(n), strict=True):
            new = n - len(self._known.get(stage, range(n)))
            if new:
                needed[stage, self._growth_phase] = schedule.growth_shape(new, n - new, counts.size, placements)[1]
        return needed

    def is_reversed(self, stage: str, phase: str) -> bool:
        """Whether the windows of a phase are shown again in reverse."""
        return stage == TOURNAMENT and self.counts.reversals and phase in ("random", "stratified")

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
        now = {(stage, self._growth_phase) for stage in self._known}
        earlier = sorted(key for key in self._planned if key[1].startswith(GROWTH) and key not in now)
        if earlier:
            yield [place for stage, phase in earlier for place in self._kept(stage, phase)]
        grown = [place for stage in sorted(self._known, reverse=True) for place in self._growth(stage)]
        if grown:
            yield grown

    def _random(self, stage: str, n: int, count: int) -> list[WindowPlace]:
        planned = self._planned.get((stage, "random"), ())
        if stage in self._known:
            return self._places(stage, "random", planned)
        phase = f"{stage}/random"
        windows = schedule.random_windows(n, self.counts.size, count, phase, self._source, planned)
        return self._places(stage, "random", windows)

    def _stratified(self, stage: str, order: Sequence[int], count: int) -> list[WindowPlace]:
        planned = self._planned.get((stage, "stratified"), ())
        if stage in self._known:
            return self._places(stage, "stratified", planned)
        phase = f"{stage}/stratified"
        windows = schedule.stratified_windows(order, self.counts.size, count, phase, self._source, planned)
        return self._places(stage, "stratified", windows)

    def _kept(self, stage: str, phase: str) -> list[WindowPlace]:
        """The earlier windows of a phase that is never shown in reverse."""
        windows = self._planned.get((stage, phase), ())
        return [WindowPlace(stage, phase, index, False, window) for index, window in enumerate(windows)]

    def _growth(self, stage: str) -> list[WindowPlace]:
        """The windows that place the documents which joined, among opponents from all of the present order."""
        known, n = self._known[stage], len(self.documents)
        new = [i for i in range(n) if i not in known]
        if not new:
            return []
        order = [i for i in (self._order() if stage == TOURNAMENT else self._rasch_order()) if i in known]
        phase = self._growth_phase
        placements = dict(zip((TOURNAMENT, RUBRIC), self._protocol.growth_placements(n), strict=True))[stage]
        windows = schedule.growth_windows(
            new,
            order,
            self.counts.size,
            placements,
            f"{stage}/{phase}",
            self._source,
            self._planned.get((stage, phase), ()),
        )
        return [WindowPlace(stage, phase, index, False, window) for index, window in enumerate(windows)]

    def _adaptive(self, phase: str, count: int) -> list[WindowPlace]:
        if TOURNAMENT in self._known:
            return self._kept(TOURNAMENT, phase)
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
        if self.is_reversed(stage, phase):
            places += [WindowPlace(stage, phase, index, True, window[::-1]) for index, window in enumerate(windows)]
        return places

    def _theta(self) -> np.ndarray:
        return fit_bradley_terry(self._windows, self._scores, len(self.documents)).theta

    def _order(self) -> list[int]:
        return schedule.order_of(self._theta())

    def _rasch_order(self) -> list[int]:
        return schedule.order_of(fit_rasch(self._passes, self._placements).theta)
