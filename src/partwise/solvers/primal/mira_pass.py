# mypy: ignore-errors
"""Passive-aggressive visits: MIRA for every loss, the perceptron, and k-best MIRA (Martins et al. 2010, §4).

    g = ∇ℓ_i(w),   η = min( c_i / l2, ℓ_i(w) / ‖g‖² ),   w ← w − η g                            (their eq. 14)

c_i is the example's weight. With d_t = −η_t g_t the weights after visit t are w_t = Σ_{s≤t} d_s. Beside them
m = Σ_s s d_s is kept, so that (1/T) Σ_t w_t = w_T + (w_T − m) / T and a visit touches only its own features.
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


@entry
def mira_pass(batch, order, w, m, t, largest, unit, beta, gamma, hard, v, scratch):  # type: ignore
    """Visit the examples of `order` after `t` earlier visits; returns Σ weight_i cost_i of the labels met.

    `beta` is 1 where `hard` asks for the maximiser (β = ∞). `unit` replaces η by c_i: the perceptron.
    Unless `v` is empty, every visit's weight_i (φ(true) − φ(model)) is added to it.
    """
    cost = 0.0
    for index in range(order.size):
        i, t = order[index], t + 1
        count = score_example(batch, i, w, 1.0, scratch.scores, scratch)
        for j in range(count):
            scratch.potentials[j] = beta * scratch.scores[j]
        add_cost(batch, i, beta * gamma, scratch.potentials)
        gold = gold_score(batch, i, scratch.potentials)
        if hard:
            total = best(batch, i, scratch.potentials, scratch.counts, scratch)
        else:
            total = expectations(batch, i, scratch.potentials, scratch.counts, scratch)
        for j in range(count):
            scratch.delta[j] = -scratch.counts[j]
        add_gold(batch, i, 1.0, scratch.delta)
        weight = batch.example_weight[i]
        if unit:
            step = weight
            scatter_example(batch, i, w, step, scratch.delta, 0.0, scratch)
        else:
            # ‖w − g‖² − ‖w‖² = ‖g‖² − 2 w·g: a whole step gives the norm, and is then cut back.
            growth = scatter_example(batch, i, w, 1.0, scratch.delta, 0.0, scratch)
            norm = growth - 2.0 * finite_dot(scratch.scores, scratch.delta, count)
            loss = max((total - gold) / beta, 0.0)
            step = weight * largest
            if loss < step * norm:
                step = loss / norm
            scatter_example(batch, i, w, step - 1.0, scratch.delta, 0.0, scratch)
        scatter_example(batch, i, m, t * step, scratch.delta, 0.0, scratch)
        if v.size > 0:
            scatter_example(batch, i, v, weight, scratch.delta, 0.0, scratch)
            cost += weight * expected_cost(batch, i, scratch.counts)
    return cost


# -- half-spaces ------------------------------------------------------------------------------------


class HalfSpaces(NamedTuple):
    """Room for the half-spaces of one visit; row 0 is the true label, whose half-space holds everywhere.

    Attributes
    ----------
    vector : ndarray (n_weights,)
        Zero between visits, up to rounding.
    delta : ndarray (k + 1, n_parts + slack)
        Parts of the true label minus parts of each label.
    gram : ndarray (k + 1, k + 1)
    violation, share : ndarray (k + 1,)
        By how much each half-space is missed; multipliers, as shares of their largest sum.
    """

    vector: np.ndarray
    delta: np.ndarray
    gram: np.ndarray
    violation: np.ndarray
    share: np.ndarray


@entry
def exchange(gram, scale, slope, share, count, tolerance, max_steps):  # type: ignore
    """Maximise slope·a − (scale/2) aᵀ gram a over changes a of `share`, which stays on the simplex.

    Each step moves mass from the entry in use with the smallest slope to the entry with the largest, as far as
    the objective rises: the pair that violates optimality most, as in SMO (Platt 1998). Martins et al. name
    Hildreth's method, which changes one multiplier at a time; here the half-spaces share one slack, which
    bounds the sum of their multipliers, so that two must change together. The true label holds what is not
    used. Both arrays are changed in place; returns what is left of max slope − min slope in use.
    """
    gap = 0.0
    for _ in range(max_steps):
        up, down = 0, -1
        for j in range(count):
            if slope[j] > slope[up]:
                up = j
            if share[j] > 0.0 and (down < 0 or slope[j] < slope[down]):
                down = j
        gap = slope[up] - slope[down]
        if gap <= tolerance:
            break
        curvature = scale * (gram[up, up] + gram[down, down] - 2.0 * gram[up, down])
        step = share[down]
        if curvature * step > gap:
            step = gap / curvature
        share[down] -= step
        share[up] += step
        for j in range(count):
            slope[j] -= scale * step * (gram[j, up] - gram[j, down])
    return gap


@entry
def augmented_scores(batch, i, weights, cost_scale, scratch):  # type: ignore
    """Fill ``scratch.potentials`` with scores + cost_scale · cost; returns the number of parts."""
    count = score_example(batch, i, weights, 1.0, scratch.potentials, scratch)
    add_cost(batch, i, cost_scale, scratch.potentials)
    return count


@inner
def _read_half_space(batch, i, j, parts, gamma, gold, count, workspace, scratch):  # type: ignore
    """Row j of `workspace` from a label's parts; ``scratch.scores`` holds the example's scores."""
    violation = -gold
    for r in range(count):
        scratch.counts[r] = 0.0
        workspace.delta[j, r] = 0.0
    for r in parts:
        scratch.counts[r] += 1.0
        workspace.delta[j, r] -= 1.0
        violation += scratch.scores[r]
    add_gold(batch, i, 1.0, workspace.delta[j])
    cost = expected_cost(batch, i, scratch.counts)
    workspace.violation[j] = violation + gamma * cost
    scatter_example(batch, i, workspace.vector, 1.0, workspace.delta[j], 0.0, scratch)
    score_example(batch, i, workspace.vector, 1.0, scratch.potentials, scratch)
    for other in range(j + 1):
        workspace.gram[j, other] = finite_dot(scratch.potentials, workspace.delta[other], count)
        workspace.gram[other, j] = workspace.gram[j, other]
    scatter_example(batch, i, workspace.vector, -1.0, workspace.delta[j], 0.0, scratch)
    return cost


@entry
def half_space_visit(batch, i, ptr, parts, w, m, t, largest, gamma, v, workspace, scratch):  # type: ignore
    """Step number `t`, on example i: the nearest weights that satisfy the half-spaces of some labels.

        min ½ ‖w' − w‖² + (c_i / l2) ξ   subject to   w'·(φ(true) − φ(y_j)) ≥ γ e(y_j) − ξ,  ξ ≥ 0   (eq. 17)

    Label j has the parts ``parts[ptr[j]:ptr[j + 1]]``. Adds the first label to `v` and returns weight_i
    times its cost.
    """
    n, weight = ptr.size - 1, batch.example_weight[i]
    count = score_example(batch, i, w, 1.0, scratch.scores, scratch)
    gold = gold_score(batch, i, scratch.scores)
    workspace.violation[0], workspace.share[0], cost = 0.0, 1.0, 0.0
    size = 0.0
    for j in range(n):
        own = _read_half_space(
            batch, i, j + 1, parts[ptr[j] : ptr[j + 1]], gamma, gold, count, workspace, scratch
        )
        cost = own if j == 0 else cost
        workspace.share[j + 1] = 0.0
        size = max(size, abs(workspace.violation[j + 1]))
    scatter_example(batch, i, v, weight, workspace.delta[1], 0.0, scratch)
    scale = weight * largest
    exchange(workspace.gram, scale, workspace.violation, workspace.share, n + 1, 1e-12 * size, 1000)
    for r in range(count):
        total = 0.0
        for j in range(1, n + 1):
            total += workspace.share[j] * workspace.delta[j, r]
        scratch.delta[r] = total
    scatter_example(batch, i, w, scale, scratch.delta, 0.0, scratch)
    scatter_example(batch, i, m, t * scale, scratch.delta, 0.0, scratch)
    return weight * cost
