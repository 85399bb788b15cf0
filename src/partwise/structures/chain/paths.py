# mypy: ignore-errors
"""The k best labellings of a chain of any order, and samples from it, on logarithms.

A chain of order k is seen as walks over *histories*: numbers in base L + 1 of the last k labels, the
most recent least significant, with the symbol L before the start. From history h label y leads to
(h mod (L+1)^(k-1))·(L+1) + y. Scores are nodes[t, y] + edges[t, h, y], edges[0] serving all positions
when there is only one block; what a mask forbids scores −inf.
"""

from __future__ import annotations

import math

import numpy as np

from partwise.compiled.dispatch import entry, inner

_LEAST = 1e-200  # a sum of products that has all its digits


@entry(allocates=True)
def best_paths(nodes, edges, order, n_best, labels, values):  # type: ignore
    """Fill `labels` (n_best, T) and `values` (n_best,), best first; returns how many there are.

    Each history keeps its n_best best beginnings, with the symbol that dropped out of the history and
    the rank of the beginning it continues. Ties go to the smaller symbol, then the better rank, so that a
    shorter list is always the beginning of a longer one.
    """
    length, n_labels = nodes.shape
    n_symbols = n_labels + 1
    n_groups = n_symbols ** (order - 1)
    n_histories = n_groups * n_symbols
    scores = np.full((length + 1, n_histories, n_best), -np.inf)
    dropped = np.zeros((length + 1, n_histories, n_best), np.int32)
    ranks = np.zeros((length + 1, n_histories, n_best), np.int32)
    scores[0, n_histories - 1, 0] = 0.0
    arriving = np.empty(
        (n_labels, n_histories)
    )  # edges by [label, history], which lie in the order they are read
    best = np.empty(n_histories)
    for t in range(length):
        if t == 0 or edges.shape[0] > 1:
            arriving[:] = edges[t if edges.shape[0] > 1 else 0].T
        best[:] = scores[t, :, 0]
        for group in range(n_groups):
            for y in range(n_labels):
                here = group * n_symbols + y
                worst = -np.inf  # of what is kept
                for oldest in range(n_symbols):
                    history = oldest * n_groups + group
                    if not best[history] + arriving[y, history] + nodes[t, y] > worst:
                        continue
                    edge = arriving[y, history]
                    for rank in range(n_best):
                        score = scores[t, history, rank] + edge + nodes[t, y]
                        if not score > worst:
                            break
                        at = _insert(scores[t + 1, here], dropped[t + 1, here], ranks[t + 1, here], score)
                        dropped[t + 1, here, at] = oldest
                        ranks[t + 1, here, at] = rank
                        worst = scores[t + 1, here, n_best - 1]
    return _trace_paths(scores, dropped, ranks, n_groups, labels, values)


@inner
def _insert(scores, dropped, ranks, score):  # type: ignore
    """Open a place for `score` behind all that are at least as good; returns where."""
    at = scores.size - 1
    while at > 0 and score > scores[at - 1]:
        scores[at] = scores[at - 1]
        dropped[at] = dropped[at - 1]
        ranks[at] = ranks[at - 1]
        at -= 1
    scores[at] = score
    return at


@inner(allocates=True)
def _trace_paths(scores, dropped, ranks, n_groups, labels, values):  # type: ignore
    n_best, length = labels.shape
    n_histories = scores.shape[1]
    n_symbols = n_histories // n_groups
    last_history = np.zeros(n_best, np.int32)
    last_rank = np.zeros(n_best, np.int32)
    values[:] = -np.inf
    for history in range(n_histories):
        for rank in range(n_best):
            score = scores[length, history, rank]
            if score == -np.inf or not score > values[n_best - 1]:
                break
            at = _insert(values, last_history, last_rank, score)
            last_history[at] = history
            last_rank[at] = rank
    found = 0
    while found < n_best and values[found] > -np.inf:
        history, rank = np.int64(last_history[found]), np.int64(last_rank[found])
        for t in range(length, 0, -1):
            labels[found, t - 1] = history % n_symbols
            oldest = dropped[t, history, rank]
            rank = np.int64(ranks[t, history, rank])
            history = oldest * n_groups + history // n_symbols
        found += 1
    return found


@inner(allocates=True)
def _log_endings(nodes, edges, n_groups, endings):  # type: ignore
    """endings[t, h] = log Σ over labels from t on of their scores, given history h before t.

    Where positions share their edges, sums are of products: of exp(edge − largest), once, and one exponential a label.
    What is too small for that is done again on logarithms.
    """
    length, n_labels = nodes.shape
    n_histories = endings.shape[1]
    endings[length, :] = 0.0
    tied = edges.shape[0] == 1
    factor, top_edge = _scaled_edges(edges[0]) if tied else (edges[0], 0.0)
    later = np.empty(n_histories)
    for t in range(length - 1, -1, -1):
        top = _scaled_endings(nodes[t], endings[t + 1], later) if tied else 0.0
        block = edges[0 if tied else t]
        for history in range(n_histories):
            after = (history % n_groups) * (n_labels + 1)
            total = 0.0
            if tied:
                for y in range(n_labels):
                    total += factor[history, y] * later[after + y]
            if total > _LEAST:
                endings[t, history] = top + top_edge + math.log(total)
            else:
                endings[t, history] = _log_sum(nodes[t], block[history], endings[t + 1], after)


@inner(allocates=True)
def _scaled_edges(block):  # type: ignore
    """exp(edge − largest), and the largest."""
    top = -np.inf
    for edge in block.flat:
        top = max(top, edge)
    factor = np.zeros(block.shape)
    if top > -np.inf:
        for history in range(block.shape[0]):
            for y in range(block.shape[1]):
                factor[history, y] = math.exp(block[history, y] - top)
    return factor, top


@inner
def _scaled_endings(nodes, endings, later):  # type: ignore
    """Fill `later` with exp(node + ending − largest) of histories that end in a label; returns the largest."""
    n_labels, top = nodes.size, -np.inf
    for first in range(0, endings.size, n_labels + 1):
        for y in range(n_labels):
            top = max(top, nodes[y] + endings[first + y])
    later[:] = 0.0
    if top > -np.inf:
        for first in range(0, endings.size, n_labels + 1):
            for y in range(n_labels):
                later[first + y] = math.exp(nodes[y] + endings[first + y] - top)
    return top


@inner
def _log_sum(nodes, edges, endings, after):  # type: ignore
    """log Σ_y exp(node + edge + ending after y)."""
    top = -np.inf
    for y in range(nodes.size):
        top = max(top, nodes[y] + edges[y] + endings[after + y])
    if top == -np.inf:
        return top
    total = 0.0
    for y in range(nodes.size):
        total += math.exp(nodes[y] + edges[y] + endings[after + y] - top)
    return top + math.log(total)


@entry(allocates=True)
def sample_paths(nodes, edges, order, uniforms, labels):  # type: ignore
    """Fill `labels` (n, T) from `uniforms` (n, T) in [0, 1); returns the log-partition.

    p(y_t | history) = exp(score + ending after y_t − ending before), inverted at the uniform number.
    """
    length, n_labels = nodes.shape
    n_groups = (n_labels + 1) ** (order - 1)
    n_histories = n_groups * (n_labels + 1)
    endings = np.empty((length + 1, n_histories))
    _log_endings(nodes, edges, n_groups, endings)
    log_total = endings[0, n_histories - 1]
    if log_total == -np.inf:
        return log_total
    for n in range(labels.shape[0]):
        history = n_histories - 1
        for t in range(length):
            block = edges[t if edges.shape[0] > 1 else 0]
            after = (history % n_groups) * (n_labels + 1)
            left = uniforms[n, t]
            chosen = -1
            for y in range(n_labels):
                score = nodes[t, y] + block[history, y] + endings[t + 1, after + y]
                if score > -np.inf:
                    # The last possible label takes what rounding leaves over.
                    if chosen >= 0 and left < 0.0:
                        break
                    chosen = y
                    left -= math.exp(score - endings[t, history])
            labels[n, t] = chosen
            history = after + chosen
    return log_total
