# mypy: ignore-errors
"""The k best second-order trees of a sentence, by the method of `structures/lawler.py`.

Codes are head · n_relations + relation, one per word. The best tree of a set is the structure's own answer to scores in
which parts are forbidden. It is called by its address, so that one compiled function serves every kind of tree.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.compiled.boundary import Reals, ShortIntegers, address_of, call_address, pack, record_address
from partwise.compiled.dispatch import entry, inner
from partwise.structures.lawler import best_of_set, rank_labellings, write_labelling
from partwise.structures.packed import Packed
from partwise.structures.second_order.tables import N_FACTS


def best_labellings(packed: Packed, k: int) -> list[tuple[np.ndarray, float]]:
    """Codes (n,) and scores of the k best trees of one sentence, best first. Fewer if fewer are possible."""
    from partwise.compiled.background_compile import obtain
    from partwise.compiled.boundary import addresses

    call = addresses([obtain(packed.structure.oracle.task("best"))])
    codes, values = np.empty((k, int(packed.lengths[0])), np.int64), np.empty(k)
    specification, work = pack(packed.specification), pack(room := packed.room())
    found = best_trees(
        call, specification, work, packed.shapes.values, packed.structure.n_relations, packed.scores,
        int(packed.part_ptr[-1]), codes, values,
    )  # fmt: skip
    del room  # held until here
    return [(codes[rank], float(values[rank])) for rank in range(found)]


class _SecondOrderSets(NamedTuple):
    """Sets of the trees of a sentence.

    Attributes
    ----------
    oracle, specification, work : int
        Addresses of the oracle's "best" and of its records.
    open, counts : ndarray (n_parts + slack,)
        Scores in which forbidden parts are −inf, and the answer about them.
    best : ndarray of int32 (sets, n)
        Codes of the best tree of every set.
    """

    oracle: int
    specification: int
    work: int
    shape: ShortIntegers
    n_relations: int
    n_parts: int
    scores: Reals
    open: Reals
    counts: Reals
    best: np.ndarray


@best_of_set.register(_SecondOrderSets)
@inner
def _best_of_trees(trees, labellings, rank, place, banned, value, candidate):  # type: ignore
    for part in range(trees.n_parts):
        trees.open[part] = trees.scores[part]
    _forbid(trees, labellings[rank], place, banned)
    best = call_address(
        trees.oracle,
        (
            trees.specification,
            trees.work,
            address_of(trees.shape, 0),
            trees.shape.size,
            address_of(trees.open, 0),
            address_of(trees.counts, 0),
            trees.n_parts,
            1,
        ),
    )
    if best == -np.inf:
        return best
    return _read(trees, trees.best[candidate])


@inner
def _forbid(trees, fixed, n_fixed, banned):  # type: ignore
    """Words before `n_fixed` keep their codes in `fixed`, and the next word has none of the codes `banned`."""
    shape, n_relations, scores = trees.shape, trees.n_relations, trees.open
    n_arcs = (shape.size - N_FACTS) // 2
    for a in range(n_arcs):
        h, word = shape[N_FACTS + 2 * a], shape[N_FACTS + 1 + 2 * a] - 1
        first = n_arcs + a * n_relations
        if word < n_fixed:
            if h != fixed[word] // n_relations:
                scores[a] = -np.inf
            elif n_relations > 1:
                for r in range(n_relations):
                    if r != fixed[word] % n_relations:
                        scores[first + r] = -np.inf
        elif word == n_fixed:
            for code in banned:
                if h == code // n_relations:
                    scores[first + code % n_relations if n_relations > 1 else a] = -np.inf


@inner
def _read(trees, codes):  # type: ignore
    """Write the codes of the tree that has the parts counted, and return its score."""
    shape, n_relations, counts = trees.shape, trees.n_relations, trees.counts
    n_arcs = (shape.size - N_FACTS) // 2
    total = 0.0
    for part in range(trees.n_parts):
        if counts[part] > 0.5:
            total += trees.scores[part]
    for a in range(n_arcs):
        if counts[a] > 0.5:
            code = shape[N_FACTS + 2 * a] * n_relations
            first = n_arcs + a * n_relations
            if n_relations > 1:
                for r in range(n_relations):
                    if counts[first + r] > 0.5:
                        code += r
            codes[shape[N_FACTS + 1 + 2 * a] - 1] = code
    return total


@write_labelling.register(_SecondOrderSets)
@inner
def _write_tree(trees, labellings, rank, place, candidate):  # type: ignore
    for word in range(place, labellings.shape[1]):
        labellings[rank, word] = trees.best[candidate, word]


@entry(allocates=True)
def best_trees(call, specification, work, shape, n_relations, scores, n_parts, codes, values):  # type: ignore
    """Fill `codes` (k, n) and `values` (k,), best first. Returns their number."""
    k, n = codes.shape
    best = np.empty((1 + (k - 1) * n, n), np.int32)
    trees = _SecondOrderSets(
        call[0], record_address(specification), record_address(work), shape, n_relations, n_parts, scores,
        np.zeros(scores.size), np.zeros(scores.size), best,
    )  # fmt: skip
    return rank_labellings(trees, codes, values)
