# mypy: ignore-errors
"""Anderson acceleration of a fixed-point iteration x → g(x) (Anderson 1965; Walker and Ni 2011, unconstrained form).

The next point is the combination of the last few g with the smallest combined residual g − x.
"""

from __future__ import annotations

import math

from partwise.compiled.dispatch import inner

# Earlier points that are combined.
DEPTH = 5
# Added to the diagonal of the normal equations, relative to their trace, so that they are never singular.
_RIDGE = 1e-13
# A combination is rejected if its coefficients add up to more in absolute value, or if one is NaN.
_LARGEST = 1e6


def history_size(n: int) -> int:
    """Entries of `history` for vectors of n: last residual and g, their differences, and small tables."""
    return (2 + 2 * DEPTH) * n + DEPTH * (2 * DEPTH + 1)


@inner
def combine(x, g, n, k, history):  # type: ignore
    """Replace g by the accelerated point.

    Parameters
    ----------
    x : ndarray (n,)
        The point that g was computed from. Overwritten.
    k : int
        Points in the history. 0 starts a new history and leaves g unchanged.
    """
    last_f, last_g, f_at, g_at = 0, n, 2 * n, (2 + DEPTH) * n
    small = (2 + 2 * DEPTH) * n
    for j in range(n):
        x[j] = g[j] - x[j]  # the residual
    if k > 0:
        row = (k - 1) % DEPTH
        for j in range(n):
            history[f_at + row * n + j] = x[j] - history[last_f + j]
            history[g_at + row * n + j] = g[j] - history[last_g + j]
    for j in range(n):
        history[last_f + j] = x[j]
    for j in range(n):
        history[last_g + j] = g[j]
    count = min(k, DEPTH)
    if count == 0:
        return
    _normal_equations(x, n, count, (k - 1) % DEPTH, f_at, small, history)
    if not _solve(count, small, history):
        return
    for i in range(count):
        amount = history[small + 2 * DEPTH * DEPTH + i]
        for j in range(n):
            g[j] -= amount * history[g_at + i * n + j]


@inner
def _normal_equations(x, n, count, row, f_at, small, history):  # type: ignore
    """Update the products of differences: only those with the newest `row` change."""
    newest = f_at + row * n
    for i in range(count):
        product, right, own = 0.0, 0.0, f_at + i * n
        for j in range(n):
            product += history[own + j] * history[newest + j]
            right += history[own + j] * x[j]
        history[small + i * DEPTH + row] = product
        history[small + row * DEPTH + i] = product
        history[small + 2 * DEPTH * DEPTH + i] = right
    trace, factor = 0.0, small + DEPTH * DEPTH
    for i in range(count):
        trace += history[small + i * DEPTH + i]
    for i in range(count):
        for k in range(count):
            history[factor + i * DEPTH + k] = history[small + i * DEPTH + k]
        history[factor + i * DEPTH + i] += _RIDGE * trace


@inner
def _solve(count, small, history):  # type: ignore
    """Solve by Cholesky. Returns False if that fails or gives too large coefficients."""
    right, small = small + 2 * DEPTH * DEPTH, small + DEPTH * DEPTH
    for i in range(count):
        for k in range(i + 1):
            total = history[small + i * DEPTH + k]
            for r in range(k):
                total -= history[small + i * DEPTH + r] * history[small + k * DEPTH + r]
            if i == k:
                if not total > 0.0:
                    return False
                history[small + i * DEPTH + i] = math.sqrt(total)
            else:
                history[small + i * DEPTH + k] = total / history[small + k * DEPTH + k]
    for i in range(count):
        total = history[right + i]
        for r in range(i):
            total -= history[small + i * DEPTH + r] * history[right + r]
        history[right + i] = total / history[small + i * DEPTH + i]
    for i in range(count - 1, -1, -1):
        total = history[right + i]
        for r in range(i + 1, count):
            total -= history[small + r * DEPTH + i] * history[right + r]
        history[right + i] = total / history[small + i * DEPTH + i]
    total = 0.0
    for i in range(count):
        total += abs(history[right + i])
    return total < _LARGEST
