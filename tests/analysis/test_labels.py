"""compare_labels: against scipy on simulated judges, and on two language models' labels of TREC DL 2019."""

from __future__ import annotations

import functools
import itertools
import operator

import numpy as np
import pandas as pd
import pytest
from scipy.stats import kendalltau, spearmanr, ttest_rel

from rcp_irx import FULL, GainTable, RCPError, SimulatedJudge
from rcp_irx.analysis import compare_labels
from rcp_irx.analysis.labels import SUITE
from rcp_irx.calibration import centre, fit_2pl, gain
from rcp_irx.evaluation import ndcg
from rcp_irx.trec import read_qrels, read_run
from tests.analysis.test_budgets import rankings
from tests.analysis.test_noise import BETA, GAMMA, judged, world
from tests.conftest import data_folder


def tables(seed=1, queries=10, documents=24, dataset="", **other):
    """Two judges' gains of the same pools; the second is noisier."""
    pools, abilities = world(seed, queries=queries, documents=documents, dataset=dataset)
    judges = SimulatedJudge(abilities, GAMMA, BETA, seed=1), SimulatedJudge(abilities, GAMMA, BETA, noise=1.5, seed=2)
    return [judged(pools, judge, FULL.scaled(0.5)).calibrate() for judge in judges], abilities


@pytest.fixture(scope="module")
def simulated():
    return tables()


@pytest.mark.quick
def test_abilities_and_orders_agree_as_scipy_says(simulated):
    (a, b), abilities = simulated
    found = compare_labels(a, b, rankings(abilities), k=5).documents.iloc[0]
    both = a.documents.merge(b.documents, on=["dataset", "qid", "docno"])
    assert found[["dataset", "queries", "documents"]].tolist() == ["", 10, 240]
    assert found["ability"] == pytest.approx(spearmanr(both["theta_x"], both["theta_y"]).statistic)
    groups = [rows for _, rows in both.groupby("qid")]
    within = np.array([spearmanr(rows["theta_x"], rows["theta_y"]).statistic for rows in groups])
    assert found["order"] == pytest.approx(within.mean())
    assert found["order_se"] == pytest.approx(within.std(ddof=1) / np.sqrt(10))
    tops = [set(rows.nlargest(5, "theta_x")["docno"]) & set(rows.nlargest(5, "theta_y")["docno"]) for rows in groups]
    assert found["top"] == pytest.approx(np.mean([len(top) / 5 for top in tops]))
    left = [both[both["qid"] != qid] for qid in both["qid"].unique()]
    left = np.array([spearmanr(rows["theta_x"], rows["theta_y"]).statistic for rows in left])
    jackknife = np.sqrt(0.9 * np.sum((left - left.mean()) ** 2))
    assert found["ability_se"] == pytest.approx(jackknife, rel=0.25)  # ours keeps the ranks of all documents


@pytest.mark.quick
def test_leaderboards_stand_side_by_side(simulated):
    (a, b), abilities = simulated
    runs = rankings(abilities)
    found = compare_labels(a, b, runs, k=5)
    board = found.leaderboard.set_index("system")
    for side, table in [("a", a), ("b", b)]:
        means = {name: ndcg(run, table, 5).mean() for name, run in runs.items()}
        assert board[f"mean_{side}"].to_dict() == pytest.approx(means)
        assert board[f"rank_{side}"].to_dict() == pd.Series(means).rank(ascending=False).astype(int).to_dict()
    assert board["rank_a"].tolist() == [1, 2, 3, 4]
    row = found.systems.iloc[0]
    assert row["spearman"] == pytest.approx(spearmanr(board["mean_a"], board["mean_b"]).statistic)
    assert row["kendall"] == pytest.approx(kendalltau(board["mean_a"], board["mean_b"]).statistic)
    assert "neither judge is the truth" in str(found)


@pytest.mark.quick
def test_pairs_are_decided_by_the_paired_t_test(simulated):
    (a, b), abilities = simulated
    runs = rankings(abilities)
    runs["twin"] = runs["fair"]
    found = compare_labels(a, b, runs)
    values = [{name: ndcg(run, table) for name, run in runs.items()} for table in (a, b)]
    assert len(found.pairs) == 10
    for row in found.pairs.itertuples():
        if {row.system_1, row.system_2} == {"fair", "twin"}:
            assert (row.p_a, row.p_b, row.verdict) == (1.0, 1.0, "neither")
            continue
        signs, decides = [], []
        for side, of in zip("ab", values, strict=True):
            one, two = of[row.system_1], of[row.system_2]
            assert getattr(row, f"p_{side}") == pytest.approx(ttest_rel(one, two).pvalue)
            assert getattr(row, f"difference_{side}") == pytest.approx((one - two).mean())
            signs.append(np.sign((one - two).mean()))
            decides.append(ttest_rel(one, two).pvalue < 0.05)
        alike = "both" if signs[0] == signs[1] else "conflict"
        expected = {(True, True): alike, (True, False): "only a", (False, True): "only b", (False, False): "neither"}
        assert row.verdict == expected[tuple(decides)]
    counts, row = found.pairs["verdict"].value_counts(), found.systems.iloc[0]
    assert row["pairs"] == 10
    assert row["a"] == counts.get("both", 0) + counts.get("conflict", 0) + counts.get("only a", 0)
    assert len(found.decided) == row["both"] == counts["both"] > 0


@pytest.mark.quick
def test_systems_that_follow_one_judge_each_are_in_conflict(simulated):
    (a, b), _ = simulated
    runs = {
        name: table.documents.rename(columns={"theta": "score"})[["qid", "docno", "score"]]
        for name, table in [("as a", a), ("as b", b)]
    }
    found = compare_labels(a, b, runs)
    assert found.conflicts[["system_1", "system_2"]].to_numpy().tolist() == [["as a", "as b"]]
    assert found.systems["conflict"].tolist() == [1]
    assert any("oppositely, so which is better depends on them: ('', 'as a', 'as b')" in t for t in found.warnings)


@pytest.mark.quick
def test_the_documents_that_the_judges_order_oppositely_are_listed(simulated):
    (a, b), abilities = simulated
    found = compare_labels(a, b, rankings(abilities), disagreements=4).disagreements
    both = a.documents.merge(b.documents, on=["dataset", "qid", "docno"])
    expected = {}
    for qid, rows in both.groupby("qid"):
        for one, two in itertools.permutations(rows.itertuples(), 2):
            size = min(one.theta_x - two.theta_x, two.theta_y - one.theta_y)
            if size > 0:
                expected[qid, one.docno, two.docno] = size
    assert len(found) == 4
    assert found["gap"].is_monotonic_decreasing
    for row in found.itertuples():
        assert row.gap == pytest.approx(expected[row.qid, row.docno_1, row.docno_2])
        assert row.gap == min(row.gap_a, -row.gap_b)
    first = found.iloc[0]
    assert (first["qid"], first["docno_1"], first["docno_2"]) == max(expected, key=expected.get)
    ends = list(zip(found["qid"], found["docno_1"], strict=True)) + list(
        zip(found["qid"], found["docno_2"], strict=True)
    )
    assert len(set(ends)) == 8


@pytest.mark.quick
def test_a_table_agrees_with_itself_and_says_why(simulated):
    (a, _), abilities = simulated
    found = compare_labels(a, a, rankings(abilities))
    assert found.documents[["ability", "order", "top"]].iloc[0].tolist() == pytest.approx([1.0, 1.0, 1.0])
    assert found.documents["ability_se"].tolist() == pytest.approx([0.0], abs=1e-12)
    assert set(found.pairs["verdict"]) <= {"both", "neither"}
    assert found.disagreements.empty
    assert found.warnings == [f"both tables come from one fit ({a.fit_id}): their abilities agree by construction"]


@pytest.mark.quick
def test_datasets_one_by_one_and_together():
    (a1, _b1), one = tables(2, queries=4, documents=12, dataset="x")
    both = {**one, **tables(3, queries=5, documents=12, dataset="y")[1]}
    pools = [world(seed, q, 12, dataset=d)[0] for seed, q, d in [(2, 4, "x"), (3, 5, "y")]]
    judges = [SimulatedJudge(both, GAMMA, BETA, noise=noise) for noise in (0.5, 1.5)]
    a, b = (judged(functools.reduce(operator.iadd, pools, []), judge, FULL.scaled(0.5)).calibrate() for judge in judges)
    runs = rankings(both, dataset=True)
    found = compare_labels(a, b, runs)
    assert found.documents["dataset"].tolist() == ["x", "y", SUITE]
    assert found.documents["queries"].tolist() == [4, 5, 9]
    suite = found.leaderboard[found.leaderboard["dataset"] == SUITE].set_index("system")
    for name, run in runs.items():
        means = [ndcg(run, a.select(dataset)).mean() for dataset in ("x", "y")]
        assert suite.loc[name, "mean_a"] == pytest.approx(np.mean(means))
    assert len(found.pairs) == 12
    assert found.systems.set_index("dataset").loc[SUITE, "pairs"] == 12
    assert SUITE not in set(found.pairs["dataset"])
    assert str(found).count("near") == 1
    with pytest.raises(RCPError, match="share no document"):
        compare_labels(a1, b.select("y"), rankings(both, dataset=True))


@pytest.mark.quick
def test_what_one_table_lacks_is_left_out_and_told(simulated):
    (a, b), abilities = simulated
    fewer = GainTable(
        b.documents[(b.documents["qid"] != "q3") & (b.documents["docno"] != "d05")],
        b.queries[b.queries["qid"] != "q3"],
        b.criteria,
        {"judge": "other"},
    )
    runs = rankings(abilities)
    found = compare_labels(a, fewer, runs)
    assert found.documents[["queries", "documents"]].to_numpy().tolist() == [[9, 9 * 23]]
    assert found.leaderboard["queries"].tolist() == [9] * 4
    assert found.warnings[0].startswith("only a holds 33 documents, not compared")
    expected = ndcg(runs["near"], a).drop("q3").mean()
    assert found.leaderboard.set_index("system").loc["near", "mean_a"] == pytest.approx(expected)
    assert any("have a gain of a" in text for text in found.warnings)
    out = a.exclude(pd.DataFrame({"qid": ["q0"], "docno": ["d00"]}))
    assert compare_labels(out, b, runs).documents["documents"].tolist() == [239]


@pytest.mark.quick
def test_gains_take_the_place_of_abilities_that_were_not_released(simulated):
    (a, b), abilities = simulated
    hidden = GainTable(b.documents.assign(theta=np.nan), b.queries, b.criteria, {"judge": "other"})
    runs = rankings(abilities)
    found, open_ = compare_labels(a, hidden, runs), compare_labels(a, b, runs)
    assert found.documents["ability"].tolist() == pytest.approx(open_.documents["ability"].tolist())
    assert any("abilities were not released" in text for text in found.warnings)
    with pytest.raises(RCPError, match="two GainTables"):
        compare_labels(a, b.documents, runs)


def graded(name, judge):
    """A language model's labels 0 to 3 as the gains of a judge: the criteria are to reach 1, 2 and 3."""
    labels = read_qrels(data_folder("dl19") / name)
    codes, qids = pd.factorize(labels["qid"])
    passes = np.stack([labels["label"] >= level for level in (1, 2, 3)], axis=1).astype(float)
    bt = centre(labels["label"].astype(float), codes)  # there was no tournament: the label itself orders a query
    fit = fit_2pl(bt, passes, np.ones(len(labels)), codes)
    documents = labels[["qid", "docno", "label"]].assign(
        dataset="",
        gain=gain(fit.theta, fit.gamma, fit.beta),
        theta=fit.theta,
        bt=bt,
        n=1,
        pool_rank=np.nan,
        excluded=False,
    )
    documents[["g1", "g2", "g3"]] = passes
    queries = pd.DataFrame({"dataset": "", "qid": qids, "query": "?", "tau": fit.tau, "alpha": fit.alpha})
    ids = ["g1", "g2", "g3"]
    criteria = pd.DataFrame({"id": ids, "name": ids, "question": ids, "gamma": fit.gamma, "beta": fit.beta})
    return GainTable(documents, queries, criteria, {"judge": judge})


@pytest.mark.filterwarnings("ignore:9.* of the top 10 has a gain")
def test_two_language_models_on_trec_dl_2019():
    folder = data_folder("dl19")
    a = graded("dl19.zeroshot_bing_DSV3.txt", "DSV3")
    b = graded("dl19.zeroshot_bing_Llama-3-8B-Instruct.txt", "Llama-3-8B")
    paths = {path.name.split(".")[1]: path for path in sorted((folder / "runs").iterdir())}
    found = compare_labels(a, b, paths)
    print(f"\n{found}")
    documents = found.documents.iloc[0]
    assert documents[["queries", "documents"]].tolist() == [43, 9260]
    both = a.documents.merge(b.documents, on=["qid", "docno"])
    assert documents["ability"] == pytest.approx(spearmanr(both["theta_x"], both["theta_y"]).statistic, abs=1e-12)
    # within a query an ability is its label in other units, so the labels alone give the agreement of orders
    within = [spearmanr(rows["label_x"], rows["label_y"]).statistic for _, rows in both.groupby("qid")]
    assert documents["order"] == pytest.approx(np.mean(within), abs=1e-12)
    assert documents["order_se"] == pytest.approx(np.std(within, ddof=1) / np.sqrt(43), abs=1e-12)
    assert documents["ability"] == pytest.approx(0.659, abs=5e-4)
    assert documents["order"] == pytest.approx(0.588, abs=5e-4)
    values = [{name: ndcg(read_run(path), of) for name, path in paths.items()} for of in (a, b)]
    board = found.leaderboard.set_index("system")
    for side, of in zip("ab", values, strict=True):
        assert board[f"mean_{side}"].to_dict() == pytest.approx({name: v.mean() for name, v in of.items()})
    assert found.systems["kendall"][0] == pytest.approx(13 / 15)  # RepLLaMA and SPLADE change places
    for row in found.pairs.itertuples():
        p = [ttest_rel(of[row.system_1], of[row.system_2]).pvalue for of in values]
        assert [row.p_a, row.p_b] == pytest.approx(p)
    assert found.systems[["a", "b", "both", "conflict", "only_a", "only_b", "neither"]].iloc[0].tolist() == [
        9, 3, 3, 0, 6, 0, 6,
    ]  # fmt: skip
    assert set(found.decided["system_1"]) == {"BM25", "BM25_RM3"}
    assert found.warnings == [
        "90.2% of the first documents of 'D_BERT_KD_TASB' have a gain of both judges at most; one without counts 0"
    ]


@pytest.mark.quick
def test_ties_at_the_cut_agree_as_often_as_chance_has_it(simulated):
    (a, b), abilities = simulated
    rounded = [GainTable(t.documents.assign(theta=t.documents["theta"].round()), t.queries, t.criteria, {"judge": name})
               for name, t in zip("xy", (a, b), strict=True)]  # fmt: skip
    found = compare_labels(*rounded, rankings(abilities), k=5).documents.loc[0, "top"]
    both = rounded[0].documents.merge(rounded[1].documents, on=["dataset", "qid", "docno"])
    random = np.random.default_rng(1)
    drawn = []
    for _ in range(400):
        tops = []
        for side in "xy":
            rows = both.assign(turn=random.random(len(both))).sort_values([f"theta_{side}", "turn"], ascending=False)
            tops.append(set(rows.groupby("qid").head(5)[["qid", "docno"]].itertuples(index=False, name=None)))
        drawn.append(len(tops[0] & tops[1]) / len(tops[0]))
    assert found == pytest.approx(np.mean(drawn), abs=4 * np.std(drawn) / 20)
    blind = [GainTable(t.documents.assign(theta=0.0), t.queries, t.criteria, {"judge": name})
             for name, t in zip("xy", (a, b), strict=True)]  # fmt: skip
    assert compare_labels(*blind, rankings(abilities), k=6).documents.loc[0, "top"] == pytest.approx(6 / 24)


@pytest.mark.quick
def test_what_one_table_excludes_leaves_both_and_is_told(simulated):
    (a, b), abilities = simulated
    runs = rankings(abilities)
    best = b.documents.sort_values("gain", ascending=False).groupby("qid").head(3)[["qid", "docno"]]
    found, expected = compare_labels(a, b.exclude(best), runs), compare_labels(a.exclude(best), b.exclude(best), runs)
    pd.testing.assert_frame_equal(found.leaderboard, expected.leaderboard)
    pd.testing.assert_frame_equal(found.pairs, expected.pairs)
    assert any("30 documents are excluded from the other table, and now from a too" in text for text in found.warnings)
    whole = b.documents.loc[b.documents["qid"] == "q1", ["qid", "docno"]]
    less = compare_labels(a, b.exclude(whole), runs)
    assert less.documents.loc[0, "queries"] == 9
    assert any("1 query has no document left, all are excluded" in text for text in less.warnings)
    with pytest.raises(RCPError, match="every document that both tables hold is excluded"):
        compare_labels(a, b.exclude(b.documents[["qid", "docno"]]), runs)
    for wrong in (-1, 2.5, "3"):
        with pytest.raises(RCPError, match="disagreements is a whole number from 0 up"):
            compare_labels(a, b, runs, disagreements=wrong)
