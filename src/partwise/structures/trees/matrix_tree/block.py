# mypy: ignore-errors
"""The elimination of `matrix_tree/sums.py` for up to eight words, each of them the last word in one lane of vectors.

Lane L eliminates all words but L in turn, and keeps the row and column of L when it is reached. So every number is a
vector. The tables below have p(h | m) of the remaining words, the kept row and column, and the root's weights.
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
    """Copy every number of the block to all lanes."""
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
    """Fill 1 / D_v in all lanes, 0 in lane v, which does not eliminate v. Returns D_v in the last lane.

    Returns −1 if a D_v is zero.
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
    """Keep the row and column of word v in lane v."""
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
    """Fill e(h; m) for words low … high, the only ones left at this level. `low` is a multiple of eight.

    Returns the root weight of the last word after all others are eliminated, 0 if a D is zero. Writes the D of the
    other words to ``work.totals``.
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
