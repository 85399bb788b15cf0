"""Block-coordinate Frank–Wolfe visits for β = ∞ (Lacoste-Julien, Jaggi, Schmidt, Pletscher 2013).

    y* = argmax_y (s + γ e)(y),   d = counts(y*) − μ_i,   g_i = (s + γ e)·d
    t = clip( g_i / ( c_i ‖Σ_r d_r φ(x_i, r)‖² / l2 ), 0, 1 ),   μ_i ← μ_i + t d,   v ← v − t c_i Σ_r d_r φ(x_i, r)

The step is the exact maximiser of the dual along d. Positions where y* agrees with μ_i cost nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.kernels.dispatch import fragment, kernel
from partwise.kernels.examples import add_cost, expected_cost, scatter_example, score_example
from partwise.kernels.oracles import best


class MixturePoint(NamedTuple):
    """Dual variables known only through their expected part counts.

    Attributes
    ----------
    mu : ndarray (n_parts,)
        Expected counts.
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
def _frank_wolfe_visit(batch, i, point, gamma, l2, scratch):  # type: ignore
    """One exact step on example i; its gap before the step is stored."""
    weight, start = batch.example_weight[i], batch.part_ptr[i]
    count = score_example(batch, i, point.v, 1.0 / l2, scratch.scores, scratch.row)
    for j in range(count):
        scratch.potentials[j] = scratch.scores[j]
    add_cost(batch, i, gamma, scratch.potentials)
    best(batch.specification, batch.length[i], scratch.potentials, scratch.counts, scratch.structure)
    gap, linear, moved = 0.0, 0.0, 0.0
    for j in range(count):
        d = scratch.counts[j] - point.mu[start + j]
        scratch.delta[j] = -d
        if d != 0.0:
            gap += scratch.potentials[j] * d
            linear += scratch.scores[j] * d
            moved = max(moved, abs(d))
    point.gap[i] = max(gap, 0.0)
    if gap <= 0.0 or weight == 0.0 or moved < 1e-9:
        return
    growth = scatter_example(batch, i, point.v, weight, scratch.delta, 0.0, scratch.row)
    curvature = (growth + 2.0 * l2 * weight * linear) / (l2 * weight)
    step = 1.0 if curvature <= gap else gap / curvature
    if step < 1.0:
        growth += scatter_example(batch, i, point.v, (step - 1.0) * weight, scratch.delta, 0.0, scratch.row)
    point.norm[0] += growth
    for j in range(count):
        if scratch.delta[j] != 0.0:
            point.mu[start + j] -= step * scratch.delta[j]
    point.cost[i] = expected_cost(batch, i, point.mu[start : start + count])


@kernel
def frank_wolfe_pass(batch, order, point, gamma, l2, scratch):  # type: ignore
    """Visit the examples of `order`."""
    for k in range(order.size):
        _frank_wolfe_visit(batch, order[k], point, gamma, l2, scratch)


@kernel
def mixture_pass(batch, first, last, mu, v, cost, scratch):  # type: ignore
    """v and the costs recomputed from stored counts."""
    for i in range(first, last):
        start = batch.part_ptr[i]
        count = batch.part_ptr[i + 1] - start
        for j in range(count):
            scratch.delta[j] = -mu[start + j]
            scratch.counts[j] = mu[start + j]
        for k in range(batch.gold_ptr[i], batch.gold_ptr[i + 1]):
            scratch.delta[batch.gold_part[k]] += 1.0
        cost[i] = expected_cost(batch, i, scratch.counts)
        scatter_example(batch, i, v, batch.example_weight[i], scratch.delta, 0.0, scratch.row)
