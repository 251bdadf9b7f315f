"""Criterion and Rubric: the yes/no questions of Stage B, from the shipped TOML file or a user's own."""

from __future__ import annotations

import hashlib
import json
import os
import sys
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

from rcp_irx.errors import RCPError, examples

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

DEFAULT = "rubric.toml"
_RESERVED = {
    "bt_se",
    "gain_se",
    "rank",
    "score",
    "origin",
    "_dataset",
    "_turn",
    "dataset",
    "qid",
    "docno",
    "gain",
    "theta",
    "theta_se",
    "bt",
    "n",
    "pool_rank",
    "excluded",
    "query",
    "text",
}


@dataclass(frozen=True)
class Criterion:
    """A yes/no question about one document: `id` names its column of pass counts."""

    id: str
    name: str
    question: str


@dataclass(frozen=True)
class Rubric:
    """Criteria of increasing stringency (Table 1). Any number from one up.

    Raises
    ------
    RCPError
        No criterion, a repeated or empty id, an id that is a column of the gain table, an empty question.
    """

    criteria: tuple[Criterion, ...]

    def __post_init__(self) -> None:
        object.__setattr__(self, "criteria", tuple(self.criteria))
        ids = [criterion.id for criterion in self.criteria]
        if not ids:
            raise RCPError("a rubric needs at least one criterion")
        if not all(isinstance(name, str) for name in ids):
            raise RCPError(
                f"criterion ids are text; not so {examples(name for name in ids if not isinstance(name, str))}"
            )
        repeated = {name for name in ids if ids.count(name) > 1}
        if repeated:
            raise RCPError(f"criterion ids must differ; repeated: {examples(repeated)}")
        reserved = _RESERVED & set(ids)
        if reserved:
            raise RCPError(f"criterion ids must not be column names of the gain table: {examples(reserved)}")
        empty = [criterion.id for criterion in self.criteria if not criterion.id or not criterion.question.strip()]
        if empty:
            raise RCPError(f"criterion {examples(empty)} has no id or no question")

    def __len__(self) -> int:
        return len(self.criteria)

    @property
    def ids(self) -> list[str]:
        """The criterion ids in rubric order."""
        return [criterion.id for criterion in self.criteria]

    @property
    def digest(self) -> str:
        """SHA-256 of everything a judge may be shown of the rubric."""
        return hashlib.sha256(self.to_json().encode()).hexdigest()

    def to_json(self) -> str:
        """The rubric as JSON text."""
        return json.dumps([[c.id, c.name, c.question] for c in self.criteria])

    @classmethod
    def from_json(cls, text: str) -> Rubric:
        """The rubric that `to_json` wrote."""
        return cls(tuple(Criterion(*entry) for entry in json.loads(text)))

    @classmethod
    def load(cls, path: str | os.PathLike[str] | None = None) -> Rubric:
        """A rubric from a TOML file of `[[criteria]]` with `id`, `name` and `question`; by default the shipped one.

        Raises
        ------
        RCPError
            Naming the file, if it cannot be read or a criterion lacks a field.
        """
        source: Any = resources.files("rcp_irx.prompts") / DEFAULT if path is None else Path(path)
        try:
            entries = tomllib.loads(source.read_text(encoding="utf-8"))["criteria"]
            return cls(tuple(Criterion(str(e["id"]), str(e["name"]), str(e["question"])) for e in entries))
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "no UTF-8 text"
            raise RCPError(f"the rubric {source} cannot be read: {reason}") from error
        except KeyError as error:
            raise RCPError(
                f"the rubric {source} lacks {error}; each [[criteria]] needs id, name and question"
            ) from error
        except tomllib.TOMLDecodeError as error:
            raise RCPError(f"the rubric {source} is not TOML: {error}") from error
