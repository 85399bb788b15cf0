# mypy: ignore-errors
"""Sums over derivations on a GPU, one width of spans after another, in double precision.

With d + 1 words in a span, t̂ a cell of the chart divided by its largest entry and c the logarithm of that:

    ω(m)    = exp( c(i, m) + c(m+1, j) − top )                             splits of a span, top their maximum
    M(B, C) = Σ_m ω(m) t̂(B; i, m) t̂(C; m+1, j)                             `pairs`
    b(A)    = exp( s(A; i, j) ) Σ_{B, C} W(B, C, A) M(B, C)                 `parents`, W = exp( rule − largest rule )
    t(A)    = b(A) + exp( s(A; i, j) ) Σ_B U(A, B) b(B)                     `unaries`, if there are any

(Lari and Young 1990), the first two as products of matrices. Columns of b are the parents of binary rules. Numbers that
are possible and below ``FLOOR`` are raised to it, so that no product of four underflows, and `small` says so: Z is then
too large by at most the expected counts of what was raised, which the outside pass knows.
"""

from __future__ import annotations

import triton
import triton.language as tl

from partwise.torch.gpu.chain_kernel import finite, length_of

FLOOR = tl.constexpr(1e-70)


@triton.jit
def raised(x, small):
    """Numbers that are possible, at least ``FLOOR``."""
    is_small = (x > 0.0) & (x < FLOOR)
    if tl.max(tl.ravel(is_small.to(tl.int32)), 0) > 0:
        tl.store(small, 1)
    return tl.where(is_small, FLOOR, x)


@triton.jit
def split_scores(scale, i, j, m, inside, T):
    """Logarithms of the scales of a span's two parts, for splits behind words `m`; −inf if there are none."""
    left = tl.load(scale + i * T + m, mask=inside, other=float("-inf"))
    return left + tl.load(scale + (m + 1) * T + j, mask=inside, other=float("-inf"))


@triton.jit
def weigh(scores, stride, lift, rule, table, small, size, BLOCK: tl.constexpr):
    """Fill `table` (…, size) with exp( score − lift ) of the rules in its places, 0 where `rule` is −1."""
    b = tl.program_id(1).to(tl.int64)
    k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    q = tl.load(rule + k, mask=k < size, other=-1)
    own = tl.load(scores + b * stride + q, mask=q >= 0, other=float("-inf")).to(tl.float64)
    weight = raised(_exp(own - tl.load(lift + b)), small)
    tl.store(table + b * size + k, weight, mask=k < size)


@triton.jit
def words(word, symbols, lengths, chart, scale, small, T, N, W, COLUMNS: tl.constexpr, RAGGED: tl.constexpr):
    """Cells of single words, from the scores (B, T, N) of the W symbols that may stand over them."""
    b, i = tl.program_id(0).to(tl.int64), tl.program_id(1)
    if i < length_of(lengths, b, T, RAGGED):
        k = tl.arange(0, COLUMNS)
        symbol = tl.load(symbols + k, mask=k < W, other=0)
        own = tl.load(word + (b * T + i) * N + symbol, mask=k < W, other=float("-inf")).to(tl.float64)
        top = tl.max(own, 0)
        cell = (b * T + i) * T + i
        tl.store(chart + cell * N + symbol, raised(_exp(own - finite(top)), small), mask=k < W)
        tl.store(scale + cell, top)


@triton.jit
def _exp(x):
    """exp, at least a positive number where x is possible."""
    return tl.exp(tl.where(x > float("-inf"), tl.maximum(x, -700.0), x))


@triton.jit(do_not_specialize=["start", "n_out", "first_out"])
def pairs(
    first, widths, start, lengths, chart, scale, tops, out, small, n_out, first_out, T, N,
    SPLITS: tl.constexpr, TILE: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Fill `out` (B, n_out, N, N) from `first_out` on with M of the spans from `start` on, and `tops` (B, T, T)."""
    row, b = tl.program_id(0), tl.program_id(1).to(tl.int64)
    n_tiles = tl.cdiv(N, TILE)
    left, right = tl.program_id(2) // n_tiles * TILE, tl.program_id(2) % n_tiles * TILE
    i = tl.load(first + start + row)
    d = tl.load(widths + start + row)
    j = i + d
    B, C, k = left + tl.arange(0, TILE), right + tl.arange(0, TILE), tl.arange(0, SPLITS)
    place = out + ((b * n_out + first_out + row) * N + B[:, None]) * N + C[None, :]
    square = (B[:, None] < N) & (C[None, :] < N)
    M = tl.zeros([TILE, TILE], tl.float64)
    if j < length_of(lengths, b, T, RAGGED):
        scales, cells = scale + b * T * T, chart + b * T * T * N
        best = tl.full([SPLITS], float("-inf"), tl.float64)
        for begin in range(0, d, SPLITS):
            m = i + begin + k
            best = tl.maximum(best, split_scores(scales, i, j, m, m < j, T))
        top = tl.max(best, 0)
        tl.store(tops + (b * T + i) * T + j, top)
        for begin in range(0, d, SPLITS):
            m = i + begin + k
            weight = raised(_exp(split_scores(scales, i, j, m, m < j, T) - finite(top)), small)
            x = tl.load(
                cells + (i * T + m[None, :]) * N + B[:, None],
                mask=(m[None, :] < j) & (B[:, None] < N),
                other=0.0,
            )
            y = tl.load(
                cells + ((m[:, None] + 1) * T + j) * N + C[None, :],
                mask=(m[:, None] < j) & (C[None, :] < N),
                other=0.0,
            )
            M += tl.dot(x * weight[None, :], y, out_dtype=tl.float64)
    tl.store(place, M, mask=square)


@triton.jit(do_not_specialize=["d", "n_out", "first_out"])
def parents(
    matrix, weights, weight_stride, symbols, span, tops, lengths, chart, scale, small, n_out, first_out, d, T, N, NN, P,
    ROWS: tl.constexpr, TILE: tl.constexpr, COLUMNS: tl.constexpr, SPANS: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Cells of all spans of d + 1 words from `matrix` (B, n_out, N²) and `weights` (…, N², COLUMNS)."""
    b = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    k, A = tl.arange(0, TILE), tl.arange(0, COLUMNS)
    total = tl.zeros([ROWS, COLUMNS], tl.float64)
    rows = (i + d < length_of(lengths, b, T, RAGGED))[:, None]
    W = weights + b * weight_stride
    for begin in range(0, NN, TILE):
        pair = begin + k
        M = tl.load(
            matrix + (b * n_out + first_out + i[:, None]) * NN + pair[None, :],
            mask=rows & (pair[None, :] < NN),
            other=0.0,
        )
        w = tl.load(W + pair[:, None] * COLUMNS + A[None, :], mask=pair[:, None] < NN, other=0.0)
        total += tl.dot(M, w, out_dtype=tl.float64)
    inside = rows & (A[None, :] < P)
    symbol = tl.load(symbols + A, mask=A < P, other=0)
    cell = (b * T + i[:, None]) * T + i[:, None] + d
    x = tl.log(total) + tl.load(tops + cell, mask=rows, other=float("-inf"))
    if SPANS:
        x += tl.load(span + cell * N + symbol[None, :], mask=inside, other=float("-inf")).to(tl.float64)
    x = tl.where(inside, x, float("-inf"))
    top = tl.max(x, 1)[:, None]
    tl.store(chart + cell * N + symbol[None, :], raised(_exp(x - finite(top)), small), mask=inside)
    tl.store(scale + cell, top, mask=rows)


@triton.jit(do_not_specialize=["d"])
def unaries(
    below, lower, weights, weight_stride, lift, span, lengths, chart, scale, small, d, T, N,
    TILE: tl.constexpr, SPANS: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Cells with at most one unary rule on top of `below`, whose scale is `lower`; `lift` (…,) was taken from rules."""
    i, b = tl.program_id(0), tl.program_id(1).to(tl.int64)
    if i + d < length_of(lengths, b, T, RAGGED):
        A, cell = tl.arange(0, TILE), (b * T + i) * T + i + d
        base = tl.load(lower + cell)
        own = tl.load(below + cell * N + A, mask=A < N, other=0.0)
        x = tl.log(unary_sums(below + cell * N, weights + b * weight_stride, A, N, TILE))
        x += tl.load(lift + tl.where(weight_stride > 0, b, 0))
        if SPANS:
            x += tl.load(span + cell * N + A, mask=A < N, other=float("-inf")).to(tl.float64)
        own = tl.log(own)
        most = tl.maximum(own, x)
        x = tl.log(_exp(own - finite(most)) + _exp(x - finite(most))) + most
        top = tl.max(x, 0)
        tl.store(chart + cell * N + A, raised(_exp(x - finite(top)), small), mask=A < N)
        tl.store(scale + cell, base + finite(top))


@triton.jit
def unary_sums(below, weights, A, N, TILE: tl.constexpr):
    """Σ_B U(A, B) b(B)."""
    total = tl.zeros([TILE], tl.float64)
    B = tl.arange(0, 16)
    for begin in range(0, N, 16):
        c = begin + B
        u = tl.load(
            weights + A[:, None] * N + c[None, :], mask=(A[:, None] < N) & (c[None, :] < N), other=0.0
        )
        total += tl.sum(u * tl.load(below + c, mask=c < N, other=0.0)[None, :], 1)
    return total


@triton.jit
def totals(lengths, chart, scale, lift, lift_stride, value, root, T, N, RAGGED: tl.constexpr):
    """Fill `value` (B,); `lift` was taken from every binary rule."""
    b = tl.program_id(0).to(tl.int64)
    n = length_of(lengths, b, T, RAGGED)
    cell = b * T * T + n - 1
    rest = tl.where(n > 1, (n - 1) * tl.load(lift + b * lift_stride), 0.0)
    result = tl.load(scale + cell) + tl.log(tl.load(chart + cell * N + root)) + rest
    tl.store(value + b, result.to(value.dtype.element_ty))
