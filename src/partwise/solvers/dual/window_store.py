# mypy: ignore-errors
"""What follows from stored marginals of chains: entropies, costs, v; and making them consistent on the way."""

from __future__ import annotations

from partwise.compiled.dispatch import entry, inner
from partwise.compiled.examples import add_gold, expected_cost, scatter_example
from partwise.compiled.simd import LANES
from partwise.compiled.simd_log import logarithm_row

_TINY = 1e-300


@inner
def _normalise(mu, start, count, mass):  # type: ignore
    """Make the entries add up to `mass`, which goes unless they have some."""
    total = 0.0
    for k in range(start, start + count):
        total += mu[k]
    factor = mass / total if total > 0.0 else 0.0
    for k in range(start, start + count):
        mu[k] *= factor


@inner
def _make_consistent(mu, start, length, n_labels):  # type: ignore
    """Edges keep their conditionals given the label to the left, and what these give is every node's marginal."""
    edges = start + length * n_labels
    _normalise(mu, start, n_labels, 1.0)
    for t in range(length - 1):
        here, block = start + t * n_labels, edges + t * n_labels * n_labels
        for i in range(n_labels):
            _normalise(mu, block + i * n_labels, n_labels, mu[here + i])
        _normalise(mu, block, n_labels * n_labels, 1.0)
        for j in range(n_labels):
            total = 0.0
            for i in range(n_labels):
                total += mu[block + i * n_labels + j]
            mu[here + n_labels + j] = total


@inner
def _entropy_of(mu, start, count, scratch):  # type: ignore
    """−Σ μ log μ."""
    for k in range(count):
        scratch.potentials[k] = max(mu[start + k], _TINY)
    width = -(-count // LANES) * LANES
    for k in range(count, width):
        scratch.potentials[k] = 1.0
    logarithm_row(scratch.scores, 0, scratch.potentials, 0, width)
    total = 0.0
    for k in range(count):
        total -= scratch.potentials[k] * scratch.scores[k]
    return total


@inner
def _describe(point, start, position, length, n_labels, scratch):  # type: ignore
    """Doubts and entropies of the positions of an example."""
    mu, block = point.mu, n_labels * n_labels
    for t in range(length):
        node, edge = start + t * n_labels, start + length * n_labels + t * block
        largest = 0.0
        for k in range(node, node + n_labels):
            largest = max(largest, mu[k])
        point.doubt[position + t] = 1.0 - largest
        met = length == 1 or 0 < t < length - 1
        point.node_entropy[position + t] = _entropy_of(mu, node, n_labels, scratch) if met else 0.0
        point.edge_entropy[position + t] = _entropy_of(mu, edge, block, scratch) if t < length - 1 else 0.0


@inner
def _count_parts(mu, start, length, n_labels, tied, counts):  # type: ignore
    """Counts of the problem's parts: tied edges are summed."""
    nodes, block = length * n_labels, n_labels * n_labels
    for k in range(nodes):
        counts[k] = mu[start + k]
    if tied:
        for k in range(block):
            counts[nodes + k] = 0.0
        for t in range(length - 1):
            for k in range(block):
                counts[nodes + k] += mu[start + nodes + t * block + k]
    else:
        for k in range((length - 1) * block):
            counts[nodes + k] = mu[start + nodes + k]


@entry
def settle_pass(batch, first, last, chains, n_labels, tied, point, v, cost, scratch):  # type: ignore
    """Make the marginals of examples consistent; what follows from them, in double precision, and v added up."""
    for i in range(first, last):
        start, length = chains.mu_ptr[i], chains.length[i]
        _make_consistent(point.mu, start, length, n_labels)
        _describe(point, start, chains.position_ptr[i], length, n_labels, scratch)
        _count_parts(point.mu, start, length, n_labels, tied, scratch.counts)
        cost[i] = expected_cost(batch, i, scratch.counts)
        for k in range(batch.part_ptr[i + 1] - batch.part_ptr[i]):
            scratch.delta[k] = -scratch.counts[k]
        add_gold(batch, i, 1.0, scratch.delta)
        scatter_example(batch, i, v, batch.example_weight[i], scratch.delta, 0.0, scratch)
