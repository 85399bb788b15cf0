# mypy: ignore-errors
"""Exponentiated gradient on an explicit quadratic over simplices, block by block (Collins et al. 2008, §3).

    α_i ← α_i exp(−η_i s_i) / Z,   s = A α + b,

kept in logs. A step is accepted when ½ Δ'AΔ ≤ KL(new ‖ old)/η, which every η ≤ 1/|A|_∞ satisfies and which
is all that the proof of convergence asks of η (their §5.3).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from partwise.compiled.dispatch import entry, inner

MAX_HALVINGS = 60


class Quadratic(NamedTuple):
    """A symmetric matrix by rows: `dense` (m, m), or compressed rows when that is empty."""

    dense: np.ndarray
    row_ptr: np.ndarray
    column: np.ndarray
    value: np.ndarray


@inner
def _log_softmax(log_alpha, gradient, step, first, last, out):  # type: ignore
    """out ← log of α exp(−η s) / Z on one block; returns KL(new ‖ old)."""
    top = -np.inf
    for j in range(first, last):
        out[j] = log_alpha[j] - step * gradient[j]
        top = max(top, out[j])
    total = 0.0
    for j in range(first, last):
        total += math.exp(out[j] - top)
    shift = top + math.log(total)
    divergence = 0.0
    for j in range(first, last):
        out[j] -= shift
        # Σ new log(new/old) + old − new: the last two add up to nothing, and make every term ≥ 0.
        ratio = log_alpha[j] - out[j]
        if ratio < 1.0:
            divergence += math.exp(out[j]) * (math.expm1(ratio) - ratio)
        else:
            divergence += math.exp(log_alpha[j]) - math.exp(out[j]) * (1.0 + ratio)
    return divergence


@entry
def log_softmax_of_all(log_alpha, gradient, step, block_ptr, out):  # type: ignore
    """The same on every block; returns the sum of the divergences."""
    divergence = 0.0
    for block in range(block_ptr.size - 1):
        first, last = block_ptr[block], block_ptr[block + 1]
        divergence += _log_softmax(log_alpha, gradient, step, first, last, out)
    return divergence


@inner
def _curvature(quadratic, delta, first, last):  # type: ignore
    """Δ'AΔ of one block."""
    total = 0.0
    for i in range(first, last):
        if quadratic.dense.size > 0:
            row = 0.0
            for j in range(first, last):
                row += quadratic.dense[i, j] * delta[j]
        else:
            row = 0.0
            for k in range(quadratic.row_ptr[i], quadratic.row_ptr[i + 1]):
                if first <= quadratic.column[k] < last:
                    row += quadratic.value[k] * delta[quadratic.column[k]]
        total += delta[i] * row
    return total


@inner
def _add_rows(quadratic, delta, first, last, gradient):  # type: ignore
    """gradient += A Δ."""
    for i in range(first, last):
        amount = delta[i]
        if amount == 0.0:
            continue
        if quadratic.dense.size > 0:
            for j in range(gradient.size):
                gradient[j] += amount * quadratic.dense[i, j]
        else:
            for k in range(quadratic.row_ptr[i], quadratic.row_ptr[i + 1]):
                gradient[quadratic.column[k]] += amount * quadratic.value[k]


@entry
def simplex_pass(quadratic, block_ptr, order, log_alpha, alpha, gradient, steps, growth, work, delta):  # type: ignore
    """One step on every block of `order`; `growth` of 1 keeps the steps as they are. Returns steps tried."""
    tried = 0
    for index in range(order.size):
        block = order[index]
        first, last = block_ptr[block], block_ptr[block + 1]
        step = steps[block]
        for _ in range(MAX_HALVINGS):
            tried += 1
            divergence = _log_softmax(log_alpha, gradient, step, first, last, work)
            for j in range(first, last):
                delta[j] = math.exp(work[j]) - alpha[j]
            if growth == 1.0 or 0.5 * step * _curvature(quadratic, delta, first, last) <= divergence:
                _add_rows(quadratic, delta, first, last, gradient)
                for j in range(first, last):
                    log_alpha[j] = work[j]
                    alpha[j] += delta[j]
                break
            step *= 0.5
        steps[block] = step * growth
    return tried
