# mypy: ignore-errors
"""The room in which messages are passed: the factor graph of the example at hand, its messages and beliefs.

A *slot* is a place of a factor: the vertex that stands there. Messages from factors to vertices are logarithms, one
number for every state of a slot's vertex; *beliefs* are logarithms over the states of vertices. Factors are soft, a
table of scores, or hard, a rule. Behind an example's layout its shape has the rest, nine sizes and these blocks:

    first (V + 1) · slot (F + 1) · vertex (slots) · message (slots + 1) · code (F) · place (F) · room (F)
    sources (Q, 3) · forest (R + 1) · times (R) · order (N) · parent (N) · rules (data)

where vertices that are counted twice over, unary factors and factors with the same scope, are already one:
every source (owner, first part, transposed) adds scores to a vertex (owner < V) or to a table (owner − V).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.compiled.boundary import IntegerMatrix, Integers, Reals, load_record
from partwise.compiled.dispatch import inner
from partwise.structures.graphs.layout import N_VERTICES, REST

# What a factor is; `place` is where a table's logarithms begin, or where a rule's numbers begin in the shape.
TABLE, COUNT, PROJECTIVE_TREE, SPANNING_TREE = 0, 1, 2, 3
N_SIZES = 9


class FactorWorkspace(NamedTuple):
    """The packed :class:`FactorRoom`, whose address is what functions hand on: so many arrays compile slowly."""

    packed: Integers


class FactorRoom(NamedTuple):
    """Room for one example; sizes are those of the largest.

    Attributes
    ----------
    sizes : ndarray of int64 (10,)
        Vertices, then the nine sizes: factors, slots, states, entries of tables, their room, sources, forests, entries
        of `order`, numbers of rules.
    first, slot, vertex, message, code, place, room_at, source, forest, order, parent : ndarray of int64
        The blocks of the shape.
    share, weight : ndarray
        Probability of each forest, and of each factor to be in one (1 where it counts fully).
    scores, logs : ndarray
        Of vertices and tables, summed over sources.
    beliefs, messages : ndarray
    tables : ndarray
        Exponentials of ``logs / weight``; of pairs also transposed, in padded rows.
    incoming, outgoing, exponents, sums, levels : ndarray
        Of one factor at a time; `levels` also for all entries of a table.
    saved_beliefs, point, history : ndarray
        Beliefs and messages before, and what acceleration keeps of earlier ones.
    excluded, branch, labels, best_labels, kept_labels, choice : ndarray of int64
        The depth at which each state was excluded, 0 where it was not; vertex, state and side of every branch; a
        labelling, the best one found, and room for more.
    touching_ptr, touching : ndarray of int64
        The slots of each vertex and their factors.
    arc_scores, arc_counts : ndarray
    tree_calls, tree_specifications, projective_work, spanning_work
        Who answers about trees: projective sums and best, spanning sums and best.
    report : ndarray (4,)
        Of the last answer: iterations, largest change of a message, value; or nodes of the search, the relaxation's
        bound, the search's bound.
    """

    sizes: Integers
    first: Integers
    slot: Integers
    vertex: Integers
    message: Integers
    code: Integers
    place: Integers
    room_at: Integers
    source: Integers
    forest: Integers
    order: Integers
    parent: Integers
    share: Reals
    weight: Reals
    scores: Reals
    logs: Reals
    beliefs: Reals
    messages: Reals
    tables: Reals
    incoming: Reals
    outgoing: Reals
    exponents: Reals
    sums: Reals
    levels: Reals
    saved_beliefs: Reals
    point: Reals
    history: Reals
    excluded: Integers
    branch: Integers
    labels: Integers
    best_labels: Integers
    kept_labels: Integers
    choice: Integers
    touching_ptr: Integers
    touching: Integers
    arc_scores: Reals
    arc_counts: Reals
    tree_calls: Integers
    tree_specifications: IntegerMatrix
    projective_work: Integers
    spanning_work: Integers
    report: Reals


@inner
def _copy(out, shape, at, count):  # type: ignore
    for j in range(count):
        out[j] = shape[at + j]
    return at + count


@inner
def read_graph(tree_reweighted, shape, work):  # type: ignore
    """Fill everything of `room` that does not depend on scores."""
    room = load_record(FactorRoom, work)
    sizes, rest = room.sizes, np.int64(shape[REST])
    sizes[0] = shape[N_VERTICES]
    at = _copy(sizes[1:], shape, rest, N_SIZES)
    n_factors, n_slots, n_forests = sizes[1], sizes[2], sizes[7]
    at = _copy(room.first, shape, at, sizes[0] + 1)
    at = _copy(room.slot, shape, at, n_factors + 1)
    at = _copy(room.vertex, shape, at, n_slots)
    at = _copy(room.message, shape, at, n_slots + 1)
    at = _copy(room.code, shape, at, n_factors)
    at = _copy(room.place, shape, at, n_factors)
    at = _copy(room.room_at, shape, at, n_factors)
    at = _copy(room.source, shape, at, 3 * sizes[6])
    at = _copy(room.forest, shape, at, n_forests + 1)
    total = np.int64(0)
    for t in range(n_forests):
        total += shape[at + t]
    for t in range(n_forests):
        room.share[t] = shape[at + t] / total
    at = _copy(room.order, shape, at + n_forests, sizes[8])
    rules = _copy(room.parent, shape, at, sizes[8])
    for f in range(n_factors):
        room.weight[f] = 0.0 if tree_reweighted else 1.0
        if room.code[f] != TABLE:
            room.place[f] += rules
    if tree_reweighted:
        for t in range(n_forests):
            for k in range(room.forest[t], room.forest[t + 1]):
                room.weight[room.order[k]] += room.share[t]


@inner
def read_scores(scores, scale, work):  # type: ignore
    """Sum the sources of vertices and tables; returns the largest finite absolute value."""
    room = load_record(FactorRoom, work)
    sizes, first, place = room.sizes, room.first, room.place
    n_vertices, own, logs = sizes[0], room.scores, room.logs
    for j in range(sizes[3]):
        own[j] = 0.0
    for j in range(sizes[4]):
        logs[j] = 0.0
    for k in range(sizes[6]):
        owner, at, transposed = room.source[3 * k], room.source[3 * k + 1], room.source[3 * k + 2]
        if owner < n_vertices:
            for x in range(first[owner + 1] - first[owner]):
                own[first[owner] + x] += scale * scores[at + x]
            continue
        f = owner - n_vertices
        s = room.slot[f]
        if transposed:
            rows, columns = room.message[s + 1] - room.message[s], room.message[s + 2] - room.message[s + 1]
            for x in range(rows):
                for y in range(columns):
                    logs[place[f] + x * columns + y] += scale * scores[at + y * rows + x]
        else:
            for j in range(table_size(f, room.slot, room.message)):
                logs[place[f] + j] += scale * scores[at + j]
    largest = 0.0
    for j in range(sizes[3]):
        largest = max(largest, abs(own[j]) if own[j] > -np.inf else 0.0)
    for j in range(sizes[4]):
        largest = max(largest, abs(logs[j]) if logs[j] > -np.inf else 0.0)
    return largest


@inner
def table_size(f, slot, message):  # type: ignore
    """Entries of a soft factor's table."""
    size = 1
    for s in range(slot[f], slot[f + 1]):
        size *= message[s + 1] - message[s]
    return size


@inner
def log_total(values, start, count):  # type: ignore
    """log Σ exp of some numbers; −inf where all are."""
    top = -np.inf
    for j in range(start, start + count):
        top = max(top, values[j])
    if top == -np.inf:
        return top
    total = 0.0
    for j in range(start, start + count):
        total += np.exp(values[j] - top)
    return top + np.log(total)


@inner
def log_sum(a, b):  # type: ignore
    """log(eᵃ + eᵇ); either may be −inf."""
    top, low = max(a, b), min(a, b)
    if low == -np.inf:
        return top
    return top + np.log1p(np.exp(low - top))
