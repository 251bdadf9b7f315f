"""Both stages fitted again on random halves of every query's windows, and how far the halves agree.

Which windows make a half is for `subsamples`.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from rcp_irx.analysis import repeats
from rcp_irx.analysis.jackknife import Estimate, FloatArray, jackknife
from rcp_irx.analysis.subsamples import halves
from rcp_irx.errors import RCPWarning, counted, examples
from rcp_irx.judging.calibrate import JudgedPool, calibrate
from rcp_irx.judging.rubric import Rubric
from rcp_irx.tables import KEYS


def halvings(
    judged: Sequence[JudgedPool],
    rubric: Rubric,
    leave_out: Iterable[str | tuple[str, ...]],
    splits: int,
    seed: int,
    notes: list[str],
) -> list[pd.DataFrame]:
    """For each random halving, the documents with what each half gives them: `bt_1, bt_2, theta_1, theta_2`."""
    left = {tuple(key) for key in leave_out if not isinstance(key, str) and len(tuple(key)) == 3}
    unseen: set[tuple[str, ...]] = set()
    short: set[tuple[str, str]] = set()
    found = []
    for split in range(splits):
        generator = np.random.default_rng([seed, split])
        pairs, gone = [], set(left)
        for one in judged:
            pair = halves(one, generator)
            lacking = {key for half in pair or () for key in _unseen(half)} | left
            if pair is None or not all(_answered(half, lacking) for half in pair):
                short.add(one.key)
                continue
            pairs.append(pair)
            gone |= lacking
        if not pairs:
            continue
        unseen |= gone - left
        tables = [_fitted([pair[side] for pair in pairs], rubric, gone) for side in (0, 1)]
        found.append(tables[0].merge(tables[1], on=KEYS, suffixes=("_1", "_2"), validate="one_to_one"))
    if short:
        number = counted(len(short), "query has", "queries have")
        notes.append(f"{number} too few windows to halve, left out of that split's reliabilities: {examples(short)}")
    if unseen:
        notes.append(
            f"{counted(len(unseen), 'document')} had no tournament window in a half, left out of that split's"
            f" reliabilities: {examples(unseen)}"
        )
    return found


def reliabilities(halvings: Sequence[pd.DataFrame], queries: Sequence[tuple[str, str]]) -> tuple[Estimate, Estimate]:
    """The reliability of abilities over all queries, and of the order within a query, averaged over halvings."""
    place = {key: code for code, key in enumerate(queries)}
    pooled, within = (np.zeros((len(place), max(1, len(halvings)), width)) for width in (6, 2))
    for split, both in enumerate(halvings):
        one, other = (both[name].to_numpy() for name in ("theta_1", "theta_2"))
        codes = np.array([place[key] for key in both[KEYS[:2]].itertuples(index=False, name=None)])
        centre = (len(both) + 1) / 2.0
        np.add.at(pooled[:, split], codes, repeats.correlation_sums(rankdata(one) - centre, rankdata(other) - centre))
        for code in np.unique(codes):
            r = repeats.spearman(one[codes == code], other[codes == code])
            within[code, split] = (0.0, 0.0) if np.isnan(r) else (r, 1.0)
    ability = jackknife(pooled, lambda sums: _mean(repeats.spearman_brown(repeats.correlation(sums))))
    order = jackknife(within, lambda sums: _mean(repeats.spearman_brown(sums[..., 0] / sums[..., 1])))
    return ability, order


def _mean(values: FloatArray) -> FloatArray:
    """The mean over splits, as one statistic."""
    mean: FloatArray = values.mean(axis=-1)[..., None]
    return mean


def _fitted(parts: Sequence[JudgedPool], rubric: Rubric, gone: set[tuple[str, ...]]) -> pd.DataFrame:
    """What half of the windows gives its documents; what that calibration doubts is no news of the whole log."""
    held = {(*one.key, document.id) for one in parts for document in one.pool.documents}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RCPWarning)
        table = calibrate(parts, rubric, max_failed=1.0, leave_out=sorted(gone & held))
    return table.documents[[*KEYS, "bt", "theta"]]


def _unseen(half: JudgedPool) -> list[tuple[str, ...]]:
    """The documents that no tournament window of a half holds."""
    if len(half.pool.documents) == 1:
        return []
    seen = {docno for shown, _ in half.tournament for docno in shown}
    return [(*half.key, document.id) for document in half.pool.documents if document.id not in seen]


def _answered(half: JudgedPool, lacking: set[tuple[str, ...]]) -> bool:
    """Whether a rubric window of a half shows a document that is not lacking."""
    return any((*half.key, docno) not in lacking for shown, _ in half.rubric for docno in shown)
