# mypy: ignore-errors
"""The sums of `head_automata.py` on logarithms, for grandparent scores that are too far apart.

They are a text of their own: there an arc has one scale for all its heads, and an item of `semirings.py` has none.
"""

from __future__ import annotations

import math

import numpy as np

from partwise.compiled.dispatch import inner
from partwise.structures.second_order.tables import inner_siblings
from partwise.structures.semirings import log_add


@inner
def _side_forward(begin, end, step, n_slots, n_own, single_root, at, work):  # type: ignore
    """Fill ``inner`` of the arcs at begin, begin + step … before end, and S in ``sums`` from `at` on."""
    scores, total = work.inner, work.sums
    for place in range(begin, end, step):
        a = work.out_arc[place]
        here, part = a * n_slots, work.sibling_from[a]
        first, last = inner_siblings(a, single_root, work)
        for k in range(n_own):
            value = work.sibling_score[part]
            for other in range(first, last):
                b = work.out_arc[other]
                value = log_add(value, scores[b * n_slots + k] + work.sibling_score[part + 2 + other - first])
            value += work.modifier_score[a] + work.grand_score[here + k]
            scores[here + k] = value
            total[at + k] = log_add(total[at + k], value + work.sibling_score[part + 1])


@inner
def _side_back(begin, end, step, n_slots, n_own, single_root, at, base, counts, work):  # type: ignore
    """Distribute the mass of every slot, in ``work.row``, to the arcs of one side, from the last modifier inwards."""
    scores, mass = work.inner, work.to_inner
    for place in range(begin, end, step):
        a = work.out_arc[place]
        here, part, amount = a * n_slots, work.sibling_from[a], 0.0
        first, last = inner_siblings(a, single_root, work)
        stop = work.sibling_score[part + 1]
        counts[base + part] = 0.0
        for k in range(n_own):
            if work.row[k] > 0.0:
                share = work.row[k] * math.exp(scores[here + k] + stop - work.sums[at + k])
                amount += share
                mass[here + k] += share
        counts[base + part + 1] = amount
        for other in range(first, last):
            counts[base + part + 2 + other - first] = 0.0
        amount = 0.0
        for k in range(n_own):
            own = mass[here + k]
            if own == 0.0:
                continue
            amount += own
            rest = scores[here + k] - work.modifier_score[a] - work.grand_score[here + k]
            counts[base + part] += own * math.exp(work.sibling_score[part] - rest)
            for other in range(first, last):
                b, p = work.out_arc[other], part + 2 + other - first
                share = own * math.exp(scores[b * n_slots + k] + work.sibling_score[p] - rest)
                counts[base + p] += share
                mass[b * n_slots + k] += share
        work.of_modifiers[a] = amount


@inner
def automaton_in_logs(h, n_slots, single_root, base, counts, work):  # type: ignore
    """As ``head_automata.automaton``, on logarithms."""
    sums, row = work.sums, work.row
    into, n_own = work.into[h], (work.into[h + 1] - work.into[h] if h > 0 else 1)
    for k in range(n_own):
        sums[k] = 0.0
        sums[n_slots + k] = 0.0 if h > 0 else -np.inf
    low, middle, high = work.out[h], work.right[h], work.out[h + 1]
    _side_forward(middle - 1, low - 1, -1, n_slots, n_own, single_root, 0, work)
    _side_forward(middle, high, 1, n_slots, n_own, single_root, n_slots, work)
    total = -np.inf
    for k in range(n_own):
        row[k] = sums[k] + sums[n_slots + k] + (work.head_score[into + k] if h > 0 else 0.0)
        total = log_add(total, row[k])
    if total == -np.inf:
        return total
    for k in range(n_own):
        row[k] = math.exp(row[k] - total)
        if h > 0:
            work.of_heads[into + k] = row[k]
    for place in range(low, high):
        here = work.out_arc[place] * n_slots
        for k in range(here, here + n_slots):
            work.to_inner[k] = 0.0
    _side_back(low, middle, 1, n_slots, n_own, single_root, 0, base, counts, work)
    _side_back(high - 1, middle - 1, -1, n_slots, n_own, single_root, n_slots, base, counts, work)
    return total
