# mypy: ignore-errors
"""Messages of counting rules: the sizes of the vertices with label 1 must add up to a number within bounds.

XOR, at-most-one, OR, exactly-k, implication and knapsack are one rule, low ≤ Σ size_i [x_i = 1] ≤ high. A negative
size counts if x_i = 0. With c for the total so far, forward sums F_i(c) and backward sums B_i(c) on logarithms are

    F_{i+1}(c) = log( e^{F_i(c) + n_i(0)} + e^{F_i(c − size_i) + n_i(1)} ),     B in the same way from the right,
    m_i(0) = log Σ_c e^{F_i(c) + B_{i+1}(c)},                    m_i(1) = log Σ_c e^{F_i(c) + B_{i+1}(c + size_i)}.

If the rule has no upper bound, all totals from `low` on are one level. A rule's numbers in the shape are: low, number
of levels, whether the last level includes all larger totals, then the sizes.
"""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import fragment, inner
from partwise.structures.semirings import LOGS, MAXIMA, log_add, plus


@fragment
def _next(level, size, n_levels, saturates):  # type: ignore
    """The level after adding `size`, or −1 if it exceeds the upper bound."""
    level += size
    if level < n_levels:
        return level
    return n_levels - 1 if saturates else -1


@inner
def count_forward(semiring, shape, at, n, incoming, levels):  # type: ignore
    """Fill F_0 … F_n, one row of levels each, in ``LOGS`` or ``MAXIMA``. Returns the total."""
    low, n_levels, saturates = shape[at], np.int64(shape[at + 1]), shape[at + 2]
    for c in range(n_levels):
        levels[c] = -np.inf
    levels[0] = 0.0
    for i in range(n):
        size = shape[at + 3 + i]
        off, on = (
            (incoming[2 * i], incoming[2 * i + 1]) if size > 0 else (incoming[2 * i + 1], incoming[2 * i])
        )
        here, there = i * n_levels, (i + 1) * n_levels
        for c in range(n_levels):
            levels[there + c] = levels[here + c] + off
        for c in range(n_levels):
            to = _next(c, abs(size), n_levels, saturates)
            if to >= 0:
                value = levels[here + c] + on
                old = levels[there + to]
                levels[there + to] = plus(semiring, old, value)
    total = -np.inf
    for c in range(low, n_levels):
        value = levels[n * n_levels + c]
        total = plus(semiring, total, value)
    return total


@inner
def count_outgoing(shape, at, n, incoming, outgoing, levels):  # type: ignore
    """Fill outgoing (2n,) from incoming (2n,), by vertex and state."""
    low, n_levels, saturates = shape[at], np.int64(shape[at + 1]), shape[at + 2]
    count_forward(LOGS, shape, at, n, incoming, levels)
    back = (n + 1) * n_levels
    for c in range(n_levels):
        levels[back + c] = 0.0 if c >= low else -np.inf
    for i in range(n - 1, -1, -1):
        size, here = shape[at + 3 + i], i * n_levels
        off, on = (
            (incoming[2 * i], incoming[2 * i + 1]) if size > 0 else (incoming[2 * i + 1], incoming[2 * i])
        )
        without, within = -np.inf, -np.inf
        for c in range(n_levels):
            to = _next(c, abs(size), n_levels, saturates)
            stay = levels[back + c]
            go = levels[back + to] if to >= 0 else -np.inf
            without = log_add(without, levels[here + c] + stay)
            within = log_add(within, levels[here + c] + go)
            # Levels never decrease, so `back` can be overwritten from the lowest level on.
            levels[back + c] = log_add(stay + off, go + on)
        outgoing[2 * i], outgoing[2 * i + 1] = (without, within) if size > 0 else (within, without)


@inner
def count_entropy(shape, at, n, incoming, levels):  # type: ignore
    """Entropy of the states that obey the rule: a sum of conditional entropies, from the last state to the first."""
    low, n_levels, saturates = shape[at], np.int64(shape[at + 1]), shape[at + 2]
    total = count_forward(LOGS, shape, at, n, incoming, levels)
    reached, entropy = (n + 1) * n_levels, 0.0  # probabilities of levels
    for c in range(n_levels):
        log_p = levels[n * n_levels + c] - total if c >= low else -np.inf
        levels[reached + c] = np.exp(log_p)
        entropy -= np.exp(log_p) * log_p if log_p > -np.inf else 0.0
    for i in range(n - 1, -1, -1):
        size, here, there = shape[at + 3 + i], i * n_levels, (i + 1) * n_levels
        off, on = (
            (incoming[2 * i], incoming[2 * i + 1]) if size > 0 else (incoming[2 * i + 1], incoming[2 * i])
        )
        # Levels never decrease, so probabilities can be overwritten from the lowest level on.
        for c in range(n_levels):
            arriving, to, own = levels[here + c], _next(c, abs(size), n_levels, saturates), 0.0
            if arriving + off > -np.inf:
                log_p = arriving + off - levels[there + c]
                own += levels[reached + c] * np.exp(log_p)
                entropy -= levels[reached + c] * np.exp(log_p) * log_p
            if to >= 0 and arriving + on > -np.inf:
                log_p = arriving + on - levels[there + to]
                own += levels[reached + to] * np.exp(log_p)
                entropy -= levels[reached + to] * np.exp(log_p) * log_p
            levels[reached + c] = own
    return entropy


@inner
def _counts_ones(shape, at, n):  # type: ignore
    """Whether every size is 1 or −1."""
    ones = True
    for i in range(n):
        ones = ones and abs(shape[at + 3 + i]) == 1
    return ones


@inner
def _choose(low, high, shape, at, n, incoming, choice, gains):  # type: ignore
    """`count_best` of sizes 1: the vertices that gain most are counted. Time is linear in n, not quadratic.

    `gains` (n,) is half of what each gains, so that a difference of large numbers stays finite.
    """
    certain, positive, possible = 0, 0, 0
    least, most = np.inf, -np.inf
    for i in range(n):
        off, on = incoming[2 * i], incoming[2 * i + 1]
        if shape[at + 3 + i] < 0:
            off, on = on, off
        if off == -np.inf and on == -np.inf:
            return -np.inf
        gain = 0.5 * on - 0.5 * off
        gains[i] = gain
        certain += gain == np.inf
        positive += gain > 0.0
        possible += gain > -np.inf
        if -np.inf < gain < np.inf:
            least, most = min(least, gain), max(most, gain)
    if certain > high or possible < low:
        return -np.inf
    wanted = min(max(positive, low), high)
    # Halve the interval until `most` is the smallest gain that at most `wanted` vertices exceed.
    middle = 0.5 * least + 0.5 * most
    while least < middle < most:
        above = 0
        for i in range(n):
            above += gains[i] > middle
        if above > wanted:
            least = middle
        else:
            most = middle
        middle = 0.5 * least + 0.5 * most
    above_least = 0
    for i in range(n):
        above_least += gains[i] > least
    threshold = least if above_least <= wanted else most
    for i in range(n):
        wanted -= gains[i] > threshold
    total = 0.0
    for i in range(n):
        counted = gains[i] > threshold
        if gains[i] == threshold and wanted > 0:
            counted, wanted = True, wanted - 1
        choice[i] = np.int64(counted == (shape[at + 3 + i] > 0))
        total += incoming[2 * i + choice[i]]
    return total


@inner
def count_best(shape, at, n, incoming, choice, levels):  # type: ignore
    """Fill choice (n,) with the best states that obey the rule. Returns their score, −inf if no states obey it."""
    low, n_levels, saturates = shape[at], np.int64(shape[at + 1]), shape[at + 2]
    if _counts_ones(shape, at, n):
        return _choose(low, n if saturates else n_levels - 1, shape, at, n, incoming, choice, levels)
    best = count_forward(MAXIMA, shape, at, n, incoming, levels)
    if best == -np.inf:
        return best
    level = low
    for c in range(low, n_levels):
        if levels[n * n_levels + c] > levels[n * n_levels + level]:
            level = c
    for i in range(n - 1, -1, -1):
        size, here = shape[at + 3 + i], i * n_levels
        on = incoming[2 * i + 1] if size > 0 else incoming[2 * i]
        found, wanted, value = level, 0, levels[here + n_levels + level]
        for c in range(n_levels):
            if _next(c, abs(size), n_levels, saturates) == level and levels[here + c] + on >= value:
                found, wanted = c, 1
        choice[i] = wanted if size > 0 else 1 - wanted
        level = found
    return best
