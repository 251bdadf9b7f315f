"""Runs the rounds of pools against a judge and keeps every answer in the log; what has an answer there is not asked.

A judge with plain methods is called window by window; one with `atournament` and `arubric` has many calls in flight.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Generator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, TypeAlias

from rcp_irx.documents import Document, Pool
from rcp_irx.judging.asking import Ask, OnWindow, Window
from rcp_irx.judging.budget import cut
from rcp_irx.judging.concurrency import PriorityLimit, Turn, run_to_end, together
from rcp_irx.judging.judges.base import FINAL, RETRIED, Judge
from rcp_irx.judging.protocol import Protocol
from rcp_irx.judging.rubric import Rubric
from rcp_irx.judging.spending import RunStopped, Spending
from rcp_irx.judging.store import JudgmentStore, Outcome, digest, question_of, window_key
from rcp_irx.judging.tournament import RUBRIC, TOURNAMENT, Tournament, WindowPlace

Placed: TypeAlias = dict[tuple[str, int, bool], tuple[tuple[str, ...], str]]
"""Windows by their place (phase, number, reversed): the documents in the order shown, and the key."""

ATTEMPTS = 3
"""Calls at one window before its failure stands."""

CALLS_AHEAD = 4
"""At most one more query is under way for so many calls that may be in flight: a query's last rounds are narrow."""

ROUNDS_AHEAD = 2
"""The last queries' narrow rounds fill the limit so often: while one is answered, the next is there to be asked."""

WAIT_FOR_OTHERS = 0.2
"""Seconds between two looks at a query that another process is judging."""


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
            stage: log.add_plan(number, stage, judge.name, prompt, rubrics[stage], judge.note, settings, judge.reader)
            for stage, prompt in self._prompts.items()
        }
        self.documents = tuple(sorted(pool.documents, key=lambda document: document.id))
        self._digests = [digest(document.text) for document in self.documents]
        self._question = question_of(pool.query)
        self._held: dict[str, Placed] = {}
        self._keys: set[str] = set()  # of the windows that have one

    def run(self, on_window: OnWindow = lambda outcome: None, spending: Spending | None = None) -> None:
        """Ask every window that has no answer, round by round."""
        run_pools([self], spending or Spending(), on_window)

    def batch(self) -> int:
        """The windows of an adaptive round, which is the narrowest."""
        return min(self.protocol.counts(len(self.documents)).adaptive, default=1)

    def windows(self) -> int:
        """The windows that a run goes through, those with an answer in the log too."""
        tournament = self._tournament(self._all_placed())
        return sum(number * (1 + tournament.is_reversed(*key)) for key, number in tournament.needed().items())

    def to_ask(self) -> tuple[int, int]:
        """The tournament and rubric windows without an answer that stands."""
        placed, wanted = self._all_placed(), Counter[str]()
        tournament = self._tournament(placed)
        for (stage, phase), windows in tournament.needed().items():
            for number in range(windows):
                for flip in (False, True)[: 1 + tournament.is_reversed(stage, phase)]:
                    held = placed[stage].get((phase, number, flip))
                    wanted[stage] += held is None or self._to_ask(self.log.outcome(held[1]))
        return wanted[TOURNAMENT], wanted[RUBRIC]

    def finished(self) -> bool:
        """Whether both stages have been judged to the end."""
        return all(self.log.finished(plan) for plan in self._plans.values())

    def call_by_call(self, ask: Ask) -> None:
        """Judge the pool with one call at a time."""
        query = self.pool.query
        self.log.locks.take(query.dataset, query.id, wait=True)
        try:
            rounds = self._rounds()
            outcomes: list[Outcome] | None = None
            while (windows := _next(rounds, outcomes)) is not None:
                outcomes = [self._settle(window, ask) for window in windows]
        finally:
            self.log.locks.give_back(query.dataset, query.id)

    async def many_calls(self, ask: Ask, priority: int, *, by_round: bool = False) -> None:
        """Judge the pool with every window of a round in flight, as far as the limit allows.

        Calls of lower `priority` go first; with `by_round`, among equals those of earlier rounds.
        """
        query = self.pool.query
        while not self.log.locks.take(query.dataset, query.id, wait=False):
            await asyncio.sleep(WAIT_FOR_OTHERS)
            if ask.spending.stopped_at:
                raise ask.spending.stop()
        try:
            rounds = self._rounds()
            outcomes: list[Outcome] | None = None
            turn = (priority, 0)
            while (windows := _next(rounds, outcomes)) is not None:
                outcomes = await together(
                    [self._settle_later(window, ask, turn) for window in windows], drain=(RunStopped,)
                )
                turn = (priority, turn[1] + by_round)
        finally:
            self.log.locks.give_back(query.dataset, query.id)

    def _rounds(self) -> Generator[list[Window], list[Outcome], None]:
        """The windows of each round; their outcomes are sent back."""
        plans = list(self._plans.values())
        self._held = self._all_placed()
        self._keys = {key for held in self._held.values() for _, key in held.values()}
        tournament = self._tournament(self._held)
        self.log.begin(plans)
        for places in tournament.rounds():
            keys = [self._key(place) for place in places]
            self.log.add_windows(self._row(place, key) for place, key in zip(places, keys, strict=True))
            outcomes = yield [self._window(place, key) for place, key in zip(places, keys, strict=True)]
            for place, outcome in zip(places, outcomes, strict=True):
                tournament.record(place, outcome.answer)
        self.log.finish(plans)

    def _all_placed(self) -> dict[str, Placed]:
        return {stage: self._placed(stage) for stage in self._plans}

    def _tournament(self, placed: dict[str, Placed]) -> Tournament:
        """The pool's state machine, with the windows that the log has planned for it and the documents known before."""
        index = {document.id: i for i, document in enumerate(self.documents)}
        planned: dict[tuple[str, str], list[tuple[int, ...]]] = {}
        known = {}
        for stage in self._plans:
            base = self._base(stage)
            if base is not None:
                known[stage] = [index[docno] for docno in base[1]]
            for (phase, _, flip), (docnos, _) in sorted(placed[stage].items()):
                if not flip:
                    planned.setdefault((stage, phase), []).append(tuple(index[docno] for docno in docnos))
        return Tournament(self.pool, self.protocol, len(self.rubric), planned, known)

    def _base(self, stage: str) -> tuple[int, list[str]] | None:
        """The plan of the earlier pool that this one goes on from, and the documents that both hold.

        Beyond half of new documents, judging all anew is cheaper.
        """
        base, own = self.log.grown_from(self._plans[stage]), {document.id for document in self.documents}
        shared = [docno for docno in base[1] if docno in own] if base is not None else []
        return (base[0], shared) if base is not None and len(shared) * 2 >= len(own) else None

    def _placed(self, stage: str) -> Placed:
        """The stage's planned windows by place: its own, or those of the earlier pool whose documents are all here."""
        placed = self.log.placed(self._plans[stage])
        base = None if placed else self._base(stage)
        if base is None:
            return placed
        own = {document.id for document in self.documents}
        numbers: Counter[tuple[str, bool]] = Counter()
        kept: Placed = {}
        for (phase, _, flip), held in sorted(self.log.placed(base[0]).items()):
            if own.issuperset(held[0]):
                kept[phase, numbers[phase, flip], flip] = held
                numbers[phase, flip] += 1
        return kept

    def _row(self, place: WindowPlace, key: str) -> tuple[int, str, int, bool, list[str], str]:
        docnos = [self.documents[i].id for i in place.documents]
        return self._plans[place.stage], place.phase, place.index, place.reversed, docnos, key

    def _window(self, place: WindowPlace, key: str) -> Window:
        shown = tuple(self.documents[i] for i in place.documents)
        return Window(self.judge, place.stage, self.pool.query, shown, self.rubric, key, self.log)

    def _key(self, place: WindowPlace) -> str:
        """The window's key: the one it has in the log, else that of its content with the next free repeat number."""
        docnos = tuple(self.documents[i].id for i in place.documents)
        held = self._held[place.stage].get((place.phase, place.index, place.reversed))
        if held is not None and held[0] == docnos:
            return held[1]
        texts = [self._digests[i] for i in place.documents]
        rubric = self.rubric.digest if place.stage == RUBRIC else ""
        prompt = digest(self._prompts[place.stage])
        keys = (
            window_key(place.stage, self.judge.name, prompt, self._question, rubric, texts, repeat)
            for repeat in count()
        )
        key = next(key for key in keys if key not in self._keys)
        self._keys.add(key)
        return key

    def _settle(self, window: Window, ask: Ask) -> Outcome:
        """The window's outcome: from the log where it stands there, else from up to three calls."""
        outcome = self.log.outcome(window.key)
        for _ in self._attempts(outcome):
            outcome = ask.now(window)
            if outcome.answer is not None or outcome.failure in FINAL:
                break
        ask.on_window(outcome)
        return outcome

    async def _settle_later(self, window: Window, ask: Ask, turn: Turn) -> Outcome:
        """As `_settle`, waiting for a place under the limit before each call."""
        outcome = self.log.outcome(window.key)
        for attempt in self._attempts(outcome):
            outcome = await ask.later(window, attempt, turn)
            if outcome.answer is not None or outcome.failure in FINAL:
                break
        ask.on_window(outcome)
        return outcome

    def _attempts(self, outcome: Outcome) -> range:
        """The attempts to be made at a window, counted from 0 over its whole life, as far as none is answered."""
        if not self._to_ask(outcome):
            return range(0)
        again = self.retry_failed or outcome.failure in RETRIED
        return range(ATTEMPTS) if again else range(outcome.attempts, ATTEMPTS)

    def _to_ask(self, outcome: Outcome) -> bool:
        if outcome.answer is not None:
            return False
        return (
            not outcome.failure
            or self.retry_failed
            or outcome.failure in RETRIED
            or (outcome.failure not in FINAL and outcome.attempts < ATTEMPTS)
        )


def run_pools(runners: Sequence[PoolRunner], spending: Spending, on_window: OnWindow = lambda outcome: None) -> None:
    """Run pools of one judge to their ends, in order.

    A judge with `atournament` and `arubric` has at most `max_concurrency` calls in flight over all pools; later pools
    begin only to keep that many, and wait behind earlier ones.

    Raises
    ------
    RunStopped
        At a limit of `spending`, once what is in flight has been answered.
    RCPError
        If the judge cannot be reached, or answers what no judge may.
    """
    if not runners:
        return
    judge = runners[0].judge
    try:
        if judge.is_async:
            run_to_end(lambda: _many_calls(runners, judge.max_concurrency, spending, on_window))
        else:
            for runner in runners:
                runner.call_by_call(Ask(spending, on_window))
    except RunStopped:
        raise spending.stop() from None  # what was in flight has been answered, and counts


async def _many_calls(
    runners: Sequence[PoolRunner], max_concurrency: int, spending: Spending, on_window: OnWindow
) -> None:
    """Run pools with many calls in flight: as many pools at a time as it takes to keep the limit full.

    Earlier pools go first, so that a run that stops leaves whole pools, and a pool begins once few windows wait. Only
    the last ones go round by round together: one after the other, their narrow adaptive rounds would leave most of the
    limit unused at the end.
    """
    places = max(1, max_concurrency)
    limit, one_begins = PriorityLimit(places), asyncio.Lock()
    ask = Ask(spending, on_window, limit)
    together_at_end = -(-ROUNDS_AHEAD * places // runners[-1].batch())
    first_of_these = max(0, len(runners) - together_at_end)
    queue = iter(enumerate(runners))

    async def work() -> None:
        for place, runner in queue:
            async with one_begins:
                for _ in range(2):  # turns of the loop, after which the windows of the pool that began before wait
                    await asyncio.sleep(0)
                if place <= first_of_these:
                    await limit.running_low()
            if spending.stopped_at:
                raise spending.stop()
            await runner.many_calls(ask, min(place, first_of_these), by_round=place >= first_of_these)

    active = 1 if places == 1 else max(places // CALLS_AHEAD, together_at_end) + 2
    try:
        await together((work() for _ in range(min(active, len(runners)))), drain=(RunStopped,))
    finally:
        await runners[0].judge.aclose()


def remaining(
    pool: Pool,
    judge: Judge,
    rubric: Rubric,
    protocol: Protocol,
    log: JudgmentStore,
    *,
    retry_failed: bool = False,
) -> tuple[int, int]:
    """The tournament and rubric calls that a pool still takes, if each is answered at once; the log stays as it is.

    Adaptive windows depend on answers, so those that are not planned yet are counted by the protocol.
    """
    if not log.holds(pool.query.dataset, pool.query.id):
        counts = protocol.counts(len(pool.documents))
        return counts.tournament, counts.rubric
    with log.trial():
        return PoolRunner(pool, judge, rubric, protocol, log, retry_failed=retry_failed).to_ask()


def fitted(pool: Pool, judge: Judge, rubric: Rubric, size: int) -> Pool:
    """The pool as the judge can be shown it: texts cut to its context, each cut recorded in a column `not_shown`."""
    most = judge.document_tokens(pool.query, rubric, size)
    if most is None:
        return pool
    shown = [cut(document.text, most) for document in pool.documents]
    columns = pool.columns or ({},) * len(pool.documents)
    return replace(
        pool,
        documents=tuple(Document(d.id, text) for d, (text, _) in zip(pool.documents, shown, strict=True)),
        columns=tuple({**kept, "not_shown": hidden} for kept, (_, hidden) in zip(columns, shown, strict=True)),
    )


def _next(rounds: Generator[list[Window], Any, None], outcomes: list[Outcome] | None) -> list[Window] | None:
    """The next round, None after the last."""
    try:
        return rounds.send(outcomes) if outcomes is not None else next(rounds)
    except StopIteration:
        return None
