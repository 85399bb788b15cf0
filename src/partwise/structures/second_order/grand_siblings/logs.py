# mypy: ignore-errors
"""Second-order projective trees on logarithms: for best trees, samples, and scores too far apart for products.

The forward pass adds up (or maximises over) the alternatives that `grand_siblings/sums.py` writes out. The backward
pass hands the mass of every item down to its alternatives: in shares for marginals, all of it to the best for the
best tree, all of it to a drawn one for a sample.
"""

from __future__ import annotations

import math

import numpy as np

from partwise.compiled.dispatch import fragment, inner
from partwise.structures.second_order.tables import inner_siblings
from partwise.structures.semirings import log_add
from partwise.structures.trees.arc_tables import stride_of

SHARED, BEST, DRAWN = range(3)


@fragment
def _join(total, more, hard):  # type: ignore
    return max(total, more) if hard else log_add(total, more)


@inner
def _inner_item(a, n_arcs, n_slots, stride, single_root, hard, work):  # type: ignore
    """Fill the halves of `a` and its inner siblings, and ``inner`` of `a`."""
    complete, inner_scores, here = work.complete, work.inner, a * n_slots
    left_part = n_arcs * stride
    h, m, part = work.head[a], work.modifier[a], work.sibling_from[a]
    alone = complete[left_part + a * stride + h] if h < m else complete[a * stride + h - 1]
    for k in range(n_slots):
        inner_scores[here + k] = alone + work.sibling_score[part]
    first, last = inner_siblings(a, single_root, work)
    for place in range(first, last):
        b = work.out_arc[place]
        s = work.modifier[b]
        low, high = (s, m) if h < m else (m, s)
        lower, upper = (b, a) if h < m else (a, b)
        half = -np.inf
        for r in range(low, high):
            half = _join(half, complete[lower * stride + r] + complete[left_part + upper * stride + r], hard)
        p = part + 2 + place - first
        work.halves[p] = half
        half += work.sibling_score[p]
        for k in range(n_slots):
            inner_scores[here + k] = _join(inner_scores[here + k], half + inner_scores[b * n_slots + k], hard)
    for k in range(n_slots):
        inner_scores[here + k] += work.arc_score[a] + work.grand_score[here + k]


@inner
def charts_in_logs(n, n_arcs, n_slots, single_root, hard, work):  # type: ignore
    """Fill `halves`, `inner` and `complete`; returns the log-partition, or the best score if `hard`."""
    stride = stride_of(n)
    complete, sums, low, left_part = work.complete, work.sums, work.low, n_arcs * stride
    for j in range(n + 1):
        low[j] = work.right[j]
    for i in range(n, -1, -1):
        for k in range(i * n_slots, (n + 1) * n_slots):
            sums[k] = -np.inf
        for k in range(i * n_slots, (i + 1) * n_slots):
            sums[k] = 0.0
        for place in range(work.right[i], work.out[i + 1]):
            a = work.out_arc[place]
            _inner_item(a, n_arcs, n_slots, stride, single_root, hard, work)
            stop = work.sibling_score[work.sibling_from[a] + 1]
            for e in range(work.modifier[a], n + 1):
                rest = stop + complete[a * stride + e]
                for k in range(n_slots):
                    sums[e * n_slots + k] = _join(
                        sums[e * n_slots + k], rest + work.inner[a * n_slots + k], hard
                    )
        if i == 0:
            return sums[n * n_slots]
        for b in range(work.into[i], work.into[i + 1]):
            complete[left_part + b * stride + i - 1] = 0.0
            for e in range(i, n + 1):
                complete[b * stride + e] = sums[e * n_slots + work.slot[b]]
        a = work.into[i]
        for j in range(i + 1, n + 1):
            while a < work.into[i + 1] and work.head[a] < j:
                a += 1
            if a < work.into[i + 1] and work.head[a] == j:
                _inner_item(a, n_arcs, n_slots, stride, single_root, hard, work)
                low[j] = work.out_place[a]
            for k in range(n_slots):
                sums[k] = -np.inf
            for place in range(low[j], work.right[j]):
                b = work.out_arc[place]
                rest = work.sibling_score[work.sibling_from[b] + 1] + complete[left_part + b * stride + i - 1]
                for k in range(n_slots):
                    sums[k] = _join(sums[k], rest + work.inner[b * n_slots + k], hard)
            for b in range(work.into[j], work.into[j + 1]):
                complete[left_part + b * stride + i - 1] = sums[work.slot[b]]
    return -np.inf


@inner
def _shares(alternatives, count, how, uniforms, used):  # type: ignore
    """Turn logarithms into shares of one; returns the number of uniforms used so far."""
    top, found = -np.inf, -1
    for k in range(count):
        if alternatives[k] > top:
            top, found = alternatives[k], k
    if how != BEST:
        total = 0.0
        for k in range(count):
            total += math.exp(alternatives[k] - top)
        if how == DRAWN:
            left, found = uniforms[used] * total, -1
            used += 1
            for k in range(count):
                if alternatives[k] > -np.inf:
                    if found >= 0 and left < 0.0:
                        break
                    found = k
                    left -= math.exp(alternatives[k] - top)
        else:
            for k in range(count):
                alternatives[k] = math.exp(alternatives[k] - top) / total
            return used
    for k in range(count):
        alternatives[k] = 1.0 if k == found else 0.0
    return used


@inner
def _complete_back(first, last, slot, at, mass, n_slots, base, how, uniforms, used, counts, work):  # type: ignore
    """Hand the mass of a complete item to the arcs at places first … last − 1, one of which is the last modifier."""
    if mass == 0.0:
        return used
    complete, to_complete, shares = work.complete, work.to_complete, work.row
    stride_at, stride = at
    for place in range(first, last):
        b = work.out_arc[place]
        stop = work.sibling_score[work.sibling_from[b] + 1]
        shares[place - first] = stop + work.inner[b * n_slots + slot] + complete[stride_at + b * stride]
    used = _shares(shares, last - first, how, uniforms, used)
    for place in range(first, last):
        b, own = work.out_arc[place], mass * shares[place - first]
        counts[base + work.sibling_from[b] + 1] += own
        work.to_inner[b * n_slots + slot] += own
        to_complete[stride_at + b * stride] += own
    return used


@inner
def _inner_back(a, n_arcs, n_slots, stride, single_root, base, how, uniforms, used, counts, work):  # type: ignore
    """Hand the mass of ``inner`` of `a` down, slot by slot, then that of the halves."""
    complete, to_complete, shares = work.complete, work.to_complete, work.row
    left_part, here = n_arcs * stride, a * n_slots
    h, m, part = work.head[a], work.modifier[a], work.sibling_from[a]
    alone = left_part + a * stride + h if h < m else a * stride + h - 1
    first, last = inner_siblings(a, single_root, work)
    for k in range(n_slots):
        mass = work.to_inner[here + k]
        if mass == 0.0:
            continue
        counts[a] += mass
        work.grand_weight[here + k] += mass
        shares[0] = complete[alone] + work.sibling_score[part]
        for place in range(first, last):
            b, p = work.out_arc[place], part + 2 + place - first
            shares[1 + place - first] = work.halves[p] + work.sibling_score[p] + work.inner[b * n_slots + k]
        used = _shares(shares, 1 + last - first, how, uniforms, used)
        counts[base + part] += mass * shares[0]
        to_complete[alone] += mass * shares[0]
        for place in range(first, last):
            own = mass * shares[1 + place - first]
            counts[base + part + 2 + place - first] += own
            work.to_inner[work.out_arc[place] * n_slots + k] += own
            work.to_halves[part + 2 + place - first] += own
    for place in range(first, last):
        mass = work.to_halves[part + 2 + place - first]
        if mass == 0.0:
            continue
        b = work.out_arc[place]
        s = work.modifier[b]
        low, high = (s, m) if h < m else (m, s)
        lower, upper = (b, a) if h < m else (a, b)
        for r in range(low, high):
            shares[r - low] = complete[lower * stride + r] + complete[left_part + upper * stride + r]
        used = _shares(shares, high - low, how, uniforms, used)
        for r in range(low, high):
            own = mass * shares[r - low]
            to_complete[lower * stride + r] += own
            to_complete[left_part + upper * stride + r] += own
    return used


@inner
def counts_from_logs(n, n_arcs, n_slots, single_root, base, how, uniforms, counts, work):  # type: ignore
    """Counts of arcs and of siblings (from part `base` on), and of grandparents by slot in ``work.grand_weight``."""
    stride = stride_of(n)
    to_complete, to_inner, to_halves, low = work.to_complete, work.to_inner, work.to_halves, work.low
    left_part, used = n_arcs * stride, 0
    for a in range(n_arcs):
        counts[a] = 0.0
    for p in range(work.sibling_from[n_arcs]):
        counts[base + p] = 0.0
        to_halves[p] = 0.0
    for k in range(n_arcs * n_slots):
        to_inner[k] = 0.0
        work.grand_weight[k] = 0.0
    for k in range(2 * n_arcs * stride):
        to_complete[k] = 0.0
    for j in range(n + 1):
        low[j] = work.out[j]
    for i in range(n + 1):
        a = work.into[i + 1] - 1 if i > 0 else -1
        for j in range(n, i if i > 0 else n, -1):
            for b in range(work.into[j], work.into[j + 1]):
                used = _complete_back(
                    low[j], work.right[j], work.slot[b], (left_part + i - 1, stride),
                    to_complete[left_part + b * stride + i - 1], n_slots, base, how, uniforms, used, counts, work,
                )  # fmt: skip
            while a >= work.into[i] and work.head[a] > j:
                a -= 1
            if a >= work.into[i] and work.head[a] == j:
                used = _inner_back(
                    a, n_arcs, n_slots, stride, single_root, base, how, uniforms, used, counts, work
                )
                low[j] = work.out_place[a] + 1
        for e in range(n, i, -1):
            last = work.right[i]
            while last < work.out[i + 1] and work.modifier[work.out_arc[last]] <= e:
                last += 1
            if i == 0:
                mass = 1.0 if e == n else 0.0
                used = _complete_back(
                    work.right[i], last, 0, (e, stride), mass, n_slots, base, how, uniforms, used, counts, work
                )  # fmt: skip
            for b in range(work.into[i], work.into[i + 1]):
                used = _complete_back(
                    work.right[i], last, work.slot[b], (e, stride), to_complete[b * stride + e], n_slots, base, how,
                    uniforms, used, counts, work,
                )  # fmt: skip
        for place in range(work.out[i + 1] - 1, work.right[i] - 1, -1):
            used = _inner_back(
                work.out_arc[place],
                n_arcs,
                n_slots,
                stride,
                single_root,
                base,
                how,
                uniforms,
                used,
                counts,
                work,
            )
    return used
