# mypy: ignore-errors
"""Passes over all examples: scores, expected features at a dual point or at weights, and losses.

They change only their outputs and take a range of examples, so that threads can share the work. Batch solvers, primal
solvers and all certificates use them.
"""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import entry, fragment
from partwise.compiled.examples import (
    add_cost,
    add_gold,
    add_gold_rows,
    expected_cost,
    finite_dot,
    gold_score,
    scatter_example,
    score_example,
)
from partwise.compiled.oracles import best, expectations, log_partition


@fragment
def _store(out, start, count, values):  # type: ignore
    for j in range(count):
        out[start + j] = values[j]


@entry
def score_pass(batch, first, last, weights, out, scratch):  # type: ignore
    """Write the part scores of all examples to `out` (n_parts,)."""
    for i in range(first, last):
        count = score_example(batch, i, weights, 1.0, scratch.scores, scratch)
        _store(out, batch.part_ptr[i], count, scratch.scores)


@entry
def scatter_pass(batch, first, last, values, v, scratch):  # type: ignore
    """v += Σ_i Σ_r values_r φ(x_i, r), for `values` (n_parts,)."""
    for i in range(first, last):
        start = batch.part_ptr[i]
        for j in range(batch.part_ptr[i + 1] - start):
            scratch.delta[j] = values[start + j]
        scatter_example(batch, i, v, 1.0, scratch.delta, 0.0, scratch)


@entry
def point_pass(batch, first, last, theta, visited, mu, v, entropy, cost, scratch):  # type: ignore
    """Everything that follows from stored potentials: counts, entropies, costs, and v added up.

    `mu` is filled unless empty. Examples with ``visited == 0`` are at their true labels.
    """
    for i in range(first, last):
        start = batch.part_ptr[i]
        count = batch.part_ptr[i + 1] - start
        entropy[i], cost[i] = 0.0, 0.0
        for j in range(count):
            scratch.potentials[j] = theta[start + j]
            scratch.counts[j] = 0.0
        if visited[i] == 0:
            add_gold(batch, i, 1.0, scratch.counts)
        else:
            log_total = expectations(batch, i, scratch.potentials, scratch.counts, scratch)
            entropy[i] = log_total - finite_dot(scratch.potentials, scratch.counts, count)
            cost[i] = expected_cost(batch, i, scratch.counts)
            for j in range(count):
                scratch.delta[j] = -scratch.counts[j]
            add_gold(batch, i, 1.0, scratch.delta)
            scatter_example(batch, i, v, batch.example_weight[i], scratch.delta, 0.0, scratch)
        if mu.size > 0:
            _store(mu, start, count, scratch.counts)


@entry
def model_pass(  # type: ignore
    batch,
    first,
    last,
    weights,
    scale,
    cost_scale,
    gold_scale,
    hard,
    v,
    entropy,
    cost,
    log_total,
    gold,
    scratch,
):
    """As `point_pass`, at potentials scale · scores(weights) + cost_scale · cost + gold_scale · gold rows.

    `hard` replaces the distribution by its mode (β = ∞). Also writes, per example, the log-partition or maximum to
    `log_total`, and the score of the true label at these potentials to `gold`.
    """
    for i in range(first, last):
        count = score_example(batch, i, weights, scale, scratch.potentials, scratch)
        add_cost(batch, i, cost_scale, scratch.potentials)
        gold[i] = gold_score(batch, i, scratch.potentials)
        if gold_scale != 0.0:
            add_gold_rows(batch, i, gold_scale, scratch.potentials)
        if hard:
            log_total[i] = best(batch, i, scratch.potentials, scratch.counts, scratch)
            entropy[i] = 0.0
        else:
            log_total[i] = expectations(batch, i, scratch.potentials, scratch.counts, scratch)
            entropy[i] = log_total[i] - finite_dot(scratch.potentials, scratch.counts, count)
        cost[i] = expected_cost(batch, i, scratch.counts)
        for j in range(count):
            scratch.delta[j] = -scratch.counts[j]
        add_gold(batch, i, 1.0, scratch.delta)
        scatter_example(batch, i, v, batch.example_weight[i], scratch.delta, 0.0, scratch)


@entry
def loss_pass(batch, first, last, weights, scale, beta, gamma, mu, inner, loss, scratch):  # type: ignore
    """ℓ_i under scale · weights. Unless `mu` is empty, also the inner products Σ_r μ_r (s_r + γ e_r) for the gaps."""
    for i in range(first, last):
        count = score_example(batch, i, weights, scale, scratch.scores, scratch)
        add_cost(batch, i, gamma, scratch.scores)
        gold = gold_score(batch, i, scratch.scores)
        if mu.size > 0:
            start = batch.part_ptr[i]
            inner[i] = finite_dot(scratch.scores, mu[start : start + count], count) - gold
        if beta == np.inf:
            top = best(batch, i, scratch.scores, scratch.counts, scratch)
            loss[i] = top - gold
        else:
            for j in range(count):
                scratch.potentials[j] = beta * scratch.scores[j]
            total = log_partition(batch, i, scratch.potentials, scratch)
            loss[i] = total / beta - gold
