"""What people name on the command line: gains, runs, labels, topics, documents; files or `irds:` datasets."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Sequence
from typing import Any, TypeVar

import click
import pandas as pd

from rcp_irx.errors import RCPError, examples, warn

IRDS = "irds:"
SUFFIXES = (".gz", ".txt", ".run", ".trec", ".res", ".tsv")

F = TypeVar("F", bound=Callable[..., Any])


def gains_argument(function: F) -> F:
    """The argument GAINS."""
    return click.argument("gains", metavar="GAINS")(function)


def json_option(function: F) -> F:
    """The option --json."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for machines.")(function)


def qrels_option(function: F) -> F:
    """The option --qrels."""
    return click.option("--qrels", metavar="FILE", help="People's labels: TREC qrels, or irds:ID.")(function)


def gains_of(name: str, dataset: str | None = None) -> Any:
    """The gains of a folder, or of a subset of released labels (FOLDER#SUBSET, or a Hub id for FOLDER); of one dataset.

    Raises
    ------
    RCPError
        If they are neither, or lack the dataset.
    """
    from rcp_irx.gains import GainTable

    place, released, subset = name.partition("#")
    if os.path.isdir(name):
        gains = GainTable.load(name)
    elif released:
        gains = GainTable.from_released(place, subset)
    else:
        kind = "is a file" if os.path.exists(name) else "does not exist"
        wanted = "GAINS is a folder that `rcp-irx fit` wrote, or FOLDER#SUBSET of released labels"
        raise RCPError(f"{name} {kind}: {wanted}")
    return gains if dataset is None else gains.select(dataset)


def log_of(name: str) -> Any:
    """A judgment log that is there, and holds something.

    Raises
    ------
    RCPError
        If it is not; the file stays as it is.
    """
    from rcp_irx.judging.log import JudgmentLog

    if not os.path.isfile(name):
        raise RCPError(f"there is no judgment log {name!r}")
    if not os.path.getsize(name):
        raise RCPError(f"{name} is empty, and no judgment log")
    return JudgmentLog(name)


def runs_of(named: Sequence[str], gains: Any = None) -> dict[str, pd.DataFrame]:
    """Runs by name: each is a TREC file, the scored documents of irds:ID, or NAME= and one of these.

    Raises
    ------
    RCPError
        If one cannot be read, two have one name, or one shares no query or no document with the gains.
    """
    found: dict[str, pd.DataFrame] = {}
    for text in named:
        name, equals, path = text.partition("=")
        if not equals or os.path.exists(text):
            name, path = _stem(text), text
        if not name:
            raise RCPError(f"{text!r} gives a run no name; NAME=FILE does")
        if name in found:
            raise RCPError(f"two runs are called {name!r}; name them: NAME=FILE")
        found[name] = _run_of(path)
        if gains is not None:
            _refuse_another_collection(name, found[name], gains)
    return found


def _refuse_another_collection(name: str, run: pd.DataFrame, gains: Any) -> None:
    for column, what in (("qid", "query"), ("docno", "document")):
        theirs, ours = set(run[column]), set(gains.documents[column])
        if theirs.isdisjoint(ours):
            raise RCPError(
                f"run {name} and the gains share no {what}: the run's are {examples(theirs)}, the gains'"
                f" {examples(ours)}; are these the same collection?"
            )


def _run_of(path: str) -> pd.DataFrame:
    from rcp_irx.trec import read_run

    if not path.startswith(IRDS):
        return read_run(path)
    return _from_irds(path, "scored_documents")


def _stem(path: str) -> str:
    if path.startswith(IRDS):
        return path.removeprefix(IRDS)
    name = os.path.basename(path)
    while (ending := os.path.splitext(name)[1]) in SUFFIXES:
        name = name.removesuffix(ending)
    return name


def labels_of(name: str | None) -> pd.DataFrame | None:
    """Labels `qid, docno, label`: a TREC qrels file, or the qrels of irds:ID; None for None."""
    from rcp_irx.trec import read_qrels

    if name is None or not name.startswith(IRDS):
        return None if name is None else read_qrels(name)
    return _from_irds(name, "labels")


def grades_of(name: str | None) -> pd.DataFrame | None:
    """People's grades `qid, docno, grade` and perhaps `annotator`: TREC qrels, or TSV with these names first."""
    from rcp_irx.files import lines, text_of

    if name is None:
        return None
    rows = [(number, text_of(line, name, number).split("\t")) for number, line in lines(name, "file of grades")]
    columns = rows[0][1]
    if not {"qid", "docno", "grade"} <= set(columns):
        labels = labels_of(name)
        return None if labels is None else labels.rename(columns={"label": "grade"})
    wrong = [number for number, row in rows if len(row) != len(columns)]
    if wrong:
        raise RCPError(f"{name}, line {wrong[0]}: {len(columns)} fields are expected ({', '.join(columns)})")
    frame = pd.DataFrame([row for _, row in rows[1:]], columns=columns, dtype=object)
    grades = pd.to_numeric(frame["grade"], errors="coerce")
    if grades.isna().any():
        first = int(grades.isna().to_numpy().argmax())
        raise RCPError(f"{name}, line {rows[first + 1][0]}: a grade must be a number, not {frame['grade'][first]!r}")
    return frame.assign(grade=grades.astype(float))


def topics_of(name: str) -> pd.DataFrame:
    """Topics `qid, query` and their other texts: TSV or JSON lines, or the queries of irds:ID."""
    from rcp_irx.texts import read_topics

    if not name.startswith(IRDS):
        return read_topics(name)
    return _from_irds(name, "topics")


def documents_of(name: str, wanted: Collection[str]) -> dict[str, str]:
    """The texts of the wanted documents: TSV or JSON lines, or the documents of irds:ID."""
    from rcp_irx.texts import read_documents

    if not name.startswith(IRDS):
        return read_documents(name, wanted)
    return _from_irds(name, "texts", wanted)


def pool_of_runs(
    runs: Sequence[str],
    topics: str,
    documents: str,
    num_results: int,
    kappa: float,
    qrels: str | None,
    add: str | None,
    context: Sequence[str] = (),
) -> pd.DataFrame:
    """The judge's frame: the runs' fused pools with the texts of topics and documents.

    Raises
    ------
    RCPError
        If a query of the runs has no topic, or the topics lack a field of `context`.

    Warns
    -----
    RCPWarning
        If documents have no text: they are left out.
    """
    from rcp_irx.pooling import pool_runs

    pool = pool_runs(list(runs_of(runs).values()), num_results, kappa, labels_of(qrels), add)
    queries = topics_of(topics)
    without = set(pool["qid"]) - set(queries["qid"])
    if without:
        there = examples(queries["qid"])
        raise RCPError(f"no topic in {topics} for query {examples(without)} of the runs; it has {there}")
    lacking = [field for field in context if field not in queries.columns]
    if lacking:
        raise RCPError(f"the topics in {topics} have no field {examples(lacking)}; they have {list(queries.columns)}")
    texts = documents_of(documents, set(pool["docno"]))
    absent = pool[~pool["docno"].isin(texts)]
    if len(absent):
        found = examples(absent[["qid", "docno"]].itertuples(index=False, name=None))
        warn(f"{len(absent)} of {len(pool)} pool documents have no text in {documents}, left out: {found}")
        pool = pool[pool["docno"].isin(texts)]
    return pool.assign(text=pool["docno"].map(texts)).merge(queries[["qid", "query", *context]], on="qid", how="left")


def _from_irds(name: str, what: str, *more: Any) -> Any:
    """What a function of `ir_datasets.reading` reads of irds:ID.

    Raises
    ------
    RCPError
        If it cannot be read, such as where the dataset is not on disk and its source not reachable.
    """
    from rcp_irx.ir_datasets import reading

    try:
        return getattr(reading, what)(reading.find(name), *more)
    except RCPError:
        raise
    except Exception as error:  # whatever downloads and parsers raise
        raise RCPError(f"ir_datasets cannot read {name}: {type(error).__name__}: {str(error)[:200]}") from error
