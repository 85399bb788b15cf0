# mypy: ignore-errors
"""Stochastic gradient descent: one fused visit per example (Collins et al. 2008, §7.1.3).

    w ← w − η ( ∇ℓ_i(w) + (l2/n) w ),   η = η₀ / (1 + k/n)

The weights are a·u: shrinking them is one multiplication, so that a visit touches only the example's own.
"""

from __future__ import annotations

from partwise.compiled.dispatch import entry, inner
from partwise.compiled.examples import (
    add_cost,
    add_gold,
    expected_cost,
    gold_score,
    scatter_example,
    score_example,
)
from partwise.compiled.oracles import best, expectations

SMALLEST_SCALE = 1e-9  # below it, `a` is multiplied into u


@inner
def _model(batch, i, weights, scale, cost_scale, hard, scratch):  # type: ignore
    """Counts of the loss-augmented model or its mode; returns number of parts, total, true score."""
    count = score_example(batch, i, weights, scale, scratch.potentials, scratch)
    add_cost(batch, i, cost_scale, scratch.potentials)
    gold = gold_score(batch, i, scratch.potentials)
    if hard:
        total = best(batch, i, scratch.potentials, scratch.counts, scratch)
    else:
        total = expectations(batch, i, scratch.potentials, scratch.counts, scratch)
    return count, total, gold


@entry
def sgd_pass(batch, order, u, a, k, initial_step, l2, beta, gamma, hard, v, scratch):  # type: ignore
    """Visit the examples of `order` after `k` earlier updates; returns the new `a` and Σ weight_i cost_i.

    `beta` is 1 where `hard` asks for the maximiser (β = ∞). Unless `v` is empty, every visit's
    weight_i (φ(true) − φ(model)) is added to it.
    """
    n = batch.example_weight.size
    cost = 0.0
    for index in range(order.size):
        i = order[index]
        count, _, _ = _model(batch, i, u, a * beta, beta * gamma, hard, scratch)
        for j in range(count):
            scratch.delta[j] = -scratch.counts[j]
        add_gold(batch, i, 1.0, scratch.delta)
        step = initial_step / (1.0 + (k + index) / n)
        a *= 1.0 - step * l2 / n
        if a < SMALLEST_SCALE:
            for j in range(u.size):
                u[j] *= a
            a = 1.0
        weight = batch.example_weight[i]
        scatter_example(batch, i, u, weight * step / a, scratch.delta, 0.0, scratch)
        if v.size > 0:
            scatter_example(batch, i, v, weight, scratch.delta, 0.0, scratch)
            cost += weight * expected_cost(batch, i, scratch.counts)
    return a, cost


@entry
def sample_loss(batch, order, weights, beta, gamma, hard, scratch):  # type: ignore
    """Σ weight_i ℓ_i(w) over the examples of `order`."""
    loss = 0.0
    for index in range(order.size):
        i = order[index]
        _, total, gold = _model(batch, i, weights, beta, beta * gamma, hard, scratch)
        loss += batch.example_weight[i] * (total - gold) / beta
    return loss
