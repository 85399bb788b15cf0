# mypy: ignore-errors
"""Passes for labels that are known in part: sums over all labellings, and over those that agree with what is known.

    ℓ_i(w) = (1/β) log Σ_y exp β(s(y) + γ e(y)) − (1/β) log Σ_{y that agrees} exp β(s(y) + γ e(y))

The second sum is the first with a score of −inf for every part that disagrees. Costs are the same for all labellings
that agree. If a label is fully known, the second sum is its score.
"""

from __future__ import annotations

from partwise.compiled.dispatch import entry, inner
from partwise.compiled.examples import (
    add_cost,
    add_gold,
    finite_dot,
    gold_score,
    scatter_example,
    score_example,
)
from partwise.compiled.oracles import expectations, log_partition
from partwise.core.predict_pass import exclude


@inner
def both_sums(batch, i, gaps, potentials, delta, count, scratch):  # type: ignore
    """Both log-partitions at `potentials` and their entropies. Sets `delta` to agreeing counts − counts of all.

    ``scratch.counts`` holds the agreeing counts afterwards. `potentials` is overwritten.
    """
    counts = scratch.counts
    total = expectations(batch, i, potentials, counts, scratch)
    entropy = total - finite_dot(potentials, counts, count)
    for j in range(count):
        delta[j] = -counts[j]
    for j in range(count):
        counts[j] = 0.0
    if gaps.hidden[i]:
        exclude(i, gaps.excluded_ptr, gaps.excluded_part, potentials)
        agreeing = expectations(batch, i, potentials, counts, scratch)
        completed_entropy = agreeing - finite_dot(potentials, counts, count)
    else:
        agreeing, completed_entropy = gold_score(batch, i, potentials), 0.0
        add_gold(batch, i, 1.0, counts)
    for j in range(count):
        delta[j] += counts[j]
    return total, entropy, agreeing, completed_entropy


@entry
def partial_pass(  # type: ignore
    batch,
    first,
    last,
    gaps,
    weights,
    scale,
    cost_scale,
    balance,
    v,
    entropy,
    cost,
    log_total,
    log_agreeing,
    scratch,
):
    """As `model_pass`, with the labellings that agree in place of the true label.

    `entropy` is H of the model minus H of the model restricted to the labellings that agree. Unless it is empty,
    `balance` (n_parts,) becomes the difference of their expected counts.
    """
    potentials, delta = scratch.potentials, scratch.delta
    for i in range(first, last):
        count = score_example(batch, i, weights, scale, potentials, scratch)
        add_cost(batch, i, cost_scale, potentials)
        total, spread, agreeing, completed = both_sums(batch, i, gaps, potentials, delta, count, scratch)
        log_total[i], log_agreeing[i], entropy[i] = total, agreeing, spread - completed
        cost[i] = -part_cost(batch, i, delta, count)
        scatter_example(batch, i, v, batch.example_weight[i], delta, 0.0, scratch)
        if balance.size > 0:
            start = batch.part_ptr[i]
            for j in range(count):
                balance[start + j] = delta[j]


@inner
def part_cost(batch, i, amounts, count):  # type: ignore
    """Σ_r amounts_r e_r."""
    if batch.cost.size == 0:
        return 0.0
    return finite_dot(batch.cost[batch.part_ptr[i] :], amounts, count)


@entry
def partial_losses(batch, first, last, gaps, weights, beta, gamma, completion, total, agreeing, met, scratch):  # type: ignore
    """Both log-partitions over β under `weights`, and in `met` the score of the expected parts `completion`, if any."""
    scores, potentials = scratch.scores, scratch.potentials
    for i in range(first, last):
        count = score_example(batch, i, weights, 1.0, scores, scratch)
        add_cost(batch, i, gamma, scores)
        for j in range(count):
            potentials[j] = beta * scores[j]
        total[i] = log_partition(batch, i, potentials, scratch) / beta
        if gaps.hidden[i]:
            exclude(i, gaps.excluded_ptr, gaps.excluded_part, potentials)
            agreeing[i] = log_partition(batch, i, potentials, scratch) / beta
        else:
            agreeing[i] = gold_score(batch, i, scores)
        if completion.size > 0:
            met[i] = finite_dot(scores, completion[batch.part_ptr[i] :], count)


@entry
def balance_pass(batch, first, last, balance, v, cost, scratch):  # type: ignore
    """v and costs from differences of expected counts."""
    delta = scratch.delta
    for i in range(first, last):
        start, count = batch.part_ptr[i], batch.part_ptr[i + 1] - batch.part_ptr[i]
        for j in range(count):
            delta[j] = balance[start + j]
        cost[i] = -part_cost(batch, i, delta, count)
        scatter_example(batch, i, v, batch.example_weight[i], delta, 0.0, scratch)
