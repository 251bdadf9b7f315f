"""rcp-irx demo: the whole path on a small collection."""

from __future__ import annotations

import click

from rcp_irx.cli.inputs import json_option
from rcp_irx.cli.output import show


@click.command()
@click.option("--keep", metavar="FOLDER", help="Keep the index, the runs, the qrels, the log and the gains there.")
@json_option
def demo(keep: str | None, as_json: bool) -> None:
    """Label and evaluate the bundled collection, end to end and offline.

    \b
    Example:
      rcp-irx demo --keep demo
    """
    from rcp_irx.demo.walk import walk

    if as_json:
        show("", walk(keep or None, say=lambda text: None), as_json)
    else:
        walk(keep or None)
