# mypy: ignore-errors
"""Best spanning trees on a GPU, one program per sentence.

The algorithm is Chu–Liu–Edmonds, as in `structures/trees/matrix_tree/chu_liu_edmonds.py`.

Best heads of single words are found beforehand, all at once. What changes as cycles are merged is small and stays in
registers, a lane a word: a merged node goes by the word that the walk reached first, whose row of gains it takes over.
Rows of gains, and where their arcs end, lie in memory; so does which node each word was in before each merging, by
which cycles are opened again, the last one first.

An arc is kept as head · 1024 + modifier.
"""

from __future__ import annotations

import triton
import triton.language as tl

_CONNECTED = tl.constexpr(1 << 20)  # to the root; else the place on the walk, −1 for what was not reached yet


@triton.jit
def _at(values, lane, k):
    """Entry k of a vector."""
    return tl.sum(tl.where(lane == k, values, 0), 0)


@triton.jit
def _best_head(gains, lane, SINGLE: tl.constexpr):
    """The best head of a row and its gain; the root only where nothing else is possible, if there is to be one."""
    if SINGLE:
        top, found = tl.max(tl.where(lane == 0, float("-inf"), gains), 0, return_indices=True)
        root = _at(tl.where(lane == 0, gains, 0.0), lane, 0)
        none = top == float("-inf")
        top, found = tl.where(none, root, top), tl.where(none, 0, found)
    else:
        top, found = tl.max(gains, 0, return_indices=True)
    return top, found.to(tl.int32)


@triton.jit
def best(
    arcs, lengths, rows, origins, members, first, gain, heads, value, N, SINGLE: tl.constexpr,
    RAGGED: tl.constexpr, ROWS: tl.constexpr,
):  # fmt: skip
    """Fill `heads` (B, N − 1), −1 if there is none, and `value` (B,) from `arcs` (B, N, N) by [head, modifier].

    `rows` (B, N, N) of float64, by [modifier, head], has −inf where there is no arc and changes; `first` and `gain`
    (B, N) are the best head of each and its score. `origins` (B, N, N) of int16 begin at 0, where an arc ends at the
    row's own word; `members` of the same size are workspace.
    """
    b = tl.program_id(0).to(tl.int64)
    n = tl.load(lengths + b).to(tl.int32) if RAGGED else N - 1
    area = N * N
    table, origin, before = rows + b * area, origins + b * area, members + b * area
    lane = tl.arange(0, ROWS)
    inside, word = lane <= n, (lane <= n) & (lane > 0)
    top = tl.load(gain + b * N + lane, mask=word, other=0.0)
    arc = tl.load(first + b * N + lane, mask=word, other=0).to(tl.int32) * 1024 + lane
    node_of = lane
    order = tl.where(lane == 0, _CONNECTED, -1)
    saved, merged, n_merged = lane * 0, lane * 0, n * 0  # of each merging: the arc that was, and the node
    worst = tl.min(top, 0)  # of what is to be: −inf where nothing can be
    start, node, length = n * 0 + 1, n * 0 + 1, n * 0
    while (worst > float("-inf")) & (start <= n):
        place = _at(order, lane, node)
        if place == _CONNECTED:
            order = tl.where(order >= 0, _CONNECTED, order)
            start, length = start + 1, n * 0
            node = _at(node_of, lane, start)
        elif place < 0:
            order = tl.where(lane == node, length, order)
            length += 1
            node = _at(node_of, lane, _at(arc, lane, node) // 1024)
        else:
            # Nodes of the walk from `place` on are a cycle.
            most = tl.full([ROWS], float("-inf"), tl.float64)
            ends, is_inside = lane * 0, lane < 0
            for step in range(place, length):
                each = tl.sum(tl.where(order == step, lane, 0), 0)
                row = tl.load(table + each * N + lane, mask=inside, other=float("-inf"))
                row -= _at(top, lane, each)
                end = tl.load(origin + each * N + lane, mask=inside, other=0).to(tl.int32)
                ends = tl.where(row > most, tl.where(end > 0, end, each), ends)
                most = tl.maximum(most, row)
                is_inside |= node_of == each
            most = tl.where(is_inside, float("-inf"), most)
            tl.store(before + n_merged * N + lane, node_of.to(tl.int16), mask=inside)
            tl.debug_barrier()  # the row that is written is one of those that were read
            tl.store(table + node * N + lane, most, mask=inside)
            tl.store(origin + node * N + lane, ends.to(tl.int16), mask=inside)
            tl.debug_barrier()
            saved = tl.where(lane == n_merged, _at(arc, lane, node), saved)
            merged = tl.where(lane == n_merged, node, merged)
            n_merged += 1
            node_of = tl.where(is_inside, node, node_of)
            order = tl.where((order >= place) & (order < _CONNECTED), -1, order)
            length = place
            highest, head = _best_head(most, lane, SINGLE)
            top = tl.where(lane == node, highest, top)
            arc = tl.where(lane == node, head * 1024 + _at(ends, lane, head), arc)
            worst = tl.minimum(worst, highest)
    tl.debug_barrier()
    for step in range(0, tl.where(worst > float("-inf"), n_merged, 0)):
        k = n_merged - 1 - step
        node = _at(merged, lane, k)
        entering = _at(arc, lane, node)
        entered = tl.load(before + k * N + entering % 1024).to(tl.int32)
        arc = tl.where(lane == node, _at(saved, lane, k), arc)
        arc = tl.where(lane == entered, entering, arc)
    head = arc // 1024
    if SINGLE:
        n_roots = tl.sum((word & (head == 0)).to(tl.int32), 0)
        worst = tl.where(n_roots == 1, worst, float("-inf"))
    known = (lane > 0) & (lane <= tl.where(worst > float("-inf"), n, 0))
    total = tl.sum(tl.load(arcs + b * area + head * N + lane, mask=known, other=0.0), 0)
    tl.store(value + b, tl.where(worst > float("-inf"), total, float("-inf")))
    out = heads + b * (N - 1) + lane - 1
    tl.store(out, tl.where(known, head, -1).to(tl.int64), mask=(lane > 0) & (lane < N))
