"""GainTable: the gains of judged pools, what they were made from, and the frames that evaluation reads them through.

Making a table from judgments is `judging.calibrate`'s work; scoring rankings with one is `evaluation`'s.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from rcp_irx._version import __version__
from rcp_irx.calibration import centre, count_gain, gain
from rcp_irx.documents import flags, with_keys, with_labels
from rcp_irx.errors import RCPError, counted, examples, warn
from rcp_irx.storage import normal, read_folder, write_folder

if TYPE_CHECKING:
    pass

KEYS = ["dataset", "qid", "docno"]
DOCUMENT_COLUMNS = [*KEYS, "gain", "theta", "bt", "n", "pool_rank", "excluded"]
QUERY_COLUMNS = ["dataset", "qid", "query", "tau", "alpha"]
CRITERION_COLUMNS = ["id", "name", "question", "gamma", "beta"]
PT_META = {"type": "rcp_gains", "format": "rcp_irx", "package_hint": "rcp-irx"}


class _BoundMeasure:
    """`table.RCPnDCG`: the measure of that name bound to the table, as in `eval_metrics=[table.RCPnDCG @ 10]`."""

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, table: GainTable | None, owner: type) -> Any:
        from rcp_irx.evaluation import measures  # the framework's measures load only when asked for

        measure = getattr(measures, self.name)
        return measure if table is None else measure(gains=table)


class GainTable:
    """The gains of every document of every judged pool, on one scale: the result of one calibration fit.

    Parameters
    ----------
    documents : DataFrame
        One row per (dataset, qid, docno): `gain` (probability, Eq. 4), `theta` (ability, logit, Eq. 3), `bt` (Stage
        A score, logit, centred per query), `n` (Stage B placements), one pass count per criterion id, `pool_rank` (0
        is the first), `excluded` (left out of every ranking and every ideal); other columns are kept.
    queries : DataFrame
        One row per (dataset, qid): `query`, `tau`, `alpha` (Eq. 2); other columns are kept.
    criteria : DataFrame
        One row per criterion: `id, name, question, gamma` (discrimination), `beta` (difficulty, logit).
    metadata : dict
        Provenance, as JSON values: judge, rubric, protocol, windows asked and failed, fit diagnostics. A `fit_id`
        (hash of the tables) is added where absent; a `name`, where present, is what bound measures print.

    outside : DataFrame, optional
        `qid, docno` (and `dataset`) of excluded documents that are in no pool: they leave rankings that hold them.

    Raises
    ------
    RCPError
        Missing columns, repeated keys, gains outside [0, 1], documents of queries that are not in `queries`.

    Notes
    -----
    Scores of different fits are not comparable. Derived tables (`select`, `exclude`) keep the fit id and say in their
    `label` what was done. `table.RCPnDCG` and its like are the measures of those names, bound to the table.
    """

    RCPnDCG = _BoundMeasure()
    CountnDCG = _BoundMeasure()
    RawBTnDCG = _BoundMeasure()
    RCPJudged = _BoundMeasure()
    RCPGain = _BoundMeasure()
    RCPDCG = _BoundMeasure()
    RCPRecall = _BoundMeasure()
    RCPERR = _BoundMeasure()
    RCPBest = _BoundMeasure()

    def __init__(
        self,
        documents: pd.DataFrame,
        queries: pd.DataFrame,
        criteria: pd.DataFrame,
        metadata: dict[str, Any] | None = None,
        outside: pd.DataFrame | None = None,
    ):
        documents = with_keys(_with(documents, DOCUMENT_COLUMNS, "documents"), ["qid", "docno"], "documents table")
        queries = with_keys(_with(queries, QUERY_COLUMNS, "queries"), ["qid"], "queries table")
        criteria = _with(criteria, CRITERION_COLUMNS, "criteria")
        _with(documents, list(criteria["id"]), "documents")
        self._documents, self._queries, self._criteria = normal(documents), normal(queries), normal(criteria)
        self._check()
        outside = self._documents[KEYS].head(0) if outside is None else with_keys(outside, ["qid", "docno"], "outside")
        self._outside = normal(outside[KEYS].drop_duplicates().sort_values(KEYS))
        self.metadata: dict[str, Any] = {"derived": "", "rcp_irx": __version__, **(metadata or {})}
        if "fit_id" not in self.metadata:
            self.metadata["fit_id"] = _fit_id(self._documents, self._criteria, self.metadata)

    def _check(self) -> None:
        if self._documents["excluded"].dtype != bool and len(self._documents):
            raise RCPError("column 'excluded' of the documents table must hold True or False")
        for name in ["theta", "bt", "n", "pool_rank", *self._criteria["id"]]:
            values = self._documents[name].to_numpy()
            if values.dtype.kind not in "iuf" or not np.isfinite(values).all():
                raise RCPError(f"column {name!r} of the documents table must hold finite numbers")
        for frame, keys, what in [(self._documents, KEYS, "documents"), (self._queries, KEYS[:2], "queries")]:
            repeated = frame[frame.duplicated(keys)]
            if len(repeated):
                raise RCPError(
                    f"the {what} table repeats {examples(repeated[keys].itertuples(index=False, name=None))}"
                )
        values = self._documents["gain"].to_numpy(dtype=float)
        wrong = self._documents[~((values >= 0) & (values <= 1))]
        if len(wrong):
            raise RCPError(
                f"gains outside [0, 1] (or NaN) for {examples(wrong[KEYS].itertuples(index=False, name=None))}"
            )
        orphans = set(_keys(self._documents, 2)) - set(_keys(self._queries, 2))
        if orphans:
            raise RCPError(f"the queries table lacks {examples(orphans)}, which the documents table holds")

    @property
    def documents(self) -> pd.DataFrame:
        """A copy of the documents table; changing it does not change the gains."""
        return self._documents.copy()

    @property
    def queries(self) -> pd.DataFrame:
        """A copy of the queries table."""
        return self._queries.copy()

    @property
    def criteria(self) -> pd.DataFrame:
        """A copy of the criteria table."""
        return self._criteria.copy()

    @property
    def scored(self) -> pd.DataFrame:
        """What evaluation reads: `dataset, qid, docno`, the gains, `excluded, pool_rank`.

        The gains are `gain` (Eq. 4), `count_gain` (Eq. 5), `weighted_count_gain` (Prop. I.3) and `raw_bt_gain` (B.1).
        Excluded documents that are in no pool follow, with NaN for gains and pool rank.
        """
        return self._scored.copy()

    @cached_property
    def _scored(self) -> pd.DataFrame:
        rows = self._documents[KEYS].assign(**self._gain_columns())
        return pd.concat([rows, self._outside.assign(excluded=True)], ignore_index=True) if len(self._outside) else rows

    def scored_of(self, qids: Iterable[str]) -> pd.DataFrame:
        """The rows of `scored` for some queries, by their ids; ids without gains have none."""
        found = [self._positions[qid] for qid in dict.fromkeys(qids) if qid in self._positions]
        return self._scored.iloc[np.concatenate(found) if found else []]

    @cached_property
    def _positions(self) -> dict[str, np.ndarray]:
        rows = self._scored.groupby("qid", sort=False).indices
        return {str(qid): np.asarray(places) for qid, places in rows.items()}

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in ("_scored", "_positions")}

    @property
    def fit_id(self) -> str:
        """The fit that these gains come from: gains of different fits are not comparable."""
        return str(self.metadata["fit_id"])

    @property
    def label(self) -> str:
        """What bound measures print: the table's name, else its fit id, and what was selected or excluded."""
        return str(self.metadata.get("name") or self.fit_id) + self.metadata["derived"]

    @property
    def datasets(self) -> list[str]:
        """The datasets that the table holds, sorted."""
        return sorted(self._queries["dataset"].unique())

    @property
    def passes(self) -> np.ndarray:
        """Pass counts, (documents, criteria)."""
        return self._documents[list(self._criteria["id"])].to_numpy(dtype=float)

    def __len__(self) -> int:
        return len(self._documents)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, GainTable):
            return NotImplemented
        return (
            self.metadata == other.metadata
            and self._documents.equals(other._documents)
            and self._queries.equals(other._queries)
            and self._criteria.equals(other._criteria)
            and self._outside.equals(other._outside)
        )

    def __hash__(self) -> int:
        return hash((self.label, len(self)))

    def __repr__(self) -> str:
        note = f"; {self.metadata['note']}" if self.metadata.get("note") else ""
        return (
            f"GainTable({self.label!r}: {len(self._queries)} queries, {len(self)} documents, "
            f"{len(self._criteria)} criteria; judge {self.metadata.get('judge', 'unknown')!r}{note})"
        )

    def select(self, dataset: str | Iterable[str]) -> GainTable:
        """The gains of one dataset, or of several; the fit stays what it was."""
        wanted = [dataset] if isinstance(dataset, str) else list(dataset)
        absent = set(wanted) - set(self.datasets)
        if not wanted:
            raise RCPError(f"select names no dataset; the table holds {examples(self.datasets)}")
        if absent:
            raise RCPError(f"no gains for dataset {examples(absent)}; the table holds {examples(self.datasets)}")
        if set(wanted) == set(self.datasets):
            return self
        return self._derive(
            self._documents[self._documents["dataset"].isin(wanted)],
            self._queries[self._queries["dataset"].isin(wanted)],
            self._outside[self._outside["dataset"].isin(wanted)],
            f"[{','.join(sorted(set(wanted)))}]",
        )

    def topics(self, topics: pd.DataFrame) -> pd.DataFrame:
        """The rows of `topics` (`qid` and, where the table holds several datasets, `dataset`) that have gains."""
        keyed = with_keys(topics, ["qid"], "topics frame", self._only_dataset("topics", topics))
        known = pd.Series(_keys(keyed, 2)).isin(_keys(self._queries, 2)).to_numpy()
        if len(topics) and not known.any():
            raise RCPError(f"no topic has gains: topics are {_named(keyed)}, gains for {_named(self._queries)}")
        return topics[known]

    def exclude(self, frame: pd.DataFrame) -> GainTable:
        """Documents (`qid, docno`, optionally `dataset`) taken out of every ranking and every ideal.

        Documents outside the judged pool count too, where a run ranks them. Those of queries without gains are passed
        over.
        """
        keyed = with_keys(
            frame, ["qid", "docno"], "frame of excluded documents", self._only_dataset("excluded documents", frame)
        )
        known = keyed[pd.Series(_keys(keyed, 2), index=keyed.index).isin(_keys(self._queries, 2))]
        if len(frame) and known.empty:
            warn(f"none of the {len(frame)} excluded documents is of a query with gains")
        wanted = set(_keys(known, 3))
        pooled = _keys(self._documents, 3)
        already = {key for key, out in zip(pooled, self._documents["excluded"], strict=True) if out}
        new = wanted - already - set(_keys(self._outside, 3))
        if not new:
            return self
        documents = self._documents.assign(excluded=[key in new or key in already for key in pooled])
        outside = pd.DataFrame([*_keys(self._outside, 3), *sorted(new - set(pooled))], columns=KEYS)
        digest = hashlib.sha256(json.dumps(sorted(new)).encode()).hexdigest()
        return self._derive(documents, self._queries, outside, f"-excluded:{digest[:6]}")

    def qrels(self, labels: pd.DataFrame | None = None) -> pd.DataFrame:
        """A qrels frame with the gains beside the labels, for the queries that have gains.

        Parameters
        ----------
        labels : DataFrame, optional
            Qrels (`qid, docno, label`) to join: a pool document without a label gets -1 (TREC's unjudged), a labelled
            document outside the pool keeps NaN gains. Without it, the label is the number of criteria whose difficulty
            lies at or below the document's ability.

        Returns
        -------
        DataFrame
            `qid, docno, label, gain, count_gain` (Eq. 5), `weighted_count_gain` (Prop. I.3), `raw_bt_gain` (B.1),
            `excluded, pool_rank` (NaN outside the pool), and `dataset` where the table holds several.

        Raises
        ------
        RCPError
            If a query id occurs in two datasets of the table (`select` one first); if labels are not whole numbers
            or disagree.
        """
        several = len(self.datasets) > 1
        shared = self._queries["qid"][self._queries["qid"].duplicated()]
        if len(shared):
            raise RCPError(f"query ids occur in two datasets: {examples(shared)}; use .select(dataset).qrels(...)")
        frame = self._scored.head(len(self)).copy()
        if labels is None:
            difficulty = self._criteria["beta"].to_numpy(dtype=float)
            level = (difficulty <= self._documents["theta"].to_numpy(dtype=float)[:, None]).sum(axis=1)
            frame.insert(3, "label", level.astype(np.int64))
            if len(self._outside):
                frame = pd.concat([frame, self._outside.assign(label=-1, excluded=True)], ignore_index=True)
        else:
            frame = self._joined(frame, labels)
        return (frame if several else frame.drop(columns="dataset")).reset_index(drop=True)

    def _gain_columns(self) -> dict[str, np.ndarray]:
        table, criteria = self._documents, self._criteria
        gamma, beta = criteria["gamma"].to_numpy(dtype=float), criteria["beta"].to_numpy(dtype=float)
        codes = pd.factorize(pd.MultiIndex.from_frame(table[KEYS[:2]]))[0]
        placements = table["n"].to_numpy(dtype=float)
        return {
            "gain": table["gain"].to_numpy(dtype=float),
            "count_gain": count_gain(self.passes, placements),
            "weighted_count_gain": count_gain(self.passes, placements, gamma),
            "raw_bt_gain": gain(centre(table["bt"].to_numpy(dtype=float), codes), gamma, beta),
            "excluded": table["excluded"].to_numpy(dtype=bool),
            "pool_rank": table["pool_rank"].to_numpy(dtype=np.int64),
        }

    def _joined(self, frame: pd.DataFrame, labels: pd.DataFrame) -> pd.DataFrame:
        """The outer join of gains and labels, over the queries that have gains."""
        dataset = self._only_dataset("labels", labels)
        keyed = with_keys(labels, ["qid", "docno"], "labels frame", dataset)
        marked = set(_keys(keyed[flags(keyed, "excluded", "labels frame")], 3))
        labels = with_labels(labels, "labels frame", dataset)
        known = pd.Series(_keys(labels, 2), index=labels.index).isin(_keys(self._queries, 2))
        if len(labels) and not known.any():
            raise RCPError(
                f"labels and gains share no query: labels are for {_named(labels)}, gains for {_named(self._queries)}"
            )
        if not known.all():
            left = labels["qid"][~known]
            number = counted(left.nunique(), "label query has", "label queries have")
            warn(f"{number} no gains, left out: {examples(left)}")
        joined = frame.merge(labels[known], on=KEYS, how="outer", sort=False)
        joined = joined.merge(self._outside, on=KEYS, how="outer", sort=False)
        joined["label"] = joined["label"].fillna(-1).astype(np.int64)
        out = marked | set(_keys(self._outside, 3))
        joined["excluded"] = joined["excluded"].eq(True) | pd.Series(
            [key in out for key in _keys(joined, 3)], dtype=bool
        )
        return joined[[*KEYS, "label", *frame.columns[3:]]]

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the table as a folder of JSON lines, at full float64 precision; `pt.Artifact.load` opens it too.

        Saving the same table to the same place again does nothing; another table there needs `overwrite=True`.
        """
        if not overwrite and os.path.isdir(folder) and os.path.exists(os.path.join(folder, "pt_meta.json")):
            if GainTable.load(folder) == self:
                return
            raise RCPError(f"{os.fspath(folder)} holds other gains; give overwrite=True to replace them")
        tables = {
            "documents": self._documents,
            "queries": self._queries,
            "criteria": self._criteria,
            "excluded_outside": self._outside,
        }
        write_folder(folder, tables, self.metadata, {"pt_meta.json": PT_META}, overwrite)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> GainTable:
        """The table saved in a folder.

        Raises
        ------
        RCPError
            If the folder is absent, damaged, of a newer version, or holds something else.
        """
        tables, metadata = read_folder(folder)
        absent = {"documents", "queries", "criteria", "excluded_outside"} - set(tables)
        if absent:
            raise RCPError(f"{os.fspath(folder)} holds no table {examples(absent)}")
        return cls(tables["documents"], tables["queries"], tables["criteria"], metadata, tables["excluded_outside"])

    def _derive(self, documents: pd.DataFrame, queries: pd.DataFrame, outside: pd.DataFrame, what: str) -> GainTable:
        metadata = {**self.metadata, "derived": self.metadata["derived"] + what}
        return GainTable(
            documents.reset_index(drop=True), queries.reset_index(drop=True), self._criteria, metadata, outside
        )

    def _only_dataset(self, what: str, frame: pd.DataFrame) -> str:
        """The dataset that rows without a `dataset` column belong to."""
        if not isinstance(frame, pd.DataFrame):
            raise RCPError(f"{what} must be a DataFrame, not {type(frame).__name__}")
        if "dataset" in frame.columns or len(self.datasets) == 1:
            return self.datasets[0] if len(self.datasets) else ""
        raise RCPError(
            f"the table holds the datasets {examples(self.datasets)}: give {what} a 'dataset' column, or .select one"
        )


def _with(frame: pd.DataFrame, columns: list[str], what: str) -> pd.DataFrame:
    absent = [column for column in columns if column not in frame.columns]
    if absent:
        raise RCPError(f"the {what} table has no column {examples(absent)} (it has {list(frame.columns)})")
    return frame


def _keys(frame: pd.DataFrame, depth: int) -> list[tuple[str, ...]]:
    return list(frame[KEYS[:depth]].itertuples(index=False, name=None))


def _named(frame: pd.DataFrame) -> str:
    """Up to three queries for a message, with their datasets where these are named."""
    keys = set(_keys(frame, 2))
    return examples(qid for _, qid in keys) if {dataset for dataset, _ in keys} == {""} else examples(keys)


def _fit_id(documents: pd.DataFrame, criteria: pd.DataFrame, metadata: dict[str, Any]) -> str:
    """A hash of what was estimated and from what, the same for any order of rows."""
    digest = hashlib.sha256(json.dumps([metadata.get("judge"), criteria.values.tolist()]).encode())
    columns = [*KEYS, "theta", "bt", "n", *criteria["id"]]
    for row in sorted(documents[columns].astype(object).itertuples(index=False, name=None)):
        digest.update(json.dumps(row).encode())
    return digest.hexdigest()[:12]
