"""mteb's own loader reads what is written, from the folder and offline."""

from __future__ import annotations

import pandas as pd
import pytest

pytest.importorskip("pyarrow")
pytest.importorskip("mteb")

from rcp_irx import GainTable
from tests.released.folders import frame, table

pytestmark = pytest.mark.mteb

CORPUS = frame([("007", "A", "one"), ("b", "", "two"), ("NA", "C", "three"), ("z", "", "four")], "docno title text")


@pytest.fixture(autouse=True)
def offline(tmp_path, monkeypatch):
    import datasets

    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    monkeypatch.setattr(datasets.config, "HF_DATASETS_OFFLINE", True)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    datasets.disable_progress_bars()


def load(folder, subset, split="test"):
    from mteb.abstasks.retrieval_dataset_loaders import RetrievalDatasetLoader

    return RetrievalDatasetLoader(str(folder), None, split=split, config=subset).load()


@pytest.mark.parametrize("subset", ["x", "default"])
def test_mteb_loads_qrels_pools_queries_and_corpus(tmp_path, subset):
    gains = table(docnos=["007", "b", "NA"]).exclude(frame([("q1", "b")], "qid docno"))
    labels = frame([("q1", "007", 2), ("q2", "z", 1)], "qid docno label")
    gains.to_released(tmp_path / "r", subset, corpus=CORPUS, human_labels=labels)
    data = load(tmp_path / "r", subset)
    assert data["relevant_docs"] == {
        "q1": {"007": 2, "b": -1, "NA": -1},
        "q2": {"007": -1, "b": -1, "NA": -1, "z": 1},
    }
    assert data["top_ranked"] == {qid: ["007", "b", "NA"] for qid in ("q1", "q2")}
    assert {row["id"]: row["text"] for row in data["queries"]} == {"q1": "why", "q2": "why"}
    assert [(row["id"], row["title"], row["text"]) for row in data["corpus"]] == list(
        CORPUS.itertuples(index=False, name=None)
    )
    assert GainTable.from_released(tmp_path / "r", subset).documents.equals(gains.documents)


def test_each_subset_and_split_loads_on_its_own(tmp_path):
    gains = table(keys=(("one", "q1"), ("two", "q1")), docnos=["007", "b", "NA"])
    corpus = pd.concat([CORPUS.assign(dataset="one"), CORPUS.head(3).assign(dataset="two")])
    gains.to_released(tmp_path / "r", split="dev", corpus=corpus)
    for name, size in [("one", 4), ("two", 3)]:
        data = load(tmp_path / "r", name, "dev")
        levels = gains.select(name).qrels().set_index("docno")["label"].to_dict()
        assert data["relevant_docs"] == {"q1": levels}
        assert len(data["corpus"]) == size


def test_the_float_gains_are_a_config_of_their_own(tmp_path):
    import datasets

    gains = table().exclude(frame([("q1", "b")], "qid docno"))
    gains.to_released(tmp_path / "r", "x")
    rows = datasets.load_dataset(str(tmp_path / "r"), "x-gains", split="test")
    assert rows.column_names == ["query-id", "corpus-id", "gain"]
    scored = gains.documents[~gains.documents["excluded"]]
    assert list(rows["gain"]) == scored["gain"].tolist()
