"""What all tests share: where the public collections are, and the numbers to reproduce."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

HERE = Path(__file__).parent


def data_folder(name: str) -> Path:
    """A folder of public test collections, or a skip that says why (RCP_IRX_DATA names the place of them all)."""
    place = os.environ.get("RCP_IRX_DATA")
    if not place:
        pytest.skip("RCP_IRX_DATA is not set: it names the folder of public test collections")
    folder = Path(place) / name
    if not folder.is_dir():
        pytest.skip(f"no folder {name!r} in RCP_IRX_DATA={place}")
    return folder


def cases(kind: str) -> list:
    """The numbers to reproduce of one kind, as pytest parameters (tests/cases.json)."""
    found = [case for case in json.loads((HERE / "cases.json").read_text()) if case["kind"] == kind]
    assert found, f"no case of kind {kind}"
    return [pytest.param(case, id=case["id"]) for case in found]
