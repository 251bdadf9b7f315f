"""rcp-irx compare, diagnose, explain: which system is better, how far to trust gains, why a query went as it did."""

from __future__ import annotations

import os

import click

from rcp_irx.cli.evaluating import dataset_option, runs_argument
from rcp_irx.cli.inputs import gains_argument, gains_of, json_option, labels_of, log_of, qrels_option, runs_of
from rcp_irx.cli.output import show

cutoff_option = click.option("-k", "--cutoff", type=click.IntRange(min=1), default=10, show_default=True)


@click.command()
@gains_argument
@runs_argument
@qrels_option
@dataset_option
@cutoff_option
@click.option(
    "--family", "families", multiple=True, metavar="SYSTEM=FAMILY", help="A system's model family; all or none."
)
@click.option("--label-noise", is_flag=True, help="Carry the judge's noise into the intervals.")
@json_option
def compare(
    gains: str,
    runs: tuple[str, ...],
    qrels: str | None,
    dataset: str | None,
    cutoff: int,
    families: tuple[str, ...],
    label_noise: bool,
    as_json: bool,
) -> None:
    """Compare TREC runs: means with intervals, every pair tested, and what to be wary of.

    \b
    Example, after `rcp-irx demo --keep demo`:
      rcp-irx compare demo/demo.gains demo/*.run --qrels demo/demo.qrels
    """
    from rcp_irx.analysis import compare as compared

    table = gains_of(gains, dataset)
    without = [text for text in families if not all(text.partition("="))]
    if without:
        raise click.UsageError(f"--family is SYSTEM=FAMILY, not {without[0]!r}")
    named = dict(text.partition("=")[::2] for text in families) or None
    found = compared(runs_of(runs, table), table, labels_of(qrels), k=cutoff, families=named, label_noise=label_noise)
    pairs = found.pairs[found.pairs["measure"] == "RCPnDCG"]
    names = ["dataset", "system_a", "system_b", "difference", "low", "high", "p", "p_holm", "wins", "ties", "losses"]
    if pairs["dataset"].nunique() == 1:
        names = names[1:]
    text = str(found)
    if len(pairs):
        shown = pairs[names].to_string(index=False, float_format=lambda number: f"{number:.4f}")
        text += f"\n\nRCPnDCG@{cutoff}, every pair (paired t; Holm over the pairs of a dataset):\n{shown}"
    show(text, found, as_json)


@click.command()
@click.argument("source", metavar="GAINS|LOG")
@click.argument("runs", nargs=-1, metavar="[RUN...]")
@qrels_option
@dataset_option
@cutoff_option
@json_option
def diagnose(
    source: str, runs: tuple[str, ...], qrels: str | None, dataset: str | None, cutoff: int, as_json: bool
) -> int:
    """Check a calibration without people's labels (and against them, with --qrels); exit code 1 where a sign warns.

    \b
    Example, after `rcp-irx demo --keep demo`:
      rcp-irx diagnose demo/demo.gains demo/*.run --qrels demo/demo.qrels
    """
    from rcp_irx.analysis import diagnose as diagnosed

    from_log = os.path.isfile(source)
    if from_log and dataset is not None:
        raise click.UsageError("--dataset is for gains: `rcp-irx fit LOG --dataset` makes those of one dataset")
    held = log_of(source) if from_log else gains_of(source, dataset)
    named = runs_of(runs, None if from_log else held)
    found = diagnosed(held, runs=named or None, qrels=labels_of(qrels), k=cutoff)
    show(str(found), found, as_json)
    return 1 if found.warnings else 0


@click.command()
@gains_argument
@click.argument("runs", nargs=-1, required=True, metavar="RUN RUN")
@click.option("--qid", required=True, help="The query.")
@qrels_option
@dataset_option
@cutoff_option
@json_option
def explain(
    gains: str,
    runs: tuple[str, ...],
    qid: str,
    qrels: str | None,
    dataset: str | None,
    cutoff: int,
    as_json: bool,
) -> None:
    """Say why one of two runs beats the other on a query, document by document.

    \b
    Example, after `rcp-irx demo --keep demo`:
      rcp-irx explain demo/demo.gains demo/bm25.run demo/trigrams.run --qid 3
    """
    from rcp_irx.analysis import explain as explained

    if len(runs) != 2:
        raise click.UsageError(f"explain compares two runs, not {len(runs)}")
    table = gains_of(gains, dataset)
    found = explained(qid, runs_of(runs, table), table, k=cutoff, dataset=dataset, qrels=labels_of(qrels))
    show(str(found), found, as_json)
