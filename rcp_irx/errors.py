"""What the package raises and warns with; how an error lists its examples. Everything else is in the rooms below."""

from __future__ import annotations

import math
import sys
import warnings
from collections.abc import Iterable
from numbers import Integral, Real

PASSED_OVER = {"rcp_irx", "contextlib", "ir_datasets", "ir_measures", "mteb", "pyterrier", "ranx"}
"""Packages whose lines no warning points at: the user's own line is what tells where it comes from."""


class RCPError(ValueError):
    """Input that was refused: the message names what was wrong, where, and what to do."""


class RCPWarning(UserWarning):
    """Something a person should know about a result that is still given."""


class MissingExtra(ImportError):
    """An optional framework is not installed; the message is the line that installs it."""

    def __init__(self, package: str, extra: str):
        super().__init__(f"{package} is not installed; run: pip install 'rcp-irx[{extra}]'", name=package)


def warn(message: str) -> None:
    """Give an `RCPWarning` that points at the first line outside this package and the frameworks that called it."""
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").split(".")[0] in PASSED_OVER:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, RCPWarning, stacklevel=level)


def whole(name: str, value: object, least: int = 1) -> int:
    """A parameter that is a whole number from `least` up.

    Raises
    ------
    RCPError
        If it is not.
    """
    if isinstance(value, bool) or not isinstance(value, Integral) or value < least:
        raise RCPError(f"{name} is a whole number from {least} up, not {value!r}")
    return int(value)


def finite(**parameters: object) -> None:
    """Parameters that are finite numbers.

    Raises
    ------
    RCPError
        Names the first that is not.
    """
    for name, value in parameters.items():
        if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
            raise RCPError(f"{name} is a finite number, not {value!r}")


def counted(number: int, one: str, several: str = "") -> str:
    """A number with its noun: "1 query", "2 queries"."""
    return f"{number} {one if number == 1 else several or one + 's'}"


def examples(items: Iterable[object], limit: int = 3) -> str:
    """Up to three items for an error message, in a stable order, and how many more there are.

    >>> examples(["q3", "q1", "q2", "q4"])
    "'q1', 'q2', 'q3' and 1 more"
    """
    unique = sorted(set(items), key=repr)
    text = ", ".join(repr(item) for item in unique[:limit])
    return text if len(unique) <= limit else f"{text} and {len(unique) - limit} more"
