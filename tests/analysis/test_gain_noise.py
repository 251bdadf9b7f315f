"""The delta method against judging anew many times over, in plain loops."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from rcp_irx import FULL, Document, GainTable, JudgmentLog, Query, RCPError, RCPWarning, Rubric, SimulatedJudge
from rcp_irx.analysis.gain_noise import noise_covariances, noise_samples, with_errors
from rcp_irx.calibration import gain
from rcp_irx.documents import Pool
from rcp_irx.evaluation import ndcg
from rcp_irx.judging.runner import PoolRunner
from tests.analysis import toy

K = 5
GAMMA, BETA = [1.17, 1.05, 0.94, 1.16, 0.69], [-2.57, -2.0, -0.25, 0.71, 4.12]  # Table 1


def mean_ndcg(order: np.ndarray, gains: np.ndarray) -> np.ndarray:
    """The mean nDCG@5 over queries, for draws of gains (draws, Q, D) and an order of documents (Q, D)."""
    discount = 1 / np.log2(np.arange(2, K + 2))
    ranked = np.take_along_axis(gains, np.broadcast_to(order, gains.shape), axis=2)[..., :K] @ discount
    ideal = -np.sort(-gains, axis=2)[..., :K] @ discount
    return (ranked / ideal).mean(axis=1)


@pytest.mark.quick
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


@pytest.mark.quick
def test_what_a_query_shares_moves_its_gains_together() -> None:
    """Against drawing scale and offset of each query, and each document's own part, many times over."""
    gains = toy.suite(queries=12, documents=10)
    random = np.random.default_rng(3)
    alpha, tau = random.uniform(0.05, 0.15, 12), random.uniform(0.01, 0.04, 12)
    both = random.uniform(-0.9, 0.9, 12) * alpha * tau
    documents = gains.documents
    code = pd.factorize(documents["qid"])[0]
    bt, theta = documents["bt"].to_numpy(), documents["theta"].to_numpy()
    steep = (gain(theta + 1e-6, toy.GAMMA, toy.BETA) - gain(theta - 1e-6, toy.GAMMA, toy.BETA)) / 2e-6
    shared = steep**2 * (alpha[code] ** 2 + 2 * bt * both[code] + bt**2 * tau[code] ** 2)
    own = random.uniform(0, 0.002, len(gains))
    queries = gains.queries.assign(alpha_se=alpha, tau_se=tau, tau_alpha_cov=both)
    table = GainTable(documents.assign(gain_se=np.sqrt(shared + own**2)), queries, gains.criteria)
    rows = with_errors(table)
    np.testing.assert_allclose(rows["own_se"], own, atol=1e-9)
    np.testing.assert_allclose(rows["shared_1"] ** 2 + rows["shared_2"] ** 2, shared, rtol=1e-6)
    runs = toy.runs(gains)
    found = noise_covariances(runs, rows, K, "docno")[""]
    drawn = np.empty((20_000, len(gains)))
    for query in range(12):
        cov = [[alpha[query] ** 2, both[query]], [both[query], tau[query] ** 2]]
        offset, scale = random.multivariate_normal([0, 0], cov, 20_000).T[:, :, None]
        here = code == query
        drawn[:, here] = gain(theta[here] + offset + scale * bt[here], toy.GAMMA, toy.BETA)
    drawn = (drawn + random.normal(0, 1, drawn.shape) * own).reshape(-1, 12, 10)
    means = [mean_ndcg(np.argsort(-run["score"].to_numpy().reshape(12, 10), axis=1), drawn) for run in runs.values()]
    simulated = np.cov(means)
    np.testing.assert_allclose(np.sqrt(np.diag(found)), np.sqrt(np.diag(simulated)), rtol=0.05)
    np.testing.assert_allclose(found, simulated, rtol=0.15, atol=1e-8)
    apart = GainTable(documents.assign(gain_se=np.sqrt(shared + own**2)), gains.queries, gains.criteria)
    alone = noise_covariances(runs, with_errors(apart), K, "docno")[""]
    assert np.diag(alone).max() > 1.5 * np.diag(found).max()  # as if every error were a document's own


@pytest.mark.quick
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


@pytest.mark.quick
def test_noise_is_drawn_with_the_covariance_in_any_order_of_systems() -> None:
    covariance = pd.DataFrame([[4.0, 1.0], [1.0, 2.0]], index=["a", "b"], columns=["a", "b"])
    drawn = noise_samples(covariance, [42], 50_000)
    np.testing.assert_allclose(np.cov(drawn.T), covariance, atol=0.1)
    assert noise_samples(covariance, [42], 10).equals(noise_samples(covariance, [42], 10))


@pytest.mark.quick
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


@pytest.mark.filterwarnings("ignore::rcp_irx.RCPWarning")
def test_the_noise_of_a_mean_is_its_spread_when_the_judge_answers_anew() -> None:
    """Pools in which little answers, as in real collections: the offset is uncertain there, and all gains share it."""
    random = np.random.default_rng(11)
    pools, abilities, scales, offsets, ranked = [], {}, {}, {}, []
    for query in range(6):
        pool = Pool(Query(f"q{query}", "why"), tuple(Document(f"d{d:02}", f"{query} {d}") for d in range(40)))
        key = ("", pool.query.id)
        scales[key], offsets[key] = float(random.uniform(0.8, 2.4)), float(random.normal(-6, 1.5))
        score = random.normal(0, 2.0, 40)
        abilities |= {(*key, d.id): offsets[key] + scales[key] * s for d, s in zip(pool.documents, score, strict=True)}
        ranked += [(pool.query.id, d.id, s) for d, s in zip(pool.documents, score, strict=True)]
        pools.append(pool)
    rows = pd.DataFrame(ranked, columns=["qid", "docno", "score"])
    runs = {f"s{sd:g}": rows.assign(score=rows["score"] + random.normal(0, sd, len(rows))) for sd in (0.3, 0.6, 1, 2)}
    means, shared, apart = [], [], []
    for seed in range(25):
        judge = SimulatedJudge(abilities, GAMMA, BETA, scales=scales, offsets=offsets, noise=1.0, seed=seed)
        log = JudgmentLog()
        for pool in pools:
            PoolRunner(pool, judge, Rubric.load(), FULL, log).run()
        table = log.calibrate()
        means.append([ndcg(run, table, 10).mean() for run in runs.values()])
        errors = with_errors(table)
        alone = errors.assign(own_se=errors["gain_se"], shared_1=0.0, shared_2=0.0)
        for found, of in ((shared, errors), (apart, alone)):
            found.append(np.diag(noise_covariances(runs, of, 10, "docno")[""].loc[list(runs), list(runs)]))
    spread = np.std(means, axis=0, ddof=1)
    ratio, without = np.sqrt(np.mean(shared, axis=0)) / spread, np.sqrt(np.mean(apart, axis=0)) / spread
    print(f"\nnoise_se to true SD, system by system: {ratio.round(2)}; every document apart: {without.round(2)}")
    assert 0.7 < ratio.min() < ratio.max() < 1.45
    assert without.max() > 1.45
