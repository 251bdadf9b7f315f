"""A judge's noise, its budget and its standard errors on real documents: NovelEval's pools, judged by the stand-in."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from rcp_irx import JudgmentLog, LexicalJudge, Rubric
from rcp_irx.analysis import compare, judge_noise, replay_budget
from rcp_irx.evaluation import ndcg
from rcp_irx.judging.labelling import Labelling
from rcp_irx.judging.protocol import FULL
from tests.conftest import data_folder


class Unsteady(LexicalJudge):
    """The lexical judge with noise that depends on the window, and a point for whatever is shown first."""

    name = "unsteady"

    def tournament(self, query, documents):
        answer = super().tournament(query, documents)
        seed = [query.id.encode(), *(document.id.encode() for document in documents)]
        noise = np.random.default_rng(list(b" ".join(seed))).normal(0, 0.5, len(documents))
        place = np.linspace(0.5, -0.5, len(documents))
        return type(answer)([float(score + n + p) for score, n, p in zip(answer.scores, noise, place, strict=True)])


@pytest.fixture(scope="module")
def collection() -> tuple[JudgmentLog, pd.DataFrame, pd.DataFrame]:
    """The log, the pools with their texts, and two systems."""
    entries = json.loads((data_folder("noveleval") / "data.json").read_text())
    pool = pd.DataFrame(
        [
            {"qid": hit["qid"], "query": entry["query"], "docno": hit["docid"], "text": hit["content"], "rank": rank}
            for entry in entries
            for rank, hit in enumerate(entry["hits"])
        ]
    )
    log = JudgmentLog()
    labelling = Labelling(Unsteady(), log, Rubric.load(), FULL)
    labelling.run(labelling.pools(pool))
    return log, pool, pool[["qid", "docno"]].assign(score=-pool["rank"].astype(float))


def test_noise_and_bias_are_those_of_the_windows_themselves(collection) -> None:
    log, pool, _ = collection
    found = judge_noise(log, pool, splits=1)
    windows = log.windows()
    windows = windows[(windows["stage"] == "tournament") & (windows["phase"] != "adaptive")]
    answers = {(row.qid, tuple(row.docnos)): row.answer for row in windows.itertuples()}
    slopes, flips, pairs = [], 0, 0
    for (qid, docnos), scores in answers.items():
        back = answers.get((qid, docnos[::-1]))
        if back is None or docnos > docnos[::-1]:
            continue
        first, second = np.array(scores), np.array(back[::-1])
        slopes.append(((first - second) / 2)[0] - ((first - second) / 2)[-1])
        i, j = np.triu_indices(len(first), 1)
        gaps = (first[i] - first[j]) * (second[i] - second[j])
        flips, pairs = flips + np.sum(gaps < 0), pairs + np.sum(gaps != 0)
    rows = found.summary
    row = rows.loc["position effect"]
    assert abs(row["value"] - np.mean(slopes)) < 2 * row["se"]
    assert abs(row["value"] - 1.0) < 3 * row["se"]
    assert rows.loc["order flips", "value"] == pytest.approx(flips / pairs, abs=0.01)
    assert rows.loc["score noise", "value"] == pytest.approx(0.5, abs=0.1)
    assert any("scores +1." in text or "scores +0.9" in text for text in found.warnings)


def test_a_part_of_the_budget_is_fitted_again(collection) -> None:
    log, _, engine = collection
    gains = log.calibrate()
    runs = {"engine": engine, "reverse": engine.assign(score=-engine["score"])}
    found = replay_budget(log, (1 / 2, 1), runs, samples=2)
    board = found.leaderboard.set_index("system")
    for name, run in runs.items():
        assert board.loc[name, "mean"] == pytest.approx(ndcg(run, gains, 10).mean(), abs=1e-12)
        assert board.loc[name, "mean_1"] == pytest.approx(board.loc[name, "mean"], abs=1e-12)
    half = found.budgets[found.budgets["share"] == 0.5].iloc[0]
    assert half["kept"] == pytest.approx(0.5, abs=0.05)
    assert 0 < half["worst_change"] < 0.1


def test_standard_errors_reach_the_intervals(collection) -> None:
    log, _, engine = collection
    gains = log.calibrate()
    assert gains.documents[["bt_se", "theta_se", "gain_se"]].gt(0).all(axis=None)
    runs = {"engine": engine, "reverse": engine.assign(score=-engine["score"])}
    plain, noisy = compare(runs, gains), compare(runs, gains, label_noise=True)
    test = stats.ttest_rel(*(ndcg(run, gains, 10).to_numpy() for run in runs.values()))
    assert plain.pairs.iloc[0]["p"] == pytest.approx(test.pvalue, rel=1e-8)
    rows = noisy.systems[noisy.systems["measure"] == "RCPnDCG"]
    assert rows["noise_se"].between(1e-4, 0.02).all()
    wider = rows["high"] - rows["low"]
    assert (wider.to_numpy() > (plain.systems["high"] - plain.systems["low"]).to_numpy()[: len(rows)]).all()
