# mypy: ignore-errors
"""The best labelling of a factor graph: bounds at falling temperatures, then branch and bound.

For any temperature T, T · A(θ / T) ≥ max_y θ(y), with A the tree-reweighted bound. As T falls, the left side converges
to the linear-programming relaxation over locally consistent beliefs, whose dual AD³ and TRW also solve (Weiss, Yanover
and Meltzer 2007). Messages of one temperature start the next. At each temperature beliefs are rounded to a labelling
that obeys all rules. If its score equals the bound, the labelling is proved to be best. Otherwise the least certain
vertex is fixed to each of its states in turn, depth first. A branch is abandoned if its bound does not exceed the
score of the best labelling found.
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
from partwise.structures.graphs.messages.workspace import TABLE, FactorWorkspace, read_graph, read_scores
from partwise.structures.graphs.search.rounding import entry_of, index_slots, round_beliefs

# Every temperature is this multiple of the one before.
_COOLING = 0.2
# The lowest temperature, relative to the largest score: below it, messages are lost in rounding.
_COLDEST = 1e-12
# At the root, which gives the bound that training uses, cooling never stops above this temperature.
_COLD = 1e-5
# The largest number of sweeps at one temperature: the next temperature goes on from the same messages.
_SWEEPS = 20
# Entries of a branch: its vertex, the state that the vertex is fixed to, and which of two sides is being searched.
_VERTEX, _STATE, _SIDE = 0, 1, 2
# A bound is reached if the score differs by less, relative to the largest score, for every vertex and factor.
_ROUNDING = 1e-11


@inner
def search(max_nodes, shape, scores, counts, address):  # type: ignore
    """Write the best labelling found. Returns the relaxation's bound on every labelling.

    If the relaxation is tight, the bound is the score of the labelling. NaN if no labelling was found in `max_nodes`.
    ``work.report`` has the bound that the whole search proves: the score of the labelling if the search was completed.
    """
    work = load_record(FactorWorkspace, address)
    read_graph(True, shape, address)
    index_slots(address)
    largest = max(read_scores(scores, 1.0, address), 1e-9)
    for j in range(work.sizes[3]):
        work.excluded[j] = 0
    for j in range(counts.size):
        counts[j] = 0.0
    if _is_separate(address):
        return _best_of_each(shape, scores, counts, address)
    start_messages(address)
    found, bound, relaxed, nodes, depth = -np.inf, np.inf, np.inf, 0, 0
    tolerance = _ROUNDING * largest * (work.sizes[0] + work.sizes[1])
    while nodes < max_nodes:
        nodes += 1
        own, found = _bound_node(shape, scores, largest, depth == 0, found, tolerance, address)
        if depth == 0:
            bound = relaxed = max(own, found)
        if own > found + tolerance and _branch(depth + 1, address):
            depth += 1
            continue
        depth = _other_side(depth, address)
        if depth == 0:
            bound = found
            break
    work.report[0], work.report[1], work.report[2] = nodes, relaxed, bound
    if found > -np.inf:
        _write(counts, address)
        return found if relaxed <= found + tolerance else relaxed
    return bound if bound == -np.inf else np.nan


@inner
def _is_separate(address):  # type: ignore
    """Whether all factors are rules, and no vertex is in two of them."""
    work = load_record(FactorWorkspace, address)
    separate = True
    for f in range(work.sizes[1]):
        separate = separate and work.code[f] != TABLE
    for v in range(work.sizes[0]):
        separate = separate and work.touching_ptr[v + 1] - work.touching_ptr[v] <= 1
    return separate


@inner
def _best_of_each(shape, scores, counts, address):  # type: ignore
    """`search` of a graph whose rules share no vertex: each rule chooses, and no message is needed."""
    work = load_record(FactorWorkspace, address)
    for j in range(work.sizes[3]):
        work.beliefs[j] = work.scores[j]
    found = round_beliefs(shape, scores, address)
    work.report[0], work.report[1], work.report[2] = 1, found, found
    if found > -np.inf:
        for v in range(work.sizes[0]):
            work.best_labels[v] = work.labels[v]
        _write(counts, address)
    return found


@inner
def _bound_node(shape, scores, largest, is_root, found, tolerance, address):  # type: ignore
    """Cool down until a labelling reaches the bound, or none will. Returns the bound and the best score so far.

    Below the root, messages start from those of the last node, which are nearly right.
    """
    work = load_record(FactorWorkspace, address)
    n_states, bound, logs_of_states = work.sizes[3], np.inf, 0.0
    for v in range(work.sizes[0]):
        logs_of_states += math.log(work.first[v + 1] - work.first[v])
    temperature, before, possible = (largest if is_root else 1e-3 * largest), largest, True
    while temperature > _COLDEST * largest:
        read_scores(scores, 1.0 / temperature, address)
        for j in range(work.message[work.sizes[2]]):
            work.messages[j] *= before / temperature
        for j in range(n_states):
            work.beliefs[j] = 0.0 if work.excluded[j] == 0 and work.scores[j] > -np.inf else -np.inf
        collect_beliefs(address)
        before = temperature
        possible = is_possible(address) and converge(shape, 1e-6, _SWEEPS, 0.7, address)
        if not possible:
            break
        bound = min(bound, temperature * forest_value(shape, address))
        score = round_beliefs(shape, scores, address)
        if score > found:
            found = score
            for v in range(work.sizes[0]):
                work.best_labels[v] = work.labels[v]
        gap = bound - found
        enough = _COLD if is_root else 1e-2
        if gap <= tolerance or (temperature * logs_of_states < 0.05 * gap and temperature < enough * largest):
            break
        temperature *= _COOLING
    # The next node starts from these messages, for scores divided by the largest.
    for j in range(work.message[work.sizes[2]]):
        work.messages[j] *= before / largest
    return (bound if possible else -np.inf), found


@inner
def _write(counts, address):  # type: ignore
    """The part counts of the best labelling."""
    work = load_record(FactorWorkspace, address)
    n_vertices = work.sizes[0]
    for k in range(work.sizes[6]):
        owner, at = work.source[3 * k], work.source[3 * k + 1]
        if owner < n_vertices:
            counts[at + work.best_labels[owner]] += 1.0
        else:
            counts[at + entry_of(owner - n_vertices, work.source[3 * k + 2], work.best_labels, address)] += (
                1.0
            )


@inner
def _branch(depth, address):  # type: ignore
    """Fix the least certain vertex to its best state. Returns False if all vertices are fixed."""
    work = load_record(FactorWorkspace, address)
    chosen, best, least, first = -1, 0, np.inf, work.first
    for v in range(work.sizes[0]):
        top, second, at = -np.inf, -np.inf, 0
        for j in range(first[v], first[v + 1]):
            if work.excluded[j] == 0:
                belief = work.beliefs[j]
                if belief > top or top == -np.inf:
                    top, second, at = belief, top, j
                elif belief > second:
                    second = belief
        if second > -np.inf and top - second < least:
            chosen, best, least = v, at, top - second
    if chosen < 0:
        return False
    work.branch[3 * depth + _VERTEX], work.branch[3 * depth + _STATE] = chosen, best
    work.branch[3 * depth + _SIDE] = 0
    for j in range(first[chosen], first[chosen + 1]):
        if j != best and work.excluded[j] == 0:
            work.excluded[j] = depth
    return True


@inner
def _other_side(depth, address):  # type: ignore
    """Return to the last branch whose other side, without its state, is not searched. Returns its depth, or 0."""
    work = load_record(FactorWorkspace, address)
    while depth > 0:
        for j in range(work.sizes[3]):
            if work.excluded[j] == depth:
                work.excluded[j] = 0
        if work.branch[3 * depth + _SIDE] == 0:
            work.branch[3 * depth + _SIDE] = 1
            work.excluded[work.branch[3 * depth + _STATE]] = depth
            return depth
        depth -= 1
    return 0
