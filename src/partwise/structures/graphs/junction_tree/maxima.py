# mypy: ignore-errors
"""Best labellings of a graph by its junction tree: maxima in the place of sums, then labels from the root on."""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import inner
from partwise.structures.graphs.junction_tree.programme import MESSAGE, N_STEPS, N_TABLES, PRODUCT, TABLES
from partwise.structures.graphs.junction_tree.tables import (
    N_OWN,
    N_SHARED,
    OWN,
    SHARED,
    SUM,
    TABLE,
    VERTICES,
    add_tables,
    larger_run,
)
from partwise.structures.graphs.layout import HEAD, N_FACTORS, N_PARTS, N_VERTICES, REST


@inner
def collect_maxima(shape, scores, work):  # type: ignore
    """Messages to the root, m(s) = max_r T(r, s); returns the largest score."""
    first, tables = shape[REST], work.tables
    for part in range(shape[N_PARTS]):
        tables[part] = scores[part]
    tables[shape[N_PARTS]] = 0.0
    starts = first + TABLES + 3 * shape[first + N_TABLES]
    total = 0.0
    for k in range(shape[first + N_STEPS]):
        step = first + shape[starts + k]
        if shape[step] == PRODUCT:
            add_tables(shape, step, tables)
            continue
        table, message, n_shared = shape[step + TABLE], shape[step + SUM], shape[step + SHARED]
        for s in range(n_shared):
            tables[message + s] = -np.inf
        for r in range(shape[step + OWN]):
            larger_run(tables, message, tables, table + r * n_shared, n_shared)
        if shape[step + N_SHARED] == 0:
            total += tables[message]
    return total


@inner
def shared_entry(shape, step, labels):  # type: ignore
    """The entry of a clique's message that the labels of its shared vertices choose."""
    vertices = step + VERTICES + shape[step + N_OWN]
    sizes = HEAD + shape[N_VERTICES]
    entry = 0
    for k in range(shape[step + N_SHARED]):
        v = shape[vertices + k]
        entry = entry * shape[sizes + v] + labels[v]
    return entry


@inner
def write_own(shape, step, entry, labels):  # type: ignore
    """Write the labels of a clique's own vertices that `entry` stands for."""
    sizes = HEAD + shape[N_VERTICES]
    for k in range(shape[step + N_OWN] - 1, -1, -1):
        v = shape[step + VERTICES + k]
        labels[v] = entry % shape[sizes + v]
        entry //= shape[sizes + v]


@inner
def best_labels(shape, work):  # type: ignore
    """Labels from the root on, each clique's own given those it shares; ties go to the smaller entry."""
    first, tables = shape[REST], work.tables
    starts = first + TABLES + 3 * shape[first + N_TABLES]
    for k in range(shape[first + N_STEPS] - 1, -1, -1):
        step = first + shape[starts + k]
        if shape[step] != MESSAGE:
            continue
        n_shared = shape[step + SHARED]
        at = shape[step + TABLE] + shared_entry(shape, step, work.labels)
        chosen = 0
        for r in range(shape[step + OWN]):
            if tables[at + r * n_shared] > tables[at + chosen * n_shared]:
                chosen = r
        write_own(shape, step, chosen, work.labels)


@inner
def count_labels(shape, labels, counts):  # type: ignore
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
