# mypy: ignore-errors
"""Pair marginals at every position of a first-order chain whose transitions are tied.

The tied oracle sums the pairs over positions. This keeps them apart and still takes exponentials of the one block of
transitions once.
"""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import entry, inner
from partwise.structures.chain.forward_backward import ChainSpecification, chain_scaled_sums
from partwise.structures.chain.recursion import expectations_in_logs
from partwise.structures.scaling import INVERSE_LIFT


@inner
def _pairs_in_logs(specification, length, scores, counts, pairs, work):  # type: ignore
    untied = ChainSpecification(
        specification.n_labels,
        specification.stride,
        False,
        specification.allowed,
        specification.allowed_start,
        specification.allowed_end,
    )
    return expectations_in_logs(specification, untied, length, scores, counts, pairs, work)


@inner
def chain_pairs(specification, length, scores, counts, pairs, work):  # type: ignore
    """Node marginals into `counts`, pairs f_{t-1}(i) m(i, j) n_t(j) b_t(j); returns the log-partition."""
    n_labels, stride = specification.n_labels, specification.stride
    log_total = chain_scaled_sums(specification, length, scores, counts, work)
    if np.isnan(log_total):
        return _pairs_in_logs(specification, length, scores, counts, pairs, work)
    at = 0
    for t in range(1, length):
        for i in range(n_labels):
            f = work.forward[(t - 1) * stride + i] * INVERSE_LIFT
            for j in range(n_labels):
                pairs[at + j] = f * work.edges[i * stride + j] * work.nodes[t * stride + j]
            at += n_labels
    return log_total


@entry
def chain_pairs_of_all(specification, lengths, part_ptr, scores, counts, pair_ptr, pairs, values, work):  # type: ignore
    """`chain_pairs` for every example; `pairs` is (pair_ptr[n],)."""
    for i in range(lengths.size):
        first, last = part_ptr[i], part_ptr[i + 1]
        own = pairs[pair_ptr[i] : pair_ptr[i + 1]]
        values[i] = chain_pairs(specification, lengths[i], scores[first:], counts[first:last], own, work)
