"""Carries the standard errors of gains (`gain_se`) into the systems' mean RCP-nDCG, by the delta method.

Where the standard errors come from is not known here; resampling of queries is in `significance`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from rcp_irx.calibration import test_information
from rcp_irx.errors import RCPError, counted, examples, warn
from rcp_irx.evaluation.inputs import Pools, read_pools, read_run
from rcp_irx.evaluation.ranking import ranked
from rcp_irx.gains import GainTable
from rcp_irx.tables import has_abilities, is_shaped

COLUMN = "gain_se"
SHARED = ["shared_1", "shared_2"]
"""How far two independent errors of a query, of its scale and its offset, move each gain of it."""


def with_errors(gains: GainTable) -> pd.DataFrame:
    """`GainTable.scored` with `gain_se`, the part that is the document's own (`own_se`), and what its query shares.

    A gain errs through its query's scale and offset, together with all others of the query, and by itself. The shared
    part (columns `SHARED`) is known where the queries have `tau_se, alpha_se` and `tau_alpha_cov`, as `calibrate` gives
    them, and the gains are Eq. 4's; else all of it is taken as the document's own. NaN for excluded documents that are
    in no pool.

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
            " (log.calibrate() gives it, of the paper's gain and no other), or compare with label_noise=False"
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
    shared = _shared(gains)
    own = np.sqrt(np.clip(errors**2 - (shared**2).sum(axis=1), 0.0, None))
    rows = gains.scored
    beyond = np.full((len(rows) - len(errors), 4), np.nan)
    columns = np.vstack([np.column_stack([errors, own, shared]), beyond])
    return rows.assign(**dict(zip([COLUMN, "own_se", *SHARED], columns.T, strict=True)))


def _shared(gains: GainTable) -> np.ndarray:
    """How far a query's errors of scale and offset move its gains, as two independent ones of SD 1; (D, 2)."""
    documents, queries, criteria = gains.documents, gains.queries, gains.criteria
    nothing = np.zeros((len(documents), 2))
    names = ["alpha_se", "tau_se", "tau_alpha_cov"]
    if not set(names) <= set(queries.columns) or is_shaped(documents, criteria):
        return nothing
    if not has_abilities(documents, criteria) or documents["bt"].isna().any():
        return nothing
    of = documents[["dataset", "qid"]].merge(queries[["dataset", "qid", *names]], on=["dataset", "qid"], how="left")
    alpha, tau, both = np.nan_to_num(of[names].to_numpy(dtype=np.float64)).T
    along = np.divide(both, alpha, out=np.zeros(len(of)), where=alpha > 0)  # of tau, per SD of alpha
    rest = np.sqrt(np.clip(tau**2 - along**2, 0.0, None))
    gamma, beta = (criteria[name].to_numpy(dtype=np.float64) for name in ("gamma", "beta"))
    steep = test_information(documents["theta"].to_numpy(dtype=np.float64), gamma, beta) / gamma.sum()
    bt = documents["bt"].to_numpy(dtype=np.float64)
    return np.column_stack([steep * (alpha + bt * along), steep * bt * rest])


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
    To first order a query's score moves by the sum over documents of noise x (discount in the system's list - score x
    discount in the ideal list) / DCG of the ideal list. What the documents of a query share of the noise (its scale and
    offset) moves them together, and much of it leaves the score as it was; the rest is taken as independent. The noise
    of the criteria, which all queries share, counts as each document's own. What larger noise does beyond the first
    order, such as a change of the ideal's documents, is left out: it pulls the means of good systems down.

    Raises
    ------
    RCPError
        Under `ties="mean"`, where no document has a rank of its own.
    """
    if ties == "mean":
        raise RCPError("label_noise=True follows each document's rank, and under ties='mean' tied ones have none")
    pools = read_pools(rows)
    place = read_pools(rows.assign(row=np.arange(len(rows), dtype=np.float64)), column="row").gain.astype(np.intp)
    own, *shared = (rows[name].to_numpy(dtype=np.float64)[place] for name in ["own_se", *SHARED])
    gain, queries = np.where(pools.rated, pools.gain, 0.0), len(pools.queries)
    best = np.bincount(pools.query, weights=gain * _ideal_discounts(pools, k, gain), minlength=queries)
    unit = np.divide(1.0, best, out=np.zeros(queries), where=best > 0)
    systems = sorted(runs)
    moves, together = np.empty((len(gain), len(systems))), np.empty((2, queries, len(systems)))
    for column, name in enumerate(systems):
        discount = _discounts(runs[name], pools, k, ties)
        dcg = np.bincount(pools.query, weights=gain * discount, minlength=queries)
        ideal = _ideal_discounts(pools, k, discount)
        by_gain = np.where(pools.rated, unit[pools.query] * (discount - (dcg * unit)[pools.query] * ideal), 0.0)
        moves[:, column] = by_gain * np.where(pools.rated, own, 0.0)
        for which, part in enumerate(shared):
            moved = by_gain * np.where(pools.rated, part, 0.0)
            together[which, :, column] = np.bincount(pools.query, weights=moved, minlength=queries)
    found = {}
    datasets = np.array([dataset for dataset, _ in pools.queries], dtype=object)
    for dataset in sorted(set(datasets)):
        here = datasets == dataset
        parts = np.vstack([moves[here[pools.query]], *together[:, here]]) / here.sum()
        found[str(dataset)] = pd.DataFrame(parts.T @ parts, index=systems, columns=systems)
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


def _ideal_discounts(pools: Pools, k: int, discount: np.ndarray) -> np.ndarray:
    """The discount of each pool entry in the ideal list, equal gains in the order of a list's own discounts; (D,)."""
    order = np.lexsort((-discount, -pools.gain, pools.query))
    order = order[pools.rated[order]]
    rank = np.arange(len(order)) - np.searchsorted(pools.query[order], pools.query[order])
    discount = np.zeros(len(pools.gain))
    discount[order[rank < k]] = 1 / np.log2(rank[rank < k] + 2)
    return discount
