# mypy: ignore-errors
"""Second-order trees in compiled code: an example's arcs in lists, and the scores of its parts by arc.

Words are 1 … n and the root is 0. Arcs are numbered as in the example's shape, by modifier and head. The arcs *into* a
word are neighbours, and an arc's place among them is its *slot*: the modifiers of a word are summed once for every
head that the word may itself have, a number for each slot, in vectors of `n_slots`. The root has one slot, 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.compiled.boundary import Integers, Reals
from partwise.compiled.dispatch import fragment, inner
from partwise.compiled.simd import LANES, maximum
from partwise.structures.trees.arc_tables import largest, soft_total, spread

N_FACTS = 3  # of a shape, before its arcs


class SecondOrderWorkspace(NamedTuple):
    """Room for one example. Vectors of slots are `n_slots` long, rows of words ``stride_of(n)``.

    Attributes
    ----------
    head, modifier, slot : ndarray (arcs,)
    into, out, right : ndarray (n + 2,)
        Where the arcs into a word begin; where those out of it begin in `out_arc`; and where there the modifiers to
        its right begin.
    out_arc, out_place : ndarray (arcs,)
        Arcs by head and modifier, and the place of each there.
    next_arc, low : ndarray (n + 1,)
        Of the passes: arcs and places that they have come to.
    sibling_from, grand_from : ndarray (arcs + 1,)
        The first part of each arc, counted from the first of its kind.
    arc_score, arc_weight : ndarray (arcs,)
        With relations summed or maximised out.
    sibling_score, sibling_weight, halves, to_halves : ndarray (siblings,)
        `halves` sums over where the subtrees of two siblings meet.
    grand_score, grand_weight, inner, to_inner : ndarray (arcs · n_slots,)
        `inner`: the arc, all modifiers of its head up to it, and the words between.
    complete, to_complete : ndarray (2 · arcs · stride,)
        Subtrees: of the arc's modifier to its right up to each word, then to its left down to each, moved by one.
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
    """Room for examples up to these sizes; `n_slots` is padded."""
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
    """Numbers in a vector of slots: the most arcs into a word, padded."""
    most = 1
    for m in range(1, n + 1):
        most = max(most, work.into[m + 1] - work.into[m])
    return (most + LANES - 1) & ~(LANES - 1)


@inner
def read_lists(shape, single_root, projective, work):  # type: ignore
    """Fill the lists of arcs and count parts; returns the number of words and of arcs."""
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
    """The places in `out_arc` of the arcs that may come before `a`, from h outwards on its side; in order of word."""
    h, place = work.head[a], work.out_place[a]
    first, last = work.right[h], place
    if work.modifier[a] < h:
        first, last = place + 1, work.right[h]
    if single_root and h == 0:
        last = first
    return first, last


@inner
def read_scores(n_relations, n_arcs, n_slots, projective, scores, hard, work):  # type: ignore
    """Fill `arc_score`, `sibling_score` and `grand_score`; relations are maximised out if `hard`, else summed."""
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
    """Share the counts of arcs, which are there, between their relations."""
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
    """Counts of grandparents, from part `first` on, where ``work.grand_weight`` holds them by arc and slot."""
    part = first
    for a in range(n_arcs):
        h, m = work.head[a], work.modifier[a]
        for b in range(work.into[h], work.into[h + 1]):
            g = work.head[b]
            if g != m and not (projective and between(g, h, m)):
                counts[part] = work.grand_weight[a * n_slots + work.slot[b]]
                part += 1
