"""A chat completion: the JSON schema that it is held to, its text, how it ended and what it took."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from rcp_irx.judging.judges.base import Usage


@lru_cache(maxsize=64)
def schema_of(stage: str, n_documents: int, criteria: tuple[str, ...] | None) -> dict[str, Any]:
    """The JSON schema of a window's answer: every position, and for each every criterion; not to be changed."""
    if criteria is None:
        key, entry = "scores", {"type": "number"}
    else:
        key, entry = "answers", _object({name: {"type": "boolean"} for name in criteria})
    positions = _object({str(position): entry for position in range(1, n_documents + 1)})
    return {"name": stage, "strict": True, "schema": _object({key: positions})}


def _object(properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": properties,
        "required": list(properties),
        "additionalProperties": False,
    }


def content_of(value: Any) -> str:
    """A message's text; some servers give it in parts."""
    if isinstance(value, str):
        return value
    parts = value if isinstance(value, list) else []
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    return "".join(text for text in texts if isinstance(text, str))


def is_whole(content: str) -> bool:
    try:
        return isinstance(json.loads(content), dict)
    except (ValueError, RecursionError):
        return False


def usage_of(body: Mapping[str, Any], finish_reason: str) -> Usage:
    held = body.get("usage")
    held = held if isinstance(held, dict) else {}
    counts = [held.get(name) for name in ("prompt_tokens", "completion_tokens")]
    prompt, completion = (count if type(count) is int and count >= 0 else 0 for count in counts)
    model = body.get("model")
    return Usage(prompt, completion, finish_reason, model if isinstance(model, str) else "")
