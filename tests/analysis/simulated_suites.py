"""Suites whose answers follow the model, or break it on purpose, and DL19's criteria, as gain tables."""

from __future__ import annotations

import ast
import gzip
import json
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import pandas as pd
from scipy.special import expit

from rcp_irx import GainTable
from rcp_irx.calibration import centre, fit_2pl, gain
from rcp_irx.trec import read_qrels
from tests.conftest import data_folder

# Table 1 of the paper, rounded as printed.
GAMMA = np.array([1.17, 1.05, 0.94, 1.16, 0.69])
BETA = np.array([-2.57, -2.00, -0.25, 0.71, 4.12])
IDS = ("C1", "C2", "C3", "C4", "C5")


class Suite(NamedTuple):
    """Stage A scores (D,), pass counts (D, C), placements (D,) and query codes (D,); true abilities (D,)."""

    bt: np.ndarray
    passes: np.ndarray
    n: np.ndarray
    query: np.ndarray
    theta: np.ndarray


def drawn(p, n, random):
    """Answers as the model has them: independent given the ability."""
    return random.binomial(n, p)


def suite(
    queries: int = 100,
    documents: int = 100,
    n: int = 7,
    *,
    gamma=GAMMA,
    beta=BETA,
    scale_sd: float = 0.3,
    offset: float = -5.64,
    offset_sd: float = 1.5,
    seed: int = 0,
    abilities: Callable | None = None,
    answers: Callable = drawn,
) -> Suite:
    """A suite whose pools are like the paper's NanoBEIR (Table 7b, Figure 3)."""
    random = np.random.default_rng(seed)
    query = np.repeat(np.arange(queries), documents)
    tau = np.exp(random.normal(np.log(1.5), scale_sd, queries))
    alpha = random.normal(offset, offset_sd, queries)
    bt = centre(random.normal(0.0, 2.2, query.size), query)
    theta = tau[query] * bt + alpha[query]
    if abilities is not None:
        theta = abilities(theta, query, random)
        bt = centre((theta - alpha[query]) / tau[query], query)
    passes = answers(expit(np.asarray(gamma) * (theta[:, None] - np.asarray(beta))), n, random)
    return Suite(bt, passes, np.full(query.size, n), query, theta)


def table(suite: Suite, *, datasets: int = 1, ids=IDS, fit=None, excluded=False, **frozen) -> GainTable:
    """The gains of a suite: dataset "" or "d0", "d1" ..., queries "q0", "q1" ..., documents "0", "1" ..."""
    fit = fit or fit_2pl(suite.bt, suite.passes, suite.n, suite.query, **frozen)
    names = np.array([f"d{j % datasets}" if datasets > 1 else "" for j in range(len(fit.tau))], dtype=object)
    qids = np.array([f"q{j}" for j in range(len(fit.tau))], dtype=object)
    documents = pd.DataFrame(
        {
            "dataset": names[suite.query],
            "qid": qids[suite.query],
            "docno": [str(i) for i in range(len(suite.query))],
            "gain": gain(fit.theta, fit.gamma, fit.beta),
            "theta": fit.theta,
            "bt": suite.bt,
            "n": suite.n.astype(int),
            **{name: suite.passes[:, c].astype(int) for c, name in enumerate(ids)},
            "pool_rank": range(len(suite.query)),
            "excluded": excluded,
        }
    )
    queries = pd.DataFrame({"dataset": names, "qid": qids, "query": "why", "tau": fit.tau, "alpha": fit.alpha})
    criteria = pd.DataFrame({"id": ids, "name": ids, "question": ids, "gamma": fit.gamma, "beta": fit.beta})
    return GainTable(documents, queries, criteria, {"judge": "simulated"})


def runs(gains: GainTable, noises=(0.5, 1.0, 2.0), seed: int = 0) -> dict[str, pd.DataFrame]:
    """Systems that see the abilities through noise of these standard deviations."""
    random, documents = np.random.default_rng(seed), gains.documents
    return {
        f"noise {noise}": documents[["dataset", "qid", "docno"]].assign(
            score=documents["theta"] + random.normal(0, noise, len(documents))
        )
        for noise in noises
    }


LLMS = ("dl2019_test_4prompts_flant5large", "dl2019_test_4prompts_llama70b", "4_prompts_dl2019")
"""The three LLMs that graded DL19's passages by four criteria."""


def dl19(llm: str = LLMS[1]) -> tuple[GainTable, pd.DataFrame]:
    """Gains of DL19's passages from one LLM's grades (2 or more is a pass), and NIST's labels.

    There was no tournament: the mean grade that the other LLMs give stands in for the Bradley-Terry scores. A passage
    without one of the four grades counts as not placed.
    """
    labels = read_qrels(data_folder("dl19") / "qrels.dl19-passage.txt")
    graded = {name: _grades(name, labels) for name in LLMS}
    answers = graded[llm]
    n = answers.notna().all(axis=1).to_numpy().astype(int)
    passes = (answers >= 2).to_numpy() * n[:, None]
    others = pd.concat([graded[name] for name in LLMS if name != llm], axis=1).mean(axis=1)
    query, qids = pd.factorize(labels["qid"])
    fit = fit_2pl(centre(others, query), passes, n, query)
    made = table(Suite(centre(others, query), passes, n, query, fit.theta), ids=tuple(answers.columns), fit=fit)
    names = {f"q{j}": qid for j, qid in enumerate(qids)}
    documents = made.documents.assign(docno=labels["docno"], pool_rank=range(len(labels)))
    documents["qid"] = documents["qid"].map(names)
    queries = made.queries.assign(qid=made.queries["qid"].map(names))
    return GainTable(documents, queries, made.criteria, {"judge": llm}), labels


def dl19_runs() -> dict[str, str]:
    """The six runs' paths by name."""
    folder = data_folder("dl19") / "runs"
    return {path.name.removeprefix("dl19.").removesuffix(".txt.gz"): str(path) for path in sorted(folder.iterdir())}


def _grades(llm: str, labels: pd.DataFrame) -> pd.DataFrame:
    """Grades from 0 to 3 of four criteria for each labelled passage; NaN: none."""
    with gzip.open(data_folder("dl19") / f"criteria.{llm}.json.gz", "rt") as file:
        given = json.load(file)
    rows = {(str(query), docno): given[key] for key in given for query, docno in [ast.literal_eval(key)]}
    found = pd.DataFrame(list(rows.values()), index=pd.MultiIndex.from_tuples(rows), dtype=float)
    return found.reindex(pd.MultiIndex.from_frame(labels[["qid", "docno"]]))
