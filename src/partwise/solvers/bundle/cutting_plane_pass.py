# mypy: ignore-errors
"""Cutting planes of single examples for β = ∞ (Tsochantaridis et al. 2005; n-slack, Joachims et al. 2009).

Example i keeps a working set of labels y_1 … y_m beside the true one, y_0, and a distribution α_i over them:

    d_p = φ(x_i, y_i) − φ(x_i, y_p),   v = Σ_i c_i Σ_p α_ip d_ip,   w = v / l2
    D = Σ_i c_i γ Σ_p α_ip e_ip − ‖v‖² / (2 l2)

A pass of the oracle adds to every working set its most violated label; sweeps then maximise D over all α_i.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.compiled.dispatch import entry, inner
from partwise.compiled.examples import (
    add_cost,
    add_gold,
    expected_cost,
    gold_score,
    scatter_example,
    score_example,
)
from partwise.compiled.oracles import best
from partwise.solvers.primal.mira_pass import exchange

ADDED, REPLACED = 1, 2


class Planes(NamedTuple):
    """The working sets; label 0 of each is the true one.

    Attributes
    ----------
    part : ndarray (memory, part_ptr[n_examples]) of int32
        Parts of label p + 1 of example i at ``[p, part_ptr[i]:part_ptr[i + 1]]``, with repetition, then −1.
    cost, share : ndarray (n_examples, memory + 1)
        e(y_i, y_p) and α_ip.
    gram : ndarray (n_examples, memory + 1, memory + 1)
        d_p·d_q.
    n_used : ndarray (n_examples,) of int64
        Labels in the set.
    part_ptr : ndarray (n_examples + 1,) of int64
        Room for the largest labelling of each example.
    """

    part: np.ndarray
    cost: np.ndarray
    share: np.ndarray
    gram: np.ndarray
    n_used: np.ndarray
    part_ptr: np.ndarray


@inner
def _difference(i, planes, p, scores, gold):  # type: ignore
    """Score of label p minus that of the true label, which is `gold`."""
    if p == 0:
        return 0.0
    total = -gold
    for k in range(planes.part_ptr[i], planes.part_ptr[i + 1]):
        part = planes.part[p - 1, k]
        if part < 0:
            break
        total += scores[part]
    return total


@inner
def _choose_slot(planes, i):  # type: ignore
    """A free slot in the working set of i, or that of a label whose share another can best take over.

    Where the labels in use are equally good, D loses c² α_p² ‖d_p − d_q‖² / (2 l2) when q takes over from p.
    """
    m = planes.n_used[i]
    if m < planes.cost.shape[1]:
        return m, False
    slot, heir, least = 1, 0, np.inf
    for p in range(1, m):
        for q in range(m):
            if p != q:
                distance = planes.gram[i, p, p] + planes.gram[i, q, q] - 2.0 * planes.gram[i, p, q]
                lost = planes.share[i, p] * planes.share[i, p] * distance
                if lost < least:
                    slot, heir, least = p, q, lost
    moved = planes.share[i, slot] > 0.0
    planes.share[i, heir] += planes.share[i, slot]
    planes.share[i, slot] = 0.0
    return slot, moved


@inner
def _store_plane(batch, i, planes, p, count, vector, scratch):  # type: ignore
    """Make the label in ``scratch.counts`` number p of i."""
    at, last = planes.part_ptr[i], planes.part_ptr[i + 1]
    for r in range(count):
        scratch.delta[r] = -scratch.counts[r]
        for _ in range(int(scratch.counts[r] + 0.5)):
            planes.part[p - 1, at] = r
            at += 1
    planes.part[p - 1, at:last] = -1
    add_gold(batch, i, 1.0, scratch.delta)
    planes.cost[i, p] = expected_cost(batch, i, scratch.counts)
    planes.n_used[i] = max(planes.n_used[i], p + 1)
    scatter_example(batch, i, vector, 1.0, scratch.delta, 0.0, scratch)
    score_example(batch, i, vector, 1.0, scratch.potentials, scratch)
    gold = gold_score(batch, i, scratch.potentials)
    for q in range(planes.n_used[i]):
        planes.gram[i, p, q] = -_difference(i, planes, q, scratch.potentials, gold)
        planes.gram[i, q, p] = planes.gram[i, p, q]
    scatter_example(batch, i, vector, -1.0, scratch.delta, 0.0, scratch)


@entry
def find_planes(batch, first, last, v, l2, gamma, planes, loss, gap, outcome, vector, scratch):  # type: ignore
    """One oracle call for each example: ℓ_i, g_i, and its most violated label, added where it is new.

    `vector` is workspace for one example's features, zero before and (up to rounding) after. `outcome` receives
    ADDED, or REPLACED where a label in use had to go and another has its share now.
    """
    for i in range(first, last):
        count = score_example(batch, i, v, 1.0 / l2, scratch.scores, scratch)
        gold = gold_score(batch, i, scratch.scores)
        for r in range(count):
            scratch.potentials[r] = scratch.scores[r]
        add_cost(batch, i, gamma, scratch.potentials)
        top = best(batch, i, scratch.potentials, scratch.counts, scratch)
        loss[i], outcome[i] = top - gold_score(batch, i, scratch.potentials), 0
        known, mean = 0.0, 0.0
        for p in range(planes.n_used[i]):
            value = _difference(i, planes, p, scratch.scores, gold) + gamma * planes.cost[i, p]
            known = max(known, value)
            mean += planes.share[i, p] * value
        gap[i] = loss[i] - mean
        if loss[i] - known > 1e-12 * (1.0 + abs(top) + abs(gold)):
            slot, moved = _choose_slot(planes, i)
            outcome[i] = REPLACED if moved else ADDED
            _store_plane(batch, i, planes, slot, count, vector, scratch)


@entry
def sweep_planes(batch, order, v, l2, gamma, planes, slope, before, scratch):  # type: ignore
    """Maximise D over the α_i of `order` in turn; returns Σ_i c_i (gap of i within its working set, before).

    `slope` and `before` (memory + 1,) are workspace.
    """
    total = 0.0
    for index in range(order.size):
        i = order[index]
        m, weight = planes.n_used[i], batch.example_weight[i]
        if m == 1 or weight == 0.0:
            continue
        count = score_example(batch, i, v, 1.0 / l2, scratch.scores, scratch)
        gold = gold_score(batch, i, scratch.scores)
        highest, mean, size = -np.inf, 0.0, 0.0
        for p in range(m):
            value = _difference(i, planes, p, scratch.scores, gold) + gamma * planes.cost[i, p]
            slope[p], before[p] = value, planes.share[i, p]
            highest, size = max(highest, value), max(size, abs(value))
            mean += planes.share[i, p] * value
        total += weight * (highest - mean)
        exchange(planes.gram[i], weight / l2, slope, planes.share[i], m, 1e-13 * size, 100)
        _move(batch, i, planes, before, v, weight, count, scratch)
    return total


@inner
def _move(batch, i, planes, before, v, weight, count, scratch):  # type: ignore
    """v follows the shares of i from `before` to what they are now."""
    for r in range(count):
        scratch.delta[r] = 0.0
    for p in range(planes.n_used[i]):
        change = planes.share[i, p] - before[p]
        if change != 0.0:
            if p == 0:
                add_gold(batch, i, -change, scratch.delta)
                continue
            for k in range(planes.part_ptr[i], planes.part_ptr[i + 1]):
                if planes.part[p - 1, k] >= 0:
                    scratch.delta[planes.part[p - 1, k]] -= change
    scatter_example(batch, i, v, weight, scratch.delta, 0.0, scratch)


@entry
def planes_pass(batch, first, last, planes, before, v, scratch):  # type: ignore
    """Add to `v` what the working sets of some examples give; `before` (memory + 1,) is (1, 0, …, 0)."""
    for i in range(first, last):
        count = batch.part_ptr[i + 1] - batch.part_ptr[i]
        _move(batch, i, planes, before, v, batch.example_weight[i], count, scratch)
