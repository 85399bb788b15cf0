# mypy: ignore-errors
"""The best projective tree: the recursion of `eisner/sums.py` with max and + for + and ×."""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import fragment, inner
from partwise.compiled.simd_rows import LANES, raise_to
from partwise.structures.trees.arc_tables import stride_of


@inner
def projective_viterbi(n, first_row, work):  # type: ignore
    """Fill ``work.heads`` from ``work.scores``; returns the largest score, −inf where there is no tree."""
    _best_charts(n, first_row, work)
    stride = stride_of(n)
    if first_row == 0:
        if work.right[n] == -np.inf:
            return -np.inf
        _trace(n, work, 0, n, 1)
    else:
        root, top = 0, -np.inf
        for r in range(1, n + 1):
            score = work.scores[r * stride] + work.left[stride + r] + work.right[r * stride + n]
            if score > top:
                root, top = r, score
        if root == 0:
            return -np.inf
        work.heads[root] = 0
        _trace(n, work, 1, root, 0)
        _trace(n, work, root, n, 1)
    total = 0.0
    for m in range(1, n + 1):
        total += work.scores[m * stride + work.heads[m]]
    return total


@fragment
def _best_charts(n, first_row, work):  # type: ignore
    stride = stride_of(n)
    right, left, inner, scores = work.right, work.left, work.inner_left, work.scores
    # Finished entries go to the charts, unfinished ones to these: a number just stored is slow to load in a vector.
    halves, to_right, to_left = work.row, work.other_row, work.third_row
    for i in range(n, first_row - 1, -1):
        here, begin = i * stride, i & ~(LANES - 1)
        for j in range(begin, stride):
            halves[j] = -np.inf
            to_right[j] = -np.inf
            to_left[j] = -np.inf
            right[here + j] = -np.inf
            left[here + j] = -np.inf
            inner[here + j] = -np.inf
        right[here + i] = 0.0
        left[here + i] = 0.0
        if i < n:
            at = (i + 1) & ~(LANES - 1)
            raise_to(halves, at, 0.0, left, (i + 1) * stride + at, stride - at)
        for k in range(i + 1, n + 1):
            t = halves[k]
            inner_right = scores[k * stride + i] + t
            inner_left = scores[here + k] + t if i > 0 else -np.inf
            r = max(to_right[k], inner_right)
            l = max(to_left[k], inner_left)
            right[here + k] = r
            left[here + k] = l
            inner[here + k] = inner_left
            work.inner_right[here + k] = inner_right
            if k < n:
                at = (k + 1) & ~(LANES - 1)
                raise_to(halves, at, r, left, (k + 1) * stride + at, stride - at)
                raise_to(to_right, at, inner_right, right, k * stride + at, stride - at)
                raise_to(to_left, at, l, inner, k * stride + at, stride - at)


@inner(allocates=True)
def _trace(n, work, first, last, kind):  # type: ignore
    """Write the heads inside a span whose head is its right end (kind 0) or left end (kind 1).

    An agenda of spans; every split is found again as the best of its alternatives.
    """
    stride = stride_of(n)
    right, left, inner, inner_right = work.right, work.left, work.inner_left, work.inner_right
    spans = np.empty((2 * n + 4, 3), np.int64)
    spans[0, 0], spans[0, 1], spans[0, 2] = first, last, kind
    count = 1
    while count > 0:
        count -= 1
        i, j, kind = spans[count, 0], spans[count, 1], spans[count, 2]
        if i == j:
            continue
        split, top = -1, -np.inf
        if kind == 1:
            for k in range(i + 1, j + 1):
                score = inner_right[i * stride + k] + right[k * stride + j]
                if score > top:
                    split, top = k, score
            work.heads[split] = i
            spans[count, 0], spans[count, 1], spans[count, 2] = split, j, 1
            low, high = i, split
        else:
            for k in range(i, j):
                score = left[i * stride + k] + inner[k * stride + j]
                if score > top:
                    split, top = k, score
            work.heads[split] = j
            spans[count, 0], spans[count, 1], spans[count, 2] = i, split, 0
            low, high = split, j
        count += 1
        meeting, top = -1, -np.inf
        for k in range(low, high):
            score = right[low * stride + k] + left[(k + 1) * stride + high]
            if score > top:
                meeting, top = k, score
        spans[count, 0], spans[count, 1], spans[count, 2] = low, meeting, 1
        spans[count + 1, 0], spans[count + 1, 1], spans[count + 1, 2] = meeting + 1, high, 0
        count += 2
