"""JudgmentLog: what was asked and answered, as frames for people and as judged pools for the calibration.

Writing to the file is `store`'s work; what the answers mean is `calibrate`'s.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import pandas as pd

from rcp_irx.documents import Document, Pool, Query
from rcp_irx.errors import RCPError, examples
from rcp_irx.gains import GainTable
from rcp_irx.judging import calibrate as calibration
from rcp_irx.judging import rereading
from rcp_irx.judging.rubric import Rubric
from rcp_irx.judging.store import JudgmentStore
from rcp_irx.judging.tournament import RUBRIC, TOURNAMENT


class Plan(NamedTuple):
    """One stage of one pool for one judge, as the log holds it; prompt and rubric by their digests."""

    id: int
    dataset: str
    qid: str
    pool: int
    question: str
    stage: str
    judge: str
    prompt: str
    rubric: str
    note: str
    protocol: str
    turn: int
    finished: bool
    asked: bool


# What may differ between plans of one query but not within one fit: the field, the stages it matters in, what to do.
_ALIKE = [
    ("judge", (TOURNAMENT, RUBRIC), "choose one with judge=..."),
    ("rubric", (RUBRIC,), "choose one with rubric=... (a Rubric or its digest)"),
    ("prompt", (TOURNAMENT,), "use a log of its own for each prompt"),
    ("prompt", (RUBRIC,), "use a log of its own for each prompt"),
]


class JudgmentLog(JudgmentStore):
    """A log of judgments: one SQLite file, or memory where `path` is None.

    Every answer is on disk as soon as it is there, so that a stopped run loses nothing and a later one asks only
    what is
    missing.

    Raises
    ------
    RCPError
        If the file is no judgment log, is damaged, or was written by another version.
    """

    def windows(self) -> pd.DataFrame:
        """One row per planned window: where it stands, its documents in the order shown, its answer (None: none yet).

        A window that a changed pool takes over is one row, with its first place.

        Columns `dataset, qid, judge, stage, phase, number, reversed, docnos, answer, failure, attempts`.
        """
        rows = self._read(
            "SELECT p.dataset, p.qid, l.judge, l.stage, w.phase, w.number, w.reversed, w.docnos, w.key, min(l.id)"
            " FROM windows w JOIN plans l ON l.id = w.plan JOIN pools p ON p.id = l.pool"
            " GROUP BY p.dataset, p.qid, w.key, w.docnos ORDER BY p.dataset, p.qid, l.id, w.phase, w.number, w.reversed"
        )
        records = []
        for *place, flip, docnos, key, _ in rows:
            found = self.outcome(key)
            records.append([*place, bool(flip), json.loads(docnos), found.answer, found.failure, found.attempts])
        names = "dataset qid judge stage phase number reversed docnos answer failure attempts".split()
        return pd.DataFrame(records, columns=names)

    def failures(self) -> pd.DataFrame:
        """One row per failed attempt, and whether a later attempt was answered.

        Columns `dataset, qid, judge, stage, phase, number, attempt, failure, finish_reason, raw, answered`.
        """
        rows = self._read(
            "SELECT p.dataset, p.qid, l.judge, l.stage, w.phase, w.number, a.attempt, a.failure,"
            " a.finish_reason, a.raw, EXISTS (SELECT 1 FROM attempts b WHERE b.key = a.key AND b.failure = ''),"
            " min(l.id)"
            " FROM attempts a JOIN windows w ON w.key = a.key JOIN plans l ON l.id = w.plan"
            " JOIN pools p ON p.id = l.pool WHERE a.failure != '' GROUP BY p.dataset, p.qid, a.key, a.attempt"
            " ORDER BY p.dataset, p.qid, l.id, w.phase, w.number, w.reversed, a.attempt"
        )
        names = "dataset qid judge stage phase number attempt failure finish_reason raw answered".split()
        return pd.DataFrame([row[:-1] for row in rows], columns=names).astype({"answered": bool})

    def queries(self) -> pd.DataFrame:
        """The queries that were judged or begun, and by whom: `dataset, qid, judge`."""
        rows = self._read(
            "SELECT DISTINCT p.dataset, p.qid, l.judge FROM plans l JOIN pools p ON p.id = l.pool ORDER BY 1, 2, 3"
        )
        return pd.DataFrame(rows, columns=["dataset", "qid", "judge"], dtype=object)

    def usage(self, datasets: Iterable[str] | None = None) -> pd.DataFrame:
        """Calls made, for some datasets or all, one row per judge and stage.

        Columns `judge, stage, windows, calls, answered, noted, failed, prompt_tokens, completion_tokens, seconds`.
        Noted answers count although something is odd about them (scores beyond 5 in size, or all equal). Seconds of
        calls that were in flight at the same time add up.
        """
        rows = self._read(
            "WITH k AS (SELECT DISTINCT l.judge, l.stage, w.key FROM windows w JOIN plans l ON l.id = w.plan"
            " JOIN pools p ON p.id = l.pool WHERE ?1 IS NULL OR p.dataset IN (SELECT value FROM json_each(?1)))"
            " SELECT k.judge, k.stage, count(DISTINCT k.key), count(a.key), coalesce(sum(a.failure = ''), 0),"
            " coalesce(sum(a.note != ''), 0), coalesce(sum(a.failure != ''), 0), coalesce(sum(a.prompt_tokens), 0),"
            " coalesce(sum(a.completion_tokens), 0), coalesce(sum(a.seconds), 0.0)"
            " FROM k LEFT JOIN attempts a ON a.key = k.key GROUP BY k.judge, k.stage ORDER BY k.judge, k.stage DESC",
            [None if datasets is None else json.dumps(list(datasets))],
        )
        names = "judge stage windows calls answered noted failed prompt_tokens completion_tokens seconds".split()
        return pd.DataFrame(rows, columns=names)

    def texts(self) -> pd.DataFrame:
        """The documents' texts that the log keeps (`keep_text`): `dataset, qid, docno, text`."""
        rows = self._read(
            "SELECT DISTINCT p.dataset, p.qid, d.docno, t.text FROM pools p JOIN pool_documents d ON d.pool = p.id"
            " JOIN texts t ON t.digest = d.text AND t.kind = 'document'"
        )
        return pd.DataFrame(rows, columns=["dataset", "qid", "docno", "text"], dtype=object)

    def reparse(self) -> pd.DataFrame:
        """Read the raw answers of language models again with the present parser; nothing is asked.

        Attempts that failed in reading and now hold an answer become answers, and the other way round; refusals,
        answers that were cut off and those of judges that keep no model's own text stay as they are.

        Returns
        -------
        DataFrame
            One row per attempt that changed: `key, attempt, before, after` ("" is an answer).
        """
        changes = rereading.changes(self._reread_rows())
        self.rewrite(changes)
        rows = [(change.key, change.attempt, change.before, change.failure) for change in changes]
        return pd.DataFrame(rows, columns=["key", "attempt", "before", "after"])

    def _reread_rows(self) -> list[rereading.Attempt]:
        """The attempts that hold a language model's text, with what is needed to read it."""
        rows = self._read(
            "SELECT DISTINCT a.key, a.attempt, a.failure, a.answer, a.raw, w.docnos, coalesce(t.text, ''),"
            " q.text FROM attempts a JOIN windows w ON w.key = a.key JOIN plans l ON l.id = w.plan"
            " LEFT JOIN texts t ON t.digest = l.rubric AND t.kind = 'rubric'"
            " JOIN texts q ON q.digest = l.prompt AND q.kind = 'prompt'"
            " WHERE l.reader = 'json' AND a.raw != '' ORDER BY a.key, a.attempt"
        )
        return [
            rereading.Attempt(key, attempt, failure, json.loads(answer), raw, len(json.loads(docnos)), rubric, prompt)
            for key, attempt, failure, answer, raw, docnos, rubric, prompt in rows
        ]

    def judged(
        self,
        *,
        datasets: Iterable[str] | None = None,
        judge: str | None = None,
        rubric: str | None = None,
        queries: Sequence[tuple[str, str]] | None = None,
    ) -> list[calibration.JudgedPool]:
        """The judgments of each query's present pool, sorted by (dataset, qid).

        Parameters
        ----------
        datasets, queries
            Only these datasets, or these (dataset, qid).
        judge, rubric
            A judge's name and a rubric's digest, where the log holds several for one query.

        Raises
        ------
        RCPError
            Several judges, prompts, rubrics, query or document texts for one query: they are listed.
        """
        plans = self._plans(datasets, judge, rubric, queries)
        return [self._judged(plans[key]) for key in sorted(plans)]

    def _plans(
        self,
        datasets: Iterable[str] | None,
        judge: str | None,
        rubric: str | None,
        queries: Sequence[tuple[str, str]] | None = None,
    ) -> dict[tuple[str, str], list[Plan]]:
        """The plans that a choice of datasets, judge, rubric and queries leaves, by (dataset, qid)."""
        wanted = self._datasets(datasets)
        one_query = "" if queries is None or len(queries) != 1 else " WHERE p.dataset = ? AND p.qid = ?"
        rows = self._read(
            "SELECT l.id, p.dataset, p.qid, p.id, p.question, l.stage, l.judge, l.prompt, l.rubric, l.note, l.protocol,"
            " l.turn, l.finished, EXISTS (SELECT 1 FROM windows w JOIN attempts a ON a.key = w.key WHERE w.plan = l.id)"
            f" FROM plans l JOIN pools p ON p.id = l.pool{one_query} ORDER BY p.turn, l.id",
            queries[0] if one_query and queries else (),
        )
        found: dict[tuple[str, str], list[Plan]] = {}
        for plan in map(Plan._make, rows):
            if (
                (wanted is None or plan.dataset in wanted)
                and (queries is None or (plan.dataset, plan.qid) in queries)
                and judge in (None, plan.judge)
                and (plan.stage == TOURNAMENT or rubric in (None, plan.rubric))
            ):
                found.setdefault((plan.dataset, plan.qid), []).append(plan)
        return {key: self._that_count(plans) for key, plans in found.items()}

    def _that_count(self, plans: list[Plan]) -> list[Plan]:
        """A query's plans without those that were begun, asked nothing, and do not go with what was asked."""
        asked = [plan for plan in plans if plan.asked]
        if not asked:
            return [plan for plan in plans if plan.pool == plans[-1].pool]
        kept = []
        for plan in plans:
            like = [other for other in asked if other.stage == plan.stage]
            fits = plan.question == asked[-1].question and all(
                (other.judge, other.prompt, other.rubric) == (plan.judge, plan.prompt, plan.rubric) for other in like
            )
            if plan.asked or (fits and not self._other_texts(plan.pool, {other.pool for other in asked})):
                kept.append(plan)
        return kept

    def _other_texts(self, pool: int, others: set[int]) -> bool:
        """Whether a pool has another text for a document of other pools."""
        marks = ",".join("?" * len(others))
        return bool(
            self._read(
                "SELECT 1 FROM pool_documents a JOIN pool_documents b ON a.docno = b.docno AND a.text != b.text"
                f" WHERE a.pool = ? AND b.pool IN ({marks}) LIMIT 1",
                (pool, *others),
            )
        )

    def _datasets(self, datasets: Iterable[str] | None) -> list[str] | None:
        """The chosen datasets; one may be given by itself. Each must be in the log."""
        if datasets is None:
            return None
        chosen = [datasets] if isinstance(datasets, str) else list(datasets)
        held = [name for (name,) in self._read("SELECT DISTINCT dataset FROM pools ORDER BY dataset")]
        absent = set(chosen) - set(held)
        if absent:
            raise RCPError(f"{self!r} has no dataset {examples(absent)}; it holds {examples(held) or 'none'}")
        return chosen

    def _judged(self, plans: Sequence[Plan]) -> calibration.JudgedPool:
        """The judgments of one query from its plans; those of earlier pools count too."""
        where = str(Query(plans[0].qid, "", plans[0].dataset))
        for field, stages, advice in _ALIKE:
            _only(
                {getattr(plan, field) for plan in plans if plan.stage in stages},
                f"{where} was judged with",
                field,
                advice,
            )
        advice = "use a log of its own for each wording"
        _only({plan.question for plan in plans}, f"{where} was judged with", "query text, context or task", advice)
        self._refuse_changed_texts(where, sorted({plan.pool for plan in plans}))
        number = self._present_pool(sorted({plan.pool for plan in plans}))
        present = [plan for plan in plans if plan.pool == number]
        judged = calibration.JudgedPool(self._pool(number, plans[0]))
        answers: dict[tuple[str, str], tuple[str, Any]] = {}
        for plan in plans:
            for docnos, key, turn in self._read("SELECT docnos, key, turn FROM windows WHERE plan = ?", (plan.id,)):
                answer = self.outcome(key).answer
                if plan in present and turn == plan.turn:
                    judged.planned += 1
                    judged.failed += answer is None
                if answer is not None:
                    answers[key, docnos] = plan.stage, answer
        for (_, docnos), (stage, answer) in sorted(answers.items()):
            shown = tuple(json.loads(docnos))
            if stage == TOURNAMENT:
                judged.tournament.append((shown, tuple(answer)))
            else:
                judged.rubric.append((shown, tuple(tuple(row) for row in answer)))
        judged.finished = {plan.stage for plan in present} == {TOURNAMENT, RUBRIC} and all(p.finished for p in present)
        return judged

    def _present_pool(self, pools: Sequence[int]) -> int:
        """The pool that was judged last."""
        marks = ",".join("?" * len(pools))
        return int(self._read(f"SELECT id FROM pools WHERE id IN ({marks}) ORDER BY turn DESC LIMIT 1", pools)[0][0])

    def _pool(self, number: int, plan: Plan) -> Pool:
        """A stored pool; its documents' texts are not kept."""
        text, context, task = json.loads(plan.question)
        rows = self._read("SELECT docno, columns FROM pool_documents WHERE pool = ? ORDER BY rank", (number,))
        return Pool(
            Query(plan.qid, text, plan.dataset, tuple((name, value) for name, value in context), task),
            tuple(Document(docno, "") for docno, _ in rows),
            tuple(json.loads(columns) for _, columns in rows),
        )

    def _refuse_changed_texts(self, where: str, pools: Sequence[int]) -> None:
        marks = ",".join("?" * len(pools))
        rows = self._read(
            f"SELECT docno FROM pool_documents WHERE pool IN ({marks}) GROUP BY docno HAVING count(DISTINCT text) > 1",
            pools,
        )
        if rows:
            names = examples(docno for (docno,) in rows)
            raise RCPError(
                f"{where}: several texts were judged for document {names}; use a log of its own for each version"
            )

    def calibrate(
        self,
        *,
        datasets: Iterable[str] | None = None,
        judge: str | None = None,
        rubric: Rubric | str | None = None,
        criteria: GainTable | None = None,
        excluded: pd.DataFrame | None = None,
        max_failed: float = 0.05,
        incomplete: str = "refuse",
        leave_out: Iterable[str | tuple[str, ...]] = (),
    ) -> GainTable:
        """Fit the 2PL over every judged query (Eq. 7) and return the gains.

        Parameters
        ----------
        datasets : iterable of str, optional
            Only these datasets.
        judge : str, optional
            The judge's name, where the log holds several.
        rubric : Rubric or str, optional
            The rubric or its digest, where the log holds several.
        criteria, excluded, max_failed, incomplete, leave_out
            As in `rcp_irx.judging.calibrate.calibrate`.

        Raises
        ------
        RCPError
            Several judges, prompts, rubrics or texts (listed); and what the calibration refuses.
        """
        wanted = rubric.digest if isinstance(rubric, Rubric) else rubric
        datasets = self._datasets(datasets)
        judged = self.judged(datasets=datasets, judge=judge, rubric=wanted)
        plans = [plan for found in self._plans(datasets, judge, wanted).values() for plan in found]
        if not self._read("SELECT 1 FROM plans LIMIT 1"):
            raise RCPError(f"{self!r} is empty: judge a pool first, with RCPJudge(judge, log=...)")
        if not plans:
            held = (
                f"it holds judge {examples(p.judge for found in self._plans(None, None, None).values() for p in found)}"
            )
            raise RCPError(f"{self!r} has no judgments for this choice of datasets, judge and rubric; {held}")
        for field, stages, advice in _ALIKE:
            _only({getattr(plan, field) for plan in plans if plan.stage in stages}, "one fit cannot mix", field, advice)
        rubrics = sorted({plan.rubric for plan in plans if plan.stage == RUBRIC})
        if not rubrics:
            raise RCPError(f"{self!r} has no rubric answers for this choice; run the judge with the rubric first")
        text = self._read("SELECT text FROM texts WHERE digest = ?", (rubrics[0],))[0][0]
        return calibration.calibrate(
            judged,
            Rubric.from_json(text),
            criteria=criteria,
            excluded=excluded,
            max_failed=max_failed,
            incomplete=incomplete,
            leave_out=leave_out,
            metadata={
                "judge": plans[0].judge,
                "prompts": {plan.stage: plan.prompt for plan in plans},
                "protocol": [json.loads(protocol) for protocol in sorted({plan.protocol for plan in plans})],
                "note": "; ".join(sorted({plan.note for plan in plans if plan.note})),
            },
        )


def _only(values: set[str], where: str, what: str, advice: str) -> None:
    if len(values) > 1:
        raise RCPError(f"{where} several values of {what}: {examples(values)}; {advice}")
