# mypy: ignore-errors
"""Sums over derivations in the linear domain, each cell of the charts with a scale of its own.

With weights w of rules, words and spans (exponentials of scores), and a word's symbols in place of b for one word:

    M(B, C; i, j) = Σ_{i≤m<j} w(i, m, j) t(B; i, m) t(C; m+1, j)      once for every pair of children
    b(A; i, j)    = w(A; i, j) Σ_{A → B C} w(A → B C) M(B, C; i, j)
    t(A; i, j)    = b(A; i, j) + w(A'; i, j) Σ_{A → B} w(A → B) b(B; i, j)       at most one unary rule
    Z             = t(root; 1, n)

(Lari and Young 1990; A' is A as built by a unary rule. If anchored rules are parts, b sums over those listed instead of
M, see `anchored.py`.) ``scaling.py`` says how underflow is kept out.
"""

from __future__ import annotations

import math

import numpy as np

from partwise.compiled.dispatch import inner
from partwise.compiled.simd import exponential_row, maximum
from partwise.structures.grammar.anchored import anchored_parents, anchored_unary_sums, anchored_unary_top
from partwise.structures.grammar.cells import cell_of, find_rows, rule_part, span_part, split_part
from partwise.structures.grammar.dense import BATCH, dense_parents, fill_tensor
from partwise.structures.grammar.recursion import inside
from partwise.structures.grammar.scaling import (
    DROPS,
    FLOOR,
    FOUND_SMALL,
    LEAST_MAXIMUM,
    LEAST_PRODUCT,
    LEAST_WEIGHT,
    NEGLIGIBLE,
    divide_by_maximum,
    rule_weights,
    weight_of,
)
from partwise.structures.grammar.sparse import sparse_parents
from partwise.structures.semirings import LOGS


@inner
def round_up(width):  # type: ignore
    return (width + 7) & ~7


@inner
def _word_cell(s, i, at, scores, work):  # type: ignore
    """Below a unary rule, a word has its own symbols. Returns the scale."""
    width = s.word_symbol.size
    top = maximum(scores, i * width, width)
    for a in range(s.stride):
        work.below[at + a] = 0.0
    if top == -np.inf:
        return top
    for c in range(width):
        work.below[at + s.word_symbol[c]] = weight_of(scores[i * width + c] - top, FLOOR, work.state)
    return top


@inner
def _split_weights(s, n, i, j, scores, split, work):  # type: ignore
    """Scaled weights of all splits of a span; returns the logarithm taken out, −inf if none is possible.

    They are kept for the outside pass: computed again, large logarithms might be rounded in another way.
    """
    top, weight = -np.inf, work.split_weight
    first = cell_of(n, i, j) * n
    for m in range(i, j):
        score = work.scale[cell_of(n, i, m)] + work.scale[cell_of(n, m + 1, j)]
        if s.has_splits:
            score += scores[split + m - i]
        weight[first + m - i] = score
        top = max(top, score)
    for m in range(j - i):
        score = weight[first + m]
        weight[first + m] = weight_of(score - top, LEAST_WEIGHT, work.state) if score > -np.inf else 0.0
    return top


@inner
def _no_splits(n, cell, length, work):  # type: ignore
    """A pruned span adds nothing to products of matrices."""
    for m in range(length - 1):
        work.split_weight[cell * n + m] = 0.0
    return -np.inf


@inner
def _binary_cell(s, n, cell, scores, split_top, work):  # type: ignore
    """``work.below`` from the parents' sums in it; returns the scale, NaN if double precision does not suffice."""
    at, below, width = cell * s.stride, work.below, s.binary_symbol.size
    if work.row_of[cell] < 0 or split_top == -np.inf or width == 0:
        return -np.inf
    first = span_part(s, n, work.row_of[cell])
    span_top = maximum(scores, first, width)
    if span_top == -np.inf:
        return -np.inf
    exponential_row(work.factors, 0, scores, first, width, round_up(width), span_top)
    is_possible = False
    for c in range(width):
        a = at + s.binary_symbol[c]
        if scores[first + c] == -np.inf:
            below[a] = 0.0
        elif below[a] != 0.0:
            is_possible = True
            below[a] = max(below[a] * work.factors[c], LEAST_PRODUCT)
    if not is_possible:
        return -np.inf
    norm = divide_by_maximum(below, at, s.n_symbols, work.state)
    work.binary_norm[cell] = norm
    return split_top + span_top + math.log(norm) if norm >= LEAST_MAXIMUM else np.nan


@inner
def unary_factors(s, n, cell, scores, top, work):  # type: ignore
    """Weights of the unary symbols of a span in ``work.factors``: their first part, and what they were scaled by."""
    width = s.unary_symbol.size
    first = span_part(s, n, work.row_of[cell]) + s.binary_symbol.size
    span_top = maximum(scores, first, width)
    if span_top > -np.inf:
        exponential_row(work.factors, 0, scores, first, width, round_up(width), span_top)
    return first, span_top + top


@inner
def _unary_cell(s, n, shape, cell, scores, top, rules, scale, work):  # type: ignore
    """Fill ``work.inside`` from ``work.below``; `top` is the largest score of a unary rule. Returns the scale."""
    at, inside, below = cell * s.stride, work.inside, work.below
    is_possible = scale > -np.inf
    for a in range(s.stride):
        inside[at + a] = below[at + a] if is_possible else 0.0
    work.unary_norm[cell] = 1.0
    if not is_possible or s.unary_symbol.size == 0:
        return scale
    if s.is_anchored:
        top = anchored_unary_top(s, shape, cell, scores, rules, work)
    first, lift = unary_factors(s, n, cell, scores, top, work)
    if lift == -np.inf:
        return scale
    sums, shift = work.sums, max(lift, 0.0)
    for a in range(s.n_symbols):
        sums[a] = 0.0
    if s.is_anchored:
        anchored_unary_sums(s, shape, cell, work)
    else:
        for u in range(s.unary_parent.size):
            sums[s.unary_parent[u]] += work.weight[s.parent.size + u] * below[at + s.unary_child[u]]
    keep, change = math.exp(max(-shift, -700.0)), math.exp(max(lift - shift, -700.0))
    for a in range(s.n_symbols):
        if inside[at + a] != 0.0:
            inside[at + a] = max(inside[at + a] * keep, LEAST_PRODUCT)
    for c in range(s.unary_symbol.size):
        a = s.unary_symbol[c]
        if scores[first + c] > -np.inf and sums[a] != 0.0:
            inside[at + a] += max(sums[a] * work.factors[c] * change, LEAST_PRODUCT)
    norm = divide_by_maximum(inside, at, s.n_symbols, work.state)
    work.unary_norm[cell] = norm
    return scale + shift + math.log(norm) if norm >= LEAST_MAXIMUM else np.nan


@inner
def _parents(s, n, shape, length, first, count, scores, split, rules, work):  # type: ignore
    """The sums of binary rules over `count` spans of one length, that from word `first` on.

    Scales of cells are the logarithms taken out of splits. Anchored rules take out their own instead.
    """
    for i in range(first, first + count):
        at = cell_of(n, i, i + length - 1) * s.stride
        for a in range(s.stride):
            work.below[at + a] = 0.0
    if s.is_dense:
        dense_parents(s, n, length, first, count, work)
        return
    for i in range(first, first + count):
        j, cell = i + length - 1, cell_of(n, i, i + length - 1)
        if s.is_anchored and work.row_of[cell] >= 0:
            work.scale[cell] = anchored_parents(s, n, shape, i, j, scores, split, rules, work)
            split += length - 1 if s.has_splits else 0
        elif work.scale[cell] > -np.inf:
            sparse_parents(s, n, i, j, work)


@inner
def grammar_inside(s, shape, scores, work):  # type: ignore
    """Fill the charts; returns log Z, or NaN if double precision does not suffice."""
    n, rules, split = find_rows(s, shape, work), rule_part(s, shape), split_part(s, shape)
    work.state[FOUND_SMALL] = 0
    binary_top = unary_top = 0.0
    if not s.is_anchored:
        binary_top, unary_top = rule_weights(s, scores, rules, work)
    if s.is_dense and n > 1:
        fill_tensor(s, work)
    scale = work.scale
    for i in range(n):
        cell = cell_of(n, i, i)
        own = _word_cell(s, i, cell * s.stride, scores, work)
        scale[cell] = _unary_cell(s, n, shape, cell, scores, unary_top, rules, own, work)
        if scale[cell] != scale[cell]:
            return np.nan
    for length in range(2, n + 1):
        for first in range(0, n - length + 1, BATCH):
            count, first_split = min(BATCH, n - length + 1 - first), split
            for i in range(first, first + count):
                cell = cell_of(n, i, i + length - 1)
                if work.row_of[cell] >= 0:
                    scale[cell] = _split_weights(s, n, i, i + length - 1, scores, split, work)
                    split += length - 1 if s.has_splits else 0
                else:
                    scale[cell] = _no_splits(n, cell, length, work)
            _parents(s, n, shape, length, first, count, scores, first_split, rules, work)
            for i in range(first, first + count):
                cell = cell_of(n, i, i + length - 1)
                own = _binary_cell(s, n, cell, scores, scale[cell], work)
                if own == own:
                    own = _unary_cell(s, n, shape, cell, scores, unary_top, rules, own, work)
                scale[cell] = own
                if own != own:
                    return np.nan
    cell = cell_of(n, 0, n - 1)
    value = work.inside[cell * s.stride + s.root]
    if value == 0.0 or scale[cell] == -np.inf:
        return -np.inf
    return scale[cell] + math.log(value) + ((n - 1) * binary_top if n > 1 else 0.0)


@inner
def grammar_log_partition(s, shape, scores, work):  # type: ignore
    """If small numbers were raised to the floor, a value between the sums with them raised and with them dropped."""
    work.state[DROPS] = 0
    value = grammar_inside(s, shape, scores, work)
    if value == -np.inf or (value == value and work.state[FOUND_SMALL] == 0):
        return value
    if value == value:
        work.state[DROPS] = 1
        if value - grammar_inside(s, shape, scores, work) <= NEGLIGIBLE:
            return value
    return inside(LOGS, s, shape, scores, work)
