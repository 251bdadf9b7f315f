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
    USUAL_SCORE,
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


def refuse_mixture(pool: Pool, judge: Judge, protocol: Protocol, log: JudgmentStore) -> None:
    """Refuse a pool that the log holds under another wording, prompt, document text, window size or seed."""
    log.refuse_mixture(pool, judge.name, _prompts(judge), protocol.describe())


def _prompts(judge: Judge) -> dict[str, str]:
    return {stage: judge.prompt(stage) for stage in (TOURNAMENT, RUBRIC)}


class PoolRunner:
    """The run of one pool: its plans in the log, its state machine, its keys.

    Making one puts the pool and its plans into the log, unfinished, and asks nothing; `run` asks.

    Parameters
    ----------
    retry_failed : bool
        Ask windows again whose failure stands. Failures of transport and rate limits are always asked again.

    Raises
    ------
    RCPError
        If the log holds the query under another wording, prompt, document text, window size or seed.
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
        self.pool, self.judge, self.rubric, self.protocol = pool, judge, rubric, protocol
        self.log, self.retry_failed = log, retry_failed
        self._prompts = _prompts(judge)
        settings = protocol.describe()
        refuse_mixture(pool, judge, protocol, log)
        number = log.add_pool(pool)
        rubrics = {TOURNAMENT: None, RUBRIC: rubric}
        self._plans = {
            stage: log.add_plan(number, stage, judge.name, prompt, rubrics[stage], judge.note, settings)
            for stage, prompt in self._prompts.items()
        }
        self.documents = tuple(sorted(pool.documents, key=lambda document: document.id))
        self._digests = [digest(document.text) for document in self.documents]
        self._question = question_of(pool.query)
        self._repeats: Counter[tuple[Any, ...]] = Counter()

    def run(self, on_window: Callable[[Outcome], None] = lambda outcome: None) -> None:
        """Ask every window that has no answer, round by round."""
        plans = list(self._plans.values())
        with self.log.judging(self.pool.query.dataset, self.pool.query.id):
            tournament = Tournament(self.pool, self.protocol, len(self.rubric), self._planned())
            self.log.begin(plans)
            self._repeats.clear()
            for places in tournament.rounds():
                keys = [self._key(place) for place in places]
                self.log.add_windows(self._row(place, key) for place, key in zip(places, keys, strict=True))
                for place, key in zip(places, keys, strict=True):
                    outcome = self._settle(place, key)
                    tournament.record(place, outcome.answer)
                    on_window(outcome)
            self.log.finish(plans)

    def _row(self, place: WindowPlace, key: str) -> tuple[int, str, int, bool, list[str], str]:
        docnos = [self.documents[i].id for i in place.documents]
        return self._plans[place.stage], place.phase, place.index, place.reversed, docnos, key

    def _planned(self) -> dict[tuple[str, str], list[tuple[int, ...]]]:
        """The windows that the log has planned for this pool, as indices into its sorted documents."""
        index = {document.id: i for i, document in enumerate(self.documents)}
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
        documents = [self.documents[i] for i in place.documents]
        again = self.retry_failed or outcome.failure in RETRIED
        for _ in range(ATTEMPTS if again else ATTEMPTS - outcome.attempts):
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
                raw, note = scored.raw, _note(answer)
            else:
                answered = self.judge.rubric(query, documents, self.rubric)
                answer = checked_passes(answered, query, documents, self.rubric)
                raw, note = answered.raw, ""
        except JudgeFailure as failure:
            self.log.record(key, failure=failure.kind, raw=failure.raw, seconds=time.perf_counter() - start)
            return Outcome(None, failure.kind, 1)
        self.log.record(key, answer=answer, note=note, raw=raw, seconds=time.perf_counter() - start)
        return Outcome(answer, "", 1)


def _note(scores: Sequence[float]) -> str:
    """What is odd about scores that count."""
    beyond = sum(abs(score) > USUAL_SCORE for score in scores)
    return f"{beyond} of {len(scores)} scores beyond {USUAL_SCORE:g} in size" if beyond else ""
