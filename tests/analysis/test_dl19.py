"""Real runs, labels and gains of TREC Deep Learning 2019: the numbers of scipy, statsmodels and ir_measures."""

from __future__ import annotations

import ir_measures
import numpy as np
import pandas as pd
import pytest
from ir_measures import nDCG
from scipy import stats

from rcp_irx import CountnDCG, RCPnDCG
from rcp_irx.analysis import compare, disputed, explain, failure_modes
from rcp_irx.analysis.comparing import Comparison
from rcp_irx.trec import read_run
from tests.analysis import dl19

# Of coverage: some of these runs rank documents that nobody judged.
pytestmark = pytest.mark.filterwarnings("ignore:.*(has|that has) a gain:rcp_irx.RCPWarning")

LABELS = {"BM25": 0.5058, "BM25_RM3": 0.5216, "SPLADE": 0.7308, "TAS-B": 0.7210, "ada-2": 0.7035, "REP_LLAMA": 0.7384}
MEASURES = {"RCPnDCG": RCPnDCG @ 10, "CountnDCG": CountnDCG @ 10, "nDCG": nDCG @ 10}


@pytest.fixture(scope="module")
def compared() -> Comparison:
    return compare(dl19.paths(), dl19.table(), dl19.nist())


@pytest.fixture(scope="module")
def scores() -> dict[str, pd.DataFrame]:
    """Each system's scores by query, as ir_measures gives them."""
    qrels = dl19.table().qrels(dl19.nist()).rename(columns={"qid": "query_id", "docno": "doc_id", "label": "relevance"})
    found: dict[str, dict[str, dict[str, float]]] = {name: {} for name in MEASURES}
    for system, path in dl19.paths().items():
        run = read_run(path).rename(columns={"qid": "query_id", "docno": "doc_id"})
        for metric in ir_measures.iter_calc(list(MEASURES.values()), qrels, run):
            name = str(metric.measure).split("@")[0]
            found[name].setdefault(system, {})[metric.query_id] = metric.value
    return {name: pd.DataFrame(by_system).sort_index() for name, by_system in found.items()}


@pytest.mark.quick
def test_means_are_the_published_ones(compared: Comparison) -> None:
    rows = compared.systems.set_index(["measure", "system"])["mean"]
    assert rows["nDCG"].round(4).to_dict() == LABELS
    assert rows["RCPnDCG"].round(4).to_dict() == {
        "BM25": 0.7204,
        "BM25_RM3": 0.7240,
        "SPLADE": 0.8715,
        "TAS-B": 0.8504,
        "ada-2": 0.8382,
        "REP_LLAMA": 0.8700,
    }


@pytest.mark.quick
def test_pairs_are_those_of_scipy(compared: Comparison, scores: dict[str, pd.DataFrame]) -> None:
    assert len(compared.pairs) == 45
    for row in compared.pairs.itertuples():
        a, b = (scores[row.measure][system] for system in (row.system_a, row.system_b))
        assert row.n == len(a) == 43
        theirs = stats.ttest_rel(a, b)
        assert row.t == pytest.approx(theirs.statistic, rel=1e-8)
        assert row.p == pytest.approx(theirs.pvalue, rel=1e-8)
        drawn = stats.bootstrap((a - b,), np.mean, n_resamples=2000, method="percentile", random_state=5)
        ends = drawn.confidence_interval
        np.testing.assert_allclose([row.low, row.high], ends, atol=0.25 * drawn.standard_error)


def test_corrections_and_power_are_those_of_statsmodels(compared: Comparison, scores: dict[str, pd.DataFrame]) -> None:
    multitest = pytest.importorskip("statsmodels.stats.multitest", reason="statsmodels is not installed")
    power = pytest.importorskip("statsmodels.stats.power", reason="statsmodels is not installed").TTestPower()
    for measure, rows in compared.pairs.groupby("measure"):
        expected = multitest.multipletests(rows["p"], method="holm")[1]
        np.testing.assert_allclose(rows["p_holm"], expected, rtol=1e-10)
        row = rows.iloc[3]
        spread = (scores[str(measure)][row["system_a"]] - scores[str(measure)][row["system_b"]]).std()
        found = power.power(row["detectable"] / spread, nobs=43, alpha=0.05)
        assert found == pytest.approx(0.8, abs=1e-4)


@pytest.mark.quick
def test_rcp_ndcg_sides_with_nist_on_every_pair_that_nist_separates(compared: Comparison) -> None:
    rows = compared.agreement.set_index(["measure", "reference"]).loc[("RCPnDCG", "nDCG")]
    assert rows[["reference_separated", "same_winner", "separated_alike", "separated_opposite"]].tolist() == [
        8,
        8,
        8,
        0,
    ]
    means = compared.systems.pivot(index="system", columns="measure", values="mean")
    assert rows["kendall_tau"] == pytest.approx(stats.kendalltau(means["RCPnDCG"], means["nDCG"])[0])
    assert compared.resolution.set_index("measure")["separated"].to_dict() == {"RCPnDCG": 8, "CountnDCG": 8, "nDCG": 8}


@pytest.mark.quick
def test_coverage_is_told(compared: Comparison) -> None:
    shares = compared.systems[compared.systems["measure"] == "nDCG"].set_index("system")["coverage"]
    assert shares.round(4)[["BM25", "TAS-B", "SPLADE"]].tolist() == [1.0, 0.9023, 0.9256]
    assert [line for line in compared.warnings if "under 0.95" in line]
    assert [line for line in compared.warnings if "unequal, from 0.902 (TAS-B) to 1.000 (BM25)" in line]
    assert compared.unanswered.empty


@pytest.mark.quick
def test_graded_labels_rarely_fail(scores: dict[str, pd.DataFrame]) -> None:
    found = failure_modes(dl19.paths(), dl19.nist())
    of = scores["nDCG"]
    gaps = [(of[a] - of[b]).abs() <= 1e-6 for i, a in enumerate(of) for b in list(of)[i + 1 :]]
    tied = np.mean(gaps, axis=0)
    assert found.queries["tied"].tolist() == pytest.approx(tied.tolist())
    assert (found.queries["mode"] != "").sum() == np.sum(tied >= 0.5) == 1
    assert found.warnings == []


@pytest.mark.quick
def test_explanations_add_up(scores: dict[str, pd.DataFrame]) -> None:
    for qid in ["19335", "1112341"]:
        found = explain(qid, dl19.paths(), dl19.table(), systems=("BM25", "REP_LLAMA"), qrels=dl19.nist())
        expected = scores["RCPnDCG"].loc[qid, ["BM25", "REP_LLAMA"]].tolist()
        assert found.scores == pytest.approx(expected, abs=1e-12)
        assert found.documents["difference"].sum() == pytest.approx(expected[0] - expected[1], abs=1e-12)


@pytest.mark.quick
def test_a_quarter_of_nists_positives_is_disputed() -> None:
    found = disputed(dl19.table(), dl19.nist(), positive=2)
    positives = dl19.nist().query("label >= 2")
    assert len(positives) == 2501
    ties_at_the_quartile = len(found.positives) - len(positives) / 4
    assert 0 <= ties_at_the_quartile < 20
    assert found.unlabelled.empty
    assert len(found.negatives) == 9260 - 2501
