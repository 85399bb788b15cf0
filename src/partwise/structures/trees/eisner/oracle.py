# mypy: ignore-errors
"""The oracle of projective trees: `recursion.py` on scaled weights, on logarithms if these underflow, and on maxima.

Every word has one head, so each word's weights can be scaled. They are divided by their maximum and by at most 6.75,
the growth rate of the number of trees. Products of weights are then at most one, and underflow loses at most the number
of trees times the smallest number.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from partwise.compiled.boundary import Integers, Reals
from partwise.compiled.dispatch import fragment, inner
from partwise.compiled.simd import exponential_row, maximum
from partwise.compiled.simd_rows import LANES
from partwise.structures.semirings import BEST, LINEAR, LOGS, MAXIMA, Drawn
from partwise.structures.trees.arc_tables import (
    arc_log_partition,
    arc_marginals,
    best_heads,
    stride_of,
    tree_oracle,
    tree_workspace,
)
from partwise.structures.trees.eisner.recursion import inside, outside, trace

# The number of projective trees of n words is below the n-th power of this.
GROWTH = 6.75
# Log of the smallest normal number divided by 1e-17, the relative error that a sum may have from underflow.
_LOG_LOSS = -668.0


class ProjectiveSpecification(NamedTuple):
    """Projective trees. Arcs have one of `n_relations` relations."""

    n_relations: int
    single_root: bool


class ProjectiveWorkspace(NamedTuple):
    """Square tables in rows of ``stride_of(n)`` numbers, and single rows.

    Attributes
    ----------
    scores, weights, marginals : ndarray
        Arcs by [modifier, head].
    right, left, inner_left, inner_right : ndarray
        R, L, I← and I→ by [i, j].
    right_columns, left_columns, inner_columns : ndarray
        R, L (moved by one row) and I← by [j, i].
    right_outside, left_outside, inner_outside : ndarray
        Derivatives of log Z by R, L and I←.
    row, other_row, third_row, relations : ndarray
        Partial sums of a row, and one padded row of relations.
    heads : ndarray (n + 1,) of int64
    """

    scores: Reals
    weights: Reals
    marginals: Reals
    right: Reals
    left: Reals
    inner_left: Reals
    inner_right: Reals
    right_columns: Reals
    left_columns: Reals
    inner_columns: Reals
    right_outside: Reals
    left_outside: Reals
    inner_outside: Reals
    row: Reals
    other_row: Reals
    third_row: Reals
    relations: Reals
    heads: Integers


@tree_workspace.register(ProjectiveSpecification)
@inner(allocates=True)
def projective_workspace(specification, longest):  # type: ignore
    stride = (longest + LANES) & ~(LANES - 1)  # as `stride_of`; also called from Python
    size = (longest + 2) * stride
    buffer = np.empty(13 * size + 4 * stride + specification.n_relations + 3 * LANES)
    # Rows on whole cache lines.
    first = (-(buffer.ctypes.data // 8)) % LANES
    rows = first + 13 * size
    return ProjectiveWorkspace(
        buffer[first : first + size],
        buffer[first + size : first + 2 * size],
        buffer[first + 2 * size : first + 3 * size],
        buffer[first + 3 * size : first + 4 * size],
        buffer[first + 4 * size : first + 5 * size],
        buffer[first + 5 * size : first + 6 * size],
        buffer[first + 6 * size : first + 7 * size],
        buffer[first + 7 * size : first + 8 * size],
        buffer[first + 8 * size : first + 9 * size],
        buffer[first + 9 * size : first + 10 * size],
        buffer[first + 10 * size : first + 11 * size],
        buffer[first + 11 * size : first + 12 * size],
        buffer[first + 12 * size : first + 13 * size],
        buffer[rows : rows + stride],
        buffer[rows + stride : rows + 2 * stride],
        buffer[rows + 2 * stride : rows + 3 * stride],
        buffer[rows + 3 * stride :],
        np.empty(longest + 1, np.int64),
    )


@inner
def projective_weights(n, work):  # type: ignore
    """Fill scaled weights from scores. Returns the log of the product of scales, NaN if a word has no head."""
    stride = stride_of(n)
    shifts, product = 0.0, 1.0
    for j in range(stride):
        work.weights[j] = 0.0
    for m in range(1, n + 1):
        shift = maximum(work.scores, m * stride, n + 1)
        if shift == -np.inf:
            return np.nan
        exponential_row(work.weights, m * stride, work.scores, m * stride, n + 1, stride, shift)
        total = 0.0
        for j in range(stride):
            total += work.weights[m * stride + j]
        scale = min(total, GROWTH)
        inverse = 1.0 / scale
        for j in range(stride):
            work.weights[m * stride + j] *= inverse
        shifts += shift
        product *= scale
        if product > 1e200:
            shifts += math.log(product)
            product = 1.0
    return shifts + math.log(product)


@fragment
def nothing_lost(n, total):  # type: ignore
    """Whether trees whose weight underflowed are negligible. False for NaN, infinity and zero."""
    return 0.0 < total < np.inf and math.log(total) > n * math.log(GROWTH) + _LOG_LOSS


@arc_marginals.register(ProjectiveSpecification)
@inner
def projective_marginals(specification, n, work):  # type: ignore
    first_row = 1 if specification.single_root else 0
    shifts = projective_weights(n, work)
    if shifts == shifts:
        total = inside(LINEAR, work.weights, n, first_row, True, work)
        if nothing_lost(n, total):
            outside(LINEAR, work.weights, n, first_row, total, work)
            return shifts + math.log(total)
    return marginals_in_logs(n, first_row, work)


@inner
def marginals_in_logs(n, first_row, work):  # type: ignore
    """As :func:`projective_marginals`, for any scores."""
    total = inside(LOGS, work.scores, n, first_row, True, work)
    if total > -np.inf:
        outside(LOGS, work.scores, n, first_row, total, work)
    return total


@arc_log_partition.register(ProjectiveSpecification)
@inner
def projective_log_partition(specification, n, work):  # type: ignore
    first_row = 1 if specification.single_root else 0
    shifts = projective_weights(n, work)
    if shifts == shifts:
        total = inside(LINEAR, work.weights, n, first_row, False, work)
        if nothing_lost(n, total):
            return shifts + math.log(total)
    return inside(LOGS, work.scores, n, first_row, False, work)


@best_heads.register(ProjectiveSpecification)
@inner
def projective_best_heads(specification, n, work):  # type: ignore
    first_row, stride = 1 if specification.single_root else 0, stride_of(n)
    if inside(MAXIMA, work.scores, n, first_row, False, work) == -np.inf:
        return -np.inf
    trace(MAXIMA, BEST, work.scores, n, first_row, work)
    total = 0.0
    for m in range(1, n + 1):
        total += work.scores[m * stride + work.heads[m]]
    return total


@inner
def sample_heads(specification, n, uniforms, heads, work):  # type: ignore
    """Fill `heads` (n_samples, n) from `uniforms` (n_samples, 3 n). Returns −inf if no tree is possible."""
    first_row = 1 if specification.single_root else 0
    shifts = projective_weights(n, work)
    if shifts == shifts and nothing_lost(n, inside(LINEAR, work.weights, n, first_row, False, work)):
        _draw(LINEAR, work.weights, n, first_row, uniforms, heads, work)
        return 0.0
    if inside(LOGS, work.scores, n, first_row, False, work) == -np.inf:
        return -np.inf
    _draw(LOGS, work.scores, n, first_row, uniforms, heads, work)
    return 0.0


@inner
def _draw(semiring, weights, n, first_row, uniforms, heads, work):  # type: ignore
    for sample in range(heads.shape[0]):
        trace(semiring, Drawn(uniforms[sample]), weights, n, first_row, work)
        for m in range(1, n + 1):
            heads[sample, m - 1] = work.heads[m]


PROJECTIVE = tree_oracle("projective", ProjectiveSpecification, ProjectiveWorkspace)
