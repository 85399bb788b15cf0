# mypy: ignore-errors
"""Semi-Markov chains: scaled forward–backward in O(n·D·L + n·L²).

Sarawagi and Cohen (2004), but the sum over the label before is taken once per boundary, not once per segment.
Boundaries lie before position 0 … n. Sums run on exponentials, and the row of each boundary is divided by its total.
If a number comes near the smallest, the example is done again on logarithms (`recursion.py`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from partwise.compiled.boundary import Reals
from partwise.compiled.dispatch import inner
from partwise.compiled.oracles import Oracle
from partwise.compiled.simd import LANES, combine_rows, exponential_row, maximum, padded
from partwise.structures.scaling import FAINT, INVERSE_LIFT, LIFT, SMALLEST
from partwise.structures.segments.recursion import best_segmentation, expectations_in_logs, scaled_sums
from partwise.structures.segments.scores import (
    add_token_counts,
    fill_edges,
    fill_rows,
    first_segment,
    first_transition,
    n_segments,
)


class SemiMarkovSpecification(NamedTuple):
    """What all examples of a problem share.

    Attributes
    ----------
    n_labels, stride : int
        L, and L padded to whole vectors.
    max_length : int
        D.
    tokens : bool
        Whether positions have parts, too.
    too_long : ndarray (max_length * stride,)
        −inf if a segment of this length may not have this label, else 0.
    allowed : ndarray (n_labels * stride,)
        1 where label j may follow label i, else 0.
    allowed_start, allowed_end : ndarray (stride,)
        1 where a label may stand first, last.
    """

    n_labels: int
    stride: int
    max_length: int
    tokens: bool
    too_long: Reals
    allowed: Reals
    allowed_start: Reals
    allowed_end: Reals


class SemiMarkovWorkspace(NamedTuple):
    """Rows of `stride` numbers: one a segment, one a pair of labels, one a boundary between positions.

    `cells` holds `forward` and `entering`, one behind the other. `sums` has one number for each label or length,
    `room` two rows and one for each length.
    """

    rows: Reals
    edges: Reals
    transposed: Reals
    forward: Reals
    entering: Reals
    backward: Reals
    leaving: Reals
    log_scales: Reals
    inverse_totals: Reals
    sums: Reals
    cells: Reals
    room: Reals


def semi_markov_specification(
    n_labels: int,
    tokens: bool,
    label_lengths: np.ndarray,
    allowed: np.ndarray | None = None,
    allowed_start: np.ndarray | None = None,
    allowed_end: np.ndarray | None = None,
) -> SemiMarkovSpecification:
    """Pad the masks, boolean (n_labels, n_labels) and (n_labels,); None allows everything."""
    stride, max_length = padded(n_labels), int(label_lengths.max())

    def pad(mask: np.ndarray | None, shape: tuple[int, ...]) -> np.ndarray:
        rows = np.zeros((*shape[:-1], stride))
        rows[..., :n_labels] = 1.0 if mask is None else mask
        return rows.ravel()

    too_long = np.zeros((max_length, stride))
    too_long[:, :n_labels][np.arange(max_length)[:, None] >= label_lengths] = -np.inf
    return SemiMarkovSpecification(
        n_labels,
        stride,
        max_length,
        tokens,
        too_long.ravel(),
        pad(allowed, (n_labels, n_labels)),
        pad(allowed_start, (n_labels,)),
        pad(allowed_end, (n_labels,)),
    )


def semi_markov_workspace(specification: SemiMarkovSpecification, longest: int) -> SemiMarkovWorkspace:
    stride, block = specification.stride, specification.n_labels * specification.stride
    n_rows = int(n_segments(np.array([longest]), specification.max_length)[0])
    boundaries = (longest + 1) * stride
    n_lengths, cells = min(specification.max_length, longest), np.zeros(2 * boundaries)
    return SemiMarkovWorkspace(
        np.zeros(n_rows * stride + LANES),
        np.zeros(block),
        np.zeros(block),
        cells[:boundaries],
        cells[boundaries:],
        np.zeros(boundaries),
        np.zeros(boundaries),
        np.zeros(longest + 1),
        np.zeros(longest + 1),
        np.zeros(max(stride, n_lengths) + LANES),
        cells,
        np.zeros((2 + n_lengths) * stride),
    )


@inner
def _edge_exponentials(specification, work):  # type: ignore
    """Replace the scores of transitions by exponentials; returns the shift taken out, −inf where none is possible."""
    n_labels, stride, edges = specification.n_labels, specification.stride, work.edges
    shift = maximum(edges, 0, n_labels * stride)
    for i in range(n_labels):
        exponential_row(edges, i * stride, edges, i * stride, n_labels, stride, max(shift, -1e300))
    return shift


@inner
def _clear(array, start, stride):  # type: ignore
    for j in range(stride):
        array[start + j] = 0.0


@inner
def _largest_ending_at(specification, length, end, offsets, work):  # type: ignore
    """The largest score of a segment that ends at a boundary, with what lies before it."""
    n_labels, stride = specification.n_labels, specification.stride
    longest = min(specification.max_length, length)
    top = -np.inf
    for k in range(min(longest, end)):
        start = end - 1 - k
        if offsets[start] > -np.inf:
            segment = first_segment(length, longest, start) + k
            top = max(top, maximum(work.rows, segment * stride, n_labels) + offsets[start])
    return top


@inner
def _forward(specification, length, work):  # type: ignore
    """Scaled forward rows; returns log Z, or NaN if something underflows or nothing is possible.

    f_e(j) = Σ_k g_{e-k}(j) exp(s(e - k, k, j)) / c_e,  g_s(j) = Σ_i f_s(i) m(i, j),  c_e such that f_e sums to one.
    The logarithm of everything before a segment from s on is `log_scales[s]`; −inf if no segmentation has a
    boundary at s; such a boundary is left out everywhere. Exponentials replace the scores in `work.rows`.
    """
    n_labels, stride = specification.n_labels, specification.stride
    forward, entering, rows = work.forward, work.entering, work.rows
    offsets, inverse = work.log_scales, work.inverse_totals
    longest, shift = min(specification.max_length, length), _edge_exponentials(specification, work)
    log_total = np.nan
    offsets[0] = 0.0
    for j in range(stride):
        entering[j] = specification.allowed_start[j]
    for end in range(1, length + 1):
        here = end * stride
        _clear(forward, here, stride)
        top = _largest_ending_at(specification, length, end, offsets, work)
        for k in range(min(longest, end)):
            start = end - 1 - k
            if not offsets[start] > -np.inf:
                continue
            row, before = (first_segment(length, longest, start) + k) * stride, start * stride
            if top == -np.inf:
                _clear(rows, row, stride)
                continue
            exponential_row(rows, row, rows, row, n_labels, stride, top - offsets[start])
            for j in range(stride):
                forward[here + j] += rows[row + j] * entering[before + j]
        if top == -np.inf:
            _clear(entering, here, stride)
            offsets[end], inverse[end], log_total = -np.inf, 0.0, np.nan
            continue
        if end == length:
            for j in range(stride):
                forward[here + j] *= specification.allowed_end[j]
        total = 0.0
        for j in range(stride):
            total += forward[here + j]
        if not total > SMALLEST:
            return np.nan
        inverse[end] = 1.0 / total
        for j in range(stride):
            forward[here + j] *= inverse[end]
        combine_rows(entering, here, forward, here, 1, n_labels, work.edges, 0, stride)
        log_total = top + math.log(total)
        offsets[end] = log_total + shift
    return log_total


@inner
def _backward(specification, length, counts, work):  # type: ignore
    """Backward rows and all expected counts; returns the total of the first boundary (1 if all went well).

    o_s(j) = Σ_k exp(s(s, k, j)) b_{s+k}(j) / c_{s+k},  b_s(i) = Σ_j m(i, j) o_s(j);
    counts of segments g_s(j) exp(s(s, k, j)) b_{s+k}(j) / c_{s+k}.
    """
    n_labels, stride = specification.n_labels, specification.stride
    entering, backward, leaving, rows = work.entering, work.backward, work.leaving, work.rows
    longest, total = min(specification.max_length, length), 0.0
    for i in range(n_labels):
        for j in range(n_labels):
            work.transposed[j * stride + i] = work.edges[i * stride + j]
    for j in range(stride):
        backward[length * stride + j] = specification.allowed_end[j] * work.inverse_totals[length] * LIFT
    for start in range(length - 1, -1, -1):
        here, segment = start * stride, first_segment(length, longest, start)
        n_here = min(longest, length - start)
        _clear(leaving, here, stride)
        if not work.log_scales[start] > -np.inf:
            _clear(backward, here, stride)
            for k in range(segment * n_labels, (segment + n_here) * n_labels):
                counts[k] = 0.0
            continue
        for k in range(n_here):
            row, after = (segment + k) * stride, (start + k + 1) * stride
            for j in range(stride):
                rows[row + j] *= backward[after + j]
            for j in range(stride):
                leaving[here + j] += rows[row + j]
            for j in range(n_labels):
                counts[(segment + k) * n_labels + j] = rows[row + j] * entering[here + j] * INVERSE_LIFT
        if start > 0:
            combine_rows(backward, here, leaving, here, 1, n_labels, work.transposed, 0, stride)
            for j in range(stride):
                backward[here + j] *= work.inverse_totals[start]
    for j in range(n_labels):
        total += entering[j] * leaving[j]
    _transition_counts(specification, length, counts, work)
    return total * INVERSE_LIFT


@inner
def _transition_counts(specification, length, counts, work):  # type: ignore
    """Σ_s f_s(i) m(i, j) o_s(j) over the boundaries within the sentence."""
    n_labels, stride = specification.n_labels, specification.stride
    first = first_transition(specification, length)
    for i in range(n_labels):
        combine_rows(work.sums, 0, work.forward, stride + i, stride, length - 1, work.leaving, stride, stride)
        for j in range(n_labels):
            counts[first + i * n_labels + j] = work.sums[j] * work.edges[i * stride + j] * INVERSE_LIFT


@inner
def _anything_lost(specification, length, work):  # type: ignore
    """Whether underflow may have taken part of a forward entry: it is tiny and no mask explains it.

    Such a label can still decide the sum later. Only the backward rows tell.
    """
    faint = 0
    for end in range(1, length + 1):
        limit = FAINT * work.inverse_totals[end]
        for j in range(specification.n_labels):
            closed = (end == 1 and specification.allowed_start[j] == 0.0) or (
                end == length and specification.allowed_end[j] == 0.0
            )
            faint += work.forward[end * specification.stride + j] < limit and not closed
    return faint > 0


@scaled_sums.register(SemiMarkovSpecification)
@inner
def semi_markov_scaled_sums(specification, length, scores, counts, work):  # type: ignore
    fill_rows(specification, length, scores, work)
    fill_edges(specification, length, scores, work)
    log_total = _forward(specification, length, work)
    if log_total == log_total and abs(_backward(specification, length, counts, work) - 1.0) < 1e-9:
        return log_total  # false for NaN and inf, which reach the first boundary from anywhere
    return np.nan


@inner
def semi_markov_expectations(specification, shape, scores, counts, work):  # type: ignore
    length = np.int64(shape[0])
    log_total = semi_markov_scaled_sums(specification, length, scores, counts, work)
    if np.isnan(log_total):
        log_total = expectations_in_logs(specification, length, scores, counts, work)
    if specification.tokens:
        add_token_counts(specification, length, counts)
    return log_total


@inner(allocates=True)
def semi_markov_log_partition(specification, shape, scores, work):  # type: ignore
    length = np.int64(shape[0])
    fill_rows(specification, length, scores, work)
    fill_edges(specification, length, scores, work)
    log_total = _forward(specification, length, work)
    if log_total == log_total and not _anything_lost(specification, length, work):
        return log_total
    n_labels = specification.n_labels
    counts = np.empty(first_transition(specification, length) + n_labels * n_labels)
    if log_total == log_total and abs(_backward(specification, length, counts, work) - 1.0) < 1e-9:
        return log_total
    return expectations_in_logs(specification, length, scores, counts, work)


@inner
def semi_markov_best(specification, shape, scores, counts, work):  # type: ignore
    return best_segmentation(specification, np.int64(shape[0]), scores, counts, work)


SEMI_MARKOV = Oracle(
    "semi_markov",
    SemiMarkovSpecification,
    SemiMarkovWorkspace,
    semi_markov_expectations,
    semi_markov_log_partition,
    semi_markov_best,
)
