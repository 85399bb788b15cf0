# mypy: ignore-errors
"""An upper bound on the log-partition of second-order spanning trees, minimised by L-BFGS.

Two upper bounds on the entropy of second-order trees are tractable: the entropy of spanning trees with the same arcs,
and the sum of the entropies of all words with their heads and modifiers (`head_automata.py`). Any mean of both is also
a bound. It gives (as Wainwright, Jaakkola and Willsky 2005, for other tractable parts)

    A(θ) ≤ min_{x, z} (1 − ρ) A_tree((θ − x − z) / (1 − ρ)) + ρ Σ_h Z(h; x / ρ, z / ρ, pairs / ρ)

The score of each arc is divided among the tree, the automaton of its head (x) and the automaton of its modifier (z).
The right side is convex and smooth in all scores. Its gradient is the differences of the arc probabilities of tree and
automata. L-BFGS (Nocedal 1980) brings these to zero. Every step gives a bound.
"""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import inner
from partwise.structures.second_order.consensus.head_automata import automaton, prepare_automata
from partwise.structures.trees.arc_tables import stride_of
from partwise.structures.trees.matrix_tree.sums import spanning_marginals

SHARE = 0.25  # ρ
# Earlier steps that L-BFGS keeps.
MEMORY = 10
# The largest number of steps: the bound is valid after any number.
_MOST_STEPS = 100
# The largest number of step sizes of a line search.
_MOST_TRIES = 12
# L-BFGS stops if no two probabilities of an arc differ by more.
_TOLERANCE = 1e-4


@inner
def _evaluate(specification, n, n_arcs, n_slots, base, counts, work):  # type: ignore
    """The bound at ``work.point`` (x, then z), and its ``work.gradient``. Returns −inf if no tree is possible."""
    stride, single_root = stride_of(n), specification.single_root
    point, gradient = work.point, work.gradient
    for j in range((n + 1) * stride):
        work.scores[j] = -np.inf
    for a in range(n_arcs):
        at = work.modifier[a] * stride + work.head[a]
        work.scores[at] = (work.arc_score[a] - point[a] - point[n_arcs + a]) / (1.0 - SHARE)
        work.modifier_score[a] = point[a] / SHARE
        work.head_score[a] = point[n_arcs + a] / SHARE
    value = (1.0 - SHARE) * spanning_marginals(specification, n, work)
    if value == -np.inf:
        return value
    for h in range(n + 1):
        value += SHARE * automaton(h, n_slots, single_root, base, counts, work)
    for a in range(n_arcs):
        probability = work.marginals[work.modifier[a] * stride + work.head[a]]
        gradient[a] = work.of_modifiers[a] - probability
        gradient[n_arcs + a] = work.of_heads[a] - probability
    return value


@inner
def _direction(size, used, newest, work):  # type: ignore
    """The two loops of L-BFGS: ``work.direction`` from the gradient. Returns its slope."""
    direction, steps, changes = work.direction, work.steps, work.changes
    for j in range(size):
        direction[j] = -work.gradient[j]
    for back in range(used):
        k = (newest - back) % MEMORY
        first = k * size
        total = 0.0
        for j in range(size):
            total += steps[first + j] * direction[j]
        work.alphas[k] = total / work.curvatures[k]
        for j in range(size):
            direction[j] -= work.alphas[k] * changes[first + j]
    scale = SHARE
    if used > 0:
        total = 0.0
        for j in range(newest * size, newest * size + size):
            total += changes[j] * changes[j]
        scale = work.curvatures[newest] / total
    for j in range(size):
        direction[j] *= scale
    for back in range(used - 1, -1, -1):
        k = (newest - back) % MEMORY
        first = k * size
        total = 0.0
        for j in range(size):
            total += changes[first + j] * direction[j]
        more = work.alphas[k] - total / work.curvatures[k]
        for j in range(size):
            direction[j] += more * steps[first + j]
    slope = 0.0
    for j in range(size):
        slope += direction[j] * work.gradient[j]
    return slope


@inner
def smallest_bound(specification, n, n_arcs, n_slots, base, counts, work):  # type: ignore
    """Return the bound. Fill probabilities of arcs in ``work.marginals``, of siblings in `counts`, of grandparents in
    ``work.to_inner``. `sibling_score` and `grand_score` must be divided by ρ before.
    """
    size, point, gradient = 2 * n_arcs, work.point, work.gradient
    prepare_automata(n, n_arcs, n_slots, work)
    for a in range(n_arcs):
        point[a] = 0.5 * SHARE * work.arc_score[a] if work.arc_score[a] > -np.inf else 0.0
        point[n_arcs + a] = point[a]
    value = _evaluate(specification, n, n_arcs, n_slots, base, counts, work)
    used, newest = 0, -1
    for _ in range(_MOST_STEPS):
        largest = 0.0
        for j in range(size):
            largest = max(largest, abs(gradient[j]))
        if not largest > _TOLERANCE or value == -np.inf:
            break
        slope = _direction(size, used, newest, work)
        for j in range(size):
            work.old_point[j] = point[j]
            work.old_gradient[j] = gradient[j]
        step, tried, is_better = 1.0, value, False
        for _ in range(_MOST_TRIES):
            for j in range(size):
                point[j] = work.old_point[j] + step * work.direction[j]
            tried = _evaluate(specification, n, n_arcs, n_slots, base, counts, work)
            is_better = slope < 0.0 and -np.inf < tried <= value + 1e-4 * step * slope
            if is_better:
                break
            step *= 0.4
        if not is_better:  # Try the gradient once. If that fails too, the bound is minimal up to rounding.
            for j in range(size):
                point[j] = work.old_point[j]
            value = _evaluate(specification, n, n_arcs, n_slots, base, counts, work)
            if used == 0:
                break
            used = 0
            continue
        value = tried
        following = (newest + 1) % MEMORY
        first, curvature, length = following * size, 0.0, 0.0
        for j in range(size):
            work.steps[first + j] = point[j] - work.old_point[j]
            work.changes[first + j] = gradient[j] - work.old_gradient[j]
        for j in range(first, first + size):
            curvature += work.steps[j] * work.changes[j]
        for j in range(first, first + size):
            length += work.steps[j] * work.steps[j]
        if curvature > 1e-12 * length:
            newest, used = following, min(used + 1, MEMORY)
            work.curvatures[newest] = curvature
    return value
