# mypy: ignore-errors
"""Sums over a list of anchored rules ⟨A → B C, i, m, j⟩, each with its own score (Bartlett et al. 2004, example 2).

Sums over splits cannot be shared by the rules of a pair of children as in `sparse.py`. Time is proportional to the
length of the list. The weights of a cell's rules are divided by the largest, and kept for the outside pass.
"""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import inner
from partwise.structures.grammar.cells import (
    cell_of,
    cut_of,
    find_rank,
    first_anchored,
    n_anchored,
    rank_of,
)
from partwise.structures.grammar.scaling import LEAST_WEIGHT, weight_of


@inner
def binary_score(s, shape, e, i, scores, split, rules):  # type: ignore
    """The score of a binary anchored rule: its own, its rule's, and its split's."""
    own = scores[rules - n_anchored(s, shape) + e] + scores[rules + s.rule[s.by_parent[rank_of(shape, e)]]]
    return own + (scores[split + cut_of(shape, e) - i] if s.has_splits else 0.0)


@inner
def unary_score(s, shape, e, scores, rules):  # type: ignore
    """The score of a unary anchored rule: its own and its rule's, without the symbol's that it builds."""
    u = s.unary_by_parent[rank_of(shape, e) - s.rule.size]
    return scores[rules - n_anchored(s, shape) + e] + scores[rules + s.rule.size + u]


@inner
def children_at(s, n, shape, e, i, j):  # type: ignore
    """Where the left and the right child of a binary anchored rule over i … j stand in charts."""
    p, m = s.pair_of[s.by_parent[rank_of(shape, e)]], cut_of(shape, e)
    left = cell_of(n, i, m) * s.stride + s.pair_left[p]
    return left, cell_of(n, m + 1, j) * s.stride + s.pair_right[p]


@inner
def _scale_weights(first, last, top, work):  # type: ignore
    """From scores in ``work.anchored_weight`` to weights of at most one."""
    weight = work.anchored_weight
    for e in range(first, last):
        score = weight[e]
        weight[e] = weight_of(score - top, LEAST_WEIGHT, work.state) if score > -np.inf else 0.0


@inner
def anchored_parents(s, n, shape, i, j, scores, split, rules, work):  # type: ignore
    """The sums of binary rules over one span in ``work.below``. Returns the logarithm taken out."""
    cell = cell_of(n, i, j)
    row, weight, inside, top = work.row_of[cell], work.anchored_weight, work.inside, -np.inf
    first, last = first_anchored(shape, row), find_rank(shape, row, s.rule.size)
    for e in range(first, last):
        m = cut_of(shape, e)
        below = work.scale[cell_of(n, i, m)] + work.scale[cell_of(n, m + 1, j)]
        weight[e] = binary_score(s, shape, e, i, scores, split, rules) + below
        top = max(top, weight[e])
    _scale_weights(first, last, top, work)
    for e in range(first, last):
        if weight[e] != 0.0:
            left, right = children_at(s, n, shape, e, i, j)
            parent = s.parent[s.by_parent[rank_of(shape, e)]]
            work.below[cell * s.stride + parent] += weight[e] * inside[left] * inside[right]
    return top


@inner
def anchored_children(s, n, shape, i, j, own, counts, split, rules, work):  # type: ignore
    """From derivatives by the parents' sums, ``work.parents[own:]`` by column, to those by the children's.

    Writes counts of anchored rules, adds to those of rules and splits, and returns those of rules whose weight was
    raised.
    """
    row, inside, outside, raised = work.row_of[cell_of(n, i, j)], work.inside, work.outside, 0.0
    if row < 0:
        return raised
    anchored = rules - n_anchored(s, shape)
    for e in range(first_anchored(shape, row), find_rank(shape, row, s.rule.size)):
        q = s.by_parent[rank_of(shape, e)]
        amount = work.anchored_weight[e] * work.parents[own + s.parent_column[q]]
        if amount == 0.0:
            continue
        left, right = children_at(s, n, shape, e, i, j)
        count = amount * inside[left] * inside[right]
        outside[left] += amount * inside[right]
        outside[right] += amount * inside[left]
        counts[anchored + e] = count
        work.rule_count[q] += count
        if s.has_splits:
            counts[split + cut_of(shape, e) - i] += count
        if work.anchored_weight[e] == LEAST_WEIGHT:
            raised += count
    return raised


@inner
def anchored_unary_top(s, shape, cell, scores, rules, work):  # type: ignore
    """Weights of the unary rules of a span; returns and keeps the logarithm taken out, −inf if it has none."""
    row, top = work.row_of[cell], -np.inf
    if row >= 0:
        first, last = find_rank(shape, row, s.rule.size), first_anchored(shape, row + 1)
        for e in range(first, last):
            work.anchored_weight[e] = unary_score(s, shape, e, scores, rules)
            top = max(top, work.anchored_weight[e])
        _scale_weights(first, last, top, work)
    work.unary_top[cell] = top
    return top


@inner
def anchored_unary_sums(s, shape, cell, work):  # type: ignore
    """Add Σ w(A → B) b(B) to ``work.sums``."""
    row = work.row_of[cell]
    for e in range(find_rank(shape, row, s.rule.size), first_anchored(shape, row + 1)):
        u = s.unary_by_parent[rank_of(shape, e) - s.rule.size]
        below = work.below[cell * s.stride + s.unary_child[u]]
        work.sums[s.unary_parent[u]] += work.anchored_weight[e] * below


@inner
def anchored_unary_outside(s, shape, cell, counts, rules, work):  # type: ignore
    """From derivatives by unary sums, ``work.shares``, to those by b; sums of counts by symbol in ``work.sums``.

    Writes counts of anchored rules; returns those of rules whose weight was raised.
    """
    row, at, raised, anchored = work.row_of[cell], cell * s.stride, 0.0, rules - n_anchored(s, shape)
    for e in range(find_rank(shape, row, s.rule.size), first_anchored(shape, row + 1)):
        u = s.unary_by_parent[rank_of(shape, e) - s.rule.size]
        a, b = s.unary_parent[u], s.unary_child[u]
        amount = work.shares[a] * work.anchored_weight[e]
        if amount != 0.0:
            count = amount * work.below[at + b]
            work.outside[at + b] += amount
            work.rule_count[s.rule.size + u] += count
            work.sums[a] += count
            counts[anchored + e] = count
            raised += count if work.anchored_weight[e] == LEAST_WEIGHT else 0.0
    return raised
