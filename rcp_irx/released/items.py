"""The item parameters of a released dataset: a JSON file with `gamma` and `beta`, found by what it holds."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rcp_irx.errors import RCPError, examples
from rcp_irx.released import layout


@dataclass(frozen=True)
class ItemParameters:
    """Discriminations and difficulties (logits), each of shape (C,), and the name of their file."""

    name: str
    gamma: np.ndarray
    beta: np.ndarray


def candidates(names: Iterable[str], subset: str) -> list[list[str]]:
    """The JSON files that may hold a subset's parameters, nearest first.

    Those in the subset's folders or called after it; those at the top; those in another folder whose name says "item"
    or "param".
    """
    places: list[list[str]] = [[], [], []]
    for name in sorted(names):
        folder, _, file = name.rpartition("/")
        stem = file.removesuffix(".json")
        if stem == file or "/" in folder:
            continue
        if folder == subset or folder.startswith(f"{subset}-") or _called_after(subset, stem):
            places[0].append(name)
        elif not folder:
            places[1].append(name)
        elif "item" in name or "param" in name:
            places[2].append(name)
    return places


def _called_after(subset: str, stem: str) -> bool:
    return re.search(rf"(^|[-_.]){re.escape(subset)}($|[-_.])", stem) is not None


def read_items(folder: Path, subset: str, name: str | None = None) -> ItemParameters:
    """The parameters in the named file, or else in the one JSON file near the subset that holds any.

    Raises
    ------
    RCPError
        If no file or several with different parameters are there; if they are no parameters.
    """
    if name is not None:
        if not (folder / name).is_file():
            held = [name for place in candidates(layout.listed(folder), subset) for name in place]
            raise RCPError(f"no item parameters at {folder / name}; JSON files there: {examples(held) or 'none'}")
        return _parsed(name, _json(folder / name))
    seen = []
    for place in candidates(layout.listed(folder), subset):
        contents = {name: _json(folder / name) for name in place}
        seen += [f"{name} ({_keys(content)})" for name, content in contents.items()]
        found = [_parsed(name, content) for name, content in contents.items() if _is_parameters(content)]
        if found:
            _refuse_several(found, folder)
            return found[0]
    raise RCPError(
        f"{folder} has no item parameters: no JSON file with 'gamma' and 'beta' in {subset}/ or {subset}-*/, called"
        " after the subset, at the top, or in a folder with 'item' or 'param' in its name (JSON files there:"
        f" {'; '.join(seen[:5]) or 'none'}); name one with item_parameters="
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


def _parsed(name: str, content: Any) -> ItemParameters:
    if not _is_parameters(content):
        raise RCPError(f"{name} holds no item parameters ('gamma' and 'beta'): {_keys(content)}")
    lists = [content["gamma"], content["beta"]]
    numbers = [
        isinstance(values, list) and all(type(value) in (int, float) and np.isfinite(value) for value in values)
        for values in lists
    ]
    if not all(numbers) or not 0 < len(lists[0]) == len(lists[1]) or min(lists[0]) <= 0:
        raise RCPError(
            f"{name}: gamma (above 0) and beta must be lists of one number a criterion; they are {lists[0]!r} and"
            f" {lists[1]!r}"
        )
    return ItemParameters(name, *(np.array(values, dtype=np.float64) for values in lists))


def _keys(content: Any) -> str:
    if isinstance(content, Exception):
        return f"unreadable: {content}"
    return f"keys {sorted(content)[:5]}" if isinstance(content, dict) else f"a {type(content).__name__}"
