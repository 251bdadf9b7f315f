"""replay_budget: parts fitted again as a run of them would be; the whole log changes nothing; reversals are found."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau, ttest_rel

from rcp_irx import FULL, JudgmentLog, RCPError, RCPWarning, SimulatedJudge
from rcp_irx.analysis import replay_budget
from rcp_irx.analysis.subsamples import judgments, part
from rcp_irx.evaluation import ndcg
from rcp_irx.judging.calibrate import calibrate
from tests.analysis.test_noise import BETA, GAMMA, RUBRIC, judged, world

pytestmark = pytest.mark.quick

SYSTEMS = {"near": 0.3, "fair": 0.9, "far": 2.0, "random": 50.0}


def rankings(abilities, dataset=None):
    """Systems that rank by the true ability and noise."""
    generator = np.random.default_rng(0)
    runs = {}
    for name, noise in SYSTEMS.items():
        rows = [(d, q, docno, true + noise * generator.normal()) for (d, q, docno), true in abilities.items()]
        frame = pd.DataFrame(rows, columns=["dataset", "qid", "docno", "score"])
        runs[name] = frame if dataset else frame.drop(columns="dataset")
    return runs


@pytest.fixture(scope="module")
def simulated():
    pools, abilities = world(1, queries=10, documents=24)
    return judged(pools, SimulatedJudge(abilities, GAMMA, BETA, noise=1.0, seed=1)), abilities


def test_all_windows_change_nothing(simulated):
    log, abilities = simulated
    found = replay_budget(log, 1.0, rankings(abilities), samples=2)
    row = found.budgets.iloc[0]
    assert row[["share", "kept", "samples"]].tolist() == [1.0, 1.0, 2]
    assert row[["largest_change", "worst_change", "reversals"]].tolist() == [0.0, 0.0, 0]
    assert row["kendall_tau"] == 1.0
    assert found.leaderboard["mean"].tolist() == found.leaderboard["mean_1"].tolist()
    assert found.leaderboard["rank"].tolist() == [1, 2, 3, 4]
    assert found.leaderboard["system"].tolist() == list(SYSTEMS)
    assert found.reversed_pairs.empty
    assert found.warnings == []


def test_a_part_is_fitted_again_and_compared(simulated):
    log, abilities = simulated
    runs = rankings(abilities)
    found = replay_budget(log, (0.5, 1 / 3), runs, k=5, samples=3, seed=7)
    assert found.samples[["share", "sample"]].drop_duplicates().shape == (6, 2)
    whole = log.calibrate()
    means = {name: ndcg(run, whole, 5) for name, run in runs.items()}
    systems = list(runs)
    separated = [
        (a, b) for i, a in enumerate(systems) for b in systems[i + 1 :] if ttest_rel(means[a], means[b]).pvalue < 0.05
    ]
    changes = []
    for sample in range(3):
        for share in (0.5, 1 / 3):
            generator = np.random.default_rng([7, sample])
            parts = [part(one, share, generator) for one in log.judged()]
            table = calibrate(parts, RUBRIC, max_failed=1.0)
            again = {name: ndcg(run, table, 5).mean() for name, run in runs.items()}
            change = {name: abs(again[name] - means[name].mean()) for name in runs}
            tau = kendalltau([again[name] for name in runs], [means[name].mean() for name in runs]).statistic
            row = found.samples[(found.samples["share"] == share) & (found.samples["sample"] == sample)].iloc[0]
            assert row["largest_change"] == pytest.approx(max(change.values()), abs=1e-12)
            assert row["system"] == max(change, key=change.get)
            assert row["kendall_tau"] == pytest.approx(tau)
            assert row["separated"] == len(separated)
            kept = sum(map(judgments, parts)) / sum(map(judgments, log.judged()))
            assert row["kept"] == pytest.approx(kept)
            assert share <= kept < share + 0.15
            changes.append((share, max(change.values())))
    for row in found.budgets.itertuples():
        of = [change for share, change in changes if share == row.share]
        assert row.largest_change == pytest.approx(np.mean(of))
        assert row.worst_change == pytest.approx(max(of))
    assert found.budgets["kept"].is_monotonic_decreasing
    assert "33" in str(found) or "0.333" in str(found)


def test_a_pair_that_the_whole_log_separates_and_a_part_does_not_is_a_reversal(simulated):
    log, _ = simulated
    generator = np.random.default_rng([42, 0])
    table = calibrate([part(one, 0.1, generator) for one in log.judged()], RUBRIC, max_failed=1.0)
    whole = log.calibrate()
    runs = {
        name: of.documents.rename(columns={"theta": "score"})[["qid", "docno", "score"]]
        for name, of in [("all", whole), ("part", table)]
    }
    found = replay_budget(log, 0.1, runs, samples=1)  # each is the best possible under its own gains
    row = found.reversed_pairs.iloc[0]
    assert found.budgets["reversals"].tolist() == [1]
    assert (row["system_1"], row["system_2"]) == ("all", "part")
    assert row["difference"] > 0 > row["sample_difference"]
    one, other = (ndcg(run, whole) for run in runs.values())
    assert row["difference"] == pytest.approx((one - other).mean())
    assert row["p"] == pytest.approx(ttest_rel(one, other).pvalue)
    assert "at 10% pairs that all judgments separate change sides in some sample: ('', 'all', 'part')" in found.warnings


def test_the_same_seed_gives_the_same_numbers(simulated):
    log, abilities = simulated
    runs = rankings(abilities)
    first, again, other = (replay_budget(log, 0.5, runs, samples=1, seed=seed) for seed in (1, 1, 2))
    pd.testing.assert_frame_equal(first.samples, again.samples, check_exact=True)
    assert first.samples["largest_change"].tolist() != other.samples["largest_change"].tolist()


def test_datasets_stand_apart_and_documents_may_be_left_out():
    one, abilities = world(2, queries=4, documents=12, dataset="a")
    two, others = world(3, queries=4, documents=12, dataset="b")
    log = judged(one + two, SimulatedJudge(abilities | others, GAMMA, BETA), FULL.scaled(0.5))
    runs = rankings(abilities | others, dataset=True)
    left = [("a", "q0", "d03"), ("b", "q1")]
    found = replay_budget(log, (1.0, 0.5), runs, samples=1, leave_out=iter(left))
    assert found.budgets["dataset"].tolist() == ["a", "b", "a", "b"]
    assert (found.budgets.loc[found.budgets["share"] == 1.0, "largest_change"] == 0).all()
    whole = log.calibrate(leave_out=left)
    for dataset, rows in found.leaderboard.groupby("dataset"):
        means = {name: ndcg(run, whole.select(dataset)).mean() for name, run in runs.items()}
        assert dict(zip(rows["system"], rows["mean"], strict=True)) == pytest.approx(means)
    alone = replay_budget(log, 0.5, runs, samples=1, datasets=iter(["a"]))
    assert alone.leaderboard["dataset"].unique().tolist() == ["a"]


def test_what_a_parts_calibration_doubts_is_told_once():
    pools, abilities = world(4, queries=8, documents=20)
    log = judged(pools, SimulatedJudge(abilities, GAMMA, BETA, noise=2.0))
    found = replay_budget(log, (0.5, 0.02), rankings(abilities), samples=3)
    told = [text for text in found.warnings if "no window connects" in text]
    assert len(told) == 1
    assert told[0].startswith("at 2% of the windows the calibration says")


def test_bad_input_is_refused(simulated):
    log, abilities = simulated
    runs = rankings(abilities)
    for shares in (0, 1.5, [], [0.5, -1], float("nan"), "half", None):
        with pytest.raises(RCPError, match="shares are above 0"):
            replay_budget(log, shares, runs)
    with pytest.raises(RCPError, match="differ in their first three digits"):
        replay_budget(log, (0.3331, 0.3332), runs)
    for samples in (0, 1.5, "2"):
        with pytest.raises(RCPError, match="samples is a whole number"):
            replay_budget(log, 0.5, runs, samples=samples)
    with pytest.raises(RCPError, match="must be a JudgmentLog"):
        replay_budget(log.calibrate(), 0.5, runs)
    with pytest.raises(RCPError, match="mapping of a system's name"):
        replay_budget(log, 0.5, {})
    with pytest.raises(RCPError, match="is empty"):
        replay_budget(JudgmentLog(), 0.5, runs)
    run = next(iter(runs.values()))
    with pytest.warns(RCPWarning, match="no ranked document"):
        replay_budget(log, 0.5, {"x": run.assign(docno="z" + run["docno"])}, samples=1)
