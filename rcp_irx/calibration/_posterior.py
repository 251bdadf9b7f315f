"""Eq. 7, the calibration's negative log posterior: value, gradient and exact Hessian; its mode is found in `two_pl`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from rcp_irx.calibration._numeric import (
    FloatArray,
    IntArray,
    checked_codes,
    checked_counts,
    checked_numbers,
    checked_positive,
)
from rcp_irx.errors import RCPError


class Parameters(NamedTuple):
    """Eq. 7's parameters, free (t, alpha, u, v) and in the model's terms."""

    t: FloatArray
    alpha: FloatArray
    u: FloatArray
    v: FloatArray
    tau: FloatArray
    gamma: FloatArray
    beta: FloatArray


class Blocks(NamedTuple):
    """The Hessian of the negative log posterior: queries (J, 2, 2), queries by criteria (J, 2, 2C), criteria (2C, 2C).

    `query_scale` (J, 2) and `criterion_scale` (2C,) are the diagonal's parts that cannot be negative: units to damp in.
    """

    query: FloatArray
    cross: FloatArray
    criterion: FloatArray
    query_scale: FloatArray
    criterion_scale: FloatArray


class Point(NamedTuple):
    """The posterior at one point."""

    objective: float
    gradient: FloatArray
    hessian: Callable[[], Blocks]

    @property
    def norm(self) -> float:
        """Largest entry of the gradient."""
        return float(np.abs(self.gradient).max())


@dataclass(frozen=True, eq=False)
class Posterior:
    """Eq. 7 as a function of one vector (t, alpha, u, v), or (t, alpha) where the criteria are frozen.

    Documents are sorted by query; `starts` (J,) says where each query begins. Counts have shape (C, D).
    """

    bt: FloatArray
    passes: FloatArray
    placements: FloatArray
    starts: IntArray
    sigma_tau: float
    sigma_alpha: float
    ridge: float
    frozen: tuple[FloatArray, FloatArray] | None = None

    @cached_property
    def answers(self) -> float:
        """Eq. 7's N C."""
        return float(self.placements.sum())

    def start(self) -> FloatArray:
        """tau = 1, alpha = 0, equal criteria (Section C.3)."""
        queries, criteria = len(self.starts), 0 if self.frozen else len(self.passes)
        return np.concatenate([np.full(queries, np.log(np.expm1(1.0))), np.zeros(queries + 2 * criteria)])

    def unpack(self, parameters: FloatArray) -> Parameters:
        queries = len(self.starts)
        t, alpha, rest = parameters[:queries], parameters[queries : 2 * queries], parameters[2 * queries :]
        u, v = rest[: rest.size // 2], rest[rest.size // 2 :]
        if self.frozen:
            gamma, beta = self.frozen
        else:
            exponential = np.exp(u - u.max())
            gamma, beta = u.size * exponential / exponential.sum(), v - v.mean()
        return Parameters(t, alpha, u, v, np.logaddexp(0.0, t), gamma, beta)

    def evaluate(self, parameters: FloatArray) -> Point:
        """Eq. 7, its gradient, and its exact Hessian times N C, which is computed only when called for."""
        at = self.unpack(parameters)
        loss, chance, rest0, rest1 = self._pass_over_documents(at)
        prior = np.sum((at.tau - 1) ** 2) / (2 * self.sigma_tau**2) + np.sum(at.alpha**2) / (2 * self.sigma_alpha**2)
        objective = (loss + prior) / self.answers + self.ridge / 2 * (np.sum(at.u**2) + np.sum(at.v**2))

        by_tau = at.gamma @ rest1 + (at.tau - 1) / self.sigma_tau**2
        by_alpha = at.gamma @ rest0 + at.alpha / self.sigma_alpha**2
        gradient = [by_tau * expit(at.t), by_alpha]
        by_gamma = (at.tau * rest1 + (at.alpha - at.beta[:, None]) * rest0).sum(axis=1)
        if not self.frozen:
            by_beta = -at.gamma * rest0.sum(axis=1)
            weighted = by_gamma * at.gamma
            gradient.append(weighted - at.gamma * weighted.mean() + self.answers * self.ridge * at.u)
            gradient.append(by_beta - by_beta.mean() + self.answers * self.ridge * at.v)

        def hessian() -> Blocks:
            return self._hessian(at, chance, rest0, rest1, by_tau, by_gamma)

        return Point(float(objective), np.concatenate(gradient) / self.answers, hessian)

    def objective_and_gradient(self, parameters: FloatArray) -> tuple[float, FloatArray]:
        """Eq. 7 and its gradient, as scipy's optimisers take them."""
        here = self.evaluate(parameters)
        return here.objective, here.gradient

    def _hessian(
        self,
        at: Parameters,
        chance: FloatArray,
        rest0: FloatArray,
        rest1: FloatArray,
        by_tau: FloatArray,
        by_gamma: FloatArray,
    ) -> Blocks:
        tau, gap = at.tau, at.alpha - at.beta[:, None]
        weight0, weight1, weight2 = self._weight_moments(chance)
        slope, bend = expit(at.t), expit(at.t) * expit(-at.t)

        squared = at.gamma[:, None] ** 2
        tau_tau = (squared * weight2).sum(axis=0) + self.sigma_tau**-2
        tau_alpha = (squared * weight1).sum(axis=0)
        alpha_alpha = (squared * weight0).sum(axis=0) + self.sigma_alpha**-2
        query_scale = np.stack([tau_tau * slope**2, alpha_alpha], axis=1)
        corner = query_scale[:, 0] + by_tau * bend
        side = tau_alpha * slope
        query = np.stack([np.stack([corner, side], axis=1), np.stack([side, alpha_alpha], axis=1)], axis=1)
        if self.frozen:
            return Blocks(query, np.zeros((len(tau), 2, 0)), np.zeros((0, 0)), query_scale, np.zeros(0))

        # Sums over documents of w (theta - beta) x^k and w (theta - beta)^2 follow from the moments of w.
        far0, far1 = tau * weight1 + gap * weight0, tau * weight2 + gap * weight1
        gamma_tau = at.gamma[:, None] * far1 + rest1
        gamma_alpha = at.gamma[:, None] * far0 + rest0
        gamma_gamma = (tau * far1 + gap * far0).sum(axis=1)
        gamma_beta = -(at.gamma[:, None] * far0 + rest0).sum(axis=1)
        beta_beta = (squared * weight0).sum(axis=1)
        to_gamma, to_beta = softmax_jacobian(at.gamma), centring_jacobian(at.gamma.size)
        cross = np.stack(
            [
                np.hstack([gamma_tau.T @ to_gamma, -(squared * weight1).T @ to_beta]) * slope[:, None],
                np.hstack([gamma_alpha.T @ to_gamma, -(squared * weight0).T @ to_beta]),
            ],
            axis=1,
        )
        ridge = self.answers * self.ridge * np.eye(at.u.size)
        uu_positive = to_gamma.T @ (gamma_gamma[:, None] * to_gamma) + ridge
        uv = to_gamma.T @ (gamma_beta[:, None] * to_beta)
        vv = to_beta.T @ (beta_beta[:, None] * to_beta) + ridge
        criterion = np.block([[uu_positive + _softmax_bend(at.gamma, by_gamma), uv], [uv.T, vv]])
        return Blocks(query, cross, criterion, query_scale, np.concatenate([np.diag(uu_positive), np.diag(vv)]))

    def _pass_over_documents(self, at: Parameters) -> tuple[float, FloatArray, FloatArray, FloatArray]:
        """The cross-entropy, pass probabilities (C, D), and each query's sums of residuals, plain and times bt (C, J).

        One criterion at a time, so that the intermediate arrays stay in the processor's cache.
        """
        sizes = np.diff(self.starts, append=self.bt.size)
        theta = np.repeat(at.tau, sizes) * self.bt + np.repeat(at.alpha, sizes)
        loss, chance = 0.0, np.empty_like(self.passes)
        rest0, rest1 = np.empty((2, len(self.passes), len(self.starts)))
        for c, (passed, placed) in enumerate(zip(self.passes, self.placements, strict=True)):
            logit = at.gamma[c] * (theta - at.beta[c])
            small = np.exp(-np.abs(logit))
            loss += float(np.sum(placed * (np.maximum(logit, 0.0) + np.log1p(small)) - passed * logit))
            chance[c] = np.exp(np.minimum(logit, 0.0)) / (1.0 + small)
            residual = placed * chance[c] - passed
            rest0[c] = np.add.reduceat(residual, self.starts)
            rest1[c] = np.add.reduceat(residual * self.bt, self.starts)
        return loss, chance, rest0, rest1

    def _weight_moments(self, chance: FloatArray) -> FloatArray:
        """Per query the sums of weight x bt^k for k = 0, 1, 2, (3, C, J); the weight is the binomial variance."""
        moments = np.empty((3, len(self.passes), len(self.starts)))
        for c, placed in enumerate(self.placements):
            weight = placed * chance[c] * (1.0 - chance[c])
            for k in range(3):
                moments[k, c] = np.add.reduceat(weight, self.starts)
                weight = weight * self.bt
        return moments


def make_posterior(
    bt: ArrayLike,
    passes: ArrayLike,
    placements: ArrayLike,
    queries: ArrayLike,
    *,
    sigma_tau: float = 1.0,
    sigma_alpha: float = 2.0,
    ridge: float = 1e-4,
    gamma: ArrayLike | None = None,
    beta: ArrayLike | None = None,
) -> tuple[Posterior, IntArray]:
    """Eq. 7 for checked arguments of `fit_2pl`, and the query code of each row given."""
    passed, placed = checked_counts(passes, placements)
    scores = checked_numbers(bt, "bt", passed.shape[:1])
    codes = checked_codes(queries, len(scores))
    frozen = _frozen_criteria(gamma, beta, passed.shape[1])
    if not placed.any():
        raise RCPError("there is no Stage B answer to calibrate with: all placements are 0")
    unanswered = np.flatnonzero(~placed.any(axis=0))
    if unanswered.size and frozen is None:
        raise RCPError(f"criterion {unanswered[0]} has no answer; leave it out, or freeze gamma and beta")

    # Rows of one query and score share their ability: with their (whole) counts added up, the order of rows is gone.
    order = np.lexsort((scores, codes))
    scores, sorted_codes = scores[order], codes[order]
    first = np.flatnonzero((np.diff(sorted_codes, prepend=-1) != 0) | (np.diff(scores, prepend=np.nan) != 0))
    posterior = Posterior(
        bt=scores[first],
        passes=np.stack([np.add.reduceat(column[order], first) for column in passed.T]),
        placements=np.stack([np.add.reduceat(column[order], first) for column in placed.T]),
        starts=np.flatnonzero(np.diff(sorted_codes[first], prepend=-1)),
        sigma_tau=checked_positive(sigma_tau, "sigma_tau"),
        sigma_alpha=checked_positive(sigma_alpha, "sigma_alpha"),
        ridge=checked_positive(ridge, "ridge"),
        frozen=frozen,
    )
    return posterior, codes


def softmax_jacobian(gamma: FloatArray) -> FloatArray:
    """d gamma / d u, for gamma = C softmax(u)."""
    jacobian: FloatArray = np.diag(gamma) - np.outer(gamma, gamma) / gamma.size
    return jacobian


def centring_jacobian(criteria: int) -> FloatArray:
    """d beta / d v, for beta = v - mean v."""
    jacobian: FloatArray = np.eye(criteria) - 1.0 / criteria
    return jacobian


def _softmax_bend(gamma: FloatArray, by_gamma: FloatArray) -> FloatArray:
    """The sum over c of by_gamma[c] x (second derivatives of gamma[c] by u)."""
    share = gamma / gamma.size
    weighted = by_gamma * gamma
    mixed = np.outer(weighted, share)
    bend: FloatArray = np.diag(weighted - weighted.sum() * share) - mixed - mixed.T
    return bend + 2 * weighted.sum() * np.outer(share, share)


def _frozen_criteria(
    gamma: ArrayLike | None, beta: ArrayLike | None, criteria: int
) -> tuple[FloatArray, FloatArray] | None:
    if gamma is None and beta is None:
        return None
    if gamma is None or beta is None:
        raise RCPError("give both gamma and beta to freeze the criteria, or neither")
    discriminations = checked_numbers(gamma, "gamma", (criteria,))
    if not (discriminations > 0).all():
        raise RCPError(f"gamma must be above 0, not {discriminations.min()}")
    return discriminations, checked_numbers(beta, "beta", (criteria,))
