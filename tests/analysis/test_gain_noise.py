"""The delta method against judging anew many times over, in plain loops."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from rcp_irx import GainTable, RCPError, RCPWarning
from rcp_irx.analysis.gain_noise import noise_covariances, noise_samples, with_errors
from tests.analysis import toy

pytestmark = pytest.mark.quick

K = 5


def mean_ndcg(order: np.ndarray, gains: np.ndarray) -> np.ndarray:
    """The mean nDCG@5 over queries, for draws of gains (draws, Q, D) and an order of documents (Q, D)."""
    discount = 1 / np.log2(np.arange(2, K + 2))
    ranked = np.take_along_axis(gains, np.broadcast_to(order, gains.shape), axis=2)[..., :K] @ discount
    ideal = -np.sort(-gains, axis=2)[..., :K] @ discount
    return (ranked / ideal).mean(axis=1)


def test_the_covariance_of_means_is_that_of_simulated_judgments() -> None:
    gains = toy.suite(queries=12, documents=10)
    errors = np.random.default_rng(8).uniform(0, 0.004, len(gains))
    gains = toy.with_columns(gains, gain_se=errors)
    runs = toy.runs(gains)
    found = noise_covariances(runs, with_errors(gains), K, "docno")[""]
    drawn = gains.documents["gain"].to_numpy() + np.random.default_rng(9).normal(0, 1, (20_000, len(gains))) * errors
    drawn = drawn.reshape(-1, 12, 10)
    means = [mean_ndcg(np.argsort(-run["score"].to_numpy().reshape(12, 10), axis=1), drawn) for run in runs.values()]
    simulated = np.cov(means)
    np.testing.assert_allclose(np.sqrt(np.diag(found)), np.sqrt(np.diag(simulated)), rtol=0.03)
    np.testing.assert_allclose(found, simulated, rtol=0.1, atol=1e-9)


def test_excluded_documents_leave_and_those_without_gains_keep_their_ranks() -> None:
    gains = toy.with_columns(toy.suite(queries=3, documents=8), gain_se=0.01)
    run = toy.runs(gains, (1.0,))["s0"]

    def noise(table: GainTable, frame: pd.DataFrame) -> float:
        return float(noise_covariances({"s": frame}, with_errors(table), K, "docno")[""].loc["s", "s"])

    out = pd.DataFrame({"qid": ["q00", "q01", "q02"], "docno": ["d00", "outside", "d05"]})
    gone = [("q00", "d00"), ("q02", "d05")]
    staying = np.array([key not in gone for key in zip(run["qid"], run["docno"], strict=True)])
    dropped = GainTable(gains.documents[staying], gains.queries, gains.criteria, gains.metadata)
    ranked_outside = pd.concat([run, pd.DataFrame({"qid": ["q01"], "docno": ["outside"], "score": [99.0]})])
    ranked_outside = ranked_outside.assign(dataset="")
    assert noise(gains.exclude(out), ranked_outside) == pytest.approx(noise(dropped, run[staying]), rel=1e-12)
    assert noise(gains, ranked_outside) != pytest.approx(noise(gains, run), rel=1e-3)
    judges = run.assign(score=gains.documents["gain"])
    assert noise(gains, judges) == pytest.approx(0, abs=1e-30)


def test_noise_is_drawn_with_the_covariance_in_any_order_of_systems() -> None:
    covariance = pd.DataFrame([[4.0, 1.0], [1.0, 2.0]], index=["a", "b"], columns=["a", "b"])
    drawn = noise_samples(covariance, [42], 50_000)
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=0.1)
    assert noise_samples(covariance, [42], 10).equals(noise_samples(covariance, [42], 10))


def test_what_is_refused() -> None:
    gains = toy.suite(queries=2)
    with pytest.raises(RCPError, match=r"column 'gain_se'.*calibrate the log again"):
        with_errors(gains)
    wrong = gains.documents.assign(gain_se=0.1)
    wrong.loc[3, "gain_se"] = -0.1
    with pytest.raises(RCPError, match=r"finite numbers >= 0.*'q00', 'd03', -0\.1"):
        with_errors(toy.with_columns(gains, gain_se=wrong["gain_se"]))
    wrong.loc[3, "gain_se"] = np.nan
    with pytest.warns(RCPWarning, match=r"not known for 1 document, taken as none: \('q00', 'd03'\)"):
        assert with_errors(toy.with_columns(gains, gain_se=wrong["gain_se"]))["gain_se"][3] == 0.0
    with pytest.raises(RCPError, match="holds no number"):
        with_errors(toy.with_columns(gains, gain_se=np.nan))
    with pytest.raises(RCPError, match="ties='mean'"):
        noise_covariances(toy.runs(gains), with_errors(toy.with_columns(gains, gain_se=0.1)), K, "mean")
