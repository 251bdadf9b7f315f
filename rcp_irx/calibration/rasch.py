"""The one-parameter (Rasch) model whose order Stage B's second half follows (Section C.2); gains come from `two_pl`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve
from scipy.special import expit

from rcp_irx.calibration._numeric import (
    Evaluation,
    FloatArray,
    checked_counts,
    checked_positive,
    newton,
    one_blas_thread,
    warn_unless_converged,
)


@dataclass(frozen=True, eq=False)
class RaschFit:
    """A fitted Rasch model.

    Attributes
    ----------
    theta : (D,)
        Abilities in logits; a document without a placement has exactly 0.
    beta : (C,)
        Difficulties in logits, of mean 0.
    objective : float
        The minimised function, per answer.
    gradient_norm : float
        Largest entry of its gradient.
    n_iter : int
        Newton steps.
    converged : bool
    """

    theta: FloatArray
    beta: FloatArray
    objective: float
    gradient_norm: float
    n_iter: int
    converged: bool


@one_blas_thread()
def fit_rasch(passes: ArrayLike, placements: ArrayLike, *, ridge: float = 1e-4) -> RaschFit:
    r"""Fit abilities and difficulties, :math:`P = \sigma(\theta_i - \beta_c)`, to pass counts (Section C.2).

    Minimises the mean cross-entropy of the answers plus :math:`\lambda/2\,(|\theta|^2 + |v|^2)`, with
    :math:`\beta = v - \operatorname{mean} v`.

    Parameters
    ----------
    passes : (D, C)
        How often each document passed each criterion.
    placements : (D,) or (D, C)
        How often it was asked about all criteria, or about each.
    ridge : float
        The penalty that keeps documents finite that pass or fail everything.

    Raises
    ------
    RCPError
        Shapes that do not fit; names the first row whose counts cannot be.
    """
    checked_positive(ridge, "ridge")
    passed, placed = checked_counts(passes, placements)
    documents, criteria = passed.shape
    end, here, n_iter = newton(
        lambda point: evaluate_rasch(point, passed, placed, ridge), np.zeros(documents + criteria)
    )
    theta, v = end[:documents], end[documents:]
    converged = warn_unless_converged("Rasch", here.norm)
    return RaschFit(theta, v - v.mean(), here.objective, here.norm, n_iter, converged)


def evaluate_rasch(point: FloatArray, passed: FloatArray, placed: FloatArray, ridge: float) -> Evaluation:
    """The objective at `point`, the D abilities followed by the C uncentred difficulties v."""
    documents = len(passed)
    answers = placed.sum() or 1.0
    theta, v = point[:documents], point[documents:]
    logit = theta[:, None] - (v - v.mean())
    chance = expit(logit)
    loss = placed * np.logaddexp(0.0, logit) - passed * logit
    objective = float(loss.sum() / answers + ridge / 2 * np.sum(point * point))
    residual = (placed * chance - passed) / answers
    by_criterion = residual.sum(axis=0)
    gradient = np.concatenate([residual.sum(axis=1), by_criterion.mean() - by_criterion]) + ridge * point

    def newton_step() -> FloatArray:
        weight = placed * chance * expit(-logit) / answers
        ability = weight.sum(axis=1) + ridge
        cross = weight.mean(axis=1, keepdims=True) - weight
        centred = np.diag(weight.sum(axis=0))
        centred = centred - centred.mean(axis=0)
        difficulty = centred - centred.mean(axis=1, keepdims=True) + ridge * np.eye(v.size)
        # The block of the abilities is diagonal, so what is left to solve has the size of the rubric.
        schur = difficulty - cross.T @ (cross / ability[:, None])
        step_v = solve(schur, cross.T @ (gradient[:documents] / ability) - gradient[documents:], assume_a="pos")
        return np.concatenate([-(gradient[:documents] + cross @ step_v) / ability, step_v])

    return Evaluation(objective, gradient, newton_step)
