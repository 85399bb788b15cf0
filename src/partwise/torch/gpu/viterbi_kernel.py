# mypy: ignore-errors
"""The best label sequence on a GPU, one program per sequence: maxima forward, then back along their places."""

from __future__ import annotations

import triton
import triton.language as tl

from partwise.torch.gpu.chain_kernel import length_of


@triton.jit
def viterbi(
    node,
    edge,
    lengths,
    back,
    label,
    value,
    T,
    L,
    edge_stride,
    position_stride,
    LANES: tl.constexpr,
    RAGGED: tl.constexpr,
):
    """Fill `label` (B, T), −1 in the padding, and `value` (B,); `back` (B, T, L) of int16 is workspace."""
    b = tl.program_id(0).to(tl.int64)
    n = length_of(lengths, b, T, RAGGED)
    i, j = tl.arange(0, LANES), tl.arange(0, LANES)
    inside = j < L
    square = (i[:, None] < L) & inside[None, :]
    at, places = node + b * T * L + j, back + b * T * L
    block = edge + b * edge_stride + i[:, None] * L + j[None, :]
    a = tl.load(at, mask=inside, other=float("-inf"))
    for t in range(1, n):
        E = tl.load(block + (t - 1) * position_stride, mask=square, other=float("-inf"))
        s = tl.load(at + t * L, mask=inside, other=float("-inf"))
        best, place = tl.max(a[:, None] + E, 0, return_indices=True)
        a = best + s
        tl.store(places + t * L + j, place.to(tl.int16), mask=inside)
    top, last = tl.max(a, 0, return_indices=True)
    tl.store(value + b, top)
    tl.debug_barrier()
    here = last.to(tl.int32)
    for t in range(n, T):
        tl.store(label + b * T + t, -1)
    for step in range(0, n):
        t = n - 1 - step
        tl.store(label + b * T + t, here.to(tl.int64))
        if t > 0:
            here = tl.load(places + t * L + here).to(tl.int32)
