"""The ir_measures measures and the registration of their provider; imports ir_measures only. The work is `provider`'s.

Importing this module, once or again, registers the measures with ir_measures: they then work in `ir_measures.calc`, as
strings in `ir_measures.parse_measure`, and as objects in `pt.Experiment`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import Any

import ir_measures
from ir_measures import Evaluator, Measure, ParamInfo, Provider

from rcp_irx.errors import RCPError, examples
from rcp_irx.evaluation.options import DEFAULT_TIES, TIES, tie_rule, whole_cutoff


class MeasureParameterError(RCPError, AssertionError):
    """A refused parameter: an RCPError, and the AssertionError that ir_measures raises in its place."""


class _RCPnDCG(Measure):
    """nDCG with calibrated gains: linear gain, discount 1/log2(rank + 1), ideal over the whole judged pool.

    The gains come from `gains` (a `GainTable`, a registered name, or the folder of a saved table), else from a `gain`
    column or field of the qrels (probabilities in [0, 1]; NaN: no gain), else from a dict of dicts with fractional
    values. The queries of the qrels are scored, and no others: one that the run misses is 0, one without any gain is
    an `RCPError`. For the tie rules see `rcp_irx.evaluation.ndcg`.

    A measure is a value: it equals another of the same parameters and, where bound, of an equal table.
    """

    __name__ = "RCPnDCG"
    NAME = __name__
    PRETTY_NAME = "RCP nDCG"
    SHORT_DESC = "nDCG whose gains are probabilities calibrated from the preferences of an LLM judge."
    SUPPORTED_PARAMS = {  # noqa: RUF012  (ir_measures declares it so)
        "cutoff": ParamInfo(dtype=int, required=False, desc="ranking cutoff threshold"),
        "gains": ParamInfo(required=False, desc="a GainTable, or the registered name or folder of one"),
        "ties": ParamInfo(dtype=str, choices=list(TIES), default=DEFAULT_TIES, desc="how equal scores are ordered"),
    }

    def __init__(self, **params: Any):
        unknown = sorted(params.keys() - self.SUPPORTED_PARAMS.keys())
        if unknown:
            known = ", ".join(self.SUPPORTED_PARAMS)
            raise MeasureParameterError(f"{self.__name__} has no parameter {examples(unknown)}; it takes {known}")
        checks = {"cutoff": whole_cutoff, "gains": _gain_source, "ties": tie_rule}
        try:
            checked = {name: checks[name](params[name]) for name in self.SUPPORTED_PARAMS if name in params}
        except RCPError as error:
            raise MeasureParameterError(f"{self.__name__}: {error}") from None
        super().__init__(**{name: value for name, value in checked.items() if value is not None})

    def _param_repr(self, v: Any) -> str:
        return repr(v.label) if hasattr(v, "label") else repr(v)

    def __eq__(self, other: object) -> bool:
        if not (isinstance(other, Measure) and super().__eq__(other)):
            return False
        mine, theirs = self.params.get("gains"), other.params.get("gains")
        return mine is theirs or bool(mine == theirs)

    __hash__ = Measure.__hash__

    def __reduce__(self) -> tuple[Any, ...]:
        return _unpickled, (self.NAME, self.params)  # by name, so that a reload of this module breaks no pickle


class RCPProvider(Provider):
    """Computes this package's measures inside ir_measures."""

    NAME = "rcp_irx"

    def _evaluator(self, measures: Iterable[Measure], qrels: Any) -> Evaluator:
        from rcp_irx.evaluation.provider import RCPEvaluator  # numpy and pandas load at the first evaluation

        return RCPEvaluator(measures, qrels)

    def run_inputs(self, measures: Iterable[Measure]) -> list[str]:
        return ["query_id", "doc_id", "score"]

    def qrel_inputs(self, measures: Iterable[Measure]) -> list[str]:
        bound = all("gains" in measure.params for measure in measures)
        return ["query_id"] if bound else ["query_id", "doc_id", "gain"]


def _gain_source(value: Any) -> Any:
    """A gain table as it is, a name or path as text."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    is_table = hasattr(value, "documents") and hasattr(value, "label")
    if value is None or is_table or (isinstance(value, str) and value):
        return value
    raise RCPError(f"gains must be a GainTable, a registered name or the folder of a saved table; it is {value!r}")


def _unpickled(name: str, params: dict[str, Any]) -> Measure:
    return ir_measures.measures.registry[name](**params)


def _register() -> None:
    """Make the measures known to ir_measures; a second call, after a reload, replaces what the first one put there."""
    ir_measures.measures.registry["RCPnDCG"] = RCPnDCG
    provider = ir_measures.providers.register(RCPProvider())
    pipeline = ir_measures.DefaultPipeline.providers
    pipeline[:] = [*(other for other in pipeline if getattr(other, "NAME", None) != provider.NAME), provider]
    if "pyterrier.measures" in sys.modules:  # it copied the registry when it was imported
        vars(sys.modules["pyterrier.measures"])["RCPnDCG"] = RCPnDCG


RCPnDCG = _RCPnDCG()
RCPProvider.SUPPORTED_MEASURES = [RCPnDCG]
_register()
