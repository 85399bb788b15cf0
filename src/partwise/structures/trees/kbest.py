# mypy: ignore-errors
"""The k best trees of a sentence, for every kind of tree (Lawler 1972).

The set of all labellings but the best is partitioned. In each set, the words before some word m keep the best
labelling's arcs, and m may not. The best labelling of each set is found by the usual algorithm on a table in which
entries are forbidden.
"""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import entry, fragment, inner
from partwise.structures.trees.arc_tables import best_heads, stride_of, tree_workspace
from partwise.structures.trees.inference import read_dense


@inner
def _solve(specification, n, arcs, relations, fixed, n_fixed, banned, work, codes):  # type: ignore
    """The best labelling whose first `n_fixed` words have the codes `fixed` and the next none of `banned`.

    Codes are head · n_relations + relation. Writes `codes` and returns the score, −inf if no labelling is possible.
    """
    size, stride, n_relations = n + 1, stride_of(n), specification.n_relations
    read_dense(n, arcs, np.int64(0), relations, n_relations, True, work)
    for m in range(1, n_fixed + 1):
        for h in range(size):
            if h != fixed[m - 1] // n_relations:
                work.scores[m * stride + h] = -np.inf
    word = n_fixed + 1
    if n_relations == 1:
        for code in banned:
            work.scores[word * stride + code] = -np.inf
    elif banned.size > 0:
        for h in range(size):
            if h != word:
                work.scores[word * stride + h] = _allowed_score(
                    arcs, relations, size, h, word, n_relations, banned
                )
    if best_heads(specification, n, work) == -np.inf:
        return -np.inf
    total = 0.0
    for m in range(1, size):
        code = work.heads[m] * n_relations
        if m <= n_fixed:
            code = fixed[m - 1]
        elif n_relations > 1:
            code += _best_relation(relations, size, work.heads[m], m, n_relations, banned, m == word)
        codes[m - 1] = code
        at = (code // n_relations) * size + m
        total += arcs[at]
        if n_relations > 1:
            total += relations[at * n_relations + code % n_relations]
    return total


@fragment
def _is_in(code, codes):  # type: ignore
    found = False
    for other in codes:
        found = found or other == code
    return found


@inner
def _best_relation(relations, size, h, m, n_relations, banned, restricted):  # type: ignore
    """The best relation of an arc among those whose codes are not banned, or −1."""
    found, top = -1, -np.inf
    for r in range(n_relations):
        score = relations[(h * size + m) * n_relations + r]
        if score > top and not (restricted and _is_in(h * n_relations + r, banned)):
            found, top = r, score
    return found


@fragment
def _allowed_score(arcs, relations, size, h, m, n_relations, banned):  # type: ignore
    relation = _best_relation(relations, size, h, m, n_relations, banned, True)
    if relation < 0:
        return -np.inf
    return arcs[h * size + m] + relations[(h * size + m) * n_relations + relation]


@fragment
def _copy(out, source):  # type: ignore
    for j in range(out.size):
        out[j] = source[j]


@entry(allocates=True)
def best_trees(specification, n, arcs, relations, n_best, codes, values):  # type: ignore
    """Fill `codes` (n_best, n) and `values` (n_best,), best first. Returns their number."""
    work = tree_workspace(specification, n)
    capacity = 1 + n_best * n
    labellings, scores = np.empty((capacity, n), np.int32), np.full(capacity, -np.inf)
    # Each set has a number of fixed words, its best labelling, and the last link of a list of banned codes.
    n_fixed, chain, own = np.zeros(capacity, np.int32), np.full(capacity, -1, np.int32), np.empty(n, np.int64)
    before, code_of = np.empty(capacity, np.int32), np.empty(capacity, np.int32)
    nothing = np.empty(0, np.int64)
    scores[0] = _solve(specification, n, arcs, relations, own, np.int64(0), nothing, work, own)
    _copy(labellings[0], own)
    used, n_chain, fixed = 1, 0, np.empty(n, np.int64)
    for found in range(n_best):
        best = np.argmax(scores[:used])
        value = scores[best]
        if value == -np.inf:
            return found
        values[found] = value
        _copy(fixed, labellings[best])
        _copy(codes[found], fixed)
        scores[best] = -np.inf
        if found + 1 == n_best:
            return n_best
        for word in range(n_fixed[best], n):
            # The list of the set itself continues at its own word. At later words a new list starts.
            before[n_chain] = chain[best] if word == n_fixed[best] else -1
            code_of[n_chain] = fixed[word]
            banned = np.empty(n_chain + 1, np.int64)
            count, link = 0, n_chain
            while link >= 0:
                banned[count] = code_of[link]
                count, link = count + 1, before[link]
            score = _solve(specification, n, arcs, relations, fixed, word, banned[:count], work, own)
            if score > -np.inf:
                # Rounding must not rank a set's best above the labelling that the set was made from.
                scores[used] = min(score, value)
                _copy(labellings[used], own)
                n_fixed[used], chain[used] = word, n_chain
                used += 1
            n_chain += 1
    return n_best
