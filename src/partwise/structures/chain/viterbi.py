# mypy: ignore-errors
"""Viterbi for first-order chains, in vector steps.

No back pointers are kept. The way back computes again which label before the chosen one was best.
"""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import inner
from partwise.compiled.simd_max import best_rows


@inner
def mask_run(out, o, scores, i, allowed, m, n, stride):  # type: ignore
    """out[o:][:n] = scores[i:][:n], or −inf where allowed[m:][:n] is zero; −inf in the padding."""
    o, i, m, n = (
        np.uint64(o),
        np.uint64(i),
        np.uint64(m),
        np.uint64(n),
    )  # else no vectors, see `structures/items.py`
    for j in range(n):
        out[o + j] = scores[i + j] if allowed[m + j] > 0.0 else -np.inf
    for j in range(n, np.uint64(stride)):
        out[o + j] = -np.inf


@inner
def masked_edges(specification, length, scores, work):  # type: ignore
    """Copy the edges into padded rows, −inf where masked and in the padding."""
    n_labels, stride = specification.n_labels, specification.stride
    blocks = min(1, length - 1) if specification.tied else length - 1
    for k in range(blocks * n_labels):
        mask_run(
            work.edges,
            k * stride,
            scores,
            (length + k) * n_labels,
            specification.allowed,
            k % n_labels * stride,
            n_labels,
            stride,
        )


@inner
def chain_viterbi(specification, length, scores, counts, work):  # type: ignore
    """d_t(j) = n_t(j) + max_i d_{t-1}(i) + m(i, j)."""
    n_labels, stride = specification.n_labels, specification.stride
    delta = work.forward
    masked_edges(specification, length, scores, work)
    for j in range(n_labels):
        delta[j] = scores[j] if specification.allowed_start[j] > 0.0 else -np.inf
    for t in range(1, length):
        block = 0 if specification.tied else (t - 1) * n_labels * stride
        here = t * stride
        best_rows(delta, here, delta, here - stride, 1, n_labels, work.edges, block, stride)
        for j in range(n_labels):
            delta[here + j] += scores[t * n_labels + j]
    return _follow_back(specification, length, counts, work)


@inner
def _follow_back(specification, length, counts, work):  # type: ignore
    """Parts of the best labelling; ties go to the smaller label."""
    n_labels, stride = specification.n_labels, specification.stride
    blocks = 1 if specification.tied else length - 1
    for k in range((length + blocks * n_labels) * n_labels):
        counts[k] = 0.0
    end = (length - 1) * stride
    label, value = 0, -np.inf
    for j in range(n_labels):
        if specification.allowed_end[j] > 0.0 and work.forward[end + j] > value:
            label, value = j, work.forward[end + j]
    for t in range(length - 1, 0, -1):
        counts[t * n_labels + label] = 1.0
        block = 0 if specification.tied else (t - 1) * n_labels
        previous, top = 0, -np.inf
        for i in range(n_labels):
            x = work.forward[(t - 1) * stride + i] + work.edges[(block + i) * stride + label]
            if x > top:
                previous, top = i, x
        counts[(length + block + previous) * n_labels + label] += 1.0
        label = previous
    counts[label] = 1.0
    return value
