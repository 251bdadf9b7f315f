"""A released dataset's subset as a GainTable.

Where the files are is for `layout`, how they come from the Hub for `hub`, which rows are right for `judgments`.
"""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rcp_irx import tables
from rcp_irx.errors import RCPError, counted, examples, warn
from rcp_irx.gains import GainTable
from rcp_irx.released import hub, layout
from rcp_irx.released.items import ItemParameters
from rcp_irx.released.judgments import NAMES, PAIR, judgments, pairs, refuse_repeated
from rcp_irx.released.layout import DEFAULT, OWN, Files
from rcp_irx.released.parquet import ID_LISTS, IDS, TEXTS, read
from rcp_irx.tables import KEYS


def read_released(
    source: str | os.PathLike[str],
    subset: str = DEFAULT,
    *,
    dataset: str | None = None,
    split: str | None = None,
    revision: str | None = None,
    item_parameters: str | None = None,
    api: Any = None,
) -> GainTable:
    """The gains of one subset of a released dataset: `GainTable.from_released`.

    Reads mteb's layout, `{subset}-qrels/{split}-00000-of-00001.parquet` and its like, with mteb's config `gains`, and
    the older `{subset}/qrels.parquet`. A stored gain must lie within 0.0001 of Eq. 4 at its `theta`, and is kept as it
    is; where none is stored, it is computed. Null `theta`: unjudged, no gain; such a document is in no pool of the
    table. Where the queries' texts and the pools' order were not released, they are None and NaN. A score that
    `to_released` made from criteria is no human label.

    Parameters
    ----------
    source : path or str
        The dataset's folder; else `owner/name` on the Hub.
    subset : str
        "default": the configs without `{subset}-`.
    dataset : str, optional
        The table's dataset; else the subset's name, "" for "default", or that of the table that was written.
    split : str, optional
        Needed where there are several.
    revision : str, optional
        Branch, tag or commit on the Hub.
    item_parameters : str, optional
        The name of the JSON file `{gamma, beta}` in the dataset; else the only such file in the subset's folders or
        called as it is, else one whose name holds the subset's, else the only one at the top, else in a folder that
        says "item" or "param"; never one that is called after another subset.
    api : huggingface_hub.HfApi, optional
        With a token or endpoint of your own.

    Raises
    ------
    RCPError
        No released dataset, subset, split or item parameters (it names what is there); missing columns; text, NaN or
        fractions where there may be none; gains outside [0, 1] or not those of their abilities; repeated documents; no
        gain at all; a config that shares no query with the others; a table and Parquet files that differ.
    MissingExtra
        Without pyarrow, or for the Hub without huggingface_hub.

    Warns
    -----
    RCPWarning
        If queries, excluded documents or documents of the pools have no gain, which leaves them out; if queries have no
        label or text where others have; if a gain stands beside a null `theta`; if the Hub cannot be asked and what was
        fetched before is read.
    """
    _refuse_other_types(subset, dataset, split, revision, item_parameters)
    place = hub.place_of(source, subset, split, revision, item_parameters, api)
    folder, origin = place.folder, dict(place.origin)
    files = layout.find(place.names, subset, split, place.where)
    rows, items = judgments(folder, files, subset, item_parameters)
    own = folder / OWN / subset
    stored = GainTable.load(own) if own.is_dir() else None
    name = ("" if subset == DEFAULT else subset) if dataset is None else dataset
    name = stored.datasets[0] if stored is not None else name
    origin |= {"subset": subset, "split": files.split, "layout": files.layout}
    origin["item_parameters"] = items.name if items else None
    table = _table(folder, files, rows, items, name, origin)
    if stored is not None:
        _refuse_difference(stored, table, own)
        table = stored
    return table if dataset is None or dataset == name else _renamed(table, dataset)


def _refuse_other_types(
    subset: object, dataset: object, split: object, revision: object, item_parameters: object
) -> None:
    if not isinstance(subset, str) or not subset:
        raise RCPError(f"a subset is named by a text that is not empty, not {subset!r}")
    options = {"dataset": dataset, "split": split, "revision": revision, "item_parameters": item_parameters}
    for name, value in options.items():
        if value is not None and not isinstance(value, str):
            raise RCPError(f"{name} is a text or None, not {value!r}")


def _table(
    folder: Path, files: Files, rows: pd.DataFrame, items: ItemParameters | None, dataset: str, origin: dict[str, Any]
) -> GainTable:
    """The table of rows that have gains, with the labels of their queries."""
    pool = _pool(folder, files)
    _refuse_other_queries(pool["qid"], rows, folder, files, "top_ranked")
    documents = rows[rows["gain"].notna()].merge(pool, on=PAIR, how="left").sort_values(PAIR)
    qids = sorted(set(documents["qid"]))
    excluded = _listed(folder, files, "excluded", "excluded-corpus-ids")
    _refuse_other_queries(excluded["qid"], rows, folder, files, "excluded")
    left = sorted(set(excluded["qid"]) - set(qids))
    if left:
        number = counted(len(left), "query has", "queries have")
        warn(f"{files.first(folder, 'excluded')}: {number} excluded documents and no gain, left out: {examples(left)}")
    excluded = excluded[excluded["qid"].isin(qids)].drop_duplicates()
    pairs = pd.MultiIndex.from_frame(documents[PAIR])
    out = pd.MultiIndex.from_frame(excluded[PAIR])
    _warn_of_unjudged(pool, rows, qids)
    labels = rows[rows["label"].notna() & rows["qid"].isin(qids)]
    ids = [f"C{number + 1}" for number in range(len(items.gamma) if items else 0)]
    documents = pd.DataFrame(
        {
            "dataset": dataset,
            **{column: documents[column].to_numpy() for column in [*PAIR, "gain"]},
            "theta": documents["theta"].to_numpy() if "theta" in documents else np.nan,
            **dict.fromkeys(["bt", "n", *ids], np.nan),
            "pool_rank": documents["pool_rank"].to_numpy(),
            "excluded": pairs.isin(out),
        }
    )
    if documents["pool_rank"].notna().all():
        documents["pool_rank"] = documents["pool_rank"].astype(np.int64)
    queries = pd.DataFrame(
        {"dataset": dataset, "qid": qids, "query": _texts(folder, files, rows, qids), "tau": np.nan, "alpha": np.nan}
    )
    criteria = pd.DataFrame(
        {
            "id": pd.Series(ids, dtype=object),
            "name": pd.Series([""] * len(ids), dtype=object),
            "question": pd.Series([""] * len(ids), dtype=object),
            "gamma": items.gamma if items else np.zeros(0),
            "beta": items.beta if items else np.zeros(0),
        }
    )
    metadata = {
        "released": origin,
        "rcp_irx": "",  # who made them is not known
        "fit_id": _fit_id(documents, items),
        "derived": f"[{dataset}]" if dataset else "",
    }
    return GainTable(
        documents,
        queries,
        criteria,
        metadata,
        excluded[~out.isin(pairs)].assign(dataset=dataset),
        labels[[*PAIR, "label"]].assign(dataset=dataset),
    )


def _pool(folder: Path, files: Files) -> pd.DataFrame:
    """`qid, docno, pool_rank` of the pools' documents."""
    rows = _listed(folder, files, "top_ranked", "corpus-ids")
    if len(rows):
        refuse_repeated(rows, PAIR, files.first(folder, "top_ranked"))
    return rows.assign(pool_rank=rows.groupby("qid", sort=False).cumcount().astype(float))


def _listed(folder: Path, files: Files, kind: str, column: str) -> pd.DataFrame:
    """`qid, docno` of a config that holds one list of ids a query."""
    if kind not in files.names:
        return pd.DataFrame({"qid": [], "docno": []}, dtype=object)
    lists = read(folder, files.names[kind], {"query-id": IDS, column: ID_LISTS})
    refuse_repeated(lists.rename(columns=NAMES), ["qid"], files.first(folder, kind))
    pairs = [(qid, docno) for qid, docnos in zip(lists["query-id"], lists[column], strict=True) for docno in docnos]
    return pd.DataFrame(pairs, columns=PAIR, dtype=object)


def _refuse_other_queries(qids: pd.Series, rows: pd.DataFrame, folder: Path, files: Files, kind: str) -> None:
    """Refuse a config without any query of the qrels or gains; one that serves all splits may hold others alone."""
    if len(qids) and not qids.isin(rows["qid"]).any() and not files.serves_all_splits(kind):
        raise RCPError(
            f"{files.first(folder, kind)} shares no query with the qrels and gains beside it: its queries are"
            f" {examples(qids)}, theirs {examples(rows['qid'])}"
        )


def _texts(folder: Path, files: Files, rows: pd.DataFrame, qids: list[str]) -> list[str | None]:
    """The queries' texts, where they were released (mteb's columns: `id` or `_id`, and `text`)."""
    if "queries" not in files.names:
        return [None] * len(qids)
    where = files.first(folder, "queries")
    queries = read(folder, files.names["queries"], {"text": TEXTS}, {"id": IDS, "_id": IDS})
    column = next((name for name in ("id", "_id") if name in queries), None)
    if column is None:
        raise RCPError(f"{where} has no column 'id' or '_id' (it has {list(queries.columns)})")
    refuse_repeated(queries.rename(columns={column: "qid"}), ["qid"], where)
    _refuse_other_queries(queries[column], rows, folder, files, "queries")
    texts = dict(zip(queries[column], queries["text"], strict=True))
    lacking = [qid for qid in qids if texts.get(qid) is None]
    if lacking:
        warn(f"{where} has no text of {counted(len(lacking), 'query', 'queries')} with gains: {examples(lacking)}")
    return [texts.get(qid) for qid in qids]


def _warn_of_unjudged(pool: pd.DataFrame, rows: pd.DataFrame, qids: list[str]) -> None:
    """Say which queries and pool documents get no gain, and which queries no label."""
    without = sorted(set(rows["qid"]) - set(qids))
    if without:
        number = counted(len(without), "query has", "queries have")
        why = " (theta is null)" if "theta" in rows else ""
        warn(f"{number} labels and no gain{why}, left out: {examples(without)}")
    labelled = set(rows["qid"][rows["label"].notna()])
    unlabelled = [qid for qid in qids if qid not in labelled]
    if labelled and unlabelled:
        warn(f"{counted(len(unlabelled), 'query has', 'queries have')} gains and no label: {examples(unlabelled)}")
    judged = pd.MultiIndex.from_frame(rows[rows["gain"].notna()][PAIR])
    unjudged = pool[~pd.MultiIndex.from_frame(pool[PAIR]).isin(judged)]
    if len(unjudged):
        number = counted(len(unjudged), "document of the pools has", "documents of the pools have")
        why = " (theta is null)" if "theta" in rows else ""
        warn(f"{number} no gain{why}: unjudged; query, document {pairs(unjudged[PAIR])}")


def _fit_id(documents: pd.DataFrame, items: ItemParameters | None) -> str:
    """A fit's item parameters are its own to the last digit: all subsets that share them are of one fit."""
    estimated = [items.gamma.tolist(), items.beta.tolist()] if items else documents[[*PAIR, "gain"]].values.tolist()
    return hashlib.sha256(json.dumps(estimated).encode()).hexdigest()[:12]


def _refuse_difference(stored: GainTable, standard: GainTable, own: Path) -> None:
    """Refuse a saved table that is not that of the Parquet files beside it: somebody changed one of them."""
    columns = [*KEYS, "gain", "excluded", *(["theta"] if tables.holds(standard.documents, "theta") else [])]
    frames = [
        (stored.documents[columns], standard.documents[columns]),
        (stored.excluded_outside, standard.excluded_outside),
    ]
    if len(standard.human_labels) and not len(stored.human_labels):  # written anew by a tool that drops our mark
        counts = tables.levels(stored.documents, stored.criteria)
        frames.append((stored.documents[KEYS].assign(label=counts), standard.human_labels))
    else:
        frames.append((stored.human_labels, standard.human_labels))
    for ours, theirs in frames:
        rows = pd.concat([ours, theirs]).drop_duplicates(keep=False)
        if len(rows):
            raise RCPError(
                f"{own} and the Parquet files beside it differ for query, document {pairs(rows[PAIR])}: one of them"
                f" was changed; remove {own} to read the Parquet files alone"
            )


def _renamed(table: GainTable, dataset: str) -> GainTable:
    """The table of one dataset under another name."""
    frames = [table.documents, table.queries, table.excluded_outside, table.human_labels]
    documents, queries, outside, labels = (frame.assign(dataset=dataset) for frame in frames)
    return GainTable(documents, queries, table.criteria, table.metadata, outside, labels)
