"""Judges the pools of a frame against a log: estimates, progress, clean stops. Frames in; answers stay in the log.

One window at a time is `runner`'s; what a frame gets back is its caller's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd
from tqdm.auto import tqdm

from rcp_irx.documents import Pool, pools
from rcp_irx.errors import RCPError, counted, examples, warn
from rcp_irx.judging.estimate import Estimate, estimate, refuse_cost_without_prices, window_costs
from rcp_irx.judging.judges.base import Judge
from rcp_irx.judging.log import JudgmentLog
from rcp_irx.judging.protocol import FULL, Protocol
from rcp_irx.judging.rubric import Rubric
from rcp_irx.judging.runner import PoolRunner, fitted, refuse_mixture, remaining, run_pools
from rcp_irx.judging.spending import RunStopped, Spending
from rcp_irx.judging.store import Outcome
from rcp_irx.pooling import SOURCE_RANK

POOL_COLUMNS = ("origin",)


@dataclass
class Labelling:
    """Who is asked, about what, as often as which protocol says, and where the answers are kept.

    Raises
    ------
    RCPError
        A judge without a name, one that costs money with a log in memory, or something that is no judge, protocol or
        rubric.
    """

    judge: Judge
    log: JudgmentLog
    rubric: Rubric
    protocol: Protocol = FULL
    retry_failed: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.judge, Judge):
            raise RCPError(f"judge must be a Judge such as LexicalJudge(), not {self.judge!r}")
        if not isinstance(self.protocol, Protocol):
            raise RCPError(f"protocol must be FULL, REDUCED or another Protocol, not {self.protocol!r}")
        if not isinstance(self.rubric, Rubric):
            raise RCPError(f"rubric must be a Rubric, such as Rubric.load('mine.toml'), not {self.rubric!r}")
        if not isinstance(self.judge.name, str) or not self.judge.name:
            kind = type(self.judge).__name__
            raise RCPError(f"{kind} has no name; it must tell the model and every setting that changes answers")
        if self.judge.paid and self.log.path is None:
            raise RCPError(
                f"judge {self.judge.name!r} costs money: give log='some.judgments', so that no answer is paid for twice"
            )

    def pools(
        self,
        frame: pd.DataFrame,
        *,
        text_field: str = "text",
        context_fields: Sequence[str] = (),
        task: str | None = None,
        dataset: str = "",
    ) -> list[Pool]:
        """The pools of a frame, their texts cut to what the judge can be shown; as `documents.pools`."""
        keep = [name for name in frame.columns if name in POOL_COLUMNS or name.startswith(SOURCE_RANK)]
        found = pools(
            frame, text_field=text_field, context_fields=context_fields, task=task, dataset=dataset, keep=keep
        )
        return [fitted(pool, self.judge, self.rubric, self.protocol.size) for pool in found]

    def estimate(self, found: Sequence[Pool]) -> Estimate:
        """What judging pools still takes; answers in the log are not counted."""
        calls = [
            remaining(one, self.judge, self.rubric, self.protocol, self.log, retry_failed=self.retry_failed)
            for one in found
        ]
        costs = [window_costs(one, self.judge, self.rubric, self.protocol.size) for one in found]
        return estimate(found, calls, self.judge, costs)

    def run(self, found: Sequence[Pool], spending: Spending | None = None, *, verbose: bool = False) -> Spending:
        """Ask what the log does not hold, and return what that took.

        Raises
        ------
        RunStopped
            At a limit of `spending`; the message says how to go on.
        RCPError
            If the log holds a query under another text, prompt, window size or seed; before anything is asked.
        KeyboardInterrupt
            With a message that says how to go on.

        Warns
        -----
        RCPWarning
            If documents were cut to fit the judge's context.
        """
        spending = spending or Spending()
        refuse_cost_without_prices(self.judge, spending.max_cost)
        for pool in found:
            refuse_mixture(pool, self.judge, self.protocol, self.log)
        runners = [
            PoolRunner(pool, self.judge, self.rubric, self.protocol, self.log, retry_failed=self.retry_failed)
            for pool in found
        ]  # all are in the log before the first window is asked, so that a stopped run shows what is missing
        total = sum(runner.windows() for runner in runners)
        with tqdm(total=total, disable=not verbose, desc="RCPJudge", unit="window") as progress:

            def shown(outcome: Outcome) -> None:
                progress.set_postfix_str(spending.describe(), refresh=False)
                progress.update()

            try:
                run_pools(runners, spending, shown)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(
                    f"stopped after {spending.describe()}; every answer is in the log, run again to go on"
                ) from None
            except RunStopped as stopped:
                whole = sum(runner.finished() for runner in runners)
                raise RunStopped(
                    f"{stopped}; {whole} of {counted(len(runners), 'query', 'queries')} judged to the end. Run again "
                    "to go on; log.calibrate(incomplete='leave_out') uses what is whole"
                ) from None
        _warn_of_cuts(found)
        return spending


def _warn_of_cuts(found: Sequence[Pool]) -> None:
    hidden = [
        (pool.query.id, document.id, f"{columns['not_shown']:.0%}")
        for pool in found
        for document, columns in zip(pool.documents, pool.columns, strict=False)
        if columns.get("not_shown")
    ]
    if hidden:
        number = counted(len(hidden), "document was", "documents were")
        warn(f"{number} cut to fit the context; query, document, share not shown: {examples(hidden)}")
