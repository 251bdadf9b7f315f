"""The SQLite file of a judgment log: what is written to it and how a window is found again.

Reading it whole is `log`'s work.

An answer is stored under the hash of everything that can change it (`window_key`) and committed at once. A window's
place in a query's schedule is stored beside it, not in the key.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rcp_irx.documents import Pool, Query
from rcp_irx.errors import RCPError, examples
from rcp_irx.judging.rubric import Rubric

try:
    import fcntl
except ImportError:  # not on Windows
    fcntl = None  # type: ignore[assignment]

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
    finished INTEGER NOT NULL,
    UNIQUE (pool, stage, judge, prompt, rubric));
CREATE TABLE windows (
    plan INTEGER NOT NULL REFERENCES plans, phase TEXT NOT NULL, number INTEGER NOT NULL, reversed INTEGER NOT NULL,
    turn INTEGER NOT NULL, docnos TEXT NOT NULL, key TEXT NOT NULL,
    PRIMARY KEY (plan, phase, number, reversed)) WITHOUT ROWID;
CREATE TABLE attempts (
    key TEXT NOT NULL, attempt INTEGER NOT NULL, failure TEXT NOT NULL, answer TEXT NOT NULL, note TEXT NOT NULL,
    raw TEXT NOT NULL,
    at REAL NOT NULL, seconds REAL NOT NULL, PRIMARY KEY (key, attempt)) WITHOUT ROWID;
"""


def digest(text: str) -> str:
    """SHA-256 of a text, as hexadecimal digits."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def question_of(query: Query) -> str:
    """All that a judge is shown of a query, as JSON: its text, its context fields, the task."""
    return json.dumps([query.text, query.context, query.task])


def window_key(
    stage: str, judge: str, prompt: str, question: str, rubric: str, texts: Sequence[str], repeat: int
) -> str:
    """The hash of all that can change a window's answer; `texts` are the documents' digests in the order shown."""
    return digest(json.dumps([stage, judge, prompt, question, rubric, list(texts), repeat]))


@dataclass(frozen=True)
class Outcome:
    """What the log knows of a window: its answer, or how often it failed and how the last time."""

    answer: Any = None
    failure: str = ""
    attempts: int = 0


class JudgmentStore:
    """Pools, plans, windows and attempts in one SQLite file in WAL mode, or in memory where `path` is None.

    Raises
    ------
    RCPError
        If the file is no judgment log, is damaged, or was written by another version.
    """

    def __init__(self, path: str | os.PathLike[str] | None = None):
        self.path = None if path is None or path in ("", ":memory:") else os.fspath(path)
        if self.path is not None and os.path.isdir(self.path):
            raise RCPError(f"{self.path} is a folder; a judgment log is one file")
        with self._named_errors():
            self._db = sqlite3.connect(self.path or ":memory:", timeout=60, isolation_level=None)
            self._open()
        self._inode = None if self.path is None else os.stat(self.path).st_ino

    def __getstate__(self) -> dict[str, Any]:
        if self.path is None:
            raise RCPError("a judgment log in memory cannot be copied or sent to another process; give it a path")
        return {"path": self.path}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(state["path"])  # type: ignore[misc]  # a copy is the same file, opened again

    def _open(self) -> None:
        application, version = (
            self._db.execute(f"PRAGMA {name}").fetchone()[0] for name in ("application_id", "user_version")
        )
        if application == 0 and not self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            self._db.execute("PRAGMA journal_mode=WAL")
            with self._writing():
                if not self._db.execute("SELECT count(*) FROM sqlite_master").fetchone()[
                    0
                ]:  # another process may be first
                    for statement in _SCHEMA.split(";\n"):
                        self._db.execute(statement)
                    self._db.execute(f"PRAGMA application_id={_APPLICATION}")
                    self._db.execute(f"PRAGMA user_version={VERSION}")
        elif application != _APPLICATION:
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
        with self._named_errors():
            self._db.execute("BEGIN IMMEDIATE")
            try:
                yield
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
            self._db.execute("COMMIT")

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

    @contextmanager
    def judging(self, dataset: str, qid: str) -> Iterator[None]:
        """Hold a query's place in the log, so that two processes do not ask the same windows: the second waits.

        The lock is the operating system's and ends with the process, however that ends. Without such locks (Windows),
        or in memory, nothing is held.
        """
        if self.path is None or fcntl is None:
            yield
            return
        place = int.from_bytes(hashlib.sha256(json.dumps([dataset, qid]).encode()).digest()[:6], "big")
        with self._lock_file() as file:
            fcntl.lockf(file, fcntl.LOCK_EX, 1, place)
            try:
                yield
            finally:
                fcntl.lockf(file, fcntl.LOCK_UN, 1, place)

    def _lock_file(self) -> Any:
        with self._named_errors():
            try:
                return open(f"{self.path}.lock", "ab")
            except OSError as error:
                raise RCPError(f"{self.path}.lock cannot be written: {error.strerror}") from error

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r})"

    def close(self) -> None:
        """Close the file; the log cannot be used afterwards."""
        self._db.close()

    def add_pool(self, pool: Pool) -> int:
        """Store a pool as its query's present pool; returns its number.

        The same documents with the same texts are the same pool, whatever their order; ranks and columns are the
        latest.
        """
        query, question = pool.query, question_of(pool.query)
        documents = [(d.id, digest(d.text)) for d in pool.documents]
        columns = pool.columns or ({},) * len(documents)
        content = digest(json.dumps(sorted(documents)))
        with self._writing():
            turn = self._db.execute("SELECT coalesce(max(turn), 0) + 1 FROM pools").fetchone()[0]
            self._db.execute(
                "INSERT INTO pools (dataset, qid, question, digest, turn) VALUES (?, ?, ?, ?, ?)"
                " ON CONFLICT (dataset, qid, question, digest) DO UPDATE SET turn = excluded.turn",
                (query.dataset, query.id, question, content, turn),
            )
            number = self._db.execute(
                "SELECT id FROM pools WHERE dataset = ? AND qid = ? AND question = ? AND digest = ?",
                (query.dataset, query.id, question, content),
            ).fetchone()[0]
            self._db.execute("DELETE FROM pool_documents WHERE pool = ?", (number,))
            self._db.executemany(
                "INSERT INTO pool_documents VALUES (?, ?, ?, ?, ?)",
                [
                    (number, rank, docno, text, json.dumps(kept, default=_plain))
                    for rank, ((docno, text), kept) in enumerate(zip(documents, columns, strict=True))
                ],
            )
        return int(number)

    def add_plan(
        self, pool: int, stage: str, judge: str, prompt: str, rubric: Rubric | None, note: str, protocol: dict[str, Any]
    ) -> int:
        """Store that a pool is to be judged at a stage by a judge; returns the plan's number.

        It is unfinished until told.
        """
        rubric_digest = rubric.digest if rubric is not None else ""
        with self._writing():
            for kind, text in [("prompt", prompt), ("rubric", rubric.to_json() if rubric is not None else "")]:
                self._db.execute("INSERT OR IGNORE INTO texts VALUES (?, ?, ?)", (digest(text), kind, text))
            self._db.execute(
                "INSERT INTO plans (pool, stage, judge, prompt, rubric, note, protocol, turn, finished)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, 0, 0) ON CONFLICT (pool, stage, judge, prompt, rubric)"
                " DO UPDATE SET protocol = excluded.protocol, note = excluded.note, finished = 0",
                (pool, stage, judge, digest(prompt), rubric_digest, note, json.dumps(protocol)),
            )
            plan = self._db.execute(
                "SELECT id FROM plans WHERE pool = ? AND stage = ? AND judge = ? AND prompt = ? AND rubric = ?",
                (pool, stage, judge, digest(prompt), rubric_digest),
            ).fetchone()[0]
        return int(plan)

    def refuse_mixture(self, pool: Pool, judge: str, prompts: dict[str, str], protocol: dict[str, Any]) -> None:
        """Refuse to judge a query again under another wording, prompt, document text, window size or seed.

        No fit could use both, or no schedule could go on where the other stopped.

        Raises
        ------
        RCPError
            Naming what differs from the judge's earlier answers for this query.
        """
        query, advice = pool.query, "use a new log (nothing was asked)"
        rows = self._read(
            "SELECT DISTINCT p.id, p.question, l.stage, l.prompt, l.protocol FROM plans l JOIN pools p ON p.id = l.pool"
            " WHERE p.dataset = ? AND p.qid = ? AND l.judge = ? AND EXISTS"
            " (SELECT 1 FROM windows w JOIN attempts a ON a.key = w.key WHERE w.plan = l.id)",
            (query.dataset, query.id, judge),
        )
        texts = {document.id: digest(document.text) for document in pool.documents}
        for number, question, stage, prompt, planned in rows:
            if question != question_of(query):
                raise RCPError(f"{query} was judged with another text, context or task in {self!r}; {advice}")
            if prompt != digest(prompts[stage]):
                raise RCPError(f"{query} was judged with another {stage} prompt in {self!r}; {advice}")
            for setting in ("size", "seed"):
                if json.loads(planned)[setting] != protocol[setting]:
                    raise RCPError(f"{query} was judged under a protocol of another {setting} in {self!r}; {advice}")
            earlier = self._read("SELECT docno, text FROM pool_documents WHERE pool = ?", (number,))
            changed = [docno for docno, text in earlier if texts.get(docno, text) != text]
            if changed:
                raise RCPError(
                    f"{query}: document {examples(changed)} was judged with another text in {self!r}; {advice}"
                )

    def planned(self, plan: int) -> dict[str, list[tuple[str, ...]]]:
        """The windows planned so far, by phase in the order of their number, without reversals."""
        rows = self._read(
            "SELECT phase, docnos FROM windows WHERE plan = ? AND reversed = 0 ORDER BY phase, number", (plan,)
        )
        found: dict[str, list[tuple[str, ...]]] = {}
        for phase, docnos in rows:
            found.setdefault(phase, []).append(tuple(json.loads(docnos)))
        return found

    def begin(self, plans: Sequence[int]) -> None:
        """Start a run of plans: windows written from now on are those that the protocol asks for."""
        with self._writing():
            self._db.executemany("UPDATE plans SET turn = turn + 1, finished = 0 WHERE id = ?", [(p,) for p in plans])

    def add_windows(self, rows: Iterable[tuple[int, str, int, bool, Sequence[str], str]]) -> None:
        """Store windows of plans: (plan, phase, number, reversed, docnos in the order shown, key), in one commit."""
        with self._writing():
            self._db.executemany(
                "INSERT INTO windows VALUES (?1, ?2, ?3, ?4, (SELECT turn FROM plans WHERE id = ?1), ?5, ?6)"
                " ON CONFLICT (plan, phase, number, reversed)"
                " DO UPDATE SET turn = excluded.turn, docnos = excluded.docnos, key = excluded.key",
                [
                    (plan, phase, number, flip, json.dumps(docnos), key)
                    for plan, phase, number, flip, docnos, key in rows
                ],
            )

    def finish(self, plans: Sequence[int]) -> None:
        """Mark plans as judged to the end."""
        with self._writing():
            self._db.executemany("UPDATE plans SET finished = 1 WHERE id = ?", [(plan,) for plan in plans])

    def outcome(self, key: str) -> Outcome:
        """What is known of a window."""
        rows = self._read("SELECT failure, answer FROM attempts WHERE key = ? ORDER BY attempt", (key,))
        answer = next((json.loads(answer) for failure, answer in rows if not failure), None)
        return Outcome(answer, rows[-1][0] if rows and answer is None else "", len(rows))

    def record(
        self, key: str, *, answer: Any = None, failure: str = "", note: str = "", raw: Any = "", seconds: float = 0.0
    ) -> None:
        """Store one attempt at a window and commit: its answer, or the class of its failure and what the judge said.

        `note` says what is odd about an answer that counts all the same.
        """
        text = "" if raw is None else raw if isinstance(raw, str) else repr(raw)
        text = text.encode("utf-8", "backslashreplace").decode()  # half an emoji must not cost the answer
        with self._writing():
            self._db.execute(
                "INSERT INTO attempts SELECT ?, coalesce(max(attempt), 0) + 1, ?, ?, ?, ?, ?, ? FROM attempts"
                " WHERE key = ?",
                (key, failure, json.dumps(answer), note, text, time.time(), seconds, key),
            )


def _plain(value: Any) -> Any:
    """A numpy scalar as a plain value, for JSON."""
    item: Callable[[], Any] | None = getattr(value, "item", None)
    if item is None:
        raise TypeError(f"{value!r} cannot be kept beside a document")
    return item()
