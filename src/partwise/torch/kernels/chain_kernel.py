# mypy: ignore-errors
"""Sums over label sequences on a GPU, one program a sequence: shared transitions.

A sequence of n positions is summed from both ends at once towards its middle h, two recursions in one loop. With
X = exp(E − max E) of the transitions, which stays in registers, and e_t = exp(s_t − m_t) of the nodes, m_t being such
that numbers stay near 1:

    S_t(j) = Σ_i p_{t−1}(i) X(i, j)        p_t = S_t e_t        t < h,   S_0 = 1
    S_t(i) = Σ_j X(i, j) p_{t+1}(j)        p_t = S_t e_t        t ≥ h,   S_{n−1} = 1
    log Z = Σ_t m_t + (n − 1) max E + log Σ_ij p_{h−1}(i) X(i, j) p_h(j)

`sums` keeps S. The backward pass needs no further recursion over sums: P(y_{t−1} = i | y_t = j) =
p_{t−1}(i) X(i, j) / S_t(j), so that from the middle outwards, with q = μ_t / S_t,

    μ_{t−1}(i) = p_{t−1}(i) Σ_j X(i, j) q(j)        edge counts += p_{t−1}(i) X(i, j) q(j)        t < h,

and on the other side likewise.

That is right as long as no sum of a possible label falls below 1e-25; a sequence in which one does is done again from
left to right on logarithms, where `sums` keeps α_t normalised to a maximum of 0, and its `form` says so to the backward
pass.
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
def largest(x):
    return finite(tl.max(x, 0))


@triton.jit
def length_of(lengths, b, T, RAGGED: tl.constexpr):
    if RAGGED:
        return tl.load(lengths + b).to(tl.int32)
    else:
        return T


@triton.jit
def forward(
    node, edge, lengths, sums, value, T, L, edge_stride, LANES: tl.constexpr, RAGGED: tl.constexpr
):
    """Fill `sums` (B, T, L), behind it m (B, T) and forms (B,), and `value` (B,)."""
    b = tl.program_id(0).to(tl.int64)
    shift = sums + tl.num_programs(0).to(tl.int64) * T * L
    form = shift + tl.num_programs(0).to(tl.int64) * T
    n = length_of(lengths, b, T, RAGGED)
    i, j = tl.arange(0, LANES), tl.arange(0, LANES)
    inside = j < L
    square = (i[:, None] < L) & inside[None, :]
    at, out, moved = node + b * T * L + j, sums + b * T * L + j, shift + b * T
    edges = edge + b * edge_stride + i[:, None] * L + j[None, :]
    E = tl.load(edges, mask=square, other=float("-inf"))
    top = finite(tl.max(tl.max(E, 1), 0))
    X = tl.exp(E - top)
    h = (n + 1) // 2
    one = tl.full([LANES], 1.0, node.dtype.element_ty)
    s = tl.load(at, mask=inside, other=float("-inf"))
    r = tl.load(at + (n - 1) * L, mask=inside, other=float("-inf"))
    m, k = largest(s), largest(r)
    p, g = tl.exp(s - m), tl.exp(r - k)
    tl.store(out, one, mask=inside)
    tl.store(out + (n - 1) * L, one, mask=inside)
    tl.store(moved, m)
    tl.store(moved + n - 1, k)
    total = m.to(tl.float64) + tl.where(n > 1, k, 0.0).to(tl.float64)
    least = one
    # What the next step reads is asked for a step before; nodes are shifted by the largest sum of the step before.
    s = tl.load(at + L, mask=j < tl.where(h > 1, L, 0), other=float("-inf"))
    r = tl.load(at + (n - 2) * L, mask=j < tl.where(n - h > 1, L, 0), other=float("-inf"))
    m, k = largest(s), largest(r)
    for t in range(1, n - h):
        u = n - 1 - t
        s_next = tl.load(at + (t + 1) * L, mask=j < tl.where(t + 1 < h, L, 0), other=float("-inf"))
        r_next = tl.load(at + (u - 1) * L, mask=j < tl.where(u - 1 >= h, L, 0), other=float("-inf"))
        left = tl.sum(p[:, None] * X, 0)
        right = tl.sum(X * g[None, :], 1)
        least = tl.minimum(least, tl.where(s > float("-inf"), left, 1.0))
        least = tl.minimum(least, tl.where(r > float("-inf"), right, 1.0))
        p, g = left * tl.exp(s - m), right * tl.exp(r - k)
        tl.store(out + t * L, left, mask=inside)
        tl.store(out + u * L, right, mask=inside)
        tl.store(moved + t, m)
        tl.store(moved + u, k)
        total += m.to(tl.float64) + k.to(tl.float64)
        s, r = s_next, r_next
        m, k = largest(s) + tl.log(tl.max(left, 0)), largest(r) + tl.log(tl.max(right, 0))
    if (n - h < h) & (n > 1):  # an odd length: one step more from the left
        left = tl.sum(p[:, None] * X, 0)
        least = tl.minimum(least, tl.where(s > float("-inf"), left, 1.0))
        p = left * tl.exp(s - m)
        tl.store(out + (h - 1) * L, left, mask=inside)
        tl.store(moved + h - 1, m)
        total += m.to(tl.float64)
    middle = tl.sum(p, 0)
    if n > 1:
        middle = tl.sum(tl.sum(p[:, None] * X, 0) * g, 0)
        total += (n - 1) * top.to(tl.float64)
    fits = (tl.min(tl.where(inside, least, 1.0), 0) > _LEAST) & (middle > _LEAST)
    if not fits:
        E = tl.load(edges, mask=square, other=float("-inf"))
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
        middle = tl.sum(tl.exp(a), 0)
    tl.store(form + b, fits.to(form.dtype.element_ty))
    tl.store(value + b, (total + tl.log(middle).to(tl.float64)).to(value.dtype.element_ty))


@triton.jit
def _ratio(x, y):
    """x / y, 0 where y is 0."""
    return tl.where(y > 0.0, x / tl.where(y > 0.0, y, 1.0), 0.0)


@triton.jit
def backward(
    node, edge, lengths, sums, value, weight, weight_stride, node_count, edge_count, T, L, edge_stride,
    LANES: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Fill `node_count` (B, T, L), 0 in the padding, and `edge_count` (B, L, L), both times `weight` (B,)."""
    b = tl.program_id(0).to(tl.int64)
    shift = sums + tl.num_programs(0).to(tl.int64) * T * L
    form = shift + tl.num_programs(0).to(tl.int64) * T
    n = length_of(lengths, b, T, RAGGED)
    i, j = tl.arange(0, LANES), tl.arange(0, LANES)
    inside = j < L
    square = (i[:, None] < L) & inside[None, :]
    row, moved = b * T * L, shift + b * T
    at, known, out = node + row + j, sums + row + j, node_count + row + j
    E = tl.load(edge + b * edge_stride + i[:, None] * L + j[None, :], mask=square, other=float("-inf"))
    scale = tl.load(weight + b * weight_stride)
    scale = tl.where(tl.load(value + b) > float("-inf"), scale, 0.0)
    for t in range(n, T):
        tl.store(out + t * L, tl.zeros([LANES], node_count.dtype.element_ty), mask=inside)
    counts = tl.zeros([LANES, LANES], node_count.dtype.element_ty)
    if (tl.load(form + b) != 0) & (n > 1):
        h = (n + 1) // 2
        X = tl.exp(E - finite(tl.max(tl.max(E, 1), 0)))
        left = tl.load(known + (h - 1) * L, mask=inside, other=0.0)
        right = tl.load(known + h * L, mask=inside, other=0.0)
        s = tl.load(at + (h - 1) * L, mask=inside, other=float("-inf"))
        r = tl.load(at + h * L, mask=inside, other=float("-inf"))
        p, g = left * tl.exp(s - tl.load(moved + h - 1)), right * tl.exp(r - tl.load(moved + h))
        mu, nu = p * tl.sum(X * g[None, :], 1), g * tl.sum(X * p[:, None], 0)
        share = scale / tl.sum(mu, 0)
        mu, nu = mu * share, nu * share
        counts += (p * share)[:, None] * g[None, :]
        tl.store(out + (h - 1) * L, mu, mask=inside)
        tl.store(out + h * L, nu, mask=inside)
        if LANES <= 64:
            # Sums, nodes and shifts of the next step outwards are asked for a step before.
            left_next = tl.load(known + (h - 2) * L, mask=j < tl.where(h > 1, L, 0), other=0.0)
            right_next = tl.load(known + (h + 1) * L, mask=j < tl.where(h + 1 < n, L, 0), other=0.0)
            s = tl.load(at + (h - 2) * L, mask=j < tl.where(h > 1, L, 0), other=float("-inf"))
            r = tl.load(at + (h + 1) * L, mask=j < tl.where(h + 1 < n, L, 0), other=float("-inf"))
            m, k = tl.load(moved + tl.maximum(h - 2, 0)), tl.load(moved + tl.minimum(h + 1, n - 1))
            for step in range(1, h):
                t, u = h - 1 - step, h + step
                left_after = tl.load(known + (t - 1) * L, mask=j < tl.where(t > 0, L, 0), other=0.0)
                right_after = tl.load(known + (u + 1) * L, mask=j < tl.where(u + 1 < n, L, 0), other=0.0)
                s_after = tl.load(at + (t - 1) * L, mask=j < tl.where(t > 0, L, 0), other=float("-inf"))
                r_after = tl.load(at + (u + 1) * L, mask=j < tl.where(u + 1 < n, L, 0), other=float("-inf"))
                m_after = tl.load(moved + tl.maximum(t - 1, 0))
                k_after = tl.load(moved + tl.minimum(u + 1, n - 1))
                p, g = left_next * tl.exp(s - m), right_next * tl.exp(r - k)  # 0 behind the last position
                q, v = _ratio(mu, left), _ratio(nu, right)
                counts += p[:, None] * q[None, :]
                counts += v[:, None] * g[None, :]
                mu, nu = p * tl.sum(X * q[None, :], 1), g * tl.sum(X * v[:, None], 0)
                tl.store(out + t * L, mu, mask=inside)
                tl.store(out + u * L, nu, mask=j < tl.where(u < n, L, 0))
                left, right, s, r, m, k = left_next, right_next, s_after, r_after, m_after, k_after
                left_next, right_next = left_after, right_after
        else:  # a table of this size leaves no registers for both sides at once
            for step in range(1, h):
                t = h - 1 - step
                left_next = tl.load(known + t * L, mask=inside, other=0.0)
                p = left_next * tl.exp(
                    tl.load(at + t * L, mask=inside, other=float("-inf")) - tl.load(moved + t)
                )
                q = _ratio(mu, left)
                counts += p[:, None] * q[None, :]
                mu = p * tl.sum(X * q[None, :], 1)
                tl.store(out + t * L, mu, mask=inside)
                left = left_next
            for u in range(h + 1, n):
                right_next = tl.load(known + u * L, mask=inside, other=0.0)
                g = right_next * tl.exp(
                    tl.load(at + u * L, mask=inside, other=float("-inf")) - tl.load(moved + u)
                )
                v = _ratio(nu, right)
                counts += v[:, None] * g[None, :]
                nu = g * tl.sum(X * v[:, None], 0)
                tl.store(out + u * L, nu, mask=inside)
                right = right_next
        counts = counts * X
    else:
        a = tl.load(known + (n - 1) * L, mask=inside, other=float("-inf"))
        if tl.load(form + b) != 0:  # a single position, in the linear form
            a = tl.load(at, mask=inside, other=float("-inf")) - tl.load(moved)
        mu = tl.exp(a)
        mu = mu * (scale / tl.sum(mu, 0))
        tl.store(out + (n - 1) * L, mu, mask=inside)
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
    tl.store(edge_count + (b * L + i[:, None]) * L + j[None, :], counts, mask=square)
