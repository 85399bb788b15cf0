# mypy: ignore-errors
"""The oracle of second-order projective trees: sums of scaled weights, or on logarithms if these underflow."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from partwise.compiled.dispatch import entry, inner
from partwise.compiled.oracles import Oracle
from partwise.structures.second_order.grand_siblings.recursion import distribute, inside
from partwise.structures.second_order.grand_siblings.sums import outside, scaled_weights
from partwise.structures.second_order.tables import (
    SecondOrderWorkspace,
    read_lists,
    read_scores,
    slots_of,
    write_grandparents,
    write_relations,
)
from partwise.structures.semirings import BEST, LINEAR, LOGS, MAXIMA, SHARED, Drawn
from partwise.structures.trees.eisner.oracle import nothing_lost


class GrandSiblingSpecification(NamedTuple):
    """Projective trees. Arcs have one of `n_relations` relations."""

    n_relations: int
    single_root: bool


@inner
def _first_sibling(n_relations, n_arcs):  # type: ignore
    return n_arcs * (1 + n_relations) if n_relations > 1 else n_arcs


@inner
def _inside_of_weights(n, n_arcs, n_slots, single_root, work):  # type: ignore
    arc, sibling, grand = work.arc_weight, work.sibling_weight, work.grand_weight
    return inside(LINEAR, arc, sibling, grand, n, n_arcs, n_slots, single_root, work)


@inner
def _inside_of_scores(semiring, n, n_arcs, n_slots, single_root, work):  # type: ignore
    arc, sibling, grand = work.arc_score, work.sibling_score, work.grand_score
    return inside(semiring, arc, sibling, grand, n, n_arcs, n_slots, single_root, work)


@inner
def grand_sibling_expectations(specification, shape, scores, counts, work):  # type: ignore
    n_relations, single_root = specification.n_relations, specification.single_root
    n, n_arcs = read_lists(shape, single_root, True, work)
    n_slots, base = slots_of(n, work), _first_sibling(n_relations, n_arcs)
    read_scores(n_relations, n_arcs, n_slots, True, scores, False, work)
    shifts = scaled_weights(n, n_arcs, n_slots, single_root, work)
    total, value = 0.0, -np.inf
    if shifts == shifts:
        total = _inside_of_weights(n, n_arcs, n_slots, single_root, work)
    if nothing_lost(n, total):
        outside(n, n_arcs, n_slots, single_root, total, base, counts, work)
        value = shifts + math.log(total)
        for k in range(n_arcs * n_slots):
            work.grand_weight[k] = work.to_inner[k]
    else:
        value = _inside_of_scores(LOGS, n, n_arcs, n_slots, single_root, work)
        if value > -np.inf:
            distribute(n, n_arcs, n_slots, single_root, base, SHARED, counts, work)
    if value == -np.inf:
        for j in range(counts.size):
            counts[j] = 0.0
        return value
    write_grandparents(n_arcs, n_slots, True, base + work.sibling_from[n_arcs], counts, work)
    if n_relations > 1:
        write_relations(n_relations, n_arcs, False, scores, counts, work)
    return value


@inner
def grand_sibling_log_partition(specification, shape, scores, work):  # type: ignore
    single_root = specification.single_root
    n, n_arcs = read_lists(shape, single_root, True, work)
    n_slots = slots_of(n, work)
    read_scores(specification.n_relations, n_arcs, n_slots, True, scores, False, work)
    shifts = scaled_weights(n, n_arcs, n_slots, single_root, work)
    if shifts == shifts:
        total = _inside_of_weights(n, n_arcs, n_slots, single_root, work)
        if nothing_lost(n, total):
            return shifts + math.log(total)
    return _inside_of_scores(LOGS, n, n_arcs, n_slots, single_root, work)


@inner
def grand_sibling_best(specification, shape, scores, counts, work):  # type: ignore
    n_relations, single_root = specification.n_relations, specification.single_root
    n, n_arcs = read_lists(shape, single_root, True, work)
    n_slots, base = slots_of(n, work), _first_sibling(n_relations, n_arcs)
    read_scores(n_relations, n_arcs, n_slots, True, scores, True, work)
    value = _inside_of_scores(MAXIMA, n, n_arcs, n_slots, single_root, work)
    if value == -np.inf:
        for j in range(counts.size):
            counts[j] = 0.0
        return value
    distribute(n, n_arcs, n_slots, single_root, base, BEST, counts, work)
    write_grandparents(n_arcs, n_slots, True, base + work.sibling_from[n_arcs], counts, work)
    if n_relations > 1:
        write_relations(n_relations, n_arcs, True, scores, counts, work)
    value = 0.0
    for j in range(counts.size):
        value += scores[j] if counts[j] > 0.5 else 0.0
    return value


@entry
def sample_grand_siblings(specification, shape, scores, counts, uniforms, heads, work):  # type: ignore
    """Fill `heads` (n_samples, n) from `uniforms` (n_samples, 4 n + 4). Returns −inf if no tree is possible."""
    n_relations, single_root = specification.n_relations, specification.single_root
    n, n_arcs = read_lists(shape, single_root, True, work)
    n_slots, base = slots_of(n, work), _first_sibling(n_relations, n_arcs)
    read_scores(n_relations, n_arcs, n_slots, True, scores, False, work)
    value = _inside_of_scores(LOGS, n, n_arcs, n_slots, single_root, work)
    if value == -np.inf:
        return value
    for sample in range(heads.shape[0]):
        distribute(n, n_arcs, n_slots, single_root, base, Drawn(uniforms[sample]), counts, work)
        for a in range(n_arcs):
            if counts[a] > 0.5:
                heads[sample, work.modifier[a] - 1] = work.head[a]
    return value


GRAND_SIBLING = Oracle(
    "grand_sibling",
    GrandSiblingSpecification,
    SecondOrderWorkspace,
    grand_sibling_expectations,
    grand_sibling_log_partition,
    grand_sibling_best,
)
