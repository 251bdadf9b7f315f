"""Who is judging a query: places that processes hold in a file beside the log, by the operating system's locks.

A lock ends with its process, however that ends. Where there are none (Windows), nothing is held.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
from collections import defaultdict
from typing import Any

from rcp_irx.errors import RCPError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]


class _Shared:
    """The lock file of one path, one for the whole process: closing another on that path would free every lock."""

    def __init__(self, path: str):
        self.file: Any = open(path, "ab")  # noqa: SIM115  (held until the last log on that path is closed)
        self.users = 0
        self.places: defaultdict[int, threading.Lock] = defaultdict(threading.Lock)


_shared: dict[str, _Shared] = {}
_guard = threading.Lock()


class QueryLocks:
    """The places of a log's queries, in `<path>.lock`; `path` None (a log in memory): nothing is held.

    Between threads of a process, and several logs on one path there, places are held as between processes.
    """

    def __init__(self, path: str | None):
        self._path = None if path is None else os.path.realpath(f"{path}.lock")
        self._shared: _Shared | None = None

    def take(self, dataset: str, qid: str, *, wait: bool) -> bool:
        """Take a query's place; whether it was free, where waiting is not wanted.

        Raises
        ------
        RCPError
            If the file cannot be written.
        """
        if self._path is None or fcntl is None:
            return True
        shared, place = self._opened(self._path), _place(dataset, qid)
        if not shared.places[place].acquire(blocking=wait):
            return False
        try:
            fcntl.lockf(shared.file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB), 1, place)
        except (BlockingIOError, PermissionError):
            shared.places[place].release()
            return False
        except BaseException:
            shared.places[place].release()
            raise
        return True

    def give_back(self, dataset: str, qid: str) -> None:
        """Free a query's place."""
        if self._shared is not None:
            fcntl.lockf(self._shared.file, fcntl.LOCK_UN, 1, _place(dataset, qid))
            self._shared.places[_place(dataset, qid)].release()

    def close(self) -> None:
        """Let go of the file; the last log on its path closes it."""
        if self._shared is None or self._path is None:
            return
        with _guard:
            self._shared.users -= 1
            if not self._shared.users:
                self._shared.file.close()
                _shared.pop(self._path, None)
        self._shared = None

    def _opened(self, path: str) -> _Shared:
        if self._shared is None:
            with _guard:
                try:
                    held = _shared.get(path) or _Shared(path)
                except OSError as error:
                    raise RCPError(f"{path} cannot be written: {error.strerror}") from error
                _shared[path] = held
                held.users += 1
            self._shared = held
        return self._shared


def _place(dataset: str, qid: str) -> int:
    """The byte of the lock file that stands for a query."""
    return int.from_bytes(hashlib.sha256(json.dumps([dataset, qid]).encode()).digest()[:6], "big")
