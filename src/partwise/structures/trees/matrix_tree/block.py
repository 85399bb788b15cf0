# mypy: ignore-errors
"""The elimination of `matrix_tree/sums.py` for eight words or fewer, each of them the last one in a lane of its own.

In lane L all words are eliminated in turn but L, whose row and column are set aside when its turn comes. A number
is thus a vector; the tables below hold p(h | m) of words not yet eliminated, the row and the column of the word
set aside, and the root's weights.
"""

from __future__ import annotations

from partwise.compiled.dispatch import fragment, inner
from partwise.compiled.simd_rows import LANES, add_product

_KEPT_ROW = LANES * LANES * LANES
_KEPT_COLUMN = _KEPT_ROW + LANES * LANES
_ROOT = _KEPT_COLUMN + LANES * LANES
_KEPT_ROOT = _ROOT + LANES * LANES
_TOTAL = _KEPT_ROOT + LANES
_ONES = _TOTAL + LANES
BLOCK_SIZE = _ONES + LANES


@fragment
def _fill_block(n, depth, low, high, work):  # type: ignore
    """Every number of the block in all lanes."""
    width, block = (n + LANES - 1) & ~(LANES - 1), work.block
    for m in range(high - low):
        source = (depth * n + low + m) * width + low
        for h in range(high - low):
            value, at = work.levels[source + h], (m * LANES + h) * LANES
            for lane in range(LANES):
                block[at + lane] = value
        value = work.roots[depth * width + low + m]
        for lane in range(LANES):
            block[_ROOT + m * LANES + lane] = value
    for j in range(_KEPT_ROW, _ROOT):
        block[j] = 0.0
    for lane in range(LANES):
        block[_KEPT_ROOT + lane] = 0.0
        block[_ONES + lane] = 1.0


@fragment
def _total_of(v, size, single_root, block):  # type: ignore
    """1 / D_v in all lanes but v, where it is 0 and nothing is eliminated; returns D_v in the last lane.

    Returns −1 where one of them is zero.
    """
    for lane in range(LANES):
        block[_TOTAL + lane] = 0.0
    add_product(block, _TOTAL, block, _KEPT_COLUMN + v * LANES, block, _ONES)
    if not single_root:
        add_product(block, _TOTAL, block, _ROOT + v * LANES, block, _ONES)
    for h in range(v + 1, size):
        add_product(block, _TOTAL, block, (v * LANES + h) * LANES, block, _ONES)
    fine = True
    for lane in range(size):
        fine = fine and (block[_TOTAL + lane] > 0.0 or lane == v)
    last = block[_TOTAL + size - 1] if fine else -1.0
    for lane in range(LANES):
        block[_TOTAL + lane] = 1.0 / block[_TOTAL + lane] if lane != v and block[_TOTAL + lane] > 0.0 else 0.0
    return last


@fragment
def _set_aside(v, size, block):  # type: ignore
    """Row and column of word v in lane v."""
    for other in range(v + 1, size):
        block[_KEPT_ROW + other * LANES + v] = block[(v * LANES + other) * LANES + v]
        block[_KEPT_COLUMN + other * LANES + v] = block[(other * LANES + v) * LANES + v]
    block[_KEPT_ROOT + v] = block[_ROOT + v * LANES + v]


@fragment
def _divide(block, at):  # type: ignore
    for lane in range(LANES):
        block[at + lane] *= block[_TOTAL + lane]


@inner
def escape_block(n, depth, low, high, single_root, work):  # type: ignore
    """Fill e(h; m) for words low … high, the only ones left at this level; low is a multiple of eight.

    Returns the root weight of the last word when all others are gone, 0 where some D is zero; ``work.totals`` gets
    the others' D.
    """
    size, block, width = high - low, work.block, (n + LANES - 1) & ~(LANES - 1)
    _fill_block(n, depth, low, high, work)
    for v in range(size):
        total = _total_of(v, size, single_root, block)
        if total < 0.0:
            return 0.0
        work.totals[low + v] = total
        _set_aside(v, size, block)
        own, column, root = v * LANES * LANES, _KEPT_COLUMN + v * LANES, _ROOT + v * LANES
        _divide(block, column)
        _divide(block, root)
        for h in range(v + 1, size):
            _divide(block, own + h * LANES)
        for m in range(v + 1, size):
            through = (m * LANES + v) * LANES
            for h in range(v + 1, size):
                if h != m:
                    add_product(block, (m * LANES + h) * LANES, block, through, block, own + h * LANES)
            add_product(block, _KEPT_COLUMN + m * LANES, block, through, block, column)
            add_product(block, _ROOT + m * LANES, block, through, block, root)
        through = _KEPT_ROW + v * LANES
        for h in range(v + 1, size):
            add_product(block, _KEPT_ROW + h * LANES, block, through, block, own + h * LANES)
        add_product(block, _KEPT_ROOT, block, through, block, root)
    for v in range(size - 1, -1, -1):
        row = (low + v) * width + low
        for lane in range(LANES):
            work.escapes[row + lane] = block[_ROOT + v * LANES + lane]
        for h in range(v + 1, size):
            at = (v * LANES + h) * LANES
            add_product(work.escapes, row, block, at, work.escapes, (low + h) * width + low)
    return block[_KEPT_ROOT + size - 1]
