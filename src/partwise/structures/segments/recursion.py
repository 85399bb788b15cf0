# mypy: ignore-errors
"""The recursion of a semi-Markov chain on scores, written once for all kinds of items (see `structures/items.py`).

Boundary s lies before position s. Two cells stand for what comes from boundary s on: o_s(j) if a segment of label j
begins there, b_s(i) if one of label i has just ended:

    o_s(j) = ⊕_k score(s, k, j) ⊗ b_{s+k}(j),    b_s(i) = ⊕_j m(i, j) ⊗ o_s(j),    b_n(i) = 1 if i may stand last.

Log-sums give counts and samples if the scaled sums of `forward_backward.py` underflow. Lists give the k best.
"""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import chosen_by_type, entry, inner
from partwise.compiled.simd import LANES
from partwise.structures.items import draw, end, join, log_sums, ranked, share
from partwise.structures.segments.scores import fill_edges, fill_rows, first_segment, first_transition


@chosen_by_type
def scaled_sums(specification, length, scores, counts, work):  # type: ignore
    """Log-partition and counts of segments and transitions from scaled products, NaN if they underflow."""


@inner
def _began(n_labels, start, label):  # type: ignore
    """The cell o of a boundary and label; the next label is the next cell."""
    return 2 * start * n_labels + label


@inner
def _ended(n_labels, start, label):  # type: ignore
    """The cell b of a boundary and label; the next boundary is 2 · n_labels further. Everything begins at b_0(0)."""
    return (2 * start + 1) * n_labels + label


@inner
def _fill_lengths(specification, length, start, label, work, row):  # type: ignore
    """Scores of the segments of a label that begin at a boundary; returns how many lengths there are."""
    longest = min(specification.max_length, length)
    at = first_segment(length, longest, start) * specification.stride + label
    n = min(longest, length - start)
    for k in range(n):
        row[k] = work.rows[at + k * specification.stride]
    return n


@inner
def _fill_labels(specification, start, before, work, row):  # type: ignore
    """Scores of the label of the next segment after label `before`."""
    for j in range(specification.n_labels):
        if start > 0:
            row[j] = work.edges[before * specification.stride + j]
        else:
            row[j] = 0.0 if specification.allowed_start[j] > 0.0 else -np.inf


@inner
def _fill_items(items, specification, length, scores, work, row):  # type: ignore
    """Make all cells; returns the one of the whole sequence."""
    n_labels = specification.n_labels
    fill_rows(specification, length, scores, work)
    fill_edges(specification, length, scores, work)
    for j in range(n_labels):
        end(items, _ended(n_labels, length, j), 0.0 if specification.allowed_end[j] > 0.0 else -np.inf)
    for start in range(length - 1, -1, -1):
        for j in range(n_labels):
            n = _fill_lengths(specification, length, start, j, work, row)
            join(items, _began(n_labels, start, j), row, n, _ended(n_labels, start + 1, j), 2 * n_labels)
        for i in range(n_labels if start > 0 else 1):
            _fill_labels(specification, start, i, work, row)
            join(items, _ended(n_labels, start, i), row, n_labels, _began(n_labels, start, 0), 1)
    return _ended(n_labels, 0, 0)


@inner
def _width(specification):  # type: ignore
    """The most alternatives of a cell."""
    return max(specification.n_labels, specification.max_length)


@inner(allocates=True)
def expectations_in_logs(specification, length, scores, counts, work):  # type: ignore
    """The log-partition of any scores; writes counts of segments and transitions.

    −inf if no segmentation is possible, and zero counts.
    """
    n_labels, edge = specification.n_labels, first_transition(specification, length)
    items, row = (
        log_sums(2 * (length + 1) * n_labels, _width(specification)),
        np.zeros(_width(specification) + LANES),
    )
    for k in range(edge + n_labels * n_labels):
        counts[k] = 0.0
    whole = _fill_items(items, specification, length, scores, work, row)
    if items.values[whole] == -np.inf:
        return -np.inf
    reached = np.zeros(items.values.size)  # probability of each cell
    reached[whole] = 1.0
    longest = min(specification.max_length, length)
    for start in range(length):
        for i in range(n_labels if start > 0 else 1):
            probability = reached[_ended(n_labels, start, i)]
            if probability == 0.0:
                continue
            _fill_labels(specification, start, i, work, row)
            share(items, row, n_labels, _began(n_labels, start, 0), 1)
            for j in range(n_labels):
                own = probability * items.weights[j]
                reached[_began(n_labels, start, j)] += own
                if start > 0:
                    counts[edge + i * n_labels + j] += own
        segment = first_segment(length, longest, start)
        for j in range(n_labels):
            probability = reached[_began(n_labels, start, j)]
            if probability == 0.0:
                continue
            n = _fill_lengths(specification, length, start, j, work, row)
            share(items, row, n, _ended(n_labels, start + 1, j), 2 * n_labels)
            for k in range(n):
                own = probability * items.weights[k]
                counts[(segment + k) * n_labels + j] = own
                reached[_ended(n_labels, start + k + 1, j)] += own
    return items.values[whole]


@inner
def _write(tags, first, last, label):  # type: ignore
    """Tags of one segment, `last` not included: 2·label at its first position, 2·label + 1 at the others."""
    for t in range(first, last):
        tags[t] = 2 * label + (1 if t > first else 0)


@entry(allocates=True)
def best_segmentations(specification, length, scores, work, tags, values):  # type: ignore
    """Fill `tags` (n_best, n) and `values` (n_best,), best first; returns how many there are."""
    n_labels, k, found = specification.n_labels, values.size, 0
    items, row = ranked(2 * (length + 1) * n_labels, k), np.zeros(_width(specification) + LANES)
    whole = _fill_items(items, specification, length, scores, work, row)
    while found < k and items.values[whole * k + found] > -np.inf:
        values[found] = items.values[whole * k + found]
        at, start = whole * k + found, 0
        while start < length:
            began = items.sources[at]
            at = items.sources[began]
            label, after = began // k % n_labels, at // k // (2 * n_labels)
            _write(tags[found], start, after, label)
            start = after
        found += 1
    return found


@entry(allocates=True)
def sample_segmentations(specification, length, scores, work, uniforms, tags):  # type: ignore
    """Fill `tags` (n, length) from `uniforms` (n, 2·length) in [0, 1); returns the log-partition.

    The next label is drawn given the one before, then the segment's length given the label.
    """
    n_labels, stride = specification.n_labels, specification.stride
    longest, counts = min(specification.max_length, length), np.empty(scores.size)
    log_total = scaled_sums(specification, length, scores, counts, work)
    is_scaled = log_total == log_total
    n_cells = 1 if is_scaled else 2 * (length + 1) * n_labels
    items, row = log_sums(n_cells, _width(specification)), np.zeros(_width(specification) + LANES)
    if not is_scaled:
        log_total = items.values[_fill_items(items, specification, length, scores, work, row)]
        if log_total == -np.inf:
            return log_total
    weights = items.weights
    for sample in range(len(tags)):
        start, label = 0, 0
        while start < length:
            if is_scaled:
                for j in range(n_labels):
                    before = work.edges[label * stride + j] if start > 0 else work.entering[j]
                    weights[j] = before * work.leaving[start * stride + j]
            else:
                _fill_labels(specification, start, label, work, row)
                share(items, row, n_labels, _began(n_labels, start, 0), 1)
            label = draw(weights, n_labels, uniforms[sample, 2 * start])
            n = min(longest, length - start)
            if is_scaled:
                at = first_segment(length, longest, start) * stride + label
                for k in range(n):
                    weights[k] = work.rows[at + k * stride]
            else:
                _fill_lengths(specification, length, start, label, work, row)
                share(items, row, n, _ended(n_labels, start + 1, label), 2 * n_labels)
            after = start + 1 + draw(weights, n, uniforms[sample, 2 * start + 1])
            _write(tags[sample], start, after, label)
            start = after
    return log_total
