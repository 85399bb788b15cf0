# mypy: ignore-errors
"""Sums over sequences of many labels with shared transitions on a GPU: one launch per position, products of matrices.

As in `chain_kernel.py` a sequence of n positions is summed from both ends towards its middle h, in the linear domain.
But the table X = exp(E − max E) is too large for the registers of a program, so that a program takes 16 sequences and
a tile of labels, and all of them take one position at a time, side 0 and side 1 together:

    S_t = p_{t−1} X        p_t = S_t exp(s_t − m_t)        m_t = max s_t + log max p_{t−1}        t < h,   S_0 = 1

side 1 likewise with Xᵀ from the last position. `left` keeps p_t of side 0 and `right` that of side 1, as the factors
of the pair counts that they will be; the rest of both comes from the backward pass,

    q_t = μ_t / S_t        μ_{t−1} = p_{t−1} ∘ (q_t Xᵀ)        pair counts = X ∘ Σ_t left_{t−1}ᵀ right_t

Rows of tables, of `left` and of `right` are padded with zeros to `PADDED` labels. A sequence in which a sum of a
possible label falls below 1e-25 is left to sums of logarithms.
"""

from __future__ import annotations

import triton
import triton.language as tl

from partwise.torch.gpu.chain_kernel import finite, length_of, sum_of

_LEAST = tl.constexpr(1e-25)
ROWS = 16  # the fewest that a product of matrices takes


@triton.jit
def _rows(block, lengths, n_all, T, RAGGED: tl.constexpr):
    """Sequences of a block, which of them there are, and their lengths."""
    b = block * 16 + tl.arange(0, 16)
    inside = b < n_all
    n = tl.full([16], 0, tl.int32) + T
    if RAGGED:
        n = tl.load(lengths + b, mask=inside, other=1).to(tl.int32)
    return b.to(tl.int64), inside, n


@triton.jit
def _product(vectors, row, used, table, j, L, TILE: tl.constexpr):
    """Σ_k vectors(row, k) table(k, j) of rows that are used, (16, TILE), and the largest of each row's vector."""
    total = tl.zeros([16, TILE], tl.float32)
    most = tl.zeros([16], tl.float32)
    for first in range(0, L, 32):
        k = first + tl.arange(0, 32)
        p = tl.load(vectors + row[:, None] * L + k[None, :], mask=used[:, None] & (k[None, :] < L), other=0.0)
        x = tl.load(table + k[:, None] * L + j[None, :], mask=(k[:, None] < L) & (j[None, :] < L), other=0.0)
        total = tl.dot(p, x, total, input_precision="tf32x3")
        most = tl.maximum(most, tl.max(p, 1))
    return total, most


@triton.jit
def _ratio(x, y):
    """x / y, 0 where y is."""
    return tl.where(y > 0.0, x / tl.where(y > 0.0, y, 1.0), 0.0)


@triton.jit(do_not_specialize=["n_all", "step"])
def forward(
    node, largest, tables, lengths, sums, left, right, moved, strained, n_all, step, T, L,
    PADDED: tl.constexpr, TILE: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """One position of each side: its rows of `sums` (B, T, L), `left` or `right` (B, T, PADDED) and `moved` (B, T)."""
    b, inside, n = _rows(tl.program_id(0), lengths, n_all, T, RAGGED)
    side, h = tl.program_id(2), (n + 1) // 2
    j = tl.program_id(1) * TILE + tl.arange(0, TILE)
    t = tl.where(side == 0, step, n - 1 - step)
    used = inside & ((t < h) == (side == 0))
    row = b * T + tl.where(used, t, 0)
    cell = used[:, None] & (j[None, :] < L)
    place = row[:, None] * L + j[None, :]
    s = tl.load(node + place, mask=cell, other=float("-inf"))
    m = tl.load(largest + row, mask=used, other=0.0)
    m = tl.where(m == float("-inf"), 0.0, m)
    S = tl.full([16, TILE], 1.0, tl.float32)
    if step > 0:
        before = row + tl.where(side == 0, -1, 1)
        vectors, table = left, tables
        if side == 1:
            vectors, table = right, tables + PADDED * PADDED
        S, most = _product(vectors, before, used, table, j, PADDED, TILE)
        m += tl.log(tl.maximum(most, _LEAST))
    lost = tl.max(tl.where((s > float("-inf")) & (S <= _LEAST), 1, 0), 1)
    tl.store(strained + b, lost, mask=used & (lost > 0))
    p = S * tl.exp(s - m[:, None])
    tl.store(sums + place, S, mask=cell)
    padded = row[:, None] * PADDED + j[None, :]
    if side == 0:
        tl.store(left + padded, p, mask=cell)
    else:
        tl.store(right + padded, p, mask=cell)
    if tl.program_id(1) == 0:
        tl.store(moved + row, m, mask=used)


@triton.jit(do_not_specialize=["n_all"])
def middle(
    tables, lengths, left, right, between, n_all, T, L,
    PADDED: tl.constexpr, TILE: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Fill `between` (B, 3, L): counts of positions h and h − 1 but for a factor, and p_{h−1}."""
    b, inside, n = _rows(tl.program_id(0), lengths, n_all, T, RAGGED)
    side, h = tl.program_id(2), (n + 1) // 2
    j = tl.program_id(1) * TILE + tl.arange(0, TILE)
    used = inside & (n > 1)
    last, beyond = b * T + h - 1, b * T + tl.where(used, h, 0)
    cell = used[:, None] & (j[None, :] < L)
    here = inside[:, None] & (j[None, :] < L)
    place = b[:, None] * 3 * L + j[None, :]
    if side == 0:
        S, _ = _product(left, last, used, tables, j, PADDED, TILE)
        p = tl.load(right + beyond[:, None] * PADDED + j[None, :], mask=cell, other=0.0)
        tl.store(between + place, S * p, mask=here)
    else:
        S, _ = _product(right, beyond, used, tables + PADDED * PADDED, j, PADDED, TILE)
        p = tl.load(left + last[:, None] * PADDED + j[None, :], mask=here, other=0.0)
        tl.store(between + place + L, tl.where(used[:, None], S, 1.0) * p, mask=here)
        tl.store(between + place + 2 * L, p, mask=here)


@triton.jit
def join(
    lengths, between, moved, strained, top, whole, left_over, value, T, L,
    BLOCK: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Fill `value` (B,), `whole` (B,), what both sides make together, 0 where digits are lost, and `left_over` (B,),
    the lengths of sequences where they are, 0 for others."""
    b = tl.program_id(0).to(tl.int64)
    n = length_of(lengths, b, T, RAGGED)
    total = sum_of(between + (b * 3 + 1) * L, L, BLOCK)
    fits = (tl.load(strained + b) == 0) & (total > _LEAST)
    shifts = sum_of(moved + b * T, n, BLOCK) + (n - 1) * finite(tl.load(top)).to(tl.float64)
    tl.store(whole + b, tl.where(fits, total, 0.0).to(whole.dtype.element_ty))
    tl.store(left_over + b, tl.where(fits, 0, n).to(tl.int64))
    tl.store(value + b, (shifts + tl.log(tl.where(fits, total, 1.0))).to(value.dtype.element_ty))


@triton.jit
def begin(
    lengths, sums, left, right, between, whole, weight, weight_stride, node_count, T, L,
    PADDED: tl.constexpr, BLOCK: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Counts of the two positions in the middle, and their rows of `left` and `right`; 0 where digits are lost."""
    b = tl.program_id(0).to(tl.int64)
    n = length_of(lengths, b, T, RAGGED)
    h, total = (n + 1) // 2, tl.load(whole + b)
    share = _ratio(tl.load(weight + b * weight_stride), total)
    row, padded, own = (b * T + h) * L, (b * T + h) * PADDED, between + b * 3 * L
    is_known = total > 0.0
    for first in range(0, L, BLOCK):
        j = first + tl.arange(0, BLOCK)
        two = j < tl.where(n > 1, L, 0)  # labels, where there are two positions in the middle
        mu = tl.load(own + L + j, mask=j < L, other=0.0) * share
        q = _ratio(mu, tl.load(sums + row - L + j, mask=j < L, other=0.0))
        tl.store(node_count + row - L + j, mu, mask=j < tl.where(is_known, L, 0))
        tl.store(right + padded - PADDED + j, q, mask=j < tl.where(h > 1, L, 0))
        tl.store(left + padded - PADDED + j, tl.load(own + 2 * L + j, mask=two, other=0.0) * share, mask=two)
        mu = tl.load(own + j, mask=two, other=0.0) * share
        q = _ratio(mu, tl.load(sums + row + j, mask=two, other=0.0))
        tl.store(node_count + row + j, mu, mask=two & (j < tl.where(is_known, L, 0)))
        tl.store(left + padded + j, q, mask=j < tl.where(h < n - 1, L, 0))


@triton.jit(do_not_specialize=["n_all", "step"])
def backward(
    tables, lengths, sums, left, right, whole, node_count, n_all, step, T, L,
    PADDED: tl.constexpr, TILE: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """One position outwards of each side: its counts, and its row of the factor that is missing."""
    b, inside, n = _rows(tl.program_id(0), lengths, n_all, T, RAGGED)
    side, h = tl.program_id(2), (n + 1) // 2
    j = tl.program_id(1) * TILE + tl.arange(0, TILE)
    t = tl.where(side == 0, h - 1 - step, h + step)
    fits = tl.load(whole + b, mask=inside, other=0.0) > 0.0
    used = fits & (t >= 0) & (t < n)
    row = b * T + tl.where(used, t, 0)
    cell = used[:, None] & (j[None, :] < L)
    place = row[:, None] * L + j[None, :]
    before = row + tl.where(side == 0, 1, -1)
    factor, known, table = right, left, tables + PADDED * PADDED
    if side == 1:
        factor, known, table = left, right, tables
    q, _ = _product(factor, before, used, table, j, PADDED, TILE)
    padded = row[:, None] * PADDED + j[None, :]
    mu = tl.load(known + padded, mask=cell, other=0.0) * q
    tl.store(node_count + place, mu, mask=cell)
    S = tl.load(sums + place, mask=cell, other=0.0)
    inner = (t > 0) & (t < n - 1)  # the ends of a sequence have a neighbour on one side only
    tl.store(factor + padded, _ratio(mu, S), mask=cell & inner[:, None])
