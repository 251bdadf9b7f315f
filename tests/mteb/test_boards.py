"""benchmark and leaderboard: mteb's own objects, means, ranks and what is not comparable."""

from __future__ import annotations

import math

import pandas as pd
import pytest

pytest.importorskip("mteb", reason="mteb is not installed: pip install 'rcp-irx[mteb]'")

import mteb
from mteb.results import BenchmarkResults, ModelResult, TaskResult

from rcp_irx import RCPError, RCPWarning
from rcp_irx.mteb import benchmark, leaderboard, with_rcp
from tests.mteb.collection import OneSubset, TwoSubsets, bm25, evaluate, gains

pytestmark = [pytest.mark.mteb, pytest.mark.filterwarnings("ignore:.*has a gain:rcp_irx.RCPWarning")]

SUITE = gains("InMemory", "one", "two")


# --- benchmark


def test_a_benchmark_runs_and_sums_up(tmp_path):
    bench = benchmark([OneSubset(), TwoSubsets()], SUITE, name="Two tasks", k_values=[10])
    assert isinstance(bench, mteb.Benchmark)
    assert [task.metadata.name for task in bench] == ["InMemory.rcp-main", "InMemoryTwo.rcp-main"]
    cache = mteb.ResultCache(tmp_path)
    result = mteb.evaluate(bm25(), bench, cache=cache, show_progress_bar=False)
    one, two = result.task_results
    values = [one.scores["test"][0]["rcp_ndcg_at_10"], *(own["rcp_ndcg_at_10"] for own in two.scores["test"])]
    assert one.get_score() == pytest.approx(values[0])
    mean = (values[0] + (values[1] + values[2]) / 2) / 2
    scores = bench.get_score(BenchmarkResults(model_results=[result]))
    assert scores["test/bm25"]["Mean(Task)"] == pytest.approx(mean)
    board = leaderboard(cache.load_results(tasks=bench, models=[bm25().mteb_model_meta]))
    assert board[("RCPnDCG@10", "mean")].item() == pytest.approx(mean, abs=1e-6)


def test_gains_by_task_and_a_benchmarks_name():
    bench = benchmark("NanoBEIR", {task.metadata.name: gains() for task in mteb.get_benchmark("NanoBEIR")}, name="N")
    assert len(bench) == 13
    assert bench[0].metadata.name == "NanoArguAnaRetrieval.rcp-main"
    assert bench[0].metadata.main_score == "rcp_ndcg_at_10"
    (task,) = benchmark([OneSubset()], {"InMemory": gains()}, name="N", main_score=False, suffix="rcp2")
    assert task.metadata.name == "InMemory.rcp2"
    assert task.metadata.main_score == "ndcg_at_10"
    (task,) = benchmark(OneSubset(), gains(), name="N", main_score=False)
    assert task.metadata.name == "InMemory.rcp"


@pytest.mark.parametrize(
    ("tasks", "given", "message"),
    [
        ([], SUITE, "at least one task"),
        (None, SUITE, "tasks must be tasks of mteb or their names, not NoneType"),
        (OneSubset(), None, "GainTables, or their names or folders, not NoneType"),
        ("NoSuchBenchmark", SUITE, "mteb has no benchmark 'NoSuchBenchmark'"),
        ([OneSubset(), TwoSubsets()], {"InMemory": gains()}, "none for 'InMemoryTwo', and some for none"),
        (
            [OneSubset()],
            {"InMemory": gains(), "Other": gains()},
            "some for 'Other', which is none of the tasks",
        ),
        ([OneSubset(), "NanoArguAnaRetrieval"], gains(), "dataset '' would serve"),
        ([OneSubset(), TwoSubsets()], gains("one", "two"), "no gains for subset 'default' of InMemory"),
    ],
    ids=str,
)
def test_what_is_no_benchmark(tasks, given, message):
    with pytest.raises(RCPError, match=message):
        benchmark(tasks, given, name="N")


# --- leaderboard


def result(
    model,
    task="A",
    scores=(0.5, 0.6, 0.7),
    judged=1.0,
    fit="f",
    suffix="rcp",
    without=0.0,
    data="r",
    more="",
    **parts,
):
    """A model's result on a task: (nDCG, Count, RCP) by part, `split__subset`; `judged` a share or one by part."""
    by_split: dict[str, list] = {}
    for part, (labels, count, rcp) in (parts or {"test__default": scores}).items():
        split, subset = part.split("__")
        share = judged[part] if isinstance(judged, dict) else judged
        own = {"ndcg_at_10": labels, "count_ndcg_at_10": count, "rcp_ndcg_at_10": rcp, "rcp_judged_at_10": share}
        own = {name: value for name, value in own.items() if value is not None}
        head = {"main_score": labels, "hf_subset": subset, "languages": [], "rcp_queries_without_gains": without}
        by_split.setdefault(split, []).append({**own, **head})
    one = TaskResult(
        dataset_revision=f"{data}+rcp:{fit}:0{more}",
        task_name=f"{task}.{suffix}",
        mteb_version="2.26.0",
        scores=by_split,
        evaluation_time=1.0,
    )
    return ModelResult(model_name=model, model_revision="1", task_results=[one])


THREE = [
    result("m1", "A", (0.9, 0.5, 0.50)),
    result("m2", "A", (0.5, 0.9, 0.90)),
    result("m3", "A", (0.7, 0.7, 0.70)),
    result("m1", "B", (0.8, 0.1, 0.30)),
    result("m2", "B", (0.4, 0.1, 0.70)),
    result("m3", "B", (0.6, 0.1, 0.70)),
]


def test_means_ranks_and_changes_of_rank():
    board = leaderboard(THREE)
    assert board.index.tolist() == ["m2", "m3", "m1"]
    assert board.columns.get_level_values(0).unique().tolist() == [
        "nDCG@10",
        "CountnDCG@10",
        "RCPnDCG@10",
        "RCPJudged@10",
    ]
    assert board["nDCG@10"].columns.tolist() == ["A", "B", "mean", "rank"]
    assert board["RCPnDCG@10"].columns.tolist() == ["A", "B", "mean", "rank", "change"]
    assert board["RCPJudged@10"].columns.tolist() == ["A", "B", "mean"]
    assert board[("RCPnDCG@10", "mean")].tolist() == pytest.approx([0.8, 0.7, 0.4])
    assert board[("nDCG@10", "rank")].tolist() == [3, 2, 1]
    assert board[("RCPnDCG@10", "rank")].tolist() == [1, 2, 3]
    assert board[("RCPnDCG@10", "change")].tolist() == [2, 0, -2]
    assert board[("CountnDCG@10", "rank")].tolist() == [1, 2, 3]
    assert any("no difference in this table can be tested" in note for note in board.attrs["notes"])


def test_equal_means_share_a_rank():
    board = leaderboard([result("m1"), result("m2"), result("m3", scores=(0.1, 0.1, 0.1))])
    assert board[("RCPnDCG@10", "rank")].tolist() == [1, 1, 3]


def test_every_form_of_results():
    whole = BenchmarkResults(model_results=THREE)
    pd.testing.assert_frame_equal(leaderboard(whole), leaderboard(iter(THREE)))
    assert leaderboard(THREE[0]).index.tolist() == ["m1"]


def test_splits_and_subsets_are_averaged():
    own = {"dev__x": (0.1, 0.1, 0.2), "dev__y": (0.2, 0.2, 0.4), "test__x": (0.3, 0.3, 0.9)}
    assert leaderboard(result("m", **own))[("RCPnDCG@10", "A")].item() == pytest.approx(0.5)


def test_a_model_that_misses_a_part_has_no_mean_and_no_rank():
    models = [
        result("m1", dev__x=(0.5, 0.5, 0.5), dev__y=(0.5, 0.5, 0.5)),
        result("m2", dev__x=(0.9, 0.9, 0.9)),
        result("m3", dev__x=(0.4, 0.4, 0.6), dev__y=(0.4, 0.4, 0.6)),
    ]
    with pytest.warns(RCPWarning, match=r"no result, and so neither mean nor rank: .*\('m2', 'A', 'dev', 'y'\)"):
        board = leaderboard(models)
    assert board.index.tolist() == ["m3", "m1", "m2"]
    assert math.isnan(board.loc["m2", ("RCPnDCG@10", "A")])
    assert board[("RCPnDCG@10", "rank")].tolist()[:2] == [1, 2]
    assert board[("RCPnDCG@10", "change")].tolist()[:2] == [1, -1]
    assert board.loc["m2"].loc[[("RCPnDCG@10", "mean"), ("RCPnDCG@10", "rank"), ("nDCG@10", "rank")]].isna().all()


def test_low_coverage_is_marked():
    models = [result("m1"), result("m2", judged=0.9499), result("m1", "B", judged=0.95), result("m2", "B", judged=0.95)]
    with pytest.warns(
        RCPWarning, match=r"\* less than 95% of a model's top 10 has a gain.*A, default, test: 0.950 for m2"
    ):
        board = leaderboard(models)
    assert board["RCPnDCG@10"].columns.tolist()[:2] == ["A *", "B"]
    assert board["nDCG@10"].columns.tolist()[:2] == ["A", "B"]
    assert any(note.startswith("* less than 95%") for note in board.attrs["notes"])


def test_a_task_is_marked_where_one_of_its_subsets_has_low_coverage():
    parts = {f"{split}__{subset}": (0.5, 0.5, 0.5) for split in ("dev", "test") for subset in ("x", "y")}
    shares = dict.fromkeys(parts, 1.0) | {"test__y": 0.9}  # .975 on the mean
    with pytest.warns(RCPWarning, match=r"and a document without one counts 0: A, y, test: 0.900 for m$"):
        board = leaderboard(result("m", judged=shares, **parts))
    assert board["RCPnDCG@10"].columns.tolist()[0] == "A *"
    assert board[("RCPJudged@10", "A *")].item() == pytest.approx(0.975)


def test_queries_without_gains_are_told():
    with pytest.warns(RCPWarning, match="not in the other scores: A, default, test: 3"):
        leaderboard(result("m1", without=3.0))


def test_a_second_judge():
    others = [
        result("m1", "A", (0.9, 0.5, 0.9), fit="g", suffix="rcp2"),
        result("m2", "A", (0.5, 0.9, 0.8), fit="g", suffix="rcp2"),
        result("m3", "A", (0.7, 0.7, 0.1), fit="g", suffix="rcp2"),
    ]
    board = leaderboard(THREE[:3], others)
    assert board.index.tolist() == ["m2", "m3", "m1"]
    assert board[("second RCPnDCG@10", "A")].tolist() == [0.8, 0.1, 0.9]
    assert board[("second RCPnDCG@10", "rank")].tolist() == [2, 3, 1]
    assert board[("second RCPnDCG@10", "change")].tolist() == [1, -1, 0]
    with pytest.warns(RCPWarning, match="no result of the second judge for model 'm3'"):
        board = leaderboard(THREE[:3], others[:2])
    assert board[("second RCPnDCG@10", "rank")].isna().tolist() == [False, True, False]
    assert board[("RCPnDCG@10", "rank")].tolist()[::2] == [1, 2]
    with pytest.raises(RCPError, match="the second judge's results are of 'A', the first's of 'A', 'B'"):
        leaderboard(THREE, others)
    with pytest.raises(RCPError, match=r"results of several judges or main scores \(suffixes 'rcp', 'rcp2'\)"):
        leaderboard([*THREE[:3], *others])


def second(model="m1", task="A", fit="g", suffix="rcp2", **more):
    return result(model, task, fit=fit, suffix=suffix, **more)


def test_a_second_judge_of_other_splits_or_subsets_is_refused():
    x, y = {"test__x": (0.1, 0.1, 0.1)}, {"test__y": (0.9, 0.9, 0.9)}
    with pytest.raises(RCPError, match=r"only the first has .*'A', 'test', 'x'.*only the second .*'A', 'test', 'y'"):
        leaderboard(result("m1", **x), second(**y))
    with pytest.raises(RCPError, match=r"only the first has .*'A', 'test', 'y'.*only the second none"):
        leaderboard(result("m1", **x, **y), second(**x))
    with pytest.raises(RCPError, match=r"only the second .*'A', 'dev', 'x'"):
        leaderboard(result("m1", **x), second(**x, dev__x=(0.1, 0.1, 0.1)))


def test_a_second_judge_on_other_data_is_refused():
    with pytest.raises(RCPError, match=r"on other data: task, revisions \('A', 'r', 'r2'\)"):
        leaderboard(result("m1"), second(data="r2"))


def test_the_first_judge_is_no_second():
    with pytest.raises(
        RCPError, match="the second judge's results of 'A' are of the same gains and rules as the first"
    ):
        leaderboard(THREE[:3], THREE[:3])
    with pytest.raises(RCPError, match="of 'B' are of the same gains and rules"):
        leaderboard(
            [result("m1", "A", more="@10"), result("m1", "B", more="@10")],
            [second(), second(task="B", fit="f", more="@5,10 main=rcp_ndcg_at_10")],
            several_fits=True,
        )


def test_what_limits_the_second_judges_scores_is_told():
    x, y = {"test__x": (0.5, 0.5, 0.5)}, {"test__y": (0.5, 0.5, 0.5)}
    first = [result(model, without=2.0, **x, **y) for model in ("m1", "m2", "m3")]
    others = [
        second("m1", without=3.0, judged={"test__x": 1.0, "test__y": 0.8}, more="(ties='mean')", **x, **y),
        second("m2", without=3.0, more="(ties='mean')", **x),
        second("m4", without=3.0, more="(ties='mean')", **x, **y),
    ]
    with pytest.warns(RCPWarning):
        board = leaderboard(first, others)
    notes = "\n".join(board.attrs["notes"])
    for part in (
        "no result of the second judge for model 'm3', which gets no rank",
        "no result of the first judge for model 'm4', which is left out",
        "counts 0: second judge, A, y, test: 0.800 for m1",
        "A, x, test: 2; A, y, test: 2; second judge, A, x, test: 3; second judge, A, y, test: 3",
        "no result of the second judge, and so neither mean nor rank: model, task, split, subset "
        "('m2', 'A', 'test', 'y')",
        "the two judges' scores follow other rules; task, rules: ('A', '', \"(ties='mean')\")",
    ):
        assert part in notes
    assert board[("second RCPnDCG@10", "A *")].isna().to_dict() == {"m1": False, "m2": True, "m3": True}
    assert "A" in board["nDCG@10"].columns


def test_a_second_judge_of_other_models_is_refused_and_of_other_runs_told():
    with pytest.raises(RCPError, match="share no model; the first's are of 'm1', 'm2', the second's of 'm3'"):
        leaderboard([result("m1"), result("m2")], second("m3"))
    first, others = [result("m1"), result("m2")], [second("m1"), second("m2", scores=(0.51, 0.6, 0.7))]
    with pytest.warns(RCPWarning, match=r"are of other runs, .* subset \('m2', 'A', 'test', 'default'\)$"):
        leaderboard(first, others)


def test_cutoffs_and_main_scores_do_not_keep_results_apart():
    board = leaderboard([result("m1", more="@10"), result("m2", more="@5,10 main=rcp_ndcg_at_10")])
    assert len(board) == 2
    with pytest.raises(RCPError, match="different gains, options or data"):
        leaderboard([result("m1", more="@10"), result("m2", more="(ties='mean')@10")])


def test_gains_without_pass_counts_have_no_count_block():
    board = leaderboard(result("m", scores=(0.5, None, 0.6)))
    assert "CountnDCG@10" not in board.columns.get_level_values(0)


def test_results_of_other_gains_or_options_are_not_compared():
    with pytest.raises(
        RCPError, match=r"the results of A are of different gains, options or data \('r\+rcp:f:0', 'r2\+rcp"
    ):
        leaderboard([result("m1"), result("m2", data="r2")])


def test_gains_of_several_fits_are_refused_or_marked():
    models = [result("m1", "A"), result("m1", "B", fit="g")]
    with pytest.raises(RCPError, match=r"several fits, whose scores are not comparable; task, fits: \('A', \('f',\)\)"):
        leaderboard(models)
    with pytest.warns(RCPWarning, match="the gains come from 2 fits"):
        board = leaderboard(models, several_fits=True)
    assert board["RCPnDCG@10"].columns.tolist() == ["A", "B", "mean of 2 fits", "rank", "change"]
    with pytest.raises(RCPError, match="several fits"):
        leaderboard(result("m1", fit="f,g"))


def test_revisions_of_a_model_are_told_apart():
    other = result("m1", scores=(0.1, 0.1, 0.1))
    other.model_revision = "2"
    assert leaderboard([result("m1"), other]).index.tolist() == ["m1 1", "m1 2"]
    with pytest.raises(RCPError, match=r"two results for model, task, split, subset \('m1', 'A', 'test', 'default'\)"):
        leaderboard([result("m1"), result("m1")])


@pytest.mark.parametrize(
    ("given", "options", "message"),
    [
        ([], {}, "no result of a wrapped task"),
        ([3], {}, "BenchmarkResults or ModelResults, not int"),
        (None, {}, "results must be mteb's BenchmarkResults or ModelResults, not NoneType"),
        (3, {}, "BenchmarkResults or ModelResults, not int"),
        ([result("m1")], {"second": 3}, "second must be mteb's BenchmarkResults or ModelResults, not int"),
        ([result("m1")], {"k": 5}, "no scores at cutoff 5 for 'A'"),
    ],
    ids=str,
)
def test_what_is_no_result(given, options, message):
    with pytest.raises(RCPError, match=message):
        leaderboard(given, **options)


def test_plain_results_are_passed_over_and_alone_refused():
    plain = result("m1", "P")
    plain.task_results[0].dataset_revision = "r"
    assert "P" not in leaderboard([result("m1"), plain]).columns.get_level_values(1)
    with pytest.raises(RCPError, match=r"no result of a wrapped task \(with_rcp\), only of 'P.rcp'"):
        leaderboard([plain])


def test_results_of_real_models():
    wrapped = with_rcp(TwoSubsets(), gains("one", "two"), k_values=[10])
    models = [bm25("test/a"), bm25("test/b", k1=0.1, b=0.0)]
    found = [mteb.evaluate(model, wrapped, cache=None, show_progress_bar=False) for model in models]
    board = leaderboard(found)
    for model in models:
        scores = evaluate(model, wrapped)
        name = model.mteb_model_meta.name
        mean = (scores["one"]["rcp_ndcg_at_10"] + scores["two"]["rcp_ndcg_at_10"]) / 2
        assert board.loc[name, ("RCPnDCG@10", "InMemoryTwo *")] == pytest.approx(mean, abs=1e-15)
