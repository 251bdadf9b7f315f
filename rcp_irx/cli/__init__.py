"""rcp-irx: the command line. A thin layer; what it does is in the rooms it calls."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import click

from rcp_irx.cli.app import app
from rcp_irx.errors import MissingExtra, RCPError, RCPWarning

CHECK_FAILED, BAD_INPUT, INTERRUPTED = 1, 2, 130
"""Exit codes beside 0: a check that failed, bad usage or input, Ctrl-C."""

IN_THE_SHELL = {
    r"log\.calibrate\(incomplete='leave_out'\)": "`rcp-irx fit --leave-out-incomplete`",
    r"overwrite=True": "--overwrite",
    r"compare with label_noise=False": "compare without --label-noise",
    r"label_noise=True": "--label-noise",
    r"log\.calibrate\(\) gives it": "`rcp-irx fit` gives it",
    r"a folder of GainTable\.save: open it with GainTable\.load": "a folder of gains: name it without #",
    r"give [^:,]* a 'dataset' column, or select one dataset": "give --dataset",
    r"use \.select\(dataset\)\.qrels\(\.\.\.\)": "give --dataset",
    r"needs qrels=": "needs --qrels",
    r"give it prices=": "give --prices ",
    r"RCPJudge\(judge, log=\.\.\.\)": "`rcp-irx judge`",
    r"pass api_key=\.\.\.": "(the command line takes no key)",
    r"pass base_url=\.\.\.": "pass --base-url",
}
"""What messages of the library (patterns) are called here."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is 0, 1 where a check failed, 2 for bad usage or input, 130 after Ctrl-C."""
    with warnings.catch_warnings():
        warnings.simplefilter("always", RCPWarning)
        warnings.showwarning = _told_once()
        return _run(arguments)


def _run(arguments: Sequence[str] | None) -> int:
    try:
        code = app.main(args=arguments, prog_name="rcp-irx", standalone_mode=False)
        if sys.stdout is not None:  # closed by the shell
            sys.stdout.flush()
        return code if isinstance(code, int) else 0
    except click.UsageError as error:
        command = error.ctx.command_path if error.ctx else "rcp-irx"
        return _said(f"{error.format_message()} See `{command} --help`.", BAD_INPUT)
    except click.ClickException as error:
        return _said(error.format_message(), BAD_INPUT)
    except click.Abort as error:
        return _said(str(error.__cause__ or "") or "stopped", INTERRUPTED)
    except (BrokenPipeError, SystemExit):  # click's answer to a broken pipe: whoever read our output has had enough
        return 0
    except (RCPError, MissingExtra, OSError) as error:
        return _said(str(error), CHECK_FAILED if _is_stop(error) else BAD_INPUT)


def _is_stop(error: Exception) -> bool:
    """Whether a run reached a limit that was set: nothing is wrong, and not all is done."""
    return type(error).__name__ == "RunStopped"


def _said(message: str, code: int) -> int:
    for ours, theirs in IN_THE_SHELL.items():
        message = re.sub(ours, theirs, message)
    print(f"rcp-irx: {' '.join(message.split())}", file=sys.stderr)
    return code


def _told_once() -> Callable[..., None]:
    """A function that prints each warning of the package as one line, once, without the place in the code."""
    told: set[str] = set()

    def tell(message: Warning | str, category: type[Warning], *where: Any) -> None:
        text = " ".join(str(message).split())
        if issubclass(category, RCPWarning) and text not in told:
            told.add(text)
            _said(f"warning: {text}", 0)

    return tell


if __name__ == "__main__":
    sys.exit(main())
