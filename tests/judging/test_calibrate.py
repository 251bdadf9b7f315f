"""From logs to gains: a simulation with known truth, bit-identical repeats, and what is refused."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau, spearmanr

from rcp_irx import (
    FULL,
    REDUCED,
    Criterion,
    Document,
    GainTable,
    Judge,
    JudgeFailure,
    JudgmentLog,
    LexicalJudge,
    Query,
    RCPError,
    RCPWarning,
    Rubric,
    RubricAnswer,
    SimulatedJudge,
    TournamentAnswer,
)
from rcp_irx.documents import Pool
from rcp_irx.judging.calibrate import calibrate
from rcp_irx.judging.runner import PoolRunner

RUBRIC = Rubric.load()
GAMMA, BETA = [1.17, 1.05, 0.94, 1.16, 0.68], [-2.57, -2.0, -0.25, 0.71, 4.11]  # Table 1


def judge_all(pools, judge, log=None, protocol=FULL, rubric=RUBRIC, **options):
    log = log if log is not None else JudgmentLog()
    for pool in pools:
        PoolRunner(pool, judge, rubric, protocol, log, **options).run()
    return log


def pool(qid, n, dataset=""):
    return Pool(Query(qid, f"query {qid}", dataset), tuple(Document(f"d{i:03d}", f"{qid} text {i}") for i in range(n)))


@pytest.fixture(scope="module")
def world():
    """60 queries x 60 documents: scales spread threefold, offsets of SD 1.5; judged by a judge who knows the truth."""
    generator = np.random.default_rng(7)
    pools = [pool(f"q{j:02d}", 60) for j in range(60)]
    scales = {
        ("", p.query.id): float(s)
        for p, s in zip(pools, np.geomspace(0.8, 2.4, 60)[generator.permutation(60)], strict=True)
    }
    offsets = {("", p.query.id): float(a) for p, a in zip(pools, 1.5 * generator.standard_normal(60), strict=True)}
    abilities = {
        ("", p.query.id, d.id): offsets["", p.query.id] + scales["", p.query.id] * float(x)
        for p in pools
        for d, x in zip(p.documents, generator.standard_normal(60) * 1.5, strict=True)
    }
    judge = SimulatedJudge(abilities, GAMMA, BETA, scales=scales, offsets=offsets, noise=0.5, seed=1)
    log = judge_all(pools, judge)
    return log, log.calibrate(), abilities, scales


def truth_of(documents, abilities):
    return np.array(
        [abilities[key] for key in documents[["dataset", "qid", "docno"]].itertuples(index=False, name=None)]
    )


def test_pooled_over_queries_the_ability_follows_the_truth_and_the_raw_score_does_not(world):
    _, gains, abilities, _ = world
    documents = gains.documents
    truth = truth_of(documents, abilities)
    calibrated = spearmanr(documents["theta"], truth).statistic
    raw = spearmanr(documents["bt"], truth).statistic
    print(f"\npooled Spearman with the truth: calibrated {calibrated:.4f}, raw Bradley-Terry {raw:.4f}")
    assert calibrated >= 0.95
    assert raw < calibrated - 0.1


def test_calibration_keeps_every_querys_order(world):
    documents = world[1].documents
    for _, rows in documents.groupby("qid"):
        assert kendalltau(rows["bt"], rows["theta"]).statistic == pytest.approx(1.0, abs=1e-12)
        assert kendalltau(rows["bt"], rows["gain"]).statistic == pytest.approx(1.0, abs=1e-12)


def test_criteria_come_back(world):
    criteria = world[1].criteria
    print("\n" + criteria[["id", "gamma", "gamma_se", "beta", "beta_se"]].round(3).to_string(index=False))
    assert criteria["beta"].is_monotonic_increasing
    expected = np.array(GAMMA) * 5 / sum(GAMMA)
    np.testing.assert_allclose(criteria["gamma"], expected, atol=0.2)
    np.testing.assert_allclose(criteria["beta"][:4] - criteria["beta"][0], np.array(BETA)[:4] - BETA[0], atol=0.6)


def test_query_scales_come_back(world):
    _, gains, _, scales = world
    queries = gains.queries
    true = np.array([scales["", qid] for qid in queries["qid"]])
    assert spearmanr(queries["tau"], true).statistic > 0.8
    assert queries["tau"].max() / queries["tau"].min() > 2


def test_a_shuffled_log_of_the_same_answers_gives_the_same_bits(world, tmp_path):
    log, gains, _, _ = world
    again = log.calibrate()
    assert again == gains
    some = log.judged()
    for judged in some:
        judged.tournament = judged.tournament[::-1]
        judged.rubric = judged.rubric[::-1]
        order = np.random.default_rng(0).permutation(len(judged.pool.documents))
        judged.pool = Pool(judged.pool.query, tuple(judged.pool.documents[i] for i in order))
    shuffled = calibrate(some[::-1], RUBRIC, metadata={"judge": gains.metadata["judge"]})
    assert shuffled.fit_id == gains.fit_id
    left, right = (t.documents.set_index(["qid", "docno"])["gain"].sort_index() for t in (shuffled, gains))
    assert left.tolist() == right.tolist()


SCRIPT = """
import sys
sys.path.insert(0, {root!r})
from tests.judging.test_calibrate import judge_all, pool
from rcp_irx import LexicalJudge
pools = [pool(f"q{{j}}", 23) for j in range(4)]
gains = judge_all(pools, LexicalJudge()).calibrate()
print(gains.fit_id, gains.documents["gain"].map(float.hex).tolist())
"""


def test_another_hash_seed_gives_the_same_bits():
    root = str(Path(__file__).parents[2])
    outputs = {
        subprocess.run(
            [sys.executable, "-c", SCRIPT.format(root=root)],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_position_bias_of_the_judge_cancels_over_reversals():
    p = pool("q", 30)
    abilities = {("", "q", d.id): i / 5 - 3 for i, d in enumerate(p.documents)}
    fair, biased = (
        judge_all([p], SimulatedJudge(abilities, GAMMA, BETA, noise=0.0, position_bias=bias)).calibrate()
        for bias in (0.0, 1.0)
    )
    merged = fair.documents.merge(biased.documents, on="docno")
    assert spearmanr(merged["bt_x"], merged["bt_y"]).statistic > 0.98


class ByText(Judge):
    """Scores by the number in a document's text; fails where told to."""

    name = "by-text"

    def __init__(self, fail=lambda stage, documents: None):
        self.fail = fail

    def _strength(self, stage, documents):
        kind = self.fail(stage, documents)
        if kind:
            raise JudgeFailure(kind)
        return [int(d.text.split()[-1]) for d in documents]

    def tournament(self, query, documents):
        return TournamentAnswer([s / 10 for s in self._strength("tournament", documents)])

    def rubric(self, query, documents, rubric):
        return RubricAnswer([[s > 4 * c for c in range(len(rubric))] for s in self._strength("rubric", documents)])


def test_two_datasets_that_share_ids_are_calibrated_together_and_kept_apart():
    one, two = pool("q", 12, "one"), pool("q", 15, "two")
    gains = judge_all([one, two], ByText()).calibrate()
    assert gains.documents.groupby("dataset").size().to_dict() == {"one": 12, "two": 15}
    assert gains.documents.groupby("dataset")["bt"].mean().abs().max() < 1e-12
    assert len(gains.queries) == 2
    assert judge_all([one, two], ByText()).calibrate(datasets=["two"]).datasets == ["two"]


def test_the_table_says_what_it_was_made_with():
    gains = judge_all([pool("q", 12)], LexicalJudge()).calibrate()
    assert gains.metadata["judge"] == LexicalJudge.name
    assert "not with a language model" in repr(gains)
    assert gains.metadata["windows"] == {"planned": FULL.counts(12).tournament + FULL.counts(12).rubric, "failed": 0}
    assert gains.metadata["rubric"] == RUBRIC.digest
    assert gains.metadata["fit"]["converged"]
    assert gains.metadata["fit"]["gradient_norm"] < 1e-9


def test_pools_of_one_and_queries_where_everything_passes_or_fails():
    class Extreme(ByText):
        def rubric(self, query, documents, rubric):
            answer = query.id == "passes"
            return RubricAnswer([[answer] * len(rubric) for _ in documents])

    pools = [pool("passes", 12), pool("fails", 12), pool("single", 1)]
    documents = judge_all(pools, Extreme()).calibrate().documents
    assert np.isfinite(documents[["theta", "gain"]].to_numpy()).all()
    assert documents["theta_se"].isna().equals(documents["qid"] == "single")
    means = documents.groupby("qid")["gain"].mean()
    assert means["passes"] > 0.8 > 0.2 > means["fails"]
    assert documents.loc[documents["qid"] == "single", "bt"].tolist() == [0.0]


def test_unfinished_queries_are_refused_or_left_out():
    def stop(stage, documents):
        if documents[0].text.startswith("late"):
            raise KeyboardInterrupt

    log = judge_all([pool("done", 12)], ByText())
    with pytest.raises(KeyboardInterrupt):
        judge_all([pool("late", 12)], ByText(stop), log)
    with pytest.raises(RCPError, match=r"1 query is not judged to the end: \('', 'late'\); run the judge again"):
        log.calibrate()
    gains = log.calibrate(incomplete="leave_out")
    assert gains.queries["qid"].tolist() == ["done"]
    assert gains.metadata["left_out"] == [["", "late"]]


def test_too_many_failures_are_refused_and_named():
    log = judge_all([pool("q", 12)], ByText(lambda stage, ds: "no_json" if ds[0].id == "d003" else None))
    (judged,) = log.judged()
    assert judged.failed > 0.05 * judged.planned
    with pytest.raises(
        RCPError, match=rf"more than 5% .*query 'q': {judged.failed} of {judged.planned}.*retry_failed=True"
    ):
        log.calibrate()
    gains = log.calibrate(max_failed=1.0)
    assert gains.metadata["windows"]["failed"] == judged.failed


def test_documents_in_no_valid_tournament_window_are_named_and_refused():
    def fail(stage, documents):
        return "no_json" if stage == "tournament" and any(d.id == "d007" for d in documents) else None

    log = judge_all([pool("q", 40)], ByText(fail))  # d008 happens to have been shown with d007 alone
    with pytest.raises(
        RCPError, match=r"2 documents are in no valid tournament window: \('', 'q', 'd007'\), \('', 'q', 'd008'\)"
    ):
        log.calibrate(max_failed=1.0)
    gains = log.calibrate(max_failed=1.0, leave_out=[("", "q", "d007"), ("", "q", "d008")])
    assert not {"d007", "d008"} & set(gains.documents["docno"])
    assert abs(gains.documents["bt"].mean()) < 1e-12


def test_queries_without_any_rubric_answer_are_refused():
    log = judge_all([pool("q", 12)], ByText(lambda stage, ds: "x" if stage == "rubric" else None))
    with pytest.raises(RCPError, match=r"no rubric window of \('', 'q'\) was answered"):
        log.calibrate(max_failed=1.0)


def test_several_judges_or_rubrics_are_listed_and_can_be_chosen():
    other, short = ByText(), Rubric((Criterion("X", "X", "Is it so?"), Criterion("Y", "Y", "Really?")))
    other.name = "another"
    log = judge_all([pool("q", 12)], ByText())
    judge_all([pool("q", 12)], other, log)
    judge_all([pool("q", 12)], other, log, rubric=short)
    with pytest.raises(RCPError, match=r"several values of judge: 'another', 'by-text'; choose one with judge="):
        log.calibrate()
    with pytest.raises(RCPError, match=r"several values of rubric: .*; choose one with rubric="):
        log.calibrate(judge="another")
    assert log.calibrate(judge="by-text").metadata["rubric"] == RUBRIC.digest
    assert log.calibrate(judge="another", rubric=short).criteria["id"].tolist() == ["X", "Y"]
    with pytest.raises(RCPError, match=r"no judgments for this choice.*it holds judge 'another', 'by-text'"):
        log.calibrate(judge="nobody")


@pytest.mark.parametrize(
    ("leave_out", "left"),
    [
        ("q1", [["", "q1"]]),
        ((key for key in ["q1"]), [["", "q1"]]),
        ([("", "q1")], [["", "q1"]]),
        ([("", "q1", "d003")], [["", "q1", "d003"]]),
        ([("", "q1", f"d{i:03d}") for i in range(12)], [["", "q1"]]),
    ],
)
def test_what_is_left_out_is_left_out_and_recorded(leave_out, left):
    gains = judge_all([pool("q0", 12), pool("q1", 12)], ByText()).calibrate(leave_out=leave_out)
    assert gains.metadata["left_out"] == left
    assert len(gains) == (23 if len(left[0]) == 3 else 12)


@pytest.mark.parametrize("key", ["q9", ("q0", "d000"), ("", "q0", "nowhere")])
def test_leaving_out_what_is_not_there_is_refused(key):
    with pytest.raises(RCPError, match=r"leave_out names .* which was not judged"):
        judge_all([pool("q0", 12)], ByText()).calibrate(leave_out=[key])


def test_datasets_are_chosen_by_whole_names():
    log = judge_all([pool("q", 12, name) for name in ("a", "b", "ab")], ByText())
    assert log.calibrate(datasets="ab").datasets == ["ab"]
    with pytest.raises(RCPError, match="has no dataset 'zz'; it holds 'a', 'ab', 'b'"):
        log.calibrate(datasets=["a", "zz"])


def test_each_judge_has_a_pool_of_its_own_and_documents_left_behind_are_named():
    other = ByText()
    other.name = "another"
    log = judge_all([pool("q", 15)], ByText())
    judge_all([pool("q", 12)], other, log)
    assert len(log.calibrate(judge="by-text")) == 15
    judge_all([pool("q", 12)], ByText(), log)
    with pytest.warns(RCPWarning, match=r"3 judged documents are not in their query's latest pool .*'d012'"):
        assert len(log.calibrate(judge="by-text")) == 12


def test_an_empty_log_is_refused(tmp_path):
    with pytest.raises(RCPError, match=r"empty\.judgments'\) is empty: judge a pool first"):
        JudgmentLog(tmp_path / "empty.judgments").calibrate()


def test_frozen_criteria_keep_another_tables_parameters():
    first = judge_all([pool(f"q{j}", 20) for j in range(5)], ByText()).calibrate()
    second = judge_all([pool("r", 20)], ByText()).calibrate(criteria=first)
    for column in ("gamma", "beta"):
        assert second.criteria[column].tolist() == first.criteria[column].tolist()
    assert second.metadata["criteria_from"] == first.fit_id
    short = Rubric((Criterion("X", "X", "Is it so?"),))
    with pytest.raises(RCPError, match="another rubric"):
        judge_all([pool("r", 20)], ByText(), rubric=short).calibrate(criteria=first)


def test_excluded_documents_stay_in_the_fit():
    log = judge_all([pool("q", 12)], ByText())
    out = log.calibrate(excluded=pd.DataFrame({"qid": ["q"], "docno": ["d001"]}))
    assert out.fit_id == log.calibrate().fit_id
    assert out.documents.loc[out.documents["excluded"], "docno"].tolist() == ["d001"]


def test_a_grown_pool_keeps_its_earlier_windows_in_the_fit():
    log = judge_all([pool("q", 12)], ByText())
    before = len(log.judged()[0].tournament)
    judge_all([pool("q", 16)], ByText(), log)
    (judged,) = log.judged()
    assert len(judged.tournament) > before
    assert len(judged.pool.documents) == 16
    assert log.calibrate().documents["docno"].tolist() == [f"d{i:03d}" for i in range(16)]


def test_the_reduced_protocol_and_a_rubric_of_one(tmp_path):
    one = Rubric((Criterion("only", "Only", "Is it so?"),))
    gains = judge_all([pool(f"q{j}", 30) for j in range(3)], ByText(), protocol=REDUCED, rubric=one).calibrate()
    assert gains.criteria[["gamma", "beta"]].values.tolist() == [[1.0, 0.0]]
    gains.save(tmp_path / "g")
    assert GainTable.load(tmp_path / "g") == gains


def test_answers_that_contradict_the_tournament_are_warned_about():
    class Contrary(ByText):
        def rubric(self, query, documents, rubric):
            numbers = [int(d.text.split()[-1]) for d in documents]
            strengths = numbers if query.id == "fine" else [11 - number for number in numbers]
            return RubricAnswer([[s > 2 * c + 1 for c in range(len(rubric))] for s in strengths])

    log = judge_all([pool("fine", 12), pool("odd", 12)], Contrary())
    with pytest.warns(RCPWarning, match=r"contradict the tournament of \('', 'odd'\)"):
        gains = log.calibrate()
    assert (gains.queries["tau"] > 0).all()


def test_a_criterion_that_decides_alone_is_warned_about():
    class OneSided(ByText):
        def rubric(self, query, documents, rubric):
            numbers = [int(d.text.split()[-1]) for d in documents]
            return RubricAnswer([[n > 10, n * 7 % 5 < 2, n * 3 % 4 < 2] for n in numbers])

    three = Rubric(tuple(Criterion(name, name, f"{name}?") for name in "XYZ"))
    log = judge_all([pool(f"q{j}", 20) for j in range(6)], OneSided(), rubric=three)
    with pytest.warns(RCPWarning, match="criterion 'X' carries .* of the gain"):
        log.calibrate()


def test_a_pool_in_pieces_is_warned_about():
    first, second = {f"d{i:03d}" for i in range(20)}, {f"d{i:03d}" for i in range(20, 40)}
    log = judge_all([pool("q", 40)], ByText())
    (judged,) = log.judged()
    judged.tournament = [(tuple(sorted(half))[:10], tuple(range(10))) for half in (first, second)]
    seen = {docno for shown, _ in judged.tournament for docno in shown}
    left = [("", "q", d.id) for d in judged.pool.documents if d.id not in seen]
    with pytest.warns(RCPWarning, match=r"no window connects all documents of \('', 'q'\)"):
        calibrate([judged], RUBRIC, leave_out=left)


def test_criteria_of_another_judge_are_told():
    first = judge_all([pool("q", 20)], ByText()).calibrate()
    other = ByText()
    other.name = "another"
    with pytest.warns(RCPWarning, match="the criteria are those of judge .*, the answers those of 'another'"):
        judge_all([pool("r", 20)], other).calibrate(criteria=first)
