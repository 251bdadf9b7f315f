"""judge_noise on simulated logs: what is planted comes back, nothing comes of nothing; what a log lacks is said."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit
from scipy.stats import norm, spearmanr

from rcp_irx import (
    FULL,
    REDUCED,
    Document,
    JudgeFailure,
    JudgmentLog,
    LexicalJudge,
    Query,
    RCPError,
    RCPWarning,
    Rubric,
    SimulatedJudge,
)
from rcp_irx.analysis import judge_noise
from rcp_irx.analysis.noise import MEANINGS
from rcp_irx.documents import Pool
from rcp_irx.judging.runner import PoolRunner

RUBRIC = Rubric.load()
GAMMA, BETA = np.array([1.17, 1.05, 0.94, 1.16, 0.68]), np.array([-2.57, -2.0, -0.25, 0.71, 4.11])
HALF = FULL.scaled(0.5)


def world(seed, queries=8, documents=20, shared=0.0, dataset=""):
    """Pools whose texts have random lengths, and abilities that go with the log2 length by `shared`."""
    generator = np.random.default_rng(seed)
    doublings = generator.normal(0.0, 1.0, (queries, documents))
    pools, abilities = [], {}
    for q in range(queries):
        shown = []
        for d in range(documents):
            text = f"{q} {d} ".ljust(round(300 * 2 ** doublings[q, d]), "x")
            shown.append(Document(f"d{d:02d}", text))
            length = shared * np.log2(len(text) / 300)
            abilities[dataset, f"q{q}", f"d{d:02d}"] = float(length + generator.normal(-0.5, 1.2))
        pools.append(Pool(Query(f"q{q}", "why", dataset), tuple(shown)))
    return pools, abilities


def judged(pools, judge, protocol=FULL, log=None):
    log = JudgmentLog() if log is None else log
    for pool in pools:
        PoolRunner(pool, judge, RUBRIC, protocol, log).run()
    return log


def texts(pools):
    rows = [(p.query.dataset, p.query.id, d.id, d.text) for p in pools for d in p.documents]
    return pd.DataFrame(rows, columns=["dataset", "qid", "docno", "text"])


@pytest.fixture(scope="module")
def plain():
    pools, abilities = world(1, queries=10, documents=24)
    judge = SimulatedJudge(abilities, GAMMA, BETA, seed=1)
    return pools, abilities, judged(pools, judge)


PLANTED = [{"shared": 0.4}, {"position_bias": 0.2, "length_bias": 0.3}]
PLANTED += [{"position_bias": -0.1, "length_bias": -0.2, "shared": 0.4, "noise": 0.8}]
SEEDS = 8


@pytest.mark.parametrize("planted", PLANTED, ids=str)
def test_planted_biases_come_back_within_two_standard_errors_and_none_comes_of_none(planted):
    shared, bias = planted.get("shared", 0.0), planted.get("length_bias", 0.0)
    settings = {name: value for name, value in planted.items() if name != "shared"}
    truth = {
        "position effect": 2 * planted.get("position_bias", 0.0),
        "score noise": planted.get("noise", 0.5),
        "length effect": shared + bias,
        "length beyond rubric": bias,
    }
    if "position_bias" not in planted:
        truth["flips to the earlier"] = 0.5
    z = []
    for seed in range(SEEDS * PLANTED.index(planted), SEEDS * (PLANTED.index(planted) + 1)):
        pools, abilities = world(seed, shared=shared)
        log = judged(pools, SimulatedJudge(abilities, GAMMA, BETA, seed=seed, **settings), HALF)
        found = judge_noise(log, texts(pools), splits=1).summary
        z.append([(found.loc[name, "value"] - value) / found.loc[name, "se"] for name, value in truth.items()])
    z = pd.DataFrame(z, columns=list(truth))
    within, size = (z.abs() <= 2).mean(), np.sqrt((z**2).mean())
    print("\n" + pd.DataFrame({"within two": within, "rms": size, "mean": z.mean()}).round(2).to_string())
    # t with 7 degrees of freedom: 91% within two, a root mean square of 1.18; eight draws of it for each number
    assert (within >= 0.75).all()
    assert size.between(0.4, 1.9).all()
    assert (z.abs() <= 2).to_numpy().mean() >= 0.85


@pytest.mark.parametrize(("name", "warning"), [("position_bias", "the place counts"), ("length_bias", "weighs length")])
def test_a_large_bias_is_warned_of_and_none_is_not(name, warning):
    pools, abilities = world(3)
    biased = judge_noise(
        judged(pools, SimulatedJudge(abilities, GAMMA, BETA, **{name: 0.5}), HALF), texts(pools), splits=1
    )
    fair = judge_noise(judged(pools, SimulatedJudge(abilities, GAMMA, BETA), HALF), texts(pools), splits=1)
    assert any(warning in text for text in biased.warnings)
    assert not any(warning in text for text in fair.warnings)


def test_a_position_bias_shows_in_the_flips_and_place_by_place():
    pools, abilities = world(4)
    found = judge_noise(judged(pools, SimulatedJudge(abilities, GAMMA, BETA, position_bias=0.4), HALF), splits=1)
    assert found.summary.loc["flips to the earlier", "low"] > 0.6
    expected = 0.4 * np.linspace(1, -1, 10)
    z = (found.places["effect"] - expected) / found.places["se"]
    assert found.places["place"].tolist() == list(range(1, 11))
    assert (z.abs() <= 2).sum() >= 8
    np.testing.assert_allclose(found.places["effect"], expected, atol=0.2)


def test_order_flips_are_those_that_the_noise_makes(plain):
    _, abilities, log = plain
    expected, total = 0.0, 0
    frame = log.windows()
    for row in frame[frame["reversed"]].itertuples():
        true = np.array([abilities["", row.qid, docno] for docno in row.docnos])
        gap = (true[:, None] - true)[np.triu_indices(len(true), 1)]
        same = norm.cdf(gap / (0.5 * np.sqrt(2.0)))
        expected += np.sum(2 * same * (1 - same))
        total += len(gap)
    found = judge_noise(log, splits=1).summary.loc["order flips"]
    assert found["value"] == pytest.approx(expected / total, abs=2 * found["se"])


def test_flip_rates_are_those_of_the_answers_drawn(plain):
    _, abilities, log = plain
    p = expit(GAMMA * (np.array(list(abilities.values()))[:, None] - BETA))
    criteria = judge_noise(log, splits=1).criteria
    assert criteria["id"].tolist() == ["C1", "C2", "C3", "C4", "C5"]
    assert criteria["documents"].tolist() == [240] * 5
    z = (criteria["flip_rate"] - (2 * p * (1 - p)).mean(axis=0)) / criteria["flip_se"]
    assert (z.abs() <= 2).sum() >= 4
    assert (z.abs() <= 3).all()


@pytest.mark.filterwarnings("ignore:criterion 'C1' carries")
def test_criterion_noise_comes_back_as_flips_and_a_sure_judge_never_flips():
    chances = np.array([0.0, 0.05, 0.1, 0.2, 0.5])
    z = []
    for seed in range(6):
        pools, abilities = world(seed)
        judge = SimulatedJudge(
            abilities, [1e4] * 5, [-1.5, -1.0, -0.5, 0.0, 0.5], criterion_noise=chances.tolist(), seed=seed
        )
        found = judge_noise(judged(pools, judge), splits=1).criteria
        assert found.loc[0, "flip_rate"] == 0
        assert found.loc[0, "alpha"] == 1
        z.append((found["flip_rate"] - 2 * chances * (1 - chances))[1:] / found["flip_se"][1:])
        assert found["alpha"].is_monotonic_decreasing
        assert abs(found.loc[4, "alpha"]) < 3 * found.loc[4, "alpha_se"]  # a coin
    z = np.array(z)
    print("\nrms", np.sqrt((z**2).mean(axis=0)).round(2))
    assert (np.abs(z) <= 2).mean() >= 0.8
    assert 0.6 < np.sqrt((z**2).mean()) < 1.6


def test_a_criterion_answered_by_a_coin_is_warned_of():
    pools, abilities = world(1)
    judge = SimulatedJudge(abilities, GAMMA, BETA, criterion_noise=[0, 0, 0, 0, 0.5])
    warned = [text for text in judge_noise(judged(pools, judge, HALF), splits=1).warnings if "criterion" in text]
    assert len(warned) == 1
    assert "criterion 'C5' may agree no more" in warned[0]


@pytest.mark.parametrize("noise", [0.5, 1.0])
def test_the_reliability_is_the_correlation_of_two_whole_logs(noise):
    pools, abilities = world(5, queries=12, documents=24)
    logs = [judged(pools, SimulatedJudge(abilities, GAMMA, BETA, noise=noise, seed=seed)) for seed in (1, 2)]
    found = judge_noise(logs[0], splits=2).summary
    both = logs[0].calibrate().documents.merge(logs[1].calibrate().documents, on=["dataset", "qid", "docno"])
    pooled = spearmanr(both["theta_x"], both["theta_y"]).statistic
    within = np.mean([spearmanr(rows["bt_x"], rows["bt_y"]).statistic for _, rows in both.groupby("qid")])
    print(f"\npooled {pooled:.3f}, within {within:.3f}\n{found.loc[['ability reliability', 'order reliability']]}")
    for name, truth in [("ability reliability", pooled), ("order reliability", within)]:
        assert found.loc[name, "value"] == pytest.approx(truth, abs=3 * found.loc[name, "se"])


@pytest.mark.quick
def test_a_judge_without_noise_has_none():
    text = [f"why {'why ' * (d % 7)}{'because ' * d}" for d in range(20)]
    pools = [Pool(Query(q, "why"), tuple(Document(f"d{d}", text[d]) for d in range(20))) for q in ("q0", "q1", "q2")]
    found = judge_noise(judged(pools, LexicalJudge()), splits=1)
    assert found.summary.loc["order flips", "value"] == 0
    assert found.summary.loc["position effect", ["value", "se"]].tolist() == pytest.approx([0, 0], abs=1e-9)
    assert found.summary.loc["score noise", "value"] == pytest.approx(0, abs=1e-9)
    assert np.isnan(found.summary.loc["flips to the earlier", "value"])
    assert not any("place" in text for text in found.warnings)


@pytest.mark.quick
def test_scores_at_the_ends_of_the_scale_are_counted():
    pools, abilities = world(13, queries=4, documents=12)
    wide = {key: 5 * value for key, value in abilities.items()}
    fair, cut = (judged(pools, SimulatedJudge(of, GAMMA, BETA), HALF) for of in (abilities, wide))
    windows = cut.windows()
    scores = np.concatenate(windows.loc[windows["stage"] == "tournament", "answer"].tolist())
    found = judge_noise(cut, splits=1)
    share = found.summary.loc["scores at the ends", "value"]
    assert share == pytest.approx((np.abs(scores) == 5).mean())
    assert any(text.startswith(f"{share:.0%} of the tournament's scores lie at -5 or 5") for text in found.warnings)
    other = judge_noise(fair, splits=1)
    assert other.summary.loc["scores at the ends", "value"] < 0.05
    assert not any("lie at" in text for text in other.warnings)
    assert found.summary.loc["score noise", "value"] < other.summary.loc["score noise", "value"] < 0.6


@pytest.mark.quick
def test_without_reversed_windows_or_texts_it_says_what_is_unknown():
    pools, abilities = world(6, queries=3, documents=24)
    found = judge_noise(judged(pools, SimulatedJudge(abilities, GAMMA, BETA), REDUCED), splits=1)
    unknown = found.summary["value"].isna()
    assert set(unknown[unknown].index) == {
        "position effect", "order flips", "flips to the earlier", "tied pairs", "score noise", "length effect",
        "length beyond rubric",
    }  # fmt: skip
    assert found.places.empty
    assert "no window was answered in both orders" in found.warnings[0]
    assert any("keeps no text of 72 documents; give documents=" in text for text in found.warnings)
    assert any("over 3 queries are rough" in text for text in found.warnings)
    assert list(found.summary.index) == list(MEANINGS)
    assert "order reliability" in str(found)
    assert "C5" in repr(found)


@pytest.mark.quick
def test_lengths_come_from_the_log_from_texts_or_from_numbers():
    pools, abilities = world(7, queries=3, documents=12)
    judge = SimulatedJudge(abilities, GAMMA, BETA, length_bias=0.5)
    log = judged(pools, judge, HALF, JudgmentLog(keep_text=True))
    frame = texts(pools)
    numbers = frame.assign(length=2.0 * frame["text"].str.len()).drop(columns=["text", "dataset"])  # any unit
    rows = ["length effect", "length beyond rubric"]
    kept, given, counted = (
        judge_noise(log, documents, splits=1).summary.loc[rows] for documents in (None, frame, numbers)
    )
    assert kept["value"].notna().all()
    pd.testing.assert_frame_equal(kept, given)
    pd.testing.assert_frame_equal(kept, counted)
    for length in (7, 100, 300):  # nothing to compare, whatever the rounding of its logarithm
        alike = numbers.assign(length=length)
        assert judge_noise(log, alike, splits=1).summary.loc[rows, ["value", "se"]].isna().all(axis=None)


@pytest.mark.quick
def test_bad_lengths_are_named():
    pools, abilities = world(7, queries=2, documents=12)
    log = judged(pools, SimulatedJudge(abilities, GAMMA, BETA), HALF)
    frame = texts(pools)
    for documents, message in [
        (frame[frame["docno"] != "d03"], r"no text or length for \('', 'q0', 'd03'\), \('', 'q1', 'd03'\)"),
        (frame.drop(columns="text"), "neither a column 'text' nor 'length'"),
        (frame.assign(text=None), "a text must be text, not"),
        (frame.drop(columns="text").assign(length=0), "a length must be a number above 0, not"),
        (frame.drop(columns=["qid"]), r"two lengths for \('', 'd00'\)"),
        ("texts.tsv", "must be a DataFrame"),
    ]:
        with pytest.raises(RCPError, match=message):
            judge_noise(log, documents, splits=1)
    with pytest.raises(RCPError, match="must be a JudgmentLog"):
        judge_noise(log.calibrate())
    with pytest.raises(RCPError, match="splits"):
        judge_noise(log, splits=0)


@pytest.mark.quick
def test_datasets_are_clusters_of_their_own_and_judges_are_not_mixed():
    one, abilities = world(8, queries=2, documents=12, dataset="a")
    two, others = world(9, queries=2, documents=12, dataset="b")
    judges = [SimulatedJudge(abilities | others, GAMMA, BETA, noise=noise) for noise in (0.5, 1.0)]
    log = judged(one + two, judges[0], HALF)
    assert judge_noise(log, splits=1).summary["queries"].max() == 4
    assert judge_noise(log, splits=1, datasets="a").summary["queries"].max() == 2
    documents = pd.concat([texts(one), texts(two)])
    assert judge_noise(log, documents, splits=1).summary["value"].notna().all()
    judged(one, judges[1], HALF, log)
    with pytest.raises(RCPError, match="several values of judge"):
        judge_noise(log, splits=1)
    of = [judge_noise(log, splits=1, datasets=iter(["a"]), judge=judge.name) for judge in judges]
    assert [one.judge for one in of] == [judge.name for judge in judges]
    assert of[0].summary.loc["score noise", "value"] < 0.75 < of[1].summary.loc["score noise", "value"]


class Failing(SimulatedJudge):
    """Fails at every third tournament window, for good."""

    calls = 0

    def tournament(self, query, documents):
        self.calls += 1
        if self.calls % 3 == 0:
            raise JudgeFailure("refused")
        return super().tournament(query, documents)


@pytest.mark.quick
def test_failed_windows_count_for_nothing():
    pools, abilities = world(10, queries=3, documents=12)
    log = judged(pools, Failing(abilities, GAMMA, BETA))
    found = judge_noise(log, splits=1)
    assert any("of the windows failed" in text for text in found.warnings)
    assert found.summary.loc["score noise", "value"] == pytest.approx(0.5, abs=0.1)


@pytest.mark.quick
def test_windows_too_few_for_halves_leave_their_query_out():
    pools, abilities = world(11, queries=4, documents=30)
    log = judged(pools, SimulatedJudge(abilities, GAMMA, BETA), FULL.scaled(0.01))
    found = judge_noise(log, splits=2)
    assert any("had no tournament window in a half" in text or "too few windows" in text for text in found.warnings)
    assert found.summary.loc["order flips", "value"] > 0


@pytest.mark.quick
def test_queries_that_are_not_judged_to_the_end_are_left_out():
    pools, abilities = world(12, queries=3, documents=12)
    log = judged(pools[:2], SimulatedJudge(abilities, GAMMA, BETA), HALF)

    class Stops(SimulatedJudge):
        def rubric(self, query, documents, rubric):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        judged(pools[2:], Stops(abilities, GAMMA, BETA), HALF, log)
    with pytest.warns(RCPWarning, match="1 query is not judged to the end, left out"):
        found = judge_noise(log, splits=1)
    assert found.summary["queries"].max() == 2
    assert "1 query is not judged to the end, left out: ('', 'q2')" in found.warnings
    with pytest.raises(RCPError, match="no judged query to calibrate: 1 query is not judged to the end; run the judge"):
        judge_noise(log, splits=1, leave_out=["q0", "q1"])


@pytest.mark.quick
def test_the_same_log_gives_the_same_numbers(plain):
    pools, _, log = plain
    frame = texts(pools)
    first, again = judge_noise(log, frame, splits=1), judge_noise(log, frame.iloc[::-1], splits=1)
    pd.testing.assert_frame_equal(first.summary, again.summary, check_exact=True)
    pd.testing.assert_frame_equal(first.criteria, again.criteria, check_exact=True)
    other = judge_noise(log, frame, splits=1, seed=7).summary
    assert other.loc["ability reliability", "value"] != first.summary.loc["ability reliability", "value"]
    assert other.loc["position effect", "value"] == first.summary.loc["position effect", "value"]


@pytest.mark.quick
def test_noise_that_the_scale_cuts_is_warned_of():
    """At an SD of 2 few scores lie at the ends, and the noise comes out too small already."""
    pools, abilities = world(3, queries=10)
    found = judge_noise(judged(pools, SimulatedJudge(abilities, GAMMA, BETA, noise=2.0)), splits=1)
    assert found.summary.loc["score noise", "value"] < 2
    assert any("of the tournament's scores lie at -5 or 5" in text for text in found.warnings)


@pytest.mark.quick
def test_a_criterion_that_hardly_ever_passes_tells_nothing_of_its_noise():
    pools, abilities = world(5, queries=6)
    hard = [*BETA[:-1], 9.0]
    found = judge_noise(judged(pools, SimulatedJudge(abilities, GAMMA, hard), HALF), splits=1)
    about = [text for text in found.warnings if "criterion 'C5'" in text]
    assert len(about) == 1
    assert "too few of one kind to tell how they agree" in about[0]
