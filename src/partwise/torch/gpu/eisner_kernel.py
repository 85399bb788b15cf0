# mypy: ignore-errors
"""Sums over projective trees on a GPU, one program per sentence (Eisner 1996).

Spans are kept by where they begin (`_s`) or end (`_e`) and by their width, so that what a sum combines lies in two
rows, one read forwards and one backwards. With C→[i, j] headed by i, C←[i, j] by j, and I those with the arc between
the ends:

    B[i, j]  = log Σ_k exp( C→[i, k] + C←[k + 1, j] )      I→[i, j] = B + s(i, j)      I←[i, j] = B + s(j, i)
    C→[i, j] = log Σ_k exp( I→[i, k] + C→[k, j] )          C←[i, j] = log Σ_k exp( C←[i, k] + I←[k, j] )

The backward pass shares the probability of a span among the pairs it was summed from, widest first; that of I is the
probability of its arc. With one word under the root the words alone are summed, and log Z = log Σ_k exp( C←[first, k] +
s(root, k) + C→[k, last] ); else the root is the first node of the chart.
"""

from __future__ import annotations

import triton
import triton.language as tl

# Tables of a sentence, one behind the other.
CR_S, CR_E, CL_S, CL_E, IR_S, IL_E, B_S = (tl.constexpr(k) for k in range(7))


@triton.jit
def _soft_sum(left, right, rows, first, last, far, COLUMNS: tl.constexpr):
    """log Σ_k exp( left[k] + right[far − k] ) of every row, k from `first` to `last`."""
    most = tl.full(rows.shape, float("-inf"), left.dtype.element_ty)
    total = tl.zeros(rows.shape, left.dtype.element_ty)
    for start in range(first, last + 1, COLUMNS):
        k = start + tl.arange(0, COLUMNS)
        inside = rows[:, None] & (k[None, :] <= last)
        x = tl.load(left[:, None] + k[None, :], mask=inside, other=float("-inf"))
        x += tl.load(right[:, None] + (far - k)[None, :], mask=inside, other=float("-inf"))
        top = tl.maximum(most, tl.max(x, 1))
        safe = tl.where(top == float("-inf"), 0.0, top)
        total = total * tl.exp(most - safe) + tl.sum(tl.exp(x - safe[:, None]), 1)
        most = top
    return tl.where(total > 0.0, most + tl.log(total), float("-inf"))


@triton.jit
def _share(left, right, left_share, right_share, rows, first, last, far, item, amount, COLUMNS: tl.constexpr):
    """Add to the shares of all pairs what `amount` of the item they sum to is theirs."""
    known = tl.where(item == float("-inf"), 0.0, item)
    amount = tl.where(item == float("-inf"), 0.0, amount)
    for start in range(first, last + 1, COLUMNS):
        k = start + tl.arange(0, COLUMNS)
        inside = rows[:, None] & (k[None, :] <= last)
        x = tl.load(left[:, None] + k[None, :], mask=inside, other=float("-inf"))
        x += tl.load(right[:, None] + (far - k)[None, :], mask=inside, other=float("-inf"))
        share = amount[:, None] * tl.exp(x - known[:, None])
        here, there = left_share[:, None] + k[None, :], right_share[:, None] + (far - k)[None, :]
        tl.store(here, tl.load(here, mask=inside, other=0.0) + share, mask=inside)
        tl.store(there, tl.load(there, mask=inside, other=0.0) + share, mask=inside)


@triton.jit
def forward(
    arcs, lengths, workspace, value, N, SINGLE: tl.constexpr, RAGGED: tl.constexpr, ROWS: tl.constexpr,
    COLUMNS: tl.constexpr,
):  # fmt: skip
    """Fill `value` (B,) and the charts in `workspace` (B, 7, N, N) from `arcs` (B, N, N) by [head, modifier]."""
    b = tl.program_id(0).to(tl.int64)
    n = (tl.load(lengths + b).to(tl.int32) + 1) if RAGGED else N
    off = 1 if SINGLE else 0
    size, area = n - off, N * N
    own, scores = workspace + b * 7 * area, arcs + b * area
    i = tl.arange(0, ROWS)
    zero = tl.zeros([ROWS], arcs.dtype.element_ty)
    for table in tl.static_range(4):
        tl.store(own + table * area + i * N, zero, mask=i < size)
    tl.debug_barrier()
    for w in range(1, size):
        rows, j = i < size - w, i + w
        cr_s, cl_e = own + CR_S * area + i * N, own + CL_E * area + j * N
        inner = _soft_sum(cr_s, cl_e, rows, 0, w - 1, w - 1, COLUMNS)
        right = tl.load(scores + (i + off) * N + j + off, mask=rows, other=float("-inf"))
        left = tl.load(scores + (j + off) * N + i + off, mask=rows & (i + off > 0), other=float("-inf"))
        ir_s, il_e = own + IR_S * area + i * N, own + IL_E * area + j * N
        tl.store(own + B_S * area + i * N + w, inner, mask=rows)
        tl.store(ir_s + w, inner + right, mask=rows)
        tl.store(il_e + w, inner + left, mask=rows)
        tl.debug_barrier()
        cr_e, cl_s = own + CR_E * area + j * N, own + CL_S * area + i * N
        right = _soft_sum(ir_s, cr_e, rows, 1, w, w, COLUMNS)
        left = _soft_sum(cl_s, il_e, rows, 0, w - 1, w, COLUMNS)
        tl.store(cr_s + w, right, mask=rows)
        tl.store(cr_e + w, right, mask=rows)
        tl.store(cl_s + w, left, mask=rows)
        tl.store(cl_e + w, left, mask=rows)
        tl.debug_barrier()
    if SINGLE:
        inside = i < size
        x = tl.load(own + CL_S * area + i, mask=inside, other=float("-inf"))
        x += tl.load(own + CR_E * area + (size - 1) * N + size - 1 - i, mask=inside, other=float("-inf"))
        x += tl.load(scores + i + 1, mask=inside, other=float("-inf"))
        most = tl.max(x, 0)
        safe = tl.where(most == float("-inf"), 0.0, most)
        tl.store(value + b, safe + tl.log(tl.sum(tl.exp(x - safe), 0)))
    else:
        tl.store(value + b, tl.load(own + CR_S * area + size - 1))


@triton.jit
def backward(
    arcs, lengths, workspace, value, weight, weight_stride, shares, counts, N, SINGLE: tl.constexpr,
    RAGGED: tl.constexpr, ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Add arc probabilities times `weight` (B,) to `counts` (B, N, N); it and `shares` (B, 6, N, N) begin at 0."""
    b = tl.program_id(0).to(tl.int64)
    n = (tl.load(lengths + b).to(tl.int32) + 1) if RAGGED else N
    off = 1 if SINGLE else 0
    size, area = n - off, N * N
    own, given, scores, out = (
        workspace + b * 7 * area,
        shares + b * 6 * area,
        arcs + b * area,
        counts + b * area,
    )
    i = tl.arange(0, ROWS)
    total = tl.load(value + b)
    scale = tl.where(total > float("-inf"), tl.load(weight + b * weight_stride), 0.0)
    total = tl.where(total > float("-inf"), total, 0.0)
    if SINGLE:
        inside = i < size
        x = tl.load(own + CL_S * area + i, mask=inside, other=float("-inf"))
        x += tl.load(own + CR_E * area + (size - 1) * N + size - 1 - i, mask=inside, other=float("-inf"))
        x += tl.load(scores + i + 1, mask=inside, other=float("-inf"))
        share = scale * tl.exp(x - total)
        tl.store(out + i + 1, share, mask=inside)
        tl.store(given + CL_S * area + i, share, mask=inside)
        tl.store(given + CR_E * area + (size - 1) * N + size - 1 - i, share, mask=inside)
    else:
        tl.store(given + CR_S * area + size - 1, scale)
    tl.debug_barrier()
    for step in range(1, size):
        w = size - step
        rows, j = i < size - w, i + w
        cr_s, cr_e = CR_S * area + i * N, CR_E * area + j * N
        cl_s, cl_e = CL_S * area + i * N, CL_E * area + j * N
        ir_s, il_e = IR_S * area + i * N, IL_E * area + j * N
        right = tl.load(given + cr_s + w, mask=rows, other=0.0) + tl.load(
            given + cr_e + w, mask=rows, other=0.0
        )
        left = tl.load(given + cl_s + w, mask=rows, other=0.0) + tl.load(
            given + cl_e + w, mask=rows, other=0.0
        )
        whole = tl.load(own + cr_s + w, mask=rows, other=float("-inf"))
        _share(own + ir_s, own + cr_e, given + ir_s, given + cr_e, rows, 1, w, w, whole, right, COLUMNS)
        whole = tl.load(own + cl_s + w, mask=rows, other=float("-inf"))
        _share(own + cl_s, own + il_e, given + cl_s, given + il_e, rows, 0, w - 1, w, whole, left, COLUMNS)
        tl.debug_barrier()
        right = tl.load(given + ir_s + w, mask=rows, other=0.0)
        left = tl.load(given + il_e + w, mask=rows, other=0.0)
        tl.store(out + (i + off) * N + j + off, right, mask=rows)
        tl.store(out + (j + off) * N + i + off, left, mask=rows & (i + off > 0))
        whole = tl.load(own + B_S * area + i * N + w, mask=rows, other=float("-inf"))
        _share(
            own + cr_s,
            own + cl_e,
            given + cr_s,
            given + cl_e,
            rows,
            0,
            w - 1,
            w - 1,
            whole,
            right + left,
            COLUMNS,
        )
        tl.debug_barrier()
