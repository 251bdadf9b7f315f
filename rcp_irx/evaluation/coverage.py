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
    """The mean over queries of the share of the first documents that has a gain; None where nothing is ranked."""
    if not len(top.query):
        return None
    ranked = np.bincount(top.query)
    return float(np.mean(np.bincount(top.query, weights=top.judged)[ranked > 0] / ranked[ranked > 0]))


def warn_of_no_overlap(top: Ranked, run: Run, pools: Pools, name: str = "") -> bool:
    """Warn where the scored queries are ranked, and none of their documents has a gain; whether that is so.

    Parameters
    ----------
    name : str
        The system's name, where it is known.

    Warns
    -----
    RCPWarning
        With ids of each side.
    """
    rated = ~np.isnan(pools.gain)
    if not len(run.query) or not rated.any() or top.judged.any():
        return False
    documents = pools.documents[np.unique(pools.document[rated])]
    if not set(documents).isdisjoint(run.ids(slice(None))):
        return False
    warn(
        f"no ranked document{_of(name)} has a gain: the run's documents are {examples(run.ids(slice(0, 3)))} ..., the "
        f"gains' {examples(documents[:3])} ...; are these the same collection?"
    )
    return True


def warn_of_low_coverage(top: Ranked, k: int | None, name: str = "") -> None:
    """Warn where less than 95% of the first k documents have a gain.

    Warns
    -----
    RCPWarning
        With the share and the number of queries it is of.
    """
    share = coverage(top)
    if share is not None and share < LEAST_COVERAGE - ROUNDING:
        queries = counted(len(np.unique(top.query)), "query", "queries")
        warn(
            f"{share:.1%} of {_top(k)}{_of(name)} has a gain ({queries}),"
            f" below {LEAST_COVERAGE:.0%}; a document without one counts 0 (see RCPJudged, and unjudged='upper' for a"
            " bound)"
        )


def warn_of_differing_coverage(shares: dict[str, float], k: int | None) -> None:
    """Warn where the coverage of compared systems, by their names, differs by more than .02.

    Warns
    -----
    RCPWarning
        With the two systems that differ most.
    """
    low = min(shares, key=shares.__getitem__, default="")
    high = max(shares, key=shares.__getitem__, default="")
    if not shares or shares[high] - shares[low] <= LARGEST_DIFFERENCE + ROUNDING:
        return
    warn(
        f"the share of {_top(k)} that has a gain differs between the compared systems by more than "
        f"{LARGEST_DIFFERENCE}: {shares[low]:.3f} for {low}, {shares[high]:.3f} for {high}; a document without a "
        "gain counts 0, so the one of lower coverage may be scored too low"
    )


@dataclass
class ComparedCoverage:
    """The coverage of systems that are scored one after the other on the same pools: the shares so far."""

    shares: set[float] = field(default_factory=set)

    def gap(self, share: float) -> float | None:
        """Take one more system's share: the earlier one that is farthest from it, if it differs by more than .02.

        A share that was there before is no news, so that scoring a system again says nothing.
        """
        share = round(share, 9)
        others = self.shares - {share}
        news = share not in self.shares
        self.shares.add(share)
        farthest = max(others, key=lambda other: abs(other - share), default=share)
        return farthest if news and abs(farthest - share) > LARGEST_DIFFERENCE + ROUNDING else None


def _of(name: str) -> str:
    return f" of {name!r}" if name else ""


def _top(k: int | None) -> str:
    return "all ranked documents" if k is None else f"the top {k}"
