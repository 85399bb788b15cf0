# mypy: ignore-errors
"""Sums over the labellings of a graph by its junction tree (Lauritzen and Spiegelhalter 1988), on scaled exponentials.

Messages go to the root, then marginals come back (see `programme.py` for the steps). With T the table of a clique, r
the labels of its own vertices and s the labels of the vertices that it shares with its parent,

    m(s) = Σ_r T(r, s);    p(r, s) = p(s) T(r, s) / m(s).

The largest entry of every table is one, and every message is divided by its sum. The smallest non-zero entry of each is
also kept. If the product of these over the tables of a clique is at least `_SMALLEST`, nothing can underflow, and all
zeros come from −inf. Otherwise the example is computed again on logarithms.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from partwise.compiled.boundary import Integers, Reals
from partwise.compiled.dispatch import inner
from partwise.compiled.oracles import Oracle
from partwise.compiled.simd import LANES, exponential_row, maximum
from partwise.structures.graphs.junction_tree.logs import collect_in_logs, probabilities_from_logs
from partwise.structures.graphs.junction_tree.maxima import best_labels, collect_maxima, count_labels
from partwise.structures.graphs.junction_tree.programme import MESSAGE, N_STEPS, N_TABLES, PRODUCT, TABLES
from partwise.structures.graphs.junction_tree.tables import (
    AXES,
    N_AXES,
    N_SHARED,
    OUT,
    OWN,
    RANGE,
    RANGE_A,
    RANGE_B,
    SHARED,
    SUM,
    TABLE,
    A,
    B,
    add_run,
    divide_run,
    least_run,
    multiply_run,
    multiply_tables,
    scale_run,
    sum_run,
    sum_table,
    zero_run,
)
from partwise.structures.graphs.layout import N_PARTS, REST

# Products of smallest entries below this might underflow: the smallest normal number is 2e-308.
_SMALLEST = 1e-280
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
def _collect(shape, work):  # type: ignore
    """Send messages from the leaves to the root. Returns the log of the product of divisors, NaN after an underflow."""
    first = shape[REST]
    n_tables, n_steps = shape[first + N_TABLES], shape[first + N_STEPS]
    starts = first + TABLES + 3 * n_tables
    logs, smallest = 0.0, 1.0
    tables = work.tables
    tables[shape[N_PARTS]] = 1.0
    for k in range(n_steps):
        step = first + shape[starts + k]
        if shape[step] == PRODUCT:
            for side in (RANGE_A, RANGE_B):
                if shape[step + side] >= 0:
                    smallest *= work.smallest[shape[step + side]]
            multiply_tables(shape, step, tables)
            continue
        if not smallest > _SMALLEST:
            return np.nan
        total = _message(shape, step, work)
        if total == 0.0:
            return -np.inf
        logs += math.log(total)
        smallest = 1.0
    return logs


@inner
def _message(shape, step, work):  # type: ignore
    """m(s) = Σ_r T(r, s), divided by its sum. Returns the sum."""
    tables, table, message = work.tables, shape[step + TABLE], shape[step + SUM]
    n_shared = shape[step + SHARED]
    zero_run(tables, message, n_shared)
    for r in range(shape[step + OWN]):
        add_run(tables, message, tables, table + r * n_shared, n_shared)
    total = sum_run(tables, message, n_shared)
    if total > 0.0:
        scale_run(tables, message, tables, message, 1.0 / total, n_shared)
        work.smallest[shape[step + RANGE]] = least_run(tables, message, n_shared)
        work.divided[shape[step + RANGE]] = total
    return total


@inner
def _distribute(shape, counts, work, in_logs):  # type: ignore
    """Compute marginals from the root to the leaves, and write those of the parts to `counts`."""
    first = shape[REST]
    n_parts, n_tables, n_steps = shape[N_PARTS], shape[first + N_TABLES], shape[first + N_STEPS]
    starts = first + TABLES + 3 * n_tables
    marginals = work.marginals
    zero_run(marginals, 0, n_parts)
    for k in range(n_steps - 1, -1, -1):
        step = first + shape[starts + k]
        if shape[step] == MESSAGE:
            if shape[step + N_SHARED] == 0:
                marginals[shape[step + SUM]] = 1.0
            if in_logs:
                probabilities_from_logs(shape, step, work)
            else:
                _probabilities(shape, step, work)
            continue
        n_axes, out = shape[step + N_AXES], shape[step + OUT]
        for side in (A, B):
            target = shape[step + side]
            if target in (out, n_parts):  # computed in place, or the number one
                continue
            strides = step + AXES + (side - A + 1) * n_axes
            if target >= n_parts:
                zero_run(marginals, target, 1 + _reach(shape, step, strides))
            sum_table(shape, step, strides, marginals, out, marginals, target)
    for part in range(n_parts):
        counts[part] = marginals[part]


@inner
def _reach(shape, step, strides):  # type: ignore
    """The last entry of a table with these strides."""
    reach = 0
    for axis in range(shape[step + N_AXES]):
        reach += (shape[step + AXES + axis] - 1) * shape[strides + axis]
    return reach


@inner
def _probabilities(shape, step, work):  # type: ignore
    """p(r, s) = p(s) T(r, s) / m(s); p(s) is replaced by the quotient."""
    tables, marginals = work.tables, work.marginals
    table, message, n_shared = shape[step + TABLE], shape[step + SUM], shape[step + SHARED]
    divide_run(marginals, message, tables, message, n_shared, work.divided[shape[step + RANGE]])
    for r in range(shape[step + OWN]):
        row = table + r * n_shared
        multiply_run(marginals, row, tables, row, marginals, message, n_shared)


@inner
def graph_expectations(specification, shape, scores, counts, work):  # type: ignore
    shifts = _exponentials(shape, scores, work)
    logs = _collect(shape, work) if shifts > -np.inf else shifts
    if logs == logs and shifts == shifts:
        if logs > -np.inf:
            _distribute(shape, counts, work, False)
            return shifts + logs
    else:
        total = collect_in_logs(shape, scores, work)
        if total > -np.inf:
            _distribute(shape, counts, work, True)
            return total
    for part in range(shape[N_PARTS]):
        counts[part] = 0.0
    return -np.inf


@inner
def graph_log_partition(specification, shape, scores, work):  # type: ignore
    shifts = _exponentials(shape, scores, work)
    logs = _collect(shape, work) if shifts > -np.inf else shifts
    if logs == logs and shifts == shifts:
        return shifts + logs if logs > -np.inf else logs
    return collect_in_logs(shape, scores, work)


@inner
def graph_best(specification, shape, scores, counts, work):  # type: ignore
    value = collect_maxima(shape, scores, work)
    for part in range(shape[N_PARTS]):
        counts[part] = 0.0
    if value > -np.inf:
        best_labels(shape, work)
        count_labels(shape, work.labels, counts)
    return value


GRAPH = Oracle(
    "graph",
    JunctionTreeSpecification,
    JunctionTreeWorkspace,
    graph_expectations,
    graph_log_partition,
    graph_best,
)
