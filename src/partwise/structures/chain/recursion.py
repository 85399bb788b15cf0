# mypy: ignore-errors
"""The recursion of a chain of any order on scores, written once for all kinds of items (see `structures/items.py`).

A *state* is what a chain knows of its past: the label before, or the last k labels. A cell stands for the labels from
position t on after state h:

    e_t(h) = ⊕_y score(t, h, y) ⊗ e_{t+1}(h·y),    e_T(h) = 1.

Log-sums give counts and samples if the scaled sums of `forward_backward.py` and `high_order.py` underflow. Lists give
the k best labellings. These two files also say what states a chain of their order has.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.compiled.boundary import Reals
from partwise.compiled.dispatch import chosen_by_type, entry, inner
from partwise.compiled.simd import LANES
from partwise.structures.items import add_runs, copy_run, draw, end, join, log_sums, ranked, share


class ScoreRows(NamedTuple):
    """The part of a workspace that :func:`fill_scores` fills."""

    nodes: Reals
    edges: Reals


@chosen_by_type
def n_edges(specification, length):  # type: ignore
    """How many numbers ``work.edges`` has."""


@chosen_by_type
def n_states(specification):  # type: ignore
    """How many states there are."""


@chosen_by_type
def memory(specification):  # type: ignore
    """How many labels a state remembers."""


@chosen_by_type
def is_state(specification, t, state):  # type: ignore
    """Whether a chain can be in this state before position t; before position 0 there is one."""


@chosen_by_type
def first_after(specification, state):  # type: ignore
    """The state after `state` and label 0; label y leads y states further."""


@chosen_by_type
def label_of(specification, state):  # type: ignore
    """The last label in a state."""


@chosen_by_type
def workspace_for(specification, length):  # type: ignore
    """A workspace of its class."""


@chosen_by_type
def fill_scores(specification, length, scores, work):  # type: ignore
    """Fill ``work.nodes`` and ``work.edges`` with scores, −inf where masked and in the padding."""


@chosen_by_type
def edge_at(specification, t, state):  # type: ignore
    """Where ``work.edges`` has the edges from a state to the label at t; −1 if there are none."""


@chosen_by_type
def edge_row(specification, t, state):  # type: ignore
    """The row of edge parts, each `n_labels` long, that a state uses at t."""


@chosen_by_type
def scaled_sums(specification, length, scores, counts, work):  # type: ignore
    """Log-partition and counts from scaled products, NaN if they underflow."""


@chosen_by_type
def fill_weights(specification, length, t, state, counts, work, weights):  # type: ignore
    """Fill `weights` with the odds of the labels at t after a state, from what ``scaled_sums`` left."""


@inner
def _fill_row(specification, t, state, work, row):  # type: ignore
    """Scores of going on to each label at t after a state."""
    at, node, n_labels = edge_at(specification, t, state), t * specification.stride, specification.n_labels
    if at < 0:
        copy_run(row, 0, work.nodes, node, n_labels)
    else:
        add_runs(row, work.nodes, node, work.edges, at, n_labels)


@inner(allocates=True)
def _fill_items(items, specification, length, scores, work, row):  # type: ignore
    """Make all cells; returns the one of the whole chain. Cell t · n + h stands for state h before position t."""
    n, n_labels, whole = n_states(specification), specification.n_labels, 0
    states, n_here = np.empty(n, np.int64), 0
    fill_scores(specification, length, scores, work)
    for state in range(n):
        end(items, length * n + state, 0.0)
    for t in range(length - 1, -1, -1):
        if t == length - 1 or t < memory(specification):
            n_here = 0
            for state in range(n):
                if is_state(specification, t, state):
                    states[n_here] = state
                    n_here += 1
        for state in states[:n_here]:
            _fill_row(specification, t, state, work, row)
            after = (t + 1) * n + first_after(specification, state)
            whole = t * n + state
            join(items, whole, row, n_labels, after, 1)
    return whole


@inner(allocates=True)
def expectations_in_logs(specification, layout, length, scores, counts, edge_counts, work):  # type: ignore
    """The log-partition of any scores; writes counts of nodes, and of edges as the specification `layout` has them.

    −inf if no labelling is possible, and zero counts.
    """
    n, n_labels = n_states(specification), specification.n_labels
    items, row = log_sums((length + 1) * n, n_labels), np.zeros(n_labels + LANES)
    whole = _fill_items(items, specification, length, scores, work, row)
    for k in range(length * n_labels):
        counts[k] = 0.0
    for k in range(edge_counts.size):
        edge_counts[k] = 0.0
    if items.values[whole] == -np.inf:
        return -np.inf
    now, then = np.zeros(n), np.zeros(n)
    now[whole] = 1.0
    for t in range(length):
        then[:] = 0.0
        for state in range(n):
            probability = now[state]
            if probability == 0.0:
                continue
            _fill_row(specification, t, state, work, row)
            after, edge = first_after(specification, state), edge_row(layout, t, state) * n_labels
            share(items, row, n_labels, (t + 1) * n + after, 1)
            for y in range(n_labels):
                own = probability * items.weights[y]
                then[after + y] += own
                counts[t * n_labels + y] += own
                if edge >= 0:
                    edge_counts[edge + y] += own
        now, then = then, now
    return items.values[whole]


@entry(allocates=True)
def best_labellings(specification, length, scores, labels, values):  # type: ignore
    """Fill `labels` (k, length) and `values` (k,), best first; returns how many there are."""
    n, k = n_states(specification), values.size
    work = ScoreRows(np.empty(length * specification.stride), np.empty(n_edges(specification, length)))
    items, row = ranked((length + 1) * n, k), np.zeros(specification.n_labels + LANES)
    whole = _fill_items(items, specification, length, scores, work, row)
    found = 0
    while found < k and items.values[whole * k + found] > -np.inf:
        values[found] = items.values[whole * k + found]
        entry = whole * k + found
        for t in range(length):
            entry = items.sources[entry]
            state = entry // k - (t + 1) * n
            labels[found, t] = label_of(specification, state)
        found += 1
    return found


@entry(allocates=True)
def sample_labellings(specification, length, scores, uniforms, labels):  # type: ignore
    """Fill `labels` (n, length) from `uniforms` (n, length) in [0, 1); returns the log-partition.

    Labels are drawn from left to right, each given the state before it. `scores` has nothing behind its slack.
    """
    n, n_labels, start = n_states(specification), specification.n_labels, 0
    work, counts = workspace_for(specification, length), np.empty(scores.size)
    while not is_state(specification, 0, start):
        start += 1
    log_total = scaled_sums(specification, length, scores, counts, work)
    is_scaled = log_total == log_total
    n_cells = 1 if is_scaled else (length + 1) * n
    items, row = log_sums(n_cells, n_labels), np.zeros(n_labels + LANES)
    if not is_scaled:
        log_total = items.values[_fill_items(items, specification, length, scores, work, row)]
        if log_total == -np.inf:
            return log_total
    for sample in range(len(labels)):
        state = start
        for t in range(length):
            after = first_after(specification, state)
            if is_scaled:
                fill_weights(specification, length, t, state, counts, work, items.weights)
            else:
                _fill_row(specification, t, state, work, row)
                share(items, row, n_labels, (t + 1) * n + after, 1)
            label = draw(items.weights, n_labels, uniforms[sample, t])
            labels[sample, t] = label
            state = after + label
    return log_total
