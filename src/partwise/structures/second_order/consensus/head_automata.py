# mypy: ignore-errors
"""Sums over one word with its head and its modifiers (a head automaton).

The modifiers of h on one side are a path from h outwards. For every possible head g of h,

    P(g, m) = x(h, m) p(g, h, m) [f(h, m) + Σ_s P(g, s) s(h, s, m)]
    S(g)    = 1 + Σ_m P(g, m) l(h, m)                       one side; 1 for no modifier
    Z(h)    = Σ_g z(g, h) S left(g) S right(g)

x and z are the exponentials of the scores of arcs to modifiers and from heads. Other letters are as in
`grand_siblings/recursion.py`.
The root has no head. It has exactly one modifier, or at least one.

P is stored as exp(scale of the arc) times a vector over g. If scores are too far apart for this,
`head_automata_logs.py` computes the sums.
"""

from __future__ import annotations

import math

import numpy as np

from partwise.compiled.dispatch import inner
from partwise.compiled.simd import exponential_row, maximum
from partwise.compiled.simd_rows import add_scaled
from partwise.structures.second_order.consensus.head_automata_logs import automaton_in_logs
from partwise.structures.second_order.tables import inner_siblings

# If the sum of a side is smaller, terms that matter may have underflowed, and logarithms are used.
_SMALLEST = 1e-200
# If grandparent scores of the modifiers of a word differ by more in total, in nats, logarithms are used.
_FURTHEST = 500.0


@inner
def prepare_automata(n, n_arcs, n_slots, work):  # type: ignore
    """Fill exponentials of grandparents, relative to an arc's largest, and which words need logarithms (`next_arc`)."""
    for a in range(n_arcs):
        here, top = a * n_slots, maximum(work.grand_score, a * n_slots, n_slots)
        work.grand_top[a] = top
        if top == -np.inf:
            for k in range(here, here + n_slots):
                work.grand_weight[k] = 0.0
        else:
            exponential_row(work.grand_weight, here, work.grand_score, here, n_slots, n_slots, top)
    for h in range(n + 1):
        spread = 0.0
        for place in range(work.out[h], work.out[h + 1]):
            a = work.out_arc[place]
            least = work.grand_top[a]
            for k in range(a * n_slots, a * n_slots + n_slots):
                score = work.grand_score[k]
                least = min(least, score) if score > -np.inf else least
            spread += work.grand_top[a] - least if least > -np.inf else 0.0
        work.next_arc[h] = spread > _FURTHEST


@inner
def _side_forward(begin, end, step, empty, n_slots, single_root, at, work):  # type: ignore
    """Fill ``inner`` and ``arc_weight``, its scale, of the arcs at begin, begin + step … before end.

    Writes S to ``sums`` from `at` on, and returns its scale. `empty` is the logarithm of its first term.
    """
    scales, brackets, parts, scores = work.arc_weight, work.complete, work.sibling_weight, work.sibling_score
    top = empty
    for place in range(begin, end, step):
        a = work.out_arc[place]
        here, part = a * n_slots, work.sibling_from[a]
        first, last = inner_siblings(a, single_root, work)
        largest = scores[part]
        for other in range(first, last):
            largest = max(largest, scales[work.out_arc[other]] + scores[part + 2 + other - first])
        scales[a] = largest + work.modifier_score[a] + work.grand_top[a]
        if scales[a] == -np.inf:
            for k in range(n_slots):
                brackets[here + k] = 0.0
                work.inner[here + k] = 0.0
            continue
        parts[part] = math.exp(scores[part] - largest)
        for k in range(n_slots):
            brackets[here + k] = parts[part]
        for other in range(first, last):
            b, p = work.out_arc[other], part + 2 + other - first
            parts[p] = math.exp(scales[b] + scores[p] - largest)
            add_scaled(brackets, here, parts[p], work.inner, b * n_slots, n_slots)
        for k in range(here, here + n_slots):
            work.inner[k] = brackets[k] * work.grand_weight[k]
        top = max(top, scales[a] + scores[part + 1])
    if top == -np.inf:
        return top
    for k in range(at, at + n_slots):
        work.sums[k] = math.exp(empty - top)
    for place in range(begin, end, step):
        a = work.out_arc[place]
        if scales[a] > -np.inf:
            stop = work.sibling_from[a] + 1
            parts[stop] = math.exp(scales[a] + scores[stop] - top)
            add_scaled(work.sums, at, parts[stop], work.inner, a * n_slots, n_slots)
    return top


@inner
def _side_back(begin, end, step, n_slots, n_own, single_root, at, base, of_modifiers, counts, work):  # type: ignore
    """Distribute the mass of every slot, in ``work.row``, to the arcs of one side, from the last modifier inwards."""
    brackets, parts, mass, shares = work.complete, work.sibling_weight, work.to_inner, work.other_row
    for k in range(n_slots):
        total = work.sums[at + k]
        shares[k] = work.row[k] / total if k < n_own and total > 0.0 else 0.0
    for place in range(begin, end, step):
        a = work.out_arc[place]
        here, part = a * n_slots, work.sibling_from[a]
        first, last = inner_siblings(a, single_root, work)
        if work.arc_weight[a] == -np.inf:
            of_modifiers[a] = 0.0
            counts[base + part] = 0.0
            counts[base + part + 1] = 0.0
            for p in range(base + part + 2, base + part + 2 + last - first):
                counts[p] = 0.0
            continue
        stops, amount, alone = 0.0, 0.0, 0.0
        for k in range(n_slots):
            stops += shares[k] * work.inner[here + k]
        for k in range(n_slots):
            mass[here + k] += parts[part + 1] * shares[k] * work.inner[here + k]
        for k in range(n_slots):
            amount += mass[here + k]
        of_modifiers[a] = amount
        counts[base + part + 1] = parts[part + 1] * stops
        # The share of the bracket, by which its terms are multiplied.
        row = work.bracket_row
        for k in range(n_slots):
            row[k] = mass[here + k] / brackets[here + k] if mass[here + k] > 0.0 else 0.0
        for k in range(n_slots):
            alone += row[k]
        counts[base + part] = alone * parts[part]
        for other in range(first, last):
            b, p = work.out_arc[other], part + 2 + other - first
            amount, there = 0.0, b * n_slots
            for k in range(n_slots):
                amount += row[k] * work.inner[there + k]
            counts[base + p] = amount * parts[p]
            for k in range(n_slots):
                mass[there + k] += parts[p] * row[k] * work.inner[there + k]


@inner
def automaton(h, n_slots, single_root, base, counts, work):  # type: ignore
    """Return log Z(h), −inf if h can have no head and modifiers.

    Fills the probabilities of the arcs out of h (``of_modifiers``) and into h (``of_heads``), of siblings in `counts`
    from `base` on, and of grandparents in ``to_inner``.
    """
    if work.next_arc[h]:
        return automaton_in_logs(h, n_slots, single_root, base, counts, work)
    row, into, n_own = work.row, work.into[h], (work.into[h + 1] - work.into[h] if h > 0 else 1)
    low, middle, high = work.out[h], work.right[h], work.out[h + 1]
    left = _side_forward(middle - 1, low - 1, -1, 0.0, n_slots, single_root, 0, work)
    right = _side_forward(middle, high, 1, 0.0 if h > 0 else -np.inf, n_slots, single_root, n_slots, work)
    top, total = -np.inf, 0.0
    for k in range(n_own if right > -np.inf else 0):
        one, other = work.sums[k], work.sums[n_slots + k]
        if h > 0 and not min(one, other) > _SMALLEST:
            work.next_arc[h] = 1
            return automaton_in_logs(h, n_slots, single_root, base, counts, work)
        row[k] = math.log(one) + math.log(other) + (work.head_score[into + k] if h > 0 else 0.0)
        top = max(top, row[k])
    if top == -np.inf:
        return top
    for k in range(n_own):
        row[k] = math.exp(row[k] - top)
    for k in range(n_own):
        total += row[k]
    for k in range(n_own):
        row[k] /= total
    if h > 0:
        for k in range(n_own):
            work.of_heads[into + k] = row[k]
    for place in range(low, high):
        here = work.out_arc[place] * n_slots
        for k in range(here, here + n_slots):
            work.to_inner[k] = 0.0
    _side_back(low, middle, 1, n_slots, n_own, single_root, 0, base, work.of_modifiers, counts, work)
    _side_back(
        high - 1, middle - 1, -1, n_slots, n_own, single_root, n_slots, base, work.of_modifiers, counts, work
    )
    return left + right + top + math.log(total)
