"""The Hugging Face Hub: fetches what a subset needs, uploads a written folder. Thin over huggingface_hub."""

from __future__ import annotations

import glob
import os
import re
from pathlib import Path
from typing import Any

from rcp_irx.errors import MissingExtra, RCPError, examples, warn
from rcp_irx.released import items, layout
from rcp_irx.storage import INDEX

_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_COMMIT = re.compile(r"[0-9a-f]{40}")


def folder_of(
    source: str | os.PathLike[str],
    subset: str,
    split: str | None,
    revision: str | None,
    item_parameters: str | None,
    api: Any,
) -> tuple[Path, dict[str, Any]]:
    """The local folder of a released dataset, fetched where the source is a repository, and where it comes from."""
    path = Path(source)
    if path.is_dir():
        if revision is not None:
            raise RCPError(f"revision={revision!r} is of a repository on the Hub, and {path} is a folder")
        if (path / INDEX).is_file():
            raise RCPError(f"{path} is a folder of GainTable.save: open it with GainTable.load")
        return path, {"source": path.resolve().name, "revision": None}
    if path.exists() or not isinstance(source, str) or not _ID.fullmatch(source):
        what = "is a file" if path.exists() else "is not there"
        raise RCPError(f"a released dataset is a folder or a repository on the Hub (owner/name); {path} {what}")
    return _fetched(source, subset, split, revision, item_parameters, api or _api())


def _fetched(
    repo_id: str, subset: str, split: str | None, revision: str | None, item_parameters: str | None, api: Any
) -> tuple[Path, dict[str, Any]]:
    place = {"repo_id": repo_id, "repo_type": "dataset", "revision": revision}
    try:
        names = api.list_repo_files(**place)
        wanted = _wanted(names, subset, split, item_parameters, f"{repo_id} on the Hub")
        path = Path(api.snapshot_download(**place, allow_patterns=[glob.escape(name) for name in wanted]))
    except RCPError:
        raise
    except (OSError, ValueError) as error:
        try:
            path = Path(api.snapshot_download(**place, local_files_only=True))
        except (OSError, ValueError):
            raise RCPError(
                f"there is no folder {repo_id!r} here, and the Hub gives no dataset of that name: {error}"
            ) from error
        warn(f"the Hub could not be asked for {repo_id!r} ({type(error).__name__}): what was fetched before is read")
    commit = path.name if _COMMIT.fullmatch(path.name) else revision
    return path, {"source": repo_id, "revision": commit}


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
        If the repository holds other files and `overwrite` is not given: its card would be replaced by one that does
        not know them.
    """
    api = api or _api()
    api.create_repo(repo_id=repo_id, repo_type="dataset", private=private, exist_ok=True)
    if revision is not None:
        api.create_branch(repo_id=repo_id, repo_type="dataset", branch=revision, exist_ok=True)
    held = set(api.list_repo_files(repo_id=repo_id, repo_type="dataset", revision=revision))
    written = {file.relative_to(folder).as_posix() for file in folder.rglob("*") if file.is_file()}
    others = held - written - {".gitattributes"}
    if others and not overwrite:
        raise RCPError(
            f"{repo_id} holds other files ({examples(others)}); choose another repository, or give overwrite=True to"
            " replace all it holds"
        )
    return api.upload_folder(
        repo_id=repo_id,
        repo_type="dataset",
        folder_path=str(folder),
        revision=revision,
        commit_message="RCP gains, written by rcp_irx",
        **({"delete_patterns": ["*"]} if others else {}),
    )


def _api() -> Any:
    try:
        import huggingface_hub
    except ModuleNotFoundError as error:
        if error.name != "huggingface_hub":
            raise
        raise MissingExtra("huggingface_hub", "hub") from error
    return huggingface_hub.HfApi()
