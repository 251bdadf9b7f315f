"""The commands by name; each is loaded when it is asked for, so that `--help` and `--version` are quick."""

from __future__ import annotations

from importlib import import_module
from typing import Any

import click

from rcp_irx._version import __version__

_HOMES = {
    "judge": "judging",
    "estimate": "judging",
    "fit": "judging",
    "evaluate": "evaluating",
    "compare": "analysing",
    "diagnose": "analysing",
    "explain": "analysing",
    "report": "publishing",
    "describe": "publishing",
    "export": "publishing",
    "demo": "demonstrating",
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_HOMES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> Any:
        if cmd_name not in _HOMES:
            return None
        return getattr(import_module(f"rcp_irx.cli.{_HOMES[cmd_name]}"), cmd_name)


@click.group(
    cls=_Commands,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, message="rcp-irx %(version)s")
@click.pass_context
def app(ctx: click.Context) -> None:
    """LLM preferences as calibrated relevance gains: judge pools, fit gains, evaluate runs with them.

    Try `rcp-irx demo --keep demo`: it leaves files in the folder demo on which the examples of every command work.
    """
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())
        ctx.exit(2)
