"""What is written to a judgment log, and how a window is found again.

Reading it whole is `log`'s work.

An answer is stored under the hash of everything that can change it (`window_key`) and committed at once. A window's
place in a query's schedule is stored beside it, not in the key.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from rcp_irx.documents import Pool, Query
from rcp_irx.errors import RCPError, examples
from rcp_irx.judging.database import Database
from rcp_irx.judging.judges.base import Usage
from rcp_irx.judging.rubric import Rubric


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


class JudgmentStore(Database):
    """Pools, plans, windows and attempts in a `Database`, which says what is given and raised."""

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
