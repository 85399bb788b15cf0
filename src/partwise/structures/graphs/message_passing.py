# mypy: ignore-errors
"""What message passing answers: a log-partition, expected part counts, and the best labelling (`search/branching.py`).

*Tree-reweighted*: the value is a bound at any messages (``forest_value``), convex in the scores once messages agree;
its gradient are the beliefs. *Loopy*: Bethe's free energy at the messages, which bounds nothing.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from partwise.compiled.boundary import load_record, record_address
from partwise.compiled.dispatch import inner
from partwise.compiled.oracles import Oracle
from partwise.structures.graphs.messages.soft import belief_logs
from partwise.structures.graphs.messages.sweeps import (
    converge,
    forest_value,
    gather,
    start_messages,
    weighted_value,
)
from partwise.structures.graphs.messages.workspace import (
    FactorRoom,
    FactorWorkspace,
    log_total,
    read_graph,
    read_scores,
)
from partwise.structures.graphs.search.branching import search


class FactorSpecification(NamedTuple):
    """How messages are passed.

    Attributes
    ----------
    tree_reweighted : bool
        Factors count as often as forests hold them; else once (Bethe).
    tolerance : float
        Stop where no message, a logarithm, changes by more.
    max_iterations : int
    step : float
        How far messages move towards what they should be, at first.
    max_nodes : int
        Most branches of the search for the best labelling.
    """

    tree_reweighted: bool
    tolerance: float
    max_iterations: int
    step: float
    max_nodes: int


# Beliefs are sums of scores: their rounding is what messages cannot agree below.
_ROUNDING = 2e-15


@inner
def _value(specification, shape, scores, work):  # type: ignore
    """Pass messages; returns the log-partition of the engine, −inf where messages prove that nothing is possible."""
    room = load_record(FactorRoom, work)
    read_graph(specification.tree_reweighted, shape, work)
    largest = read_scores(scores, 1.0, work)
    start_messages(work)
    tolerance = max(specification.tolerance, _ROUNDING * largest)
    step = 1.0 if room.sizes[7] == 1 else specification.step  # one forest: two sweeps are exact
    if not converge(shape, tolerance, specification.max_iterations, step, work):
        room.report[2] = -np.inf
        return -np.inf
    value = forest_value(shape, work) if specification.tree_reweighted else weighted_value(shape, work)
    room.report[2] = value
    return value


@inner
def factor_log_partition(specification, shape, scores, workspace):  # type: ignore
    return _value(specification, shape, scores, record_address(workspace.packed))


@inner
def factor_expectations(specification, shape, scores, counts, workspace):  # type: ignore
    return _expectations(specification, shape, scores, counts, record_address(workspace.packed))


@inner
def factor_best(specification, shape, scores, counts, workspace):  # type: ignore
    return search(specification.max_nodes, shape, scores, counts, record_address(workspace.packed))


@inner
def _expectations(specification, shape, scores, counts, work):  # type: ignore
    room = load_record(FactorRoom, work)
    value = _value(specification, shape, scores, work)
    for j in range(counts.size):
        counts[j] = 0.0
    if value == -np.inf:
        return value
    n_vertices, first = room.sizes[0], room.first
    for k in range(room.sizes[6]):
        owner, at, transposed = room.source[3 * k], room.source[3 * k + 1], room.source[3 * k + 2]
        if owner < n_vertices:
            _add_vertex(room.beliefs, first[owner], first[owner + 1] - first[owner], counts, at)
        else:
            _add_table(owner - n_vertices, counts, at, transposed, work)
    return value


@inner
def _add_vertex(beliefs, first, n, counts, at):  # type: ignore
    """Add a vertex' probabilities to the parts from `at` on. They are made to sum to one: an error in that would be
    multiplied by scores."""
    total, one = log_total(beliefs, first, n), 0.0
    for x in range(n):
        one += math.exp(beliefs[first + x] - total)
    for x in range(n):
        counts[at + x] += math.exp(beliefs[first + x] - total) / one


@inner
def _add_table(f, counts, at, transposed, work):  # type: ignore
    """The same for a table."""
    room = load_record(FactorRoom, work)
    values, last = room.levels, room.slot[f + 1]
    columns = room.message[last] - room.message[last - 1]
    gather(f, room.beliefs, work)
    size, top, one = belief_logs(f, values, work), -np.inf, 0.0
    for entry in range(size):
        top = max(top, values[entry])
    for entry in range(size):
        values[entry] = math.exp(values[entry] - top)
    for entry in range(size):
        one += values[entry]
    for entry in range(size):
        to = (entry % columns) * (size // columns) + entry // columns if transposed else entry
        counts[at + to] += values[entry] / one


FACTOR = Oracle(
    "factor", FactorSpecification, FactorWorkspace, factor_expectations, factor_log_partition, factor_best
)
