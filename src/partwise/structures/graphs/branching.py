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

from partwise.compiled.dispatch import inner
from partwise.structures.graphs.count_messages import count_best
from partwise.structures.graphs.factor_room import COUNT, TABLE, read_graph, read_scores, table_size
from partwise.structures.graphs.sweeps import (
    collect_beliefs,
    converge,
    forest_value,
    is_possible,
    start_messages,
)
from partwise.structures.graphs.tree_messages import tree_best

_COOLING = 0.2
_COLDEST = 1e-12  # relative to the largest score
_SWEEPS = 20  # at each temperature
_NODE, _STATE, _SIDE = 0, 1, 2
_ROUNDING = 1e-11


@inner
def factor_best(specification, shape, scores, counts, room):  # type: ignore
    """The best labelling that was found and its score, or the bound on it where branches ran out; NaN where
    branches ran out before any labelling was found."""
    read_graph(True, shape, room)
    largest = max(read_scores(scores, 1.0, room), 1e-9)
    for j in range(room.sizes[3]):
        room.excluded[j] = 0
    for j in range(counts.size):
        counts[j] = 0.0
    start_messages(room)
    found, bound, nodes, depth = -np.inf, np.inf, 0, 0
    tolerance = _ROUNDING * largest * (room.sizes[0] + room.sizes[1])
    while nodes < specification.max_nodes:
        nodes += 1
        own, found = _bound_node(shape, scores, largest, depth == 0, found, tolerance, room)
        if depth == 0:
            bound = own
        if own > found + tolerance and _branch(depth + 1, room):
            depth += 1
            continue
        depth = _other_side(depth, room)
        if depth == 0:
            bound = found
            break
    room.report[0], room.report[1], room.report[2] = nodes, max(bound - found, 0.0), bound
    if found > -np.inf:
        _write(counts, room)
        return bound
    return bound if bound == -np.inf else np.nan


@inner
def _bound_node(shape, scores, largest, is_root, found, tolerance, room):  # type: ignore
    """Cool down until the bound is reached, or will not be; returns the bound and the best score so far.

    Below the root messages begin with those of the last node, which are nearly right."""
    n_states, bound, logs_of_states = room.sizes[3], np.inf, 0.0
    for v in range(room.sizes[0]):
        logs_of_states += math.log(room.first[v + 1] - room.first[v])
    temperature, before, possible = (largest if is_root else 1e-3 * largest), largest, True
    while temperature > _COLDEST * largest:
        read_scores(scores, 1.0 / temperature, room)
        for j in range(room.message[room.sizes[2]]):
            room.messages[j] *= before / temperature
        for j in range(n_states):
            room.beliefs[j] = 0.0 if room.excluded[j] == 0 and room.scores[j] > -np.inf else -np.inf
        collect_beliefs(room)
        before = temperature
        possible = is_possible(room) and converge(shape, 1e-6, _SWEEPS, 1.0, room)
        if not possible:
            break
        bound = min(bound, temperature * forest_value(shape, room))
        score = _round(shape, scores, room)
        if score > found:
            found = score
            for v in range(room.sizes[0]):
                room.best_labels[v] = room.labels[v]
        gap = bound - found
        if gap <= tolerance or (temperature * logs_of_states < 0.05 * gap and temperature < 1e-2 * largest):
            break
        temperature *= _COOLING
    # Messages for scores divided by the largest, from which the next node begins.
    for j in range(room.message[room.sizes[2]]):
        room.messages[j] *= before / largest
    return (bound if possible else -np.inf), found


@inner
def _round(shape, scores, room):  # type: ignore
    """Fill ``room.labels`` from beliefs; returns the labelling's score, −inf where it breaks a rule."""
    labels, first, incoming = room.labels, room.first, room.incoming
    for v in range(room.sizes[0]):
        best = first[v]
        for j in range(first[v] + 1, first[v + 1]):
            if room.beliefs[j] > room.beliefs[best]:
                best = j
        labels[v] = best - first[v]
    for f in range(room.sizes[1]):
        if room.code[f] != TABLE:
            for s in range(room.slot[f], room.slot[f + 1]):
                for x in range(2):
                    incoming[2 * (s - room.slot[f]) + x] = room.beliefs[first[room.vertex[s]] + x]
            if not _obey(f, shape, room) > -np.inf:
                return -np.inf
    for f in range(room.sizes[1]):
        if room.code[f] != TABLE:  # a later rule may have broken an earlier one
            for s in range(room.slot[f], room.slot[f + 1]):
                for x in range(2):
                    incoming[2 * (s - room.slot[f]) + x] = 0.0 if labels[room.vertex[s]] == x else -np.inf
            if not _obey(f, shape, room) > -np.inf:
                return -np.inf
    return score_of(scores, room)


@inner
def _obey(f, shape, room):  # type: ignore
    """Set the labels of a hard factor's vertices to the best of ``room.incoming`` that obey it; −inf where none do."""
    first, arity, choice = room.slot[f], room.slot[f + 1] - room.slot[f], room.choice
    if room.code[f] == COUNT:
        value = count_best(shape, room.place[f], arity, room.incoming, choice, room.levels)
    else:
        value = tree_best(room.code[f], shape, room.place[f], arity, room.incoming, choice, room)
    if value > -np.inf:
        for i in range(arity):
            room.labels[room.vertex[first + i]] = choice[i]
    return value


@inner
def _entry(f, transposed, labels, room):  # type: ignore
    """The entry of a source's table that `labels` choose."""
    entry = 0
    for s in range(room.slot[f], room.slot[f + 1]):
        entry = entry * (room.message[s + 1] - room.message[s]) + labels[room.vertex[s]]
    if transposed:
        last = room.slot[f + 1]
        columns = room.message[last] - room.message[last - 1]
        size = table_size(f, room.slot, room.message)
        entry = (entry % columns) * (size // columns) + entry // columns
    return entry


@inner
def score_of(scores, room):  # type: ignore
    """Score of ``room.labels``, soft factors only."""
    total, n_vertices = 0.0, room.sizes[0]
    for k in range(room.sizes[6]):
        owner, at = room.source[3 * k], room.source[3 * k + 1]
        if owner < n_vertices:
            total += scores[at + room.labels[owner]]
        else:
            total += scores[at + _entry(owner - n_vertices, room.source[3 * k + 2], room.labels, room)]
    return total


@inner
def _write(counts, room):  # type: ignore
    """The part counts of the best labelling."""
    n_vertices = room.sizes[0]
    for k in range(room.sizes[6]):
        owner, at = room.source[3 * k], room.source[3 * k + 1]
        if owner < n_vertices:
            counts[at + room.best_labels[owner]] += 1.0
        else:
            counts[at + _entry(owner - n_vertices, room.source[3 * k + 2], room.best_labels, room)] += 1.0


@inner
def _branch(depth, room):  # type: ignore
    """Fix the least certain vertex to its best state; False where all are fixed."""
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
def _other_side(depth, room):  # type: ignore
    """Go back to the last branch whose other side, without that state, is not done; returns its depth, or 0."""
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
