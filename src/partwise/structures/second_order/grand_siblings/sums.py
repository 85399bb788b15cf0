# mypy: ignore-errors
"""Marginals of second-order projective trees from scaled weights: the fast path.

Every word has one arc, one sibling part and one grandparent. Their weights are divided by their maximum, so that
products are at most one, as in `trees/eisner/oracle.py`. Letters are those of `recursion.py`.
"""

from __future__ import annotations

import math

import numpy as np

from partwise.compiled.dispatch import fragment, inner
from partwise.compiled.simd import LANES, exponential_row, maximum
from partwise.compiled.simd_rows import add_scaled
from partwise.structures.second_order.tables import inner_siblings
from partwise.structures.trees.arc_tables import stride_of
from partwise.structures.trees.eisner.oracle import GROWTH


@inner
def scaled_weights(n, n_arcs, n_slots, single_root, work):  # type: ignore
    """Fill weights from scores. Returns the log of the product of scales, NaN if a word has no head."""
    adjusted = work.to_halves
    for a in range(n_arcs):
        part = work.sibling_from[a]
        count = work.sibling_from[a + 1] - part
        first, last = inner_siblings(a, single_root, work)
        stop = work.sibling_score[part + 1]
        adjusted[part], adjusted[part + 1] = work.sibling_score[part], -np.inf
        for place in range(first, last):
            p = part + 2 + place - first
            inner_stop = work.sibling_score[work.sibling_from[work.out_arc[place]] + 1]
            adjusted[p] = work.sibling_score[p] - max(inner_stop, 0.0)
        sibling_top = maximum(adjusted, part, count)
        grand_top = maximum(work.grand_score, a * n_slots, n_slots)
        if sibling_top == -np.inf or grand_top == -np.inf:
            work.arc_weight[a] = -np.inf
            for p in range(part, part + count):
                work.sibling_weight[p] = 0.0
            for k in range(a * n_slots, (a + 1) * n_slots):
                work.grand_weight[k] = 0.0
            continue
        padded = (count + LANES - 1) & ~(LANES - 1)
        exponential_row(work.sibling_weight, part, adjusted, part, count, padded, sibling_top)
        work.sibling_weight[part + 1] = math.exp(stop - max(stop, 0.0))
        exponential_row(
            work.grand_weight, a * n_slots, work.grand_score, a * n_slots, n_slots, n_slots, grand_top
        )
        work.arc_weight[a] = work.arc_score[a] + sibling_top + grand_top + max(stop, 0.0)
    shifts, product = 0.0, 1.0
    for m in range(1, n + 1):
        first, last = work.into[m], work.into[m + 1]
        shift = -np.inf
        for a in range(first, last):
            shift = max(shift, work.arc_weight[a])
        if shift == -np.inf:
            return np.nan
        total = 0.0
        for a in range(first, last):
            total += math.exp(work.arc_weight[a] - shift)
        scale = min(total, GROWTH)
        for a in range(first, last):
            work.arc_weight[a] = math.exp(work.arc_weight[a] - shift) / scale
        shifts += shift
        product *= scale
        if product > 1e200:
            shifts += math.log(product)
            product = 1.0
    return shifts + math.log(product)


@fragment
def _dot(one, first, other, second, count):  # type: ignore
    total = 0.0
    for k in range(count):
        total += one[first + k] * other[second + k]
    return total


@inner
def _complete_back(b, at, outside, outside_at, n_slots, base, counts, work):  # type: ignore
    """The chain rule through I · l · R for one last modifier. R is entry `at`, and `outside` has the derivatives."""
    stop = base + work.sibling_from[b] + 1
    weight, rest = work.sibling_weight[stop - base], work.complete[at]
    share = _dot(outside, outside_at, work.inner, b * n_slots, n_slots) * weight
    work.to_complete[at] += share
    counts[stop] += share * rest
    add_scaled(work.to_inner, b * n_slots, weight * rest, outside, outside_at, n_slots)


@inner
def _inner_back(a, n_arcs, n_slots, stride, single_root, base, counts, work):  # type: ignore
    """The chain rule through I. Replaces the derivatives of I by the counts of grandparents."""
    complete, to_complete, row, here = work.complete, work.to_complete, work.other_row, a * n_slots
    left_part, weight = n_arcs * stride, work.arc_weight[a]
    h, m, part = work.head[a], work.modifier[a], work.sibling_from[a]
    total = 0.0
    for k in range(n_slots):
        row[k] = work.to_inner[here + k] * weight * work.grand_weight[here + k]
    for k in range(n_slots):
        total += row[k]
    counts[a] = _dot(work.to_inner, here, work.inner, here, n_slots)
    for k in range(here, here + n_slots):
        work.to_inner[k] *= work.inner[k]
    alone = left_part + a * stride + h if h < m else a * stride + h - 1
    total *= work.sibling_weight[part]
    counts[base + part] = total * complete[alone]
    to_complete[alone] += total
    first, last = inner_siblings(a, single_root, work)
    for place in range(first, last):
        b, p = work.out_arc[place], part + 2 + place - first
        s = work.modifier[b]
        low, high = (s, m) if h < m else (m, s)
        lower, upper = (b, a) if h < m else (a, b)
        lower, upper = lower * stride, left_part + upper * stride
        half = work.halves[p]
        to_half = _dot(row, 0, work.inner, b * n_slots, n_slots) * work.sibling_weight[p]
        counts[base + p] = to_half * half
        add_scaled(work.to_inner, b * n_slots, half * work.sibling_weight[p], row, 0, n_slots)
        for r in range(low, high):
            to_complete[lower + r] += to_half * complete[upper + r]
            to_complete[upper + r] += to_half * complete[lower + r]


@inner
def outside(n, n_arcs, n_slots, single_root, total, base, counts, work):  # type: ignore
    """Counts of arcs and siblings (from part `base` on), and of grandparents by slot in ``work.to_inner``.

    These are the derivatives of log Z by the chain rule: the steps of the inside pass in reverse order.
    """
    stride = stride_of(n)
    to_complete, sums, row, low = work.to_complete, work.sums, work.row, work.low
    left_part = n_arcs * stride
    for p in range(work.sibling_from[n_arcs]):
        counts[base + p] = 0.0
    for k in range(n_arcs * n_slots):
        work.to_inner[k] = 0.0
    for k in range(2 * n_arcs * stride):
        to_complete[k] = 0.0
    for j in range(n + 1):
        low[j] = work.out[j]
    for i in range(n + 1):
        a = work.into[i + 1] - 1 if i > 0 else -1
        for j in range(n, i if i > 0 else n, -1):
            for k in range(n_slots):
                row[k] = 0.0
            for b in range(work.into[j], work.into[j + 1]):
                row[work.slot[b]] = to_complete[left_part + b * stride + i - 1]
            for place in range(low[j], work.right[j]):
                b = work.out_arc[place]
                _complete_back(b, left_part + b * stride + i - 1, row, 0, n_slots, base, counts, work)
            while a >= work.into[i] and work.head[a] > j:
                a -= 1
            if a >= work.into[i] and work.head[a] == j:
                _inner_back(a, n_arcs, n_slots, stride, single_root, base, counts, work)
                low[j] = work.out_place[a] + 1
        for k in range(i * n_slots, (n + 1) * n_slots):
            sums[k] = 0.0
        if i == 0:
            sums[n * n_slots] = 1.0 / total
        for b in range(work.into[i], work.into[i + 1]):
            for e in range(i, n + 1):
                sums[e * n_slots + work.slot[b]] = to_complete[b * stride + e]
        for place in range(work.out[i + 1] - 1, work.right[i] - 1, -1):
            b = work.out_arc[place]
            for e in range(work.modifier[b], n + 1):
                _complete_back(b, b * stride + e, sums, e * n_slots, n_slots, base, counts, work)
            _inner_back(b, n_arcs, n_slots, stride, single_root, base, counts, work)
