# mypy: ignore-errors
"""Exact passive-aggressive visits: half-spaces of Martins et al. (2010), eq. 17, until their eq. 11 is solved.

    w ← argmin over w' of  ½ ‖w' − w‖² + (c_i / l2) ℓ_i(w')                                            (eq. 11)

Every z in the marginal polytope gives a lower bound of ℓ_i that is linear in w', a half-space for (w', ξ):

    ξ ≥ z·(s(w') + γ e) + H(z)/β − s(w')·gold,     s(w') the part scores                               (eq. 17)

The z that is tight at the point so far, expected counts or for β = ∞ the best labelling, is added until ℓ_i there is no
more than ξ. With the step w' − w = (c_i / l2) Σ_j a_j δ_j, δ_j = gold − z_j, all is computed from the images of δ_j,
the part scores under the weights that δ_j makes. So the weights change once a visit.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.compiled.dispatch import entry, inner
from partwise.compiled.examples import (
    add_cost,
    add_gold,
    expected_cost,
    finite_dot,
    gold_score,
    scatter_example,
    score_example,
)
from partwise.compiled.oracles import best, expectations
from partwise.solvers.primal.mira_pass import exchange


class LocalBundle(NamedTuple):
    """Room for the half-spaces of one visit; row 0 stands for ξ ≥ 0.

    Attributes
    ----------
    vector : ndarray (n_weights,)
        Zero between visits, up to rounding.
    base : ndarray (n_parts + slack,)
        Part scores before the step.
    delta, image : ndarray (k + 1, n_parts + slack)
        Gold minus z, and the part scores under the weights that it makes.
    gram : ndarray (k + 1, k + 1)
    level, slope, share : ndarray (k + 1,)
        Each bound before the step, after it, and its multiplier as a share of c_i / l2.
    """

    vector: np.ndarray
    base: np.ndarray
    delta: np.ndarray
    image: np.ndarray
    gram: np.ndarray
    level: np.ndarray
    slope: np.ndarray
    share: np.ndarray


@inner
def _loss_at_scores(batch, i, count, beta, gamma, hard, scratch):  # type: ignore
    """ℓ_i at ``scratch.scores``; z in ``scratch.counts``, gold − z in ``scratch.delta``."""
    for r in range(count):
        scratch.potentials[r] = beta * scratch.scores[r]
    add_cost(batch, i, beta * gamma, scratch.potentials)
    gold = gold_score(batch, i, scratch.potentials)
    if hard:
        total = best(batch, i, scratch.potentials, scratch.counts, scratch)
    else:
        total = expectations(batch, i, scratch.potentials, scratch.counts, scratch)
    for r in range(count):
        scratch.delta[r] = -scratch.counts[r]
    add_gold(batch, i, 1.0, scratch.delta)
    return max((total - gold) / beta, 0.0)


@inner
def _move_scores(count, n_rows, scale, bundle, scores):  # type: ignore
    """The part scores after the step so far."""
    for r in range(count):
        scores[r] = bundle.base[r]
    for j in range(1, n_rows):
        if bundle.share[j] > 0.0:
            for r in range(count):
                scores[r] += scale * bundle.share[j] * bundle.image[j, r]


@inner
def _add_half_space(batch, i, k, loss, count, bundle, scratch):  # type: ignore
    """Row k of the bundle: the bound that is tight at ``scratch.scores``, where ℓ_i is `loss`."""
    level = loss
    for r in range(count):
        delta = scratch.delta[r]
        bundle.delta[k, r] = delta
        if delta != 0.0:
            level -= delta * (bundle.base[r] - scratch.scores[r])
    bundle.level[k], bundle.share[k] = level, 0.0
    scatter_example(batch, i, bundle.vector, 1.0, scratch.delta, 0.0, scratch)
    score_example(batch, i, bundle.vector, 1.0, bundle.image[k], scratch)
    scatter_example(batch, i, bundle.vector, -1.0, scratch.delta, 0.0, scratch)
    for other in range(1, k + 1):
        bundle.gram[k, other] = finite_dot(bundle.image[k], bundle.delta[other], count)
        bundle.gram[other, k] = bundle.gram[k, other]


@inner
def _solve_small(n_rows, scale, bundle):  # type: ignore
    """The best shares of the half-spaces so far; returns ξ."""
    size = 0.0
    for j in range(n_rows):
        bundle.slope[j] = bundle.level[j]
        size = max(size, abs(bundle.level[j]))
        for other in range(1, n_rows):
            bundle.slope[j] -= scale * bundle.gram[j, other] * bundle.share[other]
    exchange(bundle.gram, scale, bundle.slope, bundle.share, n_rows, 1e-12 * size, 10_000)
    highest = 0.0
    for j in range(n_rows):
        highest = max(highest, bundle.slope[j])
    return highest


@entry
def exact_mira_pass(batch, order, w, m, t, largest, beta, gamma, hard, tolerance, v, bundle, scratch):  # type: ignore
    """Visit the examples of `order` after `t` earlier visits; returns Σ weight_i cost_i of the labels met first.

    `beta` is 1 if `hard` asks for the maximiser (β = ∞). A visit ends when ℓ_i is within `tolerance`, relative to ℓ_i
    before the step, of what the half-spaces say, or when there is no room for more of them.
    """
    cost = 0.0
    for index in range(order.size):
        i, t = order[index], t + 1
        weight = batch.example_weight[i]
        count, scale, n_rows, first, lowest = 0, weight * largest, 1, 0.0, 0.0
        count = score_example(batch, i, w, 1.0, bundle.base, scratch)
        bundle.share[0], bundle.level[0] = 1.0, 0.0
        while n_rows < bundle.share.size:
            _move_scores(count, n_rows, scale, bundle, scratch.scores)
            loss = _loss_at_scores(batch, i, count, beta, gamma, hard, scratch)
            if n_rows == 1:
                first = loss
                if v.size > 0:
                    scatter_example(batch, i, v, weight, scratch.delta, 0.0, scratch)
                    cost += weight * expected_cost(batch, i, scratch.counts)
            if loss - lowest <= tolerance * first:
                break
            _add_half_space(batch, i, n_rows, loss, count, bundle, scratch)
            n_rows += 1
            lowest = _solve_small(n_rows, scale, bundle)
        for r in range(count):
            scratch.delta[r] = 0.0
            for j in range(1, n_rows):
                scratch.delta[r] += bundle.share[j] * bundle.delta[j, r]
        scatter_example(batch, i, w, scale, scratch.delta, 0.0, scratch)
        scatter_example(batch, i, m, t * scale, scratch.delta, 0.0, scratch)
    return cost
