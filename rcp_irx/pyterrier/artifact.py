"""GainArtifact: a folder of gains as PyTerrier's artifacts open it."""

from __future__ import annotations

import os
from typing import Any

import pyterrier as pt

from rcp_irx.gains import GainTable


class GainArtifact(pt.Artifact):
    """Saved gains as a PyTerrier artifact: `pt.Artifact.load("dl19.gains")`, and `.to_hf(...)` shares them.

    Whatever a `GainTable` has (`qrels`, `RCPnDCG`, `documents`, ...) is there under the same name; `table` is the
    table itself.
    """

    ARTIFACT_TYPE = "rcp_gains"
    ARTIFACT_FORMAT = "rcp_irx"
    ARTIFACT_PACKAGE_HINT = "rcp-irx"

    def __init__(self, path: str | os.PathLike[str]):
        super().__init__(os.fspath(path))
        self.table = GainTable.load(path)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name == "table":
            raise AttributeError(name)
        return getattr(self.table, name)

    def __repr__(self) -> str:
        return f"GainArtifact({self.table!r})"
