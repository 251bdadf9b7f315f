"""SimulatedJudge: answers from known abilities, with seeded noise; for tests and for studies of the method."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.special import expit

from rcp_irx.documents import Document, Query
from rcp_irx.errors import RCPError
from rcp_irx.judging.judges.base import Judge, RubricAnswer, TournamentAnswer
from rcp_irx.judging.rubric import Rubric


class SimulatedJudge(Judge):
    """A judge whose answers follow Eq. 2, so that the truth is known.

    A document's score is (ability - offset) / scale + noise + biases, cut to the prompt's range of -5 to 5; it passes
    criterion c with probability sigma(gamma_c (ability - beta_c)). With `offset` and `scale` of a query, the
    calibration should find tau = scale and alpha = offset (up to the window means that the scores do not keep).

    Parameters
    ----------
    abilities : mapping
        True abilities (logit) by (dataset, qid, docno).
    gamma, beta : sequence of float
        Discriminations and difficulties of the criteria.
    scales, offsets : mapping, optional
        By (dataset, qid); 1 and 0 where absent.
    noise : float
        Standard deviation of the noise of scores (logit).
    position_bias : float
        Added to the first document's score, falling linearly to its negative at the last (logit).
    length_bias : float
        Added to the score for each doubling of a text's characters, from the mean of the window's log2 lengths (logit).
    criterion_noise : float or sequence of float
        The chance that an answer to a criterion is turned round, for all criteria or for each.
    seed : int
        Noise depends on it and on the window's documents in the order shown, so a window always gets the same answer.
    """

    def __init__(
        self,
        abilities: Mapping[tuple[str, str, str], float],
        gamma: Sequence[float],
        beta: Sequence[float],
        *,
        scales: Mapping[tuple[str, str], float] | None = None,
        offsets: Mapping[tuple[str, str], float] | None = None,
        noise: float = 0.5,
        position_bias: float = 0.0,
        length_bias: float = 0.0,
        criterion_noise: float | Sequence[float] = 0.0,
        seed: int = 0,
    ):
        if len(gamma) != len(beta):
            raise RCPError(f"{len(gamma)} discriminations for {len(beta)} difficulties")
        self._abilities = dict(abilities)
        self._gamma, self._beta = np.asarray(gamma, dtype=float), np.asarray(beta, dtype=float)
        self._scales, self._offsets = dict(scales or {}), dict(offsets or {})
        self._noise, self._position_bias, self._seed = noise, position_bias, seed
        self._length_bias, self._criterion_noise = length_bias, _chances(criterion_noise, len(gamma))
        self.name = f"simulated:{self._digest()}"
        self.note = "made with a simulated judge"

    def _digest(self) -> str:
        settings = [
            sorted((list(key), value) for key, value in table.items())
            for table in (self._abilities, self._scales, self._offsets)
        ]
        rest = [self._gamma.tolist(), self._beta.tolist(), self._noise, self._position_bias, self._seed]
        rest += [self._length_bias, self._criterion_noise.tolist()]
        return hashlib.sha256(json.dumps([settings, rest]).encode()).hexdigest()[:12]

    def tournament(self, query: Query, documents: Sequence[Document]) -> TournamentAnswer:
        """Scores in the order shown."""
        key = (query.dataset, query.id)
        scores = (self._ability(query, documents) - self._offsets.get(key, 0.0)) / self._scales.get(key, 1.0)
        scores += self._noise * self._generator("tournament", query, documents).standard_normal(len(documents))
        scores += self._position_bias * np.linspace(1.0, -1.0, len(documents))
        doublings = np.log2([max(1, len(document.text)) for document in documents])
        scores += self._length_bias * (doublings - doublings.mean())
        return TournamentAnswer(np.clip(scores, -5.0, 5.0).tolist())

    def rubric(self, query: Query, documents: Sequence[Document], rubric: Rubric) -> RubricAnswer:
        """Passes drawn from the true pass probabilities, some of them turned round."""
        if len(rubric) != len(self._gamma):
            raise RCPError(f"the rubric has {len(rubric)} criteria, the simulated judge {len(self._gamma)}")
        ability = self._ability(query, documents)[:, None]
        p = expit(self._gamma * (ability - self._beta))
        generator = self._generator("rubric", query, documents)
        passes = generator.random(p.shape) < p
        turned = generator.random(p.shape) < self._criterion_noise
        return RubricAnswer((passes ^ turned).tolist())

    def _refuse_equal_texts(self, query: Query, documents: Sequence[Document]) -> None:
        """Answers are found again by text, so documents of known ability must differ in it."""
        if len({document.text for document in documents}) < len(documents):
            raise RCPError(
                f"{query}: a simulated judge needs documents whose texts differ (their ids would do as texts)"
            )

    def _ability(self, query: Query, documents: Sequence[Document]) -> np.ndarray:
        self._refuse_equal_texts(query, documents)
        try:
            return np.array([self._abilities[query.dataset, query.id, document.id] for document in documents])
        except KeyError as error:
            raise RCPError(f"{query}: no ability is known for {error}") from None

    def _generator(self, stage: str, query: Query, documents: Sequence[Document]) -> np.random.Generator:
        window = json.dumps([self._seed, stage, query.dataset, query.id, [document.id for document in documents]])
        return np.random.default_rng(int.from_bytes(hashlib.sha256(window.encode()).digest()[:8], "big"))


def _chances(given: float | Sequence[float], n_criteria: int) -> np.ndarray:
    """One chance for each criterion."""
    chances = np.asarray(given, dtype=float)
    if chances.ndim and chances.shape != (n_criteria,):
        raise RCPError(f"criterion_noise has {chances.size} values for {n_criteria} criteria; give one, or one each")
    if not ((chances >= 0) & (chances <= 1)).all():
        raise RCPError(f"criterion_noise is a chance from 0 to 1, not {given!r}")
    return np.broadcast_to(chances, (n_criteria,))
