"""No test of rcp_irx.mteb sees the results that are cached on the machine it runs on."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_results_of_this_machine(tmp_path_factory, monkeypatch):
    monkeypatch.setenv("MTEB_CACHE", str(tmp_path_factory.getbasetemp() / "no mteb cache"))
