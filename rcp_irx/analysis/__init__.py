"""Which system is better, how far to trust a calibration, whether it agrees with people, how noisy a judge is.

Everything here reads gains, runs, labels and logs, and changes none of them.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "compare": "comparing",
    "failure_modes": "queries",
    "explain": "queries",
    "disputed": "queries",
    "diagnose": "diagnosis",
    "transfer": "transferring",
    "rubric_subsets": "transferring",
    "with_gain": "gain_shapes",
    "judge_noise": "noise",
    "replay_budget": "budgets",
    "compare_labels": "labels",
    "agreement": "agreeing",
    "reliability": "annotators",
}

__all__ = list(_HOMES)


def __getattr__(name: str) -> Any:
    """A public name, from its module."""
    if name in _HOMES:
        return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
