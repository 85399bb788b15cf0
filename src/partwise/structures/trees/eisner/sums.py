# mypy: ignore-errors
"""Sums over projective trees: Eisner's algorithm, inside and outside, on rows of numbers.

Words are 1 … n, the root is 0, and arcs have weights w(h → m). The items are those of Eisner (1996):

    T(i, j)  = Σ_{i≤k<j} R(i, k) L(k+1, j)                  two halves that meet
    I→(i, j) = w(i → j) T(i, j),   I←(i, j) = w(j → i) T(i, j)
    R(i, j)  = Σ_{i<k≤j} I→(i, k) R(k, j)                   i has all its modifiers up to j
    L(i, j)  = Σ_{i≤k<j} L(i, k) I←(k, j)                   j has all its modifiers down to i

Rows of every chart are filled from the last to the first, each from left to right. A finished entry is multiplied into
the rest of its row, so all operations are "row += number · row" on whole vectors. The outside pass takes the same steps
in reverse order, on rows of transposed charts. With several roots, 0 is the first row. With a single root,
Z = Σ_r w(0 → r) L(1, r) R(r, n).

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
from partwise.compiled.simd_rows import LANES, add_scaled
from partwise.structures.trees.arc_tables import (
    arc_log_partition,
    arc_marginals,
    best_heads,
    stride_of,
    tree_oracle,
    tree_workspace,
)
from partwise.structures.trees.eisner.logs import projective_marginals_in_logs
from partwise.structures.trees.eisner.maxima import projective_viterbi

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
def _clear_columns(n, stride, work):  # type: ignore
    """Zero the transposed charts' vectors that are only partly filled, and set L(j, j) = 1."""
    for j in range(1, n + 1):
        here = j * stride
        for begin in (0, j & ~(LANES - 1)):
            for k in range(here + begin, here + begin + LANES):
                work.right_columns[k] = 0.0
                work.left_columns[k] = 0.0
                work.inner_columns[k] = 0.0
        work.left_columns[here + j - 1] = 1.0


@inner
def projective_inside(n, first_row, transposed, work):  # type: ignore
    """Fill the charts. Returns Z of the scaled weights. `first_row` is 0 for several roots, 1 for a single root."""
    stride = stride_of(n)
    right, left, inner, weights = work.right, work.left, work.inner_left, work.weights
    # Partial sums are in rows of their own: loading a vector right after storing one of its entries is slow.
    halves, to_right, to_left = work.row, work.other_row, work.third_row
    if transposed:
        _clear_columns(n, stride, work)
    for i in range(n, first_row - 1, -1):
        here, begin = i * stride, i & ~(LANES - 1)
        for j in range(begin, stride):
            halves[j] = 0.0
            to_right[j] = 0.0
            to_left[j] = 0.0
            right[here + j] = 0.0
            left[here + j] = 0.0
            inner[here + j] = 0.0
        right[here + i] = 1.0
        left[here + i] = 1.0
        if i < n:
            at = (i + 1) & ~(LANES - 1)
            add_scaled(halves, at, 1.0, left, (i + 1) * stride + at, stride - at)
        for k in range(i + 1, n + 1):
            t = halves[k]
            inner_right = weights[k * stride + i] * t
            inner_left = weights[here + k] * t
            r = to_right[k] + inner_right
            l = to_left[k] + inner_left
            right[here + k] = r
            left[here + k] = l
            inner[here + k] = inner_left
            work.inner_right[here + k] = inner_right
            if k < n:
                at = (k + 1) & ~(LANES - 1)
                add_scaled(halves, at, r, left, (k + 1) * stride + at, stride - at)
                add_scaled(to_right, at, inner_right, right, k * stride + at, stride - at)
                add_scaled(to_left, at, l, inner, k * stride + at, stride - at)
            if transposed:
                # R(k, k) = 1 is omitted: the outside pass adds it separately.
                work.right_columns[k * stride + i] = r
                work.inner_columns[k * stride + i] = inner_left
                if i > 0:
                    work.left_columns[k * stride + i - 1] = l
    if first_row == 0:
        return right[n]
    total = 0.0
    for r in range(1, n + 1):
        total += weights[r * stride] * left[stride + r] * right[r * stride + n]
    return total


@fragment
def _outside_starts(n, first_row, total, work):  # type: ignore
    """Derivatives of log Z by the items that it sums, zeros elsewhere. Marginals of root arcs for a single root."""
    stride, weights = stride_of(n), work.weights
    inverse = 1.0 / total
    for i in range(first_row, n + 1):
        for j in range(i * stride + (i & ~(LANES - 1)), (i + 1) * stride):
            work.right_outside[j] = 0.0
            work.left_outside[j] = 0.0
            work.inner_outside[j] = 0.0
        for j in range(i * stride, (i + 1) * stride):
            work.marginals[j] = 0.0
    if first_row == 0:
        work.right_outside[n] = inverse
        return
    for r in range(1, n + 1):
        weight = weights[r * stride] * inverse
        work.right_outside[r * stride + n] = weight * work.left[stride + r]
        work.left_outside[stride + r] = weight * work.right[r * stride + n]
        work.marginals[r * stride] = weight * work.left[stride + r] * work.right[r * stride + n]


@inner
def projective_outside(n, first_row, total, work):  # type: ignore
    """Fill the marginals of all arcs by the chain rule, row by row in reverse order."""
    stride, weights = stride_of(n), work.weights
    right, left, inner = work.right_outside, work.left_outside, work.inner_outside
    halves, inner_right = work.row, work.other_row
    _outside_starts(n, first_row, total, work)
    for i in range(first_row, n + 1):
        here, begin = i * stride, i & ~(LANES - 1)
        for j in range(begin, stride):
            halves[j] = 0.0
            inner_right[j] = 0.0
        for j in range(n, i, -1):
            r, l = right[here + j], left[here + j]
            to_right, to_left = inner_right[j] + r, inner[here + j] + l
            half = to_right * weights[j * stride + i] + to_left * weights[here + j]
            halves[j] = half
            work.marginals[j * stride + i] = to_right * work.inner_right[here + j]
            work.marginals[here + j] = to_left * work.inner_left[here + j]
            at, width = j * stride + begin, ((j + LANES - 1) & ~(LANES - 1)) - begin
            add_scaled(right, here + begin, half, work.left_columns, at, width)
            add_scaled(inner_right, begin, r, work.right_columns, at, width)
            add_scaled(left, here + begin, l, work.inner_columns, at, width)
        for k in range(i, n):
            at = (k + 1) & ~(LANES - 1)
            width = stride - at
            add_scaled(left, (k + 1) * stride + at, work.right[here + k], halves, at, width)
            if k > i:
                add_scaled(right, k * stride + at, work.inner_right[here + k], right, here + at, width)
                add_scaled(inner, k * stride + at, work.left[here + k], left, here + at, width)
    for m in range(1, n + 1):
        total = 0.0
        for h in range(n + 1):
            total += work.marginals[m * stride + h]
        inverse = 1.0 / total
        for h in range(n + 1):
            work.marginals[m * stride + h] *= inverse


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
        total = projective_inside(n, first_row, True, work)
        if nothing_lost(n, total):
            projective_outside(n, first_row, total, work)
            return shifts + math.log(total)
    return projective_marginals_in_logs(n, first_row, stride_of(n), work.scores, work.marginals)


@arc_log_partition.register(ProjectiveSpecification)
@inner
def projective_log_partition(specification, n, work):  # type: ignore
    first_row = 1 if specification.single_root else 0
    shifts = projective_weights(n, work)
    if shifts == shifts:
        total = projective_inside(n, first_row, False, work)
        if nothing_lost(n, total):
            return shifts + math.log(total)
    return projective_marginals_in_logs(n, first_row, stride_of(n), work.scores, work.marginals)


@best_heads.register(ProjectiveSpecification)
@inner
def projective_best_heads(specification, n, work):  # type: ignore
    first_row = 1 if specification.single_root else 0
    return projective_viterbi(n, first_row, work)


PROJECTIVE = tree_oracle("projective", ProjectiveSpecification, ProjectiveWorkspace)
