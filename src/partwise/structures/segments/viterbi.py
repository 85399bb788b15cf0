# mypy: ignore-errors
"""Viterbi for semi-Markov chains, in vector steps.

No back pointers are kept. The way back computes again which length and which label before were best.
"""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import inner
from partwise.compiled.simd_max import best_rows
from partwise.structures.segments.scores import (
    add_token_counts,
    fill_edges,
    fill_rows,
    first_segment,
    first_transition,
)


@inner
def semi_markov_viterbi(specification, length, scores, counts, work):  # type: ignore
    """d_e(j) = max_k s(e − k, k, j) + g_{e-k}(j),  g_s(j) = max_i d_s(i) + m(i, j)."""
    n_labels, stride = specification.n_labels, specification.stride
    delta, entering, rows = work.forward, work.entering, work.rows
    longest = min(specification.max_length, length)
    fill_rows(specification, length, scores, work)
    fill_edges(specification, length, scores, work)
    for j in range(n_labels):
        entering[j] = 0.0 if specification.allowed_start[j] > 0.0 else -np.inf
    for end in range(1, length + 1):
        here = end * stride
        for j in range(n_labels):
            delta[here + j] = -np.inf
        for k in range(min(longest, end)):
            start = end - 1 - k
            row, before = (first_segment(length, longest, start) + k) * stride, start * stride
            for j in range(n_labels):
                delta[here + j] = max(delta[here + j], rows[row + j] + entering[before + j])
        best_rows(entering, here, delta, here, 1, n_labels, work.edges, 0, stride)
    return _follow_back(specification, length, counts, work)


@inner
def _follow_back(specification, length, counts, work):  # type: ignore
    """Parts of the best segmentation; ties go to the smaller label and the shorter segment."""
    n_labels, stride = specification.n_labels, specification.stride
    longest, edge = min(specification.max_length, length), first_transition(specification, length)
    for k in range(edge + n_labels * n_labels):
        counts[k] = 0.0
    label, value = 0, -np.inf
    for j in range(n_labels):
        if specification.allowed_end[j] > 0.0 and work.forward[length * stride + j] > value:
            label, value = j, work.forward[length * stride + j]
    end = length
    while end > 0:
        chosen, top = 0, -np.inf
        for k in range(min(longest, end)):
            start = end - 1 - k
            row = (first_segment(length, longest, start) + k) * stride
            x = work.rows[row + label] + work.entering[start * stride + label]
            if x > top:
                chosen, top = k, x
        end -= chosen + 1
        counts[(first_segment(length, longest, end) + chosen) * n_labels + label] = 1.0
        if end > 0:
            previous, top = 0, -np.inf
            for i in range(n_labels):
                x = work.forward[end * stride + i] + work.edges[i * stride + label]
                if x > top:
                    previous, top = i, x
            counts[edge + previous * n_labels + label] += 1.0
            label = previous
    if specification.tokens:
        add_token_counts(specification, length, counts)
    return value
