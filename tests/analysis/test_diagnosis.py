"""The diagnosis: silent where the model holds, one sign for one break, real criteria against independent code."""

from __future__ import annotations

import dataclasses

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

from rcp_irx import (
    FULL,
    Document,
    GainTable,
    JudgeFailure,
    JudgmentLog,
    Query,
    RCPError,
    RCPWarning,
    Rubric,
    SimulatedJudge,
    TournamentAnswer,
)
from rcp_irx.analysis.diagnosis import diagnose
from rcp_irx.calibration import fit_2pl
from rcp_irx.demo import results as demo
from rcp_irx.documents import Pool
from rcp_irx.judging.runner import PoolRunner
from tests.analysis.simulated_suites import BETA, GAMMA, IDS, LLMS, dl19, dl19_runs, runs, suite, table

quick = pytest.mark.quick


def signs(diagnosis):
    """The checks that warn."""
    return list(diagnosis.checks.loc[diagnosis.checks["warning"], "check"])


def value(diagnosis, check):
    (found,) = diagnosis.checks.loc[diagnosis.checks["check"] == check, "value"]
    return found


def good_labels(gains):
    documents = gains.documents
    return documents[["dataset", "qid", "docno"]].assign(label=(documents["theta"] > 0).astype(int))


@quick
@pytest.mark.parametrize("seed", range(4))
def test_nothing_warns_where_the_model_holds(seed):
    gains = table(suite(seed=seed), datasets=2)
    found = diagnose(gains, runs=runs(gains), qrels=good_labels(gains))
    assert found.warnings == []
    assert not found.checks["warning"].any()
    assert found.checks["value"].notna().all()


def at_the_top(theta, query, random):
    """Seven documents of each hundred far above the hardest criterion."""
    pools = theta.reshape(-1, 100).copy()
    pools[:, :7] = random.normal(8, 1, (len(pools), 7))
    return pools.ravel()


def below_one(theta, query, random):
    return np.where(theta > 1, 0.8 + 0.4 * random.random(theta.size), theta)


def below_c4(theta, query, random):
    return np.minimum(theta, 0.2 + 0.1 * random.random(theta.size))


def one_answer_for_two(p, n, random):
    """The judge answers C4 by the same draw as C3."""
    draws = random.random((n, *p.shape))
    draws[:, :, 3] = draws[:, :, 2]
    return (draws < p).sum(axis=0)


def beside_the_order(p, n, random):
    """Each document meets each criterion more or less than its ability says, by a normal of SD 1.5."""
    logits = np.log(p / (1 - p)) + GAMMA * random.normal(0, 1.5, p.shape)
    return random.binomial(n, expit(logits))


def other_criteria(**changed):
    """A table whose third criterion has a discrimination that its answers do not follow."""
    made = suite(offset_sd=3)
    fit = fit_2pl(made.bt, made.passes, made.n, made.query)
    gamma = fit.gamma.copy()
    gamma[2] = 0.4
    return table(made, fit=dataclasses.replace(fit, gamma=gamma))


BROKEN = {
    "difficulties rise": lambda: table(suite(beta=BETA[[0, 2, 1, 3, 4]], gamma=GAMMA[[0, 2, 1, 3, 4]])),
    "largest discrimination": lambda: table(suite(gamma=[0.9, 0.9, 0.9, 1.4, 0.9])),
    "scales tau, p5 to p95": lambda: table(suite(scale_sd=0.7)),
    "information efficiency, top 10": lambda: table(suite(abilities=at_the_top)),
    "local independence, |Q3|": lambda: table(suite(answers=one_answer_for_two)),
    "pool below C1": lambda: table(suite(offset=-8)),
    "pool at or above C4": lambda: table(suite(abilities=below_c4)),
    "ECE of pass probabilities": other_criteria,
    "Brier skill": lambda: table(suite(answers=beside_the_order)),
    "queries that scales help": lambda: table(suite(scale_sd=0, offset_sd=0)),
}


@quick
@pytest.mark.parametrize("check", BROKEN)
def test_what_is_broken_warns_and_nothing_else(check):
    found = diagnose(BROKEN[check]())
    assert signs(found) == [check]
    (line,) = found.warnings
    assert line.startswith(f"{check}: ")
    assert "\n" not in line


@quick
def test_a_rubric_that_is_too_easy_for_its_pools():
    found = diagnose(table(suite(offset=-3, abilities=below_one)))
    assert signs(found) == ["pool at or above C4"]
    assert "too easy" in found.warnings[0]


@quick
def test_a_top_beyond_the_rubric_is_less_efficient_than_that_of_runs():
    gains = table(suite(abilities=at_the_top))
    poor = {name: run.assign(score=-run["score"].abs()) for name, run in runs(gains).items()}  # they seek ability 0
    found = diagnose(gains, runs=poor)
    assert signs(found) == ["information efficiency, top 10"]
    assert "most precise below the documents that fill the top 10" in found.warnings[0]
    assert (found.systems["efficiency"] > found.datasets["efficiency"].item()).all()


@quick
def test_labels_that_the_gains_do_not_know():
    gains = table(suite(), datasets=2)
    labels = good_labels(gains)
    random = np.random.default_rng(0)
    shuffled = labels.assign(
        label=np.where(labels["dataset"] == "d1", random.permutation(labels["label"]), labels["label"])
    )
    found = diagnose(gains, qrels=shuffled)
    assert signs(found) == ["AUC for labels' positives"]
    assert "'d1'" in found.warnings[0]
    assert "'d0'" not in found.warnings[0]
    assert "may not be the task" in found.warnings[0]
    assert found.labels["auc"].tolist() == [1.0, pytest.approx(0.5, abs=0.05)]


@quick
def test_systems_that_differ_only_in_documents_that_fail_everything():
    gains = table(suite())
    documents = gains.documents
    fails = documents[list(IDS)].sum(axis=1).eq(0)
    documents = documents[["qid", "docno", "theta"]].assign(fails=fails).sort_values("theta", ascending=False)
    best = documents[~documents["fails"]].groupby("qid").head(9)
    last = {"high": documents[documents["fails"]].groupby("qid").head(1)}
    last["low"] = documents[documents["fails"]].groupby("qid").tail(1)
    systems = {name: pd.concat([best.assign(score=2.0), rows.assign(score=1.0)]) for name, rows in last.items()}
    found = diagnose(gains, runs=systems)
    assert signs(found) == ["documents that fail everything"]
    (row,) = found.zeroed.to_dict("records")
    assert (row["pairs"], row["separated"], row["separated_zeroed"], row["changed"]) == (1, 1, 0, 1)
    assert "changes 1 of 1 decision," in found.warnings[0]


@quick
def test_several_datasets_are_told_apart():
    gains = table(suite(), datasets=2)
    found = diagnose(gains, runs=runs(gains))
    for dataset, row in found.datasets.set_index("dataset").iterrows():
        alone = diagnose(gains.select(dataset), runs={n: r[r["dataset"] == dataset] for n, r in runs(gains).items()})
        (expected,) = alone.datasets.to_dict("records")
        for name in set(expected) - {"dataset", "better"}:  # its logistic curves are those of all datasets
            assert row[name] == pytest.approx(expected[name], nan_ok=True), name
    assert len(found.queries) == 100
    assert found.queries["brier"].notna().all()


@quick
def test_the_order_of_rows_changes_nothing():
    gains = table(suite(30, 40), datasets=2)
    shuffled = GainTable(
        gains.documents.sample(frac=1, random_state=1),
        gains.queries.sample(frac=1, random_state=2),
        gains.criteria,
        gains.metadata,
    )
    systems, labels = runs(gains), good_labels(gains)
    one = diagnose(gains, runs=systems, qrels=labels)
    other = diagnose(shuffled, runs=systems, qrels=labels.sample(frac=1, random_state=3))
    for name in ("criteria", "pairs", "maps", "bins", "datasets", "queries", "systems", "zeroed", "labels"):
        pd.testing.assert_frame_equal(getattr(one, name), getattr(other, name), rtol=1e-9)


@quick
def test_excluded_documents_stay_in_the_fits_checks_and_leave_every_top():
    gains = table(suite(30, 40))
    top = gains.documents.sort_values("theta", ascending=False).groupby("qid").head(5)
    before, after = diagnose(gains), diagnose(gains.exclude(top[["qid", "docno"]]))
    assert after.datasets["ece"].item() == before.datasets["ece"].item()
    assert after.datasets["above"].item() == before.datasets["above"].item()
    rest = gains.documents.drop(top.index).sort_values("theta", ascending=False).groupby("qid").head(10)
    gamma, beta = gains.criteria["gamma"].to_numpy(), gains.criteria["beta"].to_numpy()

    def information(theta):
        p = expit(gamma * (np.asarray(theta)[:, None] - beta))
        return (gamma**2 * p * (1 - p)).sum(axis=1)

    peak = information(np.linspace(beta.min(), beta.max(), 100_001)).max()
    assert after.datasets["efficiency"].item() == pytest.approx(information(rest["theta"]).mean() / peak, rel=1e-6)


RELEASED = {
    "theta": ["information efficiency, top 10", "local independence, |Q3|", "pool below C1", "pool at or above C4",
              "ECE of pass probabilities", "Brier skill", "queries that scales help"],
    "bt": ["queries that scales help"],
    "n": ["local independence, |Q3|", "ECE of pass probabilities", "Brier skill", "queries that scales help",
          "documents that fail everything"],
}  # fmt: skip


@quick
@pytest.mark.parametrize("column", RELEASED)
def test_what_a_released_table_lacks_is_said(column):
    gains = table(suite(20, 30))
    lacking = GainTable(gains.documents.assign(**{column: np.nan}), gains.queries, gains.criteria, gains.metadata)
    found = diagnose(lacking, runs=runs(gains), qrels=good_labels(gains))
    made = found.checks.set_index("check")
    assert list(made.index[made["found"].str.contains("not made: .* not released")]) == RELEASED[column]
    assert made.loc[RELEASED[column], "value"].isna().sum() == len(RELEASED[column])
    assert value(found, "AUC for labels' positives") == 1.0
    assert "not made" in str(found)


@quick
def test_scales_that_were_not_released():
    gains = table(suite(20, 30))
    lacking = GainTable(gains.documents, gains.queries.assign(tau=np.nan, alpha=np.nan), gains.criteria)
    assert np.isnan(value(diagnose(lacking), "scales tau, p5 to p95"))


@quick
def test_the_screen_shows_every_check_and_explains_those_that_warn():
    text = str(diagnose(table(suite(scale_sd=0.7))))
    assert text.startswith("Diagnosis of 100 queries, 10000 documents, 5 criteria: 1 warning sign\n")
    assert "\n! scales tau, p5 to p95" in text
    assert "sign: a ratio above 3.3 (paper: 2.5 to 3.3); may mean: queries differ" in text
    assert text.count("may mean") == 1
    assert len(text.splitlines()) < 30
    assert max(map(len, text.splitlines())) <= 120


@quick
def test_one_criterion_one_query_one_document():
    made = suite(1, 1, gamma=GAMMA[:1], beta=BETA[:1])
    found = diagnose(table(made, ids=("only",)))
    assert value(found, "scales tau, p5 to p95") == 1
    assert found.pairs.empty
    assert "one criterion" in found.checks.set_index("check").loc["largest discrimination", "found"]


@quick
@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda gains: diagnose(gains.documents), "give a GainTable or a JudgmentLog, not DataFrame"),
        (lambda gains: diagnose(gains, k=0), "whole number >= 1"),
        (lambda gains: diagnose(gains, k=None), "not None"),
        (lambda gains: diagnose(gains, runs={}), "runs is a mapping"),
        (
            lambda gains: diagnose(gains, runs={"bad": runs(gains)["noise 1.0"].assign(qid="other")}),
            "run 'bad': .*share",
        ),
        (lambda gains: diagnose(gains, qrels=good_labels(gains).drop(columns="label")), "no column 'label'"),
        (
            lambda gains: diagnose(gains, qrels=good_labels(gains).assign(qid="x")),
            "share no query|labels must be|document",
        ),
        (lambda gains: diagnose(JudgmentLog()), "is empty"),
    ],
)
def test_what_cannot_be_diagnosed_is_refused(call, message):
    gains = table(suite(5, 12))
    with pytest.raises(RCPError, match=message):
        call(gains)


@quick
def test_an_empty_table_is_refused():
    gains = table(suite(2, 3))
    empty = GainTable(gains.documents.head(0), gains.queries.head(0), gains.criteria, {"fit_id": "x"})
    with pytest.raises(RCPError, match="nothing to check"):
        diagnose(empty)


class Flawed(SimulatedJudge):
    """Never answers the first two tournament windows of query q1; multiplies its scores by `stretch`."""

    refuses, stretch = True, 1.0

    def tournament(self, query, documents):
        shown = tuple(document.id for document in documents)
        self.refused = getattr(self, "refused", [])
        if self.refuses and query.id == "q1" and len(self.refused) < 2 and shown not in self.refused:
            self.refused.append(shown)
        if shown in self.refused and query.id == "q1":
            raise JudgeFailure("refusal", "I would rather not")
        return TournamentAnswer([self.stretch * score for score in super().tournament(query, documents).scores])


def log_of(judge_class, queries=8, documents=20, **options):
    random = np.random.default_rng(3)
    pools = [
        Pool(Query(f"q{j}", f"query {j}"), tuple(Document(f"d{i}", f"text {j} {i}") for i in range(documents)))
        for j in range(queries)
    ]
    abilities = {("", p.query.id, d.id): float(random.normal(-3, 2)) for p in pools for d in p.documents}
    keys = [("", pool.query.id) for pool in pools]
    judge = judge_class(abilities, GAMMA, BETA, scales=dict.fromkeys(keys, 1.5), offsets=dict.fromkeys(keys, -3.0))
    for name, given in options.items():
        setattr(judge, name, given)
    log = JudgmentLog(None)
    for pool in pools:
        PoolRunner(pool, judge, Rubric.load(), FULL, log).run()
    return log


@quick
def test_a_log_tells_its_failures():
    log = log_of(Flawed)
    found = diagnose(log)
    gains = log.calibrate()
    failed, planned = gains.queries["failed"].sum(), gains.queries["planned"].sum()
    assert failed == 2
    assert value(found, "windows without an answer") == pytest.approx(failed / planned)
    assert "windows without an answer" in signs(found)
    (line,) = [w for w in found.warnings if w.startswith("windows")]
    assert f"{failed} of {planned} (attempts: refusal: {3 * failed})" in line
    assert found.failures.to_dict("records") == [
        {"stage": "tournament", "failure": "refusal", "attempts": 3 * failed, "answered": 0}
    ]
    pd.testing.assert_frame_equal(found.datasets, diagnose(gains).datasets)
    assert diagnose(gains).failures.empty
    assert value(diagnose(gains), "windows without an answer") == pytest.approx(failed / planned)


@quick
def test_a_log_tells_answers_off_the_scale():
    plain, stretched = diagnose(log_of(SimulatedJudge)), diagnose(log_of(Flawed, refuses=False, stretch=1.9))
    assert "odd answers" not in signs(plain)
    assert "windows without an answer" not in signs(plain)
    assert "odd answers" in signs(stretched)


@quick
def test_the_demo():
    found = diagnose(demo.gains(), runs=demo.runs(), qrels=demo.qrels())
    assert value(found, "documents that fail everything") == pytest.approx(191 / 300)
    assert found.systems["judged"].tolist() == [94, 98, 63]
    assert not found.zeroed["reversed"].any()


@quick
def test_queries_with_labels_alone_are_left_out_with_a_warning():
    gains = demo.gains()
    more = pd.concat([demo.qrels(), pd.DataFrame({"qid": ["new"], "docno": ["x"], "label": [1]})])
    with pytest.warns(RCPWarning, match="1 query has labels and no gain"):
        found = diagnose(gains, qrels=more)
    pd.testing.assert_frame_equal(found.labels, diagnose(gains, qrels=demo.qrels()).labels)


@pytest.mark.parametrize(
    ("llm", "warned", "figures"),
    [
        (LLMS[0], ["difficulties rise", "scales tau, p5 to p95", "local independence, |Q3|",
                   "pool at or above Exactness", "ECE of pass probabilities", "Brier skill"],
         (0.720, 0.0186, 0.454, 0.677)),
        (LLMS[1], ["difficulties rise", "information efficiency, top 10", "local independence, |Q3|",
                   "pool at or above Coverage", "Brier skill"], (0.392, 0.0156, 0.593, 0.389)),
        (LLMS[2], ["difficulties rise", "information efficiency, top 10", "local independence, |Q3|",
                   "pool at or above Coverage", "Brier skill"], (0.403, 0.0143, 0.577, 0.309)),
    ],
)  # fmt: skip
def test_real_criteria_that_are_facets_and_not_steps(llm, warned, figures):
    gains, _ = dl19(llm)
    found = diagnose(gains)
    print("\n" + str(found))
    q3, ece, skill, fails = figures
    assert value(found, "local independence, |Q3|") == pytest.approx(q3, abs=5e-4)
    assert value(found, "ECE of pass probabilities") == pytest.approx(ece, abs=5e-5)
    assert value(found, "Brier skill") == pytest.approx(skill, abs=5e-4)
    assert value(found, "documents that fail everything") == pytest.approx(fails, abs=5e-3)
    assert signs(found) == warned


def test_real_criteria_against_independent_code():
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import brier_score_loss, roc_auc_score

    gains, labels = dl19()
    found = diagnose(gains, runs=dl19_runs(), qrels=labels)
    documents, criteria = gains.documents, gains.criteria
    ids, gamma, beta = list(criteria["id"]), criteria["gamma"].to_numpy(), criteria["beta"].to_numpy()
    placed = documents[documents["n"] > 0]
    answers = placed[ids].to_numpy(dtype=float)  # one placement each
    p = expit(gamma * (placed["theta"].to_numpy()[:, None] - beta))

    q3 = pd.DataFrame(answers - p, columns=ids).corr()
    raw = pd.DataFrame(answers, columns=ids).corr()
    for row in found.pairs.itertuples():
        assert row.q3 == pytest.approx(q3.loc[row.a, row.b], abs=1e-9)
        assert row.correlation == pytest.approx(raw.loc[row.a, row.b], abs=1e-9)

    cells = pd.DataFrame({"p": p.ravel(), "y": answers.ravel()})
    means = cells.groupby(pd.cut(cells["p"], np.linspace(0, 1, 21), right=False), observed=True)
    gaps = (means["p"].mean() - means["y"].mean()).abs()
    assert value(found, "ECE of pass probabilities") == pytest.approx(
        (gaps * means.size()).sum() / len(cells), abs=1e-9
    )

    maps = found.maps.set_index("map")["brier"]
    x = placed["bt"].to_numpy()[:, None]
    curves = [LogisticRegression(C=1e9, tol=1e-10, max_iter=1000).fit(x, answers[:, c]) for c in range(4)]
    logistic = np.column_stack([curve.predict_proba(x)[:, 1] for curve in curves])
    steps = {
        "one pass rate": np.full_like(p, answers.mean()),
        "criterion pass rates": np.tile(answers.mean(axis=0), (len(p), 1)),
        "sigmoid of bt": np.repeat(expit(x), 4, axis=1),
        "logistic in bt": logistic,
        "2PL": p,
    }
    for name, predicted in steps.items():
        assert maps[name] == pytest.approx(brier_score_loss(answers.ravel(), predicted.ravel()), abs=1e-7), name
    assert value(found, "Brier skill") == pytest.approx(1 - maps["2PL"] / maps["one pass rate"], abs=1e-12)
    removed = found.maps["removed"].dropna()
    assert removed.sum() == pytest.approx(value(found, "Brier skill"), abs=1e-12)

    per_query = placed.assign(
        ours=((p - answers) ** 2).mean(axis=1), theirs=((logistic - answers) ** 2).mean(axis=1)
    ).groupby("qid")[["ours", "theirs"]].mean()  # fmt: skip
    better = (per_query["ours"] < per_query["theirs"]).mean()
    assert value(found, "queries that scales help") == pytest.approx(better)

    low, high = np.percentile(gains.queries["tau"], [5, 95])
    assert value(found, "scales tau, p5 to p95") == pytest.approx(high / low)
    positive = documents.merge(labels, on=["qid", "docno"])["label"] > 0
    assert value(found, "AUC for labels' positives") == pytest.approx(roc_auc_score(positive, documents["theta"]))
    order = np.sort(beta)
    below, above = (documents["theta"] < order[0]).mean(), (documents["theta"] >= order[-2]).mean()
    assert value(found, "pool below Topicality") == pytest.approx(below)
    assert value(found, "pool at or above Coverage") == pytest.approx(above)
    fails = (documents[ids].sum(axis=1) == 0) & (documents["n"] > 0)
    assert value(found, "documents that fail everything") == pytest.approx(fails.mean())


def test_efficiency_of_real_runs_by_a_slow_loop():
    gains, _ = dl19()
    found = diagnose(gains, runs=dl19_runs()).systems.set_index("system")
    gamma, beta = gains.criteria["gamma"].to_numpy(), gains.criteria["beta"].to_numpy()

    def information(theta):
        p = expit(gamma * (theta - beta))
        return float((gamma**2 * p * (1 - p)).sum())

    peak = max(map(information, np.linspace(beta.min(), beta.max(), 20_001)))
    abilities = gains.documents.set_index(["qid", "docno"])["theta"].to_dict()
    from rcp_irx.trec import read_run

    for name in ("BM25", "REP_LLAMA"):
        run = read_run(dl19_runs()[name]).sort_values(["score", "docno"], ascending=False)
        means = []
        for qid, top in run[run["qid"].isin(gains.queries["qid"])].groupby("qid"):
            known = [abilities[qid, docno] for docno in top["docno"].head(10) if (qid, docno) in abilities]
            means.append(np.mean([information(theta) / peak for theta in known]))
        assert found.loc[name, "efficiency"] == pytest.approx(np.mean(means), abs=1e-6)
