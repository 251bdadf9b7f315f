"""`ndcg`: continuous nDCG on frames and dicts, without any framework. The measures for frameworks are in `measures`."""

from __future__ import annotations

import numpy as np
import pandas as pd

from rcp_irx.evaluation import scores
from rcp_irx.evaluation.coverage import warn_of_low_coverage, warn_of_no_overlap
from rcp_irx.evaluation.inputs import ExcludedInput, GainsInput, Pools, RunInput, read_pools, read_run
from rcp_irx.evaluation.options import DEFAULT_UNJUDGED, options, printed
from rcp_irx.evaluation.ranking import ranked


def ndcg(
    run: RunInput,
    gains: GainsInput,
    k: int | None = 10,
    *,
    ties: str | None = None,
    rules: str | None = None,
    unjudged: str | None = None,
    ignore_identical_ids: bool = False,
    excluded: ExcludedInput | None = None,
) -> pd.Series:
    """nDCG@k of every query that has gains: linear gain, discount 1/log2(rank + 1), ideal over the whole judged pool.

    Parameters
    ----------
    run : DataFrame or dict
        `qid, docno, score` (or `query_id, doc_id, score`; optional `dataset`), or qid -> docno -> score.
    gains : DataFrame, dict or GainTable
        `qid, docno, gain` (optional `dataset, excluded, pool_rank`), or qid -> docno -> gain: finite and >= 0. In a
        column NaN is no gain.
    k : int, optional
        The cutoff; None: every rank counts.
    ties : str, optional
        How equal scores are ordered. "docno", the default: docno descending by code point, as trec_eval; "mean": every
        tied document gets the mean gain of its tie group, which is the expectation over all orders, also where the
        group straddles the cutoff; "pool": by `pool_rank`, then documents without one, by docno descending; "order": as
        in the run.
    rules : str, optional
        The tie rule of one of the paper's suites (Section B.1): "nanobeir" and "bright" are "docno", "vidore" is
        "mean", "trec-dl" is "pool".
    unjudged : str, optional
        What a ranked document without a gain is: "zero", the default: gain 0, its rank kept, as in the paper;
        "condensed": left out of the list; "upper": the query's largest gain, which bounds the score from above where no
        unjudged document is better than the best judged one.
    ignore_identical_ids : bool
        Whether a document whose id is its query's is excluded, as the paper does on NanoArguAna (Section C.5).
    excluded : DataFrame or dict, optional
        `qid, docno`, or qid -> docnos: documents that leave every ranking and every ideal.

    Returns
    -------
    Series
        float64 in [0, 1], index `qid`, sorted; (`dataset`, `qid`) where the gains hold several datasets. A query that
        the run misses, or whose gains are all zero, scores 0; queries without gains are ignored.

    Raises
    ------
    RCPError
        Missing columns or ids, scores that are not finite, gains below 0 or infinite, NaN in a dict of gains, two gains
        for one document, a query whose every gain is NaN, no query in common where both sides hold rows, `ties="pool"`
        without `pool_rank`, options that contradict each other.

    Warns
    -----
    RCPWarning
        If a document is ranked twice: its best rank counts. If less than 95% of the first k documents have a gain, or
        no document of the run has one.

    Examples
    --------
    >>> ndcg({"q1": {"d1": 2.0, "d2": 1.0}}, {"q1": {"d1": 0.25, "d2": 0.5, "d3": 0.75}}).round(4).to_dict()
    {'q1': 0.475}
    """
    chosen = options(k, ties, rules, unjudged, ignore_identical_ids=ignore_identical_ids)
    pools = read_pools(gains, excluded, ignore_identical_ids=chosen.ignore_identical_ids)
    rows = read_run(run, pools)
    top = ranked(rows, pools, chosen.cutoff, chosen.ties, chosen.unjudged)
    if not warn_of_no_overlap(top, rows, pools) and chosen.unjudged == DEFAULT_UNJUDGED:
        warn_of_low_coverage(top, chosen.cutoff)
    values = scores.ndcg(top, pools, chosen.cutoff)
    return pd.Series(values, index=_index(pools), name=printed("RCPnDCG", chosen), dtype=np.float64)


def _index(pools: Pools) -> pd.Index:
    if len({dataset for dataset, _ in pools.queries}) > 1:
        return pd.MultiIndex.from_tuples(pools.queries, names=["dataset", "qid"])
    return pd.Index([qid for _, qid in pools.queries], name="qid")
