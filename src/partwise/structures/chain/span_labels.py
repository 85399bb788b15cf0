"""The best labelling of a chain among those that have given spans, and no others.

Viterbi's algorithm on histories, with a mask of pairs of labels at each position: a span starts here, goes on, or
there is none. It is used for few sequences at a time, and therefore written in NumPy.
"""

from __future__ import annotations

import numpy as np

from partwise.structures.chain.spans import SpanRules


def labels_with_spans(
    rules: SpanRules, nodes: np.ndarray, edges: np.ndarray, spans: np.ndarray, order: int
) -> np.ndarray | None:
    """Labels, int64 (length,), or None if no labelling has just these spans.

    Parameters
    ----------
    nodes : float64 array, shape (length, n_labels)
        Scores, −inf if a label is not possible at a position.
    edges : float64 array, shape (length, n_histories, n_labels)
        Scores of labels behind histories of `order` labels, in base n_labels + 1; −inf if not possible.
    spans : int64 array, shape (n_spans, 3)
        First position, last position and type of spans that do not overlap.
    """
    length, n_labels = nodes.shape
    base, kind, begins = n_labels + 1, np.full(length, -1), np.zeros(length, bool)
    for first, last, own in spans.tolist():
        kind[first : last + 1] = own
        begins[first] = True
    goes_on = np.pad(rules.goes_on, ((0, 1), (0, 0)))
    n_states = base**order
    newest, rest = np.arange(n_states) % base, n_states // base
    value, back = np.full(n_states, -np.inf), np.zeros((length, rest, n_labels), np.int64)
    value[-1] = 0.0
    for t in range(length):
        pairs = rules.starts if begins[t] else goes_on if kind[t] >= 0 else ~rules.starts
        mask = (pairs & (rules.kind == kind[t]))[newest]
        scores = np.where(mask, value[:, None] + edges[t] + nodes[t], -np.inf)
        scores = scores.reshape(base, rest, n_labels)
        back[t] = scores.argmax(axis=0)
        value = np.pad(scores.max(axis=0), ((0, 0), (0, 1)), constant_values=-np.inf).ravel()
    state = int(value.argmax())
    if value[state] == -np.inf:
        return None
    labels = np.zeros(length, np.int64)
    for t in range(length - 1, -1, -1):
        labels[t] = state % base
        state = int(back[t, state // base, labels[t]]) * rest + state // base
    return labels
