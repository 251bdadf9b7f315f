"""People's preferences between systems against plain loops, and how often they side with a measure."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from rcp_irx import GainTable, RCPError, RCPWarning
from rcp_irx.analysis.contests import contests, sided
from rcp_irx.analysis.plotted import share_interval
from rcp_irx.evaluation import ndcg
from tests.analysis import toy
from tests.analysis.test_plotted import graded

pytestmark = pytest.mark.quick


def top(run: pd.DataFrame, qid: str, k: int, out: frozenset[str] = frozenset()) -> list[str]:
    rows = run[(run["qid"] == qid) & ~run["docno"].isin(out)]
    return rows.sort_values(["score", "docno"], ascending=False)["docno"].tolist()[:k]


def dcg(values: list[float]) -> float:
    return sum(value / np.log2(rank + 2) for rank, value in enumerate(values))


def by_loops(
    runs: dict[str, pd.DataFrame], grades: pd.DataFrame, k: int, out: dict[str, frozenset[str]]
) -> dict[tuple[str, str, str], tuple[int, int]]:
    """(query, a, b) -> people, verdict."""
    found = {}
    means = grades.groupby(["qid", "annotator", "docno"])["grade"].mean()
    for qid in sorted(grades["qid"].unique()):
        none = out.get(qid, frozenset())
        people = sorted(grades.loc[grades["qid"] == qid, "annotator"].unique())
        for a, b in itertools.combinations(runs, 2):
            picks = []
            for who in people:
                theirs = means.loc[(qid, who)].to_dict()
                lists = [top(runs[system], qid, k, none) for system in (a, b)]
                if any(not ranked or set(ranked) - set(theirs) for ranked in lists):
                    continue
                kept = sorted((grade for docno, grade in theirs.items() if docno not in none), reverse=True)
                ideal = dcg(kept[:k])
                scores = [dcg([theirs[docno] for docno in ranked]) / ideal if ideal else 0.0 for ranked in lists]
                gap = scores[0] - scores[1]
                picks.append(0 if abs(gap) < 0.005 else int(np.sign(gap)))
            if picks:
                found[qid, a, b] = (len(picks), int(np.sign(sum(picks))))
    return found


def found_by(frame: pd.DataFrame) -> dict[tuple[str, str, str], tuple[int, int]]:
    rows = frame[["qid", "system_a", "system_b", "people", "verdict"]].itertuples(index=False, name=None)
    return {(qid, a, b): (people, verdict) for qid, a, b, people, verdict in rows}


def test_verdicts_and_margins_are_those_of_plain_loops() -> None:
    gains = toy.suite(queries=12)
    runs, labels = toy.runs(gains), toy.labels(gains)
    grades = graded(gains).sample(frac=0.85, random_state=1)  # some lists are not graded in full, by some
    grades = pd.concat([grades, grades.head(30).assign(grade=2)])  # and some documents twice by the same
    with pytest.warns(RCPWarning, match="contests? left out: nobody graded all of both systems' first 3"):
        found = contests(runs, gains, grades, labels, k=3)
    expected = by_loops(runs, grades, 3, {})
    assert found_by(found) == expected
    assert {people for people, _ in expected.values()} == {1, 2, 3}
    assert {verdict for _, verdict in expected.values()} == {-1, 0, 1}
    assert len(expected) < 12 * 6
    sources = {
        "RCPnDCG": gains,
        "CountnDCG": gains.scored.assign(gain=gains.scored["count_gain"]),
        "nDCG": labels.assign(gain=labels["label"].astype(float)),
    }
    for measure, source in sources.items():
        scores = pd.DataFrame({system: ndcg(run, source, 3) for system, run in runs.items()})
        for row in found.to_dict("records"):
            margin = scores.loc[row["qid"], row["system_a"]] - scores.loc[row["qid"], row["system_b"]]
            assert row[measure] == pytest.approx(margin, abs=1e-12)


def test_without_annotators_the_mean_grade_decides() -> None:
    gains = toy.suite(queries=6)
    runs, grades = toy.runs(gains), graded(gains)
    found = contests(runs, gains, grades.drop(columns="annotator"))
    mean = grades.groupby(["qid", "docno"], as_index=False)["grade"].mean().assign(annotator="")
    assert found_by(found) == by_loops(runs, mean, 5, {})
    assert set(found["people"]) == {1}
    assert "nDCG" not in found


def test_excluded_documents_leave_the_lists() -> None:
    gains = toy.suite(queries=6)
    out = gains.documents.query("qid in ['q01', 'q02'] and theta > 0")[["qid", "docno"]]
    runs, grades = toy.runs(gains), graded(gains)
    marked = out.assign(out=True).merge(grades, how="right")["out"].eq(True)
    grades.loc[marked.to_numpy(), "grade"] = 500  # in an ideal it would make every gap too small for a pick
    found = contests(runs, gains.exclude(out), grades)
    sets = {str(qid): frozenset(rows["docno"]) for qid, rows in out.groupby("qid")}
    assert found_by(found) == by_loops(runs, grades, 5, sets) != by_loops(runs, grades, 5, {})


def test_datasets_stay_apart() -> None:
    both = toy.suite(queries=5, datasets=("", "b"))
    runs, grades = toy.runs(both), graded(both)
    found = contests(runs, both, grades)
    for name in ("", "b"):
        own = {system: run[run["dataset"] == name] for system, run in runs.items()}
        expected = by_loops(own, grades[grades["dataset"] == name], 5, {})
        assert found_by(found[found["dataset"] == name]) == expected


def test_a_query_that_a_system_does_not_rank_is_no_contest() -> None:
    gains = toy.suite(queries=3)
    runs, grades = toy.runs(gains, (0.5, 1.0, 2.0)), graded(gains)
    runs["s0"] = runs["s0"][runs["s0"]["qid"] != "q01"]
    with pytest.warns(RCPWarning, match="2 contests left out.*7 stay"):
        found = contests(runs, gains, grades)
    assert found.loc[found["qid"] == "q01", ["system_a", "system_b"]].to_numpy().tolist() == [["s1", "s2"]]


def test_sides_are_counted_by_band() -> None:
    gains = toy.suite(queries=40)
    runs = toy.runs(gains, (0.5, 0.6, 1.0, 2.0, 4.0))
    found = contests(runs, gains, graded(gains), toy.labels(gains))
    for measure in ("RCPnDCG", "nDCG"):
        rows = sided(found, measure)
        assert rows["low_margin"].tolist() == [0, 0.02, 0.05, 0.1, 0.2]
        decided = found[(found["verdict"] != 0) & (found[measure].abs() >= 0.005)]
        assert rows["contests"].sum() == len(decided) > 200
        for row, end in zip(rows.itertuples(), [0.02, 0.05, 0.1, 0.2, 2], strict=True):
            margin = decided[measure].abs()
            inside = decided[(margin >= row.low_margin) & (margin < end)]
            hits = np.sign(inside[measure]) == inside["verdict"]
            assert row.contests == len(inside) > 0
            expected = share_interval(hits, pd.factorize(inside["qid"])[0])
            assert (row.share, row.low, row.high) == pytest.approx(tuple(expected), abs=1e-12)
            assert row.share == pytest.approx(hits.mean())


def test_a_margin_at_an_edge_is_of_the_band_above_and_one_below_a_gap_of_none() -> None:
    frame = pd.DataFrame(
        {
            "dataset": "",
            "qid": ["1", "2", "3", "4", "5"],
            "verdict": [1, -1, 1, 1, 0],
            "RCPnDCG": [0.3 - 0.28, -0.005, 0.0049, -0.2, 0.5],
        }
    )
    rows = sided(frame, "RCPnDCG")
    assert rows["contests"].tolist() == [1, 1, 0, 0, 1]
    assert rows["share"].tolist() == pytest.approx([1, 1, np.nan, np.nan, 0], nan_ok=True)


def test_what_cannot_be_compared_is_refused() -> None:
    gains = toy.suite(queries=3)
    runs, grades = toy.runs(gains), graded(gains)
    with pytest.raises(RCPError, match="runs holds only 's0'; give two or more"):
        contests({"s0": runs["s0"]}, gains, grades)
    with pytest.raises(RCPError, match="no graded query is one that systems are scored on"):
        contests(runs, gains, grades.assign(qid="another"))
    with pytest.raises(RCPError, match=r"nobody graded all of two systems' first 5 .* smaller k needs fewer grades"):
        contests(runs, gains, grades.groupby("qid").head(1))
    with pytest.raises(RCPError, match="cutoff must be a whole number"):
        contests(runs, gains, grades, k=0)
    of_others = {"s0": runs["s0"], "s1": runs["s1"][runs["s1"]["qid"] == "q02"]}
    with pytest.raises(RCPError, match=r"run 's1' on the graded queries: .*share no query"):
        contests(of_others, gains, grades[grades["qid"] == "q00"])


def test_people_who_follow_the_gains_side_with_them() -> None:
    gains = toy.suite(queries=20)
    assert isinstance(gains, GainTable)
    same = gains.documents.rename(columns={"gain": "grade"})[["qid", "docno", "grade"]]
    rows = sided(contests(toy.runs(gains), gains, same), "RCPnDCG")
    assert (rows["share"].dropna() == 1).all()
