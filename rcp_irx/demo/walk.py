"""The whole path on the demo collection, told step by step: `rcp-irx demo`."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pandas as pd

from rcp_irx import LexicalJudge
from rcp_irx.demo.results import shared_trigrams
from rcp_irx.errors import MissingExtra
from rcp_irx.trec import write_qrels, write_run


def walk(folder: str | os.PathLike[str] | None = None, say: Callable[[str], None] = print) -> pd.DataFrame:
    """Index, retrieve, pool, judge, calibrate and evaluate the demo collection.

    Parameters
    ----------
    folder : path, optional
        Where index, log and gains are kept; a second run there asks the judge nothing. By default they are thrown away.

    Returns
    -------
    DataFrame
        The table of systems that `pt.Experiment` gives.
    """
    with tempfile.TemporaryDirectory() as scratch:
        place = os.fspath(folder or scratch)
        os.makedirs(place, exist_ok=True)
        return _walk(place, folder is not None, say)


def _walk(folder: str, kept: bool, say: Callable[[str], None]) -> pd.DataFrame:
    try:
        import pyterrier as pt
        from pyterrier_pisa import PisaIndex
    except ImportError as error:
        raise MissingExtra("pyterrier-pisa", "demo") from error
    from ir_measures import nDCG

    import rcp_irx.ir_datasets  # noqa: F401  (registers rcp-irx/demo)
    from rcp_irx import RCPJudge, RCPnDCG, RRFPool

    dataset: Any = pt.get_dataset("irds:rcp-irx/demo")
    topics, qrels = dataset.get_topics(), dataset.get_qrels()
    index = PisaIndex(os.path.join(folder, "index"), text_field="text", overwrite=True)
    with _quiet():
        index.index(dataset.get_corpus_iter(verbose=False))
        bm25, qld = index.bm25(num_results=50), index.qld(num_results=50)
        rerank = (
            bm25
            >> dataset.text_loader(["text"])
            >> pt.apply.doc_score(lambda row: shared_trigrams(row["query"], row["text"]))
        )
        systems = {"BM25": bm25, "QLD": qld, "BM25 >> trigrams": rerank}
        for system in systems.values():
            system.search("warm up")  # PISA prepares a scorer at its first query
    say(f"Collection: {len(topics)} topics, {len(index)} passages, {len(qrels)} labels (0 to 3).")

    pool = RRFPool(list(systems.values()), num_results=30, qrels=qrels, add="positives") >> dataset.text_loader(
        ["text"]
    )
    judge = RCPJudge(LexicalJudge(), log=os.path.join(folder, "demo.judgments"))
    earlier = int(judge.log.usage()["calls"].sum())
    judged = (pool >> judge)(topics)
    calls = int(judge.log.usage()["calls"].sum()) - earlier
    say(f"Pools: {len(judged)} pairs of topic and passage, fused from {len(systems)} rankers, every positive included.")
    say(f"Judge: {judge.judge.name}; {calls} windows asked{f', {earlier} were in the log' if earlier else ''}.")

    gains = judge.log.calibrate()
    fit = gains.metadata["fit"]
    steps, norm = fit["n_iter"], fit["gradient_norm"]
    say(f"Calibration: the 2PL converged in {steps} steps (gradient {norm:.0e}); fit {gains.fit_id}.")
    say("")
    criteria = gains.criteria[["id", "name", "gamma", "beta"]].rename(
        columns={"gamma": "gamma (discrimination)", "beta": "beta (difficulty)"}
    )
    say(criteria.to_string(index=False, float_format="%.2f"))
    say("")

    table = pt.Experiment(
        list(systems.values()),
        topics,
        gains.qrels(qrels),
        eval_metrics=[nDCG @ 10, RCPnDCG @ 10],
        names=list(systems),
    )
    say("nDCG reads the labels, RCPnDCG the gains. The judge is lexical as the rankers are, so RCPnDCG is high:")
    say(table.to_string(index=False, float_format="%.4f"))
    say("")
    say("A lexical stand-in judged here, not a language model: these gains show the path, not which system is better.")
    if kept:
        place = os.path.join(folder, "demo.gains")
        gains.save(place, overwrite=True)
        for name, system in systems.items():
            write_run(system(topics), os.path.join(folder, f"{name.split()[-1].lower()}.run"))
        write_qrels(qrels, os.path.join(folder, "demo.qrels"))
        say(f"Kept in {folder}: demo.judgments (the log), demo.gains (GainTable.load reads it), runs and qrels (TREC).")
    return table


@contextmanager
def _quiet() -> Iterator[None]:
    """Keep what PISA's native code prints, on both streams, and its warnings about defaults off the screen."""
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    saved = [os.dup(1), os.dup(2)]
    try:
        with open(os.devnull, "w") as nowhere, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            os.dup2(nowhere.fileno(), 1)
            os.dup2(nowhere.fileno(), 2)
            yield
    finally:
        for number, stream in enumerate(saved, start=1):
            os.dup2(stream, number)
            os.close(stream)
