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
from rcp_irx.judging.judges.base import Usage
from rcp_irx.judging.locks import QueryLocks
from rcp_irx.judging.rubric import Rubric

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

    One thread at a time may use it.

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
        self.path = None if path is None or path in ("", ":memory:") else os.fspath(path)
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
            if self.keep_text:
                texts = [(digest(d.text), "document", _storable(d.text)) for d in pool.documents]
                self._db.executemany("INSERT OR IGNORE INTO texts VALUES (?, ?, ?)", texts)
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
        self,
        pool: int,
        stage: str,
        judge: str,
        prompt: str,
        rubric: Rubric | None,
        note: str,
        protocol: dict[str, Any],
        reader: str = "",
    ) -> int:
        """Store that a pool is to be judged at a stage by a judge; returns the plan's number.

        It is unfinished until told, also when the protocol is another one than before. A plan of a pool that changed
        has in `grown_from` the finished plan of the earlier pool under the same protocol; another protocol plans the
        whole pool.
        """
        rubric_digest = rubric.digest if rubric is not None else ""
        base = self._earlier_plan(pool, stage, judge, digest(prompt), rubric_digest, json.dumps(protocol))
        with self._writing():
            for kind, text in [("prompt", prompt), ("rubric", rubric.to_json() if rubric is not None else "")]:
                self._db.execute("INSERT OR IGNORE INTO texts VALUES (?, ?, ?)", (digest(text), kind, text))
            self._db.execute(
                "INSERT INTO plans"
                " (pool, stage, judge, prompt, rubric, note, protocol, turn, finished, reader, grown_from)"
                " VALUES (?, ?, ?, ?, ?, ?, ?, 0, 0, ?, ?) ON CONFLICT (pool, stage, judge, prompt, rubric)"
                " DO UPDATE SET note = excluded.note, reader = excluded.reader, protocol = excluded.protocol,"
                " finished = CASE WHEN protocol = excluded.protocol THEN finished ELSE 0 END,"
                " grown_from = CASE WHEN NOT EXISTS (SELECT 1 FROM windows WHERE plan = plans.id)"
                " THEN excluded.grown_from WHEN protocol = excluded.protocol THEN grown_from END",
                (pool, stage, judge, digest(prompt), rubric_digest, note, json.dumps(protocol), reader, base),
            )
            plan = self._db.execute(
                "SELECT id FROM plans WHERE pool = ? AND stage = ? AND judge = ? AND prompt = ? AND rubric = ?",
                (pool, stage, judge, digest(prompt), rubric_digest),
            ).fetchone()[0]
        return int(plan)

    def _earlier_plan(self, pool: int, *plan: str) -> int | None:
        """The finished plan (stage, judge, prompt, rubric, protocol) of the pool that shares most with this one."""
        rows = self._read(
            "SELECT l.id FROM plans l JOIN pools o ON o.id = l.pool JOIN pools p ON p.id = ?1"
            " WHERE o.id != p.id AND o.dataset = p.dataset AND o.qid = p.qid AND o.question = p.question"
            " AND l.stage = ?2 AND l.judge = ?3 AND l.prompt = ?4 AND l.rubric = ?5 AND l.protocol = ?6 AND l.finished"
            " ORDER BY (SELECT count(*) FROM pool_documents a JOIN pool_documents b USING (docno, text)"
            " WHERE a.pool = o.id AND b.pool = p.id) DESC, o.turn DESC LIMIT 1",
            (pool, *plan),
        )
        return int(rows[0][0]) if rows else None

    def grown_from(self, plan: int) -> tuple[int, list[str]] | None:
        """The plan of the smaller pool that a plan adds to, and that pool's documents; None: it adds to none."""
        base = self._read(
            "SELECT b.id, b.pool FROM plans l JOIN plans b ON b.id = l.grown_from WHERE l.id = ?", (plan,)
        )
        if not base:
            return None
        documents = self._read("SELECT docno FROM pool_documents WHERE pool = ? ORDER BY docno", (base[0][1],))
        return int(base[0][0]), [docno for (docno,) in documents]

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
                    f"{query}: document {examples(changed)} was judged with another text in {self!r} (where texts are "
                    f"cut to fit, another context_length, prompt or rubric may cut them elsewhere); {advice}"
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

    def judges(self) -> list[tuple[str, str, str, str]]:
        """The judges that plans name: (name, stage, prompt, note), each once."""
        rows = self._read(
            "SELECT DISTINCT l.judge, l.stage, t.text, l.note FROM plans l JOIN texts t ON t.digest = l.prompt"
            " ORDER BY l.judge, l.stage"
        )
        return [tuple(row) for row in rows]

    def holds(self, dataset: str, qid: str) -> bool:
        """Whether a pool of this query was ever judged, or begun."""
        return bool(self._read("SELECT 1 FROM pools WHERE dataset = ? AND qid = ?", (dataset, qid)))

    def placed(self, plan: int) -> dict[tuple[str, int, bool], tuple[tuple[str, ...], str]]:
        """The windows planned so far by their place (phase, number, reversed): docnos in the order shown, key."""
        rows = self._read("SELECT phase, number, reversed, docnos, key FROM windows WHERE plan = ?", (plan,))
        return {
            (phase, number, bool(flip)): (tuple(json.loads(docnos)), key) for phase, number, flip, docnos, key in rows
        }

    def finished(self, plan: int) -> bool:
        """Whether a plan was judged to the end."""
        return bool(self._read("SELECT finished FROM plans WHERE id = ?", (plan,))[0][0])

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
        self,
        key: str,
        *,
        answer: Any = None,
        failure: str = "",
        note: str = "",
        raw: Any = "",
        usage: Usage | None = None,
        seconds: float = 0.0,
    ) -> None:
        """Store one attempt at a window and commit: its answer, or the class of its failure and what the judge said.

        `note` says what is odd about an answer that counts all the same.
        """
        usage = usage or Usage()
        text = "" if raw is None else raw if isinstance(raw, str) else repr(raw)
        text = _storable(text)
        with self._writing():
            self._db.execute(
                "INSERT INTO attempts SELECT ?1, coalesce(max(attempt), 0) + 1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10,"
                " ?11 FROM attempts WHERE key = ?1",
                (key, failure, json.dumps(answer), note, text, *_columns(usage), time.time(), seconds),
            )

    def rewrite(self, changes: Iterable[Any]) -> None:
        """Store what attempts mean when they are read again: (key, attempt, answer, failure) of each."""
        with self._writing():
            self._db.executemany(
                "UPDATE attempts SET answer = ?, failure = ? WHERE key = ? AND attempt = ?",
                [(json.dumps(c.answer), c.failure, c.key, c.attempt) for c in changes],
            )


def _storable(text: str) -> str:
    """A text that can be written: half an emoji must not cost an answer."""
    return text.encode("utf-8", "backslashreplace").decode()


def _columns(usage: Usage) -> tuple[str, str, int, int]:
    return usage.finish_reason, usage.model, usage.prompt_tokens, usage.completion_tokens


def _plain(value: Any) -> Any:
    """A numpy scalar as a plain value, for JSON."""
    item: Callable[[], Any] | None = getattr(value, "item", None)
    if item is None:
        raise TypeError(f"{value!r} cannot be kept beside a document")
    return item()
