# mypy: ignore-errors
"""The oracle of graphs: `recursion.py` on scaled exponentials, on logarithms if these underflow, and on maxima."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from partwise.compiled.boundary import Integers, Reals
from partwise.compiled.dispatch import inner
from partwise.compiled.oracles import Oracle
from partwise.compiled.simd import LANES, exponential_row, maximum
from partwise.structures.graphs.junction_tree.programme import N_TABLES, TABLES
from partwise.structures.graphs.junction_tree.recursion import (
    choose_labels,
    collect,
    collect_scores,
    distribute,
)
from partwise.structures.graphs.layout import HEAD, N_FACTORS, N_PARTS, N_VERTICES, REST
from partwise.structures.semirings import BEST, LINEAR, LOGS, MAXIMA

# If scores of one table differ by more, in nats, their exponentials might underflow.
_FARTHEST = 600.0


class JunctionTreeSpecification(NamedTuple):
    """Empty: the shape of an example says everything."""


class JunctionTreeWorkspace(NamedTuple):
    """Two buffers of tables, the smallest entries and the divisors of tables and messages, and labels."""

    tables: Reals
    marginals: Reals
    smallest: Reals
    divided: Reals
    labels: Integers


@inner
def _exponentials(shape, scores, work):  # type: ignore
    """Fill exponentials of all tables. Returns the sum of the subtracted maxima, NaN if scores are too far apart."""
    first = shape[REST]
    shifts = 0.0
    for k in range(shape[first + N_TABLES]):
        table = first + TABLES + 3 * k
        part, size, uses = np.int64(shape[table]), np.int64(shape[table + 1]), shape[table + 2]
        shift = maximum(scores, part, size)
        if shift == -np.inf:
            return shift
        least = shift
        for j in range(np.uint64(size)):
            x = scores[np.uint64(part) + j]
            least = x if x < least and x > -np.inf else least
        if shift - least > _FARTHEST:
            return np.nan
        work.smallest[k] = math.exp(least - shift)
        exponential_row(work.tables, part, scores, part, size, (size + LANES - 1) // LANES * LANES, shift)
        shifts += shift * uses
    return shifts


@inner
def graph_expectations(specification, shape, scores, counts, work):  # type: ignore
    shifts = _exponentials(shape, scores, work)
    logs = collect(LINEAR, shape, work) if shifts > -np.inf else shifts
    if logs == logs and shifts == shifts:
        if logs > -np.inf:
            distribute(LINEAR, shape, counts, work)
            return shifts + logs
    else:
        total = collect_scores(LOGS, shape, scores, work)
        if total > -np.inf:
            distribute(LOGS, shape, counts, work)
            return total
    for part in range(shape[N_PARTS]):
        counts[part] = 0.0
    return -np.inf


@inner
def graph_log_partition(specification, shape, scores, work):  # type: ignore
    shifts = _exponentials(shape, scores, work)
    logs = collect(LINEAR, shape, work) if shifts > -np.inf else shifts
    if logs == logs and shifts == shifts:
        return shifts + logs if logs > -np.inf else logs
    return collect_scores(LOGS, shape, scores, work)


@inner
def graph_best(specification, shape, scores, counts, work):  # type: ignore
    value = collect_scores(MAXIMA, shape, scores, work)
    for part in range(shape[N_PARTS]):
        counts[part] = 0.0
    if value > -np.inf:
        choose_labels(MAXIMA, BEST, shape, work.labels, work.tables, work.marginals)
        _count_labels(shape, work.labels, counts)
    return value


@inner
def _count_labels(shape, labels, counts):  # type: ignore
    """Add the parts of a labelling to `counts`."""
    n_vertices, n_factors = shape[N_VERTICES], shape[N_FACTORS]
    sizes = HEAD + n_vertices
    vertex_part = sizes + n_vertices
    factor_part = vertex_part + n_vertices + n_factors
    scope_ptr = factor_part + n_factors
    scopes = scope_ptr + n_factors + 1
    for v in range(n_vertices):
        counts[shape[vertex_part + v] + labels[v]] += 1.0
    for f in range(n_factors):
        entry = 0
        for k in range(shape[scope_ptr + f], shape[scope_ptr + f + 1]):
            v = shape[scopes + k]
            entry = entry * shape[sizes + v] + labels[v]
        counts[shape[factor_part + f] + entry] += 1.0


GRAPH = Oracle(
    "graph",
    JunctionTreeSpecification,
    JunctionTreeWorkspace,
    graph_expectations,
    graph_log_partition,
    graph_best,
)
