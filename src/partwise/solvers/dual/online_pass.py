# mypy: ignore-errors
"""Block-coordinate ascent on the dual: one fused visit per example, along one of two paths.

    θ_i ← θ_i + η ( s_i + γ e_i − θ_i / β )        geometric: exponentiated gradient (Collins et al. 2008)
    α_i ← (1 − t) α_i + t p_i,  t = η / β           arithmetic: SDCA (Shalev-Shwartz and Zhang 2013)
    v ← v + Σ_r (μ_old − μ_new)_r φ(x_i, r)

Both lead to p_i ∝ exp β (s_i + γ e_i). The change of the dual is exact and local: the example's entropy
and cost, and the growth of ‖v‖² through the weights it touches. A step that would lower the dual is undone
and shortened.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.compiled.dispatch import chosen_by_type, entry, inner
from partwise.compiled.examples import (
    add_cost,
    add_gold_rows,
    begin_change,
    end_change,
    expected_cost,
    finite_dot,
    is_shared,
    length_of,
    scatter_example,
    score_before,
)
from partwise.compiled.oracles import best, expectations, log_partition

FIXED, HALVING, NEWTON = 0, 1, 2
MAX_HALVINGS = 30
_BLIND_GROWTH = 1.05
_TELLING_STEP = 0.25  # of β: the curvature along a shorter step is too inexact to estimate the gap from
ROUNDING = 1e-13  # of a dual difference, relative to the log-partition


class DualPoint(NamedTuple):
    """The dual variables of all examples; arrays are changed in place.

    Attributes
    ----------
    theta, mu : ndarray (n_parts,)
        Potentials and the expected counts they give.
    v : ndarray (n_weights,)
        v(α) = Σ_i weight_i (φ(x_i, y_i) − Σ_r μ_{i,r} φ(x_i, r)); the weights are v / l2.
    entropy, cost : ndarray (n_examples,)
        H(α_i) and Σ_r μ_r e_r.
    gap : ndarray (n_examples,)
        g_i as the last visit found it, before its step; estimated on the geometric path.
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
    """How far to go.

    Attributes
    ----------
    kind : int
        FIXED; HALVING: after a success η × growth (Collins et al. §7); NEWTON: the next η is where the
        parabola seen along this step has its top, at most × growth.
    growth, largest : float
    threshold : float
        Rows whose marginals moved less are not scattered now.
    noise : float
        By how much rounding of the state may change the dual of one position; a step that loses less is kept.
    lift : float
        Added to the true label's potentials each time that a first step off the true label lowers the dual.
    exact_gap : bool
        Ask for the gap of a visit also where that takes another sum over labellings.
    """

    kind: int
    growth: float
    largest: float
    threshold: float
    noise: float
    lift: float
    exact_gap: bool


class MixingRule(NamedTuple):
    """The same on the arithmetic path, for classes; by its type, so that other passes are compiled without it."""

    kind: int
    growth: float
    largest: float
    threshold: float
    noise: float
    lift: float
    exact_gap: bool


@chosen_by_type
def counts_before(rule, batch, i, point, count, scratch):  # type: ignore
    """Where in `point.mu` the μ_i begins that is in v; asked once a visit, when its scores are known."""
    raise TypeError


@inner
def _stored_counts(rule, batch, i, point, count, scratch):  # type: ignore
    return batch.part_ptr[i]


@inner
def _move_on_geometric_path(batch, i, point, mu_before, step, inverse_beta, lift, noise, count, scratch):  # type: ignore
    """Potentials θ + η d with d = s + γ e − θ/β; returns what `_attempt` does.

    `lift` raises the true label's potentials: an example that leaves its true label must start close
    enough to it, and how close is found by trying. Slope and gap come from the curvature of A:
    A(θ + ηd) − A(θ) − η μ·d is half of η² dᵀ∇²A d, the slope is dᵀ∇²A d, and at η = β it is β g_i.
    """
    start = batch.part_ptr[i]
    inner, theta_mu = 0.0, 0.0
    # Sums have a loop without stores: beside one they would be added up in vectors or one by one, depending on
    # what lies behind the arrays in memory, and equal runs would differ.
    for j in range(count):
        theta, mu = point.theta[start + j], mu_before[j]
        if mu != 0.0:
            inner += mu * (scratch.scores[j] - inverse_beta * theta)
            theta_mu += theta * mu
    for j in range(count):
        theta = point.theta[start + j]
        scratch.potentials[j] = theta + step * (scratch.scores[j] - inverse_beta * theta)
    if lift > 0.0:
        add_gold_rows(batch, i, lift, scratch.potentials)
    log_total = expectations(batch, i, scratch.potentials, scratch.counts, scratch)
    curvature = log_total - (point.entropy[i] + theta_mu) - step * inner
    if curvature < noise + ROUNDING * (1.0 + abs(log_total)):
        curvature = 0.0
    slope = 2.0 * curvature / (step * step)
    gap = 0.0 if inverse_beta == 0.0 else 0.5 * slope / inverse_beta
    return log_total, slope, gap


@inner
def _move_on_arithmetic_path(batch, i, point, step, beta, count, scratch):  # type: ignore
    """Potentials log((1 − t) α + t p), in logarithms throughout, so that nothing ever reaches zero."""
    start = batch.part_ptr[i]
    for j in range(count):
        scratch.potentials[j] = point.theta[start + j]
    log_old = expectations(batch, i, scratch.potentials, scratch.counts, scratch)
    for j in range(count):
        scratch.potentials[j] = beta * scratch.scores[j]
    log_target = expectations(batch, i, scratch.potentials, scratch.delta, scratch)
    mixing = min(step / beta, 1.0)
    log_rest = np.log1p(-mixing) if mixing < 1.0 else -np.inf
    slope, gap = 0.0, 0.0
    for j in range(count):
        old, target = point.theta[start + j] - log_old, scratch.potentials[j] - log_target
        if target > -np.inf:
            slope += (scratch.delta[j] - scratch.counts[j]) * (target - old) / beta
            gap += scratch.counts[j] * (old - target) / beta
        a, b = old + log_rest, target + np.log(mixing)
        top = max(a, b)
        scratch.potentials[j] = top + np.log(np.exp(a - top) + np.exp(b - top)) if top > -np.inf else top
    log_total = expectations(batch, i, scratch.potentials, scratch.counts, scratch)
    return log_total, slope / beta, max(gap, 0.0)


@inner
def _exact_gap(batch, i, point, mu_before, beta, count, scratch):  # type: ignore
    """g_i = KL(α_i ‖ p_i) / β, by one more sum over labellings."""
    inner = 0.0
    for j in range(count):  # without stores, as above
        mu = mu_before[j]
        inner += mu * (beta * scratch.scores[j]) if mu != 0.0 else 0.0
    for j in range(count):
        scratch.potentials[j] = beta * scratch.scores[j]
    log_target = log_partition(batch, i, scratch.potentials, scratch)
    return max(log_target - inner - point.entropy[i], 0.0) / beta


@chosen_by_type
def moved(rule, batch, i, point, mu_before, step, beta, inverse_beta, lift, count, scratch):  # type: ignore
    """Potentials and counts after a step; returns A(θ_new), the slope of the dual in η, and g_i before."""
    raise TypeError


@moved.register(StepRule)
@inner
def _moved_geometrically(rule, batch, i, point, mu_before, step, beta, inverse_beta, lift, count, scratch):  # type: ignore
    noise = rule.noise * length_of(batch, i)
    return _move_on_geometric_path(
        batch, i, point, mu_before, step, inverse_beta, lift, noise, count, scratch
    )


@moved.register(MixingRule)
@inner
def _moved_by_mixing(rule, batch, i, point, mu_before, step, beta, inverse_beta, lift, count, scratch):  # type: ignore
    if point.visited[i] != 0:
        return _move_on_arithmetic_path(batch, i, point, step, beta, count, scratch)
    noise = rule.noise * length_of(batch, i)
    return _move_on_geometric_path(
        batch, i, point, mu_before, step, inverse_beta, lift, noise, count, scratch
    )


@inner
def _attempt(batch, i, point, mu_before, step, beta, inverse_beta, lift, rule, count, scratch):  # type: ignore
    """As `moved`; also by how much the counts fall, in `delta`."""
    result = moved(rule, batch, i, point, mu_before, step, beta, inverse_beta, lift, count, scratch)
    for j in range(count):
        scratch.delta[j] = mu_before[j] - scratch.counts[j]
    return result


@inner
def _next_step(rule, step, slope, gain):  # type: ignore
    """η of the next visit."""
    if rule.kind == HALVING:
        return min(step * rule.growth, rule.largest)
    loss = slope * step - gain
    if slope == 0.0:  # below rounding, so that there is no parabola to take the next step from
        return min(step * _BLIND_GROWTH, rule.largest)
    target = step * rule.growth
    if loss > 0.0:
        target = min(target, max(slope * step * step / (2.0 * loss), 0.5 * step))
    return min(target, rule.largest)


@chosen_by_type
def commit(rule, batch, i, point, step, inverse_beta, count, scratch):  # type: ignore
    """Keep the potentials of an accepted step."""
    raise TypeError


@inner
def _stored(rule, batch, i, point, step, inverse_beta, count, scratch):  # type: ignore
    """Store the accepted potentials; counts move by what was scattered, so that v stays their image."""
    start = batch.part_ptr[i]
    for j in range(count):
        point.theta[start + j] = scratch.potentials[j]
        point.mu[start + j] -= scratch.delta[j]


@chosen_by_type
def lost_to_rounding(rule, batch, i, point, inverse_beta):  # type: ignore
    """By how much rounding of the state may lower the dual of an example in one step."""
    raise TypeError


@inner
def _lost_to_precision(rule, batch, i, point, inverse_beta):  # type: ignore
    return rule.noise * length_of(batch, i)


for _rule in (StepRule, MixingRule):
    lost_to_rounding.register(_rule)(_lost_to_precision)
    counts_before.register(_rule)(_stored_counts)
    commit.register(_rule)(_stored)


@inner
def _visit(batch, i, following, point, beta, gamma, l2, rule, scratch):  # type: ignore
    """One step on example i; returns the number of steps tried and the gain of the dual."""
    inverse_beta = 0.0 if beta == np.inf else 1.0 / beta
    weight = batch.example_weight[i]
    count = score_before(batch, i, following, point.v, 1.0 / l2, scratch.scores, scratch)
    add_cost(batch, i, gamma, scratch.scores)
    place = counts_before(rule, batch, i, point, count, scratch)
    mu_before = point.mu[place : place + count]
    fresh = point.visited[i] == 0
    if beta == np.inf and (rule.exact_gap or fresh):
        top = best(batch, i, scratch.scores, scratch.counts, scratch)
        point.gap[i] = top - finite_dot(scratch.scores, mu_before, count)
        if fresh and point.gap[i] <= 0.0:  # the true label itself is optimal here
            return 1, 0.0
    step, lift, exact = point.step[i], 0.0, np.nan
    if not fresh and step < _TELLING_STEP * beta and beta != np.inf and rule.exact_gap:
        exact = _exact_gap(batch, i, point, mu_before, beta, count, scratch)
    for attempt in range(MAX_HALVINGS):
        log_total, slope, gap = _attempt(
            batch, i, point, mu_before, step, beta, inverse_beta, lift, rule, count, scratch
        )
        entropy = log_total - finite_dot(scratch.potentials, scratch.counts, count)
        if not abs(entropy) < np.inf:  # potentials out of range; scattering NaN could not be undone
            step *= 0.5
            continue
        cost = expected_cost(batch, i, scratch.counts)
        value = inverse_beta * (entropy - point.entropy[i]) + gamma * (cost - point.cost[i])
        begin_change(scratch)
        growth = scatter_example(batch, i, point.v, weight, scratch.delta, rule.threshold, scratch)
        gain = weight * value - growth / (2.0 * l2)
        # The bound behind fixed steps holds where every labelling has mass, not at the true label itself.
        lost = lost_to_rounding(rule, batch, i, point, inverse_beta)
        if gain >= -weight * (lost + ROUNDING * (1.0 + abs(log_total))) or (rule.kind == FIXED and not fresh):
            end_change(scratch)
            if beta != np.inf:
                point.gap[i] = gap if exact != exact else exact
            commit(rule, batch, i, point, step, inverse_beta, count, scratch)
            point.entropy[i], point.cost[i] = entropy, cost
            point.norm[0] += growth
            point.visited[i] = 1
            if rule.kind != FIXED:
                point.step[i] = step if fresh else _next_step(rule, step, weight * slope, gain)
            return attempt + 1, gain
        scatter_example(batch, i, point.v, -weight, scratch.delta, 0.0, scratch)
        end_change(scratch)
        if is_shared(scratch):  # the step may have failed because others went first
            score_before(batch, i, -1, point.v, 1.0 / l2, scratch.scores, scratch)
            add_cost(batch, i, gamma, scratch.scores)
        if fresh:
            lift += rule.lift
        else:
            step *= 0.5
    if rule.kind != FIXED:
        point.step[i] *= 0.5
    return MAX_HALVINGS, 0.0


@entry
def online_pass(batch, order, point, beta, gamma, l2, rule, scratch):  # type: ignore
    """Visit the examples of `order`; returns steps tried, and how many visits gained."""
    tried, improved = 0, 0
    for k in range(order.size):
        following = order[k + 1] if k + 1 < order.size else -1
        attempts, gain = _visit(batch, order[k], following, point, beta, gamma, l2, rule, scratch)
        tried += attempts
        improved += 1 if gain > 0.0 else 0
    return tried, improved
