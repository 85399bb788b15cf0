# mypy: ignore-errors
"""What all trees share in compiled code: reading arcs into a table, the oracles, and dense matrices of users.

Words are 1 … n and the root is 0. A structure answers three questions about a table of arc scores by
[modifier, head]; relations are summed (or maximised) out of it before, and put back after. An example's
layout is ``[n, head, modifier, head, modifier, …]``, its candidate arcs in order of modifier and head; its parts are
one entry per arc, then `n_relations` entries per arc where there are relations.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from partwise.compiled.dispatch import fragment, kernel, structure_kernel
from partwise.compiled.oracles import best, expectations, labelling, log_partition
from partwise.compiled.simd import LANES, exponential_row, maximum


@structure_kernel
def tree_room(specification: Any, longest: int) -> Any:
    """The structure's workspace for sentences up to `longest` words."""
    raise TypeError


@structure_kernel
def arc_marginals(specification: Any, n: int, work: Any) -> float:
    """Return the log-partition of ``work.scores`` and fill ``work.marginals``, unless it is −inf."""
    raise TypeError


@structure_kernel
def arc_log_partition(specification: Any, n: int, work: Any) -> float:
    """Return the log-partition of ``work.scores``."""
    raise TypeError


@structure_kernel
def best_heads(specification: Any, n: int, work: Any) -> float:
    """Return the largest score of a tree and fill ``work.heads`` (from entry 1 on), unless it is −inf."""
    raise TypeError


@fragment
def stride_of(n):  # type: ignore
    """Numbers in a row of a table with columns 0 … n."""
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


@kernel
def read_arcs(n_relations, layout, scores, hard, work):  # type: ignore
    """Fill ``work.scores`` from an example's parts; relations are maximised out if `hard`, else summed."""
    n = np.int64(layout[0])
    stride, n_arcs = stride_of(n), (layout.size - 1) // 2
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
        work.scores[layout[2 * a + 2] * stride + layout[2 * a + 1]] = score
    return n


@fragment
def spread(amount, n_relations, scores, first, out, out_first, row):  # type: ignore
    """Share the probability of an arc between its relations."""
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


@kernel
def tree_expectations(specification, layout, scores, counts, work):  # type: ignore
    n_relations = specification.n_relations
    n = read_arcs(n_relations, layout, scores, False, work)
    value = arc_marginals(specification, n, work)
    stride, n_arcs = stride_of(n), (layout.size - 1) // 2
    for a in range(n_arcs):
        amount = 0.0
        if value > -np.inf:
            amount = work.marginals[layout[2 * a + 2] * stride + layout[2 * a + 1]]
        counts[a] = amount
        if n_relations > 1:
            first = n_arcs + a * n_relations
            spread(amount, n_relations, scores, first, counts, first, work.relations)
    return value


@kernel
def tree_log_partition(specification, layout, scores, work):  # type: ignore
    n = read_arcs(specification.n_relations, layout, scores, False, work)
    return arc_log_partition(specification, n, work)


@kernel
def tree_best(specification, layout, scores, counts, work):  # type: ignore
    n_relations = specification.n_relations
    n = read_arcs(n_relations, layout, scores, True, work)
    value, n_arcs = best_heads(specification, n, work), (layout.size - 1) // 2
    for j in range(n_arcs * (1 + n_relations if n_relations > 1 else 1)):
        counts[j] = 0.0
    if value == -np.inf:
        return value
    for a in range(n_arcs):
        if work.heads[layout[2 * a + 2]] == layout[2 * a + 1]:
            counts[a] = 1.0
            if n_relations > 1:
                first = n_arcs + a * n_relations
                counts[first + largest(scores, first, n_relations)] = 1.0
    return value


@kernel
def tree_labelling(specification, layout, counts, labels):  # type: ignore
    """The head of each word, or head · n_relations + relation: where its counts are largest."""
    n_relations, n_arcs, last, top = specification.n_relations, (layout.size - 1) // 2, 0, 0.0
    for a in range(n_arcs):
        head, modifier = np.int64(layout[2 * a + 1]), layout[2 * a + 2]
        if modifier != last or counts[a] > top:
            last, top = modifier, counts[a]
            labels[modifier - 1] = head
            if n_relations > 1:
                relation = largest(counts, n_arcs + a * n_relations, n_relations)
                labels[modifier - 1] = head * n_relations + relation


def register_oracles(specification: type) -> None:
    """Register the oracles above for a kind of trees."""
    expectations.register(specification)(tree_expectations)
    log_partition.register(specification)(tree_log_partition)
    best.register(specification)(tree_best)
    labelling.register(specification)(tree_labelling)
