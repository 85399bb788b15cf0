# mypy: ignore-errors
"""The recursion of a semi-Markov chain on scores, written once for all that an item may keep.

Boundary s lies before position s. Two cells stand for what comes before boundary s: d_s(j) if a segment of label j ends
there, g_s(j) if one of label j begins there:

    d_e(j) = ⊕_k g_{e-k}(j) ⊗ score(e − k, k, j),    g_s(j) = ⊕_i d_s(i) ⊗ m(i, j),    g_0(j) = 1 if j may stand first.

With ``MAXIMA`` this is Viterbi's algorithm. ``LOGS`` gives sums if the scaled sums of `forward_backward.py` underflow,
and lists of items (`structures/ranked.py`) the k best. :func:`trace` goes back to one segmentation, the best or a
sample, and :func:`expectations_in_logs` back to all.
"""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import chosen_by_type, entry, inner
from partwise.compiled.simd import LANES
from partwise.structures.ranked import rank_cell, ranked
from partwise.structures.segments.scores import (
    add_token_counts,
    fill_edges,
    fill_rows,
    first_segment,
    first_transition,
)
from partwise.structures.semirings import (
    BEST,
    LINEAR,
    LOGS,
    MAXIMA,
    SHARED,
    Drawn,
    choose,
    finish_row,
    join_rows,
    offer_row,
    set_cell,
    share,
    start_row,
    sum_of,
    times,
)


@chosen_by_type
def scaled_sums(specification, length, scores, counts, work):  # type: ignore
    """Log-partition and counts of segments and transitions from scaled products, NaN if they underflow."""


# -- from left to right -------------------------------------------------------------------------------
#
# ``work.cells`` has all d_e(j), then all g_s(j): ``work.forward`` and ``work.entering``.


@inner
def forward(kind, specification, length, scores, work):  # type: ignore
    """Make all cells: those of ``MAXIMA`` and ``LOGS`` in ``work.cells``, lists in `kind`."""
    n_labels, stride, cells, begins = (
        specification.n_labels,
        specification.stride,
        work.cells,
        work.forward.size,
    )
    longest = min(specification.max_length, length)
    fill_rows(specification, length, scores, work)
    fill_edges(specification, length, scores, work)
    for j in range(n_labels):
        set_cell(kind, cells, begins + j, 0.0 if specification.allowed_start[j] > 0.0 else -np.inf)
    for end in range(1, length + 1):
        here, n_here = end * stride, min(longest, end)
        start_row(kind, cells, here, stride)
        for k in range(n_here):
            start = end - 1 - k
            row = (first_segment(length, longest, start) + k) * stride
            offer_row(
                kind, cells, here, k, cells, begins + start * stride, work.rows, row, stride, n_labels, work.room
            )  # fmt: skip
        finish_row(kind, cells, here, n_here, stride, n_labels, work.room)
        if end < length:
            join_rows(
                kind, cells, begins + here, cells, here, 1, n_labels, work.edges, 0, stride, n_labels, work.room
            )  # fmt: skip


@inner
def _fill_last(semiring, specification, length, work, row):  # type: ignore
    """The labels of the last segment, zero if they may not stand last. Returns their number."""
    here = length * specification.stride
    for j in range(specification.n_labels):
        row[j] = work.forward[here + j] if specification.allowed_end[j] > 0.0 else semiring.zero
    return specification.n_labels


@inner
def _fill_lengths(semiring, specification, length, end, label, work, row):  # type: ignore
    """The lengths of a segment of `label` that ends at a boundary. Returns their number."""
    longest, stride = min(specification.max_length, length), specification.stride
    count = min(longest, end)
    for k in range(count):
        start = end - 1 - k
        own = work.rows[(first_segment(length, longest, start) + k) * stride + label]
        row[k] = times(semiring, own, work.entering[start * stride + label])
    return count


@inner
def _fill_labels(semiring, specification, start, label, work, row):  # type: ignore
    """The labels of the segment before one of `label` that begins at a boundary. Returns their number."""
    stride = specification.stride
    for i in range(specification.n_labels):
        row[i] = times(semiring, work.forward[start * stride + i], work.edges[i * stride + label])
    return specification.n_labels


@inner
def _clear(specification, length, counts):  # type: ignore
    for k in range(first_transition(specification, length) + specification.n_labels**2):
        counts[k] = 0.0


# -- from right to left: one segmentation -------------------------------------------------------------


@inner
def _write(tags, first, last, label):  # type: ignore
    """Tags of one segment, `last` not included: 2·label at its first position, 2·label + 1 at the others."""
    for t in range(first, last):
        tags[t] = 2 * label + (1 if t > first else 0)


@inner
def _choose_last(how, semiring, specification, length, work):  # type: ignore
    count = _fill_last(semiring, specification, length, work, work.sums)
    return choose(how, semiring, work.sums, count, 2 * length - 1)


@inner
def trace(how, semiring, specification, length, label, tags, counts, work):  # type: ignore
    """Fill `tags` (length,) with one segmentation whose last label is given, and add its parts to `counts`."""
    n_labels, longest, end, row = (
        specification.n_labels,
        min(specification.max_length, length),
        length,
        work.sums,
    )
    edge = first_transition(specification, length)
    while end > 0:
        count = _fill_lengths(semiring, specification, length, end, label, work, row)
        k = choose(how, semiring, row, count, 2 * end - 2)
        start = end - 1 - k
        counts[(first_segment(length, longest, start) + k) * n_labels + label] += 1.0
        _write(tags, start, end, label)
        if start > 0:
            count = _fill_labels(semiring, specification, start, label, work, row)
            before = choose(how, semiring, row, count, 2 * start - 1)
            counts[edge + before * n_labels + label] += 1.0
            label = before
        end = start


@inner
def best_segmentation(specification, length, scores, counts, work):  # type: ignore
    """The best score; writes the part counts of a segmentation that has it, −inf and zeros if none is possible."""
    forward(MAXIMA, specification, length, scores, work)
    _clear(specification, length, counts)
    label = _choose_last(BEST, MAXIMA, specification, length, work)
    value = work.sums[label]
    if value > -np.inf:
        trace(
            BEST, MAXIMA, specification, length, label, work.log_scales, counts, work
        )  # nobody reads the tags
    if specification.tokens:
        add_token_counts(specification, length, counts)
    return value


@inner
def _draw(semiring, specification, length, uniforms, tags, counts, work):  # type: ignore
    for sample in range(len(tags)):
        how = Drawn(uniforms[sample])
        label = _choose_last(how, semiring, specification, length, work)
        trace(how, semiring, specification, length, label, tags[sample], counts, work)


@entry(allocates=True)
def sample_segmentations(specification, length, scores, work, uniforms, tags):  # type: ignore
    """Fill `tags` (n, length) from `uniforms` (n, 2·length) in [0, 1); returns the log-partition.

    From right to left, a segment's length is drawn given its label, then the label before.
    """
    counts = np.empty(scores.size)
    log_total = scaled_sums(specification, length, scores, counts, work)
    if log_total == log_total:
        # Going back, this has multiplied all segments of a label that end at a boundary by the same number.
        _draw(LINEAR, specification, length, uniforms, tags, counts, work)
        return log_total
    forward(LOGS, specification, length, scores, work)
    count = _fill_last(LOGS, specification, length, work, work.sums)
    log_total = sum_of(LOGS, work.sums, count)
    if log_total > -np.inf:
        _draw(LOGS, specification, length, uniforms, tags, counts, work)
    return log_total


# -- from right to left: all segmentations ------------------------------------------------------------


@inner(allocates=True)
def expectations_in_logs(specification, length, scores, counts, work):  # type: ignore
    """The log-partition of any scores; writes counts of segments and transitions.

    −inf if no segmentation is possible, and zero counts.
    """
    n_labels, stride, edge = (
        specification.n_labels,
        specification.stride,
        first_transition(specification, length),
    )
    longest = min(specification.max_length, length)
    forward(LOGS, specification, length, scores, work)
    _clear(specification, length, counts)
    row = np.zeros(max(n_labels, longest) + LANES)
    count = _fill_last(LOGS, specification, length, work, row)
    log_total = sum_of(LOGS, row, count)
    if log_total == -np.inf:
        return log_total
    ended, began = np.zeros((length + 1) * stride), np.zeros((length + 1) * stride)  # probabilities of cells
    share(SHARED, LOGS, row, count, 0)
    for j in range(n_labels):
        ended[length * stride + j] = row[j]
    for end in range(length, 0, -1):
        for j in range(n_labels):
            probability = began[end * stride + j]
            if probability > 0.0:
                share(SHARED, LOGS, row, _fill_labels(LOGS, specification, end, j, work, row), 0)
                for i in range(n_labels):
                    ended[end * stride + i] += probability * row[i]
                    counts[edge + i * n_labels + j] += probability * row[i]
        for j in range(n_labels):
            probability = ended[end * stride + j]
            if probability > 0.0:
                count = _fill_lengths(LOGS, specification, length, end, j, work, row)
                share(SHARED, LOGS, row, count, 0)
                for k in range(count):
                    start, own = end - 1 - k, probability * row[k]
                    began[start * stride + j] += own
                    counts[(first_segment(length, longest, start) + k) * n_labels + j] = own
    return log_total


# -- the k best ---------------------------------------------------------------------------------------


@entry(allocates=True)
def best_segmentations(specification, length, scores, work, tags, values):  # type: ignore
    """Fill `tags` (n_best, n) and `values` (n_best,), best first; returns how many there are."""
    stride, begins, k, found = specification.stride, work.forward.size, values.size, 0
    whole = work.cells.size
    lists = ranked(whole + 1, k)
    forward(lists, specification, length, scores, work)
    for j in range(specification.n_labels):
        if specification.allowed_end[j] > 0.0:
            rank_cell(lists, whole, length * stride + j, 0.0)
    while found < k and lists.values[whole * k + found] > -np.inf:
        values[found] = lists.values[whole * k + found]
        entry, end = lists.sources[whole * k + found], length
        while end > 0:
            label = entry // k % stride
            began = lists.sources[entry]
            start = (began // k - begins) // stride
            _write(tags[found], start, end, label)
            entry, end = lists.sources[began], start
        found += 1
    return found
