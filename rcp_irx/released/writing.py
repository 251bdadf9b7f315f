"""Writes a gain table as a dataset in mteb's layout, with a card, so that it reads back equal.

What that layout has no place for (Stage A scores, pass counts, standard errors, provenance) is saved whole beside it,
in `rcp_irx/{subset}`, where the loaders of the standard layout do not look.
"""

from __future__ import annotations

import json
import os
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from rcp_irx import tables
from rcp_irx.calibration import gain
from rcp_irx.documents import with_keys
from rcp_irx.errors import RCPError, counted, examples, warn
from rcp_irx.gains import GainTable
from rcp_irx.released import hub
from rcp_irx.released.card import card
from rcp_irx.released.judgments import CRITERIA, SCORE_MARK, apart
from rcp_irx.released.layout import DEFAULT, ITEMS, OWN, config
from rcp_irx.released.parquet import ID_LISTS, IDS, NUMBERS, TEXTS, pyarrow, write
from rcp_irx.storage import whole_folder
from rcp_irx.tables import KEYS, UNJUDGED, keys_of

_SUBSET = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
_SPLIT = re.compile(r"\w+(\.\w+)*")

Columns = dict[str, tuple[str, Any]]


def write_released(
    table: GainTable,
    folder: str | os.PathLike[str],
    subset: str | Mapping[str, str] | None = None,
    *,
    split: str = "test",
    corpus: pd.DataFrame | None = None,
    human_labels: pd.DataFrame | None = None,
    licence: str | None = None,
) -> Path:
    """Write a table as a dataset in mteb's layout: `GainTable.to_released`.

    Configs of each subset: `qrels`, `gains` (without excluded documents), `top_ranked`, `excluded`, `queries`,
    `corpus`, where the table or the caller has what they hold. A label or a gain that is not there is -1 or null. A
    `score` that is made from criteria is marked so in the schema of its file, and is not read back as a label.

    Parameters
    ----------
    folder : path
        New or empty.
    subset : str or mapping, optional
        The subset's name, for a table of one dataset; a mapping of dataset to subset for several. By default each
        dataset becomes a subset of its own name, "" becomes "default".
    split : str
        The split's name.
    corpus : DataFrame, optional
        `docno, text` (and `title`, `dataset`): texts to write too. mteb's loader loads no dataset without.
    human_labels : DataFrame, optional
        Qrels (`qid, docno, label`, and `dataset`) for the column `score`; else the table's own, else the number of
        criteria that `table.qrels()` gives. Labels read back as the table's `human_labels`, counts do not.
    licence : str, optional
        For the card, as the Hub spells it ("cc-by-4.0"). Nothing is assumed.

    Returns
    -------
    Path
        The folder; it is complete or not there at all.

    Raises
    ------
    RCPError
        A folder that is not empty or cannot be written; one `subset` for several datasets; names that cannot be
        configs; labels or texts that are none; a corpus without any judged document; gains that are not those of the
        abilities (Eq. 4).
    MissingExtra
        Without pyarrow.

    Warns
    -----
    RCPWarning
        If the corpus lacks documents that have gains, or holds texts of other datasets; if labels are of queries
        without gains; if queries have no text, so that there is no config `queries`, which mteb's loader needs.
    """
    pyarrow()
    if not isinstance(folder, (str, os.PathLike)) or not os.fspath(folder):
        raise RCPError(f"the folder to write to is text or a path, not {folder!r}")
    if licence is not None and not isinstance(licence, str):
        raise RCPError(f"licence is a text, such as 'cc-by-4.0', not {licence!r}")
    target = Path(folder)
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        what = "is not empty" if target.is_dir() else "is a file"
        raise RCPError(f"{target.absolute()} {what}; choose a new or empty folder")
    if not isinstance(split, str) or not _SPLIT.fullmatch(split):
        raise RCPError(f"a split is called by letters, digits and '_', not {split!r}")
    if not len(table):
        raise RCPError("the table holds no gain: there is nothing to release")
    _refuse_other_gains(table)
    if human_labels is not None:
        table = _labelled(table, human_labels)
    parts = _subsets(table, subset)
    if corpus is not None:
        dataset = table.dataset_of(corpus, "corpus")
        corpus = _checked_corpus(with_keys(corpus, ["docno"], "corpus", dataset), table.datasets)
    texts = {
        name: None if corpus is None else corpus[corpus["dataset"].isin(part.datasets)] for name, part in parts.items()
    }
    written = {name: _configs(part, name, texts[name]) for name, part in parts.items()}
    with whole_folder(target) as new:
        for name, part in parts.items():
            marks = None if len(part.human_labels) else {SCORE_MARK: CRITERIA}
            for kind, values in written[name].items():
                file = new / config(name, kind) / f"{split}-00000-of-00001.parquet"
                write(file, values, marks if kind == "qrels" else None)
            part.save(new / OWN / name)
        if tables.has_abilities(table.documents, table.criteria):
            items = {name: table.criteria[name].tolist() for name in ("gamma", "beta")}
            (new / ITEMS).write_text(json.dumps(items, indent=1) + "\n", encoding="utf-8")
        kinds = {name: list(columns) for name, columns in written.items()}
        text = card(table, parts, kinds, split=split, licence=licence)
        (new / "README.md").write_text(text, encoding="utf-8")
    return target


def upload_released(
    table: GainTable,
    repo_id: str,
    subset: str | Mapping[str, str] | None = None,
    *,
    private: bool | None = None,
    revision: str | None = None,
    overwrite: bool = False,
    api: Any = None,
    **options: Any,
) -> Any:
    """Write the table to a temporary folder and upload it: `GainTable.to_hf`.

    Parameters
    ----------
    repo_id : str
        `owner/name` of a dataset repository; it is made where it is not there.
    private : bool, optional
        Of a new repository; None: the owner's default.
    revision : str, optional
        The branch, else the main one.
    overwrite : bool
        Replace all that the repository holds. Without it, one that holds other files, or these with other content, is
        refused.
    api : huggingface_hub.HfApi, optional
        With a token or endpoint of your own.
    **options
        As in `write_released`.

    Returns
    -------
    CommitInfo
        As `HfApi.upload_folder` gives it.

    Raises
    ------
    RCPError
        As `write_released`; if the repository holds something else; if the Hub cannot be asked.
    MissingExtra
        Without pyarrow or huggingface_hub.
    """
    hub.refuse_other_ids(repo_id)
    with tempfile.TemporaryDirectory() as place:
        folder = write_released(table, Path(place) / "dataset", subset, **options)
        return hub.upload(folder, repo_id, private=private, revision=revision, overwrite=overwrite, api=api)


def _refuse_other_gains(table: GainTable) -> None:
    """Refuse gains that the abilities and criteria do not give: who reads the files would refuse them."""
    documents, criteria = table.documents, table.criteria
    if not tables.has_abilities(documents, criteria):
        return
    computed = gain(documents["theta"], criteria["gamma"], criteria["beta"])
    wrong = documents[apart(documents["gain"].to_numpy(), computed)]
    if len(wrong):
        raise RCPError(
            f"gains are not those of the abilities (Eq. 4) for {examples(keys_of(wrong, 3))}; release the calibrated"
            " ones"
        )


def _subsets(table: GainTable, subset: str | Mapping[str, str] | None) -> dict[str, GainTable]:
    """The table's parts by the subset that each becomes."""
    if isinstance(subset, Mapping):
        if set(subset) != set(table.datasets):
            raise RCPError(
                f"subset names the subsets of {examples(subset)}, and the table holds {examples(table.datasets)}: name"
                " one for each"
            )
        names = [subset[dataset] for dataset in table.datasets]
    elif subset is not None and len(table.datasets) > 1:
        raise RCPError(
            f"subset={subset!r} is for a table of one dataset; this one holds {examples(table.datasets)}: leave subset"
            " out (each becomes a subset of its name), give a mapping of dataset to subset, or .select one"
        )
    else:
        names = [dataset or DEFAULT if subset is None else subset for dataset in table.datasets]
    wrong = [name for name in names if not isinstance(name, str) or not _SUBSET.fullmatch(name)]
    if wrong:
        how = "subset=, a mapping of dataset to subset" if len(names) > 1 else "subset="
        raise RCPError(
            f"a subset is called by letters, digits, '_', '-' and '.', not {examples(wrong)}; name it with {how}"
        )
    if "" in table.datasets and len(names) > 1 and not isinstance(subset, Mapping):
        raise RCPError(
            f"one of the table's datasets has no name (the others: {examples(table.datasets[1:])}); give subset a"
            " mapping of dataset to subset"
        )
    if len(set(names)) < len(names):
        raise RCPError(f"several datasets would become one subset: {examples(zip(table.datasets, names, strict=True))}")
    return {name: table.select(dataset) for name, dataset in zip(names, table.datasets, strict=True)}


def _labelled(table: GainTable, labels: pd.DataFrame) -> GainTable:
    """The table with these human labels instead of its own; those of other queries are left out, and said."""
    labels = with_keys(labels, ["qid"], "frame of human labels", table.dataset_of(labels, "human labels"))
    ours = tables.known(labels, table.queries)
    if not ours.any():
        raise RCPError(
            f"human labels and gains share no query: labels are for {tables.named(labels)}, gains for"
            f" {tables.named(table.queries)}"
        )
    if not ours.all():
        number = counted(labels["qid"][~ours].nunique(), "label query has", "label queries have")
        warn(f"{number} no gains, left out: {tables.named(labels[~ours])}")
    return GainTable(
        table.documents, table.queries, table.criteria, table.metadata, table.excluded_outside, labels[ours]
    )


def _checked_corpus(corpus: pd.DataFrame, datasets: list[str]) -> pd.DataFrame:
    """The corpus of the table's datasets, each document once, with a text."""
    others = ~corpus["dataset"].isin(datasets)
    if len(corpus) and others.all():
        raise RCPError(f"the corpus is of dataset {examples(corpus['dataset'])}, the gains are of {examples(datasets)}")
    if others.any():
        left = examples(corpus["dataset"][others])
        number = counted(int(others.sum()), "text of the corpus is", "texts of the corpus are")
        warn(f"{number} of datasets without gains, left out: {left}")
        corpus = corpus[~others]
    if "text" not in corpus.columns:
        raise RCPError(f"the corpus has no column 'text' (it has {list(corpus.columns)})")
    for column in {"text", "title"} & set(corpus.columns):
        missing = corpus[corpus[column].isna()] if column == "text" else corpus.head(0)
        if len(missing):
            raise RCPError(f"the corpus has no text (None or NaN) for document {examples(missing['docno'])}")
        odd = [value for value in corpus[column].dropna().unique() if not isinstance(value, str)]
        if odd:
            raise RCPError(f"the corpus: column {column!r} holds {type(odd[0]).__name__}, not text")
    repeated = corpus[corpus.duplicated(["dataset", "docno"])]
    if len(repeated):
        raise RCPError(f"the corpus holds document {examples(repeated['docno'])} twice")
    return corpus


def _configs(part: GainTable, name: str, corpus: pd.DataFrame | None) -> dict[str, Columns]:
    """The columns of every config of one dataset, as mteb and the authors' releases name them."""
    documents, queries = part.documents, part.queries
    configs: dict[str, Columns] = {"qrels": _qrels(part)}
    scored = documents[~documents["excluded"]]
    configs["gains"] = {**_pair(scored), "gain": (NUMBERS, scored["gain"])}
    pool = documents[documents["pool_rank"].notna()].sort_values(["pool_rank", "docno"], kind="stable")
    if len(pool):
        configs["top_ranked"] = _lists(pool, part, "corpus-ids")
    excluded = pd.concat([documents[documents["excluded"]][KEYS], part.excluded_outside])
    if len(excluded):
        configs["excluded"] = _lists(excluded.sort_values(KEYS), part, "excluded-corpus-ids")
    without = queries["qid"][queries["query"].isna()]
    if len(without):
        warn(
            f"{counted(len(without), 'query has', 'queries have')} no text ({examples(without)}): no config"
            f" {config(name, 'queries')!r} is written, and mteb's loader loads no dataset without"
        )
    else:
        configs["queries"] = {"id": (IDS, queries["qid"]), "text": (TEXTS, queries["query"])}
    if corpus is not None:
        configs["corpus"] = _corpus(part, corpus)
    return configs


def _qrels(part: GainTable) -> Columns:
    """A row per document that has a gain or a human label; without human labels the score is the number of criteria."""
    documents, labels = part.documents, part.human_labels
    if len(labels):
        rows = documents.merge(labels, on=KEYS, how="left")
        score = rows["label"].fillna(UNJUDGED).astype("int64")
        gained = pd.MultiIndex.from_frame(documents[KEYS])
        more = labels[~pd.MultiIndex.from_frame(labels[KEYS]).isin(gained)]
        rows = pd.concat([rows.assign(label=score), more], ignore_index=True)
    else:
        rows = documents.assign(label=tables.levels(documents, part.criteria))
    columns = {
        **_pair(rows),
        "score": (NUMBERS, rows["label"].to_numpy(dtype="int64")),
        "gain": (NUMBERS, rows["gain"]),
    }
    if tables.has_abilities(documents, part.criteria):
        columns["theta"] = (NUMBERS, rows["theta"])
    return columns


def _corpus(part: GainTable, corpus: pd.DataFrame) -> Columns:
    judged = set(part.documents["docno"])
    lacking = judged - set(corpus["docno"])
    if lacking and lacking == judged:
        where = f" of dataset {part.datasets[0]!r}" if part.datasets != [""] else ""
        raise RCPError(
            f"the corpus holds none of the judged documents{where}: judged are {examples(judged)}, it holds"
            f" {examples(corpus['docno']) or 'none'}"
        )
    if lacking:
        warn(f"the corpus lacks {counted(len(lacking), 'document')} with a gain: {examples(lacking)}")
    columns: Columns = {"id": (IDS, corpus["docno"])}
    if "title" in corpus.columns:
        columns["title"] = (TEXTS, corpus["title"].astype(object).where(corpus["title"].notna(), ""))
    return {**columns, "text": (TEXTS, corpus["text"])}


def _pair(rows: pd.DataFrame) -> Columns:
    return {"query-id": (IDS, rows["qid"]), "corpus-id": (IDS, rows["docno"])}


def _lists(rows: pd.DataFrame, part: GainTable, column: str) -> Columns:
    """One list of documents a query, in the order of the rows; queries in the table's order."""
    lists: dict[str, list[str]] = {}
    for _, qid, docno in keys_of(rows, 3):
        lists.setdefault(qid, []).append(docno)
    qids = [qid for qid in part.queries["qid"] if qid in lists]
    return {"query-id": (IDS, qids), column: (ID_LISTS, [lists[qid] for qid in qids])}
