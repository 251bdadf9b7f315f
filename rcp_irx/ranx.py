"""RCP-nDCG among ranx's metrics: `evaluate` and `compare` with ranx's signatures, and gains as float `Qrels`.

ranx keeps labels as int64 and takes only those of at least its relevance level (1 by default), so plain ranx reads
every gain as 0. The metrics below are computed by `rcp_irx.evaluation`; all others by ranx itself, on integer qrels.
Nothing else imports this.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from rcp_irx.errors import MissingExtra, RCPError, examples, warn
from rcp_irx.evaluation.coverage import coverage, warn_of_differing_coverage, warn_of_low_coverage, warn_of_no_overlap
from rcp_irx.evaluation.inputs import Pools, Run, read_run
from rcp_irx.evaluation.options import DEFAULT_UNJUDGED, Options, options
from rcp_irx.evaluation.ranking import Ranked, ranked
from rcp_irx.evaluation.scores import SCORES
from rcp_irx.evaluation.sources import GainSource, pools_from

try:
    import ranx
    from ranx.data_structures.report import Report, metric_labels
    from ranx.statistical_tests import compute_statistical_significance
except ImportError as error:
    raise MissingExtra("ranx", "ranx") from error

Gains: TypeAlias = "GainSource | ranx.Qrels"
Qrels: TypeAlias = "ranx.Qrels | Mapping[str, Mapping[str, int]]"
RanxRun: TypeAlias = "ranx.Run | Mapping[str, Mapping[str, float]]"


class Metric(NamedTuple):
    """One of this package's metrics: how reports print it, the gains' column, the score."""

    label: str
    column: str
    score: str


METRICS = {
    "rcp_ndcg": Metric("RCP-nDCG", "gain", "ndcg"),
    "count_ndcg": Metric("Count-nDCG", "count_gain", "ndcg"),
    "weighted_count_ndcg": Metric("Weighted-Count-nDCG", "weighted_count_gain", "ndcg"),
    "raw_bt_ndcg": Metric("Raw-BT-nDCG", "raw_bt_gain", "ndcg"),
    "rcp_judged": Metric("RCP-Judged", "gain", "judged"),
    "rcp_gain": Metric("RCP-Gain", "gain", "gain"),
    "rcp_dcg": Metric("RCP-DCG", "gain", "dcg"),
    "rcp_recall": Metric("RCP-Recall", "gain", "recall"),
    "rcp_err": Metric("RCP-ERR", "gain", "err"),
    "rcp_best": Metric("RCP-Best", "gain", "best"),
}
metric_labels.update({name: metric.label for name, metric in METRICS.items()})  # where ranx's reports look them up


def evaluate(
    gains: Gains,
    run: RanxRun,
    metrics: list[str] | str,
    return_mean: bool = True,
    return_std: bool = False,
    threads: int = 0,
    save_results_in_run: bool = True,
    make_comparable: bool = False,
    *,
    qrels: Qrels | None = None,
    ties: str | None = None,
    rules: str | None = None,
    unjudged: str | None = None,
    ignore_identical_ids: bool = False,
) -> Any:
    """Score a run as `ranx.evaluate` does, with `rcp_ndcg@k` and the other keys of `METRICS` among the metrics.

    Parameters
    ----------
    gains : GainTable, str, DataFrame, dict or ranx.Qrels
        A table, its registered name or folder, a frame or dict of gains as in `rcp_irx.evaluation.ndcg` but from 0 to
        1, or the result of `to_qrels`.
    run : ranx.Run or dict
        Scores by query and document.
    metrics : str or list of str
        Without `@k` every rank counts.
    make_comparable : bool
        As in ranx: a query that the run misses scores 0, one that only the run has is left out. Otherwise the run's
        queries must be those scored.
    qrels : ranx.Qrels or dict, optional
        Integer labels, for ranx's own metrics. Where given, their queries are scored, else those of the gains.
    ties, rules, unjudged, ignore_identical_ids
        As in `rcp_irx.evaluation.ndcg`; they concern this package's metrics only. `ties="order"` is the order in which
        ranx keeps the run.

    Returns
    -------
    float, ndarray or dict
        As `ranx.evaluate`: the mean; with `return_std` also the standard deviation; with `return_mean=False` the scores
        of the queries, sorted by id; a dict by metric where `metrics` are several. With `save_results_in_run` the
        scores are also in the `ranx.Run`.

    Raises
    ------
    RCPError
        Unknown options, ranx's metrics without `qrels`, queries that do not match, and what
        `rcp_irx.evaluation.ndcg` refuses.

    Warns
    -----
    RCPWarning
        For low coverage of the first k.
    """
    names = _names(metrics)
    chosen = _options(names, ties, rules, unjudged, ignore_identical_ids)
    qids, pools = _pools(gains, qrels, names, ignore_identical_ids)
    scores, _ = _scores(run, names, chosen, qids, pools, qrels, threads, make_comparable)
    if save_results_in_run and isinstance(run, ranx.Run):
        _save(run, scores, qids, return_std and return_mean)
    if return_mean:
        results: dict[str, Any] = {name: np.mean(values) for name, values in scores.items()}
        if return_std:
            results = {name: {"mean": mean, "std": np.std(scores[name])} for name, mean in results.items()}
    else:
        results = dict(scores)
    return results[names[0]] if len(names) == 1 else results


def compare(
    gains: Gains,
    runs: Sequence[ranx.Run],
    metrics: list[str] | str,
    stat_test: str = "student",
    n_permutations: int = 1000,
    max_p: float = 0.01,
    random_seed: int = 42,
    threads: int = 0,
    rounding_digits: int = 3,
    show_percentages: bool = False,
    make_comparable: bool = False,
    *,
    qrels: Qrels | None = None,
    ties: str | None = None,
    rules: str | None = None,
    unjudged: str | None = None,
    ignore_identical_ids: bool = False,
) -> Report:
    """Compare runs as `ranx.compare` does, with significance tests; parameters as in `ranx.compare` and `evaluate`.

    Returns
    -------
    ranx Report
        Printable, also as LaTeX; the runs keep their scores.

    Raises
    ------
    RCPError
        As `evaluate`; also for two runs of one name, which a report could not tell apart.

    Warns
    -----
    RCPWarning
        For low coverage of the first k, and for one that differs between the runs by more than .02.
    """
    names = _names(metrics)
    chosen = _options(names, ties, rules, unjudged, ignore_identical_ids)
    qids, pools = _pools(gains, qrels, names, ignore_identical_ids)
    if not all(isinstance(run, ranx.Run) for run in runs):
        raise RCPError("runs must be ranx.Run objects, which hold the scores that a report compares")
    models = [run.name if run.name is not None else f"run_{i}" for i, run in enumerate(runs, start=1)]
    repeated = {name for name in models if models.count(name) > 1}
    if repeated:
        raise RCPError(f"two runs have the name {examples(repeated)}; set Run.name")
    scores: dict[str, dict[str, np.ndarray]] = {}
    shares: dict[int | None, dict[str, float]] = defaultdict(dict)
    for model, run in zip(models, runs, strict=True):
        scores[model], by_cutoff = _scores(run, names, chosen, qids, pools, qrels, threads, make_comparable, model)
        _save(run, scores[model], qids, with_std=False)
        for cutoff, share in by_cutoff.items():
            shares[cutoff][model] = share
    for cutoff, by_model in shares.items():
        warn_of_differing_coverage(by_model, cutoff)
    return Report(
        model_names=models,
        results={model: {name: float(np.mean(scores[model][name])) for name in names} for model in models},
        comparisons=compute_statistical_significance(models, scores, stat_test, n_permutations, max_p, random_seed),
        metrics=names,
        max_p=max_p,
        win_tie_loss=_wins(scores, names),
        rounding_digits=rounding_digits,
        show_percentages=show_percentages,
        stat_test=stat_test,
    )


def to_qrels(gains: Gains, name: str | None = None, *, column: str = "gain") -> ranx.Qrels:
    """The gains as ranx Qrels with float values, for ranx's own metrics at relevance level 0: `ndcg@10-l0`.

    At ranx's default level 1 every gain below 1 is dropped: `ndcg@10` would be 0. ranx orders tied scores in its own
    way; `evaluate` follows a tie rule.

    Parameters
    ----------
    column : str
        Which gains: `gain`, or of a table also `count_gain`, `weighted_count_gain`, `raw_bt_gain`.

    Raises
    ------
    RCPError
        What `rcp_irx.evaluation.ndcg` refuses; no gain at all.

    Warns
    -----
    RCPWarning
        If documents are excluded: they are left out here, and ranx still counts them in the runs.
    """
    qids, pools = _pools(gains, None, ["rcp_ndcg"], False, column)
    source = pools[column]
    if source.excluded.any():
        warn(
            f"excluded documents keep their ranks in ranx: query, document {source.name(source.excluded)}; "
            "rcp_irx.ranx.evaluate takes them out"
        )
    kept = source.rated
    nested: dict[str, dict[str, float]] = {qid: {} for qid in qids}
    documents = source.documents[source.document[kept]]
    for query, docno, gain in zip(source.query[kept].tolist(), documents, source.gain[kept].tolist(), strict=True):
        nested[source.queries[query][1]][docno] = gain
    empty = [qid for qid, documents in nested.items() if not documents]
    if not nested or empty:
        raise RCPError(f"no gain to make qrels of{f' for query {examples(empty)}' if empty else ''}")
    _refuse_ids_that_ranx_cuts(source)
    qrels = ranx.Qrels(name=name)
    qrels.qrels, qrels.sorted = ranx.Run(nested).run, True  # a Run keeps floats, and is built like Qrels
    return qrels


def _names(metrics: list[str] | str) -> list[str]:
    names = [metrics] if isinstance(metrics, str) else list(metrics or ())
    if not names or not all(isinstance(name, str) for name in names):
        raise RCPError(f"metrics must be one or more names such as 'rcp_ndcg@10'; they are {metrics!r}")
    return list(dict.fromkeys(names))


def _parsed(name: str) -> tuple[Metric, int | None] | None:
    """The metric and the cutoff of a name; None for one of ranx's own."""
    found = re.fullmatch(r"(\w+)(?:@(.*))?", name)
    if found is None or found[1] not in METRICS:
        if name.startswith(("rcp_", *METRICS)):
            raise RCPError(f"{name!r} is no metric; write {', '.join(METRICS)}, with @k where a cutoff is wanted")
        return None
    if found[2] is not None and not found[2].isdecimal():
        raise RCPError(f"{name!r}: the cutoff must be a whole number >= 1")
    return METRICS[found[1]], None if found[2] is None else int(found[2])


def _options(
    names: Iterable[str], ties: str | None, rules: str | None, unjudged: str | None, ignore_identical_ids: bool
) -> dict[str, Options]:
    """The options of each of this package's metrics among the names."""
    parsed = {name: _parsed(name) for name in names}
    chosen = {}
    for name, found in parsed.items():
        if found is not None:
            option = options(found[1], ties, rules, unjudged, ignore_identical_ids=ignore_identical_ids)
            chosen[name] = replace(option, unjudged=DEFAULT_UNJUDGED) if found[0].score == "judged" else option
    return chosen


def _pools(
    gains: Gains, qrels: Qrels | None, names: Iterable[str], ignore_identical_ids: bool, column: str | None = None
) -> tuple[list[str], dict[str, Pools]]:
    """The queries to score, sorted, and their pools for each column of gains that a metric reads."""
    parsed = {name: _parsed(name) for name in names}
    theirs = [name for name, found in parsed.items() if found is None]
    if theirs and qrels is None:
        raise RCPError(f"ranx's own metric {examples(theirs)} needs integer labels: give qrels=")
    columns = [column] if column is not None else [found[0].column for found in parsed.values() if found is not None]
    if isinstance(gains, ranx.Qrels):
        gains = {qid: dict(documents) for qid, documents in gains.to_dict().items()}
    qids = None if qrels is None else list(qrels.keys())
    return pools_from(gains, qids, columns, ignore_identical_ids)


def _scores(
    run: RanxRun,
    names: list[str],
    chosen: Mapping[str, Options],
    qids: list[str],
    pools: Mapping[str, Pools],
    qrels: Qrels | None,
    threads: int,
    make_comparable: bool,
    model: str = "",
) -> tuple[dict[str, np.ndarray], dict[int | None, float]]:
    """The score of each query under each metric, and the coverage by cutoff."""
    if not isinstance(run, (ranx.Run, Mapping)):
        raise RCPError(f"a run must be a ranx.Run or a dict of dicts, not {type(run).__name__}")
    if not make_comparable:
        _refuse_other_queries(list(run.keys()), qids)
    scores: dict[str, np.ndarray] = {}
    shares: dict[int | None, float] = {}
    for name, option in chosen.items():
        metric = METRICS[name.split("@")[0]]
        source = pools[metric.column]
        top, rows = _top(run, source, option)
        overlap = not warn_of_no_overlap(top, rows, source, model) if name == next(iter(chosen)) else top.judged.any()
        share = coverage(top)
        if overlap and option.unjudged == DEFAULT_UNJUDGED and share is not None and option.cutoff not in shares:
            warn_of_low_coverage(top, option.cutoff, model)
            shares[option.cutoff] = share
        scores[name] = SCORES[metric.score](top, source, option.cutoff)
    theirs = [name for name in names if name not in chosen]
    if theirs:
        if make_comparable:  # which ranx does for its own objects only
            run = ranx.Run(dict(run)) if isinstance(run, Mapping) else run
            qrels = ranx.Qrels(dict(qrels)) if isinstance(qrels, Mapping) else qrels
        # a list of one metric makes ranx look its result up under a wrong name
        scores |= ranx.evaluate(qrels, run, [*theirs, theirs[0]], False, False, threads, False, make_comparable)
    return {name: scores[name] for name in names}, shares


def _refuse_other_queries(given: Iterable[str], qids: Iterable[str]) -> None:
    missed, extra = set(qids) - set(given), set(given) - set(qids)
    if missed or extra:
        raise RCPError(
            f"the run's queries are not those scored: it misses {examples(missed) or 'none'} of them and has "
            f"{examples(extra) or 'none'} beside; make_comparable=True scores missed queries 0 and leaves others out"
        )


def _top(run: RanxRun, pools: Pools, option: Options) -> tuple[Ranked, Run]:
    """The first ranks of a run; of a `ranx.Run` no more documents are unpacked than these need."""
    places = None
    if isinstance(run, ranx.Run) and option.cutoff is not None and option.unjudged != "condensed":
        places = option.cutoff + int(pools.per_query(pools.excluded).max(initial=0))
    for depth in dict.fromkeys([places, None]):
        rows = read_run(run if isinstance(run, Mapping) else _unpacked(run, depth, pools), pools)
        top = ranked(rows, pools, option.cutoff, option.ties, option.unjudged)
        if top.judged.any():
            break
    return top, rows


def _unpacked(run: ranx.Run, depth: int | None, pools: Pools) -> dict[str, dict[str, float]]:
    """The first documents of each query, with all that tie with the last, in the order in which ranx keeps them."""
    _refuse_ids_that_ranx_cuts(pools)
    columns = run.to_typed_list()  # of each query: hashed ids and scores, best first
    nested = {}
    for (qid, documents), column in zip(run.run.items(), columns, strict=True):
        scores = column[:, 1]
        if not np.isfinite(scores).all():
            wrong = [docno for docno, score in documents.items() if not np.isfinite(score)]
            raise RCPError(
                f"the run's scores must be finite numbers; not so for query {qid!r}, document {examples(wrong)}"
            )
        size = len(scores)
        if depth is not None and depth < size:
            size = int(np.count_nonzero(scores >= scores[depth - 1]))
        nested[qid] = dict(islice(documents.items(), size))
    return nested


def _refuse_ids_that_ranx_cuts(pools: Pools) -> None:
    lost = [docno for docno in pools.documents if not docno.isascii() and max(docno) > "\uffff"]
    if lost:
        raise RCPError(
            f"ranx cuts characters beyond U+FFFF off document ids, so {examples(lost)} would not be found; "
            "give run and gains as dicts"
        )


def _save(run: ranx.Run, scores: Mapping[str, np.ndarray], qids: list[str], with_std: bool) -> None:
    """Put scores into a run, where ranx keeps them."""
    for name, values in scores.items():
        run.mean_scores[name] = np.mean(values)
        if with_std:
            run.std_scores[name] = np.std(values)
        run.scores[name] = dict(zip(qids, values, strict=True))


def _wins(scores: Mapping[str, Mapping[str, np.ndarray]], names: Iterable[str]) -> dict[Any, dict[str, dict[str, int]]]:
    """How many queries each run wins, ties and loses against each other one, as ranx's reports hold it."""
    return {
        (one, other): {
            name: {
                "W": int(np.sum(scores[one][name] > scores[other][name])),
                "T": int(np.sum(scores[one][name] == scores[other][name])),
                "L": int(np.sum(scores[one][name] < scores[other][name])),
            }
            for name in names
        }
        for one in scores
        for other in scores
        if one != other
    }
