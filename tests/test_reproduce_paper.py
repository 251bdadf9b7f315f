"""examples/reproduce_paper.py: on the demo collection, and on a released folder whose numbers are known."""

from __future__ import annotations

import gzip
import importlib.util
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.special import stdtr

from rcp_irx import RCPError

pa = pytest.importorskip("pyarrow", reason="pyarrow is not installed")
pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")

SCRIPT = Path(__file__).parents[1] / "examples" / "reproduce_paper.py"

# subset -> query -> document -> (label, gain); None: no gain, the document is in no pool
JUDGED = {
    "NanoOne": {
        "q1": {"a": (1, 0.9), "b": (0, 0.8), "c": (0, 0.1), "z": (1, None)},
        "q2": {"a": (0, 0.2), "b": (1, 0.7), "c": (0, 0.6)},
        "007": {"a": (1, 0.3), "b": (0, 0.9), "c": (0, 0.0)},
    },
    "NanoTwo": {
        "q1": {"a": (2, 0.5), "b": (1, 0.6), "c": (0, 0.4)},
        "q3": {"a": (0, 0.1), "b": (0, 0.2), "c": (1, 0.9)},
    },
}
EXCLUDED = {"NanoTwo": {"q3": ["b"]}}
RANKINGS = {"forward": "abc", "backward": "cba", "middle": "bac"}


def ndcg(ranking, judged, excluded, value):
    """nDCG@10, written out."""
    values = {docno: pair[value] or 0.0 for docno, pair in judged.items() if docno not in excluded}
    kept = [docno for docno in ranking if docno not in excluded]
    found = sum(values[docno] / math.log2(rank + 2) for rank, docno in enumerate(kept))
    best = sorted((values[d] for d in values if value == 0 or judged[d][1] is not None), reverse=True)
    return found / sum(worth / math.log2(rank + 2) for rank, worth in enumerate(best))


def expected(value):
    return {
        subset: pd.DataFrame(
            {
                system: {
                    qid: ndcg(ranking, judged, EXCLUDED.get(subset, {}).get(qid, []), value)
                    for qid, judged in queries.items()
                }
                for system, ranking in RANKINGS.items()
            }
        )
        for subset, queries in JUDGED.items()
    }


def p_of(differences):
    """The two-sided paired t-test's p, from its formula."""
    n = len(differences)
    t = np.mean(differences) / (np.std(differences, ddof=1) / math.sqrt(n))
    return 2 * stdtr(n - 1, -abs(t))


@pytest.fixture
def folder(tmp_path):
    for subset, queries in JUDGED.items():
        rows = [(qid, docno, *pair) for qid, judged in queries.items() for docno, pair in judged.items()]
        columns = dict(zip(["query-id", "corpus-id", "score", "gain"], zip(*rows, strict=True), strict=True))
        write(tmp_path / f"{subset}-qrels", {name: list(values) for name, values in columns.items()})
        out = EXCLUDED.get(subset)
        if out:
            write(tmp_path / f"{subset}-excluded", {"query-id": list(out), "excluded-corpus-ids": list(out.values())})
        (tmp_path / "runs" / subset).mkdir(parents=True)
        for system, ranking in RANKINGS.items():
            lines = [
                f"{qid} Q0 {docno} {rank} {-rank} x\n" for qid in queries for rank, docno in enumerate(ranking, start=1)
            ]
            place = tmp_path / "runs" / subset
            if system == "middle":
                (place / "middle.txt.gz").write_bytes(gzip.compress("".join(lines).encode()))
            else:
                (place / f"{system}.txt").write_text("".join(lines))
    return tmp_path


def write(place, columns):
    place.mkdir(exist_ok=True)
    pq.write_table(pa.table(columns), place / "test-00000-of-00001.parquet")


@pytest.fixture(scope="module")
def script():
    spec = importlib.util.spec_from_file_location("reproduce_paper", SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_scores_of_labels_and_gains_are_those_written_out(script, folder):
    scores = script.score(folder)
    assert list(scores) == ["nDCG", "RCP-nDCG"]
    for value, metric in enumerate(scores):
        for subset, frame in expected(value).items():
            found = scores[metric][subset].loc[frame.index, frame.columns]
            np.testing.assert_allclose(found, frame, rtol=0, atol=1e-12)
            assert len(scores[metric][subset]) == len(frame)


def test_the_leaderboard_is_sorted_by_the_mean_over_subsets_and_ranks_change_by_order_alone(script, folder):
    scores = script.score(folder)
    boards = [script.leaderboard(scores[metric]) for metric in scores]
    for value, board in enumerate(boards):
        means = pd.DataFrame({subset: frame.mean() for subset, frame in expected(value).items()})
        np.testing.assert_allclose(board[list(JUDGED)], means.loc[board.index], rtol=0, atol=1e-12)
        np.testing.assert_allclose(board["Mean"], means.mean(axis=1)[board.index], rtol=0, atol=1e-12)
        assert board["Mean"].is_monotonic_decreasing
    assert boards[0].index.tolist() == ["forward", "middle", "backward"]
    assert boards[1].index.tolist() == ["middle", "backward", "forward"]
    assert script.rank_changes(boards).to_dict() == {"middle": 1, "backward": 1, "forward": -2}
    assert script.rank_changes([boards[0], boards[0]]).eq(0).all()


def test_queries_without_a_label_leave_the_metric_of_labels_for_all_systems_and_are_counted(script, folder, capsys):
    """Their nDCG is not 0: nobody said what is relevant. RCP-nDCG keeps them."""
    file = folder / "NanoTwo-qrels" / "test-00000-of-00001.parquet"
    rows = pq.read_table(file).to_pydict()
    more = [("q7", "a", -1, 0.4), ("q7", "b", -1, 0.2), ("q8", "a", -1, 0.3), ("q8", "b", 1, 0.9), ("q9", "a", 0, 0.5)]
    for name, values in zip(rows, zip(*more, strict=True), strict=True):
        rows[name] += values
    pq.write_table(pa.table(rows), file)
    write(folder / "NanoTwo-excluded", {"query-id": ["q3", "q8"], "excluded-corpus-ids": [["b"], ["b"]]})
    scores = script.score(folder)
    labelled, gained = scores["nDCG"]["NanoTwo"], scores["RCP-nDCG"]["NanoTwo"]
    assert sorted(labelled.index) == ["q1", "q3", "q9"]  # the one label of q8 is of an excluded document
    assert sorted(gained.index) == ["q1", "q3", "q7", "q8", "q9"]
    assert (labelled.loc["q9"] == 0).all()  # it was labelled, and nothing is relevant
    np.testing.assert_allclose(labelled.loc[["q1", "q3"], list(RANKINGS)], expected(0)["NanoTwo"], rtol=0, atol=1e-12)
    assert list(script.queries_scored(scores)) == [
        "nDCG is over 6 queries (NanoOne 3, NanoTwo 3); 2 with gains and no label left out",
        "RCP-nDCG is over 8 queries (NanoOne 3, NanoTwo 5)",
    ]
    script.main([str(folder)])
    assert "2 with gains and no label left out" in capsys.readouterr().out


def test_a_subset_of_which_no_ranked_document_has_a_label_is_an_error(script, folder):
    rows = {"query-id": ["q1", "q3"], "corpus-id": ["a", "b"], "score": [-1, 1], "gain": [0.5, 0.25]}
    shutil.rmtree(folder / "NanoTwo-qrels")
    write(folder / "NanoTwo-qrels", rows)
    with pytest.raises(RCPError, match=r"'NanoTwo' of .* has labels of excluded documents alone"):
        script.score(folder)


def test_the_share_of_separated_pairs_is_that_of_paired_t_tests(script):
    generator = np.random.default_rng(3)
    level = generator.random(30)
    shifts = {"a": 0.0, "b": 0.02, "c": 0.05, "d": 0.3}
    frames = {
        subset: pd.DataFrame(
            {name: level + shift + 0.1 * generator.standard_normal(30) for name, shift in shifts.items()}
        )
        for subset in ("one", "two")
    }
    found = script.separated(frames)
    pairs = [(a, b) for a in shifts for b in shifts if a < b]
    shares = {
        subset: np.mean([p_of((frame[a] - frame[b]).to_numpy()) < 0.05 for a, b in pairs])
        for subset, frame in frames.items()
    }
    assert 0 < min(shares.values()) < 1
    assert found.to_dict() == pytest.approx({**shares, "Mean": np.mean(list(shares.values()))})


def test_systems_that_never_differ_are_not_separated(script):
    same = pd.DataFrame({"a": [0.1, 0.5, 0.9], "b": [0.1, 0.5, 0.9]})
    assert script.separated({"one": same}).to_dict() == {"one": 0.0, "Mean": 0.0}


def test_a_folder_without_runs_or_with_a_run_missing_is_an_error(script, folder, tmp_path):
    (folder / "runs" / "NanoTwo" / "forward.txt").unlink()
    with pytest.raises(RCPError, match=r"runs/NanoTwo lacks the runs of \['forward'\]"):
        script.score(folder)
    with pytest.raises(RCPError, match="has no runs"):
        script.score(tmp_path / "NanoOne-qrels")
    (folder / "runs" / "NanoTwo").rename(folder / "runs" / "NanoThree")
    (folder / "runs" / "NanoThree" / "forward.txt").write_text("q1 Q0 a 1 1 x\n")
    with pytest.raises(RCPError, match="no subset 'NanoThree'"):
        script.score(folder)


def test_the_script_prints_a_folders_tables(script, folder, capsys):
    script.main([str(folder), "--rules", "nanobeir"])
    printed = capsys.readouterr().out
    assert "Toy rankers" not in printed
    lines = [line.split() for line in printed.splitlines()]
    before, after = ({line[0]: line for line in lines[start : start + 3]} for start in (5, 11))
    means = [{system: float(row[-1]) for system, row in block.items()} for block in (before, after)]
    for value, found in enumerate(means):
        truth = pd.DataFrame({subset: frame.mean() for subset, frame in expected(value).items()}).mean(axis=1)
        assert found == {system: pytest.approx(100 * truth[system], abs=0.0501) for system in RANKINGS}
    assert {system: row[1] for system, row in after.items()} == {"middle": "▲1", "backward": "▲1", "forward": "▼2"}


def test_without_a_folder_the_script_runs_on_the_demo_collection():
    environment = {**os.environ, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, str(SCRIPT)], capture_output=True, encoding="utf-8", env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout
    assert printed.startswith("Toy rankers and a stand-in judge, to show the path.")
    assert printed.count("rare words + trigrams") == 2
    last = printed.splitlines()[-1].split()
    assert last[0] == "RCP-nDCG"
    assert all(0 <= float(share) <= 100 for share in last[1:])
