# mypy: ignore-errors
"""A window of a chain whose neighbours' marginals stay as they are: p ∝ exp(scores), scaled at both ends.

    q(y_a … y_b, l, r) = u(l) m(l, y_a) n_a(y_a) m(y_a, y_{a+1}) … n_b(y_b) m(y_b, r) z(r)

Of all distributions with the given marginals of l and r this one maximises entropy plus expected score. u and z are
found by fitting the two ends in turn (Sinkhorn 1964; Deming and Stephan 1940), one sum over the window for each; that
converges the faster the less r depends on l, and needs one round where an end of the window is one of the sentence.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.compiled.dispatch import inner
from partwise.compiled.simd import LANES, combine_rows, exponential_row, maximum
from partwise.structures.chain.forward_backward import ChainSpecification

_SMALLEST = 1e-250  # as in `forward_backward.py`
_MOST_ROUNDS = 40


class BridgeRoom(NamedTuple):
    """Room for one window: rows of `stride` numbers, as in `ChainWorkspace`, and for the ends.

    `reach` is a row for sums on their way; `nodes` and `edges` hold exponentials of scores.
    """

    nodes: np.ndarray
    edges: np.ndarray
    transposed: np.ndarray
    forward: np.ndarray
    backward: np.ndarray
    left: np.ndarray
    right: np.ndarray
    reach: np.ndarray


def bridge_room(specification: ChainSpecification, longest: int) -> BridgeRoom:
    """For windows of up to `longest` positions."""
    n_labels, stride = specification.n_labels, specification.stride
    blocks = 1 if specification.tied else longest + 1
    rows, block = (longest + 1) * stride + LANES, blocks * n_labels * stride + LANES
    sizes = (rows, block, block, rows, rows, stride + LANES, stride + LANES, stride + LANES)
    return BridgeRoom(*(np.zeros(size) for size in sizes))


@inner
def exponentials(specification, length, n_edges, opens, closes, scores, scale, room):  # type: ignore
    """exp(scale · scores), each row and block shifted, masked; `opens` and `closes` where the sentence does."""
    n_labels, stride = specification.n_labels, specification.stride
    nodes, edges, transposed = room.nodes, room.edges, room.transposed
    if scale != 1.0:
        for j in range((length + (1 if specification.tied else n_edges) * n_labels) * n_labels):
            scores[j] *= scale
    for t in range(length):
        shift = maximum(scores, t * n_labels, n_labels)
        exponential_row(nodes, t * stride, scores, t * n_labels, n_labels, stride, shift)
    for j in range(stride):
        if opens:
            nodes[j] *= specification.allowed_start[j]
        if closes:
            nodes[(length - 1) * stride + j] *= specification.allowed_end[j]
    for b in range(min(1, n_edges) if specification.tied else n_edges):
        first = (length + b * n_labels) * n_labels
        shift = maximum(scores, first, n_labels * n_labels)
        for i in range(n_labels):
            row = (b * n_labels + i) * stride
            exponential_row(edges, row, scores, first + i * n_labels, n_labels, stride, shift)
            for j in range(stride):
                edges[row + j] *= specification.allowed[i * stride + j]
            for j in range(n_labels):
                transposed[(b * n_labels + j) * stride + i] = edges[row + j]


@inner
def _scaled(row, start, width):  # type: ignore
    """Divide a row by its total; False where that is next to nothing, or not a number."""
    total = 0.0
    for j in range(width):
        total += row[start + j]
    if not total > _SMALLEST:
        return False
    inverse = 1.0 / total
    for j in range(width):
        row[start + j] *= inverse
    return True


@inner
def _block(specification, edge):  # type: ignore
    """Where the exponentials of the window's edge begin."""
    return 0 if specification.tied else edge * specification.n_labels * specification.stride


@inner
def _go_forward(specification, length, has_left, room):  # type: ignore
    n_labels, stride = specification.n_labels, specification.stride
    forward, nodes, shift = room.forward, room.nodes, 1 if has_left else 0
    for t in range(length):
        here = t * stride
        if t > 0:
            block = _block(specification, t - 1 + shift)
            combine_rows(forward, here, forward, here - stride, 1, n_labels, room.edges, block, stride)
        elif has_left:
            combine_rows(forward, 0, room.left, 0, 1, n_labels, room.edges, 0, stride)
        else:
            for j in range(stride):
                forward[j] = 1.0
        for j in range(stride):
            forward[here + j] *= nodes[here + j]
        if not _scaled(forward, here, stride):
            return False
    return True


@inner
def _go_backward(specification, length, has_left, has_right, room):  # type: ignore
    """Rows without the nodes of their own position."""
    n_labels, stride = specification.n_labels, specification.stride
    backward, nodes, reach, shift = room.backward, room.nodes, room.reach, 1 if has_left else 0
    for t in range(length - 1, -1, -1):
        here, block = t * stride, _block(specification, t + shift)
        if t < length - 1:
            for j in range(stride):
                reach[j] = nodes[here + stride + j] * backward[here + stride + j]
            combine_rows(backward, here, reach, 0, 1, n_labels, room.transposed, block, stride)
        elif has_right:
            combine_rows(backward, here, room.right, 0, 1, n_labels, room.transposed, block, stride)
        else:
            for j in range(stride):
                backward[here + j] = 1.0
        if not _scaled(backward, here, n_labels):
            return False
    return True


@inner
def _fit_left(specification, mu, first, room):  # type: ignore
    """u = μ_l / Σ over the window."""
    n_labels, stride = specification.n_labels, specification.stride
    left, reach, backward = room.left, room.reach, room.backward
    for j in range(stride):
        left[j] = room.nodes[j] * backward[j]
    combine_rows(reach, 0, left, 0, 1, n_labels, room.transposed, 0, stride)
    for j in range(n_labels):
        left[j] = mu[first + j] / reach[j] if mu[first + j] > 0.0 and reach[j] > 0.0 else 0.0
    return _scaled(left, 0, n_labels)


@inner
def _reach_right(specification, length, has_left, room):  # type: ignore
    """What arrives at r, before z."""
    stride, shift = specification.stride, 1 if has_left else 0
    block, last = _block(specification, length - 1 + shift), (length - 1) * stride
    combine_rows(room.reach, 0, room.forward, last, 1, specification.n_labels, room.edges, block, stride)


@inner
def _fit_right(specification, mu, first, room):  # type: ignore
    """z = μ_r / what arrives."""
    right, reach = room.right, room.reach
    for j in range(specification.n_labels):
        right[j] = mu[first + j] / reach[j] if mu[first + j] > 0.0 and reach[j] > 0.0 else 0.0
    return _scaled(right, 0, specification.n_labels)


@inner
def _misfit(specification, mu, first, room):  # type: ignore
    """Largest difference between μ_r and what the present u and z make of it."""
    total, worst = 0.0, 0.0
    for j in range(specification.n_labels):
        total += room.right[j] * room.reach[j]
    for j in range(specification.n_labels):
        worst = max(worst, abs(room.right[j] * room.reach[j] / total - mu[first + j]))
    return worst


@inner
def fit_ends(specification, length, mu, left_at, right_at, tolerance, room):  # type: ignore
    """Forward and backward rows of q; False where exponentials ran out of range or the ends do not fit.

    `left_at` and `right_at` are where the neighbours' marginals lie in `mu`, −1 at the ends of the sentence. The left
    end fits exactly, the right one to `tolerance`.
    """
    n_labels, has_left, has_right = specification.n_labels, left_at >= 0, right_at >= 0
    if has_left and not has_right:
        if not _go_backward(specification, length, has_left, has_right, room):
            return False
        return _fit_left(specification, mu, left_at, room) and _go_forward(
            specification, length, has_left, room
        )
    for j in range(n_labels):
        if has_left:
            room.left[j] = mu[left_at + j]
    if not _go_forward(specification, length, has_left, room):
        return False
    for _ in range(_MOST_ROUNDS):
        if has_right:
            _reach_right(specification, length, has_left, room)
            if not _fit_right(specification, mu, right_at, room):
                return False
        if not _go_backward(specification, length, has_left, has_right, room):
            return False
        if not has_left:
            return True
        if not _fit_left(specification, mu, left_at, room):
            return False
        if not _go_forward(specification, length, has_left, room):
            return False
        _reach_right(specification, length, has_left, room)
        misfit = _misfit(specification, mu, right_at, room)
        if misfit <= tolerance:
            return True
    return False


@inner
def marginals(specification, length, has_left, has_right, nodes, edges, room):  # type: ignore
    """Marginals of q: `nodes` (length · L) and `edges`, one block for each, those to the neighbours included."""
    n_labels, stride = specification.n_labels, specification.stride
    forward, backward, weights, reach = room.forward, room.backward, room.nodes, room.reach
    for t in range(length):
        for j in range(n_labels):
            nodes[t * n_labels + j] = forward[t * stride + j] * backward[t * stride + j]
        _scaled(nodes, t * n_labels, n_labels)
    shift = 1 if has_left else 0
    n_edges = length - 1 + shift + (1 if has_right else 0)
    for e in range(n_edges):
        before, after, block = e - shift, e - shift + 1, _block(specification, e)
        for j in range(n_labels):
            if after < length:
                reach[j] = weights[after * stride + j] * backward[after * stride + j]
            else:
                reach[j] = room.right[j]
        first = e * n_labels * n_labels
        for i in range(n_labels):
            f = room.left[i] if before < 0 else forward[before * stride + i]
            for j in range(n_labels):
                edges[first + i * n_labels + j] = f * room.edges[block + i * stride + j] * reach[j]
        _scaled(edges, first, n_labels * n_labels)
