"""What the package raises and warns with; how an error lists its examples. Everything else is in the rooms below."""

from __future__ import annotations

from collections.abc import Iterable


class RCPError(ValueError):
    """Input that was refused: the message names what was wrong, where, and what to do."""


class RCPWarning(UserWarning):
    """Something a person should know about a result that is still given."""


class MissingExtra(ImportError):
    """An optional framework is not installed; the message is the line that installs it."""

    def __init__(self, package: str, extra: str):
        super().__init__(f"{package} is not installed; run: pip install 'rcp-irx[{extra}]'", name=package)


def examples(items: Iterable[object], limit: int = 3) -> str:
    """Up to three items for an error message, in a stable order, and how many more there are.

    >>> examples(["q3", "q1", "q2", "q4"])
    "'q1', 'q2', 'q3' and 1 more"
    """
    unique = sorted(set(items), key=repr)
    text = ", ".join(repr(item) for item in unique[:limit])
    return text if len(unique) <= limit else f"{text} and {len(unique) - limit} more"
