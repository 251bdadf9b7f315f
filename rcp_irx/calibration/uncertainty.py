"""Standard errors of scores, abilities and gains: sandwich estimates of both stages, joined by the delta method.

The paper gives none (Section C.3). They say how far the estimates would move if the same judge answered anew; what it
gets wrong every time is not in them. Stage A's part comes from `influence`.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import zip_longest
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from rcp_irx.calibration._numeric import FloatArray, IntArray, checked_counts, checked_numbers, one_blas_thread
from rcp_irx.calibration._posterior import Posterior, centring_jacobian, make_posterior, softmax_jacobian
from rcp_irx.calibration.gain import gain, pass_probabilities
from rcp_irx.calibration.two_pl import TwoPLFit
from rcp_irx.errors import RCPError

TINY = float(np.finfo(np.float64).tiny)


@dataclass(frozen=True, eq=False)
class StandardErrors:
    """Standard errors of the estimates of D documents, J queries and C criteria, each in the unit of its estimate.

    Attributes
    ----------
    bt, theta, gain : (D,)
    tau, alpha : (J,)
    gamma, beta : (C,)
        0 where the criteria are frozen.
    tau_alpha : (J,)
        No standard error but the covariance of tau and alpha, which all abilities of a query share.
    """

    bt: FloatArray
    theta: FloatArray
    gain: FloatArray
    tau: FloatArray
    alpha: FloatArray
    gamma: FloatArray
    beta: FloatArray
    tau_alpha: FloatArray


class _Solved(NamedTuple):
    """The inverse Hessian of Eq. 7 by blocks, with each query's (t, alpha) eliminated, and d tau / d t (J,).

    `inverse` (J, 2, 2), `border` (J, 2, 2C), `criteria` (2C, 2C); the latter two are 0 where the criteria are frozen.
    """

    inverse: FloatArray
    border: FloatArray
    criteria: FloatArray
    slope: FloatArray


class _Noise(NamedTuple):
    """What moves the gradient of one query's documents: P = 2 + 2C entries by t and alpha, u and v.

    `rows` (K,) of its documents, `variance` (K,) of their Stage A scores, the covariance of these with the gradient
    (K, P), and the gradient's covariance by Stage A and by Stage B (P, P).
    """

    rows: IntArray
    variance: FloatArray
    shared: FloatArray
    tournament: FloatArray
    answers: FloatArray


@one_blas_thread()
def calibration_errors(
    fit: TwoPLFit,
    bt: ArrayLike,
    passes: ArrayLike,
    placements: ArrayLike,
    queries: ArrayLike,
    influences: Iterable[FloatArray],
    *,
    sigma_tau: float = 1.0,
    sigma_alpha: float = 2.0,
    ridge: float = 1e-4,
    frozen: bool = False,
) -> StandardErrors:
    """Sandwich errors of a calibration: Stage A's clustered by window, Stage B's by document, joined to first order.

    An error b of a score moves its document's ability by tau b and, through the fit, the query's tau and alpha and all
    criteria; so does the noise of a document's Stage B answers. All of it is counted. A document's residual also holds
    what its b leaves in it, which is taken out of the noise of its answers.

    Parameters
    ----------
    fit, bt, passes, placements, queries, sigma_tau, sigma_alpha, ridge
        The fit, and what `fit_2pl` was given.
    influences : J arrays (K_j, clusters)
        Of each query, in the order of the codes, the rows of `tournament_influence` of its K_j documents, in the order
        of their rows and centred where the scores are. Read once, one after the other. A document with a row of NaN
        gets no standard error.
    frozen : bool
        Whether the criteria were given to the fit.

    Returns
    -------
    StandardErrors
        NaN for the abilities, gains, tau and alpha of a query of which one document alone was answered about, and for
        everything where the fit ended at no minimum.

    Raises
    ------
    RCPError
        Too few or too many influences, or one that has not as many rows as the query.
    """
    criteria = {"gamma": fit.gamma, "beta": fit.beta} if frozen else {}
    posterior, codes = make_posterior(
        bt, passes, placements, queries, sigma_tau=sigma_tau, sigma_alpha=sigma_alpha, ridge=ridge, **criteria
    )
    scores, (passed, placed) = checked_numbers(bt, "bt"), checked_counts(passes, placements)
    sizes = [scores.size] * 3 + [fit.tau.size] * 2 + [fit.gamma.size] * 2
    found, together = [np.full(size, np.nan) for size in sizes], np.full(fit.tau.size, np.nan)
    if np.isnan(fit.tau_se).any():
        return StandardErrors(*[*found, together])
    solved = _solved(posterior, fit)
    noise = _noise_of_queries(codes, influences, *_gradients(fit, solved, scores, passed, placed, codes))
    common = np.sum([part.tournament[2:, 2:] + part.answers[2:, 2:] for part in noise], axis=0)
    answered = np.bincount(codes, placed.any(axis=1))
    for code, part in enumerate(noise):
        found[0][part.rows] = part.variance
        if answered[code] > 1:
            of_query = _variances(fit, solved, part, code, scores[part.rows], common)
            found[1][part.rows], found[2][part.rows], found[3][code], found[4][code], together[code] = of_query
    covariance, size = solved.criteria @ common @ solved.criteria, fit.gamma.size
    found[5] = _quadratic(softmax_jacobian(fit.gamma), covariance[:size, :size])
    found[6] = _quadratic(centring_jacobian(size), covariance[size:, size:])
    return StandardErrors(*[*(np.sqrt(np.maximum(variance, 0.0)) for variance in found), together])


def _solved(posterior: Posterior, fit: TwoPLFit) -> _Solved:
    tau = np.maximum(fit.tau, TINY)
    t = tau + np.log(-np.expm1(-tau))
    free = [] if posterior.frozen else [np.log(fit.gamma) - np.log(fit.gamma).mean(), fit.beta]
    blocks = posterior.evaluate(np.concatenate([t, fit.alpha, *free])).hessian()
    inverse = np.asarray(np.linalg.inv(blocks.query), dtype=np.float64)
    width = 2 * fit.gamma.size
    if posterior.frozen:
        return _Solved(inverse, np.zeros((t.size, 2, width)), np.zeros((width, width)), expit(t))
    border = inverse @ blocks.cross
    criteria: FloatArray = np.linalg.inv(blocks.criterion - np.einsum("jak,jal->kl", blocks.cross, border))
    return _Solved(inverse, border, criteria, expit(t))


def _gradients(
    fit: TwoPLFit, solved: _Solved, bt: FloatArray, passed: FloatArray, placed: FloatArray, codes: IntArray
) -> tuple[FloatArray, FloatArray]:
    """Each document's share of the gradient of N C times Eq. 7, and the share's derivative by its score: (D, P) each.

    By u and v with the query's block eliminated. Of the residuals, what a document has moved its own query's fit by is
    given back to the shares (HC2): it lies in the direction in which an ability moves residuals.
    """
    tau, far = fit.tau[codes], fit.theta[:, None] - fit.beta
    chance = pass_probabilities(fit.theta, fit.gamma, fit.beta)
    rest, weight = passed - placed * chance, placed * chance * (1 - chance)
    by_theta, information = -(rest @ fit.gamma), weight @ fit.gamma**2
    toward = np.stack([bt * solved.slope[codes], np.ones(bt.size)], axis=1)
    leverage = information * np.einsum("da,dab,db->d", toward, solved.inverse[codes], toward)
    hidden = by_theta / np.maximum(information, TINY) * (1 / np.sqrt(1 - np.clip(leverage, 0.0, 0.99)) - 1)
    whole = rest - (hidden[:, None] * fit.gamma) * weight
    to_gamma, to_beta, border = softmax_jacobian(fit.gamma), centring_jacobian(fit.gamma.size), solved.border[codes]

    def joined(by_query: FloatArray, by_gamma: FloatArray, by_beta: FloatArray) -> FloatArray:
        by_criteria = np.hstack([by_gamma @ to_gamma, by_beta @ to_beta])
        return np.hstack([by_query, by_criteria - np.einsum("da,dak->dk", by_query, border)])

    shares = joined(-(whole @ fit.gamma)[:, None] * toward, -far * whole, fit.gamma * whole)
    change = (tau * information)[:, None] * toward
    change[:, 0] += by_theta * solved.slope[codes]
    scale = tau[:, None]
    return shares, joined(change, scale * (far * fit.gamma * weight - rest), -scale * fit.gamma**2 * weight)


def _noise_of_queries(
    codes: IntArray, influences: Iterable[FloatArray], shares: FloatArray, changes: FloatArray
) -> list[_Noise]:
    rows_of = np.split(np.argsort(codes, kind="stable"), np.cumsum(np.bincount(codes))[:-1])
    noise = []
    for code, (rows, influence) in enumerate(zip_longest(rows_of, influences)):
        if rows is None or influence is None or len(influence) != len(rows):
            raise RCPError(f"query code {code}: give one influence a query, with one row for each of its documents")
        unknown, influence = np.isnan(influence).any(axis=1), np.nan_to_num(influence)
        variance, through = np.sum(influence**2, axis=1), influence.T @ changes[rows]
        answers = shares[rows].T @ shares[rows] - changes[rows].T @ (variance[:, None] * changes[rows])
        variance[unknown] = np.nan
        noise.append(_Noise(rows, variance, influence @ through, through.T @ through, answers))
    return noise


def _variances(
    fit: TwoPLFit, solved: _Solved, noise: _Noise, code: int, bt: FloatArray, common: FloatArray
) -> tuple[FloatArray, FloatArray, float, float, float]:
    """Variances of a query's abilities and gains (K,), of its tau and its alpha, and the covariance of these two."""
    theta, tau, slope = fit.theta[noise.rows], fit.tau[code], solved.slope[code]
    chance = pass_probabilities(theta, fit.gamma, fit.beta)
    weight, total = chance * (1 - chance), fit.gamma.sum()
    steep = weight @ fit.gamma**2 / total
    by_gamma = chance - gain(theta, fit.gamma, fit.beta)[:, None] + fit.gamma * weight * (theta[:, None] - fit.beta)
    by_u, by_v = by_gamma @ softmax_jacobian(fit.gamma), -(fit.gamma**2 * weight) @ centring_jacobian(fit.gamma.size)
    toward = np.stack([bt * slope, np.ones(bt.size)], axis=1)
    elsewhere = common - noise.tournament[2:, 2:] - noise.answers[2:, 2:]

    def weights(by_query: FloatArray, by_criteria: FloatArray | float = 0.0) -> FloatArray:
        far = (by_criteria - by_query @ solved.border[code]) @ solved.criteria
        return np.hstack([by_query @ solved.inverse[code], far])

    def fitted(weights: FloatArray) -> FloatArray:
        answers, others = _quadratic(weights, noise.answers), _quadratic(weights[:, 2:], elsewhere)
        return _quadratic(weights, noise.tournament) + np.maximum(answers, 0.0) + np.maximum(others, 0.0)

    def of_documents(by_score: FloatArray, weights: FloatArray) -> FloatArray:
        return by_score**2 * noise.variance - 2 * by_score * np.sum(weights * noise.shared, axis=1) + fitted(weights)

    of_theta = of_documents(tau, weights(toward))
    of_gain = of_documents(tau * steep, weights(steep[:, None] * toward, np.hstack([by_u, by_v]) / total))
    of_tau, of_alpha, of_sum = fitted(weights(np.array([[slope, 0.0], [0.0, 1.0], [slope, 1.0]]))).tolist()
    return of_theta, of_gain, of_tau, of_alpha, (of_sum - of_tau - of_alpha) / 2


def _quadratic(rows: FloatArray, matrix: FloatArray) -> FloatArray:
    """x M x for each row x."""
    total: FloatArray = np.sum((rows @ matrix) * rows, axis=1)
    return total
