"""Which gains belong to which subset of a task, and the stamp that a result carries to say which gains these were."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from rcp_irx.errors import RCPError, examples, warn
from rcp_irx.gains import GainTable
from rcp_irx.registry import resolve_gains
from rcp_irx.released.layout import listed

Table: TypeAlias = "GainTable | str | os.PathLike[str]"
TaskGains: TypeAlias = "Table | Mapping[str, Table]"

MARK = "+rcp:"
HOW = "give a mapping {subset: table}, or name the table's datasets like the subsets"


def gains_by_subset(
    gains: TaskGains, task: str, subsets: Sequence[str], known: Sequence[str], alone: bool
) -> dict[str, GainTable]:
    """The gains of each subset, a table of one dataset each.

    Parameters
    ----------
    gains : GainTable, str or mapping
        A table (or its registered name, or its folder), or subset -> table of one dataset. In a table a subset's
        dataset is called like the subset, or `task/subset`, or, where the task has one subset, like the task; for such
        a task a table of one dataset will do, whatever its name.
    task : str
        The task's name.
    subsets : sequence of str
        The subsets that need gains.
    known : sequence of str
        All subsets of the task.
    alone : bool
        Whether the task has one subset.

    Raises
    ------
    RCPError
        If a subset has no gains, or more than one dataset of the table may be meant; if a mapping names a subset that
        the task does not have, or holds a table of several datasets.

    Warns
    -----
    RCPWarning
        If the subsets' gains come from several fits.
    """
    if isinstance(gains, Mapping):
        found = _of_mapping(gains, task, subsets, known)
    else:
        found = _of_table(as_table(gains), task, subsets, alone)
    fits = {table.fit_id for table in found.values()}
    if len(fits) > 1:
        warn(f"{task}: the subsets' gains come from {len(fits)} fits, whose scores are not comparable with each other")
    return found


def _of_mapping(
    gains: Mapping[str, Table], task: str, subsets: Sequence[str], known: Sequence[str]
) -> dict[str, GainTable]:
    if set(gains) - set(known):
        raise RCPError(
            f"{task} has no subset {examples(set(gains) - set(known))}, for which there are gains; it has "
            f"{examples(known)}"
        )
    if set(subsets) - set(gains):
        raise RCPError(
            f"no gains for subset {examples(set(subsets) - set(gains))} of {task}; there are gains for "
            f"{examples(gains) or 'none'}"
        )
    found = {subset: as_table(gains[subset]) for subset in subsets}
    for subset, table in found.items():
        if len(table.datasets) != 1:
            raise RCPError(
                f"the gains of subset {subset!r} of {task} hold the datasets {examples(table.datasets) or 'none'}, and "
                "must be of one: table.select(dataset)"
            )
    return found


def _of_table(table: GainTable, task: str, subsets: Sequence[str], alone: bool) -> dict[str, GainTable]:
    found, lacking = {}, []
    for subset in subsets:
        names = {subset, f"{task}/{subset}"} | ({task} if alone else set())
        own = [dataset for dataset in table.datasets if dataset in names]
        if len(own) > 1:
            raise RCPError(f"the datasets {examples(own)} of the gains may all be subset {subset!r} of {task}; {HOW}")
        if own:
            found[subset] = table.select(own[0])
        elif alone and len(table.datasets) == 1:
            found[subset] = table
        else:
            lacking.append(subset)
    if lacking:
        looked = f"{task!r}, {lacking[0]!r}" if alone else f"their names, and {f'{task}/{lacking[0]}'!r} and its like"
        raise RCPError(
            f"no gains for subset {examples(lacking)} of {task}: looked among the table's datasets for {looked}, and "
            f"found {examples(table.datasets) or 'none'}; {HOW}"
        )
    return found


def as_table(gains: object) -> GainTable:
    """A table, or the one of a registered name or a folder.

    Raises
    ------
    RCPError
        If it is neither; for a folder of released labels with the call that reads it.
    """
    if isinstance(gains, GainTable):
        return gains
    if isinstance(gains, (str, os.PathLike)):
        try:
            return resolve_gains(os.fspath(gains))
        except RCPError as error:
            if not _is_released(Path(gains)):
                raise
            raise RCPError(
                f"{error}; it looks like released labels: give GainTable.from_released({os.fspath(gains)!r}, subset)"
            ) from None
    raise RCPError(f"gains must be GainTables, or their names or folders, not {type(gains).__name__}")


def _is_released(folder: Path) -> bool:
    """Whether a folder holds labels in a layout of released datasets, as its files' names tell."""
    return any(name.endswith(".parquet") and ("qrels" in name or "gains" in name) for name in listed(folder))


def stamp(gains: Mapping[str, GainTable], options: str, k_values: Sequence[int], main_score: str | None) -> str:
    """What follows a dataset revision: `+rcp:<fits>:<digest><options>@<cutoffs> main=<main score>`.

    The digest is of gains and options; options that are the default, and a main score that is the task's, are left out.
    """
    fits = ",".join(sorted({table.fit_id for table in gains.values()}))
    content = {subset: _digest(table) for subset, table in sorted(gains.items())}
    digest = hashlib.sha256(json.dumps([content, options]).encode()).hexdigest()[:8]
    main = "" if main_score is None else f" main={main_score}"
    return f"{MARK}{fits}:{digest}{options}@{','.join(map(str, k_values))}{main}"


@dataclass(frozen=True)
class Stamped:
    """What a stamped revision says: the data's revision, the fits, the digest of gains and options, the options."""

    data: str
    fits: tuple[str, ...]
    digest: str
    options: str

    def __str__(self) -> str:
        """What two results must share so that their scores compare: neither cutoffs nor the main score."""
        return f"{self.data}{MARK}{','.join(self.fits)}:{self.digest}{self.options}"

    @property
    def judged(self) -> tuple[object, ...]:
        """The gains and how they score, whatever the data."""
        return self.fits, self.digest, self.options


def stamped(revision: str) -> Stamped | None:
    """What a revision says; None where it bears no stamp."""
    data, marked, rest = revision.rpartition(MARK)
    if not marked:
        return None
    fits, _, more = rest.partition("@")[0].rpartition(":")
    digest, bracket, options = more.partition("(")
    return Stamped(data, tuple(fits.split(",")), digest, bracket + options)


def _digest(table: GainTable) -> str:
    """A hash of what is scored, the same for any order of rows."""
    rows = table.scored.drop(columns="dataset").sort_values(["qid", "docno"])
    return hashlib.sha256(rows.to_csv(index=False).encode()).hexdigest()


def one_to_one(datasets: Iterable[tuple[str, str, str]], what: str) -> None:
    """Refuse a table whose dataset would serve two subsets; each entry is (dataset, task, subset)."""
    users: dict[str, tuple[str, str]] = {}
    for dataset, task, subset in datasets:
        other = users.setdefault(dataset, (task, subset))
        if other != (task, subset):
            raise RCPError(
                f"the gains' dataset {dataset!r} would serve {examples([other, (task, subset)])} of the {what}; give a "
                "mapping {task: gains}"
            )
