"""Standard errors in the gain table: true over repeated judge draws, kept by files, and NaN where nothing is known."""

from __future__ import annotations

import numpy as np
import pytest

from rcp_irx import FULL, REDUCED, Document, GainTable, JudgmentLog, LexicalJudge, Query, Rubric, SimulatedJudge
from rcp_irx.documents import Pool
from rcp_irx.judging.calibrate import calibrate, stage_scores
from rcp_irx.judging.runner import PoolRunner
from tests.benchmarks.standard_errors import (
    BETA,
    COLUMNS,
    GAMMA,
    HIGH,
    LOW,
    bootstrap,
    inverse_hessian_errors,
    repeated,
    world,
)

ERRORS = [f"{column}_se" for column in COLUMNS]


def judged_log(sizes: list[int], noise: float = 0.7) -> JudgmentLog:
    pools, abilities, scales, offsets = world(len(sizes), max(sizes))
    judge = SimulatedJudge(abilities, GAMMA, BETA, scales=scales, offsets=offsets, noise=noise)
    log = JudgmentLog()
    for pool, size in zip(pools, sizes, strict=True):
        PoolRunner(Pool(pool.query, pool.documents[:size]), judge, Rubric.load(), FULL, log).run()
    return log


# The full study, with larger pools, more draws and protocols: tests/benchmarks/standard_errors.py.
@pytest.mark.parametrize(("protocol", "noise"), [(FULL, 0.3), (FULL, 1.0), (FULL, 2.0), (REDUCED, 1.0)])
def test_estimates_spread_over_judge_draws_as_their_standard_errors_say(protocol, noise):
    draws = repeated(noise, protocol, queries=3, documents=16, draws=24)
    ratios = {column: draws.ratio(column) for column in COLUMNS}
    hessian = np.mean([inverse_hessian_errors(judged) for judged in draws.judged]) / draws.spread("bt")
    print(
        f"\nnoise {noise}: " + ", ".join(f"{c} {r:.2f}" for c, r in ratios.items()) + f"; inverse Hessian {hessian:.2f}"
    )
    assert all(LOW <= ratio <= HIGH for ratio in ratios.values())
    if noise <= 1:
        assert hessian > 1.8


def test_a_window_bootstrap_gives_the_same():
    judged = judged_log([20, 20, 20]).judged()
    table, resampled = calibrate(judged, Rubric.load()).documents, bootstrap(judged, 30)
    for column in COLUMNS:
        assert table[f"{column}_se"].mean() / resampled[column].mean() == pytest.approx(1.0, abs=0.2), column


def test_a_noisier_judge_has_larger_errors_and_a_judge_without_noise_hardly_any():
    silent, loud = (judged_log([20, 20], noise).calibrate().documents for noise in (0.0, 1.5))
    assert silent["bt_se"].mean() < 0.1 < 0.2 < loud["bt_se"].mean()
    assert silent["theta_se"].mean() > silent["bt_se"].mean()  # Stage B's answers are drawn


@pytest.fixture(scope="module")
def log():
    return judged_log([12, 12, 1, 2])


def test_pools_of_one_and_two_documents_have_none(log):
    table = log.calibrate()
    documents = table.documents
    known = documents["qid"].isin(["q000", "q001"])
    assert np.isfinite(documents.loc[known, ERRORS].to_numpy()).all()
    assert (documents.loc[known, ERRORS] > 0).all(axis=None)
    assert documents.loc[~known, ["theta_se", "gain_se"]].isna().all(axis=None)
    assert documents.loc[documents["qid"] == "q002", "bt_se"].tolist() == [0.0]
    assert np.isfinite(documents[["gain", "theta"]].to_numpy()).all()
    assert (table.criteria[["gamma_se", "beta_se"]] > 0).all(axis=None)


def test_files_keep_them_and_tables_with_nan_are_equal_to_themselves(log, tmp_path):
    table = log.calibrate()
    table.save(tmp_path / "gains")
    loaded = GainTable.load(tmp_path / "gains")
    assert loaded == table
    for column in ERRORS:
        np.testing.assert_array_equal(loaded.documents[column], table.documents[column])


def test_the_order_of_windows_and_pools_changes_no_bit(log):
    pools, rubric = log.judged(), Rubric.load()
    expected = calibrate(pools, rubric)
    for judged in pools:
        judged.tournament, judged.rubric = judged.tournament[::-1], judged.rubric[::-1]
        judged.pool = Pool(judged.pool.query, judged.pool.documents[::-1])
    found = calibrate(pools[::-1], rubric)
    keys = ["qid", "docno"]
    left, right = (table.documents.set_index(keys)[ERRORS].sort_index() for table in (found, expected))
    assert left.to_numpy().tobytes() == right.to_numpy().tobytes()


def test_scores_without_a_left_out_document_are_centred_and_so_are_their_errors(log):
    table = log.calibrate(leave_out=[("", "q000", "d003")])
    judged = log.judged()[0]
    influence = stage_scores(judged, 5).influence()
    kept = np.delete(influence, 3, axis=0)
    kept = kept - kept.mean(axis=0)
    documents = table.documents[table.documents["qid"] == "q000"]
    np.testing.assert_allclose(documents["bt_se"], np.sqrt(np.sum(kept**2, axis=1)), rtol=1e-12)


def test_documents_that_left_the_pool_still_count_as_opponents(log):
    whole, smaller = log.judged()[0], log.judged()[0]
    smaller.pool = Pool(whole.pool.query, whole.pool.documents[:-1])
    influence = stage_scores(whole, 5).influence()[:-1]
    np.testing.assert_allclose(stage_scores(smaller, 5).influence(), influence - influence.mean(axis=0), atol=1e-12)


def test_frozen_criteria_have_none_and_take_theirs_out_of_the_gains(log):
    free = log.calibrate()
    frozen = log.calibrate(criteria=free)
    assert (frozen.criteria[["gamma_se", "beta_se"]] == 0).all(axis=None)
    known = free.documents["theta_se"].notna()
    assert frozen.documents.loc[known, "gain_se"].mean() < free.documents.loc[known, "gain_se"].mean()


def test_a_judge_that_repeats_itself_has_no_error_of_scores():
    # The same text overlap in every window: the only residuals are those of preferences that no scores can meet.
    pool = Pool(Query("q", "a b c d"), tuple(Document(f"d{i}", "a b c d"[: 2 * i + 1]) for i in range(4)))
    log = JudgmentLog()
    PoolRunner(pool, LexicalJudge(), Rubric.load(), FULL, log).run()
    assert log.calibrate().documents["bt_se"].max() < 0.05
