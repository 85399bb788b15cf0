# mypy: ignore-errors
"""Forward–backward of chains of order k ≥ 2 on logarithms: slow, and right for any scores."""

from __future__ import annotations

import math

import numpy as np

from partwise.compiled.dispatch import inner
from partwise.structures.chain.forward_backward_log import _to_weights


@inner
def _step_score(specification, length, scores, t, history, y):  # type: ignore
    """Score of label y at t after `history`: its edge and its node, −inf where masked."""
    n_labels = specification.n_labels
    symbol = history % (n_labels + 1)
    if specification.allowed[symbol * specification.stride + y] == 0.0:
        return -np.inf
    if t == length - 1 and specification.allowed_end[y] == 0.0:
        return -np.inf
    return scores[(length + history) * n_labels + y] + scores[t * n_labels + y]


@inner
def _continuations(specification, length, scores, t, history, endings, row):  # type: ignore
    """Fill `row` with the scores of going on to each label at t after `history`; returns the largest."""
    after, top = (history % specification.n_groups) * (specification.n_labels + 1), -np.inf
    for y in range(specification.n_labels):
        row[y] = _step_score(specification, length, scores, t, history, y) + endings[t + 1, after + y]
        top = max(top, row[y])
    return top


@inner(allocates=True)
def high_order_expectations_in_logs(specification, length, scores, counts):  # type: ignore
    """Same answers as the scaled oracle; −inf and zero counts where no labelling is allowed.

    e_t(h) = log Σ_y exp(s_t(h, y) + e_{t+1}(h')), then probabilities pushed forward as in `forward_backward_log.py`.
    """
    n_labels, n_groups = specification.n_labels, specification.n_groups
    n_symbols, first = n_labels + 1, length * n_labels
    n_histories = n_groups * n_symbols
    for k in range(first + n_histories * n_labels):
        counts[k] = 0.0
    endings, row = np.zeros((length + 1, n_histories)), np.empty(n_labels)
    for t in range(length - 1, -1, -1):
        for history in range(n_histories):
            top = _continuations(specification, length, scores, t, history, endings, row)
            endings[t, history] = top if top == -np.inf else top + math.log(_to_weights(row, top))
    log_total = endings[0, n_histories - 1]
    if log_total == -np.inf:
        return log_total
    now, then = np.zeros(n_histories), np.zeros(n_histories)
    now[n_histories - 1] = 1.0
    for t in range(length):
        then[:] = 0.0
        for history in range(n_histories):
            top = _continuations(specification, length, scores, t, history, endings, row)
            if now[history] == 0.0 or top == -np.inf:
                continue
            probability = now[history] / _to_weights(row, top)
            after = (history % n_groups) * n_symbols
            for y in range(n_labels):
                then[after + y] += probability * row[y]
                counts[t * n_labels + y] += probability * row[y]
                counts[first + history * n_labels + y] += probability * row[y]
        now, then = then, now
    return log_total
