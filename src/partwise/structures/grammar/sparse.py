# mypy: ignore-errors
"""Binary rules of a sparse grammar: sums over splits for each pair of children that a rule has, then over rules.

`dense.py` has the same two functions for a grammar that has a large share of all possible rules.
"""

from __future__ import annotations

from partwise.compiled.dispatch import inner
from partwise.structures.grammar.cells import cell_of
from partwise.structures.grammar.scaling import LEAST_WEIGHT


@inner
def _pair_sums(s, n, i, j, work):  # type: ignore
    """M(B, C; i, j), scaled as the weights of splits are."""
    inside, sums = work.inside, work.pair_sum
    for p in range(s.pair_right.size):
        sums[p] = 0.0
    for m in range(i, j):
        factor = work.split_weight[cell_of(n, i, j) * n + m - i]
        if factor == 0.0:
            continue
        left, right = cell_of(n, i, m) * s.stride, cell_of(n, m + 1, j) * s.stride
        for k in range(s.left_symbol.size):
            amount = inside[left + s.left_symbol[k]] * factor
            if amount != 0.0:
                for p in range(s.left_ptr[k], s.left_ptr[k + 1]):
                    sums[p] += amount * inside[right + s.pair_right[p]]


@inner
def sparse_parents(s, n, i, j, work):  # type: ignore
    """Add Σ w(A → B C) M(B, C; i, j) to ``work.below`` of the cell."""
    at, below = cell_of(n, i, j) * s.stride, work.below
    _pair_sums(s, n, i, j, work)
    for p in range(s.pair_right.size):
        total = work.pair_sum[p]
        if total != 0.0:
            for q in range(s.pair_ptr[p], s.pair_ptr[p + 1]):
                below[at + s.parent[q]] += work.weight[q] * total


@inner
def _split_outside(s, left, right, factor, work):  # type: ignore
    """Derivatives by the children's sums at one split; returns its expected count."""
    inside, outside, count = work.inside, work.outside, 0.0
    for k in range(s.left_symbol.size):
        b = s.left_symbol[k]
        amount = inside[left + b]
        if amount != 0.0:
            total = 0.0
            for p in range(s.left_ptr[k], s.left_ptr[k + 1]):
                total += work.pair_outside[p] * inside[right + s.pair_right[p]]
            total *= factor
            outside[left + b] += total
            count += total * amount
            amount *= factor
            for p in range(s.left_ptr[k], s.left_ptr[k + 1]):
                outside[right + s.pair_right[p]] += amount * work.pair_outside[p]
    return count


@inner
def sparse_children(s, n, i, j, own, counts, split, work):  # type: ignore
    """From derivatives by the parents' sums, ``work.parents[own:]`` by column, to those by the children's.

    Adds to the counts of rules and of splits; returns counts of splits whose weight was raised.
    """
    parents, cell, raised = work.parents, cell_of(n, i, j), 0.0
    is_used = False
    for c in range(s.binary_symbol.size):
        is_used = is_used or parents[own + c] != 0.0
    if not is_used:
        return 0.0
    _pair_sums(s, n, i, j, work)
    for p in range(s.pair_right.size):
        total = 0.0
        for q in range(s.pair_ptr[p], s.pair_ptr[p + 1]):
            total += work.weight[q] * parents[own + s.parent_column[q]]
        work.pair_outside[p] = total
    for p in range(s.pair_right.size):
        total = work.pair_sum[p]
        if total != 0.0:
            for q in range(s.pair_ptr[p], s.pair_ptr[p + 1]):
                work.rule_count[q] += work.weight[q] * parents[own + s.parent_column[q]] * total
    for m in range(i, j):
        factor = work.split_weight[cell * n + m - i]
        if factor != 0.0:
            left, right = cell_of(n, i, m) * s.stride, cell_of(n, m + 1, j) * s.stride
            count = _split_outside(s, left, right, factor, work)
            if s.has_splits:
                counts[split + m - i] = count
            if factor == LEAST_WEIGHT:
                raised += count
    return raised
