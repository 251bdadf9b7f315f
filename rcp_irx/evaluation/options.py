"""The options that every way of scoring shares: tie rules, cutoffs, how they are printed. Nothing heavy loads here."""

from __future__ import annotations

from numbers import Integral
from typing import Any

from rcp_irx.errors import RCPError

DEFAULT_TIES = "docno"
TIES = ("docno", "mean", "pool", "order")


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


def tie_rule(value: Any) -> str:
    """A tie rule, checked.

    Raises
    ------
    RCPError
        If it is none of `TIES`.
    """
    if not (isinstance(value, str) and value in TIES):
        raise RCPError(f"ties must be one of {', '.join(map(repr, TIES))}; it is {value!r}")
    return str(value)


def printed(name: str, cutoff: int | None, ties: str) -> str:
    """A measure as ir_measures prints it: options that are not the default, then the cutoff."""
    rule = "" if ties == DEFAULT_TIES else f"(ties={ties!r})"
    return f"{name}{rule}" + ("" if cutoff is None else f"@{cutoff}")
