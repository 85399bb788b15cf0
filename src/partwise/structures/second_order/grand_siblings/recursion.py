# mypy: ignore-errors
"""The recursion of projective trees that score siblings and grandparents, over any semiring, on candidate arcs.

With weights w of arcs, s of siblings, f and l of first and last modifiers, and p of grandparents (Eisner 1996; McDonald
and Pereira 2006 for siblings, Koo and Collins 2010, model 1, for grandparents), to the right of h:

    I(g, h, m) = w(h, m) p(g, h, m) [f(h, m) L(h, m, h+1) + Σ_s I(g, h, s) s(h, s, m) H(h, s, m)]
    H(h, s, m) = Σ_{s≤r<m} R(h, s, r) L(h, m, r+1)              the subtrees of two siblings meet
    R(g, h, e) = Σ_{m≤e} I(g, h, m) l(h, m) R(h, m, e)          h, whose head is g, has all its modifiers up to e

L and the left side of h are mirror images. I is a vector over g for each arc h → m. R and L are rows over e for each
arc g → h. With A arcs, at most K of them into one word, this takes at most A · n · K + A · K · K · n steps on whole
vectors over g.
"""

from __future__ import annotations

from partwise.compiled.dispatch import inner
from partwise.structures.second_order.tables import inner_siblings
from partwise.structures.semirings import LOGS, add_row, plus, share, times
from partwise.structures.trees.arc_tables import stride_of


@inner
def _inner_item(semiring, arc, sibling, grand, a, n_arcs, n_slots, stride, single_root, work):  # type: ignore
    """Fill the halves of `a` and its inner siblings, and ``inner`` of `a`."""
    complete, row, here = work.complete, work.row, a * n_slots
    left_part = n_arcs * stride
    h, m, part = work.head[a], work.modifier[a], work.sibling_from[a]
    alone = complete[left_part + a * stride + h] if h < m else complete[a * stride + h - 1]
    alone = times(semiring, alone, sibling[part])
    for k in range(n_slots):
        row[k] = alone
    first, last = inner_siblings(a, single_root, work)
    for place in range(first, last):
        b = work.out_arc[place]
        s = work.modifier[b]
        low, high = (s, m) if h < m else (m, s)
        lower, upper = (b, a) if h < m else (a, b)
        lower, upper = lower * stride, left_part + upper * stride
        half = semiring.zero
        for r in range(low, high):
            half = plus(semiring, half, times(semiring, complete[lower + r], complete[upper + r]))
        p = part + 2 + place - first
        work.halves[p] = half
        add_row(semiring, row, 0, times(semiring, half, sibling[p]), work.inner, b * n_slots, 0, n_slots)
    for k in range(n_slots):
        work.inner[here + k] = times(semiring, times(semiring, row[k], arc[a]), grand[here + k])


@inner
def inside(semiring, arc, sibling, grand, n, n_arcs, n_slots, single_root, work):  # type: ignore
    """Fill `halves`, `inner` and `complete`. Returns Z. `arc`, `sibling` and `grand` are weights in the semiring."""
    stride = stride_of(n)
    complete, sums, low, left_part = work.complete, work.sums, work.low, n_arcs * stride
    for j in range(n + 1):
        low[j] = work.right[j]
    for i in range(n, -1, -1):
        for k in range(i * n_slots, (n + 1) * n_slots):
            sums[k] = semiring.zero
        for k in range(i * n_slots, (i + 1) * n_slots):
            sums[k] = semiring.one
        for place in range(work.right[i], work.out[i + 1]):
            a = work.out_arc[place]
            _inner_item(semiring, arc, sibling, grand, a, n_arcs, n_slots, stride, single_root, work)
            stop = sibling[work.sibling_from[a] + 1]
            for e in range(work.modifier[a], n + 1):
                rest = times(semiring, stop, complete[a * stride + e])
                add_row(semiring, sums, e * n_slots, rest, work.inner, a * n_slots, 0, n_slots)
        if i == 0:
            return sums[n * n_slots]
        for b in range(work.into[i], work.into[i + 1]):
            complete[left_part + b * stride + i - 1] = semiring.one
            for e in range(i, n + 1):
                complete[b * stride + e] = sums[e * n_slots + work.slot[b]]
        a = work.into[i]
        for j in range(i + 1, n + 1):
            while a < work.into[i + 1] and work.head[a] < j:
                a += 1
            if a < work.into[i + 1] and work.head[a] == j:
                _inner_item(semiring, arc, sibling, grand, a, n_arcs, n_slots, stride, single_root, work)
                low[j] = work.out_place[a]
            for k in range(n_slots):
                sums[k] = semiring.zero
            for place in range(low[j], work.right[j]):
                b = work.out_arc[place]
                stop = sibling[work.sibling_from[b] + 1]
                rest = times(semiring, stop, complete[left_part + b * stride + i - 1])
                add_row(semiring, sums, 0, rest, work.inner, b * n_slots, 0, n_slots)
            for b in range(work.into[j], work.into[j + 1]):
                complete[left_part + b * stride + i - 1] = sums[work.slot[b]]
    return semiring.zero


@inner
def _complete_back(first, last, slot, at, mass, n_slots, base, how, used, counts, work):  # type: ignore
    """Distribute the mass of a complete item to its last modifiers: the arcs first … last − 1 of `out_arc`."""
    if mass == 0.0:
        return used
    complete, to_complete, shares = work.complete, work.to_complete, work.row
    stride_at, stride = at
    for place in range(first, last):
        b = work.out_arc[place]
        stop = work.sibling_score[work.sibling_from[b] + 1]
        shares[place - first] = stop + work.inner[b * n_slots + slot] + complete[stride_at + b * stride]
    share(how, LOGS, shares, last - first, used)
    used += 1
    for place in range(first, last):
        b, own = work.out_arc[place], mass * shares[place - first]
        counts[base + work.sibling_from[b] + 1] += own
        work.to_inner[b * n_slots + slot] += own
        to_complete[stride_at + b * stride] += own
    return used


@inner
def _inner_back(a, n_arcs, n_slots, stride, single_root, base, how, used, counts, work):  # type: ignore
    """Distribute the mass of ``inner`` of `a`, slot by slot, then that of the halves."""
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
        share(how, LOGS, shares, 1 + last - first, used)
        used += 1
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
        share(how, LOGS, shares, high - low, used)
        used += 1
        for r in range(low, high):
            own = mass * shares[r - low]
            to_complete[lower * stride + r] += own
            to_complete[left_part + upper * stride + r] += own
    return used


@inner
def distribute(n, n_arcs, n_slots, single_root, base, how, counts, work):  # type: ignore
    """Fill counts of arcs and of siblings (from part `base` on), and of grandparents by slot in ``work.grand_weight``.

    The charts are those of :func:`inside` on logarithms or maxima. The mass of every item is divided among its
    alternatives (``SHARED``), or given to the best (``BEST``) or a drawn one (``Drawn``).
    """
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
                    to_complete[left_part + b * stride + i - 1], n_slots, base, how, used, counts, work,
                )  # fmt: skip
            while a >= work.into[i] and work.head[a] > j:
                a -= 1
            if a >= work.into[i] and work.head[a] == j:
                used = _inner_back(a, n_arcs, n_slots, stride, single_root, base, how, used, counts, work)
                low[j] = work.out_place[a] + 1
        for e in range(n, i, -1):
            last = work.right[i]
            while last < work.out[i + 1] and work.modifier[work.out_arc[last]] <= e:
                last += 1
            if i == 0:
                mass = 1.0 if e == n else 0.0
                used = _complete_back(
                    work.right[i], last, 0, (e, stride), mass, n_slots, base, how, used, counts, work
                )  # fmt: skip
            for b in range(work.into[i], work.into[i + 1]):
                used = _complete_back(
                    work.right[i], last, work.slot[b], (e, stride), to_complete[b * stride + e], n_slots, base, how,
                    used, counts, work,
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
                used,
                counts,
                work,
            )
    return used
