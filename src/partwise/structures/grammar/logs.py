# mypy: ignore-errors
"""The recursions of ``inside.py`` and ``outside.py`` on logarithms: slow, but right for any scores.

The charts of the workspace hold logarithms here.
"""

from __future__ import annotations

import math

import numpy as np

from partwise.compiled.dispatch import inner
from partwise.structures.grammar.cells import cell_of, find_rows, rule_part, span_part, split_part


@inner
def log_add(a, b):  # type: ignore
    """log(exp a + exp b)."""
    if a < b:
        a, b = b, a
    return a if b == -np.inf else a + math.log1p(math.exp(b - a))


@inner
def _pair_sums_in_logs(s, n, i, j, scores, split, work):  # type: ignore
    sums, inside = work.pair_sum, work.inside
    for p in range(s.pair_right.size):
        sums[p] = -np.inf
    for m in range(i, j):
        left, right = cell_of(n, i, m) * s.stride, cell_of(n, m + 1, j) * s.stride
        own = scores[split + m - i] if s.has_splits else 0.0
        for k in range(s.left_symbol.size):
            amount = inside[left + s.left_symbol[k]] + own
            if amount > -np.inf:
                for p in range(s.left_ptr[k], s.left_ptr[k + 1]):
                    sums[p] = log_add(sums[p], amount + inside[right + s.pair_right[p]])


@inner
def _below_in_logs(s, n, i, j, scores, split, rules, work):  # type: ignore
    """``work.below`` of a cell: a word's symbols, or those that binary rules build."""
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
    _pair_sums_in_logs(s, n, i, j, scores, split, work)
    for p in range(s.pair_right.size):
        if work.pair_sum[p] > -np.inf:
            for q in range(s.pair_ptr[p], s.pair_ptr[p + 1]):
                a = at + s.parent[q]
                below[a] = log_add(below[a], scores[rules + s.rule[q]] + work.pair_sum[p])
    first = span_part(s, n, work.row_of[cell])
    for c in range(s.binary_symbol.size):
        below[at + s.binary_symbol[c]] += scores[first + c]


@inner
def _inside_of_cell(s, n, cell, scores, rules, work):  # type: ignore
    """``work.inside`` of a cell from ``work.below``: with at most one unary rule."""
    at = cell * s.stride
    for a in range(s.stride):
        work.inside[at + a] = work.below[at + a]
    if work.row_of[cell] < 0:
        return
    _unary_symbol_scores(s, n, cell, scores, work)
    for u in range(s.unary_parent.size):
        a, b = s.unary_parent[u], s.unary_child[u]
        score = work.factors[a] + scores[rules + s.rule.size + u] + work.below[at + b]
        work.inside[at + a] = log_add(work.inside[at + a], score)


@inner
def _unary_symbol_scores(s, n, cell, scores, work):  # type: ignore
    """Scores of a span's symbols as built by unary rules, by symbol, in ``work.factors``."""
    first = span_part(s, n, work.row_of[cell]) + s.binary_symbol.size
    for c in range(s.unary_symbol.size):
        work.factors[s.unary_symbol[c]] = scores[first + c]


@inner
def inside_in_logs(s, shape, scores, work):  # type: ignore
    """Fill the charts; returns the log-partition."""
    n, rules, split = find_rows(s, shape, work), rule_part(s, shape), split_part(s, shape)
    for length in range(1, n + 1):
        for i in range(n - length + 1):
            j = i + length - 1
            cell = cell_of(n, i, j)
            _below_in_logs(s, n, i, j, scores, split, rules, work)
            _inside_of_cell(s, n, cell, scores, rules, work)
            if s.has_splits and work.row_of[cell] >= 0:
                split += j - i
    return work.inside[cell_of(n, 0, n - 1) * s.stride + s.root]


# The outside pass divides the probability of each node between the ways to build it, from the whole sentence down. The
# shares add up to one however large the scores are.


@inner
def _share_unaries(s, n, cell, scores, rules, counts, work):  # type: ignore
    """From probabilities of nodes (``work.outside``) to those below unary rules (``work.sums``)."""
    at, below, kept = cell * s.stride, work.below, work.rule_count
    first = span_part(s, n, work.row_of[cell]) + s.binary_symbol.size
    _unary_symbol_scores(s, n, cell, scores, work)
    for a in range(s.n_symbols):
        work.shares[a] = below[at + a]
    for u in range(s.unary_parent.size):
        a = s.unary_parent[u]
        # Kept: computed again, large numbers might be rounded in another way.
        kept[u] = work.factors[a] + scores[rules + s.rule.size + u] + below[at + s.unary_child[u]]
        work.shares[a] = max(work.shares[a], kept[u])
    for a in range(s.n_symbols):
        work.totals[a] = math.exp(below[at + a] - work.shares[a]) if below[at + a] > -np.inf else 0.0
    for u in range(s.unary_parent.size):
        a = s.unary_parent[u]
        kept[u] = math.exp(kept[u] - work.shares[a]) if kept[u] > -np.inf else 0.0
        work.totals[a] += kept[u]
    for a in range(s.n_symbols):
        work.sums[a] = 0.0
        if work.outside[at + a] > 0.0:
            work.shares[a] = math.exp(below[at + a] - work.shares[a])
            work.sums[a] = work.outside[at + a] * work.shares[a] / work.totals[a]
    for u in range(s.unary_parent.size):
        a, b = s.unary_parent[u], s.unary_child[u]
        if work.outside[at + a] > 0.0 and kept[u] > 0.0:
            count = work.outside[at + a] * kept[u] / work.totals[a]
            work.sums[b] += count
            counts[first + s.unary_column[a]] += count
            counts[rules + s.rule.size + u] += count


@inner
def _split_alternatives(s, n, i, j, q, scores, split, work):  # type: ignore
    """Log weights of a rule's children, in the order of pairs, at each split; returns the largest."""
    p, top, row = s.pair_of[q], -np.inf, work.split_weight
    for m in range(i, j):
        score = work.inside[cell_of(n, i, m) * s.stride + s.pair_left[p]]
        score += work.inside[cell_of(n, m + 1, j) * s.stride + s.pair_right[p]]
        row[m] = score + scores[split + m - i] if s.has_splits else score
        top = max(top, row[m])
    return top


@inner
def _exponentials(row, first, last, top):  # type: ignore
    """exp(row − top) in its place; returns the sum."""
    total = 0.0
    for m in range(first, last):
        row[m] = math.exp(row[m] - top)
    for m in range(first, last):
        total += row[m]
    return total


@inner
def _share_binaries(s, n, i, j, a, probability, scores, split, rules, counts, work):  # type: ignore
    """The probability of one node goes to its rules, and of each of these to the nodes at each split."""
    top, row, weight, first, last = (
        -np.inf,
        work.split_weight,
        work.weight,
        s.parent_ptr[a],
        s.parent_ptr[a + 1],
    )
    for k in range(first, last):
        q = s.by_parent[k]
        own = _split_alternatives(s, n, i, j, q, scores, split, work)
        weight[k] = own + scores[rules + s.rule[q]]
        if weight[k] > -np.inf:
            weight[k] += math.log(_exponentials(row, i, j, own))
        top = max(top, weight[k])
    total = _exponentials(weight, first, last, top)
    for k in range(first, last):
        q, share = s.by_parent[k], probability * weight[k] / total
        if share == 0.0:
            continue
        counts[rules + s.rule[q]] += share
        own = _split_alternatives(s, n, i, j, q, scores, split, work)
        share /= _exponentials(row, i, j, own)
        for m in range(i, j):
            work.outside[cell_of(n, i, m) * s.stride + s.pair_left[s.pair_of[q]]] += share * row[m]
            work.outside[cell_of(n, m + 1, j) * s.stride + s.pair_right[s.pair_of[q]]] += share * row[m]
            if s.has_splits:
                counts[split + m - i] += share * row[m]


@inner
def expectations_in_logs(s, shape, scores, counts, work):  # type: ignore
    """The log-partition; writes all expected counts."""
    total = inside_in_logs(s, shape, scores, work)
    n, rules = np.int64(shape[0]), rule_part(s, shape)
    split = rules
    for k in range(rules + s.rule.size + s.unary_parent.size):
        counts[k] = 0.0
    if total == -np.inf:
        return total
    for k in range(n * (n + 1) // 2 * s.stride):
        work.outside[k] = 0.0
    work.outside[cell_of(n, 0, n - 1) * s.stride + s.root] = 1.0
    for length in range(n, 0, -1):
        for i in range(n - length, -1, -1):
            j = i + length - 1
            cell = cell_of(n, i, j)
            if work.row_of[cell] < 0:
                continue
            if s.has_splits:
                split -= j - i
            _share_unaries(s, n, cell, scores, rules, counts, work)
            first = span_part(s, n, work.row_of[cell])
            for a in range(s.n_symbols):
                if work.sums[a] > 0.0 and length == 1:
                    counts[i * s.word_symbol.size + s.word_column[a]] = work.sums[a]
                elif work.sums[a] > 0.0:
                    counts[first + s.binary_column[a]] = work.sums[a]
                    _share_binaries(s, n, i, j, a, work.sums[a], scores, split, rules, counts, work)
    return total
