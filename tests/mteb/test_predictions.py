"""score_predictions: the same numbers as with_rcp, without a model; damaged and foreign files."""

from __future__ import annotations

import json
import math

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
