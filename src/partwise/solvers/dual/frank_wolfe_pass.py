# mypy: ignore-errors
"""Pairwise block-coordinate Frank–Wolfe visits for β = ∞ (Lacoste-Julien et al. 2013; Osokin et al. 2016).

α_i is a short list of labellings ("corners") with weights. A visit finds the loss-augmented best label y*
and the worst corner a, and moves mass from a to y*:

    d = φ(x_i, y*) − φ(x_i, a),   g = (s + γ e)(y*) − (s + γ e)(a)
    t = clip( l2 g / ( c_i ‖d‖² ), 0, α_a ),   v ← v − t c_i d

which is the exact maximiser of the dual along d. (An l1 term makes the dual along d flatter in places: ‖d‖² then is a
mean over the whole way, and a step after which the dual is lower is shortened.) Then it goes on between the corners it
has, without asking for a new best label, as long as that pays. A corner is kept as its list of parts. Where all slots
are taken, y* takes over the whole weight of the lightest corner, if that does not lower the dual.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.compiled.dispatch import entry, fragment, inner
from partwise.compiled.examples import add_cost, add_gold, expected_cost, scatter_example, score_example
from partwise.compiled.oracles import best

_MAX_HALVINGS = 20
_OVERSHOOT = 1e-3  # of what a step promises, lost to rounding


class CornerPoint(NamedTuple):
    """Dual variables as weighted labellings.

    Attributes
    ----------
    alpha : ndarray (n_examples, n_slots)
        Weight of each corner; the slot is free when it is 0.
    corners : ndarray (n_slots, corner_ptr[n_examples]) of int32
        Parts of each corner of example i at ``[slot, corner_ptr[i]:corner_ptr[i + 1]]``, with repetition, then −1.
    v : ndarray (n_weights,)
    cost, gap : ndarray (n_examples,)
        Expected cost, and g_i as of the last visit.
    norm : ndarray (1,)
        ‖v‖², kept up incrementally.
    corner_ptr : ndarray (n_examples + 1,) of int64
        Room for the largest labelling of each example.
    """

    alpha: np.ndarray
    corners: np.ndarray
    v: np.ndarray
    cost: np.ndarray
    gap: np.ndarray
    norm: np.ndarray
    corner_ptr: np.ndarray


@inner
def _list_parts(counts, count, out):  # type: ignore
    """Write the parts that `counts` counts, with repetition, then −1."""
    k = 0
    for j in range(count):
        left = counts[j]
        while left > 0.5:
            out[k] = j
            k += 1
            left -= 1.0
    out[k:] = -1


@inner
def _corner_values(i, point, scores, values):  # type: ignore
    """Score of every corner in use; returns their mean under α, the worst and the best in use."""
    first, last = point.corner_ptr[i], point.corner_ptr[i + 1]
    mean, worst, top = 0.0, -1, -1
    for slot in range(point.alpha.shape[1]):
        if point.alpha[i, slot] > 0.0:
            total = 0.0
            for k in range(first, last):
                part = point.corners[slot, k]
                if part < 0:
                    break
                total += scores[part]
            values[slot] = total
            mean += point.alpha[i, slot] * total
            if worst < 0 or total < values[worst]:
                worst = slot
            if top < 0 or total > values[top]:
                top = slot
    return mean, worst, top


@inner
def _slot_for(i, point, parts):  # type: ignore
    """The slot that holds `parts`, or a free one filled with them, or −1 when all are taken."""
    first, last = point.corner_ptr[i], point.corner_ptr[i + 1]
    free = -1
    for slot in range(point.alpha.shape[1]):
        if point.alpha[i, slot] == 0.0:
            free = slot
            continue
        same = True
        for k in range(first, last):
            if point.corners[slot, k] != parts[k - first]:
                same = False
                break
        if same:
            return slot
    if free >= 0:
        for k in range(first, last):
            point.corners[free, k] = parts[k - first]
        return free
    return -1


@fragment
def _add_part(batch, start, part, amount, delta):  # type: ignore
    """delta += amount · (the part), nothing for −1; returns −amount times its cost."""
    if part < 0:
        return 0.0
    delta[part] += amount
    return -amount * batch.cost[start + part] if batch.cost.size > 0 else 0.0


@inner
def _take_over(batch, i, point, parts, gamma, l2, scratch):  # type: ignore
    """Put `parts` in place of the lightest corner where the dual does not fall; returns whether it was done."""
    weight, start, first = batch.example_weight[i], batch.part_ptr[i], point.corner_ptr[i]
    last = point.corner_ptr[i + 1]
    light = 0
    for slot in range(point.alpha.shape[1]):
        if point.alpha[i, slot] < point.alpha[i, light]:
            light = slot
    cost, share = 0.0, point.alpha[i, light]
    for j in range(batch.part_ptr[i + 1] - start):
        scratch.delta[j] = 0.0
    for k in range(first, last):
        cost += _add_part(batch, start, parts[k - first], -1.0, scratch.delta)
        cost += _add_part(batch, start, point.corners[light, k], 1.0, scratch.delta)
    growth = scatter_example(batch, i, point.v, share * weight, scratch.delta, 0.0, scratch)
    if gamma * share * weight * cost < growth / (2.0 * l2):
        scatter_example(batch, i, point.v, -share * weight, scratch.delta, 0.0, scratch)
        return False
    for k in range(first, last):
        point.corners[light, k] = parts[k - first]
    point.cost[i] += share * cost
    point.norm[0] += growth
    return True


@inner
def _move(batch, i, point, target, source, gain, gamma, l2, scratch):  # type: ignore
    """Shift mass from corner `source` to `target`, as far as the dual rises. `gain` is g above."""
    weight, start = batch.example_weight[i], batch.part_ptr[i]
    linear, cost = 0.0, 0.0
    for j in range(batch.part_ptr[i + 1] - start):
        scratch.delta[j] = 0.0
    for k in range(point.corner_ptr[i], point.corner_ptr[i + 1]):
        to, off = point.corners[target, k], point.corners[source, k]
        cost += _add_part(batch, start, to, -1.0, scratch.delta)
        cost += _add_part(batch, start, off, 1.0, scratch.delta)
        linear += (scratch.scores[to] if to >= 0 else 0.0) - (scratch.scores[off] if off >= 0 else 0.0)
    limit = point.alpha[i, source]
    growth = scatter_example(batch, i, point.v, limit * weight, scratch.delta, 0.0, scratch)
    squared = (growth + 2.0 * limit * weight * l2 * linear) / (limit * limit)
    step = limit
    if squared * limit > l2 * weight * gain:
        step = l2 * weight * gain / squared
        growth += scatter_example(batch, i, point.v, (step - limit) * weight, scratch.delta, 0.0, scratch)
        for _ in range(_MAX_HALVINGS):  # never, but where an l1 term makes the dual other than a parabola
            if growth - 2.0 * l2 * gamma * weight * step * cost <= _OVERSHOOT * l2 * weight * step * gain:
                break
            step *= 0.5
            growth += scatter_example(batch, i, point.v, -step * weight, scratch.delta, 0.0, scratch)
        point.alpha[i, source] -= step
    else:
        point.alpha[i, source] = 0.0
    point.alpha[i, target] += step
    point.cost[i] += step * cost
    point.norm[0] += growth


@inner
def _frank_wolfe_visit(batch, i, point, gamma, l2, n_cached, parts, values, scratch):  # type: ignore
    """One step with a new best label, then up to `n_cached` among the corners; stores the gap found."""
    if batch.example_weight[i] == 0.0:
        point.gap[i] = 0.0
        return
    for repeat in range(1 + n_cached):
        count = score_example(batch, i, point.v, 1.0 / l2, scratch.scores, scratch)
        for j in range(count):
            scratch.potentials[j] = scratch.scores[j]
        add_cost(batch, i, gamma, scratch.potentials)
        mean, source, target = _corner_values(i, point, scratch.potentials, values)
        if repeat == 0:
            top = best(batch, i, scratch.potentials, scratch.counts, scratch)
            point.gap[i] = max(top - mean, 0.0)
            _list_parts(scratch.counts, count, parts)
            new = _slot_for(i, point, parts)
            if new < 0 and _take_over(batch, i, point, parts, gamma, l2, scratch):
                continue
            target = new if new >= 0 else target
            gain = top - values[source]
            if point.alpha[i, target] > 0.0:
                gain = values[target] - values[source]
        else:
            gain = values[target] - values[source]
        if target == source or gain <= 1e-7 * (1.0 + abs(mean)):
            return
        _move(batch, i, point, target, source, gain, gamma, l2, scratch)


@entry
def frank_wolfe_pass(batch, order, point, gamma, l2, n_cached, parts, values, scratch):  # type: ignore
    """Visit the examples of `order`; `parts` and `values` are workspace for one corner and one value a slot."""
    for k in range(order.size):
        _frank_wolfe_visit(batch, order[k], point, gamma, l2, n_cached, parts, values, scratch)


@entry
def corner_counts(batch, first, last, point, mu):  # type: ignore
    """Expected part counts of the mixtures, in double precision."""
    for i in range(first, last):
        start = batch.part_ptr[i]
        for slot in range(point.alpha.shape[1]):
            if point.alpha[i, slot] > 0.0:
                for k in range(point.corner_ptr[i], point.corner_ptr[i + 1]):
                    if point.corners[slot, k] >= 0:
                        mu[start + point.corners[slot, k]] += point.alpha[i, slot]


@entry
def mixture_pass(batch, first, last, mu, v, cost, scratch):  # type: ignore
    """v and the costs that follow from expected counts."""
    for i in range(first, last):
        start = batch.part_ptr[i]
        cost[i] = expected_cost(batch, i, mu[start:])
        for j in range(batch.part_ptr[i + 1] - start):
            scratch.delta[j] = -mu[start + j]
        add_gold(batch, i, 1.0, scratch.delta)
        scatter_example(batch, i, v, batch.example_weight[i], scratch.delta, 0.0, scratch)
