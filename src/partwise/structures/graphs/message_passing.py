# mypy: ignore-errors
"""The oracle of message passing: a log-partition, expected part counts, and the best labelling (`search/branching.py`).

*Tree-reweighted*: the value is an upper bound for any messages (``forest_value``), and convex in the scores if messages
have converged. Its gradient is the beliefs. *Loopy*: Bethe's free energy at the messages, which is no bound.
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
    FactorWorkspace,
    PackedFactorWorkspace,
    log_total,
    read_graph,
    read_scores,
)
from partwise.structures.graphs.search.branching import search


class FactorSpecification(NamedTuple):
    """Settings of message passing.

    Attributes
    ----------
    tree_reweighted : bool
        Factors count by the share of forests that contain them, else fully (Bethe).
    tolerance : float
        Stop if no message changes by more, in nats.
    max_iterations : int
    step : float
        Share of its change that a message makes at first.
    max_nodes : int
        The largest number of branches of the search for the best labelling.
    """

    tree_reweighted: bool
    tolerance: float
    max_iterations: int
    step: float
    max_nodes: int


# Messages cannot converge below the rounding of beliefs, which is this multiple of the largest score.
_ROUNDING = 2e-15


@inner
def _value(specification, shape, scores, address):  # type: ignore
    """Pass messages. Returns the engine's log-partition, −inf if messages prove that no labelling is possible."""
    work = load_record(FactorWorkspace, address)
    read_graph(specification.tree_reweighted, shape, address)
    largest = read_scores(scores, 1.0, address)
    start_messages(address)
    tolerance = max(specification.tolerance, _ROUNDING * largest)
    step = (
        1.0 if work.sizes[7] == 1 else specification.step
    )  # With one forest, two undamped sweeps are exact.
    if not converge(shape, tolerance, specification.max_iterations, step, address):
        work.report[2] = -np.inf
        return -np.inf
    value = forest_value(shape, address) if specification.tree_reweighted else weighted_value(shape, address)
    work.report[2] = value
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
def _expectations(specification, shape, scores, counts, address):  # type: ignore
    work = load_record(FactorWorkspace, address)
    value = _value(specification, shape, scores, address)
    for j in range(counts.size):
        counts[j] = 0.0
    if value == -np.inf:
        return value
    n_vertices, first = work.sizes[0], work.first
    for k in range(work.sizes[6]):
        owner, at, transposed = work.source[3 * k], work.source[3 * k + 1], work.source[3 * k + 2]
        if owner < n_vertices:
            _add_vertex(work.beliefs, first[owner], first[owner + 1] - first[owner], counts, at)
        else:
            _add_table(owner - n_vertices, counts, at, transposed, address)
    return value


@inner
def _add_vertex(beliefs, first, n, counts, at):  # type: ignore
    """Add a vertex's probabilities to the parts from `at` on.

    They are normalised once more, because an error of their sum would be multiplied by scores.
    """
    total, one = log_total(beliefs, first, n), 0.0
    for x in range(n):
        one += math.exp(beliefs[first + x] - total)
    for x in range(n):
        counts[at + x] += math.exp(beliefs[first + x] - total) / one


@inner
def _add_table(f, counts, at, transposed, address):  # type: ignore
    """Add the probabilities of a table to the parts from `at` on."""
    work = load_record(FactorWorkspace, address)
    values, last = work.levels, work.slot[f + 1]
    columns = work.message[last] - work.message[last - 1]
    gather(f, work.beliefs, address)
    size, top, one = belief_logs(f, values, address), -np.inf, 0.0
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
    "factor",
    FactorSpecification,
    PackedFactorWorkspace,
    factor_expectations,
    factor_log_partition,
    factor_best,
)
