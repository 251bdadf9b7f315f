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
    table. Where the queries' texts and the pools' order were not released, they are None and NaN.

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
        called after it, else the only one at the top, else in a folder that says "item" or "param".
    api : huggingface_hub.HfApi, optional
        With a token or endpoint of your own.

    Raises
    ------
    RCPError
        No released dataset, subset, split or item parameters (it names what is there); missing columns; text, NaN or
        fractions where there may be none; gains outside [0, 1] or not those of their abilities; repeated documents; no
        gain at all; a table and Parquet files that differ.
    MissingExtra
        Without pyarrow, or for the Hub without huggingface_hub.

    Warns
    -----
    RCPWarning
        If queries or documents of the pools have no gain; if a gain stands beside a null `theta`; if the Hub cannot be
        asked and what was fetched before is read.
    """
    folder, origin = hub.folder_of(source, subset, split, revision, item_parameters, api)
    where = str(origin["source"])
    files = layout.find(layout.listed(folder), subset, split, where)
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


def _table(
    folder: Path, files: Files, rows: pd.DataFrame, items: ItemParameters | None, dataset: str, origin: dict[str, Any]
) -> GainTable:
    """The table of rows that have gains, with the labels of their queries."""
    pool = _pool(folder, files)
    documents = rows[rows["gain"].notna()].merge(pool, on=PAIR, how="left").sort_values(PAIR)
    qids = sorted(set(documents["qid"]))
    excluded = _listed(folder, files, "excluded", "excluded-corpus-ids")
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
        {"dataset": dataset, "qid": qids, "query": _texts(folder, files, qids), "tau": np.nan, "alpha": np.nan}
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


def _texts(folder: Path, files: Files, qids: list[str]) -> list[str | None]:
    """The queries' texts, where they were released (mteb's columns: `id` or `_id`, and `text`)."""
    if "queries" not in files.names:
        return [None] * len(qids)
    rows = read(folder, files.names["queries"], {"text": TEXTS}, {"id": IDS, "_id": IDS})
    column = next((name for name in ("id", "_id") if name in rows), None)
    if column is None:
        raise RCPError(f"{files.first(folder, 'queries')} has no column 'id' or '_id' (it has {list(rows.columns)})")
    refuse_repeated(rows.rename(columns={column: "qid"}), ["qid"], files.first(folder, "queries"))
    texts = dict(zip(rows[column], rows["text"], strict=True))
    return [texts.get(qid) for qid in qids]


def _warn_of_unjudged(pool: pd.DataFrame, rows: pd.DataFrame, qids: list[str]) -> None:
    """Say which queries and pool documents get no gain."""
    without = sorted(set(rows["qid"]) - set(qids))
    if without:
        number = counted(len(without), "query has", "queries have")
        warn(f"{number} labels and no gain (theta is null), and is left out: {examples(without)}")
    judged = pd.MultiIndex.from_frame(rows[rows["gain"].notna()][PAIR])
    unjudged = pool[~pd.MultiIndex.from_frame(pool[PAIR]).isin(judged)]
    if len(unjudged):
        number = counted(len(unjudged), "document of the pools has", "documents of the pools have")
        warn(f"{number} no gain (theta is null): unjudged; query, document {pairs(unjudged[PAIR])}")


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
    if len(stored.human_labels):
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
