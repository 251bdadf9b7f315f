"""`compare_labels`: two judges' gains side by side, where they agree, and what depends on the judge (G.4).

Neither is the truth here; agreement with people is for `agreement`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import pandas as pd
from scipy.stats import rankdata

from rcp_irx.analysis import repeats
from rcp_irx.analysis.jackknife import jackknife
from rcp_irx.analysis.results import Results, Runs, read_runs, score_runs
from rcp_irx.analysis.screen import screen, table
from rcp_irx.analysis.significance import LEVEL, differences_of, kendall_tau, paired_t, pairs_of, ranks
from rcp_irx.errors import RCPError, counted, examples, whole
from rcp_irx.evaluation.coverage import LARGEST_DIFFERENCE, LEAST_COVERAGE
from rcp_irx.gains import GainTable
from rcp_irx.tables import KEYS

MEASURE = "RCPnDCG"
SUITE = "(all datasets)"
"""The name of the rows over all datasets, where there are several."""

VERDICTS = ("both", "conflict", "only a", "only b", "neither")
"""What two judges say of a pair of systems: both separate it alike, or oppositely; one does; none does."""


@dataclass(frozen=True, eq=False, repr=False)
class LabelComparison:
    """Two judges' labels of the same pools.

    Attributes
    ----------
    names : (str, str)
        The tables, as judge a and judge b.
    k : int
        The measure is RCP-nDCG@k.
    documents : DataFrame
        One row per dataset, and one over all where there are several: `queries, documents` (that both judged),
        `ability` (Spearman's correlation of the abilities, queries pooled), `order` (the same within a query, mean over
        queries), `top` (share of judge a's best k documents that are among judge b's, expected where ties at the cut
        are broken at random), each with its `_se` (delete-one-query jackknife).
    leaderboard : DataFrame
        One row per dataset and system: `queries, mean_a, rank_a, mean_b, rank_b, coverage_a, coverage_b`. Levels of
        different fits mean nothing beside each other; ranks do. Over all datasets: means of dataset means.
    systems : DataFrame
        One row per dataset: `systems, spearman, kendall` of the two leaderboards; `pairs`, those that `a` and `b`
        separate, and how many of each verdict: `both, conflict, only_a, only_b, neither`. Over all datasets the
        correlations are of the suite's means, the counts are sums.
    pairs : DataFrame
        One row per dataset and pair of systems: `system_1, system_2, queries, difference_a, p_a, difference_b, p_b,
        verdict` (one of `VERDICTS`).
    disagreements : DataFrame
        The document pairs of one query that the judges order oppositely with the largest gaps (in both):
        `dataset, qid, docno_1, docno_2, gap_a` (ability of 1 less that of 2, logits), `gap_b, gap` (the smaller size).
        A document stands in one pair at most.
    warnings : list of str
    """

    names: tuple[str, str]
    k: int
    documents: pd.DataFrame
    leaderboard: pd.DataFrame
    systems: pd.DataFrame
    pairs: pd.DataFrame
    disagreements: pd.DataFrame
    warnings: list[str] = field(default_factory=list)

    @property
    def conflicts(self) -> pd.DataFrame:
        """The pairs of systems that the judges separate oppositely."""
        return self.pairs[self.pairs["verdict"] == "conflict"].reset_index(drop=True)

    @property
    def decided(self) -> pd.DataFrame:
        """The pairs of systems that both judges separate, alike."""
        return self.pairs[self.pairs["verdict"] == "both"].reset_index(drop=True)

    def __str__(self) -> str:
        several = self.leaderboard["dataset"].nunique() > 1
        frames = [self.documents, self.leaderboard, self.systems]
        if several:
            frames = [frame[frame["dataset"] == SUITE] for frame in frames]
        lines = [f"a = {self.names[0]}", f"b = {self.names[1]}", f"RCP-nDCG@{self.k}; neither judge is the truth"]
        for frame in frames:
            empty = [column for column in frame.columns if frame[column].isna().all()]
            lines.append("\n" + table(frame.drop(columns=["dataset", *empty]), rows=20))
        return screen(lines[0], lines[1:], self.warnings)

    __repr__ = __str__


def compare_labels(
    a: GainTable, b: GainTable, runs: Runs, *, k: int = 10, ties: str | None = None, disagreements: int = 20
) -> LabelComparison:
    """Compare two judges' gains: their abilities and orders, their leaderboards, the pairs of systems they separate.

    Parameters
    ----------
    a, b : GainTable
        Two judges' tables of the same pools; what only one holds is left out, and what only one excludes is excluded
        from both, with a warning in the result.
    runs : mapping of str to DataFrame or path
        The systems to score.
    k : int
        Cutoff of RCP-nDCG, and of the best documents compared.
    ties : str, optional
        As in `evaluation.ndcg`.
    disagreements : int
        How many document pairs to list.

    Raises
    ------
    RCPError
        If the tables share no document, or none that neither excludes; unreadable runs.

    Notes
    -----
    A pair is separated where the paired t-test has p < .05 (B.2), not corrected for the number of pairs. Two judges
    that agree may share a preference: agreement is no validity. Without abilities (not released) gains take their
    place.
    """
    for given in (a, b):
        if not isinstance(given, GainTable):
            raise RCPError(f"compare_labels takes two GainTables, not {type(given).__name__}")
    whole("disagreements", disagreements, 0)
    notes = _same_origin(a, b)
    a, b = _alike_excluded(a, b, notes)
    both = _joined(a, b, notes)
    frames = read_runs(runs)
    queries = pd.MultiIndex.from_frame(both[KEYS[:2]].drop_duplicates())
    one, other = (_on(score_runs(frames, gains, k=k, ties=ties), queries) for gains in (a, b))
    notes += _coverage_notes(one, other)
    board, pairs = _leaderboards(one, other), _pairs(one, other)
    found = LabelComparison(
        (str(a.metadata.get("judge") or a.label), str(b.metadata.get("judge") or b.label)),
        k,
        _documents(both, k),
        board,
        _systems(board, pairs),
        pairs,
        _disagreements(both, disagreements),
        notes,
    )
    if len(found.conflicts):
        pairs_named = examples(found.conflicts[["dataset", "system_1", "system_2"]].itertuples(index=False, name=None))
        notes.append(f"the judges separate these systems oppositely, so which is better depends on them: {pairs_named}")
    return found


def _same_origin(a: GainTable, b: GainTable) -> list[str]:
    if a.fit_id == b.fit_id:
        return [f"both tables come from one fit ({a.fit_id}): their abilities agree by construction"]
    judges = a.metadata.get("judge"), b.metadata.get("judge")
    if judges[0] and judges[0] == judges[1]:
        return [f"both tables are of one judge ({judges[0]!r}): this is its agreement with itself"]
    return []


def _alike_excluded(a: GainTable, b: GainTable, notes: list[str]) -> tuple[GainTable, GainTable]:
    """Both tables without what either excludes."""
    lists = [gains.scored.loc[gains.scored["excluded"], KEYS] for gains in (a, b)]
    found = []
    for name, gains, own, others in (("a", a, *lists), ("b", b, *lists[::-1])):
        new = others.merge(own, on=KEYS, how="left", indicator=True)
        new = new.loc[new["_merge"] == "left_only", KEYS]
        new = new.merge(gains.queries[KEYS[:2]], on=KEYS[:2])
        if len(new):
            documents = examples(new.itertuples(index=False, name=None))
            number = counted(len(new), "document is", "documents are")
            notes.append(f"{number} excluded from the other table, and now from {name} too: {documents}")
            gains = gains.exclude(new)
        found.append(gains)
    return found[0], found[1]


def _joined(a: GainTable, b: GainTable, notes: list[str]) -> pd.DataFrame:
    """The documents that both tables hold and neither excludes: keys, `query` (code), `a` and `b` (ability)."""
    left, right = a.documents, b.documents
    what = "gain" if left["theta"].isna().all() or right["theta"].isna().all() else "theta"
    if what == "gain":
        notes.append("abilities were not released: gains take their place, which tie where they saturate")
    columns = [*KEYS, what, "excluded"]
    every = left[columns].merge(right[columns], on=KEYS, how="outer", suffixes=("_a", "_b"), indicator=True)
    both = every[every["_merge"] == "both"]
    if both.empty:
        held = [examples(rows[KEYS].head(3).itertuples(index=False, name=None)) for rows in (left, right)]
        raise RCPError(f"the tables share no document (dataset, qid, docno): a holds {held[0]}, b holds {held[1]}")
    for side, name in [("left_only", "a"), ("right_only", "b")]:
        alone = every[every["_merge"] == side]
        if len(alone):
            found = examples(alone[KEYS].itertuples(index=False, name=None))
            notes.append(f"only {name} holds {counted(len(alone), 'document')}, not compared: {found}")
    held = pd.MultiIndex.from_frame(both[KEYS[:2]]).unique()
    both = both[~(both["excluded_a"].astype(bool) | both["excluded_b"].astype(bool))]
    gone = held.difference(pd.MultiIndex.from_frame(both[KEYS[:2]]))
    if len(gone):
        number = counted(len(gone), "query has", "queries have")
        notes.append(f"{number} no document left, all are excluded, and not compared: {examples(gone)}")
    if both.empty:
        raise RCPError("every document that both tables hold is excluded from one of them")
    both = both.rename(columns={f"{what}_a": "a", f"{what}_b": "b"})[[*KEYS, "a", "b"]].sort_values(KEYS)
    return both.assign(query=pd.factorize(pd.MultiIndex.from_frame(both[KEYS[:2]]))[0]).reset_index(drop=True)


def _on(results: Results, queries: pd.MultiIndex) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Scores and coverage on the queries that both tables hold."""
    chosen = results.scores[MEASURE].index.isin(queries)
    return results.scores[MEASURE][chosen], results.coverage[chosen]


def _by_dataset(frame: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The rows of each dataset of a frame with the index (dataset, qid)."""
    names = frame.index.get_level_values("dataset")
    for name in dict.fromkeys(names):
        yield str(name), frame[names == name]


def _documents(both: pd.DataFrame, k: int) -> pd.DataFrame:
    """How the judges' abilities and orders agree, by dataset and over all."""
    groups: list[tuple[str, pd.DataFrame]] = [(str(name), rows) for name, rows in both.groupby("dataset", sort=False)]
    if len(groups) > 1:
        groups.append((SUITE, both))
    return pd.DataFrame([{"dataset": name, **_agreement(rows, k)} for name, rows in groups])


def _agreement(rows: pd.DataFrame, k: int) -> dict[str, float]:
    codes, queries = pd.factorize(rows["query"])
    a, b = rows["a"].to_numpy(), rows["b"].to_numpy()
    centre = (len(rows) + 1) / 2.0
    pooled, within, top = (np.zeros((len(queries), width)) for width in (6, 2, 2))
    np.add.at(pooled, codes, repeats.correlation_sums(rankdata(a) - centre, rankdata(b) - centre))
    for code, places in enumerate(_places(codes)):
        r = repeats.spearman(a[places], b[places])
        within[code] = (0.0, 0.0) if np.isnan(r) else (r, 1.0)
        chances = [_chance_of_top(values[places], k) for values in (a, b)]
        top[code] = chances[0] @ chances[1] / min(k, len(places)), 1.0
    found: dict[str, float] = {"queries": len(queries), "documents": len(rows)}
    for name, totals, statistic in [
        ("ability", pooled, lambda sums: repeats.correlation(sums)[..., None]),
        ("order", within, lambda sums: sums[..., :1] / sums[..., 1:]),
        ("top", top, lambda sums: sums[..., :1] / sums[..., 1:]),
    ]:
        estimate = jackknife(totals, statistic)
        found |= {name: float(estimate.value[0]), f"{name}_se": float(estimate.se[0])}
    return found


def _chance_of_top(values: np.ndarray, k: int) -> np.ndarray:
    """Each document's chance to be among the k largest values when ties are broken at random, (D,)."""
    place = rankdata(-values, method="min")
    size = np.array([np.sum(values == value) for value in values])
    chance: np.ndarray = np.clip((k + 1 - place) / size, 0.0, 1.0)
    return chance


def _places(codes: np.ndarray) -> list[np.ndarray]:
    """The rows of each query."""
    order = np.argsort(codes, kind="stable")
    return np.split(order, np.cumsum(np.bincount(codes))[:-1])


def _leaderboards(one: tuple[pd.DataFrame, pd.DataFrame], other: tuple[pd.DataFrame, pd.DataFrame]) -> pd.DataFrame:
    """Both judges' means and ranks of every system, by dataset and over all."""
    boards = []
    for (name, a), (_, b), (_, cover_a), (_, cover_b) in zip(
        *(_by_dataset(frame) for frame in (one[0], other[0], one[1], other[1])), strict=True
    ):
        boards.append(_board(name, len(a), a.mean(), b.mean(), cover_a.mean(), cover_b.mean()))
    if len(boards) > 1:
        suite = pd.concat(boards).groupby("system", sort=False)
        mean = suite[["mean_a", "mean_b", "coverage_a", "coverage_b"]].mean()
        boards.append(_board(SUITE, len(one[0]), *(mean[column] for column in mean)))
    return pd.concat(boards, ignore_index=True)


def _board(
    name: str, queries: int, a: pd.Series, b: pd.Series, coverage_a: pd.Series, coverage_b: pd.Series
) -> pd.DataFrame:
    frame = pd.DataFrame(
        {
            "dataset": name,
            "system": a.index,
            "queries": queries,
            "mean_a": a.to_numpy(),
            "rank_a": ranks(a),
            "mean_b": b.to_numpy(),
            "rank_b": ranks(b),
            "coverage_a": coverage_a.to_numpy(),
            "coverage_b": coverage_b.to_numpy(),
        }
    )
    return frame.sort_values("rank_a", kind="stable")


def _pairs(one: tuple[pd.DataFrame, pd.DataFrame], other: tuple[pd.DataFrame, pd.DataFrame]) -> pd.DataFrame:
    """What each judge says of every pair of systems of every dataset."""
    found = []
    systems = np.array(list(one[0].columns), dtype=object)
    first, second = pairs_of(len(systems))
    for (name, a), (_, b) in zip(_by_dataset(one[0]), _by_dataset(other[0]), strict=True):
        of_a, of_b = (paired_t(differences_of(scores)) for scores in (a, b))
        decides_a, decides_b = of_a.p < LEVEL, of_b.p < LEVEL
        alike = np.sign(of_a.mean) == np.sign(of_b.mean)
        verdict = np.select(
            [decides_a & decides_b & alike, decides_a & decides_b, decides_a, decides_b], VERDICTS[:4], VERDICTS[4]
        )
        found.append(
            pd.DataFrame(
                {
                    "dataset": name,
                    "system_1": systems[first],
                    "system_2": systems[second],
                    "queries": len(a),
                    "difference_a": of_a.mean,
                    "p_a": of_a.p,
                    "difference_b": of_b.mean,
                    "p_b": of_b.p,
                    "verdict": verdict,
                }
            )
        )
    return pd.concat(found, ignore_index=True)


def _systems(board: pd.DataFrame, pairs: pd.DataFrame) -> pd.DataFrame:
    """How the two leaderboards agree, by dataset and over all."""
    rows = []
    for name in dict.fromkeys(board["dataset"]):
        means = board[board["dataset"] == name]
        verdicts = (pairs if name == SUITE else pairs[pairs["dataset"] == name])["verdict"]
        counts = {verdict.replace(" ", "_"): int((verdicts == verdict).sum()) for verdict in VERDICTS}
        decided = counts["both"] + counts["conflict"]
        rows.append(
            {
                "dataset": name,
                "systems": len(means),
                "spearman": repeats.spearman(means["mean_a"].round(9), means["mean_b"].round(9)),
                "kendall": kendall_tau(means["mean_a"], means["mean_b"]),
                "pairs": len(verdicts),
                "a": decided + counts["only_a"],
                "b": decided + counts["only_b"],
                **counts,
            }
        )
    return pd.DataFrame(rows)


def _disagreements(both: pd.DataFrame, number: int) -> pd.DataFrame:
    """The document pairs that the judges order oppositely, those with the largest smaller gap first."""
    a, b = both["a"].to_numpy(), both["b"].to_numpy()
    found: list[tuple[float, int, int]] = []
    for places in _places(both["query"].to_numpy()):
        i, j = np.triu_indices(len(places), k=1)
        i, j = places[i], places[j]
        i, j = np.where(a[i] < a[j], j, i), np.where(a[i] < a[j], i, j)
        gap = np.minimum(a[i] - a[j], b[j] - b[i])
        taken: set[int] = set()
        for pair in np.argsort(-gap, kind="stable"):
            if not gap[pair] > 0 or len(taken) >= 2 * number:
                break
            ends = {int(i[pair]), int(j[pair])}
            if not ends & taken:
                taken |= ends
                found.append((-float(gap[pair]), int(i[pair]), int(j[pair])))
    found = sorted(found)[:number]
    first, second = [one for _, one, _ in found], [two for _, _, two in found]
    frame = both.iloc[first][KEYS].rename(columns={"docno": "docno_1"}).reset_index(drop=True)
    frame["docno_2"] = both["docno"].iloc[second].to_numpy()
    return frame.assign(gap_a=a[first] - a[second], gap_b=b[first] - b[second], gap=[-size for size, _, _ in found])


def _coverage_notes(one: tuple[pd.DataFrame, pd.DataFrame], other: tuple[pd.DataFrame, pd.DataFrame]) -> list[str]:
    """Where the judges' pools hold little of the systems' first documents, or not alike."""
    a, b = one[1].mean(), other[1].mean()
    notes = []
    least, apart = pd.concat([a, b], axis=1).min(axis=1), (a - b).abs()
    if (least < LEAST_COVERAGE).any():
        system = str(least.idxmin())
        notes.append(
            f"{least[system]:.1%} of the first documents of {system!r} have a gain of both judges at most; one without"
            " counts 0"
        )
    if (apart > LARGEST_DIFFERENCE).any():
        system = str(apart.idxmax())
        notes.append(
            f"of the first documents of {system!r} {a[system]:.1%} have a gain of a, {b[system]:.1%} one of b: the"
            " leaderboards differ by that too"
        )
    return notes
