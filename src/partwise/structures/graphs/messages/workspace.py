# mypy: ignore-errors
"""The workspace of message passing: the factor graph of the current example, its messages and beliefs.

A *slot* is one axis of a factor, and has a vertex. Messages from factors to vertices are logarithms, one number for
every state of a slot's vertex. *Beliefs* are logarithms over the states of vertices. A factor is soft (a table of
scores) or hard (a rule). After the layout, an example's shape has nine sizes and these blocks:

    first (V + 1) · slot (F + 1) · vertex (slots) · message (slots + 1) · code (F) · place (F) · exponential_at (F)
    sources (Q, 3) · forest (R + 1) · times (R) · order (N) · parent (N) · rules (data)

Unary factors are merged into their vertices, and factors with the same scope into one table. Every source (owner,
first part, transposed) adds scores to a vertex (owner < V) or to a table (number owner − V).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.compiled.boundary import IntegerMatrix, Integers, Reals, load_record
from partwise.compiled.dispatch import inner
from partwise.structures.graphs.layout import N_VERTICES, REST

# Codes of factors. `place` is the first entry of a table's logarithms, or of a rule's numbers in the shape.
TABLE, COUNT, PROJECTIVE_TREE, SPANNING_TREE = 0, 1, 2, 3
N_SIZES = 9


class PackedFactorWorkspace(NamedTuple):
    """The packed :class:`FactorWorkspace`. Functions pass on its address, because so many arrays compile slowly."""

    packed: Integers


class FactorWorkspace(NamedTuple):
    """Arrays for one example, with the sizes of the largest example.

    Attributes
    ----------
    sizes : ndarray of int64 (10,)
        Vertices, then the nine sizes: factors, slots, states, entries of tables, exponentials, sources, forests,
        entries of `order`, numbers of rules.
    first, slot, vertex, message, code, place, exponential_at, source, forest, order, parent : ndarray of int64
        The blocks of the shape.
    share, weight : ndarray
        Probability of each forest, and of each factor to be in one (1 if it counts fully).
    scores, logs : ndarray
        Scores of vertices and tables, summed over sources.
    beliefs, messages : ndarray
    tables : ndarray
        Exponentials of ``logs / weight``. Those of pairs also transposed, in padded rows.
    incoming, outgoing, exponents, sums, levels : ndarray
        Arrays for one factor at a time. `levels` also for all entries of a table.
    saved_beliefs, point, history : ndarray
        Earlier beliefs and messages, and the history of acceleration.
    excluded, branch, labels, best_labels, kept_labels, choice : ndarray of int64
        The depth of the branch that excluded each state (0: not excluded). Vertex, state and side of every branch. A
        labelling, the best one found, and copies of labellings.
    touching_ptr, touching : ndarray of int64
        The slots of each vertex and their factors.
    arc_scores, arc_counts : ndarray
    tree_calls, tree_specifications, projective_work, spanning_work
        Addresses of the oracles of trees: projective sums and best, spanning sums and best.
    report : ndarray (4,)
        Facts about the last answer. Sums: iterations, largest change of a message, value. Search: nodes, bound of the
        relaxation, bound of the search.
    """

    sizes: Integers
    first: Integers
    slot: Integers
    vertex: Integers
    message: Integers
    code: Integers
    place: Integers
    exponential_at: Integers
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
def read_graph(tree_reweighted, shape, address):  # type: ignore
    """Fill all arrays that do not depend on scores."""
    work = load_record(FactorWorkspace, address)
    sizes, rest = work.sizes, np.int64(shape[REST])
    sizes[0] = shape[N_VERTICES]
    at = _copy(sizes[1:], shape, rest, N_SIZES)
    n_factors, n_slots, n_forests = sizes[1], sizes[2], sizes[7]
    at = _copy(work.first, shape, at, sizes[0] + 1)
    at = _copy(work.slot, shape, at, n_factors + 1)
    at = _copy(work.vertex, shape, at, n_slots)
    at = _copy(work.message, shape, at, n_slots + 1)
    at = _copy(work.code, shape, at, n_factors)
    at = _copy(work.place, shape, at, n_factors)
    at = _copy(work.exponential_at, shape, at, n_factors)
    at = _copy(work.source, shape, at, 3 * sizes[6])
    at = _copy(work.forest, shape, at, n_forests + 1)
    total = np.int64(0)
    for t in range(n_forests):
        total += shape[at + t]
    for t in range(n_forests):
        work.share[t] = shape[at + t] / total
    at = _copy(work.order, shape, at + n_forests, sizes[8])
    rules = _copy(work.parent, shape, at, sizes[8])
    for f in range(n_factors):
        work.weight[f] = 0.0 if tree_reweighted else 1.0
        if work.code[f] != TABLE:
            work.place[f] += rules
    if tree_reweighted:
        for t in range(n_forests):
            for k in range(work.forest[t], work.forest[t + 1]):
                work.weight[work.order[k]] += work.share[t]


@inner
def read_scores(scores, scale, address):  # type: ignore
    """Sum the sources of vertices and tables. Returns the largest finite absolute value."""
    work = load_record(FactorWorkspace, address)
    sizes, first, place = work.sizes, work.first, work.place
    n_vertices, own, logs = sizes[0], work.scores, work.logs
    for j in range(sizes[3]):
        own[j] = 0.0
    for j in range(sizes[4]):
        logs[j] = 0.0
    for k in range(sizes[6]):
        owner, at, transposed = work.source[3 * k], work.source[3 * k + 1], work.source[3 * k + 2]
        if owner < n_vertices:
            for x in range(first[owner + 1] - first[owner]):
                own[first[owner] + x] += scale * scores[at + x]
            continue
        f = owner - n_vertices
        s = work.slot[f]
        if transposed:
            rows, columns = work.message[s + 1] - work.message[s], work.message[s + 2] - work.message[s + 1]
            for x in range(rows):
                for y in range(columns):
                    logs[place[f] + x * columns + y] += scale * scores[at + y * rows + x]
        else:
            for j in range(table_size(f, work.slot, work.message)):
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
    """log Σ exp of some numbers, −inf if all are −inf."""
    top = -np.inf
    for j in range(start, start + count):
        top = max(top, values[j])
    if top == -np.inf:
        return top
    total = 0.0
    for j in range(start, start + count):
        total += np.exp(values[j] - top)
    return top + np.log(total)
