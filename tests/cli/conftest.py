"""The installed console script, and the files that its examples work on."""

from __future__ import annotations

import contextlib
import io
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rcp_irx.cli import main
from rcp_irx.demo import results
from rcp_irx.trec import write_qrels, write_run


def rcp_irx(*arguments, cwd, code=0):
    """What a command prints in this process: on stdout, or on stderr where its exit code is not 0 but `code`."""
    got, out, error = ran(*arguments, cwd=cwd)
    assert got == code, out + error
    return out if code == 0 else error


def ran(*arguments, cwd):
    """The exit code of a command in this process, and what it prints on stdout and stderr."""
    out, error = io.StringIO(), io.StringIO()
    before = os.getcwd()
    os.chdir(cwd)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(error):
            got = main([str(argument) for argument in arguments])
    finally:
        os.chdir(before)
    return got, out.getvalue(), error.getvalue()


def installed(*arguments, cwd, code=0, env=None):
    """What the installed console script prints; its exit code must be `code`, and no traceback may be seen."""
    script = shutil.which("rcp-irx", path=os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]))
    assert script, "the console script rcp-irx is not installed"
    done = subprocess.run(
        [script, *map(str, arguments)], cwd=cwd, capture_output=True, text=True, env={**os.environ, **(env or {})}
    )
    assert done.returncode == code, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stdout if code == 0 else done.stderr


@pytest.fixture(scope="session")
def demo(tmp_path_factory):
    """A folder with toy runs, qrels and gains of the demo collection."""
    folder = tmp_path_factory.mktemp("demo")
    for name, run in results.runs().items():
        write_run(run, folder / f"{name.replace(' ', '-')}.run")
    write_qrels(results.qrels(), folder / "demo.qrels")
    results.gains().save(folder / "demo.gains")
    return folder
