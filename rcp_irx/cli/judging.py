"""rcp-irx judge, estimate, fit: from runs to a judgment log, and from the log to gains."""

from __future__ import annotations

import os
from collections.abc import Callable
from fractions import Fraction
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from rcp_irx.cli.inputs import gains_of, json_option, log_of, pool_of_runs
from rcp_irx.cli.output import show, table
from rcp_irx.errors import RCPError, counted

F = TypeVar("F", bound=Callable[..., Any])

LARGEST_FACTOR = 100
MODEL = (
    "model",
    "base_url",
    "revision",
    "quantization",
    "temperature",
    "max_tokens",
    "reasoning_effort",
    "context_length",
    "timeout",
    "prices",
    "concurrency",
)
"""Options of a model and its server."""

_OPTIONS = (
    click.argument("runs", nargs=-1, required=True, metavar="RUN..."),
    click.option(
        "--topics",
        required=True,
        metavar="FILE",
        help="Topics: TSV (id, tab, text), JSON lines (qid, query_id, _id or id; query, text or title), or irds:ID.",
    ),
    click.option(
        "--docs",
        required=True,
        metavar="FILE",
        help="Documents: TSV (id, tab, text), JSON lines (docno, doc_id, docid, _id or id; text, doc, contents or body,"
        " and perhaps title), or irds:ID.",
    ),
    click.option("--log", required=True, metavar="FILE", help="The judgment log; what is answered there is not asked."),
    click.option("--judge", "kind", type=click.Choice(["openai", "lexical"]), default="openai", show_default=True),
    click.option("--model", help="The model, as its server calls it (judge openai)."),
    click.option("--base-url", metavar="URL", help="Its server, as http://localhost:8000/v1; else OPENAI_BASE_URL."),
    click.option("--revision", help="The model's revision, part of the judge's name."),
    click.option("--quantization", help="Its quantization, part of the judge's name."),
    click.option("--temperature", type=float),
    click.option("--max-tokens", type=int, help="The longest answer."),
    click.option("--reasoning-effort"),
    click.option("--context-length", type=int, help="The model's context: documents are cut to fit."),
    click.option("--concurrency", type=int, default=32, show_default=True, help="Calls in flight."),
    click.option("--timeout", type=float, default=120.0, show_default=True, help="Seconds for one call."),
    click.option("--prices", type=(float, float), help="Dollars per million prompt and completion tokens."),
    click.option("--protocol", default="full", show_default=True, help="full, reduced, or a factor such as 0.5."),
    click.option("--rubric", metavar="FILE", help="Criteria of your own (TOML)."),
    click.option("--task", help="What counts as relevant here; the judge is shown it."),
    click.option("--context-field", "context", multiple=True, help="A field of the topics that the judge is shown."),
    click.option("--dataset", default="", help="The dataset's name in the log."),
    click.option("--num-results", type=int, default=150, show_default=True, help="Documents of a fused pool."),
    click.option("--kappa", type=float, default=60, show_default=True, help="Reciprocal rank fusion's constant."),
    click.option("--qrels", metavar="FILE", help="Labels, for --add."),
    click.option("--add", type=click.Choice(["positives", "judged"]), help="Labelled documents that join the pool."),
    click.option("--retry-failed", is_flag=True, help="Ask windows again whose failure stands."),
    click.option("--keep-text", is_flag=True, help="Keep the documents' texts in the log."),
)


def _judging(function: F) -> F:
    """The options of `judge` and `estimate`."""
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


@click.command()
@_judging
@click.option("--max-calls", type=int, help="Stop after so many calls.")
@click.option("--max-tokens-total", type=int, help="Stop after so many tokens.")
@click.option("--max-cost", type=float, help="Stop before more dollars are spent (needs --prices).")
@click.option("--dry-run", is_flag=True, help="Say what it would take, and ask nothing.")
@click.option("--quiet", is_flag=True, help="Show no progress.")
@json_option
def judge(
    max_calls: int | None,
    max_tokens_total: int | None,
    max_cost: float | None,
    dry_run: bool,
    quiet: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Judge the fused pool of TREC runs; stop at any time, and run the same line again to go on.

    Each RUN is a TREC run (gzipped or not), irds:ID, or NAME= and one of these.

    \b
    Example, after `rcp-irx demo --keep demo`:
      rcp-irx judge demo/*.run --topics irds:rcp-irx/demo --docs irds:rcp-irx/demo \\
          --judge lexical --num-results 20 --log my.judgments

    \b
    With a model (extra openai; key in OPENAI_API_KEY), first what it would take, then until 20 dollars are spent:
      rcp-irx estimate bm25.run reranker.run --topics topics.tsv --docs corpus.jsonl --log my.judgments \\
          --model qwen3-32b --base-url http://localhost:8000/v1 --prices 0.1 0.4
      rcp-irx judge ... --max-cost 20
    """
    from rcp_irx.judging.spending import Spending

    labelling, pools = _labelling(options, asks=not dry_run)
    if dry_run:
        return _show_estimate(labelling.estimate(pools), as_json)
    spending = labelling.run(pools, Spending(max_calls, max_tokens_total, max_cost), verbose=not (quiet or as_json))
    failures = labelling.log.failures()
    failures = failures[~failures["answered"]]
    log = options["log"]
    text = f"{len(pools)} queries judged by {labelling.judge.name!r}: {spending.describe()}; the log is {log}"
    if len(failures):
        kinds = failures["failure"].value_counts().reset_index()
        text += f"\n{counted(len(failures), 'failed attempt')} in the log, not answered since:\n{table(kinds)}"
    used = {name: getattr(spending, name) for name in ("calls", "failed", "tokens", "cost")}
    found = {"queries": len(pools), **used, "failures": failures, "log": log}
    return show(f"{text}\nnext: rcp-irx fit {log} -o my.gains", found, as_json)


@click.command()
@_judging
@json_option
def estimate(as_json: bool, **options: Any) -> None:
    """Say what judging would still take: calls, tokens and, with --prices, dollars; nothing is asked.

    \b
    Example, after `rcp-irx demo --keep demo`:
      rcp-irx estimate demo/*.run --topics irds:rcp-irx/demo --docs irds:rcp-irx/demo \\
          --judge lexical --num-results 20 --log my.judgments
    """
    labelling, pools = _labelling(options, asks=False)
    _show_estimate(labelling.estimate(pools), as_json)


@click.command()
@click.argument("log", metavar="LOG")
@click.option("-o", "--output", required=True, metavar="FOLDER", help="Where the gains go.")
@click.option("--overwrite", is_flag=True, help="Replace gains that are there.")
@click.option("--dataset", "datasets", multiple=True, help="Only this dataset of the log.")
@click.option("--judge", "judge_name", help="The judge's name, where the log holds several.")
@click.option("--rubric", metavar="FILE", help="The rubric, where the log holds several.")
@click.option("--criteria", metavar="GAINS", help="Keep the criterion parameters of other gains.")
@click.option("--max-failed", type=float, default=0.05, show_default=True, help="The largest failed share of a query.")
@click.option("--leave-out-incomplete", is_flag=True, help="Leave out queries that are not judged to the end.")
@json_option
def fit(
    log: str,
    output: str,
    overwrite: bool,
    datasets: tuple[str, ...],
    judge_name: str | None,
    rubric: str | None,
    criteria: str | None,
    max_failed: float,
    leave_out_incomplete: bool,
    as_json: bool,
) -> None:
    """Fit gains to all that a log holds, and save them as a folder.

    \b
    Example, after `rcp-irx demo --keep demo`:
      rcp-irx fit demo/demo.judgments -o my.gains
    """
    from rcp_irx.judging.rubric import Rubric

    gains = log_of(log).calibrate(
        datasets=datasets or None,
        judge=judge_name,
        rubric=Rubric.load(rubric) if rubric else None,
        criteria=gains_of(criteria) if criteria else None,
        max_failed=max_failed,
        incomplete="leave_out" if leave_out_incomplete else "refuse",
    )
    gains.save(output, overwrite=overwrite)
    columns = ["id", "name", "gamma", "beta"]
    found = {
        "fit_id": gains.fit_id,
        "queries": len(gains.queries),
        "documents": len(gains),
        "criteria": gains.criteria[columns],
        "folder": output,
    }
    show(f"{gains}\n{table(gains.criteria[columns])}\nsaved in {output}", found, as_json)


def _labelling(options: dict[str, Any], *, asks: bool) -> tuple[Any, list[Any]]:
    """Who is asked about which pools; the log is made where it `asks`."""
    from rcp_irx.judging.judges.lexical import LexicalJudge
    from rcp_irx.judging.labelling import Labelling
    from rcp_irx.judging.log import JudgmentLog
    from rcp_irx.judging.rubric import Rubric

    if options["qrels"] and not options["add"]:
        raise click.UsageError("--qrels is for --add: labels are not judged, and join a pool only where that says so")
    if options["kind"] == "lexical":
        _refuse_model_options()
    frame = pool_of_runs(
        options["runs"],
        options["topics"],
        options["docs"],
        options["num_results"],
        options["kappa"],
        options["qrels"],
        options["add"],
        options["context"],
    )
    who = LexicalJudge() if options["kind"] == "lexical" else _model(options)
    there = asks or not options["log"] or os.path.exists(options["log"])
    log = JudgmentLog(options["log"] if there else None, keep_text=options["keep_text"])
    rubric = Rubric.load(options["rubric"]) if options["rubric"] else Rubric.load()
    labelling = Labelling(who, log, rubric, _protocol(options["protocol"]), options["retry_failed"])
    return labelling, labelling.pools(
        frame, context_fields=options["context"], task=options["task"], dataset=options["dataset"]
    )


def _refuse_model_options() -> None:
    """Options of a model's server mean nothing to the lexical judge."""
    context = click.get_current_context()
    given = [name for name in MODEL if context.get_parameter_source(name) is ParameterSource.COMMANDLINE]
    if given:
        options = ", ".join(f"--{name.replace('_', '-')}" for name in given)
        raise click.UsageError(f"{options} is for --judge openai; the lexical judge asks no model")


def _model(options: dict[str, Any]) -> Any:
    from rcp_irx.judging.judges.openai import OpenAIJudge

    if not options["model"]:
        raise click.UsageError("--model is missing: the model, as its server calls it (or --judge lexical)")
    given = {name: options[name] for name in MODEL if name not in ("model", "concurrency")}
    return OpenAIJudge(options["model"], max_concurrency=options["concurrency"], **given)


def _protocol(text: str) -> Any:
    from rcp_irx.judging.protocol import FULL, REDUCED

    named = {"full": FULL, "reduced": REDUCED}
    if text.lower() in named:
        return named[text.lower()]
    try:
        factor = Fraction(text)
    except (ValueError, ZeroDivisionError):
        factor = Fraction(0)
    if not 0 < factor <= LARGEST_FACTOR:
        raise RCPError(f"--protocol is full, reduced, or a factor above 0 such as 0.5 (at most 100), not {text!r}")
    return FULL.scaled(factor)


def _show_estimate(found: Any, as_json: bool) -> None:
    values = {name: getattr(found, name) for name in ("calls", "prompt_tokens", "completion_tokens", "cost", "queries")}
    show(f"{found}\n{table(found.queries, 2)}", values, as_json)
