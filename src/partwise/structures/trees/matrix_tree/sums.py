# mypy: ignore-errors
"""Sums over spanning trees, without a subtraction: elimination of words as in Markov chains.

Divide each word's weights by their sum: p(h | m) is the probability of a step from word m to h. Then Z is the
probability that heads drawn at random form a tree. It equals Π_v D_v if words are eliminated one by one:

    D_v = Σ_h p(h | v) over the remaining heads h ≠ v (including the root)
    p(h | m) ← p(h | m) + p(v | m) p(h | v) / D_v

This is Gaussian elimination on the Laplacian of the matrix-tree theorem (Tutte 1948; Koo et al. 2007; Smith and
Smith 2007), with the diagonal recomputed as a sum (Grassmann, Taksar and Heyman 1985). Every number keeps its full
relative accuracy, and no pivoting is needed. The head of m is h with probability proportional to

    p(h | m) e(h; m),   e(h; m) = the probability that a walk from h reaches the root before m,

because a walk's last departure from m counts (Wilson 1996). For words eliminated before m,

    e(v; m) = p(root | v) / D_v + Σ_h p(h | v) / D_v · e(h; m).

Each m must be eliminated last. So one half of the words is eliminated for the other half and vice versa, and so on
within each half: n³ operations in all. Eight words or fewer are eliminated side by side (`block.py`).

A single root is the limit of root weights going to zero. The root is then omitted from every D_v, and only ratios of
root weights matter.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from partwise.compiled.boundary import Integers, Reals
from partwise.compiled.dispatch import fragment, inner
from partwise.compiled.simd import exponential_row, maximum
from partwise.compiled.simd_rows import LANES, add_scaled, combine_between, normalise_row, scale_row, sum_row
from partwise.structures.trees.arc_tables import (
    arc_log_partition,
    arc_marginals,
    best_heads,
    stride_of,
    tree_oracle,
    tree_workspace,
)
from partwise.structures.trees.matrix_tree.block import BLOCK_SIZE, escape_block
from partwise.structures.trees.matrix_tree.chu_liu_edmonds import spanning_best
from partwise.structures.trees.matrix_tree.logs import spanning_in_logs

# Underflow errors grow by at most 1 / Z. If log Z is below this, they may matter, and logarithms are used.
_SMALLEST_LOG = -600.0
# If the shares of a word's heads add up to less before they are normalised, underflow errors may matter.
_SMALLEST_TOTAL = 1e-250


class SpanningSpecification(NamedTuple):
    """Spanning trees. Arcs have one of `n_relations` relations."""

    n_relations: int
    single_root: bool


class SpanningWorkspace(NamedTuple):
    """Tables by [modifier, head]: `scores` and `marginals` with the root, in rows of ``stride_of(n)``.

    Attributes
    ----------
    levels : ndarray
        p(h | m) without the root, one table for each level of halving; rows of ``(n + 7) & ~7``.
    roots : ndarray
        p(root | m), one row for each level.
    escapes : ndarray
        e(h; m) by [h, m].
    totals, block, relations : ndarray
        D_v, tables of eight eliminations side by side, and one padded row of relations.
    origins : ndarray of int64
        For the best tree: the word that an entry of a merged row belongs to.
    heads : ndarray (n + 1,) of int64
    """

    scores: Reals
    marginals: Reals
    levels: Reals
    roots: Reals
    escapes: Reals
    totals: Reals
    block: Reals
    relations: Reals
    origins: Integers
    heads: Integers


@tree_workspace.register(SpanningSpecification)
@inner(allocates=True)
def spanning_workspace(specification, longest):  # type: ignore
    stride = (longest + LANES) & ~(LANES - 1)  # as `stride_of`; also called from Python
    depth, width = 3, LANES
    while width < longest:
        depth, width = depth + 1, 2 * width
    size = (longest + 2) * stride
    rows_size = (depth + 1) * stride + BLOCK_SIZE + specification.n_relations + 2 * LANES
    buffer = np.empty((depth + 3) * size + rows_size + LANES)
    first = (-(buffer.ctypes.data // 8)) % LANES  # rows start at cache lines
    rows = first + (depth + 3) * size
    return SpanningWorkspace(
        buffer[first : first + size],
        buffer[first + size : first + 2 * size],
        buffer[first + 2 * size : first + (depth + 2) * size],
        buffer[rows : rows + depth * stride],
        buffer[first + (depth + 2) * size : rows],
        buffer[rows + depth * stride : rows + (depth + 1) * stride],
        buffer[rows + (depth + 1) * stride : rows + (depth + 1) * stride + BLOCK_SIZE],
        buffer[rows + (depth + 1) * stride + BLOCK_SIZE :],
        np.empty(size, np.int64),
        np.empty(longest + 1, np.int64),
    )


@inner
def spanning_weights(n, single_root, work):  # type: ignore
    """Fill level 0 from scores. Returns the log of the product of scales, NaN if a word has no head."""
    stride, width = stride_of(n), (n + LANES - 1) & ~(LANES - 1)
    levels, roots, scores = work.levels, work.roots, work.scores
    shifts, product, root_shift = 0.0, 1.0, -np.inf
    for m in range(n):
        source, row = (m + 1) * stride, m * width
        shift = maximum(scores, source + 1, n) if single_root else maximum(scores, source, n + 1)
        if shift == -np.inf:
            return np.nan
        exponential_row(levels, row, scores, source + 1, n, width, shift)
        total = sum_row(levels, row, width)
        if single_root:
            roots[m] = scores[source] - shift - math.log(total)
            root_shift = max(root_shift, roots[m])
        else:
            roots[m] = math.exp(scores[source] - shift)
            total += roots[m]
            roots[m] /= total
        scale_row(levels, row, 1.0 / total, levels, row, width)
        shifts += shift
        product *= total
        if product > 1e200:
            shifts += math.log(product)
            product = 1.0
    if single_root:
        if root_shift == -np.inf:
            return np.nan
        for m in range(n):
            roots[m] = math.exp(roots[m] - root_shift)
        shifts += root_shift
    return shifts + math.log(product)


@fragment
def _copy_level(n, depth, low, high, work):  # type: ignore
    """Copy rows low … high of one level to the next."""
    width = (n + LANES - 1) & ~(LANES - 1)
    begin = low & ~(LANES - 1)
    size = ((high + LANES - 1) & ~(LANES - 1)) - begin
    for m in range(low, high):
        here = (depth * n + m) * width + begin
        scale_row(work.levels, here + n * width, 1.0, work.levels, here, size)
        work.roots[(depth + 1) * width + m] = work.roots[depth * width + m]


@inner
def _eliminate(n, depth, low, high, first, last, single_root, work):  # type: ignore
    """Eliminate words first … last from a table on low … high, and divide their rows by D.

    Entries of eliminated words are zero, so whole vectors can be added. A word's own entry is −1, which makes its
    column zero. Returns False if a D is zero.
    """
    width = (n + LANES - 1) & ~(LANES - 1)
    begin = low & ~(LANES - 1)
    size = ((high + LANES - 1) & ~(LANES - 1)) - begin
    levels, roots, table, root = work.levels, work.roots, depth * n * width, depth * width
    for v in range(first, last):
        own = table + v * width
        to_root = roots[root + v]
        total = normalise_row(levels, own + begin, size, v - begin, 0.0 if single_root else to_root)
        if not total > 0.0:
            return False
        work.totals[v] = total
        to_root /= total
        roots[root + v] = to_root
        for m in range(low, high):
            if m < first or m > v:
                row = table + m * width
                through = levels[row + v]
                add_scaled(levels, row + begin, through, levels, own + begin, size)
                roots[root + m] += through * to_root
    return True


@inner
def _escape_rows(n, depth, first, last, low, high, work):  # type: ignore
    """Fill e(v; m) for eliminated words v in first … last, in reverse order, and words m in low … high."""
    width = (n + LANES - 1) & ~(LANES - 1)
    for v in range(last - 1, first - 1, -1):
        own, to_root = (depth * n + v) * width, work.roots[depth * width + v]
        combine_between(work.escapes, width, v, low, high, to_root, work.levels, own, v + 1, last, low, high)


@fragment
def _log_total(n, last_root, totals):  # type: ignore
    """Log of the last word's root weight times all D, NaN if the product is zero."""
    result, product = 0.0, last_root
    for v in range(n):
        if not product > 0.0:
            return np.nan
        if product < 1e-150 or v == n - 1:
            result += math.log(product)
            product = 1.0
        if v < n - 1:
            product *= totals[v]
    return result


@inner(allocates=True)
def _escapes(n, single_root, work):  # type: ignore
    """Fill ``work.escapes``. Returns log Z of the normalised weights, NaN if a D is zero."""
    lows, highs = np.empty(64, np.int64), np.empty(64, np.int64)
    stages = np.zeros(64, np.int64)
    lows[0], highs[0], depth, log_total = 0, n, np.int64(0), np.nan
    while depth >= 0:
        low, high, stage = lows[depth], highs[depth], stages[depth]
        if high - low <= LANES:
            last_root = escape_block(n, depth, low, high, single_root, work)
            if not last_root > 0.0:
                return np.nan
            if high == n:
                log_total = _log_total(n, last_root, work.totals)
            depth -= 1
            continue
        middle = (low + (high - low) // 2 + LANES - 1) & ~(LANES - 1)
        if stage == 1:
            _escape_rows(n, depth + 1, low, middle, middle, high, work)
        elif stage == 2:
            _escape_rows(n, depth + 1, middle, high, low, middle, work)
            depth -= 1
            continue
        _copy_level(n, depth, low, high, work)
        first, last = (low, middle) if stage == 0 else (middle, high)
        if not _eliminate(n, depth + 1, low, high, first, last, single_root, work):
            return np.nan
        stages[depth] += 1
        depth += 1
        lows[depth], highs[depth], stages[depth] = (middle, high, 0) if stage == 0 else (low, middle, 0)
    return log_total


@arc_marginals.register(SpanningSpecification)
@inner
def spanning_marginals(specification, n, work):  # type: ignore
    single_root = specification.single_root and n > 1
    stride, width = stride_of(n), (n + LANES - 1) & ~(LANES - 1)
    shifts = spanning_weights(n, single_root, work)
    log_total = _escapes(n, single_root, work) if shifts == shifts else np.nan
    if not log_total > _SMALLEST_LOG:
        return spanning_in_logs(n, specification.single_root, stride, work.scores, work.marginals, True)
    for m in range(n):
        row = (m + 1) * stride
        work.marginals[row] = work.roots[m]
        total = work.roots[m]
        for h in range(n):
            share = work.levels[m * width + h] * work.escapes[h * width + m]
            work.marginals[row + 1 + h] = share
            total += share
        if not total > _SMALLEST_TOTAL:  # all heads of a word underflowed
            return spanning_in_logs(n, specification.single_root, stride, work.scores, work.marginals, True)
        inverse = 1.0 / total
        for h in range(n + 1):
            work.marginals[row + h] *= inverse
    return shifts + log_total


@arc_log_partition.register(SpanningSpecification)
@inner
def spanning_log_partition(specification, n, work):  # type: ignore
    single_root = specification.single_root and n > 1
    shifts, zero = spanning_weights(n, single_root, work), np.int64(0)
    if shifts == shifts and _eliminate(n, zero, zero, n, zero, n - 1, single_root, work):
        log_total = _log_total(n, work.roots[n - 1], work.totals)
        if log_total > _SMALLEST_LOG:
            return shifts + log_total
    stride = stride_of(n)
    return spanning_in_logs(n, specification.single_root, stride, work.scores, work.marginals, False)


@best_heads.register(SpanningSpecification)
@inner
def spanning_best_heads(specification, n, work):  # type: ignore
    return spanning_best(n, specification.single_root, work)


SPANNING = tree_oracle("spanning", SpanningSpecification, SpanningWorkspace)
