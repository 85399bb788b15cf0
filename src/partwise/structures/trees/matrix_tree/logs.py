# mypy: ignore-errors
"""The elimination of `matrix_tree/sums.py` on logarithms, for scores too far apart for double precision.

With a single root, root weights are infinitely small. A number that contains one has *order* 1, other numbers have
order 0. In a sum only the terms of the lowest order count. Only root weights and probabilities of escape can have
order 1. Items of `semirings.py` have no order, so this elimination is a text of its own.
"""

from __future__ import annotations

import math

import numpy as np

from partwise.compiled.dispatch import fragment, inner
from partwise.structures.semirings import log_add


@inner
def _add(value, order, other, other_order):  # type: ignore
    """Sum of two numbers as logarithm and order."""
    if other == -np.inf or (value > -np.inf and order < other_order):
        return value, order
    if value == -np.inf or other_order < order:
        return other, other_order
    return log_add(value, other), order


@inner
def _eliminate(weights, root, orders, remaining, v):  # type: ignore
    """Eliminate word v in place, and divide row v by D. Returns D and its order."""
    n = root.size
    remaining[v] = False
    total, order = -np.inf, 0
    for h in range(n):
        if remaining[h]:
            total = log_add(total, weights[v, h])
    total, order = _add(total, 0, root[v], orders[v])
    if total == -np.inf:
        return total, order
    root[v] -= total
    orders[v] -= order
    for h in range(n):
        weights[v, h] = weights[v, h] - total if remaining[h] else -np.inf
    for m in range(n):
        through = weights[m, v]
        if remaining[m] and through > -np.inf:
            for h in range(n):
                if remaining[h] and h != m:
                    weights[m, h] = log_add(weights[m, h], through + weights[v, h])
            root[m], orders[m] = _add(root[m], orders[m], through + root[v], orders[v])
    return total, order


@inner
def _escape_rows(weights, root, orders, first, last, low, high, escapes, escape_orders):  # type: ignore
    """Fill e(v; m) for words v in first … last, eliminated in that order, and words m in low … high."""
    for v in range(last - 1, first - 1, -1):
        for m in range(low, high):
            value, order = root[v], orders[v]
            for h in range(root.size):
                if h != m and weights[v, h] > -np.inf:
                    value, order = _add(value, order, weights[v, h] + escapes[h, m], escape_orders[h, m])
            escapes[v, m], escape_orders[v, m] = value, order


@fragment
def _copy_down(tables, roots, orders, remaining, depth):  # type: ignore
    """Copy one level's numbers to the next."""
    n = roots.shape[1]
    for m in range(n):
        roots[depth + 1, m] = roots[depth, m]
        orders[depth + 1, m] = orders[depth, m]
        remaining[depth + 1, m] = remaining[depth, m]
        for h in range(n):
            tables[depth + 1, m, h] = tables[depth, m, h]


@inner(allocates=True)
def _escapes(n, tables, roots, orders, remaining, escapes, escape_orders):  # type: ignore
    """Fill e(h; m) for all words by the halving of `matrix_tree/sums.py`, with a table for every level."""
    lows, highs, stages = np.zeros(n + 2, np.int64), np.zeros(n + 2, np.int64), np.zeros(n + 2, np.int64)
    highs[0], depth = n, 0
    while depth >= 0:
        low, high, stage = lows[depth], highs[depth], stages[depth]
        middle, below = low + (high - low) // 2, depth + 1
        first, last, kept, kept_end = low, middle, middle, high
        if stage >= 2:
            first, last, kept, kept_end = middle, high, low, middle
        if stage == 4 or high - low == 1:
            depth -= 1
        elif stage % 2 == 0:
            _copy_down(tables, roots, orders, remaining, depth)
            for v in range(first, last):
                _eliminate(tables[below], roots[below], orders[below], remaining[below], v)
            stages[depth] += 1
            depth = below
            lows[depth], highs[depth], stages[depth] = kept, kept_end, 0
        else:
            table, to_root, order = tables[below], roots[below], orders[below]
            _escape_rows(table, to_root, order, first, last, kept, kept_end, escapes, escape_orders)
            stages[depth] += 1


@fragment
def _read_levels(n, single_root, stride, scores, tables, roots, orders, remaining):  # type: ignore
    """Fill the first level from a table of scores by [modifier, head]."""
    for m in range(n):
        roots[0, m] = scores[(m + 1) * stride]
        orders[0, m] = 1 if single_root else 0
        remaining[0, m] = True
        for h in range(n):
            tables[0, m, h] = scores[(m + 1) * stride + 1 + h] if h != m else -np.inf


@inner(allocates=True)
def spanning_in_logs(n, single_root, stride, scores, marginals, with_marginals):  # type: ignore
    """Return the log-partition. Fill `marginals` by [modifier, head] if `with_marginals` and a tree is possible."""
    depths = 2
    while 1 << (depths - 2) < n:
        depths += 1
    tables, roots = np.empty((depths, n, n)), np.empty((depths, n))
    orders, remaining = np.empty((depths, n), np.int64), np.empty((depths, n), np.bool_)
    _read_levels(n, single_root, stride, scores, tables, roots, orders, remaining)
    _copy_down(tables, roots, orders, remaining, 0)
    log_total, n_roots = 0.0, 0
    for v in range(n):
        total, order = _eliminate(tables[1], roots[1], orders[1], remaining[1], v)
        log_total += total
        n_roots += order
        if total == -np.inf or n_roots > 1:
            return -np.inf
    if with_marginals:
        escapes, escape_orders = np.empty((n, n)), np.zeros((n, n), np.int64)
        for m in range(n):
            escapes[m, m] = -np.inf
        _escapes(n, tables, roots, orders, remaining, escapes, escape_orders)
        _shares(n, stride, tables[0], roots[0], orders[0], escapes, escape_orders, marginals)
    return log_total


@inner
def _shares(n, stride, weights, root, orders, escapes, escape_orders, marginals):  # type: ignore
    """Fill marginals: each word's heads in proportion to weight times escape, of the lowest order."""
    for m in range(n):
        total, order = root[m], orders[m]
        for h in range(n):
            total, order = _add(total, order, weights[m, h] + escapes[h, m], escape_orders[h, m])
        row, share = (m + 1) * stride, 0.0
        for h in range(n + 1):
            value, own = (
                (root[m], orders[m])
                if h == 0
                else (weights[m, h - 1] + escapes[h - 1, m], escape_orders[h - 1, m])
            )
            marginals[row + h] = math.exp(value - total) if own == order else 0.0
            share += marginals[row + h]
        for h in range(n + 1):
            marginals[row + h] /= share
