# mypy: ignore-errors
"""A labelling from beliefs that obeys all rules: vertices are labelled one by one, then improved.

A vertex is labelled by its belief. If all other vertices of a factor have labels, the factor's message is replaced by
its scores for these labels. Rules then choose labels for their vertices. After that, vertices and rules choose again,
for fixed labels of all others, until the score does not improve.
"""

from __future__ import annotations

import numpy as np

from partwise.compiled.boundary import load_record
from partwise.compiled.dispatch import inner
from partwise.structures.graphs.messages.counts import count_best
from partwise.structures.graphs.messages.trees import tree_best
from partwise.structures.graphs.messages.workspace import COUNT, TABLE, FactorWorkspace, table_size

# The largest number of rounds of improvement: more rarely improve anything.
_MOST_ROUNDS = 20


@inner
def index_slots(address):  # type: ignore
    """Fill ``work.touching`` with the slots of each vertex."""
    work = load_record(FactorWorkspace, address)
    n, ptr, touching = work.sizes[0], work.touching_ptr, work.touching
    for v in range(n + 2):
        ptr[v] = 0
    for s in range(work.sizes[2]):
        ptr[work.vertex[s] + 2] += 1
    for v in range(2, n + 2):
        ptr[v] += ptr[v - 1]
    for f in range(work.sizes[1]):
        for s in range(work.slot[f], work.slot[f + 1]):
            at = ptr[work.vertex[s] + 1]
            touching[2 * at], touching[2 * at + 1] = s, f
            ptr[work.vertex[s] + 1] = at + 1


@inner
def _add_conditional(f, s, labels, values, sign, address):  # type: ignore
    """Add `sign` times the scores of a table for the states of slot s, with all its other vertices at `labels`."""
    work = load_record(FactorWorkspace, address)
    entry, step, stride = 0, 1, 1
    for r in range(work.slot[f + 1] - 1, work.slot[f] - 1, -1):
        if r == s:
            stride = step
        else:
            entry += step * labels[work.vertex[r]]
        step *= work.message[r + 1] - work.message[r]
    for x in range(work.message[s + 1] - work.message[s]):
        values[x] += sign * work.logs[work.place[f] + entry + x * stride]


@inner
def conditional(v, values, address):  # type: ignore
    """Fill `values` with the scores of a vertex's states, with all other vertices at ``work.labels``."""
    work = load_record(FactorWorkspace, address)
    first = work.first[v]
    for x in range(work.first[v + 1] - first):
        values[x] = work.scores[first + x] if work.beliefs[first + x] > -np.inf else -np.inf
    for k in range(work.touching_ptr[v], work.touching_ptr[v + 1]):
        s, f = work.touching[2 * k], work.touching[2 * k + 1]
        if work.code[f] == TABLE:
            _add_conditional(f, s, work.labels, values, 1.0, address)


@inner
def _one_by_one(address):  # type: ignore
    """Label the vertices in order, in ``work.labels``."""
    work = load_record(FactorWorkspace, address)
    labels, values = work.labels, work.outgoing
    for v in range(work.sizes[0]):
        first, best = work.first[v], 0
        for x in range(work.first[v + 1] - first):
            values[x] = work.beliefs[first + x]
        for k in range(work.touching_ptr[v], work.touching_ptr[v + 1]):
            s, f = work.touching[2 * k], work.touching[2 * k + 1]
            known = work.code[f] == TABLE
            for r in range(work.slot[f], work.slot[f + 1]):
                known = known and work.vertex[r] <= v
            if known:
                _add_conditional(f, s, labels, values, 1.0, address)
                for x in range(work.message[s + 1] - work.message[s]):
                    values[x] -= work.weight[f] * work.messages[work.message[s] + x]
        for x in range(1, work.first[v + 1] - first):
            if values[x] > values[best]:
                best = x
        labels[v] = best


@inner
def obey(f, shape, address):  # type: ignore
    """Set the labels of a rule's vertices to the best of ``work.incoming`` that obey it. Returns −inf if none do."""
    work = load_record(FactorWorkspace, address)
    first, arity, choice = work.slot[f], work.slot[f + 1] - work.slot[f], work.choice
    if work.code[f] == COUNT:
        value = count_best(shape, work.place[f], arity, work.incoming, choice, work.levels)
    else:
        value = tree_best(work.code[f], shape, work.place[f], arity, work.incoming, choice, address)
    if value > -np.inf:
        for i in range(arity):
            work.labels[work.vertex[first + i]] = choice[i]
    return value


@inner
def _obeyed(shape, address):  # type: ignore
    """Whether ``work.labels`` obey all rules."""
    work = load_record(FactorWorkspace, address)
    for f in range(work.sizes[1]):
        if work.code[f] != TABLE:
            for s in range(work.slot[f], work.slot[f + 1]):
                for x in range(2):
                    held = work.labels[work.vertex[s]] == x
                    work.incoming[2 * (s - work.slot[f]) + x] = 0.0 if held else -np.inf
            if not obey(f, shape, address) > -np.inf:
                return False
    return True


@inner
def round_beliefs(shape, scores, address):  # type: ignore
    """Fill ``work.labels``. Returns the labelling's score, −inf if it breaks a rule."""
    work = load_record(FactorWorkspace, address)
    _one_by_one(address)
    any_rule = False
    for f in range(work.sizes[1]):
        if work.code[f] != TABLE:
            any_rule = True
            for s in range(work.slot[f], work.slot[f + 1]):
                for x in range(2):
                    at = work.first[work.vertex[s]] + x
                    work.incoming[2 * (s - work.slot[f]) + x] = work.beliefs[at]
            if not obey(f, shape, address) > -np.inf:
                return -np.inf
    if any_rule and not _obeyed(shape, address):  # A later rule may break an earlier one.
        return -np.inf
    best = score_of(scores, work.labels, address)
    for _ in range(_MOST_ROUNDS):
        moved = _improve_vertices(address)
        score = score_of(scores, work.labels, address)
        if any_rule:
            score = _improve_rules(shape, scores, score, address)
        if not (moved or score > best):
            break
        best = score
    return score_of(scores, work.labels, address)


@inner
def _improve_vertices(address):  # type: ignore
    """Give every vertex without rules its best label for fixed other labels. Returns whether any changed."""
    work = load_record(FactorWorkspace, address)
    moved, values = False, work.outgoing
    for v in range(work.sizes[0]):
        ruled = False
        for k in range(work.touching_ptr[v], work.touching_ptr[v + 1]):
            ruled = ruled or work.code[work.touching[2 * k + 1]] != TABLE
        if ruled:
            continue
        conditional(v, values, address)
        best = work.labels[v]
        for x in range(work.first[v + 1] - work.first[v]):
            if values[x] > values[best] + 1e-12 * abs(values[best]):
                best = x
        if best != work.labels[v]:
            work.labels[v], moved = best, True
    return moved


@inner
def _improve_rules(shape, scores, score, address):  # type: ignore
    """Let every rule choose again for fixed other labels. Keeps improvements that break no rule. Returns the score."""
    work = load_record(FactorWorkspace, address)
    labels, kept = work.labels, work.kept_labels
    for f in range(work.sizes[1]):
        if work.code[f] == TABLE:
            continue
        for v in range(work.sizes[0]):
            kept[v] = labels[v]
        for s in range(work.slot[f], work.slot[f + 1]):
            conditional(work.vertex[s], work.outgoing, address)
            for x in range(2):
                work.incoming[2 * (s - work.slot[f]) + x] = work.outgoing[x]
        new = -np.inf
        if obey(f, shape, address) > -np.inf and _obeyed(shape, address):
            new = score_of(scores, labels, address)
        if new > score:
            score = new
        else:
            for v in range(work.sizes[0]):
                labels[v] = kept[v]
    return score


@inner
def entry_of(f, transposed, labels, address):  # type: ignore
    """The entry of a source's table for `labels`."""
    work = load_record(FactorWorkspace, address)
    entry = 0
    for s in range(work.slot[f], work.slot[f + 1]):
        entry = entry * (work.message[s + 1] - work.message[s]) + labels[work.vertex[s]]
    if transposed:
        last = work.slot[f + 1]
        columns = work.message[last] - work.message[last - 1]
        size = table_size(f, work.slot, work.message)
        entry = (entry % columns) * (size // columns) + entry // columns
    return entry


@inner
def score_of(scores, labels, address):  # type: ignore
    """Score of `labels`, from tables only."""
    work = load_record(FactorWorkspace, address)
    total, n_vertices = 0.0, work.sizes[0]
    for k in range(work.sizes[6]):
        owner, at = work.source[3 * k], work.source[3 * k + 1]
        if owner < n_vertices:
            total += scores[at + labels[owner]]
        else:
            total += scores[at + entry_of(owner - n_vertices, work.source[3 * k + 2], labels, address)]
    return total
