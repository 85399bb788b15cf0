# mypy: ignore-errors
"""Compiled code of all trees: candidate arcs as a table of scores, relations, and the oracles for solvers.

Words are 1 … n and the root is 0. A structure answers three questions about a table of arc scores by [modifier, head].
Relations are first summed (or maximised) out, and their share is restored afterwards. An example's shape is
``[n, head, modifier, head, modifier, …]``, its candidate arcs in order of modifier and head. Its parts are one entry
per arc, then `n_relations` entries per arc if there are relations.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from partwise.compiled.dispatch import chosen_by_type, fragment, inner
from partwise.compiled.oracles import Oracle
from partwise.compiled.simd import LANES, exponential_row, maximum


@chosen_by_type
def tree_workspace(specification: Any, longest: int) -> Any:
    """The structure's workspace for sentences up to `longest` words."""
    raise TypeError


@chosen_by_type
def arc_marginals(specification: Any, n: int, work: Any) -> float:
    """Fill ``work.marginals`` from ``work.scores`` unless no tree is possible. Returns the log-partition."""
    raise TypeError


@chosen_by_type
def arc_log_partition(specification: Any, n: int, work: Any) -> float:
    """Return the log-partition of ``work.scores``."""
    raise TypeError


@chosen_by_type
def best_heads(specification: Any, n: int, work: Any) -> float:
    """Fill ``work.heads`` (from entry 1 on) with the best tree. Returns its score, −inf if no tree is possible."""
    raise TypeError


@fragment
def stride_of(n):  # type: ignore
    """Entries of a padded row with columns 0 … n."""
    return (n + LANES) & ~(LANES - 1)


@fragment
def soft_total(scores, first, count, row):  # type: ignore
    """Log of the summed exponentials of some scores."""
    top = maximum(scores, first, count)
    if top == -np.inf:
        return top
    stride = (count + LANES - 1) & ~(LANES - 1)
    exponential_row(row, 0, scores, first, count, stride, top)
    total = 0.0
    for j in range(stride):
        total += row[j]
    return top + math.log(total)


@fragment
def largest(scores, first, count):  # type: ignore
    """Index, counted from `first`, of the largest score."""
    found = 0
    for j in range(1, count):
        if scores[first + j] > scores[first + found]:
            found = j
    return found


@inner
def read_arcs(n_relations, shape, scores, hard, work):  # type: ignore
    """Fill ``work.scores`` from an example's parts. Relations are maximised out if `hard`, else summed out."""
    n = np.int64(shape[0])
    stride, n_arcs = stride_of(n), (shape.size - 1) // 2
    for j in range((n + 1) * stride):
        work.scores[j] = -np.inf
    for a in range(n_arcs):
        score = scores[a]
        if n_relations > 1 and score > -np.inf:
            first = n_arcs + a * n_relations
            if hard:
                score += maximum(scores, first, n_relations)
            else:
                score += soft_total(scores, first, n_relations, work.relations)
        work.scores[shape[2 * a + 2] * stride + shape[2 * a + 1]] = score
    return n


@fragment
def spread(amount, n_relations, scores, first, out, out_first, row):  # type: ignore
    """Divide the probability of an arc among its relations."""
    if amount == 0.0:
        for j in range(n_relations):
            out[out_first + j] = 0.0
        return
    top = maximum(scores, first, n_relations)
    stride = (n_relations + LANES - 1) & ~(LANES - 1)
    exponential_row(row, 0, scores, first, n_relations, stride, top)
    total = 0.0
    for j in range(stride):
        total += row[j]
    share = amount / total
    for j in range(n_relations):
        out[out_first + j] = share * row[j]


@inner
def tree_expectations(specification, shape, scores, counts, work):  # type: ignore
    n_relations = specification.n_relations
    n = read_arcs(n_relations, shape, scores, False, work)
    value = arc_marginals(specification, n, work)
    stride, n_arcs = stride_of(n), (shape.size - 1) // 2
    for a in range(n_arcs):
        amount = 0.0
        if value > -np.inf:
            amount = work.marginals[shape[2 * a + 2] * stride + shape[2 * a + 1]]
        counts[a] = amount
        if n_relations > 1:
            first = n_arcs + a * n_relations
            spread(amount, n_relations, scores, first, counts, first, work.relations)
    return value


@inner
def tree_log_partition(specification, shape, scores, work):  # type: ignore
    n = read_arcs(specification.n_relations, shape, scores, False, work)
    return arc_log_partition(specification, n, work)


@inner
def tree_best(specification, shape, scores, counts, work):  # type: ignore
    n_relations = specification.n_relations
    n = read_arcs(n_relations, shape, scores, True, work)
    value, n_arcs = best_heads(specification, n, work), (shape.size - 1) // 2
    for j in range(n_arcs * (1 + n_relations if n_relations > 1 else 1)):
        counts[j] = 0.0
    if value == -np.inf:
        return value
    for a in range(n_arcs):
        if work.heads[shape[2 * a + 2]] == shape[2 * a + 1]:
            counts[a] = 1.0
            if n_relations > 1:
                first = n_arcs + a * n_relations
                counts[first + largest(scores, first, n_relations)] = 1.0
    return value


def tree_oracle(name: str, specification: type, workspace: type) -> Oracle:
    """The oracle of a kind of trees."""
    return Oracle(name, specification, workspace, tree_expectations, tree_log_partition, tree_best)
