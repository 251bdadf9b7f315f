"""GainTable: the gains of judged pools, what they were made from, and the frames that evaluation reads them through.

Making a table from judgments is `judging.calibrate`'s work; scoring rankings with one is `evaluation`'s.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from rcp_irx import tables
from rcp_irx._version import __version__
from rcp_irx.documents import with_keys
from rcp_irx.errors import RCPError, examples, warn
from rcp_irx.storage import normal, read_folder, write_folder
from rcp_irx.tables import CRITERION_COLUMNS, DOCUMENT_COLUMNS, KEYS, QUERY_COLUMNS, keys_of, named, with_columns

if TYPE_CHECKING:
    from pathlib import Path

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
        is the first, NaN: not in the pool's order), `excluded` (left out of every ranking and every ideal); other
        columns are kept. `theta`, `bt`, `n` and pass counts are finite, or NaN in every row: not released.
    queries : DataFrame
        One row per (dataset, qid): `query`, `tau`, `alpha` (Eq. 2; NaN: not released); other columns are kept.
    criteria : DataFrame
        One row per criterion: `id, name, question, gamma` (discrimination), `beta` (difficulty, logit).
    metadata : dict
        Provenance, as JSON values: judge, rubric, protocol, windows asked and failed, fit diagnostics. A `fit_id`
        (hash of the tables) is added where absent; a `name`, where present, is what bound measures print.
    outside : DataFrame, optional
        `qid, docno` (and `dataset`) of excluded documents that are in no pool: they leave rankings that hold them.
    human_labels : DataFrame, optional
        Qrels (`qid, docno, label`, and `dataset`) that came with the gains, also of documents without a gain: what
        `qrels(table.human_labels)` joins. -1 is no label.

    Raises
    ------
    RCPError
        Missing columns, repeated keys, gains outside [0, 1], documents or labels of queries that are not in `queries`.

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
        human_labels: pd.DataFrame | None = None,
    ):
        documents = with_keys(
            with_columns(documents, DOCUMENT_COLUMNS, "documents"), ["qid", "docno"], "documents table"
        )
        queries = with_keys(with_columns(queries, QUERY_COLUMNS, "queries"), ["qid"], "queries table")
        criteria = with_columns(criteria, CRITERION_COLUMNS, "criteria")
        with_columns(documents, list(criteria["id"]), "documents")
        self._documents, self._queries, self._criteria = normal(documents), normal(queries), normal(criteria)
        tables.check(self._documents, self._queries, self._criteria)
        outside = self._documents[KEYS].head(0) if outside is None else with_keys(outside, ["qid", "docno"], "outside")
        self._outside = normal(outside[KEYS].drop_duplicates().sort_values(KEYS))
        labels = self._documents[KEYS].head(0).assign(label=0) if human_labels is None else human_labels
        dataset = self.dataset_of(labels, "human labels")
        self._human_labels = normal(tables.checked_labels(labels, dataset, self._queries))
        self.metadata: dict[str, Any] = {"derived": "", "rcp_irx": __version__, **(metadata or {})}
        if "fit_id" not in self.metadata:
            self.metadata["fit_id"] = tables.fit_id(self._documents, self._criteria, self.metadata)

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
    def human_labels(self) -> pd.DataFrame:
        """The labels that came with the gains, `dataset, qid, docno, label`; `table.qrels(table.human_labels)`."""
        return self._human_labels.copy()

    @property
    def excluded_outside(self) -> pd.DataFrame:
        """The excluded documents that are in no pool: `dataset, qid, docno`."""
        return self._outside.copy()

    @property
    def scored(self) -> pd.DataFrame:
        """What evaluation reads: `dataset, qid, docno`, the gains, `excluded, pool_rank`.

        The gains are `gain` (Eq. 4), `count_gain` (Eq. 5), `weighted_count_gain` (Prop. I.3) and `raw_bt_gain` (B.1);
        those made of Stage A scores or pass counts that were not released are absent.
        Excluded documents that are in no pool follow, with NaN for gains and pool rank.
        """
        return self._scored.copy()

    @cached_property
    def _scored(self) -> pd.DataFrame:
        rows = self._documents[KEYS].assign(**tables.gain_columns(self._documents, self._criteria))
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
        """Pass counts, (documents, criteria); NaN where they were not released."""
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
            and self._human_labels.equals(other._human_labels)
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
        keyed = with_keys(topics, ["qid"], "topics frame", self.dataset_of(topics, "topics"))
        known = tables.known(keyed, self._queries).to_numpy()
        if len(topics) and not known.any():
            raise RCPError(f"no topic has gains: topics are {named(keyed)}, gains for {named(self._queries)}")
        return topics[known]

    def exclude(self, frame: pd.DataFrame) -> GainTable:
        """Documents (`qid, docno`, optionally `dataset`) taken out of every ranking and every ideal.

        Documents outside the judged pool count too, where a run ranks them. Those of queries without gains are passed
        over.
        """
        keyed = with_keys(
            frame, ["qid", "docno"], "frame of excluded documents", self.dataset_of(frame, "excluded documents")
        )
        known = keyed[tables.known(keyed, self._queries)]
        if len(frame) and known.empty:
            warn(f"none of the {len(frame)} excluded documents is of a query with gains")
        wanted = set(keys_of(known, 3))
        pooled = keys_of(self._documents, 3)
        already = {key for key, out in zip(pooled, self._documents["excluded"], strict=True) if out}
        new = wanted - already - set(keys_of(self._outside, 3))
        if not new:
            return self
        documents = self._documents.assign(excluded=[key in new or key in already for key in pooled])
        outside = pd.DataFrame([*keys_of(self._outside, 3), *sorted(new - set(pooled))], columns=KEYS)
        digest = hashlib.sha256(json.dumps(sorted(new)).encode()).hexdigest()
        return self._derive(documents, self._queries, outside, f"-excluded:{digest[:6]}")

    def qrels(self, labels: pd.DataFrame | None = None) -> pd.DataFrame:
        """A qrels frame with the gains beside the labels, for the queries that have gains.

        Parameters
        ----------
        labels : DataFrame, optional
            Qrels (`qid, docno, label`) to join: a pool document without a label gets -1 (TREC's unjudged), a labelled
            document outside the pool keeps NaN gains. Without it, the label is the number of criteria whose difficulty
            lies at or below the document's ability, also where the table holds `human_labels`.

        Returns
        -------
        DataFrame
            `qid, docno, label, gain, count_gain` (Eq. 5), `weighted_count_gain` (Prop. I.3), `raw_bt_gain` (B.1),
            `excluded, pool_rank` (NaN outside the pool), and `dataset` where the table holds several. Gains made of
            what was not released are absent, as in `scored`.

        Raises
        ------
        RCPError
            If a query id occurs in two datasets of the table (`select` one first); if labels are not whole numbers
            or disagree; without labels, if the abilities were not released.
        """
        several = len(self.datasets) > 1
        shared = self._queries["qid"][self._queries["qid"].duplicated()]
        if len(shared):
            raise RCPError(f"query ids occur in two datasets: {examples(shared)}; use .select(dataset).qrels(...)")
        frame = self._scored.head(len(self)).copy()
        if labels is None:
            frame.insert(3, "label", tables.levels(self._documents, self._criteria))
            if len(self._outside):
                frame = pd.concat([frame, self._outside.assign(label=-1, excluded=True)], ignore_index=True)
        else:
            dataset = self.dataset_of(labels, "labels")
            frame = tables.joined(frame, labels, self._outside, self._queries, dataset)
        return (frame if several else frame.drop(columns="dataset")).reset_index(drop=True)

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> None:
        """Write the table as a folder of JSON lines, at full float64 precision; `pt.Artifact.load` opens it too.

        Saving the same table to the same place again does nothing; another table there needs `overwrite=True`.
        """
        if not overwrite and os.path.isdir(folder) and os.path.exists(os.path.join(folder, "pt_meta.json")):
            if GainTable.load(folder) == self:
                return
            raise RCPError(f"{os.fspath(folder)} holds other gains; give overwrite=True to replace them")
        frames = {
            "documents": self._documents,
            "queries": self._queries,
            "criteria": self._criteria,
            "excluded_outside": self._outside,
        }
        if len(self._human_labels):
            frames["human_labels"] = self._human_labels
        write_folder(folder, frames, self.metadata, {"pt_meta.json": PT_META}, overwrite)

    @classmethod
    def from_released(
        cls,
        source: str | os.PathLike[str],
        subset: str = "default",
        *,
        dataset: str | None = None,
        split: str | None = None,
        revision: str | None = None,
        item_parameters: str | None = None,
        api: Any = None,
    ) -> GainTable:
        """The gains of one subset of a released dataset: a folder, or `owner/name` on the Hugging Face Hub.

        A document without an ability has no gain; labels are in `human_labels`. What was not released (Stage A scores,
        pass counts) is NaN; a dataset that `to_released` wrote gives the table that was written. Parameters, errors and
        warnings stand in `rcp_irx.released.reading.read_released`. Needs the extra `hub`.
        """
        from rcp_irx.released.reading import read_released  # pyarrow loads only when asked for

        return read_released(
            source,
            subset,
            dataset=dataset,
            split=split,
            revision=revision,
            item_parameters=item_parameters,
            api=api,
        )

    def to_released(
        self, folder: str | os.PathLike[str], subset: str | Mapping[str, str] | None = None, **options: Any
    ) -> Path:
        """Write the gains as a dataset in mteb's layout, with a card; `from_released` reads them back equal.

        Options (`split, corpus, human_labels, licence`) and errors stand in `rcp_irx.released.writing.write_released`.
        The card says what the metadata hold; the judge's revision is `metadata["judge_revision"]`. Needs the extra
        `hub`.
        """
        from rcp_irx.released.writing import write_released

        return write_released(self, folder, subset, **options)

    def to_hf(self, repo_id: str, subset: str | Mapping[str, str] | None = None, **options: Any) -> Any:
        """Upload what `to_released` writes to a dataset repository on the Hugging Face Hub.

        Options are those of `to_released` and of `rcp_irx.released.writing.upload_released` (`private, revision,
        overwrite, api`). `GainArtifact.to_hf` is another thing: it uploads a saved folder as PyTerrier's artifacts do.
        """
        from rcp_irx.released.writing import upload_released

        return upload_released(self, repo_id, subset, **options)

    @classmethod
    def load(cls, folder: str | os.PathLike[str]) -> GainTable:
        """The table saved in a folder.

        Raises
        ------
        RCPError
            If the folder is absent, damaged, of a newer version, or holds something else.
        """
        frames, metadata = read_folder(folder)
        names = ["documents", "queries", "criteria", "excluded_outside"]
        absent = set(names) - set(frames)
        if absent:
            raise RCPError(f"{os.fspath(folder)} holds no table {examples(absent)}")
        documents, queries, criteria, outside = (frames[name] for name in names)
        return cls(documents, queries, criteria, metadata, outside, frames.get("human_labels"))

    def _derive(self, documents: pd.DataFrame, queries: pd.DataFrame, outside: pd.DataFrame, what: str) -> GainTable:
        metadata = {**self.metadata, "derived": self.metadata["derived"] + what}
        labels = self._human_labels[self._human_labels["dataset"].isin(queries["dataset"])]
        return GainTable(documents, queries, self._criteria, metadata, outside, labels)

    @property
    def windows(self) -> tuple[int, int] | None:
        """How many windows of its queries have no valid answer, and how many were planned; None where not recorded."""
        if not {"failed", "planned"} <= set(self._queries.columns) or self._queries["planned"].isna().any():
            return None
        return int(self._queries["failed"].sum()), int(self._queries["planned"].sum())

    def dataset_of(self, frame: pd.DataFrame, what: str) -> str:
        """The dataset that a frame's rows are of where they name none; "" if each names its own.

        Raises
        ------
        RCPError
            No frame; or there are several datasets, and it names none.
        """
        if not isinstance(frame, pd.DataFrame):
            raise RCPError(f"{what} must be a DataFrame, not {type(frame).__name__}")
        if "dataset" in frame.columns or len(self.datasets) == 1:
            return self.datasets[0] if len(self.datasets) else ""
        raise RCPError(
            f"the gains hold the datasets {examples(self.datasets)}: give {what} a 'dataset' column, or select one"
            " dataset"
        )
