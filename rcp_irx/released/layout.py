"""Where the files of a released dataset are: both layouts, by the names of the files alone; nothing is opened here.

Newer layout, mteb's: `{config}/{split}-00000-of-00001.parquet`, the configs `{subset}-qrels`, `{subset}-gains`,
`{subset}-top_ranked`, `{subset}-excluded`, `{subset}-queries`, `{subset}-corpus`; without `{subset}-` for the subset
"default". Older layout: `{subset}/qrels.parquet`, `{subset}/top_ranked.parquet`, `{subset}/excluded.parquet`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from rcp_irx.errors import RCPError, counted, examples, warn

DEFAULT = "default"
OWN = "rcp_irx"
"""The folder beside the standard files with what they have no place for: one saved GainTable a subset."""
READ = ("qrels", "gains", "top_ranked", "excluded", "queries")
KINDS = (*READ, "corpus")
ITEMS = "item_parameters.json"
"""The item parameters of all subsets, where this package writes them."""
_SHARD = re.compile(r"([^/]+)/([^/]+)-(\d{5})-of-(\d{5})\.parquet")
_UNNAMED = {"qrels": ("qrels", "default", "data")}
"""Folders that may hold the qrels of the subset "default": those of configs, and the one `datasets` makes for it."""


@dataclass(frozen=True)
class Files:
    """The files of one subset and split: kind -> names relative to the dataset's folder; an absent kind has none."""

    layout: str
    split: str | None
    names: dict[str, tuple[str, ...]]
    present: tuple[str, ...] = ()
    """All files of the dataset, also those of other subsets."""

    def first(self, folder: Path, kind: str) -> Path:
        """The first file of a kind, for messages."""
        return folder / self.names[kind][0]

    def serves_all_splits(self, kind: str) -> bool:
        """Whether a kind has one split, of another name than the one that is read."""
        return self.split is not None and not self.names[kind][0].split("/")[1].startswith(f"{self.split}-")


def config(subset: str, kind: str) -> str:
    """The name of a config in the newer layout."""
    return kind if subset == DEFAULT else f"{subset}-{kind}"


def folders_of(subset: str) -> set[str]:
    """The folders that are a subset's own, in either layout."""
    return {subset, *(config(subset, kind) for kind in KINDS), *(_UNNAMED["qrels"] if subset == DEFAULT else ())}


def subsets(names: Iterable[str]) -> set[str]:
    """The subsets that have qrels or gains among these files, in either layout."""
    names = list(names)
    newer = (_subset_of(folder) for folder in _shards(names))
    return _older(names) | {subset for subset in newer if subset is not None}


def listed(folder: Path) -> list[str]:
    """The names of the files in a folder and in the folders in it."""
    files = (file for pattern in ("*", "*/*") for file in folder.glob(pattern) if file.is_file())
    return sorted(file.relative_to(folder).as_posix() for file in files)


def find(names: Iterable[str], subset: str, split: str | None, where: str) -> Files:
    """The files of a subset among the names of a dataset's files.

    Raises
    ------
    RCPError
        If the names are in neither layout, the subset or split is not there, or a file of several is missing.
    """
    names = sorted(names)
    shards, older = _shards(names), _older(names)
    newer = {_subset_of(folder) for folder in shards} - {None}
    if not older and not newer:
        raise RCPError(
            f"{where} is no released dataset: it has neither '{{subset}}-qrels/{{split}}-00000-of-00001.parquet' nor"
            f" '{{subset}}/qrels.parquet' (it has {examples(names) or 'no file'})"
        )
    if subset in newer:
        if subset in older:
            warn(f"{where} holds subset {subset!r} in both layouts; the newer one is read ({config(subset, 'qrels')}/)")
        split, found = _newer(shards, subset, split, where)
        return Files("newer", split, found, tuple(names))
    if subset in older:
        if split is not None:
            raise RCPError(
                f"subset {subset!r} of {where} is in the older layout, which has no splits: leave out split="
            )
        present = set(names)
        kinds = {kind: f"{subset}/{kind}.parquet" for kind in READ}
        found = {kind: (name,) for kind, name in kinds.items() if name in present}
        return Files("older", None, found, tuple(names))
    raise RCPError(f"{where} has no subset {subset!r}; it has {_all(older | newer)}")


def _newer(
    shards: dict[str, dict[str, list[str]]], subset: str, split: str | None, where: str
) -> tuple[str, dict[str, tuple[str, ...]]]:
    """The split that is read, and the names of its files by kind."""
    found: dict[str, dict[str, list[str]]] = {}
    for kind in READ:
        folders = _UNNAMED.get(kind, (kind,)) if subset == DEFAULT else (config(subset, kind),)
        held = [folder for folder in folders if folder in shards]
        if len(held) > 1:
            raise RCPError(f"{where} has several folders that may hold the {kind}: {_all(held)}; keep one")
        if held:
            found[kind] = shards[held[0]]
    splits = set().union(*(found[kind] for kind in ("qrels", "gains") if kind in found))
    if split is None and len(splits) > 1:
        raise RCPError(f"subset {subset!r} of {where} has the splits {_all(splits)}; choose one with split=")
    chosen = split if split is not None else next(iter(splits))
    if chosen not in splits:
        raise RCPError(f"subset {subset!r} of {where} has no split {chosen!r}; it has {_all(splits)}")
    names = {}
    for kind, by_split in found.items():  # a config with a single split is for all, as mteb's loader has it
        own = chosen if chosen in by_split else next(iter(by_split)) if len(by_split) == 1 else None
        if own is None:
            raise RCPError(f"the {kind} of subset {subset!r} in {where} have no split {chosen!r}: {_all(by_split)}")
        names[kind] = _complete(by_split[own], where)
    return chosen, names


def _older(names: Iterable[str]) -> set[str]:
    """The subsets of the older layout."""
    return {name.split("/")[0] for name in names if name.endswith("/qrels.parquet") and name.count("/") == 1}


def _shards(names: Iterable[str]) -> dict[str, dict[str, list[str]]]:
    """Folder -> split -> names, of the files that are called as the newer layout calls them."""
    found: dict[str, dict[str, list[str]]] = {}
    for name in names:
        match = _SHARD.fullmatch(name)
        if match:
            found.setdefault(match[1], {}).setdefault(match[2], []).append(name)
    return found


def _complete(names: list[str], where: str) -> tuple[str, ...]:
    """The parts of a file, of which none may be missing."""
    parts = [(int(name[-22:-17]), int(name[-13:-8])) for name in names]
    total = parts[0][1]
    if [part for part, _ in parts] != list(range(total)) or {of for _, of in parts} != {total}:
        raise RCPError(f"{where} lacks parts: of {counted(total, 'file')} it has {examples(names)}")
    return tuple(names)


def _subset_of(folder: str) -> str | None:
    """The subset whose qrels or gains a folder of the newer layout holds."""
    if folder in (*_UNNAMED["qrels"], "gains"):
        return DEFAULT
    return next((folder[: -len(end)] for end in ("-qrels", "-gains") if folder.endswith(end)), None)


def _all(names: Iterable[str | None]) -> str:
    return ", ".join(repr(name) for name in sorted(filter(None, names)))
