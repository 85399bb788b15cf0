# mypy: ignore-errors
"""Eisner's algorithm (1996) for projective trees, over any semiring: inside, outside, and the way back to a tree.

Words are 1 … n, the root is 0, and arcs have weights w(h → m). The items are those of the paper:

    T(i, j)  = Σ_{i≤k<j} R(i, k) L(k+1, j)                  two halves that meet
    I→(i, j) = w(i → j) T(i, j),   I←(i, j) = w(j → i) T(i, j)
    R(i, j)  = Σ_{i<k≤j} I→(i, k) R(k, j)                   i has all its modifiers up to j
    L(i, j)  = Σ_{i≤k<j} L(i, k) I←(k, j)                   j has all its modifiers down to i

Rows of every chart are filled from the last to the first, each from left to right. A finished entry is multiplied into
the rest of its row, so all operations are "row += number · row" on whole vectors. The outside pass takes the same steps
in reverse order, on rows of transposed charts. With several roots, 0 is the first row. With a single root,
Z = Σ_r w(0 → r) L(1, r) R(r, n).
"""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import fragment, inner
from partwise.compiled.simd_rows import LANES
from partwise.structures.semirings import add_row, choose, number_of, plus, ratio, times
from partwise.structures.trees.arc_tables import stride_of


@fragment
def _clear_columns(semiring, n, stride, work):  # type: ignore
    """Zero the transposed charts' vectors that are only partly filled, and set L(j, j) = 1."""
    for j in range(1, n + 1):
        here = j * stride
        for begin in (0, j & ~(LANES - 1)):
            for k in range(here + begin, here + begin + LANES):
                work.right_columns[k] = semiring.zero
                work.left_columns[k] = semiring.zero
                work.inner_columns[k] = semiring.zero
        work.left_columns[here + j - 1] = semiring.one


@inner
def inside(semiring, weights, n, first_row, transposed, work):  # type: ignore
    """Fill the charts. Returns Z. `first_row` is 0 for several roots, 1 for a single root.

    `weights` by [modifier, head] are numbers of the semiring. `transposed` also fills the charts for :func:`outside`.
    """
    stride, zero, one = stride_of(n), semiring.zero, semiring.one
    right, left, inner_left = work.right, work.left, work.inner_left
    # Partial sums are in rows of their own: loading a vector right after storing one of its entries is slow.
    halves, to_right, to_left = work.row, work.other_row, work.third_row
    if transposed:
        _clear_columns(semiring, n, stride, work)
    for i in range(n, first_row - 1, -1):
        here, begin = i * stride, i & ~(LANES - 1)
        for j in range(begin, stride):
            halves[j] = zero
            to_right[j] = zero
            to_left[j] = zero
            right[here + j] = zero
            left[here + j] = zero
            inner_left[here + j] = zero
        right[here + i] = one
        left[here + i] = one
        if i < n:
            add_row(semiring, halves, 0, one, left, (i + 1) * stride, i + 1, n + 1)
        for k in range(i + 1, n + 1):
            t = halves[k]
            right_item = times(semiring, weights[k * stride + i], t)
            left_item = times(semiring, weights[here + k], t)
            r = plus(semiring, to_right[k], right_item)
            l = plus(semiring, to_left[k], left_item)
            right[here + k] = r
            left[here + k] = l
            inner_left[here + k] = left_item
            work.inner_right[here + k] = right_item
            if k < n:
                add_row(semiring, halves, 0, r, left, (k + 1) * stride, k + 1, n + 1)
                add_row(semiring, to_right, 0, right_item, right, k * stride, k + 1, n + 1)
                add_row(semiring, to_left, 0, l, inner_left, k * stride, k + 1, n + 1)
            if transposed:
                # R(k, k) = 1 is omitted: the outside pass adds it separately.
                work.right_columns[k * stride + i] = r
                work.inner_columns[k * stride + i] = left_item
                if i > 0:
                    work.left_columns[k * stride + i - 1] = l
    if first_row == 0:
        return right[n]
    total = zero
    for r in range(1, n + 1):
        total = plus(semiring, total, _trees_below(semiring, weights, n, stride, r, work))
    return total


@fragment
def _trees_below(semiring, weights, n, stride, r, work):  # type: ignore
    """All trees whose single root is word r."""
    halves = times(semiring, work.left[stride + r], work.right[r * stride + n])
    return times(semiring, weights[r * stride], halves)


@fragment
def _outside_starts(semiring, weights, n, first_row, total, work):  # type: ignore
    """Derivatives of log Z by the items that it sums, zeros elsewhere. Marginals of root arcs for a single root."""
    stride = stride_of(n)
    for i in range(first_row, n + 1):
        for j in range(i * stride + (i & ~(LANES - 1)), (i + 1) * stride):
            work.right_outside[j] = semiring.zero
            work.left_outside[j] = semiring.zero
            work.inner_outside[j] = semiring.zero
        for j in range(i * stride, (i + 1) * stride):
            work.marginals[j] = 0.0
    if first_row == 0:
        work.right_outside[n] = ratio(semiring, semiring.one, total)
        return
    for r in range(1, n + 1):
        weight = ratio(semiring, weights[r * stride], total)
        to_right, to_left = times(semiring, weight, work.left[stride + r]), work.right[r * stride + n]
        work.right_outside[r * stride + n] = to_right
        work.left_outside[stride + r] = times(semiring, weight, to_left)
        work.marginals[r * stride] = number_of(semiring, times(semiring, to_right, to_left))


@inner
def outside(semiring, weights, n, first_row, total, work):  # type: ignore
    """Fill the marginals of all arcs by the chain rule, row by row in reverse order."""
    stride = stride_of(n)
    right, left, inner_left = work.right_outside, work.left_outside, work.inner_outside
    halves, inner_right = work.row, work.other_row
    _outside_starts(semiring, weights, n, first_row, total, work)
    for i in range(first_row, n + 1):
        here, begin = i * stride, i & ~(LANES - 1)
        for j in range(begin, stride):
            halves[j] = semiring.zero
            inner_right[j] = semiring.zero
        for j in range(n, i, -1):
            r, l = right[here + j], left[here + j]
            to_right, to_left = plus(semiring, inner_right[j], r), plus(semiring, inner_left[here + j], l)
            half = plus(
                semiring,
                times(semiring, to_right, weights[j * stride + i]),
                times(semiring, to_left, weights[here + j]),
            )
            halves[j] = half
            arc = times(semiring, to_right, work.inner_right[here + j])
            work.marginals[j * stride + i] = number_of(semiring, arc)
            arc = times(semiring, to_left, work.inner_left[here + j])
            work.marginals[here + j] = number_of(semiring, arc)
            add_row(semiring, right, here, half, work.left_columns, j * stride, i, j)
            add_row(semiring, inner_right, 0, r, work.right_columns, j * stride, i, j)
            add_row(semiring, left, here, l, work.inner_columns, j * stride, i, j)
        for k in range(i, n):
            add_row(semiring, left, (k + 1) * stride, work.right[here + k], halves, 0, k + 1, n + 1)
            if k > i:
                add_row(semiring, right, k * stride, work.inner_right[here + k], right, here, k + 1, n + 1)
                add_row(semiring, inner_left, k * stride, work.left[here + k], left, here, k + 1, n + 1)
    for m in range(1, n + 1):
        total = 0.0
        for h in range(n + 1):
            total += work.marginals[m * stride + h]
        inverse = 1.0 / total
        for h in range(n + 1):
            work.marginals[m * stride + h] *= inverse


@inner(allocates=True)
def trace(semiring, how, weights, n, first_row, work):  # type: ignore
    """Fill ``work.heads`` with one tree from the charts of :func:`inside`: the best (``BEST``) or a sample (``Drawn``).

    Spans are split from the outside in. A span has its head at its left end (kind 1) or at its right end (kind 0).
    """
    stride, row = stride_of(n), work.row
    spans, count, used = np.empty((2 * n + 4, 3), np.int64), 1, 0
    spans[0, 0], spans[0, 1], spans[0, 2] = 0, n, 1
    if first_row > 0:
        for r in range(1, n + 1):
            row[r - 1] = _trees_below(semiring, weights, n, stride, r, work)
        root = 1 + choose(how, semiring, row, n, 0)
        work.heads[root] = 0
        spans[0, 0], spans[0, 1], spans[0, 2] = 1, root, 0
        spans[1, 0], spans[1, 1], spans[1, 2] = root, n, 1
        count, used = 2, 1
    while count > 0:
        count -= 1
        i, j, kind = spans[count, 0], spans[count, 1], spans[count, 2]
        if i == j:
            continue
        if kind == 1:
            for k in range(i + 1, j + 1):
                row[k - i - 1] = times(semiring, work.inner_right[i * stride + k], work.right[k * stride + j])
            split = i + 1 + choose(how, semiring, row, j - i, used)
            work.heads[split] = i
            spans[count, 0], spans[count, 1], spans[count, 2] = split, j, 1
            low, high = i, split
        else:
            for k in range(i, j):
                row[k - i] = times(semiring, work.left[i * stride + k], work.inner_left[k * stride + j])
            split = i + choose(how, semiring, row, j - i, used)
            work.heads[split] = j
            spans[count, 0], spans[count, 1], spans[count, 2] = i, split, 0
            low, high = split, j
        for k in range(low, high):
            row[k - low] = times(semiring, work.right[low * stride + k], work.left[(k + 1) * stride + high])
        meeting = low + choose(how, semiring, row, high - low, used + 1)
        spans[count + 1, 0], spans[count + 1, 1], spans[count + 1, 2] = low, meeting, 1
        spans[count + 2, 0], spans[count + 2, 1], spans[count + 2, 2] = meeting + 1, high, 0
        count, used = count + 3, used + 2
