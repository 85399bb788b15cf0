# mypy: ignore-errors
"""The factor of the modifiers on one side of a word: a chain from the head outwards, on logarithms.

With n the log-odds that reach an arc, and f, s, l the scores of first, next and last siblings,

    F(a) = n(a) + log( exp f(a) + Σ_b exp( F(b) + s(b, a) ) )             b nearer to the head
    B(a) = log( exp l(a) + Σ_c exp( s(a, c) + n(c) + B(c) ) )             c further away
    Z    = 1 + Σ_a exp( F(a) + l(a) )

The probability of an arc is exp(F + B) / Z. The sum without an arc is Z − exp(F + B), or, where that would cancel, the
sum over all steps of the chain that pass the arc.
"""

from __future__ import annotations

import math

import numpy as np

from partwise.compiled.dispatch import fragment, inner
from partwise.structures.second_order.tables import inner_siblings
from partwise.structures.semirings import log_add


@fragment
def _sibling(a, other, single_root, work):  # type: ignore
    """The part of arc `a` after the arc at position `other`, nearer to the head. −1 if there can be no other arc."""
    first, last = inner_siblings(a, single_root, work)
    return work.sibling_from[a] + 2 + other - first if first <= other < last else np.int64(-1)


@inner
def chain_forward(begin, end, step, single_root, odds, forward, work):  # type: ignore
    """Fill `forward` of the arcs at begin, begin + step … before end. Returns log Z."""
    total, scores = 0.0, work.sibling_score
    for place in range(begin, end, step):
        a = work.out_arc[place]
        part = work.sibling_from[a]
        first, last = inner_siblings(a, single_root, work)
        value = scores[part]
        for other in range(first, last):
            value = log_add(value, forward[work.out_arc[other]] + scores[part + 2 + other - first])
        forward[a] = odds[a] + value
        total = log_add(total, forward[a] + scores[part + 1])
    return total


@inner
def chain_backward(begin, end, step, single_root, odds, backward, work):  # type: ignore
    """Fill `backward` of the same arcs."""
    scores = work.sibling_score
    for place in range(begin, end, step):
        a = work.out_arc[place]
        backward[a] = scores[work.sibling_from[a] + 1]
    for place in range(end - step, begin - step, -step):
        a = work.out_arc[place]
        part, value = work.sibling_from[a], odds[a] + backward[a]
        first, last = inner_siblings(a, single_root, work)
        for other in range(first, last):
            b = work.out_arc[other]
            backward[b] = log_add(backward[b], scores[part + 2 + other - first] + value)


@inner
def log_without(place, begin, end, step, total, single_root, odds, forward, backward, work):  # type: ignore
    """The log of Z without the arc at `place`. `total` is log Z."""
    a, scores = work.out_arc[place], work.sibling_score
    own = forward[a] + backward[a] - total
    if own < -0.7:
        return total + math.log1p(-math.exp(own))
    value = 0.0
    for other in range(begin, place, step):
        b = work.out_arc[other]
        value = log_add(value, forward[b] + scores[work.sibling_from[b] + 1])
    for outer in range(place + step, end, step):
        c = work.out_arc[outer]
        value = log_add(value, scores[work.sibling_from[c]] + odds[c] + backward[c])
        for other in range(begin, place, step):
            part = _sibling(c, other, single_root, work)
            if part >= 0:
                value = log_add(value, forward[work.out_arc[other]] + scores[part] + odds[c] + backward[c])
    return value


@inner
def write_siblings(begin, end, step, total, single_root, base, odds, forward, backward, counts, work):  # type: ignore
    """Write the probabilities of the parts of one side, from `base` on."""
    scores = work.sibling_score
    for place in range(begin, end, step):
        a = work.out_arc[place]
        part, rest = work.sibling_from[a], odds[a] + backward[a] - total
        first, last = inner_siblings(a, single_root, work)
        counts[base + part] = math.exp(scores[part] + rest)
        counts[base + part + 1] = math.exp(forward[a] + scores[part + 1] - total)
        for other in range(first, last):
            p = part + 2 + other - first
            counts[base + p] = math.exp(forward[work.out_arc[other]] + scores[p] + rest)
