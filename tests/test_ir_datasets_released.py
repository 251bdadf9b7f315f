"""Released suites registered by name: from folders in both layouts and from a stand-in for the Hub, read late."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from functools import partial

import numpy as np
import pandas as pd
import pytest

from rcp_irx import GainTable, RCPError, RCPWarning
from rcp_irx.demo import results

ir_datasets = pytest.importorskip("ir_datasets", reason="ir_datasets is not installed")
pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")
pytestmark = pytest.mark.filterwarnings("ignore:. queries of 'rcp-irx/demo' without gains left out")

from rcp_irx.ir_datasets import register_released  # noqa: E402
from rcp_irx.ir_datasets.released import SUITES, Suite  # noqa: E402
from tests import in_memory  # noqa: E402

SIZES = {"nanobeir": 13, "bright": 12, "vidore-v3": 8, "trecdl": 2}


@pytest.fixture
def suite(monkeypatch, request):
    """A suite of its own for each test, over the demo collection; ir_datasets has no way to take an id back."""
    name = request.node.name.replace("test_", "").replace("_", "-")
    subsets = {"first-half": "rcp-irx/demo", "second-half": "rcp-irx/demo", "elsewhere": "no-such/dataset"}
    monkeypatch.setitem(SUITES, name, Suite("rcp-ndcg-test", subsets, {"2nd": "second-half"}, "demo"))
    return name


def halves(first="DemoFirstHalfRetrieval", second="demo_2nd"):
    """The demo's gains with their labels, as two datasets of one fit."""
    gains, labels = in_memory.demo_gains(), results.qrels()

    def named(frame):
        names = np.where(frame["qid"].astype(int) <= 5, first, second)
        return frame.drop(columns="dataset", errors="ignore").assign(dataset=names)

    documents, queries = named(gains.documents), named(gains.queries)
    return GainTable(documents, queries, gains.criteria, gains.metadata, human_labels=named(labels))


@pytest.fixture(scope="module")
def released(tmp_path_factory):
    return halves().to_released(tmp_path_factory.mktemp("released") / "demo")


class HubStandIn:
    """Answers as huggingface_hub.HfApi does, from a folder; counts what is asked."""

    def __init__(self, folder, offline=False):
        self.folder, self.offline, self.asked = folder, offline, []

    def list_repo_files(self, repo_id, repo_type, revision):
        self.asked.append(("list", repo_id, revision))
        if self.offline:
            raise OSError("no network")
        return sorted(file.relative_to(self.folder).as_posix() for file in self.folder.rglob("*") if file.is_file())

    def snapshot_download(self, repo_id, repo_type, revision, allow_patterns=None, local_files_only=False):
        self.asked.append(("download", repo_id, revision))
        if self.folder is None:
            raise OSError("nothing fetched")
        return str(self.folder)


def test_the_suites_are_those_of_the_paper_over_documents_that_ir_datasets_has():
    assert {name: len(suite.subsets) for name, suite in SUITES.items() if name in SIZES} == SIZES
    assert {name: suite.repository for name, suite in SUITES.items() if name in SIZES} == {
        "nanobeir": "rcp-ndcg-nanobeir",
        "bright": "rcp-ndcg-bright",
        "vidore-v3": "rcp-ndcg-vidore-v3",
        "trecdl": "rcp-ndcg-trecdl",
    }
    known = set(ir_datasets.registry)
    bases = {base for name in SIZES for base in SUITES[name].subsets.values()} - {None}
    assert len(bases) == 13 + 12 + 2
    assert {base for base in bases if base.startswith("msmarco")} == {
        "msmarco-passage/trec-dl-2019/judged",
        "msmarco-passage/trec-dl-2020/judged",
    }
    if "bright" in known:
        assert bases <= known
    if "nano-beir" in known:
        assert {base for base in known if base.startswith("nano-beir/")} <= bases
    assert set(SUITES["vidore-v3"].subsets.values()) == {None}


@pytest.mark.parametrize(
    ("suite", "name", "subset"),
    [
        ("nanobeir", "NanoArguAnaRetrieval", "arguana"),
        ("nanobeir", "arguana", "arguana"),
        ("nanobeir", "NanoDBPediaRetrieval", "dbpedia-entity"),
        ("nanobeir", "NanoClimateFEVER", "climate-fever"),
        ("nanobeir", "NanoFiQA2018Retrieval", "fiqa"),
        ("nanobeir", "NanoTouche2020Retrieval", "webis-touche2020"),
        ("nanobeir", "NanoMSMARCORetrieval", "msmarco"),
        ("nanobeir", "NanoQuoraRetrieval", "quora"),
        ("nanobeir", "NanoNQ", "nq"),
        ("bright", "BrightTheoremQATheoremsRetrieval", "theoremqa-theorems"),
        ("bright", "theoremqa_questions", "theoremqa-questions"),
        ("bright", "earth_science", "earth-science"),
        ("vidore-v3", "vidore_v3_finance_en", "finance-en"),
        ("vidore-v3", "Vidore3ComputerScienceOCRRetrieval", "computer-science"),
        ("vidore-v3", "hr", "hr"),
        ("trecdl", "trec-dl-2019", "2019"),
        ("trecdl", "dl20", "2020"),
        ("trecdl", "2020", "2020"),
        ("nanobeir", "biology", None),
        ("nanobeir", "arguana-gpt-oss-120b", None),
        ("bright", "biology-long", None),
        ("nanobeir", "nano", None),
        ("nanobeir", "default", None),
    ],
)
def test_a_subset_is_known_however_it_is_spelled(suite, name, subset):
    assert SUITES[suite].subset_of(name) == subset


def test_a_folders_subsets_are_registered_over_their_documents(suite, released):
    ids = register_released(suite, released)
    assert ids == [f"rcp-irx/{suite}/first-half", f"rcp-irx/{suite}/second-half"]
    second = ir_datasets.load(ids[1])
    gains, labels = in_memory.demo_gains(), results.qrels()
    assert [query.query_id for query in ir_datasets.load(ids[0]).queries_iter()] == ["1", "2", "3", "4", "5"]
    assert [query.query_id for query in second.queries_iter()] == ["6", "7", "8", "9", "10"]
    assert second.docs_count() == 165
    expected = gains.qrels(labels).merge(gains.documents[["qid", "docno", "theta"]], how="left")
    expected = expected[expected["qid"].astype(int) > 5].set_index(["qid", "docno"])[["label", "gain", "theta"]]
    found = pd.DataFrame(second.qrels_iter()).set_index(["query_id", "doc_id"])
    assert len(found) == len(expected)
    found = found.loc[list(expected.index)]
    assert found["relevance"].tolist() == expected["label"].tolist()
    np.testing.assert_array_equal(found["gain"], expected["gain"])
    np.testing.assert_array_equal(found["theta"], expected["theta"])
    pool = gains.documents[gains.documents["qid"] == "6"].sort_values("pool_rank")["docno"].tolist()
    assert [row.doc_id for row in second.scoreddocs_iter() if row.query_id == "6"] == pool


def test_pyterrier_opens_a_released_subset(suite, released):
    pt = pytest.importorskip("pyterrier", reason="PyTerrier is not installed")
    register_released(suite, released)
    dataset = pt.get_dataset(f"irds:rcp-irx/{suite}/first-half")
    assert len(dataset.get_topics()) == 5
    assert {"label", "gain"} <= set(dataset.get_qrels().columns)
    assert len(dataset.text_loader(["text"])(dataset.get_results())) == 150


def test_the_older_layout_is_registered_too_and_other_subsets_under_their_own_names(suite, tmp_path):
    for name, qids in [("first_half", "12"), ("another", "78")]:
        (tmp_path / name).mkdir()
        rows = [(qid, docno, 1, 0.5 * place) for qid in qids for place, docno in enumerate(["d001", "d002"])]
        columns = zip(["query-id", "corpus-id", "score", "gain"], zip(*rows, strict=True), strict=True)
        pq.write_table(pa.table({key: list(values) for key, values in columns}), tmp_path / name / "qrels.parquet")
        (tmp_path / name / "item_params.json").write_text(json.dumps({"gamma": [1.0], "beta": [0.0]}))
    assert register_released(suite, tmp_path) == [f"rcp-irx/{suite}/first-half", f"rcp-irx/{suite}/another"]
    first, another = (ir_datasets.load(f"rcp-irx/{suite}/{name}") for name in ("first-half", "another"))
    assert [query.query_id for query in first.queries_iter()] == ["1", "2"]
    assert [(row.query_id, row.doc_id) for row in first.scoreddocs_iter()][:2] == [("1", "d001"), ("1", "d002")]
    assert not another.has_docs()
    assert {(qrel.query_id, qrel.doc_id): (qrel.relevance, qrel.gain) for qrel in another.qrels_iter()} == {
        ("7", "d001"): (1, 0.0),
        ("7", "d002"): (1, 0.5),
        ("8", "d001"): (1, 0.0),
        ("8", "d002"): (1, 0.5),
    }
    with pytest.raises(RCPError, match="the gains hold no text of query '7', '8'"):
        another.queries_iter()


def test_nothing_is_read_before_it_is_asked_for(suite, released, tmp_path):
    copy = shutil.copytree(released, tmp_path / "copy")
    for file in copy.rglob("*.parquet"):
        file.write_bytes(b"not read")
    ids = register_released(suite, copy)
    dataset = ir_datasets.load(ids[0])
    assert dataset.has_qrels()
    assert dataset.docs_store().get("d001").doc_id == "d001"
    assert dataset.queries_cls()._fields == ("query_id", "text")
    with pytest.raises(RCPError, match="cannot be read as Parquet"):
        dataset.qrels_iter()


def test_a_subset_is_read_once(suite, released, monkeypatch):
    read, asked = GainTable.from_released, []
    monkeypatch.setattr(GainTable, "from_released", lambda *given, **more: asked.append(given) or read(*given, **more))
    ids = register_released(suite, released)
    assert asked == []
    dataset = ir_datasets.load(ids[0])
    for _ in range(2):
        list(dataset.queries_iter()), list(dataset.qrels_iter()), list(dataset.scoreddocs_iter())
    assert asked == [(str(released), "DemoFirstHalfRetrieval")]


def test_registering_again_is_harmless_from_the_same_place_or_with_the_same_content(suite, released, tmp_path):
    ids = register_released(suite, released)
    dataset = ir_datasets.load(ids[0])
    assert register_released(suite, os.path.relpath(released)) == ids
    copy = shutil.copytree(released, tmp_path / "demo")
    assert register_released(suite, copy) == ids
    assert ir_datasets.load(ids[0]) is dataset
    gains = halves()
    other = gains.exclude(gains.documents[["dataset", "qid", "docno"]].head(1)).to_released(tmp_path / "other")
    with pytest.raises(RCPError, match=r"registered already, with gains from .*; choose another id for .*other"):
        register_released(suite, other)


def written(folder, gains):
    """A release as its owners write it: no table is saved beside the Parquet files."""
    gains.to_released(folder)
    shutil.rmtree(folder / "rcp_irx")
    return folder


def test_the_same_content_from_a_folder_of_another_name_is_harmless(suite, tmp_path):
    ids = register_released(suite, written(tmp_path / "one", halves()))
    dataset = ir_datasets.load(ids[0])
    assert next(dataset.qrels_iter()).query_id
    assert register_released(suite, written(tmp_path / "two", halves())) == ids
    assert ir_datasets.load(ids[0]) is dataset


def test_a_folder_that_was_changed_is_another_one(suite, tmp_path):
    folder = written(tmp_path / "r", halves())
    ids = register_released(suite, folder)
    dataset = ir_datasets.load(ids[0])
    before = list(dataset.qrels_iter())
    for file in folder.rglob("*.parquet"):
        os.utime(file, ns=(1, 1))  # the same content at another time
    assert register_released(suite, folder) == ids
    gains = halves()
    shutil.rmtree(folder)
    written(folder, gains.exclude(gains.documents[["dataset", "qid", "docno"]].head(1)))
    with pytest.raises(RCPError, match=rf"{ids[0]}' is registered already, with gains from .*; choose another id"):
        register_released(suite, folder)
    assert list(dataset.qrels_iter()) == before


def test_without_a_folder_the_suite_comes_from_the_hub_when_it_is_asked_for(suite, released):
    hub = HubStandIn(released)
    with pytest.warns(RCPWarning, match="this ir_datasets has no 'no-such/dataset': registered without documents"):
        ids = register_released(suite, revision="v1", api=hub)
    assert ids == [f"rcp-irx/{suite}/{name}" for name in ("first-half", "second-half", "elsewhere")]
    assert hub.asked == []
    assert ir_datasets.load(ids[1]).queries_count() == 5
    place = "fabianschmidt-cohere/rcp-ndcg-test"
    assert set(hub.asked) == {("list", place, "v1"), ("download", place, "v1")}
    with pytest.raises(
        RCPError, match=f"{place} has no subset 'elsewhere'; it has 'DemoFirstHalfRetrieval', 'demo_2nd'"
    ):
        ir_datasets.load(ids[2]).qrels_iter()


@pytest.mark.filterwarnings("ignore:this ir_datasets has no")
def test_without_the_hub_what_was_fetched_before_is_read(suite, released):
    ids = register_released(suite, api=HubStandIn(released, offline=True))
    with pytest.warns(RCPWarning, match="could not be asked"):
        assert ir_datasets.load(ids[0]).queries_count() == 5


@pytest.mark.filterwarnings("ignore:this ir_datasets has no")
def test_neither_hub_nor_anything_fetched_is_an_error_that_names_the_repository(suite):
    ids = register_released(suite, api=HubStandIn(None, offline=True))
    with pytest.raises(RCPError, match="no dataset 'fabianschmidt-cohere/rcp-ndcg-test', and none was fetched before"):
        ir_datasets.load(ids[0]).queries_iter()


@pytest.mark.filterwarnings("ignore:this ir_datasets has no")
def test_a_refused_connection_is_told_by_the_real_client(suite, tmp_path, monkeypatch):
    hf = pytest.importorskip("huggingface_hub")
    monkeypatch.setattr(time, "sleep", lambda seconds: None)  # between the client's own attempts
    api = hf.HfApi(endpoint="http://127.0.0.1:9")
    monkeypatch.setattr(api, "snapshot_download", partial(api.snapshot_download, cache_dir=tmp_path))
    ids = register_released(suite, api=api)
    with pytest.raises(RCPError, match=r"none was fetched before: .*refused") as error:
        ir_datasets.load(ids[0]).queries_iter()
    assert error.value.__cause__ is not None
    snapshot = tmp_path / "datasets--fabianschmidt-cohere--rcp-ndcg-test" / "snapshots" / "main"
    halves().to_released(snapshot)
    (snapshot.parents[1] / "refs").mkdir()
    (snapshot.parents[1] / "refs" / "main").write_text("main")
    with pytest.warns(RCPWarning, match="what was fetched before is read"):
        assert ir_datasets.load(ids[0]).queries_count() == 5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"suite": None}, "the released suites are .*, not None"),
        ({"suite": ["nanobeir"]}, "the released suites are .*, not"),
        ({"folder": 5}, "the folder of a released suite is text or a path, not 5"),
        ({"folder": ""}, "there is no folder"),
        ({"folder": ".", "revision": "v1"}, "revision='v1' is of a repository on the Hub"),
    ],
)
def test_arguments_of_another_type_are_refused(options, message):
    with pytest.raises(RCPError, match=message):
        register_released(**{"suite": "nanobeir", **options})


def test_all_suites_register_without_a_download_or_a_file(tmp_path):
    code = (
        "import socket\n"
        "def refuse(*given, **more): raise AssertionError('a connection was asked for')\n"
        "socket.socket.connect = socket.getaddrinfo = refuse\n"
        "import ir_datasets\n"
        "from rcp_irx.ir_datasets import register_released\n"
        "for suite in ['nanobeir', 'bright', 'vidore-v3', 'trecdl']:\n"
        "    ids = register_released(suite)\n"
        "    print(len(ids), ids[0], ir_datasets.load(ids[0]).has_docs())\n"
    )
    home = {"IR_DATASETS_HOME": str(tmp_path / "ir"), "HF_HOME": str(tmp_path / "hf")}
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **home}, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[0] == "13 rcp-irx/nanobeir/arguana True"
    assert done.stdout.splitlines()[2] == "8 rcp-irx/vidore-v3/computer-science False"
    assert done.stdout.splitlines()[3] == "2 rcp-irx/trecdl/2019 True"
    written = {path.name for path in tmp_path.rglob("*") if path.is_file()}
    assert written <= {"irds_version.txt"}  # ir_datasets' own, by looking at msmarco-passage


def test_bad_suites_and_folders_are_errors_that_say_what_was_looked_for(suite, tmp_path):
    with pytest.raises(RCPError, match=r"the released suites are 'nanobeir', 'bright', .*, not 'beir'"):
        register_released("beir")
    with pytest.raises(RCPError, match=r"there is no folder .*nowhere"):
        register_released(suite, tmp_path / "nowhere")
    (tmp_path / "corpus.parquet").write_bytes(b"")
    with pytest.raises(RCPError, match=r"is no released dataset: it has neither .* \(it has 'corpus.parquet'\)"):
        register_released(suite, tmp_path)
    for name in ("first-half", "FirstHalf"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "qrels.parquet").write_bytes(b"")
    with pytest.raises(RCPError, match="holds 'first-half' twice: 'FirstHalf', 'first-half'; keep one"):
        register_released(suite, tmp_path)


def test_gains_of_other_queries_are_an_error_at_the_first_use(suite, tmp_path):
    (tmp_path / "first-half").mkdir()
    rows = {"query-id": ["q1", "q2"], "corpus-id": ["a", "b"], "score": [1, 0], "gain": [0.5, 0.25]}
    pq.write_table(pa.table(rows), tmp_path / "first-half" / "qrels.parquet")
    ids = register_released(suite, tmp_path)
    dataset = ir_datasets.load(ids[0])
    with pytest.raises(RCPError, match=r"'rcp-irx/demo' and the gains share no query: .*the gains' 'q1', 'q2'"):
        dataset.queries_iter()
