"""What a reviewer asks of labels, in sentences and one table, as Markdown or LaTeX: `rcp-irx describe`.

It states what the table and the checks hold, and says so where something was not recorded.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from rcp_irx.analysis.diagnosis import diagnose
from rcp_irx.analysis.results import Runs, read_runs, score_runs
from rcp_irx.errors import counted
from rcp_irx.evaluation.coverage import LEAST_COVERAGE
from rcp_irx.gains import GainTable

EMPTY = hashlib.sha256(b"").hexdigest()
"""The hash of the prompt of a judge that has none."""
HASH = 12
"""Characters of a hash that are printed."""

TOLD = {
    ("AUC", "gain"),
    ("AUC", "qrel positive"),
    ("AUC at qrel 0", "gain"),
    ("Spearman", "ability"),
    ("Spearman", "ceiling"),
    ("concordance", "ability"),
    ("ECE", "gain"),
    ("ECE", "chance alone"),
    ("agreement with one annotator", "gain"),
    ("agreement with one annotator", "a second annotator"),
}
"""What of the agreement with people an appendix tells."""

LIMITS = (
    "The labels are one judge's reading of relevance, document by document: they say nothing of redundancy, and share"
    " the judge's preferences, perhaps with rankers of its family. Gains of different fits are not comparable. A"
    " document without a gain was not judged, and counts 0 where a system ranks it. Resolution between systems is no"
    " validity."
)

_SPECIAL = re.compile(r"[&%$#_{}]")
_WORDS = {"\\": r"\textbackslash{}", "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": "$<$", ">": "$>$"}


@dataclass(frozen=True)
class Appendix:
    """Paragraphs, and one table with a heading."""

    paragraphs: list[str]
    columns: list[str]
    rows: list[list[str]]
    heading: str

    def markdown(self) -> str:
        """Markdown: paragraphs, then the table."""
        lines = [self.columns, ["---"] * len(self.columns), *self.rows]
        table = "\n".join("| " + " | ".join(cell.replace("|", "\\|") for cell in line) + " |" for line in lines)
        return "\n\n".join([*self.paragraphs, f"{self.heading}:", table]) + "\n"

    def latex(self) -> str:
        """LaTeX: paragraphs, then a tabular in a table."""
        body = "\n".join(" & ".join(map(_tex, row)) + r" \\" for row in self.rows)
        head = " & ".join(map(_tex, self.columns)) + r" \\"
        shape = "l" * 2 + "r" * (len(self.columns) - 2)
        table = (
            f"\\begin{{table}}\n\\caption{{{_tex(self.heading)}.}}\n\\begin{{tabular}}{{{shape}}}\n\\hline\n{head}\n"
            f"\\hline\n{body}\n\\hline\n\\end{{tabular}}\n\\end{{table}}"
        )
        return "\n\n".join([*map(_tex, self.paragraphs), table]) + "\n"


def describe(
    gains: GainTable,
    runs: Runs | None = None,
    qrels: pd.DataFrame | None = None,
    grades: pd.DataFrame | None = None,
    *,
    k: int = 10,
) -> Appendix:
    """What a paper's appendix should say of its labels.

    Parameters
    ----------
    runs : mapping of str to DataFrame or path, optional
        The systems, for coverage and ties.
    qrels, grades : DataFrame, optional
        People's labels (`qid, docno, label`) and grades (`qid, docno, grade`), for the agreement with them.
    """
    frames = None if not runs else read_runs(runs)
    checks = diagnose(gains, runs=frames, qrels=qrels, k=k)
    paragraphs = [_judging(gains), _asked(gains), _fit(gains, checks)]
    if frames:
        paragraphs.append(_runs(gains, frames, k))
    if grades is not None:
        paragraphs.append(_agreement(gains, grades, qrels))
    paragraphs.append(LIMITS)
    columns = ["criterion", "name", "discrimination", "difficulty", "pass rate"]
    rows = [
        [row["id"], _line(row["name"]), f"{row['gamma']:.2f}", f"{row['beta']:.2f}", _share(row["pass_rate"])]
        for row in checks.criteria.to_dict("records")
    ]
    return Appendix(paragraphs, columns, rows, f"Criteria of fit {gains.fit_id}")


def _judging(gains: GainTable) -> str:
    held = gains.metadata
    prompts = held.get("prompts") or {}
    hashes = [
        f"the {stage} prompt {digest[:HASH]}" if digest != EMPTY else f"no {stage} prompt"
        for stage, digest in sorted(prompts.items(), reverse=True)
    ]
    hashes += [f"the rubric {held['rubric'][:HASH]}"] if held.get("rubric") else []
    by = f" (SHA-256: {', '.join(hashes)})" if hashes else " (prompts and rubric not recorded)"
    note = f" Note: {held['note']}." if held.get("note") else ""
    judge = held.get("judge") or "not recorded"
    made = f"rcp_irx {held['rcp_irx']}" if held.get("rcp_irx") else "a program that is not recorded"
    return (
        f"Relevance labels are Rubric-Calibrated Preferences, made with {made}. The judge is {judge}, its settings and"
        f" revision as far as its name tells{by}.{note}"
    )


def _asked(gains: GainTable) -> str:
    held, documents = gains.metadata, gains.documents
    sizes = documents.groupby(["dataset", "qid"]).size()
    windows = gains.windows
    failed = "the number of failed windows is not recorded"
    if windows and windows[1]:
        failed = f"{windows[0]} of {windows[1]} windows had no usable answer"
    placed = "the placements are not recorded"
    if documents["n"].notna().any():
        low, middle, high = np.nanquantile(documents["n"].to_numpy(float), [0, 0.5, 1])
        placed = f"each document stood in {low:.0f} to {high:.0f} rubric windows (median {middle:.0f})"
    protocols = held.get("protocol") or []
    shape = "; ".join(_protocol(protocol) for protocol in protocols) or "not recorded"
    left = held.get("left_out") or []
    out = f" Left out were {counted(len(left), 'query or document', 'queries or documents')}." if left else ""
    return (
        f"{counted(len(gains.queries), 'query was', 'queries were')} judged, with {sizes.min()} to {sizes.max()}"
        f" documents each (median {sizes.median():.0f}, {len(documents)} in all). The protocol, at 150 documents:"
        f" {shape}; {placed}; {failed}.{out}"
    )


def _protocol(held: dict[str, Any]) -> str:
    again = ", each again in reverse" if held.get("reversals") else ""
    return (
        f"{held.get('random')} random and {held.get('stratified')} stratified windows of {held.get('size')}{again},"
        f" {held.get('batches')} batches of {held.get('adaptive')} adaptive ones, {held.get('rubric')} rubric windows,"
        f" seed {held.get('seed')}"
    )


def _fit(gains: GainTable, checks: Any) -> str:
    fit = gains.metadata.get("fit") or {}
    how = "How the fit ended is not recorded"
    if fit:
        how = f"The 2PL took {fit['n_iter']} steps to a gradient of {fit['gradient_norm']:.0e}"
    source = gains.metadata.get("criteria_from")
    frozen = f"; the criteria are those of fit {source}" if source else ""
    signs = checks.checks.loc[checks.checks["warning"], "check"].tolist()
    of = f"{len(checks.checks)} checks of the calibration"
    said = f"{len(signs)} of {of} warn: {'; '.join(signs)}." if signs else f"None of {of} warns, which is no proof."
    return f"{how}{frozen}. {said}"


def _runs(gains: GainTable, frames: dict[str, pd.DataFrame], k: int) -> str:
    covered = score_runs(frames, gains, k=k).coverage
    coverage, silent = covered.mean(), covered.isna().sum()
    unanswered = [f"{name} ({counted(int(number), 'query', 'queries')})" for name, number in silent.items() if number]
    missed = f" Nothing is ranked, and counts 0, for some queries of {', '.join(unanswered)}." if unanswered else ""
    low = coverage[coverage < LEAST_COVERAGE]
    tied = {name: float(run.duplicated(["qid", "score"], keep=False).mean()) for name, run in frames.items()}
    few = f"; under {LEAST_COVERAGE:g} are {', '.join(map(str, low.index))}" if len(low) else ""
    return (
        f"Of the first {k} documents of {counted(len(frames), 'system')}, {coverage.min():.1%} to {coverage.max():.1%}"
        f" have a gain{few}. Up to {max(tied.values()):.1%} of a system's documents share their score with another one"
        f" of the query; such documents rank by id, descending, as in trec_eval.{missed}"
    )


def _agreement(gains: GainTable, grades: pd.DataFrame, qrels: pd.DataFrame | None) -> str:
    from rcp_irx.analysis import agreement

    found = agreement(gains, grades, qrels)
    rows = found.measures[found.measures["dataset"] == found.measures["dataset"].iloc[0]]
    said = [
        f"{row.measure} of {row.of} {row.value:.3f}{_interval(row.low, row.high)} ({row.n} {row.unit})"
        for row in rows.itertuples()
        if np.isfinite(row.value) and (row.measure, row.of) in TOLD
    ]
    notes = f" To note: {'; '.join(found.warnings)}." if found.warnings else ""
    datasets = found.documents["dataset"].nunique()
    pooled = f" over {datasets} datasets together" if datasets > 1 else ""
    return (
        f"Agreement with people's grades{pooled}, relevant from {found.threshold:g} on, with 95% intervals from"
        f" resampled queries: {'; '.join(said)}.{notes}"
    )


def _interval(low: float, high: float) -> str:
    return "" if np.isnan(low) else f" [{low:.3f}, {high:.3f}]"


def _line(text: str) -> str:
    return " ".join(text.split())


def _share(value: float) -> str:
    return "-" if value is None or np.isnan(value) else f"{value:.1%}"


def _tex(text: str) -> str:
    return "".join(_WORDS.get(character) or _SPECIAL.sub(r"\\\g<0>", character) for character in text)
