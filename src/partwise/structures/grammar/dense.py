# mypy: ignore-errors
"""Binary rules of a dense grammar, as products of matrices.

The rule tensor is contracted once a span: over splits, M(B, C) is a product of the left and the right nodes' rows; then
the parents' sums of up to ``BATCH`` spans of one length are one product with the tensor, which is read once for all of
them. Outside, the same products run backwards.
"""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import inner
from partwise.compiled.simd_blocks import add_matrix_product
from partwise.compiled.simd_max import best_rows
from partwise.compiled.simd_rows import add_scaled, scale_row
from partwise.structures.grammar.cells import cell_of
from partwise.structures.grammar.scaling import LEAST_WEIGHT

BATCH = 8  # spans at a time


@inner
def _add_product(  # type: ignore
    out, out_start, out_stride, a, a_start, a_row, a_step, b, b_start, b_stride, rows, count, width
):
    """``add_matrix_product``, compiled once."""
    add_matrix_product(
        out, out_start, out_stride, a, a_start, a_row, a_step, b, b_start, b_stride, rows, count, width
    )


@inner
def fill_tensor(s, work):  # type: ignore
    """The weights of binary rules by [left, right, parent] and by [parent, left, right]; clears their counts."""
    block, width, n_parents = s.n_symbols * s.stride, s.parent_stride, s.binary_symbol.size
    for k in range(block * width):
        work.tensor[k] = 0.0
    for q in range(s.rule.size):
        work.tensor[s.place[q]] = work.weight[q]
    for a in range(n_parents):
        for k in range(block):
            work.by_parent[a * block + k] = work.tensor[k * width + a]


@inner
def _pair_matrix(s, n, i, j, at, work):  # type: ignore
    """M(B, C; i, j) in ``work.pairs[at:]``; the right nodes' rows times the weights of splits in ``work.rights``."""
    for k in range(s.n_symbols * s.stride):
        work.pairs[at + k] = 0.0
    first = cell_of(n, i, j) * n
    for m in range(i, j):
        right = cell_of(n, m + 1, j) * s.stride
        scale_row(
            work.rights, (m - i) * s.stride, work.split_weight[first + m - i], work.inside, right, s.stride
        )
    # The left nodes' rows lie one behind another in the chart.
    _add_product(
        work.pairs, at, s.stride, work.inside, cell_of(n, i, i) * s.stride, 1, s.stride,
        work.rights, 0, s.stride, s.n_symbols, j - i, s.stride,
    )  # fmt: skip


@inner
def _rows_of(count):  # type: ignore
    """Eight rows take twice the time of one: with several, those that are not needed are computed too."""
    return 1 if count == 1 else BATCH


@inner
def dense_parents(s, n, length, first, count, work):  # type: ignore
    """Add Σ w(A → B C) M(B, C) to ``work.below`` of `count` spans of one length, that from word `first` on."""
    block, width = s.n_symbols * s.stride, s.parent_stride
    for k in range(count):
        _pair_matrix(s, n, first + k, first + k + length - 1, k * block, work)
    for k in range(BATCH * width):
        work.parents[k] = 0.0
    _add_product(
        work.parents, 0, width, work.pairs, 0, block, 1, work.tensor, 0, width, _rows_of(count), block, width
    )
    for k in range(count):
        at = cell_of(n, first + k, first + k + length - 1) * s.stride
        for c in range(s.binary_symbol.size):
            work.below[at + s.binary_symbol[c]] = work.parents[k * width + c]


@inner
def _children(s, n, i, j, at, counts, split, work):  # type: ignore
    """Derivatives by the sums of one span's children, from those by M in ``work.pair_derivatives[at:]``."""
    size, stride, cell, raised = j - i, s.stride, cell_of(n, i, j), 0.0
    for m in range(i, j):
        right, factor = cell_of(n, m + 1, j) * stride, work.split_weight[cell * n + m - i]
        scale_row(work.rights, (m - i) * stride, factor, work.inside, right, stride)
    for b in range(s.n_symbols):
        for c in range(s.n_symbols):
            work.transposed[c * stride + b] = work.pair_derivatives[at + b * stride + c]
    left = cell_of(n, i, i) * stride
    _add_product(
        work.outside, left, stride, work.rights, 0, stride, 1, work.transposed, 0, stride,
        size, s.n_symbols, stride,
    )  # fmt: skip
    for k in range(size * stride):
        work.rights[k] = 0.0
    _add_product(
        work.rights, 0, stride, work.inside, left, stride, 1, work.pair_derivatives, at, stride,
        size, s.n_symbols, stride,
    )  # fmt: skip
    for m in range(i, j):
        right, factor = cell_of(n, m + 1, j) * stride, work.split_weight[cell * n + m - i]
        add_scaled(work.outside, right, factor, work.rights, (m - i) * stride, stride)
        if s.has_splits or factor == LEAST_WEIGHT:
            count = 0.0
            for c in range(s.n_symbols):
                count += work.rights[(m - i) * stride + c] * work.inside[right + c]
            if s.has_splits:
                counts[split + m - i] = count * factor
            if factor == LEAST_WEIGHT:
                raised += count * factor
    return raised


@inner
def dense_children(s, n, length, first, count, counts, work):  # type: ignore
    """From derivatives by the parents' sums in ``work.parents`` to those by the children's, for `count` spans.

    Adds to the counts of rules; writes those of splits, whose first parts are in ``work.first_split``; returns counts
    of splits whose weight was raised.
    """
    block, width, raised = s.n_symbols * s.stride, s.parent_stride, 0.0
    for k in range(count):
        _pair_matrix(s, n, first + k, first + k + length - 1, k * block, work)
    for k in range(_rows_of(count) * block):
        work.pair_derivatives[k] = 0.0
    _add_product(
        work.pair_derivatives, 0, block, work.parents, 0, width, 1, work.by_parent, 0, block,
        _rows_of(count), s.binary_symbol.size, block,
    )  # fmt: skip
    _add_product(
        work.tensor_count, 0, block, work.parents, 0, 1, width, work.pairs, 0, block,
        s.binary_symbol.size, count, block,
    )  # fmt: skip
    for k in range(count):
        i = first + k
        raised += _children(s, n, i, i + length - 1, k * block, counts, work.first_split[k], work)
    return raised


@inner
def fill_score_tensor(s, scores, rules, work):  # type: ignore
    """The scores of binary rules by [left, right, parent]."""
    for k in range(s.n_symbols * s.stride * s.parent_stride):
        work.tensor[k] = -np.inf
    for q in range(s.rule.size):
        work.tensor[s.place[q]] = scores[rules + s.rule[q]]


@inner
def dense_maxima(s, n, i, j, scores, split, work):  # type: ignore
    """The best scores of binary rules over one span, without its own, in ``work.below``."""
    stride, at = s.stride, cell_of(n, i, j) * s.stride
    for m in range(i, j):
        right, own = cell_of(n, m + 1, j) * stride, scores[split + m - i] if s.has_splits else 0.0
        for c in range(stride):
            work.rights[(m - i) * stride + c] = work.inside[right + c] + own
    for b in range(s.n_symbols):
        left = cell_of(n, i, i) * stride + b
        best_rows(work.pairs, b * stride, work.inside, left, stride, j - i, work.rights, 0, stride)
    block = s.n_symbols * stride
    best_rows(work.parents, 0, work.pairs, 0, 1, block, work.tensor, 0, s.parent_stride)
    for c in range(s.binary_symbol.size):
        work.below[at + s.binary_symbol[c]] = work.parents[c]


@inner
def read_tensor_counts(s, work):  # type: ignore
    """Counts of rules from sums of derivatives times M, which their weights are still missing from."""
    block, width = s.n_symbols * s.stride, s.parent_stride
    for q in range(s.rule.size):
        pair, column = s.place[q] // width, s.parent_column[q]
        work.rule_count[q] = work.weight[q] * work.tensor_count[column * block + pair]
