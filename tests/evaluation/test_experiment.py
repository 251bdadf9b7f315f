"""RCPnDCG in pt.Experiment: one number, however the experiment is run."""

from __future__ import annotations

import subprocess
import sys

import pandas as pd
import pytest
from ir_measures import AP, Judged, P, R, nDCG

from rcp_irx import RCPnDCG
from rcp_irx.evaluation import ndcg
from rcp_irx.evaluation.measures import MEASURES
from tests.evaluation.test_measures import table

pt = pytest.importorskip("pyterrier")

pytestmark = pytest.mark.filterwarnings("ignore::rcp_irx.RCPWarning", "ignore:unsafe cast")

TOPICS = pd.DataFrame({"qid": ["q1", "q2", "q3"], "query": ["one", "two", "three"]})
GAINS = {"q1": {"a": 0.9, "b": 0.4, "c": 0.2}, "q2": {"a": 0.1, "d": 0.8}, "q3": {"b": 0.3, "c": 0.7}}
QRELS = pd.DataFrame(
    [[q, d, int(3 * g), g] for q, docs in GAINS.items() for d, g in docs.items()],
    columns=["qid", "docno", "label", "gain"],
)


def results(scores: dict[str, dict[str, float]]) -> pd.DataFrame:
    rows = [[q, d, s] for q, docs in scores.items() for d, s in docs.items()]
    return pt.model.add_ranks(pd.DataFrame(rows, columns=["qid", "docno", "score"]))


FULL = results({"q1": {"c": 3.0, "a": 2.0, "x": 2.0}, "q2": {"d": 1.0, "a": 1.0}, "q3": {"b": 2.0, "c": 1.0}})
SHORT = results({"q1": {"a": 3.0}, "q3": {"x": 3.0, "c": 2.0}, "q9": {"a": 1.0}})
SYSTEMS = {"full": FULL, "short": SHORT}
MEANS = {name: float(ndcg(run, GAINS).mean()) for name, run in SYSTEMS.items()}
METRICS = [nDCG @ 10, AP, P @ 5, RCPnDCG @ 10]


def retriever(frame: pd.DataFrame):  # type: ignore[no-untyped-def]  # a pt.Transformer, which is imported late
    """A transformer that looks a run up; the last column of its input is kept out."""
    return pt.Transformer.from_df(frame)


def measured(frame: pd.DataFrame, measure: str = "RCPnDCG@10") -> dict[str, float]:
    return dict(zip(frame["name"], frame[measure], strict=True))


BOUND = table([["", q, d, g, 0, False] for q, docs in {**GAINS, "q7": {"z": 0.5}}.items() for d, g in docs.items()])


@pytest.mark.parametrize("measure", [RCPnDCG @ 10, BOUND.RCPnDCG @ 10], ids=["gain column", "bound table"])
class TestOneNumber:
    def names(self, measure) -> list:  # type: ignore[no-untyped-def]  # ir_measures.Measure
        return [nDCG @ 10, AP, P @ 5, measure]

    def qrels(self, measure) -> pd.DataFrame:  # type: ignore[no-untyped-def]  # ir_measures.Measure
        return QRELS if measure == RCPnDCG @ 10 else QRELS.drop(columns="gain")

    @pytest.mark.parametrize("options", [{}, {"baseline": 0}], ids=["plain", "baseline"])
    def test_frames(self, measure, options) -> None:  # type: ignore[no-untyped-def]  # ir_measures.Measure
        got = pt.Experiment(dict(SYSTEMS), TOPICS, self.qrels(measure), self.names(measure), **options)
        assert measured(got, str(measure)) == pytest.approx(MEANS, abs=1e-15)
        for other in ("nDCG@10", "AP", "P@5"):
            assert other in got.columns
        if options:
            assert {f"{measure} +", f"{measure} -", f"{measure} p-value"} <= set(got.columns)

    @pytest.mark.parametrize(
        "options",
        [
            {},
            {"batch_size": 1},
            {"batch_size": 2},
            {"plan": "tree"},
            {"plan": "tree", "batch_size": 1},
            {"baseline": 1},
        ],
        ids=str,
    )
    def test_transformers(self, measure, options) -> None:  # type: ignore[no-untyped-def]  # ir_measures.Measure
        complete = {"full": retriever(FULL), "reversed": retriever(FULL.assign(score=-FULL.score))}
        got = pt.Experiment(complete, TOPICS, self.qrels(measure), self.names(measure), verbose=False, **options)
        expected = {"full": MEANS["full"], "reversed": float(ndcg(FULL.assign(score=-FULL.score), GAINS).mean())}
        assert measured(got, str(measure)) == pytest.approx(expected, abs=1e-15)

    @pytest.mark.parametrize("options", [{}, {"batch_size": 1}, {"plan": "tree"}], ids=str)
    def test_perquery(self, measure, options) -> None:  # type: ignore[no-untyped-def]  # ir_measures.Measure
        got = pt.Experiment(
            {"full": retriever(FULL)},
            TOPICS,
            self.qrels(measure),
            self.names(measure),
            perquery=True,
            verbose=False,
            **options,
        )
        ours = got[got["measure"] == str(measure)].set_index("qid")["value"]
        assert ours.to_dict() == pytest.approx(ndcg(FULL, GAINS).to_dict(), abs=1e-15)
        assert set(got.groupby("measure").size()) == {3}

    def test_beside_judged(self, measure) -> None:  # type: ignore[no-untyped-def]  # ir_measures.Measure
        got = pt.Experiment(dict(SYSTEMS), TOPICS, self.qrels(measure), [Judged @ 10, nDCG @ 10, measure])
        assert measured(got, str(measure)) == pytest.approx(MEANS, abs=1e-15)
        assert {"Judged@10", "nDCG@10"} <= set(got.columns)

    def test_topics_that_the_qrels_lack_and_qrels_that_the_topics_lack(self, measure) -> None:  # type: ignore[no-untyped-def]  # ir_measures.Measure
        topics = pd.DataFrame({"qid": ["q1", "q3", "q9"], "query": ["one", "three", "nine"]})
        got = pt.Experiment(
            {"full": retriever(FULL), "short": retriever(SHORT)},
            topics[topics.qid != "q9"],
            self.qrels(measure),
            self.names(measure),
            filter_by_topics=False,
            batch_size=1,
        )
        expected = {name: float(ndcg(run[run.qid.isin(["q1", "q3"])], GAINS).mean()) for name, run in SYSTEMS.items()}
        assert measured(got, str(measure)) == pytest.approx(expected, abs=1e-15)
        got = pt.Experiment(
            {"short": retriever(SHORT)}, topics, self.qrels(measure), self.names(measure), filter_by_qrels=False
        )
        q13 = {qid: GAINS[qid] for qid in ("q1", "q3")}
        assert measured(got, str(measure)) == pytest.approx({"short": float(ndcg(SHORT, q13).mean())}, abs=1e-15)


def test_every_way_gives_one_number() -> None:
    """evaluation.ndcg, ir_measures, pt.Experiment and ranx; bound to more queries, and a run that misses some."""
    ranx = pytest.importorskip("ranx")
    from rcp_irx.ranx import evaluate  # with the framework

    measure, systems = BOUND.RCPnDCG @ 10, {"full": FULL, "short": SHORT}
    labels = {q: {d: int(3 * g) for d, g in docs.items()} for q, docs in GAINS.items()}
    table = pt.Experiment(
        systems, TOPICS, QRELS.drop(columns="gain"), [nDCG @ 10, AP, R @ 3, Judged @ 10, measure], baseline=0
    )
    for name, run in systems.items():
        kernel = ndcg(run, BOUND)
        assert list(kernel.index) == ["q1", "q2", "q3", "q7"]
        assert kernel["q7"] == 0.0
        scored = kernel[["q1", "q2", "q3"]]
        assert measured(table, str(measure))[name] == pytest.approx(scored.mean(), abs=1e-15)
        in_ir = {
            m.query_id: m.value for m in measure.iter_calc(pt.model.to_ir_measures(QRELS), pt.model.to_ir_measures(run))
        }
        assert in_ir == scored.to_dict()
        nested = {q: dict(zip(rows.docno, rows.score, strict=True)) for q, rows in run.groupby("qid")}
        as_run = ranx.Run(nested)
        in_ranx = evaluate(BOUND, as_run, ["rcp_ndcg@10", "recall@3"], qrels=ranx.Qrels(labels), make_comparable=True)
        assert as_run.scores["rcp_ndcg@10"] == scored.to_dict()
        assert in_ranx["rcp_ndcg@10"] == pytest.approx(scored.mean(), abs=1e-15)
        assert in_ranx["recall@3"] == pytest.approx(measured(table, "R@3")[name], abs=1e-12)


@pytest.mark.parametrize("options", [{}, {"plan": "tree"}], ids=str)
def test_pool_order_and_topics_without_qrels_in_batches(options) -> None:  # type: ignore[no-untyped-def]  # keyword arguments
    qrels = QRELS[QRELS.qid != "q2"].assign(pool_rank=0)
    got = pt.Experiment(
        [retriever(FULL)], TOPICS, qrels, [RCPnDCG(rules="trec-dl") @ 10], batch_size=1, verbose=False, **options
    )
    assert got["RCPnDCG(rules='trec-dl')@10"][0] > 0


def test_transformer_that_the_experiment_can_inspect_gives_no_warning(recwarn: pytest.WarningsRecorder) -> None:
    pt.Experiment([retriever(FULL)], TOPICS, QRELS, METRICS, validate="error")
    assert [str(warning.message) for warning in recwarn if "Validation" in str(warning.message)] == []


@pytest.mark.parametrize("order", ["import pyterrier, rcp_irx", "import rcp_irx, pyterrier"])
def test_measure_is_among_pyterriers_measures(order: str) -> None:
    names = ", ".join(measure.NAME for measure in MEASURES)
    code = f"{order}; import rcp_irx; from pyterrier.measures import {names}; print(*({names}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == [measure.NAME for measure in MEASURES]
