"""Factored SMO visits for β = ∞ (Taskar, Guestrin, Koller 2004): mass moves between two labellings.

α_i is known by its part marginals μ_i alone. A visit finds the loss-augmented best labelling y and the worst
labelling a among those whose parts all have positive marginals, and moves along d = parts of y − parts of a:

    g = (s + γ e)(y) − (s + γ e)(a),   t = min( l2 g / (c_i ‖Σ_r d_r φ(x_i, r)‖²), min_{r: d_r < 0} μ_r ),   μ_i ← μ_i + t d

The first term maximises the dual along d. The second is all that keeps μ_i feasible where marginals that are
consistent and not negative are those of a distribution, as for parts that form a tree with a part for every pair of
neighbours; parts that y and a share do not move. (Garber and Meshi 2016 show that such steps converge linearly.)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.kernels.dispatch import fragment, kernel
from partwise.kernels.examples import add_cost, finite_dot, layout_of, scatter_example, score_example
from partwise.kernels.oracles import best

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


@fragment
def _find_direction(batch, i, point, gamma, l2, scratch):  # type: ignore
    """Write −d into `delta` and scores into `scores`; returns g, or 0 where nothing is to be gained."""
    start = batch.part_ptr[i]
    count = score_example(batch, i, point.v, 1.0 / l2, scratch.scores, scratch.row)
    for j in range(count):
        scratch.potentials[j] = scratch.scores[j]
    add_cost(batch, i, gamma, scratch.potentials)
    mean = finite_dot(scratch.potentials, point.mu[start : start + count], count)
    top = best(
        batch.specification, layout_of(batch, i), scratch.potentials, scratch.counts, scratch.structure
    )
    point.gap[i] = max(top - mean, 0.0)
    for j in range(count):
        scratch.delta[j] = scratch.counts[j]
        scratch.potentials[j] = -scratch.potentials[j] if point.mu[start + j] > 0.0 else -np.inf
    bottom = best(
        batch.specification, layout_of(batch, i), scratch.potentials, scratch.counts, scratch.structure
    )
    for j in range(count):
        scratch.delta[j] = scratch.counts[j] - scratch.delta[j]
    gain = top + bottom  # −inf where rounding has left no whole labelling
    return gain if gain > _LEAST_GAIN * (1.0 + abs(top)) else 0.0


@fragment
def _exchange(batch, i, point, gain, l2, scratch):  # type: ignore
    """Move along d as far as the dual rises and marginals allow."""
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
    trial = max(limit, _LEAST_TRIAL)
    growth = scatter_example(batch, i, point.v, trial * weight, scratch.delta, 0.0, scratch.row)
    squared = (growth + 2.0 * trial * weight * l2 * linear) / (trial * trial)
    step = limit
    if squared * limit > l2 * weight * gain:
        step = l2 * weight * gain / squared
    if step != trial:
        growth += scatter_example(batch, i, point.v, (step - trial) * weight, scratch.delta, 0.0, scratch.row)
    for j in range(count):
        if scratch.delta[j] != 0.0:
            new = point.mu[start + j] - step * scratch.delta[j]
            point.mu[start + j] = new if new > _DUST else 0.0
    point.cost[i] += step * cost
    point.norm[0] += growth


@kernel
def smo_pass(batch, order, point, gamma, l2, n_exchanges, scratch):  # type: ignore
    """Up to `n_exchanges` on every example of `order`; returns how often examples were scored."""
    visits = 0
    for k in range(order.size):
        i = order[k]
        if batch.example_weight[i] == 0.0:
            point.gap[i] = 0.0
            visits += 1
            continue
        for _ in range(n_exchanges):
            visits += 1
            gain = _find_direction(batch, i, point, gamma, l2, scratch)
            if gain <= 0.0:
                break
            _exchange(batch, i, point, gain, l2, scratch)
    return visits
