"""Who is judging a query: places that processes hold in a file beside the log, by the operating system's locks.

A lock ends with its process, however that ends. Where there are none (Windows), nothing is held.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

from rcp_irx.errors import RCPError

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]


class QueryLocks:
    """The places of a log's queries, in `<path>.lock`; `path` None (a log in memory): nothing is held."""

    def __init__(self, path: str | None):
        self._path = None if path is None else f"{path}.lock"
        self._file: Any = None  # one for all places: closing another of the same path would free them all

    def take(self, dataset: str, qid: str, *, wait: bool) -> bool:
        """Take a query's place; whether it was free, where waiting is not wanted.

        Raises
        ------
        RCPError
            If the file cannot be written.
        """
        if self._path is None or fcntl is None:
            return True
        if self._file is None:
            try:
                self._file = open(self._path, "ab")  # noqa: SIM115  (held until the log is closed)
            except OSError as error:
                raise RCPError(f"{self._path} cannot be written: {error.strerror}") from error
        try:
            fcntl.lockf(self._file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB), 1, _place(dataset, qid))
        except (BlockingIOError, PermissionError):
            return False
        return True

    def give_back(self, dataset: str, qid: str) -> None:
        """Free a query's place."""
        if self._file is not None:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, _place(dataset, qid))

    def close(self) -> None:
        """Free every place."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _place(dataset: str, qid: str) -> int:
    """The byte of the lock file that stands for a query."""
    return int.from_bytes(hashlib.sha256(json.dumps([dataset, qid]).encode()).digest()[:6], "big")
