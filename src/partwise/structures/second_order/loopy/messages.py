# mypy: ignore-errors
"""Belief propagation for second-order spanning trees (Smith and Eisner 2008), and Bethe's log-partition.

The variables are arcs, on or off. Three kinds of factors send messages, log-odds of an arc:

- the tree, which holds for spanning trees only: its marginals are exact, by the matrix-tree theorem;
- for each word and side the chain of its modifiers, with the scores of siblings (`chains.py`). A single root has no
  chain, as it has no siblings: the tree alone says that its modifier is the only one;
- for each grandparent part the pair of its arcs, with one score if both are on.

Messages go from the tree, then from all chains, then from all pairs, each after the other with what the one before has
said, until no belief changes. If beliefs do not come to rest, messages keep a share of their old value.

Bethe's value is Σ_f log Z_f − Σ_a (number of factors of a − 1) log(1 + exp b_a), with b_a the log-odds believed. It is
no bound of the log-partition. Without scores of pairs it is exact.
"""

from __future__ import annotations

import math

import numpy as np

from partwise.compiled.dispatch import fragment, inner
from partwise.structures.second_order.loopy.chains import (
    chain_backward,
    chain_forward,
    log_without,
    write_siblings,
)
from partwise.structures.trees.arc_tables import stride_of
from partwise.structures.trees.matrix_tree.sums import spanning_marginals

# Messages stop if no arc's probability changes by more in a round.
_TOLERANCE = 1e-5
# The largest number of rounds.
_MOST_ROUNDS = 100
# Every so many rounds the step is halved unless beliefs change less than before.
_PATIENCE = 10
# The smallest step: rounds would take too long.
_SMALLEST_STEP = 0.1
# Probabilities below this are taken for it, so that messages of the tree are finite.
_SMALLEST = 1e-300
# Pairs that score −inf score this multiple of the largest message, so that sums are finite: fewer pairs share an arc.
_FORBIDDEN = -1e3


@fragment
def _soft_plus(x):  # type: ignore
    """log(1 + exp x)."""
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


@fragment
def _probability(x):  # type: ignore
    """1 / (1 + exp −x)."""
    e = math.exp(-abs(x))
    return (1.0 if x > 0.0 else e) / (1.0 + e)


@fragment
def _clipped(x, limit):  # type: ignore
    return min(max(x, -limit), limit)


@inner
def _limit(n, n_arcs, n_slots, work):  # type: ignore
    """The largest message, which is more than any tree's score, and whether a pair scores −inf."""
    largest, forbids = 0.0, False
    for a in range(n_arcs):
        largest = max(largest, abs(work.arc_score[a]) if work.arc_score[a] > -np.inf else 0.0)
    for p in range(work.sibling_from[n_arcs]):
        largest = max(largest, abs(work.sibling_score[p]) if work.sibling_score[p] > -np.inf else 0.0)
    for k in range(n_arcs * n_slots):
        largest = max(largest, abs(work.grand_score[k]) if work.grand_score[k] > -np.inf else 0.0)
    limit = 1e3 + 8.0 * n * largest
    for p in range(work.sibling_from[n_arcs]):
        forbids |= work.sibling_score[p] == -np.inf
        work.sibling_score[p] = max(work.sibling_score[p], _FORBIDDEN * limit)
    for a in range(n_arcs):
        h = work.head[a]
        for b in range(work.into[h], work.into[h + 1]):
            k = a * n_slots + b - work.into[h]
            if work.head[b] != work.modifier[a]:
                forbids |= work.grand_score[k] == -np.inf
                work.grand_score[k] = max(work.grand_score[k], _FORBIDDEN * limit)
    return limit, forbids


@inner
def _visit_tree(specification, n, n_arcs, step, limit, belief, message, work):  # type: ignore
    """Renew the messages of the tree. Returns its log Z, −inf if no tree is possible; `step` 0 only sums."""
    stride = stride_of(n)
    for j in range((n + 1) * stride):
        work.scores[j] = -np.inf
    for a in range(n_arcs):
        odds = belief[a] - message[a]
        if work.arc_score[a] > -np.inf:
            work.scores[work.modifier[a] * stride + work.head[a]] = odds
    value = spanning_marginals(specification, n, work)
    if value == -np.inf or step == 0.0:
        return value
    for m in range(1, n + 1):
        row = m * stride
        for a in range(work.into[m], work.into[m + 1]):
            own, others = work.marginals[row + work.head[a]], 0.0
            for b in range(work.into[m], work.into[m + 1]):
                if b != a:
                    others += work.marginals[row + work.head[b]]
            odds = belief[a] - message[a]
            new = limit
            if others > 0.0 or work.into[m + 1] > work.into[m] + 1:  # Else it is the only arc into m.
                new = math.log(max(own, _SMALLEST)) - math.log(max(others, _SMALLEST)) - odds
            change = step * (_clipped(new, limit) - message[a])
            message[a] += change
            belief[a] += change
    return value


@inner
def _visit_chain(begin, end, toward, single_root, step, limit, belief, message, n_arcs, work):  # type: ignore
    """Renew the messages of one side of a word. Returns its log Z; `step` 0 only sums."""
    odds, forward, backward = work.direction, work.gradient, work.old_gradient
    for place in range(begin, end, toward):
        a = work.out_arc[place]
        odds[a] = belief[a] - message[n_arcs + a]
    total = chain_forward(begin, end, toward, single_root, odds, forward, work)
    chain_backward(begin, end, toward, single_root, odds, backward, work)
    if step == 0.0:
        return total
    for place in range(begin, end, toward):
        a = work.out_arc[place]
        on = forward[a] + backward[a]
        off = log_without(place, begin, end, toward, total, single_root, odds, forward, backward, work)
        change = step * (_clipped(on - off - odds[a], limit) - message[n_arcs + a])
        message[n_arcs + a] += change
        belief[a] += change
    return total


@inner
def _visit_chains(n, n_arcs, single_root, step, limit, base, counts, belief, message, work):  # type: ignore
    """Renew the messages of all sides, or if `step` is 0 write their parts. Returns Σ log Z."""
    odds, forward, backward, value = work.direction, work.gradient, work.old_gradient, 0.0
    for h in range(1 if single_root else 0, n + 1):
        low, middle, high = work.out[h], work.right[h], work.out[h + 1]
        for side in range(2):
            begin, end, toward = (middle - 1, low - 1, -1) if side == 0 else (middle, high, 1)
            total = _visit_chain(begin, end, toward, single_root, step, limit, belief, message, n_arcs, work)
            value += total
            if step == 0.0:
                write_siblings(
                    begin, end, toward, total, single_root, base, odds, forward, backward, counts, work
                )
    return value


@fragment
def _to_one(other, score, gain):  # type: ignore
    """The message of a pair to one arc: log (1 + exp(other + score)) / (1 + exp other). `gain` is exp(score) − 1."""
    if abs(score) < 30.0:
        return math.log1p(gain * _probability(other))
    return _soft_plus(other + score) - _soft_plus(other)


@inner
def _visit_pairs(n_arcs, n_slots, step, limit, belief, work):  # type: ignore
    """Renew the messages of all grandparents: ``inner`` to the lower arc, ``to_inner`` to the upper one."""
    for a in range(n_arcs):
        h, m = work.head[a], work.modifier[a]
        for b in range(work.into[h], work.into[h + 1]):
            if work.head[b] == m:
                continue
            k = a * n_slots + b - work.into[h]
            score, gain = work.grand_score[k], work.grand_weight[k]
            lower, upper = belief[a] - work.inner[k], belief[b] - work.to_inner[k]
            change = step * (_clipped(_to_one(upper, score, gain), limit) - work.inner[k])
            work.inner[k] += change
            belief[a] += change
            change = step * (_clipped(_to_one(lower, score, gain), limit) - work.to_inner[k])
            work.to_inner[k] += change
            belief[b] += change


@inner
def _finish_pairs(n_arcs, n_slots, belief, work):  # type: ignore
    """Σ log Z of all pairs minus log(1 + exp b) for each of their arcs; probabilities in ``to_inner``."""
    value = 0.0
    for a in range(n_arcs):
        h, m = work.head[a], work.modifier[a]
        plus = _soft_plus(belief[a])
        for b in range(work.into[h], work.into[h + 1]):
            if work.head[b] == m:
                continue
            k = a * n_slots + b - work.into[h]
            lower, upper = belief[a] - work.inner[k], belief[b] - work.to_inner[k]
            both = lower + upper + work.grand_score[k]
            top = max(max(lower, upper), max(both, 0.0))
            total = math.exp(lower - top) + math.exp(upper - top) + math.exp(both - top) + math.exp(-top)
            total = top + math.log(total)
            work.to_inner[k] = math.exp(both - total)
            value += total - plus - _soft_plus(belief[b])
    return value


@inner
def loopy_value(specification, n, n_arcs, n_slots, base, counts, work):  # type: ignore
    """Pass messages. Returns Bethe's value, −inf if no tree is possible.

    Fills probabilities of arcs in ``work.marginals`` (those of the tree), of siblings in `counts`, of grandparents in
    ``work.to_inner``.
    """
    message, belief, single_root = work.point, work.old_point, specification.single_root
    limit, forbids = _limit(n, n_arcs, n_slots, work)
    for a in range(n_arcs):
        belief[a], message[a], message[n_arcs + a] = max(work.arc_score[a], -limit), 0.0, 0.0
        if single_root and work.head[a] == 0:
            part = work.sibling_from[a]
            belief[a] += work.sibling_score[part] + work.sibling_score[part + 1]
    for k in range(n_arcs * n_slots):
        work.inner[k], work.to_inner[k] = 0.0, 0.0
        work.grand_weight[k] = math.expm1(min(work.grand_score[k], 30.0))
    step, best = 1.0, np.inf
    for done in range(_MOST_ROUNDS):
        for a in range(n_arcs):
            belief[n_arcs + a] = _probability(belief[a])
        if _visit_tree(specification, n, n_arcs, step, limit, belief, message, work) == -np.inf:
            return -np.inf
        _visit_chains(n, n_arcs, single_root, step, limit, base, counts, belief, message, work)
        _visit_pairs(n_arcs, n_slots, step, limit, belief, work)
        change = 0.0
        for a in range(n_arcs):
            change = max(change, abs(_probability(belief[a]) - belief[n_arcs + a]))
        if change <= _TOLERANCE:
            break
        if (done + 1) % _PATIENCE == 0:
            if change >= best:
                step = max(0.5 * step, _SMALLEST_STEP)
            best = min(best, change)
    value = _visit_tree(specification, n, n_arcs, 0.0, limit, belief, message, work)
    value += _visit_chains(n, n_arcs, single_root, 0.0, limit, base, counts, belief, message, work)
    for a in range(n_arcs):
        if single_root and work.head[a] == 0:
            probability = work.marginals[work.modifier[a] * stride_of(n)]
            counts[base + work.sibling_from[a]] = probability
            counts[base + work.sibling_from[a] + 1] = probability
        else:
            value -= _soft_plus(belief[a])  # in the tree and in a chain; pairs count below
    value += _finish_pairs(n_arcs, n_slots, belief, work)
    return -np.inf if forbids and value < -0.5 * limit else value
