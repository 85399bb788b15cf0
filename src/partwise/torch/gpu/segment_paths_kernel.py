# mypy: ignore-errors
"""Best and random segmentations on a GPU, one program each, for any number of labels; see `segment_kernel`.

A tag is 2·label where a segment begins and 2·label + 1 where it goes on, −1 in the padding.
"""

from __future__ import annotations

import triton
import triton.language as tl

from partwise.torch.gpu.chain_kernel import finite, length_of
from partwise.torch.gpu.segment_kernel import pair_scores, segment_scores

_NOWHERE = tl.constexpr(2147483647)


@triton.jit
def _better(most, place, x, first):
    """Largest entries of columns so far and their rows, with those of `x`, whose rows begin at `first`."""
    top, at = tl.max(x, 0, return_indices=True)
    return tl.maximum(most, top), tl.where(top > most, first + at, place)


@triton.jit
def best(
    segment, edge, lengths, alpha, into, before, size, tag, value, T, D, L, edge_stride, position_stride,
    TILE: tl.constexpr, SPAN: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Fill `tag` (B, T) and `value` (B,); `alpha` and `into` (B, T, L) are workspace for
    the largest scores; `before` and `size` of int32 for their segments: the label before, and the length − 1."""
    b = tl.program_id(0).to(tl.int64)
    n = length_of(lengths, b, T, RAGGED)
    own, table, row = segment + b * T * D * L, edge + b * edge_stride, b * T * L
    kind = alpha.dtype.element_ty
    k, zero = tl.arange(0, TILE), b * 0
    top = tl.full([TILE], float("-inf"), kind)
    last = tl.zeros([TILE], tl.int32)
    for e in range(0, n):
        for first in range(0, L, TILE):
            j = first + k
            most, place = tl.zeros([TILE], kind), tl.zeros([TILE], tl.int32)
            if e > 0:
                most = tl.full([TILE], float("-inf"), kind)
                at = table + (zero + e - 1) * position_stride
                for start in range(0, L, TILE):
                    x = pair_scores(alpha + row + (e - 1) * L, at, start + k, j, L)
                    most, place = _better(most, place, x, start)
            tl.store(into + row + e * L + j, most, mask=j < L)
            tl.store(before + row + e * L + j, place, mask=j < L)
        tl.debug_barrier()
        for first in range(0, L, TILE):
            j = first + k
            most, place = tl.full([TILE], float("-inf"), kind), tl.zeros([TILE], tl.int32)
            for start in range(0, tl.minimum(D, e + 1), SPAN):
                d = start + tl.arange(0, SPAN)
                x = segment_scores(own, into + row, e - d, d, j, n, D, L)
                most, place = _better(most, place, x, start)
            tl.store(alpha + row + e * L + j, most, mask=j < L)
            tl.store(size + row + e * L + j, place, mask=j < L)
            if e == n - 1:
                last = tl.where(most > top, j, last)
                top = tl.maximum(top, most)
        tl.debug_barrier()
    highest, at = tl.max(top, 0, return_indices=True)
    tl.store(value + b, highest)
    label = tl.sum(tl.where(k == at, last, 0), 0)
    begin = n - 1 - tl.load(size + row + (n - 1) * L + label)
    for t in range(n, T):
        tl.store(tag + b * T + t, -1)
    for step in range(0, n):
        t = n - 1 - step
        tl.store(tag + b * T + t, (2 * label + (t > begin).to(tl.int32)).to(tl.int64))
        if (t == begin) & (t > 0):
            label = tl.load(before + row + t * L + label)
            begin = t - 1 - tl.load(size + row + (t - 1) * L + label)


@triton.jit
def _passing(p, place, passed, target, found, last):
    """One tile of a search for the first entry at which the running sum of `p` passes `target`, and the last possible
    one, which it is where rounding leaves none."""
    run = passed + tl.cumsum(p, 0)
    found = tl.minimum(found, tl.min(tl.where((run > target) & (p > 0.0), place, _NOWHERE), 0))
    return passed + tl.sum(p, 0), found, tl.maximum(last, tl.max(tl.where(p > 0.0, place, -1), 0))


@triton.jit
def _label_scores(row, column, i, L, HAS_COLUMN: tl.constexpr):
    x = tl.load(row + i, mask=i < L, other=float("-inf"))
    if HAS_COLUMN:
        x += tl.load(column + i * L, mask=i < L, other=float("-inf"))
    return x


@triton.jit
def _drawn_label(row, column, uniform, L, TILE: tl.constexpr, HAS_COLUMN: tl.constexpr):
    """A label with probability ∝ exp of its entries in `row` and in a column of transitions."""
    k = tl.arange(0, TILE)
    most = tl.full([TILE], float("-inf"), row.dtype.element_ty)
    for first in range(0, L, TILE):
        most = tl.maximum(most, _label_scores(row, column, first + k, L, HAS_COLUMN))
    top = finite(tl.max(most, 0))
    total = tl.zeros([TILE], tl.float64)
    for first in range(0, L, TILE):
        total += tl.exp((_label_scores(row, column, first + k, L, HAS_COLUMN) - top).to(tl.float64))
    target = tl.load(uniform) * tl.sum(total, 0)
    passed = target * 0.0
    found, last = tl.min(k, 0) + _NOWHERE, tl.min(k, 0)
    for first in range(0, L, TILE):
        p = tl.exp((_label_scores(row, column, first + k, L, HAS_COLUMN) - top).to(tl.float64))
        passed, found, last = _passing(p, first + k, passed, target, found, last)
    return tl.where(found < _NOWHERE, found, last)


@triton.jit
def _length_scores(own, into, shift, e, d, label, D, L):
    """σ(e − d, d, label) + into + c, relative to c_e, in double precision."""
    inside = (d < D) & (d <= e)
    x = tl.load(own + ((e - d) * D + d) * L + label, mask=inside, other=float("-inf"))
    x += tl.load(into + (e - d) * L + label, mask=inside, other=float("-inf"))
    return x.to(tl.float64) + (tl.load(shift + e - d, mask=inside, other=0.0) - tl.load(shift + e))


@triton.jit
def _drawn_length(own, into, shift, e, label, uniform, D, L, SPAN: tl.constexpr):
    """A length less one of the segment of this label that ends at e."""
    k = tl.arange(0, SPAN)
    most = tl.full([SPAN], float("-inf"), tl.float64)
    for first in range(0, D, SPAN):
        most = tl.maximum(most, _length_scores(own, into, shift, e, first + k, label, D, L))
    top = finite(tl.max(most, 0))
    total = tl.zeros([SPAN], tl.float64)
    for first in range(0, D, SPAN):
        total += tl.exp(_length_scores(own, into, shift, e, first + k, label, D, L) - top)
    target = tl.load(uniform) * tl.sum(total, 0)
    passed = target * 0.0
    found, last = tl.min(k, 0) + _NOWHERE, tl.min(k, 0)
    for first in range(0, D, SPAN):
        p = tl.exp(_length_scores(own, into, shift, e, first + k, label, D, L) - top)
        passed, found, last = _passing(p, first + k, passed, target, found, last)
    return tl.where(found < _NOWHERE, found, last)


@triton.jit(do_not_specialize=["n_all"])
def draw(
    segment, edge, lengths, alpha, into, shift, uniform, tag, n_all, T, D, L, edge_stride, position_stride,
    TILE: tl.constexpr, SPAN: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Fill `tag` (S, B, T) from what the forward pass left and `uniform` (S, B, T, 2) of float64 from [0, 1)."""
    place = tl.program_id(0).to(tl.int64)
    b = place % n_all
    n = length_of(lengths, b, T, RAGGED)
    own, table, c = segment + b * T * D * L, edge + b * edge_stride, shift + b * (T + 1)
    ends, begins, chance, out = alpha + b * T * L, into + b * T * L, uniform + place * T * 2, tag + place * T
    for t in range(n, T):
        tl.store(out + t, -1)
    label = _drawn_label(ends + (n - 1) * L, table, chance + 2 * (n - 1), L, TILE, False)
    begin = n - 1
    if SPAN > 1:
        begin -= _drawn_length(own, begins, c, n - 1, label, chance + 2 * (n - 1) + 1, D, L, SPAN)
    for step in range(0, n):
        t = n - 1 - step
        tl.store(out + t, (2 * label + (t > begin).to(tl.int32)).to(tl.int64))
        if (t == begin) & (t > 0):
            column = table + (b * 0 + t - 1) * position_stride + label
            label = _drawn_label(ends + (t - 1) * L, column, chance + 2 * (t - 1), L, TILE, True)
            begin = t - 1
            if SPAN > 1:
                begin -= _drawn_length(own, begins, c, t - 1, label, chance + 2 * (t - 1) + 1, D, L, SPAN)
