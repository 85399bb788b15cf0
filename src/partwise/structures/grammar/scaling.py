# mypy: ignore-errors
"""Numbers between zero and one: how charts and weights are scaled, and what becomes of those that are too small.

Rows of a chart are divided by their maximum. No possible entry is let down to zero: those below ``FLOOR`` are
raised to it, and weights of rules and splits to ``LEAST_WEIGHT``, so that products of four never underflow. Z is then
too large by at most the expected counts of what was raised; where these are more than ``NEGLIGIBLE``, the example is
done again on logarithms. The log-partition alone is compared with one in which such entries are dropped.
"""

from __future__ import annotations

import math

import numpy as np

from partwise.compiled.dispatch import inner

FLOOR = 1e-90
LEAST_WEIGHT = 1e-60
LEAST_MAXIMUM = 1e-200  # of a row before it is divided: what underflowed beside it is below the floor
LEAST_PRODUCT = 1e-300  # in place of an underflow, until the row is divided
NEGLIGIBLE = 1e-15
# Places in ``GrammarWorkspace.state``.
DROPS, FOUND_SMALL = 0, 1


@inner
def weight_of(score, least, state):  # type: ignore
    """exp(score), at most one; what is possible and below `least` is raised to it, or dropped."""
    if score == -np.inf:
        return 0.0
    weight = math.exp(max(score, -700.0))
    if weight > least:
        return weight
    state[FOUND_SMALL] = 1
    return 0.0 if state[DROPS] == 1 else least


@inner
def divide_by_maximum(row, at, count, state):  # type: ignore
    """Divide by the maximum, which is returned; what is possible and below the floor is raised to it, or dropped."""
    top = 0.0
    for a in range(count):
        top = max(top, row[at + a])
    if top < LEAST_MAXIMUM:
        return top
    inverse, lowest = 1.0 / top, top * FLOOR
    floor, n_small = (0.0 if state[DROPS] == 1 else FLOOR), 0
    for a in range(count):
        n_small += 1 if 0.0 < row[at + a] <= lowest else 0
    for a in range(count):
        value = row[at + a]
        row[at + a] = value * inverse if value > lowest else (floor if value > 0.0 else 0.0)
    if n_small > 0:
        state[FOUND_SMALL] = 1
    return top


@inner
def rule_weights(s, scores, first, work):  # type: ignore
    """Scaled weights of all rules; returns the logarithms taken out of binary and of unary ones."""
    n_rules, weight = s.rule.size, work.weight
    binary_top = unary_top = -np.inf
    for q in range(n_rules):
        binary_top = max(binary_top, scores[first + q])
    for q in range(n_rules, n_rules + s.unary_parent.size):
        unary_top = max(unary_top, scores[first + q])
    for q in range(n_rules):
        score = scores[first + s.rule[q]]
        weight[q] = weight_of(score - binary_top, LEAST_WEIGHT, work.state) if score > -np.inf else 0.0
    for q in range(n_rules, n_rules + s.unary_parent.size):
        score = scores[first + q]
        weight[q] = weight_of(score - unary_top, LEAST_WEIGHT, work.state) if score > -np.inf else 0.0
    return binary_top, unary_top


@inner
def raised_counts(values, derivatives, at, count):  # type: ignore
    """Expected counts of entries that were raised to the floor."""
    total = 0.0
    for a in range(count):
        if values[at + a] == FLOOR:
            total += FLOOR * derivatives[at + a]
    return total
