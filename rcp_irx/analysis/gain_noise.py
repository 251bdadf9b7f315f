"""Carries the standard errors of gains (`gain_se`) into the systems' mean RCP-nDCG, by the delta method.

Where the standard errors come from is not known here; resampling of queries is in `significance`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from rcp_irx.errors import RCPError, counted, examples, warn
from rcp_irx.evaluation.inputs import Pools, read_pools, read_run
from rcp_irx.evaluation.ranking import ranked
from rcp_irx.gains import GainTable

COLUMN = "gain_se"


def with_errors(gains: GainTable) -> pd.DataFrame:
    """`GainTable.scored` with the column `gain_se`; NaN for excluded documents that are in no pool.

    Raises
    ------
    RCPError
        If the table has no such column, or it holds something else than numbers >= 0.

    Warns
    -----
    RCPWarning
        If standard errors are unknown (NaN, as in pools of one or two documents): they count as 0.
    """
    documents = gains.documents
    if COLUMN not in documents.columns:
        raise RCPError(
            f"label_noise=True reads a column {COLUMN!r} of the gain table, which it has not: calibrate the log again"
            " (log.calibrate() gives it), or compare with label_noise=False"
        )
    errors = pd.to_numeric(documents[COLUMN], errors="coerce").to_numpy(dtype=np.float64)
    unknown = documents[COLUMN].isna().to_numpy()
    wrong = documents[~(unknown | (np.isfinite(errors) & (errors >= 0)))]
    if len(wrong):
        found = examples(wrong[["qid", "docno", COLUMN]].itertuples(index=False, name=None))
        raise RCPError(f"column {COLUMN!r} must hold finite numbers >= 0; query, document, value: {found}")
    if unknown.all():
        raise RCPError(f"column {COLUMN!r} holds no number: the judge's noise is not known")
    if unknown.any():
        found = examples(documents.loc[unknown, ["qid", "docno"]].itertuples(index=False, name=None))
        warn(f"the judge's noise is not known for {counted(int(unknown.sum()), 'document')}, taken as none: {found}")
        errors = np.where(unknown, 0.0, errors)
    rows = gains.scored
    return rows.assign(**{COLUMN: np.append(errors, np.full(len(rows) - len(errors), np.nan))})


def noise_covariances(
    runs: Mapping[str, pd.DataFrame], rows: pd.DataFrame, k: int, ties: str
) -> dict[str, pd.DataFrame]:
    """How the judge's noise moves the systems' mean RCP-nDCG@k together.

    Parameters
    ----------
    runs : mapping of str to DataFrame
    rows : DataFrame
        As `with_errors` gives them; of the scored queries only.
    k : int
    ties : str
        As in `evaluation.ndcg`, but "mean".

    Returns
    -------
    dict
        For each dataset the covariance of the systems' means, rows and columns by name, sorted.

    Notes
    -----
    Each document's noise is taken as independent of every other's, with standard deviation `gain_se`. To first order a
    query's score moves by the sum over documents of noise x (discount in the system's list - score x discount in the
    ideal list) / DCG of the ideal list. What larger noise does beyond that, such as a change of the ideal's documents,
    is left out: it pulls the means of good systems down. Errors of one query do go together (small noise moves them the
    same way, large noise against each other); in simulations the standard error of a mean came out at 1.0 to 1.5 times
    the true one, that of a difference at .8 to 1.6 times.

    Raises
    ------
    RCPError
        Under `ties="mean"`, where no document has a rank of its own.
    """
    if ties == "mean":
        raise RCPError("label_noise=True follows each document's rank, and under ties='mean' tied ones have none")
    pools, errors = read_pools(rows), read_pools(rows, column=COLUMN).gain
    ideal = _ideal_discounts(pools, k)
    gain, queries = np.where(pools.rated, pools.gain, 0.0), len(pools.queries)
    best = np.bincount(pools.query, weights=gain * ideal, minlength=queries)
    unit = np.divide(1.0, best, out=np.zeros(queries), where=best > 0)
    scale = np.where(pools.rated, errors, 0.0) * unit[pools.query]
    systems = sorted(runs)
    moves = np.empty((len(gain), len(systems)))
    for column, name in enumerate(systems):
        discount = _discounts(runs[name], pools, k, ties)
        dcg = np.bincount(pools.query, weights=gain * discount, minlength=queries)
        moves[:, column] = scale * (discount - (dcg * unit)[pools.query] * ideal)
    found = {}
    datasets = np.array([dataset for dataset, _ in pools.queries], dtype=object)
    for dataset in sorted(set(datasets)):
        own = moves[(datasets == dataset)[pools.query]] / np.sum(datasets == dataset)
        found[str(dataset)] = pd.DataFrame(own.T @ own, index=systems, columns=systems)
    return found


def noise_samples(covariance: pd.DataFrame, seed: Sequence[int], replicates: int) -> pd.DataFrame:
    """Draws of the noise of each system's mean, one row per replicate, a column per system."""
    values, vectors = np.linalg.eigh(covariance.to_numpy())
    root = (vectors * np.sqrt(np.clip(values, 0.0, None))) @ vectors.T
    drawn = np.random.default_rng(seed).standard_normal((replicates, len(values))) @ root
    return pd.DataFrame(drawn, columns=covariance.columns)


def _discounts(run: pd.DataFrame, pools: Pools, k: int, ties: str) -> np.ndarray:
    """The discount of each pool entry in a system's list, 0 beyond the first k, shape (D,)."""
    entries = np.arange(1.0, len(pools.gain) + 1)  # in the gains' place, so that the ranking tells which are where
    places = replace(pools, gain=np.where(np.isnan(pools.gain), np.nan, entries))
    top = ranked(read_run(run, places), places, k, ties)
    found = top.gain > 0
    discount = np.zeros(len(entries))
    discount[top.gain[found].astype(np.intp) - 1] = 1 / np.log2(top.rank[found] + 2)
    return discount


def _ideal_discounts(pools: Pools, k: int) -> np.ndarray:
    """The discount of each pool entry in the ideal list, shape (D,)."""
    order = np.lexsort((-pools.gain, pools.query))
    order = order[pools.rated[order]]
    rank = np.arange(len(order)) - np.searchsorted(pools.query[order], pools.query[order])
    discount = np.zeros(len(pools.gain))
    discount[order[rank < k]] = 1 / np.log2(rank[rank < k] + 2)
    return discount
