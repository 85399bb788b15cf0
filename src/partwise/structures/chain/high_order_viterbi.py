# mypy: ignore-errors
"""Viterbi for chains of order k ≥ 2, in vector steps over the rows of `high_order.py`."""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import inner
from partwise.compiled.simd_max import best_rows
from partwise.structures.chain.viterbi import mask_run


@inner
def masked_edges(specification, length, scores, work):  # type: ignore
    """Copy the edges into padded rows by group, −inf where masked and in the padding."""
    n_labels, stride, n_groups = specification.n_labels, specification.stride, specification.n_groups
    n_symbols = n_labels + 1
    for g in range(n_groups):
        mask = (g % n_symbols) * stride
        for o in range(n_symbols):
            row, source = (g * n_symbols + o) * stride, (length + o * n_groups + g) * n_labels
            mask_run(work.edges, row, scores, source, specification.allowed, mask, n_labels, stride)


@inner
def high_order_viterbi(specification, length, scores, counts, work):  # type: ignore
    """d_t(g, y) = n_t(y) + max_o d_{t-1}(o, g) + m(o, g, y)."""
    n_labels, stride, n_groups = specification.n_labels, specification.stride, specification.n_groups
    n_symbols = n_labels + 1
    per_position, step = n_groups * stride, n_groups // n_symbols * stride
    delta = work.forward
    masked_edges(specification, length, scores, work)
    for j in range(per_position):
        delta[j] = -np.inf
    delta[(n_groups - 1) * stride + n_labels] = 0.0
    for t in range(length):
        for g in range(n_groups):
            old = t * per_position + g // n_symbols * stride + g % n_symbols
            new = (t + 1) * per_position + g * stride
            block = g * n_symbols * stride
            best_rows(delta, new, delta, old, step, n_symbols, work.edges, block, stride)
            for y in range(n_labels):
                delta[new + y] += scores[t * n_labels + y]
    return _follow_back(specification, length, counts, work)


@inner
def _follow_back(specification, length, counts, work):  # type: ignore
    """Parts of the best labelling: at each position the best oldest symbol is computed again."""
    n_labels, stride, n_groups = specification.n_labels, specification.stride, specification.n_groups
    n_symbols = n_labels + 1
    per_position, step = n_groups * stride, n_groups // n_symbols * stride
    for k in range((length + n_groups * n_symbols) * n_labels):
        counts[k] = 0.0
    group, label, value = 0, 0, -np.inf
    for g in range(n_groups):
        for y in range(n_labels):
            x = work.forward[length * per_position + g * stride + y]
            if specification.allowed_end[y] > 0.0 and x > value:
                group, label, value = g, y, x
    if value == -np.inf:
        return value
    for t in range(length - 1, -1, -1):
        old = t * per_position + group // n_symbols * stride + group % n_symbols
        oldest, top = 0, -np.inf
        for o in range(n_symbols):
            x = work.forward[old + o * step] + work.edges[(group * n_symbols + o) * stride + label]
            if x > top:
                oldest, top = o, x
        history = oldest * n_groups + group
        counts[t * n_labels + label] = 1.0
        counts[(length + history) * n_labels + label] += 1.0
        group, label = history // n_symbols, history % n_symbols
    return value
