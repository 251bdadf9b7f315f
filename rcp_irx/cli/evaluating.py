"""rcp-irx evaluate: what runs are worth under gains, and under people's labels."""

from __future__ import annotations

import warnings
from typing import Any

import click
import pandas as pd

from rcp_irx.cli.inputs import gains_argument, gains_of, json_option, labels_of, qrels_option, runs_of
from rcp_irx.cli.output import show, table, tsv_of
from rcp_irx.errors import RCPError, RCPWarning, counted, examples, warn

runs_argument = click.argument("runs", nargs=-1, required=True, metavar="RUN...")
dataset_option = click.option("--dataset", help="One dataset, where the gains hold several.")


@click.command()
@gains_argument
@runs_argument
@qrels_option
@dataset_option
@click.option("-m", "--measure", "measures", multiple=True, metavar="MEASURE", help="Such as RCPnDCG@10, nDCG@10, AP.")
@click.option("-q", "--per-query", is_flag=True, help="One row per query.")
@click.option("--tsv", is_flag=True, help="Print tab-separated values.")
@json_option
def evaluate(
    gains: str,
    runs: tuple[str, ...],
    qrels: str | None,
    dataset: str | None,
    measures: tuple[str, ...],
    per_query: bool,
    tsv: bool,
    as_json: bool,
) -> None:
    """Score TREC runs with gains, and with people's labels where --qrels gives them.

    Each RUN is a TREC run (gzipped or not), irds:ID, or NAME= and one of these. Measures are those of
    ir_measures and of rcp_irx; by default RCPnDCG@10 and RCPJudged@10, and nDCG@10 with --qrels.

    \b
    Example, after `rcp-irx demo --keep demo`:
      rcp-irx evaluate demo/demo.gains demo/*.run --qrels demo/demo.qrels
    """
    if tsv and as_json:
        raise click.UsageError("--tsv and --json are formats: give one")
    table_of_gains = gains_of(gains, dataset)
    if len(table_of_gains.datasets) > 1:
        raise RCPError(f"the gains hold the datasets {examples(table_of_gains.datasets)}: give --dataset")
    labels = labels_of(qrels)
    wanted = _measures(
        tuple(dict.fromkeys(measures)) or ("RCPnDCG@10", "RCPJudged@10", *(["nDCG@10"] if qrels else [])), labels
    )
    joined = _labelled(table_of_gains, labels)
    scored = _scores(runs_of(runs, table_of_gains), joined, wanted)
    names = [str(measure) for measure in wanted]
    means = scored.groupby("system", sort=False)[names].mean().reset_index()
    means.insert(1, "queries", scored.groupby("system", sort=False).size().to_numpy())
    found = scored if per_query else means
    text = tsv_of(found).rstrip("\n") if tsv else table(found)
    show(text, {"gains": table_of_gains.label, "scores": found}, as_json)


def _measures(texts: tuple[str, ...], labels: pd.DataFrame | None) -> list[Any]:
    """Parsed measures; those that read labels need some."""
    import ir_measures

    import rcp_irx  # noqa: F401  (registers its measures)
    from rcp_irx.evaluation.measures import RCPMeasure

    found = []
    for text in texts:
        try:
            measure = ir_measures.parse_measure(text)
            str(measure)  # fails for a parameter that the measure does not have
            found.append(measure)
        except (ValueError, KeyError, NameError, SyntaxError, AssertionError, TypeError) as error:
            raise RCPError(f"--measure {text!r} is none that ir_measures knows: {error}") from error
    without = [str(measure) for measure in found if labels is None and not isinstance(measure, RCPMeasure)]
    if without:
        raise RCPError(f"the measure {examples(without)} reads people's labels: give --qrels")
    return found


def _labelled(gains: Any, labels: pd.DataFrame | None) -> pd.DataFrame:
    """Gains beside labels; of queries that have labels too, where these were given: all measures are of the same."""
    from rcp_irx.analysis.results import common_queries

    if labels is None:
        own: pd.DataFrame = gains.qrels()
        return own
    common = set(common_queries(gains, labels)[0]["qid"])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RCPWarning)  # of what `common_queries` has told
        joined: pd.DataFrame = gains.qrels(labels)
    return joined[joined["qid"].isin(common)]


def _scores(runs: dict[str, pd.DataFrame], qrels: pd.DataFrame, measures: list[Any]) -> pd.DataFrame:
    """One row per system and query, one column per measure."""
    import ir_measures

    names = {"qid": "query_id", "docno": "doc_id"}
    qrels = qrels.rename(columns={**names, "label": "relevance"})
    parts = []
    for name, run in runs.items():
        missed = sorted(set(qrels["query_id"]) - set(run["qid"]))
        if missed:
            warn(f"{name} ranks nothing for {counted(len(missed), 'query', 'queries')}, 0 there: {examples(missed)}")
        try:
            with warnings.catch_warnings(record=True) as said:
                warnings.simplefilter("always", RCPWarning)
                values = [
                    (value.query_id, str(value.measure), value.value)
                    for value in ir_measures.iter_calc(measures, qrels, run.rename(columns=names))
                ]
            for one in said:
                warn(f"{name}: {one.message}")
        except RCPError:
            raise
        except (ValueError, KeyError, AssertionError, RuntimeError, TypeError, OverflowError, ImportError) as error:
            asked = ", ".join(map(str, measures))
            raise RCPError(f"ir_measures cannot compute {asked}: {error}") from error
        wide = pd.DataFrame(values, columns=["qid", "measure", "value"]).pivot(
            index="qid", columns="measure", values="value"
        )
        parts.append(wide.reset_index().assign(system=name))
    scored = pd.concat(parts, ignore_index=True)
    return scored[["system", "qid", *map(str, measures)]]
