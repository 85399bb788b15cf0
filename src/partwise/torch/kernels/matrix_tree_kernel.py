# mypy: ignore-errors
"""Sums over spanning trees on a GPU, one program a sentence: the inverse of the Laplacian (Koo et al. 2007).

With w(h, m) = exp(score − largest score of m), which is 1 at most, words h, m from 1 to n and the root 0:

    any number of words under the root:  L(h, m) = −w(h, m),  L(m, m) = Σ_{h ≥ 0} w(h, m)
    one word under the root:             L(m, m) = Σ_{h ≥ 1} w(h, m),  and the row of the first word is w(0, m)

    Z = det L,   μ(0, m) = w(0, m) K(m, 1) or w(0, m) K(m, m),   μ(h, m) = w(h, m) ( K(m, m) − K(m, h) ),   K = L⁻¹

where with one word under the root K(·, 1) counts as 0 in the last formula. L is inverted in place by exchanging one
variable after another, in double precision; the pivot is the largest number of its column among the rows left. Columns
begin with numbers near 1: a pivot far below has lost its digits, and the sentence must be done otherwise.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def _weights(scores, n, N, h, m):
    """exp(score − largest of the column), the largest ones, and where arcs are; words are counted from 0."""
    inside = (h[:, None] < n) & (m[None, :] < n) & (h[:, None] != m[None, :])
    own = tl.load(scores + (h[:, None] + 1) * N + m[None, :] + 1, mask=inside, other=float("-inf")).to(
        tl.float64
    )
    root = tl.load(scores + m + 1, mask=m < n, other=float("-inf")).to(tl.float64)
    top = tl.maximum(tl.max(own, 0), root)
    top = tl.where(top == float("-inf"), 0.0, top)
    return tl.exp(own - top[None, :]), tl.exp(root - top), top


@triton.jit
def forward(
    arcs, lengths, inverse, value, least, N, SINGLE: tl.constexpr, RAGGED: tl.constexpr, ROWS: tl.constexpr
):
    """Fill `value` (B,), `inverse` (B, N, N) of float64, and `least` (B,), the smallest pivot, of float64."""
    b = tl.program_id(0).to(tl.int64)
    n = tl.load(lengths + b).to(tl.int32) if RAGGED else N - 1
    i, j = tl.arange(0, ROWS), tl.arange(0, ROWS)
    own, root, top = _weights(arcs + b * N * N, n, N, i, j)
    diagonal = i[:, None] == j[None, :]
    total = tl.sum(own, 0) if SINGLE else tl.sum(own, 0) + root
    A = tl.where(diagonal, total[None, :], -own)
    if SINGLE:
        A = tl.where(i[:, None] == 0, root[None, :], A)
    A = tl.where((i[:, None] < n) & (j[None, :] < n), A, 0.0)
    log_det = tl.sum(tl.where(j < n, top, 0.0), 0)
    column_of, row_of = tl.full([ROWS], -1, tl.int32), tl.full([ROWS], -1, tl.int32)
    smallest = log_det * 0.0 + 1.0
    for k in range(0, n):
        column = tl.sum(tl.where(j[None, :] == k, A, 0.0), 1)
        free = (column_of < 0) & (i < n)
        _, p = tl.max(tl.where(free, tl.abs(column), -1.0), 0, return_indices=True)
        pivot = tl.sum(tl.where(i == p, column, 0.0), 0)
        row = tl.sum(tl.where(i[:, None] == p, A, 0.0), 0)
        log_det += tl.log(tl.abs(pivot))
        smallest = tl.minimum(smallest, tl.abs(pivot))
        safe = tl.where(pivot == 0.0, 1.0, pivot)
        row = tl.where(j == k, 1.0, row) / safe
        column = tl.where(i == p, 0.0, column)
        A = tl.where(j[None, :] == k, 0.0, A) - column[:, None] * row[None, :]
        A = tl.where(i[:, None] == p, row[None, :], A)
        column_of = tl.where(i == p, k, column_of)
        row_of = tl.where(j == k, p, row_of)
    place = inverse + b * N * N + column_of[:, None] * N + row_of[None, :]
    tl.store(place, A, mask=(i[:, None] < n) & (j[None, :] < n))
    tl.store(value + b, log_det.to(value.dtype.element_ty))
    tl.store(least + b, smallest)


@triton.jit
def backward(
    arcs, lengths, inverse, value, weight, weight_stride, counts, N,
    SINGLE: tl.constexpr, RAGGED: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Fill `counts` (B, N, N) with arc probabilities times `weight` (B,), 0 elsewhere."""
    b = tl.program_id(0).to(tl.int64)
    n = tl.load(lengths + b).to(tl.int32) if RAGGED else N - 1
    h, m = tl.arange(0, ROWS), tl.arange(0, ROWS)
    own, root, _ = _weights(arcs + b * N * N, n, N, h, m)
    scale = tl.where(tl.load(value + b) > float("-inf"), tl.load(weight + b * weight_stride), 0.0).to(
        tl.float64
    )
    K, inside = inverse + b * N * N, (h[:, None] < n) & (m[None, :] < n)
    turned = tl.load(K + m[None, :] * N + h[:, None], mask=inside, other=0.0)
    itself = tl.load(K + m * (N + 1), mask=m < n, other=0.0)
    if SINGLE:
        first = tl.load(K + m * N, mask=m < n, other=0.0)
        turned = tl.where(h[:, None] == 0, 0.0, turned)
        itself = tl.where(m == 0, 0.0, itself)
        share = own * (itself[None, :] - turned)
        above = root * first
    else:
        share = own * (itself[None, :] - turned)
        above = root * itself
    kind = counts.dtype.element_ty
    out = counts + b * N * N
    edge = tl.arange(0, 2 * ROWS)
    tl.store(out + edge * N, tl.zeros([2 * ROWS], kind), mask=edge < N)
    place = out + (h[:, None] + 1) * N + m[None, :] + 1
    there = (h[:, None] < N - 1) & (m[None, :] < N - 1)
    share = tl.where(inside, tl.minimum(tl.maximum(share, 0.0), 1.0) * scale, 0.0)
    tl.store(place, share.to(kind), mask=there)
    above = tl.where(m < n, tl.minimum(tl.maximum(above, 0.0), 1.0) * scale, 0.0)
    tl.store(out + m + 1, above.to(kind), mask=m < N - 1)
