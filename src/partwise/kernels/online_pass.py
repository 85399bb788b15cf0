"""Online exponentiated gradient: one fused visit per example (Collins et al. 2008, Figure 3 and §7).

    θ_i ← θ_i + η ( s_i + γ e_i − θ_i / β ),   v ← v + Σ_r (μ_old − μ_new)_r φ(x_i, r)

The change of the dual is exact and local: the example's entropy and cost, and the growth of ‖v‖²
through the weights it touches. A step that would lower the dual is undone and halved.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.kernels.dispatch import fragment, kernel
from partwise.kernels.examples import (
    add_cost,
    add_gold_rows,
    expected_cost,
    finite_dot,
    layout_of,
    scatter_example,
    score_example,
)
from partwise.kernels.oracles import best, expectations

FIXED, ADAPTIVE = 0, 1
MAX_HALVINGS = 30
_ROUNDING = 1e-13  # of a dual difference, relative to the log-partition


class DualPoint(NamedTuple):
    """The dual variables of all examples; arrays are changed in place.

    Attributes
    ----------
    theta, mu : ndarray (n_parts,)
        Potentials and the expected counts they give.
    v : ndarray (n_weights,)
        v(α) of SPEC §1; the weights are v / l2.
    entropy, cost : ndarray (n_examples,)
        H(α_i) and Σ_r μ_r e_r.
    gap : ndarray (n_examples,)
        Last known (or estimated) g_i.
    step : ndarray (n_examples,)
        Step size η_i of each example.
    visited : ndarray (n_examples,) of uint8
        0 while α_i still is the true label itself.
    norm : ndarray (1,)
        ‖v‖², kept up incrementally.
    """

    theta: np.ndarray
    mu: np.ndarray
    v: np.ndarray
    entropy: np.ndarray
    cost: np.ndarray
    gap: np.ndarray
    step: np.ndarray
    visited: np.ndarray
    norm: np.ndarray


class StepRule(NamedTuple):
    """How far to go: `kind` FIXED or ADAPTIVE; after a success η × growth, never above `largest`.

    `threshold`: rows whose marginals moved less are not scattered now. `noise`: what rounding
    of the state may do to the dual of one position; a smaller loss is not seen. `lift`: what is added to the true
    label's potentials when a first step off it fails. `exact_gap`: ask for the gap of every visit.
    """

    kind: int
    growth: float
    largest: float
    threshold: float
    noise: float
    lift: float
    exact_gap: bool


@fragment
def _attempt(batch, i, point, step, inverse_beta, lift, count, scratch):  # type: ignore
    """Potentials and counts after a step; returns A(θ_new) and H(θ_new).

    `lift` raises the true label's potentials: an example that leaves its true label must start close
    enough to it, and how close is found by trying.
    """
    start = batch.part_ptr[i]
    for j in range(count):
        theta = point.theta[start + j]
        scratch.potentials[j] = theta + step * (scratch.scores[j] - inverse_beta * theta)
    if lift > 0.0:
        add_gold_rows(batch, i, lift, scratch.potentials)
    log_total = expectations(
        batch.specification, layout_of(batch, i), scratch.potentials, scratch.counts, scratch.structure
    )
    for j in range(count):
        scratch.delta[j] = point.mu[start + j] - scratch.counts[j]
    return log_total, log_total - finite_dot(scratch.potentials, scratch.counts, count)


@fragment
def _estimated_gap(batch, i, point, step, beta, log_total, count, scratch):  # type: ignore
    """g_i after the step, from the curvature of A seen along it (free); for finite β.

    KL(α‖p) = A(θ+βg) − A(θ) − β μ·g with g the direction; A's second difference scales with η².
    """
    start = batch.part_ptr[i]
    inner, theta_mu = 0.0, 0.0
    for j in range(count):
        theta, mu = point.theta[start + j], point.mu[start + j]
        if mu != 0.0:
            inner += mu * (scratch.scores[j] - theta / beta)
            theta_mu += theta * mu
    curvature = max(log_total - (point.entropy[i] + theta_mu) - step * inner, 0.0)
    left = beta / step - 1.0
    return curvature * left * left / beta


@fragment
def _commit(batch, i, point, count, scratch):  # type: ignore
    """Store the accepted potentials; counts move by what was scattered, so that v stays their image."""
    start = batch.part_ptr[i]
    for j in range(count):
        point.theta[start + j] = scratch.potentials[j]
        point.mu[start + j] -= scratch.delta[j]


@fragment
def _visit(batch, i, point, beta, gamma, l2, rule, scratch):  # type: ignore
    """One EG step on example i; returns the number of steps tried and the gain of the dual."""
    inverse_beta = 0.0 if beta == np.inf else 1.0 / beta
    weight = batch.example_weight[i]
    start = batch.part_ptr[i]
    count = score_example(batch, i, point.v, 1.0 / l2, scratch.scores, scratch.row)
    add_cost(batch, i, gamma, scratch.scores)
    fresh = point.visited[i] == 0
    if beta == np.inf and (rule.exact_gap or fresh):
        top = best(
            batch.specification, layout_of(batch, i), scratch.scores, scratch.counts, scratch.structure
        )
        point.gap[i] = top - finite_dot(scratch.scores, point.mu[start : start + count], count)
        if fresh and point.gap[i] <= 0.0:  # the true label itself is optimal here
            return 1, 0.0
    step, lift = point.step[i], 0.0
    for attempt in range(MAX_HALVINGS):
        log_total, entropy = _attempt(batch, i, point, step, inverse_beta, lift, count, scratch)
        if not abs(entropy) < np.inf:  # potentials out of range; scattering NaN could not be undone
            step *= 0.5
            continue
        cost = expected_cost(batch, i, scratch.counts)
        value = inverse_beta * (entropy - point.entropy[i]) + gamma * (cost - point.cost[i])
        growth = scatter_example(batch, i, point.v, weight, scratch.delta, rule.threshold, scratch.row)
        gain = weight * value - growth / (2.0 * l2)
        if (
            gain >= -weight * (rule.noise * batch.length[i] + _ROUNDING * (1.0 + abs(log_total)))
            or rule.kind == FIXED
        ):
            if beta != np.inf:
                point.gap[i] = _estimated_gap(batch, i, point, step, beta, log_total, count, scratch)
            _commit(batch, i, point, count, scratch)
            point.entropy[i], point.cost[i] = entropy, cost
            point.norm[0] += growth
            point.visited[i] = 1
            if rule.kind == ADAPTIVE:
                point.step[i] = min(step * rule.growth, rule.largest)
            return attempt + 1, gain
        scatter_example(batch, i, point.v, -weight, scratch.delta, 0.0, scratch.row)
        step *= 0.5
        lift += rule.lift if fresh else 0.0
    point.step[i] *= 0.5
    return MAX_HALVINGS, 0.0


@kernel
def online_pass(batch, order, point, beta, gamma, l2, rule, scratch):  # type: ignore
    """Visit the examples of `order`; returns steps tried, and how many visits gained."""
    tried, improved = 0, 0
    for k in range(order.size):
        attempts, gain = _visit(batch, order[k], point, beta, gamma, l2, rule, scratch)
        tried += attempts
        improved += 1 if gain > 0.0 else 0
    return tried, improved
