"""The way of a request to a server: waiting, sending again, and what a status code means for the run.

What is asked, and how an answer is read, is `openai`'s.
"""

from __future__ import annotations

import asyncio
import contextlib
import math
import random
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from itertools import cycle
from typing import Any

from rcp_irx.errors import RCPError, warn
from rcp_irx.judging.judges.base import JudgeFailure, JudgeUnavailable
from rcp_irx.judging.judges.server import BEGUN, Reply, Server, http_package, imported, reply_of, retry_after

LONGEST_RAW = 10_000
"""Characters kept of a body that is no answer."""

STRIKES = 3
"""Server errors on one request, with answers to other requests in between, after which the request is at fault."""

CALLS_PER_CLIENT = 8
"""Calls in flight for which one more client is made: at each request a client looks at all of its idle connections."""

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
        self.clients = server.clients(-(-connections // CALLS_PER_CLIENT), timeout, connections)
        self._client = cycle(self.clients)
        self._response = http_package(imported()).Response
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
                response = await next(self._client).post("/chat/completions", cast_to=self._response, body=request)
                reply = reply_of(response.status_code, response.content, response.headers)
            except openai.APIStatusError as error:
                reply = reply_of(error.status_code, error.response.content, error.response.headers)
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


def _is_busy(reply: Reply, request: Mapping[str, Any]) -> bool:
    """Whether the same request may be answered later."""
    if reply.status == 500 and "response_format" in request and _GRAMMAR.search(reply.text):
        return False
    return reply.status >= 500 or reply.status in _BUSY


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}".rstrip(": ")


async def _close(line: Line) -> None:
    with contextlib.suppress(RuntimeError, OSError):  # its loop may be closed: then its sockets are dropped
        for client in line.clients:
            await client.close()
