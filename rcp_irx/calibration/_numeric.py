"""What the fits share: checked counts, one BLAS thread, Newton's method on convex objectives; no model lives here."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
import scipy.linalg  # noqa: F401  (loads scipy's own BLAS before the controller below looks for libraries)
from numpy.typing import ArrayLike, NDArray
from threadpoolctl import ThreadpoolController

from rcp_irx.errors import RCPError, warn

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.intp]

GOAL = 1e-12
"""Largest gradient entry at which a fit stops."""
CONVERGED = 1e-10
"""Largest gradient entry that still counts as converged where rounding ends a fit earlier."""
ROUNDING = 1e-13
"""Predicted relative decrease below which float64 cannot tell two objectives apart."""

_blas_lock = threading.RLock()


@functools.cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Linear algebra on one BLAS thread, so that sums are added in one order on every machine; also a decorator.

    The limit belongs to the process, so fits of several threads take turns: overlapping limits restore the wrong one.
    """
    with _blas_lock, _controller().limit(limits=1, user_api="blas"):
        yield


def checked_numbers(values: ArrayLike, what: str, shape: tuple[int, ...] | None = None) -> FloatArray:
    """Finite float64 numbers, of a given shape where one is given; RCPError names the first bad row."""
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise RCPError(f"{what} must be an array of numbers: {error}") from None
    if shape is not None and array.shape != shape:
        raise RCPError(f"{what} must have shape {shape}, not {array.shape}")
    if not np.isfinite(array).all():
        place = np.argwhere(~np.isfinite(array))[0]
        raise RCPError(f"{what} must be finite: row {place[0] if place.size else 0} holds {array[tuple(place)]}")
    return array


def checked_positive(value: float, what: str) -> float:
    """A finite number above zero."""
    if not (np.isfinite(value) and value > 0):
        raise RCPError(f"{what} must be a finite number above 0, not {value}")
    return float(value)


def checked_counts(passes: ArrayLike, placements: ArrayLike) -> tuple[FloatArray, FloatArray]:
    """Pass counts and placements, both of the shape (documents, criteria).

    Parameters
    ----------
    passes : (D, C)
        How often a document passed a criterion.
    placements : (D,) or (D, C)
        How often a document was asked about every criterion, or about each.

    Raises
    ------
    RCPError
        Shapes that do not fit, no criterion, counts that are not whole numbers with 0 <= passes <= placements.
    """
    passed = checked_numbers(passes, "passes")
    if passed.ndim != 2 or passed.shape[1] == 0:
        raise RCPError(f"passes must have the shape (documents, criteria) with a criterion or more, not {passed.shape}")
    placed = checked_numbers(placements, "placements")
    if placed.shape not in (passed.shape, passed.shape[:1]):
        raise RCPError(f"placements must have shape {passed.shape[:1]} or {passed.shape}, not {placed.shape}")
    if placed.ndim == 1:
        placed = np.repeat(placed[:, None], passed.shape[1], axis=1)
    bad = (passed < 0) | (passed > placed) | (passed != np.floor(passed)) | (placed != np.floor(placed))
    if bad.any():
        row, criterion = np.argwhere(bad)[0]
        raise RCPError(
            f"row {row}, criterion {criterion}: {passed[row, criterion]:g} passes in {placed[row, criterion]:g}"
            " placements; counts must be whole numbers with 0 <= passes <= placements"
        )
    return passed, placed


def checked_codes(queries: ArrayLike, rows: int) -> IntArray:
    """Query codes 0..J-1, one per row in any order, each used at least once."""
    codes = np.asarray(queries)
    if codes.shape != (rows,):
        raise RCPError(f"queries must have shape {(rows,)}, not {codes.shape}")
    if rows and codes.dtype.kind not in "iu":
        raise RCPError(f"queries must be integer codes from 0, not {codes.dtype}; see return_inverse of numpy.unique")
    outside = np.flatnonzero((codes < 0) | (codes >= rows))
    if outside.size:
        raise RCPError(
            f"row {outside[0]}: query code {codes[outside[0]]} is not one of 0 to J-1 for J queries in {rows} rows"
        )
    codes = codes.astype(np.intp)
    unused = np.flatnonzero(np.bincount(codes) == 0)
    if unused.size:
        raise RCPError(f"query code {unused[0]} has no row; codes must run from 0 without gaps")
    return codes


def warn_unless_converged(model: str, gradient_norm: float) -> bool:
    """Whether a fit that ended at this gradient has converged, with a warning if not."""
    converged = bool(gradient_norm <= CONVERGED)
    if not converged:
        warn(f"the {model} fit stopped at a gradient of {gradient_norm:.1e}, above {CONVERGED:.0e}")
    return converged


class Evaluation(NamedTuple):
    """A convex objective at one point; the Newton step is computed only when called for."""

    objective: float
    gradient: FloatArray
    newton_step: Callable[[], FloatArray]

    @property
    def norm(self) -> float:
        return float(np.abs(self.gradient).max(initial=0.0))


def newton(
    evaluate: Callable[[FloatArray], Evaluation], start: FloatArray, max_steps: int = 100
) -> tuple[FloatArray, Evaluation, int]:
    """Minimise a strictly convex function by Newton's method with backtracking.

    Returns
    -------
    point, evaluation there, number of steps
        It stops at a gradient of `GOAL`, or where rounding allows no further progress.
    """
    point, here = start, evaluate(start)
    for n_iter in range(max_steps):
        if here.norm <= GOAL:
            return point, here, n_iter
        step = here.newton_step()
        slope = float(here.gradient @ step)
        for halvings in range(40):
            fraction = 0.5**halvings
            there = evaluate(point + fraction * step)
            lower = there.objective <= here.objective + 1e-4 * fraction * slope
            if lower or (-slope <= ROUNDING * abs(here.objective) and there.norm < here.norm):
                break
        else:
            return point, here, n_iter
        point, here = point + fraction * step, there
    return point, here, max_steps
