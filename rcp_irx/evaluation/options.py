"""The options that every way of scoring shares: cutoffs, tie rules, unjudged documents. Nothing heavy loads here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from numbers import Integral
from typing import Any

from rcp_irx.errors import RCPError

DEFAULT_TIES = "docno"
TIES = ("docno", "mean", "pool", "order")
DEFAULT_UNJUDGED = "zero"
UNJUDGED = ("zero", "condensed", "upper")
RULES = {"nanobeir": "docno", "bright": "docno", "vidore": "mean", "trec-dl": "pool"}
"""The paper's suites, and how each orders equal scores (B.1). Excluded documents leave under every rule."""


@dataclass(frozen=True)
class Options:
    """How a ranking is scored, checked: `cutoff` None counts every rank."""

    cutoff: int | None = None
    ties: str = DEFAULT_TIES
    unjudged: str = DEFAULT_UNJUDGED
    ignore_identical_ids: bool = False


def options(
    cutoff: Any = None,
    ties: Any = None,
    rules: Any = None,
    unjudged: Any = None,
    judged_only: Any = None,
    ignore_identical_ids: Any = False,
) -> Options:
    """The options as given by a user; None stands for what is not given.

    Raises
    ------
    RCPError
        For a value that is none of those allowed, and for two that contradict each other.
    """
    return Options(
        whole_cutoff(cutoff),
        tie_rule(ties, rules),
        unjudged_rule(unjudged, judged_only),
        switch(ignore_identical_ids, "ignore_identical_ids"),
    )


def whole_cutoff(value: Any) -> int | None:
    """A cutoff as int: None (every rank counts) or a whole number >= 1 of any integer type.

    Raises
    ------
    RCPError
        For bools, numbers with a decimal point, and numbers below 1.
    """
    if value is None:
        return None
    if not isinstance(value, Integral) or isinstance(value, bool) or value < 1:
        raise RCPError(f"the cutoff must be a whole number >= 1, or None for every rank; it is {value!r}")
    return int(value)


def tie_rule(ties: Any, rules: Any = None) -> str:
    """How equal scores are ordered, by name or by the suite whose rules are taken.

    Raises
    ------
    RCPError
        If either is unknown, or if they contradict each other.
    """
    ties, rules = _one_of(TIES, ties, "ties"), _one_of(RULES, rules, "rules")
    if rules is None:
        return ties or DEFAULT_TIES
    if ties not in (None, RULES[rules]):
        raise RCPError(f"rules={rules!r} orders ties by {RULES[rules]!r}, and ties={ties!r} is given too; give one")
    return RULES[rules]


def unjudged_rule(unjudged: Any, judged_only: Any = None) -> str:
    """What a ranked document without a gain counts; `judged_only` is ir_measures' word for condensed lists.

    Raises
    ------
    RCPError
        If either is unknown, or if they contradict each other.
    """
    unjudged = _one_of(UNJUDGED, unjudged, "unjudged")
    if not switch(judged_only, "judged_only"):
        return unjudged or DEFAULT_UNJUDGED
    if unjudged not in (None, "condensed"):
        raise RCPError(f"judged_only=True condenses the list, and unjudged={unjudged!r} is given too; give one")
    return "condensed"


def _one_of(allowed: Iterable[str], value: Any, name: str) -> str | None:
    """A value that is one of those allowed, as plain text; None stays what it is."""
    if value is None:
        return None
    if not (isinstance(value, str) and value in allowed):
        raise RCPError(f"{name} must be one of {', '.join(map(repr, allowed))}; it is {value!r}")
    return str(value)


def switch(value: Any, name: str) -> bool:
    """True or False, of any bool type; None is False.

    Raises
    ------
    RCPError
        For anything else.
    """
    if value is None or value is False or value is True:
        return bool(value)
    if type(value).__name__ in ("bool", "bool_"):  # numpy's, which is not imported here
        return bool(value)
    raise RCPError(f"{name} must be True or False; it is {value!r}")


def printed(name: str, chosen: Options) -> str:
    """A measure as ir_measures prints it: options that are not the default, then the cutoff."""
    default = Options()
    parts = [
        f"{option}={value!r}"
        for option, value in vars(chosen).items()
        if option != "cutoff" and value != getattr(default, option)
    ]
    rule = f"({','.join(parts)})" if parts else ""
    return f"{name}{rule}" + ("" if chosen.cutoff is None else f"@{chosen.cutoff}")
