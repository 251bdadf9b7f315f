"""rcp-irx demo: the whole path on a small collection."""

from __future__ import annotations

import click


@click.command()
@click.option("--keep", metavar="FOLDER", help="Keep the index, the runs, the qrels, the log and the gains there.")
def demo(keep: str | None) -> None:
    """Label and evaluate the bundled collection, end to end and offline.

    \b
    Example:
      rcp-irx demo --keep demo
    """
    from rcp_irx.demo.walk import walk

    walk(keep or None)
