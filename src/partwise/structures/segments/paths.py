# mypy: ignore-errors
"""The k best segmentations of a semi-Markov chain, and samples from it, on logarithms."""

from __future__ import annotations

import math

import numpy as np

from partwise.compiled.dispatch import entry, inner
from partwise.structures.segments.forward_backward_log import log_choices, log_endings
from partwise.structures.segments.scores import fill_edges, fill_rows, first_segment


@inner
def _insert(values, places, ranks, value, place, rank):  # type: ignore
    """Put a candidate behind all that are at least as good; the last one drops out."""
    at = values.size - 1
    while at > 0 and value > values[at - 1]:
        values[at], places[at], ranks[at] = values[at - 1], places[at - 1], ranks[at - 1]
        at -= 1
    values[at], places[at], ranks[at] = value, place, rank


@inner
def _write(tags, first, last, label):  # type: ignore
    """Tags of one segment, `last` not included: 2·label where it begins, 2·label + 1 where it goes on."""
    for t in range(first, last):
        tags[t] = 2 * label + (1 if t > first else 0)


@entry(allocates=True)
def best_segmentations(specification, length, scores, work, tags, values):  # type: ignore
    """Fill `tags` (n_best, n) and `values` (n_best,), best first; returns how many there are.

    Every boundary and label keeps its n_best best beginnings, that end with a segment of this label (`ended`, with
    the segment's length) and that are to go on with one (`entered`, with the label before). Ties go to the shorter
    segment or the smaller label, then the better rank, so that a shorter list is always the beginning of a longer one.
    """
    n_best, n_labels, stride = len(values), specification.n_labels, specification.stride
    longest = min(specification.max_length, length)
    fill_rows(specification, length, scores, work)
    fill_edges(specification, length, scores, work)
    ended = np.full((length + 1, n_labels, n_best), -np.inf)
    entered = np.full((length + 1, n_labels, n_best), -np.inf)
    places = np.zeros((2, length + 1, n_labels, n_best), np.int32)
    ranks = np.zeros((2, length + 1, n_labels, n_best), np.int32)
    for j in range(n_labels):
        entered[0, j, 0] = 0.0 if specification.allowed_start[j] > 0.0 else -np.inf
    for end in range(1, length + 1):
        for j in range(n_labels):
            for k in range(min(longest, end)):
                start = end - 1 - k
                own = work.rows[(first_segment(length, longest, start) + k) * stride + j]
                for rank in range(n_best):
                    value = entered[start, j, rank] + own
                    if value == -np.inf or not value > ended[end, j, n_best - 1]:
                        break
                    _insert(ended[end, j], places[0, end, j], ranks[0, end, j], value, k + 1, rank)
        for j in range(n_labels):
            for i in range(n_labels):
                for rank in range(n_best):
                    value = ended[end, i, rank] + work.edges[i * stride + j]
                    if value == -np.inf or not value > entered[end, j, n_best - 1]:
                        break
                    _insert(entered[end, j], places[1, end, j], ranks[1, end, j], value, i, rank)
    return _trace(specification, ended, places, ranks, tags, values)


@inner(allocates=True)
def _trace(specification, ended, places, ranks, tags, values):  # type: ignore
    n_best, length = tags.shape
    labels, last_ranks = np.zeros(n_best, np.int32), np.zeros(n_best, np.int32)
    values[:] = -np.inf
    for j in range(specification.n_labels):
        for rank in range(n_best):
            value = ended[length, j, rank]
            if specification.allowed_end[j] == 0.0 or not value > values[n_best - 1]:
                break
            _insert(values, labels, last_ranks, value, j, rank)
    found = 0
    while found < n_best and values[found] > -np.inf:
        end, label, rank = length, np.int64(labels[found]), np.int64(last_ranks[found])
        while end > 0:
            start = end - places[0, end, label, rank]
            rank = np.int64(ranks[0, end, label, rank])
            _write(tags[found], start, end, label)
            end = start
            if end > 0:
                before = np.int64(places[1, end, label, rank])
                rank = np.int64(ranks[1, end, label, rank])
                label = before
        found += 1
    return found


@entry
def sample_segmentations(specification, length, scores, work, uniforms, tags):  # type: ignore
    """Fill `tags` (n, length) from `uniforms` (n, 2·length) in [0, 1); returns the log-partition.

    The next label is drawn given the one before, then the segment's length given the label, by what may follow.
    """
    n_labels, stride = specification.n_labels, specification.stride
    longest = min(specification.max_length, length)
    fill_rows(specification, length, scores, work)
    fill_edges(specification, length, scores, work)
    log_total = log_endings(specification, length, work)
    if log_total == -np.inf:
        return log_total
    for n in range(len(tags)):
        start, label = 0, 0
        while start < length:
            before = log_total if start == 0 else work.backward[start * stride + label]
            log_choices(specification, start, label, work)
            # The last possible choice takes what rounding leaves over.
            left, chosen = uniforms[n, 2 * start], -1
            for j in range(n_labels):
                if work.sums[j] > -np.inf and (chosen < 0 or left >= 0.0):
                    chosen = j
                    left -= math.exp(work.sums[j] - before)
            label = chosen
            left, chosen = uniforms[n, 2 * start + 1], -1
            segment = first_segment(length, longest, start)
            for k in range(min(longest, length - start)):
                value = (
                    work.rows[(segment + k) * stride + label]
                    + work.backward[(start + k + 1) * stride + label]
                )
                if value > -np.inf and (chosen < 0 or left >= 0.0):
                    chosen = k
                    left -= math.exp(value - work.leaving[start * stride + label])
            _write(tags[n], start, start + chosen + 1, label)
            start += chosen + 1
    return log_total
