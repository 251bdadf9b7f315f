"""The way to an OpenAI-compatible server: addresses, keys, waiting, and what a status code means for the run.

What is asked, and how an answer is read, is `openai`'s.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
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
        limits = type(openai.DEFAULT_CONNECTION_LIMITS)(max_connections=None, max_keepalive_connections=connections)
        seconds = openai.Timeout(timeout, connect=min(timeout, LONGEST_CONNECT))
        return openai.AsyncOpenAI(
            api_key=self._key,
            base_url=self.address,
            max_retries=0,
            timeout=seconds,
            default_headers=headers,
            http_client=openai.DefaultAsyncHttpxClient(limits=limits, timeout=seconds),
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
    """No answer: whether the server could not be reached, and in what words."""

    down: bool
    reason: str
    raw: str = ""


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
        self._create = self.client.chat.completions.with_streaming_response.create
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
            "transport" where a fresh call may do better; JudgeUnavailable once patience is over.
        """
        with self._call():
            failing_since, seen, strikes = math.inf, self._answers, 0
            kind, reason = "transport", ""
            while True:
                await self._hold(kind, reason)
                sent = self._clock()
                got = await self._once(request)
                if isinstance(got, Reply) and not _to_be_repeated(got, request):
                    self._answered()
                    return got
                failing_since = min(failing_since, sent)
                if isinstance(got, Trouble):
                    kind, reason, wait = "transport", self.server.scrub(got.reason), None
                    self._failed(sent, None, hold=got.down)
                    if got.down and not self._answers and not self._warned:
                        self._warned = True
                        patience = f"{self.waits.patience:g} s"
                        warn(f"{self.server.address} cannot be reached ({reason}); waiting for it up to {patience}")
                else:
                    kind, wait = "rate_limited" if got.status == 429 else "transport", retry_after(got.headers)
                    reason = self.server.scrub(f"HTTP {got.status}: {got.refusal()[0]}")
                    if "insufficient_quota" in got.refusal()[1]:
                        raise RCPError(f"{self.server.address}: the account has nothing left to spend ({reason})")
                    self._failed(sent, wait, hold=True)
                self._give_up_if_due(kind, reason)
                if isinstance(got, Trouble) and not got.down:
                    raise JudgeFailure("transport", self.server.scrub(got.raw) or reason)
                if kind == "transport" and isinstance(got, Reply) and self._answers > seen:
                    strikes += 1
                seen = self._answers
                if strikes >= STRIKES or self._clock() - failing_since >= self.waits.patience:
                    raise JudgeFailure(kind, reason)

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

    async def _hold(self, kind: str, reason: str) -> None:
        """Wait until requests may go."""
        while (left := self._not_before - self._clock()) > 0:
            left *= 1.0 + random.random() / 10.0  # not all at the same moment
            if self._down_since is not None:
                left = min(left, max(0.0, self._down_since + self.waits.patience - self._clock()))
            await asyncio.sleep(left)
            self._give_up_if_due(kind, reason or "others of its requests had no answer")

    def _answered(self) -> None:
        self._answers += 1
        self._rounds, self._down_since = 0, None

    def _failed(self, sent: float, asked: float | None, *, hold: bool) -> None:
        """Note that a request had no answer, and let all others wait.

        Requests that were under way together make one round. `asked` are the seconds that the server asks for.
        Without `hold` nobody waits until it happens twice in a row.
        """
        now = self._clock()
        if self._down_since is None:
            self._down_since = sent
        wait = 0.0
        if sent >= self._decided:
            self._rounds += 1
            self._decided = now
            grown = self.waits.first * 2.0 ** min(self._rounds - 1, 30)
            wait = min(self.waits.longest, grown) * random.uniform(0.5, 1.0)
            if self._rounds == 1 and (asked is not None or not hold):
                wait = 0.0
        wait = max(wait, min(asked or 0.0, self.waits.longest))
        self._not_before = max(self._not_before, now + wait)

    def _give_up_if_due(self, kind: str, reason: str) -> None:
        if self._down_since is not None and self._clock() - self._down_since >= self.waits.patience:
            self._given_up = True
            seconds = self._clock() - self._down_since
            raise JudgeUnavailable(
                kind, f"{self.server.address} has given no answer for {seconds:.3g} s; the last error: {reason}"
            )

    async def _once(self, request: dict[str, Any]) -> Reply | Trouble:
        """One request. Nothing that is raised here holds a header."""
        try:
            return await asyncio.wait_for(self._sent(request), self.timeout)
        except asyncio.TimeoutError:
            return Trouble(False, f"no answer within timeout={self.timeout:g} s")

    async def _sent(self, request: dict[str, Any]) -> Reply | Trouble:
        openai = imported()
        begun = False
        try:
            async with self._create(**request) as response:
                begun = True
                raw = await response.read()
                status, headers = response.status_code, response.headers
        except openai.APIStatusError as error:
            return _reply(error.status_code, error.response.content, error.response.headers)
        except openai.APITimeoutError as error:
            down = type(error.__cause__).__name__ == "ConnectTimeout"
            return Trouble(down, "no connection in time" if down else f"no answer within timeout={self.timeout:g} s")
        except openai.APIConnectionError as error:
            return Trouble(True, _words(error.__cause__ or error))
        except Exception as error:
            if not _of_the_way(error):
                raise
            return Trouble(False, f"the answer was cut off ({_words(error)})" if begun else _words(error))
        reply = _reply(status, raw, headers)
        if reply.body is None and reply.text.lstrip()[:1] != "<":
            return Trouble(False, "the answer is no JSON", reply.text[:LONGEST_RAW])
        return reply


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


def _to_be_repeated(reply: Reply, request: Mapping[str, Any]) -> bool:
    """Whether the same request may be answered later."""
    if reply.status == 500 and "response_format" in request["extra_body"] and _GRAMMAR.search(reply.text):
        return False
    return reply.status >= 500 or reply.status in _BUSY


def _complaint(item: Any) -> str:
    if not isinstance(item, dict):
        return str(item)
    place = item.get("loc")
    return f"{'.'.join(map(str, place)) if isinstance(place, list) else place}: {item.get('msg')}"


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")


def _of_the_way(error: Exception) -> bool:
    """Whether an error comes from the network, below the openai package."""
    return isinstance(error, OSError) or type(error).__module__.startswith(("httpx", "httpcore", "anyio", "h11"))


async def _close(line: Line) -> None:
    with contextlib.suppress(RuntimeError, OSError):  # its loop may be closed: then its sockets are dropped
        await line.client.close()
