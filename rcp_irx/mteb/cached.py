"""What lies in mteb's default result cache, which knows a task by its name alone, of other gains under that name."""

from __future__ import annotations

import glob
import json
from pathlib import Path
from typing import Any

import mteb

from rcp_irx.errors import counted, examples, warn


def warn_of_other_results(name: str, revision: str) -> None:
    """Warn where results of this name with another dataset revision lie in mteb's default cache, if there is one.

    Warns
    -----
    RCPWarning
        With up to three files, and what to do. A cache or file that cannot be read is passed over.
    """
    others = [path for path in _results(name) if _revision(path) not in (None, revision)]
    if others:
        found = counted(len(others), "result")
        warn(
            f"mteb's result cache holds {found} of other gains, options, subsets or data under the name {name}, and "
            f"mteb.evaluate gives these back, unless it is told otherwise: {examples(map(str, others))}; take another "
            "suffix=, evaluate with overwrite_strategy='always', or give a cache of one's own "
            "(cache=mteb.ResultCache(folder))"
        )


def _results(name: str) -> list[Path]:
    """The result files of a task, of all models, their revisions and experiments."""
    unmade: Any = mteb.ResultCache.__new__(mteb.ResultCache)  # to make one makes its folder
    file = f"{glob.escape(name)}.json"
    try:
        results = Path(unmade.default_cache_path) / "results"
        return sorted(path for way in ("*/*", "*/*/experiments/*") for path in results.glob(f"{way}/{file}"))
    except (OSError, RuntimeError):  # no permission, no home
        return []


def _revision(path: Path) -> str | None:
    """The dataset revision in a result file; None where it cannot be read."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return content.get("dataset_revision") if isinstance(content, dict) else None
