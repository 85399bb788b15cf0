# mypy: ignore-errors
"""Sums over derivations: inside and outside in the linear domain, each cell of the charts with a scale of its own.

With weights w of rules, words and spans (exponentials of scores), and a word's symbols in place of b for one word:

    M(B, C; i, j) = Σ_{i≤m<j} w(i, m, j) t(B; i, m) t(C; m+1, j)      once for every pair of children
    b(A; i, j)    = w(A; i, j) Σ_{A → B C} w(A → B C) M(B, C; i, j)
    t(A; i, j)    = b(A; i, j) + w(A'; i, j) Σ_{A → B} w(A → B) b(B; i, j)       at most one unary rule
    Z             = t(root; 1, n)

(Lari and Young 1990; A' is A as built by a unary rule.) The outside pass is the chain rule through these, from the
longest span down, and gives derivatives of log Z, which times the sums are expected counts.

Rows of a chart are divided by their maximum, so that all numbers are at most one. No possible entry is let down to
zero: those below ``_FLOOR`` are raised to it, and weights of rules and splits to ``_LEAST_WEIGHT``, so that products of
four never underflow. Z is then too large by at most the expected counts of what was raised; where these are more than
rounding, the example is done again on logarithms.
"""

from __future__ import annotations

import math

import numpy as np

from partwise.compiled.dispatch import fragment, inner
from partwise.compiled.simd import exponential_row, maximum
from partwise.structures.grammar.cells import cell_of, find_rows, rule_part, span_part, split_part
from partwise.structures.grammar.inside_outside_log import expectations_in_logs, inside_in_logs

_FLOOR = 1e-90
_LEAST_WEIGHT = 1e-60
_LEAST_MAXIMUM = 1e-200  # of a row before it is divided: what underflowed beside it is below the floor
_RAISED = 1e-15  # expected counts of raised entries that are no more than rounding


@fragment
def _round_up(width):  # type: ignore
    return (width + 7) & ~7


@inner
def _weight(score, least, work):  # type: ignore
    """exp(score), at most one; what is possible and below `least` is raised to it, or dropped."""
    if score == -np.inf:
        return 0.0
    weight = math.exp(max(score, -700.0))
    if weight > least:
        return weight
    work.state[1] = 1
    return 0.0 if work.state[0] == 1 else least


@inner
def _rule_weights(s, scores, first, work):  # type: ignore
    """Scaled weights of all rules; returns the logarithms taken out of binary and of unary ones."""
    n_rules, weight = s.rule.size, work.weight
    binary_top = unary_top = -np.inf
    for q in range(n_rules):
        binary_top = max(binary_top, scores[first + q])
    for q in range(n_rules, n_rules + s.unary_parent.size):
        unary_top = max(unary_top, scores[first + q])
    for q in range(n_rules):
        score = scores[first + s.rule[q]]
        weight[q] = _weight(score - binary_top, _LEAST_WEIGHT, work) if score > -np.inf else 0.0
    for q in range(n_rules, n_rules + s.unary_parent.size):
        score = scores[first + q]
        weight[q] = _weight(score - unary_top, _LEAST_WEIGHT, work) if score > -np.inf else 0.0
    return binary_top, unary_top


@inner
def _divide(row, at, count, work):  # type: ignore
    """Divide by the maximum, which is returned; what is possible and below the floor is raised to it, or dropped."""
    top = 0.0
    for a in range(count):
        top = max(top, row[at + a])
    if top < _LEAST_MAXIMUM:
        return top
    inverse, lowest = 1.0 / top, top * _FLOOR
    floor, n_small = (0.0 if work.state[0] == 1 else _FLOOR), 0
    for a in range(count):
        n_small += 1 if 0.0 < row[at + a] <= lowest else 0
    for a in range(count):
        value = row[at + a]
        row[at + a] = value * inverse if value > lowest else (floor if value > 0.0 else 0.0)
    if n_small > 0:
        work.state[1] = 1
    return top


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
        work.below[at + s.word_symbol[c]] = _weight(scores[i * width + c] - top, _FLOOR, work)
    return top


@inner
def _split_weights(s, n, i, j, scores, split, work):  # type: ignore
    """Scaled weights of all splits of a span; returns the logarithm taken out, −inf where none is possible.

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
        weight[first + m] = _weight(score - top, _LEAST_WEIGHT, work) if score > -np.inf else 0.0
    return top


@inner
def _pair_sums(s, n, i, j, work):  # type: ignore
    """M(B, C; i, j), scaled as the weights of splits are."""
    inside, sums = work.inside, work.pair_sum
    for p in range(s.pair_right.size):
        sums[p] = 0.0
    for m in range(i, j):
        factor = work.split_weight[cell_of(n, i, j) * n + m - i]
        if factor == 0.0:
            continue
        left, right = cell_of(n, i, m) * s.stride, cell_of(n, m + 1, j) * s.stride
        for b in range(s.n_symbols):
            amount = inside[left + b] * factor
            if amount != 0.0:
                for p in range(s.left_ptr[b], s.left_ptr[b + 1]):
                    sums[p] += amount * inside[right + s.pair_right[p]]


@inner
def _binary_cell(s, n, i, j, scores, split, work):  # type: ignore
    """Fill ``work.below`` of a span of several words; returns its scale, NaN where numbers do not suffice."""
    cell = cell_of(n, i, j)
    at, below, row, width = cell * s.stride, work.below, work.row_of[cell], s.binary_symbol.size
    for a in range(s.stride):
        below[at + a] = 0.0
    if row < 0:
        return -np.inf
    first = span_part(s, n, row)
    span_top = maximum(scores, first, width) if width > 0 else -np.inf
    split_top = _split_weights(s, n, i, j, scores, split, work)
    if span_top == -np.inf or split_top == -np.inf:
        return -np.inf
    _pair_sums(s, n, i, j, work)
    for p in range(s.pair_right.size):
        total = work.pair_sum[p]
        if total != 0.0:
            for q in range(s.pair_ptr[p], s.pair_ptr[p + 1]):
                below[at + s.parent[q]] += work.weight[q] * total
    exponential_row(work.factors, 0, scores, first, width, _round_up(width), span_top)
    is_possible = False
    for c in range(width):
        a = at + s.binary_symbol[c]
        if scores[first + c] == -np.inf:
            below[a] = 0.0
        elif below[a] != 0.0:
            is_possible = True
            below[a] = max(below[a] * work.factors[c], 1e-300)
    if not is_possible:
        return -np.inf
    norm = _divide(below, at, s.n_symbols, work)
    work.binary_norm[cell] = norm
    return split_top + span_top + math.log(norm) if norm >= _LEAST_MAXIMUM else np.nan


@fragment
def _unary_factors(s, n, cell, scores, top, work):  # type: ignore
    """Weights of the unary symbols of a span in ``work.factors`` and what they were scaled by."""
    width = s.unary_symbol.size
    first = span_part(s, n, work.row_of[cell]) + s.binary_symbol.size
    span_top = maximum(scores, first, width)
    if span_top > -np.inf:
        exponential_row(work.factors, 0, scores, first, width, _round_up(width), span_top)
    return first, span_top + top


@inner
def _unary_cell(s, n, cell, scores, top, scale, work):  # type: ignore
    """Fill ``work.inside`` from ``work.below``; `top` is the largest score of a unary rule. Returns the scale."""
    at, inside, below = cell * s.stride, work.inside, work.below
    for a in range(s.stride):
        inside[at + a] = below[at + a]
    work.unary_norm[cell] = 1.0
    if scale == -np.inf or scale != scale or s.unary_symbol.size == 0:
        return scale
    first, lift = _unary_factors(s, n, cell, scores, top, work)
    if lift == -np.inf:
        return scale
    sums, shift = work.sums, max(lift, 0.0)
    for a in range(s.n_symbols):
        sums[a] = 0.0
    for u in range(s.unary_parent.size):
        sums[s.unary_parent[u]] += work.weight[s.parent.size + u] * below[at + s.unary_child[u]]
    keep, change = math.exp(max(-shift, -700.0)), math.exp(max(lift - shift, -700.0))
    for a in range(s.n_symbols):
        if inside[at + a] != 0.0:
            inside[at + a] = max(inside[at + a] * keep, 1e-300)
    for c in range(s.unary_symbol.size):
        a = s.unary_symbol[c]
        if scores[first + c] > -np.inf and sums[a] != 0.0:
            inside[at + a] += max(sums[a] * work.factors[c] * change, 1e-300)
    norm = _divide(inside, at, s.n_symbols, work)
    work.unary_norm[cell] = norm
    return scale + shift + math.log(norm) if norm >= _LEAST_MAXIMUM else np.nan


@inner
def grammar_inside(s, shape, scores, work):  # type: ignore
    """Fill the charts; returns log Z, or NaN where numbers do not suffice."""
    n, first = find_rows(s, shape, work), rule_part(s, shape)
    work.state[1] = 0
    binary_top, unary_top = _rule_weights(s, scores, first, work)
    for i in range(n):
        cell = cell_of(n, i, i)
        scale = _word_cell(s, i, cell * s.stride, scores, work)
        work.scale[cell] = _unary_cell(s, n, cell, scores, unary_top, scale, work)
        if work.scale[cell] != work.scale[cell]:
            return np.nan
    split = split_part(s, shape)
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length - 1
            cell = cell_of(n, i, j)
            scale = _binary_cell(s, n, i, j, scores, split, work)
            work.scale[cell] = _unary_cell(s, n, cell, scores, unary_top, scale, work)
            if work.scale[cell] != work.scale[cell]:
                return np.nan
            if s.has_splits and work.row_of[cell] >= 0:
                split += j - i
    cell = cell_of(n, 0, n - 1)
    value = work.inside[cell * s.stride + s.root]
    if value == 0.0 or work.scale[cell] == -np.inf:
        return -np.inf
    if n > 1:
        return (n - 1) * binary_top + work.scale[cell] + math.log(value)
    return work.scale[cell] + math.log(value)


# -- outside ------------------------------------------------------------------------------------------


@inner
def _raised(values, derivatives, at, count):  # type: ignore
    """Expected counts of entries that were raised to the floor."""
    total = 0.0
    for a in range(count):
        if values[at + a] == _FLOOR:
            total += _FLOOR * derivatives[at + a]
    return total


@inner
def _unary_outside(s, n, cell, scores, top, counts, work):  # type: ignore
    """From derivatives by t to those by b, in ``work.outside``; writes counts of unary symbols and rules."""
    at, outside, below = cell * s.stride, work.outside, work.below
    first, lift = _unary_factors(s, n, cell, scores, top, work)
    if lift == -np.inf:
        return
    shift, norm = max(lift, 0.0), work.unary_norm[cell]
    keep, change = math.exp(max(-shift, -700.0)) / norm, math.exp(max(lift - shift, -700.0)) / norm
    shares = work.shares
    for a in range(s.n_symbols):
        shares[a] = 0.0
    for c in range(s.unary_symbol.size):
        a = s.unary_symbol[c]
        if scores[first + c] > -np.inf:
            shares[a] = outside[at + a] * work.factors[c] * change
    for a in range(s.n_symbols):
        outside[at + a] *= keep
        work.sums[a] = 0.0
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


@inner
def _pairs_outside(s, at, work):  # type: ignore
    """Derivatives by M of one span in ``work.pair_outside`` from those by b in ``work.sums``; counts of rules."""
    for p in range(s.pair_right.size):
        total = 0.0
        for q in range(s.pair_ptr[p], s.pair_ptr[p + 1]):
            total += work.weight[q] * work.sums[s.parent[q]]
        work.pair_outside[p] = total
    for p in range(s.pair_right.size):
        total = work.pair_sum[p]
        if total != 0.0:
            for q in range(s.pair_ptr[p], s.pair_ptr[p + 1]):
                work.rule_count[q] += work.weight[q] * work.sums[s.parent[q]] * total


@inner
def _split_outside(s, left, right, factor, work):  # type: ignore
    """Derivatives by the children's sums at one split; returns its expected count."""
    inside, outside, count = work.inside, work.outside, 0.0
    for b in range(s.n_symbols):
        amount = inside[left + b]
        if amount != 0.0:
            total = 0.0
            for p in range(s.left_ptr[b], s.left_ptr[b + 1]):
                total += work.pair_outside[p] * inside[right + s.pair_right[p]]
            total *= factor
            outside[left + b] += total
            count += total * amount
            amount *= factor
            for p in range(s.left_ptr[b], s.left_ptr[b + 1]):
                outside[right + s.pair_right[p]] += amount * work.pair_outside[p]
    return count


@inner
def _binary_outside(s, n, i, j, scores, split, counts, work):  # type: ignore
    """Counts of a span's symbols and splits, derivatives by its children's sums; returns counts of raised splits."""
    cell = cell_of(n, i, j)
    at, width, raised = cell * s.stride, s.binary_symbol.size, 0.0
    first = span_part(s, n, work.row_of[cell])
    span_top = maximum(scores, first, width)
    exponential_row(work.factors, 0, scores, first, width, _round_up(width), span_top)
    inverse, is_used = 1.0 / work.binary_norm[cell], False
    for c in range(width):
        a = s.binary_symbol[c]
        counts[first + c] = work.outside[at + a] * work.below[at + a]
        work.sums[a] = 0.0
        if scores[first + c] > -np.inf:
            work.sums[a] = work.outside[at + a] * work.factors[c] * inverse
        is_used = is_used or work.sums[a] != 0.0
    if not is_used:
        return 0.0
    _pair_sums(s, n, i, j, work)
    _pairs_outside(s, at, work)
    for m in range(i, j):
        factor = work.split_weight[cell * n + m - i]
        if factor != 0.0:
            left, right = cell_of(n, i, m) * s.stride, cell_of(n, m + 1, j) * s.stride
            count = _split_outside(s, left, right, factor, work)
            if s.has_splits:
                counts[split + m - i] = count
            if factor == _LEAST_WEIGHT:
                raised += count
    return raised


@inner
def grammar_outside(s, shape, scores, counts, work):  # type: ignore
    """Write all expected counts; returns those of what was raised, NaN where numbers do not suffice."""
    n, first = np.int64(shape[0]), rule_part(s, shape)
    for k in range(first):
        counts[k] = 0.0
    for q in range(s.rule.size + s.unary_parent.size):
        work.rule_count[q] = 0.0
    for k in range(n * (n + 1) // 2 * s.stride):
        work.outside[k] = 0.0
    top = -np.inf
    for u in range(s.unary_parent.size):
        top = max(top, scores[first + s.rule.size + u])
    cell, raised, split = cell_of(n, 0, n - 1), 0.0, first
    work.outside[cell * s.stride + s.root] = 1.0 / work.inside[cell * s.stride + s.root]
    for length in range(n, 0, -1):
        for i in range(n - length, -1, -1):
            j = i + length - 1
            cell = cell_of(n, i, j)
            if work.row_of[cell] < 0:
                continue
            if s.has_splits:
                split -= j - i
            if work.scale[cell] == -np.inf:
                continue
            at = cell * s.stride
            raised += _raised(work.inside, work.outside, at, s.n_symbols)
            if s.unary_symbol.size > 0:
                _unary_outside(s, n, cell, scores, top, counts, work)
                raised += _raised(work.below, work.outside, at, s.n_symbols)
            if length > 1:
                raised += _binary_outside(s, n, i, j, scores, split, counts, work)
            else:
                width = s.word_symbol.size
                for c in range(width):
                    a = at + s.word_symbol[c]
                    counts[i * width + c] = work.outside[a] * work.below[a]
    raised += _rule_counts(s, first, counts, work)
    total = 0.0
    for k in range(first):
        total += counts[k]
    return raised if total < np.inf else np.nan


@inner
def _rule_counts(s, first, counts, work):  # type: ignore
    """Expected counts of rules in users' order; returns those of rules whose weight was raised."""
    raised = 0.0
    for q in range(s.rule.size):
        counts[first + s.rule[q]] = work.rule_count[q]
        if work.weight[q] == _LEAST_WEIGHT:
            raised += work.rule_count[q]
    for u in range(s.rule.size, s.rule.size + s.unary_parent.size):
        counts[first + u] = work.rule_count[u]
        if work.weight[u] == _LEAST_WEIGHT:
            raised += work.rule_count[u]
    return raised


@inner
def grammar_expectations(s, shape, scores, counts, work):  # type: ignore
    work.state[0] = 0
    value = grammar_inside(s, shape, scores, work)
    if value == -np.inf:
        for k in range(rule_part(s, shape) + s.rule.size + s.unary_parent.size):
            counts[k] = 0.0
        return value
    if value == value and grammar_outside(s, shape, scores, counts, work) <= _RAISED:
        return value
    return expectations_in_logs(s, shape, scores, counts, work)


@inner
def grammar_log_partition(s, shape, scores, work):  # type: ignore
    """Between a sum with small numbers raised and one with these dropped, where there are any."""
    work.state[0] = 0
    value = grammar_inside(s, shape, scores, work)
    if value == -np.inf or (value == value and work.state[1] == 0):
        return value
    if value == value:
        work.state[0] = 1
        if value - grammar_inside(s, shape, scores, work) <= _RAISED:
            return value
    return inside_in_logs(s, shape, scores, work)
