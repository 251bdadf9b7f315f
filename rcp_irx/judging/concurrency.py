"""Many calls at once under one limit, the earliest queries first; and a run inside somebody else's event loop.

What is called is `runner`'s work.
"""

from __future__ import annotations

import asyncio
import heapq
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from itertools import count
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")
Turn: TypeAlias = tuple[int, int]
"""Whose turn it is: the least goes first."""


class PriorityLimit:
    """At most `places` holders at a time; who waits is served by priority (the least first), then in turn."""

    def __init__(self, places: int):
        self._places = self._free = places
        self._waiting: list[tuple[Turn, int, asyncio.Future[None]]] = []
        self._turn = count()
        self._wanting: deque[asyncio.Future[None]] = deque()

    async def running_low(self) -> None:
        """Wait until fewer callers wait than there are places."""
        while len(self._waiting) >= self._places:
            low = asyncio.get_running_loop().create_future()
            self._wanting.append(low)
            await low

    async def acquire(self, priority: Turn) -> None:
        """Wait for a place."""
        if self._free:
            self._free -= 1
            return
        served = asyncio.get_running_loop().create_future()
        heapq.heappush(self._waiting, (priority, next(self._turn), served))
        try:
            await served
        except asyncio.CancelledError:
            if served.done() and not served.cancelled():
                self.release()
            raise

    def release(self) -> None:
        """Give a place back, to the first who waits."""
        while self._waiting:
            served = heapq.heappop(self._waiting)[2]
            if len(self._waiting) < self._places:
                self._call_for_more()
            if not served.done():
                served.set_result(None)
                return
        self._free += 1

    def _call_for_more(self) -> None:
        while self._wanting:
            low = self._wanting.popleft()
            if not low.done():
                low.set_result(None)


async def together(
    coroutines: Iterable[Coroutine[Any, Any, T]], *, drain: tuple[type[BaseException], ...] = ()
) -> list[T]:
    """Run coroutines at once and return their results in order.

    The first error cancels the others and is raised once they have ended; on one of the kinds in `drain` they are
    waited for instead, so that what is under way is not lost.
    """
    tasks = [asyncio.ensure_future(coroutine) for coroutine in coroutines]
    try:
        return await asyncio.gather(*tasks)
    except BaseException as error:
        if not isinstance(error, drain):
            for task in tasks:
                task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        raise


def run_to_end(make: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Run a coroutine to its end, also from within a running event loop (a notebook): in a thread of its own there.

    An interrupt of the waiting thread cancels the coroutine before it is raised.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(make())
    loop = asyncio.new_event_loop()
    task = loop.create_task(make())
    outcome: list[tuple[T | None, BaseException | None]] = []

    def drive() -> None:
        asyncio.set_event_loop(loop)
        try:
            outcome.append((loop.run_until_complete(task), None))
        except BaseException as error:  # raised again in the thread that waits
            outcome.append((None, error))
        finally:
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.close()

    thread = threading.Thread(target=drive, name="rcp_irx judging")
    thread.start()
    try:
        thread.join()
    except BaseException:
        loop.call_soon_threadsafe(task.cancel)
        thread.join()
        raise
    result, error = outcome[0]
    if error is not None:
        raise error
    return result  # type: ignore[return-value]  # there is a result where there is no error
