"""A local server that plays an OpenAI-compatible endpoint and its faults: `python -m tests.judging.stub_server`."""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import re
import socket
import struct
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

MODEL = "stub-model-2026-01-01"


@dataclass(frozen=True)
class Request:
    """A request as it came in; `number` counts from 0 over the server's life."""

    number: int
    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def prompt(self) -> str:
        return self.body["messages"][0]["content"]

    @property
    def format(self) -> str:
        """The kind of response_format, "" for none."""
        return self.body.get("response_format", {}).get("type", "")

    @property
    def documents(self) -> list[str]:
        """The texts in the prompt's frames, in order."""
        code = re.search(r"^>>> query (\w+)$", self.prompt, re.MULTILINE)[1]
        found = re.findall(
            rf"^>>> document \d+ {code}\n(.*?)\n<<< document \d+ {code}$", self.prompt, re.MULTILINE | re.DOTALL
        )
        return list(found)

    @property
    def criteria(self) -> list[str]:
        """The criteria that the prompt asks for; none in a tournament."""
        form = self.prompt.rstrip().splitlines()[-1]  # documents may hold forms of their own
        shown = re.search(r'\{"answers": \{"1": \{(.*?)\}', form)
        return re.findall(r'"([^"]+)":', shown[1]) if shown else []


@dataclass(frozen=True)
class Action:
    """What the server does with a request.

    `fault` is one of "reset" (the connection, before any answer), "reset_body" and "cut" (after half of the body),
    "slow" (a byte of the body every `pace` seconds), "hang" (no answer at all).
    """

    status: int = 200
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)
    delay: float = 0.0
    fault: str = ""
    pace: float = 0.0


Behaviour = Callable[[Request], Action]


def score(text: str) -> float:
    """The stub's judgment of a document: any number from -5 to 5, always the same for a text."""
    return hashlib.sha256(text.encode()).digest()[0] % 101 / 10 - 5


def judgment(request: Request) -> dict[str, Any]:
    """The answer that the prompt asks for."""
    scores = {str(i): score(text) for i, text in enumerate(request.documents, 1)}
    if not request.criteria:
        return {"scores": scores}
    return {"answers": {i: {c: s > n for n, c in enumerate(request.criteria)} for i, s in scores.items()}}


def completion(message: dict[str, Any], finish: str = "stop", prompt_tokens: int = 100, tokens: int = 20) -> dict:
    """The body of a chat completion."""
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": MODEL,
        "choices": [{"index": 0, "finish_reason": finish, "message": {"role": "assistant", **message}}],
        "usage": {"prompt_tokens": prompt_tokens, "completion_tokens": tokens, "total_tokens": prompt_tokens + tokens},
    }


def answers(request: Request) -> Action:
    """A right answer."""
    return Action(body=completion({"content": json.dumps(judgment(request))}))


def says(content: Any, finish: str = "stop", **message: Any) -> Behaviour:
    """An answer with this content and these other fields of the message."""
    return lambda request: Action(body=completion({"content": content, **message}, finish))


def error(status: int, message: str = "no", headers: dict[str, str] | None = None, **fields: Any) -> Behaviour:
    """An error as OpenAI words it."""
    body = {"error": {"message": message, "type": "error", "param": None, "code": None, **fields}}
    return lambda request: Action(status, body, headers or {})


def fails(fault: str, pace: float = 0.0) -> Behaviour:
    """A right answer with a fault on its way."""
    return lambda request: Action(body=answers(request).body, fault=fault, pace=pace)


def late(seconds: float, then: Behaviour = answers) -> Behaviour:
    """Something else, after a time."""

    def behave(request: Request) -> Action:
        action = then(request)
        return Action(action.status, action.body, action.headers, seconds, action.fault, action.pace)

    return behave


def closed_port() -> int:
    """A port at which nothing listens."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        return int(held.getsockname()[1])


class StubServer:
    """Serves from a thread of its own while it is open.

    Parameters
    ----------
    script : callable or list
        What to do with every request, or with the first ones; those after a list get right answers.
    port : int
        0: any that is free.
    delay : float
        Seconds before each answer.

    Attributes
    ----------
    requests : list of Request
        What came in, in order; `times` has the moment (time.monotonic) of each.
    most_in_flight : int
        The most requests that were open at one time.
    """

    def __init__(self, script: Behaviour | Sequence[Behaviour] = answers, *, port: int = 0, delay: float = 0.0):
        self.script, self.port, self.delay = script, port, delay
        self.requests: list[Request] = []
        self.times: list[float] = []
        self.in_flight = self.most_in_flight = self.connections = 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    @property
    def base_url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def bodies(self) -> list[dict[str, Any]]:
        return [request.body for request in self.requests]

    def __len__(self) -> int:
        return len(self.requests)

    def __enter__(self) -> StubServer:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        return self

    def __exit__(self, *raised: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _stop(self) -> None:
        self._server.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while await self._exchange(reader, writer):
                pass
        writer.close()

    async def _exchange(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        """One request and what becomes of it; whether the connection is still good."""
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:] if line)}
        body = json.loads(await reader.readexactly(int(headers.get("content-length", 0))) or b"{}")
        request = Request(len(self.requests), head[0].split()[1], headers, body)
        self.requests.append(request)
        self.times.append(time.monotonic())
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            return await self._act(self._action(request), writer)
        finally:
            self.in_flight -= 1

    def _action(self, request: Request) -> Action:
        if callable(self.script):
            return self.script(request)
        return (self.script[request.number] if request.number < len(self.script) else answers)(request)

    async def _act(self, action: Action, writer: asyncio.StreamWriter) -> bool:
        if action.delay or self.delay:
            await asyncio.sleep(action.delay or self.delay)
        if action.fault == "hang":
            await asyncio.sleep(3600)
        if action.fault == "reset":
            return self._reset(writer)
        body = action.body if isinstance(action.body, bytes) else json.dumps(action.body).encode()
        headers = {"content-type": "application/json", "content-length": str(len(body)), **action.headers}
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        writer.write(f"HTTP/1.1 {action.status} X\r\n{head}\r\n".encode("latin-1"))
        if action.fault in ("reset_body", "cut"):
            writer.write(body[: len(body) // 2])
            await writer.drain()
            await asyncio.sleep(0.02)
            return self._reset(writer) if action.fault == "reset_body" else False
        if action.fault == "slow":
            for byte in body:
                writer.write(bytes([byte]))
                await writer.drain()
                await asyncio.sleep(action.pace)
            return True
        writer.write(body)
        await writer.drain()
        return True

    def _reset(self, writer: asyncio.StreamWriter) -> bool:
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()
        return False


def main() -> None:
    """Serve right answers until interrupted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8099)
    parser.add_argument("--delay", type=float, default=0.2, help="seconds before each answer")
    options = parser.parse_args()
    with StubServer(port=options.port, delay=options.delay) as server:
        print(server.base_url, flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            while True:
                time.sleep(3600)


if __name__ == "__main__":
    main()
