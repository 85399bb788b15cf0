"""The best lower bound of mixtures of dual points, from what is linear in them.

With an l1 term the true labels, whose v is 0, are among the points: entries of v that are beyond l1 by a rounding, and
of which a weak l2 makes a large square, are moved back by next to nothing of them.
"""

from __future__ import annotations

import numpy as np

from partwise.core.problem import Problem
from partwise.solvers.bundle.active_set import maximise_on_simplex

_OF_GAP = 0.02  # that the best mixture may be missed by
_MOST_ROUNDS = 30
_SHORTEST = 1e-3  # share of the way to a new mixture that is tried


def mixture_bound(problem: Problem, images: np.ndarray, linear: np.ndarray, gap: float) -> float:
    """max Σ a_k linear_k − ‖Σ a_k images_k‖² / (2 l2), shrunk by l1, over a ≥ 0 with Σ a = 1; nearly.

    Parameters
    ----------
    images : ndarray (m, n_weights)
        v of the points, the last one the best so far.
    linear : ndarray (m,)
        D without its quadratic term.
    gap : float
        As it is with the last point alone.
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
    """The best mixture if entries of v beyond l1 stay so, and others within."""
    v = share @ images
    beyond = np.flatnonzero(np.abs(v) > problem.l1)
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
    """The first of 1, 1/2, 1/4, … of the way to `target` that is higher, and its value."""
    way = 1.0
    while way > _SHORTEST:
        trial = share + way * (target - share)
        found = _value(problem, images, linear, trial)
        if found > value:
            return trial, found
        way *= 0.5
    return share, value
