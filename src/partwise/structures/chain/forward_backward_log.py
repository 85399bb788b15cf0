# mypy: ignore-errors
"""Forward–backward of a chain on logarithms: slow, and right for any scores."""

from __future__ import annotations

import math

import numpy as np

from partwise.compiled.dispatch import inner


@inner
def _edge_score(specification, length, scores, t, i, j):  # type: ignore
    """Score of label i at t − 1 followed by label j at t."""
    if specification.allowed[i * specification.stride + j] == 0.0:
        return -np.inf
    n_labels = specification.n_labels
    block = 0 if specification.tied else (t - 1) * n_labels
    return scores[(length + block + i) * n_labels + j]


@inner
def _node_score(specification, length, scores, t, j):  # type: ignore
    if t == 0 and specification.allowed_start[j] == 0.0:
        return -np.inf
    if t == length - 1 and specification.allowed_end[j] == 0.0:
        return -np.inf
    return scores[t * specification.n_labels + j]


@inner
def _continuations(specification, length, scores, t, i, endings, row):  # type: ignore
    """Fill `row` with the scores of going on to each label at t after label i; returns the largest."""
    top = -np.inf
    for j in range(specification.n_labels):
        row[j] = _node_score(specification, length, scores, t, j) + endings[t, j]
        if t > 0:
            row[j] += _edge_score(specification, length, scores, t, i, j)
        top = max(top, row[j])
    return top


@inner
def _to_weights(row, top):  # type: ignore
    """Replace `row` by exponentials relative to `top`; returns their sum."""
    total = 0.0
    for j in range(row.size):
        row[j] = math.exp(row[j] - top)
        total += row[j]
    return total


@inner(allocates=True)
def chain_expectations_in_logs(specification, length, scores, counts):  # type: ignore
    """Same answers as ``chain.chain_expectations``; −inf and zero counts where no labelling is allowed.

    Endings first: e_{t-1}(i) = log Σ_j exp(m(i, j) + n_t(j) + e_t(j)). Probabilities are then pushed forward
    along p(j | i) ∝ exp(m(i, j) + n_t(j) + e_t(j)): whatever rounding did to the endings, the counts are
    those of one distribution, so that huge scores times counts still add up to an entropy.
    """
    n_labels = specification.n_labels
    blocks = 1 if specification.tied else length - 1
    for k in range(length * n_labels + blocks * n_labels * n_labels):
        counts[k] = 0.0
    endings = np.zeros((length, n_labels))
    row = np.empty(n_labels)
    for t in range(length - 1, 0, -1):
        for i in range(n_labels):
            top = _continuations(specification, length, scores, t, i, endings, row)
            endings[t - 1, i] = top if top == -np.inf else top + math.log(_to_weights(row, top))
    top = _continuations(specification, length, scores, 0, 0, endings, row)
    if top == -np.inf:
        return top
    total = _to_weights(row, top)
    log_total = top + math.log(total)
    for j in range(n_labels):
        counts[j] = row[j] / total
    for t in range(1, length):
        block = 0 if specification.tied else (t - 1) * n_labels
        for i in range(n_labels):
            probability = counts[(t - 1) * n_labels + i]
            top = _continuations(specification, length, scores, t, i, endings, row)
            if probability == 0.0 or top == -np.inf:
                continue
            probability /= _to_weights(row, top)
            for j in range(n_labels):
                counts[t * n_labels + j] += probability * row[j]
                counts[(length + block + i) * n_labels + j] += probability * row[j]
    return log_total
