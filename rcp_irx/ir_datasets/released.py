"""Registers the subsets of a released suite as ir_datasets datasets, each over the documents that were judged.

Reading a subset is `rcp_irx.released`'s work, and waits until it is asked for.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import ir_datasets

from rcp_irx.errors import RCPError, examples, warn
from rcp_irx.gains import GainTable
from rcp_irx.ir_datasets.registered import add
from rcp_irx.ir_datasets.source import Source
from rcp_irx.released import hub, layout

OWNER = "fabianschmidt-cohere"


@dataclass(frozen=True)
class Suite:
    """A released suite.

    Attributes
    ----------
    repository : str
        Its name on the Hub.
    subsets : dict
        The subsets, as ir_datasets calls them, and the ids of their documents there (None: it has none).
    other_names : dict
        What else a subset may be called, in small letters and digits.
    affixes : str
        A pattern of what may stand before a subset's name: the suite's own.
    """

    repository: str
    subsets: dict[str, str | None]
    other_names: dict[str, str]
    affixes: str

    def subset_of(self, name: str) -> str | None:
        """The subset that a name in the repository is of, however it is spelled: NanoArguAnaRetrieval is arguana."""
        plain = _plain(name)
        bare = re.sub(rf"^(?:{self.affixes})+", "", re.sub(r"(?:ocr)?(?:retrieval|reranking)?$", "", plain))
        known = {**{_plain(subset): subset for subset in self.subsets}, **self.other_names}
        return known.get(plain) or known.get(bare)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


_NANOBEIR = """
arguana climate-fever dbpedia-entity fever fiqa hotpotqa msmarco nfcorpus nq quora scidocs scifact webis-touche2020
"""
_BRIGHT = """
aops biology earth-science economics leetcode pony psychology robotics stackoverflow sustainable-living
theoremqa-questions theoremqa-theorems
"""
_VIDORE = "computer-science energy finance-en finance-fr hr industrial pharmaceuticals physics"

SUITES = {
    "nanobeir": Suite(
        "rcp-ndcg-nanobeir",
        {subset: f"nano-beir/{subset}" for subset in _NANOBEIR.split()},
        {
            "dbpedia": "dbpedia-entity",
            "fiqa2018": "fiqa",
            "touche2020": "webis-touche2020",
            "touche": "webis-touche2020",
        },
        "nano|beir",
    ),
    "bright": Suite("rcp-ndcg-bright", {subset: f"bright/{subset}" for subset in _BRIGHT.split()}, {}, "bright"),
    "vidore-v3": Suite("rcp-ndcg-vidore-v3", dict.fromkeys(_VIDORE.split()), {}, "vidore|v?3"),
    "trecdl": Suite(
        "rcp-ndcg-trecdl",
        {year: f"msmarco-passage/trec-dl-{year}/judged" for year in ("2019", "2020")},
        {"19": "2019", "20": "2020"},
        "msmarco|passage|trec|dl",
    ),
}


def register_released(
    suite: str,
    folder: str | os.PathLike[str] | None = None,
    *,
    revision: str | None = None,
    split: str | None = None,
    item_parameters: str | None = None,
    api: Any = None,
) -> list[str]:
    """Register every subset of a released suite as `rcp-irx/<suite>/<subset>`: "rcp-irx/nanobeir/arguana".

    Subsets are called as ir_datasets calls their documents, however the release spells them; TREC-DL's are "2019" and
    "2020". Documents, queries and labels are those of `nano-beir/...`, `bright/...` and
    `msmarco-passage/trec-dl-.../judged`; ViDoRe has no documents, and its queries and labels are the release's. As for
    `register`, labels of the pool are gains. A subset is read, and fetched from the Hub, when its queries, qrels or
    scored documents are first asked for, and one that does not fit its documents is an error then.

    Parameters
    ----------
    suite : str
        "nanobeir", "bright", "vidore-v3" or "trecdl".
    folder : str or path, optional
        A released dataset on disk, in either layout: what it holds is registered. A subset that is none of the suite's
        is called as it is there, and has no documents. None: the suite's own subsets, from the Hub
        (`fabianschmidt-cohere/rcp-ndcg-<suite>`).
    revision, split, item_parameters, api : optional
        As in `GainTable.from_released`.

    Returns
    -------
    list of str
        The ids, in order.

    Raises
    ------
    RCPError
        An unknown suite; a folder that is not there or in neither layout; two subsets that are the same one; ids that
        are registered with something else.

    Warns
    -----
    RCPWarning
        If the installed ir_datasets lacks the documents of a subset.
    """
    if not isinstance(suite, str) or suite not in SUITES:
        raise RCPError(f"the released suites are {', '.join(map(repr, SUITES))}, not {suite!r}")
    known = SUITES[suite]
    options = {"revision": revision, "split": split, "item_parameters": item_parameters}
    release = Release(known, folder, options, api)
    subsets = list(known.subsets) if folder is None else list(release.names)
    bases = {subset: known.subsets.get(subset) for subset in subsets}
    lacking = {base for base in bases.values() if base is not None and base not in ir_datasets.registry}
    if lacking:
        warn(f"this ir_datasets has no {examples(lacking)}: registered without documents; upgrade ir-datasets")
    origin = (release.where, *(f"{name}={value}" for name, value in options.items() if value is not None))
    version = release.version
    sources = [
        Source(
            f"rcp-irx/{suite}/{subset}",
            partial(release.read, subset),
            None if base is None or base in lacking else ir_datasets.load(base),
            (*origin, subset),
            version,
        )
        for subset, base in bases.items()
    ]
    for source in sources:
        add(source)
    return [source.id for source in sources]


class Release:
    """A released suite on disk, or on the Hub where no folder is given."""

    def __init__(self, suite: Suite, folder: str | os.PathLike[str] | None, options: dict[str, Any], api: Any):
        if folder is not None and not isinstance(folder, (str, os.PathLike)):
            raise RCPError(f"the folder of a released suite is text or a path, not {folder!r}")
        if folder is not None and (not os.fspath(folder) or not Path(folder).is_dir()):
            raise RCPError(f"there is no folder {os.path.abspath(folder)!r} to register a released suite from")
        if folder is not None and options["revision"] is not None:
            raise RCPError(f"revision={options['revision']!r} is of a repository on the Hub, and {folder} is a folder")
        self.where = f"{OWNER}/{suite.repository}" if folder is None else str(Path(folder).resolve())
        self._suite, self._on_hub, self._options, self._api = suite, folder is None, options, api

    @cached_property
    def names(self) -> dict[str, str]:
        """The subsets that are there, the suite's own first, and how each is spelled."""
        files = self._files()
        spelled = sorted(layout.subsets(files))
        if not spelled:
            layout.find(files, layout.DEFAULT, None, self.where)  # says what was looked for
        subsets = [self._suite.subset_of(name) or name for name in spelled]
        for subset in subsets:
            same = [name for name, other in zip(spelled, subsets, strict=True) if other == subset]
            if len(same) > 1:
                raise RCPError(f"{self.where} holds {subset!r} twice: {examples(same)}; keep one")
        found = dict(zip(subsets, spelled, strict=True))
        own = [subset for subset in self._suite.subsets if subset in found]
        return {subset: found[subset] for subset in dict.fromkeys([*own, *subsets])}

    def read(self, subset: str) -> GainTable:
        """The gains of a subset."""
        if subset not in self.names:
            raise RCPError(f"{self.where} has no subset {subset!r}; it has {examples(self.names.values())}")
        return GainTable.from_released(self.where, self.names[subset], api=self._api, **self._options)

    @property
    def version(self) -> str:
        """What tells a folder that was changed: a hash of its files' names, sizes and times; nothing of the Hub."""
        if self._on_hub:
            return ""
        folder = Path(self.where)
        files = [*(folder / name for name in layout.listed(folder)), *folder.glob(f"{layout.OWN}/*/*")]
        states = [(str(file), (state := file.stat()).st_size, state.st_mtime_ns) for file in sorted(files)]
        return hashlib.sha256(repr(states).encode()).hexdigest()

    def _files(self) -> list[str]:
        if self._on_hub:
            return hub.names_of(self.where, self._options["revision"], self._api)
        return layout.listed(Path(self.where))
