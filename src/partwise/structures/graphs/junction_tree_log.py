# mypy: ignore-errors
"""Sums over the labellings of a graph on logarithms: slow, and right for any scores."""

from __future__ import annotations

import math

import numpy as np

from partwise.compiled.dispatch import inner
from partwise.structures.graphs.layout import N_PARTS, REST
from partwise.structures.graphs.programme import N_STEPS, N_TABLES, PRODUCT, TABLES
from partwise.structures.graphs.tables import N_SHARED, OWN, SHARED, SUM, TABLE, add_tables


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
        table, message, n_shared = shape[step + TABLE], shape[step + SUM], shape[step + SHARED]
        for s in range(n_shared):
            top = _largest(tables, table + s, n_shared, shape[step + OWN])
            tables[message + s] = top
            if top > -np.inf:
                powers = 0.0
                for r in range(shape[step + OWN]):
                    powers += math.exp(tables[table + r * n_shared + s] - top)
                tables[message + s] = top + math.log(powers)
        if shape[step + N_SHARED] == 0:
            total += tables[message]
    return total


@inner
def _largest(tables, at, step, count):  # type: ignore
    top = -np.inf
    for r in range(count):
        top = max(top, tables[at + r * step])
    return top


@inner
def probabilities_from_logs(shape, step, work):  # type: ignore
    """p(r, s) = p(s) exp T(r, s) / Σ_r exp T(r, s), summed anew: whatever rounding did to large scores, the
    probabilities are those of one distribution."""
    tables, marginals = work.tables, work.marginals
    table, message, n_shared = shape[step + TABLE], shape[step + SUM], shape[step + SHARED]
    n_own = shape[step + OWN]
    for s in range(n_shared):
        top = _largest(tables, table + s, n_shared, n_own)
        if top == -np.inf:
            for r in range(n_own):
                marginals[table + r * n_shared + s] = 0.0
            continue
        powers = 0.0
        for r in range(n_own):
            powers += math.exp(tables[table + r * n_shared + s] - top)
        share = marginals[message + s] / powers
        for r in range(n_own):
            at = table + r * n_shared + s
            marginals[at] = share * math.exp(tables[at] - top)
