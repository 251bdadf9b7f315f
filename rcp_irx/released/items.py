"""The item parameters of a released dataset: a JSON file with `gamma` and `beta`, found by what it holds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rcp_irx.errors import RCPError, examples
from rcp_irx.released import layout


@dataclass(frozen=True)
class ItemParameters:
    """Discriminations and difficulties (logits), each of shape (C,), and the name of their file in the dataset."""

    name: str
    gamma: np.ndarray
    beta: np.ndarray


def candidates(names: Iterable[str], subset: str) -> list[list[str]]:
    """The JSON files that may hold a subset's parameters, nearest first; `names` are all files of the dataset.

    Those in the subset's folders or called as it is; those whose name, or whose folder's, holds the subset's; those at
    the top; those in another folder whose name says "item" or "param". A file that is another subset's, by its folder
    or its name ("climate-fever.json" is not "fever"'s), is none of them.
    """
    names = sorted(names)
    known = layout.subsets(names) | {subset}
    places: list[list[str]] = [[], [], [], []]
    for name in names:
        folder, _, file = name.rpartition("/")
        stem = file.removesuffix(".json")
        if stem == file or "/" in folder:
            continue
        named = set() if name == layout.ITEMS else _owners(stem, known)
        owners = named | _owners_of_folder(folder, known)
        says_items = "item" in name or "param" in name
        if folder in layout.folders_of(subset) or (subset in named and _words(stem) == _words(subset)):
            places[0].append(name)
        elif subset in named or (subset in owners and says_items):
            places[1].append(name)
        elif not folder and not owners:
            places[2].append(name)
        elif says_items and not owners:
            places[3].append(name)
    return places


def _owners_of_folder(folder: str, known: set[str]) -> set[str]:
    """The subsets that a folder belongs to."""
    return {subset for subset in known if folder in layout.folders_of(subset)} or _owners(folder, known)


def _owners(stem: str, known: set[str]) -> set[str]:
    """The subsets that a name names: none that is only a part of another's name, "fever" in "fit_climate_fever"."""
    if stem in known:
        return {stem}
    named = {subset for subset in known if _holds(_words(stem), _words(subset))}
    return {one for one in named if not any(_words(one) != _words(o) and _holds(_words(o), _words(one)) for o in named)}


def _words(name: str) -> list[str]:
    return re.split(r"[-_.]", name.casefold())


def _holds(words: list[str], part: list[str]) -> bool:
    """Whether a part's words follow one another among the words."""
    return any(words[start : start + len(part)] == part for start in range(len(words) - len(part) + 1))


def read_items(folder: Path, names: Sequence[str], subset: str, name: str | None = None) -> ItemParameters:
    """The parameters in the named file, or else in the one JSON file near the subset that holds any.

    Parameters
    ----------
    names : sequence of str
        All files of the dataset, also those that are not in the folder.

    Raises
    ------
    RCPError
        If no file or several with different parameters are there; if they are no parameters.
    """
    if name is not None:
        if not (folder / name).is_file():
            held = [name for name in names if name.endswith(".json") and name.count("/") < 2]
            raise RCPError(f"no item parameters at {folder / name}; JSON files there: {examples(held) or 'none'}")
        return _parsed(folder, name, _json(folder / name))
    seen = []
    for place in candidates(names, subset):
        contents = {name: _json(folder / name) for name in place}
        seen += [f"{name} ({_keys(content)})" for name, content in contents.items()]
        found = [_parsed(folder, name, content) for name, content in contents.items() if _is_parameters(content)]
        if found:
            _refuse_several(found, folder)
            return found[0]
    own = ", ".join(f"{place}/" for place in sorted(layout.folders_of(subset)))
    raise RCPError(
        f"{folder} has no item parameters for subset {subset!r}: no JSON file with 'gamma' and 'beta' in {own}, called"
        " after the subset, at the top, or in a folder with 'item' or 'param' in its name, and not called after another"
        f" subset (JSON files there: {'; '.join(seen[:5]) or 'none'}); name one with item_parameters="
    )


def _refuse_several(found: list[ItemParameters], folder: Path) -> None:
    first = found[0]
    for other in found[1:]:
        if first.gamma.tolist() != other.gamma.tolist() or first.beta.tolist() != other.beta.tolist():
            raise RCPError(
                f"{folder} has several item parameters: {examples(items.name for items in found)}; choose one with"
                " item_parameters="
            )


def _json(file: Path) -> Any:
    try:
        return json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        return error


def _is_parameters(content: Any) -> bool:
    return isinstance(content, dict) and {"gamma", "beta"} <= set(content)


def _parsed(folder: Path, name: str, content: Any) -> ItemParameters:
    if not _is_parameters(content):
        raise RCPError(f"{folder / name} holds no item parameters ('gamma' and 'beta'): {_keys(content)}")
    lists = [content["gamma"], content["beta"]]
    numbers = [
        isinstance(values, list) and all(type(value) in (int, float) and np.isfinite(value) for value in values)
        for values in lists
    ]
    if not all(numbers) or not 0 < len(lists[0]) == len(lists[1]) or min(lists[0]) <= 0:
        raise RCPError(
            f"{folder / name}: gamma (above 0) and beta must be lists of one number a criterion; they are {lists[0]!r}"
            f" and {lists[1]!r}"
        )
    return ItemParameters(name, *(np.array(values, dtype=np.float64) for values in lists))


def _keys(content: Any) -> str:
    if isinstance(content, Exception):
        return f"unreadable: {content}"
    return f"keys {sorted(content)[:5]}" if isinstance(content, dict) else f"a {type(content).__name__}"
