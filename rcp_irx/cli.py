"""rcp-irx: the command line. A thin layer; what it does is in the rooms it calls."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from rcp_irx._version import __version__
from rcp_irx.errors import MissingExtra, RCPError


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command; the exit code is 0, or 2 for bad usage or input."""
    parser = argparse.ArgumentParser(prog="rcp-irx", description="LLM preferences as calibrated relevance gains.")
    parser.add_argument("--version", action="version", version=f"rcp-irx {__version__}")
    commands = parser.add_subparsers(title="commands", dest="command", required=True)
    demo = commands.add_parser(
        "demo",
        help="label and evaluate a small collection, end to end, offline",
        description="Index the bundled collection, pool three rankers, judge, calibrate, and evaluate with RCP-nDCG.",
    )
    demo.add_argument("--keep", metavar="FOLDER", help="keep the index, the log and the gains there")
    options = parser.parse_args(arguments)
    try:
        from rcp_irx.demo.walk import walk

        walk(options.keep or None)
    except (RCPError, MissingExtra, OSError) as error:
        print(f"rcp-irx: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
