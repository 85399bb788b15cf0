"""A small quadratic programme on the simplex, to full precision, by an active-set method.

SciPy has no solver for quadratic programmes. :func:`~partwise.solvers.dual.simplex_qp.simplex_qp` is a first-order
method and needs thousands of passes if cutting planes are nearly parallel. A bundle has at most some hundred planes,
and factorising such a matrix is fast.
"""

from __future__ import annotations

import numpy as np

_MAX_CHANGES = 50  # changes of the set of free variables, for every variable


def maximise_on_simplex(
    matrix: np.ndarray, linear: np.ndarray, start: np.ndarray, tol: float = 1e-13
) -> np.ndarray:
    """Maximise linear·a − ½ aᵀ matrix a over a ≥ 0 with Σ a = 1.

    Parameters
    ----------
    matrix : ndarray (m, m)
        Positive semi-definite.
    linear : ndarray (m,)
    start : ndarray (m,)
        A point of the simplex, best near the solution.
    tol : float
        max slope − mean slope to stop at, in units of the largest entries of `linear` and of `matrix` @ a.

    Returns
    -------
    ndarray (m,)
        A point of the simplex, at least as good as `start`.
    """
    a, size = start.copy(), len(start)
    # A pull towards the present point makes nearly parallel planes solvable and does not move the solution. Its size
    # follows the diagonal, or the heights if all planes are level (a matrix of zeros).
    pull = 1e-11 * max(float(matrix.diagonal().max()), 1e-6 * float(np.abs(linear).max()), 1e-280)
    free = a > 0.0
    for _ in range(_MAX_CHANGES * size):
        target = _best_on_face(matrix, linear, a, free, pull)
        if not np.isfinite(target).all():  # numbers too large to compute with
            break
        if (target[free] > 0.0).all():
            a = target
            image = matrix @ a
            slope = linear - image
            scale = max(np.abs(linear).max(), np.abs(image).max(), 1e-300)
            highest = int(slope.argmax())
            if slope[highest] - a @ slope <= tol * scale:
                break
            if free[highest]:  # only rounding is left
                break
            free[highest] = True
        else:
            before = a
            a, blocked = _towards(a, target, free)
            free[blocked] = False
            if before[blocked] == 0.0:  # freed just now and driven back at once, by rounding
                break
    a = np.maximum(a, 0.0)
    return _better(matrix, linear, a / a.sum(), start)


def _best_on_face(
    matrix: np.ndarray, linear: np.ndarray, a: np.ndarray, free: np.ndarray, pull: float
) -> np.ndarray:
    """The maximiser with Σ a = 1 over the free variables, of either sign."""
    on = np.flatnonzero(free)
    system = np.ones((len(on) + 1, len(on) + 1))
    system[:-1, :-1] = matrix[np.ix_(on, on)] + pull * np.eye(len(on))
    system[-1, -1] = 0.0
    right = np.append(linear[on] + pull * a[on], 1.0)
    target = np.zeros(len(a))
    try:
        target[on] = np.linalg.solve(system, right)[:-1]
    except np.linalg.LinAlgError:
        target[on] = np.linalg.lstsq(system, right, rcond=None)[0][:-1]
    return target


def _towards(a: np.ndarray, target: np.ndarray, free: np.ndarray) -> tuple[np.ndarray, int]:
    """As far towards `target` as all stay non-negative; also which variable is in the way."""
    falling = np.flatnonzero(free & (target <= 0.0))
    shares = a[falling] / np.maximum(a[falling] - target[falling], 1e-300)
    nearest = int(shares.argmin())
    result = np.maximum(a + shares[nearest] * (target - a), 0.0)
    result[falling[nearest]] = 0.0
    return result, int(falling[nearest])


def _better(matrix: np.ndarray, linear: np.ndarray, a: np.ndarray, start: np.ndarray) -> np.ndarray:
    """Whichever is higher: rounding must not cost what was reached before."""

    def value(point: np.ndarray) -> float:
        return float(linear @ point - 0.5 * point @ (matrix @ point))

    return a if value(a) >= value(start) else start
