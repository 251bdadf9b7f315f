"""The Hugging Face Hub: fetches what a subset needs, uploads a written folder. Thin over huggingface_hub."""

from __future__ import annotations

import glob
import hashlib
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rcp_irx.errors import MissingExtra, RCPError, examples, warn
from rcp_irx.released import items, layout
from rcp_irx.storage import INDEX

_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}")


@dataclass(frozen=True)
class Place:
    """A released dataset at hand.

    Attributes
    ----------
    folder : Path
        Where its files are: for a repository those that a subset needs.
    names : list of str
        All files of the dataset, also those that were not fetched.
    where : str
        What messages call it.
    origin : dict
        The name of its folder or repository, and the commit.
    """

    folder: Path
    names: list[str]
    where: str
    origin: dict[str, Any]


def place_of(
    source: str | os.PathLike[str],
    subset: str,
    split: str | None,
    revision: str | None,
    item_parameters: str | None,
    api: Any,
) -> Place:
    """The folder of a released dataset, fetched where the source is a repository, and where it comes from."""
    what = "a released dataset is a folder or a repository on the Hub (owner/name)"
    if not isinstance(source, (str, os.PathLike)) or not isinstance(os.fspath(source), str):
        raise RCPError(f"{what}, given as text or a path, not {source!r}")
    try:
        path = Path(source).resolve()
        is_folder, is_there = path.is_dir() and bool(os.fspath(source)), path.exists()
    except (OSError, ValueError) as error:
        raise RCPError(f"{what}; {source!r} cannot be looked up: {error}") from error
    if is_folder:
        if revision is not None:
            raise RCPError(f"revision={revision!r} is of a repository on the Hub, and {path} is a folder")
        if (path / INDEX).is_file():
            raise RCPError(f"{path} is a folder of GainTable.save: open it with GainTable.load")
        return Place(path, layout.listed(path), str(path), {"source": path.name, "revision": None})
    if is_there or not isinstance(source, str) or not _ID.fullmatch(source):
        found = (
            f"{path} is {'a file' if is_there else 'not there'}" if os.fspath(source) else "an empty text names none"
        )
        raise RCPError(f"{what}; {found}")
    return _fetched(source, subset, split, revision, item_parameters, api or hub_api())


def _fetched(
    repo_id: str, subset: str, split: str | None, revision: str | None, item_parameters: str | None, api: Any
) -> Place:
    place = {"repo_id": repo_id, "repo_type": "dataset", "revision": revision}
    where = f"{repo_id} on the Hub"
    try:
        names = list(api.list_repo_files(**place))
    except Exception as error:  # the client's own, its HTTP library's, the system's
        return _fetched_before(repo_id, revision, api, error)
    wanted = _wanted(names, subset, split, item_parameters, where)
    try:
        path = Path(api.snapshot_download(**place, allow_patterns=[glob.escape(name) for name in wanted]))
    except Exception as error:
        return _fetched_before(repo_id, revision, api, error)
    return Place(path, names, where, _origin(repo_id, revision, path))


def names_of(repo_id: str, revision: str | None, api: Any) -> list[str]:
    """The names of a repository's files; without the Hub, of those that were fetched before.

    Raises
    ------
    RCPError
        If there are none either.
    """
    api = api or hub_api()
    try:
        return list(api.list_repo_files(repo_id=repo_id, repo_type="dataset", revision=revision))
    except Exception as error:
        return _fetched_before(repo_id, revision, api, error).names


def _fetched_before(repo_id: str, revision: str | None, api: Any, error: Exception) -> Place:
    """What was fetched of a repository before, with a warning that says why it is read."""
    place = {"repo_id": repo_id, "repo_type": "dataset", "revision": revision}
    try:
        path = Path(api.snapshot_download(**place, local_files_only=True))
    except Exception:
        raise RCPError(
            f"there is no folder {repo_id!r} here, the Hub gives no dataset {repo_id!r}, and none was fetched before:"
            f" {type(error).__name__}: {error}"
        ) from error
    warn(f"the Hub could not be asked for {repo_id!r} ({type(error).__name__}): what was fetched before is read")
    where = f"what was fetched before of {repo_id} ({path})"
    return Place(path, layout.listed(path), where, _origin(repo_id, revision, path))


def _origin(repo_id: str, revision: str | None, path: Path) -> dict[str, Any]:
    return {"source": repo_id, "revision": path.name if _COMMIT.fullmatch(path.name) else revision}


def _wanted(names: list[str], subset: str, split: str | None, item_parameters: str | None, where: str) -> list[str]:
    """What is read of a repository: never its texts of documents, nor what else it may hold."""
    found = layout.find(names, subset, split, where)
    own = [name for name in names if name.startswith(f"{layout.OWN}/{subset}/")]
    json_files = [name for place in items.candidates(names, subset) for name in place]
    named = [item_parameters] if item_parameters in names else []
    return sorted({*(name for files in found.names.values() for name in files), *own, *json_files, *named})


def upload(folder: Path, repo_id: str, *, private: bool | None, revision: str | None, overwrite: bool, api: Any) -> Any:
    """Upload a written folder as a dataset repository; returns what `upload_folder` returns.

    Raises
    ------
    RCPError
        If the repository holds other files, or these with other content, and `overwrite` is not given; if the Hub
        cannot be asked or refuses.
    """
    refuse_other_ids(repo_id)
    api = api or hub_api()
    try:
        return _uploaded(folder, repo_id, private, revision, overwrite, api)
    except RCPError:
        raise
    except Exception as error:
        raise RCPError(f"{repo_id!r} could not be uploaded to: {type(error).__name__}: {error}") from error


def refuse_other_ids(repo_id: object) -> None:
    """Refuse what cannot be the name of a repository."""
    if not isinstance(repo_id, str) or not _ID.fullmatch(repo_id):
        raise RCPError(f"a repository on the Hub is called 'owner/name', not {repo_id!r}")


def _uploaded(folder: Path, repo_id: str, private: bool | None, revision: str | None, overwrite: bool, api: Any) -> Any:
    place = {"repo_id": repo_id, "repo_type": "dataset"}
    api.create_repo(**place, private=private, exist_ok=True)
    if revision is not None:
        api.create_branch(**place, branch=revision, exist_ok=True)
    held = set(api.list_repo_files(**place, revision=revision))
    written = {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}
    others = held - written - {".gitattributes"}
    if not overwrite:
        replaced = others or _changed(folder, sorted(held & written), {**place, "revision": revision}, api)
        if replaced:
            raise RCPError(
                f"{repo_id} holds other {'files' if others else 'content'} ({examples(replaced)}); choose another"
                " repository, or give overwrite=True to replace all it holds"
            )
    return api.upload_folder(
        **place,
        folder_path=str(folder),
        revision=revision,
        commit_message="RCP gains, written by rcp_irx",
        **({"delete_patterns": ["*"]} if others else {}),
    )


def _changed(folder: Path, names: list[str], place: dict[str, Any], api: Any) -> list[str]:
    """Which of these files are not the same in the repository, by the hashes that it keeps."""
    if not names:
        return []
    kept = {entry.path: entry for entry in api.get_paths_info(**place, paths=names)}
    return [name for name in names if name not in kept or not _is_kept(folder / name, kept[name])]


def _is_kept(file: Path, entry: Any) -> bool:
    """Whether a file is the one that the Hub describes: large ones by SHA-256, others as git names them."""
    data = file.read_bytes()
    if entry.lfs is not None:
        return hashlib.sha256(data).hexdigest() == entry.lfs.sha256
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest() == entry.blob_id


def hub_api() -> Any:
    """huggingface_hub's client.

    Raises
    ------
    MissingExtra
        If it is not installed.
    """
    try:
        import huggingface_hub
    except ModuleNotFoundError as error:
        if error.name != "huggingface_hub":
            raise
        raise MissingExtra("huggingface_hub", "hub") from error
    return huggingface_hub.HfApi()
