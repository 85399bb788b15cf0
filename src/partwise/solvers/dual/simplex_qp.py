"""Quadratic programmes over products of simplices by exponentiated gradient on the variables themselves.

Bartlett, Collins, Taskar, McAllester 2004, §3: binary and multiclass SVMs are of this form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator

from partwise.core.arrays import offsets
from partwise.core.checks import check_positive
from partwise.core.randomness import random_generator
from partwise.errors import InputError
from partwise.solvers.dual.simplex_pass import Quadratic, log_softmax_of_all, simplex_pass

_GROWTH = 1.5
_MAX_HALVINGS = 60
_LEAST = 1e-16  # the smallest component to start from: zero could never grow


class SimplexQPRecord(NamedTuple):
    """One line of the history: iterations (passes over all blocks, counting every step tried), Q(α), gap."""

    iterations: float
    value: float
    gap: float


@dataclass(frozen=True)
class SimplexQPResult:
    """What :func:`simplex_qp` returns.

    Attributes
    ----------
    alpha : ndarray (m,)
    value : float
        Q(alpha).
    lower_bound : float
        Q(alpha) − gap; the optimum lies between the two.
    gap : float
        Σ_blocks max over vertices of −∇Q·(vertex − α), the Frank–Wolfe gap.
    converged : bool
        Whether the gap reached the tolerance.
    n_iterations : float
        Passes over all blocks, counting every step tried.
    history : list of SimplexQPRecord
    """

    alpha: np.ndarray = field(repr=False)
    value: float
    lower_bound: float
    gap: float
    converged: bool
    n_iterations: float
    history: list[SimplexQPRecord] = field(repr=False)


def simplex_qp(
    A: Any,
    b: Any,
    block_sizes: Sequence[int] | np.ndarray,
    *,
    tol: float = 1e-6,
    max_iterations: float = 10_000,
    step: Literal["adaptive", "safe"] = "adaptive",
    method: Literal["online", "batch"] = "online",
    start: Any = None,
    random_state: int | np.random.Generator | None = 0,
    callback: Callable[[SimplexQPRecord], bool | None] | None = None,
) -> SimplexQPResult:
    """Minimise Q(α) = ½ αᵀ A α + bᵀ α, α = (α_1, …, α_n), each α_i ≥ 0 summing to one.

    The signs and the ½ are those of Bartlett et al. (a minimisation, ∇Q = A α + b); each iteration sets
    α_i ∝ α_i exp(−η ∇_i Q), on all blocks at once or on one after another in random order. A simplex of
    another size C is reached by the substitution C·α; an inequality Σ ≤ C by one more component without
    entries in A and b.

    Parameters
    ----------
    A : ndarray, sparse matrix or LinearOperator, (m, m)
        Symmetric and positive semi-definite. An operator needs ``method="batch"``.
    b : array_like (m,)
    block_sizes : sequence of int
        Components of each block; they add up to m.
    tol : float
        Stop when the gap is at most `tol` times max(|bᵀα|, ½ αᵀAα).
    max_iterations : float
        Most passes over all blocks, counting every step tried.
    step : {"adaptive", "safe"}
        Halve η until the step is proved to be one of descent, and let it grow when it was; or η = 1/|A|_∞
        (online; the largest entry of the block) and 1/(n |A|_∞) (batch), which always are.
    method : {"online", "batch"}
    start : array_like (m,)
        Where to start; zeros are lifted to 1e-16. By default the centre of every simplex.
    callback : callable
        Called with a :class:`SimplexQPRecord` after every iteration; return True to stop.

    Examples
    --------
    >>> result = simplex_qp(np.eye(2), [0.0, -1.0], [2])
    >>> result.alpha.round(3)
    array([0., 1.])
    """
    check_positive("tol", tol)
    check_positive("max_iterations", max_iterations)
    for name, value, allowed in (
        ("step", step, ("adaptive", "safe")),
        ("method", method, ("online", "batch")),
    ):
        if value not in allowed:
            raise InputError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
    block_ptr = checked_blocks(block_sizes)
    matrix = _checked_matrix(A, int(block_ptr[-1]), method, step)
    linear = _checked_vector(b, "b", int(block_ptr[-1]))
    run = _Run(matrix, linear, block_ptr, starting_logs(start, block_ptr))
    passes = _BatchPasses(run, step) if method == "batch" else _OnlinePasses(run, step, random_state)
    return iterate(run, passes, tol, max_iterations, callback)


class _Run:
    """The point: log α, α and the gradient A α + b."""

    def __init__(self, matrix: Any, linear: np.ndarray, block_ptr: np.ndarray, log_alpha: np.ndarray):
        self.matrix, self.linear, self.block_ptr, self.log_alpha = matrix, linear, block_ptr, log_alpha
        self.refresh()

    def refresh(self) -> None:
        """Recompute what is kept incrementally."""
        self.alpha = np.exp(self.log_alpha)
        self.gradient = np.asarray(self.matrix @ self.alpha, np.float64) + self.linear

    def record(self, iterations: float) -> SimplexQPRecord:
        """Value and Frank–Wolfe gap; Σ s·α − Σ_blocks min s, block by block so that nothing cancels."""
        value = 0.5 * float(self.alpha @ (self.gradient + self.linear))
        lowest = np.minimum.reduceat(self.gradient, self.block_ptr[:-1])
        above = self.gradient - np.repeat(lowest, np.diff(self.block_ptr))
        return SimplexQPRecord(iterations, value, float(self.alpha @ above))

    def scale(self) -> float:
        linear = float(self.linear @ self.alpha)
        return max(abs(linear), 0.5 * abs(float(self.alpha @ self.gradient) - linear), 1e-300)


class _OnlinePasses:
    """One block after another, in a new random order every pass."""

    def __init__(self, run: _Run, step: str, random_state: int | np.random.Generator | None):
        self.run, self.random = run, random_generator(random_state)
        self.growth = _GROWTH if step == "adaptive" else 1.0
        self.quadratic = _by_rows(run.matrix)
        largest = np.maximum.reduceat(run.matrix.diagonal(), run.block_ptr[:-1])
        self.steps = 1.0 / np.maximum(largest, 1e-300)
        self.work, self.delta = np.zeros((2, len(run.alpha)))

    def __call__(self) -> float:
        """Returns the passes it took."""
        run, n = self.run, len(self.steps)
        order = self.random.permutation(n)
        tried = simplex_pass(
            self.quadratic, run.block_ptr, order, run.log_alpha, run.alpha, run.gradient,
            self.steps, self.growth, self.work, self.delta,
        )  # fmt: skip
        run.refresh()
        np.minimum(self.steps, 1e30, out=self.steps)
        return tried / n


class _BatchPasses:
    """All blocks at once, from the same gradient."""

    def __init__(self, run: _Run, step: str):
        self.run, self.adaptive = run, step == "adaptive"
        self.step = 1.0
        if not isinstance(run.matrix, LinearOperator):
            n = len(run.block_ptr) - 1
            self.step = 1.0 / max(n * float(run.matrix.diagonal().max()), 1e-300)

    def __call__(self) -> float:
        run, new = self.run, np.empty_like(self.run.log_alpha)
        tried = 0
        while tried < _MAX_HALVINGS:
            tried += 1
            divergence = log_softmax_of_all(run.log_alpha, run.gradient, self.step, run.block_ptr, new)
            delta = np.exp(new) - run.alpha
            image = np.asarray(run.matrix @ delta, np.float64)
            if not self.adaptive or 0.5 * self.step * float(delta @ image) <= divergence:
                break
            self.step *= 0.5
        else:
            return float(tried)
        run.log_alpha[:] = new
        run.refresh()
        if self.adaptive:
            self.step = min(self.step * _GROWTH, 1e30)
        return float(tried)


def iterate(
    run: Any,
    passes: Callable[[], float],
    tol: float,
    max_iterations: float,
    callback: Callable[[SimplexQPRecord], bool | None] | None,
) -> SimplexQPResult:
    """Passes until the gap, the iterations or the callback say stop. `run` has `alpha`, `record` and `scale`."""
    history = [run.record(0.0)]
    converged = stopped = False
    while not converged and not stopped:
        history.append(run.record(history[-1].iterations + passes()))
        converged = np.isfinite(history[-1].gap) and history[-1].gap <= tol * run.scale()
        stopped = history[-1].iterations >= max_iterations
        if callback is not None and callback(history[-1]):
            stopped = True
    iterations, value, gap = history[-1]
    return SimplexQPResult(run.alpha, value, value - gap, gap, converged, iterations, history)


def checked_blocks(block_sizes: Any) -> np.ndarray:
    sizes = np.asarray(block_sizes)
    if sizes.ndim != 1 or len(sizes) == 0 or sizes.dtype.kind not in "iu" or (sizes < 1).any():
        raise InputError("block_sizes must be a non-empty sequence of integers of at least 1")
    return offsets(sizes)


def _checked_vector(values: Any, name: str, size: int) -> np.ndarray:
    try:
        vector = np.array(values, np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} must be an array of numbers of shape ({size},)") from None
    if vector.shape != (size,):
        raise InputError(f"{name} has shape {vector.shape}, but block_sizes add up to {size}")
    if not np.isfinite(vector).all():
        raise InputError(f"{name} contains NaN or infinity")
    return vector


def _checked_matrix(A: Any, size: int, method: str, step: str) -> Any:
    """A as a float64 array, compressed rows, or the operator itself."""
    if isinstance(A, LinearOperator):
        if method != "batch":
            raise InputError("A is a LinearOperator, whose blocks cannot be read: use method='batch'")
        if step != "adaptive":
            raise InputError("A is a LinearOperator, whose largest entry is unknown: use step='adaptive'")
        matrix: Any = A
    elif sparse.issparse(A):
        matrix = sparse.csr_matrix(A, dtype=np.float64)
        matrix.sum_duplicates()
    else:
        try:
            matrix = np.ascontiguousarray(A, np.float64)
        except (TypeError, ValueError):
            raise InputError(f"A must be a matrix of numbers of shape ({size}, {size})") from None
    if matrix.shape != (size, size):
        raise InputError(f"A has shape {matrix.shape}, but block_sizes add up to {size}")
    if not isinstance(matrix, LinearOperator):
        _check_symmetric(matrix)
    return matrix


def _check_symmetric(matrix: Any) -> None:
    values = matrix.data if sparse.issparse(matrix) else matrix
    if not np.isfinite(values).all():
        raise InputError("A contains NaN or infinity")
    largest = abs(values).max(initial=0.0)
    if abs(matrix - matrix.T).max() > 1e-10 * largest:
        raise InputError("A must be symmetric: pass (A + A.T) / 2")
    diagonal = matrix.diagonal()
    if (diagonal < 0).any() or largest > (1 + 1e-10) * diagonal.max():
        raise InputError("A is not positive semi-definite: its largest entry must lie on the diagonal")


def _by_rows(matrix: Any) -> Quadratic:
    if sparse.issparse(matrix):
        row_ptr, column = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
        return Quadratic(np.zeros((0, 0)), row_ptr, column, matrix.data)
    nothing = np.zeros(0, np.int64)
    return Quadratic(matrix, nothing, nothing, np.zeros(0))


def starting_logs(start: Any, block_ptr: np.ndarray) -> np.ndarray:
    sizes = np.diff(block_ptr)
    if start is None:
        return np.repeat(-np.log(sizes), sizes)
    alpha = _checked_vector(start, "start", int(block_ptr[-1]))
    sums = np.add.reduceat(alpha, block_ptr[:-1])
    if (alpha < 0).any() or np.abs(sums - 1.0).max() > 1e-6:
        raise InputError("start must be non-negative and sum to one on every block")
    alpha = np.maximum(alpha, _LEAST)
    return np.log(alpha) - np.repeat(np.log(np.add.reduceat(alpha, block_ptr[:-1])), sizes)
