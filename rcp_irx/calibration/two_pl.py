"""The calibration: the mode of Eq. 7 by damped Newton steps, and its standard errors; gains are made in `gain`.

Queries meet only through the criteria. So the Hessian is a 2 x 2 block (t_j, alpha_j) per query, bordered by the 2C
criterion parameters, and one Newton step costs little more than one pass over the documents.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from rcp_irx.calibration._numeric import GOAL, ROUNDING, FloatArray, one_blas_thread, warn_unless_converged
from rcp_irx.calibration._posterior import (
    Blocks,
    Parameters,
    Point,
    Posterior,
    centring_jacobian,
    make_posterior,
    softmax_jacobian,
)


@dataclass(frozen=True, eq=False)
class TwoPLFit:
    """A fitted calibration of D documents, J queries and C criteria.

    The standard errors come from the inverse Hessian of the negative log posterior: they hold what the Stage B answers
    and the priors leave open, the criteria's uncertainty included. Stage A scores count as known: the tournament's own
    error is not in them.

    Attributes
    ----------
    theta, theta_se : (D,)
        Calibrated abilities (Eq. 3) in logits, in the order of the rows given.
    tau, tau_se, alpha, alpha_se : (J,)
        Scale and offset of each query. A scale near 0 says that the answers run against the query's Stage A order.
    gamma, gamma_se, beta, beta_se : (C,)
        Discriminations, which sum to C, and difficulties, of mean 0; frozen ones are as given, with standard error 0.
    objective : float
        Eq. 7 at the estimates; without its ridge term where the criteria are frozen.
    gradient_norm : float
        Largest entry of its gradient in (t, alpha, u, v).
    n_iter : int
        Newton steps.
    converged : bool
    """

    theta: FloatArray
    tau: FloatArray
    alpha: FloatArray
    gamma: FloatArray
    beta: FloatArray
    theta_se: FloatArray
    tau_se: FloatArray
    alpha_se: FloatArray
    gamma_se: FloatArray
    beta_se: FloatArray
    objective: float
    gradient_norm: float
    n_iter: int
    converged: bool


@one_blas_thread()
def fit_2pl(
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
) -> TwoPLFit:
    """Fit the two-parameter logistic model that puts all queries on one scale (Sections 3.3 and C.3, Eq. 7).

    Parameters
    ----------
    bt : (D,)
        Stage A scores in logits, used as given.
    passes : (D, C)
        How often each document passed each criterion.
    placements : (D,) or (D, C)
        How often it was asked about all criteria, or about each; Eq. 7's N C is the number of all answers.
    queries : (D,)
        Integer codes 0..J-1, in any order. The estimates do not depend on the order of the rows, to the last bit.
    sigma_tau, sigma_alpha : float
        Standard deviations of the normal priors on scales (mean 1) and offsets (mean 0).
    ridge : float
        The penalty on the criterion parameters u and v; not divided by N C.
    gamma, beta : (C,), optional
        Frozen criteria, used as given; only scales and offsets are fitted.

    Raises
    ------
    RCPError
        Shapes that do not fit, only one of gamma and beta, no answer at all, a criterion without answers that is to be
        fitted; names the first row that cannot be.

    Warns
    -----
    RCPWarning
        The gradient did not come below 1e-10; standard errors are NaN where the fit ended at no minimum.
    """
    posterior, codes = make_posterior(
        bt,
        passes,
        placements,
        queries,
        sigma_tau=sigma_tau,
        sigma_alpha=sigma_alpha,
        ridge=ridge,
        gamma=gamma,
        beta=beta,
    )
    parameters, end, n_iter = minimise(posterior)
    at = posterior.unpack(parameters)
    errors = _standard_errors(posterior, at, end)
    scores = np.asarray(bt, dtype=np.float64)
    scale, shared, offset = errors.query[codes, 0, 0], errors.query[codes, 0, 1], errors.query[codes, 1, 1]
    return TwoPLFit(
        theta=at.tau[codes] * scores + at.alpha[codes],
        tau=at.tau,
        alpha=at.alpha,
        gamma=at.gamma,
        beta=at.beta,
        theta_se=np.sqrt(np.maximum(scores * (scores * scale + 2 * shared) + offset, 0.0)),
        tau_se=np.sqrt(errors.query[:, 0, 0]),
        alpha_se=np.sqrt(errors.query[:, 1, 1]),
        gamma_se=errors.gamma,
        beta_se=errors.beta,
        objective=end.objective,
        gradient_norm=end.norm,
        n_iter=n_iter,
        converged=warn_unless_converged("2PL", end.norm),
    )


def minimise(posterior: Posterior, max_steps: int = 200) -> tuple[FloatArray, Point, int]:
    """The mode of the posterior by Newton steps with Levenberg-Marquardt damping.

    Returns
    -------
    parameters, evaluation there, number of steps
        It stops at a gradient of `GOAL`, or where rounding allows no further progress.
    """
    point = posterior.start()
    here = posterior.evaluate(point)
    damping = 0.1
    for n_iter in range(max_steps):
        if here.norm <= GOAL:
            return point, here, n_iter
        blocks = here.hessian()
        for _ in range(40):
            step = _damped_step(blocks, here.gradient * posterior.answers, damping)
            if step is not None:
                there = posterior.evaluate(point + step)
                expected = -0.5 * float(here.gradient @ step)
                achieved = here.objective - there.objective
                if achieved > 0.01 * expected or (expected <= ROUNDING * here.objective and there.norm < here.norm):
                    break
            damping = max(4.0 * damping, 1e-4)
        else:
            return point, here, n_iter
        if achieved > 0.5 * expected or expected <= ROUNDING * here.objective:
            damping = 0.1 * damping
        point, here = point + step, there
    return point, here, max_steps


LONGEST_STEP = 2.0
"""A query's t moves no farther in a step: far below 0 its scale is all but 0, and nothing would bring it back."""


class _Solved(NamedTuple):
    """The Hessian's inverse query blocks, those times the border, and the criteria's Schur complement."""

    inverse: FloatArray
    border: FloatArray
    complement: FloatArray


def _eliminate(blocks: Blocks, damping: float = 0.0) -> _Solved | None:
    """Eliminate each query's block from the damped Hessian; None where it is not positive definite."""
    query = blocks.query + damping * blocks.query_scale[:, :, None] * np.eye(2)
    determinant = query[:, 0, 0] * query[:, 1, 1] - query[:, 0, 1] ** 2
    if not ((query[:, 0, 0] > 0).all() and (determinant > 0).all()):
        return None
    adjugate = np.stack([query[:, 1, 1], -query[:, 0, 1], -query[:, 1, 0], query[:, 0, 0]], axis=1)
    inverse = adjugate.reshape(-1, 2, 2) / determinant[:, None, None]
    border = inverse @ blocks.cross
    criteria = blocks.criterion.shape[0]
    complement = blocks.criterion + damping * np.diag(blocks.criterion_scale)
    rows = 2 * len(query)
    complement = complement - blocks.cross.reshape(rows, criteria).T @ border.reshape(rows, criteria)
    if criteria and np.linalg.eigvalsh(complement).min() <= 0:
        return None
    return _Solved(inverse, border, complement)


def _damped_step(blocks: Blocks, gradient: FloatArray, damping: float) -> FloatArray | None:
    solved = _eliminate(blocks, damping)
    if solved is None:
        return None
    queries = len(blocks.query)
    by_query, by_criterion = gradient[: 2 * queries].reshape(2, queries).T, gradient[2 * queries :]
    criterion_step = np.linalg.solve(solved.complement, np.einsum("jak,ja->k", solved.border, by_query) - by_criterion)
    query_step = -np.einsum("jab,jb->ja", solved.inverse, by_query) - solved.border @ criterion_step
    query_step *= np.minimum(1.0, LONGEST_STEP / np.maximum(np.abs(query_step[:, :1]), LONGEST_STEP))
    return np.concatenate([query_step.T.ravel(), criterion_step])


class _Errors(NamedTuple):
    """Covariances of (tau, alpha) per query (J, 2, 2) and standard errors of gamma and beta (C,)."""

    query: FloatArray
    gamma: FloatArray
    beta: FloatArray


def _standard_errors(posterior: Posterior, at: Parameters, end: Point) -> _Errors:
    known = np.zeros(at.gamma.size)
    solved = _eliminate(end.hessian())
    if solved is None:
        # Not at a minimum; the fit warns that it has not converged.
        unknown = known if posterior.frozen else known * np.nan
        return _Errors(np.full((at.tau.size, 2, 2), np.nan), unknown, unknown)
    to_tau = np.stack([expit(at.t), np.ones(at.t.size)], axis=1)
    covariance = np.linalg.inv(solved.complement)
    query = solved.inverse + solved.border @ covariance @ solved.border.transpose(0, 2, 1)
    query = query * to_tau[:, :, None] * to_tau[:, None, :]
    if posterior.frozen:
        return _Errors(query, known, known)
    to_gamma, to_beta = softmax_jacobian(at.gamma), centring_jacobian(at.gamma.size)
    by_u, by_v = np.split(np.arange(2 * at.u.size), 2)
    gamma = np.einsum("cd,de,ce->c", to_gamma, covariance[np.ix_(by_u, by_u)], to_gamma)
    beta = np.einsum("cd,de,ce->c", to_beta, covariance[np.ix_(by_v, by_v)], to_beta)
    return _Errors(query, np.sqrt(np.maximum(gamma, 0.0)), np.sqrt(np.maximum(beta, 0.0)))
