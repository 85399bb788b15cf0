# mypy: ignore-errors
"""Losses and the model's dual point without cancellation, for certificates of problems whose losses are tiny.

ℓ = (1/β) log Σ_y exp β(s(y) − s(true)) loses all its digits if it is far below the rounding of s(true). Then
βℓ = log(1 + Σ_{y ≠ true} exp β(s(y) − s(true))), and all other labellings are divided by the first true part g_j that
they miss: they have g_1 … g_{j−1} and not g_j. Each group is one log-partition with the potentials of g_1 … g_{j−1}
raised and that of g_j lowered, so that any structure whose sums are exact can do it. All terms are positive, and their
relative error is the rounding of the scores. The groups' expected counts give those of the model less the true ones
in the same way.
"""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import entry, inner
from partwise.compiled.examples import add_cost, add_gold, gold_score, scatter_example, score_example
from partwise.compiled.oracles import expectations, log_partition

_RAISE = 60.0  # by which true parts are raised: a labelling without one of them keeps exp(-60) of its weight
_LOWER = 1000.0  # by which a true part is lowered: exp(-1000) is zero in double precision
_EPS = float(np.finfo(float).eps)


@inner
def _is_told_by_own_parts(batch, i, scratch):  # type: ignore
    """Whether only the true labelling has all the true parts that are not tied; one log-partition."""
    n_own = batch.part_ptr[i + 1] - batch.part_ptr[i] - batch.n_tied
    for j in range(batch.part_ptr[i + 1] - batch.part_ptr[i]):
        scratch.potentials[j] = 0.0
    highest = 0.0
    for k in range(batch.gold_ptr[i], batch.gold_ptr[i + 1]):
        part = batch.gold_part[k]
        if part < n_own:
            if scratch.potentials[part] != 0.0:
                return False  # counted several times
            scratch.potentials[part] = _LOWER
            highest += _LOWER
    return abs(log_partition(batch, i, scratch.potentials, scratch) - highest) < 0.5


@inner
def _sum_of_others(batch, i, gold, scratch):  # type: ignore
    """Σ_{y ≠ true} exp(score of y − `gold`) for `scratch.scores`; ``delta`` gets the same sum of y's counts."""
    count = batch.part_ptr[i + 1] - batch.part_ptr[i]
    for j in range(count):
        scratch.potentials[j] = scratch.scores[j]
        scratch.delta[j] = 0.0
    total, raised = 0.0, 0.0
    for k in range(batch.gold_ptr[i], batch.gold_ptr[i + 1]):
        part = batch.gold_part[k]
        if part < count - batch.n_tied:
            scratch.potentials[part] = scratch.scores[part] - _LOWER
            group = expectations(batch, i, scratch.potentials, scratch.counts, scratch)
            amount = np.exp(group - raised - gold)
            if amount > 0.0:
                total += amount
                for j in range(count):
                    scratch.delta[j] += amount * scratch.counts[j]
            scratch.potentials[part] = scratch.scores[part] + _RAISE
            raised += _RAISE
    return total


@entry
def careful_pass(  # type: ignore
    batch, first, last, weights, beta, gamma, allowed, v, loss, error, value, slack, scratch
):
    """ℓ_i, and H(α_i)/β + γ (expected cost) and v of the model's own α, with bounds on their rounding.

    `error` comes with the rounding of ℓ_i as other passes compute it, and is replaced if it is more than `allowed`
    and ℓ_i can be computed without cancellation. `slack` bounds the rounding of `value` together with that of v's
    part in the dual.
    """
    for i in range(first, last):
        count = score_example(batch, i, weights, beta, scratch.scores, scratch)
        add_cost(batch, i, beta * gamma, scratch.scores)
        gold = gold_score(batch, i, scratch.scores)
        surplus = log_partition(batch, i, scratch.scores, scratch) - gold
        relative = -1.0
        if error[i] > allowed[i] and surplus < 1.0 and _is_told_by_own_parts(batch, i, scratch):
            others = _sum_of_others(batch, i, gold, scratch)
            surplus = np.log1p(others)
            n_gold = batch.gold_ptr[i + 1] - batch.gold_ptr[i]
            relative = beta * error[i] + 16.0 * _EPS * (_RAISE * n_gold + _LOWER)
            for j in range(count):
                scratch.delta[j] /= 1.0 + others
            add_gold(batch, i, -others / (1.0 + others), scratch.delta)
        else:
            expectations(batch, i, scratch.scores, scratch.delta, scratch)
            add_gold(batch, i, -1.0, scratch.delta)
        loss[i] = surplus / beta
        margin, size = 0.0, 0.0
        costly = batch.cost.size > 0
        for j in range(count):
            if scratch.delta[j] != 0.0:
                cost = gamma * batch.cost[batch.part_ptr[i] + j] if costly else 0.0
                term = (scratch.scores[j] / beta - cost) * scratch.delta[j]
                margin += term
                size += abs(term)
            scratch.delta[j] = -scratch.delta[j]
        value[i] = loss[i] - margin
        if relative >= 0.0:
            error[i] = relative * loss[i]
            slack[i] = 2.0 * relative * (loss[i] + size)
        else:
            slack[i] = 2.0 * error[i]
        scatter_example(batch, i, v, batch.example_weight[i], scratch.delta, 0.0, scratch)
