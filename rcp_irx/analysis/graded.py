"""Joins people's grades with gains and labels: the documents that have all; what is measured on them is for others."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from rcp_irx.analysis.grades import panels, read_grades
from rcp_irx.documents import with_labels
from rcp_irx.errors import RCPError, counted, examples, warn
from rcp_irx.gains import KEYS, GainTable
from rcp_irx.tables import gain_order


@dataclass(frozen=True)
class Graded:
    """Documents that people graded and that have gains.

    Attributes
    ----------
    documents : DataFrame
        `dataset, qid, docno, grade` (mean), `grades` (how many), `gain, ability`; `order`, which orders documents as
        the gains do, without their rounding; where the table has Bradley-Terry scores `bt, z_bt` (standardised over the
        query's pool; 0 where all are equal); with qrels `label` (0: also unlabelled, or below 0). Sorted.
    singles : DataFrame
        Each grade: `dataset, qid, docno, grade, gain`, optionally `annotator`.
    notes : list of str
        What was left out or taken for something else; all were given as warnings.
    """

    documents: pd.DataFrame
    singles: pd.DataFrame
    notes: list[str]


def graded_documents(gains: GainTable, grades: pd.DataFrame, qrels: pd.DataFrame | None = None) -> Graded:
    """The graded documents with their gains and, where qrels are given, labels.

    Raises
    ------
    RCPError
        Unreadable grades or qrels; no graded document with a gain; no query left that has a label.

    Warns
    -----
    RCPWarning
        Of each kind of document that is left out, and of documents that stand at label 0 without one.
    """
    singles, notes = read_grades(grades, gains.dataset_of(grades, "grades"))
    read = len(notes)
    singles = as_in_table(singles, gains)
    found = _with_gains(panels(singles), gains, notes)
    if qrels is not None:
        labels = as_in_table(with_labels(qrels, "qrels", gains.dataset_of(qrels, "qrels")), gains)
        found = _with_labels(found, labels, notes)
    for note in notes[read:]:
        warn(note)
    singles = singles.merge(found[[*KEYS, "gain"]], on=KEYS, how="inner", sort=False)
    return Graded(found.reset_index(drop=True), singles.sort_values([*KEYS, "grade"], ignore_index=True), notes)


def _with_gains(graded: pd.DataFrame, gains: GainTable, notes: list[str]) -> pd.DataFrame:
    """The graded documents that have gains and are not excluded."""
    documents, queries = _scores(gains, notes), gains.queries[KEYS[:2]].assign(known=True)
    found = graded.merge(queries, on=KEYS[:2], how="left", sort=False)
    known = found["known"].eq(True)
    if not known.any():
        theirs = examples(graded[KEYS[:2]].itertuples(index=False, name=None))
        ours = examples(queries[KEYS[:2]].itertuples(index=False, name=None))
        raise RCPError(f"grades and gains share no query: the grades' (dataset, query) are {theirs}, the gains' {ours}")
    _note(notes, found[~known], "of queries without gains")
    found = found[known].drop(columns="known").merge(documents, on=KEYS, how="left", sort=False)
    outside, excluded = found["gain"].isna(), found["excluded"].eq(True)
    _note(notes, found[outside], "without a gain")
    _note(notes, found[excluded], "excluded from the gains")
    found = found[~outside & ~excluded].drop(columns="excluded")
    if found.empty:
        theirs, ours = named_documents(graded), named_documents(documents)
        raise RCPError(f"no graded document has a gain; graded are {theirs}, gains are for {ours}")
    return found


def _scores(gains: GainTable, notes: list[str]) -> pd.DataFrame:
    """The table's documents: `gain, ability`, and Bradley-Terry scores where they were released."""
    table = gains.documents
    order = gain_order(table, gains.criteria)
    documents = table[[*KEYS, "gain", "excluded"]].assign(ability=table["theta"], order=order)
    if table["theta"].isna().all():
        notes.append("the abilities of these gains were not released: documents are ordered by their gains")
        documents["ability"] = documents["gain"]
    if table["bt"].isna().all():
        notes.append("the Bradley-Terry scores of these gains were not released: nothing is said of them")
        return documents
    pool = table.loc[~table["excluded"]].groupby(KEYS[:2], sort=False)["bt"]
    spread = pool.transform("std", ddof=0)
    z = (table["bt"] - pool.transform("mean")) / spread.where(spread > 1e-12)
    return documents.assign(bt=table["bt"], z_bt=z.fillna(0.0))


def _with_labels(found: pd.DataFrame, labels: pd.DataFrame, notes: list[str]) -> pd.DataFrame:
    """The documents of queries that have labels, with these."""
    labelled = labels[KEYS[:2]].drop_duplicates().assign(known=True)
    found = found.merge(labelled, on=KEYS[:2], how="left", sort=False)
    known = found["known"].eq(True)
    if not known.any():
        raise RCPError(
            "grades and qrels share no query with gains: the graded (dataset, query) are"
            f" {examples(found[KEYS[:2]].itertuples(index=False, name=None))}, the qrels'"
            f" {examples(labelled[KEYS[:2]].itertuples(index=False, name=None))}"
        )
    _note(notes, found[~known], "of queries without any label")
    found = found[known].drop(columns="known").merge(labels, on=KEYS, how="left", sort=False)
    unjudged = ~(found["label"] >= 0)
    if unjudged.any():
        number = counted(int(unjudged.sum()), "graded document has", "graded documents have")
        notes.append(f"{number} no label, or one below 0: taken as qrel 0")
    return found.assign(label=found["label"].where(~unjudged, 0).astype(np.int64))


def as_in_table(rows: pd.DataFrame, gains: GainTable) -> pd.DataFrame:
    """The rows, under the table's only dataset where they name none."""
    if len(gains.datasets) == 1 and set(rows["dataset"]) == {""}:
        return rows.assign(dataset=gains.datasets[0])
    return rows


def _note(notes: list[str], left_out: pd.DataFrame, why: str) -> None:
    if len(left_out):
        notes.append(f"{counted(len(left_out), 'graded document')} {why}, left out: {named_documents(left_out)}")


def named_documents(rows: pd.DataFrame) -> str:
    """Up to three documents, with their datasets where these have names."""
    keys = KEYS if rows["dataset"].astype(bool).any() else KEYS[1:]
    return examples(rows[keys].itertuples(index=False, name=None))
