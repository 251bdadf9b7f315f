"""The frames that a gain table is made of: their columns and keys, their checks, their gains, their join with labels.

GainTable holds them together; it is in `gains`.
"""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np
import pandas as pd

from rcp_irx.calibration import centre, count_gain, gain
from rcp_irx.documents import flags, with_keys, with_labels
from rcp_irx.errors import RCPError, counted, examples, warn

KEYS = ["dataset", "qid", "docno"]
DOCUMENT_COLUMNS = [*KEYS, "gain", "theta", "bt", "n", "pool_rank", "excluded"]
QUERY_COLUMNS = ["dataset", "qid", "query", "tau", "alpha"]
CRITERION_COLUMNS = ["id", "name", "question", "gamma", "beta"]
ROUNDED_GAIN = 1e-3
"""Gains this near to Eq. 4's are those, rounded: released ones may have few digits."""
UNJUDGED = -1
"""TREC's label of a document that nobody judged."""


def with_columns(frame: pd.DataFrame, columns: list[str], what: str) -> pd.DataFrame:
    """The frame, which has these columns.

    Raises
    ------
    RCPError
        If it lacks one.
    """
    absent = [column for column in columns if column not in frame.columns]
    if absent:
        raise RCPError(f"the {what} table has no column {examples(absent)} (it has {list(frame.columns)})")
    return frame


def keys_of(frame: pd.DataFrame, depth: int) -> list[tuple[str, ...]]:
    """Each row's dataset, query (depth 2) and document (depth 3)."""
    return list(frame[KEYS[:depth]].itertuples(index=False, name=None))


def named(frame: pd.DataFrame) -> str:
    """Up to three queries for a message, with their datasets where these are named."""
    keys = set(keys_of(frame, 2))
    return examples(qid for _, qid in keys) if {dataset for dataset, _ in keys} == {""} else examples(keys)


def known(frame: pd.DataFrame, queries: pd.DataFrame) -> pd.Series:
    """Which rows are of one of the queries."""
    return pd.Series(keys_of(frame, 2), index=frame.index, dtype=object).isin(keys_of(queries, 2))


def holds(documents: pd.DataFrame, *columns: str) -> bool:
    """Whether a table has these columns' values; a released one may lack them: NaN in every row."""
    return not len(documents) or not documents[list(columns)].isna().all().any()


def has_abilities(documents: pd.DataFrame, criteria: pd.DataFrame) -> bool:
    """Whether a table holds abilities, and the criteria that they are measured against."""
    return len(criteria) > 0 and holds(documents, "theta")


def gain_order(documents: pd.DataFrame, criteria: pd.DataFrame) -> np.ndarray:
    """Numbers that order documents as their gains do, (D,).

    Abilities, where the gains are those of Eq. 4, which rise with the ability but may round to one value; else, as with
    the gains of Section E.5, the gains themselves.
    """
    known = has_abilities(documents, criteria) and not is_shaped(documents, criteria)
    found: np.ndarray = documents["theta" if known else "gain"].to_numpy(dtype=np.float64)
    return found


def is_shaped(documents: pd.DataFrame, criteria: pd.DataFrame) -> bool:
    """Whether gains are others than Eq. 4's of their abilities, beyond rounding; False where it cannot be told."""
    if not has_abilities(documents, criteria) or not len(documents):
        return False
    parameters = (criteria[name].to_numpy(dtype=np.float64) for name in ("gamma", "beta"))
    expected = gain(documents["theta"].to_numpy(dtype=np.float64), *parameters)
    return bool(np.abs(documents["gain"].to_numpy(dtype=np.float64) - expected).max() > ROUNDED_GAIN)


def reach_easiest(documents: pd.DataFrame, criteria: pd.DataFrame) -> np.ndarray:
    """Which documents reach the easiest criterion's difficulty, (D,).

    By their abilities; where these were not released, by the gain that Eq. 4 has there. All do where there is no
    criterion.
    """
    if not len(criteria):
        return np.ones(len(documents), dtype=bool)
    beta = criteria["beta"].to_numpy(dtype=np.float64)
    if has_abilities(documents, criteria):
        reached: np.ndarray = documents["theta"].to_numpy(dtype=np.float64) >= beta.min()
        return reached
    least = gain(beta.min(), criteria["gamma"].to_numpy(dtype=np.float64), beta)
    reached = documents["gain"].to_numpy(dtype=np.float64) >= least
    return reached


def check(documents: pd.DataFrame, queries: pd.DataFrame, criteria: pd.DataFrame) -> None:
    """Refuse frames that cannot be a gain table's; what each may hold stands in `GainTable`."""
    if documents["excluded"].dtype != bool and len(documents):
        raise RCPError("column 'excluded' of the documents table must hold True or False")
    for name in ["theta", "bt", "n", *criteria["id"]]:
        values = documents[name].to_numpy()
        if values.dtype.kind not in "iuf" or not (np.isfinite(values).all() or np.isnan(values).all()):
            raise RCPError(
                f"column {name!r} of the documents table must hold finite numbers, or NaN in every row (not released)"
            )
    values = documents["pool_rank"].to_numpy()
    if values.dtype.kind not in "iuf" or np.isinf(values).any():
        raise RCPError("column 'pool_rank' of the documents table must hold finite numbers, or NaN (no rank)")
    for frame, keys, what in [(documents, KEYS, "documents"), (queries, KEYS[:2], "queries")]:
        repeated = frame[frame.duplicated(keys)]
        if len(repeated):
            raise RCPError(f"the {what} table repeats {examples(repeated[keys].itertuples(index=False, name=None))}")
    gains = documents["gain"].to_numpy(dtype=float)
    wrong = documents[~((gains >= 0) & (gains <= 1))]
    if len(wrong):
        raise RCPError(f"gains outside [0, 1] (or NaN) for {examples(wrong[KEYS].itertuples(index=False, name=None))}")
    orphans = set(keys_of(documents, 2)) - set(keys_of(queries, 2))
    if orphans:
        raise RCPError(f"the queries table lacks {examples(orphans)}, which the documents table holds")


def checked_labels(labels: pd.DataFrame, dataset: str, queries: pd.DataFrame) -> pd.DataFrame:
    """The labels as `dataset, qid, docno, label`, sorted; -1 is no label."""
    rows = with_labels(labels, "frame of human labels", dataset)
    unknown = rows[~known(rows, queries)]
    if len(unknown):
        raise RCPError(f"human labels of queries that are not in the queries table: {named(unknown)}")
    return rows[rows["label"] != UNJUDGED].sort_values(KEYS)


def gain_columns(documents: pd.DataFrame, criteria: pd.DataFrame) -> dict[str, np.ndarray]:
    """What evaluation reads beside the keys; a gain whose sources were not released is left out."""
    gamma, beta = criteria["gamma"].to_numpy(dtype=float), criteria["beta"].to_numpy(dtype=float)
    columns = {"gain": documents["gain"].to_numpy(dtype=float)}
    if len(criteria) and holds(documents, "n", *criteria["id"]):
        passes, placements = documents[list(criteria["id"])].to_numpy(dtype=float), documents["n"].to_numpy(dtype=float)
        columns["count_gain"] = count_gain(passes, placements)
        columns["weighted_count_gain"] = count_gain(passes, placements, gamma)
    if len(criteria) and holds(documents, "bt"):
        codes = pd.factorize(pd.MultiIndex.from_frame(documents[KEYS[:2]]))[0]
        columns["raw_bt_gain"] = gain(centre(documents["bt"].to_numpy(dtype=float), codes), gamma, beta)
    columns["excluded"] = documents["excluded"].to_numpy(dtype=bool)
    pool_rank = documents["pool_rank"].to_numpy()
    columns["pool_rank"] = pool_rank if np.isnan(pool_rank).any() else pool_rank.astype(np.int64)
    return columns


def levels(documents: pd.DataFrame, criteria: pd.DataFrame) -> np.ndarray:
    """Per document, the number of criteria whose difficulty lies at or below its ability; int64, shape (D,).

    Raises
    ------
    RCPError
        If the table has no abilities.
    """
    if len(documents) and not has_abilities(documents, criteria):
        raise RCPError("the abilities of these gains were not released, and no label can be made of them: give labels")
    difficulty, ability = criteria["beta"].to_numpy(dtype=float), documents["theta"].to_numpy(dtype=float)
    return (difficulty <= ability[:, None]).sum(axis=1).astype(np.int64)


def joined(
    frame: pd.DataFrame, labels: pd.DataFrame, outside: pd.DataFrame, queries: pd.DataFrame, dataset: str
) -> pd.DataFrame:
    """The outer join of a frame of gains, labels and excluded documents, over the queries that have gains."""
    keyed = with_keys(labels, ["qid", "docno"], "labels frame", dataset)
    marked = set(keys_of(keyed[flags(keyed, "excluded", "labels frame")], 3))
    labels = with_labels(labels, "labels frame", dataset)
    ours = known(labels, queries)
    if len(labels) and not ours.any():
        raise RCPError(f"labels and gains share no query: labels are for {named(labels)}, gains for {named(queries)}")
    if not ours.all():
        left = labels["qid"][~ours]
        number = counted(left.nunique(), "label query has", "label queries have")
        warn(f"{number} no gains, left out: {examples(left)}")
    rows = frame.merge(labels[ours], on=KEYS, how="outer", sort=False)
    rows = rows.merge(outside, on=KEYS, how="outer", sort=False)
    rows["label"] = rows["label"].fillna(UNJUDGED).astype(np.int64)
    out = marked | set(keys_of(outside, 3))
    rows["excluded"] = rows["excluded"].eq(True) | pd.Series([key in out for key in keys_of(rows, 3)], dtype=bool)
    return rows[[*KEYS, "label", *frame.columns[3:]]]


def fit_id(documents: pd.DataFrame, criteria: pd.DataFrame, metadata: dict[str, Any]) -> str:
    """A hash of what was estimated and from what, the same for any order of rows."""
    digest = hashlib.sha256(json.dumps([metadata.get("judge"), criteria.values.tolist()]).encode())
    columns = [*KEYS, "theta", "bt", "n", *criteria["id"]]
    if documents["theta"].isna().any():  # gains that were released without abilities
        columns.append("gain")
    for row in sorted(documents[columns].astype(object).itertuples(index=False, name=None)):
        digest.update(json.dumps(row).encode())
    return digest.hexdigest()[:12]
