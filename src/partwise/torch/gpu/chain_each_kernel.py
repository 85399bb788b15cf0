# mypy: ignore-errors
"""Sums over label sequences on a GPU if each pair of neighbours has its own transitions: two programs per sequence.

On logarithms, since reading the transitions takes longer than their exponentials. With α̂ normalised to a maximum of 0
at every position and m the maxima taken out, side 0 goes from the first position to the middle h, side 1 from the last:

    α̂_t(j) + m_t = s_t(j) + log Σ_i exp( α̂_{t−1}(i) + E_{t−1}(i, j) )        t < h
    α̂_t(i) + m_t = s_t(i) + log Σ_j exp( E_t(i, j) + α̂_{t+1}(j) )            t ≥ h

The backward pass goes from the middle outwards: P(y_{t−1} = i | y_t = j) = exp( α̂_{t−1}(i) + E_{t−1}(i, j) + s_t(j) −
α̂_t(j) − m_t ), and likewise on the other side. Blocks are read `AHEAD` positions before they are used.
"""

from __future__ import annotations

import triton
import triton.language as tl

from partwise.torch.gpu.chain_kernel import finite, largest, length_of, share_of, sum_of


@triton.jit
def _block(tables, k, step, count, L, LANES: tl.constexpr):
    """Table k where `step` is below `count`, else −inf."""
    i, j = tl.arange(0, LANES), tl.arange(0, LANES)
    inside = (i[:, None] < L) & (j[None, :] < tl.where(step < count, L, 0))
    place = tables + k * L * L + i[:, None] * L + j[None, :]
    return tl.load(place, mask=inside, other=float("-inf"))


@triton.jit
def _towards(a, E, SIDE: tl.constexpr):
    """log Σ exp( a + E ) over the labels the recursion comes from."""
    axis: tl.constexpr = SIDE
    x = E + (a[:, None] if SIDE == 0 else a[None, :])
    most = finite(tl.max(x, axis))
    spread = most[None, :] if SIDE == 0 else most[:, None]
    return tl.log(tl.sum(tl.exp(x - spread), axis)) + most


@triton.jit
def _sweep(node, tables, alpha, moved, n, L, LANES: tl.constexpr, AHEAD: tl.constexpr, SIDE: tl.constexpr):
    """One side from its end to the middle."""
    j = tl.arange(0, LANES)
    inside, h = j < L, (n + 1) // 2
    if SIDE == 0:
        count, start, turn, first = h, 0, 1, 0
    else:
        count, start, turn, first = n - h, n - 1, -1, n - 2
    if count > 0:
        s = tl.load(node + start * L + j, mask=inside, other=float("-inf"))
        m = largest(s)
        a = s - m
        tl.store(alpha + start * L + j, a, mask=inside)
        tl.store(moved + start, m)
        E0 = _block(tables, first + turn * 0, 1, count, L, LANES)
        if AHEAD > 1:
            E1 = _block(tables, first + turn, 2, count, L, LANES)
            E2 = _block(tables, first + 2 * turn, 3, count, L, LANES)
        s = tl.load(node + (start + turn) * L + j, mask=j < tl.where(count > 1, L, 0), other=float("-inf"))
        for step in range(1, count):
            t = start + turn * step
            s_next = tl.load(
                node + (t + turn) * L + j, mask=j < tl.where(step + 1 < count, L, 0), other=float("-inf")
            )
            coming = _block(tables, first + turn * (step + AHEAD - 1), step + AHEAD, count, L, LANES)
            a = _towards(a, E0, SIDE) + s
            m = largest(a)
            a = a - m
            tl.store(alpha + t * L + j, a, mask=inside)
            tl.store(moved + t, m)
            s = s_next
            if AHEAD > 1:
                E0, E1, E2 = E1, E2, coming
            else:
                E0 = coming


@triton.jit
def forward_each(
    node, edge, lengths, workspace, T, L, LANES: tl.constexpr, AHEAD: tl.constexpr, RAGGED: tl.constexpr
):
    """Fill `workspace` with α̂ (B, T, L) and behind it m (B, T)."""
    b, side = (tl.program_id(0) // 2).to(tl.int64), tl.program_id(0) % 2
    n = length_of(lengths, b, T, RAGGED)
    own, tables, out = node + b * T * L, edge + b * (T - 1) * L * L, workspace + b * T * L
    moved = workspace + (tl.num_programs(0) // 2).to(tl.int64) * T * L + b * T
    if side == 0:
        _sweep(own, tables, out, moved, n, L, LANES, AHEAD, 0)
    else:
        _sweep(own, tables, out, moved, n, L, LANES, AHEAD, 1)


@triton.jit
def join_each(
    node, edge, lengths, alpha, value, T, L,
    LANES: tl.constexpr, BLOCK: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Fill `value` (B,) from what both sides have left."""
    b = tl.program_id(0).to(tl.int64)
    n = length_of(lengths, b, T, RAGGED)
    h, moved = (n + 1) // 2, alpha + tl.num_programs(0).to(tl.int64) * T * L + b * T
    i, j = tl.arange(0, LANES), tl.arange(0, LANES)
    a = tl.load(alpha + (b * T + h - 1) * L + i, mask=i < L, other=float("-inf"))
    top = tl.max(a, 0)
    middle = tl.sum(tl.exp(a - finite(top)), 0)
    if n > 1:
        g = tl.load(alpha + (b * T + h) * L + j, mask=j < L, other=float("-inf"))
        x = a[:, None] + _block(edge + b * (T - 1) * L * L, h - 1, 0, 1, L, LANES) + g[None, :]
        top = tl.max(tl.max(x, 1), 0)
        middle = tl.sum(tl.sum(tl.exp(x - finite(top)), 1), 0)
    sums = sum_of(moved, n, BLOCK) + finite(top).to(tl.float64) + tl.log(middle).to(tl.float64)
    tl.store(value + b, sums.to(value.dtype.element_ty))


@triton.jit
def _outwards(
    node, tables, alpha, moved, scale, node_count, edge_count, n, L,
    LANES: tl.constexpr, AHEAD: tl.constexpr, SIDE: tl.constexpr,
):  # fmt: skip
    """One side from the middle to its end; side 0 also has the middle pair."""
    i, j = tl.arange(0, LANES), tl.arange(0, LANES)
    inside, h = j < L, (n + 1) // 2
    square = (i[:, None] < L) & inside[None, :]
    entry, size = i[:, None] * L + j[None, :], L * L
    if SIDE == 0:
        count, mine, turn, first = h, h - 1, -1, h - 2
    else:
        count, mine, turn, first = n - h, h, 1, h
    E0 = _block(tables, first + turn * 0, 1, count, L, LANES)
    if AHEAD > 1:
        E1 = _block(tables, first + turn, 2, count, L, LANES)
        E2 = _block(tables, first + 2 * turn, 3, count, L, LANES)
    a = tl.load(alpha + (h - 1) * L + j, mask=inside, other=float("-inf"))
    if n > 1:
        g = tl.load(alpha + h * L + j, mask=inside, other=float("-inf"))
        x = a[:, None] + _block(tables, h - 1, 0, 1, L, LANES) + g[None, :]
        pair = tl.exp(x - finite(tl.max(tl.max(x, 1), 0)))
        pair = pair * share_of(scale, tl.sum(tl.sum(pair, 1), 0))
        mu = tl.sum(pair, 1 - SIDE)
        if SIDE == 0:
            tl.store(edge_count + (h - 1) * size + entry, pair, mask=square)
        else:
            a = g
    else:
        mu = tl.exp(a)
        mu = mu * share_of(scale, tl.sum(mu, 0))
    if count > 0:
        tl.store(node_count + mine * L + j, mu, mask=inside)
    for step in range(1, count):
        t = mine + turn * (step - 1)
        s = tl.load(node + t * L + j, mask=inside, other=float("-inf"))
        further = tl.load(alpha + (t + turn) * L + j, mask=inside, other=float("-inf"))
        coming = _block(tables, first + turn * (step + AHEAD - 1), step + AHEAD, count, L, LANES)
        rest = tl.where(a > float("-inf"), finite(s) - finite(a) - tl.load(moved + t), float("-inf"))
        if SIDE == 0:
            pair = mu[None, :] * tl.exp(further[:, None] + E0 + rest[None, :])
        else:
            pair = mu[:, None] * tl.exp(further[None, :] + E0 + rest[:, None])
        place = (first + turn * (step - 1)) * size
        tl.store(edge_count + place + entry, pair, mask=square)
        mu = tl.sum(pair, 1 - SIDE)
        tl.store(node_count + (t + turn) * L + j, mu, mask=inside)
        a = further
        if AHEAD > 1:
            E0, E1, E2 = E1, E2, coming
        else:
            E0 = coming


@triton.jit
def backward_each(
    node, edge, lengths, alpha, value, weight, weight_stride, node_count, edge_count, T, L,
    LANES: tl.constexpr, AHEAD: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Fill `node_count` (B, T, L) and `edge_count` (B, T − 1, L, L), 0 in the padding, both times `weight` (B,)."""
    b, side = (tl.program_id(0) // 2).to(tl.int64), tl.program_id(0) % 2
    n = length_of(lengths, b, T, RAGGED)
    i, j = tl.arange(0, LANES), tl.arange(0, LANES)
    square = (i[:, None] < L) & (j[None, :] < L)
    kind = node_count.dtype.element_ty
    row, tables = b * T * L, b * (T - 1) * L * L
    moved = alpha + (tl.num_programs(0) // 2).to(tl.int64) * T * L + b * T
    scale = tl.load(weight + b * weight_stride)
    scale = tl.where(tl.load(value + b) > float("-inf"), scale, 0.0)
    if side == 0:
        for t in range(n, T):
            tl.store(node_count + row + t * L + j, tl.zeros([LANES], kind), mask=j < L)
        _outwards(
            node + row, edge + tables, alpha + row, moved, scale, node_count + row, edge_count + tables, n, L,
            LANES, AHEAD, 0,
        )  # fmt: skip
    else:
        for t in range(n, T):
            place = tables + (t - 1) * L * L + i[:, None] * L + j[None, :]
            tl.store(edge_count + place, tl.zeros([LANES, LANES], kind), mask=square)
        _outwards(
            node + row, edge + tables, alpha + row, moved, scale, node_count + row, edge_count + tables, n, L,
            LANES, AHEAD, 1,
        )  # fmt: skip
