"""Criteria on queries they were not fitted on, and parts of a rubric: against refits by hand, signs that appear."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from rcp_irx import GainTable, RCPError
from rcp_irx.analysis import transferring
from rcp_irx.analysis.diagnosis import diagnose
from rcp_irx.analysis.transferring import rubric_subsets, transfer
from rcp_irx.calibration import fit_2pl
from rcp_irx.demo import results as demo
from tests.analysis.simulated_suites import BETA, GAMMA, IDS, dl19, suite, table

quick = pytest.mark.quick


def entropy_by_hand(p, passes, n):
    """The mean binary cross-entropy of an answer."""
    loss = -(passes * np.log(p) + (n[:, None] - passes) * np.log(1 - p))
    return loss.sum() / (n.sum() * passes.shape[1])


@quick
def test_each_dataset_in_turn_by_hand():
    made = suite(30, 40)
    found = transfer(table(made, datasets=3))
    assert found.groups["group"].tolist() == ["d0", "d1", "d2"]
    for name, row in found.groups.set_index("group").iterrows():
        held = made.query % 3 == int(name[1])
        train, test = np.flatnonzero(~held), np.flatnonzero(held)
        codes = np.unique(made.query[train], return_inverse=True)[1]
        learned = fit_2pl(made.bt[train], made.passes[train], made.n[train], codes)
        codes = np.unique(made.query[test], return_inverse=True)[1]
        passes, n = made.passes[test], made.n[test]
        for column, gamma in [("bce", learned.gamma), ("rasch", np.ones(5))]:
            fit = fit_2pl(made.bt[test], passes, n, codes, gamma=gamma, beta=learned.beta)
            p = expit(gamma * (fit.theta[:, None] - learned.beta))
            assert row[column] == pytest.approx(entropy_by_hand(p, passes, n), rel=1e-9), column
        rates = made.passes[train].sum(axis=0) / made.n[train].sum()
        assert row["baseline"] == pytest.approx(entropy_by_hand(np.tile(rates, (len(test), 1)), passes, n), rel=1e-12)
        assert row["reduction"] == pytest.approx(1 - row["bce"] / row["baseline"])
        assert (row["queries"], row["answers"]) == (10, n.sum() * 5)
        ours = found.criteria[found.criteria["group"] == name]
        assert ours["beta"].tolist() == pytest.approx(learned.beta.tolist())
    means = found.groups[["bce", "baseline", "rasch"]].mean()
    assert found.reduction == pytest.approx(1 - means["bce"] / means["baseline"])
    assert found.rasch_increase == pytest.approx(means["rasch"] / means["bce"] - 1)


@quick
@pytest.mark.parametrize("seed", range(3))
def test_criteria_carry_over_where_the_model_holds(seed):
    made = suite(80, 60, seed=seed)
    found = transfer(table(made, datasets=4))
    assert found.warnings == []
    # The truth is not predicted better than by the true probabilities, and nearly as well.
    truth = entropy_by_hand(expit(GAMMA * (made.theta[:, None] - BETA)), made.passes, made.n)
    assert np.average(found.groups["bce"], weights=found.groups["answers"]) == pytest.approx(truth, rel=0.02)
    # Criteria that saw the held-out answers do hardly better.
    assert (found.groups["bce"] / found.groups["bce_all"] < 1.01).all()


@quick
def test_folds_of_one_dataset_are_a_partition_by_the_seed():
    gains = table(suite(23, 30))
    found = transfer(gains)
    assert found.groups["group"].tolist() == [f"fold {i}" for i in range(1, 6)]
    assert sorted(found.groups["queries"]) == [4, 4, 5, 5, 5]
    assert found.groups["answers"].sum() == 23 * 30 * 7 * 5
    pd.testing.assert_frame_equal(found.groups, transfer(gains, seed=42).groups)
    assert not found.groups["bce"].equals(transfer(gains, seed=1).groups["bce"])
    assert len(transfer(table(suite(3, 30))).groups) == 3  # one query each
    assert len(transfer(table(suite(24, 30), datasets=3), folds=2).groups) == 2


@quick
def test_the_order_of_rows_changes_nothing():
    gains = table(suite(12, 20), datasets=2)
    shuffled = GainTable(gains.documents.sample(frac=1, random_state=1), gains.queries, gains.criteria)
    pd.testing.assert_frame_equal(transfer(gains).groups, transfer(shuffled).groups)
    pd.testing.assert_frame_equal(transfer(gains, folds=3).groups, transfer(shuffled, folds=3).groups)


def joined(one, other):
    """Two suites with pass counts of one rubric as a table of two datasets."""
    both = [np.concatenate(parts) for parts in zip(one, other, strict=True)]
    both[3][len(one.query) :] = 2 * other.query + 1
    both[3][: len(one.query)] = 2 * one.query
    return table(type(one)(*both), datasets=2)


@quick
def test_a_dataset_where_the_criteria_mean_something_else():
    other_way = suite(40, 60, gamma=GAMMA[::-1], beta=BETA[::-1], seed=1)
    found = transfer(joined(suite(40, 60), other_way))
    assert (found.groups["bce"] > 1.9 * found.groups["bce_all"]).all()  # 1.01 at most where they mean the same
    (line,) = found.warnings
    assert "criteria may carry over less" in line


@quick
def test_criteria_that_mean_the_opposite_are_worse_than_pass_rates():
    one = suite(40, 60, offset=-1, beta=3 * BETA)
    other = suite(40, 60, offset=-1, gamma=GAMMA[::-1], beta=3 * BETA[::-1], seed=1)
    found = transfer(joined(one, other))
    assert (found.groups["reduction"] < 0).all()
    assert "predict 'd0', 'd1' no better than plain pass rates" in found.warnings[0]
    assert "against pass rates is +" in found.warnings[1]


@quick
def test_answers_that_hold_more_than_the_model():
    def beside(p, n, random):
        return random.binomial(n, expit(np.log(p / (1 - p)) + GAMMA * random.normal(0, 4, p.shape)))

    found = transfer(table(suite(80, 60, answers=beside), datasets=2))
    assert len(found.warnings) == 1
    assert "answers hold more than tournament and criteria explain" in found.warnings[0]


@quick
def test_discriminations_that_do_not_differ():
    found = transfer(table(suite(80, 60, gamma=np.ones(5), seed=4), datasets=4))
    assert abs(found.rasch_increase) < 0.002
    increases = [transfer(table(suite(20, 30, gamma=np.ones(5), seed=seed), datasets=2)) for seed in range(6)]
    told = [any("may not carry over, or hardly differ" in line for line in of.warnings) for of in increases]
    assert told == [of.rasch_increase <= 0 for of in increases]
    assert any(told)


@quick
def test_answers_that_the_pass_rates_of_others_rule_out():
    one, other = suite(20, 30), suite(20, 30, seed=1)
    one.passes[:, 4] = 0
    other.passes[np.arange(0, len(other.bt), 7), 4] = 1
    found = transfer(joined(one, other))
    assert np.isinf(found.groups["baseline"].iloc[1])
    assert "rule out answers of 'd1'" in found.warnings[0]


@quick
def test_a_dataset_without_a_placement_has_no_entropy():
    made = suite(9, 20)
    made.n[made.query % 3 == 2] = 0
    made.passes[made.query % 3 == 2] = 0
    found = transfer(table(made, datasets=3))
    assert found.groups["bce"].isna().tolist() == [False, False, True]
    assert np.isfinite(found.reduction)


def test_real_criteria_carry_over_between_queries():
    gains, _ = dl19()
    found = transfer(gains)
    print("\n" + str(found))
    assert found.reduction == pytest.approx(0.523, abs=5e-4)
    assert (found.groups["bce"] < found.groups["baseline"]).all()


@quick
def test_every_subset_by_hand():
    made = suite(30, 40)
    gains = table(made)
    found = rubric_subsets(gains)
    assert len(found.subsets) == 31
    assert found.subsets["efficiency"].is_monotonic_decreasing
    assert found.subsets["rank"].tolist() == list(range(1, 32))
    by_ids = found.subsets.set_index(found.subsets["criteria"].map(" ".join))["efficiency"]
    for ids in ["C4", "C1 C5", "C2 C3 C4"]:
        columns = [IDS.index(name) for name in ids.split()]
        fit = fit_2pl(made.bt, made.passes[:, columns], made.n, made.query)

        def information(theta, fit=fit):
            p = expit(fit.gamma * (np.asarray(theta)[:, None] - fit.beta))
            return (fit.gamma**2 * p * (1 - p)).sum(axis=1)

        peak = information(np.linspace(fit.beta.min(), fit.beta.max(), 20_001)).max()
        means = [information(np.sort(fit.theta[made.query == q])[-10:]).mean() for q in range(30)]
        assert by_ids[ids] == pytest.approx(np.mean(means) / peak, rel=1e-6), ids
    assert by_ids["C1 C2 C3 C4 C5"] == pytest.approx(diagnose(gains).datasets["efficiency"].item(), rel=1e-6)


@quick
def test_criteria_that_tell_nothing_at_the_top_may_be_dropped():
    # C4 and C5 as easy as C1: with them, the rubric is most precise far below the best documents.
    made = suite(40, 40, beta=[-6, 0, 1, -6.5, -7], offset=-3)
    found = rubric_subsets(table(made))
    assert set(found.subsets["criteria"].iloc[0]) & {"C2", "C3"}
    (line,) = found.warnings
    assert "without " in line
    assert "more precise is not more valid" in line
    full = found.subsets[found.subsets["size"] == 5]
    assert full["efficiency"].item() < found.subsets["efficiency"].iloc[0]


@quick
def test_a_fit_that_did_not_converge_is_told(monkeypatch):
    def stopped(*arguments, **options):
        fit = fit_2pl(*arguments, **options)
        return dataclasses.replace(fit, converged=len(fit.gamma) > 1)

    monkeypatch.setattr(transferring, "fit_2pl", stopped)
    found = rubric_subsets(table(suite(10, 20)), subsets=[["C1", "C2"], ["C3"]])
    assert found.subsets.set_index("size")["converged"].to_dict() == {1: False, 2: True}
    assert found.warnings == ["the fit to 'C3' did not converge: its efficiency is doubtful"]


@quick
def test_named_subsets():
    gains = table(suite(10, 20))
    found = rubric_subsets(gains, subsets=[["C5", "C1"], ("C1", "C5"), ["C3"], "C2"], k=5)
    assert sorted(found.subsets["criteria"]) == [("C1", "C5"), ("C2",), ("C3",)]
    assert found.warnings == []  # the whole rubric is not among them
    assert "C1 C5" in str(found)
    assert found.k == 5


@quick
def test_excluded_documents_are_in_the_fits_and_in_no_top():
    gains = table(suite(10, 30))
    top = gains.documents.sort_values("theta", ascending=False).groupby("qid").head(3)
    without = gains.exclude(top[["qid", "docno"]])
    pd.testing.assert_frame_equal(transfer(gains).groups, transfer(without).groups)
    assert not rubric_subsets(gains).subsets["efficiency"].equals(rubric_subsets(without).subsets["efficiency"])


def test_subsets_of_real_criteria():
    gains, _ = dl19()
    found = rubric_subsets(gains)
    print("\n" + str(found))
    assert len(found.subsets) == 15
    best, full = found.subsets.iloc[0], found.subsets[found.subsets["size"] == 4]
    assert best["criteria"] == ("Exactness",)  # the hardest of the four: the others are met by most of the top 10
    assert (best["efficiency"], full["efficiency"].item()) == pytest.approx((0.459, 0.269), abs=5e-4)
    assert full["efficiency"].item() == pytest.approx(diagnose(gains).datasets["efficiency"].item(), rel=1e-6)
    assert "rank 8 of 15" in found.warnings[0]


@quick
def test_the_demo():
    gains = demo.gains()
    assert "held-out" in str(transfer(gains))
    assert len(str(rubric_subsets(gains)).splitlines()) < 25


@quick
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda gains: transfer(gains, folds=1), "folds is a whole number from 2 up, not 1"),
        (lambda gains: transfer(gains, folds=7), "folds must lie between"),
        (lambda gains: transfer(table(suite(1, 20))), "there is one"),
        (lambda gains: transfer("gains"), "give a GainTable or a JudgmentLog"),
        (lambda gains: rubric_subsets(gains, subsets=[["C1", "C9"]]), r"names criteria of .* not \['C1', 'C9'\]"),
        (lambda gains: rubric_subsets(gains, subsets=[["C1", "C1"]]), "each once"),
        (lambda gains: rubric_subsets(gains, subsets=[[]]), "names criteria"),
        (lambda gains: rubric_subsets(gains, subsets=[]), "holds no subset"),
        (lambda gains: rubric_subsets(gains, k=0), "whole number >= 1"),
        (lambda gains: rubric_subsets(gains, k=None), "not None"),
    ],
)
def test_what_cannot_be_fitted_is_refused(call, message):
    with pytest.raises(RCPError, match=message):
        call(table(suite(6, 15)))


@quick
@pytest.mark.parametrize(("column", "what"), [("bt", "tournament scores"), ("n", "placements"), ("C3", "pass counts")])
@pytest.mark.parametrize("call", [transfer, rubric_subsets])
def test_what_was_not_released_cannot_be_fitted_again(call, column, what):
    gains = table(suite(6, 15))
    lacking = GainTable(gains.documents.assign(**{column: np.nan}), gains.queries, gains.criteria, gains.metadata)
    with pytest.raises(RCPError, match=f"cannot be fitted again: .*{what}.* not released"):
        call(lacking)


@quick
def test_nine_criteria_need_named_subsets():
    ids = tuple(f"C{i}" for i in range(1, 10))
    gains = table(suite(5, 15, gamma=np.ones(9), beta=np.linspace(-4, 4, 9)), ids=ids)
    with pytest.raises(RCPError, match="9 criteria have 511 subsets"):
        rubric_subsets(gains)
    assert len(rubric_subsets(gains, subsets=[ids, ids[:5]]).subsets) == 2


@quick
def test_tables_that_tell_nothing_are_told(recwarn):
    gains = table(suite(6, 15))
    documents = gains.documents
    silent = GainTable(documents.assign(**dict.fromkeys(IDS, 0)), gains.queries, gains.criteria)
    with pytest.raises(RCPError, match="every criterion has the same answer everywhere"):
        transfer(silent)
    out = gains.exclude(documents[["qid", "docno"]])
    with pytest.raises(RCPError, match="every document is excluded: there is no top k"):
        rubric_subsets(out)
    nothing = GainTable(documents.assign(n=0, **dict.fromkeys(IDS, 0)), gains.queries, gains.criteria)
    for call in (transfer, rubric_subsets):
        with pytest.raises(RCPError, match="no document was placed in a rubric window"):
            call(nothing)
    lone = documents["docno"].eq(documents["docno"].iloc[0]) & documents["qid"].eq(documents["qid"].iloc[0])
    placed = documents.assign(n=documents["n"].where(lone, 0))
    placed[list(IDS)] = placed[list(IDS)].where(lone, 0)
    with pytest.raises(RCPError, match=r"(outside one group have no placed document|same answer everywhere)"):
        transfer(GainTable(placed, gains.queries, gains.criteria))
    assert not [warning for warning in recwarn if issubclass(warning.category, RuntimeWarning)]


@quick
def test_of_one_criterion_nothing_is_said_of_discriminations():
    whole = table(suite(20, 30))
    one = whole.criteria.iloc[1:2]
    fit = fit_2pl(whole.documents["bt"], whole.documents[one["id"]], whole.documents["n"],
                  pd.factorize(whole.documents["qid"])[0])  # fmt: skip
    alone = GainTable(whole.documents, whole.queries, one.assign(gamma=fit.gamma, beta=fit.beta))
    assert not any("every discrimination 1" in text for text in transfer(alone).warnings)
    assert "pool at or above" in " ".join(diagnose(alone).checks["check"])
    row = diagnose(alone).checks.set_index("check").filter(like="pool at or above", axis=0).iloc[0]
    assert row["found"].startswith("not made")
