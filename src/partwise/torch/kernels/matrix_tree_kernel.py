# mypy: ignore-errors
"""Sums over spanning trees on a GPU, one program a sentence: words are eliminated one after another.

With w(h, m) = exp(score − largest score of m), words h, m from 1 to n and the root 0, the determinant of the Laplacian
(Koo et al. 2007) is a product of sums of positive numbers, without a subtraction (Grassmann, Taksar and Heyman 1985):
word k leaves its modifiers to its heads,

    S_k = Σ_h w(h, k),      w(h, m) += w(h, k) w(k, m) / S_k       h, m not yet eliminated, h ≠ m,      Z = Π_k S_k

h running over the root too. With one word under the root, S_k leaves it out but for the last word. No digits are lost,
whatever the scores; only numbers beyond the range of double precision must be done otherwise, which `strain` says.

`room` keeps w(h, m) as it was when the first of h and m was eliminated. With G = ∂ log Z / ∂ w, from the last word back:

    t(m) = Σ_h G(h, m) w(h, k) / S_k        G(k, m) = t(m)
    G(h, k) = ( 1 − Σ_m t(m) w(k, m) + Σ_m G(h, m) w(k, m) ) / S_k

where with one word under the root that of the root lacks the first two terms, but for the last word.
"""

from __future__ import annotations

import triton
import triton.language as tl

from partwise.torch.kernels.chain_kernel import length_of


@triton.jit
def _weights(scores, n, N, h, m):
    """exp(score − largest of the column) of words and of the root, and the largest ones; words are counted from 0."""
    inside = (h[:, None] < n) & (m[None, :] < n) & (h[:, None] != m[None, :])
    place = scores + (h[:, None] + 1) * N + m[None, :] + 1
    own = tl.load(place, mask=inside, other=float("-inf")).to(tl.float64)
    root = tl.load(scores + m + 1, mask=m < n, other=float("-inf")).to(tl.float64)
    top = tl.maximum(tl.max(own, 0), root)
    top = tl.where(top == float("-inf"), 0.0, top)
    return tl.exp(own - top[None, :]), tl.exp(root - top), top


@triton.jit
def _word(room, k, n, N, i, SINGLE: tl.constexpr):
    """Of word k when it is eliminated: shares of its heads and of the root, weights of its modifiers, 1 / S_k, S_k and
    whether the root is in it."""
    later = (i > k) & (i < n)
    heads = tl.load(room + (i + 1) * N + k + 1, mask=later, other=0.0)
    row = tl.load(room + (k + 1) * N + i + 1, mask=later, other=0.0)
    root = tl.load(room + k + 1)
    counts = 1.0 - SINGLE * (k < n - 1)
    total = tl.sum(heads, 0) + root * counts
    inverse = tl.where(total > 0.0, 1.0 / tl.where(total > 0.0, total, 1.0), 0.0)
    return heads * inverse, root * inverse, row, inverse, total, counts


@triton.jit
def forward(
    arcs, lengths, room, value, strain, N, SINGLE: tl.constexpr, RAGGED: tl.constexpr, ROWS: tl.constexpr
):
    """Fill `value` (B,), `room` (B, N, N) of float64, and `strain` (B,), log of Π_m Σ_h w(h, m) over Z, of float64."""
    b = tl.program_id(0).to(tl.int64)
    n = length_of(lengths, b, N - 1, RAGGED)
    i, j = tl.arange(0, ROWS), tl.arange(0, ROWS)
    A, root, top = _weights(arcs + b * N * N, n, N, i, j)
    own = room + b * N * N
    place = own + (i[:, None] + 1) * N + j[None, :] + 1
    before = tl.sum(tl.where(j < n, tl.log(tl.sum(A, 0) + root), 0.0), 0)
    log_det = before * 0.0
    for k in range(0, n):
        # The word's row and column are final: they leave the registers.
        row_or_column = ((i[:, None] == k) & (j[None, :] > k)) | ((j[None, :] == k) & (i[:, None] > k))
        tl.store(place, A, mask=row_or_column & (i[:, None] < n) & (j[None, :] < n))
        tl.store(own + j + 1, root, mask=j == k)
        tl.debug_barrier()
        share, root_share, row, _, total, _ = _word(own, k, n, N, i, SINGLE)
        A += share[:, None] * row[None, :]
        root += root_share * row
        log_det += tl.log(total)
    result = log_det + tl.sum(tl.where(j < n, top, 0.0), 0)
    tl.store(value + b, result.to(value.dtype.element_ty))
    tl.store(strain + b, before - log_det)


@triton.jit
def backward(
    arcs, lengths, room, value, weight, weight_stride, counts, N,
    SINGLE: tl.constexpr, RAGGED: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Fill `counts` (B, N, N) with arc probabilities times `weight` (B,), 0 elsewhere."""
    b = tl.program_id(0).to(tl.int64)
    n = length_of(lengths, b, N - 1, RAGGED)
    i, j = tl.arange(0, ROWS), tl.arange(0, ROWS)
    G, g = tl.zeros([ROWS, ROWS], tl.float64), tl.zeros([ROWS], tl.float64)
    for step in range(0, n):
        k = n - 1 - step
        share, root_share, row, inverse, _, in_sum = _word(room + b * N * N, k, n, N, i, SINGLE)
        t = tl.sum(G * share[:, None], 0) + g * root_share
        rest = 1.0 - tl.sum(t * row, 0)
        u = (rest + tl.sum(G * row[None, :], 1)) * inverse
        v = (rest * in_sum + tl.sum(g * row, 0)) * inverse
        G = tl.where((i[:, None] == k) & (j[None, :] > k), t[None, :], G)
        G = tl.where((j[None, :] == k) & (i[:, None] > k), u[:, None], G)
        g = tl.where(j == k, v, g)
    own, root, _ = _weights(arcs + b * N * N, n, N, i, j)
    scale = tl.where(tl.load(value + b) > float("-inf"), tl.load(weight + b * weight_stride), 0.0).to(tl.float64)
    kind = counts.dtype.element_ty
    out = counts + b * N * N
    edge = tl.arange(0, 2 * ROWS)
    tl.store(out + edge * N, tl.zeros([2 * ROWS], kind), mask=edge < N)
    inside, there = (i[:, None] < n) & (j[None, :] < n), (i[:, None] < N - 1) & (j[None, :] < N - 1)
    share = tl.where(inside & (own > 0.0), tl.minimum(tl.maximum(own * G, 0.0), 1.0) * scale, 0.0)
    tl.store(out + (i[:, None] + 1) * N + j[None, :] + 1, share.to(kind), mask=there)
    above = tl.where((j < n) & (root > 0.0), tl.minimum(tl.maximum(root * g, 0.0), 1.0) * scale, 0.0)
    tl.store(out + j + 1, above.to(kind), mask=j < N - 1)
