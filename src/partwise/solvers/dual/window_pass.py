# mypy: ignore-errors
"""Dual coordinate ascent on windows of chains, for finite β: one visit replaces what a few positions do.

    μ ← (1 − t) μ + t q      within the window and on the edges to its neighbours, whose own marginals stay
    v ← v + t Σ_r (μ − q)_r φ(x_i, r)

α_i is known by the marginals of nodes and of pairs of neighbours, and is the distribution of largest entropy that has
them: H = Σ H(edges) − Σ H(nodes where two edges meet). So mixtures are exact, and the best t along one takes no
further sum over labellings (Le Priol, Piché, Lacoste-Julien 2018, who mix whole sentences). The target q is the model's
distribution given that the neighbours keep their marginals (`bridge.py`). A window's gap is KL(μ ‖ q) / β, to second
order Σ (q − μ)² / 2βμ, with the sign of each entropy; that is at hand, position by position, for μ after the step.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.compiled.dispatch import entry, inner
from partwise.compiled.examples import scatter_example, score_before
from partwise.compiled.rows import FIRST_PART, FIRST_ROW, N_ROWS
from partwise.compiled.simd import LANES, fetch_ahead, padded
from partwise.compiled.simd_log import logarithm_row
from partwise.solvers.dual.bridge import BridgeRoom, bridge_room, exponentials, fit_ends, marginals
from partwise.structures.chain.forward_backward import ChainSpecification

_TINY = 1e-300
_NEAR = 0.3  # of what was gained: what a step may miss
_MOST_TRIALS = 30
_LEAST_STEP = 1e-3  # that ‖d‖² is read off
_FLATTER, _FLATTEST = (
    0.25,
    1e-6,
)  # by which scores are multiplied where exponentials run out of range; how often
_NO_STEP = 1e-6


class Chains(NamedTuple):
    """Where the positions of all examples have their marginals and their rows.

    Attributes
    ----------
    length, position_ptr, mu_ptr, part_ptr : ndarray of int64
        Positions of each example; offsets of these, of its marginals (nodes, then a block for each edge), and of
        its parts in the problem.
    node_row, edge_row : ndarray (n_examples,) of int64
        The first row of each kind; edges are not read where they are tied.
    runs : ndarray (2 or 4, 4) of int64
        The runs of the two examples that score and scatter see: the window of the moment, and the one after it.
    """

    length: np.ndarray
    position_ptr: np.ndarray
    mu_ptr: np.ndarray
    part_ptr: np.ndarray
    node_row: np.ndarray
    edge_row: np.ndarray
    runs: np.ndarray


class WindowPoint(NamedTuple):
    """The dual variables of all examples as marginals; arrays are changed in place.

    Attributes
    ----------
    mu : ndarray (n_marginals,)
    v : ndarray (n_weights,)
    gap, step, doubt : ndarray (n_positions,)
        Each position's share of its window's gap as of its last visit; the t of that visit; 1 − its largest marginal.
    node_entropy, edge_entropy : ndarray (n_positions,)
        Of each node where two edges meet, or none does, else unused; of each position's edge to the right.
    norm, value : ndarray (1,)
        ‖v‖² and Σ_i weight_i (H(α_i) / β + γ cost), kept up incrementally.
    """

    mu: np.ndarray
    v: np.ndarray
    gap: np.ndarray
    step: np.ndarray
    doubt: np.ndarray
    node_entropy: np.ndarray
    edge_entropy: np.ndarray
    norm: np.ndarray
    value: np.ndarray


class WindowRule(NamedTuple):
    """β, γ, l2; how exactly ends must fit; rows that move less are not scattered."""

    beta: float
    gamma: float
    l2: float
    tolerance: float
    threshold: float


class WindowRoom(NamedTuple):
    """Room for one window: its marginals, by how much they would change, and logarithms."""

    bridge: BridgeRoom
    old_nodes: np.ndarray
    old_edges: np.ndarray
    node_change: np.ndarray
    edge_change: np.ndarray
    log: np.ndarray
    trial: np.ndarray
    share: np.ndarray
    edge_entropy: np.ndarray
    node_entropy: np.ndarray


def window_room(specification: ChainSpecification, longest: int) -> WindowRoom:
    """For windows of up to `longest` positions."""
    n_labels = specification.n_labels
    nodes, edges = padded(longest * n_labels), padded((longest + 1) * n_labels**2)
    largest = max(nodes, edges)
    sizes = (nodes, edges, nodes, edges, largest, largest, longest, longest + 1, longest)
    return WindowRoom(bridge_room(specification, longest), *(np.zeros(size + LANES) for size in sizes))


class Window(NamedTuple):
    """`size` positions of an example from `start` on, and `n_edges` with those to its neighbours, if it has them.

    Entropies of the nodes from `first` to `last` (exclusive, counted within) count with `sign`: −1 where two edges
    meet, 1 where there are none.
    """

    example: int
    start: int
    size: int
    has_left: int
    has_right: int
    n_edges: int
    first: int
    last: int
    sign: float


@inner
def _logarithms(out, old, change, count, tau, trial):  # type: ignore
    """log(old + t · change), which stays in `trial`; nothing is below `_TINY`."""
    for k in range(count):
        trial[k] = max(old[k] + tau * change[k], _TINY)
    width = -(-count // LANES) * LANES
    for k in range(count, width):
        trial[k] = 1.0
    logarithm_row(out, 0, trial, 0, width)


@inner
def _derivatives(old, change, log, first, last, tau):  # type: ignore
    """Of −x log x at x = old + t · change: its sum, and two derivatives in t."""
    value, slope, curvature = 0.0, 0.0, 0.0
    for k in range(first, last):
        x = max(old[k] + tau * change[k], _TINY)
        value -= x * log[k]
        slope -= change[k] * log[k]
        curvature -= change[k] * change[k] / x
    return value, slope, curvature


@inner
def _entropy(n_labels, window, tau, room):  # type: ignore
    """Entropy of the window's share of the chain after a step t, and two derivatives.

    `room` keeps the entropies of edges and nodes, and what each position adds to the curvature.
    """
    block, share, edge_entropy, node_entropy = (
        n_labels * n_labels,
        room.share,
        room.edge_entropy,
        room.node_entropy,
    )
    _logarithms(room.log, room.old_edges, room.edge_change, window.n_edges * block, tau, room.trial)
    value, slope, curvature = 0.0, 0.0, 0.0
    for t in range(window.size):
        share[t] = 0.0
    for e in range(window.n_edges):
        here = _derivatives(room.old_edges, room.edge_change, room.log, e * block, (e + 1) * block, tau)
        value, slope, curvature = value + here[0], slope + here[1], curvature + here[2]
        edge_entropy[e] = here[0]
        share[min(max(e - window.has_left + 1, 0), window.size - 1)] -= here[2]
    _logarithms(room.log, room.old_nodes, room.node_change, window.size * n_labels, tau, room.trial)
    for t in range(window.first, window.last):
        first = t * n_labels
        here = _derivatives(room.old_nodes, room.node_change, room.log, first, first + n_labels, tau)
        node_entropy[t] = here[0]
        value += window.sign * here[0]
        slope += window.sign * here[1]
        curvature += window.sign * here[2]
        share[t] -= window.sign * here[2]
    return value, slope, curvature


@inner
def _read(mu, start, count, old, change):  # type: ignore
    """Marginals as they are, and what is to be added to get to the target, which `change` holds."""
    for k in range(count):
        old[k] = mu[start + k]
        change[k] -= old[k]


@inner
def _inner(one, other, count):  # type: ignore
    total = 0.0
    for k in range(count):
        total += one[k] * other[k]
    return total


@inner
def _seek(n_labels, window, linear, quadratic, before, tau, room):  # type: ignore
    """t in (0, 1] near the top of the dual, which is concave in it; returns it and the entropy there.

    What is missing at a t beyond the top is at most t times the slope. Newton's step is short where a marginal is all
    but gone, on whichever side of the top, and is not trusted to lead back.
    """
    low, high, entropy = 0.0, 1.0, before
    for trial in range(_MOST_TRIALS):
        entropy, slope, curvature = _entropy(n_labels, window, tau, room)
        gain = entropy - before + tau * (linear - 0.5 * tau * quadratic)
        slope += linear - tau * quadratic
        curvature -= quadratic
        is_top = tau == 1.0 and slope >= 0.0
        if is_top or abs(slope) * tau <= _NEAR * gain or high < _NO_STEP or trial == _MOST_TRIALS - 1:
            break
        better = tau - slope / curvature if curvature < 0.0 else 1.0
        if slope > 0.0:
            low = tau
        else:
            high = tau
        if slope < 0.0 and gain < 0.0:
            better = min(better, 0.5 * (low + high))
        tau = better if low < better < high else (1.0 if better >= high == 1.0 else 0.5 * (low + high))
    return tau, entropy


@inner
def _window(chains, i, first, last):  # type: ignore
    """Positions `first` to `last` of example i."""
    length, size = chains.length[i], last - first + 1
    has_left, has_right = np.int64(first > 0), np.int64(last < length - 1)
    alone = np.int64(length == 1)
    n_edges = size - 1 + has_left + has_right
    first_met, last_met = (1 - alone) * (1 - has_left), size - (1 - alone) * (1 - has_right)
    return Window(i, first, size, has_left, has_right, n_edges, first_met, last_met, 2.0 * alone - 1.0)


@inner
def _write_runs(chains, specification, window, first):  # type: ignore
    """The rows of a window: runs `first` and, where there are edges, the next."""
    runs, i, n_labels = chains.runs, window.example, specification.n_labels
    runs[first, FIRST_ROW], runs[first, N_ROWS] = chains.node_row[i] + window.start, window.size
    if runs.shape[0] > 2:
        runs[first + 1, FIRST_PART] = window.size * n_labels
        if not specification.tied:
            runs[first + 1, FIRST_ROW] = chains.edge_row[i] + window.start - window.has_left
            runs[first + 1, N_ROWS] = window.n_edges


@inner
def _aim(batch, chains, specification, window, following, point, rule, room, scratch):  # type: ignore
    """Write the marginals of q into `room`, β (s + γ e), perhaps flattened, into `scores`; returns by what that was
    multiplied, 0 where there is no q."""
    n_labels, i = specification.n_labels, window.example
    score_before(batch, 0, following, point.v, rule.beta / rule.l2, scratch.scores, scratch)
    if batch.cost.size > 0:
        first = chains.part_ptr[i] + window.start * n_labels
        for k in range(window.size * n_labels):
            scratch.scores[k] += rule.beta * rule.gamma * batch.cost[first + k]
    at = chains.mu_ptr[i] + window.start * n_labels
    left = at - n_labels if window.has_left else -1
    right = at + window.size * n_labels if window.has_right else -1
    opens, closes = window.start == 0, window.start + window.size == chains.length[i]
    scale, again = 1.0, 1.0
    while scale > _FLATTEST:
        exponentials(
            specification, window.size, window.n_edges, opens, closes, scratch.scores, again, room.bridge
        )
        if fit_ends(specification, window.size, point.mu, left, right, rule.tolerance, room.bridge):
            marginals(
                specification, window.size, window.has_left, window.has_right,
                room.node_change, room.edge_change, room.bridge,
            )  # fmt: skip
            return scale
        again = _FLATTER
        scale *= again
    return 0.0


@inner
def _prepare_scatter(specification, window, room, delta):  # type: ignore
    """−change of the problem's parts; that of tied edges is summed."""
    n_labels = specification.n_labels
    n_nodes, block = window.size * n_labels, n_labels * n_labels
    for k in range(n_nodes):
        delta[k] = -room.node_change[k]
    if specification.tied:
        for k in range(block):
            delta[n_nodes + k] = 0.0
        for e in range(window.n_edges):
            for k in range(block):
                delta[n_nodes + k] -= room.edge_change[e * block + k]
    else:
        for k in range(window.n_edges * block):
            delta[n_nodes + k] = -room.edge_change[k]


@inner
def _expected_cost(batch, first, count, change):  # type: ignore
    total = 0.0
    if batch.cost.size > 0:
        for k in range(count):
            total += batch.cost[first + k] * change[k]
    return total


@inner
def _commit(specification, window, chains, point, tau, room):  # type: ignore
    n_labels, i = specification.n_labels, window.example
    at = chains.mu_ptr[i] + window.start * n_labels
    for k in range(window.size * n_labels):
        point.mu[at + k] = max(room.old_nodes[k] + tau * room.node_change[k], 0.0)
    position = chains.position_ptr[i] + window.start
    for t in range(window.size):
        largest = 0.0
        for k in range(t * n_labels, (t + 1) * n_labels):
            largest = max(largest, room.old_nodes[k] + tau * room.node_change[k])
        point.doubt[position + t] = 1.0 - largest
        point.step[position + t] = tau
    for t in range(window.first, window.last):
        point.node_entropy[position + t] = room.node_entropy[t]
    for e in range(window.n_edges):
        point.edge_entropy[position - window.has_left + e] = room.edge_entropy[e]
    at = _edges_at(chains, window, n_labels)
    for k in range(window.n_edges * n_labels * n_labels):
        point.mu[at + k] = max(room.old_edges[k] + tau * room.edge_change[k], 0.0)


@inner
def _edges_at(chains, window, n_labels):  # type: ignore
    i = window.example
    return chains.mu_ptr[i] + (chains.length[i] + (window.start - window.has_left) * n_labels) * n_labels


@inner
def _stored_entropy(window, position, point):  # type: ignore
    """Entropy of the window's share of the chain."""
    total, first = 0.0, position - window.has_left
    for e in range(window.n_edges):
        total += point.edge_entropy[first + e]
    for t in range(window.first, window.last):
        total += window.sign * point.node_entropy[position + t]
    return total


@inner
def _visit(batch, chains, specification, window, following, point, rule, room, scratch):  # type: ignore
    """One step on a window."""
    i, n_labels = window.example, specification.n_labels
    weight, position = batch.example_weight[i], chains.position_ptr[i] + window.start
    n_node, n_edge = window.size * n_labels, window.n_edges * n_labels * n_labels
    for t in range(window.size):
        point.gap[position + t] = 0.0
    if weight == 0.0:
        return
    scale = _aim(batch, chains, specification, window, following, point, rule, room, scratch)
    if scale == 0.0:
        return
    _read(point.mu, chains.mu_ptr[i] + window.start * n_labels, n_node, room.old_nodes, room.node_change)
    _read(point.mu, _edges_at(chains, window, n_labels), n_edge, room.old_edges, room.edge_change)
    _prepare_scatter(specification, window, room, scratch.delta)
    n_parts = n_node + (n_labels * n_labels if specification.tied and n_edge > 0 else n_edge)
    linear = -_inner(scratch.delta, scratch.scores, n_parts) / scale
    cost = _expected_cost(batch, chains.part_ptr[i] + window.start * n_labels, n_node, room.node_change)
    before = _stored_entropy(window, position, point)
    guess = min(max(point.step[position + window.size // 2], _LEAST_STEP), 1.0)
    growth = scatter_example(batch, 0, point.v, weight * guess, scratch.delta, rule.threshold, scratch)
    of_features = (linear / rule.beta - rule.gamma * cost) * rule.l2
    squared = max(growth + 2.0 * guess * weight * of_features, 0.0) / (guess * guess * weight)
    tau, entropy = _seek(n_labels, window, linear, rule.beta * squared / rule.l2, before, guess, room)
    if tau < _NO_STEP:  # nothing to be gained but by rounding
        scatter_example(batch, 0, point.v, -weight * guess, scratch.delta, 0.0, scratch)
        return
    if tau != guess:
        growth += scatter_example(batch, 0, point.v, weight * (tau - guess), scratch.delta, 0.0, scratch)
    _commit(specification, window, chains, point, tau, room)
    for t in range(window.size):
        point.gap[position + t] = 0.5 * max(room.share[t], 0.0) / rule.beta
    point.norm[0] += growth
    point.value[0] += weight * ((entropy - before) / rule.beta + rule.gamma * tau * cost)


@entry
def window_pass(batch, chains, specification, windows, order, point, rule, room, scratch):  # type: ignore
    """Visit the `windows` (example, first, last position) of `order`; `batch` has the rows of `chains.runs`."""
    n_runs = chains.runs.shape[0] // 2
    for k in range(order.size):
        i, first, last = windows[order[k]]
        window, following = _window(chains, i, first, last), -1
        _write_runs(chains, specification, window, 0)
        if k + 1 < order.size:
            i, first, last = windows[order[k + 1]]
            after, following = _window(chains, i, first, last), 1
            _write_runs(chains, specification, after, n_runs)
            at = _edges_at(chains, after, specification.n_labels)
            fetch_ahead(point.mu, at, at + after.n_edges * specification.n_labels**2)
        _visit(batch, chains, specification, window, following, point, rule, room, scratch)
