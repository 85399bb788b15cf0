# mypy: ignore-errors
"""Visits and passes over a dual point whose tied potentials take a byte each, and which keeps no marginals.

What is tied in s_i is the same for all examples, and at the optimum the tied part of θ_i is β times that. So it is kept
as what it is apart from a multiple of one reference R that all examples share,

    θ_i,tied = c_i R + q_i k_i,     k_i in −127 … 127,     q_i = max |θ_i,tied − c_i R| / 127

and a step (1 − t) θ_i + t β s_i ends at the nearest such potentials, rounded up or down at random: small steps are not
lost, and α_i is the distribution of the potentials that are kept. The closer R, the smaller q_i. Nobody charges costs
to tied parts.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.compiled.dispatch import entry, inner
from partwise.compiled.examples import (
    add_cost,
    add_gold,
    add_gold_rows,
    expected_cost,
    finite_dot,
    gold_score,
    length_of,
    scatter_example,
    score_example,
)
from partwise.compiled.oracles import expectations, log_partition
from partwise.solvers.dual.online_pass import ROUNDING, commit, counts_before, lost_to_rounding, moved

_LARGEST_CODE = 127.0
_FELT = (
    1.0 / 12.0
)  # by how much rounding a position's tied potentials to multiples of q lowers the dual, over q²


class CodedPoint(NamedTuple):
    """The dual variables of all examples; arrays are changed in place.

    Attributes
    ----------
    theta : ndarray (n_parts − n_examples · n_tied,)
        Potentials of parts that are not tied.
    code : ndarray (n_examples, n_tied) of int8
    scale, share : ndarray (n_examples,)
        k, q and c of the tied potentials c R + q k.
    reference : ndarray (n_tied,)
        R.
    turn : ndarray (n_examples,) of uint32
        How often an example's potentials were rounded, which is what randomness comes from.
    v, entropy, cost, gap, step, visited, norm
        As in :class:`DualPoint`.
    mu, trial, trial_scale : ndarray (most parts + slack,), (n_tied,) of int8, (1,)
        Room for the example that is visited: its expected counts, and its codes after a step.
    """

    theta: np.ndarray
    code: np.ndarray
    scale: np.ndarray
    share: np.ndarray
    reference: np.ndarray
    turn: np.ndarray
    v: np.ndarray
    entropy: np.ndarray
    cost: np.ndarray
    gap: np.ndarray
    step: np.ndarray
    visited: np.ndarray
    norm: np.ndarray
    mu: np.ndarray
    trial: np.ndarray
    trial_scale: np.ndarray


class CodedRule(NamedTuple):
    """:class:`StepRule` for a :class:`CodedPoint`."""

    kind: int
    growth: float
    largest: float
    threshold: float
    noise: float
    lift: float
    exact_gap: bool


@inner
def _restore(batch, i, point, out):  # type: ignore
    """Write the potentials of an example."""
    n_tied = batch.n_tied
    first, n_own = batch.part_ptr[i] - i * n_tied, batch.part_ptr[i + 1] - batch.part_ptr[i] - n_tied
    for j in range(n_own):
        out[j] = point.theta[first + j]
    code, scale, share, reference = point.code[i], point.scale[i], point.share[i], point.reference
    for j in range(n_tied):
        out[n_own + j] = share * reference[j] + scale * code[j]


@inner
def _rounded(values, first, turn, code):  # type: ignore
    """Codes of values[first:], each rounded up with the chance of its fraction; returns q."""
    largest = 0.0
    for j in range(code.size):
        largest = max(largest, abs(values[first + j]))
    scale = largest / _LARGEST_CODE
    inverse = 1.0 / scale if scale > 0.0 else 0.0
    # Multiples of an odd number modulo 2³², shifted differently at every turn, are as even as random numbers.
    start = np.uint32(turn * np.uint32(2891336453))
    for j in range(code.size):
        chance = np.uint32(start + np.uint32(j) * np.uint32(2654435769)) * 2.3283064365386963e-10
        code[j] = np.int8(np.floor(values[first + j] * inverse + chance))
    return scale


@counts_before.register(CodedRule)
@inner
def _counts_from_potentials(rule, batch, i, point, count, scratch):  # type: ignore
    mu = point.mu
    if point.visited[i] == 0:
        for j in range(count):
            mu[j] = 0.0
        add_gold(batch, i, 1.0, mu)
        return 0
    _restore(batch, i, point, scratch.potentials)
    log_total = expectations(batch, i, scratch.potentials, mu, scratch)
    point.entropy[i] = log_total - finite_dot(scratch.potentials, mu, count)
    return 0


@moved.register(CodedRule)
@inner
def _moved_and_rounded(rule, batch, i, point, mu_before, step, beta, inverse_beta, lift, count, scratch):  # type: ignore
    """Along the geometric path; A(θ_new) − A(θ) − μ·(θ_new − θ) is half the curvature."""
    first, n_own, n_tied = batch.part_ptr[i] - i * batch.n_tied, count - batch.n_tied, batch.n_tied
    keep, scale, code, reference = 1.0 - step * inverse_beta, point.scale[i], point.code[i], point.reference
    potentials, scores, trial = scratch.potentials, scratch.scores, point.trial
    for j in range(n_own):
        potentials[j] = keep * point.theta[first + j] + step * scores[j]
    for j in range(n_tied):
        potentials[n_own + j] = keep * scale * code[j] + step * (scores[n_own + j] - reference[j])
    point.turn[i] += np.uint32(1)
    scale, share = _rounded(potentials, n_own, point.turn[i], trial), keep * point.share[i] + step
    point.trial_scale[0] = scale
    for j in range(n_tied):
        potentials[n_own + j] = share * reference[j] + scale * trial[j]
    if lift > 0.0:
        add_gold_rows(batch, i, lift, potentials)
    log_total = expectations(batch, i, potentials, scratch.counts, scratch)
    curvature = log_total - point.entropy[i] - finite_dot(potentials, mu_before, count)
    noise = (rule.noise + _FELT * scale * scale) * length_of(batch, i)
    if curvature < noise + ROUNDING * (1.0 + abs(log_total)):
        curvature = 0.0
    slope = 2.0 * curvature / (step * step)
    return log_total, slope, 0.5 * slope * beta


@lost_to_rounding.register(CodedRule)
@inner
def _lost_to_codes(rule, batch, i, point, inverse_beta):  # type: ignore
    scale = point.trial_scale[0]
    return (rule.noise + _FELT * inverse_beta * scale * scale) * length_of(batch, i)


@commit.register(CodedRule)
@inner
def _kept(rule, batch, i, point, step, inverse_beta, count, scratch):  # type: ignore
    first, code, trial = batch.part_ptr[i] - i * batch.n_tied, point.code[i], point.trial
    for j in range(count - batch.n_tied):
        point.theta[first + j] = scratch.potentials[j]
    for j in range(batch.n_tied):
        code[j] = trial[j]
    point.scale[i] = point.trial_scale[0]
    point.share[i] = (1.0 - step * inverse_beta) * point.share[i] + step


@entry
def model_point_pass(batch, first, last, weights, beta, gamma, theta, scratch):  # type: ignore
    """Potentials β (s + γ e) of parts that are not tied."""
    for i in range(first, last):
        count = score_example(batch, i, weights, beta, scratch.scores, scratch)
        add_cost(batch, i, beta * gamma, scratch.scores)
        start = batch.part_ptr[i] - i * batch.n_tied
        for j in range(count - batch.n_tied):
            theta[start + j] = scratch.scores[j]


@entry
def recode_pass(batch, first, last, point, reference, scratch):  # type: ignore
    """Code tied potentials relative to another reference, which they come closer to by nothing but rounding."""
    for i in range(first, last):
        code, scale, share = point.code[i], point.scale[i], point.share[i]
        for j in range(batch.n_tied):
            scratch.potentials[j] = scale * code[j] + share * (point.reference[j] - reference[j])
        point.turn[i] += np.uint32(1)
        point.scale[i] = _rounded(scratch.potentials, 0, point.turn[i], code)


@entry
def coded_pass(batch, first, last, point, weights, beta, gamma, v, inner_products, loss, scratch):  # type: ignore
    """Everything that follows from the potentials: entropies, costs, and v added up.

    With `weights`, unless empty, also ℓ_i there and the inner products Σ_r μ_r (s_r + γ e_r) for the gaps.
    """
    for i in range(first, last):
        count = batch.part_ptr[i + 1] - batch.part_ptr[i]
        point.entropy[i], point.cost[i] = 0.0, 0.0
        if point.visited[i] == 0:
            for j in range(count):
                scratch.counts[j] = 0.0
            add_gold(batch, i, 1.0, scratch.counts)
        else:
            _restore(batch, i, point, scratch.potentials)
            log_total = expectations(batch, i, scratch.potentials, scratch.counts, scratch)
            point.entropy[i] = log_total - finite_dot(scratch.potentials, scratch.counts, count)
            point.cost[i] = expected_cost(batch, i, scratch.counts)
            for j in range(count):
                scratch.delta[j] = -scratch.counts[j]
            add_gold(batch, i, 1.0, scratch.delta)
            scatter_example(batch, i, v, batch.example_weight[i], scratch.delta, 0.0, scratch)
        if weights.size == 0:
            continue
        score_example(batch, i, weights, 1.0, scratch.scores, scratch)
        add_cost(batch, i, gamma, scratch.scores)
        gold = gold_score(batch, i, scratch.scores)
        inner_products[i] = finite_dot(scratch.scores, scratch.counts, count) - gold
        for j in range(count):
            scratch.potentials[j] = beta * scratch.scores[j]
        loss[i] = log_partition(batch, i, scratch.potentials, scratch) / beta - gold
