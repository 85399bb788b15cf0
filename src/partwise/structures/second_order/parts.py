"""Second-order trees for solvers: candidate arcs, the pairs of arcs that have a score, and their encoding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from partwise.compiled.simd import padded
from partwise.core.arc_triples import (
    NOBODY,
    ArcTriples,
    grandparent_triples,
    sibling_triples,
    siblings_of_trees,
)
from partwise.core.arcs import Arcs
from partwise.core.arrays import block_of, offsets, positions
from partwise.errors import InputError
from partwise.structures.contract import PartLists, RowKind, Shapes
from partwise.structures.trees.parts import TreeParts


class SecondOrderMarginals(NamedTuple):
    """Probabilities of the parts of a sentence of n words.

    Attributes
    ----------
    arc : float64 array (n + 1, n + 1)
        By [head, modifier].
    sibling : float64 array (n + 1, n + 1, n + 1)
        By [head, inner sibling, modifier]. [h, h, m] means that m is the first modifier of h on its side, [h, m, h]
        that m is the last.
    grandparent : float64 array (n + 1, n + 1, n + 1)
        By [grandparent, head, modifier].
    relation : float64 array (n + 1, n + 1, R)
        By [head, modifier, relation]. R is 0 for trees without relations.
    """

    arc: np.ndarray
    sibling: np.ndarray
    grandparent: np.ndarray
    relation: np.ndarray


class SecondOrderParts(TreeParts):
    """Parts of trees: arcs, their relations if there are several, then siblings and grandparents arc by arc.

    An example's shape is ``[n, siblings, grandparents, head, modifier, head, modifier, …]``. The numbers of siblings
    and grandparents follow from the arcs (`core/arc_triples.py`), and are stored so that they are counted only once.
    """

    order = 2
    n_facts = 3

    def __init__(self, *, single_root: bool = True, n_relations: int = 1):
        super().__init__(single_root=single_root, n_relations=n_relations)
        self.kinds = (*self.kinds, RowKind("sibling", 1), RowKind("grandparent", 1))

    def _facts(self, lengths: np.ndarray, arcs: Arcs) -> np.ndarray:
        numbers = (np.diff(triples.ptr) for triples in self.triples(arcs))
        return np.column_stack([lengths, *numbers])

    def triples(self, arcs: Arcs) -> tuple[ArcTriples, ArcTriples]:
        """Candidate siblings and grandparents, in the order of their parts."""
        return sibling_triples(arcs, self.single_root), grandparent_triples(arcs, self.projective)

    def row_counts(self, shapes: Shapes) -> tuple[np.ndarray, ...]:
        siblings, grandparents = (shapes.values[shapes.ptr[:-1] + k].astype(np.int64) for k in (1, 2))
        return (*super().row_counts(shapes)[: 1 + self.labelled], siblings, grandparents)

    def most_parts(self, shapes: Shapes) -> np.ndarray:
        """An arc, a relation, a sibling, the end of a side, and a grandparent for every word."""
        return shapes.lengths * (4 + self.labelled)

    def row_choices(self, shapes: Shapes) -> None:
        """None: rows of different kinds have different alternatives, which gives no bound."""
        return None

    def largest_sizes(self, shapes: Shapes) -> tuple[int, int, int, int]:
        """The largest numbers of words, arcs, slots (arcs into a word, padded) and siblings of an example."""
        arcs, base = self.arcs_of(shapes), int(shapes.lengths.max(initial=1)) + 1
        into = np.bincount(arcs.sentence * base + arcs.modifier).max(initial=1)
        siblings = self.row_counts(shapes)[-2].max(initial=0)
        return base - 1, int(self.n_arcs(shapes).max(initial=0)), padded(int(into)), int(siblings)

    # Labels.

    def parts_of_trees(self, labels: Any, shapes: Shapes) -> PartLists:
        first_order = super().parts_of_trees(labels, shapes)
        lengths, counts = shapes.lengths, self.row_counts(shapes)
        arcs, word_ptr = self.arcs_of(shapes), offsets(lengths)
        example, heads = block_of(word_ptr), np.asarray(labels, np.int64) // self.n_relations
        word = positions(lengths) + 1
        inner, is_last = siblings_of_trees(heads, word_ptr)
        below = np.flatnonzero(heads > 0)  # words with a grandparent
        above = heads[word_ptr[:-1][example[below]] + heads[below] - 1]
        before = self.n_arcs(shapes) * (1 + self.n_relations * self.labelled)
        siblings, grandparents = (_Finder(triples, arcs) for triples in self.triples(arcs))
        found = [
            _Found(block_of(first_order.ptr), first_order.part),
            _Found(example, siblings.numbers(example, inner, heads, word) + before[example]),
            _Found(
                example[is_last],
                siblings.numbers(example[is_last], word[is_last], heads[is_last], NOBODY)
                + before[example[is_last]],
            ),
            _Found(
                example[below],
                grandparents.numbers(example[below], above, heads[below], word[below])
                + (before + counts[-2])[example[below]],
            ),
        ]
        owner, part = np.concatenate([f.example for f in found]), np.concatenate([f.part for f in found])
        order = np.argsort(owner, kind="stable")
        return PartLists(offsets(np.bincount(owner, minlength=len(lengths))), part[order])

    def decode(self, parts: Any, length: int | None = None) -> Any:
        """The labelling of `length` words from the part numbers that :meth:`encode` gives."""
        if length is None:
            raise InputError("length must be given: parts of second-order trees do not tell it")
        array = np.asarray(parts, np.int64)[: length * (1 + self.labelled)]
        return super().decode(array)

    # Enumeration.

    def score(  # type: ignore[override]
        self,
        y: Any,
        arc_scores: Any,
        sibling_scores: Any,
        grandparent_scores: Any,
        relation_scores: Any = None,
    ) -> float:
        """Score of one labelling, summed part by part."""
        total = super().score(y, arc_scores, relation_scores)
        for scores, entries in zip((sibling_scores, grandparent_scores), self._dense_entries(y), strict=True):
            total += float(np.asarray(scores, float)[entries].sum())
        return total

    def indicators(self, y: Any) -> SecondOrderMarginals:
        size = len(self.codes(y)) + 1
        first_order = super().indicators(y)
        arc, relation = first_order if self.labelled else (first_order, np.zeros((size, size, 0)))
        sibling, grandparent = np.zeros((size, size, size)), np.zeros((size, size, size))
        for indicator, entries in zip((sibling, grandparent), self._dense_entries(y), strict=True):
            indicator[entries] = 1.0
        return SecondOrderMarginals(arc, sibling, grandparent, relation)

    def _dense_entries(self, y: Any) -> Iterator[tuple[np.ndarray, ...]]:
        """Entries of the siblings and of the grandparents of a tree in arrays of three axes."""
        heads = self.codes(y) // self.n_relations
        head = [0, *heads.tolist()]
        siblings, grandparents = [], []
        for h in range(len(head)):
            below = [m for m in range(1, len(head)) if head[m] == h]
            for side in ([m for m in reversed(below) if m < h], [m for m in below if m > h]):
                siblings += [(h, s, m) for s, m in zip([h, *side], [*side, h], strict=True) if side]
            if h > 0:
                grandparents += [(head[h], h, m) for m in below]
        for triples in (siblings, grandparents):
            yield tuple(np.array(triples, np.int64).reshape(-1, 3).T)


class _Found(NamedTuple):
    """Parts, and the example of each."""

    example: np.ndarray
    part: np.ndarray


class _Finder:
    """Finds the part numbers of triples among candidates."""

    def __init__(self, triples: ArcTriples, arcs: Arcs):
        self.base = int(arcs.modifier.max(initial=0)) + 2
        self.ptr = triples.ptr
        self.keys = self._keys(block_of(triples.ptr), triples.first, triples.head, triples.modifier)
        self.order = np.argsort(self.keys)
        self.keys = self.keys[self.order]

    def numbers(self, example: np.ndarray, first: Any, head: Any, modifier: Any) -> np.ndarray:
        """The number of each triple within its example."""
        wanted = self._keys(example, first, head, modifier)
        at = np.searchsorted(self.keys, wanted)
        return self.order[np.minimum(at, len(self.order) - 1)] - self.ptr[example]

    def _keys(self, example: np.ndarray, first: Any, head: Any, modifier: Any) -> np.ndarray:
        return ((example * self.base + first + 1) * self.base + head) * self.base + modifier + 1
