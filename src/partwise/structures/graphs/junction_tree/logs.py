# mypy: ignore-errors
"""Sums over the labellings of a graph on logarithms: slower, and right for any scores.

The exponentials exp(T(r, s) − max_r T(r, s)) of a clique's table stay in the second buffer, where its marginals go.
"""

from __future__ import annotations

import math

import numpy as np

from partwise.compiled.dispatch import inner
from partwise.compiled.simd import LANES, exponential_row
from partwise.structures.graphs.junction_tree.programme import N_STEPS, N_TABLES, PRODUCT, TABLES
from partwise.structures.graphs.junction_tree.tables import (
    N_SHARED,
    OWN,
    SHARED,
    SUM,
    TABLE,
    add_run,
    add_tables,
    larger_run,
    multiply_run,
    zero_run,
)
from partwise.structures.graphs.layout import N_PARTS, REST


@inner
def collect_in_logs(shape, scores, work):  # type: ignore
    """Messages to the root, m(s) = log Σ_r exp T(r, s); returns the log-partition."""
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
        _message(shape, step, work)
        if shape[step + N_SHARED] == 0:
            total += tables[shape[step + SUM]]
    return total


@inner
def _message(shape, step, work):  # type: ignore
    """m(s) = max_r T(r, s) + log Σ_r exp(T(r, s) − max_r T(r, s))."""
    tables, powers = work.tables, work.marginals
    table, message = np.int64(shape[step + TABLE]), np.int64(shape[step + SUM])
    n_own, n_shared = np.int64(shape[step + OWN]), np.int64(shape[step + SHARED])
    for s in range(n_shared):
        tables[message + s] = -np.inf
    for r in range(n_own):
        larger_run(tables, message, tables, table + r * n_shared, n_shared)
    for r in range(n_own):
        _above(powers, table + r * n_shared, tables, message, tables, n_shared)
    size = n_own * n_shared
    exponential_row(powers, table, powers, table, size, (size + LANES - 1) // LANES * LANES, 0.0)
    _sum_powers(powers, table, message, n_own, n_shared)
    for s in range(n_shared):
        total = powers[message + s]
        tables[message + s] = tables[message + s] + math.log(total) if total > 0.0 else -np.inf


@inner
def _above(out, o, top, t, a, n):  # type: ignore
    """out[o:][:n] = a[o:][:n] − top[t:][:n], where that is not −inf less −inf."""
    o, t = np.uint64(o), np.uint64(t)
    for j in range(np.uint64(n)):
        out[o + j] = a[o + j] - (top[t + j] if top[t + j] > -np.inf else 0.0)


@inner
def _sum_powers(powers, table, message, n_own, n_shared):  # type: ignore
    zero_run(powers, message, n_shared)
    for r in range(n_own):
        add_run(powers, message, powers, table + r * n_shared, n_shared)


@inner
def probabilities_from_logs(shape, step, work):  # type: ignore
    """p(r, s) = p(s) exp T(r, s) / Σ_r exp T(r, s): whatever rounding did to large scores, these are the
    probabilities of one distribution."""
    tables, marginals = work.tables, work.marginals
    table, message, n_shared = shape[step + TABLE], shape[step + SUM], shape[step + SHARED]
    for s in range(n_shared):  # the message itself is not needed any more
        tables[message + s] = marginals[message + s]
    _sum_powers(marginals, table, message, shape[step + OWN], n_shared)
    for s in range(n_shared):
        total = marginals[message + s]
        marginals[message + s] = tables[message + s] / total if total > 0.0 else 0.0
    for r in range(shape[step + OWN]):
        row = table + r * n_shared
        multiply_run(marginals, row, marginals, row, marginals, message, n_shared)
