"""Comparisons against plain loops over evaluation.ndcg and scipy; every warning, and when it is not given."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from rcp_irx import GainTable, RCPError
from rcp_irx.analysis import compare, disputed, explain, with_gain
from rcp_irx.analysis.significance import holm, resampled_means
from rcp_irx.calibration import gain
from rcp_irx.demo import results as demo
from rcp_irx.evaluation import ndcg
from tests.analysis import toy

pytestmark = pytest.mark.quick


def scores(runs: dict[str, pd.DataFrame], gains: object, k: int = 10) -> pd.DataFrame:
    return pd.DataFrame({name: ndcg(run, gains, k) for name, run in runs.items()})  # type: ignore[arg-type]


def one(frame: pd.DataFrame, **values: object) -> pd.Series:
    """The only row with these values."""
    found = frame[np.logical_and.reduce([frame[name] == value for name, value in values.items()])]
    assert len(found) == 1
    return found.iloc[0]


def test_means_and_pairs_are_those_of_plain_loops() -> None:
    gains = toy.suite()
    runs, labels = toy.runs(gains), toy.labels(gains)
    found = compare(runs, gains, labels, k=5)
    by_measure = {
        "RCPnDCG": scores(runs, gains, 5),
        "CountnDCG": scores(runs, gains.scored.assign(gain=gains.scored["count_gain"]), 5),
        "nDCG": scores(runs, labels.assign(gain=labels["label"].astype(float)), 5),
    }
    assert set(found.systems["measure"]) == set(by_measure)
    assert len(found.pairs) == 3 * 6
    for measure, of in by_measure.items():
        p = []
        for a, b in itertools.combinations(runs, 2):
            row = one(found.pairs, measure=measure, system_a=a, system_b=b)
            difference = of[a] - of[b]
            assert row["n"] == 30
            assert row["difference"] == pytest.approx(difference.mean(), abs=1e-12)
            assert row["p"] == pytest.approx(stats.ttest_rel(of[a], of[b]).pvalue, rel=1e-9)
            counts = [(difference >= 0.02).sum(), (difference.abs() < 0.02).sum(), (difference <= -0.02).sum()]
            assert row[["wins", "ties", "losses"]].tolist() == counts
            assert row["low"] < row["difference"] < row["high"]
            p.append(row["p"])
        own = found.pairs[found.pairs["measure"] == measure]
        np.testing.assert_allclose(own["p_holm"], holm(p))
        summary = one(found.resolution, measure=measure)
        assert summary["separated"] == np.sum(np.array(p) < 0.05)
        assert summary["separated_holm"] == np.sum(holm(p) < 0.05)
        assert summary["resolution"] == pytest.approx(np.mean(np.array(p) < 0.05))
        assert summary["best"] == of.mean().idxmax()
        for system in runs:
            row = one(found.systems, measure=measure, system=system)
            assert row["mean"] == pytest.approx(of[system].mean(), abs=1e-12)
            assert row["rank"] == 1 + (of.mean() > of[system].mean() + 1e-9).sum()
            assert row["coverage"] == 1.0


def test_intervals_are_those_of_queries_drawn_again() -> None:
    gains = toy.suite()
    runs = toy.runs(gains, (0.5, 1.0))
    found = compare(runs, gains)
    of = scores(runs, gains)
    drawn = resampled_means(of.to_numpy(), 7)  # other draws
    for place, system in enumerate(runs):
        row = one(found.systems, measure="RCPnDCG", system=system)
        expected = np.quantile(drawn[:, place], [0.025, 0.975])
        np.testing.assert_allclose([row["low"], row["high"]], expected, atol=0.15 * drawn[:, place].std())
    row = one(found.pairs, measure="RCPnDCG")
    samples = drawn[:, 0] - drawn[:, 1]
    np.testing.assert_allclose(
        [row["low"], row["high"]], np.quantile(samples, [0.025, 0.975]), atol=0.15 * samples.std()
    )
    assert set(found.pairs["interval"]) == {"query sample"}


def test_agreement_with_labels_is_counted() -> None:
    gains = toy.suite(queries=25)
    runs, labels = toy.runs(gains, (0.2, 0.8, 1.5, 3.0, 3.1)), toy.labels(gains)
    found = compare(runs, gains, labels)
    rcp, qrel = (found.pairs[found.pairs["measure"] == m].reset_index() for m in ("RCPnDCG", "nDCG"))
    decided = qrel["p"] < 0.05
    row = one(found.agreement, measure="RCPnDCG", reference="nDCG")
    assert 0 < row["reference_separated"] == decided.sum() < 10
    same = decided & (np.sign(rcp["difference"]) == np.sign(qrel["difference"]))
    assert row["same_winner"] == same.sum()
    assert row["separated_alike"] == (same & (rcp["p"] < 0.05)).sum()
    assert row["separated_opposite"] == (decided & ~same & (rcp["p"] < 0.05)).sum()
    means = [found.systems.loc[found.systems["measure"] == m, "mean"] for m in ("RCPnDCG", "nDCG")]
    assert row["kendall_tau"] == pytest.approx(stats.kendalltau(*means)[0])
    assert compare(runs, gains).agreement[["measure", "reference"]].to_numpy().tolist() == [["RCPnDCG", "CountnDCG"]]


def test_identical_systems_have_p_one() -> None:
    gains = toy.suite()
    run = toy.runs(gains)["s2"]
    found = compare({"a": run, "b": run.sample(frac=1, random_state=1)}, gains)
    assert (found.pairs["p"] == 1).all()
    assert (found.pairs[["difference", "low", "high", "wins", "losses"]] == 0).all(axis=None)
    assert found.pairs["detectable"].isna().all()  # two that score alike tell nothing of what could be detected
    assert found.resolution["detectable"].isna().all()
    assert (found.systems["rank"] == 1).all()


@pytest.mark.parametrize("ties", ["docno", "mean", "pool", "order"])
def test_ties_are_broken_as_told(ties: str) -> None:
    gains = toy.suite(queries=20)
    runs = {name: run.assign(score=run["score"].round()) for name, run in toy.runs(gains).items()}
    found = compare(runs, gains, ties=ties)
    for system, run in runs.items():
        mean = one(found.systems, measure="RCPnDCG", system=system)["mean"]
        assert mean == pytest.approx(ndcg(run, gains, ties=ties).mean(), abs=1e-12)


def test_order_of_rows_and_systems_and_other_datasets_change_nothing() -> None:
    both = toy.with_columns(toy.suite(datasets=("a", "b")), gain_se=0.02)
    runs = toy.runs(both)
    whole = compare(runs, both, label_noise=True)
    shuffled = {name: runs[name].sample(frac=1, random_state=1) for name in reversed(runs)}
    again = compare(shuffled, both, label_noise=True)
    keys = ["dataset", "measure", "system"]
    for other in (again, compare(runs, both.select("a"), label_noise=True)):
        rows = whole.systems[whole.systems["dataset"].isin(other.systems["dataset"])]
        joined = rows.merge(other.systems, on=keys, validate="one_to_one")
        for column in ("mean", "low", "high", "noise_se"):
            np.testing.assert_allclose(joined[f"{column}_x"], joined[f"{column}_y"], rtol=1e-12)
    flipped = one(again.pairs, dataset="a", measure="RCPnDCG", system_a="s1", system_b="s0")
    row = one(whole.pairs, dataset="a", measure="RCPnDCG", system_a="s0", system_b="s1")
    assert [row["low"], row["high"]] == pytest.approx([-flipped["high"], -flipped["low"]], rel=1e-9)
    assert compare(runs, both, label_noise=True, seed=1).systems["low"].ne(whole.systems["low"]).all()


def test_datasets_are_tested_apart_and_averaged_with_equal_weight() -> None:
    large, small = toy.suite(queries=40, datasets=("large",)), toy.suite(queries=5, datasets=("small",), seed=9)
    gains = GainTable(
        pd.concat([large.documents, small.documents]), pd.concat([large.queries, small.queries]), large.criteria
    )
    runs = toy.runs(gains, (0.5, 3.0))
    found = compare(runs, gains, toy.labels(gains))
    mean = found.systems.pivot(index=["measure", "system"], columns="dataset", values="mean")
    for row in found.suite.itertuples():
        assert row.mean == pytest.approx(mean.loc[(row.measure, row.system)].mean(), abs=1e-12)
        assert row.low < row.mean < row.high
    pair = one(found.suite_pairs, measure="RCPnDCG")
    assert pair["difference"] == pytest.approx(mean.loc[("RCPnDCG", "s0")].mean() - mean.loc[("RCPnDCG", "s1")].mean())
    assert pair["datasets"] == 2
    # The interval of an average of two independent means: half the root of the summed squares.
    of = {name: scores(runs, gains.select(name)) for name in gains.datasets}
    se = np.sqrt(sum((frame["s0"] - frame["s1"]).var(ddof=0) / len(frame) for frame in of.values())) / 2
    assert (pair["high"] - pair["low"]) / (2 * 1.96) == pytest.approx(se, rel=0.1)
    assert set(found.pairs["n"]) == {40, 5}
    assert any("small: 5 queries, fewer than 20" in line for line in found.warnings)
    assert not any(line.startswith("large") for line in found.warnings)
    assert "means over 2 datasets" in str(found)


def test_clusters_are_the_unit() -> None:
    gains = toy.suite(queries=24)
    copies = [gains.documents.assign(qid=gains.documents["qid"] + f"-{copy}") for copy in range(4)]
    asked = gains.queries.assign(question=gains.queries["qid"])
    queries = [asked.assign(qid=asked["qid"] + f"-{copy}") for copy in range(4)]
    fourfold = GainTable(pd.concat(copies), pd.concat(queries), gains.criteria)
    runs = toy.runs(gains, (0.5, 1.0))
    more = {n: pd.concat([r.assign(qid=r["qid"] + f"-{copy}") for copy in range(4)]) for n, r in runs.items()}
    plain, naive = compare(runs, gains).pairs, compare(more, fourfold).pairs
    clustered = compare(more, fourfold, cluster="question").pairs
    np.testing.assert_allclose(clustered["p"], plain["p"], rtol=1e-9)
    np.testing.assert_allclose(clustered["detectable"], plain["detectable"], rtol=1e-9)
    assert (naive["p"] < plain["p"]).all()
    width, narrow = ((frame["high"] - frame["low"]).to_numpy() for frame in (plain, naive))
    np.testing.assert_allclose((clustered["high"] - clustered["low"]) / width, 1, atol=0.1)
    np.testing.assert_allclose(narrow / width, 0.5, atol=0.06)
    of_qid = fourfold.queries.set_index("qid")["question"]
    for given in (of_qid, of_qid.to_dict(), {("", qid): group for qid, group in of_qid.items()}):
        assert compare(more, fourfold, cluster=given).pairs.equals(compare(more, fourfold, cluster="question").pairs)
    few = compare(more, fourfold, cluster={qid: group[:1] for qid, group in of_qid.items()})
    assert any("1 cluster: no test, and no interval" in line for line in few.warnings)
    assert few.pairs[["p", "low", "high", "detectable"]].isna().all(axis=None)


def test_each_family_is_left_out_in_turn() -> None:
    gains = toy.suite()
    runs, labels = toy.runs(gains, (0.5, 0.9, 1.0, 3.0)), toy.labels(gains)
    family = {"s0": "A", "s1": "B", "s2": "B", "s3": "C"}
    found = compare(runs, gains, labels, families=family)
    assert found.families.equals(compare(runs, gains, labels, families=family.__getitem__).families)
    assert found.families["left_out"].unique().tolist() == ["", "A", "B", "C"]
    for left_out in ["", "A", "B", "C"]:
        kept = {name: run for name, run in runs.items() if family[name] != left_out}
        fewer = compare(kept, gains, labels)
        for measure in ("RCPnDCG", "CountnDCG", "nDCG"):
            row = one(found.families, left_out=left_out, measure=measure)
            expected = one(fewer.resolution, measure=measure)
            for column in ["systems", "best", "pairs", "separated", "separated_holm", "resolution", "detectable"]:
                assert row[column] == expected[column]
            whole = found.pairs[(found.pairs["measure"] == measure)]
            both = whole.merge(fewer.pairs, on=["measure", "system_a", "system_b"])
            assert row["changed_holm"] == ((both["p_holm_x"] < 0.05) != (both["p_holm_y"] < 0.05)).sum()
            if measure != "nDCG":
                agreed = one(fewer.agreement, measure=measure, reference="nDCG")
                columns = ["kendall_tau", "reference_separated", "same_winner", "separated_alike", "separated_opposite"]
                assert row[columns].tolist() == agreed[columns].tolist()
    assert one(found.families, left_out="A", measure="RCPnDCG")["best"] != "s0"
    assert compare(runs, gains).families.empty
    assert "without each family" in str(found)


@pytest.mark.parametrize(
    ("judge", "family", "warned"),
    [
        ("openai:Qwen3.5-397B temperature=0", "Qwen", True),
        ("qwen/qwen3", "Qwen", True),
        ("gpt-oss-120b", "GPT", True),
        ("gpt-oss-120b", "G", False),
        ("openai:Qwen3.5", "AI", False),
        ("llama", "Qwen", False),
        ("gpt-4", "4", False),
        ("judge/1 (window=listwise)", "listwise", False),
        ("Qwen3Reranker", "QWEN-3", True),
        ("bge-reranker", "jina-reranker", False),
    ],
)
def test_a_run_of_the_judges_family(judge: str, family: str, warned: bool) -> None:
    gains = toy.suite(judge=judge)
    runs = toy.runs(gains, (0.5, 1.0))
    lines = compare(runs, gains, families={"s0": family, "s1": "other"}).warnings
    assert any(f"s0 and the judge ({judge}) are of one family" in line for line in lines) == warned
    assert not any("one family" in line for line in compare(runs, gains).warnings)
    for name in (judge, judge.split()[0]):  # what is told counts, and nothing else
        told = compare(runs, gains, families={"s0": "X", "s1": family, name: "X"}).warnings
        assert [line.split(" and ")[0] for line in told if "are of one family" in line] == ["s0"]
    unused = compare(runs, gains, families={"s0": "X", "s1": "Y", "s9": "Z"}).warnings
    assert any("families names 's9', no system here" in line for line in unused)


def test_a_run_in_the_gains_order_is_the_judges_own() -> None:
    gains = toy.suite()
    runs = toy.runs(gains, (1.0,))
    judges = gains.documents.assign(score=gains.documents["theta"])
    beyond = judges["docno"].isin(["d00", "d01"]) & (judges["gain"] < 0.05)
    lower = judges.assign(score=judges["score"].where(~beyond, -99))  # beyond the first k the order does not matter
    found = compare({**runs, "judge's": judges, "lower": lower}, gains, k=3)
    lines = [line for line in found.warnings if "1.0 by construction" in line]
    assert [line.split(" scores")[0] for line in lines] == ["judge's", "lower"]
    almost = judges.copy()
    first = almost[almost["qid"] == "q00"].sort_values("score").index[-2:]
    almost.loc[first, "score"] = almost.loc[first[::-1], "score"].to_numpy()
    assert not any("by construction" in line for line in compare({"almost": almost}, gains, k=3).warnings)


def test_a_systems_own_name_tells_its_family_too() -> None:
    gains = toy.suite(judge="qwen3-32b (temperature=0)")
    runs = dict(zip(["Qwen3-Embedding-8B", "bm25"], toy.runs(gains, (0.5, 1.0)).values(), strict=True))
    said = "Qwen3-Embedding-8B and the judge (qwen3-32b (temperature=0)) have names of one family"
    for families in (None, {"Qwen3-Embedding-8B": "dense", "bm25": "lexical"}):
        assert any(said in line for line in compare(runs, gains, families=families).warnings)
    told = compare(runs, gains, families={"Qwen3-Embedding-8B": "dense", "bm25": "lexical", "qwen3-32b": "llm"})
    assert not any("of one family" in line for line in told.warnings)
    unknown = GainTable(gains.documents, gains.queries, gains.criteria)
    warned = compare(runs, unknown, families={"Qwen3-Embedding-8B": "dense", "bm25": "lexical"}).warnings
    assert any("the judge is not recorded" in line for line in warned)


def test_a_perfect_first_rank_or_a_single_query_is_no_ranking_of_the_judges() -> None:
    gains = toy.suite()
    judges = gains.documents.assign(score=gains.documents["theta"])
    best = judges.groupby("qid")["score"].transform("max") == judges["score"]
    first = judges.assign(score=np.where(best, 99.0, np.random.default_rng(1).random(len(judges))))
    assert not any("by construction" in line for line in compare({"first": first}, gains, k=1).warnings)
    lone = judges[judges["qid"] == "q03"]
    assert not any("by construction" in line for line in compare({"lone": lone}, gains).warnings)


def test_intervals_with_noise_stay_where_means_can_be() -> None:
    gains = toy.with_columns(toy.suite(queries=8), gain_se=0.2)
    judges = gains.documents.assign(score=gains.documents["theta"])
    found = compare({"near": judges, **toy.runs(gains, (0.1,))}, gains, label_noise=True).systems
    assert found["high"].max() <= 1
    tied = toy.with_columns(gains, gain=gains.documents["gain"].round(1))
    order = tied.documents.assign(score=tied.documents["gain"] - np.arange(len(gains)) * 1e-6)
    of = compare({"own": order, "other": judges}, tied, label_noise=True).systems
    assert one(of, measure="RCPnDCG", system="own")["noise_se"] == pytest.approx(0, abs=1e-12)


def test_no_run_is_the_judges_own_where_all_gains_are_alike() -> None:
    gains = toy.with_columns(toy.suite(), gain=0.5)
    assert not any("by construction" in line for line in compare(toy.runs(gains), gains).warnings)
    gains = toy.suite()
    judges = gains.documents.assign(score=gains.documents["theta"])
    lacking = judges[judges["qid"] != "q03"]
    assert any("lacking scores RCPnDCG@10 1.0 on" in line for line in compare({"lacking": lacking}, gains).warnings)


def test_datasets_of_one_query_make_no_narrow_interval_in_silence() -> None:
    gains = toy.suite(queries=4, datasets=("a", "b", "c"))
    documents = gains.documents[(gains.documents["dataset"] == "a") | (gains.documents["qid"] == "q00")]
    queries = gains.queries.merge(documents[["dataset", "qid"]].drop_duplicates())
    lone = GainTable(documents, queries, gains.criteria)
    warned = compare(toy.runs(lone), lone).warnings
    assert "b: 1 query: no test, and no interval" in warned
    assert any("2 datasets are of one query or cluster, which is drawn every time" in line for line in warned)


def test_gains_without_criteria_say_what_is_not_known() -> None:
    gains = toy.suite()
    bare = GainTable(gains.documents.drop(columns=gains.criteria["id"]), gains.queries, gains.criteria.iloc[:0])
    assert any("without criteria" in line for line in compare(toy.runs(gains), bare).warnings)


def test_coverage_low_unequal_and_absent() -> None:
    gains = toy.suite(queries=20, documents=10)
    full = toy.runs(gains, (1.0,))["s0"]
    ninth = full["docno"].eq("d09")

    def with_unjudged(share: float) -> pd.DataFrame:
        changed = ninth & full["qid"].isin([f"q{q:02d}" for q in range(round(20 * 10 * share))])
        return full.assign(docno=full["docno"].where(~changed, "unjudged"))

    def lines(**runs: pd.DataFrame) -> list[str]:
        return [line for line in compare(runs, gains).warnings if "coverage" in line]

    assert lines(a=full, b=with_unjudged(0.02)) == []
    unequal = lines(a=full, b=with_unjudged(0.03))
    assert len(unequal) == 1
    assert "from 0.970 (b) to 1.000 (a)" in unequal[0]
    assert lines(b=with_unjudged(0.05)) == []
    low = lines(b=with_unjudged(0.055))
    assert len(low) == 1
    assert "under 0.95 for b 0.945" in low[0]
    found = compare({"a": full, "fewer": full[full["qid"] != "q03"]}, gains)
    assert any("ranks nothing, or only excluded documents, score 0: fewer (1 query)" in line for line in found.warnings)
    assert not any("ranks nothing" in line for line in compare({"a": full}, gains).warnings)


def test_queries_that_nothing_answers() -> None:
    gains = toy.suite(queries=20, documents=8)
    least = float(gain(-2.0, toy.GAMMA, toy.BETA))
    rows = gains.documents
    low = rows["qid"].isin(["q03", "q07"])
    rows.loc[low, "theta"] = np.minimum(rows.loc[low, "theta"], -2.0 - 1e-6)
    at = rows["qid"] == "q05"
    rows.loc[at, "theta"] = np.minimum(rows.loc[at, "theta"], -2.0)  # its best is not below
    rows.loc[rows[at].index[0], "theta"] = -2.0
    rows["gain"] = gain(rows["theta"], toy.GAMMA, toy.BETA)
    gains = GainTable(rows, gains.queries, gains.criteria)
    runs = toy.runs(gains)
    found = compare(runs, gains)
    assert found.unanswered["qid"].tolist() == ["q03", "q07"]
    assert (found.unanswered["best_gain"] < least).all()
    of = scores(runs, gains).drop(index=["q03", "q07"])
    for system in runs:
        row = one(found.systems, measure="RCPnDCG", system=system)
        assert row["mean_answered"] == pytest.approx(of[system].mean(), abs=1e-12)
    line = next(line for line in found.warnings if "nothing there may answer" in line)
    assert "2 queries of 20" in line
    best = one(found.systems, measure="RCPnDCG", rank=1)
    assert f"{best['system']} {best['mean']:.3f} ({best['mean_answered']:.3f})" in line
    for shape in ("unweighted", "criterion", "linear", "min-max"):  # by ability, whatever the gain
        assert compare(runs, with_gain(gains, shape)).unanswered["qid"].tolist() == ["q03", "q07"]
    without = GainTable(rows.assign(theta=np.nan), gains.queries, gains.criteria)
    assert compare(runs, without).unanswered["qid"].tolist() == ["q03", "q07"]
    only = gains.exclude(rows.loc[rows["qid"].eq("q01") & (rows["gain"] > least), ["qid", "docno"]])
    assert compare(runs, only).unanswered["qid"].tolist() == ["q01", "q03", "q07"]


def test_fewer_than_twenty_queries() -> None:
    for queries, warned in [(19, True), (20, False)]:
        gains = toy.suite(queries=queries)
        lines = compare(toy.runs(gains), gains).warnings
        assert any("fewer than 20" in line for line in lines) == warned


def test_label_noise_widens_the_intervals_of_rcp_ndcg_alone() -> None:
    plain = toy.suite(queries=40)
    gains = toy.with_columns(plain, gain_se=0.15 * np.sqrt(plain.documents["gain"]))
    runs = toy.runs(gains, (0.5, 1.0))
    without, found = compare(runs, gains), compare(runs, gains, label_noise=True)
    for name in ("systems", "pairs"):
        before, after = getattr(without, name), getattr(found, name)
        rcp = after["measure"] == "RCPnDCG"
        assert after.loc[rcp, "interval"].eq("judge noise and query sample").all()
        assert after.loc[~rcp, "interval"].eq("query sample").all()
        assert before.loc[~rcp, ["low", "high"]].equals(after.loc[~rcp, ["low", "high"]])
        half = (before["high"] - before["low"])[rcp] / (2 * 1.96)
        wider = (after["high"] - after["low"])[rcp] / (2 * 1.96)
        np.testing.assert_allclose(wider**2, half**2 + after.loc[rcp, "noise_se"] ** 2, rtol=0.1)
        assert (wider > 1.05 * half).all()
        assert after.loc[~rcp, "noise_se"].isna().all()
        if name == "pairs":
            assert before["p"].equals(after["p"])
    assert "noise_se" not in without.systems
    assert "of RCPnDCG: judge noise and query sample" in str(found)
    nothing = compare(runs, toy.with_columns(plain, gain_se=0.0), label_noise=True)
    np.testing.assert_allclose(nothing.systems[["low", "high"]], without.systems[["low", "high"]], rtol=1e-12)
    with pytest.raises(RCPError, match="which it has not: calibrate the log again"):
        compare(runs, plain, label_noise=True)


def test_label_noise_is_of_the_queries_that_are_scored() -> None:
    gains = toy.with_columns(toy.suite(queries=30), gain_se=0.05)
    runs, labels = toy.runs(gains, (1.0,)), toy.labels(gains)
    half = labels[labels["qid"] < "q15"]
    kept = gains.documents[gains.documents["qid"] < "q15"]
    fewer = GainTable(kept, gains.queries[gains.queries["qid"] < "q15"], gains.criteria)
    with pytest.warns(UserWarning, match="15 queries have gains and no label"):
        found = compare(runs, gains, half, label_noise=True)
    expected = compare(runs, fewer, half, label_noise=True)
    assert found.systems["noise_se"].dropna().tolist() == pytest.approx(expected.systems["noise_se"].dropna().tolist())


def test_one_system_has_means_and_no_pairs() -> None:
    gains = toy.suite()
    found = compare(toy.runs(gains, (1.0,)), gains, families={"s0": "A"})
    assert len(found.pairs) == 0
    assert found.resolution["resolution"].isna().all()
    assert found.systems["mean"].notna().all()
    assert "1 system on 30 queries" in str(found)


def test_what_is_refused() -> None:
    gains = toy.suite(queries=3)
    runs = toy.runs(gains, (1.0, 2.0))
    with pytest.raises(RCPError, match="no family's name for 's1'"):
        compare(runs, gains, families={"s0": "A"})
    with pytest.raises(RCPError, match="no family's name for 's0', 's1'"):
        compare(runs, gains, families=lambda name: "")
    with pytest.raises(RCPError, match="no column 'question' to cluster by"):
        compare(runs, gains, cluster="question")
    with pytest.raises(RCPError, match=r"cluster names none for query \('', 'q01'\)"):
        compare(runs, gains, cluster={"q00": 1, "q02": 1})
    with pytest.raises(RCPError, match="ties='mean'"):
        compare(runs, toy.with_columns(gains, gain_se=0.1), label_noise=True, ties="mean")
    with pytest.raises(RCPError, match="mapping of a system's name"):
        compare({}, gains)
    with pytest.raises(RCPError, match="two runs are called '1'"):
        compare({1: runs["s0"], "1": runs["s1"]}, gains)
    with pytest.raises(RCPError, match="k is a whole number of ranks, not None"):
        compare(runs, gains, k=None)
    for table in ("gains", gains.documents, None):
        for call in (compare, lambda *of: explain("q00", *of)):
            with pytest.raises(RCPError, match="gains must be a GainTable, not"):
                call(runs, table)
        with pytest.raises(RCPError, match="gains must be a GainTable, not"):
            disputed(table, toy.labels(gains))
    with pytest.raises(RCPError, match="has no document"):
        compare(runs, GainTable(gains.documents.iloc[:0], gains.queries.iloc[:0], gains.criteria))
    for wrong in (["q00"], 3):
        with pytest.raises(RCPError, match=r"cluster is a column of gains\.queries, or maps"):
            compare(runs, gains, cluster=wrong)
    with pytest.raises(RCPError, match="cluster names groups by texts or numbers, not"):
        compare(runs, gains, cluster={"q00": [1], "q01": [1], "q02": [2]})
    for families in ("a", ["a", "b"]):
        with pytest.raises(RCPError, match="families maps a system to its family"):
            compare(runs, gains, families=families)
    for seed in (-1, None, 0.5):
        with pytest.raises(RCPError, match="seed is a whole number from 0 up"):
            compare(runs, gains, seed=seed)


def test_the_demo_fits_a_screen() -> None:
    found = compare(demo.runs(), demo.gains(), demo.qrels())
    text = str(found)
    assert repr(found) == text
    assert text.count("\n") < 40
    assert max(map(len, text.splitlines())) <= 130
    assert "not validity" in text
    assert text.splitlines()[0] == "3 systems on 10 queries, @10"
