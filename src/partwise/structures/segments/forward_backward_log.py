# mypy: ignore-errors
"""Forward–backward of a semi-Markov chain on logarithms: slow, and right for any scores."""

from __future__ import annotations

import math

import numpy as np

from partwise.compiled.dispatch import inner
from partwise.structures.segments.scores import fill_edges, fill_rows, first_segment, first_transition


@inner
def log_endings(specification, length, work):  # type: ignore
    """Fill the boundaries' rows of `work.leaving` and `work.backward` from the scores in `work.rows` and `work.edges`.

    leaving_s(j) = log Σ over what follows a segment of label j that begins at s, itself included;
    backward_s(i) = log Σ over what follows boundary s after a segment of label i. Returns log Z.
    """
    n_labels, stride = specification.n_labels, specification.stride
    leaving, backward, rows = work.leaving, work.backward, work.rows
    longest = min(specification.max_length, length)
    for j in range(n_labels):
        backward[length * stride + j] = 0.0 if specification.allowed_end[j] > 0.0 else -np.inf
    for start in range(length - 1, -1, -1):
        here, segment = start * stride, first_segment(length, longest, start)
        for j in range(n_labels):
            top = -np.inf
            for k in range(min(longest, length - start)):
                top = max(top, rows[(segment + k) * stride + j] + backward[(start + k + 1) * stride + j])
            total = 0.0
            if top > -np.inf:
                for k in range(min(longest, length - start)):
                    x = rows[(segment + k) * stride + j] + backward[(start + k + 1) * stride + j]
                    total += math.exp(x - top)
            leaving[here + j] = top + math.log(total) if total > 0.0 else -np.inf
        if start > 0:
            for i in range(n_labels):
                top = log_choices(specification, start, i, work)
                total = _exponentials(work.sums, n_labels, top)
                backward[here + i] = top + math.log(total) if total > 0.0 else -np.inf
    top = log_choices(specification, 0, 0, work)
    total = _exponentials(work.sums, n_labels, top)
    return top + math.log(total) if total > 0.0 else -np.inf


@inner
def log_choices(specification, start, before, work):  # type: ignore
    """Fill `work.sums` with the scores of going on to each label at a boundary; returns the largest."""
    stride, top = specification.stride, -np.inf
    for j in range(specification.n_labels):
        if start > 0:
            work.sums[j] = work.leaving[start * stride + j] + work.edges[before * stride + j]
        else:
            work.sums[j] = work.leaving[j] if specification.allowed_start[j] > 0.0 else -np.inf
        top = max(top, work.sums[j])
    return top


@inner
def _exponentials(row, width, top):  # type: ignore
    """Replace the row by exponentials relative to `top`; returns their sum, 0 where all are −inf."""
    total = 0.0
    if top == -np.inf:
        return total
    for j in range(width):
        row[j] = math.exp(row[j] - top)
    for j in range(width):
        total += row[j]
    return total


@inner
def semi_markov_expectations_in_logs(specification, length, scores, counts, work):  # type: ignore
    """Same answers as ``semi_markov_expectations``, of segments and transitions; −inf and zero counts where no
    segmentation is allowed.

    Endings first. Probabilities are then pushed forward along p(j | i) and p(k | j): whatever rounding did to the
    endings, the counts are those of one distribution, so that huge scores times counts still add up to an entropy.
    """
    n_labels, stride = specification.n_labels, specification.stride
    fill_rows(specification, length, scores, work)
    fill_edges(specification, length, scores, work)
    edge = first_transition(specification, length)
    for k in range(edge + n_labels * n_labels):
        counts[k] = 0.0
    log_total = log_endings(specification, length, work)
    if log_total == -np.inf:
        return log_total
    reached, chosen = work.forward, work.entering  # probabilities: i before a boundary, j behind it
    for k in range((length + 1) * stride):
        reached[k], chosen[k] = 0.0, 0.0
    for start in range(length):
        here = start * stride
        for i in range(n_labels if start > 0 else 1):
            probability = reached[here + i] if start > 0 else 1.0
            if probability == 0.0:
                continue
            top = log_choices(specification, start, i, work)
            probability /= _exponentials(work.sums, n_labels, top)
            for j in range(n_labels):
                chosen[here + j] += probability * work.sums[j]
                if start > 0:
                    counts[edge + i * n_labels + j] += probability * work.sums[j]
        for j in range(n_labels):
            if chosen[here + j] > 0.0:
                _spread(specification, length, start, j, chosen[here + j], counts, work)
    return log_total


@inner
def _spread(specification, length, start, label, probability, counts, work):  # type: ignore
    """Share the probability that a segment of this label begins here among its lengths; `counts` holds weights
    before their sum is known."""
    n_labels, stride, reached = specification.n_labels, specification.stride, work.forward
    longest = min(specification.max_length, length)
    segment, n_here = first_segment(length, longest, start), min(longest, length - start)
    total = 0.0
    for k in range(n_here):
        after = (start + k + 1) * stride + label
        x = work.rows[(segment + k) * stride + label] + work.backward[after]
        counts[(segment + k) * n_labels + label] = math.exp(x - work.leaving[start * stride + label])
    for k in range(n_here):
        total += counts[(segment + k) * n_labels + label]
    for k in range(n_here):
        count = counts[(segment + k) * n_labels + label] * (probability / total)
        counts[(segment + k) * n_labels + label] = count
        reached[(start + k + 1) * stride + label] += count
