"""The judged rows of a released subset: labels, gains and abilities from its qrels and float gains, all checked.

What a table makes of them is for `reading`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd

from rcp_irx.calibration import gain
from rcp_irx.errors import RCPError, counted, examples, warn
from rcp_irx.released import layout
from rcp_irx.released.items import ItemParameters, read_items
from rcp_irx.released.layout import Files
from rcp_irx.released.parquet import IDS, NUMBERS, mark_of, read

TOLERANCE = 1e-4
"""How far a stored gain may lie from the gain of its ability: room for float32 and for four decimals."""

PAIR = ["qid", "docno"]
SCORE_MARK, CRITERIA = "rcp_irx.score", "criteria"
"""What the schema of a qrels file says where the score is a number of criteria, and no human label."""

NAMES = {"query-id": "qid", "corpus-id": "docno", "score": "label"}


def judgments(
    folder: Path, files: Files, subset: str, item_parameters: str | None
) -> tuple[pd.DataFrame, ItemParameters | None]:
    """The rows `qid, docno, label, gain, theta` (NaN: none; theta absent where it is not released), and the items.

    A score that is marked as made from criteria is no label.
    """
    rows = pd.DataFrame({"qid": [], "docno": [], "label": []}, dtype=object)
    items = None
    if "qrels" in files.names:
        needed = {"query-id": IDS, "corpus-id": IDS, "score": NUMBERS}
        rows = read(folder, files.names["qrels"], needed, {"gain": NUMBERS, "theta": NUMBERS}).rename(columns=NAMES)
        where = files.first(folder, "qrels")
        refuse_repeated(rows, PAIR, where)
        _refuse_bad_labels(rows, where)
        _refuse_bad_gains(rows, where)
        if "theta" in rows:
            items = read_items(folder, files.present, subset, item_parameters)
            rows = _with_gains(rows, items, where, folder)
        if mark_of(folder, files.names["qrels"], SCORE_MARK) == CRITERIA:
            rows = rows.assign(label=np.nan)
    if "gains" in files.names:
        rows = _with_float_gains(rows, folder, files)
    if "gain" not in rows:
        where = files.first(folder, "qrels")
        raise RCPError(
            f"{where} has neither a column 'gain' nor 'theta' (it has {list(rows.columns)}), and there is no config"
            f" {layout.config(subset, 'gains')!r}: no gains"
        )
    if rows["gain"].isna().all():
        raise RCPError(f"subset {subset!r} of {folder} has no gain: every document is unjudged (null)")
    return rows, items


def apart(gains: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Which gains are not the same; NaN is the same as none."""
    return ~(np.abs(gains - others) <= TOLERANCE)


def _with_gains(rows: pd.DataFrame, items: ItemParameters, where: Path, folder: Path) -> pd.DataFrame:
    """The rows with the gain of every ability; where one is stored, it must agree, and it is kept."""
    theta = rows["theta"].to_numpy()
    if np.isinf(theta).any():
        raise RCPError(f"{where}: infinite theta for query, document {pairs(rows[np.isinf(theta)][PAIR])}")
    judged = ~np.isnan(theta)
    computed = np.full(len(rows), np.nan)
    computed[judged] = gain(theta[judged], items.gamma, items.beta)
    if "gain" not in rows:
        return rows.assign(gain=computed)
    stored = rows["gain"].to_numpy()
    lacking = judged & np.isnan(stored)
    if lacking.any():
        raise RCPError(f"{where}: theta without a gain (null) for query, document {pairs(rows[lacking][PAIR])}")
    wrong = judged & apart(stored, computed)
    if wrong.any():
        found = rows.assign(computed=computed)[wrong][[*PAIR, "gain", "computed"]]
        raise RCPError(
            f"{where}: {counted(int(wrong.sum()), 'stored gain')} more than {TOLERANCE} from the gain of theta under"
            f" {folder / items.name} (query, document, stored, computed: {pairs(found)}); the parameters belong to"
            " other gains: name theirs with item_parameters="
        )
    ignored = ~judged & (stored > 0)
    if ignored.any():
        number = counted(int(ignored.sum()), "document has", "documents have")
        warn(f"{where}: {number} a gain and no theta (null: unjudged), and get none: {pairs(rows[ignored][PAIR])}")
    return rows.assign(gain=np.where(judged, stored, np.nan))


def _with_float_gains(rows: pd.DataFrame, folder: Path, files: Files) -> pd.DataFrame:
    """The rows with the gains of the config `gains`; where the qrels hold gains, these count, and must be the same.

    The config may lack documents that have a gain: excluded ones, which no ideal may hold.
    """
    where = files.first(folder, "gains")
    needed = {"query-id": IDS, "corpus-id": IDS, "gain": NUMBERS}
    floats = read(folder, files.names["gains"], needed).rename(columns=NAMES)
    refuse_repeated(floats, PAIR, where)
    if floats["gain"].isna().any():
        raise RCPError(f"{where}: no gain (null) for query, document {pairs(floats[floats['gain'].isna()][PAIR])}")
    _refuse_bad_gains(floats, where)
    if len(rows) and len(floats) and not rows["qid"].isin(floats["qid"]).any():
        raise RCPError(
            f"{where} and {files.first(folder, 'qrels')} share no query: gains are for {examples(floats['qid'])},"
            f" labels for {examples(rows['qid'])}"
        )
    if "gain" not in rows:
        return rows.merge(floats, on=PAIR, how="outer")
    both = floats.merge(rows, on=PAIR, how="left", suffixes=("_config", ""))
    wrong = apart(both["gain"].to_numpy(), both["gain_config"].to_numpy())
    if wrong.any():
        found = pairs(both[wrong][[*PAIR, "gain", "gain_config"]])
        raise RCPError(
            f"{where} and the gains of the qrels are not the same; query, document, the qrels' gain, the other: {found}"
        )
    return rows


def refuse_repeated(rows: pd.DataFrame, keys: list[str], where: Path) -> None:
    repeated = rows[rows.duplicated(keys)]
    if len(repeated):
        what = "query, document" if len(keys) > 1 else "query"
        raise RCPError(f"{where} repeats {what} {pairs(repeated[keys])}")


def _refuse_bad_labels(rows: pd.DataFrame, where: Path) -> None:
    labels = rows["label"].to_numpy(dtype=float)
    wrong = ~(np.isfinite(labels) & (labels == np.round(labels)))
    if wrong.any():
        found = pairs(rows[wrong][[*PAIR, "label"]])
        raise RCPError(f"{where}: column 'score' holds labels, whole numbers; query, document, score: {found}")


def _refuse_bad_gains(rows: pd.DataFrame, where: Path) -> None:
    if "gain" not in rows:
        return
    gains = rows["gain"].to_numpy()
    wrong = ~np.isnan(gains) & ~((gains >= 0) & (gains <= 1))
    if wrong.any():
        found = pairs(rows[wrong][[*PAIR, "gain"]])
        raise RCPError(
            f"{where}: gains are probabilities, from 0 to 1; not so query, document, gain: {found}"
            " (rcp_irx.evaluation.ndcg takes other gains as a frame)"
        )


def pairs(rows: pd.DataFrame) -> str:
    """Up to three rows for a message: their ids, and the numbers in question."""
    return examples(rows.itertuples(index=False, name=None))
