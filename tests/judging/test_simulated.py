"""SimulatedJudge: what is planted in its answers is there, and enters its name."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from rcp_irx import Document, Query, RCPError, Rubric, SimulatedJudge

pytestmark = pytest.mark.quick

RUBRIC = Rubric.load()
GAMMA, BETA = [1.17, 1.05, 0.94, 1.16, 0.68], [-2.57, -2.0, -0.25, 0.71, 4.11]
QUERY = Query("q", "why")


def documents(lengths):
    return [Document(f"d{i}", f"{i} ".ljust(length, "x")) for i, length in enumerate(lengths)]


def judge(n=200, ability=0.0, gamma=GAMMA, beta=BETA, **planted):
    return SimulatedJudge({("", "q", f"d{i}"): ability for i in range(n)}, gamma, beta, noise=0.0, **planted)


def test_length_bias_is_logits_per_doubling_of_characters_around_the_windows_mean():
    scores = judge(length_bias=0.5).tournament(QUERY, documents([100, 200, 400, 800])).scores
    np.testing.assert_allclose(scores, [-0.75, -0.25, 0.25, 0.75], atol=1e-12)
    assert judge().tournament(QUERY, documents([100, 200, 400, 800])).scores == [0.0] * 4
    np.testing.assert_allclose(judge(length_bias=1.0).tournament(QUERY, [Document("d0", "")]).scores, [0.0])


def test_position_and_length_bias_add_up():
    scores = judge(position_bias=1.0, length_bias=-0.5).tournament(QUERY, documents([100, 400])).scores
    np.testing.assert_allclose(scores, [1.5, -1.5])


def test_criterion_noise_turns_answers_round_at_its_chance():
    shown = documents([10] * 200)
    chances = [0.0, 0.1, 0.25, 0.5, 1.0]
    sure = judge(gamma=[1e3] * 5, beta=[-1, -1, 1, 1, 1], criterion_noise=chances)
    answers = np.array([sure.rubric(QUERY, shown[i:] + shown[:i], RUBRIC).passes for i in range(20)])
    without_noise = np.array([True, True, False, False, False])
    turned = (answers != without_noise).mean(axis=(0, 1))
    assert turned[0] == 0
    assert turned[4] == 1
    np.testing.assert_allclose(turned[1:4], chances[1:4], atol=4 * 0.5 / np.sqrt(4000))


def test_no_criterion_noise_leaves_the_drawn_answers_as_they_are():
    shown = documents([10] * 200)
    plain, none = judge(), judge(criterion_noise=[0.0] * 5)
    assert none.name == plain.name
    assert none.rubric(QUERY, shown, RUBRIC) == plain.rubric(QUERY, shown, RUBRIC)


def test_every_planted_bias_enters_the_name():
    planted = [{}, {"position_bias": 0.1}, {"length_bias": 0.1}, {"criterion_noise": 0.1}, {"criterion_noise": 0.2}]
    planted += [{"criterion_noise": [0.1, 0.1, 0.1, 0.1, 0.2]}]
    names = [judge(**settings).name for settings in planted]
    assert len(set(names)) == len(names)
    assert judge(criterion_noise=0.1).name == judge(criterion_noise=[0.1] * 5).name
    assert all(one == two for one, two in itertools.pairwise([judge(length_bias=0.3).name for _ in range(2)]))


def test_criterion_noise_that_is_no_chance_is_refused():
    with pytest.raises(RCPError, match="2 values for 5 criteria"):
        judge(criterion_noise=[0.1, 0.2])
    for wrong in (-0.1, 1.1, float("nan"), [0.1, 0.1, 2.0, 0.1, 0.1]):
        with pytest.raises(RCPError, match="chance from 0 to 1"):
            judge(criterion_noise=wrong)
