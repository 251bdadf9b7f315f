"""pool: candidates, texts as mteb shows them, and what is not there."""

from __future__ import annotations

import json

import numpy as np
import pytest

pytest.importorskip("mteb", reason="mteb is not installed: pip install 'rcp-irx[mteb]'")

from datasets import Dataset
from mteb._create_dataloaders import create_dataloader
from mteb.mocks import (
    MockAny2AnyRetrievalI2TTask,
    MockInstructionReranking,
    MockMultilingualRerankingTask,
    MockRerankingTask,
    MockRetrievalDialogTask,
    MockRetrievalTask,
)
from mteb.types import PromptType

from rcp_irx import LexicalJudge, RCPError, RCPWarning
from rcp_irx.documents import pools
from rcp_irx.judging.log import JudgmentLog
from rcp_irx.judging.protocol import FULL
from rcp_irx.judging.rubric import Rubric
from rcp_irx.judging.runner import PoolRunner
from rcp_irx.mteb import pool, with_rcp
from tests.mteb.collection import LABELS, QUERIES, TEXTS, OneSubset, TwoSubsets, bm25, evaluate, gains

pytestmark = [pytest.mark.mteb, pytest.mark.filterwarnings("ignore::DeprecationWarning")]

COLUMNS = ["dataset", "qid", "query", "docno", "text", "pool_rank", "task"]


def loaded(task, **part):
    """The task with a change in the data of its first subset and split."""
    task.load_data()
    splits = next(iter(task.dataset.values()))
    next(iter(splits.values())).update(part)
    return task


def write(folder, content, name="InMemory"):
    folder.mkdir(exist_ok=True)
    (folder / f"{name}_predictions.json").write_text(json.dumps(content))
    return folder


def predicted(results, subset="default", split="test"):
    return {"mteb_model_meta": {"model_name": "m", "revision": "r"}, subset: {split: results}}


def test_top_ranked():
    frame = pool(MockRerankingTask(), split="test")
    assert frame.columns.tolist() == COLUMNS
    rows = frame[["qid", "docno", "pool_rank"]].to_numpy().tolist()
    assert rows == [["q1", "d1", 0], ["q1", "d2", 1], ["q2", "d2", 0], ["q2", "d1", 1]]
    assert set(frame["dataset"]) == {"MockRerankingTask"}
    assert frame["query"].tolist()[0] == "This is a test sentence"
    assert set(frame["task"]) == {"Retrieve text based on user query."}


def test_subsets_are_datasets():
    frame = pool(MockMultilingualRerankingTask(), split="test")
    assert frame.groupby("dataset").size().to_dict() == {"eng": 4, "fra": 4}


def test_the_tasks_own_instruction(tmp_path):
    evaluate(bm25(), TwoSubsets(), prediction_folder=tmp_path)
    assert set(pool(TwoSubsets(), tmp_path)["task"]) == {"Find help"}


@pytest.mark.parametrize("task", [MockRetrievalTask, MockInstructionReranking, MockRetrievalDialogTask])
@pytest.mark.filterwarnings("ignore:Conversations are")
def test_texts_are_those_that_mteb_shows_to_models(task, tmp_path):
    run = write(tmp_path, predicted({q: {"d1": 1.0, "d2": 0.5} for q in ("q1", "q2")}), task.metadata.name)
    frame = pool(task(), run, split="test")
    whole = loaded(task())
    part = whole.dataset["default"]["test"]
    for column, key, kind in [("text", "docno", PromptType.document), ("query", "qid", PromptType.query)]:
        data = part["corpus" if kind is PromptType.document else "queries"]
        shown = create_dataloader(data, task_metadata=whole.metadata, prompt_type=kind)
        expected = {i: text for batch in shown for i, text in zip(batch["id"], batch["text"], strict=True)}
        assert dict(zip(frame[key], frame[column], strict=True)) == expected


def test_titles_that_are_missing_or_empty():
    corpus = [
        {"id": "d1", "title": "Title", "text": " body "},
        {"id": "d2", "title": "", "text": " body "},
        {"id": "d3", "title": None, "text": "body"},
    ]
    task = loaded(OneSubset(), corpus=Dataset.from_list(corpus), top_ranked={QUERIES[0][0]: ["d1", "d2", "d3"]})
    with pytest.warns(RCPWarning, match="no candidates for 9 queries"):
        assert pool(task)["text"].tolist() == ["Title  body", "body", "body"]


def test_predictions_of_one_model(tmp_path):
    evaluate(bm25(), OneSubset(), prediction_folder=tmp_path)
    frame = pool(OneSubset(), tmp_path, num_results=7)
    results = json.loads((tmp_path / "InMemory_predictions.json").read_text())["default"]["test"]
    assert frame.groupby("qid").size().to_dict() == dict.fromkeys(LABELS, 7)
    for qid, rows in frame.groupby("qid"):
        best = sorted(results[qid], key=lambda d, scores=results[qid]: (scores[d], d), reverse=True)
        assert rows["docno"].tolist() == best[:7]
        assert rows["pool_rank"].tolist() == list(range(7))
    assert len(pool(OneSubset(), tmp_path)) == len(LABELS) * 150
    assert pool(with_rcp(OneSubset(), gains()), tmp_path / "InMemory_predictions.json", num_results=7).equals(frame)


def test_predictions_of_several_models_are_fused_by_reciprocal_ranks(tmp_path):
    ids = [d for d, _ in TEXTS[:4]]
    first = {qid: dict(zip(ids, [4.0, 3.0, 2.0], strict=False)) for qid in LABELS}
    second = {qid: dict(zip(ids[1:], [9.0, 8.0, 7.0], strict=False)) for qid in LABELS}
    runs = [write(tmp_path / "a", predicted(first)), write(tmp_path / "b", predicted(second))]
    frame = pool(OneSubset(), runs)
    # ranks: d0 1; d1 2 and 1; d2 3 and 2; d3 3
    assert frame["docno"].tolist()[:4] == [ids[1], ids[2], ids[0], ids[3]]


def test_the_frame_is_what_a_judge_takes_and_its_gains_fit_the_task(tmp_path):
    evaluate(bm25(), OneSubset(), prediction_folder=tmp_path)
    log = JudgmentLog(None)
    for one in pools(pool(OneSubset(), tmp_path, num_results=10), task="Find it"):
        PoolRunner(one, LexicalJudge(), Rubric.load(), FULL.scaled(0.2), log).run()
    scores = evaluate(bm25(), with_rcp(OneSubset(), log.calibrate()))["default"]
    assert scores["rcp_judged_at_10"] == 1.0
    assert 0 < scores["rcp_ndcg_at_10"] <= 1


def test_the_task_is_not_changed(tmp_path):
    task = OneSubset()
    evaluate(bm25(), task, prediction_folder=tmp_path)
    before = dict(vars(task))
    pool(task, tmp_path)
    assert vars(task) == before


def test_only_queries_that_the_task_scores():
    labels = {qid: dict(docs) for qid, docs in LABELS.items()}
    gone, *others = labels
    labels[gone] = {}
    task = loaded(OneSubset(), relevant_docs=labels, top_ranked={qid: [TEXTS[0][0]] for qid in LABELS})
    assert pool(task)["qid"].tolist() == others


def test_candidates_that_the_corpus_lacks_are_left_out_and_named():
    first, second = TEXTS[0][0], TEXTS[1][0]
    task = loaded(OneSubset(), top_ranked={qid: [first, "nowhere", second] for qid in LABELS})
    with pytest.warns(RCPWarning, match="InMemory, default, test: the corpus lacks 1 candidate, left out: 'nowhere'"):
        frame = pool(task)
    assert frame["docno"].tolist()[:2] == [first, second]
    assert frame["pool_rank"].tolist()[:2] == [0, 1]
    with pytest.raises(RCPError, match="the corpus holds no candidate; candidates are 'nowhere'"):
        pool(loaded(OneSubset(), top_ranked={qid: ["nowhere"] for qid in LABELS}))


def test_a_filter_of_the_corpus_is_no_pool():
    corpus = Dataset.from_list([{"id": str(i), "text": "text"} for i in range(1001)])
    task = loaded(OneSubset(), corpus=corpus, top_ranked={qid: [str(i) for i in range(1001)] for qid in LABELS})
    with pytest.warns(RCPWarning, match="up to 1001 candidates a query"):
        pool(task)


def test_predictions_of_another_task_are_refused(tmp_path):
    evaluate(bm25(), TwoSubsets(), prediction_folder=tmp_path)
    with pytest.raises(RCPError, match=r"no InMemory_predictions.json in .*; found: 'InMemoryTwo_predictions.json'"):
        pool(OneSubset(), tmp_path)
    other = tmp_path / "InMemoryTwo_predictions.json"
    with pytest.raises(
        RCPError, match=r"InMemoryTwo_predictions\.json is of the task 'InMemoryTwo', not of 'InMemory'"
    ):
        pool(OneSubset(), other)
    same = write(tmp_path / "same", predicted({qid: {TEXTS[0][0]: 1.0} for qid in LABELS}), "Other")
    with pytest.raises(RCPError, match="is of the task 'Other', not of 'InMemory'"):  # though all of it would fit
        pool(with_rcp(OneSubset(), gains()), same / "Other_predictions.json")
    free = other.rename(tmp_path / "run.json")  # a name that tells nothing
    with pytest.raises(RCPError, match=r"has no subset 'default' with split 'test'; it has \('one', 'test'\)"):
        pool(OneSubset(), free)
    strange = write(tmp_path / "strange", predicted({"q77": {"d": 1.0}}))
    with pytest.raises(RCPError, match="its queries 'q77' are not those of the task"):
        pool(OneSubset(), strange)
    with pytest.raises(RCPError, match="found: no such folder"):
        pool(OneSubset(), tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(RCPError, match="found: no prediction file"):
        pool(OneSubset(), tmp_path / "empty")


def test_other_bad_input(tmp_path):
    with pytest.raises(RCPError, match="InMemory, default, test: the task has no top_ranked; give a folder"):
        pool(OneSubset())
    with pytest.raises(RCPError, match=r"evaluates the splits 'test', 'val': give one as split=, not None"):
        pool(MockRetrievalTask())
    with pytest.raises(RCPError, match="not 'train'"):
        pool(OneSubset(), split="train")
    with pytest.raises(RCPError, match="predictions names no folder"):
        pool(OneSubset(), [])
    for wrong in (0, 2.5, "3", True, [3]):
        with pytest.raises(RCPError, match="num_results is a whole number"):
            pool(MockRerankingTask(), split="test", num_results=wrong)
    assert len(pool(MockRerankingTask(), split="test", num_results=np.int64(1))) == 2
    for wrong in (3, [3], [None]):
        with pytest.raises(RCPError, match="predictions must be given as a path, not"):
            pool(OneSubset(), wrong)
    images = write(tmp_path, predicted({q: {"d1": 1.0, "d2": 0.5} for q in ("q0", "q1")}), "MockAny2AnyRetrievalI2T")
    with pytest.raises(RCPError, match="the queries have no texts"):
        pool(MockAny2AnyRetrievalI2TTask(), images, split=MockAny2AnyRetrievalI2TTask.metadata.eval_splits[0])
