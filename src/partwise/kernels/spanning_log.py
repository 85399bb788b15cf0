"""The elimination of ``spanning.py`` on logarithms, for scores too far apart for double precision.

With a single root, root weights are infinitely small: a number that contains one is of *order* 1, others are of
order 0, and of a sum only the terms of lowest order count. Only weights of root arcs and probabilities of
escape have an order; arcs between words are always of order 0.
"""

from __future__ import annotations

import math

import numpy as np

from partwise.kernels.dispatch import kernel
from partwise.kernels.projective_log import log_add


@kernel
def _add(value, order, other, other_order):  # type: ignore
    """Sum of two numbers given as logarithm and order."""
    if other == -np.inf or (value > -np.inf and order < other_order):
        return value, order
    if value == -np.inf or other_order < order:
        return other, other_order
    return log_add(value, other), order


@kernel
def _eliminate(weights, root, orders, remaining, v):  # type: ignore
    """Eliminate word v in place; row v holds what is left of it over D. Returns D and its order."""
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


@kernel
def _escape_rows(weights, root, orders, first, last, low, high, escapes, escape_orders):  # type: ignore
    """e(v; m) for words v in first … last, eliminated in that order, and words m in low … high."""
    for v in range(last - 1, first - 1, -1):
        for m in range(low, high):
            value, order = root[v], orders[v]
            for h in range(root.size):
                if h != m and weights[v, h] > -np.inf:
                    value, order = _add(value, order, weights[v, h] + escapes[h, m], escape_orders[h, m])
            escapes[v, m], escape_orders[v, m] = value, order


@kernel
def _escapes(n, weights, root, orders, escapes, escape_orders):  # type: ignore
    """Fill e(h; m) for all words: the halving of ``spanning.py``, with a table for every level."""
    depths = 2
    while 1 << (depths - 2) < n:
        depths += 1
    tables, roots = np.full((depths, n, n), -np.inf), np.empty((depths, n))
    root_orders, remaining = np.zeros((depths, n), np.int64), np.ones((depths, n), np.bool_)
    lows, highs, stages = np.zeros(depths, np.int64), np.zeros(depths, np.int64), np.zeros(depths, np.int64)
    tables[0], roots[0], root_orders[0] = weights, root, orders
    highs[0], depth = n, 0
    while depth >= 0:
        low, high, stage = lows[depth], highs[depth], stages[depth]
        middle, below = low + (high - low) // 2, depth + 1
        first, last, kept, kept_end = (
            (low, middle, middle, high) if stage < 2 else (middle, high, low, middle)
        )
        if stage == 4 or high - low == 1:
            depth -= 1
        elif stage % 2 == 0:
            tables[below], roots[below] = tables[depth], roots[depth]
            root_orders[below], remaining[below] = root_orders[depth], remaining[depth]
            for v in range(first, last):
                _eliminate(tables[below], roots[below], root_orders[below], remaining[below], v)
            stages[depth] += 1
            depth = below
            lows[depth], highs[depth], stages[depth] = kept, kept_end, 0
        else:
            table, to_root, order = tables[below], roots[below], root_orders[below]
            _escape_rows(table, to_root, order, first, last, kept, kept_end, escapes, escape_orders)
            stages[depth] += 1


@kernel
def spanning_in_logs(n, single_root, stride, scores, marginals, with_marginals):  # type: ignore
    """Log-partition; fills `marginals` by [modifier, head] if asked to, unless it is −inf."""
    weights, root = np.full((n, n), -np.inf), np.empty(n)
    for m in range(n):
        root[m] = scores[(m + 1) * stride]
        for h in range(n):
            if h != m:
                weights[m, h] = scores[(m + 1) * stride + 1 + h]
    orders = np.full(n, 1 if single_root else 0)
    own, own_root, own_orders, remaining = weights.copy(), root.copy(), orders.copy(), np.ones(n, np.bool_)
    log_total, n_roots = 0.0, 0
    for v in range(n):
        total, order = _eliminate(own, own_root, own_orders, remaining, v)
        log_total += total
        n_roots += order
        if total == -np.inf or n_roots > 1:
            return -np.inf
    if with_marginals:
        escapes, escape_orders = np.full((n, n), -np.inf), np.zeros((n, n), np.int64)
        _escapes(n, weights, root, orders, escapes, escape_orders)
        for m in range(n):
            total, order = root[m], orders[m]
            for h in range(n):
                through = weights[m, h] + escapes[h, m]
                total, order = _add(total, order, through, escape_orders[h, m])
            row = (m + 1) * stride
            marginals[row] = math.exp(root[m] - total) if orders[m] == order else 0.0
            for h in range(n):
                through = weights[m, h] + escapes[h, m] - total
                marginals[row + 1 + h] = math.exp(through) if escape_orders[h, m] == order else 0.0
            share = marginals[row : row + n + 1].sum()
            for h in range(n + 1):
                marginals[row + h] /= share
    return log_total
