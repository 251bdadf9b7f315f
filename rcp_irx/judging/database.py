"""The SQLite file of a judgment log: its tables, how it is opened, read and written.

What stands in it is `store`'s and `log`'s.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from rcp_irx.errors import RCPError
from rcp_irx.judging.locks import QueryLocks

VERSION = 1
_APPLICATION = 0x52435031  # "RCP1", so that another program's database is recognised
_SCHEMA = """
CREATE TABLE texts (digest TEXT PRIMARY KEY, kind TEXT NOT NULL, text TEXT NOT NULL);
CREATE TABLE pools (
    id INTEGER PRIMARY KEY, dataset TEXT NOT NULL, qid TEXT NOT NULL, question TEXT NOT NULL, digest TEXT NOT NULL,
    turn INTEGER NOT NULL, UNIQUE (dataset, qid, question, digest));
CREATE TABLE pool_documents (
    pool INTEGER NOT NULL REFERENCES pools, rank INTEGER NOT NULL, docno TEXT NOT NULL, text TEXT NOT NULL,
    columns TEXT NOT NULL, PRIMARY KEY (pool, rank)) WITHOUT ROWID;
CREATE TABLE plans (
    id INTEGER PRIMARY KEY, pool INTEGER NOT NULL REFERENCES pools, stage TEXT NOT NULL, judge TEXT NOT NULL,
    prompt TEXT NOT NULL, rubric TEXT NOT NULL, note TEXT NOT NULL, protocol TEXT NOT NULL, turn INTEGER NOT NULL,
    finished INTEGER NOT NULL, reader TEXT NOT NULL, grown_from INTEGER REFERENCES plans,
    UNIQUE (pool, stage, judge, prompt, rubric));
CREATE TABLE windows (
    plan INTEGER NOT NULL REFERENCES plans, phase TEXT NOT NULL, number INTEGER NOT NULL, reversed INTEGER NOT NULL,
    turn INTEGER NOT NULL, docnos TEXT NOT NULL, key TEXT NOT NULL,
    PRIMARY KEY (plan, phase, number, reversed)) WITHOUT ROWID;
CREATE TABLE attempts (
    key TEXT NOT NULL, attempt INTEGER NOT NULL, failure TEXT NOT NULL, answer TEXT NOT NULL, note TEXT NOT NULL,
    raw TEXT NOT NULL, finish_reason TEXT NOT NULL, model TEXT NOT NULL, prompt_tokens INTEGER NOT NULL,
    completion_tokens INTEGER NOT NULL, at REAL NOT NULL, seconds REAL NOT NULL,
    PRIMARY KEY (key, attempt)) WITHOUT ROWID;
"""


class Database:
    """One SQLite file in WAL mode, or in memory where `path` is None; one thread at a time may use it.

    Parameters
    ----------
    keep_text : bool
        Store the documents' texts; otherwise only their hashes are kept.

    Raises
    ------
    RCPError
        If the file is no judgment log, is damaged, or was written by another version.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None, *, keep_text: bool = False):
        self.keep_text = keep_text
        if path is not None and not os.fspath(path):
            raise RCPError("the judgment log's path is empty; name a file, or give None to keep answers in memory")
        self.path = None if path is None or path == ":memory:" else os.fspath(path)
        if self.path is not None and os.path.isdir(self.path):
            raise RCPError(f"{self.path} is a folder; a judgment log is one file")
        self.locks = QueryLocks(self.path)
        with self._named_errors():
            self._db = sqlite3.connect(
                self.path or ":memory:", timeout=60, isolation_level=None, check_same_thread=False
            )
            self._open()
        self._inode = None if self.path is None else os.stat(self.path).st_ino

    def __getstate__(self) -> dict[str, Any]:
        if self.path is None:
            raise RCPError("a judgment log in memory cannot be copied or sent to another process; give it a path")
        return {"path": self.path, "keep_text": self.keep_text}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["path"], keep_text=state["keep_text"])  # type: ignore[misc]  # the same file, opened again

    def _open(self) -> None:
        if not self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            self._db.execute("PRAGMA journal_mode=WAL")
            with self._writing():
                if not self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:  # nobody was faster
                    for statement in _SCHEMA.split(";\n"):
                        self._db.execute(statement)
                    self._db.execute(f"PRAGMA application_id={_APPLICATION}")
                    self._db.execute(f"PRAGMA user_version={VERSION}")
        application, version = (
            self._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
        )
        if application != _APPLICATION:
            raise RCPError(f"{self.path} is an SQLite file of another program, not a judgment log")
        elif version != VERSION:
            raise RCPError(f"{self.path} is a judgment log of version {version}; this rcp_irx reads version {VERSION}")
        self._db.execute("PRAGMA synchronous=NORMAL")

    @contextmanager
    def _named_errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.DatabaseError as error:
            raise RCPError(f"the judgment log {self.path or 'in memory'} cannot be used: {error}") from error

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """One transaction, committed at the end, so that what was written survives the process."""
        self._refuse_moved()
        if self._db.in_transaction:  # of a trial
            yield
            return
        with self._named_errors():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

    @contextmanager
    def trial(self) -> Iterator[None]:
        """What is written meanwhile is undone at the end: to see what a run would do."""
        with self._named_errors():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            finally:
                self._db.execute("ROLLBACK")

    def _refuse_moved(self) -> None:
        """Stop before an answer goes into a file that nobody will find."""
        inode = getattr(self, "_inode", None)
        if self.path is not None and inode is not None:
            try:
                there = os.stat(self.path).st_ino
            except OSError:
                there = None
            if there != inode:
                raise RCPError(f"the judgment log {self.path} was moved, deleted or replaced while it was in use")

    def _read(self, statement: str, parameters: Sequence[Any] = ()) -> list[Any]:
        """All rows of a query."""
        with self._named_errors():
            return self._db.execute(statement, parameters).fetchall()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    def close(self) -> None:
        """Close the file; the log cannot be used afterwards."""
        self._db.close()
        self.locks.close()
