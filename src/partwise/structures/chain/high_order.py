# mypy: ignore-errors
"""Chains of order k ≥ 2: forward–backward over histories of k labels.

Parts of a chain of T positions and L labels: T·L nodes (t, y_t), then one tied block of (L+1)^k × L
edges. Its row is the history (y_{t-k}, …, y_{t-1}) as a number in base L + 1, the most recent label least
significant and the symbol L before the start; its column is y_t. Position 0 uses the last row.

From history h = o·G + g, with o its oldest symbol and G = (L+1)^(k-1), label y leads to g·(L+1) + y: the new history
depends only on the *group* g of the old one. Rows of numbers are therefore kept per group, padded to `stride`:
history h lies at (h div (L+1))·stride + h mod (L+1), edges at (g·(L+1) + o)·stride + y. Underflow is noticed as in
`forward_backward.py`; the example is then done again on logarithms (`recursion.py`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.compiled.boundary import Integers, Reals
from partwise.compiled.dispatch import inner
from partwise.compiled.oracles import Oracle
from partwise.compiled.simd import LANES, combine_rows, exponential_row, maximum, padded
from partwise.structures.chain.forward_backward import sum_of_logs
from partwise.structures.chain.recursion import (
    begin,
    best_labelling,
    edge_row,
    edges_at,
    expectations_in_logs,
    fill_edges,
    first_term,
    layout_of,
    mask_run,
    n_edge_rows,
    scaled_sums,
    workspace_for,
)
from partwise.structures.scaling import INVERSE_LIFT, LIFT, SMALLEST
from partwise.structures.semirings import set_cell


class HighOrderSpecification(NamedTuple):
    """What all examples of a problem share.

    Attributes
    ----------
    n_labels, order, stride : int
        L, k, and L + 1 padded to whole vectors.
    n_groups : int
        G = (L+1)^(k-1), histories without their oldest symbol.
    allowed : ndarray ((n_labels + 1) * stride,)
        1 where label j may follow symbol i (row L: may stand first), else 0.
    allowed_end : ndarray (stride,)
        1 where a label may stand last.
    step : int
        Between the places of two histories that differ by one in the oldest symbol.
    first_terms : int64 ndarray (n_groups,)
        The place of the first of the histories that lead to each group.
    """

    n_labels: int
    order: int
    stride: int
    n_groups: int
    allowed: Reals
    allowed_end: Reals
    step: int
    first_terms: Integers


class HighOrderWorkspace(NamedTuple):
    """Exponentials of nodes and edges; forward rows, the first of them before the start; products
    n_t(y) b_t(g, y), by group and then position; one backward row; a column; totals; room for two rows."""

    nodes: Reals
    edges: Reals
    transposed: Reals
    forward: Reals
    products: Reals
    backward: Reals
    column: Reals
    totals: Reals
    room: Reals


def high_order_specification(
    n_labels: int,
    order: int,
    allowed: np.ndarray | None = None,
    allowed_start: np.ndarray | None = None,
    allowed_end: np.ndarray | None = None,
) -> HighOrderSpecification:
    """Pad the masks, boolean (n_labels, n_labels) and (n_labels,); None allows everything."""
    stride = padded(n_labels + 1)
    pairs, ends = np.zeros((n_labels + 1, stride)), np.zeros(stride)
    pairs[:n_labels, :n_labels] = 1.0 if allowed is None else np.asarray(allowed, bool)
    pairs[n_labels, :n_labels] = 1.0 if allowed_start is None else np.asarray(allowed_start, bool)
    ends[:n_labels] = 1.0 if allowed_end is None else np.asarray(allowed_end, bool)
    n_groups = (n_labels + 1) ** (order - 1)
    row, column = np.divmod(np.arange(n_groups), n_labels + 1)
    return HighOrderSpecification(
        n_labels, order, stride, n_groups, pairs.ravel(), ends,
        step=n_groups // (n_labels + 1) * stride, first_terms=row * stride + column,
    )  # fmt: skip


def high_order_workspace(specification: HighOrderSpecification, longest: int) -> HighOrderWorkspace:
    n_symbols, stride = specification.n_labels + 1, specification.stride
    per_position = specification.n_groups * stride
    return HighOrderWorkspace(
        nodes=np.zeros(longest * stride),
        edges=np.zeros(n_symbols * per_position),
        transposed=np.zeros(n_symbols * per_position),
        forward=np.zeros((longest + 1) * per_position),
        products=np.zeros(longest * per_position),
        backward=np.zeros(per_position + LANES),
        column=np.zeros(stride),
        totals=np.zeros(longest),
        room=np.zeros(2 * stride),
    )


@inner
def _exponentials(specification, length, scores, work):  # type: ignore
    """Exponentials of all rows; returns the sum of the shifts taken out."""
    n_labels, stride, n_groups = specification.n_labels, specification.stride, specification.n_groups
    n_symbols, first = n_labels + 1, length * n_labels
    shifts = 0.0
    for t in range(length):
        shift = maximum(scores, t * n_labels, n_labels)
        if shift == -np.inf:
            return np.nan
        exponential_row(work.nodes, t * stride, scores, t * n_labels, n_labels, stride, shift)
        shifts += shift
    for j in range(stride):
        work.nodes[(length - 1) * stride + j] *= specification.allowed_end[j]
    shift = maximum(scores, first, n_groups * n_symbols * n_labels)
    if shift == -np.inf:
        return np.nan
    for g in range(n_groups):
        mask = (g % n_symbols) * stride
        for o in range(n_symbols):
            row = (g * n_symbols + o) * stride
            source = first + (o * n_groups + g) * n_labels
            exponential_row(work.edges, row, scores, source, n_labels, stride, shift)
            for j in range(stride):
                work.edges[row + j] *= specification.allowed[mask + j]
    return shifts + shift * length


@inner
def _forward(specification, length, work):  # type: ignore
    """Scaled forward rows; nodes are divided by the same totals. Returns False if one underflows.

    f_t(g, y) = n_t(y) Σ_o f_{t-1}(o, g) m(o, g, y) / c_t, with c_t such that each position sums to one.
    """
    stride, n_groups, n_symbols = specification.stride, specification.n_groups, specification.n_labels + 1
    per_position, step = n_groups * stride, specification.step
    forward, nodes = work.forward, work.nodes
    for j in range(per_position):
        forward[j] = 0.0
    forward[(n_groups - 1) * stride + specification.n_labels] = 1.0
    for t in range(length):
        before, here, node = t * per_position, (t + 1) * per_position, t * stride
        total = 0.0
        for g in range(n_groups):
            old = before + specification.first_terms[g]
            new = here + g * stride
            combine_rows(
                forward, new, forward, old, step, n_symbols, work.edges, g * n_symbols * stride, stride
            )
            for j in range(stride):
                forward[new + j] *= nodes[node + j]
            for j in range(stride):
                total += forward[new + j]
        if not total > SMALLEST:
            return False
        work.totals[t] = total
        inverse = 1.0 / total
        for j in range(per_position):
            forward[here + j] *= inverse
        for j in range(stride):
            nodes[node + j] *= inverse
    return True


@inner
def _backward(specification, length, counts, work):  # type: ignore
    """Backward rows, their products with the nodes, and node counts; returns the total of the first.

    v_t(g, y) = n_t(y) b_t(g, y) / c_t;  b_{t-1}(o, g) = Σ_y m(o, g, y) v_t(g, y);  node counts Σ_g f·b.
    """
    n_labels, stride, n_groups = specification.n_labels, specification.stride, specification.n_groups
    n_symbols = n_labels + 1
    per_position, step = n_groups * stride, specification.step
    backward, column = work.backward, work.column
    for g in range(n_groups):
        for o in range(n_symbols):
            for y in range(n_labels):
                work.transposed[(g * n_symbols + y) * stride + o] = work.edges[
                    (g * n_symbols + o) * stride + y
                ]
    for j in range(per_position):
        backward[j] = LIFT
    total = 0.0
    for t in range(length - 1, -1, -1):
        total = _node_counts(specification, t, counts, work)
        for g in range(n_groups):
            row = (g * length + t) * stride
            for j in range(stride):
                work.products[row + j] = work.nodes[t * stride + j] * backward[g * stride + j]
        for g in range(n_groups):
            row, block = (g * length + t) * stride, g * n_symbols * stride
            combine_rows(column, 0, work.products, row, 1, n_labels, work.transposed, block, stride)
            old = specification.first_terms[g]
            for o in range(n_symbols):
                backward[old + o * step] = column[o]
    return total


@inner
def _node_counts(specification, t, counts, work):  # type: ignore
    """Σ_g f_t(g, y) b_t(g, y) for every y; returns their sum."""
    n_labels, stride, n_groups = specification.n_labels, specification.stride, specification.n_groups
    here = (t + 1) * n_groups * stride
    total = 0.0
    for j in range(n_labels):
        counts[t * n_labels + j] = 0.0
    for g in range(n_groups):
        for j in range(n_labels):
            counts[t * n_labels + j] += work.forward[here + g * stride + j] * work.backward[g * stride + j]
    for j in range(n_labels):
        counts[t * n_labels + j] *= INVERSE_LIFT
        total += counts[t * n_labels + j]
    return total


@inner
def _edge_counts(specification, length, counts, work):  # type: ignore
    """m(o, g, y) Σ_t f_{t-1}(o, g) v_t(g, y); returns their sum, the length unless a row overflowed."""
    n_labels, stride, n_groups = specification.n_labels, specification.stride, specification.n_groups
    total = 0.0
    n_symbols, first = n_labels + 1, length * n_labels
    per_position = n_groups * stride
    for o in range(n_symbols):
        for g in range(n_groups):
            history = o * n_groups + g
            old = specification.first_terms[g] + o * specification.step
            combine_rows(
                work.column,
                0,
                work.forward,
                old,
                per_position,
                length,
                work.products,
                g * length * stride,
                stride,
            )
            row = (g * n_symbols + o) * stride
            for y in range(n_labels):
                count = work.column[y] * work.edges[row + y] * INVERSE_LIFT
                counts[first + history * n_labels + y] = count
                total += count
    return total


@scaled_sums.register(HighOrderSpecification)
@inner
def high_order_scaled_sums(specification, length, scores, counts, work):  # type: ignore
    shifts = _exponentials(specification, length, scores, work)
    if shifts == shifts and _forward(specification, length, work):
        total = _backward(specification, length, counts, work)
        edges = _edge_counts(specification, length, counts, work)
        # Both are false for NaN and inf, which reach the first row from anywhere. If a forward entry is zero, node
        # counts may be right although the product of the edges is 0·inf.
        if abs(total - 1.0) < 1e-9 and abs(edges - length) < 1e-9 * length:
            return shifts + sum_of_logs(work.totals, length)
    return np.nan


@inner
def high_order_expectations(specification, shape, scores, counts, work):  # type: ignore
    length = np.int64(shape[0])
    log_total = high_order_scaled_sums(specification, length, scores, counts, work)
    if log_total == log_total:
        return log_total
    edges = counts[length * specification.n_labels :]
    return expectations_in_logs(specification, specification, length, scores, counts, edges, work)


@inner(allocates=True)
def high_order_log_partition(specification, shape, scores, work):  # type: ignore
    length = np.int64(shape[0])
    counts = np.empty(
        (length + specification.n_groups * (specification.n_labels + 1)) * specification.n_labels
    )
    return high_order_expectations(specification, shape, scores, counts, work)


@inner
def high_order_best(specification, shape, scores, counts, work):  # type: ignore
    return best_labelling(specification, np.int64(shape[0]), scores, counts, work)


HIGH_ORDER = Oracle(
    "high_order",
    HighOrderSpecification,
    HighOrderWorkspace,
    high_order_expectations,
    high_order_log_partition,
    high_order_best,
)


# -- the cells of a chain of order k: histories, see `recursion.py` ------------------------------------


@layout_of.register(HighOrderSpecification)
@inner
def _layout_of(specification):  # type: ignore
    return specification.n_groups, specification.n_labels + 1, specification.step, 0


@first_term.register(HighOrderSpecification)
@inner
def _first_term(specification, group):  # type: ignore
    return specification.first_terms[group]


@edges_at.register(HighOrderSpecification)
@inner
def _edges_at(specification, t, group):  # type: ignore
    return group * (specification.n_labels + 1) * specification.stride


@edge_row.register(HighOrderSpecification)
@inner
def _edge_row(specification, t, group, term):  # type: ignore
    return term * specification.n_groups + group


@n_edge_rows.register(HighOrderSpecification)
@inner
def _n_edge_rows(specification, length):  # type: ignore
    return specification.n_groups * (specification.n_labels + 1)


@fill_edges.register(HighOrderSpecification)
@inner
def _fill_edges(specification, length, scores, work):  # type: ignore
    n_labels, stride, n_groups = specification.n_labels, specification.stride, specification.n_groups
    n_symbols = n_labels + 1
    for g in range(n_groups):
        mask = (g % n_symbols) * stride
        for o in range(n_symbols):
            row, source = (g * n_symbols + o) * stride, (length + o * n_groups + g) * n_labels
            mask_run(work.edges, row, scores, source, specification.allowed, mask, n_labels, stride)


@begin.register(HighOrderSpecification)
@inner
def _begin(specification, kind, scores, work):  # type: ignore
    for cell in range(specification.n_groups * specification.stride):
        set_cell(kind, work.forward, cell, -np.inf)
    before_start = (specification.n_groups - 1) * specification.stride + specification.n_labels
    set_cell(kind, work.forward, before_start, 0.0)


workspace_for.register(HighOrderSpecification)(inner(high_order_workspace, allocates=True))
