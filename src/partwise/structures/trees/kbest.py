# mypy: ignore-errors
"""The k best trees of a sentence, for every kind of tree (Lawler 1972).

Codes are head · n_relations + relation, one per word. The best labelling of a set of ``structures/lawler.py`` is found
by the usual algorithm on a table in which entries are forbidden.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from partwise.compiled.boundary import Reals
from partwise.compiled.dispatch import entry, inner
from partwise.structures.lawler import best_of_set, rank_labellings, write_labelling
from partwise.structures.trees.arc_tables import best_heads, stride_of, tree_workspace
from partwise.structures.trees.inference import read_dense


class _TreeSets(NamedTuple):
    """Sets of the trees of a sentence.

    Attributes
    ----------
    best : ndarray of int32 (sets, n)
        Codes of the best tree of every set.
    """

    specification: Any
    n: int
    arcs: Reals
    relations: Reals
    work: Any
    best: np.ndarray


@best_of_set.register(_TreeSets)
@inner
def _best_of_trees(trees, labellings, rank, place, banned, value, candidate):  # type: ignore
    fixed, best = labellings[rank], trees.best[candidate]
    return _solve(
        trees.specification, trees.n, trees.arcs, trees.relations, fixed, place, banned, trees.work, best
    )


@inner
def _solve(specification, n, arcs, relations, fixed, n_fixed, banned, work, codes):  # type: ignore
    """The best tree whose first `n_fixed` words have the codes `fixed` and the next none of `banned`.

    Writes `codes` and returns the score, −inf if no tree is possible.
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


@inner
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


@inner
def _allowed_score(arcs, relations, size, h, m, n_relations, banned):  # type: ignore
    relation = _best_relation(relations, size, h, m, n_relations, banned, True)
    if relation < 0:
        return -np.inf
    return arcs[h * size + m] + relations[(h * size + m) * n_relations + relation]


@write_labelling.register(_TreeSets)
@inner
def _write_tree(trees, labellings, rank, place, candidate):  # type: ignore
    for word in range(place, trees.n):
        labellings[rank, word] = trees.best[candidate, word]


@entry(allocates=True)
def best_trees(specification, n, arcs, relations, codes, values):  # type: ignore
    """Fill `codes` (k, n) and `values` (k,), best first. Returns their number."""
    best = np.empty((1 + (values.size - 1) * n, n), np.int32)
    work = tree_workspace(specification, n)
    return rank_labellings(_TreeSets(specification, n, arcs, relations, work, best), codes, values)
