"""Agreement with people: every measure against plain loops, real grades, and what cannot be measured."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from rcp_irx import GainTable, RCPError, RCPWarning
from rcp_irx.analysis.agreeing import agreement
from rcp_irx.analysis.clusters import draws
from rcp_irx.analysis.gain_shapes import with_gain
from rcp_irx.calibration import centre, fit_2pl, gain
from rcp_irx.demo import results as demo
from tests.analysis.people import KEYS, slow, study, table
from tests.conftest import cases, data_folder


def values(measures: pd.DataFrame) -> dict:
    return {(row.measure, row.of): row.value for row in measures.itertuples()}


@pytest.mark.quick
@pytest.mark.filterwarnings("ignore:.*have no label")
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_every_measure_is_that_of_a_loop(seed):
    gains, grades, qrels = study(seed)
    random = np.random.default_rng(seed)
    grades = grades[(grades["annotator"] == "a") | (random.random(len(grades)) < 0.7)]  # panels of one to three
    found = agreement(gains, grades, qrels, resamples=50)
    expected = slow(gains, grades, qrels, 2.0)
    assert set(values(found.measures)) == set(expected)
    for key, value in expected.items():
        assert values(found.measures)[key] == pytest.approx(value, abs=1e-12), key
    rows = found.measures.set_index(["measure", "of"])
    assert (rows.drop(("ECE", "chance alone"))["low"] <= rows.drop(("ECE", "chance alone"))["high"]).all()
    assert rows.loc[("ECE", "chance alone"), ["low", "high"]].isna().all()
    explained = [warning for warning in found.warnings if "shows no miscalibration" in warning]
    assert len(explained) == (rows.loc[("ECE", "gain"), "low"] == 0)


@pytest.mark.quick
@pytest.mark.filterwarnings("ignore:.*have no label")
def test_intervals_are_those_of_drawing_whole_queries():
    gains, grades, qrels = study(4, queries=8)
    found = agreement(gains, grades, qrels, resamples=12, seed=9)
    weights = draws(np.zeros(8, int), 12, 9).astype(int)
    again = []
    for counts in weights.T:
        names = [(f"q{q:02}", f"q{q:02}-{copy}") for q, count in enumerate(counts) for copy in range(count)]
        copies = pd.DataFrame(names, columns=["qid", "copy"])

        def copied(frame, copies=copies):
            return frame.merge(copies, on="qid").drop(columns="qid").rename(columns={"copy": "qid"})

        again.append(
            values(agreement(table(copied(gains.documents)), copied(grades), copied(qrels), resamples=1).measures)
        )
    for row in found.measures.itertuples():
        resampled = [one[row.measure, row.of] for one in again]
        low, high = np.quantile(resampled, [0.025, 0.975])
        if row.measure == "ECE":  # reflected, and from 0 where chance explains it
            if row.of == "gain":
                assert row.high == pytest.approx(max(2 * row.value - low, row.value), abs=1e-9)
                assert row.low in (0, pytest.approx(min(2 * row.value - high, row.value), abs=1e-9))
            continue
        assert (row.low, row.high) == pytest.approx((low, high), abs=1e-9), (row.measure, row.of)


@pytest.mark.quick
@pytest.mark.filterwarnings("ignore:.*have no label")
def test_several_datasets_are_pooled_and_told_apart():
    gains, grades, qrels = study(5, datasets=("one", "two"))
    found = agreement(gains, grades, qrels, resamples=30)
    assert list(found.measures["dataset"].unique()) == ["all datasets", "one", "two"]
    assert found.value("AUC", "gain") == pytest.approx(slow(gains, grades, qrels, 2.0)["AUC", "gain"], abs=1e-12)
    only = [frame[frame["dataset"] == "two"] for frame in (grades, qrels)]
    alone = agreement(gains.select("two"), *only, resamples=30)
    part = found.measures[found.measures["dataset"] == "two"].reset_index(drop=True)
    pd.testing.assert_frame_equal(part, alone.measures)
    assert found.value("ECE", "gain", "two") == alone.value("ECE", "gain")
    assert "Each of the 2 datasets by itself: .measures" in str(found)
    with pytest.raises(RCPError, match="hold the datasets 'one', 'two': give grades a 'dataset' column"):
        agreement(gains, grades.drop(columns="dataset"))
    unlike = grades.assign(grade=grades["grade"].where(grades["dataset"] == "one", 1.0))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RCPWarning)
        partly = agreement(gains, unlike, resamples=30)
    assert "two: every document's mean grade is 1" in " ".join(partly.warnings)
    assert set(partly.measures["dataset"]) == {"all datasets", "one"}


@pytest.mark.quick
def test_the_seed_decides_and_row_order_does_not():
    gains, grades, _ = study(6)
    first, again = agreement(gains, grades, resamples=30), agreement(gains, grades.sample(frac=1), resamples=30)
    pd.testing.assert_frame_equal(first.measures, again.measures)
    other = agreement(gains, grades, resamples=30, seed=1)
    assert other.measures["value"].equals(first.measures["value"])
    assert not other.measures["low"].equals(first.measures["low"])


@pytest.mark.quick
def test_numbers_of_an_exact_oracle():
    case = next(c for c in (p.values[0] for p in cases("diag")) if "auc_at_2" in c["expected"])
    given, expected = case["input"], case["expected"]
    rows = pd.DataFrame({"qid": [f"q{q}" for q in given["query"]], "theta": given["score"], "grade": given["grade"]})
    rows["docno"] = [f"d{i}" for i in range(len(rows))]
    found = agreement(table(rows), rows[["qid", "docno", "grade"]], resamples=20)
    assert found.value("AUC", "gain") == pytest.approx(expected["auc_at_2"], abs=1e-12)
    assert found.value("Spearman", "ability") == pytest.approx(expected["pooled_spearman"], abs=1e-12)
    assert found.value("concordance", "ability") == pytest.approx(expected["concordance_ties_half"], abs=1e-12)
    assert "1 query has one graded document: nothing to compare within a query" in found.warnings


@pytest.mark.quick
def test_order_is_taken_from_abilities_where_gains_saturate():
    rows = pd.DataFrame({"qid": "q", "docno": ["a", "b", "c"], "theta": [60.0, 80.0, -1.0], "grade": [1, 3, 0]})
    gains = table(rows)
    assert gains.documents["gain"].tolist()[:2] == [1, 1]
    found = agreement(gains, rows[["qid", "docno", "grade"]])
    assert found.value("AUC", "gain") == 1
    assert found.value("concordance", "ability") == 1
    assert "one query: no intervals, which draw queries" in found.warnings
    assert found.measures[["low", "high"]].isna().all(axis=None)


@pytest.mark.quick
@pytest.mark.filterwarnings("ignore:.*have no label")
@pytest.mark.parametrize("shape", ["min-max", "linear", "unweighted"])
def test_the_order_of_other_gains_is_their_own(shape):
    gains, grades, qrels = study(8)
    other = with_gain(gains, shape)
    found = agreement(other, grades, qrels, resamples=2)
    expected = slow(other, grades, qrels, 2.0)
    for key in [("AUC", "gain"), ("AUC at qrel 0", "gain"), ("true positive rate", "gain"), ("ECE", "gain")]:
        assert found.value(*key) == pytest.approx(expected[key], abs=1e-12), key
    assert found.value("Spearman", "ability") == agreement(gains, grades, qrels, resamples=2).value(
        "Spearman", "ability"
    )
    if shape == "min-max":
        assert found.value("AUC", "gain") != agreement(gains, grades, qrels, resamples=2).value("AUC", "gain")


@pytest.mark.quick
def test_query_means_that_differ_by_rounding_tie():
    gains, grades, _ = study(9, queries=12)
    one = grades.drop(index=grades.index[0])  # so that not every mean is 0
    found = []
    for seed in range(3):
        noise = np.random.default_rng(seed).normal(0, 1e-15, len(gains))
        documents = gains.documents
        moved = GainTable(documents.assign(bt=documents["bt"] + noise), gains.queries, gains.criteria)
        found.append(agreement(moved, one[one["annotator"] == "a"], resamples=1))
    assert len({round(each.value("Spearman of query means", "raw BT"), 12) for each in found}) == 1


@pytest.mark.quick
def test_a_mean_grade_at_a_threshold_without_end_reaches_it():
    rows = [("q", f"d{i}", who, grade) for i, given in enumerate([(2, 2, 3), (0, 1, 2), (3, 4, 4)])
            for who, grade in zip("abc", given, strict=True)]  # fmt: skip
    grades = pd.DataFrame(rows, columns=["qid", "docno", "annotator", "grade"])
    gains = table(pd.DataFrame({"qid": "q", "docno": ["d0", "d1", "d2"], "theta": [0.0, 1.0, 2.0]}))
    for threshold in (7 / 3, 2.333333):
        assert agreement(gains, grades, threshold=threshold, resamples=1).value("AUC", "gain") == 0.5


@pytest.mark.quick
def test_datasets_of_one_query_make_no_narrow_interval_in_silence():
    gains, grades, _ = study(10, datasets=("a", "b", "c", "d"), queries=6)
    lone = (gains.documents["dataset"] == "a") | (gains.documents["qid"] == "q00")
    documents = gains.documents[lone]
    queries = gains.queries.merge(documents[["dataset", "qid"]].drop_duplicates())
    found = agreement(GainTable(documents, queries, gains.criteria), grades, resamples=20)
    assert "all datasets: 3 of 4 datasets have one query, which is drawn every time: intervals are too narrow" in (
        found.warnings
    )


@pytest.mark.quick
def test_the_interval_of_a_small_calibration_error_is_one():
    """Gains that are these grades' own means, bin by bin: an error of 0, and nothing below it."""
    random = np.random.default_rng(1)
    theta = random.normal(0, 2, 400)
    rows = pd.DataFrame({"qid": np.repeat([f"q{i:02}" for i in range(20)], 20), "theta": theta})
    rows["docno"] = [f"d{i}" for i in range(400)]
    chance = 1 / (1 + np.exp(-theta))
    rows["grade"] = 2.0 * (random.random(400) < chance)
    code = np.minimum((chance * 20).astype(int), 19)
    rows["gain"] = (rows["grade"] >= 2).groupby(code).transform("mean")
    gains = table(rows.drop(columns="gain"), gain=rows["gain"].to_numpy())
    row = agreement(gains, rows[["qid", "docno", "grade"]], resamples=100).measures.set_index(["measure", "of"])
    low, value, high = row.loc[("ECE", "gain"), ["low", "value", "high"]]
    assert 0 == low <= value <= high


def test_intervals_of_the_calibration_error_hold_it():
    """At a true error of 0 and of about .05, the interval should hold it in about 95 of 100 studies."""
    held = {0.0: 0, 0.4: 0}
    for shift in held:
        for seed in range(40):
            random = np.random.default_rng(seed)
            theta = random.normal(0, 3, (40, 12))
            rows = pd.DataFrame({"qid": np.repeat([f"q{i:02}" for i in range(40)], 12), "theta": theta.ravel()})
            rows["docno"] = [f"d{i}" for i in range(len(rows))]
            gains = table(rows)
            gain = gains.documents.sort_values(["qid", "docno"])["gain"].to_numpy()
            chance = 1 / (1 + np.exp(-(np.log(gain / (1 - gain)) + shift)))
            graded = gains.documents.sort_values(["qid", "docno"])[["qid", "docno"]]
            graded = graded.assign(grade=2.0 * (random.random(len(gain)) < chance))
            row = agreement(gains, graded, resamples=100).measures.set_index(["measure", "of"]).loc[("ECE", "gain")]
            code = np.minimum((gain * 20).astype(int), 19)
            true = np.abs(np.bincount(code, gain - chance)).sum() / len(gain)
            held[shift] += bool(row["low"] <= true <= row["high"])
    assert min(held.values()) >= 33, held


@pytest.mark.quick
def test_an_annotator_who_graded_twice_counts_once_with_the_mean():
    gains, grades, _ = study(7)
    one = grades.iloc[[0]]
    twice = pd.concat([grades, one.assign(grade=one["grade"] + 1)])
    with pytest.warns(RCPWarning, match="an annotator graded a document more than once, 1 grade too many"):
        found = agreement(gains, twice, resamples=5)
    first = tuple(one[KEYS].iloc[0])
    row = found.documents.set_index(KEYS).loc[first]
    graded = grades.set_index(KEYS).sort_index().loc[first, "grade"]
    assert row["grades"] == len(graded) == 3
    assert row["grade"] == pytest.approx((graded.sum() + 0.5) / 3, abs=1e-12)


@pytest.mark.quick
def test_what_is_left_out_is_said():
    gains, grades, qrels = study(8)
    first, second = (("", "q00", "d90"), ("", "q99", "d00"))
    strange = pd.DataFrame([first, second], columns=KEYS).assign(annotator="a", grade=3.0)
    missing = grades.iloc[[0]].assign(annotator="d", grade=np.nan)
    out = grades.loc[grades["qid"] == "q01", ["qid", "docno"]].head(1)
    with pytest.warns(RCPWarning) as caught:
        found = agreement(
            gains.exclude(out), pd.concat([grades, strange, missing]), qrels[qrels["qid"] != "q02"], resamples=5
        )
    said = [str(warning.message) for warning in caught]
    expected = [
        "1 row has no grade, left out",
        "1 graded document of queries without gains, left out: ('q99', 'd00')",
        "1 graded document without a gain, left out: ('q00', 'd90')",
        f"1 graded document excluded from the gains, left out: {tuple(out.iloc[0])!r}",
    ]
    assert said[:4] == expected
    assert "of queries without any label, left out: ('q02'" in said[4]
    assert said[5].endswith("graded documents have no label, or one below 0: taken as qrel 0")
    assert found.warnings[:6] == said
    assert set(found.documents["qid"]) == {f"q{q:02}" for q in range(12)} - {"q02"}
    assert tuple(out.iloc[0]) not in set(zip(found.documents["qid"], found.documents["docno"], strict=True))


@pytest.mark.quick
def test_labels_below_zero_are_no_labels():
    gains, grades, qrels = study(9)
    with pytest.warns(RCPWarning, match="no label"):
        plain = agreement(gains, grades, qrels, resamples=5)
    rest = grades[KEYS].drop_duplicates().merge(qrels, on=KEYS, how="left").fillna({"label": -1}).astype({"label": int})
    with pytest.warns(RCPWarning, match="no label"):
        marked = agreement(gains, grades, pd.concat([qrels, rest[rest["label"] < 0]]), resamples=5)
    pd.testing.assert_frame_equal(plain.measures, marked.measures)


@pytest.mark.quick
def test_raw_scores_of_pools_that_are_graded_whole_have_no_query_means():
    random = np.random.default_rng(1)
    rows = pd.DataFrame([(f"q{q}", f"d{d}") for q in range(25) for d in range(9)], columns=["qid", "docno"])
    rows["bt"] = centre(random.normal(0, 1, len(rows)), np.repeat(np.arange(25), 9))
    rows["theta"] = rows["bt"] + np.repeat(random.normal(0, 2, 25), 9)
    rows["grade"] = np.clip(np.round(2 + rows["theta"] + random.normal(0, 1, len(rows))), 0, 4)
    found = agreement(table(rows), rows[["qid", "docno", "grade"]], resamples=200)
    assert np.isnan(found.value("Spearman of query means", "raw BT"))
    said = "Bradley-Terry scores are centred on their query, and where whole pools are graded their means are all 0"
    assert any(said in warning for warning in found.warnings)
    assert found.value("Spearman of query means", "ability") > 0.9
    assert found.value("Spearman", "ability less raw BT") > 0.2
    assert not any("calibration is not shown" in warning for warning in found.warnings)
    assert "no document has two annotators' grades" in " ".join(found.warnings)


@pytest.mark.quick
def test_warnings_of_poor_agreement():
    gains, grades, _ = study(10)
    shuffled = grades.assign(grade=np.random.default_rng(1).permutation(grades["grade"]))
    said = " ".join(agreement(gains, shuffled, resamples=100).warnings)
    assert "below 0.7: what the rubric asks may not be what these people graded" in said
    assert "only 12 queries: the intervals, which draw queries, are rough" in said
    assert "calibration is not shown to place documents of different queries better" in said
    turned = gains.documents.assign(bt=lambda d: d["theta"], theta=lambda d: -d["theta"])
    good = agreement(table(turned), grades, resamples=100)
    assert "raw scores place documents of different queries better than calibrated ones do" in " ".join(good.warnings)


@pytest.mark.quick
def test_scores_that_were_not_released():
    gains, grades, _ = study(11)
    closed = table(gains.documents, theta=np.nan, bt=np.nan, gain=gains.documents["gain"])
    with pytest.warns(RCPWarning) as caught:
        found = agreement(closed, grades, resamples=5)
    assert "abilities of these gains were not released" in str(caught[0].message)
    assert "Bradley-Terry scores of these gains were not released" in str(caught[1].message)
    assert not found.measures["of"].str.contains("BT").any()
    assert found.value("AUC", "gain") == agreement(gains, grades, resamples=5).value("AUC", "gain")


@pytest.mark.quick
def test_constant_scores_and_lone_documents_have_no_value_and_say_why():
    rows = pd.DataFrame({"qid": ["a", "b", "c"], "docno": "d", "theta": 1.0, "bt": 0.0, "grade": [0.0, 2.0, 4.0]})
    found = agreement(table(rows), rows[["qid", "docno", "grade"]], resamples=20)
    assert found.value("AUC", "gain") == 0.5
    empty = found.measures.loc[found.measures["value"].isna(), ["measure", "of"]].agg(" of ".join, axis=1)
    said = " ".join(found.warnings)
    assert len(empty)
    assert all(f"{name} has no value: " in said for name in empty)
    assert "concordance of ability has no value: no query has two documents with different grades" in said
    assert "3 queries have one graded document" in said
    assert "none" in str(found)


@pytest.mark.quick
def test_what_cannot_be_measured_is_refused():
    gains, grades, qrels = study(12)
    wrong = [
        ({"grades": "no frame"}, "must be a DataFrame, not str"),
        ({"grades": qrels}, "has no column 'grade' (it has ['dataset', 'qid', 'docno', 'label'])"),
        ({"grades": grades.drop(columns="docno")}, "has no column 'docno'"),
        ({"grades": grades.assign(grade="good")}, "a grade must be a finite number; query, document, grade: ('q00'"),
        ({"grades": grades.assign(grade=np.inf)}, "a grade must be a finite number"),
        ({"grades": grades.assign(grade=-1)}, "grades start at 0 (leave out what nobody graded"),
        ({"grades": grades.assign(grade=np.nan)}, "holds no grade"),
        ({"grades": grades.assign(annotator=None)}, "column 'annotator' of the frame of grades has no id"),
        ({"grades": grades.head(0)}, "holds no grade"),
        ({"grades": grades.assign(qid="other")}, "grades and gains share no query"),
        ({"grades": grades.assign(docno="other" + grades["docno"])}, "no graded document has a gain"),
        ({"grades": grades.assign(grade=3)}, "every document's mean grade is 3: there is no order to agree with"),
        ({"threshold": "2"}, "threshold is a finite number, not '2'"),
        ({"gain_threshold": np.nan}, "gain_threshold is a finite number"),
        ({"positive": None}, "positive is a finite number"),
        ({"resamples": 1.5}, "resamples is a whole number from 1 up"),
        ({"threshold": 4.5}, "no document has a mean grade of 4.5 or more; grades are from 0"),
        ({"threshold": 0}, "every document has a mean grade of 0 or more"),
        ({"qrels": qrels.assign(label=0.5)}, "labels must be whole numbers"),
        ({"qrels": qrels.assign(qid="other" + qrels["qid"])}, "grades and qrels share no query with gains"),
        ({"bins": 0}, "bins is a whole number from 1 up, not 0"),
        ({"resamples": 0}, "resamples is a whole number from 1 up, not 0"),
    ]
    for change, message in wrong:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RCPWarning)
            with pytest.raises(RCPError) as caught:
                agreement(**{"gains": gains, "grades": grades, "qrels": qrels, **change})
        assert message in str(caught.value), change
    with pytest.raises(RCPError, match=r"no row of dataset '', measure 'AUC', of 'x'; see \.measures"):
        agreement(gains, grades, resamples=1).value("AUC", "x")


@pytest.mark.quick
def test_the_function_is_found_in_the_package_also_after_its_module():
    from rcp_irx import analysis

    assert analysis.agreement is agreement


@pytest.mark.quick
def test_the_demo_collection():
    grades = demo.qrels().rename(columns={"label": "grade"})
    with pytest.warns(RCPWarning, match="without a gain, left out"):
        found = agreement(demo.gains(), grades, threshold=1, resamples=200)
    assert "Agreement with people; relevant: a grade of 1 or more" in str(found)
    assert found.bins["grades"].sum() == len(found.documents)
    assert list(found.queries) == ["dataset", "qid", "documents", "grade", "ability", "bt"]


def dl19(llm: str, others: tuple[str, str]) -> tuple[GainTable, pd.DataFrame, pd.DataFrame]:
    """Gains of one LLM's grades of criteria (at 2 or more a pass), NIST's labels, another LLM's labels."""
    from rcp_irx.trec import read_qrels
    from tests.evaluation.test_trec_runs import grades

    folder = data_folder("dl19")
    nist = read_qrels(folder / "qrels.dl19-passage.txt")
    passes, placements = (grades(llm) >= 2).to_numpy(), grades(llm).notna().to_numpy()
    queries = pd.factorize(nist["qid"])[0]
    bt = centre(pd.concat([grades(other) for other in others], axis=1).mean(axis=1), queries)  # for a tournament
    fit = fit_2pl(bt, passes, placements, queries)
    rows = nist[["qid", "docno"]].assign(bt=bt, theta=fit.theta, gain=gain(fit.theta, fit.gamma, fit.beta))
    return table(rows, gain=rows["gain"]), nist, read_qrels(folder / "dl19.zeroshot_bing_DSV3.txt")


def test_dl19_with_nist_as_people_and_a_language_model_as_qrels():
    gains, nist, qrels = dl19("dl2019_test_4prompts_llama70b", ("4_prompts_dl2019", "dl2019_test_4prompts_flant5large"))
    found = agreement(gains, nist.rename(columns={"label": "grade"}), qrels, positive=2, resamples=200)
    rows = found.documents
    assert len(rows) == 9260
    relevant = rows["grade"] >= 2
    for of, score in [("gain", rows["ability"]), ("raw BT", rows["bt"]), ("qrel positive", rows["label"] >= 2)]:
        u = stats.mannwhitneyu(score[relevant].astype(float), score[~relevant].astype(float)).statistic
        assert found.value("AUC", of) == pytest.approx(u / relevant.sum() / (~relevant).sum(), abs=1e-12)
    assert found.value("Spearman", "ability") == pytest.approx(
        stats.spearmanr(rows["ability"], rows["grade"]).statistic, abs=1e-12
    )
    expected = {
        ("AUC", "gain"): 0.8112,
        ("AUC at qrel 0", "gain"): 0.6735,
        ("Spearman", "ability"): 0.5683,
        ("Spearman", "ceiling"): 0.7317,
        ("concordance", "ability"): 0.8295,
        ("ECE", "gain"): 0.2093,
    }
    print({key: round(found.value(*key), 4) for key in expected})
    for key, value in expected.items():
        assert found.value(*key) == pytest.approx(value, abs=5e-4), key
    floor, ability, ceiling = (found.value("Spearman", of) for of in ("floor", "ability", "ceiling"))
    assert floor < ability < ceiling
    shuffled = rows.assign(order=np.random.default_rng(0).random(len(rows))).sort_values(["qid", "order"])
    shuffled = stats.spearmanr(shuffled["ability"], rows.sort_values("qid", kind="stable")["grade"]).statistic
    assert floor == pytest.approx(shuffled, abs=0.02)  # one shuffle; its SD is about 1 / sqrt(9260)
