"""with_rcp: the numbers, what stays as it was, names and caches, gains that do not fit."""

from __future__ import annotations

import copy
import json
import math
import pickle
import random
import subprocess
import sys
import warnings

import ir_measures
import numpy as np
import pandas as pd
import pytest

pytest.importorskip("mteb", reason="mteb is not installed: pip install 'rcp-irx[mteb]'")

import mteb
from datasets import Dataset
from mteb.mocks import (
    MockClassificationTask,
    MockInstructionReranking,
    MockMultilingualRerankingTask,
    MockMultilingualRetrievalTask,
    MockRerankingTask,
    MockRetrievalTask,
)
from mteb.mocks.mock_tasks.reranking import MockAggregatedTask

from rcp_irx import RCPError, RCPnDCG, RCPWarning, register_gains
from rcp_irx.mteb import with_rcp
from tests.evaluation.test_measures import table
from tests.mteb.collection import LABELS, OneSubset, TwoSubsets, bm25, evaluate, gains, metadata

pytestmark = [
    pytest.mark.mteb,
    pytest.mark.filterwarnings("ignore:.*has a gain:rcp_irx.RCPWarning"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
]


class Fixed:
    """A search model that returns what it is given, and remembers under which name it was asked."""

    mteb_model_meta = mteb.get_model_meta("mteb/baseline-bm25s").model_copy(update={"name": "test/fixed"})

    def __init__(self, results: dict[str, dict[str, float]]):
        self.results, self.asked = results, []

    def index(self, corpus: object, **kwargs: object) -> None:
        self.asked.append(kwargs["task_metadata"].name)

    def search(self, queries: object, **kwargs: object) -> dict[str, dict[str, float]]:
        self.asked.append(kwargs["task_metadata"].name)
        return {qid: dict(self.results[qid]) for qid in queries["id"] if qid in self.results}


def small(queries: list[str], documents: list[str], labels: dict, **more: object) -> mteb.AbsTask:
    """A task of a few ids."""

    class Small(OneSubset):
        metadata = metadata("Small", ["eng-Latn"])

    task = Small()
    part = {
        "corpus": Dataset.from_list([{"id": d, "text": f"text of {d}"} for d in documents]),
        "queries": Dataset.from_list([{"id": q, "text": f"text of {q}"} for q in queries]),
        "relevant_docs": labels,
        "top_ranked": None,
    }
    task.dataset, task.data_loaded = {"default": {"test": part}}, True
    for name, value in more.items():
        setattr(task, name, value)
    return task


def by_hand(run: dict[str, dict], pools: dict[str, dict], k: int, skip: int = 0, without: tuple = ()) -> float:
    """The mean nDCG@k over the queries of the pools: score, then docno, descending; linear gain."""
    values = []
    for qid, pool in pools.items():
        pool = {d: g for d, g in pool.items() if d not in without}
        scored = sorted(((score, d) for d, score in run.get(qid, {}).items() if d not in without), reverse=True)
        ranking = [d for _, d in scored][skip:]
        dcg = sum(pool.get(d, 0.0) / math.log2(i + 2) for i, d in enumerate(ranking[:k]))
        ideal = sum(g / math.log2(i + 2) for i, g in enumerate(sorted(pool.values(), reverse=True)[:k]))
        values.append(dcg / ideal if ideal else 0.0)
    return sum(values) / len(values)


def pools_of(of: object, column: str = "gain") -> dict[str, dict[str, float]]:
    rows = of.scored[["qid", "docno", column]].itertuples(index=False, name=None)
    nested: dict[str, dict[str, float]] = {}
    for qid, docno, gain in rows:
        nested.setdefault(qid, {})[docno] = gain
    return nested


# --- the numbers


@pytest.fixture(scope="module")
def exported(tmp_path_factory):
    """Gains, scores and the exported run of a task with two subsets that share query ids."""
    study, folder = gains("one", "two"), tmp_path_factory.mktemp("runs")
    scores = evaluate(bm25(), with_rcp(TwoSubsets(), study), prediction_folder=folder)
    return study, scores, json.loads((folder / "InMemoryTwo_predictions.json").read_text())


def test_two_subsets_that_share_query_ids_score_as_ir_measures_scores_the_exported_run(exported):
    study, scores, runs = exported
    assert scores["one"]["rcp_ndcg_at_10"] != scores["two"]["rcp_ndcg_at_10"]
    qrels = [ir_measures.Qrel(q, d, label) for q, docs in LABELS.items() for d, label in docs.items()]
    for subset in ("one", "two"):
        measure = RCPnDCG(gains=study.select(subset)) @ 10
        found = ir_measures.calc_aggregate([measure], qrels, runs[subset]["test"])[measure]
        assert scores[subset]["rcp_ndcg_at_10"] == pytest.approx(found, abs=1e-12)


def test_and_as_ranx_scores_it(exported):
    study, scores, runs = exported
    pytest.importorskip("ranx", reason="ranx is not installed: pip install 'rcp-irx[ranx]'")
    import rcp_irx.ranx

    for subset in ("one", "two"):
        found = rcp_irx.ranx.evaluate(study.select(subset), runs[subset]["test"], "rcp_ndcg@10")
        assert scores[subset]["rcp_ndcg_at_10"] == pytest.approx(found, abs=1e-12)


def test_and_as_a_count_by_hand(exported):
    study, scores, runs = exported
    for subset in ("one", "two"):
        run, pools = runs[subset]["test"], pools_of(study.select(subset))
        assert scores[subset]["rcp_ndcg_at_10"] == pytest.approx(by_hand(run, pools, 10), abs=1e-12)
        judged = np.mean([np.mean([d in pools[q] for d in list(docs)[:10]]) for q, docs in run.items()])
        assert scores[subset]["rcp_judged_at_10"] == pytest.approx(judged, abs=1e-12)


def test_every_cutoff_and_the_count_gains(tmp_path):
    study = gains()
    scores = evaluate(bm25(), with_rcp(OneSubset(), study, k_values=[20, 1, 3, 3]), prediction_folder=tmp_path)[
        "default"
    ]
    run = json.loads((tmp_path / "InMemory_predictions.json").read_text())["default"]["test"]
    ks = (1, 3, 20)
    expected = {f"{metric}_at_{k}" for metric in ("rcp_ndcg", "count_ndcg", "rcp_judged") for k in ks}
    added = {name for name in scores if name.startswith(("rcp_", "count_"))}
    assert added == expected | {"rcp_queries", "rcp_queries_without_gains"}
    for k in ks:
        assert scores[f"rcp_ndcg_at_{k}"] == pytest.approx(by_hand(run, pools_of(study), k), abs=1e-12)
        counts = by_hand(run, pools_of(study, "count_gain"), k)
        assert scores[f"count_ndcg_at_{k}"] == pytest.approx(counts, abs=1e-12)
    assert scores["rcp_queries"] == len(LABELS)


def test_by_default_the_cutoffs_are_the_tasks():
    task = OneSubset()
    scores = evaluate(bm25(), with_rcp(task, gains()))["default"]
    assert {f"rcp_ndcg_at_{k}" for k in task.k_values} == {name for name in scores if name.startswith("rcp_ndcg")}


def test_scores_are_plain_floats_and_survive_the_result_file(tmp_path):
    cache = mteb.ResultCache(tmp_path)
    scores = evaluate(bm25(), with_rcp(OneSubset(), gains()), cache=cache)["default"]
    (read,) = cache.load_task_result("InMemory.rcp", bm25().mteb_model_meta).scores["test"]
    for name, value in scores.items():
        if name.startswith(("rcp_", "count_")):
            assert type(value) is float
            assert type(read[name]) is float
            assert read[name] == pytest.approx(value, abs=1e-6)  # mteb rounds on disk


def test_a_table_without_pass_counts_gives_no_count_scores():
    study = gains()
    bare = type(study)(study.documents.assign(n=np.nan, C1=np.nan), study.queries, study.criteria)
    scores = evaluate(bm25(), with_rcp(OneSubset(), bare))["default"]
    assert not [name for name in scores if name.startswith("count_")]
    assert scores["rcp_ndcg_at_10"] == evaluate(bm25(), with_rcp(OneSubset(), study))["default"]["rcp_ndcg_at_10"]


TIED = {"q": {"a": 1.0, "b": 1.0, "c": 1.0}}
TIED_GAINS = [["", "q", "a", 0.9, 0, False], ["", "q", "b", 0.3, 1, False], ["", "q", "c", 0.1, 2, False]]


@pytest.mark.parametrize(
    ("options", "first"),
    [({}, 0.1), ({"ties": "mean"}, 1.3 / 3), ({"rules": "trec-dl"}, 0.9), ({"ties": "order"}, 0.3)],
)
def test_tie_rules(options, first):
    task = small(["q"], ["a", "b", "c"], {"q": {"a": 1}})
    model = Fixed({"q": {"b": 1.0, "a": 1.0, "c": 1.0}})
    scores = evaluate(model, with_rcp(task, table(TIED_GAINS), k_values=[1], **options))["default"]
    assert scores["rcp_ndcg_at_1"] == pytest.approx(first / 0.9, abs=1e-12)


# --- which queries and documents


RUN = {"q1": {"x": 9.0, "a": 3.0, "b": 2.0}, "q2": {"a": 2.0, "c": 1.0}, "q3": {"c": 1.0}}
POOLS = {"q1": {"a": 0.9, "b": 0.4, "x": 0.2}, "q2": {"c": 0.8, "a": 0.1}, "q3": {"c": 0.5, "a": 0.6}}
QRELS = {"q1": {"a": 1}, "q2": {"c": 1}, "q3": {"a": 1}}


def of(pools: dict[str, dict[str, float]], dataset: str = ""):
    return table([[dataset, q, d, g, i, False] for q, docs in pools.items() for i, (d, g) in enumerate(docs.items())])


def test_a_query_that_the_model_misses_scores_0_and_queries_that_mteb_filters_are_not_scored():
    task = small(["q1", "q2", "q3"], ["a", "b", "c", "x"], {**QRELS, "q3": {}, "q9": {"a": 1}})
    scores = evaluate(Fixed({"q1": RUN["q1"]}), with_rcp(task, of({**POOLS, "q9": {"a": 0.5}})))["default"]
    asked = {q: POOLS[q] for q in ("q1", "q2")}  # q3 has no label, q9 is none of the task's queries
    assert scores["rcp_ndcg_at_10"] == pytest.approx(by_hand({"q1": RUN["q1"]}, asked, 10), abs=1e-12)
    assert scores["rcp_queries"] == 2


def test_a_model_that_answers_only_queries_without_gains_scores_0():
    task = small(["q1", "q2"], ["a", "b", "c", "x"], {q: QRELS[q] for q in ("q1", "q2")})
    with pytest.warns(RCPWarning, match="1 of 2 queries have no gains"):
        scores = evaluate(Fixed({"q2": RUN["q2"]}), with_rcp(task, of({"q1": POOLS["q1"]})))["default"]
    assert (scores["rcp_ndcg_at_10"], scores["rcp_judged_at_10"], scores["rcp_queries"]) == (0.0, 0.0, 1.0)


def test_a_model_that_answers_nothing_scores_0():
    task = small(["q1"], ["a", "b"], {"q1": {"a": 1}})
    wrapped = with_rcp(task, of({"q1": {"a": 0.5}}))
    for results in ({}, {"q1": {}}):
        scores = wrapped.task_specific_scores({}, {"q1": {"a": 1}}, results, hf_split="test", hf_subset="default")
        assert scores["rcp_ndcg_at_10"] == 0.0
    with pytest.raises(RCPError, match="share no query"):  # answers to other queries than were asked
        wrapped.task_specific_scores({}, {"q1": {"a": 1}}, {"z": {"a": 1.0}}, hf_split="test", hf_subset="default")


def test_a_first_result_that_mteb_skips_is_skipped():
    task = small(list(QRELS), ["a", "b", "c", "x"], QRELS, skip_first_result=True)
    wrapped = evaluate(Fixed(RUN), with_rcp(task, of(POOLS)))["default"]
    assert wrapped["rcp_ndcg_at_10"] == pytest.approx(by_hand(RUN, POOLS, 10, skip=1), abs=1e-12)
    assert wrapped["rcp_ndcg_at_1"] == pytest.approx((1 + 1 + 0) / 3, abs=1e-12)
    assert wrapped["ndcg_at_1"] == pytest.approx(2 / 3, abs=1e-5)


def test_identical_ids_leave_rankings_and_ideals_where_mteb_drops_them():
    labels, run = {"a": {"b": 1}, "b": {"c": 1}}, {"a": {"a": 9.0, "c": 2.0, "b": 1.0}, "b": {"c": 1.0, "b": 0.5}}
    pools = {"a": {"a": 0.99, "b": 0.6, "c": 0.3}, "b": {"b": 0.99, "c": 0.7}}
    left = [by_hand(run, {q: pools[q]}, 10, without=(q,)) for q in pools]
    task = small(["a", "b"], ["a", "b", "c"], labels, ignore_identical_ids=True)
    dropped = evaluate(Fixed(run), with_rcp(task, of(pools)))["default"]
    assert dropped["rcp_ndcg_at_10"] == pytest.approx(np.mean(left), abs=1e-12)
    with pytest.raises(RCPError, match="mteb drops documents whose id is the query's"):
        with_rcp(task, of(pools), ignore_identical_ids=False)


def test_the_wrapper_can_drop_identical_ids_where_mteb_does_not_and_says_so():
    labels, run = {"a": {"b": 1}}, {"a": {"a": 9.0, "c": 2.0, "b": 1.0}}
    pools = {"a": {"a": 0.99, "b": 0.6, "c": 0.3}}
    task = small(["a"], ["a", "b", "c"], labels)
    plain = evaluate(Fixed(run), with_rcp(task, of(pools)))["default"]
    assert plain["rcp_ndcg_at_10"] == pytest.approx(by_hand(run, pools, 10), abs=1e-12)
    with pytest.warns(RCPWarning, match="Small: documents whose id is the query's leave RCP's rankings and ideals"):
        wrapped = with_rcp(task, of(pools), ignore_identical_ids=True)
    scores = evaluate(Fixed(run), wrapped)["default"]
    assert scores["rcp_ndcg_at_10"] == pytest.approx(by_hand(run, pools, 10, without=("a",)), abs=1e-12)
    assert scores["ndcg_at_10"] == plain["ndcg_at_10"]
    assert "ignore_identical_ids" in wrapped.metadata.revision


def test_both_at_once():
    labels, run = {"a": {"b": 1}}, {"a": {"a": 9.0, "c": 2.0, "b": 1.0}}
    pools = {"a": {"a": 0.99, "b": 0.6, "c": 0.3}}
    task = small(["a"], ["a", "b", "c"], labels, skip_first_result=True)
    with pytest.warns(RCPWarning, match="identical|id is the query's"):
        wrapped = with_rcp(task, of(pools), ignore_identical_ids=True)
    scores = evaluate(Fixed(run), wrapped)["default"]
    assert scores["rcp_ndcg_at_1"] == pytest.approx(1.0, abs=1e-12)  # a has left, c is skipped, b is the best


def test_excluded_documents_leave():
    study = of(POOLS).exclude(pd.DataFrame({"qid": ["q1"], "docno": ["x"]}))
    task = small(list(QRELS), ["a", "b", "c", "x"], QRELS)
    scores = evaluate(Fixed(RUN), with_rcp(task, study))["default"]
    pools = {**POOLS, "q1": {"a": 0.9, "b": 0.4}}
    assert scores["rcp_ndcg_at_10"] == pytest.approx(by_hand({**RUN, "q1": {"a": 3.0, "b": 2.0}}, pools, 10), abs=1e-12)


def test_some_queries_without_gains_are_left_out_with_a_warning_and_counted():
    task = small(list(QRELS), ["a", "b", "c", "x"], QRELS)
    wrapped = with_rcp(task, of({q: POOLS[q] for q in ("q1", "q2")}))
    with pytest.warns(
        RCPWarning, match=r"Small, default, test: 1 of 3 queries have no gains: 'q3'; the RCP scores are"
    ):
        scores = evaluate(Fixed(RUN), wrapped)["default"]
    assert scores["rcp_ndcg_at_10"] == pytest.approx(by_hand(RUN, {q: POOLS[q] for q in ("q1", "q2")}, 10), abs=1e-12)
    assert (scores["rcp_queries"], scores["rcp_queries_without_gains"]) == (2.0, 1.0)
    assert not any(math.isnan(scores[name]) for name in scores if name.startswith(("rcp_", "count_")))


def test_more_than_half_without_gains_is_an_error():
    task = small(list(QRELS), ["a", "b", "c", "x"], QRELS)
    with pytest.raises(RCPError, match=r"Small, default, test: 2 of 3 queries have no gains: 'q2', 'q3'"):
        evaluate(Fixed(RUN), with_rcp(task, of({"q1": POOLS["q1"]})))


def test_half_of_the_queries_are_enough():
    task = small(["q1", "q2"], ["a", "b", "c", "x"], {q: QRELS[q] for q in ("q1", "q2")})
    with pytest.warns(RCPWarning, match="1 of 2 queries have no gains: 'q2'"):
        scores = evaluate(Fixed(RUN), with_rcp(task, of({"q1": POOLS["q1"]})))["default"]
    assert scores["rcp_queries"] == 1


def test_gains_of_another_task_are_an_error_with_ids_of_both():
    task = small(list(QRELS), ["a", "b", "c", "x"], QRELS)
    with pytest.raises(RCPError, match=r"3 of 3 queries have no gains: 'q1', 'q2', 'q3'; there are gains for 't1'"):
        evaluate(Fixed(RUN), with_rcp(task, of({"t1": {"a": 0.5}})))


@pytest.mark.filterwarnings("default:.*has a gain:rcp_irx.RCPWarning")
def test_low_coverage_and_documents_of_another_collection_are_warned_of():
    task = small(list(QRELS), ["a", "b", "c", "x"], QRELS)
    with pytest.warns(RCPWarning, match=r"of the top 10 of 'Small, default, test' has a gain"):
        evaluate(Fixed(RUN), with_rcp(task, of({**POOLS, "q1": {"b": 0.4}})))
    with pytest.warns(RCPWarning, match="are these the same collection"):
        evaluate(Fixed(RUN), with_rcp(task, of({q: {"z": 0.5} for q in QRELS})))


def test_a_score_that_is_not_finite_is_an_error():
    task = small(["q1"], ["a", "b"], {"q1": {"a": 1}})
    with pytest.raises(RCPError, match="scores must be finite numbers"):
        evaluate(Fixed({"q1": {"a": float("nan"), "b": 1.0}}), with_rcp(task, of({"q1": {"a": 0.5}})))


# --- what stays as it was


@pytest.mark.parametrize(
    "task", [MockRetrievalTask, MockRerankingTask, MockInstructionReranking], ids=lambda t: t.__name__
)
def test_plain_scores_of_mtebs_mock_tasks_stay_as_they_are(task):
    study = of({"q1": {"d1": 0.9, "d2": 0.2}, "q2": {"d1": 0.3, "d2": 0.4}})
    plain = mteb.evaluate(bm25(), task(), cache=None, show_progress_bar=False).task_results[0]
    both = mteb.evaluate(bm25(), with_rcp(task(), study), cache=None, show_progress_bar=False).task_results[0]
    assert plain.scores.keys() == both.scores.keys()
    for split, (own,) in plain.scores.items():
        (extended,) = both.scores[split]
        added = {name for name in extended if name.startswith(("rcp_", "count_"))}
        assert json.dumps({name: value for name, value in extended.items() if name not in added}) == json.dumps(own)
        assert "rcp_ndcg_at_10" in added


@pytest.mark.parametrize(
    "task", [MockMultilingualRetrievalTask, MockMultilingualRerankingTask], ids=lambda t: t.__name__
)
def test_subsets_and_splits_of_mtebs_mock_tasks(task):
    first, second = {"d1": 0.9, "d2": 0.2}, {"d1": 0.2, "d2": 0.9}
    study = {"eng": of({"q1": first, "q2": first}), "fra": of({"q1": second, "q2": second})}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the two tables are two fits
        wrapped = with_rcp(task(), study)
    result = mteb.evaluate(Fixed({q: {"d1": 2.0, "d2": 1.0} for q in ("q1", "q2")}), wrapped, cache=None)
    for split in wrapped.eval_splits:
        scores = {one["hf_subset"]: one["rcp_ndcg_at_1"] for one in result.task_results[0].scores[split]}
        assert scores == {"eng": pytest.approx(1.0), "fra": pytest.approx(2 / 9)}


def test_the_tasks_own_additional_scores_stay():
    class Special(OneSubset):
        metadata = metadata("Special", ["eng-Latn"])

        def task_specific_scores(self, scores, qrels, results, hf_split, hf_subset):
            return {"own": float(len(results))}

    scores = evaluate(bm25(), with_rcp(Special(), gains()))["default"]
    assert scores["own"] == len(LABELS)
    assert "rcp_ndcg_at_10" in scores


def test_models_are_asked_under_the_tasks_own_name_as_prompts_hang_on_it():
    model = Fixed(RUN)
    evaluate(model, with_rcp(small(list(QRELS), ["a", "b", "c", "x"], QRELS), of(POOLS)))
    assert set(model.asked) == {"Small"}


def test_wrapping_and_evaluating_does_not_change_the_task():
    labels = {**QRELS, "q3": {}}
    task = small(list(QRELS), ["a", "b", "c", "x"], labels)
    before = dict(vars(task))
    evaluate(Fixed(RUN), with_rcp(task, of(POOLS)))
    assert vars(task) == before
    assert type(task).__mro__[1] is OneSubset
    assert task.metadata.name == "Small"
    part = task.dataset["default"]["test"]
    assert (part["relevant_docs"], list(part["queries"]["id"])) == (labels, list(QRELS))
    fresh = OneSubset()
    evaluate(bm25(), with_rcp(fresh, gains()))
    assert not fresh.data_loaded
    assert fresh.dataset is None


def test_the_wrapped_task_is_one_of_its_kind_and_keeps_its_name_when_data_are_unloaded():
    wrapped = with_rcp(OneSubset(), gains())
    assert isinstance(wrapped, OneSubset)
    assert repr(wrapped) == "OneSubset(name='InMemory.rcp', languages=['eng'])"
    evaluate(bm25(), wrapped)
    assert not wrapped.data_loaded
    assert wrapped.metadata.name == "InMemory.rcp"
    assert evaluate(bm25(), wrapped)["default"]["rcp_queries"] == len(LABELS)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda task: pickle.loads(pickle.dumps(task))])
@pytest.mark.parametrize("loaded", [False, True])
def test_copies_and_pickles(copied, loaded):
    wrapped = with_rcp(OneSubset(), gains(), k_values=[5])
    if loaded:
        wrapped.load_data()
    other = copied(wrapped)
    assert other.metadata.name == "InMemory.rcp"
    assert isinstance(other, OneSubset)
    assert evaluate(bm25(), other) == evaluate(bm25(), wrapped)


def test_random_sources_are_left_alone():
    """mteb seeds the global sources whenever it makes a task."""
    task, study = OneSubset(), gains()
    random.seed(7)
    before = random.getstate()
    wrapped = with_rcp(task, study)
    assert random.getstate() == before
    assert wrapped.np_rng.random() == task.np_rng.random()


# --- names and caches


def test_a_warm_cache_changes_nothing_in_either_direction(tmp_path):
    study = gains()
    fresh = evaluate(bm25(), with_rcp(OneSubset(), study))["default"]
    plain = evaluate(bm25(), OneSubset())["default"]
    for first, second in [("plain", "wrapped"), ("wrapped", "plain")]:
        cache = mteb.ResultCache(tmp_path / first)
        tasks = {"plain": OneSubset(), "wrapped": with_rcp(OneSubset(), study)}
        expected = {"plain": plain, "wrapped": fresh}
        for turn in (first, second, first, second):
            got = evaluate(bm25(), tasks[turn], cache=cache)["default"]
            assert got.keys() == expected[turn].keys()
            assert all(
                value == pytest.approx(expected[turn][name], abs=1e-6, nan_ok=True)
                for name, value in got.items()
                if isinstance(value, float)
            )
        assert {path.name for path in cache.cache_path.rglob("InMemory*.json")} == {
            "InMemory.json",
            "InMemory.rcp.json",
        }


def test_the_suffix_keeps_judges_apart():
    wrapped = with_rcp(OneSubset(), gains(), suffix="rcp2")
    assert wrapped.metadata.name == "InMemory.rcp2"
    with pytest.raises(RCPError, match="suffix must be letters"):
        with_rcp(OneSubset(), gains(), suffix="a/b")


def test_the_revision_tells_gains_and_options_apart():
    study = gains()
    documents = study.documents
    documents.loc[0, "gain"] = 0.123
    edited = type(study)(documents, study.queries, study.criteria, study.metadata)
    assert edited.fit_id == study.fit_id
    revisions = [
        with_rcp(OneSubset(), study).metadata.revision,
        with_rcp(OneSubset(), edited).metadata.revision,
        with_rcp(OneSubset(), study, ties="mean").metadata.revision,
    ]
    assert len(set(revisions)) == 3
    assert all(revision.startswith(f"r1+rcp:{study.fit_id}:") for revision in revisions)
    assert "(ties='mean')" in revisions[2]
    shuffled = type(study)(
        study.documents.sample(frac=1, random_state=3), study.queries, study.criteria, study.metadata
    )
    assert with_rcp(OneSubset(), shuffled).metadata.revision == revisions[0]


def test_predictions_are_saved_under_the_tasks_own_name(tmp_path):
    evaluate(bm25(), OneSubset(), prediction_folder=tmp_path / "plain")
    wrapped = with_rcp(OneSubset(), gains())
    evaluate(bm25(), wrapped, prediction_folder=tmp_path / "wrapped")
    files = [tmp_path / folder / "InMemory_predictions.json" for folder in ("plain", "wrapped")]
    assert files[0].read_text() == files[1].read_text()
    again = with_rcp(OneSubset(), gains()).convert_to_reranking(tmp_path / "wrapped", top_k=5)
    scores = evaluate(bm25(), again)["default"]
    first = evaluate(bm25(), wrapped)["default"]
    assert scores["rcp_ndcg_at_5"] == first["rcp_ndcg_at_5"]
    assert scores["rcp_ndcg_at_1000"] < first["rcp_ndcg_at_1000"]
    assert scores["previous_results_model_meta"]["model_name"] == "test/bm25"


def test_main_score():
    study = gains()
    assert evaluate(bm25(), with_rcp(OneSubset(), study))["default"]["main_score"] == pytest.approx(
        evaluate(bm25(), OneSubset())["default"]["ndcg_at_10"]
    )
    scores = evaluate(bm25(), with_rcp(OneSubset(), study, main_score=True))["default"]
    assert scores["main_score"] == scores["rcp_ndcg_at_10"]
    scores = evaluate(bm25(), with_rcp(OneSubset(), study, main_score=True, k_values=[3, 7]))["default"]
    assert scores["main_score"] == scores["rcp_ndcg_at_7"]


# --- what is given


def test_names_tables_and_folders(tmp_path):
    study = gains()
    study.save(tmp_path / "study.gains")
    register_gains("study of mteb", study)
    task = with_rcp("NanoArguAnaRetrieval", tmp_path / "study.gains")
    assert task.metadata.name == "NanoArguAnaRetrieval.rcp"
    assert task.rcp.gains["default"] == study
    assert with_rcp("NanoArguAnaRetrieval", "study of mteb").rcp.gains["default"] is study
    with pytest.raises(RCPError, match=r"mteb has no task 'NanoArguana' .*Did you mean"):
        with_rcp("NanoArguana", study)


def test_a_released_folder_is_told_how_to_read(tmp_path):
    for name in ("newer/NanoNQ-qrels/train-00000-of-00001.parquet", "older/NanoNQ/qrels.parquet"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).touch()
    for folder in ("newer", "older"):
        with pytest.raises(RCPError, match=r"released labels.*GainTable.from_released\('.*/(newer|older)', subset\)"):
            with_rcp(OneSubset(), tmp_path / folder)
    (tmp_path / "neither").mkdir()
    with pytest.raises(RCPError) as error:
        with_rcp(OneSubset(), tmp_path / "neither")
    assert "from_released" not in str(error.value)


def test_other_kinds_of_tasks_are_refused():
    study = gains()
    with pytest.raises(RCPError, match="MockClassificationTask is Classification"):
        with_rcp(MockClassificationTask(), study)
    with pytest.raises(RCPError, match="only sums up other tasks"):
        with_rcp(MockAggregatedTask(), study)
    with pytest.raises(RCPError, match="as objects or names"):
        with_rcp(OneSubset, study)
    with pytest.raises(RCPError, match=r"InMemory\.rcp holds RCP scores already"):
        with_rcp(with_rcp(OneSubset(), study), study)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"k_values": []}, "one or more whole numbers"),
        ({"k_values": 10}, "k_values must be whole numbers"),
        ({"k_values": "10"}, "k_values must be whole numbers"),
        ({"k_values": [None]}, "one or more whole numbers"),
        ({"k_values": [0]}, "cutoff must be a whole number"),
        ({"k_values": [1.5]}, "cutoff must be a whole number"),
        ({"k_values": [2000]}, "mteb asks for 1000 documents"),
        ({"ties": "random"}, "ties must be one of"),
        ({"ties": "pool", "rules": "vidore"}, "give one"),
        ({"ignore_identical_ids": 2}, "must be True or False"),
    ],
    ids=str,
)
def test_options_that_are_refused(options, message):
    with pytest.raises(RCPError, match=message):
        with_rcp(OneSubset(), gains(), **options)


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ("3, 11", "mteb is not installed; run: pip install 'rcp-irx[mteb]'"),
        ("3, 10", "mteb needs Python 3.11 or newer, and this is Python 3.10: its extra installs nothing here"),
    ],
)
def test_without_mteb_the_error_says_what_to_do(version, message):
    code = f"""
import sys
import rcp_irx.errors
sys.modules["mteb"] = None
sys.version_info = ({version}, 0, "final", 0)
try:
    import rcp_irx.mteb
except ImportError as error:
    print(type(error).__name__, error.name, error)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == f"MissingExtra mteb {message}", done.stderr
