"""Runs the rounds of pools against a judge, one call at a time, and keeps every answer in the log.

Skips what is there.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from rcp_irx.documents import Document, Pool
from rcp_irx.judging.judges.base import (
    FINAL,
    RETRIED,
    Judge,
    JudgeFailure,
    checked_passes,
    checked_scores,
)
from rcp_irx.judging.protocol import Protocol
from rcp_irx.judging.rubric import Rubric
from rcp_irx.judging.store import JudgmentStore, Outcome, digest, question_of, window_key
from rcp_irx.judging.tournament import RUBRIC, TOURNAMENT, Tournament, WindowPlace

ATTEMPTS = 3
"""Calls at one window before its failure stands."""


class PoolRunner:
    """The run of one pool: its plans in the log, its state machine, its keys.

    Parameters
    ----------
    retry_failed : bool
        Ask windows again whose failure stands. Failures of transport and rate limits are always asked again.
    """

    def __init__(
        self,
        pool: Pool,
        judge: Judge,
        rubric: Rubric,
        protocol: Protocol,
        log: JudgmentStore,
        *,
        retry_failed: bool = False,
    ):
        self.pool, self.judge, self.rubric, self.log, self.retry_failed = pool, judge, rubric, log, retry_failed
        self._prompts = {stage: judge.prompt(stage) for stage in (TOURNAMENT, RUBRIC)}
        log.refuse_mixture(pool, judge.name, self._prompts)
        number = log.add_pool(pool)
        self._rubrics = {TOURNAMENT: None, RUBRIC: rubric}
        self._plans = {
            stage: log.add_plan(
                number, stage, judge.name, prompt, self._rubrics[stage], judge.note, protocol.describe()
            )
            for stage, prompt in self._prompts.items()
        }
        self._turn = log.next_turn()
        self.tournament = Tournament(pool, protocol, len(rubric), self._planned())
        self._digests = [digest(document.text) for document in self.tournament.documents]
        self._question = question_of(pool.query)
        self._repeats: Counter[tuple[Any, ...]] = Counter()

    def run(self, on_window: Callable[[Outcome], None] = lambda outcome: None) -> None:
        """Ask every window that has no answer, round by round."""
        for places in self.tournament.rounds():
            keys = [self._key(place) for place in places]
            ids = [document.id for document in self.tournament.documents]
            self.log.add_windows(
                self._turn,
                [
                    (self._plans[p.stage], p.phase, p.index, p.reversed, [ids[i] for i in p.documents], key)
                    for p, key in zip(places, keys, strict=True)
                ],
            )
            for place, key in zip(places, keys, strict=True):
                outcome = self._settle(place, key)
                self.tournament.record(place, outcome.answer)
                on_window(outcome)
        self.log.finish(list(self._plans.values()))

    def _planned(self) -> dict[tuple[str, str], list[tuple[int, ...]]]:
        """The windows that the log has planned for this pool, as indices into its sorted documents."""
        index = {docno: i for i, docno in enumerate(sorted(document.id for document in self.pool.documents))}
        return {
            (stage, phase): [tuple(index[docno] for docno in docnos) for docnos in windows]
            for stage, plan in self._plans.items()
            for phase, windows in self.log.planned(plan).items()
        }

    def _key(self, place: WindowPlace) -> str:
        """The window's key: the same content shown again in this pool gets the next repeat number."""
        texts = [self._digests[i] for i in place.documents]
        content = (place.stage, *texts)
        repeat = self._repeats[content]
        self._repeats[content] += 1
        rubric = self.rubric.digest if place.stage == RUBRIC else ""
        return window_key(
            place.stage, self.judge.name, digest(self._prompts[place.stage]), self._question, rubric, texts, repeat
        )

    def _settle(self, place: WindowPlace, key: str) -> Outcome:
        """The window's outcome: from the log where it stands there, else from up to three calls."""
        outcome = self.log.outcome(key)
        if outcome.answer is not None or (outcome.failure and not self._again(outcome)):
            return outcome
        documents = [self.tournament.documents[i] for i in place.documents]
        for _ in range(ATTEMPTS):
            outcome = self._call(place.stage, documents, key)
            if outcome.answer is not None or outcome.failure in FINAL:
                break
        return outcome

    def _again(self, outcome: Outcome) -> bool:
        return (
            self.retry_failed
            or outcome.failure in RETRIED
            or (outcome.failure not in FINAL and outcome.attempts < ATTEMPTS)
        )

    def _call(self, stage: str, documents: Sequence[Document], key: str) -> Outcome:
        """One call, its result in the log. Exceptions other than JudgeFailure end the run."""
        start = time.perf_counter()
        query = self.pool.query
        try:
            if stage == TOURNAMENT:
                scored = self.judge.tournament(query, documents)
                answer: Any = checked_scores(scored, query, documents)
                raw = scored.raw
            else:
                answered = self.judge.rubric(query, documents, self.rubric)
                answer = checked_passes(answered, query, documents, self.rubric)
                raw = answered.raw
        except JudgeFailure as failure:
            self.log.record(key, failure=failure.kind, raw=failure.raw, seconds=time.perf_counter() - start)
            return Outcome(None, failure.kind, 1)
        self.log.record(key, answer=answer, raw=raw, seconds=time.perf_counter() - start)
        return Outcome(answer, "", 1)
