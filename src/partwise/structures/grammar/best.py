# mypy: ignore-errors
"""The best derivation: the recursions of ``inside.py`` with maxima of scores instead of sums of weights."""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import inner
from partwise.structures.grammar.cells import cell_of, find_rows, rule_part, span_part, split_part
from partwise.structures.grammar.dense import dense_maxima, fill_score_tensor


@inner
def _pair_maxima(s, n, i, j, scores, split, work):  # type: ignore
    best, inside = work.pair_sum, work.inside
    for p in range(s.pair_right.size):
        best[p] = -np.inf
    for m in range(i, j):
        left, right = cell_of(n, i, m) * s.stride, cell_of(n, m + 1, j) * s.stride
        own = scores[split + m - i] if s.has_splits else 0.0
        for k in range(s.left_symbol.size):
            amount = inside[left + s.left_symbol[k]] + own
            if amount > -np.inf:
                for p in range(s.left_ptr[k], s.left_ptr[k + 1]):
                    best[p] = max(best[p], amount + inside[right + s.pair_right[p]])


@inner
def _sparse_maxima(s, n, i, j, scores, split, rules, work):  # type: ignore
    """The best scores of binary rules over one span, without its own, in ``work.below``."""
    at, below = cell_of(n, i, j) * s.stride, work.below
    _pair_maxima(s, n, i, j, scores, split, work)
    for p in range(s.pair_right.size):
        value = work.pair_sum[p]
        if value > -np.inf:
            for q in range(s.pair_ptr[p], s.pair_ptr[p + 1]):
                a = at + s.parent[q]
                below[a] = max(below[a], scores[rules + s.rule[q]] + value)


@inner
def _best_below(s, n, i, j, scores, split, rules, work):  # type: ignore
    """``work.below`` of a cell."""
    cell = cell_of(n, i, j)
    at, below = cell * s.stride, work.below
    for a in range(s.stride):
        below[at + a] = -np.inf
    if i == j:
        for c in range(s.word_symbol.size):
            below[at + s.word_symbol[c]] = scores[i * s.word_symbol.size + c]
        return
    if work.row_of[cell] < 0:
        return
    if s.is_dense:
        dense_maxima(s, n, i, j, scores, split, work)
    else:
        _sparse_maxima(s, n, i, j, scores, split, rules, work)
    first = span_part(s, n, work.row_of[cell])
    for c in range(s.binary_symbol.size):
        below[at + s.binary_symbol[c]] += scores[first + c]


@inner
def _unary_first(s, n, cell, work):  # type: ignore
    """The first part of a span's symbols as built by unary rules."""
    return span_part(s, n, work.row_of[cell]) + s.binary_symbol.size


@inner
def best_charts(s, shape, scores, work):  # type: ignore
    """Fill ``work.below`` and ``work.inside`` with the best scores of every symbol over every span."""
    n, rules, split = find_rows(s, shape, work), rule_part(s, shape), split_part(s, shape)
    if s.is_dense and n > 1:
        fill_score_tensor(s, scores, rules, work)
    for length in range(1, n + 1):
        for i in range(n - length + 1):
            j = i + length - 1
            cell = cell_of(n, i, j)
            at = cell * s.stride
            _best_below(s, n, i, j, scores, split, rules, work)
            for a in range(s.stride):
                work.inside[at + a] = work.below[at + a]
            if work.row_of[cell] < 0:
                continue
            if s.has_splits:
                split += j - i
            first = _unary_first(s, n, cell, work)
            for c in range(s.unary_symbol.size):
                work.factors[s.unary_symbol[c]] = scores[first + c]
            for u in range(s.unary_parent.size):
                a = s.unary_parent[u]
                value = scores[rules + s.rule.size + u] + work.below[at + s.unary_child[u]]
                work.inside[at + a] = max(work.inside[at + a], value + work.factors[a])
    return work.inside[cell_of(n, 0, n - 1) * s.stride + s.root]


@inner
def _best_unary(s, at, a, rules, scores, own, work):  # type: ignore
    """The unary rule that is better than none over the symbol `a` of a cell; −1 if there is none."""
    found, top = -1, work.below[at + a]
    for u in range(s.unary_parent.size):
        if s.unary_parent[u] == a:
            value = scores[rules + s.rule.size + u] + work.below[at + s.unary_child[u]] + own
            if value > top:
                found, top = u, value
    return found


@inner
def _best_binary(s, n, i, j, a, rules, scores, split, work):  # type: ignore
    """The rule, in the order of pairs, and the split that are best for the symbol `a` over i … j."""
    found, where, top = -1, -1, -np.inf
    for k in range(s.parent_ptr[a], s.parent_ptr[a + 1]):
        q = s.by_parent[k]
        b, c, own = s.pair_left[s.pair_of[q]], s.pair_right[s.pair_of[q]], scores[rules + s.rule[q]]
        if own == -np.inf:
            continue
        for m in range(i, j):
            value = work.inside[cell_of(n, i, m) * s.stride + b] + (
                scores[split + m - i] if s.has_splits else 0.0
            )
            value = own + (value + work.inside[cell_of(n, m + 1, j) * s.stride + c])
            if value > top:
                found, where, top = q, m, value
    return found, where


@inner
def _split_parts(s, shape, row):  # type: ignore
    """The first split part of a row."""
    at = split_part(s, shape)
    if s.has_splits:
        for k in range(row - shape[0]):
            at += shape[2 * k + 3] - shape[2 * k + 2]
    return at


@inner
def grammar_best(s, shape, scores, counts, work):  # type: ignore
    """The best score; writes the part counts of a derivation that has it, opened from the top."""
    top, n, rules = best_charts(s, shape, scores, work), np.int64(shape[0]), rule_part(s, shape)
    for k in range(rules + s.rule.size + s.unary_parent.size):
        counts[k] = 0.0
    if top == -np.inf:
        return top
    nodes, waiting = work.nodes, 1
    nodes[0], nodes[1], nodes[2] = 0, n - 1, s.root
    while waiting > 0:
        waiting -= 1
        i, j, a = nodes[3 * waiting], nodes[3 * waiting + 1], nodes[3 * waiting + 2]
        cell = cell_of(n, i, j)
        if s.unary_column[a] >= 0:
            part = _unary_first(s, n, cell, work) + s.unary_column[a]
            u = _best_unary(s, cell * s.stride, a, rules, scores, scores[part], work)
            if u >= 0:
                counts[part] += 1.0
                counts[rules + s.rule.size + u] += 1.0
                a = s.unary_child[u]
        if i == j:
            counts[i * s.word_symbol.size + s.word_column[a]] += 1.0
            continue
        row = work.row_of[cell]
        split = _split_parts(s, shape, row)
        q, m = _best_binary(s, n, i, j, a, rules, scores, split, work)
        counts[span_part(s, n, row) + s.binary_column[a]] += 1.0
        counts[rules + s.rule[q]] += 1.0
        if s.has_splits:
            counts[split + m - i] += 1.0
        nodes[3 * waiting], nodes[3 * waiting + 1], nodes[3 * waiting + 2] = i, m, s.pair_left[s.pair_of[q]]
        waiting += 1
        nodes[3 * waiting], nodes[3 * waiting + 1], nodes[3 * waiting + 2] = (
            m + 1,
            j,
            s.pair_right[s.pair_of[q]],
        )
        waiting += 1
    return top
