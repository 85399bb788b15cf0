# mypy: ignore-errors
"""A labelling from beliefs that obeys every rule: one vertex after another, then changes for the better.

A vertex is labelled by its belief, in which the message of a factor whose other vertices have labels already is
replaced by that factor's scores for these labels. Rules then choose for their vertices, and vertices and rules choose
again, given all other labels, until nothing improves.
"""

from __future__ import annotations

import numpy as np

from partwise.compiled.boundary import load_record
from partwise.compiled.dispatch import inner
from partwise.structures.graphs.messages.counts import count_best
from partwise.structures.graphs.messages.trees import tree_best
from partwise.structures.graphs.messages.workspace import COUNT, TABLE, FactorRoom, table_size

_MOST_ROUNDS = 20


@inner
def index_slots(work):  # type: ignore
    """Fill ``room.touching`` with the slots of each vertex."""
    room = load_record(FactorRoom, work)
    n, ptr, touching = room.sizes[0], room.touching_ptr, room.touching
    for v in range(n + 2):
        ptr[v] = 0
    for s in range(room.sizes[2]):
        ptr[room.vertex[s] + 2] += 1
    for v in range(2, n + 2):
        ptr[v] += ptr[v - 1]
    for f in range(room.sizes[1]):
        for s in range(room.slot[f], room.slot[f + 1]):
            at = ptr[room.vertex[s] + 1]
            touching[2 * at], touching[2 * at + 1] = s, f
            ptr[room.vertex[s] + 1] = at + 1


@inner
def _add_conditional(f, s, labels, values, sign, work):  # type: ignore
    """Add `sign` times the scores of a table for the states of slot s, all its other vertices at their labels."""
    room = load_record(FactorRoom, work)
    entry, step, stride = 0, 1, 1
    for r in range(room.slot[f + 1] - 1, room.slot[f] - 1, -1):
        if r == s:
            stride = step
        else:
            entry += step * labels[room.vertex[r]]
        step *= room.message[r + 1] - room.message[r]
    for x in range(room.message[s + 1] - room.message[s]):
        values[x] += sign * room.logs[room.place[f] + entry + x * stride]


@inner
def conditional(v, values, work):  # type: ignore
    """Fill `values` with the scores of a vertex' states, all other vertices at ``room.labels``."""
    room = load_record(FactorRoom, work)
    first = room.first[v]
    for x in range(room.first[v + 1] - first):
        values[x] = room.scores[first + x] if room.beliefs[first + x] > -np.inf else -np.inf
    for k in range(room.touching_ptr[v], room.touching_ptr[v + 1]):
        s, f = room.touching[2 * k], room.touching[2 * k + 1]
        if room.code[f] == TABLE:
            _add_conditional(f, s, room.labels, values, 1.0, work)


@inner
def _one_by_one(work):  # type: ignore
    """Label the vertices in order; returns nothing, fills ``room.labels``."""
    room = load_record(FactorRoom, work)
    labels, values = room.labels, room.outgoing
    for v in range(room.sizes[0]):
        first, best = room.first[v], 0
        for x in range(room.first[v + 1] - first):
            values[x] = room.beliefs[first + x]
        for k in range(room.touching_ptr[v], room.touching_ptr[v + 1]):
            s, f = room.touching[2 * k], room.touching[2 * k + 1]
            known = room.code[f] == TABLE
            for r in range(room.slot[f], room.slot[f + 1]):
                known = known and room.vertex[r] <= v
            if known:
                _add_conditional(f, s, labels, values, 1.0, work)
                for x in range(room.message[s + 1] - room.message[s]):
                    values[x] -= room.weight[f] * room.messages[room.message[s] + x]
        for x in range(1, room.first[v + 1] - first):
            if values[x] > values[best]:
                best = x
        labels[v] = best


@inner
def obey(f, shape, work):  # type: ignore
    """Set the labels of a rule's vertices to the best of ``room.incoming`` that obey it; −inf where none do."""
    room = load_record(FactorRoom, work)
    first, arity, choice = room.slot[f], room.slot[f + 1] - room.slot[f], room.choice
    if room.code[f] == COUNT:
        value = count_best(shape, room.place[f], arity, room.incoming, choice, room.levels)
    else:
        value = tree_best(room.code[f], shape, room.place[f], arity, room.incoming, choice, work)
    if value > -np.inf:
        for i in range(arity):
            room.labels[room.vertex[first + i]] = choice[i]
    return value


@inner
def _obeyed(shape, work):  # type: ignore
    """Whether ``room.labels`` obey every rule."""
    room = load_record(FactorRoom, work)
    for f in range(room.sizes[1]):
        if room.code[f] != TABLE:
            for s in range(room.slot[f], room.slot[f + 1]):
                for x in range(2):
                    held = room.labels[room.vertex[s]] == x
                    room.incoming[2 * (s - room.slot[f]) + x] = 0.0 if held else -np.inf
            if not obey(f, shape, work) > -np.inf:
                return False
    return True


@inner
def round_beliefs(shape, scores, work):  # type: ignore
    """Fill ``room.labels``; returns the labelling's score, −inf where it breaks a rule."""
    room = load_record(FactorRoom, work)
    _one_by_one(work)
    any_rule = False
    for f in range(room.sizes[1]):
        if room.code[f] != TABLE:
            any_rule = True
            for s in range(room.slot[f], room.slot[f + 1]):
                for x in range(2):
                    at = room.first[room.vertex[s]] + x
                    room.incoming[2 * (s - room.slot[f]) + x] = room.beliefs[at]
            if not obey(f, shape, work) > -np.inf:
                return -np.inf
    if any_rule and not _obeyed(shape, work):  # a later rule may have broken an earlier one
        return -np.inf
    best = score_of(scores, room.labels, work)
    for _ in range(_MOST_ROUNDS):
        moved = _improve_vertices(work)
        score = score_of(scores, room.labels, work)
        if any_rule:
            score = _improve_rules(shape, scores, score, work)
        if not (moved or score > best):
            break
        best = score
    return score_of(scores, room.labels, work)


@inner
def _improve_vertices(work):  # type: ignore
    """Give every vertex that no rule has its best label given the others; whether any changed."""
    room = load_record(FactorRoom, work)
    moved, values = False, room.outgoing
    for v in range(room.sizes[0]):
        ruled = False
        for k in range(room.touching_ptr[v], room.touching_ptr[v + 1]):
            ruled = ruled or room.code[room.touching[2 * k + 1]] != TABLE
        if ruled:
            continue
        conditional(v, values, work)
        best = room.labels[v]
        for x in range(room.first[v + 1] - room.first[v]):
            if values[x] > values[best] + 1e-12 * abs(values[best]):
                best = x
        if best != room.labels[v]:
            room.labels[v], moved = best, True
    return moved


@inner
def _improve_rules(shape, scores, score, work):  # type: ignore
    """Let every rule choose again, given all labels; keeps what is better and breaks no rule; returns the score."""
    room = load_record(FactorRoom, work)
    labels, kept = room.labels, room.kept_labels
    for f in range(room.sizes[1]):
        if room.code[f] == TABLE:
            continue
        for v in range(room.sizes[0]):
            kept[v] = labels[v]
        for s in range(room.slot[f], room.slot[f + 1]):
            conditional(room.vertex[s], room.outgoing, work)
            for x in range(2):
                room.incoming[2 * (s - room.slot[f]) + x] = room.outgoing[x]
        new = -np.inf
        if obey(f, shape, work) > -np.inf and _obeyed(shape, work):
            new = score_of(scores, labels, work)
        if new > score:
            score = new
        else:
            for v in range(room.sizes[0]):
                labels[v] = kept[v]
    return score


@inner
def entry_of(f, transposed, labels, work):  # type: ignore
    """The entry of a source's table that `labels` choose."""
    room = load_record(FactorRoom, work)
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
def score_of(scores, labels, work):  # type: ignore
    """Score of `labels`, soft factors only."""
    room = load_record(FactorRoom, work)
    total, n_vertices = 0.0, room.sizes[0]
    for k in range(room.sizes[6]):
        owner, at = room.source[3 * k], room.source[3 * k + 1]
        if owner < n_vertices:
            total += scores[at + labels[owner]]
        else:
            total += scores[at + entry_of(owner - n_vertices, room.source[3 * k + 2], labels, work)]
    return total
