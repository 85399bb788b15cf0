# mypy: ignore-errors
"""First-order chains: scaled forward–backward.

Parts of a chain of T positions and L labels, in this order: T·L nodes (t, y_t), then the edges (y_{t-1}, y_t): one
L×L block for all positions (tied), or T − 1 blocks. Sums run on exponentials, and each row is divided by its total.
If labels may have underflowed (`structures/scaling.py`), the example is done again on logarithms (`recursion.py`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from partwise.compiled.boundary import Reals
from partwise.compiled.dispatch import inner
from partwise.compiled.oracles import Oracle
from partwise.compiled.simd import LANES, combine_rows, exponential_row, maximum, padded
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
from partwise.structures.scaling import FAINT, INVERSE_LIFT, LIFT, SMALLEST
from partwise.structures.semirings import set_cell


class ChainSpecification(NamedTuple):
    """What all examples of a problem share.

    Attributes
    ----------
    n_labels, stride : int
        Labels, and labels padded to whole vectors.
    tied : bool
        One transition block for all positions, or one per position.
    allowed : ndarray (n_labels * stride,)
        1 where label j may follow label i, else 0.
    allowed_start, allowed_end : ndarray (stride,)
        1 where a label may stand first, last.
    """

    n_labels: int
    stride: int
    tied: bool
    allowed: Reals
    allowed_start: Reals
    allowed_end: Reals


class ChainWorkspace(NamedTuple):
    """Rows of `stride` numbers: exponentials of nodes and edges, forward rows, one backward row, room for two."""

    nodes: Reals
    edges: Reals
    transposed: Reals
    forward: Reals
    backward: Reals
    totals: Reals
    room: Reals


def chain_specification(
    n_labels: int,
    tied: bool = True,
    allowed: np.ndarray | None = None,
    allowed_start: np.ndarray | None = None,
    allowed_end: np.ndarray | None = None,
) -> ChainSpecification:
    """Pad the masks, boolean (n_labels, n_labels) and (n_labels,); None allows everything."""
    stride = padded(n_labels)

    def pad(mask: np.ndarray | None, shape: tuple[int, ...]) -> np.ndarray:
        rows = np.zeros((*shape[:-1], stride))
        rows[..., :n_labels] = 1.0 if mask is None else np.asarray(mask, bool).reshape(shape)
        return rows.ravel()

    return ChainSpecification(
        n_labels,
        stride,
        tied,
        pad(allowed, (n_labels, n_labels)),
        pad(allowed_start, (n_labels,)),
        pad(allowed_end, (n_labels,)),
    )


def chain_workspace(specification: ChainSpecification, longest: int) -> ChainWorkspace:
    n_labels, stride = specification.n_labels, specification.stride
    blocks = 1 if specification.tied else max(longest - 1, 1)
    return ChainWorkspace(
        nodes=np.zeros(longest * stride),
        edges=np.zeros(blocks * n_labels * stride),
        transposed=np.zeros(blocks * n_labels * stride),
        forward=np.zeros(longest * stride),
        backward=np.zeros(stride + LANES),
        totals=np.zeros(longest),
        room=np.zeros(2 * stride),
    )


@inner
def row_at(t, length, backwards, n_labels):  # type: ignore
    """Where the scores or counts of position t begin, if positions are counted from the end or not."""
    return (length - 1 - t if backwards else t) * n_labels


@inner
def exponentials(specification, length, nodes, edges, backwards, work):  # type: ignore
    """Exponentials of all rows; returns the sum of the shifts taken out.

    With `backwards` the last row of `nodes` is that of position 0. Edges are in the order of positions.
    """
    n_labels, stride = specification.n_labels, specification.stride
    shifts = 0.0
    for t in range(length):
        at = row_at(t, length, backwards, n_labels)
        shift = maximum(nodes, at, n_labels)
        if shift == -np.inf:
            return np.nan
        exponential_row(work.nodes, t * stride, nodes, at, n_labels, stride, shift)
        shifts += shift
    for j in range(stride):
        work.nodes[j] *= specification.allowed_start[j]
        work.nodes[(length - 1) * stride + j] *= specification.allowed_end[j]
    blocks = min(1, length - 1) if specification.tied else length - 1
    for b in range(blocks):
        first = b * n_labels * n_labels
        shift = maximum(edges, first, n_labels * n_labels)
        if shift == -np.inf:
            return np.nan
        shifts += shift * (length - 1) if specification.tied else shift
        block = b * n_labels * stride
        for i in range(n_labels):
            row = block + i * stride
            exponential_row(work.edges, row, edges, first + i * n_labels, n_labels, stride, shift)
            for j in range(stride):
                work.edges[row + j] *= specification.allowed[i * stride + j]
    return shifts


@inner
def scaled_forward(specification, length, work):  # type: ignore
    """Scaled forward rows; nodes are divided by the same totals. Returns False if one underflows.

    f_t(j) = n_t(j) Σ_i f_{t-1}(i) m(i, j) / c_t, with c_t such that each row sums to one.
    """
    n_labels, stride = specification.n_labels, specification.stride
    forward, nodes = work.forward, work.nodes
    for t in range(length):
        here = t * stride
        if t == 0:
            for j in range(stride):
                forward[j] = nodes[j]
        else:
            block = 0 if specification.tied else (t - 1) * n_labels * stride
            combine_rows(forward, here, forward, here - stride, 1, n_labels, work.edges, block, stride)
            for j in range(stride):
                forward[here + j] *= nodes[here + j]
        total = 0.0
        for j in range(stride):
            total += forward[here + j]
        if not total > SMALLEST:
            return False
        work.totals[t] = total
        inverse = 1.0 / total
        for j in range(stride):
            forward[here + j] *= inverse
        for j in range(stride):
            nodes[here + j] *= inverse
    return True


@inner
def anything_lost(specification, length, work):  # type: ignore
    """Whether underflow may have taken part of a forward entry: it is tiny and no mask explains it.

    Such a label can still decide the sum later. Only the backward rows tell.
    """
    n_labels, stride = specification.n_labels, specification.stride
    faint = 0
    for t in range(length):
        limit = FAINT / work.totals[t]
        for j in range(n_labels):
            faint += work.forward[t * stride + j] < limit
    for j in range(n_labels):
        closed = specification.allowed_start[j] == 0.0
        faint -= closed
        if length > 1 or not closed:
            faint -= specification.allowed_end[j] == 0.0
    return faint > 0


@inner
def sum_of_logs(totals, length):  # type: ignore
    """Σ log totals with a logarithm every few factors instead of one each."""
    result, product = 0.0, 1.0
    for t in range(length):
        if totals[t] < 1e-30 or product < 1e-200 or product > 1e200:
            result += math.log(product)
            product = 1.0
        product *= totals[t]
    return result + math.log(product)


@inner
def scaled_backward(specification, length, backwards, counts, edge_counts, work):  # type: ignore
    """Backward rows and all expected counts, from the last row in ``work.backward``; returns the total of the first row
    (1 if all went well).

    b_{t-1}(i) = Σ_j m(i, j) n_t(j) b_t(j) / c_t;  node counts f·b,
    edge counts f_{t-1}(i) m(i, j) n_t(j) b_t(j).
    """
    n_labels, stride = specification.n_labels, specification.stride
    forward, nodes, backward = work.forward, work.nodes, work.backward
    blocks = min(1, length - 1) if specification.tied else length - 1
    for b in range(blocks):
        block = b * n_labels * stride
        for i in range(n_labels):
            for j in range(n_labels):
                work.transposed[block + j * stride + i] = work.edges[block + i * stride + j]
    last = row_at(length - 1, length, backwards, n_labels)
    for j in range(n_labels):
        counts[last + j] = forward[(length - 1) * stride + j] * backward[j] * INVERSE_LIFT
    for t in range(length - 1, 0, -1):
        here = t * stride
        for j in range(stride):
            nodes[here + j] *= backward[j]
        block = 0 if specification.tied else (t - 1) * n_labels * stride
        combine_rows(backward, 0, nodes, here, 1, n_labels, work.transposed, block, stride)
        at = row_at(t - 1, length, backwards, n_labels)
        for i in range(n_labels):
            counts[at + i] = forward[here - stride + i] * backward[i] * INVERSE_LIFT
    total, at = 0.0, row_at(0, length, backwards, n_labels)
    for j in range(n_labels):
        total += counts[at + j]
    _edge_counts(specification, length, edge_counts, work)
    return total


@inner
def _backward_from_end(specification, length, counts, work):  # type: ignore
    for j in range(specification.stride):
        work.backward[j] = LIFT
    edge_counts = counts[length * specification.n_labels :]
    return scaled_backward(specification, length, False, counts, edge_counts, work)


@inner
def _edge_counts(specification, length, counts, work):  # type: ignore
    """Σ_t f_{t-1}(i) m(i, j) n_t(j) b_t(j), summed over positions when tied; `nodes` holds n·b by now."""
    n_labels, stride = specification.n_labels, specification.stride
    if specification.tied:
        for i in range(n_labels):
            combine_rows(work.backward, 0, work.forward, i, stride, length - 1, work.nodes, stride, stride)
            for j in range(n_labels):
                counts[i * n_labels + j] = (
                    0.0 if length == 1 else work.backward[j] * work.edges[i * stride + j] * INVERSE_LIFT
                )
        return
    for t in range(1, length):
        block = (t - 1) * n_labels
        for i in range(n_labels):
            f = work.forward[(t - 1) * stride + i] * INVERSE_LIFT
            for j in range(n_labels):
                m = work.edges[(block + i) * stride + j]
                counts[(block + i) * n_labels + j] = f * m * work.nodes[t * stride + j]


@scaled_sums.register(ChainSpecification)
@inner
def chain_scaled_sums(specification, length, scores, counts, work):  # type: ignore
    edges = scores[length * specification.n_labels :]
    shifts = exponentials(specification, length, scores, edges, False, work)
    if shifts == shifts and scaled_forward(specification, length, work):
        total = _backward_from_end(specification, length, counts, work)
        if abs(total - 1.0) < 1e-9:  # false for NaN and inf, which reach the first row from anywhere
            return shifts + sum_of_logs(work.totals, length)
    return np.nan


@inner
def chain_expectations(specification, shape, scores, counts, work):  # type: ignore
    length = np.int64(shape[0])
    log_total = chain_scaled_sums(specification, length, scores, counts, work)
    if log_total == log_total:
        return log_total
    edges = counts[length * specification.n_labels :]
    return expectations_in_logs(specification, specification, length, scores, counts, edges, work)


@inner(allocates=True)
def chain_log_partition(specification, shape, scores, work):  # type: ignore
    length, n_labels = np.int64(shape[0]), specification.n_labels
    shifts = exponentials(specification, length, scores, scores[length * n_labels :], False, work)
    blocks = 1 if specification.tied else length - 1
    is_scaled = shifts == shifts and scaled_forward(specification, length, work)
    log_total = shifts + sum_of_logs(work.totals, length) if is_scaled else np.nan
    if is_scaled and not anything_lost(specification, length, work):
        return log_total
    counts = np.empty((length + blocks * n_labels) * n_labels)
    if is_scaled and abs(_backward_from_end(specification, length, counts, work) - 1.0) < 1e-9:
        return log_total
    return expectations_in_logs(
        specification, specification, length, scores, counts, counts[length * n_labels :], work
    )


@inner
def chain_best(specification, shape, scores, counts, work):  # type: ignore
    return best_labelling(specification, np.int64(shape[0]), scores, counts, work)


CHAIN = Oracle(
    "chain", ChainSpecification, ChainWorkspace, chain_expectations, chain_log_partition, chain_best
)


# -- the cells of a chain of order 1: one group, see `recursion.py` -----------------------------------


@layout_of.register(ChainSpecification)
@inner
def _layout_of(specification):  # type: ignore
    return 1, specification.n_labels, 1, 1


@first_term.register(ChainSpecification)
@inner
def _first_term(specification, group):  # type: ignore
    return 0


@edges_at.register(ChainSpecification)
@inner
def _edges_at(specification, t, group):  # type: ignore
    return 0 if specification.tied else (t - 1) * specification.n_labels * specification.stride


@edge_row.register(ChainSpecification)
@inner
def _edge_row(specification, t, group, term):  # type: ignore
    return term if specification.tied else (t - 1) * specification.n_labels + term


@n_edge_rows.register(ChainSpecification)
@inner
def _n_edge_rows(specification, length):  # type: ignore
    return specification.n_labels * (1 if specification.tied else length - 1)


@fill_edges.register(ChainSpecification)
@inner
def _fill_edges(specification, length, scores, work):  # type: ignore
    n_labels, stride = specification.n_labels, specification.stride
    blocks = min(1, length - 1) if specification.tied else length - 1
    for k in range(blocks * n_labels):
        mask, source = k % n_labels * stride, (length + k) * n_labels
        mask_run(work.edges, k * stride, scores, source, specification.allowed, mask, n_labels, stride)


@begin.register(ChainSpecification)
@inner
def _begin(specification, kind, scores, work):  # type: ignore
    for j in range(specification.n_labels):
        may_start = specification.allowed_start[j] > 0.0
        set_cell(kind, work.forward, j, scores[j] if may_start else -np.inf)


workspace_for.register(ChainSpecification)(inner(chain_workspace, allocates=True))
