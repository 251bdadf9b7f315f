"""The demo collection as an ir_datasets dataset and as a PyTerrier dataset."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys

import pandas as pd
import pytest

from rcp_irx import demo
from rcp_irx.errors import RCPError

ir_datasets = pytest.importorskip("ir_datasets")

import rcp_irx.ir_datasets  # noqa: E402  (needs ir_datasets)


@pytest.fixture
def dataset():
    return ir_datasets.load("rcp-irx/demo")


@pytest.fixture
def pyterrier_dataset():
    return pytest.importorskip("pyterrier").get_dataset("irds:rcp-irx/demo")


def test_documents_come_back_as_bundled(dataset):
    assert [tuple(doc) for doc in dataset.docs_iter()] == demo.documents()
    assert dataset.docs_cls()._fields == ("doc_id", "text")
    assert dataset.docs_count() == 165
    assert dataset.docs_lang() == "en"


def test_documents_can_be_sliced_as_in_other_datasets(dataset):
    assert [doc.doc_id for doc in dataset.docs_iter()[3:5]] == ["d004", "d005"]
    assert dataset.docs_iter()[-1].doc_id == "d165"


def test_queries_come_back_as_bundled(dataset):
    assert [tuple(query) for query in dataset.queries_iter()] == demo.topics()
    assert dataset.queries_cls()._fields == ("query_id", "text")
    assert dataset.queries_count() == 10
    assert dataset.queries_lang() == "en"


def test_qrels_come_back_as_bundled_with_their_definitions(dataset):
    assert [(qrel.query_id, qrel.doc_id, qrel.relevance) for qrel in dataset.qrels_iter()] == demo.qrels()
    assert dataset.qrels_defs() == demo.LABELS
    assert dataset.qrels_count() == 165
    assert len(dataset.qrels_dict()) == 10


def test_documentation_names_the_collection(dataset):
    assert dataset.dataset_id() == "rcp-irx/demo"
    assert dataset.documentation()["pretty_name"] == "rcp-irx demo"


def test_metadata_counts_the_labels(dataset):
    counts = dataset.qrels_metadata()["fields"]["relevance"]["counts_by_value"]
    assert counts == {3: 32, 2: 41, 1: 50, 0: 42}
    assert dataset.docs_metadata()["fields"]["doc_id"]["max_len"] == 4


def test_the_store_finds_documents_by_id(dataset):
    texts = dict(demo.documents())
    store = dataset.docs_store()
    assert store.get("d007").text == texts["d007"]
    assert {key: doc.text for key, doc in store.get_many(["d165", "d001"]).items()} == {
        "d001": texts["d001"],
        "d165": texts["d165"],
    }


def test_the_store_treats_unknown_ids_as_other_stores_do(dataset):
    store = dataset.docs_store()
    assert store.get_many(["nowhere"]) == {}
    with pytest.raises(KeyError, match="nowhere"):
        store.get("nowhere")


def test_the_store_refuses_to_look_up_by_another_field(dataset):
    with pytest.raises(RCPError, match="'doc_id', not by 'text'"):
        dataset.docs_store("text")


def test_the_collection_is_registered_once_however_often_the_module_runs(dataset):
    importlib.reload(rcp_irx.ir_datasets)
    assert list(ir_datasets.registry).count("rcp-irx/demo") == 1
    assert ir_datasets.load("rcp-irx/demo") is dataset


def run_python(code: str, **environment: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=False
    )
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_no_file_is_written_into_the_home_of_ir_datasets(tmp_path):
    run_python(
        "import ir_datasets, rcp_irx.ir_datasets\n"
        "dataset = ir_datasets.load('rcp-irx/demo')\n"
        "assert len(list(dataset.docs_iter())) == 165\n"
        "assert dataset.docs_store().get('d001').text\n"
        "assert len(list(dataset.queries_iter())) == 10 and len(list(dataset.qrels_iter())) == 165\n",
        IR_DATASETS_HOME=str(tmp_path),
    )
    assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


def test_without_ir_datasets_the_error_names_the_install_line():
    printed = run_python(
        "import sys\n"
        "import rcp_irx\n"
        "for name in [name for name in sys.modules if name.split('.')[0] == 'ir_datasets']:\n"
        "    del sys.modules[name]\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'ir_datasets':\n"
        "            raise ModuleNotFoundError(name, name=name)\n"
        "sys.meta_path.insert(0, Missing())\n"
        "try:\n"
        "    import rcp_irx.ir_datasets\n"
        "except rcp_irx.MissingExtra as error:\n"
        "    print(error)\n"
    )
    assert printed.strip() == "ir_datasets is not installed; run: pip install 'rcp-irx[ir_datasets]'"


def test_pyterrier_reads_topics_and_qrels(pyterrier_dataset):
    topics = pyterrier_dataset.get_topics()
    assert list(topics[["qid", "query"]].itertuples(index=False, name=None)) == demo.topics()
    qrels = pyterrier_dataset.get_qrels()
    assert list(qrels[["qid", "docno", "label"]].itertuples(index=False, name=None)) == demo.qrels()


def test_pyterrier_iterates_over_the_corpus(pyterrier_dataset):
    corpus = list(pyterrier_dataset.get_corpus_iter(verbose=False))
    assert [(doc["docno"], doc["text"]) for doc in corpus] == demo.documents()
    part = pyterrier_dataset.get_corpus_iter(verbose=False, start=10, count=2)
    assert [doc["docno"] for doc in part] == ["d011", "d012"]


def test_pyterrier_loads_the_texts_of_a_ranking_in_its_order(pyterrier_dataset):
    ranking = pd.DataFrame({"qid": ["1", "1", "2"], "docno": ["d100", "d002", "d100"]})
    loaded = pyterrier_dataset.text_loader(["text"])(ranking)
    texts = dict(demo.documents())
    assert loaded["text"].tolist() == [texts["d100"], texts["d002"], texts["d100"]]
