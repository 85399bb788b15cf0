# mypy: ignore-errors
"""Expected counts of derivations on a GPU: what `inside_kernel` does, backwards.

With g = ∂ log Z / ∂ t̂, of which cells as left and as right parts have a share each, from the widest span down:

    γ(A)     = g(A) exp( s(A; i, j) + top − c(i, j) )             by Σ W M, kept for the counts of rules
    N(B, C)  = Σ_A W(B, C, A) γ(A)                                 `pair_shares`
    g(B; i, m) += ω(m) Σ_C N(B, C) t̂(C; m+1, j),   g(C; m+1, j) += ω(m) Σ_B N(B, C) t̂(B; i, m)       `children`

A count is an entry times its g. `doubt` collects those of entries that were raised.
"""

from __future__ import annotations

import triton
import triton.language as tl

from partwise.torch.gpu.chain_kernel import finite, length_of
from partwise.torch.gpu.inside_kernel import FLOOR, _exp, raised, split_scores, unary_sums


@triton.jit
def _shares(as_left, as_right, at, inside):
    return tl.load(as_left + at, mask=inside, other=0.0) + tl.load(as_right + at, mask=inside, other=0.0)


@triton.jit(do_not_specialize=["d", "first_span"])
def pair_shares(
    weights, weight_stride, symbols, span, tops, lengths, chart, scale, as_left, as_right, out, parent_share,
    span_count, doubt, d, first_span, n_spans, T, N, NN, P,
    ROWS: tl.constexpr, TILE: tl.constexpr, TILES: tl.constexpr, COLUMNS: tl.constexpr, SPANS: tl.constexpr,
    RAGGED: tl.constexpr,
):  # fmt: skip
    """Fill `out` (B, T − d, N²), γ in `parent_share` (B, n_spans, COLUMNS) and counts, for spans of d + 1 words."""
    b = tl.program_id(0).to(tl.int64)
    i = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    n_rows, k, A = T - d, tl.arange(0, TILE), tl.arange(0, COLUMNS)
    rows = (i + d < length_of(lengths, b, T, RAGGED))[:, None]
    inside = rows & (A[None, :] < P)
    symbol = tl.load(symbols + A, mask=A < P, other=0)
    cell = (b * T + i[:, None]) * T + i[:, None] + d
    at = cell * N + symbol[None, :]
    g = _shares(as_left, as_right, at, inside)
    own = tl.load(chart + at, mask=inside, other=0.0)
    x = finite(tl.load(tops + cell, mask=rows, other=0.0)) - finite(
        tl.load(scale + cell, mask=rows, other=0.0)
    )
    if SPANS:
        x += tl.load(span + at, mask=inside, other=float("-inf")).to(tl.float64)
    share = tl.where(own > 0.0, g * _exp(x), 0.0)
    if tl.program_id(2) == 0:
        place = parent_share + (b * n_spans + first_span + i[:, None]) * COLUMNS + A[None, :]
        tl.store(place, share, mask=i[:, None] < n_rows)
        if SPANS:
            count = (g * own).to(span_count.dtype.element_ty)
            tl.store(span_count + at, tl.load(span_count + at, mask=inside) + count, mask=inside)
        uncertain = tl.sum(tl.where(own == FLOOR, g * own, 0.0), 1)[:, None]
        tl.store(doubt + cell, tl.load(doubt + cell, mask=rows) + uncertain, mask=rows)
    W = weights + b * weight_stride
    for step in range(0, TILES):
        pair = (tl.program_id(2) * TILES + step) * TILE + k
        w = tl.load(W + pair[None, :] * COLUMNS + A[:, None], mask=pair[None, :] < NN, other=0.0)
        N_pair = tl.dot(share, w, out_dtype=tl.float64)
        place = out + (b * n_rows + i[:, None]) * NN + pair[None, :]
        tl.store(place, N_pair, mask=rows & (pair[None, :] < NN))


@triton.jit(do_not_specialize=["d"])
def children(
    pair_share, lengths, chart, scale, tops, as_left, as_right, doubt, small, d, T, N,
    SPLITS: tl.constexpr, TILE: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Add the shares of both parts of every split to `as_left` and `as_right` (B, T, T, N)."""
    i, b = tl.program_id(0), tl.program_id(1).to(tl.int64)
    j = i + d
    if j < length_of(lengths, b, T, RAGGED):
        cells, k, tile = b * T * T, tl.arange(0, SPLITS), tl.arange(0, TILE)
        one = pair_share + (b * (T - d) + i) * N * N
        top = finite(tl.load(tops + cells + i * T + j))
        uncertain = tl.zeros([SPLITS], tl.float64)
        for begin in range(0, d, SPLITS):
            m = i + begin + k
            splits = (m < j)[:, None]
            weight = raised(_exp(split_scores(scale + cells, i, j, m, m < j, T) - top), small)[:, None]
            here, there = (cells + i * T + m[:, None]) * N, (cells + (m[:, None] + 1) * T + j) * N
            for from_symbol in range(0, N, TILE):
                B = from_symbol + tile
                left = tl.zeros([SPLITS, TILE], tl.float64)
                right = tl.zeros([SPLITS, TILE], tl.float64)
                for to_symbol in range(0, N, TILE):
                    C = to_symbol + tile
                    known = splits & (C[None, :] < N)
                    square = (C[:, None] < N) & (B[None, :] < N)
                    y = tl.load(chart + there + C[None, :], mask=known, other=0.0)
                    left += tl.dot(
                        y,
                        tl.load(one + B[None, :] * N + C[:, None], mask=square, other=0.0),
                        out_dtype=tl.float64,
                    )
                    x = tl.load(chart + here + C[None, :], mask=known, other=0.0)
                    right += tl.dot(
                        x,
                        tl.load(one + C[:, None] * N + B[None, :], mask=square, other=0.0),
                        out_dtype=tl.float64,
                    )
                inside = splits & (B[None, :] < N)
                left, right = left * weight, right * weight
                own = tl.load(chart + here + B[None, :], mask=inside, other=0.0)
                count = tl.sum(tl.where(weight == FLOOR, left * own, 0.0), 1)
                uncertain += count
                left += tl.load(as_left + here + B[None, :], mask=inside, other=0.0)
                right += tl.load(as_right + there + B[None, :], mask=inside, other=0.0)
                tl.store(as_left + here + B[None, :], left, mask=inside)
                tl.store(as_right + there + B[None, :], right, mask=inside)
        place = doubt + cells + i * T + j
        tl.store(place, tl.load(place) + tl.sum(uncertain, 0))


@triton.jit
def roots(lengths, chart, value, weight, weight_stride, as_left, root, T, N, RAGGED: tl.constexpr):
    """`weight` (B,) shared out to the whole sentences."""
    b = tl.program_id(0).to(tl.int64)
    n = length_of(lengths, b, T, RAGGED)
    at = (b * T * T + n - 1) * N + root
    possible = tl.load(value + b) > float("-inf")
    scale = tl.load(weight + b * weight_stride).to(tl.float64)
    tl.store(as_left + at, tl.where(possible, scale / tl.where(possible, tl.load(chart + at), 1.0), 0.0))


@triton.jit(do_not_specialize=["d"])
def unary_shares(
    below, lower, weights, weight_stride, lift, span, lengths, chart, scale, as_left, as_right, above,
    span_count, doubt, d, T, N, TILE: tl.constexpr, SPANS: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """From shares of cells to those of what is below unary rules; `above` (B, T, T, N) keeps those of U b."""
    i, b = tl.program_id(0), tl.program_id(1).to(tl.int64)
    if i + d < length_of(lengths, b, T, RAGGED):
        A, cell, U = tl.arange(0, TILE), (b * T + i) * T + i + d, weights + b * weight_stride
        inside, at = A < N, cell * N + A
        g = _shares(as_left, as_right, at, inside)
        kept = finite(tl.load(lower + cell)) - finite(tl.load(scale + cell))
        x = kept + tl.load(lift + tl.where(weight_stride > 0, b, 0))
        if SPANS:
            x += tl.load(span + at, mask=inside, other=float("-inf")).to(tl.float64)
        own = tl.load(chart + at, mask=inside, other=0.0)
        h = tl.where((own > 0.0) & inside, g * _exp(x), 0.0)
        counts = h * unary_sums(below + cell * N, U, A, N, TILE)
        if SPANS:
            tl.store(
                span_count + at,
                counts.to(span_count.dtype.element_ty),
                mask=inside,
            )
        tl.store(above + at, h, mask=inside)
        uncertain = tl.load(doubt + cell) + tl.sum(tl.where(own == FLOOR, g * own, 0.0), 0)
        tl.store(doubt + cell, uncertain)
        tl.debug_barrier()
        total = g * _exp(kept)
        B = tl.arange(0, 16)
        for begin in range(0, N, 16):
            c = begin + B
            u = tl.load(U + c[:, None] * N + A[None, :], mask=(c[:, None] < N) & inside[None, :], other=0.0)
            total += tl.sum(u * tl.load(above + cell * N + c, mask=c < N, other=0.0)[:, None], 0)
        tl.store(as_left + at, total, mask=inside)
        tl.store(as_right + at, tl.zeros([TILE], tl.float64), mask=inside)


@triton.jit
def word_counts(
    symbols, lengths, chart, as_left, as_right, out, doubt, T, N, W,
    COLUMNS: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Counts of word nodes, (B, T, N), from cells below unary rules."""
    b, i = tl.program_id(0).to(tl.int64), tl.program_id(1)
    if i < length_of(lengths, b, T, RAGGED):
        k = tl.arange(0, COLUMNS)
        symbol, cell = tl.load(symbols + k, mask=k < W, other=0), (b * T + i) * T + i
        own = tl.load(chart + cell * N + symbol, mask=k < W, other=0.0)
        count = own * _shares(as_left, as_right, cell * N + symbol, k < W)
        tl.store(out + (b * T + i) * N + symbol, count.to(out.dtype.element_ty), mask=k < W)
        tl.store(doubt + cell, tl.load(doubt + cell) + tl.sum(tl.where(own == FLOOR, count, 0.0), 0))


@triton.jit
def rule_counts(
    table, table_stride, weights, weight_stride, place, out, out_stride, doubt, R, BLOCK: tl.constexpr
):
    """Counts (…, R) of rules from derivatives by their weights, and in `doubt` (B, blocks) those of raised ones."""
    b = tl.program_id(1).to(tl.int64)
    k = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    at = tl.load(place + k, mask=k < R, other=0)
    weight = tl.load(weights + b * weight_stride + at, mask=k < R, other=0.0)
    count = weight * tl.load(table + b * table_stride + at, mask=k < R, other=0.0)
    tl.store(out + b * out_stride + k, count.to(out.dtype.element_ty), mask=k < R)
    uncertain = tl.sum(tl.where(weight == FLOOR, count, 0.0), 0)
    tl.store(doubt + b * tl.num_programs(0) + tl.program_id(0), uncertain)
