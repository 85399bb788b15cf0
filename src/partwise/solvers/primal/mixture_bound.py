"""The best lower bound of mixtures of dual points, from v and the linear part of D, which mix linearly.

With an l1 term the true labels, whose v is 0, are among the points. Some entries of v exceed l1 only by rounding, and a
weak l2 makes large squares of them: a tiny share of the true labels moves them back.
"""

from __future__ import annotations

import numpy as np

from partwise.core.problem import Problem
from partwise.solvers.bundle.active_set import maximise_on_simplex

_OF_GAP = 0.02  # share of the gap by which the best mixture may be missed
_MOST_ROUNDS = 30  # rounds of support and line search with an l1 term
_SHORTEST = 1e-3  # smallest share of the way to a new mixture that is tried


def mixture_bound(problem: Problem, images: np.ndarray, linear: np.ndarray, gap: float) -> float:
    """About the maximum of Σ a_k linear_k − ‖shrink(Σ a_k images_k, l1)‖² / (2 l2) over a ≥ 0 with Σ a = 1.

    Parameters
    ----------
    images : ndarray (m, n_weights)
        v of the points; the last point is the best so far.
    linear : ndarray (m,)
        D without its quadratic term.
    gap : float
        The gap with the last point alone.
    """
    tol = min(_OF_GAP * gap / max(float(np.abs(linear).max()), 1e-300), 1e-3)
    share = np.zeros(len(linear))
    share[-1] = 1.0
    if not problem.l1:
        share = maximise_on_simplex(images @ images.T / problem.l2, linear, share, max(tol, 1e-13))
        return _value(problem, images, linear, share)
    images, linear, share = (
        np.vstack([np.zeros_like(images[:1]), images]),
        np.append(0.0, linear),
        np.append(0.0, share),
    )
    value = _value(problem, images, linear, share)
    for _ in range(_MOST_ROUNDS):
        target = _on_support(problem, images, linear, share, max(tol, 1e-13))
        share, better = _between(problem, images, linear, share, target, value)
        gained, value = better - value, better
        if gained <= _OF_GAP * (gap - gained):
            break
        gap -= gained
    return value


def _value(problem: Problem, images: np.ndarray, linear: np.ndarray, share: np.ndarray) -> float:
    return float(share @ linear) - problem.squared_norm(share @ images) / (2.0 * problem.l2)


def _on_support(
    problem: Problem, images: np.ndarray, linear: np.ndarray, share: np.ndarray, tol: float
) -> np.ndarray:
    """The best mixture if the same entries of v exceed l1 as now."""
    v = share @ images
    beyond = np.flatnonzero(np.abs(v) > problem.l1)
    if not len(beyond):
        return share
    own = images[:, beyond]
    linear = linear + own @ np.sign(v[beyond]) * (problem.l1 / problem.l2)
    return maximise_on_simplex(own @ own.T / problem.l2, linear, share, tol)


def _between(
    problem: Problem,
    images: np.ndarray,
    linear: np.ndarray,
    share: np.ndarray,
    target: np.ndarray,
    value: float,
) -> tuple[np.ndarray, float]:
    """The first point at 1, 1/2, 1/4, … of the way to `target` with a higher value, and its value."""
    way = 1.0
    while way > _SHORTEST:
        trial = share + way * (target - share)
        found = _value(problem, images, linear, trial)
        if found > value:
            return trial, found
        way *= 0.5
    return share, value
