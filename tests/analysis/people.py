"""A small study with people's grades, and every measure of agreement by plain loops over pairs and documents."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
from scipy import stats

from rcp_irx import GainTable
from rcp_irx.calibration import gain

KEYS = ["dataset", "qid", "docno"]
GAMMA, BETA = np.array([1.2, 1.0, 0.8]), np.array([-2.0, 0.0, 2.0])


def table(documents: pd.DataFrame, **columns: object) -> GainTable:
    """A table of documents given by `qid, docno, theta` and, where wanted, `bt, excluded, dataset`."""
    rows = documents.assign(gain=gain(documents["theta"].fillna(0), GAMMA, BETA), n=1, pool_rank=0, C1=1, C2=0, C3=0)
    rows = rows.assign(**{name: rows.get(name, value) for name, value in [("dataset", ""), ("excluded", False)]})
    rows["bt"] = rows.get("bt", rows["theta"])
    rows = rows.assign(**columns)
    queries = rows[["dataset", "qid"]].drop_duplicates().assign(query="text", tau=1.0, alpha=0.0)
    ids = ["C1", "C2", "C3"]
    criteria = pd.DataFrame({"id": ids, "name": ids, "question": ids, "gamma": GAMMA, "beta": BETA})
    return GainTable(rows, queries, criteria)


def study(seed: int = 1, queries: int = 12, datasets: tuple[str, ...] = ("",)):
    """Gains, three annotators' grades from 0 to 4 of some documents, graded qrels of others; scores and grades tie."""
    random = np.random.default_rng(seed)
    keys = [(d, f"q{q:02}", f"d{i:02}") for d in datasets for q in range(queries) for i in range(14)]
    rows = pd.DataFrame(keys, columns=KEYS)
    code = pd.factorize(pd.MultiIndex.from_frame(rows[KEYS[:2]]))[0]
    bt = np.round(random.normal(0, 1, len(rows)), 1)
    tau, alpha = random.uniform(0.7, 2, code.max() + 1), random.normal(-0.5, 1.5, code.max() + 1)
    rows = rows.assign(bt=bt - np.array([bt[code == c].mean() for c in code]))
    rows["theta"] = (tau[code] * rows["bt"] + alpha[code]).round(6)
    seen = rows[random.random(len(rows)) < 0.6]
    grades = pd.concat(
        [
            seen[KEYS].assign(annotator=name, grade=(2 + seen["theta"] + random.normal(0, 1.5, len(seen))).clip(0, 4))
            for name in "abc"
        ]
    )
    grades = grades.assign(grade=(2 * grades["grade"]).round() / 2)
    labels = rows[KEYS].assign(label=(rows["theta"] + random.normal(0, 2, len(rows)) > 1.5).astype(int))
    labels["label"] += (random.random(len(labels)) < 0.4) & (labels["label"] > 0)
    return table(rows), grades, labels[random.random(len(labels)) < 0.8]


def slow(gains: GainTable, grades: pd.DataFrame, qrels: pd.DataFrame, threshold: float) -> dict:
    """Every measure by loops over pairs and documents."""
    rows = grades.groupby(KEYS)["grade"].agg(["mean", "size"]).reset_index()
    pool = gains.documents
    pool["z"] = pool.groupby(KEYS[:2])["bt"].transform(lambda bt: (bt - bt.mean()) / bt.std(ddof=0))
    rows = rows.merge(pool, on=KEYS).merge(qrels, on=KEYS, how="left").fillna({"label": 0})
    rows["grade"] = rows["mean"].round(12)
    relevant, positive = (rows["grade"] >= threshold).to_numpy(), (rows["label"] >= 1).to_numpy()

    def auc(score, where=None):
        where = np.ones(len(score), bool) if where is None else where
        score = np.asarray(score, float)
        pairs = itertools.product(score[where & relevant], score[where & ~relevant])
        return np.mean([(s > o) + (s == o) / 2 for s, o in pairs])

    def spearman(x, y):
        return stats.spearmanr(x, y).statistic

    def concordance(score):
        alike = []
        for _, query in rows.assign(score=np.asarray(score, float)).groupby(KEYS[:2]):
            pairs = itertools.combinations(zip(query["grade"], query["score"], strict=True), 2)
            alike += [0.5 + 0.5 * np.sign(g1 - g2) * np.sign(s1 - s2) for (g1, s1), (g2, s2) in pairs if g1 != g2]
        return np.mean(alike)

    found = {
        ("AUC", "gain"): auc(rows["gain"]),
        ("AUC", "raw BT"): auc(rows["bt"]),
        ("AUC", "z(BT)"): auc(rows["z"]),
        ("AUC", "qrel positive"): auc(positive),
        ("AUC", "qrel label"): auc(rows["label"]),
        ("AUC at qrel 0", "gain"): auc(rows["gain"], ~positive),
        ("Spearman", "ability"): spearman(rows["theta"], rows["grade"]),
        ("Spearman", "raw BT"): spearman(rows["bt"], rows["grade"]),
        ("Spearman", "z(BT)"): spearman(rows["z"], rows["grade"]),
        ("concordance", "ability"): concordance(rows["theta"]),
        ("concordance", "qrel positive"): concordance(positive),
        ("concordance", "qrel label"): concordance(rows["label"]),
        ("relevant at qrel 0", "qrel positive"): relevant[~positive].mean(),
        ("not relevant at a positive qrel", "qrel positive"): 1 - relevant[positive].mean(),
        ("true positive rate", "qrel positive"): positive[relevant].mean(),
        ("false positive rate", "qrel positive"): positive[~relevant].mean(),
    }
    found["AUC", "gain less raw BT"] = found["AUC", "gain"] - found["AUC", "raw BT"]
    found["AUC", "gain less qrel positive"] = found["AUC", "gain"] - found["AUC", "qrel positive"]
    found["Spearman", "ability less raw BT"] = found["Spearman", "ability"] - found["Spearman", "raw BT"]

    cut = np.sort(rows["gain"])[::-1][positive.sum() - 1]
    above, at = (rows["gain"] > cut).to_numpy(), (rows["gain"] == cut).to_numpy()
    flagged = above + at * (positive.sum() - above.sum()) / at.sum()
    found["true positive rate", "gain"] = flagged[relevant].mean()
    found["false positive rate", "gain"] = flagged[~relevant].mean()

    means = rows.groupby(KEYS[:2])[["grade", "theta", "bt"]].mean()
    found["Spearman of query means", "ability"] = spearman(means["theta"], means["grade"])
    found["Spearman of query means", "raw BT"] = spearman(means["bt"], means["grade"])

    ordered = rows.sort_values([*KEYS[:2], "grade"])
    dealt = rows.sort_values([*KEYS[:2], "theta"])
    found["Spearman", "ceiling"] = spearman(dealt["theta"], ordered["grade"])
    found["Spearman", "ability, share of ceiling"] = found["Spearman", "ability"] / found["Spearman", "ceiling"]
    ranks = rows[KEYS[:2]].assign(x=stats.rankdata(rows["theta"]), y=stats.rankdata(rows["grade"]))
    shuffled = ranks.groupby(KEYS[:2])["x"].transform("mean")  # the expected rank; the product is linear in it
    spread = ranks["x"].std(ddof=0) * ranks["y"].std(ddof=0)
    found["Spearman", "floor"] = np.mean((shuffled - shuffled.mean()) * (ranks["y"] - ranks["y"].mean())) / spread

    single = grades.merge(rows[[*KEYS, "gain", "label"]], on=KEYS)
    yes = single["grade"] >= threshold
    bins = np.minimum((single["gain"] * 20).astype(int), 19)
    gaps = [abs(single["gain"][bins == b].mean() - yes[bins == b].mean()) * (bins == b).sum() for b in set(bins)]
    found["ECE", "gain"] = sum(gaps) / len(single)
    off = (single["gain"] - yes).groupby([bins, *(single[key] for key in KEYS[:2])]).sum()
    spread = np.sqrt((off**2).groupby(level=0).sum())  # of each bin, over its queries
    found["ECE", "chance alone"] = np.sqrt(2 / np.pi) * spread.sum() / len(single)
    measure = "agreement with one annotator"
    found[measure, "gain"] = ((single["gain"] >= 0.5) == yes).mean()
    found[measure, "qrel positive"] = ((single["label"] >= 1) == yes).mean()
    pairs = single.assign(yes=yes).merge(single.assign(yes=yes)[[*KEYS, "annotator", "yes"]], on=KEYS)
    pairs = pairs[pairs["annotator_x"] != pairs["annotator_y"]]
    alike = pairs.assign(alike=pairs["yes_x"] == pairs["yes_y"]).groupby([*KEYS, "annotator_x"])["alike"].mean()
    found[measure, "a second annotator"] = alike.mean()
    return found
