# mypy: ignore-errors
"""Sums over segmentations on a GPU, one program per sequence, for any number of labels (Sarawagi and Cohen 2004).

With σ(s, d, j) the score of a segment of d + 1 positions from s on with label j, and E the transitions:

    into_s(j) = log Σ_i exp( α_{s−1}(i) + E(i, j) )                      into_0 = 0
    α_e(j)    = log Σ_d exp( σ(e − d, d, j) + into_{e−d}(j) )            log Z = log Σ_j exp α_{n−1}(j)

A chain is the case of segments of one position; E may then differ from position to position. Labels are taken in tiles,
and tables stay in memory. Numbers are kept relative to c, the largest α before them, which is added up in double
precision: `into_s` and `α_e` to c_s and c_e, with c_{e+1} = c_e + max α_e.

Backwards, with μ_e(j) the probability that a segment of label j ends at e:

    p(s, d, j) = μ_{s+d}(j) exp( σ(s, d, j) + into_s(j) − α_{s+d}(j) )        rest_s(j) = log Σ_d p(s, d, j) − into_s(j)
    pair_s(i, j) = exp( α_{s−1}(i) + E(i, j) + rest_s(j) )                    μ_{s−1}(i) = Σ_j pair_s(i, j)

which are the counts of segments and, added up, of transitions.
"""

from __future__ import annotations

import triton
import triton.language as tl

from partwise.torch.gpu.chain_kernel import finite, length_of


@triton.jit
def _more(most, total, x, AXIS: tl.constexpr):
    """A log-sum as its maximum and what its logarithm is missing from, with the entries of `x` along an axis."""
    top = tl.maximum(most, tl.max(x, AXIS))
    safe = finite(top)
    spread = safe[None, :] if AXIS == 0 else safe[:, None]
    return top, total * tl.exp(most - safe) + tl.sum(tl.exp(x - spread), AXIS)


@triton.jit
def pair_scores(before, table, i, j, L):
    """α_{s−1}(i) + E(i, j), of `before` (L,) and `table` (L, L)."""
    a = tl.load(before + i, mask=i < L, other=float("-inf"))
    inside = (i[:, None] < L) & (j[None, :] < L)
    return a[:, None] + tl.load(table + i[:, None] * L + j[None, :], mask=inside, other=float("-inf"))


@triton.jit
def segment_scores(own, into, s, d, j, n, D, L):
    """σ(s, d, j) + into_s(j) for starts `s` and lengths `d` (SPAN,), relative to c_s."""
    inside = ((s >= 0) & (d < D) & (s + d < n))[:, None] & (j[None, :] < L)
    x = tl.load(own + (s[:, None] * D + d[:, None]) * L + j[None, :], mask=inside, other=float("-inf"))
    return x + tl.load(into + s[:, None] * L + j[None, :], mask=inside, other=float("-inf"))


@triton.jit
def forward(
    segment, edge, lengths, alpha, into, shift, value, T, D, L, edge_stride, position_stride,
    TILE: tl.constexpr, SPAN: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Fill `alpha` and `into` (B, T, L), `shift` (B, T + 1) of float64, and `value` (B,); nothing for length 0."""
    b = tl.program_id(0).to(tl.int64)
    n = length_of(lengths, b, T, RAGGED)
    if n == 0:
        return
    own, table = segment + b * T * D * L, edge + b * edge_stride
    ends, begins, c = alpha + b * T * L, into + b * T * L, shift + b * (T + 1)
    kind = alpha.dtype.element_ty
    k, zero = tl.arange(0, TILE), b * 0  # for places beyond 2³¹
    here = tl.zeros([1], tl.float64)
    tl.store(c + tl.arange(0, 1), here)
    for e in range(0, n):
        for first in range(0, L, TILE):
            j = first + k
            x = tl.zeros([TILE], kind)
            if e > 0:
                at = table + (zero + e - 1) * position_stride
                x = _arriving(ends + (e - 1) * L, at, c + e - 1, j, L, TILE)
            tl.store(begins + e * L + j, x, mask=j < L)
        tl.debug_barrier()
        largest = tl.full([TILE], float("-inf"), kind)
        for first in range(0, L, TILE):
            j = first + k
            x = _ending(own, begins, c, e, j, here, n, D, L, TILE, SPAN)
            tl.store(ends + e * L + j, x, mask=j < L)
            largest = tl.maximum(largest, x)
        here += finite(tl.max(largest, 0)).to(tl.float64)
        tl.store(c + e + 1 + tl.arange(0, 1), here)
        tl.debug_barrier()
    total = tl.zeros([TILE], tl.float64)
    for first in range(0, L, TILE):
        j = first + k
        total += tl.exp(_relative(ends + (n - 1) * L, c + n - 1, j, L).to(tl.float64))
    result = here + tl.log(tl.sum(total, 0))
    tl.store(value + b + tl.arange(0, 1), result.to(value.dtype.element_ty))


@triton.jit
def _relative(row, c, j, L):
    """α_e relative to c_{e+1}; `c` is where c_e lies."""
    x = tl.load(row + j, mask=j < L, other=float("-inf"))
    return x - (tl.load(c + 1) - tl.load(c)).to(x.dtype)


@triton.jit
def _arriving(before, table, c, j, L, TILE: tl.constexpr):
    """into of labels `j`."""
    most = tl.full([TILE], float("-inf"), before.dtype.element_ty)
    total = tl.zeros([TILE], before.dtype.element_ty)
    for first in range(0, L, TILE):
        x = pair_scores(before, table, first + tl.arange(0, TILE), j, L)
        most, total = _more(most, total, x, 0)
    moved = (tl.load(c + 1) - tl.load(c)).to(before.dtype.element_ty)
    return tl.where(total > 0.0, finite(most) + tl.log(total) - moved, float("-inf"))


@triton.jit
def _ending(own, begins, c, e, j, here, n, D, L, TILE: tl.constexpr, SPAN: tl.constexpr):
    """α_e of labels `j`, relative to c_e = `here`."""
    most = tl.full([TILE], float("-inf"), begins.dtype.element_ty)
    total = tl.zeros([TILE], begins.dtype.element_ty)
    for first in range(0, tl.minimum(D, e + 1), SPAN):
        d = first + tl.arange(0, SPAN)
        x = segment_scores(own, begins, e - d, d, j, n, D, L)
        moved = tl.load(c + e - d, mask=d <= e, other=0.0) - here
        most, total = _more(most, total, x + moved.to(x.dtype)[:, None], 0)
    return tl.where(total > 0.0, finite(most) + tl.log(total), float("-inf"))


@triton.jit
def backward(
    segment, edge, lengths, alpha, into, shift, value, weight, weight_stride, ending, rest, count,
    T, D, L, edge_stride, position_stride,
    TILE: tl.constexpr, SPAN: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Fill `count` (B, T, D, L), which begins at 0, with those of segments times `weight` (B,), and `rest` (B, T, L);
    `ending` (B, T, L) is workspace for μ."""
    b = tl.program_id(0).to(tl.int64)
    n = length_of(lengths, b, T, RAGGED)
    if n == 0:
        return
    own, table, out = segment + b * T * D * L, edge + b * edge_stride, count + b * T * D * L
    ends, begins, c = alpha + b * T * L, into + b * T * L, shift + b * (T + 1)
    mu, after = ending + b * T * L, rest + b * T * L
    kind = alpha.dtype.element_ty
    k, zero = tl.arange(0, TILE), b * 0  # for places beyond 2³¹
    log_total = tl.load(value + b)
    scale = tl.where(log_total > float("-inf"), tl.load(weight + b * weight_stride), 0.0).to(kind)
    total = tl.zeros([TILE], kind)
    for first in range(0, L, TILE):
        total += tl.exp(_relative(ends + (n - 1) * L, c + n - 1, first + k, L))
    whole = tl.sum(total, 0)
    whole = tl.where(whole > 0.0, whole, 1.0)
    for first in range(0, L, TILE):
        j = first + k
        x = tl.exp(_relative(ends + (n - 1) * L, c + n - 1, j, L)) / whole
        tl.store(mu + (n - 1) * L + j, x, mask=j < L)
    tl.debug_barrier()
    for step in range(0, n):
        s = n - 1 - step
        for first in range(0, L, TILE):
            j = first + k
            x = _beginning(own, begins, ends, c, mu, out, s, j, scale, n, D, L, TILE, SPAN)
            y = tl.load(begins + s * L + j, mask=j < L, other=0.0)
            tl.store(after + s * L + j, tl.where(x > 0.0, tl.log(x) - finite(y), float("-inf")), mask=j < L)
        tl.debug_barrier()
        if s > 0:
            moved = (tl.load(c + s) - tl.load(c + s - 1)).to(kind)
            for first in range(0, L, TILE):
                i = first + k
                x = tl.zeros([TILE], kind)
                for to in range(0, L, TILE):
                    j = to + k
                    y = tl.load(after + s * L + j, mask=j < L, other=float("-inf")) - moved
                    at = table + (zero + s - 1) * position_stride
                    x += tl.sum(tl.exp(pair_scores(ends + (s - 1) * L, at, i, j, L) + y[None, :]), 1)
                tl.store(mu + (s - 1) * L + i, x, mask=i < L)
        tl.debug_barrier()


@triton.jit
def _beginning(own, begins, ends, c, mu, out, s, j, scale, n, D, L, TILE: tl.constexpr, SPAN: tl.constexpr):
    """Store p(s, d, j) times `scale`; returns their sums over d."""
    total = tl.zeros([TILE], mu.dtype.element_ty)
    for first in range(0, tl.minimum(D, n - s), SPAN):
        d = first + tl.arange(0, SPAN)
        x = segment_scores(own, begins, s + d * 0, d, j, n, D, L)
        inside = ((d < D) & (s + d < n))[:, None] & (j[None, :] < L)
        there = (s + d[:, None]) * L + j[None, :]
        a = tl.load(ends + there, mask=inside, other=float("-inf"))
        x += (tl.load(c + s) - tl.load(c + s + d, mask=s + d < n, other=0.0)).to(x.dtype)[:, None]
        p = tl.load(mu + there, mask=inside, other=0.0) * tl.exp(x - finite(a))
        p = tl.where(a > float("-inf"), p, 0.0)
        tl.store(out + (s * D + d[:, None]) * L + j[None, :], p * scale, mask=inside)
        total += tl.sum(p, 0)
    return total


@triton.jit
def _pairs(ends, rests, table, c, s, i, j, L):
    """pair_s of labels `i` and `j`."""
    moved = (tl.load(c + s) - tl.load(c + s - 1)).to(ends.dtype.element_ty)
    y = tl.load(rests + s * L + j, mask=j < L, other=float("-inf")) - moved
    return tl.exp(pair_scores(ends + (s - 1) * L, table, i, j, L) + y[None, :])


@triton.jit(do_not_specialize=["n_all"])
def transitions(
    edge, lengths, alpha, shift, rest, value, weight, weight_stride, count, n_all, T, L, edge_stride,
    TILE: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Fill `count` (G, L, L) with sums of the pairs of every G-th sequence, times `weight` (B,)."""
    group, tile = tl.program_id(0).to(tl.int64), tl.program_id(1)
    n_tiles, k = tl.cdiv(L, TILE), tl.arange(0, TILE)
    i, j = tile // n_tiles * TILE + k, tile % n_tiles * TILE + k
    total = tl.zeros([TILE, TILE], count.dtype.element_ty)
    for b in range(group, n_all, tl.num_programs(0)):
        scale = tl.where(tl.load(value + b) > float("-inf"), tl.load(weight + b * weight_stride), 0.0)
        own = tl.zeros([TILE, TILE], count.dtype.element_ty)
        for s in range(1, length_of(lengths, b, T, RAGGED)):
            own += _pairs(
                alpha + b * T * L, rest + b * T * L, edge + b * edge_stride, shift + b * (T + 1), s, i, j, L
            )
        total += own * scale.to(own.dtype)
    place = count + group * L * L + i[:, None] * L + j[None, :]
    tl.store(place, total, mask=(i[:, None] < L) & (j[None, :] < L))


@triton.jit
def transitions_each(
    edge, lengths, alpha, shift, rest, value, weight, weight_stride, count, T, L,
    TILE: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Fill `count` (B, T − 1, L, L) with the pairs of every position, 0 in the padding, times `weight` (B,)."""
    place, tile = tl.program_id(0).to(tl.int64), tl.program_id(1)
    b, s = place // (T - 1), (place % (T - 1)).to(tl.int32) + 1
    n_tiles, k = tl.cdiv(L, TILE), tl.arange(0, TILE)
    i, j = tile // n_tiles * TILE + k, tile % n_tiles * TILE + k
    pairs = tl.zeros([TILE, TILE], count.dtype.element_ty)
    if s < length_of(lengths, b, T, RAGGED):
        scale = tl.where(tl.load(value + b) > float("-inf"), tl.load(weight + b * weight_stride), 0.0)
        table = edge + place * L * L
        pairs = _pairs(alpha + b * T * L, rest + b * T * L, table, shift + b * (T + 1), s, i, j, L)
        pairs = pairs * scale.to(pairs.dtype)
    at = count + place * L * L + i[:, None] * L + j[None, :]
    tl.store(at, pairs, mask=(i[:, None] < L) & (j[None, :] < L))
