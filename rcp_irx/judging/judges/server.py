"""A server as a run knows it: its address, its credentials, the clients that reach it, and what it answered.

When a request is sent, and sent again, is `openai_client`'s.
"""

from __future__ import annotations

import base64
import contextlib
import importlib
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from rcp_irx.errors import MissingExtra, RCPError

PLACEHOLDER = "none"
"""Sent as the key where there is none: the package wants one, a local server does not look at it."""

LONGEST_CONNECT = 10.0
"""Seconds within which a server must accept a connection; one that does not is down."""

BEGUN = "rcp_irx.begun"
"""Marks a request whose answer has begun to arrive."""


class Server:
    """An address with its credentials, which no text shows and no pickle holds.

    Parameters
    ----------
    base_url, api_key : str, optional
        From OPENAI_BASE_URL and OPENAI_API_KEY in the environment where absent.

    Raises
    ------
    RCPError
        An address that is none, or a key that is absent or cannot be sent.
    """

    def __init__(self, base_url: str | None = None, api_key: str | None = None):
        given = base_url or os.environ.get("OPENAI_BASE_URL", "").strip() or None
        parts = _address(given or "https://api.openai.com/v1")
        self.address = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}".rstrip("/")
        self._user = (unquote(parts.username or ""), unquote(parts.password or "")) if "@" in parts.netloc else None
        own = _sendable(api_key or "")
        self._needs_key, self._key_given = given is None, bool(own)
        self._key: str | None = own or self._usual_key()

    def __repr__(self) -> str:
        return self.address

    def __copy__(self) -> Server:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Server:
        return self

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_key": None, "_user": self._user and ("", "")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if not self._key_given and not self._user:
            with contextlib.suppress(RCPError):  # said when the judge is used
                self._key = self._usual_key()

    def _usual_key(self) -> str:
        """The key of the environment; a server of one's own may do without."""
        key = _sendable(os.environ.get("OPENAI_API_KEY", ""))
        if not key and self._needs_key:
            raise RCPError(
                "there is no API key: set OPENAI_API_KEY in the environment, or pass api_key=...;"
                " for a server of your own pass base_url=..."
            )
        return key or PLACEHOLDER

    def _basic(self) -> str:
        """The address's user and password as they are sent; empty without them."""
        return base64.b64encode(":".join(self._user).encode()).decode() if self._user else ""

    def scrub(self, text: str) -> str:
        """A text of the server's, or of an error, without the key or a password in it."""
        for secret in (self._key or "", self._basic(), *(self._user or ())):
            if len(secret) > len(PLACEHOLDER):
                text = text.replace(secret, "***")
        return text

    def clients(self, number: int, timeout: float, connections: int) -> list[Any]:
        """AsyncOpenAI clients that leave all waiting to us, each with at most so many connections kept open.

        Raises
        ------
        MissingExtra
            If the package openai is not installed.
        """
        openai = imported()
        if self._key is None:
            raise RCPError(
                f"the credentials for {self.address} are in no pickle, so this copy of the judge has none;"
                " make the judge anew, or keep its key in OPENAI_API_KEY"
            )
        headers = {}
        if self._user is not None:
            headers["Authorization"] = f"Basic {self._basic()}"
        limits = http_package(openai).Limits(max_connections=None, max_keepalive_connections=connections)
        seconds = openai.Timeout(timeout, connect=min(timeout, LONGEST_CONNECT))
        common = {
            "limits": limits,
            "timeout": seconds,
            "verify": http_package(openai).create_ssl_context(),
            "event_hooks": {"response": [_mark_begun]},
        }
        return [
            openai.AsyncOpenAI(
                api_key=self._key,
                base_url=self.address,
                max_retries=0,
                timeout=seconds,
                default_headers=headers,
                http_client=openai.DefaultAsyncHttpxClient(**common),
            )
            for _ in range(number)
        ]


@dataclass(frozen=True)
class Reply:
    """What a server answered."""

    status: int
    text: str
    body: Any = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def answered(self) -> bool:
        """Whether it holds an answer to be read."""
        return 200 <= self.status < 300

    @property
    def is_page(self) -> bool:
        """Whether it is written for people, in HTML."""
        return self.body is None and self.text.lstrip().startswith("<")

    def refusal(self) -> tuple[str, str, str]:
        """The message, the code and the parameter that an error names, as far as it does."""
        held = self.body.get("error", self.body) if isinstance(self.body, dict) else None
        if isinstance(held, str):
            return held, "", ""
        if not isinstance(held, dict):
            return self.text.strip()[:1000] or "no message", "", ""
        message = held.get("message") or held.get("detail") or self.text[:1000]
        if isinstance(message, list):  # of a validator: where, and what
            message = "; ".join(_complaint(item) for item in message)
        return str(message), str(held.get("code") or held.get("type") or ""), str(held.get("param") or "")


def imported() -> Any:
    """The package openai.

    Raises
    ------
    MissingExtra
        If it is not installed.
    """
    try:
        import openai
    except ImportError as error:
        raise MissingExtra("openai", "openai") from error
    return openai


def http_package(openai: Any) -> Any:
    """The HTTP package that openai works with: httpx, or httpx2 in later versions."""
    base = openai.DefaultAsyncHttpxClient.__base__
    return importlib.import_module(base.__module__.partition(".")[0])


async def _mark_begun(response: Any) -> None:
    response.request.extensions[BEGUN] = True


def retry_after(headers: Mapping[str, str], now: Callable[[], float] = time.time) -> float | None:
    """The seconds that a server asks to wait: a number or a date. None where it says nothing that can be waited for."""
    for name, unit in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        text = str(headers.get(name) or "").strip()
        try:
            seconds = float(text) / unit
        except ValueError:
            try:
                seconds = parsedate_to_datetime(text).timestamp() - now()
            except (ValueError, TypeError, IndexError, OverflowError):
                continue
        if seconds > 0:  # false for NaN
            return seconds
    return None


def _address(url: str) -> SplitResult:
    try:
        parts = urlsplit(url.strip())
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except (ValueError, AttributeError):
        valid = False
    if not valid:
        raise RCPError("base_url is no address: it looks like http://localhost:8000/v1")
    if parts.query or parts.fragment:
        raise RCPError("base_url must end with its path; a key goes to api_key=..., where no log shows it")
    return parts


def _sendable(key: str) -> str:
    """The key as a header can carry it; the header's own error would show it."""
    key = key.strip()
    if not all("!" <= character <= "~" for character in key):
        raise RCPError("the API key holds characters that no HTTP header can carry (such as a space or a line break)")
    return key


def reply_of(status: int, raw: bytes, headers: Mapping[str, str]) -> Reply:
    """The reply of a body; an error that hides behind status 200 gets its own status."""
    text = raw.decode("utf-8", "replace")
    try:
        body = json.loads(text)
    except (ValueError, RecursionError):
        body = None
    if not isinstance(body, dict):
        body = None
    elif 200 <= status < 300 and body.get("error") and not body.get("choices"):
        code = body["error"].get("code") if isinstance(body["error"], dict) else None
        status = code if isinstance(code, int) and 400 <= code < 600 else 502
    return Reply(status, text, body, headers)


def _complaint(item: Any) -> str:
    if not isinstance(item, dict):
        return str(item)
    place = item.get("loc")
    return f"{'.'.join(map(str, place)) if isinstance(place, list) else place}: {item.get('msg')}"
