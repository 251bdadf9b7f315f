"""TREC Deep Learning 2019 as the analysis reads it: six runs, NIST's labels, a gain table of one LLM's answers."""

from __future__ import annotations

import functools
from pathlib import Path

import pandas as pd

from rcp_irx import GainTable
from rcp_irx.calibration import gain
from rcp_irx.trec import read_qrels
from tests.conftest import data_folder
from tests.evaluation.test_trec_runs import RUNS, calibrated, grades

SHORT = {"SPLADE_P_P_ENSEMBLE_DISTIL": "SPLADE", "D_BERT_KD_TASB": "TAS-B", "OPEN_AI_ADA2": "ada-2"}


def paths() -> dict[str, Path]:
    """The runs' files by short names."""
    folder = data_folder("dl19") / "runs"
    return {SHORT.get(name, name): folder / f"dl19.{name}.txt.gz" for name in RUNS}


@functools.cache
def nist() -> pd.DataFrame:
    return read_qrels(data_folder("dl19") / "qrels.dl19-passage.txt")


@functools.cache
def table(llm: str = "dl2019_test_4prompts_llama70b") -> GainTable:
    """The gains of one LLM's answers, a grade of 2 or more being a pass; the other LLMs' stand in for a tournament."""
    labels, (fit, _) = nist(), calibrated(llm)
    passes = (grades(llm) >= 2).to_numpy().astype(int)
    ids = [f"C{c + 1}" for c in range(passes.shape[1])]
    documents = labels[["qid", "docno"]].assign(
        dataset="dl19", gain=gain(fit.theta, fit.gamma, fit.beta), theta=fit.theta, bt=fit.theta, n=1, excluded=False
    )
    documents["pool_rank"] = documents.groupby("qid").cumcount()
    qids = labels["qid"].unique()
    queries = pd.DataFrame({"dataset": "dl19", "qid": qids, "query": qids, "tau": fit.tau, "alpha": fit.alpha})
    criteria = pd.DataFrame({"id": ids, "name": ids, "question": ids, "gamma": fit.gamma, "beta": fit.beta})
    return GainTable(documents.assign(**dict(zip(ids, passes.T, strict=True))), queries, criteria, {"judge": llm})
