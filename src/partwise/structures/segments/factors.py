# mypy: ignore-errors
"""The recursion of segments whose scores are sums over positions plus a score of label and length.

With P_t(j) the sum of the scores "j continues" before position t, a segment of label j from boundary s to e scores

    begin_s(j) + P_e(j) − P_{s+1}(j) + duration(e − s, j).

So the sum over lengths is, for every label, a sum of products of two rows, without exponentials:

    u_s(j) = g_s(j) + begin_s(j) − P_{s+1}(j),    f_e(j) = P_e(j) + log Σ_d exp(u_{e−d}(j)) exp(duration(d, j)),
    g_s(j) = log Σ_i exp(f_s(i) + m(i, j)),    g_0(j) = 0 if j may stand first.

f and g are logarithms, exact for any scores. In the window of the last D boundaries exp(u) is kept relative to a number
of each label. If a sum of products becomes small, it is taken on logarithms, and the label gets another such number.
Time is n·(D·L + L²), memory n·L. The way back is the same, with v_e(j) = b_e(j) + P_e(j).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from partwise.compiled.boundary import Integers, Reals
from partwise.compiled.dispatch import entry, inner
from partwise.compiled.oracles import Oracle
from partwise.compiled.simd import LANES, exponential_row, maximum
from partwise.structures.ranked import rank_cell, ranked
from partwise.structures.segments.recursion import _write
from partwise.structures.semirings import BEST, LOGS, MAXIMA, Drawn, choose, join_rows, set_cell

# Products are trusted if their sum is above this. What they leave out is below 1e-308 then.
_LEAST = 1e-150
_MOST = 300.0  # The largest logarithm of a number of the window.


class FactoredSpecification(NamedTuple):
    """What all examples of a problem share; see `SemiMarkovSpecification`."""

    n_labels: int
    stride: int
    max_length: int
    too_long: Reals
    allowed: Reals
    allowed_start: Reals
    allowed_end: Reals


class FactoredWorkspace(NamedTuple):
    """Rows of `stride` numbers: for each boundary or position, each length, each label; `row` has one for a choice.

    `blocked` has the last position before a boundary at which a label cannot continue, −1 if there is none.
    """

    begins: Reals
    prefix: Reals
    blocked: Integers
    forward: Reals
    entering: Reals
    backward: Reals
    leaving: Reals
    window: Reals
    durations: Reals
    log_durations: Reals
    edges: Reals
    edge_factors: Reals
    tops: Reals
    refs: Reals
    sums: Reals
    factors: Reals
    inside: Reals
    row: Reals


def factored_workspace(specification: FactoredSpecification, longest: int) -> FactoredWorkspace:
    stride, n_labels = specification.stride, specification.n_labels
    rows, table = (longest + 1) * stride, specification.max_length * stride
    labels = [np.zeros(stride + LANES) for _ in range(5)]
    return FactoredWorkspace(
        np.zeros(rows), np.zeros(rows), np.zeros(rows, np.int64), *(np.zeros(rows) for _ in range(5)),
        np.zeros(table), np.zeros(table), np.zeros(n_labels * stride), np.zeros(n_labels * stride), *labels,
        np.zeros(max(specification.max_length, stride) + LANES),
    )  # fmt: skip


@inner
def first_duration(specification, length):  # type: ignore
    return 2 * length * specification.n_labels


@inner
def first_edge(specification, length):  # type: ignore
    return (2 * length + specification.max_length) * specification.n_labels


# -- scores -------------------------------------------------------------------------------------------


@inner
def read_scores(specification, length, scores, work):  # type: ignore
    """Fill the workspace with scores. Returns the sum of what was taken off all labels of a position."""
    n_labels, stride, prefix = specification.n_labels, specification.stride, work.prefix
    shifts = 0.0
    for j in range(stride):
        prefix[j] = 0.0
        work.blocked[j] = -1
    for t in range(length):
        at, here = 2 * t * n_labels, t * stride
        top = maximum(scores, at, (1 if t == 0 else 2) * n_labels)
        shift = top if top > -np.inf else 0.0
        shifts += shift
        for j in range(stride):
            work.begins[here + j] = scores[at + j] - shift if j < n_labels else -np.inf
            own = scores[at + n_labels + j] - shift if j < n_labels and t > 0 else 0.0
            is_open = own > -np.inf
            prefix[here + stride + j] = prefix[here + j] + (own if is_open else 0.0)
            work.blocked[here + stride + j] = work.blocked[here + j] if is_open else t
    _read_durations(specification, length, scores, work)
    return shifts


@inner
def _read_durations(specification, length, scores, work):  # type: ignore
    n_labels, stride, table = specification.n_labels, specification.stride, work.log_durations
    first, edge = first_duration(specification, length), first_edge(specification, length)
    for j in range(stride):
        work.tops[j] = -np.inf
    for k in range(specification.max_length):
        for j in range(stride):
            own = scores[first + k * n_labels + j] if j < n_labels else -np.inf
            table[k * stride + j] = own + specification.too_long[k * stride + j]
            work.tops[j] = max(work.tops[j], table[k * stride + j])
    for j in range(stride):
        work.tops[j] = work.tops[j] if work.tops[j] > -np.inf else 0.0
    for k in range(specification.max_length):
        for j in range(stride):
            table[k * stride + j] -= work.tops[j]
        exponential_row(work.durations, k * stride, table, k * stride, n_labels, stride, 0.0)
    for i in range(n_labels):
        for j in range(stride):
            is_allowed = j < n_labels and specification.allowed[i * stride + j] > 0.0
            work.edges[i * stride + j] = scores[edge + i * n_labels + j] if is_allowed else -np.inf
    shift = _edge_shift(specification, work)
    for i in range(n_labels):
        exponential_row(work.edge_factors, i * stride, work.edges, i * stride, n_labels, stride, shift)


@inner
def _edge_shift(specification, work):  # type: ignore
    return max(maximum(work.edges, 0, specification.n_labels * specification.stride), -1e300)


# -- sums over lengths: `way` is −1 for the segments that end at a boundary, 1 for those that begin there


@inner
def _potential(specification, way, at, j, work):  # type: ignore
    """u or v of a boundary."""
    here = at * specification.stride + j
    if way < 0:
        return work.entering[here] + work.begins[here] - work.prefix[here + specification.stride]
    return work.backward[here] + work.prefix[here]


@inner
def _n_open(specification, length, way, at, j, work):  # type: ignore
    """How many lengths are possible at a boundary, for a label that continues where it can."""
    stride, most = specification.stride, specification.max_length
    if way < 0:
        return min(most, at - max(work.blocked[at * stride + j], 0))
    n_open = min(most, length - at)
    k = 1
    while k < n_open and work.blocked[(at + k + 1) * stride + j] <= at:
        k += 1
    return k


@inner
def _refer(specification, length, way, at, j, work):  # type: ignore
    """log Σ over lengths at a boundary for one label, on logarithms; moves the window of the label."""
    stride, n_open = specification.stride, _n_open(specification, length, way, at, j, work)
    reference, top = -np.inf, -np.inf
    for k in range(n_open):
        own = _potential(specification, way, at - 1 - k if way < 0 else at + 1 + k, j, work)
        reference = max(reference, own)
        work.row[k] = own + work.log_durations[k * stride + j]
        top = max(top, work.row[k])
    work.refs[j] = reference if reference > -np.inf else 0.0
    total = 0.0
    for k in range(n_open):
        there = at - 1 - k if way < 0 else at + 1 + k
        own = _potential(specification, way, there, j, work)
        work.window[there * stride + j] = math.exp(own - work.refs[j])
        total += math.exp(work.row[k] - top) if top > -np.inf else 0.0
    return top + math.log(total) if top > -np.inf else -np.inf


@inner
def _enter_window(specification, length, way, at, work):  # type: ignore
    """Put a boundary into the window, and take out those from which a label cannot reach the next boundary."""
    stride, most = specification.stride, specification.max_length
    here = at * stride
    for j in range(stride):
        work.sums[j] = _potential(specification, way, at, j, work) - work.refs[j]
    for j in range(specification.n_labels):
        if work.sums[j] > _MOST:
            move = work.sums[j]
            work.refs[j] += move
            work.sums[j] = 0.0
            for k in range(1, most):
                there = at - k if way < 0 else at + k
                if there < 0 or there > length:
                    break
                work.window[there * stride + j] *= math.exp(-move)
    exponential_row(work.window, here, work.sums, 0, specification.n_labels, stride, 0.0)
    # Position `at` now lies within all segments that reach further.
    for j in range(specification.n_labels):
        if 0 < at < length and work.blocked[here + stride + j] == at:
            for k in range(1, most):
                there = at - k if way < 0 else at + k
                if there < 0 or there > length:
                    break
                work.window[there * stride + j] = 0.0


@inner
def _sum_lengths(specification, length, way, at, work):  # type: ignore
    """Write Σ over lengths of products of the window and the durations to ``work.sums``."""
    stride, sums = specification.stride, work.sums
    for j in range(stride):
        sums[j] = 0.0
    for k in range(min(specification.max_length, at if way < 0 else length - at)):
        there, row = (at - 1 - k if way < 0 else at + 1 + k) * stride, k * stride
        for j in range(stride):
            sums[j] += work.window[there + j] * work.durations[row + j]


@inner
def _join(specification, way, out, out_at, source, at, work):  # type: ignore
    """Logarithms of sums over the label before (way −1), or over the one behind."""
    n_labels, stride, row = specification.n_labels, specification.stride, work.row
    top = maximum(source, at, n_labels)
    for j in range(stride):
        out[out_at + j] = -np.inf
    shift = _edge_shift(specification, work)
    if top == -np.inf or shift == -1e300:
        return
    exponential_row(work.factors, 0, source, at, n_labels, stride, top)
    for j in range(stride):
        row[j] = 0.0
    for i in range(n_labels):
        if way < 0:
            for j in range(stride):
                row[j] += work.factors[i] * work.edge_factors[i * stride + j]
        else:
            for j in range(stride):
                row[i] += work.factors[j] * work.edge_factors[i * stride + j]
    for j in range(n_labels):
        if row[j] > _LEAST:
            out[out_at + j] = math.log(row[j]) + top + shift
            continue
        most, total = -np.inf, 0.0
        for i in range(n_labels):
            own = work.edges[i * stride + j] if way < 0 else work.edges[j * stride + i]
            most = max(most, source[at + i] + own)
        for i in range(n_labels if most > -np.inf else 0):
            own = work.edges[i * stride + j] if way < 0 else work.edges[j * stride + i]
            total += math.exp(source[at + i] + own - most)
        out[out_at + j] = most + math.log(total) if most > -np.inf else -np.inf


# -- all segmentations --------------------------------------------------------------------------------


@inner
def _begin(specification, work):  # type: ignore
    for j in range(specification.stride):
        may_start = j < specification.n_labels and specification.allowed_start[j] > 0.0
        work.entering[j] = 0.0 if may_start else -np.inf
        work.forward[j] = -np.inf
        work.refs[j] = 0.0


@inner
def forward_sums(specification, length, work):  # type: ignore
    """Fill f and g; returns the log-partition without what `read_scores` took off."""
    n_labels, stride = specification.n_labels, specification.stride
    _begin(specification, work)
    for end in range(1, length + 1):
        here = end * stride
        _enter_window(specification, length, -1, end - 1, work)
        _sum_lengths(specification, length, -1, end, work)
        for j in range(n_labels):
            if work.sums[j] > _LEAST:
                value = work.refs[j] + math.log(work.sums[j])
            else:
                value = _refer(specification, length, -1, end, j, work)
            work.forward[here + j] = work.prefix[here + j] + work.tops[j] + value
        for j in range(n_labels, stride):
            work.forward[here + j] = -np.inf
        if end < length:
            _join(specification, -1, work.entering, here, work.forward, here, work)
    last, top, total = length * stride, -np.inf, 0.0
    for j in range(n_labels):
        if specification.allowed_end[j] == 0.0:
            work.forward[last + j] = -np.inf
        top = max(top, work.forward[last + j])
    for j in range(n_labels if top > -np.inf else 0):
        total += math.exp(work.forward[last + j] - top)
    return top + math.log(total) if top > -np.inf else -np.inf


@inner
def _lengths_from(specification, length, start, log_total, counts, work):  # type: ignore
    """Fill o of a boundary, and add the counts of lengths. Leaves probabilities of beginnings in ``work.sums``."""
    n_labels, stride, most = specification.n_labels, specification.stride, specification.max_length
    here, first = start * stride, first_duration(specification, length)
    _sum_lengths(specification, length, 1, start, work)
    for j in range(n_labels):
        base = work.begins[here + j] - work.prefix[here + stride + j]
        before = work.entering[here + j] + base + work.tops[j] - log_total
        work.factors[j] = 0.0
        if work.sums[j] > _LEAST:
            value = work.refs[j] + math.log(work.sums[j])
            if before > -np.inf:
                work.factors[j] = math.exp(min(before + work.refs[j], 700.0))
        else:
            value = _refer(specification, length, 1, start, j, work)
            for k in range(_n_open(specification, length, 1, start, j, work) if before > -np.inf else 0):
                counts[first + k * n_labels + j] += math.exp(before + work.row[k])
        work.leaving[here + j] = base + work.tops[j] + value
        work.sums[j] = math.exp(work.entering[here + j] + work.leaving[here + j] - log_total)
    for j in range(n_labels, stride):
        work.leaving[here + j] = -np.inf
        work.factors[j] = 0.0
    for k in range(min(most, length - start)):
        there, own = (start + 1 + k) * stride, first + k * n_labels
        for j in range(n_labels):
            counts[own + j] += work.window[there + j] * work.durations[k * stride + j] * work.factors[j]


@inner
def backward_sums(specification, length, log_total, counts, work):  # type: ignore
    """Fill b and o; write expected counts."""
    n_labels, stride, edge = specification.n_labels, specification.stride, first_edge(specification, length)
    for k in range(edge + n_labels * n_labels):
        counts[k] = 0.0
    last, n_inner = length * stride, 0.0
    for j in range(stride):
        is_last = j < n_labels and specification.allowed_end[j] > 0.0
        work.backward[last + j] = 0.0 if is_last else -np.inf
        work.inside[j] = math.exp(work.forward[last + j] - log_total)
        work.refs[j] = 0.0
    for start in range(length - 1, -1, -1):
        here, tokens = start * stride, 2 * start * n_labels
        _enter_window(specification, length, 1, start + 1, work)
        _lengths_from(specification, length, start, log_total, counts, work)
        for j in range(n_labels):
            counts[tokens + j] = work.sums[j]
            # A difference: rounding leaves something where no segment can continue.
            can_continue = start > 0 and work.blocked[here + stride + j] != start
            work.inside[j] = max(work.inside[j] - work.sums[j], 0.0) if can_continue else 0.0
            counts[tokens + n_labels + j] = work.inside[j]
            n_inner += work.sums[j] if start > 0 else 0.0
        if start == 0:
            break
        _join(specification, 1, work.backward, here, work.leaving, here, work)
        for j in range(n_labels):
            work.inside[j] += math.exp(work.forward[here + j] + work.backward[here + j] - log_total)
    _count_transitions(specification, length, log_total, n_inner, counts, work)


@inner
def _count_transitions(specification, length, log_total, expected, counts, work):  # type: ignore
    """Add the counts of transitions by products, or by exponentials if products have lost some."""
    n_labels, stride, edge = specification.n_labels, specification.stride, first_edge(specification, length)
    shift, total = _edge_shift(specification, work), 0.0
    for start in range(1, length):
        here = start * stride
        tops = maximum(work.forward, here, n_labels), maximum(work.leaving, here, n_labels)
        scale = tops[0] + tops[1] + shift - log_total
        if not -700.0 < scale < 600.0:
            continue
        exponential_row(work.factors, 0, work.forward, here, n_labels, stride, tops[0])
        exponential_row(work.sums, 0, work.leaving, here, n_labels, stride, tops[1])
        scale = math.exp(scale)
        for i in range(n_labels):
            own = scale * work.factors[i]
            for j in range(n_labels):
                counts[edge + i * n_labels + j] += own * work.edge_factors[i * stride + j] * work.sums[j]
    for k in range(n_labels * n_labels):
        total += counts[edge + k]
    if abs(total - expected) <= 1e-9 * (1.0 + expected):
        return
    for i in range(n_labels):
        for j in range(n_labels):
            total = 0.0
            for start in range(1, length):
                here = start * stride
                between = work.forward[here + i] + work.edges[i * stride + j] + work.leaving[here + j]
                total += math.exp(between - log_total)
            counts[edge + i * n_labels + j] = total


@inner
def factored_expectations(specification, shape, scores, counts, work):  # type: ignore
    length = np.int64(shape[0])
    shifts = read_scores(specification, length, scores, work)
    log_total = forward_sums(specification, length, work)
    if log_total == -np.inf:
        for k in range(first_edge(specification, length) + specification.n_labels**2):
            counts[k] = 0.0
        return log_total
    backward_sums(specification, length, log_total, counts, work)
    return log_total + shifts


@inner
def factored_log_partition(specification, shape, scores, work):  # type: ignore
    length = np.int64(shape[0])
    shifts = read_scores(specification, length, scores, work)
    return forward_sums(specification, length, work) + shifts


# -- one segmentation ---------------------------------------------------------------------------------


@inner
def forward_maxima(specification, length, work):  # type: ignore
    """Fill the best scores f and g."""
    n_labels, stride, window, sums = specification.n_labels, specification.stride, work.window, work.sums
    _begin(specification, work)
    for end in range(1, length + 1):
        start, here = end - 1, end * stride
        for j in range(stride):
            window[start * stride + j] = (
                _potential(specification, -1, start, j, work) if j < n_labels else -np.inf
            )
            sums[j] = -np.inf
        for j in range(n_labels):
            if start > 0 and work.blocked[here + j] == start:
                for k in range(max(end - specification.max_length, 0), start):
                    window[k * stride + j] = -np.inf
        for k in range(min(specification.max_length, end)):
            there, row = (start - k) * stride, k * stride
            for j in range(stride):
                sums[j] = max(sums[j], window[there + j] + work.log_durations[row + j])
        for j in range(stride):
            work.forward[here + j] = work.prefix[here + j] + work.tops[j] + sums[j]
        for j in range(stride):
            top = -np.inf
            for i in range(n_labels):
                top = max(top, work.forward[here + i] + work.edges[i * stride + j])
            work.entering[here + j] = top
    for j in range(stride):
        if specification.allowed_end[j] == 0.0:
            work.forward[length * stride + j] = -np.inf


@inner
def _trace(how, semiring, specification, length, tags, work):  # type: ignore
    """Fill `tags` (length,) with one segmentation: a label for the last segment, then lengths and labels in turn."""
    stride, end, row = specification.stride, length, work.row
    for j in range(specification.n_labels):
        row[j] = work.forward[length * stride + j]
    label = choose(how, semiring, row, specification.n_labels, 2 * length - 1)
    while end > 0:
        n_open = _n_open(specification, length, -1, end, label, work)
        for k in range(n_open):
            own = _potential(specification, -1, end - 1 - k, label, work)
            row[k] = own + work.log_durations[k * stride + label]
        start = end - 1 - choose(how, semiring, row, n_open, 2 * end - 2)
        _write(tags, start, end, label)
        for i in range(specification.n_labels):
            row[i] = work.forward[start * stride + i] + work.edges[i * stride + label]
        if start > 0:
            label = choose(how, semiring, row, specification.n_labels, 2 * start - 1)
        end = start


@inner
def _count_tags(specification, length, tags, counts):  # type: ignore
    """Write the part counts of a segmentation, given as tags."""
    n_labels, edge = specification.n_labels, first_edge(specification, length)
    first, start = first_duration(specification, length), 0
    for k in range(edge + n_labels * n_labels):
        counts[k] = 0.0
    for t in range(length):
        tag = np.int64(tags[t])
        label, is_inner = tag // 2, tag % 2
        counts[(2 * t + is_inner) * n_labels + label] = 1.0
        if t > 0 and is_inner == 0:
            before = np.int64(tags[t - 1]) // 2
            counts[first + (t - 1 - start) * n_labels + before] += 1.0
            counts[edge + before * n_labels + label] += 1.0
            start = t
    counts[first + (length - 1 - start) * n_labels + np.int64(tags[length - 1]) // 2] += 1.0


@inner
def factored_best(specification, shape, scores, counts, work):  # type: ignore
    length = np.int64(shape[0])
    shifts = read_scores(specification, length, scores, work)
    forward_maxima(specification, length, work)
    value = maximum(work.forward, length * specification.stride, specification.n_labels)
    if value == -np.inf:
        for k in range(first_edge(specification, length) + specification.n_labels**2):
            counts[k] = 0.0
        return value
    _trace(BEST, MAXIMA, specification, length, work.backward, work)  # b is not needed here: room for tags
    _count_tags(specification, length, work.backward, counts)
    return value + shifts


@entry
def sample_factored(specification, length, scores, work, uniforms, tags):  # type: ignore
    """Fill `tags` (n, length) from `uniforms` (n, 2·length) in [0, 1); returns the log-partition."""
    shifts = read_scores(specification, length, scores, work)
    log_total = forward_sums(specification, length, work)
    for sample in range(len(tags) if log_total > -np.inf else 0):
        _trace(Drawn(uniforms[sample]), LOGS, specification, length, tags[sample], work)
    return log_total + shifts


# -- the k best ---------------------------------------------------------------------------------------


@entry(allocates=True)
def best_factored(specification, length, scores, work, tags, values):  # type: ignore
    """Fill `tags` (k, n) and `values` (k,), best first; returns how many there are."""
    n_labels, stride, k_best = specification.n_labels, specification.stride, values.size
    shifts = read_scores(specification, length, scores, work)
    begins = (length + 1) * stride
    whole = 2 * begins
    lists = ranked(whole + 1, k_best)
    for j in range(n_labels):
        set_cell(lists, work.forward, begins + j, 0.0 if specification.allowed_start[j] > 0.0 else -np.inf)
    for end in range(1, length + 1):
        for j in range(n_labels):
            cell = end * stride + j
            for k in range(_n_open(specification, length, -1, end, j, work)):
                at = (end - 1 - k) * stride + j
                score = work.begins[at] - work.prefix[at + stride] + work.prefix[cell] + work.tops[j]
                rank_cell(lists, cell, begins + at, score + work.log_durations[k * stride + j])
        if end < length:
            here = end * stride
            join_rows(
                lists, work.forward, begins + here, work.forward, here, 1, n_labels, work.edges, 0, stride, n_labels,
                work.row,
            )  # fmt: skip
    for j in range(n_labels):
        if specification.allowed_end[j] > 0.0:
            rank_cell(lists, whole, length * stride + j, 0.0)
    found = 0
    while found < k_best and lists.values[whole * k_best + found] > -np.inf:
        values[found] = lists.values[whole * k_best + found] + shifts
        entry, end = lists.sources[whole * k_best + found], length
        while end > 0:
            label = entry // k_best % stride
            began = lists.sources[entry]
            start = (began // k_best - begins) // stride
            _write(tags[found], start, end, label)
            entry, end = lists.sources[began], start
        found += 1
    return found


FACTORED = Oracle(
    "factored",
    FactoredSpecification,
    FactoredWorkspace,
    factored_expectations,
    factored_log_partition,
    factored_best,
)
