"""SimulatedJudge: answers from known abilities, with seeded noise; for tests and for studies of the method."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence

import numpy as np

from rcp_irx.documents import Document, Query
from rcp_irx.errors import RCPError
from rcp_irx.judging.judges.base import Judge, RubricAnswer, TournamentAnswer
from rcp_irx.judging.rubric import Rubric


class SimulatedJudge(Judge):
    """A judge whose answers follow Eq. 2, so that the truth is known.

    A document's score is (ability - offset) / scale + noise + position bias, cut to the prompt's range of -5 to 5;
    it passes criterion c with probability sigma(gamma_c (ability - beta_c)). With `offset` and `scale` of a query,
    the calibration should find tau = scale and alpha = offset (up to the window means that the scores do not keep).

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
        seed: int = 0,
    ):
        if len(gamma) != len(beta):
            raise RCPError(f"{len(gamma)} discriminations for {len(beta)} difficulties")
        self._abilities = dict(abilities)
        self._gamma, self._beta = np.asarray(gamma, dtype=float), np.asarray(beta, dtype=float)
        self._scales, self._offsets = dict(scales or {}), dict(offsets or {})
        self._noise, self._position_bias, self._seed = noise, position_bias, seed
        self.name = f"simulated:{self._digest()}"
        self.note = "made with a simulated judge"

    def _digest(self) -> str:
        settings = [
            sorted((list(key), value) for key, value in table.items())
            for table in (self._abilities, self._scales, self._offsets)
        ]
        rest = [self._gamma.tolist(), self._beta.tolist(), self._noise, self._position_bias, self._seed]
        return hashlib.sha256(json.dumps([settings, rest]).encode()).hexdigest()[:12]

    def tournament(self, query: Query, documents: Sequence[Document]) -> TournamentAnswer:
        """Scores in the order shown."""
        key = (query.dataset, query.id)
        scores = (self._ability(query, documents) - self._offsets.get(key, 0.0)) / self._scales.get(key, 1.0)
        scores += self._noise * self._generator("tournament", query, documents).standard_normal(len(documents))
        scores += self._position_bias * np.linspace(1.0, -1.0, len(documents))
        return TournamentAnswer(np.clip(scores, -5.0, 5.0).tolist())

    def rubric(self, query: Query, documents: Sequence[Document], rubric: Rubric) -> RubricAnswer:
        """Passes drawn from the true pass probabilities."""
        if len(rubric) != len(self._gamma):
            raise RCPError(f"the rubric has {len(rubric)} criteria, the simulated judge {len(self._gamma)}")
        ability = self._ability(query, documents)[:, None]
        p = 1.0 / (1.0 + np.exp(-self._gamma * (ability - self._beta)))
        return RubricAnswer((self._generator("rubric", query, documents).random(p.shape) < p).tolist())

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
