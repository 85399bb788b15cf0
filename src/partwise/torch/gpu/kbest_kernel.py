# mypy: ignore-errors
"""The k best label sequences on a GPU, one program per sequence: every label keeps the K best ways to it, best first.

Ways to a label come from the ways to each label before it, which are sorted: the next best of all is the largest of the
first ones that are left of each, taken K times. `ahead` says how many of each were taken.
"""

from __future__ import annotations

import triton
import triton.language as tl

from partwise.torch.gpu.chain_kernel import length_of


@triton.jit
def kbest(
    node, edge, lengths, ways, back, label, value, T, L, edge_stride, position_stride,
    K: tl.constexpr, LANES: tl.constexpr, RAGGED: tl.constexpr,
):  # fmt: skip
    """Fill `label` (B, K, T) of int16 and `value` (B, K), −inf if there are fewer than K.

    `ways` (B, 2, K, L) and `back` (B, T, K, L) of int16 are workspace. A back-pointer is label · K + rank.
    """
    b = tl.program_id(0).to(tl.int64)
    n = length_of(lengths, b, T, RAGGED)
    i, j, rank = tl.arange(0, LANES), tl.arange(0, LANES), tl.arange(0, K)
    inside = j < L
    square = (i[:, None] < L) & inside[None, :]
    at, workspace, places = node + b * T * L + j, ways + b * 2 * K * L, back + b * T * K * L
    table = edge + b * edge_stride
    first = tl.load(at, mask=inside, other=float("-inf"))
    tl.store(workspace + j, first, mask=inside)
    nothing = tl.full([LANES], float("-inf"), node.dtype.element_ty)
    for r in range(1, K):
        tl.store(workspace + r * L + j, nothing, mask=inside)
    tl.debug_barrier()
    for t in range(1, n):
        before, after = workspace + ((t - 1) % 2) * K * L, workspace + (t % 2) * K * L
        own = table + (t - 1) * position_stride
        x = tl.load(own + i[:, None] * L + j[None, :], mask=square, other=float("-inf"))
        x += tl.load(before + i, mask=i < L, other=float("-inf"))[:, None]
        score = tl.load(at + t * L, mask=inside, other=float("-inf"))
        ahead = tl.zeros([LANES, LANES], tl.int32)
        for r in range(0, K):
            most, place = tl.max(x, 0, return_indices=True)
            chosen = i[:, None] == place[None, :]
            taken = tl.sum(tl.where(chosen, ahead, 0), 0)
            tl.store(after + r * L + j, most + score, mask=inside)
            tl.store(places + (t * K + r) * L + j, (place * K + taken).to(tl.int16), mask=inside)
            known = inside & (place < L)
            left = tl.load(
                before + (taken + 1) * L + place, mask=known & (taken + 1 < K), other=float("-inf")
            )
            left += tl.load(own + place * L + j, mask=known, other=float("-inf"))
            x = tl.where(chosen, left[None, :], x)
            ahead = tl.where(chosen, ahead + 1, ahead)
        tl.debug_barrier()
    final = workspace + ((n - 1) % 2) * K * L
    x = tl.load(final + j, mask=inside, other=float("-inf"))
    ahead = tl.zeros([LANES], tl.int32)
    here, which, top = rank * 0, rank * 0, tl.full([K], float("-inf"), node.dtype.element_ty)
    for r in range(0, K):
        most, place = tl.max(x, 0, return_indices=True)
        taken = tl.sum(tl.where(j == place, ahead, 0), 0)
        top = tl.where(rank == r, most, top)
        here, which = tl.where(rank == r, place, here), tl.where(rank == r, taken, which)
        left = tl.load(
            final + (taken + 1) * L + place, mask=(taken + 1 < K) & (place < L), other=float("-inf")
        )
        x = tl.where(j == place, left, x)
        ahead = tl.where(j == place, ahead + 1, ahead)
    tl.store(value + b * K + rank, top)
    for step in range(0, n):
        t = n - 1 - step
        tl.store(label + (b * K + rank) * T + t, here.to(tl.int16))
        if t > 0:
            known = (here < L) & (which < K)
            code = tl.load(places + (t * K + which) * L + here, mask=known, other=0).to(tl.int32)
            here, which = code // K, code % K
