# mypy: ignore-errors
"""Second-order trees in compiled code: lists of an example's arcs, and the scores of its parts by arc.

Words are 1 … n and the root is 0. Arcs are numbered as in the example's shape, by modifier and head. The arcs *into* a
word are consecutive, and an arc's position among them is its *slot*. The modifiers of a word are summed once for every
head that the word may have: one number for each slot, in vectors of `n_slots`. The root has one slot, 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.compiled.boundary import Integers, Reals
from partwise.compiled.dispatch import fragment, inner
from partwise.compiled.simd import LANES, maximum
from partwise.structures.trees.arc_tables import largest, soft_total, spread

N_FACTS = 3  # Numbers of a shape before its arcs.


class SecondOrderWorkspace(NamedTuple):
    """Arrays for one example. Vectors of slots have `n_slots` entries, rows of words ``stride_of(n)``.

    Attributes
    ----------
    head, modifier, slot : ndarray (arcs,)
    into, out, right : ndarray (n + 2,)
        First arc into each word. In `out_arc`: first arc out of each word, and first of its arcs to the right.
    out_arc, out_place : ndarray (arcs,)
        Arcs by head and modifier, and the position of each arc in this order.
    next_arc, low : ndarray (n + 1,)
        Current arcs and positions of the passes.
    sibling_from, grand_from : ndarray (arcs + 1,)
        First part of each arc, counted from the first part of its kind.
    arc_score, arc_weight : ndarray (arcs,)
        With relations summed or maximised out.
    sibling_score, sibling_weight, halves, to_halves : ndarray (siblings,)
        `halves` sums over the positions at which the subtrees of two siblings meet.
    grand_score, grand_weight, inner, to_inner : ndarray (arcs · n_slots,)
        `inner`: the arc, all modifiers of its head up to it, and the words between them.
    complete, to_complete : ndarray (2 · arcs · stride,)
        Subtrees of the arc's modifier: on its right up to each word, then on its left down to each word, shifted by 1.
    sums : ndarray ((n + 1) · n_slots,)
    row, other_row, relations : ndarray
    """

    head: Integers
    modifier: Integers
    slot: Integers
    into: Integers
    out: Integers
    right: Integers
    out_arc: Integers
    out_place: Integers
    next_arc: Integers
    low: Integers
    sibling_from: Integers
    grand_from: Integers
    arc_score: Reals
    arc_weight: Reals
    sibling_score: Reals
    sibling_weight: Reals
    halves: Reals
    to_halves: Reals
    grand_score: Reals
    grand_weight: Reals
    inner: Reals
    to_inner: Reals
    complete: Reals
    to_complete: Reals
    sums: Reals
    row: Reals
    other_row: Reals
    relations: Reals


def workspace_for(
    n: int, n_arcs: int, n_slots: int, n_siblings: int, n_relations: int
) -> SecondOrderWorkspace:
    """The workspace for examples up to these sizes. `n_slots` is padded."""
    stride = -(-(n + 1) // LANES) * LANES

    def whole(size: int) -> np.ndarray:
        return np.zeros(size, np.int64)

    def real(size: int) -> np.ndarray:
        return np.zeros(size + LANES)

    words, slots, rows = n + 2, n_arcs * n_slots, 2 * n_arcs * stride
    return SecondOrderWorkspace(
        whole(n_arcs), whole(n_arcs), whole(n_arcs), whole(words), whole(words), whole(words), whole(n_arcs),
        whole(n_arcs), whole(words), whole(words), whole(n_arcs + 1), whole(n_arcs + 1), real(n_arcs), real(n_arcs),
        real(n_siblings), real(n_siblings), real(n_siblings), real(n_siblings), real(slots), real(slots), real(slots),
        real(slots), real(rows), real(rows), real((n + 1) * n_slots), real(max(n_slots, n + 2)), real(n_slots),
        real(n_relations),
    )  # fmt: skip


@fragment
def between(word, one, other):  # type: ignore
    return min(one, other) < word < max(one, other)


@inner
def slots_of(n, work):  # type: ignore
    """Entries of a vector of slots: the largest number of arcs into a word, padded."""
    most = 1
    for m in range(1, n + 1):
        most = max(most, work.into[m + 1] - work.into[m])
    return (most + LANES - 1) & ~(LANES - 1)


@inner
def read_lists(shape, single_root, projective, work):  # type: ignore
    """Fill the lists of arcs and count parts. Returns the numbers of words and arcs."""
    n, n_arcs = np.int64(shape[0]), (shape.size - N_FACTS) // 2
    into, out, right, next_arc = work.into, work.out, work.right, work.next_arc
    for w in range(n + 2):
        into[w] = 0
        out[w] = 0
        right[w] = 0
    for a in range(n_arcs):
        h, m = np.int64(shape[N_FACTS + 2 * a]), np.int64(shape[N_FACTS + 1 + 2 * a])
        work.head[a], work.modifier[a] = h, m
        into[m + 1] += 1
        out[h + 1] += 1
        right[h] += m < h
    for w in range(n + 1):
        into[w + 1] += into[w]
        out[w + 1] += out[w]
        right[w] += out[w]
        next_arc[w] = out[w]
    for a in range(n_arcs):
        h = work.head[a]
        work.slot[a] = a - into[work.modifier[a]]
        work.out_place[a] = next_arc[h]
        work.out_arc[next_arc[h]] = a
        next_arc[h] += 1
    siblings, grandparents = 0, 0
    for a in range(n_arcs):
        work.sibling_from[a], work.grand_from[a] = siblings, grandparents
        first, last = inner_siblings(a, single_root, work)
        siblings += 2 + last - first
        h, m = work.head[a], work.modifier[a]
        for b in range(into[h], into[h + 1]):
            g = work.head[b]
            grandparents += g != m and not (projective and between(g, h, m))
    work.sibling_from[n_arcs], work.grand_from[n_arcs] = siblings, grandparents
    return n, n_arcs


@fragment
def inner_siblings(a, single_root, work):  # type: ignore
    """First and last position in `out_arc` of the arcs between `a` and its head, in order of word."""
    h, place = work.head[a], work.out_place[a]
    first, last = work.right[h], place
    if work.modifier[a] < h:
        first, last = place + 1, work.right[h]
    if single_root and h == 0:
        last = first
    return first, last


@inner
def read_scores(n_relations, n_arcs, n_slots, projective, scores, hard, work):  # type: ignore
    """Fill `arc_score`, `sibling_score` and `grand_score`. Relations are maximised out if `hard`, else summed out."""
    first = n_arcs
    for a in range(n_arcs):
        score = scores[a]
        if n_relations > 1 and score > -np.inf:
            if hard:
                score += maximum(scores, first + a * n_relations, n_relations)
            else:
                score += soft_total(scores, first + a * n_relations, n_relations, work.relations)
        work.arc_score[a] = score
    if n_relations > 1:
        first += n_arcs * n_relations
    for p in range(work.sibling_from[n_arcs]):
        work.sibling_score[p] = scores[first + p]
    first += work.sibling_from[n_arcs]
    for a in range(n_arcs):
        h, m, here = work.head[a], work.modifier[a], a * n_slots
        for k in range(here, here + n_slots):
            work.grand_score[k] = -np.inf
        if h == 0:
            work.grand_score[here] = 0.0
        part = first + work.grand_from[a]
        for b in range(work.into[h], work.into[h + 1]):
            g = work.head[b]
            if g != m and not (projective and between(g, h, m)):
                work.grand_score[here + work.slot[b]] = scores[part]
                part += 1


@inner
def write_relations(n_relations, n_arcs, hard, scores, counts, work):  # type: ignore
    """Divide the counts of arcs, which are known, among their relations."""
    for a in range(n_arcs):
        first = n_arcs + a * n_relations
        if hard:
            for r in range(first, first + n_relations):
                counts[r] = 0.0
            if counts[a] > 0.5:
                counts[first + largest(scores, first, n_relations)] = 1.0
        else:
            spread(counts[a], n_relations, scores, first, counts, first, work.relations)


@inner
def write_grandparents(n_arcs, n_slots, projective, first, counts, work):  # type: ignore
    """Write counts of grandparents from part `first` on. ``work.grand_weight`` has them by arc and slot."""
    part = first
    for a in range(n_arcs):
        h, m = work.head[a], work.modifier[a]
        for b in range(work.into[h], work.into[h + 1]):
            g = work.head[b]
            if g != m and not (projective and between(g, h, m)):
                counts[part] = work.grand_weight[a * n_slots + work.slot[b]]
                part += 1
