"""A judge's text -> the scores or passes of a window, or a JudgeFailure; asking and retrying belong to the judges.

A text is read when exactly one JSON object in it can be the answer, and that object names every position of the window
once. Nothing is guessed: a number beside no name, or a name that no document has, is no answer.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import Any, TypeVar

from rcp_irx.judging.judges.base import JudgeFailure

WRAPPERS = ("scores", "answers", "results", "ratings", "judgments", "documents", "passages")
"""Keys under which an answer may stand; the stage's own key goes before the others."""

NAMES = ("id", "position", "document", "doc", "passage", "index")
"""Keys that may name the position in a list of objects, one of them in each."""

VALUES = ("score", "rating", "relevance_score")
"""Keys that may hold the score in a list of objects, one of them in each."""

YES = ("yes", "y", "true", "pass", "1")
NO = ("no", "n", "false", "fail", "0")

_THOUGHT = re.compile(r"<(/?)(?:think|thinking|reasoning)\s*>", re.IGNORECASE)
_START = re.compile(r"(?:\[\s*)?\{\s*(?:[\"'“}]|[\w-]+\s*:|\Z)")
_BRACKET = re.compile(r"[][{}]")
_POSITION = re.compile(r"(?:(?:document|doc|passage)[ _]?)?(?:\[([0-9]{1,9})\]|#?([0-9]{1,9}))", re.IGNORECASE)
_NUMBER = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?")
_REFUSAL = re.compile(
    r"\W*(?:As an AI\b|Sorry\b|I(?:['’]m| am) (?:(?:very|so|really) )?sorry\b|I apologi[sz]e\b"
    r"|I (?:cannot|can not|can['’]?t|won['’]?t|will not)\b|I(?:['’]m| am) (?:unable|not able) to\b)",
    re.IGNORECASE,
)

Fold = Callable[[str], str]
T = TypeVar("T")


def read_scores(text: str, n_documents: int, *, example: str = "") -> list[float]:
    """The tournament scores that a text names, as in '{"scores": {"1": 2.5, "2": -1}}'.

    Parameters
    ----------
    text : str
        The judge's whole answer.
    n_documents : int
        How many documents were shown; their positions count from 1.
    example : str
        The prompt, or the example in it: JSON that stands there is no answer.

    Returns
    -------
    list of float
        A finite score (logit) for each document in the order shown, of any size.

    Raises
    ------
    JudgeFailure
        "no_json", "invalid_json", "schema", "incomplete" or "refused", with the whole text.
    """
    with _failures_of(text):
        answer = _answer(text, "scores", example)
        found = _by_position(answer, n_documents, NAMES, str.casefold, lambda item: _only(item, VALUES))
        return _complete({position: _score(value) for position, value in found.items()}, range(1, n_documents + 1))


def read_passes(text: str, n_documents: int, criteria: Sequence[str], *, example: str = "") -> list[list[bool]]:
    """The answers to a rubric that a text names, as in '{"answers": {"1": {"C1": true, "C2": false}}}'.

    Parameters are those of `read_scores`, and `criteria`, the ids in the rubric's order; so are the failures. Returned
    are yes and no as (documents in the order shown, criteria).
    """
    ids = [name.strip() for name in criteria]
    fold: Fold = str.casefold if len(set(map(str.casefold, ids))) == len(ids) else str
    ids = [fold(name) for name in ids]
    names = [name for name in NAMES if name not in ids]

    def row_of(item: dict[str, Any]) -> Any:
        if "answers" not in item or "answers" in ids:
            return item
        if any(key in ids for key in item):
            raise _Fault("schema")
        return item["answers"]

    with _failures_of(text):
        found = _by_position(_answer(text, "answers", example), n_documents, names, fold, row_of)
        rows = {position: _row(value, ids, fold) for position, value in found.items()}
        return [_complete(row, ids) for row in _complete(rows, range(1, n_documents + 1))]


class _Fault(Exception):
    """The kind of a failure, on its way to the text."""


@contextmanager
def _failures_of(text: str) -> Iterator[None]:
    try:
        yield
    except _Fault as fault:
        raise JudgeFailure(str(fault), text) from None
    except RecursionError:
        raise JudgeFailure("invalid_json", text) from None


def _answer(text: str, key: str, example: str) -> Any:
    """The one mapping or list in a text that can be the answer; `key` is what it should stand under."""
    spoken = _spoken(text)
    shown, forms = _shown(example)
    values, repeated = _objects(spoken, forms)
    if not values and not repeated:
        raise _Fault("refused" if _REFUSAL.match(spoken) else "no_json")
    found = {_canonical(held): held for value in values for held in _held(value, key)}
    for value in shown:
        for held in _held(value, key):
            found.pop(_canonical(held), None)
    if len(found) != 1:
        raise _Fault("schema")
    return found.popitem()[1]


@lru_cache(maxsize=64)
def _shown(example: str) -> tuple[list[Any], set[str]]:
    """As `_objects`, of a prompt's example, which is the same for many answers."""
    return _objects(example)


def _spoken(text: str) -> str:
    """What follows the last thought."""
    start, thinking = 0, False
    for tag in _THOUGHT.finditer(text):
        thinking = not tag[1]
        start = start if thinking else tag.end()
    if thinking:
        raise _Fault("no_json")
    return text[start:]


def _objects(text: str, forms: set[str] | None = None) -> tuple[list[Any], set[str]]:
    """The JSON objects and lists of objects in a text, and what looks like one and cannot be parsed.

    In an answer, such a piece is a failure (nothing inside or behind it is read: it may be a draft) unless it is one of
    the `forms` that the prompt shows, as {"1": SCORE, ...}. In a prompt (None) each is passed over.
    """
    values, pieces, end = [], set(), 0
    while start := _START.search(text, end):
        try:
            value, end = _DECODER.raw_decode(text, start.start())
            values.append(value)
        except (json.JSONDecodeError, _Fault) as fault:
            piece = _balanced(text, start.start())
            pieces.add("".join(piece.split()))
            if forms is not None and not pieces <= forms:
                raise (fault if isinstance(fault, _Fault) else _Fault("invalid_json")) from None
            end = start.start() + len(piece)
    return values, pieces


def _balanced(text: str, start: int) -> str:
    """From an opening bracket to where as many were closed."""
    depth = 0
    for bracket in _BRACKET.finditer(text, start):
        depth += 1 if bracket[0] in "[{" else -1
        if depth == 0:
            return text[start : bracket.end()]
    return text[start:]


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    value = dict(pairs)
    if len(value) < len(pairs):
        raise _Fault("schema")
    return value


# Every number is a float: an int of thousands of digits would be an error of its own.
_DECODER = json.JSONDecoder(object_pairs_hook=_unrepeated, parse_int=float)


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True)


def _held(value: Any, key: str) -> list[Any]:
    """What in a JSON value can be the answer: itself if it names positions, else what stands under a known key."""
    if isinstance(value, list) or any(_position(name) is not None for name in value):
        return [value]
    inner = [(name.strip().casefold(), held) for name, held in value.items()]
    own = [held for name, held in inner if name == key]
    return own or [
        held
        for name, held in inner
        if name in WRAPPERS and all(isinstance(item, dict) for item in (held if isinstance(held, list) else [held]))
    ]


def _by_position(
    answer: Any, n_documents: int, names: Sequence[str], fold: Fold, value_of: Callable[[dict[str, Any]], Any]
) -> dict[int, Any]:
    """What an answer holds for each position it names; `value_of` takes it from an object of a list."""
    pairs: list[tuple[Any, Any]] = []
    if isinstance(answer, list):
        for item in (_folded(item, fold) for item in answer):
            pairs.append((_only(item, names), value_of({key: item[key] for key in item if key not in names})))
    else:
        pairs.extend(_folded(answer, str).items())
    found: dict[int, Any] = {}
    for name, value in pairs:
        position = _position(name)
        if position is None or not 1 <= position <= n_documents or position in found:
            raise _Fault("schema")
        found[position] = value
    return found


def _folded(value: Any, fold: Fold) -> dict[str, Any]:
    """An object with its keys as they are compared."""
    if not isinstance(value, dict):
        raise _Fault("schema")
    return _unrepeated([(fold(key.strip()), held) for key, held in value.items()])


def _only(item: dict[str, Any], keys: Sequence[str]) -> Any:
    """The value under the one of the keys that an object has."""
    held = [item[key] for key in keys if key in item]
    if len(held) != 1:
        raise _Fault("schema")
    return held[0]


def _complete(found: dict[Any, T], keys: Sequence[Any]) -> list[T]:
    """The values in the order of the keys."""
    if any(key not in found for key in keys):
        raise _Fault("incomplete")
    return [found[key] for key in keys]


def _position(name: Any) -> int | None:
    """3 for "3", 3, "03", "doc 3", "document 3", "[3]", "Doc [3]" and "#3"; 3.0 is how 3 was parsed."""
    if isinstance(name, float) and name.is_integer():
        return int(name)
    match = _POSITION.fullmatch(name.strip()) if isinstance(name, str) else None
    return int(match[1] or match[2]) if match else None


def _score(value: Any) -> float:
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        value = float(value)
    if not isinstance(value, float) or not math.isfinite(value):
        raise _Fault("schema")
    return value


def _row(value: Any, ids: Sequence[str], fold: Fold) -> dict[str, bool]:
    """A document's answers by criterion; remarks beside them are passed over, a yes or no to no criterion is not."""
    if isinstance(value, list):
        if len(value) != len(ids):
            raise _Fault("schema")
        value = dict(zip(ids, value, strict=True))
    row = {key: _verdict(held) for key, held in _folded(value, fold).items()}
    if any((verdict is None) == (key in ids) for key, verdict in row.items()):
        raise _Fault("schema")
    return {key: verdict for key, verdict in row.items() if verdict is not None}


def _verdict(value: Any) -> bool | None:
    if isinstance(value, str):
        word = value.strip().casefold()
        return True if word in YES else False if word in NO else None
    return bool(value) if isinstance(value, (bool, float)) and value in (0, 1) else None
