# mypy: ignore-errors
"""Best projective trees on a GPU, one program per sentence: the recursion of `eisner_kernel` with maxima for sums.

The index of each maximum is kept. The way back visits all spans of one width at once, the widest first: a span in the
best tree marks the two spans that it was made of.
"""

from __future__ import annotations

import triton
import triton.language as tl

# Indices of the tables of a sentence: scores, marks, and indices of maxima.
CR_S, CR_E, CL_S, CL_E, IR_S, IL_E = (tl.constexpr(k) for k in range(6))
CR, CL, IR, IL = (tl.constexpr(k) for k in range(4))
IN_CR, IN_CL, IN_I = (tl.constexpr(k) for k in range(3))


@triton.jit
def _most(left, right, rows, first, last, far, COLUMNS: tl.constexpr):
    """The largest left[k] + right[far − k] of every row, k from `first` to `last`, and its k."""
    most = tl.full(rows.shape, float("-inf"), left.dtype.element_ty)
    place = tl.zeros(rows.shape, tl.int32) + first
    for start in range(first, last + 1, COLUMNS):
        k = start + tl.arange(0, COLUMNS)
        inside = rows[:, None] & (k[None, :] <= last)
        x = tl.load(left[:, None] + k[None, :], mask=inside, other=float("-inf"))
        x += tl.load(right[:, None] + (far - k)[None, :], mask=inside, other=float("-inf"))
        top, at = tl.max(x, 1, return_indices=True)
        place = tl.where(top > most, start + at, place)
        most = tl.maximum(most, top)
    return most, place


@triton.jit
def best(
    arcs, lengths, workspace, places, marks, heads, value, N, SINGLE: tl.constexpr, RAGGED: tl.constexpr,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr,
):  # fmt: skip
    """Fill `heads` (B, N − 1), −1 in the padding, and `value` (B,) from `arcs` (B, N, N) by [head, modifier].

    `workspace` (B, 6, N, N) and `places` (B, 3, N, N) of int16 are workspace; `marks` (B, 4, N, N) of int8 must start
    as 0.
    """
    b = tl.program_id(0).to(tl.int64)
    n = (tl.load(lengths + b).to(tl.int32) + 1) if RAGGED else N
    off = 1 if SINGLE else 0
    size, area = n - off, N * N
    own, scores, out = workspace + b * 6 * area, arcs + b * area, heads + b * (N - 1)
    place, mark = places + b * 3 * area, marks + b * 4 * area
    i = tl.arange(0, ROWS)
    zero = tl.zeros([ROWS], arcs.dtype.element_ty)
    for table in tl.static_range(4):
        tl.store(own + table * area + i * N, zero, mask=i < size)
    tl.debug_barrier()
    for w in range(1, size):
        rows, j = i < size - w, i + w
        cr_s, cl_e = own + CR_S * area + i * N, own + CL_E * area + j * N
        inner, at = _most(cr_s, cl_e, rows, 0, w - 1, w - 1, COLUMNS)
        right = tl.load(scores + (i + off) * N + j + off, mask=rows, other=float("-inf"))
        left = tl.load(scores + (j + off) * N + i + off, mask=rows & (i + off > 0), other=float("-inf"))
        ir_s, il_e = own + IR_S * area + i * N, own + IL_E * area + j * N
        tl.store(place + IN_I * area + i * N + w, at.to(tl.int16), mask=rows)
        tl.store(ir_s + w, inner + right, mask=rows)
        tl.store(il_e + w, inner + left, mask=rows)
        tl.debug_barrier()
        cr_e, cl_s = own + CR_E * area + j * N, own + CL_S * area + i * N
        right, at = _most(ir_s, cr_e, rows, 1, w, w, COLUMNS)
        tl.store(place + IN_CR * area + i * N + w, at.to(tl.int16), mask=rows)
        left, at = _most(cl_s, il_e, rows, 0, w - 1, w, COLUMNS)
        tl.store(place + IN_CL * area + i * N + w, at.to(tl.int16), mask=rows)
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
        top, root = tl.max(x, 0, return_indices=True)
        tl.store(out + root, 0)
        tl.store(mark + CL * area + root, 1)
        tl.store(mark + CR * area + root * N + size - 1 - root, 1)
        tl.store(value + b, top)
    else:
        tl.store(mark + CR * area + size - 1, 1)
        tl.store(value + b, tl.load(own + CR_S * area + size - 1))
    tl.debug_barrier()
    for step in range(1, size):
        w = size - step
        rows, j, at = i < size - w, i + w, i * N + w
        chosen = rows & (tl.load(mark + CR * area + at, mask=rows, other=0) > 0)
        k = tl.load(place + IN_CR * area + at, mask=chosen, other=0).to(tl.int32)
        tl.store(mark + IR * area + i * N + k, 1, mask=chosen)
        tl.store(mark + CR * area + (i + k) * N + w - k, 1, mask=chosen)
        chosen = rows & (tl.load(mark + CL * area + at, mask=rows, other=0) > 0)
        k = tl.load(place + IN_CL * area + at, mask=chosen, other=0).to(tl.int32)
        tl.store(mark + CL * area + i * N + k, 1, mask=chosen)
        tl.store(mark + IL * area + (i + k) * N + w - k, 1, mask=chosen)
        tl.debug_barrier()
        to_right = rows & (tl.load(mark + IR * area + at, mask=rows, other=0) > 0)
        to_left = rows & (tl.load(mark + IL * area + at, mask=rows, other=0) > 0)
        tl.store(out + j + off - 1, (i + off).to(tl.int64), mask=to_right)
        tl.store(out + i + off - 1, (j + off).to(tl.int64), mask=to_left)
        k = tl.load(place + IN_I * area + at, mask=to_right | to_left, other=0).to(tl.int32)
        tl.store(mark + CR * area + i * N + k, 1, mask=to_right | to_left)
        tl.store(mark + CL * area + (i + k + 1) * N + w - k - 1, 1, mask=to_right | to_left)
        tl.debug_barrier()
    for start in range(n - 1, N - 1, ROWS):
        tl.store(out + start + i, tl.full([ROWS], -1, tl.int64), mask=start + i < N - 1)
