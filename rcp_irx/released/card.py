"""The dataset card of released gains: front matter that loaders read, and for people what the labels were made with.

It states what the table's metadata hold, and says so where they hold nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from rcp_irx import tables
from rcp_irx._version import __version__
from rcp_irx.errors import counted
from rcp_irx.gains import GainTable
from rcp_irx.released.judgments import CRITERIA, SCORE_MARK
from rcp_irx.released.layout import DEFAULT, config

UNKNOWN = "not recorded"


def card(
    table: GainTable,
    parts: Mapping[str, GainTable],
    kinds: Mapping[str, Sequence[str]],
    *,
    split: str,
    licence: str | None,
) -> str:
    """The text of README.md.

    Parameters
    ----------
    parts : subset -> GainTable
        What each subset holds.
    kinds : subset -> kinds of config
        The configs written for each subset: "qrels", "gains", ...
    """
    sections = [
        _front_matter([config(name, kind) for name in kinds for kind in kinds[name]], split, licence),
        f"# Calibrated relevance gains: {', '.join(parts)}",
        "An LLM judge compared the documents of each query's candidate pool and answered a rubric about them; a"
        " two-parameter logistic model puts all queries on one scale (Rubric-Calibrated Preferences, RCP). A document's"
        " gain is its calibrated probability of relevance, from 0 to 1, for RCP-nDCG: nDCG with linear gain."
        f" Written by rcp_irx {__version__}.",
        *_warnings(table),
        "## Contents\n\n" + _contents(parts),
        "## Configs\n\n" + _configs(parts, kinds, split),
        "## Use\n\n" + _use(next(iter(parts))),
        "## Judge and protocol\n\n" + _provenance(table),
        "## Failures\n\n" + _failures(table),
        "## Diagnostics\n\n" + _diagnostics(table),
        "## Licence\n\n" + _licence(licence),
        "## Limits\n\n" + _limits(),
    ]
    return "\n\n".join(sections) + "\n"


def _front_matter(configs: Sequence[str], split: str, licence: str | None) -> str:
    """YAML; text is quoted as JSON, which YAML reads."""
    lines = ["---"]
    if licence:
        lines.append(f"license: {_quoted(licence)}")
    lines += ["tags:", "- information-retrieval", "- rcp-ndcg", "configs:"]
    for name in configs:
        lines += [f"- config_name: {_quoted(name)}", "  data_files:", f"  - split: {_quoted(split)}"]
        lines.append(f"    path: {_quoted(f'{name}/{split}-*')}")
    return "\n".join([*lines, "---"])


def _warnings(table: GainTable) -> list[str]:
    note = table.metadata.get("note")
    return [f"**Note: {_line(note)}.**"] if note else []


def _contents(parts: Mapping[str, GainTable]) -> str:
    rows = []
    for name, part in parts.items():
        documents, labels = part.documents, part.human_labels
        excluded = int(documents["excluded"].sum()) + len(part.excluded_outside)
        mean = float(documents["gain"].mean())
        rows.append([name, len(part.queries), len(documents), f"{mean:.4f}", len(labels), excluded])
    return _table(["subset", "queries", "documents with a gain", "mean gain", "human labels", "excluded"], rows)


_HELD = {
    "qrels": "`query-id, corpus-id, score, gain`, with abilities also `theta` (logits); null: no gain",
    "gains": "`query-id, corpus-id, gain`, without excluded documents",
    "top_ranked": "the judged pools in pool order. With it, mteb treats the task as reranking: it ranks these pools,"
    " not the corpus",
    "excluded": "documents that leave every ranking and every ideal",
    "queries": "the queries' texts",
    "corpus": "the documents' texts",
}
"""What a kind of config holds."""


def _configs(parts: Mapping[str, GainTable], kinds: Mapping[str, Sequence[str]], split: str) -> str:
    """What was written, and of which subsets where not of all."""
    lines = []
    for kind, held in _HELD.items():
        of = [name for name in kinds if kind in kinds[name]]
        if of:
            lines.append(f"- `{kind}`{_only(of, parts)}: {held}")
    absent = [kind for kind in ("queries", "corpus") if not any(kind in written for written in kinds.values())]
    if absent:
        lines.append(f"- Not here: `{'`, `'.join(absent)}`, without which mteb's loader loads no dataset")
    labelled = [name for name, part in parts.items() if len(part.human_labels)]
    counted_only = [name for name in parts if name not in labelled]
    scores = []
    if labelled:
        scores.append(f"The `score`{_only(labelled, parts)} is the human label (-1: none).")
    if counted_only:
        scores.append(
            f"The `score`{_only(counted_only, parts)} is no human label: for want of these it is the number of criteria"
            " whose difficulty lies at or below the document's ability. The files' schema marks it"
            f" (`{SCORE_MARK}: {CRITERIA}`)."
        )
    prefix = "" if list(parts) == [DEFAULT] else "Names begin with `{subset}-`; "
    beside = (
        f"{prefix}{'t' if prefix else 'T'}he split is `{split}`. `rcp_irx/{{subset}}` holds the whole gain table, with"
        " all that was recorded (`metadata.json`)"
    )
    if any(tables.has_abilities(part.documents, part.criteria) for part in parts.values()):
        beside += "; `item_parameters.json` holds the criteria's `gamma` and `beta`"
    return "\n".join(lines) + "\n\n" + " ".join(scores) + "\n\n" + beside + "."


def _only(names: Sequence[str], parts: Mapping[str, GainTable]) -> str:
    return "" if len(names) == len(parts) else f" (of {', '.join(names)})"


def _use(subset: str) -> str:
    return (
        "```python\nfrom rcp_irx import GainTable\n\n"
        f'gains = GainTable.from_released("<this repository or folder>", "{subset}")\n'
        "gains.RCPnDCG @ 10          # a measure for ir_measures and pt.Experiment\n```"
    )


def _provenance(table: GainTable) -> str:
    metadata = table.metadata
    prompts, taken_from = metadata.get("prompts") or {}, metadata.get("criteria_from")
    facts = {
        "Judge": metadata.get("judge"),
        "Revision of the judge": metadata.get("judge_revision"),
        **{f"Prompt of the {stage}, SHA-256": digest for stage, digest in sorted(prompts.items())},
        "Rubric, SHA-256": metadata.get("rubric"),
        "Protocol": "; ".join(map(_settings, metadata.get("protocol") or [])),
        "Fit": table.fit_id,
        "Criteria taken from fit": "none: estimated here" if taken_from == "" else taken_from,
    }
    if "prompts" not in metadata:
        facts["Prompts"] = None
    if "released" in metadata:
        facts["Read from"] = _settings(metadata["released"])
    return _list(facts)


def _failures(table: GainTable) -> str:
    windows = table.metadata.get("windows") or {}
    planned, failed = windows.get("planned"), windows.get("failed")
    share = f" ({failed / planned:.2%})" if planned and failed is not None else ""
    facts = {
        "Windows planned": planned,
        "Windows without a usable answer": None if failed is None else f"{failed}{share}",
        "Largest share of a query": _largest_share(table.queries),
    }
    left = table.metadata.get("left_out")
    facts["Left out"] = None if left is None else counted(len(left), "query or document", "queries or documents")
    return _list(facts)


def _largest_share(queries: pd.DataFrame) -> str | None:
    if not {"planned", "failed"} <= set(queries.columns):
        return None
    shares = queries["failed"] / queries["planned"].where(queries["planned"] > 0)
    return f"{shares.max():.2%}" if shares.notna().any() else None


def _diagnostics(table: GainTable) -> str:
    fit, moved = table.metadata.get("fit") or {}, table.metadata.get("moved")
    facts: dict[str, Any] = {
        "Fit of the 2PL": _settings(fit) if fit else None,
        "Abilities": _spread(table.documents, "theta"),
        "Standard error of abilities": _spread(table.documents, "theta_se"),
        "Scale of queries (tau)": _spread(table.queries, "tau"),
        "Placements a document": _spread(table.documents, "n"),
    }
    if moved is not None:
        facts["Gains moved against the fit that the criteria are from"] = _settings(moved)
    criteria = table.criteria
    columns = [name for name in ["id", "name", "question", "gamma", "beta", "gamma_se", "beta_se"] if name in criteria]
    rows = [[f"{v:.4f}" if isinstance(v, float) else v for v in row] for row in criteria[columns].values.tolist()]
    return _list(facts) + ("\n\n" + _table(columns, rows) if rows else "")


def _spread(frame: pd.DataFrame, column: str) -> str | None:
    if column not in frame.columns or not frame[column].notna().any():
        return None
    low, middle, high = np.nanquantile(frame[column].to_numpy(dtype=float), [0, 0.5, 1])
    return f"{low:.3f} to {high:.3f}, median {middle:.3f}"


def _licence(licence: str | None) -> str:
    given = (
        f"The labels: {_line(licence)}." if licence else "No licence was given: ask the owner before using the labels."
    )
    return given + " Texts of queries and documents stay under the terms of the collections they are from."


def _limits() -> str:
    return (
        "Models trained on these labels, or on answers of their judge, must be tested on others: on these they would be"
        " measured by what they have learned. Labels of one LLM judge share its preferences, perhaps also those of"
        " rankers built on it. Gains of different fits are not comparable. A document without a gain was not judged,"
        " which does not make it irrelevant."
    )


def _list(facts: Mapping[str, Any]) -> str:
    return "\n".join(f"- {name}: {UNKNOWN if value in (None, '') else _line(value)}" for name, value in facts.items())


def _settings(values: Mapping[str, Any]) -> str:
    given = {name: value for name, value in values.items() if value is not None}
    return ", ".join(
        f"{name} {value:.6g}" if isinstance(value, float) else f"{name} {value}" for name, value in given.items()
    )


def _table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join("| " + " | ".join(_line(value).replace("|", "\\|") for value in line) + " |" for line in lines)


def _line(value: Any) -> str:
    return " ".join(str(value).split())


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
