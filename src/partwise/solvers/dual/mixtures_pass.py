# mypy: ignore-errors
"""Visits that mix the model's distribution, and its completions, into those of an example.

    a_i ← (1 − t) a_i + t (q_i − p_i),   h_i ← (1 − t) h_i + t (H(p_i) − H(q_i)),   v ← v + t c_i Φ(q_i − p_i − a_i)

p_i ∝ exp β(s_i + γ e_i) are all labellings and q_i those that agree with what is known, at the weights now. So a_i is
the difference of two mixtures of distributions, whose entropies are at least the same mixtures of entropies. Along t

    S(t) = S + t c_i g_i − t² c_i² ‖Φ(q_i − p_i − a_i)‖² / (2 l2),   g_i = ℓ_i(w) − h_i / β + a_i·(s_i + γ e_i)

is a parabola, and t its top, at most 1. Where the label is known S is a lower bound of the dual, which the visit raises
(Frank–Wolfe on the graph of the entropy); elsewhere g_i is the difference of what p_i is ahead of its mixture and what
q_i is of its own, and a floor under it lets old completions be replaced where that moves v little. Both sides move
together, since what is not known has the same part in both: alone, completions would throw v far off before p followed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.compiled.dispatch import entry, inner
from partwise.compiled.examples import add_cost, finite_dot, scatter_example, score_example
from partwise.core.partial_pass import both_sums, part_cost

_CLOSE = 1.3  # a step within this factor of the best one is good enough
_SHORTEST_GUESS = 1e-6
_MAX_HALVINGS = 20
_OVERSHOOT = 1e-3  # of what a step promises, lost to rounding


class MixturePoint(NamedTuple):
    """The dual variables of all examples; arrays are changed in place.

    Attributes
    ----------
    balance, completion : ndarray (n_parts,)
        a, and the mixture of the q alone; true labels where they are known.
    v : ndarray (n_weights,)
        Σ_i c_i Φ a_i; the weights are v / l2.
    entropy, completed_entropy, cost : ndarray (n_examples,)
        The same mixtures of H(p_i), of H(q_i), and of the cost of p_i less that of q_i.
    gap : ndarray (n_examples,)
        What p_i and q_i together were ahead of their mixtures at the last visit; nan before the first.
    step : ndarray (n_examples,)
        t of the last visit.
    visited : ndarray (n_examples,) of uint8
    norm : ndarray (1,)
        ‖v‖², kept up incrementally.
    """

    balance: np.ndarray
    completion: np.ndarray
    v: np.ndarray
    entropy: np.ndarray
    completed_entropy: np.ndarray
    cost: np.ndarray
    gap: np.ndarray
    step: np.ndarray
    visited: np.ndarray
    norm: np.ndarray


@inner
def _move(batch, i, point, slope, linear, l2, threshold, scratch):  # type: ignore
    """Scatter `delta` as far as S rises, starting from the step of the last visit; returns the step.

    An l1 term makes S other than a parabola: the top is then that of the mean one, and shortened where S fell.
    """
    weight, guess, delta = batch.example_weight[i], point.step[i], scratch.delta
    growth = scatter_example(batch, i, point.v, weight * guess, delta, threshold, scratch)
    squared = (growth / (guess * weight) - 2.0 * l2 * linear) / guess
    step = min(1.0, l2 * slope / squared) if squared > 0.0 else 1.0
    if step > _CLOSE * guess or step * _CLOSE < guess:
        growth += scatter_example(batch, i, point.v, weight * (step - guess), delta, 0.0, scratch)
    else:
        step = guess
    for _ in range(_MAX_HALVINGS):
        loss = growth / (2.0 * l2) - weight * step * (slope + linear)
        if loss <= _OVERSHOOT * weight * step * slope:
            break
        step *= 0.5
        growth += scatter_example(batch, i, point.v, -weight * step, delta, 0.0, scratch)
    point.norm[0] += growth
    return step


@inner
def _mix(batch, i, gaps, point, beta, gamma, l2, floor, threshold, scratch):  # type: ignore
    """One visit; `floor` is the least gain to count on."""
    start, potentials, delta, counts = batch.part_ptr[i], scratch.potentials, scratch.delta, scratch.counts
    balance, completion = point.balance, point.completion
    count = score_example(batch, i, point.v, 1.0 / l2, scratch.scores, scratch)
    for j in range(count):
        potentials[j] = scratch.scores[j]
    add_cost(batch, i, gamma, potentials)
    met = finite_dot(potentials, completion[start : start + count], count)
    held = finite_dot(potentials, balance[start : start + count], count)
    for j in range(count):
        potentials[j] *= beta
    total, entropy, agreeing, completed = both_sums(batch, i, gaps, potentials, delta, count, scratch)
    cost = -part_cost(batch, i, delta, count)
    if point.visited[i] == 0:
        point.visited[i] = 1
        if gaps.hidden[i]:  # both mixtures begin with the completions
            for j in range(count):
                completion[start + j] = counts[j]
            point.entropy[i] = point.completed_entropy[i] = completed
            met = (agreeing - completed) / beta
    behind = (total - point.entropy[i]) / beta - met + held
    stale = (agreeing - point.completed_entropy[i]) / beta - met
    point.gap[i] = max(behind + stale, 0.0)
    slope = max(behind - stale, floor)
    if not slope > 0.0:
        return
    for j in range(count):
        delta[j] -= balance[start + j]
    linear = finite_dot(scratch.scores, delta, count)
    step = _move(batch, i, point, slope, linear, l2, threshold, scratch)
    point.step[i] = max(step, _SHORTEST_GUESS)
    for j in range(count):
        balance[start + j] += step * delta[j]
    if gaps.hidden[i]:
        for j in range(count):
            completion[start + j] += step * (counts[j] - completion[start + j])
    point.entropy[i] += step * (entropy - point.entropy[i])
    point.completed_entropy[i] += step * (completed - point.completed_entropy[i])
    point.cost[i] += step * (cost - point.cost[i])


@entry
def mixtures_pass(batch, order, gaps, point, beta, gamma, l2, floor, threshold, scratch):  # type: ignore
    """Visit the examples of `order`; those of which nothing is known, or with weight zero, have nothing to say."""
    for k in range(order.size):
        i = order[k]
        nothing = gaps.hidden[i] and gaps.excluded_ptr[i] == gaps.excluded_ptr[i + 1]
        if nothing or batch.example_weight[i] == 0.0:
            point.gap[i] = 0.0
        else:
            _mix(batch, i, gaps, point, beta, gamma, l2, floor, threshold, scratch)
