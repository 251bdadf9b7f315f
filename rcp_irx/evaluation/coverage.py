"""How much of what systems rank first has a gain, and the warnings where that is little or differs between systems."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from rcp_irx.errors import counted, examples, warn
from rcp_irx.evaluation.inputs import Pools, Run
from rcp_irx.evaluation.ranking import Ranked

LEAST_COVERAGE = 0.95
LARGEST_DIFFERENCE = 0.02
ROUNDING = 1e-9


def coverage(top: Ranked) -> float | None:
    """The share of the ranked documents that has a gain; None where nothing is ranked."""
    return float(top.judged.mean()) if len(top.judged) else None


def warn_of_low_coverage(top: Ranked, run: Run, pools: Pools, k: int | None, name: str = "") -> None:
    """Warn where less than 95% of the first k documents have a gain.

    Parameters
    ----------
    name : str
        The system's name, where it is known.

    Warns
    -----
    RCPWarning
        For low coverage; where no document of the run is in the pools at all, with ids of each side.
    """
    share = coverage(top)
    if share is None or share >= LEAST_COVERAGE - ROUNDING:
        return
    whose = f" of {name!r}" if name else ""
    if share == 0 and _nothing_in_common(run, pools):
        pooled = pools.documents[pools.document[~np.isnan(pools.gain)][:3]]
        warn(
            f"no ranked document{whose} has a gain: the run's documents are {examples(run.ids(slice(0, 3)))} ..., "
            f"the gains' {examples(pooled)} ...; are these the same collection?"
        )
        return
    warn(
        f"{share:.1%} of {_top(k)}{whose} has a gain ({counted(len(np.unique(top.query)), 'query', 'queries')}), below "
        f"{LEAST_COVERAGE:.0%}; a document without one counts 0 (RCPJudged shows this share, unjudged='upper' a bound)"
    )


def warn_of_differing_coverage(shares: dict[str, float], k: int | None) -> None:
    """Warn where the coverage of compared systems, by their names, differs by more than .02.

    Warns
    -----
    RCPWarning
        With the two systems that differ most.
    """
    if difference(shares) <= LARGEST_DIFFERENCE + ROUNDING:
        return
    low, high = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
    warn(
        f"the share of {_top(k)} that has a gain differs between the compared systems by more than "
        f"{LARGEST_DIFFERENCE}: {shares[low]:.3f} for {low}, {shares[high]:.3f} for {high}; a document without a "
        "gain counts 0, so the one of lower coverage may be scored too low"
    )


def difference(shares: dict[str, float]) -> float:
    """The largest share less the least."""
    return max(shares.values(), default=0.0) - min(shares.values(), default=0.0)


@dataclass
class ComparedCoverage:
    """The coverage of systems that are scored one after the other on the same pools; the least and the largest kept."""

    systems: int = 0
    extremes: dict[str, float] = field(default_factory=dict)

    def add(self, share: float) -> None:
        """One more system."""
        self.systems += 1
        shares = {**self.extremes, f"system {self.systems}": share}
        least, largest = min(shares, key=shares.__getitem__), max(shares, key=shares.__getitem__)
        self.extremes = {least: shares[least], largest: shares[largest]}


def _nothing_in_common(run: Run, pools: Pools) -> bool:
    rated = set(pools.documents[np.unique(pools.document[~np.isnan(pools.gain)])])
    return rated.isdisjoint(run.ids(slice(None)))


def _top(k: int | None) -> str:
    return "all ranked documents" if k is None else f"the top {k}"
