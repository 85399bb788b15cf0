# mypy: ignore-errors
"""The oracle of second-order spanning trees: the bound of `bound.py` or loopy messages; a good tree from marginals."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.compiled.boundary import Integers, Reals
from partwise.compiled.dispatch import inner
from partwise.compiled.oracles import Oracle
from partwise.structures.second_order.consensus.bound import SHARE, smallest_bound
from partwise.structures.second_order.consensus.climbing import climb
from partwise.structures.second_order.loopy.messages import loopy_value
from partwise.structures.second_order.tables import (
    read_lists,
    read_scores,
    slots_of,
    write_grandparents,
    write_relations,
)
from partwise.structures.trees.arc_tables import stride_of
from partwise.structures.trees.matrix_tree.chu_liu_edmonds import spanning_best


class ConsensusSpecification(NamedTuple):
    """Spanning trees. Arcs have one of `n_relations` relations. `loopy`: Bethe's value instead of the bound."""

    n_relations: int
    single_root: bool
    loopy: bool


class ConsensusWorkspace(NamedTuple):
    """The fields of `SecondOrderWorkspace` and `SpanningWorkspace`, and those of L-BFGS.

    Attributes
    ----------
    modifier_score, head_score, of_modifiers, of_heads : ndarray (arcs,)
        Scores of arcs in the automata of their heads and modifiers, and their probabilities there.
    grand_top, bracket_row : ndarray (arcs,) and (n_slots,)
    point, gradient, old_point, old_gradient, direction : ndarray (2 · arcs,)
    steps, changes : ndarray (MEMORY · 2 · arcs,)
    alphas, curvatures : ndarray (MEMORY,)
    arc_at : ndarray ((n + 1) · stride,)
        The number of each arc by [modifier, head], −1 if it is no candidate.
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
    scores: Reals
    marginals: Reals
    levels: Reals
    roots: Reals
    escapes: Reals
    totals: Reals
    block: Reals
    origins: Integers
    heads: Integers
    modifier_score: Reals
    head_score: Reals
    of_modifiers: Reals
    of_heads: Reals
    point: Reals
    gradient: Reals
    old_point: Reals
    old_gradient: Reals
    direction: Reals
    steps: Reals
    changes: Reals
    grand_top: Reals
    bracket_row: Reals
    alphas: Reals
    curvatures: Reals
    arc_at: Integers


@inner
def _read(specification, shape, scores, hard, work):  # type: ignore
    """Lists and scores, those of pairs divided by ρ; words, arcs, slots, the first sibling part and ρ (1 if loopy)."""
    n_relations = specification.n_relations
    n, n_arcs = read_lists(shape, specification.single_root, False, work)
    n_slots, share = slots_of(n, work), 1.0 if specification.loopy else SHARE
    read_scores(n_relations, n_arcs, n_slots, False, scores, hard, work)
    for p in range(work.sibling_from[n_arcs]):
        work.sibling_score[p] /= share
    for k in range(n_arcs * n_slots):
        work.grand_score[k] /= share
    return n, n_arcs, n_slots, n_arcs * (1 + n_relations) if n_relations > 1 else n_arcs, share


@inner
def _sums(specification, n, n_arcs, n_slots, base, counts, work):  # type: ignore
    """The log-partition, and probabilities as :func:`smallest_bound` leaves them."""
    if specification.loopy:
        return loopy_value(specification, n, n_arcs, n_slots, base, counts, work)
    return smallest_bound(specification, n, n_arcs, n_slots, base, counts, work)


@inner
def consensus_expectations(specification, shape, scores, counts, work):  # type: ignore
    n, n_arcs, n_slots, base, _ = _read(specification, shape, scores, False, work)
    value, stride = _sums(specification, n, n_arcs, n_slots, base, counts, work), stride_of(n)
    if value == -np.inf:
        for j in range(counts.size):
            counts[j] = 0.0
        return value
    for a in range(n_arcs):
        counts[a] = work.marginals[work.modifier[a] * stride + work.head[a]]
    for k in range(n_arcs * n_slots):
        work.grand_weight[k] = work.to_inner[k]
    write_grandparents(n_arcs, n_slots, False, base + work.sibling_from[n_arcs], counts, work)
    if specification.n_relations > 1:
        write_relations(specification.n_relations, n_arcs, False, scores, counts, work)
    return value


@inner
def consensus_log_partition(specification, shape, scores, work):  # type: ignore
    n, n_arcs, n_slots, _, _ = _read(specification, shape, scores, False, work)
    return _sums(specification, n, n_arcs, n_slots, 0, work.halves, work)


@inner
def consensus_best(specification, shape, scores, counts, work):  # type: ignore
    """The spanning tree with the likeliest arcs, improved by hill climbing."""
    n, n_arcs, n_slots, base, share = _read(specification, shape, scores, True, work)
    value, stride = _sums(specification, n, n_arcs, n_slots, 0, work.halves, work), stride_of(n)
    for j in range(counts.size):
        counts[j] = 0.0
    if value == -np.inf:
        return value
    for a in range(n_arcs):
        at = work.modifier[a] * stride + work.head[a]
        work.scores[at] = work.marginals[at] if work.arc_score[a] > -np.inf else -np.inf
    if spanning_best(n, specification.single_root, work) == -np.inf:
        return -np.inf
    value = climb(specification, n, n_arcs, n_slots, share, base, counts, work)
    if value == -np.inf:
        return value
    write_grandparents(n_arcs, n_slots, False, base + work.sibling_from[n_arcs], counts, work)
    if specification.n_relations > 1:
        write_relations(specification.n_relations, n_arcs, True, scores, counts, work)
    value = 0.0
    for j in range(counts.size):
        value += scores[j] if counts[j] > 0.5 else 0.0
    return value


CONSENSUS = Oracle(
    "consensus",
    ConsensusSpecification,
    ConsensusWorkspace,
    consensus_expectations,
    consensus_log_partition,
    consensus_best,
)
