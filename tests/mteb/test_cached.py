"""What lies in mteb's own result cache under a wrapped task's name: main scores kept apart, other gains told."""

from __future__ import annotations

import json

import pytest

pytest.importorskip("mteb", reason="mteb is not installed: pip install 'rcp-irx[mteb]'")

import mteb

from rcp_irx import RCPError, RCPWarning
from rcp_irx.mteb import benchmark, with_rcp
from tests.mteb.collection import OneSubset, TwoSubsets, bm25, evaluate, gains

pytestmark = [
    pytest.mark.mteb,
    pytest.mark.filterwarnings("ignore:.*has a gain:rcp_irx.RCPWarning"),
    pytest.mark.filterwarnings("error:.*result cache:rcp_irx.RCPWarning"),
]


@pytest.fixture
def default_cache(tmp_path, monkeypatch):
    """An mteb.ResultCache at mteb's default place, which is this test's own."""
    monkeypatch.setenv("MTEB_CACHE", str(tmp_path / "mteb"))
    return mteb.ResultCache()


def results_of(cache, name="InMemory.rcp"):
    return sorted(cache.cache_path.rglob(f"{name}.json"))


def halve(cache, name="InMemoryTwo.x"):
    """Leave the first subset alone in the cached result."""
    (path,) = results_of(cache, name)
    content = json.loads(path.read_text())
    content["scores"]["test"] = [own for own in content["scores"]["test"] if own["hf_subset"] == "one"]
    path.write_text(json.dumps(content))


# --- main scores


def test_a_benchmark_and_a_task_on_one_cache_keep_their_main_scores(tmp_path):
    study = gains()
    for order in (["task", "benchmark"], ["benchmark", "task"]):
        cache = mteb.ResultCache(tmp_path / order[0])
        made = {
            "task": with_rcp(OneSubset(), study),
            "benchmark": benchmark([OneSubset()], {"InMemory": study}, name="N")[0],
        }
        for one in [*order, *order]:
            scores = evaluate(bm25(), made[one], cache=cache)["default"]
            main = "ndcg_at_10" if one == "task" else "rcp_ndcg_at_10"
            assert scores["main_score"] == pytest.approx(scores[main], abs=1e-6)
        assert scores["ndcg_at_10"] != pytest.approx(scores["rcp_ndcg_at_10"], abs=1e-3)


def test_the_name_tells_what_the_main_score_is():
    study = gains()
    names = {
        "InMemory.rcp": {},
        "InMemory.rcp-main": {"main_score": True},
        "InMemory.judge2": {"main_score": True, "suffix": "judge2"},
        "InMemory.judge3": {"suffix": "judge3"},
    }
    for name, options in names.items():
        assert with_rcp(OneSubset(), study, **options).metadata.name == name
    with pytest.raises(RCPError, match="suffix must be letters"):
        with_rcp(OneSubset(), study, suffix=2)


def test_the_revision_tells_main_scores_and_cutoffs_apart():
    study, suffix = gains(), "rcp"
    revisions = [
        with_rcp(OneSubset(), study, suffix=suffix, **options).metadata.revision
        for options in (
            {},
            {"k_values": [5, 10]},
            {"k_values": [5, 10], "main_score": True},
            {"k_values": [5], "main_score": True},
            {"k_values": [5, 10], "ties": "mean"},
        )
    ]
    assert len(set(revisions)) == 5
    assert revisions[1].endswith("@5,10")
    assert revisions[2].endswith("@5,10 main=rcp_ndcg_at_10")
    assert revisions[4].endswith("(ties='mean')@5,10")


def test_a_cached_half_of_another_main_score_is_not_completed(tmp_path):
    cache, study = mteb.ResultCache(tmp_path), gains("one", "two")
    evaluate(bm25(), with_rcp(TwoSubsets(), study, suffix="x"), cache=cache)
    halve(cache)
    scores = evaluate(bm25(), with_rcp(TwoSubsets(), study, suffix="x", main_score=True), cache=cache)
    assert [own["main_score"] == own["rcp_ndcg_at_10"] for own in scores.values()] == [True, True]


# --- other gains under the same name


def test_a_cached_half_of_other_gains_is_not_completed(tmp_path):
    """mteb completes what is cached only where the dataset revision agrees, and that names gains and options."""
    cache = mteb.ResultCache(tmp_path)
    old, new = (with_rcp(TwoSubsets(), gains("one", "two", seed=seed), suffix="x") for seed in (1, 2))
    evaluate(bm25(), old, cache=cache)
    halve(cache)
    got, expected = evaluate(bm25(), new, cache=cache), evaluate(bm25(), new)
    assert got["one"]["rcp_ndcg_at_10"] == expected["one"]["rcp_ndcg_at_10"]


def test_results_of_other_gains_in_the_default_cache_are_told(default_cache):
    old, new = gains(seed=1), gains(seed=2)
    first = evaluate(bm25(), with_rcp(OneSubset(), old), cache=default_cache)["default"]
    (path,) = results_of(default_cache)
    with_rcp(OneSubset(), old)  # says nothing of its own results
    with pytest.warns(RCPWarning, match="1 result .*under the name InMemory.rcp") as told:
        wrapped = with_rcp(OneSubset(), new)
    (text,) = [str(one.message) for one in told if "result cache" in str(one.message)]
    assert str(path) in text
    for way in ("suffix=", "overwrite_strategy='always'", "cache="):
        assert way in text
    # why it is told: mteb gives the old scores back
    again = evaluate(bm25(), wrapped, cache=default_cache)["default"]
    assert again["rcp_ndcg_at_10"] == pytest.approx(first["rcp_ndcg_at_10"], abs=1e-6)
    with_rcp(OneSubset(), new, suffix="rcp2")
    with_rcp(TwoSubsets(), gains("one", "two"))


@pytest.mark.parametrize("options", [{"ties": "mean"}, {"k_values": [10]}, {"main_score": True}], ids=str)
def test_results_of_other_options_are_told(default_cache, options):
    evaluate(bm25(), with_rcp(OneSubset(), gains(), suffix="x"), cache=default_cache)
    with pytest.warns(RCPWarning, match="1 result .*under the name InMemory.x"):
        with_rcp(OneSubset(), gains(), suffix="x", **options)


def test_a_benchmark_tells_it_of_its_tasks(default_cache):
    evaluate(bm25(), with_rcp(OneSubset(), gains(seed=1), main_score=True), cache=default_cache)
    with pytest.warns(RCPWarning, match="under the name InMemory.rcp-main"):
        benchmark([OneSubset()], {"InMemory": gains(seed=2)}, name="N")


def test_three_files_are_named_and_experiments_count(default_cache):
    content = json.dumps({"dataset_revision": "r1+rcp:f:0"})
    for place in ("a/1", "b/1", "c/1", "c/2/experiments/fast"):
        folder = default_cache.cache_path / "results" / place
        folder.mkdir(parents=True)
        (folder / "InMemory.rcp.json").write_text(content)
        (folder / "Other.rcp.json").write_text("never opened")
    with pytest.warns(RCPWarning, match=r"4 results .*a/1/InMemory.rcp.json'.*c/1/InMemory.rcp.json' and 1 more"):
        with_rcp(OneSubset(), gains())


@pytest.mark.parametrize("content", ["{", "[1]", '{"dataset_revision": null}', "folder"])
def test_what_cannot_be_read_is_passed_over(default_cache, content):
    path = default_cache.cache_path / "results" / "a" / "1" / "InMemory.rcp.json"
    path.parent.mkdir(parents=True)
    if content == "folder":
        path.mkdir()
    else:
        path.write_text(content)
    with_rcp(OneSubset(), gains())


def test_no_cache_is_made(tmp_path, monkeypatch):
    monkeypatch.setenv("MTEB_CACHE", str(tmp_path / "mteb"))
    with_rcp(OneSubset(), gains())
    assert not (tmp_path / "mteb").exists()
    (tmp_path / "mteb").write_text("no folder")
    with_rcp(OneSubset(), gains())
