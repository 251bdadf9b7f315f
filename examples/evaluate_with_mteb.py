"""Evaluate search models in MTEB with RCP-nDCG beside its own scores, offline: a task in memory, two BM25 models.

Run it from a clone: pip install -e '.[mteb]' bm25s && python examples/evaluate_with_mteb.py
"""

import re
import tempfile

import mteb
from datasets import Dataset
from mteb.abstasks import AbsTaskRetrieval
from mteb.abstasks.task_metadata import TaskMetadata
from mteb.models.model_implementations.bm25 import BM25Search

from rcp_irx import demo
from rcp_irx.demo import results
from rcp_irx.mteb import leaderboard, score_predictions, with_rcp


class Demo(AbsTaskRetrieval):
    """The bundled demo collection as a task. Yours: the name of any retrieval or reranking task of mteb."""

    metadata = TaskMetadata(
        name="RCPDemo",
        description="Ten topics over 165 short passages.",
        type="Retrieval",
        dataset={"path": "none", "revision": "1"},
        eval_langs=["eng-Latn"],
        main_score="ndcg_at_10",
    )

    def load_data(self, num_proc=None, **kwargs):
        labels = {qid: {} for qid, _ in demo.topics()}
        for qid, docno, label in demo.qrels():
            labels[qid][docno] = label
        corpus = Dataset.from_list([{"id": docno, "text": text} for docno, text in demo.documents()])
        queries = Dataset.from_list([{"id": qid, "text": query} for qid, query in demo.topics()])
        split = {"corpus": corpus, "queries": queries, "relevant_docs": labels, "top_ranked": None}
        self.dataset, self.data_loaded = {"default": {"test": split}}, True


def bm25(name, **settings):
    """A model over bm25s without a stemmer. Yours: mteb.get_model("...")."""
    model = BM25Search(tokenizer=lambda text: re.findall(r"\w+", text.lower()), **settings)
    model.mteb_model_meta = mteb.get_model_meta("mteb/baseline-bm25s").model_copy(update={"name": name})
    return model


gains = results.gains()  # judged by a stand-in without a language model. Yours: GainTable.load("my.gains")
task = with_rcp(Demo(), gains, k_values=[5, 10])
models = [bm25("demo/bm25"), bm25("demo/bm25-without-length", b=0.0)]

with tempfile.TemporaryDirectory() as folder:
    cache = mteb.ResultCache(f"{folder}/cache")
    found = [
        mteb.evaluate(model, task, cache=cache, prediction_folder=f"{folder}/{model.mteb_model_meta.name}")
        for model in models
    ]
    scores = found[0].task_results[0].scores["test"][0]
    print(f"\n{task.metadata.name}, {found[0].model_name}:")
    for name in ["ndcg_at_10", "rcp_ndcg_at_10", "count_ndcg_at_10", "rcp_judged_at_10"]:
        print(f"  {name} {scores[name]:.4f}")

    # Models x tasks, with ranks under each metric and the change of rank.
    board = leaderboard(found)
    print(f"\n{board.round(3).T.to_string()}\n")
    print(*board.attrs["notes"], sep="\n")

    # Saved predictions are scored without a model, with other gains or options, query by query.
    frame = score_predictions(folder, gains, tasks=[Demo()], k_values=[10], per_query=True)
    print(f"\n{frame.pivot(index='qid', columns='model', values='rcp_ndcg_at_10').round(3).to_string()}")
