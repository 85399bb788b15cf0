# mypy: ignore-errors
"""Expected counts: the chain rule through the sums of ``inside.py``, from the longest span down.

The chart holds derivatives of log Z by t, which times t are probabilities of nodes; then by b, below unary rules.
"""

from __future__ import annotations

import math

import numpy as np

from partwise.compiled.dispatch import inner
from partwise.compiled.simd import exponential_row, maximum
from partwise.structures.grammar.anchored import anchored_children, anchored_unary_outside
from partwise.structures.grammar.cells import cell_of, n_anchored, rule_part, span_part
from partwise.structures.grammar.dense import BATCH, dense_children, read_tensor_counts
from partwise.structures.grammar.inside import grammar_inside, round_up, unary_factors
from partwise.structures.grammar.recursion import expectations_in_logs
from partwise.structures.grammar.scaling import DROPS, LEAST_WEIGHT, NEGLIGIBLE, raised_counts
from partwise.structures.grammar.sparse import sparse_children


@inner
def _unary_outside(s, n, shape, cell, scores, top, counts, rules, work):  # type: ignore
    """From derivatives by t to those by b, in ``work.outside``; writes counts of unary symbols and rules.

    Returns counts of anchored rules whose weight was raised.
    """
    at, outside, below = cell * s.stride, work.outside, work.below
    first, lift = unary_factors(s, n, cell, scores, work.unary_top[cell] if s.is_anchored else top, work)
    raised = 0.0
    if lift == -np.inf:
        return raised
    shift, norm = max(lift, 0.0), work.unary_norm[cell]
    keep, change = math.exp(max(-shift, -700.0)) / norm, math.exp(max(lift - shift, -700.0)) / norm
    shares = work.shares
    for c in range(s.unary_symbol.size):
        a = s.unary_symbol[c]
        shares[a] = 0.0
        if scores[first + c] > -np.inf:
            shares[a] = outside[at + a] * work.factors[c] * change
    for a in range(s.n_symbols):
        outside[at + a] *= keep
        work.sums[a] = 0.0
    if s.is_anchored:
        raised = anchored_unary_outside(s, shape, cell, counts, rules, work)
    else:
        for u in range(s.unary_parent.size):
            a, b = s.unary_parent[u], s.unary_child[u]
            amount = shares[a] * work.weight[s.parent.size + u]
            if amount != 0.0:
                count = amount * below[at + b]
                outside[at + b] += amount
                work.rule_count[s.parent.size + u] += count
                work.sums[a] += count
    for c in range(s.unary_symbol.size):
        counts[first + c] = work.sums[s.unary_symbol[c]]
    return raised


@inner
def _parent_derivatives(s, n, cell, own, scores, counts, work):  # type: ignore
    """Derivatives by the parents' sums in ``work.parents[own:]``, and counts of the span's binary symbols."""
    at, width = cell * s.stride, s.binary_symbol.size
    first, parents, outside = span_part(s, n, work.row_of[cell]), work.parents, work.outside
    span_top, inverse = maximum(scores, first, width), 1.0 / work.binary_norm[cell]
    exponential_row(work.factors, 0, scores, first, width, round_up(width), span_top)
    for c in range(width):
        a = at + s.binary_symbol[c]
        counts[first + c] = outside[a] * work.below[a]
        if scores[first + c] > -np.inf:
            parents[own + c] = outside[a] * work.factors[c] * inverse


@inner
def _outside_of_cell(s, n, shape, cell, own, scores, top, counts, rules, work):  # type: ignore
    """All that happens above the children of a cell; returns counts of what was raised."""
    at, width = cell * s.stride, s.word_symbol.size
    for c in range(s.parent_stride):
        work.parents[own + c] = 0.0
    if work.row_of[cell] < 0 or work.scale[cell] == -np.inf:
        return 0.0
    raised = raised_counts(work.inside, work.outside, at, s.n_symbols)
    if s.unary_symbol.size > 0:
        raised += _unary_outside(s, n, shape, cell, scores, top, counts, rules, work)
        raised += raised_counts(work.below, work.outside, at, s.n_symbols)
    if work.row_of[cell] >= n:
        _parent_derivatives(s, n, cell, own, scores, counts, work)
        return raised
    for c in range(width):
        a = at + s.word_symbol[c]
        counts[work.row_of[cell] * width + c] = work.outside[a] * work.below[a]
    return raised


@inner
def _clear(s, n, rules, counts, work):  # type: ignore
    for k in range(rules):
        counts[k] = 0.0
    for q in range(s.rule.size + s.unary_parent.size):
        work.rule_count[q] = 0.0
    for k in range(n * (n + 1) // 2 * s.stride):
        work.outside[k] = 0.0
    for k in range(work.tensor_count.size):
        work.tensor_count[k] = 0.0


@inner
def _children(s, n, shape, length, first, count, counts, rules, work):  # type: ignore
    """Below the nodes of `count` spans of one length; returns counts of splits whose weight was raised."""
    if s.is_dense:
        return dense_children(s, n, length, first, count, counts, work)
    raised = 0.0
    for k in range(count):
        i = first + k
        j, own, split = i + length - 1, k * s.parent_stride, work.first_split[k]
        if s.is_anchored:
            raised += anchored_children(s, n, shape, i, j, own, counts, split, rules, work)
        else:
            raised += sparse_children(s, n, i, j, own, counts, split, work)
    return raised


@inner
def grammar_outside(s, shape, scores, counts, work):  # type: ignore
    """Write all expected counts; returns those of what was raised, NaN if double precision does not suffice."""
    n, rules = np.int64(shape[0]), rule_part(s, shape)
    _clear(s, n, rules, counts, work)
    top, raised, split = -np.inf, 0.0, rules - n_anchored(s, shape)
    for u in range(s.unary_parent.size):
        top = max(top, scores[rules + s.rule.size + u])
    at = cell_of(n, 0, n - 1) * s.stride + s.root
    work.outside[at] = 1.0 / work.inside[at]
    for length in range(n, 1, -1):
        for end in range(n - length + 1, 0, -BATCH):
            first = max(end - BATCH, 0)
            for i in range(end - 1, first - 1, -1):
                cell = cell_of(n, i, i + length - 1)
                split -= length - 1 if s.has_splits and work.row_of[cell] >= 0 else 0
                work.first_split[i - first] = split
                own = (i - first) * s.parent_stride
                raised += _outside_of_cell(s, n, shape, cell, own, scores, top, counts, rules, work)
            raised += _children(s, n, shape, length, first, end - first, counts, rules, work)
    for i in range(n):
        raised += _outside_of_cell(s, n, shape, cell_of(n, i, i), 0, scores, top, counts, rules, work)
    raised += _rule_counts(s, rules, counts, work)
    total = 0.0
    for k in range(rules):
        total += counts[k]
    return raised if total < np.inf else np.nan


@inner
def _rule_counts(s, rules, counts, work):  # type: ignore
    """Expected counts of rules in users' order; returns those of rules whose weight was raised."""
    raised = 0.0
    if s.is_dense:
        read_tensor_counts(s, work)
    for q in range(s.rule.size):
        counts[rules + s.rule[q]] = work.rule_count[q]
    for q in range(s.rule.size, s.rule.size + s.unary_parent.size):
        counts[rules + q] = work.rule_count[q]
    for q in range(s.rule.size + s.unary_parent.size):
        if work.weight[q] == LEAST_WEIGHT:
            raised += work.rule_count[q]
    return raised


@inner
def grammar_expectations(s, shape, scores, counts, work):  # type: ignore
    work.state[DROPS] = 0
    value = grammar_inside(s, shape, scores, work)
    if value == -np.inf:
        for k in range(rule_part(s, shape) + s.rule.size + s.unary_parent.size):
            counts[k] = 0.0
        return value
    if value == value and grammar_outside(s, shape, scores, counts, work) <= NEGLIGIBLE:
        return value
    return expectations_in_logs(s, shape, scores, counts, work)
