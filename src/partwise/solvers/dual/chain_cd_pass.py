# mypy: ignore-errors
"""Coordinate ascent along directions for β = ∞ on first-order chains.

A visit finds the loss-augmented best labelling of an example and the worst labelling in use. Each run of positions in
which they differ is a direction. From the labels `off` to the labels `to`, mass moves by

    d = φ(to) − φ(off),   g = γ (e(to) − e(off)) + w·d
    t = clip( l2 g / (c_i ‖d‖²), −mass along `to`, mass along `off` ),   v ← v − t c_i d

the exact maximiser of the dual. (Hsieh et al. 2008 take the same step for one class against another.) Directions are
kept, and sweeps over them go on without a search for labellings.
"""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import entry, inner
from partwise.compiled.examples import add_cost, length_of, score_example
from partwise.compiled.oracles import best
from partwise.solvers.dual.chain_cd_point import add_mass, has_slots_for, mass_along, worst_in_use
from partwise.solvers.dual.chain_cd_space import bring_up, move_along, product_along
from partwise.solvers.dual.chain_cd_store import (
    COST,
    ENTRY,
    EXAMPLE,
    FIRST,
    GAIN,
    N_ENTRIES,
    N_PAIRS,
    PATH,
    SQUARED,
    fits,
    remember,
)

# A visit takes no step if the best score exceeds the worst in use by less, relative to the best.
_LEAST_GAIN = 1e-12


@inner
def _step(k, weight, point, store, gamma, l2, space):  # type: ignore
    """Move along direction k and store how much the dual gains; returns whether every pair had a slot."""
    head = store.head[k]
    first, n_pairs, off_path = head[FIRST], head[N_PAIRS], head[PATH]
    to_path, start, end = off_path + n_pairs, head[ENTRY], head[ENTRY] + head[N_ENTRIES]
    off = mass_along(point, first, store.path, off_path, n_pairs)
    to = mass_along(point, first, store.path, to_path, n_pairs)
    gain, has_slots = 0.0, True
    if off > 0.0 or to > 0.0:
        linear = product_along(space, point.v, store.entry, store.value, start, end)
        slope = gamma * store.number[k, COST] + linear / l2
        curvature = weight * store.number[k, SQUARED] / l2
        step = off if slope > 0.0 else -to
        if abs(slope) < curvature * abs(step):
            step = slope / curvature
        if step * slope > 0.0:
            has_slots = has_slots_for(point, first, store.path, to_path if step > 0.0 else off_path, n_pairs)
        if step * slope > 0.0 and has_slots:
            add_mass(point, first, store.path, off_path, n_pairs, -step)
            add_mass(point, first, store.path, to_path, n_pairs, step)
            shift = step * weight
            move_along(space, point.v, store.entry, store.value, start, end, shift)
            point.norm[0] += shift * (shift * store.number[k, SQUARED] - 2.0 * linear)
            point.cost[head[EXAMPLE]] += step * store.number[k, COST]
            gain = shift * (slope - 0.5 * step * curvature)
    store.number[k, GAIN] = gain
    return has_slots


@entry
def sweep(order, point, store, example_weight, gamma, l2, space):  # type: ignore
    """A step along every direction of `order`; returns whether a slot was missing for any."""
    lacking = False
    for j in range(order.size):
        weight = example_weight[store.head[order[j], EXAMPLE]]
        has_slots = _step(order[j], weight, point, store, gamma, l2, space)
        lacking = lacking or not has_slots
    return lacking


@inner
def _write_paths(start, end, n_labels, workspace, path, at):  # type: ignore
    """Write the pairs of the worst labelling and of the best one at positions start … end − 1."""
    for j in range(end - start):
        t = start + j
        before_worst, before_top = (workspace.worst[t - 1], workspace.top[t - 1]) if t > 0 else (0, 0)
        path[at + j] = before_worst * n_labels + workspace.worst[t]
        path[at + end - start + j] = before_top * n_labels + workspace.top[t]


@inner
def _follow_directions(batch, i, chain, point, store, gamma, l2, space, workspace):  # type: ignore
    """A step along each run of positions in which worst and best labelling differ; returns the same as `sweep`."""
    length, lacking, t = length_of(batch, i), False, 0
    while t < length:
        if workspace.worst[t] == workspace.top[t]:
            t += 1
            continue
        start = t
        while t < length and workspace.worst[t] != workspace.top[t]:
            t += 1
        end = min(t + 1, length)  # the next pair changes too: it holds the last label that differs
        _write_paths(start, end, chain.n_labels, workspace, store.path, store.used[1])
        k = remember(batch, i, chain, store, chain.position_ptr[i] + start, end - start, space)
        has_slots = _step(k, batch.example_weight[i], point, store, gamma, l2, space)
        lacking = lacking or not has_slots
    return lacking


@inner
def _read_labels(length, n_labels, counts, labels):  # type: ignore
    """The label of each position from the part counts of a labelling, whose nodes come first."""
    for t in range(length):
        label = 0
        for j in range(1, n_labels):
            if counts[t * n_labels + j] > counts[t * n_labels + label]:
                label = j
        labels[t] = label


@inner
def _visit(batch, i, chain, point, store, gamma, l2, space, workspace, scratch):  # type: ignore
    """Steps along the differences of the worst labelling in use and the best of all; stores the gap of the example."""
    bring_up(space, point.v, batch, i)
    score_example(batch, i, point.v, 1.0 / l2, scratch.potentials, scratch)
    add_cost(batch, i, gamma, scratch.potentials)
    top = best(batch, i, scratch.potentials, scratch.counts, scratch)
    bottom, mean = worst_in_use(batch, i, chain, point, scratch.potentials, workspace)
    point.gap[i] = max(top - mean, 0.0)
    lacking = False
    if np.isfinite(bottom) and top - bottom > _LEAST_GAIN * (1.0 + abs(top)):
        _read_labels(length_of(batch, i), chain.n_labels, scratch.counts, workspace.top)
        lacking = _follow_directions(batch, i, chain, point, store, gamma, l2, space, workspace)
    return lacking


@entry
def chain_cd_pass(batch, order, chain, point, store, gamma, l2, space, workspace, scratch):  # type: ignore
    """Visit the examples of `order` until the store is full; returns how many, and whether slots were missing."""
    lacking = False
    for j in range(order.size):
        i = order[j]
        if batch.example_weight[i] == 0.0:
            point.gap[i] = 0.0
            continue
        if not fits(batch, i, store):
            return j, lacking
        missed = _visit(batch, i, chain, point, store, gamma, l2, space, workspace, scratch)
        lacking = lacking or missed
    return order.size, lacking
