"""rcp-irx report, describe, export: gains for readers, reviewers and other tools."""

from __future__ import annotations

import json
import os
from typing import Any

import click
import numpy as np
import pandas as pd

from rcp_irx.cli.evaluating import dataset_option
from rcp_irx.cli.inputs import (
    documents_of,
    gains_argument,
    gains_of,
    grades_of,
    json_option,
    labels_of,
    log_of,
    qrels_option,
    runs_of,
)
from rcp_irx.cli.output import plain, show, tsv_of
from rcp_irx.errors import RCPError, examples
from rcp_irx.files import write
from rcp_irx.tables import KEYS


@click.command()
@gains_argument
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@qrels_option
@dataset_option
@click.option("--log", metavar="FILE", help="The judgment log.")
@click.option("--docs", metavar="FILE", help="Documents: TSV, JSON lines, or irds:ID.")
@click.option("--prices", type=(float, float), help="Dollars per million prompt and completion tokens, for --log.")
@click.option("-k", "--cutoff", type=click.IntRange(min=1), default=10, show_default=True)
@click.option("--title", default="", help="What the page is called.")
@click.option("-o", "--output", required=True, metavar="FILE", help="The page, such as report.html.")
@json_option
def report(
    gains: str,
    runs: tuple[str, ...],
    qrels: str | None,
    dataset: str | None,
    log: str | None,
    docs: str | None,
    prices: tuple[float, float] | None,
    cutoff: int,
    title: str,
    output: str,
    as_json: bool,
) -> None:
    """Write one HTML page: warnings, systems, the scale, the judging, every query and document.

    The page works from disk and loads nothing. What is not given it says is missing.

    \b
    Example, after `rcp-irx demo --keep demo`:
      rcp-irx report demo/demo.gains demo/*.run --qrels demo/demo.qrels \\
          --log demo/demo.judgments --docs irds:rcp-irx/demo -o report.html
    """
    from rcp_irx.report import gather, render

    if prices is not None and log is None:
        raise click.UsageError("--prices is for what --log says was used: give both")
    table = gains_of(gains, dataset)
    frames = runs_of(runs, table)
    held = log_of(log) if log else None
    content = gather(table, frames, labels_of(qrels), held, k=cutoff, title=title, prices=prices)
    if docs:
        texts = documents_of(docs, content.docnos)
        if not texts:
            shown = examples(content.docnos)
            raise RCPError(f"{docs} holds none of the {len(content.docnos)} documents that are shown: {shown}")
        content = content.with_texts(texts)
    page, length = render(content)
    write(output, page)
    size = os.path.getsize(output)
    cut = f"; texts are cut to {length} characters" if length else ""
    found = {"file": output, "bytes": size, "warnings": content.warnings, "missing": content.missing}
    lacking = "".join(f"\n! {text}" for text in content.missing)
    show(f"{output}: {size / 1e6:.1f} MB, {len(content.queries)} queries{cut}{lacking}", found, as_json, output)


@click.command()
@gains_argument
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@qrels_option
@dataset_option
@click.option(
    "--grades", metavar="FILE", help="People's grades, as TREC qrels or TSV (qid, docno, grade[, annotator])."
)
@click.option("-k", "--cutoff", type=click.IntRange(min=1), default=10, show_default=True)
@click.option("--latex", is_flag=True, help="LaTeX instead of Markdown.")
@json_option
def describe(
    gains: str,
    runs: tuple[str, ...],
    qrels: str | None,
    dataset: str | None,
    grades: str | None,
    cutoff: int,
    latex: bool,
    as_json: bool,
) -> None:
    """Print what a reviewer asks of the labels, in sentences and one table, for a paper's appendix.

    \b
    Example, after `rcp-irx demo --keep demo`:
      rcp-irx describe demo/demo.gains demo/*.run --qrels demo/demo.qrels --latex
    """
    from rcp_irx.report.appendix import describe as described

    table = gains_of(gains, dataset)
    found = described(table, runs_of(runs, table), labels_of(qrels), grades_of(grades), k=cutoff)
    show((found.latex() if latex else found.markdown()).rstrip(), found, as_json)


@click.command()
@gains_argument
@click.option("-o", "--output", required=True, metavar="FILE", help="Where to; gzipped if it ends in .gz.")
@click.option("--trec", is_flag=True, help="TREC qrels: whole numbers, so gains need --scale.")
@click.option("--tsv", is_flag=True, help="All columns, tab-separated (the default).")
@click.option("--jsonl", is_flag=True, help="All columns, one JSON object a line.")
@click.option("--column", default="gain", show_default=True, help="What a TREC file holds: gain, count_gain, label ...")
@click.option("--scale", type=click.IntRange(1, 10**9), help="TREC: gains times this, rounded; the file says so.")
@qrels_option
@dataset_option
@json_option
def export(
    gains: str,
    output: str,
    trec: bool,
    tsv: bool,
    jsonl: bool,
    column: str,
    scale: int | None,
    qrels: str | None,
    dataset: str | None,
    as_json: bool,
) -> None:
    """Write gains for other tools: as TSV, as JSON lines, or as TREC qrels.

    TSV and JSON lines hold the gains, people's labels with --qrels, and what the fit says of each document: ability,
    raw score, standard errors, answers.

    TREC qrels hold whole numbers. With --scale 1000 a gain of .8571 becomes 857, and the second field of each line says
    "x1000"; documents without a gain are left out. nDCG of such labels is RCP-nDCG up to the rounding.

    \b
    Example, after `rcp-irx demo --keep demo`:
      rcp-irx export demo/demo.gains -o gains.qrels --trec --scale 1000
    """
    if trec + tsv + jsonl > 1:
        raise click.UsageError("--trec, --tsv and --jsonl are formats: give one")
    if scale is not None and not trec:
        raise click.UsageError("--scale is for --trec: the other formats keep gains as they are")
    table = gains_of(gains, dataset)
    frame = _columns(table, labels_of(qrels))
    if trec:
        frame = _as_trec(frame, column, scale, output)
    elif jsonl:
        write(output, "".join(json.dumps(plain(row), ensure_ascii=False) + "\n" for row in frame.to_dict("records")))
    else:
        write(output, tsv_of(frame))
    show(f"{len(frame)} rows of {table.label} in {output}", {"rows": len(frame), "file": output}, as_json, output)


def _columns(gains: Any, labels: pd.DataFrame | None) -> pd.DataFrame:
    """All that is known of each document: its gains and, where people's labels are, these; then what the fit says."""
    if labels is None and len(gains.human_labels):
        labels = gains.human_labels
    frame: pd.DataFrame = gains.qrels(labels)
    if labels is None:
        frame = frame.drop(columns="label")  # made of the gains: people's they are not
    rest = gains.documents.drop(columns=["gain", "excluded", "pool_rank"])
    keys = [name for name in KEYS if name in frame.columns]
    return frame.merge(rest if "dataset" in keys else rest.drop(columns="dataset"), on=keys, how="left", sort=False)


def _as_trec(frame: pd.DataFrame, column: str, scale: int | None, output: str) -> pd.DataFrame:
    from rcp_irx.trec import write_qrels

    if column not in frame.columns or frame[column].dtype.kind not in "iuf":
        numbers = [name for name in frame.columns if frame[name].dtype.kind in "iuf"]
        if column == "label":
            raise RCPError("--column label writes people's labels: give --qrels")
        raise RCPError(f"--column {column!r} is no column of numbers of the gains; there are {', '.join(numbers)}")
    values = frame[column].to_numpy(dtype=float)
    there = ~np.isnan(values) & ~frame["excluded"].to_numpy(dtype=bool)
    values = values[there]
    if scale is None and (values != np.round(values)).any():
        raise RCPError(
            f"TREC qrels hold whole numbers, and {column!r} has fractions such as {values[values % 1 != 0][0]:.4f}:"
            " give --scale 1000 (the file then says x1000), or write --tsv"
        )
    labels = np.round(values * (scale or 1)).astype(np.int64)
    rows = frame.loc[there, ["qid", "docno"]].assign(label=labels)
    write_qrels(rows, output, f"x{scale}" if scale else "0")
    return rows
