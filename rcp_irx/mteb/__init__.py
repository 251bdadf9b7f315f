"""RCP scores in MTEB (version 2): tasks that report them, pools for a judge, saved predictions, leaderboards.

`tasks` wraps a task, `sources` finds each subset's gains, `scoring` turns results into scores, `cached` looks for
results of other gains, `predictions` reads saved runs, `pools` makes what a judge is shown, `benchmarks` and `boards`
sum up. Nothing else imports this.
"""

from __future__ import annotations

import sys

from rcp_irx.errors import MissingExtra

try:
    import mteb  # noqa: F401
except ModuleNotFoundError as error:
    if error.name != "mteb":
        raise
    missing = MissingExtra("mteb", "mteb")
    if sys.version_info < (3, 11):
        here = "{}.{}".format(*sys.version_info)
        missing.msg = f"mteb needs Python 3.11 or newer, and this is Python {here}: its extra installs nothing here"
    raise missing from error

from rcp_irx.mteb.benchmarks import benchmark
from rcp_irx.mteb.boards import leaderboard
from rcp_irx.mteb.pools import pool
from rcp_irx.mteb.predictions import score_predictions
from rcp_irx.mteb.tasks import with_rcp

__all__ = ["benchmark", "leaderboard", "pool", "score_predictions", "with_rcp"]
