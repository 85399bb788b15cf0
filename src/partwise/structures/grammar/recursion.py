# mypy: ignore-errors
"""The recursion of a grammar on scores, over any semiring: to all charts, and back to all derivations or to one.

Charts and formulas are those of ``inside.py``, which is faster and may underflow. ``LOGS`` gives sums for any scores,
expected counts and samples. ``MAXIMA`` gives the best derivation and the charts of the k best (``kbest.py``).

The way back opens nodes from the whole sentence down. :func:`_unary_ways` and :func:`_binary_ways` list the ways to
build a node. Expected counts divide a node's probability among all of them: these shares add up to one however large
the scores are. :func:`trace` chooses one, the best (``BEST``) or a sample (``Drawn``).
"""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import chosen_by_type, entry, inner
from partwise.structures.grammar.anchored import binary_score, children_at, unary_score
from partwise.structures.grammar.cells import (
    cell_of,
    cut_of,
    find_rank,
    find_rows,
    first_anchored,
    first_split,
    n_anchored,
    rank_of,
    rule_part,
    span_part,
    split_part,
)
from partwise.structures.grammar.dense import dense_maxima, fill_score_tensor
from partwise.structures.semirings import (
    BEST,
    LOGS,
    MAXIMA,
    SHARED,
    Drawn,
    Logs,
    Maxima,
    choose,
    plus,
    share,
    times,
)

# -- inside -------------------------------------------------------------------------------------------


@chosen_by_type
def _binary_rules(semiring, s, n, i, j, scores, split, rules, work):
    """Sums over binary rules and splits of one span, without its own scores, in ``work.below``."""


@_binary_rules.register(Logs)
@inner
def _pair_by_pair(semiring, s, n, i, j, scores, split, rules, work):  # type: ignore
    """First over splits, for each pair of children that a rule has; then over rules."""
    sums, inside, zero = work.pair_sum, work.inside, semiring.zero
    for p in range(s.pair_right.size):
        sums[p] = zero
    for m in range(i, j):
        left, right = cell_of(n, i, m) * s.stride, cell_of(n, m + 1, j) * s.stride
        own = scores[split + m - i] if s.has_splits else semiring.one
        for k in range(s.left_symbol.size):
            amount = times(semiring, inside[left + s.left_symbol[k]], own)
            if amount > zero:
                for p in range(s.left_ptr[k], s.left_ptr[k + 1]):
                    both = times(semiring, amount, inside[right + s.pair_right[p]])
                    sums[p] = plus(semiring, sums[p], both)
    at, below = cell_of(n, i, j) * s.stride, work.below
    for p in range(s.pair_right.size):
        amount = sums[p]
        if amount > zero:
            for q in range(s.pair_ptr[p], s.pair_ptr[p + 1]):
                a = at + s.parent[q]
                below[a] = plus(semiring, below[a], times(semiring, scores[rules + s.rule[q]], amount))


@_binary_rules.register(Maxima)
@inner
def _best_rules(semiring, s, n, i, j, scores, split, rules, work):  # type: ignore
    if s.is_dense:
        dense_maxima(s, n, i, j, scores, split, work)
    else:
        _pair_by_pair(semiring, s, n, i, j, scores, split, rules, work)


@inner
def _anchored_rules(semiring, s, n, shape, i, j, scores, split, rules, work):  # type: ignore
    """As :func:`_binary_rules`, over the anchored rules of the span."""
    cell = cell_of(n, i, j)
    row, below = work.row_of[cell], work.below
    for e in range(first_anchored(shape, row), find_rank(shape, row, s.rule.size)):
        left, right = children_at(s, n, shape, e, i, j)
        a = cell * s.stride + s.parent[s.by_parent[rank_of(shape, e)]]
        both = times(semiring, work.inside[left], work.inside[right])
        way = times(semiring, binary_score(s, shape, e, i, scores, split, rules), both)
        below[a] = plus(semiring, below[a], way)


@inner
def _fill_below(semiring, s, n, shape, i, j, scores, split, rules, work):  # type: ignore
    """``work.below`` of a cell: a word's symbols, or those that binary rules build."""
    cell = cell_of(n, i, j)
    at, below = cell * s.stride, work.below
    for a in range(s.stride):
        below[at + a] = semiring.zero
    if i == j:
        for c in range(s.word_symbol.size):
            below[at + s.word_symbol[c]] = scores[i * s.word_symbol.size + c]
        return
    if work.row_of[cell] < 0:
        return
    if s.is_anchored:
        _anchored_rules(semiring, s, n, shape, i, j, scores, split, rules, work)
    else:
        _binary_rules(semiring, s, n, i, j, scores, split, rules, work)
    first = span_part(s, n, work.row_of[cell])
    for c in range(s.binary_symbol.size):
        a = at + s.binary_symbol[c]
        below[a] = times(semiring, below[a], scores[first + c])


@inner
def _fill_top(semiring, s, n, shape, cell, scores, rules, work):  # type: ignore
    """``work.inside`` of a cell from ``work.below``: with at most one unary rule."""
    at, row = cell * s.stride, work.row_of[cell]
    for a in range(s.stride):
        work.inside[at + a] = work.below[at + a]
    if row < 0:
        return
    first = span_part(s, n, row) + s.binary_symbol.size
    if s.is_anchored:
        for e in range(find_rank(shape, row, s.rule.size), first_anchored(shape, row + 1)):
            u = s.unary_by_parent[rank_of(shape, e) - s.rule.size]
            own = unary_score(s, shape, e, scores, rules)
            _add_unary(semiring, s, u, at, own, scores, first, work)
        return
    for u in range(s.unary_parent.size):
        _add_unary(semiring, s, u, at, scores[rules + s.rule.size + u], scores, first, work)


@inner
def _add_unary(semiring, s, u, at, own, scores, first, work):  # type: ignore
    """Add the unary rule `u`, whose score is `own`, to ``work.inside``."""
    a = s.unary_parent[u]
    rule = times(semiring, own, scores[first + s.unary_column[a]])
    way = times(semiring, rule, work.below[at + s.unary_child[u]])
    work.inside[at + a] = plus(semiring, work.inside[at + a], way)


@inner
def inside(semiring, s, shape, scores, work):  # type: ignore
    """Fill the charts ``work.below`` and ``work.inside``; returns the sum over all derivations."""
    n, rules, split = find_rows(s, shape, work), rule_part(s, shape), split_part(s, shape)
    if s.is_dense and n > 1:
        fill_score_tensor(s, scores, rules, work)
    for length in range(1, n + 1):
        for i in range(n - length + 1):
            j = i + length - 1
            cell = cell_of(n, i, j)
            _fill_below(semiring, s, n, shape, i, j, scores, split, rules, work)
            _fill_top(semiring, s, n, shape, cell, scores, rules, work)
            if s.has_splits and work.row_of[cell] >= 0:
                split += j - i
    return work.inside[cell_of(n, 0, n - 1) * s.stride + s.root]


# -- the ways to build a node -------------------------------------------------------------------------


@inner
def _unary_ways(s, n, shape, cell, a, scores, rules, work):  # type: ignore
    """Scores of the symbol `a` without a unary rule, then with each that it has here. Returns their number."""
    at, ways, first, row = cell * s.stride, work.ways, s.unary_ptr[a], work.row_of[cell]
    ways[0] = work.below[at + a]
    count = s.unary_ptr[a + 1] - first
    if count > 0:
        part = span_part(s, n, row) + s.binary_symbol.size + s.unary_column[a]
        if s.is_anchored:
            begin = find_rank(shape, row, s.rule.size + first)
            count = find_rank(shape, row, s.rule.size + first + count) - begin
            for k in range(count):
                u = s.unary_by_parent[rank_of(shape, begin + k) - s.rule.size]
                own = unary_score(s, shape, begin + k, scores, rules) + scores[part]
                ways[1 + k] = own + work.below[at + s.unary_child[u]]
            return 1 + count
        for k in range(count):
            u = s.unary_by_parent[first + k]
            ways[1 + k] = scores[rules + s.rule.size + u] + scores[part] + work.below[at + s.unary_child[u]]
    return 1 + count


@inner
def _unary_way(s, shape, row, a, way):  # type: ignore
    """The unary rule, and the anchored rule, −1 if there are none, of entry `way` > 0 of :func:`_unary_ways`."""
    if s.is_anchored:
        e = find_rank(shape, row, s.rule.size + s.unary_ptr[a]) + way - 1
        return s.unary_by_parent[rank_of(shape, e) - s.rule.size], e
    return s.unary_by_parent[s.unary_ptr[a] + way - 1], -1


@inner
def _binary_ways(s, n, shape, i, j, a, scores, split, rules, work):  # type: ignore
    """Scores of the symbol `a` over i … j by rule in ``by_parent``, then by split. Returns their number.

    Anchored rules that are not listed are left out.
    """
    inside, ways, at = work.inside, work.ways, 0
    if s.is_anchored:
        row = work.row_of[cell_of(n, i, j)]
        begin = find_rank(shape, row, s.parent_ptr[a])
        at = find_rank(shape, row, s.parent_ptr[a + 1]) - begin
        for k in range(at):
            left, right = children_at(s, n, shape, begin + k, i, j)
            both = inside[left] + inside[right]
            ways[k] = binary_score(s, shape, begin + k, i, scores, split, rules) + both
        return at
    for k in range(s.parent_ptr[a], s.parent_ptr[a + 1]):
        q = s.by_parent[k]
        own, p = scores[rules + s.rule[q]], s.pair_of[q]
        left = cell_of(n, i, i) * s.stride + s.pair_left[p]
        right = cell_of(n, i + 1, j) * s.stride + s.pair_right[p]
        for m in range(i, j):
            ways[at] = own + (inside[left] + inside[right])
            if s.has_splits:
                ways[at] += scores[split + m - i]
            at += 1
            left += s.stride  # the cell of i … m + 1
            right += (n - m - 2) * s.stride  # the cell of m + 2 … j
    return at


@inner
def _binary_way(s, shape, row, i, j, a, way):  # type: ignore
    """An entry of :func:`_binary_ways`: the rule, in the order of pairs, the last word of its left child, and the
    anchored rule, −1 if there are none."""
    if s.is_anchored:
        e = find_rank(shape, row, s.parent_ptr[a]) + way
        return s.by_parent[rank_of(shape, e)], cut_of(shape, e), e
    return s.by_parent[s.parent_ptr[a] + way // (j - i)], i + way % (j - i), -1


# -- back to all derivations --------------------------------------------------------------------------


@inner
def _share_unaries(s, n, shape, cell, scores, rules, counts, work):  # type: ignore
    """From probabilities of nodes (``work.outside``) to those below unary rules (``work.sums``)."""
    at, sums, ways, row = cell * s.stride, work.sums, work.ways, work.row_of[cell]
    part, anchored = span_part(s, n, row) + s.binary_symbol.size, rules - n_anchored(s, shape)
    for a in range(s.n_symbols):
        sums[a] = 0.0
    for a in range(s.n_symbols):
        probability = work.outside[at + a]
        if probability == 0.0:
            continue
        count = _unary_ways(s, n, shape, cell, a, scores, rules, work)
        share(SHARED, LOGS, ways, count, 0)
        sums[a] += probability * ways[0]
        for k in range(1, count):
            u, e = _unary_way(s, shape, row, a, k)
            own = probability * ways[k]
            if e >= 0:
                counts[anchored + e] += own
            sums[s.unary_child[u]] += own
            counts[part + s.unary_column[a]] += own
            counts[rules + s.rule.size + u] += own


@inner
def _share_binaries(s, n, shape, i, j, a, probability, scores, split, rules, counts, work):  # type: ignore
    """The probability of one node goes to its rules and to the nodes at each split."""
    n_ways = _binary_ways(s, n, shape, i, j, a, scores, split, rules, work)
    share(SHARED, LOGS, work.ways, n_ways, 0)
    row, outside, anchored = work.row_of[cell_of(n, i, j)], work.outside, rules - n_anchored(s, shape)
    for k in range(n_ways):
        own = probability * work.ways[k]
        if own == 0.0:
            continue
        q, m, e = _binary_way(s, shape, row, i, j, a, k)
        p = s.pair_of[q]
        outside[cell_of(n, i, m) * s.stride + s.pair_left[p]] += own
        outside[cell_of(n, m + 1, j) * s.stride + s.pair_right[p]] += own
        counts[rules + s.rule[q]] += own
        if s.has_splits:
            counts[split + m - i] += own
        if e >= 0:
            counts[anchored + e] += own


@inner
def expectations_in_logs(s, shape, scores, counts, work):  # type: ignore
    """The log-partition of any scores; writes all expected counts."""
    total = inside(LOGS, s, shape, scores, work)
    n, rules = np.int64(shape[0]), rule_part(s, shape)
    split, width = rules - n_anchored(s, shape), s.word_symbol.size
    for k in range(rules + s.rule.size + s.unary_parent.size):
        counts[k] = 0.0
    if total == -np.inf:
        return total
    for k in range(n * (n + 1) // 2 * s.stride):
        work.outside[k] = 0.0
    work.outside[cell_of(n, 0, n - 1) * s.stride + s.root] = 1.0
    for length in range(n, 0, -1):
        for i in range(n - length, -1, -1):
            j = i + length - 1
            cell = cell_of(n, i, j)
            if work.row_of[cell] < 0:
                continue
            if s.has_splits:
                split -= j - i
            _share_unaries(s, n, shape, cell, scores, rules, counts, work)
            first = span_part(s, n, work.row_of[cell])
            for a in range(s.n_symbols):
                probability = work.sums[a]
                if probability > 0.0 and length == 1:
                    counts[i * width + s.word_column[a]] = probability
                elif probability > 0.0:
                    counts[first + s.binary_column[a]] = probability
                    _share_binaries(s, n, shape, i, j, a, probability, scores, split, rules, counts, work)
    return total


# -- back to one derivation ---------------------------------------------------------------------------


@inner
def _write(nodes, at, i, j, a):  # type: ignore
    nodes[3 * at], nodes[3 * at + 1], nodes[3 * at + 2] = i, j, a


@inner
def trace(how, semiring, s, shape, scores, counts, nodes, work):  # type: ignore
    """Add the parts of one derivation to `counts`, and fill `nodes` in preorder. Returns the number of nodes."""
    n, rules, waiting = np.int64(shape[0]), rule_part(s, shape), work.nodes
    n_waiting, n_nodes, used, anchored = 1, 0, 0, rules - n_anchored(s, shape)
    _write(waiting, 0, 0, n - 1, s.root)
    while n_waiting > 0:
        n_waiting -= 1
        i, j, a = waiting[3 * n_waiting], waiting[3 * n_waiting + 1], waiting[3 * n_waiting + 2]
        cell = cell_of(n, i, j)
        row = work.row_of[cell]
        way = choose(how, semiring, work.ways, _unary_ways(s, n, shape, cell, a, scores, rules, work), used)
        used += 1
        if way > 0:
            _write(nodes, n_nodes, i, j, a)
            n_nodes += 1
            u, e = _unary_way(s, shape, row, a, way)
            if e >= 0:
                counts[anchored + e] += 1.0
            counts[span_part(s, n, row) + s.binary_symbol.size + s.unary_column[a]] += 1.0
            counts[rules + s.rule.size + u] += 1.0
            a = s.unary_child[u]
        _write(nodes, n_nodes, i, j, a)
        n_nodes += 1
        if i == j:
            counts[i * s.word_symbol.size + s.word_column[a]] += 1.0
            continue
        split = first_split(s, shape, row)
        count = _binary_ways(s, n, shape, i, j, a, scores, split, rules, work)
        way = choose(how, semiring, work.ways, count, used)
        q, m, e = _binary_way(s, shape, row, i, j, a, way)
        used += 1
        if e >= 0:
            counts[anchored + e] += 1.0
        counts[span_part(s, n, row) + s.binary_column[a]] += 1.0
        counts[rules + s.rule[q]] += 1.0
        if s.has_splits:
            counts[split + m - i] += 1.0
        # The right child waits for the left one, so that nodes come in preorder.
        _write(waiting, n_waiting, m + 1, j, s.pair_right[s.pair_of[q]])
        _write(waiting, n_waiting + 1, i, m, s.pair_left[s.pair_of[q]])
        n_waiting += 2
    return n_nodes


@inner
def grammar_best(s, shape, scores, counts, work):  # type: ignore
    """The best score; writes the part counts of a derivation that has it."""
    top = inside(MAXIMA, s, shape, scores, work)
    for k in range(rule_part(s, shape) + s.rule.size + s.unary_parent.size):
        counts[k] = 0.0
    if top > -np.inf:
        trace(BEST, MAXIMA, s, shape, scores, counts, work.derivation, work)
    return top


@entry
def fill_best_charts(s, shape, scores, work):  # type: ignore
    """The best scores of every symbol over every span in ``work.below`` and ``work.inside``; returns the best."""
    return inside(MAXIMA, s, shape, scores, work)


@entry(allocates=True)
def sample_derivations(s, shape, scores, uniforms, work, nodes, counts):  # type: ignore
    """Fill `nodes` (n_samples, 12n), three numbers each, in preorder, and their `counts`; returns the log-partition.

    `uniforms` is (n_samples, 6n). Without any derivation, the log-partition is −inf and nothing is written.
    """
    total = inside(LOGS, s, shape, scores, work)
    if total > -np.inf:
        parts = np.empty(rule_part(s, shape) + s.rule.size + s.unary_parent.size)
        for sample in range(counts.size):
            how = Drawn(uniforms[sample])
            counts[sample] = trace(how, LOGS, s, shape, scores, parts, nodes[sample], work)
    return total
