"""Real runs and real labels: TREC Deep Learning 2019 against trec_eval and gdeval, and trec_eval's own test files."""

from __future__ import annotations

import ast
import functools
import gzip
import json
import shutil
import warnings
from pathlib import Path

import ir_measures
import numpy as np
import pandas as pd
import pytest
from ir_measures import ERR, RR, Judged, P, R, Success, nDCG

from rcp_irx import RCPERR, CountnDCG, RCPBest, RCPError, RCPGain, RCPJudged, RCPnDCG, RCPRecall, RCPWarning
from rcp_irx.calibration import TwoPLFit, centre, count_gain, fit_2pl, gain
from rcp_irx.evaluation import ndcg
from tests.conftest import data_folder

# Of coverage: some of these runs rank documents that nobody judged.
pytestmark = [pytest.mark.quick, pytest.mark.filterwarnings("ignore:.*has a gain:rcp_irx.RCPWarning")]

NDCG_OF_RUN = {  # nDCG@10 on NIST's labels, ties by descending docno
    "BM25": 0.5058,
    "BM25_RM3": 0.5216,
    "SPLADE_P_P_ENSEMBLE_DISTIL": 0.7308,
    "D_BERT_KD_TASB": 0.7210,
    "OPEN_AI_ADA2": 0.7035,
    "REP_LLAMA": 0.7384,
}
RUNS = list(NDCG_OF_RUN)
RUNS_WITHOUT_TIES = ["BM25", "BM25_RM3", "OPEN_AI_ADA2"]
LLMS = ["dl2019_test_4prompts_flant5large", "dl2019_test_4prompts_llama70b", "4_prompts_dl2019"]


def lines_of(path: Path) -> list[list[str]]:
    """The fields of each line that is not blank."""
    content = gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes()
    return [line.split() for line in content.decode().splitlines() if line.strip()]


def run_from(path: Path) -> pd.DataFrame:
    rows = [(fields[0], fields[2], float(fields[4])) for fields in lines_of(path)]
    return pd.DataFrame(rows, columns=["query_id", "doc_id", "score"])


def labels_from(path: Path) -> pd.DataFrame:
    rows = [(query, docno, int(label)) for query, _, docno, label in lines_of(path)]
    return pd.DataFrame(rows, columns=["query_id", "doc_id", "relevance"])


@functools.cache
def dl19_run(name: str) -> pd.DataFrame:
    return run_from(data_folder("dl19") / "runs" / f"dl19.{name}.txt.gz")


@functools.cache
def nist_labels() -> pd.DataFrame:
    return labels_from(data_folder("dl19") / "qrels.dl19-passage.txt")


def with_gain(labels: pd.DataFrame, gains: pd.Series) -> pd.DataFrame:
    return labels.assign(gain=gains.astype(float))


def per_query(measure: ir_measures.Measure, qrels: pd.DataFrame, run: pd.DataFrame) -> pd.Series:
    """The measure's value of every query, through ir_measures."""
    found = {metric.query_id: metric.value for metric in measure.iter_calc(qrels, run)}
    return pd.Series(found, dtype=float).sort_index()


def assert_same_queries_and_values(ours: pd.Series, theirs: pd.Series, atol: float = 1e-12) -> None:
    assert list(ours.index) == list(theirs.index)
    np.testing.assert_allclose(ours, theirs, rtol=0, atol=atol)


@pytest.mark.parametrize("name", RUNS)
def test_labels_as_gains_give_the_published_value_and_that_of_trec_eval(name: str) -> None:
    labels = nist_labels()
    ours = ndcg(dl19_run(name), with_gain(labels, labels["relevance"]))
    assert len(ours) == 43
    assert round(ours.mean(), 4) == NDCG_OF_RUN[name]
    assert_same_queries_and_values(ours, per_query(nDCG @ 10, labels, dl19_run(name)))


@pytest.mark.parametrize("name", RUNS)
def test_which_runs_have_ties(name: str) -> None:
    tied = dl19_run(name).duplicated(["query_id", "score"], keep=False).sum()
    assert tied == {"SPLADE_P_P_ENSEMBLE_DISTIL": 34, "D_BERT_KD_TASB": 12, "REP_LLAMA": 42_360}.get(name, 0)
    assert (tied == 0) == (name in RUNS_WITHOUT_TIES)


def gains_in_pool_order() -> pd.DataFrame:
    """NIST's labels as gains; BM25's ranks stand in for a pool's order, also of documents that NIST has not judged."""
    pool = dl19_run("BM25").copy()
    pool["pool_rank"] = pool.groupby("query_id")["score"].rank(ascending=False)
    gains = nist_labels().rename(columns={"relevance": "gain"})
    return gains.merge(pool[["query_id", "doc_id", "pool_rank"]], how="outer", on=["query_id", "doc_id"])


@pytest.mark.parametrize(
    ("ties", "by", "value"),
    [
        ("docno", ["score", "doc_id"], 0.738440),
        ("order", ["score"], 0.743898),
        ("pool", ["score", "place_in_pool", "doc_id"], 0.741411),
    ],
)
def test_repllama_under_tie_rules_that_order_documents(ties: str, by: list[str], value: float) -> None:
    gains, run = gains_in_pool_order(), dl19_run("REP_LLAMA")
    ours = ndcg(run, gains, ties=ties)
    assert ours.mean() == pytest.approx(value, abs=5e-7)
    rows = run.merge(gains, how="left", on=["query_id", "doc_id"])
    rows["place_in_pool"] = -rows["pool_rank"].fillna(np.inf)  # the first place is the largest number
    untied = best_first(rows, by).assign(score=-np.arange(len(rows)))
    assert_same_queries_and_values(ours, per_query(nDCG @ 10, nist_labels(), untied))


def test_repllama_under_the_means_of_tie_groups() -> None:
    gains, run = gains_in_pool_order(), dl19_run("REP_LLAMA")
    ours = ndcg(run, gains, ties="mean")
    assert ours.mean() == pytest.approx(0.741934, abs=5e-7)
    rows = run.merge(gains, how="left", on=["query_id", "doc_id"]).fillna({"gain": 0.0})
    rows["gain"] = rows.groupby(["query_id", "score"])["gain"].transform("mean")
    assert_same_queries_and_values(ours, dcg_at_10(rows, ["score"]) / dcg_at_10(gains.dropna(subset="gain"), ["gain"]))


def best_first(rows: pd.DataFrame, by: list[str]) -> pd.DataFrame:
    """Rows sorted by the first column, then the next, each descending; what is equal in all stays in its order."""
    for column in reversed(by):
        rows = rows.sort_values(column, ascending=False, kind="stable")
    return rows


def dcg_at_10(rows: pd.DataFrame, by: list[str]) -> pd.Series:
    top = best_first(rows, by).groupby("query_id").head(10)
    discounted = top["gain"] / np.log2(top.groupby("query_id").cumcount() + 2)
    return discounted.groupby(top["query_id"]).sum()


CUTOFFS = [5, 10, 15, 20, 30, 100, 200, 500, 1000, None]


@pytest.mark.parametrize(
    ("expected", "results", "qrels", "queries"),
    [
        ("out.test.a", "results.test", "qrels.test", ["all"]),
        ("out.test.aq", "results.test", "qrels.test", ["301", "302", "303", "all"]),
        ("out.test.aqc", "results.trunc", "qrels.test", ["301", "302", "303", "all"]),  # the run misses 302
        ("out.test.aql", "results.test", "qrels.rel_level", ["301", "302", "303", "all"]),  # labels from -1 to 4
    ],
)
def test_expected_output_of_trec_eval(expected: str, results: str, qrels: str, queries: list[str]) -> None:
    folder = data_folder("trec_eval")
    printed = {}
    for measure, query, value in lines_of(folder / expected):
        if measure == "ndcg" or measure.startswith("ndcg_cut_"):
            printed[query, None if measure == "ndcg" else int(measure.removeprefix("ndcg_cut_"))] = value
    run, labels = run_from(folder / results), labels_from(folder / qrels)
    gains = with_gain(labels, labels["relevance"].where(labels["relevance"] >= 0))  # below 0: as good as not judged
    ours = {}
    for cutoff in CUTOFFS:
        values = ndcg(run, gains, cutoff)
        ours |= {(query, cutoff): f"{value:.4f}" for query, value in {**values, "all": values.mean()}.items()}
    assert printed == {key: value for key, value in ours.items() if key[0] in queries}


def test_labels_below_zero_are_refused_as_gains() -> None:
    labels = labels_from(data_folder("trec_eval") / "qrels.rel_level")
    with pytest.raises(RCPError, match=r"gains must be finite and >= 0.*\('303', 'CR93E-10279', -1.0\)"):
        ndcg(run_from(data_folder("trec_eval") / "results.test"), with_gain(labels, labels["relevance"]))


def test_expected_output_of_trec_eval_depends_on_no_single_precision() -> None:
    folder = data_folder("trec_eval")
    labels = labels_from(folder / "qrels.test")
    gains = with_gain(labels, labels["relevance"])
    for results in ("results.test", "results.trunc"):
        run = run_from(folder / results)
        single = run.assign(score=run["score"].astype(np.float32))  # as trec_eval keeps scores
        for cutoff in CUTOFFS:
            pd.testing.assert_series_equal(ndcg(run, gains, cutoff), ndcg(single, gains, cutoff), check_exact=True)


@functools.cache
def grades(llm: str) -> pd.DataFrame:
    """An LLM's grades, 0 to 3, of four criteria for each document that NIST labelled, in that order; NaN: none."""
    with gzip.open(data_folder("dl19") / f"criteria.{llm}.json.gz", "rt") as file:
        given = json.load(file)
    rows = {(str(query), docno): given[key] for key in given for query, docno in [ast.literal_eval(key)]}
    found = pd.DataFrame(list(rows.values()), index=pd.MultiIndex.from_tuples(rows), dtype=float)
    return found.reindex(pd.MultiIndex.from_frame(nist_labels()[["query_id", "doc_id"]]))


@functools.cache
def calibrated(llm: str) -> tuple[TwoPLFit, pd.DataFrame]:
    """The fit to one LLM's answers, a grade of 2 or more being a pass, and NIST's labels with its gains as columns."""
    labels = nist_labels()
    answers = grades(llm)
    passes, placements = (answers >= 2).to_numpy(), answers.notna().to_numpy()  # a criterion without grade: not asked
    queries = pd.factorize(labels["query_id"])[0]
    # There was no tournament: the mean grade that the two other LLMs give stands in for the Bradley-Terry scores.
    others = pd.concat([grades(other) for other in LLMS if other != llm], axis=1).mean(axis=1)
    fit = fit_2pl(centre(others, queries), passes, placements, queries)
    gains = pd.DataFrame(
        {
            "qid": labels["query_id"],
            "docno": labels["doc_id"],
            "gain": gain(fit.theta, fit.gamma, fit.beta),
            "count_gain": count_gain(passes, placements),
        }
    )
    renamed = gains.rename(columns={"qid": "query_id", "docno": "doc_id"})
    return fit, labels.merge(renamed, on=["query_id", "doc_id"], validate="one_to_one")


@pytest.mark.parametrize(("llm", "without_grade"), list(zip(LLMS, [10, 2, 0], strict=True)))
def test_fit_to_real_grades_converges(llm: str, without_grade: int) -> None:
    assert grades(llm).shape == (9260, 4)
    assert grades(llm).isna().sum().sum() == without_grade
    fit, qrels = calibrated(llm)
    assert fit.converged
    assert fit.gradient_norm < 1e-9
    assert len(qrels) == 9260
    assert qrels["gain"].between(0, 1, inclusive="neither").all()
    assert qrels["count_gain"].between(0, 1).all()


@pytest.mark.parametrize(
    ("name", "rcp_ndcg", "count_ndcg", "rcp_judged", "rcp_gain"),
    [
        ("BM25", 0.7204, 0.7191, 1.0, 0.6597),
        ("BM25_RM3", 0.7240, 0.7257, 0.9884, 0.6693),
        ("SPLADE_P_P_ENSEMBLE_DISTIL", 0.8715, 0.8762, 0.9256, 0.7826),
        ("D_BERT_KD_TASB", 0.8504, 0.8642, 0.9023, 0.7628),
        ("OPEN_AI_ADA2", 0.8382, 0.8553, 0.9140, 0.7683),
        ("REP_LLAMA", 0.8700, 0.8820, 0.9186, 0.7755),
    ],
)
def test_values_of_real_runs_on_calibrated_gains(
    name: str, rcp_ndcg: float, count_ndcg: float, rcp_judged: float, rcp_gain: float
) -> None:
    _, qrels = calibrated("dl2019_test_4prompts_llama70b")
    expected = {
        RCPnDCG @ 10: rcp_ndcg,
        CountnDCG @ 10: count_ndcg,
        RCPJudged @ 10: rcp_judged,
        RCPGain @ 10: rcp_gain,
    }
    assert ir_measures.calc_aggregate(list(expected), qrels, dl19_run(name)) == pytest.approx(expected, abs=5e-5)


@pytest.mark.parametrize("llm", LLMS)
@pytest.mark.parametrize("name", RUNS)
def test_measures_agree_with_the_kernel_on_calibrated_gains(name: str, llm: str) -> None:
    run, (_, qrels) = dl19_run(name), calibrated(llm)
    top = best_first(run, ["score", "doc_id"]).groupby("query_id").head(10)
    top = top.merge(qrels, how="left", on=["query_id", "doc_id"])
    expected = {
        RCPnDCG @ 10: ndcg(run, qrels[["query_id", "doc_id", "gain"]]),
        CountnDCG @ 10: ndcg(run, qrels[["query_id", "doc_id"]].assign(gain=qrels["count_gain"])),
        RCPJudged @ 10: top["gain"].notna().groupby(top["query_id"]).mean(),
        RCPGain @ 10: top["gain"].fillna(0.0).groupby(top["query_id"]).sum() / 10,
    }
    for measure, values in expected.items():
        ours = per_query(measure, qrels, run)
        assert ours.between(0, 1).all()
        assert_same_queries_and_values(ours, values)


def test_coverage_of_real_runs_is_told() -> None:
    _, qrels = calibrated("dl2019_test_4prompts_llama70b")
    with warnings.catch_warnings():
        warnings.simplefilter("error", RCPWarning)
        assert (RCPJudged @ 10).calc_aggregate(qrels, dl19_run("BM25")) == 1.0
        (RCPnDCG @ 10).calc_aggregate(qrels, dl19_run("BM25"))
    with pytest.warns(RCPWarning, match=r"90\.2% of the top 10 has a gain \(43 queries\)"):
        (RCPnDCG @ 10).calc_aggregate(qrels, dl19_run("D_BERT_KD_TASB"))


def binary_qrels() -> pd.DataFrame:
    """NIST's labels of 2 and 3 as gain 1 and as relevance 1, the rest as 0."""
    relevant = nist_labels()["relevance"] >= 2
    return with_gain(nist_labels().assign(relevance=relevant.astype(int)), relevant)


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [
        (RCPGain @ 10, P @ 10),
        (RCPGain @ 100, P @ 100),
        (RCPRecall @ 10, R @ 10),
        (RCPRecall @ 100, R @ 100),
        (RCPBest @ 10, Success @ 10),
        (RCPERR, RR),
        (RCPnDCG @ 10, nDCG @ 10),
        (RCPnDCG(judged_only=True) @ 10, nDCG(judged_only=True) @ 10),
    ],
    ids=str,
)
@pytest.mark.parametrize("name", RUNS)
def test_gains_of_zero_and_one_give_the_values_of_trec_eval(
    name: str, ours: ir_measures.Measure, theirs: ir_measures.Measure
) -> None:
    qrels, run = binary_qrels(), dl19_run(name)
    assert_same_queries_and_values(per_query(ours, qrels, run), per_query(theirs, qrels, run))


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [(RCPGain @ 10, P(rel=2) @ 10), (RCPBest @ 10, Success(rel=2) @ 10), (RCPERR, RR(rel=2))],
    ids=str,
)
@pytest.mark.parametrize("name", RUNS)
def test_gains_beside_graded_labels(name: str, ours: ir_measures.Measure, theirs: ir_measures.Measure) -> None:
    qrels, run = with_gain(nist_labels(), nist_labels()["relevance"] >= 2), dl19_run(name)
    assert_same_queries_and_values(per_query(ours, qrels, run), per_query(theirs, qrels, run))


@pytest.mark.parametrize(("ours", "theirs"), [(RCPJudged @ 10, Judged @ 10), (RCPERR @ 10, RR @ 10)], ids=str)
@pytest.mark.parametrize("name", RUNS_WITHOUT_TIES)  # these two of ir_measures order ties by ascending docno
def test_measures_that_ir_measures_computes_itself(
    name: str, ours: ir_measures.Measure, theirs: ir_measures.Measure
) -> None:
    qrels, run = binary_qrels(), dl19_run(name)
    assert_same_queries_and_values(per_query(ours, qrels, run), per_query(theirs, qrels, run))


@pytest.mark.parametrize("name", RUNS)
def test_graded_gains_on_condensed_lists(name: str) -> None:
    labels, run = nist_labels(), dl19_run(name)
    ours = per_query(RCPnDCG(judged_only=True) @ 10, with_gain(labels, labels["relevance"] / 3), run)
    assert_same_queries_and_values(ours, per_query(nDCG(judged_only=True) @ 10, labels, run))


@pytest.mark.skipif(shutil.which("perl") is None, reason="ir_measures computes ERR by gdeval.pl, which needs perl")
@pytest.mark.parametrize("name", RUNS)
def test_expected_reciprocal_rank_of_gdeval(name: str) -> None:
    labels, run = nist_labels(), dl19_run(name)
    stops = (2 ** labels["relevance"] - 1) / 16  # gdeval's chance that a reader stops, for labels up to 4
    ours = per_query(RCPERR @ 10, with_gain(labels, stops), run)
    assert_same_queries_and_values(ours, per_query(ERR @ 10, labels, run), atol=1e-5)  # it prints five decimals
