"""The ir_measures measures and the registration of their provider; imports ir_measures only. The work is `provider`'s.

Importing this module, once or again, registers the measures with ir_measures: they then work in `ir_measures.calc`, as
strings in `ir_measures.parse_measure`, and as objects in `pt.Experiment`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import ir_measures
from ir_measures import Evaluator, Measure, ParamInfo, Provider

from rcp_irx.errors import RCPError, examples
from rcp_irx.evaluation.options import (
    DEFAULT_TIES,
    DEFAULT_UNJUDGED,
    RULES,
    TIES,
    UNJUDGED,
    Options,
    options,
    switch,
    tie_rule,
    unjudged_rule,
    whole_cutoff,
)

if TYPE_CHECKING:
    from rcp_irx.evaluation.coverage import ComparedCoverage


class MeasureParameterError(RCPError, AssertionError):
    """A refused parameter: an RCPError, and the AssertionError that ir_measures raises in its place."""


_RANKING = {
    "cutoff": ParamInfo(dtype=int, required=False, desc="ranking cutoff threshold"),
    "gains": ParamInfo(required=False, desc="a GainTable, or the registered name or folder of one"),
    "ties": ParamInfo(dtype=str, choices=list(TIES), default=DEFAULT_TIES, desc="how equal scores are ordered"),
    "rules": ParamInfo(dtype=str, choices=list(RULES), desc="the suite of the paper whose tie rule is taken"),
    "ignore_identical_ids": ParamInfo(dtype=bool, default=False, desc="drop documents whose id is the query's"),
}
_UNJUDGED = {
    "unjudged": ParamInfo(
        dtype=str, choices=list(UNJUDGED), default=DEFAULT_UNJUDGED, desc="what a document without a gain counts"
    ),
    "judged_only": ParamInfo(dtype=bool, default=False, desc="ir_measures' word for unjudged='condensed'"),
}
_CHECKS = {
    "cutoff": whole_cutoff,
    "gains": lambda value: _gain_source(value),
    "ties": tie_rule,
    "rules": lambda value: str(value) if isinstance(value, str) else value,  # checked together with the ties
    "ignore_identical_ids": lambda value: switch(value, "ignore_identical_ids"),
    "unjudged": unjudged_rule,
    "judged_only": lambda value: switch(value, "judged_only"),
    "weighted": lambda value: switch(value, "weighted"),
}


class RCPMeasure(Measure):
    """What the measures on gains have in common.

    The gains come from `gains` (a `GainTable`, a registered name, or the folder of a saved table), else from a column
    or field of the qrels (probabilities in [0, 1]; NaN: no gain), else, where that column is `gain`, from a dict of
    dicts with fractional values. The queries of the qrels are scored, and no others: one that the run misses is 0, one
    without any gain is an `RCPError`. For `ties`, `rules`, `unjudged` and `ignore_identical_ids` see
    `rcp_irx.evaluation.ndcg`.

    A measure is a value: it equals another of the same parameters and, where bound, of an equal table.
    """

    COLUMN = "gain"
    SCORE = "ndcg"
    SUPPORTED_PARAMS = {**_RANKING, **_UNJUDGED}  # noqa: RUF012  (ir_measures declares it so)

    def __init__(self, **params: Any):
        unknown = sorted(params.keys() - self.SUPPORTED_PARAMS.keys())
        if unknown:
            known = ", ".join(self.SUPPORTED_PARAMS)
            raise MeasureParameterError(f"{self.NAME} has no parameter {examples(unknown)}; it takes {known}")
        try:
            checked = {name: _CHECKS[name](params[name]) for name in self.SUPPORTED_PARAMS if name in params}
            super().__init__(**{name: value for name, value in checked.items() if value is not None})
            self.options: Options = options(
                **{name: value for name, value in self.params.items() if name not in ("gains", "weighted")}
            )
        except RCPError as error:
            raise MeasureParameterError(f"{self.NAME}: {error}") from None
        # what the provider saw on each set of pools, to compare systems; no part of the value
        self.coverage: dict[Any, ComparedCoverage] = {}

    @property
    def column(self) -> str:
        """The column of the qrels, or of a bound table, that holds this measure's gains."""
        return self.COLUMN

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


class _RCPnDCG(RCPMeasure):
    """nDCG with calibrated gains (Eq. 4): linear gain, discount 1/log2(rank + 1), ideal over the whole judged pool."""

    __name__ = "RCPnDCG"
    NAME = __name__
    PRETTY_NAME = "RCP nDCG"
    SHORT_DESC = "nDCG whose gains are probabilities calibrated from the preferences of an LLM judge."


class _CountnDCG(RCPMeasure):
    """nDCG whose gain is the share of passed answers (Eq. 5), or the share weighted by discrimination (Prop. I.3)."""

    __name__ = "CountnDCG"
    NAME = __name__
    PRETTY_NAME = "Count nDCG"
    SHORT_DESC = "nDCG whose gain is the share of rubric criteria that a document passed, without the tournament."
    SUPPORTED_PARAMS = {  # noqa: RUF012
        **RCPMeasure.SUPPORTED_PARAMS,
        "weighted": ParamInfo(dtype=bool, default=False, desc="weight the criteria by their discrimination"),
    }

    @property
    def column(self) -> str:
        return "weighted_count_gain" if self.params.get("weighted") else "count_gain"


class _RawBTnDCG(RCPMeasure):
    """nDCG whose gain is Eq. 4's of the Bradley-Terry score, centred per query and not calibrated (Section I.1)."""

    __name__ = "RawBTnDCG"
    NAME = __name__
    PRETTY_NAME = "Raw BT nDCG"
    SHORT_DESC = "nDCG whose gains come from uncalibrated tournament scores."
    COLUMN = "raw_bt_gain"


class _RCPJudged(RCPMeasure):
    """The share of the first k documents (of those ranked, where they are fewer) that has a calibrated gain."""

    __name__ = "RCPJudged"
    NAME = __name__
    PRETTY_NAME = "RCP coverage"
    SHORT_DESC = "The share of the top k that has a calibrated gain."
    SCORE = "judged"
    SUPPORTED_PARAMS = _RANKING


class _RCPGain(RCPMeasure):
    """The mean calibrated gain of the first k, missing ranks counted 0; without a cutoff, of all that is ranked."""

    __name__ = "RCPGain"
    NAME = __name__
    PRETTY_NAME = "RCP mean gain"
    SHORT_DESC = "The mean calibrated gain of the top k: precision, with probabilities."
    SCORE = "gain"


class _RCPDCG(RCPMeasure):
    """The sum over the first k of gain / log2(rank + 1): not divided by an ideal, so queries keep their level."""

    __name__ = "RCPDCG"
    NAME = __name__
    PRETTY_NAME = "RCP DCG"
    SHORT_DESC = "Discounted cumulative calibrated gain, without normalisation."
    SCORE = "dcg"


class _RCPRecall(RCPMeasure):
    """The gain of the first k over the gain of the whole judged pool."""

    __name__ = "RCPRecall"
    NAME = __name__
    PRETTY_NAME = "RCP recall"
    SHORT_DESC = "The share of the pool's calibrated gain that the top k holds."
    SCORE = "recall"


class _RCPERR(RCPMeasure):
    """Expected reciprocal rank, gains as the probabilities that the reader stops.

    Under `ties="mean"` the tied gains are averaged first; the result is not the expectation over orders.
    """

    __name__ = "RCPERR"
    NAME = __name__
    PRETTY_NAME = "RCP expected reciprocal rank"
    SHORT_DESC = "The expected reciprocal rank at which a reader stops, who stops with probability gain."
    SCORE = "err"


class _RCPBest(RCPMeasure):
    """The largest calibrated gain among the first k: was there an answer at all.

    Under `ties="mean"` the tied gains are averaged first; the result is not the expectation over orders.
    """

    __name__ = "RCPBest"
    NAME = __name__
    PRETTY_NAME = "RCP best gain"
    SHORT_DESC = "The largest calibrated gain in the top k."
    SCORE = "best"


class RCPProvider(Provider):
    """Computes this package's measures inside ir_measures."""

    NAME = "rcp_irx"

    def _evaluator(self, measures: Iterable[Any], qrels: Any) -> Evaluator:
        from rcp_irx.evaluation.provider import RCPEvaluator  # numpy and pandas load at the first evaluation

        return RCPEvaluator(measures, qrels)

    def run_inputs(self, measures: Iterable[Any]) -> list[str]:
        return ["query_id", "doc_id", "score"]

    def qrel_inputs(self, measures: Iterable[Any]) -> list[str]:
        columns = sorted({measure.column for measure in measures if "gains" not in measure.params})
        return ["query_id", "doc_id", *columns] if columns else ["query_id"]


def _gain_source(value: Any) -> Any:
    """A gain table as it is, a name or path as text."""
    if isinstance(value, os.PathLike):
        value = os.fspath(value)
    is_table = hasattr(value, "documents") and hasattr(value, "label")
    if value is None or is_table or (isinstance(value, str) and value):
        return value
    raise RCPError(
        f"gains must be a GainTable, a registered name or the folder of a saved table, not {type(value).__name__}"
    )


def _unpickled(name: str, params: dict[str, Any]) -> Measure:
    return ir_measures.measures.registry[name](**params)


def _register(measures: Iterable[RCPMeasure]) -> None:
    """Make the measures known to ir_measures; a second call, after a reload, replaces what the first one put there."""
    names = {str(measure.NAME): measure for measure in measures}
    ir_measures.measures.registry.update(names)
    provider = ir_measures.providers.register(RCPProvider())
    pipeline = ir_measures.DefaultPipeline.providers
    pipeline[:] = [*(other for other in pipeline if getattr(other, "NAME", None) != provider.NAME), provider]
    if "pyterrier.measures" in sys.modules:  # it copied the registry when it was imported
        vars(sys.modules["pyterrier.measures"]).update(names)


RCPnDCG = _RCPnDCG()
CountnDCG = _CountnDCG()
RawBTnDCG = _RawBTnDCG()
RCPJudged = _RCPJudged()
RCPGain = _RCPGain()
RCPDCG = _RCPDCG()
RCPRecall = _RCPRecall()
RCPERR = _RCPERR()
RCPBest = _RCPBest()
MEASURES: list[Any] = [RCPnDCG, CountnDCG, RawBTnDCG, RCPJudged, RCPGain, RCPDCG, RCPRecall, RCPERR, RCPBest]
RCPProvider.SUPPORTED_MEASURES = MEASURES
_register(MEASURES)
