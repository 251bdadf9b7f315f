"""score_predictions: the same numbers as with_rcp, without a model; damaged and foreign files."""

from __future__ import annotations

import json
import math
import warnings

import pytest

pytest.importorskip("mteb", reason="mteb is not installed: pip install 'rcp-irx[mteb]'")

from rcp_irx import RCPError, RCPWarning
from rcp_irx.evaluation import ndcg
from rcp_irx.mteb import score_predictions, with_rcp
from tests.evaluation.test_measures import table
from tests.mteb.collection import LABELS, OneSubset, TwoSubsets, bm25, evaluate, gains

pytestmark = [pytest.mark.mteb, pytest.mark.filterwarnings("ignore:.*has a gain:rcp_irx.RCPWarning")]

STUDY, TWO = gains(), gains("one", "two")
HEAD = ["model", "revision", "task", "subset", "split"]


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The predictions of two models on two tasks, and the scores that the wrapped tasks gave."""
    folder = tmp_path_factory.mktemp("runs")
    scores = {}
    for name, options in [("test/a", {}), ("test/b", {"b": 0.0})]:
        for task, given in [(OneSubset(), STUDY), (TwoSubsets(), TWO)]:
            wrapped = with_rcp(task, given, k_values=[1, 10])
            found = evaluate(bm25(name, **options), wrapped, prediction_folder=folder / name.replace("/", "_"))
            scores |= {(name, task.metadata.name, subset): own for subset, own in found.items()}
    return folder, scores


def write(folder, content, name="InMemory"):
    folder.mkdir(exist_ok=True, parents=True)
    path = folder / f"{name}_predictions.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content))
    return path


def results(documents, subset="default"):
    return {subset: {"test": dict.fromkeys(LABELS, documents)}}


def test_scores_are_those_of_the_wrapped_tasks(runs):
    folder, scores = runs
    frame = score_predictions(folder, {"InMemory": STUDY, "InMemoryTwo": TWO}, tasks=[OneSubset(), TwoSubsets()])
    assert frame.columns.tolist()[:5] == HEAD
    assert len(frame) == len(scores)
    for row in frame.to_dict("records"):
        expected = scores[row["model"], row["task"], row["subset"]]
        assert {name: row[name] for name in row if name not in HEAD} == {
            name: expected[name]
            for name in expected
            if name.startswith(("rcp_", "count_")) and not name.endswith("_at_1")
        }
    assert set(frame["revision"]) == {bm25().mteb_model_meta.revision}


def test_tasks_that_mteb_does_not_know_need_not_be_given(runs):
    folder, scores = runs
    path = folder / "test_a" / "InMemoryTwo_predictions.json"
    for given in (TWO, {"one": TWO.select("one"), "two": TWO.select("two")}, {"InMemoryTwo": TWO}):
        frame = score_predictions(path, given, k_values=[1]).set_index("subset")
        for subset in ("one", "two"):
            expected = scores["test/a", "InMemoryTwo", subset]["rcp_ndcg_at_1"]
            assert frame.loc[subset, "rcp_ndcg_at_1"] == expected


def test_scores_of_each_query(runs):
    folder, _ = runs
    path = folder / "test_a" / "InMemory_predictions.json"
    frame = score_predictions(path, STUDY, per_query=True, ties="mean")
    assert frame.columns.tolist() == [*HEAD, "qid", "rcp_ndcg_at_10", "rcp_judged_at_10", "count_ndcg_at_10"]
    expected = ndcg(json.loads(path.read_text())["default"]["test"], STUDY, 10, ties="mean")
    assert dict(zip(frame["qid"], frame["rcp_ndcg_at_10"], strict=True)) == pytest.approx(expected.to_dict(), abs=1e-15)


def test_one_table_for_a_suite_of_tasks(runs, tmp_path):
    folder, _ = runs
    suite = gains("InMemory", "one", "two")
    frame = score_predictions(folder / "test_a", suite, tasks=[OneSubset(), TwoSubsets()])
    assert sorted(zip(frame["task"], frame["subset"], strict=True)) == [
        ("InMemory", "default"),
        ("InMemoryTwo", "one"),
        ("InMemoryTwo", "two"),
    ]
    write(tmp_path, results({"d": 1.0}))
    write(tmp_path, results({"d": 1.0}), "Other")
    with pytest.raises(RCPError, match=r"dataset '' would serve .*'InMemory', 'default'.*'Other', 'default'"):
        score_predictions(tmp_path, STUDY)


def test_what_a_known_task_leaves_out_is_left_out(tmp_path):
    """mteb drops identical ids on ArguAna, after the predictions were saved, and not on NanoArguAna."""
    content = {"default": {"test": {"a": {"a": 9.0, "c": 2.0, "b": 1.0}}}}
    study = table([["", "a", d, g, i, False] for i, (d, g) in enumerate([("a", 0.9), ("b", 0.6), ("c", 0.3)])])
    kept = (0.9 + 0.3 / math.log2(3) + 0.6 / 2) / (0.9 + 0.6 / math.log2(3) + 0.3 / 2)
    dropped = (0.3 + 0.6 / math.log2(3)) / (0.6 + 0.3 / math.log2(3))

    def score(name, **options):
        path = write(tmp_path / name, content, name)
        return score_predictions(path, study, **options)["rcp_ndcg_at_10"].item()

    assert score("NanoArguAnaRetrieval") == pytest.approx(kept, abs=1e-12)
    assert score("NanoArguAnaRetrieval", ignore_identical_ids=True) == pytest.approx(dropped, abs=1e-12)
    assert score("ArguAna") == pytest.approx(dropped, abs=1e-12)
    assert score("NobodysTask") == pytest.approx(kept, abs=1e-12)
    task = OneSubset()
    task.skip_first_result = True
    skipped = (0.3 + 0.6 / math.log2(3)) / (0.9 + 0.6 / math.log2(3) + 0.3 / 2)
    assert score("InMemory", tasks=[task]) == pytest.approx(skipped, abs=1e-12)


def test_some_queries_without_gains(tmp_path):
    qids = list(LABELS)
    path = write(tmp_path, {"default": {"test": {qid: {"d": 1.0} for qid in [*qids, "new"]}}})
    with pytest.warns(RCPWarning, match="InMemory, default, test: 1 of 11 queries have no gains: 'new'"):
        frame = score_predictions(path, STUDY)
    assert frame["rcp_queries"].item() == len(qids)
    assert frame["rcp_queries_without_gains"].item() == 1


# --- queries that the file lacks


def study_of(*qids):
    return table([["", qid, docno, gain, rank, False] for qid in qids for rank, (docno, gain) in enumerate(PAIR)])


PAIR = [("a", 0.9), ("b", 0.3)]
FOUND = {"b": 2.0, "a": 1.0}
VALUE = (0.3 + 0.9 / math.log2(3)) / (0.9 + 0.3 / math.log2(3))


def test_queries_that_the_file_lacks_score_0(tmp_path):
    path = write(tmp_path, {"default": {"test": {qid: FOUND for qid in ("q1", "q2", "q3")}}})
    lack = r"InMemory_predictions.json, subset 'default', lacks 2 of the 5 queries that have gains: 'q4', 'q5'; they"
    with pytest.warns(RCPWarning, match=lack):
        frame = score_predictions(path, study_of("q1", "q2", "q3", "q4", "q5"))
    assert frame["rcp_ndcg_at_10"].item() == pytest.approx(3 * VALUE / 5, abs=1e-12)
    assert (frame["rcp_queries"].item(), frame["rcp_queries_without_gains"].item()) == (5, 0)
    with pytest.warns(RCPWarning, match="they score 0"):
        each = score_predictions(path, study_of("q1", "q2", "q3", "q4", "q5"), per_query=True)
    assert dict(zip(each["qid"], each["rcp_ndcg_at_10"], strict=True)) == pytest.approx(
        {"q1": VALUE, "q2": VALUE, "q3": VALUE, "q4": 0.0, "q5": 0.0}, abs=1e-12
    )


def test_half_of_them_may_be_missing_and_not_more(tmp_path):
    path = write(tmp_path, {"default": {"test": {"q1": FOUND, "q2": FOUND}}})
    with pytest.warns(RCPWarning, match="lacks 2 of the 4 queries"):
        frame = score_predictions(path, study_of("q1", "q2", "q3", "q4"))
    assert frame["rcp_ndcg_at_10"].item() == pytest.approx(VALUE / 2, abs=1e-12)
    with pytest.raises(RCPError, match=r"lacks 3 of the 5 queries that have gains: 'q3', 'q4', 'q5'; more than half"):
        score_predictions(path, study_of("q1", "q2", "q3", "q4", "q5"))


def test_a_query_whose_results_are_empty_is_not_missing(tmp_path):
    path = write(tmp_path, {"default": {"test": {"q1": FOUND, "q2": {}}}})
    assert score_predictions(path, study_of("q1", "q2"))["rcp_ndcg_at_10"].item() == pytest.approx(VALUE / 2)


def test_of_several_splits_it_cannot_be_told_which_one_lacks_them(tmp_path):
    path = write(tmp_path, {"default": {"dev": {"q1": FOUND, "q2": FOUND}, "test": {"q3": FOUND, "q4": {"b": 1.0}}}})
    study = study_of("q1", "q2", "q3", "q4", "q5")
    with pytest.warns(RCPWarning, match="lacks 1 of the 5 queries that have gains: 'q5'; they are left out") as told:
        frame = score_predictions(path, study, k_values=[1])
    assert len([one for one in told if "left out" in str(one.message)]) == 1
    assert frame["rcp_ndcg_at_1"].tolist() == pytest.approx([1 / 3, 1 / 3])
    assert frame["rcp_queries"].tolist() == [2, 2]
    with pytest.raises(RCPError, match=r"lacks 5 of the 9 queries.*more than half"):
        score_predictions(path, study_of(*(f"q{i}" for i in range(1, 10))))


def test_nor_of_a_task_with_several_splits_of_which_the_file_holds_one(tmp_path):
    path = write(tmp_path, {"default": {"test": {"q1": FOUND, "q2": FOUND}}})
    task = OneSubset()
    task._eval_splits = ["dev", "test"]
    with pytest.warns(RCPWarning, match="they are left out"):
        frame = score_predictions(path, study_of("q1", "q2", "q3"), tasks=task)
    assert frame["rcp_ndcg_at_10"].item() == pytest.approx(VALUE, abs=1e-12)


def test_each_subset_is_looked_at_by_itself(tmp_path):
    content = {"one": {"test": {"q1": FOUND, "q2": FOUND}}, "two": {"test": {"q1": FOUND}}}
    path = write(tmp_path, content, "InMemoryTwo")
    study = {"one": study_of("q1", "q2"), "two": study_of("q1", "q2")}
    with pytest.warns(RCPWarning, match="subset 'two', lacks 1 of the 2 queries that have gains: 'q2'"):
        frame = score_predictions(path, study)
    assert frame["rcp_ndcg_at_10"].tolist() == pytest.approx([VALUE, VALUE / 2])


def test_where_a_tasks_data_are_loaded_its_queries_are_scored(tmp_path):
    """mteb asks no model for queries without labels, so that no file has them."""
    unlabelled, *asked = LABELS
    task = OneSubset()
    task.load_data()
    task.dataset["default"]["test"]["relevant_docs"][unlabelled] = {}
    expected = evaluate(bm25(), with_rcp(task, STUDY, k_values=[10]), prediction_folder=tmp_path)["default"]
    content = json.loads((tmp_path / "InMemory_predictions.json").read_text())
    assert unlabelled not in content["default"]["test"]
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*lacks")
        frame = score_predictions(tmp_path, STUDY, tasks=[task])
    assert frame["rcp_ndcg_at_10"].item() == expected["rcp_ndcg_at_10"]
    with pytest.warns(RCPWarning, match=f"lacks 1 of the 10 queries that have gains: '{unlabelled}'; they score 0"):
        other = score_predictions(tmp_path, STUDY)
    assert other["rcp_ndcg_at_10"].item() == pytest.approx(0.9 * expected["rcp_ndcg_at_10"], abs=1e-12)
    del content["default"]["test"][asked[0]]
    with pytest.warns(RCPWarning, match=f"lacks 1 of the 9 queries that have gains: '{asked[0]}'; they score 0"):
        score_predictions(write(tmp_path / "less", content), STUDY, tasks=[task])


# --- what is refused


def test_a_single_task_is_taken_and_others_that_have_no_predictions_are_told(tmp_path):
    path = write(tmp_path, results({"d": 1.0}))
    task = OneSubset()
    task.skip_first_result = True
    frame = score_predictions(path, STUDY, tasks=task)
    assert frame.equals(score_predictions(path, STUDY, tasks=[task]))
    with pytest.warns(
        RCPWarning, match="no predictions of 'NanoArguAnaRetrieval'; there are predictions of 'InMemory'"
    ):
        score_predictions(path, STUDY, tasks="NanoArguAnaRetrieval")
    for wrong in (None, 3):
        with pytest.raises(RCPError, match="tasks must be tasks of mteb or their names, not"):
            score_predictions(path, STUDY, tasks=wrong)
    for wrong in (None, 3):
        with pytest.raises(RCPError, match="a folder or file of predictions must be given as a path, not"):
            score_predictions(wrong, STUDY)


def test_what_with_rcp_refuses(tmp_path):
    path = write(tmp_path, {"default": {"test": {"a": {"a": 9.0, "b": 1.0}}}}, "ArguAna")
    study = table([["", "a", d, g, i, False] for i, (d, g) in enumerate([("a", 0.9), ("b", 0.6)])])
    with pytest.raises(RCPError, match="mteb drops documents whose id is the query's on ArguAna"):
        score_predictions(path, study, ignore_identical_ids=False)
    with pytest.raises(RCPError, match="k_values up to 2000: mteb asks for 1000 documents a query on ArguAna"):
        score_predictions(path, study, k_values=[2000])


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "no readable prediction file"),
        ("[1]", "holds list, not subsets"),
        ("{}", "holds no subset"),
        ({"default": [1]}, "subset 'default' must hold splits, and holds list"),
        ({"default": {"test": [1]}}, "split 'test' must hold queries, and holds list"),
        ({"default": {"test": {"q": 1.0}}}, "query 'q' must hold documents, and holds float"),
        (results({"d": "0.5"}), "scores must be finite numbers; query, document, score: .*'d', '0.5'"),
        (results({"d": None}), "scores must be finite numbers"),
        (results({"d": True}), "scores must be finite numbers"),
        (results({"d": float("nan")}), "scores must be finite numbers"),
        ({"default": {"test": {"q77": {"d": 1.0}}}}, "1 of 1 query has no gains: 'q77'; there are gains for"),
        ({"default": {"test": {}}}, "0 of 0 queries"),
    ],
    ids=str,
)
def test_damaged_files_and_gains_of_another_task_are_refused_and_the_file_is_named(tmp_path, content, message):
    path = write(tmp_path, content)
    with pytest.raises(RCPError, match=f"InMemory_predictions.json.*{message}"):
        score_predictions(path, STUDY)


def test_what_is_not_there_is_named(runs, tmp_path):
    folder, _ = runs
    with pytest.raises(RCPError, match=r"no prediction file .*found: no such folder"):
        score_predictions(folder / "nowhere", STUDY)
    (tmp_path / "notes.txt").touch()
    with pytest.raises(RCPError, match=r"no prediction file .*found: 'notes.txt'"):
        score_predictions(tmp_path, STUDY)
    with pytest.raises(RCPError, match="no gains for the predictions of 'InMemoryTwo'; there are gains for 'InMemory'"):
        score_predictions(folder, {"InMemory": STUDY})
    with pytest.raises(RCPError, match="no gains for subset 'one', 'two' of InMemoryTwo"):
        score_predictions(folder / "test_a" / "InMemoryTwo_predictions.json", STUDY)
    with pytest.raises(RCPError, match="k_values must be"):
        score_predictions(folder, {"InMemory": STUDY, "InMemoryTwo": TWO}, k_values=10)
