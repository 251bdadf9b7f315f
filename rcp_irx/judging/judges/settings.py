"""Settings of a judge that asks a server, each checked as it is given."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from numbers import Real
from typing import Any

from rcp_irx.errors import RCPError

OURS = ("model", "messages", "stream", "n")
"""Fields of a request that no extra field may replace."""


def text(name: str, value: str | None) -> str | None:
    if value is not None and (not isinstance(value, str) or not value):
        raise RCPError(f"{name} is a text; it is {value!r}")
    return value


def number(name: str, value: float, least: float) -> float:
    if isinstance(value, bool) or not isinstance(value, Real) or not (math.isfinite(value) and value >= least):
        raise RCPError(f"{name} is a number from {least:g} up; it is {value!r}")
    return float(value)


def whole(name: str, value: int) -> int:
    if number(name, value, 1.0) != int(value):
        raise RCPError(f"{name} is a whole number; it is {value!r}")
    return int(value)


def prices(prices: tuple[float, float]) -> tuple[float, float]:
    if not isinstance(prices, (tuple, list)) or len(prices) != 2:
        raise RCPError(f"prices are two numbers, dollars per million prompt and completion tokens; not {prices!r}")
    prompt, completion = prices
    return number("a price", prompt, 0.0), number("a price", completion, 0.0)


def body(extra: Mapping[str, Any] | None) -> tuple[dict[str, Any], str | None]:
    """More fields of a request as they are sent, and a short digest of them."""
    if not extra:
        return {}, None
    taken = [name for name in OURS if name in extra]
    if taken:
        raise RCPError(f"extra_body must leave {', '.join(taken)} to the judge")
    try:
        text = json.dumps(extra, sort_keys=True, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise RCPError(f"extra_body must be what JSON can hold: {error}") from None
    return json.loads(text), hashlib.sha256(text.encode()).hexdigest()[:12]
