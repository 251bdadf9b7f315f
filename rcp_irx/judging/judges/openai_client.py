"""The way to an OpenAI-compatible server: addresses, keys, waiting, and what a status code means for the run.

What is asked, and how an answer is read, is `openai`'s.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import importlib
import json
import math
import os
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from rcp_irx.errors import MissingExtra, RCPError, warn
from rcp_irx.judging.judges.base import JudgeFailure, JudgeUnavailable

PLACEHOLDER = "none"
"""Sent as the key where there is none: the package wants one, a local server does not look at it."""

LONGEST_CONNECT = 10.0
"""Seconds within which a server must accept a connection; one that does not is down."""

LONGEST_RAW = 10_000
"""Characters kept of a body that is no answer."""

STRIKES = 3
"""Server errors on one request, with answers to other requests in between, after which the request is at fault."""

BEGUN = "rcp_irx.begun"
"""Marks a request whose answer has begun to arrive."""

_BUSY = (408, 409, 425, 429)
_GRAMMAR = re.compile(r"grammar|response_format|json_schema|guided", re.IGNORECASE)


@dataclass(frozen=True)
class Waits:
    """How long to wait for a server, in seconds."""

    patience: float = 600.0
    """With no answer for so long, the server is given up."""
    first: float = 1.0
    """The first wait; each one after that is twice as long."""
    longest: float = 60.0
    """The longest wait, also where the server asks for a longer one."""


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

    def scrub(self, text: str) -> str:
        """A text of the server's, or of an error, without the key in it."""
        for secret in (self._key or "", *(self._user or ())):
            if len(secret) > len(PLACEHOLDER):
                text = text.replace(secret, "***")
        return text

    def client(self, timeout: float, connections: int) -> Any:
        """An AsyncOpenAI client that leaves all waiting to us.

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
            headers["Authorization"] = "Basic " + base64.b64encode(":".join(self._user).encode()).decode()
        limits = _http(openai).Limits(max_connections=None, max_keepalive_connections=connections)
        seconds = openai.Timeout(timeout, connect=min(timeout, LONGEST_CONNECT))
        return openai.AsyncOpenAI(
            api_key=self._key,
            base_url=self.address,
            max_retries=0,
            timeout=seconds,
            default_headers=headers,
            http_client=openai.DefaultAsyncHttpxClient(
                limits=limits, timeout=seconds, event_hooks={"response": [_mark_begun]}
            ),
        )


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


@dataclass(frozen=True)
class Trouble:
    """Why a request has no answer.

    `again`: the same request may be answered later, after `asked` seconds where the server says so. `at_fault`: it may
    be the request that the server stumbles over.
    """

    kind: str
    reason: str
    raw: str = ""
    again: bool = False
    asked: float | None = None
    at_fault: bool = False


class Line:
    """What the calls from one event loop share: a client, when the next request may go, since when none was answered.

    Parameters
    ----------
    server : Server
        Where requests go.
    timeout : float
        Seconds for one request, from its start to the end of the answer's body.
    connections : int
        How many connections are kept open.
    """

    def __init__(self, server: Server, waits: Waits, timeout: float, connections: int):
        self.server, self.waits, self.timeout = server, waits, timeout
        self.client = server.client(timeout, connections)
        self._response = _http(imported()).Response
        self._clock = asyncio.get_running_loop().time
        self._not_before = -math.inf
        self._decided = -math.inf
        self._rounds = 0
        self._down_since: float | None = None
        self._answers = 0
        self._open = 0
        self._left = -math.inf
        self._given_up = self._warned = False

    async def post(self, request: dict[str, Any]) -> Reply:
        """Send a request until the server answers it or refuses it, waiting as long as it is busy or down.

        Raises
        ------
        JudgeFailure
            "transport" where a fresh call may do better, or where this request alone goes without an answer (or
            "rate_limited"); JudgeUnavailable where all do, once patience is over.
        """
        with self._call():
            begun = self._clock()
            answers, strikes = self._answers, 0
            trouble = Trouble("transport", "other requests had no answer")
            while True:
                await self._hold(trouble)
                sent = self._clock()
                got = await self._once(request)
                if isinstance(got, Reply):
                    self._answers += 1
                    self._rounds, self._down_since = 0, None
                    return got
                trouble = got
                self._failed(sent, trouble)
                self._give_up_if_due(trouble)
                strikes += trouble.at_fault and self._answers > answers
                answers = self._answers
                tried = strikes >= STRIKES or self._clock() - begun >= self.waits.patience
                if tried or not trouble.again:
                    raise JudgeFailure(trouble.kind, trouble.raw or trouble.reason)

    @contextlib.contextmanager
    def _call(self) -> Iterator[None]:
        """Counts the calls that are open; after a rest, or after giving up, the patience begins anew."""
        if not self._open and (self._given_up or self._clock() - self._left > self.waits.longest):
            self._given_up, self._down_since, self._rounds = False, None, 0
        self._open += 1
        try:
            yield
        finally:
            self._open -= 1
            self._left = self._clock()

    async def _hold(self, last: Trouble) -> None:
        """Wait until requests may go."""
        while (left := self._not_before - self._clock()) > 0:
            left *= 1.0 + random.random() / 10.0  # not all at the same moment
            if self._down_since is not None:
                left = min(left, max(0.0, self._down_since + self.waits.patience - self._clock()))
            await asyncio.sleep(left)
            self._give_up_if_due(last)

    def _failed(self, sent: float, trouble: Trouble) -> None:
        """Note that a request had no answer, and let all others wait.

        Requests that were under way together make one round. After the first, the seconds that the server asks for are
        enough, and where the request is not to be repeated nobody waits.
        """
        now = self._clock()
        if self._down_since is None:
            self._down_since = sent
        wait = min(trouble.asked or 0.0, self.waits.longest)
        if sent >= self._decided:
            self._decided = now
            self._rounds += 1
            if self._rounds > 1 or (trouble.again and trouble.asked is None):
                grown = self.waits.first * 2.0 ** min(self._rounds - 1, 30)
                wait = max(wait, min(self.waits.longest, grown) * random.uniform(0.5, 1.0))
        self._not_before = max(self._not_before, now + wait)
        if trouble.again and trouble.kind == "transport" and not self._answers and not self._warned:
            self._warned = True
            patience = f"waiting for it up to {self.waits.patience:g} s"
            warn(f"{self.server.address} has not answered yet ({trouble.reason[:200]}); {patience}")

    def _give_up_if_due(self, last: Trouble) -> None:
        if self._down_since is not None and self._clock() - self._down_since >= self.waits.patience:
            self._given_up = True
            seconds = f"{self._clock() - self._down_since:.3g} s"
            reason = f"{self.server.address} has given no answer for {seconds}; the last error: {last.reason}"
            raise JudgeUnavailable(last.kind, reason)

    async def _once(self, request: dict[str, Any]) -> Reply | Trouble:
        """One request. Nothing that is raised or returned here holds a header or a key.

        It is posted by path: the package's `chat.completions.create` has each version's own parameters, and takes a
        tenth of the time of a call to look through them.
        """
        import anyio  # comes with openai

        openai = imported()
        scrub = self.server.scrub
        reply = None
        with anyio.move_on_after(self.timeout):
            try:
                response = await self.client.post("/chat/completions", cast_to=self._response, body=request)
                reply = _reply(response.status_code, response.content, response.headers)
            except openai.APIStatusError as error:
                reply = _reply(error.status_code, error.response.content, error.response.headers)
            except openai.APITimeoutError as error:
                if type(error.__cause__).__name__ == "ConnectTimeout":
                    return Trouble("transport", "no connection in time", again=True)
            except openai.APIConnectionError as error:
                words = scrub(_words(error.__cause__ or error))
                if BEGUN in error.request.extensions:
                    return Trouble("transport", f"the answer was cut off ({words})")
                return Trouble("transport", words, again=True)
        if reply is None:
            return Trouble("transport", f"no answer within timeout={self.timeout:g} s")
        if reply.answered and reply.body is None and not reply.is_page:
            return Trouble("transport", "the answer is no JSON", raw=scrub(reply.text[:LONGEST_RAW]))
        if not _is_busy(reply, request):
            return reply
        message, code, _ = reply.refusal()
        reason = scrub(f"HTTP {reply.status}: {message}")
        if "insufficient_quota" in code:
            raise RCPError(f"{self.server.address}: the account has nothing left to spend ({reason})")
        limited = reply.status == 429
        kind = "rate_limited" if limited else "transport"
        return Trouble(kind, reason, again=True, asked=retry_after(reply.headers), at_fault=not limited)


class Lines:
    """A line for every event loop that a judge is used from; those of closed loops are closed."""

    def __init__(self, make: Callable[[], Line]):
        self._make = make
        self._lines: dict[asyncio.AbstractEventLoop, Line] = {}

    async def here(self) -> Line:
        """The line of the running event loop."""
        loop = asyncio.get_running_loop()
        if loop not in self._lines:
            for other in [other for other in self._lines if other.is_closed()]:
                await _close(self._lines.pop(other))
            self._lines[loop] = self._make()
        return self._lines[loop]

    async def aclose(self) -> None:
        """Close the connections of the running event loop."""
        line = self._lines.pop(asyncio.get_running_loop(), None)
        if line is not None:
            await _close(line)


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


def _http(openai: Any) -> Any:
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


def _reply(status: int, raw: bytes, headers: Mapping[str, str]) -> Reply:
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


def _is_busy(reply: Reply, request: Mapping[str, Any]) -> bool:
    """Whether the same request may be answered later."""
    if reply.status == 500 and "response_format" in request and _GRAMMAR.search(reply.text):
        return False
    return reply.status >= 500 or reply.status in _BUSY


def _complaint(item: Any) -> str:
    if not isinstance(item, dict):
        return str(item)
    place = item.get("loc")
    return f"{'.'.join(map(str, place)) if isinstance(place, list) else place}: {item.get('msg')}"


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")


async def _close(line: Line) -> None:
    with contextlib.suppress(RuntimeError, OSError):  # its loop may be closed: then its sockets are dropped
        await line.client.close()
