"""Tasks, gains and a search model for the tests of rcp_irx.mteb: all in memory, nothing is downloaded."""

from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("mteb", reason="mteb is not installed: pip install 'rcp-irx[mteb]'")
pytest.importorskip("bm25s", reason="bm25s is not installed")

import mteb
from datasets import Dataset
from mteb.abstasks import AbsTaskRetrieval
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.models.model_implementations.bm25 import BM25Search

from rcp_irx import GainTable, demo
from tests.evaluation.test_measures import table

TEXTS, QUERIES = demo.documents(), demo.topics()
LABELS = {qid: {d: label for q, d, label in demo.qrels() if q == qid} for qid, _ in QUERIES}


def metadata(name: str, langs: object, **more: object) -> TaskMetadata:
    return TaskMetadata(
        name=name,
        description="In memory.",
        type="Retrieval",
        dataset={"path": "none", "revision": "r1"},
        eval_langs=langs,
        main_score="ndcg_at_10",
        **more,
    )


def split_data(turn: int = 0, **more: object) -> dict:
    """The demo collection; with a turn every document has another one's text, so that rankings differ."""
    docnos, texts = [d for d, _ in TEXTS], [t for _, t in TEXTS]
    corpus = [{"id": d, "text": t} for d, t in zip(docnos, texts[turn:] + texts[:turn], strict=True)]
    return {
        "corpus": Dataset.from_list(corpus),
        "queries": Dataset.from_list([{"id": q, "text": t} for q, t in QUERIES]),
        "relevant_docs": {qid: dict(docs) for qid, docs in LABELS.items()},
        "top_ranked": None,
        **more,
    }


class OneSubset(AbsTaskRetrieval):
    metadata = metadata("InMemory", ["eng-Latn"])

    def load_data(self, num_proc: int | None = None, **kwargs: object) -> None:
        self.dataset = {"default": {"test": split_data()}}
        self.data_loaded = True


class TwoSubsets(AbsTaskRetrieval):
    """Two subsets that share query and document ids, and two splits."""

    metadata = metadata(
        "InMemoryTwo", {"one": ["eng-Latn"], "two": ["eng-Latn"]}, eval_splits=["test"], prompt={"query": "Find help"}
    )

    def load_data(self, num_proc: int | None = None, **kwargs: object) -> None:
        self.dataset = {"one": {"test": split_data()}, "two": {"test": split_data(40)}}
        self.data_loaded = True


def words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def bm25(name: str = "test/bm25", **options: object) -> BM25Search:
    """mteb's own BM25 over bm25s; a tokenizer is given so that no stemmer is needed."""
    model = BM25Search(tokenizer=words, **options)
    model.mteb_model_meta = mteb.get_model_meta("mteb/baseline-bm25s").model_copy(update={"name": name})
    return model


def gains(*datasets: str, seed: int = 1, share: float = 0.8, name: str = "study", **fit: str) -> GainTable:
    """Random gains of most labelled documents, and of some others, different in each dataset."""
    random = np.random.default_rng(seed)
    rows = []
    for dataset in datasets or ("",):
        for qid, labels in LABELS.items():
            pool = [d for d, _ in TEXTS if random.random() < (share if d in labels else share / 10)]
            rows += [[dataset, qid, d, float(random.random()), rank, False] for rank, d in enumerate(pool)]
    made = table(rows, name)
    made.metadata.update(fit)
    return made


def evaluate(model: object, task: object, **options: object) -> dict[str, dict]:
    """The scores of each subset of a task that has one split."""
    options.setdefault("cache", None)
    result = mteb.evaluate(model, task, show_progress_bar=False, **options)
    (task_result,) = result.task_results
    (subsets,) = task_result.scores.values()
    return {scores["hf_subset"]: scores for scores in subsets}
