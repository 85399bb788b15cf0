# mypy: ignore-errors
"""Sums over spanning trees on a GPU, one program per sentence: words are eliminated one after another.

With w(h, m) = exp(score − largest score of m), words h, m from 1 to n and the root 0, the determinant of the Laplacian
(Koo et al. 2007) is a product of sums of positive numbers, without a subtraction (Grassmann, Taksar and Heyman 1985):
word k leaves its modifiers to its heads,

    S_k = Σ_h w(h, k),      w(h, m) += w(h, k) w(k, m) / S_k       h, m not yet eliminated, h ≠ m,      Z = Π_k S_k

h running over the root too. With one word under the root, S_k leaves it out but for the last word. No digits are lost,
whatever the scores; only numbers beyond the range of double precision must be done otherwise, which `strain` says.

`workspace` holds w, read and written by tiles of rows. w(h, m) is left in it as it was when the first of h and m was
eliminated. With G = ∂ log Z / ∂ w, from the last word back:

    t(m) = Σ_h G(h, m) w(h, k) / S_k        G(k, m) = t(m)
    G(h, k) = ( 1 − Σ_m t(m) w(k, m) + Σ_m G(h, m) w(k, m) ) / S_k

where with one word under the root that of the root lacks the first two terms, but for the last word.
"""

from __future__ import annotations

import triton
import triton.language as tl

from partwise.torch.gpu.chain_kernel import length_of


@triton.jit
def _weights(scores, top, n, N, h, m):
    """exp(score − largest of the column) of arcs from words h to words m, counted from 0."""
    inside = (h[:, None] < n) & (m[None, :] < n) & (h[:, None] != m[None, :])
    place = scores + (h[:, None] + 1) * N + m[None, :] + 1
    return tl.exp(tl.load(place, mask=inside, other=float("-inf")).to(tl.float64) - top[None, :])


@triton.jit
def _largest(scores, n, N, m, ROWS: tl.constexpr, TILE: tl.constexpr):
    """The largest score of every word, 0 if there is none, and the root's weights."""
    root = tl.load(scores + m + 1, mask=m < n, other=float("-inf")).to(tl.float64)
    top = root
    for first in range(0, n, TILE):
        h = first + tl.arange(0, TILE)
        inside = (h[:, None] < n) & (m[None, :] < n) & (h[:, None] != m[None, :])
        place = scores + (h[:, None] + 1) * N + m[None, :] + 1
        top = tl.maximum(top, tl.max(tl.load(place, mask=inside, other=float("-inf")).to(tl.float64), 0))
    top = tl.where(top == float("-inf"), 0.0, top)
    return top, tl.exp(root - top)


@triton.jit
def _word(workspace, k, n, N, i, SINGLE: tl.constexpr):
    """Of word k when it is eliminated: shares of its heads and of the root, weights of its modifiers, 1 / S_k, S_k and
    whether the root is in it."""
    later = (i > k) & (i < n)
    heads = tl.load(workspace + (i + 1) * N + k + 1, mask=later, other=0.0)
    row = tl.load(workspace + (k + 1) * N + i + 1, mask=later, other=0.0)
    root = tl.load(workspace + k + 1)
    counts = 1.0 - SINGLE * (k < n - 1)
    total = tl.sum(heads, 0) + root * counts
    inverse = tl.where(total > 0.0, 1.0 / tl.where(total > 0.0, total, 1.0), 0.0)
    return root * inverse, row, inverse, total, counts


@triton.jit
def forward(
    arcs, lengths, workspace, value, strain, N,
    SINGLE: tl.constexpr, RAGGED: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Fill `value` (B,), `workspace` (B, N, N) of float64, and `strain` (B,), log of Π_m Σ_h w(h, m) over Z, of
    float64."""
    b = tl.program_id(0).to(tl.int64)
    n = length_of(lengths, b, N - 1, RAGGED)
    i, scores, own = tl.arange(0, ROWS), arcs + b * N * N, workspace + b * N * N
    top, root = _largest(scores, n, N, i, ROWS, TILE)
    sums = root
    for first in range(0, n, TILE):
        h = first + tl.arange(0, TILE)
        w = _weights(scores, top, n, N, h, i)
        sums += tl.sum(w, 0)
        place = own + (h[:, None] + 1) * N + i[None, :] + 1
        tl.store(place, w, mask=(h[:, None] < n) & (i[None, :] < n))
    before = tl.sum(tl.where(i < n, tl.log(sums), 0.0), 0)
    log_det = before * 0.0
    for k in range(0, n):
        tl.store(own + i + 1, root, mask=i == k)
        tl.debug_barrier()
        root_share, row, inverse, total, _ = _word(own, k, n, N, i, SINGLE)
        root += root_share * row
        log_det += tl.log(total)
        for first in range((k + 1) // TILE * TILE, n, TILE):
            h = first + tl.arange(0, TILE)
            later = (h > k) & (h < n)
            share = tl.load(own + (h + 1) * N + k + 1, mask=later, other=0.0) * inverse
            place = own + (h[:, None] + 1) * N + i[None, :] + 1
            inside = later[:, None] & (i[None, :] > k) & (i[None, :] < n)
            w = tl.load(place, mask=inside, other=0.0)
            tl.store(place, w + share[:, None] * row[None, :], mask=inside)
        tl.debug_barrier()
    result = log_det + tl.sum(tl.where(i < n, top, 0.0), 0)
    tl.store(value + b, result.to(value.dtype.element_ty))
    tl.store(strain + b, before - log_det)


@triton.jit
def _derivatives(own, shares, n, N, i, SINGLE: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr):
    """Fill `shares` with G and return that of the root. Column 0, which no arc has, is workspace for sums."""
    g = tl.zeros([ROWS], tl.float64)
    for step in range(0, n):
        k = n - 1 - step
        root_share, row, inverse, _, in_sum = _word(own, k, n, N, i, SINGLE)
        t = g * root_share
        for first in range((k + 1) // TILE * TILE, n, TILE):
            h = first + tl.arange(0, TILE)
            later = (h > k) & (h < n)
            share = tl.load(own + (h + 1) * N + k + 1, mask=later, other=0.0) * inverse
            inside = later[:, None] & (i[None, :] > k) & (i[None, :] < n) & (h[:, None] != i[None, :])
            G = tl.load(shares + (h[:, None] + 1) * N + i[None, :] + 1, mask=inside, other=0.0)
            t += tl.sum(G * share[:, None], 0)
            tl.store(shares + (h + 1) * N, tl.sum(G * row[None, :], 1), mask=later)
        tl.debug_barrier()
        rest, later = 1.0 - tl.sum(t * row, 0), (i > k) & (i < n)
        u = (rest + tl.load(shares + (i + 1) * N, mask=later, other=0.0)) * inverse
        g = tl.where(i == k, (rest * in_sum + tl.sum(g * row, 0)) * inverse, g)
        tl.store(shares + (k + 1) * N + i + 1, t, mask=later)
        tl.store(shares + (i + 1) * N + k + 1, u, mask=later)
        tl.debug_barrier()
    return g


@triton.jit
def backward(
    arcs, lengths, workspace, value, weight, weight_stride, shares, counts, N,
    SINGLE: tl.constexpr, RAGGED: tl.constexpr, ROWS: tl.constexpr, TILE: tl.constexpr,
):  # fmt: skip
    """Fill `counts` (B, N, N) with arc probabilities times `weight` (B,), 0 elsewhere; `shares` is like `workspace`."""
    b = tl.program_id(0).to(tl.int64)
    n = length_of(lengths, b, N - 1, RAGGED)
    i, scores, own, out = tl.arange(0, ROWS), arcs + b * N * N, shares + b * N * N, counts + b * N * N
    g = _derivatives(workspace + b * N * N, own, n, N, i, SINGLE, ROWS, TILE)
    scale = tl.where(tl.load(value + b) > float("-inf"), tl.load(weight + b * weight_stride), 0.0).to(
        tl.float64
    )
    kind = counts.dtype.element_ty
    top, root = _largest(scores, n, N, i, ROWS, TILE)
    above = tl.where((i < n) & (root > 0.0), tl.minimum(tl.maximum(root * g, 0.0), 1.0) * scale, 0.0)
    tl.store(out + i + 1, above.to(kind), mask=i < N - 1)
    tl.store(out + i * N, tl.zeros([ROWS], kind), mask=i < N)
    tl.store(out + (N - 1) * N, 0.0)
    for first in range(0, N - 1, TILE):
        h = first + tl.arange(0, TILE)
        inside = (h[:, None] < n) & (i[None, :] < n) & (h[:, None] != i[None, :])
        G = tl.load(own + (h[:, None] + 1) * N + i[None, :] + 1, mask=inside, other=0.0)
        w = _weights(scores, top, n, N, h, i)
        share = tl.where(w > 0.0, tl.minimum(tl.maximum(w * G, 0.0), 1.0) * scale, 0.0)
        place = out + (h[:, None] + 1) * N + i[None, :] + 1
        tl.store(place, share.to(kind), mask=(h[:, None] < N - 1) & (i[None, :] < N - 1))
