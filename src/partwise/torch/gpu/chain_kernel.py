# mypy: ignore-errors
"""Sums over label sequences on a GPU where neighbours share their transitions: two programs per sequence.

A sequence of n positions is summed from both ends towards its middle h. With X = exp(E − max E) of the transitions,
which stays in registers, and e_t = exp(s_t − m_t) of the nodes, m_t being such that
numbers stay near 1:

    S_t(j) = Σ_i p_{t−1}(i) X(i, j)        p_t = S_t e_t        t < h,   S_0 = 1
    S_t(i) = Σ_j X(i, j) p_{t+1}(j)        p_t = S_t e_t        t ≥ h,   S_{n−1} = 1
    log Z = Σ_t m_t + (n − 1) max E + log Σ_ij p_{h−1}(i) X(i, j) p_h(j)

`workspace` keeps S. The backward pass needs no further recursion over sums: P(y_{t−1} = i | y_t = j) =
p_{t−1}(i) X(i, j) / S_t(j), so that from the middle outwards, with q = μ_t / S_t,

    μ_{t−1}(i) = p_{t−1}(i) Σ_j X(i, j) q(j)        edge counts += p_{t−1}(i) X(i, j) q(j)        t < h,

and on the other side likewise.

That is right as long as no sum of a possible label falls below 1e-25; a sequence in which one does is done again from
left to right on logarithms, where `workspace` keeps α_t normalised to a maximum of 0, and its form says so to the
backward pass.
"""

from __future__ import annotations

import triton
import triton.language as tl

_LEAST = tl.constexpr(1e-25)


@triton.jit
def finite(x):
    """−inf becomes 0, so that differences are no NaN."""
    return tl.where(x == float("-inf"), 0.0, x)


@triton.jit
def share_of(scale, total):
    """scale / total, and 0 for an example in which nothing is possible, whose total is 0."""
    return tl.where(total > 0.0, scale / tl.where(total > 0.0, total, 1.0), 0.0)


@triton.jit
def largest(x):
    return finite(tl.max(x, 0))


@triton.jit
def length_of(lengths, b, T, RAGGED: tl.constexpr):
    if RAGGED:
        return tl.load(lengths + b).to(tl.int32)
    else:
        return T


@triton.jit
def sum_of(x, n, BLOCK: tl.constexpr):
    """Σ of the first n numbers, in double precision."""
    total = tl.zeros([BLOCK], tl.float64)
    for first in range(0, n, BLOCK):
        t = first + tl.arange(0, BLOCK)
        total += tl.load(x + t, mask=t < n, other=0.0).to(tl.float64)
    return tl.sum(total, 0)


@triton.jit
def _table(edge, L, LANES: tl.constexpr):
    """E(i, j)."""
    i, j = tl.arange(0, LANES), tl.arange(0, LANES)
    inside = (i[:, None] < L) & (j[None, :] < L)
    return tl.load(edge + i[:, None] * L + j[None, :], mask=inside, other=float("-inf"))


@triton.jit
def _scaled(E):
    """exp(E − max E), and the maximum."""
    top = finite(tl.max(tl.max(E, 1), 0))
    return tl.exp(E - top), top


@triton.jit
def _times(X, p, SIDE: tl.constexpr):
    """Σ_i p(i) X(i, j), for side 1 Σ_j X(i, j) p(j)."""
    return tl.sum(X * (p[:, None] if SIDE == 0 else p[None, :]), SIDE)


@triton.jit
def forward(node, edge, lengths, workspace, T, L, edge_stride, LANES: tl.constexpr, RAGGED: tl.constexpr):
    """Fill `workspace`: S (B, T, L), m (B, T), and the least sum of each side (B, 2)."""
    b, side = (tl.program_id(0) // 2).to(tl.int64), tl.program_id(0) % 2
    n, n_all = length_of(lengths, b, T, RAGGED), (tl.num_programs(0) // 2).to(tl.int64)
    X, _ = _scaled(_table(edge + b * edge_stride, L, LANES))
    own, out, moved = node + b * T * L, workspace + b * T * L, workspace + n_all * T * L + b * T
    least = workspace + n_all * T * (L + 1) + 2 * b
    if side == 0:
        _sweep(own, out, moved, least, X, n, L, LANES, 0)
    else:
        _sweep(own, out, moved, least + 1, X, n, L, LANES, 1)


@triton.jit
def _sweep(node, sums, moved, smallest, X, n, L, LANES: tl.constexpr, SIDE: tl.constexpr):
    """One side from its end to the middle."""
    j = tl.arange(0, LANES)
    inside, h = j < L, (n + 1) // 2
    if SIDE == 0:
        count, t, turn = h, 0, 1
    else:
        count, t, turn = n - h, n - 1, -1
    least = tl.full([LANES], 1.0, node.dtype.element_ty)
    if count > 0:
        s = tl.load(node + t * L + j, mask=inside, other=float("-inf"))
        m = largest(s)
        p = tl.exp(s - m)
        tl.store(sums + t * L + j, least, mask=inside)
        tl.store(moved + t, m)
        # Each step loads the data of the next one. Nodes are shifted by the largest sum of the previous step.
        s = tl.load(node + (t + turn) * L + j, mask=j < tl.where(count > 1, L, 0), other=float("-inf"))
        m = largest(s)
        for step in range(1, count):
            t += turn
            there = j < tl.where(step + 1 < count, L, 0)
            s_next = tl.load(node + (t + turn) * L + j, mask=there, other=float("-inf"))
            S = _times(X, p, SIDE)
            least = tl.minimum(least, tl.where(s > float("-inf"), S, 1.0))
            p = S * tl.exp(s - m)
            tl.store(sums + t * L + j, S, mask=inside)
            tl.store(moved + t, m)
            s = s_next
            m = largest(s) + tl.log(tl.max(S, 0))
    tl.store(smallest, tl.min(tl.where(inside, least, 1.0), 0))


@triton.jit
def join(
    node, edge, lengths, workspace, value, T, L, edge_stride,
    LANES: tl.constexpr, BLOCK: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Fill `value` (B,) from what both sides have left, and forms (B, 2) in `workspace`, 0 for logarithms."""
    b, n_all = tl.program_id(0).to(tl.int64), tl.num_programs(0).to(tl.int64)
    n = length_of(lengths, b, T, RAGGED)
    j, h = tl.arange(0, LANES), (n + 1) // 2
    at, out, moved = node + b * T * L + j, workspace + b * T * L + j, workspace + n_all * T * L + b * T
    form = workspace + n_all * T * (L + 1) + 2 * b
    E = _table(edge + b * edge_stride, L, LANES)
    X, top = _scaled(E)
    p = _product(at, out, moved, h - 1, j < L, L)
    middle = tl.sum(p, 0)
    if n > 1:
        middle = tl.sum(tl.sum(p[:, None] * X, 0) * _product(at, out, moved, h, j < L, L), 0)
    fits = (tl.minimum(tl.load(form), tl.load(form + 1)) > _LEAST) & (middle > _LEAST)
    total = sum_of(moved, n, BLOCK) + (n - 1) * top.to(tl.float64)
    tl.debug_barrier()
    if not fits:
        total, middle = _logarithms(at, out, moved, E, n, L, j < L)
    tl.store(form, fits.to(workspace.dtype.element_ty))
    tl.store(value + b, (total + tl.log(middle).to(tl.float64)).to(value.dtype.element_ty))


@triton.jit
def _product(at, sums, moved, t, inside, L):
    """p_t."""
    s = tl.load(at + t * L, mask=inside, other=float("-inf"))
    return tl.load(sums + t * L, mask=inside, other=0.0) * tl.exp(s - tl.load(moved + t))


@triton.jit
def _logarithms(at, out, moved, E, n, L, inside):
    """From left to right: Σ_t m_t and what its logarithm is missing from."""
    s = tl.load(at, mask=inside, other=float("-inf"))
    m = largest(s)
    a = s - m
    tl.store(out, a, mask=inside)
    tl.store(moved, m)
    total = m.to(tl.float64)
    for t in range(1, n):
        s = tl.load(at + t * L, mask=inside, other=float("-inf"))
        x = a[:, None] + E
        most = finite(tl.max(x, 0))
        a = tl.log(tl.sum(tl.exp(x - most[None, :]), 0)) + (most + s)
        m = largest(a)
        a = a - m
        total += m.to(tl.float64)
        tl.store(out + t * L, a, mask=inside)
        tl.store(moved + t, m)
    return total, tl.sum(tl.exp(a), 0)


@triton.jit
def backward(
    node, edge, lengths, workspace, value, weight, weight_stride, node_count, edge_count, T, L, edge_stride,
    LANES: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Fill `node_count` (B, T, L), 0 in the padding, and `edge_count` (B, 2, L, L) of both sides, times `weight`."""
    b, side = (tl.program_id(0) // 2).to(tl.int64), tl.program_id(0) % 2
    n, n_all = length_of(lengths, b, T, RAGGED), (tl.num_programs(0) // 2).to(tl.int64)
    j = tl.arange(0, LANES)
    at, known, out = node + b * T * L + j, workspace + b * T * L + j, node_count + b * T * L + j
    moved = workspace + n_all * T * L + b * T
    scale = tl.load(weight + b * weight_stride)
    scale = tl.where(tl.load(value + b) > float("-inf"), scale, 0.0)
    is_linear = tl.load(workspace + n_all * T * (L + 1) + 2 * b) != 0
    table, result = edge + b * edge_stride, edge_count + (2 * b + side) * L * L
    if side == 0:
        for t in range(n, T):
            tl.store(out + t * L, tl.zeros([LANES], node_count.dtype.element_ty), mask=j < L)
        if is_linear & (n > 1):
            _outwards(at, known, moved, out, table, result, scale, n, L, LANES, 0)
        else:
            _backwards(at, known, moved, out, table, result, scale, is_linear, n, L, LANES)
    else:
        if is_linear & (n > 1):
            _outwards(at, known, moved, out, table, result, scale, n, L, LANES, 1)
        else:
            _write(result, tl.zeros([LANES, LANES], node_count.dtype.element_ty), L, LANES)


@triton.jit
def _write(place, counts, L, LANES: tl.constexpr):
    i, j = tl.arange(0, LANES), tl.arange(0, LANES)
    tl.store(place + i[:, None] * L + j[None, :], counts, mask=(i[:, None] < L) & (j[None, :] < L))


@triton.jit
def _outwards(at, known, moved, out, table, result, scale, n, L, LANES: tl.constexpr, SIDE: tl.constexpr):
    """Node counts of one side from the middle outwards, and edge counts; side 0 has the middle pair."""
    j = tl.arange(0, LANES)
    inside, h = j < L, (n + 1) // 2
    X, _ = _scaled(_table(table, L, LANES))
    if SIDE == 0:  # the middle position of this side, and of the other
        count, t, beyond, turn = h, h - 1, h, -1
    else:
        count, t, beyond, turn = n - h, h, h - 1, 1
    p, g = _product(at, known, moved, t, inside, L), _product(at, known, moved, beyond, inside, L)
    mu = p * _times(X, g, 1 - SIDE)
    share = share_of(scale, tl.sum(mu, 0))
    mu = mu * share
    counts = X * 0.0
    if SIDE == 0:
        counts += (share * p)[:, None] * g[None, :]
    tl.store(out + t * L, mu, mask=inside)
    S = tl.load(known + t * L, mask=inside, other=0.0)
    # Sums, nodes and shifts of the next step outwards are asked for a step before.
    there = j < tl.where(count > 1, L, 0)
    S_next = tl.load(known + (t + turn) * L, mask=there, other=0.0)
    s = tl.load(at + (t + turn) * L, mask=there, other=float("-inf"))
    m = tl.load(moved + tl.where(count > 1, t + turn, t))
    for step in range(1, count):
        t += turn
        more = step + 1 < count
        there = j < tl.where(more, L, 0)
        S_after = tl.load(known + (t + turn) * L, mask=there, other=0.0)
        s_after = tl.load(at + (t + turn) * L, mask=there, other=float("-inf"))
        m_after = tl.load(moved + tl.where(more, t + turn, t))
        p = S_next * tl.exp(s - m)
        q = tl.where(S > 0.0, mu / tl.where(S > 0.0, S, 1.0), 0.0)
        if SIDE == 0:
            counts += p[:, None] * q[None, :]
        else:
            counts += q[:, None] * p[None, :]
        mu = p * _times(X, q, 1 - SIDE)
        tl.store(out + t * L, mu, mask=inside)
        S, S_next, s, m = S_next, S_after, s_after, m_after
    _write(result, counts * X, L, LANES)


@triton.jit
def _backwards(at, known, moved, out, table, result, scale, is_linear, n, L, LANES: tl.constexpr):
    """Node counts from right to left on logarithms, and edge counts."""
    j = tl.arange(0, LANES)
    inside, E = j < L, _table(table, L, LANES)
    a = tl.load(known + (n - 1) * L, mask=inside, other=float("-inf"))
    if is_linear:  # a single position
        a = tl.load(at, mask=inside, other=float("-inf")) - tl.load(moved)
    mu = tl.exp(a)
    mu = mu * share_of(scale, tl.sum(mu, 0))
    tl.store(out + (n - 1) * L, mu, mask=inside)
    counts = tl.zeros([LANES, LANES], at.dtype.element_ty)
    for step in range(1, n):
        t = n - step
        s = tl.load(at + t * L, mask=inside, other=float("-inf"))
        before = tl.load(known + (t - 1) * L, mask=inside, other=float("-inf"))
        rest = tl.where(a > float("-inf"), finite(s) - finite(a) - tl.load(moved + t), float("-inf"))
        pair = mu[None, :] * tl.exp(before[:, None] + E + rest[None, :])
        counts += pair
        mu = tl.sum(pair, 1)
        tl.store(out + (t - 1) * L, mu, mask=inside)
        a = before
    _write(result, counts, L, LANES)
