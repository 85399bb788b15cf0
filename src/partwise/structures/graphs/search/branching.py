# mypy: ignore-errors
"""The best labelling of a factor graph: bounds at falling temperatures, and branches where these leave a doubt.

For any temperature T, T · A(θ / T) ≥ max_y θ(y) with A the tree-reweighted bound; as T falls the left side comes down
to the linear-programming relaxation over locally consistent beliefs, the dual of which AD³ and TRW solve, too (Weiss,
Yanover and Meltzer 2007). Messages of one temperature start the next. After each, beliefs are rounded to a labelling
that obeys every hard factor; when its score reaches the bound it is a maximiser, and that is proved. Where the
bound stays above, the vertex that is least certain is fixed to each of its states in turn, depth first, and a branch
whose bound does not exceed the best labelling found is left.
"""

from __future__ import annotations

import math

import numpy as np

from partwise.compiled.boundary import load_record
from partwise.compiled.dispatch import inner
from partwise.structures.graphs.messages.sweeps import (
    collect_beliefs,
    converge,
    forest_value,
    is_possible,
    start_messages,
)
from partwise.structures.graphs.messages.workspace import FactorRoom, read_graph, read_scores
from partwise.structures.graphs.search.rounding import entry_of, index_slots, round_beliefs

_COOLING = 0.2
_COLDEST = 1e-12  # relative to the largest score
_COLD = 1e-5  # down to here the bound of the whole, which training sees, is always followed
_SWEEPS = 20  # at each temperature
_NODE, _STATE, _SIDE = 0, 1, 2
_ROUNDING = 1e-11


@inner
def search(max_nodes, shape, scores, counts, work):  # type: ignore
    """Writes the best labelling that was found; returns the relaxation's bound on every labelling, which is its score
    where the relaxation is tight. NaN where branches ran out before any labelling was found.

    The bound that the whole search proves, the score of the labelling where it ended, is in ``room.report``.
    """
    room = load_record(FactorRoom, work)
    read_graph(True, shape, work)
    index_slots(work)
    largest = max(read_scores(scores, 1.0, work), 1e-9)
    for j in range(room.sizes[3]):
        room.excluded[j] = 0
    for j in range(counts.size):
        counts[j] = 0.0
    start_messages(work)
    found, bound, relaxed, nodes, depth = -np.inf, np.inf, np.inf, 0, 0
    tolerance = _ROUNDING * largest * (room.sizes[0] + room.sizes[1])
    while nodes < max_nodes:
        nodes += 1
        own, found = _bound_node(shape, scores, largest, depth == 0, found, tolerance, work)
        if depth == 0:
            bound = relaxed = max(own, found)
        if own > found + tolerance and _branch(depth + 1, work):
            depth += 1
            continue
        depth = _other_side(depth, work)
        if depth == 0:
            bound = found
            break
    room.report[0], room.report[1], room.report[2] = nodes, relaxed, bound
    if found > -np.inf:
        _write(counts, work)
        return found if relaxed <= found + tolerance else relaxed
    return bound if bound == -np.inf else np.nan


@inner
def _bound_node(shape, scores, largest, is_root, found, tolerance, work):  # type: ignore
    """Cool down until the bound is reached, or will not be; returns the bound and the best score so far.

    Below the root messages begin with those of the last node, which are nearly right."""
    room = load_record(FactorRoom, work)
    n_states, bound, logs_of_states = room.sizes[3], np.inf, 0.0
    for v in range(room.sizes[0]):
        logs_of_states += math.log(room.first[v + 1] - room.first[v])
    temperature, before, possible = (largest if is_root else 1e-3 * largest), largest, True
    while temperature > _COLDEST * largest:
        read_scores(scores, 1.0 / temperature, work)
        for j in range(room.message[room.sizes[2]]):
            room.messages[j] *= before / temperature
        for j in range(n_states):
            room.beliefs[j] = 0.0 if room.excluded[j] == 0 and room.scores[j] > -np.inf else -np.inf
        collect_beliefs(work)
        before = temperature
        possible = is_possible(work) and converge(shape, 1e-6, _SWEEPS, 0.7, work)
        if not possible:
            break
        bound = min(bound, temperature * forest_value(shape, work))
        score = round_beliefs(shape, scores, work)
        if score > found:
            found = score
            for v in range(room.sizes[0]):
                room.best_labels[v] = room.labels[v]
        gap = bound - found
        enough = _COLD if is_root else 1e-2
        if gap <= tolerance or (temperature * logs_of_states < 0.05 * gap and temperature < enough * largest):
            break
        temperature *= _COOLING
    # Messages for scores divided by the largest, from which the next node begins.
    for j in range(room.message[room.sizes[2]]):
        room.messages[j] *= before / largest
    return (bound if possible else -np.inf), found


@inner
def _write(counts, work):  # type: ignore
    """The part counts of the best labelling."""
    room = load_record(FactorRoom, work)
    n_vertices = room.sizes[0]
    for k in range(room.sizes[6]):
        owner, at = room.source[3 * k], room.source[3 * k + 1]
        if owner < n_vertices:
            counts[at + room.best_labels[owner]] += 1.0
        else:
            counts[at + entry_of(owner - n_vertices, room.source[3 * k + 2], room.best_labels, work)] += 1.0


@inner
def _branch(depth, work):  # type: ignore
    """Fix the least certain vertex to its best state; False where all are fixed."""
    room = load_record(FactorRoom, work)
    chosen, best, least, first = -1, 0, np.inf, room.first
    for v in range(room.sizes[0]):
        top, second, at = -np.inf, -np.inf, 0
        for j in range(first[v], first[v + 1]):
            if room.excluded[j] == 0:
                belief = room.beliefs[j]
                if belief > top or top == -np.inf:
                    top, second, at = belief, top, j
                elif belief > second:
                    second = belief
        if second > -np.inf and top - second < least:
            chosen, best, least = v, at, top - second
    if chosen < 0:
        return False
    room.branch[3 * depth + _NODE], room.branch[3 * depth + _STATE] = chosen, best
    room.branch[3 * depth + _SIDE] = 0
    for j in range(first[chosen], first[chosen + 1]):
        if j != best and room.excluded[j] == 0:
            room.excluded[j] = depth
    return True


@inner
def _other_side(depth, work):  # type: ignore
    """Go back to the last branch whose other side, without that state, is not done; returns its depth, or 0."""
    room = load_record(FactorRoom, work)
    while depth > 0:
        for j in range(room.sizes[3]):
            if room.excluded[j] == depth:
                room.excluded[j] = 0
        if room.branch[3 * depth + _SIDE] == 0:
            room.branch[3 * depth + _SIDE] = 1
            room.excluded[room.branch[3 * depth + _STATE]] = depth
            return depth
        depth -= 1
    return 0
