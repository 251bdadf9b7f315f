"""The alternative gains of Section E.5 as tables: formulas, what stays, what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import expit

from rcp_irx import GainTable, RCPError, RCPnDCG
from rcp_irx.analysis.gain_shapes import SHAPES, with_gain
from rcp_irx.evaluation import ndcg
from tests.analysis.simulated_suites import runs, suite, table

pytestmark = pytest.mark.quick


@pytest.fixture(scope="module")
def gains():
    return table(suite(8, 20), datasets=2)


def parts(gains):
    theta, criteria = gains.documents["theta"].to_numpy(), gains.criteria
    gamma, beta = criteria["gamma"].to_numpy(), criteria["beta"].to_numpy()
    return theta, gamma, beta, expit(gamma * (theta[:, None] - beta))


def test_shapes_by_their_formulas(gains):
    theta, gamma, beta, p = parts(gains)
    pools = gains.documents.groupby(["dataset", "qid"])["theta"]
    least, largest = pools.transform("min"), pools.transform("max")
    expected = {
        "paper": p @ gamma / gamma.sum(),
        "unweighted": p.mean(axis=1),
        "logistic": expit(theta),
        "criterion": p[:, 3],  # C4
        "linear": np.clip((theta - beta[0]) / (beta[4] - beta[0]), 0, 1),
        "min-max": ((theta - least) / (largest - least)).to_numpy(),
    }
    assert set(expected) == set(SHAPES)
    for shape, values in expected.items():
        np.testing.assert_allclose(with_gain(gains, shape).documents["gain"], values, atol=1e-12, err_msg=shape)


def test_options(gains):
    theta, _, _, p = parts(gains)
    np.testing.assert_allclose(with_gain(gains, "criterion", criterion="C2").documents["gain"], p[:, 1], atol=1e-12)
    line = with_gain(gains, "linear", low=-4, high=2).documents["gain"]
    np.testing.assert_allclose(line, np.clip((theta + 4) / 6, 0, 1), atol=1e-12)


def test_every_measure_reads_the_other_gain_and_prints_it(gains):
    other = with_gain(gains, "logistic")
    run = runs(gains)["noise 1.0"]
    by_frame = ndcg(run, other.documents[["dataset", "qid", "docno", "gain"]], 5)
    assert ndcg(run, other, 5).tolist() == by_frame.tolist()
    assert by_frame.tolist() != ndcg(run, gains, 5).tolist()
    assert other.fit_id == gains.fit_id
    assert other.label == gains.label + "-logistic"
    assert "-logistic" in str(RCPnDCG(gains=other) @ 5)
    assert with_gain(gains, "criterion", criterion="C2").label.endswith("-only:C2")


def test_the_same_shape_is_the_same_table_but_for_its_name(gains):
    again = with_gain(gains, "paper")
    assert again.documents.equals(gains.documents)
    assert again.queries.equals(gains.queries)


def test_exclusions_labels_and_other_columns_stay_and_standard_errors_of_another_gain_go(gains):
    first = gains.documents.head(2)[["dataset", "qid", "docno"]]
    labels = first.assign(label=1)
    full = GainTable(
        gains.documents.assign(gain_se=0.1, theta_se=0.2), gains.queries, gains.criteria, {"name": "mine"},
        human_labels=labels,
    ).exclude(first.assign(docno=["outside", first["docno"].iloc[1]]))  # fmt: skip
    other = with_gain(full, "unweighted")
    assert other.scored["excluded"].tolist() == full.scored["excluded"].tolist()
    assert other.scored["docno"].tolist()[-1] == "outside"
    assert other.human_labels.equals(full.human_labels)
    assert "gain_se" not in other.documents
    assert (other.documents["theta_se"] == 0.2).all()
    assert other.label == full.label + "-unweighted"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda g: with_gain(g, "cubic"), "shape is one of .*min-max.* not 'cubic'"),
        (lambda g: with_gain(g, "criterion", criterion="C9"), "no criterion 'C9'; there are 'C1'"),
        (lambda g: with_gain(g, "linear", criterion="C1"), "belongs to shape 'criterion'"),
        (lambda g: with_gain(g, "logistic", low=0), "belong to shape 'linear'"),
        (lambda g: with_gain(g, "linear", low=2, high=1), "low must be below high"),
        (lambda g: with_gain(table(suite(2, 5, gamma=[1.0], beta=[0.0]), ids=("C1",)), "linear"), "low must be below"),
        (
            lambda g: with_gain(GainTable(g.documents.assign(theta=np.nan), g.queries, g.criteria, {}), "logistic"),
            "were not released",
        ),
    ],
)
def test_what_is_no_gain_is_refused(gains, call, message):
    with pytest.raises(RCPError, match=message):
        call(gains)
