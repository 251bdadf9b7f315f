"""Parts of a log's windows, drawn at random query by query, as judged pools that can be calibrated (C.4).

A window and its reversal go together: they hold the same documents. Which windows a log has is for `JudgmentLog`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np

from rcp_irx.errors import counted, examples
from rcp_irx.gains import GainTable
from rcp_irx.judging.calibrate import JudgedPool
from rcp_irx.judging.rubric import Criterion, Rubric

Windows: TypeAlias = Sequence[tuple[tuple[str, ...], Any]]
"""Documents in the order shown, and what was answered."""


def listed(given: Iterable[Any] | None) -> list[Any] | None:
    """What was given as one name or several, to be read more than once."""
    return given if given is None else [given] if isinstance(given, str) else list(given)


def rubric_of(gains: GainTable) -> Rubric:
    """The rubric that a table was made with."""
    return Rubric(tuple(Criterion(*row) for row in gains.criteria[["id", "name", "question"]].itertuples(index=False)))


def unfinished_notes(gains: GainTable, leave_out: Iterable[Any]) -> list[str]:
    """Which queries a calibration left out because they are not judged to the end, and not as it was told."""
    told = {key if isinstance(key, str) else tuple(key) for key in leave_out}
    left = [tuple(key) for key in gains.metadata["left_out"] if len(key) == 2]
    unfinished = [key for key in left if key not in told and key[1] not in told]
    if not unfinished:
        return []
    number = counted(len(unfinished), "query is", "queries are")
    return [f"{number} not judged to the end, left out: {examples(unfinished)}"]


def reversals(windows: Windows) -> list[tuple[int, int]]:
    """The windows that were shown in both orders: pairs of positions, each window in one pair at most."""
    waiting: dict[tuple[str, ...], list[int]] = {}
    pairs = []
    for place in sorted(range(len(windows)), key=lambda place: windows[place][0]):
        shown = windows[place][0]
        partners = waiting.get(shown[::-1], [])
        if len(shown) > 1 and partners:
            pairs.append((partners.pop(0), place))
        else:
            waiting.setdefault(shown, []).append(place)
    return pairs


def units(windows: Windows) -> list[list[int]]:
    """The windows as positions, a window and its reversal in one unit."""
    pairs = reversals(windows)
    paired = {place for pair in pairs for place in pair}
    return [*map(list, pairs), *([place] for place in range(len(windows)) if place not in paired)]


def halves(judged: JudgedPool, generator: np.random.Generator) -> tuple[JudgedPool, JudgedPool] | None:
    """A pool's windows of each stage in two random halves; None where a stage cannot be halved."""
    stages: list[list[list[int]]] = []
    for windows in _stages(judged):
        found = units(windows)
        if len(found) < 2 and (windows is judged.rubric or len(judged.pool.documents) > 1):
            return None
        order = generator.permutation(len(found))
        stages.append([[place for u in order[start::2] for place in found[u]] for start in (0, 1)])
    one, other = (_part(judged, stages[0][half], stages[1][half]) for half in (0, 1))
    return one, other


def part(judged: JudgedPool, share: float, generator: np.random.Generator) -> JudgedPool:
    """A random share of a pool's windows of each stage, and the windows that show what none of these shows.

    The same generator state gives the same random order for every share.
    """
    kept = []
    for windows in _stages(judged):
        found = units(windows)
        order = [found[u] for u in generator.permutation(len(found))]
        count = min(len(order), max(1, round(share * len(order))))
        chosen, rest = order[:count], order[count:]
        seen = {docno for unit in chosen for place in unit for docno in windows[place][0]}
        for unit in rest:
            if not seen.issuperset(windows[unit[0]][0]):
                chosen.append(unit)
                seen.update(windows[unit[0]][0])
        kept.append([place for unit in chosen for place in unit])
    return _part(judged, *kept)


def judgments(judged: JudgedPool) -> int:
    """How many judgments of a document the windows of both stages hold."""
    return sum(len(shown) for windows in _stages(judged) for shown, _ in windows)


def _stages(judged: JudgedPool) -> tuple[Windows, Windows]:
    return judged.tournament, judged.rubric


def _part(judged: JudgedPool, tournament: Sequence[int], rubric: Sequence[int]) -> JudgedPool:
    return replace(
        judged,
        tournament=[judged.tournament[place] for place in sorted(tournament)],
        rubric=[judged.rubric[place] for place in sorted(rubric)],
        planned=len(tournament) + len(rubric),
        failed=0,
    )
