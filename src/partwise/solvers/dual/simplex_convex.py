"""Smooth convex functions over products of simplices by batch exponentiated gradient (Collins et al. 2008, section 5).

`simplex_qp.py` has the quadratic ones, where visits to single blocks are cheap too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from partwise.core.checks import check_positive
from partwise.errors import InputError
from partwise.solvers.dual.simplex_pass import log_softmax_of_all
from partwise.solvers.dual.simplex_qp import (
    SimplexQPRecord,
    SimplexQPResult,
    checked_blocks,
    iterate,
    starting_logs,
)

_GROWTH = 1.5
_MAX_HALVINGS = 60
_ROUNDING = 1e-14  # of the value, in the test of a step


def simplex_convex(
    function: Callable[[np.ndarray], tuple[float, Any]],
    block_sizes: Sequence[int] | np.ndarray,
    *,
    tol: float = 1e-6,
    max_iterations: float = 10_000,
    start: Any = None,
    callback: Callable[[SimplexQPRecord], bool | None] | None = None,
) -> SimplexQPResult:
    """Minimise a convex function Q(α), α = (α_1, …, α_n), each α_i ≥ 0 summing to one.

    Each iteration sets α_i ∝ α_i exp(−η ∇_i Q) for all blocks, with η so small that Q(new) is at most
    Q(α) + ∇Q·(new − α) + KL(new ‖ α) / η. Such steps never raise Q, and Q(α^T) − Q* ≤ KL(α* ‖ α¹) / (η T).

    Parameters
    ----------
    function : callable
        Takes α (m,), which is positive, and returns Q(α) and its gradient (m,).
    block_sizes : sequence of int
        Components of each block; they add up to m.
    tol : float
        Stop when the gap is at most `tol` times max(|Q(α)|, |∇Q·α|).
    max_iterations : float
        Most evaluations of the function after the first.
    start : array_like (m,)
        Where to start; zeros are lifted to 1e-16. By default the centre of every simplex.
    callback : callable
        Called with a :class:`SimplexQPRecord` after every iteration; return True to stop.

    Returns
    -------
    SimplexQPResult
        Its gap, Σ_blocks max over vertices of −∇Q·(vertex − α), bounds Q(α) − Q* for every convex Q.

    Examples
    --------
    >>> goal = np.array([0.2, 0.8])
    >>> result = simplex_convex(lambda a: (((a - goal) ** 4).sum(), 4 * (a - goal) ** 3), [2])
    >>> result.alpha.round(1)
    array([0.2, 0.8])
    """
    check_positive("tol", tol)
    check_positive("max_iterations", max_iterations)
    if not callable(function):
        raise InputError(f"function must be callable, not {function!r:.60}")
    block_ptr = checked_blocks(block_sizes)
    run = _Run(function, block_ptr, starting_logs(start, block_ptr))
    return iterate(run, run.step_down, tol, max_iterations, callback)


class _Run:
    """The point: log α, α, the value and the gradient; and η."""

    def __init__(self, function: Callable[[np.ndarray], Any], block_ptr: np.ndarray, log_alpha: np.ndarray):
        self.function, self.block_ptr, self.log_alpha = function, block_ptr, log_alpha
        self.alpha = np.exp(log_alpha)
        self.value, self.gradient = self._evaluate(self.alpha)
        self.step = 1.0

    def _evaluate(self, alpha: np.ndarray) -> tuple[float, np.ndarray]:
        try:
            value, gradient = self.function(alpha.copy())
            value, gradient = float(value), np.array(gradient, np.float64)
        except (TypeError, ValueError):
            raise InputError("function must return a number and its gradient") from None
        if gradient.shape != alpha.shape:
            raise InputError(
                f"function returned a gradient of shape {gradient.shape}, expected {alpha.shape}"
            )
        if not (np.isfinite(value) and np.isfinite(gradient).all()):
            raise InputError("function returned NaN or infinity")
        return value, gradient

    def record(self, iterations: float) -> SimplexQPRecord:
        """Value and Frank–Wolfe gap; Σ s·α − Σ_blocks min s, block by block so that nothing cancels."""
        lowest = np.minimum.reduceat(self.gradient, self.block_ptr[:-1])
        above = self.gradient - np.repeat(lowest, np.diff(self.block_ptr))
        return SimplexQPRecord(iterations, self.value, float(self.alpha @ above))

    def scale(self) -> float:
        return max(abs(self.value), abs(float(self.gradient @ self.alpha)), 1e-300)

    def step_down(self) -> float:
        """Returns the evaluations it took."""
        new = np.empty_like(self.log_alpha)
        for tried in range(1, _MAX_HALVINGS + 1):
            divergence = log_softmax_of_all(self.log_alpha, self.gradient, self.step, self.block_ptr, new)
            alpha = np.exp(new)
            value, gradient = self._evaluate(alpha)
            rise = value - self.value - float(self.gradient @ (alpha - self.alpha))
            if rise <= divergence / self.step + _ROUNDING * abs(self.value):
                self.log_alpha, self.alpha, self.value, self.gradient = new, alpha, value, gradient
                self.step = min(self.step * _GROWTH, 1e30)
                return float(tried)
            self.step *= 0.5
        return float(_MAX_HALVINGS)
