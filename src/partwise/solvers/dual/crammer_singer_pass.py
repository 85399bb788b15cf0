# mypy: ignore-errors
"""Exact coordinate ascent for classes and β = ∞: all labels of an example at once.

With all other examples fixed, the dual of one example is a parabola over the simplex whose axes are the labels, since
labels share no weights (Crammer and Singer 2001, §5; Keerthi et al. 2008 solve it label by label):

    max over a ≥ 0, Σ a = 1 of   Σ_r ( a_r − μ_r ) g_r − ½ A_r ( a_r − μ_r )²
    g = s + γ e,   A_r = c_i ‖φ(x_i, r)‖² / l2

so that a_r = max(0, μ_r + (g_r − λ) / A_r), with the one λ for which they add up to one.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.compiled.boundary import load_record, record_address, row_address
from partwise.compiled.dispatch import entry, inner
from partwise.compiled.examples import add_cost, expected_cost, scatter_example, score_before
from partwise.compiled.rows import FIRST_ROW, KIND, KindRows, Rows

_LEAST_GAIN = 1e-12  # relative to the scores
_FLATTEST = 1e-9  # of the largest A_r: a label without features has a straight line, and no top


class ClassPoint(NamedTuple):
    """Arrays are changed in place.

    Attributes
    ----------
    mu : ndarray (n_parts,)
        The distribution of each example.
    v : ndarray (n_weights,)
    cost, gap : ndarray (n_examples,)
        Expected cost, and g_i as of the last visit.
    norm : ndarray (1,)
        ‖v‖², kept up incrementally.
    """

    mu: np.ndarray
    v: np.ndarray
    cost: np.ndarray
    gap: np.ndarray
    norm: np.ndarray


@inner
def _top_of_parabola(mu, gain, curvature, count, out):  # type: ignore
    """The maximiser above into `out`; `gain` is g minus its maximum, `curvature` A. Both are overwritten.

    λ is found from below: labels that it leaves without mass never get any back (Michelot 1986).
    """
    largest = 0.0
    for r in range(count):
        largest = max(largest, curvature[r])
    if largest == 0.0:  # no features at all
        for r in range(count):
            out[r] = 1.0 if gain[r] == 0.0 else 0.0
        return
    for r in range(count):
        curvature[r] = 1.0 / max(curvature[r], _FLATTEST * largest)
        gain[r] = mu[r] + gain[r] * curvature[r]
        out[r] = 1.0
    shift, n_left, n_before = 0.0, count, count + 1
    while n_left < n_before:
        mass, slope = -1.0, 0.0
        for r in range(count):
            mass += out[r] * gain[r]
            slope += out[r] * curvature[r]
        shift, n_before, n_left = mass / slope, n_left, 0
        for r in range(count):
            if out[r] > 0.0 and gain[r] > shift * curvature[r]:
                n_left += 1
            else:
                out[r] = 0.0
    for r in range(count):
        out[r] *= gain[r] - shift * curvature[r]


@inner
def _visit(batch, i, following, point, squared, gamma, l2, scratch):  # type: ignore
    """The best distribution of example i, all others fixed; stores the gap found."""
    weight, start = batch.example_weight[i], batch.part_ptr[i]
    count = score_before(batch, i, following, point.v, 1.0 / l2, scratch.scores, scratch)
    for r in range(count):
        scratch.potentials[r] = scratch.scores[r]
    add_cost(batch, i, gamma, scratch.potentials)
    mu, top, mean = point.mu[start : start + count], -np.inf, 0.0
    for r in range(count):
        top = max(top, scratch.potentials[r])
    for r in range(count):
        scratch.potentials[r] -= top
        mean += mu[r] * scratch.potentials[r]
    point.gap[i] = max(-mean, 0.0)
    if weight == 0.0 or -mean <= _LEAST_GAIN * (1.0 + abs(top)):
        return
    n_columns = squared.shape[1]
    for r in range(count):
        scratch.delta[r] = weight / l2 * squared[i, r % n_columns]
    _top_of_parabola(mu, scratch.potentials, scratch.delta, count, scratch.counts)
    for r in range(count):
        scratch.delta[r] = mu[r] - scratch.counts[r]
    growth = scatter_example(batch, i, point.v, weight, scratch.delta, 0.0, scratch)
    point.norm[0] += growth
    point.cost[i] = expected_cost(batch, i, scratch.counts)
    for r in range(count):
        mu[r] = scratch.counts[r]


@entry
def class_pass(batch, order, point, squared, gamma, l2, scratch):  # type: ignore
    """Visit the examples of `order`; `squared` is ‖φ(x_i, r)‖² in one column for each label, or in one for all."""
    for k in range(order.size):
        following = order[k + 1] if k + 1 < order.size else -1
        _visit(batch, order[k], following, point, squared, gamma, l2, scratch)


@entry
def squared_features(batch, first, last, squared):  # type: ignore
    """‖φ(x_i, r)‖² of examples of one row; with a single column all labels have all weights."""
    table = load_record(Rows, record_address(batch.rows))
    n_columns = squared.shape[1]
    for i in range(first, last):
        run = table.runs[table.run_ptr[i]]
        kind = load_record(KindRows, row_address(table.kinds, run[KIND]))
        row, masked = run[FIRST_ROW], kind.mask.size > 0
        for d in range(kind.dense_start.size):
            for r in range(n_columns):
                share = kind.mask[kind.dense_start[d] + r] if masked else 1.0
                squared[i, r] += share * kind.dense[row, d] ** 2
        for k in range(kind.wide_ptr[row], kind.wide_ptr[row + 1]):
            value = kind.wide_value[k] if kind.wide_value.size > 0 else 1.0
            for r in range(n_columns):
                share = kind.mask[kind.wide_start[k] + r] if masked else 1.0
                squared[i, r] += share * value**2
        for k in range(kind.narrow_ptr[row], kind.narrow_ptr[row + 1]):
            value = kind.narrow_value[k] if kind.narrow_value.size > 0 else 1.0
            for w in range(kind.narrow_start[k], kind.narrow_start[k] + kind.narrow_count[k]):
                squared[i, kind.narrow_label[w - kind.narrow_first]] += value**2
