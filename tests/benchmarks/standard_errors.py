"""Standard errors against the spread of repeated judge draws, and a window bootstrap, over the whole path.

`python -m tests.benchmarks.standard_errors [draws]`; half an hour for 60 draws on an idle machine. The bar: mean
standard error to true SD from .85 to 1.15. Half of FULL lies beyond the bar's protocols: it shows where few windows a
document and a noisy judge lead. Windows that earlier answers chose carry the errors of these on, which no estimate
from the windows as given can see; the window bootstrap does not see it either.
"""

from __future__ import annotations

import sys
import time
import warnings
from typing import NamedTuple

import numpy as np

from rcp_irx import FULL, REDUCED, Document, JudgmentLog, Query, Rubric, SimulatedJudge
from rcp_irx.calibration.bradley_terry import add_up_preferences
from rcp_irx.documents import Pool
from rcp_irx.judging.calibrate import JudgedPool, calibrate, stage_scores
from rcp_irx.judging.protocol import Protocol
from rcp_irx.judging.runner import PoolRunner

GAMMA, BETA = [1.17, 1.05, 0.94, 1.16, 0.69], [-2.57, -2.0, -0.25, 0.71, 4.12]  # Table 1
COLUMNS = ["bt", "theta", "gain"]
LOW, HIGH = 0.85, 1.15


class Draws(NamedTuple):
    """Estimates and standard errors of every document, by column: (draws, documents). And the first draw's log."""

    estimates: dict[str, np.ndarray]
    errors: dict[str, np.ndarray]
    judged: list[JudgedPool]

    def ratio(self, column: str) -> float:
        """The mean standard error to the mean true SD."""
        return float(self.errors[column].mean() / self.spread(column))

    def spread(self, column: str) -> float:
        """The mean over documents of the SD over draws."""
        return float(self.estimates[column].std(axis=0, ddof=1).mean())


def world(queries: int, documents: int, seed: int = 7) -> tuple[list[Pool], dict, dict, dict]:
    """Pools and their truth: scales spread threefold, offsets of SD 1.5, scores of SD 1.5."""
    random = np.random.default_rng(seed)
    pools = [
        Pool(Query(f"q{j:03d}", "why"), tuple(Document(f"d{i:03d}", f"{j} {i}") for i in range(documents)))
        for j in range(queries)
    ]
    keys = [("", pool.query.id) for pool in pools]
    scales = dict(zip(keys, random.permutation(np.geomspace(0.8, 2.4, queries)).tolist(), strict=True))
    offsets = dict(zip(keys, random.normal(0, 1.5, queries).tolist(), strict=True))
    abilities = {
        (*key, document.id): offsets[key] + scales[key] * float(random.normal(0, 1.5))
        for key, pool in zip(keys, pools, strict=True)
        for document in pool.documents
    }
    return pools, abilities, scales, offsets


def repeated(noise: float, protocol: Protocol, queries: int, documents: int, draws: int, **judge: float) -> Draws:
    """The same truth judged again and again, with other noise: each draw through its log to its gain table."""
    pools, abilities, scales, offsets = world(queries, documents)
    estimates, errors, first = {c: [] for c in COLUMNS}, {c: [] for c in COLUMNS}, []
    for seed in range(draws):
        simulated = SimulatedJudge(
            abilities, GAMMA, BETA, scales=scales, offsets=offsets, noise=noise, seed=seed, **judge
        )
        log = JudgmentLog()
        for pool in pools:
            PoolRunner(pool, simulated, Rubric.load(), protocol, log).run()
        table = log.calibrate().documents
        first = first or log.judged()
        for column in COLUMNS:
            estimates[column].append(table[column].to_numpy())
            errors[column].append(table[f"{column}_se"].to_numpy())
    return Draws({c: np.array(v) for c, v in estimates.items()}, {c: np.array(v) for c, v in errors.items()}, first)


def inverse_hessian_errors(judged: JudgedPool) -> np.ndarray:
    """Stage A's standard errors as if each pair were the toss of a coin: what the sandwich replaces."""
    theta, windows, scores = stage_scores(judged, len(GAMMA)).tournament
    first, second, weight, _ = add_up_preferences(windows, scores, theta.size, (), 0.01)
    chance = 1 / (1 + np.exp(theta[second] - theta[first]))
    hessian = np.zeros((theta.size, theta.size))
    hessian[first, second] = hessian[second, first] = -weight * chance * (1 - chance)
    np.fill_diagonal(hessian, 1e-4 * weight.sum() - hessian.sum(axis=1))
    centre = np.eye(theta.size) - 1 / theta.size
    return np.sqrt(np.diag(centre @ np.linalg.inv(hessian) @ centre))


def bootstrap(judged: list[JudgedPool], draws: int, seed: int = 42) -> dict[str, np.ndarray]:
    """SDs over resampled logs: tournament windows with their reversals, and rubric windows, each with replacement."""
    random, tables = np.random.default_rng(seed), []
    for _ in range(draws):
        tables.append(calibrate([_resampled(pool, random) for pool in judged], Rubric.load()).documents)
    return {c: np.std([table[c] for table in tables], axis=0, ddof=1) for c in COLUMNS}


def _resampled(judged: JudgedPool, random: np.random.Generator) -> JudgedPool:
    """One resample in which each document has a tournament window."""
    clusters: dict[tuple[str, ...], list] = {}
    for window in judged.tournament:
        clusters.setdefault(min(window[0], window[0][::-1]), []).append(window)
    groups, shown = list(clusters.values()), set()
    while len(shown) < len(judged.pool.documents):
        tournament = [window for i in random.integers(len(groups), size=len(groups)) for window in groups[i]]
        shown = {docno for window, _ in tournament for docno in window}
    rubric = [judged.rubric[i] for i in random.integers(len(judged.rubric), size=len(judged.rubric))]
    return JudgedPool(judged.pool, tournament, rubric, judged.planned)


def report(name: str, noise: float, protocol: Protocol, queries: int, documents: int, draws: int, **judge) -> None:
    """One row of the table."""
    start = time.perf_counter()
    found = repeated(noise, protocol, queries, documents, draws, **judge)
    ratios = [found.ratio(column) for column in COLUMNS]
    hessian = np.concatenate([inverse_hessian_errors(judged) for judged in found.judged]).mean() / found.spread("bt")
    resampled = bootstrap(found.judged, draws)
    against = [found.errors[column][0].mean() / resampled[column].mean() for column in COLUMNS]
    held = "held" if all(LOW <= ratio <= HIGH for ratio in ratios) else "missed"
    print(
        f"{name:26} {noise:4.1f} {queries:3} x {documents:3} |"
        + "".join(f" {ratio:5.2f}" for ratio in ratios)
        + f" {held:6} |"
        + "".join(f" {ratio:5.2f}" for ratio in against)
        + f" | {hessian:5.2f} | {time.perf_counter() - start:4.0f} s",
        flush=True,
    )


def main() -> None:
    """Print the table; a busy machine changes nothing but the last column."""
    warnings.simplefilter("ignore")
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 60
    print(
        "protocol                  noise  pools    |  bt  theta  gain  bar    | against bootstrap | inverse Hessian bt"
    )
    for name, protocol in [("FULL", FULL), ("REDUCED", REDUCED), ("half of FULL", FULL.scaled("0.5"))]:
        for noise in (0.3, 1.0, 2.0):
            report(name, noise, protocol, 10, 60, draws)
    for queries, documents in [(20, 5), (10, 10), (10, 20), (2, 20), (3, 150)]:
        report("FULL", 1.0, FULL, queries, documents, draws)
    report("FULL, position bias 1", 0.5, FULL, 10, 60, draws, position_bias=1.0)


if __name__ == "__main__":
    main()
