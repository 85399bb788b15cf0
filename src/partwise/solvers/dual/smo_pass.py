# mypy: ignore-errors
"""Factored SMO visits for β = ∞ (Taskar, Guestrin, Koller 2004): mass moves between two labellings.

α_i is known by its part marginals μ_i alone. A visit finds the loss-augmented best labelling y and the worst
labelling a among those whose parts all have positive marginals, and moves along d = parts of y − parts of a:

    g = (s + γ e)(y) − (s + γ e)(a)
    t = min( l2 g / (c_i ‖Σ_r d_r φ(x_i, r)‖²), min_{r: d_r < 0} μ_r ),   μ_i ← μ_i + t d

The first term maximises the dual along d. The second is all that keeps μ_i feasible where consistent, non-negative
marginals are always those of a distribution: classes, and chains with parts for each pair of neighbours. Parts
that y and a share do not move. (With all examples as one, these are the steps of Garber and Meshi 2016.)
A stricter limit is the mass of a in the distribution of largest entropy that has these marginals.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.compiled.dispatch import entry, inner
from partwise.compiled.examples import add_cost, finite_dot, length_of, scatter_example, score_example
from partwise.compiled.oracles import best

_LEAST_GAIN = 1e-12  # relative to the scores
_LEAST_TRIAL = 1e-2  # ‖d‖² is read off a step of at least this size, so that rounding does not drown it
_DUST = 1e-14  # marginals below this are what rounding left


class MarginalPoint(NamedTuple):
    """The dual variables of all examples as marginals; arrays are changed in place.

    Attributes
    ----------
    mu : ndarray (n_parts,)
    v : ndarray (n_weights,)
    cost, gap : ndarray (n_examples,)
        Σ_r μ_r e_r, and g_i as of the last visit.
    norm : ndarray (1,)
        ‖v‖², kept up incrementally.
    """

    mu: np.ndarray
    v: np.ndarray
    cost: np.ndarray
    gap: np.ndarray
    norm: np.ndarray


@inner
def _find_direction(batch, i, point, gamma, l2, scratch):  # type: ignore
    """Write −d into `delta` and scores into `scores`; returns g, or 0 where nothing is to be gained."""
    start = batch.part_ptr[i]
    count = score_example(batch, i, point.v, 1.0 / l2, scratch.scores, scratch)
    for j in range(count):
        scratch.potentials[j] = scratch.scores[j]
    add_cost(batch, i, gamma, scratch.potentials)
    mean = finite_dot(scratch.potentials, point.mu[start : start + count], count)
    top = best(batch, i, scratch.potentials, scratch.counts, scratch)
    point.gap[i] = max(top - mean, 0.0)
    for j in range(count):
        scratch.delta[j] = scratch.counts[j]
        scratch.potentials[j] = -scratch.potentials[j] if point.mu[start + j] > 0.0 else -np.inf
    bottom = best(batch, i, scratch.potentials, scratch.counts, scratch)
    for j in range(count):
        scratch.delta[j] = scratch.counts[j] - scratch.delta[j]
    gain = top + bottom  # −inf where rounding has left no whole labelling
    return gain if gain > _LEAST_GAIN * (1.0 + abs(top)) else 0.0


@inner
def _entropic_mass(batch, i, n_labels, point, scratch):  # type: ignore
    """α(a) of largest entropy: the product of a's edge marginals by that of the nodes where two edges meet."""
    start, length = batch.part_ptr[i], length_of(batch, i)
    nodes, mass = length * n_labels, 1.0
    for j in range(batch.part_ptr[i + 1] - start):
        if scratch.counts[j] > 0.0:
            if j >= nodes or length == 1:
                mass *= point.mu[start + j]
            elif n_labels <= j < nodes - n_labels:
                mass /= point.mu[start + j]
    return mass


@inner
def _exchange(batch, i, n_labels, point, gain, l2, entropic, scratch):  # type: ignore
    """Move along d as far as the dual rises and marginals allow; `counts` still holds a."""
    weight, start = batch.example_weight[i], batch.part_ptr[i]
    count = batch.part_ptr[i + 1] - start
    limit, linear, cost = np.inf, 0.0, 0.0
    for j in range(count):
        if scratch.delta[j] != 0.0:
            linear -= scratch.delta[j] * scratch.scores[j]
            if batch.cost.size > 0:
                cost -= scratch.delta[j] * batch.cost[start + j]
            if scratch.delta[j] > 0.0:
                limit = min(limit, point.mu[start + j] / scratch.delta[j])
    if entropic:
        limit = min(limit, _entropic_mass(batch, i, n_labels, point, scratch))
    trial = max(limit, _LEAST_TRIAL)
    growth = scatter_example(batch, i, point.v, trial * weight, scratch.delta, 0.0, scratch)
    squared = (growth + 2.0 * trial * weight * l2 * linear) / (trial * trial)
    step = limit
    if squared * limit > l2 * weight * gain:
        step = l2 * weight * gain / squared
    if step != trial:
        growth += scatter_example(batch, i, point.v, (step - trial) * weight, scratch.delta, 0.0, scratch)
    for j in range(count):
        if scratch.delta[j] != 0.0:
            new = point.mu[start + j] - step * scratch.delta[j]
            point.mu[start + j] = new if new > _DUST else 0.0
    point.cost[i] += step * cost
    point.norm[0] += growth


@entry
def smo_pass(batch, order, n_labels, point, gamma, l2, entropic, scratch):  # type: ignore
    """Visit the examples of `order`; `entropic` for the stricter limit."""
    for k in range(order.size):
        i = order[k]
        if batch.example_weight[i] == 0.0:
            point.gap[i] = 0.0
            continue
        gain = _find_direction(batch, i, point, gamma, l2, scratch)
        if gain > 0.0:
            _exchange(batch, i, n_labels, point, gain, l2, entropic, scratch)


@entry
def log_conditionals(length, part_ptr, n_labels, mu, theta):  # type: ignore
    """Potentials of the marginals `mu` of untied chains, classes being chains of length 1.

    θ(y_1) = log μ(y_1), θ(y_t) = 0 for t > 1, θ(y_{t-1}, y_t) = log μ(y_{t-1}, y_t) − log μ(y_{t-1}); log 0 is −inf,
    also where the condition has no mass. These are logarithms of conditional probabilities: they sum to log α(y).
    """
    for i in range(length.size):
        start = part_ptr[i]
        edges = start + length[i] * n_labels
        for j in range(n_labels):
            theta[start + j] = np.log(mu[start + j])
        for j in range(start + n_labels, edges):
            theta[j] = 0.0
        for row in range((length[i] - 1) * n_labels):
            at, total = edges + row * n_labels, 0.0
            for j in range(n_labels):
                total += mu[at + j]
            for j in range(n_labels):
                theta[at + j] = np.log(mu[at + j] / total) if mu[at + j] > 0.0 else -np.inf
