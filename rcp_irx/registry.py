"""Finds gain tables by a registered name or by their folder, for measures that are given as text."""

from __future__ import annotations

import os

from rcp_irx.errors import RCPError, examples
from rcp_irx.gains import GainTable
from rcp_irx.storage import INDEX

_registered: dict[str, GainTable] = {}
_loaded: dict[str, tuple[int, GainTable]] = {}


def register_gains(name: str, table: GainTable) -> None:
    """Let measures find a table by name: `RCPnDCG(gains="dl19") @ 10`.

    Raises
    ------
    RCPError
        If it is no GainTable.
    """
    if not isinstance(table, GainTable):
        raise RCPError(f"register_gains takes a GainTable, not {type(table).__name__}")
    _registered[name] = table


def resolve_gains(name: str) -> GainTable:
    """The table registered under a name, or else saved at that path; a folder is read once until it is written anew.

    Raises
    ------
    RCPError
        If it is neither.
    """
    if name in _registered:
        return _registered[name]
    if not os.path.isdir(name):
        raise RCPError(
            f"{name!r} is neither a gain folder nor one of the registered gains ({examples(_registered) or 'none'})"
        )
    index = os.path.abspath(os.path.join(name, INDEX))
    written = os.stat(index).st_mtime_ns if os.path.exists(index) else 0
    if _loaded.get(index, (-1, None))[0] != written:
        _loaded[index] = written, GainTable.load(name)
    return _loaded[index][1]
