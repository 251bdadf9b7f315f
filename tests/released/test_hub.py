"""The Hub, with an object in place of huggingface_hub.HfApi that keeps repositories in folders; no network."""

from __future__ import annotations

import fnmatch
import hashlib
import shutil
import sys
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

pytest.importorskip("pyarrow")

from rcp_irx import GainTable, MissingExtra, RCPError, RCPWarning
from tests.released.folders import POOL, newer, qrels, table, write

REPO = "owner/rcp-gains"
COMMIT = "0123456789abcdef0123456789abcdef01234567"


class FakeHub:
    """The calls of HfApi that are made, on a folder a repository."""

    def __init__(self, place: Path):
        self.place = place
        self.down = False
        self.lfs = False
        self.calls: list[str] = []

    def folder(self, repo_id: str) -> Path:
        return self.place / "repositories" / repo_id

    def list_repo_files(self, repo_id, *, revision=None, repo_type=None):
        self._call("list_repo_files", repo_type)
        if self.down or not self.folder(repo_id).is_dir():
            raise OSError(f"404: {repo_id}")
        return [
            file.relative_to(self.folder(repo_id)).as_posix()
            for file in self.folder(repo_id).rglob("*.*")
            if file.is_file()
        ]

    def snapshot_download(self, repo_id, *, repo_type=None, revision=None, allow_patterns=None, local_files_only=False):
        self._call("snapshot_download", repo_type)
        cache = self.place / "cache" / repo_id / COMMIT
        if local_files_only or self.down:
            if not cache.is_dir():
                raise FileNotFoundError(f"{repo_id} is not in the cache")
            return str(cache)
        for name in self.list_repo_files(repo_id, repo_type=repo_type):
            if any(fnmatch.fnmatch(name, pattern) for pattern in allow_patterns):
                (cache / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(self.folder(repo_id) / name, cache / name)
        return str(cache)

    def create_repo(self, repo_id, *, repo_type=None, private=None, exist_ok=False):
        self._call(f"create_repo private={private}", repo_type)
        self.folder(repo_id).mkdir(parents=True, exist_ok=exist_ok)

    def create_branch(self, repo_id, *, branch, repo_type=None, exist_ok=False):
        self._call(f"create_branch {branch}", repo_type)

    def upload_folder(self, *, repo_id, repo_type, folder_path, revision, commit_message, delete_patterns=None):
        self._call(f"upload_folder revision={revision} delete={delete_patterns}", repo_type)
        if delete_patterns:
            shutil.rmtree(self.folder(repo_id))
        shutil.copytree(folder_path, self.folder(repo_id), dirs_exist_ok=True)
        return "the commit"

    def get_paths_info(self, repo_id, paths, *, revision=None, repo_type=None):
        self._call("get_paths_info", repo_type)
        files = {path: (self.folder(repo_id) / path).read_bytes() for path in paths}
        return [SimpleNamespace(path=path, **self._hashes(data)) for path, data in files.items()]

    def _hashes(self, data):
        if self.lfs:
            return {"blob_id": "of a pointer", "lfs": SimpleNamespace(sha256=hashlib.sha256(data).hexdigest())}
        return {"blob_id": hashlib.sha1(f"blob {len(data)}\0".encode() + data).hexdigest(), "lfs": None}

    def _call(self, what, repo_type):
        assert repo_type == "dataset"
        self.calls.append(what)


@pytest.fixture
def hub(tmp_path):
    return FakeHub(tmp_path)


def test_what_is_uploaded_is_read_back_equal_and_only_what_is_needed_is_fetched(hub):
    gains = table(keys=(("one", "q1"), ("two", "q1")))
    corpus = gains.documents[["dataset", "docno"]].assign(text="x")
    assert gains.to_hf(REPO, corpus=corpus, licence="cc-by-4.0", private=True, api=hub) == "the commit"
    assert hub.calls[0] == "create_repo private=True"
    assert hub.calls[-1] == "upload_folder revision=None delete=None"
    assert (hub.folder(REPO) / "README.md").read_text().startswith('---\nlicense: "cc-by-4.0"')
    assert GainTable.from_released(REPO, "one", api=hub) == gains.select("one")
    fetched = {
        file.parent.relative_to(hub.place / "cache" / REPO / COMMIT).as_posix()
        for file in hub.place.glob("cache/**/*.*")
    }
    assert fetched - {".", "..", "../.."} == {"one-qrels", "one-gains", "one-top_ranked", "one-queries", "rcp_irx/one"}


def test_a_released_repository_is_read_with_its_commit(hub):
    newer(hub.folder(REPO), top_ranked=POOL)
    write(hub.folder(REPO) / "x-corpus" / "test-00000-of-00001.parquet", {"id": ["a"], "text": ["t"]})
    read = GainTable.from_released(REPO, "x", revision="main", api=hub)
    assert read.metadata["released"]["source"] == REPO
    assert read.metadata["released"]["revision"] == COMMIT
    with pytest.raises(RCPError, match=f"{REPO} on the Hub has no subset 'y'; it has 'x'"):
        GainTable.from_released(REPO, "y", api=hub)


def test_without_the_hub_what_was_fetched_before_is_read_and_said(hub):
    newer(hub.folder(REPO))
    first = GainTable.from_released(REPO, "x", api=hub)
    hub.down = True
    with pytest.warns(RCPWarning, match="the Hub could not be asked for 'owner/rcp-gains'"):
        assert GainTable.from_released(REPO, "x", api=hub) == first
    with pytest.raises(RCPError, match=r"no folder 'owner/other' here, the Hub gives no dataset .*404"):
        GainTable.from_released("owner/other", "x", api=hub)


@pytest.mark.parametrize("source", ["no-such-folder", "a/b/c", "./x", "~/x", "a b/c", ""])
def test_what_is_neither_a_folder_nor_a_repository_is_not_asked_for(hub, source, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path / "repositories" if (tmp_path / "repositories").is_dir() else tmp_path)
    with pytest.raises(RCPError):
        GainTable.from_released(source, "x", api=hub)
    assert hub.calls == []


def test_a_repository_of_something_else_is_replaced_only_on_request(hub):
    write(hub.folder(REPO) / "y-qrels" / "test-00000-of-00001.parquet", {"query-id": ["q"]})
    (hub.folder(REPO) / ".gitattributes").write_text("x")
    with pytest.raises(RCPError, match=r"holds other files \('y-qrels/.*overwrite=True"):
        table().to_hf(REPO, "x", api=hub)
    table().to_hf(REPO, "x", overwrite=True, revision="v1", api=hub)
    assert hub.calls[-1] == "upload_folder revision=v1 delete=['*']"
    assert "create_branch v1" in hub.calls
    assert not (hub.folder(REPO) / "y-qrels").exists()
    table().to_hf(REPO, "x", api=hub)  # the same files again
    assert hub.calls[-1] == "upload_folder revision=None delete=None"


@pytest.mark.parametrize("lfs", [False, True])
def test_other_gains_of_the_same_file_names_are_replaced_only_on_request(hub, lfs):
    hub.lfs = lfs
    table().to_hf(REPO, "x", api=hub)
    table().to_hf(REPO, "x", api=hub)
    before = sorted(file.read_bytes() for file in hub.folder(REPO).rglob("*.*"))
    other = table(keys=(("", "q1"), ("", "q9")))
    with pytest.raises(RCPError, match=r"owner/rcp-gains holds other content \('README.md', .*overwrite=True"):
        other.to_hf(REPO, "x", api=hub)
    assert sorted(file.read_bytes() for file in hub.folder(REPO).rglob("*.*")) == before
    other.to_hf(REPO, "x", overwrite=True, api=hub)
    shutil.rmtree(hub.place / "cache", ignore_errors=True)
    assert GainTable.from_released(REPO, "x", api=hub).queries["qid"].tolist() == ["q1", "q9"]


@pytest.mark.parametrize("repo_id", [None, 5, "", "name", "a/b/c"])
def test_what_is_no_repository_is_not_uploaded_to(hub, repo_id):
    with pytest.raises(RCPError, match="a repository on the Hub is called 'owner/name'"):
        table().to_hf(repo_id, "x", api=hub)
    assert hub.calls == []


def test_only_the_files_of_the_subset_are_fetched_and_those_of_others_never_serve_it(hub):
    for subset in ("fever", "climate-fever"):
        newer(hub.folder(REPO), subset, qrels=qrels(gain=None))
    (hub.folder(REPO) / "items.json").rename(hub.folder(REPO) / "climate-fever.json")
    GainTable.from_released(REPO, "climate-fever", api=hub)  # its file is here now, its qrels too
    shutil.rmtree(hub.place / "cache" / REPO / COMMIT / "climate-fever-qrels")
    with pytest.raises(RCPError, match="no item parameters for subset 'fever'"):
        GainTable.from_released(REPO, "fever", api=hub)


class Refused(Exception):
    """As the errors of an HTTP library are: of no common kind."""


def test_errors_of_any_kind_lead_to_what_was_fetched_before_and_are_chained(hub, monkeypatch):
    newer(hub.folder(REPO))
    first = GainTable.from_released(REPO, "x", api=hub)

    def refuse(*given, **more):
        raise Refused("connection refused")

    monkeypatch.setattr(hub, "list_repo_files", refuse)
    with pytest.warns(RCPWarning, match=r"could not be asked for 'owner/rcp-gains' \(Refused\)"):
        assert GainTable.from_released(REPO, "x", api=hub) == first
    with pytest.warns(RCPWarning), pytest.raises(RCPError, match=r"what was fetched before of owner/rcp-gains \(.*'y'"):
        GainTable.from_released(REPO, "y", api=hub)
    with pytest.raises(RCPError, match="none was fetched before: Refused: connection refused") as error:
        GainTable.from_released("owner/other", "x", api=hub)
    assert isinstance(error.value.__cause__, Refused)
    with pytest.raises(RCPError, match="could not be uploaded to: Refused: connection refused") as error:
        table().to_hf(REPO, "x", api=hub)
    assert isinstance(error.value.__cause__, Refused)


def test_an_interrupt_is_none_of_them(hub, monkeypatch):
    def interrupt(*given, **more):
        raise KeyboardInterrupt

    monkeypatch.setattr(hub, "list_repo_files", interrupt)
    with pytest.raises(KeyboardInterrupt):
        GainTable.from_released(REPO, "x", api=hub)


def test_a_refused_connection_is_told_by_the_real_client(tmp_path, monkeypatch):
    hf = pytest.importorskip("huggingface_hub")
    monkeypatch.setattr(time, "sleep", lambda seconds: None)  # between the client's own attempts
    api = hf.HfApi(endpoint="http://127.0.0.1:9")
    monkeypatch.setattr(api, "snapshot_download", partial(api.snapshot_download, cache_dir=tmp_path))
    with pytest.raises(RCPError, match=r"none was fetched before: .*refused") as error:
        GainTable.from_released(REPO, "x", api=api)
    assert error.value.__cause__ is not None
    with pytest.raises(RCPError, match=r"could not be uploaded to: .*refused"):
        table().to_hf(REPO, "x", api=api)
    cache = tmp_path / f"datasets--{REPO.replace('/', '--')}"
    newer(cache / "snapshots" / COMMIT)
    (cache / "refs").mkdir()
    (cache / "refs" / "main").write_text(COMMIT)
    with pytest.warns(RCPWarning, match="what was fetched before is read"):
        read = GainTable.from_released(REPO, "x", api=api)
    assert read.metadata["released"]["revision"] == COMMIT


def test_a_table_that_cannot_be_written_makes_no_repository(hub):
    with pytest.raises(RCPError):
        table(keys=(("one", "q1"), ("two", "q1"))).to_hf(REPO, "x", api=hub)
    assert hub.calls == []


def test_the_calls_are_those_of_huggingface_hub():
    """The stand-in takes no argument that the real functions do not take."""
    import inspect

    real = pytest.importorskip("huggingface_hub").HfApi
    for name in [
        "list_repo_files",
        "snapshot_download",
        "create_repo",
        "create_branch",
        "upload_folder",
        "get_paths_info",
    ]:
        assert set(inspect.signature(getattr(FakeHub, name)).parameters) <= set(
            inspect.signature(getattr(real, name)).parameters
        )


def test_without_huggingface_hub_the_install_line_is_given(monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(MissingExtra, match=r"pip install 'rcp-irx\[hub\]'"):
        GainTable.from_released(REPO, "x")
    with pytest.raises(MissingExtra, match=r"pip install 'rcp-irx\[hub\]'"):
        table().to_hf(REPO, "x")


def test_a_pyterrier_artifact_keeps_its_own_upload(tmp_path):
    pt = pytest.importorskip("pyterrier")
    from rcp_irx.pyterrier import GainArtifact

    table().save(tmp_path / "saved")
    artifact = pt.Artifact.load(tmp_path / "saved")
    assert GainArtifact.to_hf is pt.Artifact.to_hf
    artifact.to_released(tmp_path / "r", "x")
    assert GainTable.from_released(tmp_path / "r", "x") == artifact.table == table()
