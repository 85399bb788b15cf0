# mypy: ignore-errors
"""The recursions of `eisner/sums.py` on logarithms, for scores too far apart for products of weights."""

from __future__ import annotations

import math

import numpy as np

from partwise.compiled.dispatch import inner


@inner
def log_add(a, b):  # type: ignore
    """log(exp a + exp b)."""
    if a < b:
        a, b = b, a
    return a if b == -np.inf else a + math.log1p(math.exp(b - a))


@inner(allocates=True)
def projective_charts_in_logs(n, first_row, stride, scores):  # type: ignore
    """Log-partition, and the logarithms of R, L, I→ and I← as arrays [i, j]."""
    right = np.full((n + 1, n + 1), -np.inf)
    left, inner_right, inner_left = right.copy(), right.copy(), right.copy()
    for i in range(n, first_row - 1, -1):
        right[i, i] = left[i, i] = 0.0
        for j in range(i + 1, n + 1):
            half = -np.inf
            for k in range(i, j):
                half = log_add(half, right[i, k] + left[k + 1, j])
            inner_right[i, j] = scores[j * stride + i] + half
            inner_left[i, j] = scores[i * stride + j] + half if i > 0 else -np.inf
            for k in range(i + 1, j + 1):
                right[i, j] = log_add(right[i, j], inner_right[i, k] + right[k, j])
            for k in range(i, j):
                left[i, j] = log_add(left[i, j], left[i, k] + inner_left[k, j])
    total = right[0, n]
    if first_row > 0:
        total = -np.inf
        for r in range(1, n + 1):
            total = log_add(total, scores[r * stride] + left[1, r] + right[r, n])
    return total, right, left, inner_right, inner_left


@inner(allocates=True)
def projective_marginals_in_logs(n, first_row, stride, scores, marginals):  # type: ignore
    """Log-partition; fills `marginals` by [modifier, head] unless it is −inf."""
    total, right, left, inner_right, inner_left = projective_charts_in_logs(n, first_row, stride, scores)
    if total == -np.inf:
        return total
    for j in range((n + 1) * stride):
        marginals[j] = 0.0
    to_right, to_left = np.full((n + 1, n + 1), -np.inf), np.full((n + 1, n + 1), -np.inf)
    to_inner = np.full((n + 1, n + 1), -np.inf)
    if first_row == 0:
        to_right[0, n] = -total
    else:
        for r in range(1, n + 1):
            to_right[r, n] = scores[r * stride] + left[1, r] - total
            to_left[1, r] = scores[r * stride] + right[r, n] - total
            marginals[r * stride] = math.exp(to_right[r, n] + right[r, n])
    for i in range(first_row, n + 1):
        for j in range(n, i, -1):
            inner = to_right[i, j]
            for k in range(j + 1, n + 1):
                inner = log_add(inner, to_right[i, k] + right[j, k])
            other = log_add(to_inner[i, j], to_left[i, j])
            marginals[j * stride + i] = math.exp(inner + inner_right[i, j])
            half = inner + scores[j * stride + i]
            if i > 0:
                marginals[i * stride + j] = math.exp(other + inner_left[i, j])
                half = log_add(half, other + scores[i * stride + j])
            for k in range(i, j):
                to_right[i, k] = log_add(to_right[i, k], half + left[k + 1, j])
                to_left[k + 1, j] = log_add(to_left[k + 1, j], half + right[i, k])
                to_left[i, k] = log_add(to_left[i, k], to_left[i, j] + inner_left[k, j])
            for k in range(i + 1, j):
                to_right[k, j] = log_add(to_right[k, j], to_right[i, j] + inner_right[i, k])
                to_inner[k, j] = log_add(to_inner[k, j], to_left[i, j] + left[i, k])
    for m in range(1, n + 1):
        share = 0.0
        for h in range(n + 1):
            share += marginals[m * stride + h]
        for h in range(n + 1):
            marginals[m * stride + h] /= share
    return total
