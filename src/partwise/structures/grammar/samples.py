# mypy: ignore-errors
"""Samples of derivations, from the inside charts on logarithms."""

from __future__ import annotations

import math

import numpy as np

from partwise.compiled.dispatch import entry, inner
from partwise.structures.grammar.cells import cell_of, rule_part, span_part, split_part
from partwise.structures.grammar.logs import inside_in_logs


@inner
def _draw_unary(s, n, cell, a, scores, rules, uniform, work):  # type: ignore
    """The unary rule over the symbol `a` of a cell, −1 for none; each with its share of the chart's entry."""
    at, total = cell * s.stride, work.inside[cell * s.stride + a]
    chosen = -2
    if work.below[at + a] > -np.inf:
        chosen = -1
        uniform -= math.exp(work.below[at + a] - total)
    if s.unary_column[a] < 0 or (chosen == -1 and uniform < 0.0):
        return -1
    own = scores[span_part(s, n, work.row_of[cell]) + s.binary_symbol.size + s.unary_column[a]]
    for u in range(s.unary_parent.size):
        if s.unary_parent[u] == a:
            score = scores[rules + s.rule.size + u] + work.below[at + s.unary_child[u]] + own
            if score > -np.inf:
                if chosen > -2 and uniform < 0.0:
                    break
                chosen = u
                uniform -= math.exp(score - total)
    return chosen


@inner
def _draw_binary(s, n, i, j, a, scores, rules, split, uniform, work):  # type: ignore
    """The rule, in the order of pairs, and the split of the symbol `a` over i … j."""
    cell, found, where = cell_of(n, i, j), -1, -1
    total = work.below[cell * s.stride + a] - scores[span_part(s, n, work.row_of[cell]) + s.binary_column[a]]
    for k in range(s.parent_ptr[a], s.parent_ptr[a + 1]):
        q = s.by_parent[k]
        b, c, own = s.pair_left[s.pair_of[q]], s.pair_right[s.pair_of[q]], scores[rules + s.rule[q]]
        if own == -np.inf:
            continue
        for m in range(i, j):
            score = own + work.inside[cell_of(n, i, m) * s.stride + b]
            score += work.inside[cell_of(n, m + 1, j) * s.stride + c]
            if s.has_splits:
                score += scores[split + m - i]
            if score > -np.inf:
                if found >= 0 and uniform < 0.0:
                    return found, where
                found, where = q, m
                uniform -= math.exp(score - total)
    return found, where


@entry
def sample_derivations(s, shape, scores, uniforms, work, nodes, counts):  # type: ignore
    """Fill `nodes` (n_samples, 4n, 3) in preorder and their `counts`; returns −inf if none is possible.

    `uniforms` is (n_samples, 6n). Nodes are opened from the top, each alternative with its share of the chart.
    """
    total = inside_in_logs(s, shape, scores, work)
    if total == -np.inf:
        return total
    n, rules, waiting = np.int64(shape[0]), rule_part(s, shape), work.nodes
    for sample in range(counts.size):
        used, n_waiting, n_nodes = 0, 1, 0
        waiting[0], waiting[1], waiting[2] = 0, n - 1, s.root
        while n_waiting > 0:
            n_waiting -= 1
            i, j, a = waiting[3 * n_waiting], waiting[3 * n_waiting + 1], waiting[3 * n_waiting + 2]
            cell = cell_of(n, i, j)
            u = _draw_unary(s, n, cell, a, scores, rules, uniforms[sample, used], work)
            used += 1
            if u >= 0:
                _write(nodes, sample, n_nodes, i, j, a)
                n_nodes += 1
                a = s.unary_child[u]
            _write(nodes, sample, n_nodes, i, j, a)
            n_nodes += 1
            if i == j:
                continue
            split = split_part(s, shape)
            if s.has_splits:
                for k in range(work.row_of[cell] - n):
                    split += shape[2 * k + 3] - shape[2 * k + 2]
            q, m = _draw_binary(s, n, i, j, a, scores, rules, split, uniforms[sample, used], work)
            used += 1
            # The right one waits for the left one, so that nodes come in preorder.
            waiting[3 * n_waiting], waiting[3 * n_waiting + 1] = m + 1, j
            waiting[3 * n_waiting + 2] = s.pair_right[s.pair_of[q]]
            waiting[3 * n_waiting + 3], waiting[3 * n_waiting + 4] = i, m
            waiting[3 * n_waiting + 5] = s.pair_left[s.pair_of[q]]
            n_waiting += 2
        counts[sample] = n_nodes
    return total


@inner
def _write(nodes, sample, at, i, j, a):  # type: ignore
    nodes[sample, at, 0] = i
    nodes[sample, at, 1] = j
    nodes[sample, at, 2] = a
