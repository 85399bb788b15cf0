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
    """−Σ μ log μ, a piece at a time."""
    total, room = 0.0, (scratch.potentials.size - LANES) // LANES * LANES
    for first in range(0, count, room):
        n = min(room, count - first)
        for k in range(n):
            scratch.potentials[k] = max(mu[start + first + k], _TINY)
        width = -(-n // LANES) * LANES
        for k in range(n, width):
            scratch.potentials[k] = 1.0
        logarithm_row(scratch.scores, 0, scratch.potentials, 0, width)
        for k in range(n):
            total -= mu[start + first + k] * scratch.scores[k]
    return total


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
def settle_pass(batch, first, last, chains, n_labels, tied, mu, v, entropy, cost, doubt, scratch):  # type: ignore
    """Make the marginals of examples consistent; their entropies and costs, and v added up, in double precision."""
    block = n_labels * n_labels
    for i in range(first, last):
        start, length = chains.mu_ptr[i], chains.length[i]
        _make_consistent(mu, start, length, n_labels)
        nodes = start + length * n_labels
        if length == 1:
            entropy[i] = _entropy_of(mu, start, n_labels, scratch)
        else:
            entropy[i] = _entropy_of(mu, nodes, (length - 1) * block, scratch)
            entropy[i] -= _entropy_of(mu, start + n_labels, (length - 2) * n_labels, scratch)
        for t in range(length):
            largest = 0.0
            for k in range(start + t * n_labels, start + (t + 1) * n_labels):
                largest = max(largest, mu[k])
            doubt[chains.position_ptr[i] + t] = 1.0 - largest
        _count_parts(mu, start, length, n_labels, tied, scratch.counts)
        cost[i] = expected_cost(batch, i, scratch.counts)
        for k in range(batch.part_ptr[i + 1] - batch.part_ptr[i]):
            scratch.delta[k] = -scratch.counts[k]
        add_gold(batch, i, 1.0, scratch.delta)
        scatter_example(batch, i, v, batch.example_weight[i], scratch.delta, 0.0, scratch)
