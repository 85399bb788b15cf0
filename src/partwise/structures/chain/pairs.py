# mypy: ignore-errors
"""Pair marginals at every position of a first-order chain whose transitions are tied.

The tied oracle sums the pairs over positions; this keeps them apart without raising the one block of
transitions to exponentials again at each.
"""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import entry, inner
from partwise.structures.chain.forward_backward import (
    _INVERSE_LIFT,
    ChainSpecification,
    _backward,
    _exponentials,
    _forward,
    _sum_of_logs,
)
from partwise.structures.chain.forward_backward_log import chain_expectations_in_logs


@inner(allocates=True)
def _pairs_in_logs(specification, length, scores, counts, pairs):  # type: ignore
    """The same as `chain_pairs` from a copy of the scores with one block per position."""
    n_labels = specification.n_labels
    block, nodes = n_labels * n_labels, length * n_labels
    untied = ChainSpecification(
        n_labels,
        specification.stride,
        False,
        specification.allowed,
        specification.allowed_start,
        specification.allowed_end,
    )
    apart = np.empty(nodes + (length - 1) * block)
    apart_counts = np.empty(apart.size)
    apart[:nodes] = scores[:nodes]
    for t in range(length - 1):
        apart[nodes + t * block : nodes + (t + 1) * block] = scores[nodes : nodes + block]
    log_total = chain_expectations_in_logs(untied, length, apart, apart_counts)
    counts[:nodes] = apart_counts[:nodes]
    for k in range((length - 1) * block):
        pairs[k] = apart_counts[nodes + k]
    return log_total


@inner
def chain_pairs(specification, length, scores, counts, pairs, work):  # type: ignore
    """Node marginals into `counts`, pairs f_{t-1}(i) m(i, j) n_t(j) b_t(j); returns the log-partition."""
    n_labels, stride = specification.n_labels, specification.stride
    shifts = _exponentials(specification, length, scores, work)
    if not (shifts == shifts and _forward(specification, length, work)):
        return _pairs_in_logs(specification, length, scores, counts, pairs)
    total = _backward(specification, length, counts, work)
    if not abs(total - 1.0) < 1e-9:
        return _pairs_in_logs(specification, length, scores, counts, pairs)
    at = 0
    for t in range(1, length):
        for i in range(n_labels):
            f = work.forward[(t - 1) * stride + i] * _INVERSE_LIFT
            for j in range(n_labels):
                pairs[at + j] = f * work.edges[i * stride + j] * work.nodes[t * stride + j]
            at += n_labels
    return shifts + _sum_of_logs(work.totals, length)


@entry
def chain_pairs_of_all(specification, lengths, part_ptr, scores, counts, pair_ptr, pairs, values, work):  # type: ignore
    """`chain_pairs` for every example; `pairs` is (pair_ptr[n],)."""
    for i in range(lengths.size):
        first = part_ptr[i]
        values[i] = chain_pairs(
            specification, lengths[i], scores[first:], counts[first:], pairs[pair_ptr[i] :], work
        )
