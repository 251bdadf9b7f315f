"""Every plot: what is drawn equals numbers computed otherwise; axes, figures and settings are left in order."""

from __future__ import annotations

import re
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator

import numpy as np
import pandas as pd
import pytest
from scipy.special import expit

pytest.importorskip("matplotlib", reason="matplotlib is not installed")
import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.axes import Axes
from matplotlib.colors import to_hex

from rcp_irx import GainTable, RCPError, RCPWarning
from rcp_irx.analysis import compare, plots, with_gain
from rcp_irx.analysis.contests import contests, sided
from rcp_irx.analysis.plotted import share_interval
from rcp_irx.demo import results as demo
from rcp_irx.errors import MissingExtra
from tests.analysis import dl19, toy
from tests.analysis.test_plotted import graded

GAINS = toy.suite(queries=8, datasets=("", "b"))
RUNS, GRADES, LABELS = toy.runs(GAINS), graded(GAINS), toy.labels(GAINS)
COMPARED = compare(RUNS, GAINS, LABELS)
DRAWN: dict[str, Callable[..., Axes]] = {
    "criterion_curves": lambda ax=None: plots.criterion_curves(GAINS, ax=ax),
    "raw_and_calibrated": lambda ax=None: plots.raw_and_calibrated(GAINS, ax=ax),
    "calibration": lambda ax=None: plots.calibration(GAINS, GRADES, threshold=1, ax=ax),
    "gain_by_grade": lambda ax=None: plots.gain_by_grade(GAINS, GRADES, ax=ax),
    "leaderboard": lambda ax=None: plots.leaderboard(COMPARED, ax=ax),
    "margins": lambda ax=None: plots.margins(RUNS, GAINS, GRADES, LABELS, ax=ax),
}


@pytest.fixture(autouse=True)
def no_figure_stays() -> Iterator[None]:
    yield
    pyplot.close("all")


def labels_of(ticks: list) -> list[str]:
    return [tick.get_text() for tick in ticks]


def segments(ax: Axes) -> np.ndarray:
    """The ends of all straight lines that are drawn as collections: (lines, 2 points, x and y)."""
    found = [segment for lines in ax.collections for segment in getattr(lines, "get_segments", list)()]
    return np.array([segment for segment in found if len(segment) == 2])


def shown(ax: Axes) -> list:
    """Every text that can be seen."""
    texts = [*ax.texts, *ax.get_legend().get_texts()] if ax.get_legend() else [*ax.texts]
    for of in (ax, *ax.child_axes):
        texts += [of.title, of.xaxis.label, of.yaxis.label]
        for axis in (of.xaxis, of.yaxis):
            low, high = sorted(axis.get_view_interval())
            ticks = [tick for tick in axis.get_major_ticks() if low <= tick.get_loc() <= high]
            texts += [label for tick in ticks for label in (tick.label1, tick.label2)]
    return [text for text in texts if text.get_text() and text.get_visible()]


@pytest.mark.parametrize("name", DRAWN)
def test_axes_given_are_drawn_on_and_returned(name: str) -> None:
    figure, (left, right) = pyplot.subplots(1, 2)
    before = dict(matplotlib.rcParams)
    assert DRAWN[name](ax=right) is right
    assert pyplot.get_fignums() == [figure.number]
    assert not left.has_data()
    assert right.has_data()
    assert dict(matplotlib.rcParams) == before


@pytest.mark.parametrize("name", DRAWN)
def test_without_axes_one_figure_is_made_and_can_be_saved(name: str, tmp_path) -> None:
    ax = DRAWN[name]()
    assert isinstance(ax, Axes)
    assert pyplot.get_fignums() == [ax.figure.number]
    ax.figure.savefig(tmp_path / "plot.png")
    ax.figure.savefig(tmp_path / "plot.pdf")
    assert (tmp_path / "plot.png").stat().st_size > 5000


@pytest.mark.parametrize("name", DRAWN)
def test_all_text_lies_in_the_figure_and_none_over_another(name: str) -> None:
    ax = DRAWN[name]()
    figure = ax.figure
    figure.canvas.draw()
    texts = shown(ax)
    assert len(texts) > 5
    boxes = [text.get_window_extent() for text in texts]
    low, high = [box.min for box in boxes], [box.max for box in boxes]
    first, last = np.array(low), np.array(high)
    assert (first >= -1).all()
    assert (last <= figure.bbox.max + 1).all()
    over = np.minimum(last[:, None], last) - np.maximum(first[:, None], first)
    clash = np.argwhere(np.triu((over > 1).all(axis=-1), 1))
    assert [(texts[a].get_text(), texts[b].get_text()) for a, b in clash] == []


@pytest.mark.parametrize("name", DRAWN)
def test_something_else_than_axes_is_refused(name: str) -> None:
    _, grid = pyplot.subplots(1, 2)
    with pytest.raises(RCPError, match="ax must be one matplotlib Axes, not ndarray"):
        DRAWN[name](ax=grid)


@pytest.mark.parametrize("name", DRAWN)
def test_without_matplotlib_the_extra_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.axes", None)
    with pytest.raises(MissingExtra, match=r"matplotlib is not installed; run: pip install 'rcp-irx\[plot\]'"):
        DRAWN[name]()


def test_importing_the_plots_loads_no_matplotlib() -> None:
    code = "import sys, rcp_irx.analysis.plots; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize(
    ("call", "word"),
    [
        (lambda: plots.criterion_curves(None), "gains must be a GainTable, not NoneType"),
        (lambda: plots.raw_and_calibrated(GAINS.documents), "gains must be a GainTable, not DataFrame"),
        (lambda: plots.raw_and_calibrated(toy.with_columns(GAINS, theta=np.nan)), "abilities .* were not released"),
        (lambda: plots.calibration(GAINS, GRADES, bins=0), "bins is a whole number from 1 up, not 0"),
        (lambda: plots.calibration(GAINS, GRADES, bins=2.5), "bins is a whole number"),
        (lambda: plots.calibration(GAINS, GRADES, threshold=4), "no grade reaches the threshold 4"),
        (lambda: plots.gain_by_grade(GAINS, GRADES.drop(columns="grade")), "no column 'grade'"),
        (lambda: plots.leaderboard(COMPARED.systems), "what compare returned, not DataFrame"),
        (lambda: plots.leaderboard(COMPARED, dataset="c"), "no dataset 'c'; it has '', 'b'"),
        (lambda: plots.leaderboard(COMPARED, against="MAP"), "no 'MAP' .* has 'CountnDCG', 'nDCG'$"),
        (lambda: plots.leaderboard(COMPARED, against="RCPnDCG"), "no 'RCPnDCG'"),
        (lambda: plots.leaderboard(compare(RUNS, GAINS)), r"no 'nDCG' .*; compare\(runs, gains, qrels\) adds nDCG"),
        (lambda: plots.leaderboard(COMPARED, families={"s0": "A"}), "no family's name for 's1', 's2', 's3'"),
        (
            lambda: plots.margins(RUNS, GAINS, GRADES.assign(grade=1)),
            "people prefer neither list in any of 96 contests",
        ),
        (lambda: plots.margins({"s0": RUNS["s0"]}, GAINS, GRADES), "give two or more"),
    ],
)
def test_wrong_input_is_refused_and_leaves_no_figure(call: Callable[[], Axes], word: str) -> None:
    with pytest.raises(RCPError, match=word):
        call()
    assert pyplot.get_fignums() == []


def test_curves_are_those_of_the_formula() -> None:
    ax = plots.criterion_curves(GAINS)
    lines = {line.get_label().split(":")[0]: line for line in ax.lines}
    assert list(lines) == ["C1", "C2", "C3", "gain g"]
    gamma, beta, mean = np.array(toy.GAMMA), np.array(toy.BETA), 0.0
    for c in range(3):
        theta, chance = lines[f"C{c + 1}"].get_data()
        np.testing.assert_allclose(chance, expit(gamma[c] * (theta - beta[c])))
        mean = mean + gamma[c] * chance
    np.testing.assert_allclose(lines["gain g"].get_ydata(), mean / gamma.sum())
    passed = [GAINS.documents[f"C{c + 1}"].sum() / GAINS.documents["n"].sum() for c in range(3)]
    assert labels_of(ax.get_legend().get_texts()) == [
        f"C1: γ 1.20, β −2.00, {passed[0]:.1%} passed",
        f"C2: γ 1.00, β 0.00, {passed[1]:.1%} passed",
        f"C3: γ 0.80, β 2.00, {passed[2]:.1%} passed",
        "gain g",
    ]


def test_shading_splits_at_the_easiest_and_the_second_hardest_criterion() -> None:
    ax = plots.criterion_curves(GAINS)
    spans = [patch.get_extents().transformed(ax.transData.inverted()) for patch in ax.patches]
    assert [spans[0].x1, spans[1].x0] == pytest.approx([-2.0, 0.0])
    theta = GAINS.documents["theta"]
    shares = [(theta < -2).mean(), ((theta >= -2) & (theta < 0)).mean(), (theta >= 0).mean()]
    assert labels_of(ax.texts) == [f"{shares[0]:.1%} of the pool", f"{shares[1]:.1%}", f"{shares[2]:.1%}"]


def test_curves_of_any_rubric_and_of_what_was_not_released() -> None:
    bare = toy.with_columns(GAINS, theta=np.nan, n=np.nan, C1=np.nan, C2=np.nan, C3=np.nan)
    ax = plots.criterion_curves(bare)
    assert labels_of(ax.get_legend().get_texts())[0] == "C1: γ 1.20, β −2.00"
    assert not ax.texts
    documents = GAINS.documents.assign(gain=expit(toy.GAMMA[0] * (GAINS.documents["theta"] - toy.BETA[0])))
    one = GainTable(documents, GAINS.queries, GAINS.criteria.head(1), {})
    assert [line.get_label().split(":")[0] for line in plots.criterion_curves(one).lines] == ["C1", "gain g"]
    none = GainTable(GAINS.documents, GAINS.queries, GAINS.criteria.head(0), {})
    with pytest.raises(RCPError, match="has no criteria"):
        plots.criterion_curves(none)
    many = pd.concat([GAINS.criteria.assign(id=f"_{i}", beta=[3.0 * i, 3.0 * i + 1, -i]) for i in range(4)])
    many["id"] = [f"_${i}$" for i in range(12)]
    columns = {name: 1 for name in many["id"]}
    ax = plots.criterion_curves(GainTable(GAINS.documents.assign(**columns), GAINS.queries, many, {}))
    looks = {(to_hex(line.get_color()), line.get_linestyle()) for line in ax.lines}
    assert len(looks) == len(ax.get_legend().get_texts()) == 13


def test_boxes_of_scores_are_percentiles() -> None:
    random = np.random.default_rng(4)
    queries = GAINS.queries.assign(alpha=random.normal(size=len(GAINS.queries)))
    ax = plots.raw_and_calibrated(GainTable(GAINS.documents, queries, GAINS.criteria, {}))
    documents = GAINS.documents
    raw = documents["bt"] - documents.groupby(["dataset", "qid"])["bt"].transform("mean")
    bars = {box.get_label(): list(box) for box in ax.containers}
    whiskers = segments(ax)
    for place, name in enumerate(["", "b"]):
        for label, values in [("raw, centred per query", raw), ("calibrated", documents["theta"])]:
            p5, p25, p50, p75, p95 = values[documents["dataset"] == name].quantile([0.05, 0.25, 0.5, 0.75, 0.95])
            bar = bars[label][place]
            assert [bar.get_x(), bar.get_x() + bar.get_width()] == pytest.approx([p25, p75])
            y = bar.get_y() + bar.get_height() / 2
            assert abs(y - place) < 0.5
            for ends in ([[p5, y], [p25, y]], [[p75, y], [p95, y]]):
                assert np.isclose(whiskers, ends).all(axis=(1, 2)).any()
            median = [[p50, bar.get_y()], [p50, bar.get_y() + bar.get_height()]]
            assert np.isclose(whiskers, median).all(axis=(1, 2)).any()
    dots = next(line for line in ax.lines if line.get_label() == "median α")
    assert dots.get_xdata().tolist() == pytest.approx(queries.groupby("dataset")["alpha"].median().tolist())
    assert labels_of(ax.get_yticklabels()) == ["(no name)", "b"]
    levels = [line.get_xdata()[0] for line in ax.lines if line.get_linestyle() == ":"]
    assert list(zip(levels, labels_of(ax.texts), strict=True)) == [(-2.0, "C1"), (0.0, "C2")]
    assert ax.get_ylim() == (1.5, -0.5)


def test_offsets_that_were_not_released_have_no_dot() -> None:
    bare = GainTable(GAINS.documents, GAINS.queries.assign(alpha=np.nan), GAINS.criteria, {})
    with pytest.warns(RCPWarning, match="no offsets alpha for dataset '', 'b': no dot"):
        ax = plots.raw_and_calibrated(bare)
    assert "median α" not in labels_of(ax.get_legend().get_texts())
    ax = plots.raw_and_calibrated(toy.suite(queries=2))
    assert labels_of(ax.get_yticklabels()) == ["pool"]


def test_calibration_points_are_shares_of_grades() -> None:
    ax = plots.calibration(GAINS, GRADES, threshold=1, bins=10)
    rows = GRADES.merge(GAINS.documents[["dataset", "qid", "docno", "gain"]], on=["dataset", "qid", "docno"])
    rows["bin"] = np.minimum((rows["gain"] * 10).astype(int), 9)
    rows["hit"] = (rows["grade"] >= 1).astype(float)
    found = rows.groupby("bin").agg(gain=("gain", "mean"), share=("hit", "mean"), grades=("hit", "size"))
    dots = ax.collections[-1]
    np.testing.assert_allclose(dots.get_offsets(), found[["gain", "share"]])
    sizes = dots.get_sizes()
    assert np.corrcoef(sizes, found["grades"])[0, 1] == pytest.approx(1)
    for (gain, share), (number, own) in zip(dots.get_offsets(), rows.groupby("bin"), strict=True):
        interval = share_interval(own["hit"], pd.factorize(own["dataset"] + own["qid"])[0])
        assert interval.share == pytest.approx(share), number
        if not np.isnan(interval.low):
            ends = [[gain, interval.low], [gain, interval.high]]
            assert np.isclose(segments(ax), ends).all(axis=(1, 2)).any()
    ece = np.sum(found["grades"] * (found["gain"] - found["share"]).abs()) / len(rows)
    title = rf"ECE {ece:.3f} \(chance alone: 0\.0\d\d\): {len(rows):,} grades in 10 bins"
    assert re.fullmatch(title, ax.get_title())
    assert ax.get_ylabel() == "Share of grades at or above 1"
    assert ax.lines[0].get_xydata().tolist() == [[0, 0], [1, 1]]


def test_gains_of_each_grade_are_percentiles() -> None:
    halves = GRADES.assign(grade=GRADES["grade"] + 0.5 * (GRADES["annotator"] == "z"))
    ax = plots.gain_by_grade(GAINS, halves)
    rows = halves.merge(GAINS.documents[["dataset", "qid", "docno", "gain"]], on=["dataset", "qid", "docno"])
    expected = rows.groupby("grade")["gain"].quantile([0.05, 0.25, 0.5, 0.75, 0.95]).unstack()
    bars = ax.containers[0]
    assert [bar.get_y() for bar in bars] == pytest.approx(expected[0.25].tolist())
    assert [bar.get_y() + bar.get_height() for bar in bars] == pytest.approx(expected[0.75].tolist())
    lines = segments(ax)
    for place, row in enumerate(expected.to_dict("records")):
        for ends in ([[place, row[0.05]], [place, row[0.25]]], [[place, row[0.75]], [place, row[0.95]]]):
            assert np.isclose(lines, ends).all(axis=(1, 2)).any()
        assert (np.isclose(lines[:, :, 1], row[0.5]).all(axis=1) & np.isclose(lines[:, :, 0].mean(axis=1), place)).any()
    numbers = rows["grade"].value_counts()
    assert labels_of(ax.get_xticklabels()) == [f"{grade:g}\nn = {numbers[grade]:,}" for grade in sorted(numbers.index)]


def entry(row: pd.Series) -> str:
    return f"{row['system']}  {row['mean']:.3f} [{row['low']:.3f}, {row['high']:.3f}]"


def placed(rows: pd.DataFrame) -> pd.DataFrame:
    return rows.sort_values("mean", ascending=False, ignore_index=True)


def test_leaderboard_places_ranks_and_changes() -> None:
    rows = COMPARED.suite.assign(mean=COMPARED.suite["mean"])
    swapped = rows.copy()  # s0 and s3 change places under nDCG, s1 and s2 stay
    old = swapped["measure"] == "nDCG"
    swapped.loc[old, ["mean", "low", "high", "rank"]] = swapped.loc[old, ["mean", "low", "high", "rank"]].to_numpy()[
        ::-1
    ]
    swapped["rank"] = swapped["rank"].astype(int)
    compared = type(COMPARED)(**{**vars(COMPARED), "suite": swapped})
    ax = plots.leaderboard(compared)
    left, right = (placed(swapped[swapped["measure"] == measure]) for measure in ("nDCG", "RCPnDCG"))
    assert left["system"].tolist() == right["system"].tolist()[::-1]
    assert labels_of(ax.get_yticklabels()) == [f"{entry(row)}  {place + 1}" for place, row in left.iterrows()]
    moves = ["  up 3", "  up 1", "  down 1", "  down 3"]
    assert labels_of(ax.child_axes[0].get_yticklabels()) == [
        f"{place + 1}  {entry(row)}{moves[place]}" for place, row in right.iterrows()
    ]
    ends = {(int(line.get_ydata()[0]), int(line.get_ydata()[1])): to_hex(line.get_color()) for line in ax.lines}
    assert ends == {(3, 0): "#0072b2", (2, 1): "#0072b2", (1, 2): "#d55e00", (0, 3): "#d55e00"}
    assert labels_of(ax.get_legend().get_texts()) == ["rises", "falls"]
    assert labels_of(ax.get_xticklabels()) == ["nDCG@10", "RCPnDCG@10"]
    assert ax.get_title() == "means over 2 datasets"
    assert ax.get_ylim() == (3.5, -0.5)


def test_leaderboard_of_one_dataset_and_of_families() -> None:
    ax = plots.leaderboard(COMPARED, against="CountnDCG", dataset="b", families=lambda s: "_$1$" if s < "s2" else "B")
    rows = COMPARED.systems[(COMPARED.systems["dataset"] == "b") & (COMPARED.systems["measure"] == "CountnDCG")]
    assert labels_of(ax.get_yticklabels()) == [f"{entry(row)}  {row['rank']}" for _, row in placed(rows).iterrows()]
    assert ax.get_title() == "b: 8 queries"
    assert len({to_hex(line.get_color()) for line in ax.lines}) == 2
    assert labels_of(ax.get_legend().get_texts()) == ["B", r" _\$1\$"]
    assert plots.leaderboard(COMPARED, dataset="").get_title() == "8 queries"


def test_systems_with_the_same_mean_share_a_rank() -> None:
    same = compare({"a": RUNS["s1"], "b": RUNS["s1"], "c": RUNS["s0"]}, GAINS, LABELS)
    ax = plots.leaderboard(same)
    texts = labels_of(ax.child_axes[0].get_yticklabels())
    assert [text.split()[:2] for text in texts] == [["1", "c"], ["2", "a"], ["2", "b"]]
    assert sorted(tuple(line.get_ydata()) for line in ax.lines) == [(0, 0), (1, 1), (2, 2)]


def test_one_query_has_no_intervals() -> None:
    gains = toy.suite(queries=1)
    compared = compare(toy.runs(gains), gains, toy.labels(gains))
    ax = plots.leaderboard(compared)
    assert not any("[" in text for text in labels_of(ax.get_yticklabels()))
    ax = plots.margins(toy.runs(gains), gains, graded(gains))
    assert np.nanmax(ax.lines[-1].get_ydata()) <= 1
    ax.figure.canvas.draw()


def test_fourteen_systems_have_fourteen_lines_and_families_their_looks() -> None:
    runs = toy.runs(GAINS, tuple(np.linspace(0.5, 4, 14)))
    ax = plots.leaderboard(compare(runs, GAINS, LABELS), families={name: f"family {name}" for name in runs})
    looks = {(to_hex(line.get_color()), line.get_linestyle(), line.get_marker()) for line in ax.lines}
    assert len(looks) == len(ax.lines) == len(ax.get_legend().get_texts()) == 14
    ranks = [text.split()[0] for text in labels_of(ax.child_axes[0].get_yticklabels())]
    assert ranks == [str(rank) for rank in range(1, 15)]


def test_margins_are_shares_of_contests() -> None:
    ax = plots.margins(RUNS, GAINS, GRADES, LABELS, k=4)
    found = contests(RUNS, GAINS, GRADES, LABELS, k=4)
    lines = {line.get_label(): line for line in ax.lines}
    numbers = np.array([int(text.get_text()) for text in ax.texts]).reshape(2, 5)
    for place, measure in enumerate(["RCPnDCG", "nDCG"]):
        rows = sided(found, measure)
        line = lines[f"{measure}@4"]
        np.testing.assert_allclose(line.get_ydata(), rows["share"])
        assert np.abs(line.get_xdata() - np.arange(5)).max() < 0.5
        assert numbers[place].tolist() == rows["contests"].tolist()
        for x, row in zip(line.get_xdata(), rows.itertuples(), strict=True):
            assert np.isclose(segments(ax), [[x, row.low], [x, row.high]]).all(axis=(1, 2)).any()
    assert labels_of(ax.get_xticklabels()) == ["< 0.02", "0.02–0.05", "0.05–0.1", "0.1–0.2", "≥ 0.2"]
    assert labels_of(ax.get_legend().get_texts()) == ["RCPnDCG@4", "nDCG@4"]
    assert [line.get_xdata()[0] for line in ax.lines if line.get_linestyle() == ":"] == [0.5]


@pytest.mark.filterwarnings("ignore:63 grades are of documents without a gain:rcp_irx.RCPWarning")
@pytest.mark.filterwarnings("ignore:21 contests left out:rcp_irx.RCPWarning")
def test_the_demo_collection_is_drawn() -> None:
    gains, runs, labels = demo.gains(), demo.runs(), demo.qrels()
    grades = labels.rename(columns={"label": "grade"})
    assert len(plots.criterion_curves(gains).lines) == 6
    assert labels_of(plots.raw_and_calibrated(gains).get_yticklabels()) == ["pool"]
    assert ": 102 grades in 20 bins" in plots.calibration(gains, grades).get_title()
    assert [label.split("\n")[0] for label in labels_of(plots.gain_by_grade(gains, grades).get_xticklabels())] == list(
        "0123"
    )
    assert plots.leaderboard(compare(runs, gains, labels)).get_title() == "10 queries"
    assert sum(int(text.get_text()) for text in plots.margins(runs, gains, grades, k=5).texts) <= 10


@pytest.mark.filterwarnings("ignore:.*contests left out:rcp_irx.RCPWarning")
@pytest.mark.filterwarnings("ignore:.*(has|that has) a gain:rcp_irx.RCPWarning")
def test_real_labels_are_drawn() -> None:
    gains, nist, runs = dl19.table(), dl19.nist(), dl19.paths()
    grades = nist.rename(columns={"label": "grade"})
    rows = nist.merge(gains.documents[["qid", "docno", "gain"]], on=["qid", "docno"])
    by_grade = plots.gain_by_grade(gains, grades)
    assert labels_of(by_grade.get_xticklabels()) == ["0\nn = 5,158", "1\nn = 1,601", "2\nn = 1,804", "3\nn = 697"]
    first = rows.groupby("label")["gain"].quantile(0.25).tolist()
    assert [bar.get_y() for bar in by_grade.containers[0]] == pytest.approx(first)
    dots = plots.calibration(gains, grades).collections[-1].get_offsets()
    above = rows[rows["gain"] >= 0.95]
    assert dots[-1].tolist() == pytest.approx([above["gain"].mean(), (above["label"] >= 2).mean()])
    texts = labels_of(plots.leaderboard(compare(runs, gains, nist)).child_axes[0].get_yticklabels())
    assert [text.split("  ")[1] for text in texts] == ["SPLADE", "REP_LLAMA", "TAS-B", "ada-2", "BM25_RM3", "BM25"]
    assert texts[0].endswith("up 1")
    ax = plots.margins(runs, gains, grades)
    share = ax.lines[-1].get_ydata()
    assert share[-1] > 0.9 > share[0]


def test_long_names_stay_in_the_figure() -> None:
    gains = toy.suite(queries=6, datasets=("d" * 45, "e" * 30))
    systems = {f"an-organisation/a-model-of-a-long-name-{'x' * 8 * i}": run
               for i, run in enumerate(toy.runs(gains).values())}  # fmt: skip
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)  # matplotlib's, of axes without room
        warnings.simplefilter("ignore", RCPWarning)
        board = plots.leaderboard(compare(systems, gains), against="CountnDCG")
        scores = plots.raw_and_calibrated(gains)
        for ax in (board, scores):
            ax.figure.canvas.draw()
            texts = [*ax.get_yticklabels(), *ax.get_legend().get_texts()]
            texts += [label for child in ax.child_axes for label in child.get_yticklabels()]
            for text in texts:
                box = text.get_window_extent()
                assert 0 <= box.x0 < box.x1 <= ax.figure.bbox.width, text.get_text()
            assert ax.get_window_extent().width > 150


def test_levels_that_lie_close_are_named_once() -> None:
    gains = toy.suite(queries=4)
    near = GainTable(
        gains.documents, gains.queries, gains.criteria.assign(beta=[-0.1, 0.0, 0.1][: len(gains.criteria)])
    )
    named = {text.get_text() for text in plots.raw_and_calibrated(near).texts}
    assert named == {"C1, C2"}
    assert {text.get_text() for text in plots.raw_and_calibrated(gains).texts} == {"C1", "C2"}


def test_the_curve_of_eq_4_is_not_called_another_tables_gain() -> None:
    gains = toy.suite(queries=4)
    labels = [text.get_text() for text in plots.criterion_curves(with_gain(gains, "logistic")).get_legend().get_texts()]
    assert "gain of Eq. 4, not this table's" in labels
    assert "gain g" in [text.get_text() for text in plots.criterion_curves(gains).get_legend().get_texts()]
