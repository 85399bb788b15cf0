"""Second-order trees as solvers see them: arcs left by pruning, and the pairs of them that have a score."""

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
        By [head, inner sibling, modifier]; [h, h, m] is that m is the first modifier of h on its side, [h, m, h]
        that it is the last.
    grandparent : float64 array (n + 1, n + 1, n + 1)
        By [grandparent, head, modifier].
    relation : float64 array (n + 1, n + 1, R)
        By [head, modifier, relation]; R is 0 for trees without relations.
    """

    arc: np.ndarray
    sibling: np.ndarray
    grandparent: np.ndarray
    relation: np.ndarray


class SecondOrderParts(TreeParts):
    """Parts of trees: arcs, their relations if there are several, then siblings and grandparents arc by arc.

    An example's shape is ``[n, siblings, grandparents, head, modifier, head, modifier, …]``: the numbers of its parts
    follow from its arcs (`core/arc_triples.py`), and stand there so that nobody has to count them again.
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
        """An arc, perhaps a relation, a sibling, being the last and a grandparent for every word."""
        return shapes.lengths * (4 + self.labelled)

    def row_choices(self, shapes: Shapes) -> None:
        """Rows of different kinds are alternatives to different rows: no bound is made of that."""
        return None

    def largest_sizes(self, shapes: Shapes) -> tuple[int, int, int, int]:
        """The most words, arcs, slots (arcs into a word, padded) and siblings that an example has."""
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
        below = np.flatnonzero(heads > 0)  # words that have a grandparent
        above = heads[word_ptr[:-1][example[below]] + heads[below] - 1]
        before = self.n_arcs(shapes) * (1 + self.n_relations * self.labelled)
        siblings, grandparents = (_Finder(triples, arcs) for triples in self.triples(arcs))
        found = [
            _Found(block_of(first_order.ptr), first_order.part),
            _Found(example, siblings.places(example, inner, heads, word) + before[example]),
            _Found(
                example[is_last],
                siblings.places(example[is_last], word[is_last], heads[is_last], NOBODY)
                + before[example[is_last]],
            ),
            _Found(
                example[below],
                grandparents.places(example[below], above, heads[below], word[below])
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
        for scores, places in zip((sibling_scores, grandparent_scores), self._dense_places(y), strict=True):
            total += float(np.asarray(scores, float)[places].sum())
        return total

    def indicators(self, y: Any) -> SecondOrderMarginals:
        size = len(self.codes(y)) + 1
        first_order = super().indicators(y)
        arc, relation = first_order if self.labelled else (first_order, np.zeros((size, size, 0)))
        sibling, grandparent = np.zeros((size, size, size)), np.zeros((size, size, size))
        for indicator, places in zip((sibling, grandparent), self._dense_places(y), strict=True):
            indicator[places] = 1.0
        return SecondOrderMarginals(arc, sibling, grandparent, relation)

    def _dense_places(self, y: Any) -> Iterator[tuple[np.ndarray, ...]]:
        """Where the siblings and the grandparents of a tree stand in arrays of three axes."""
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
    """Parts and whose they are."""

    example: np.ndarray
    part: np.ndarray


class _Finder:
    """Finds triples among candidates."""

    def __init__(self, triples: ArcTriples, arcs: Arcs):
        self.base = int(arcs.modifier.max(initial=0)) + 2
        self.ptr = triples.ptr
        self.keys = self._keys(block_of(triples.ptr), triples.first, triples.head, triples.modifier)
        self.order = np.argsort(self.keys)
        self.keys = self.keys[self.order]

    def places(self, example: np.ndarray, first: Any, head: Any, modifier: Any) -> np.ndarray:
        """The number of each triple within its example."""
        wanted = self._keys(example, first, head, modifier)
        at = np.searchsorted(self.keys, wanted)
        return self.order[np.minimum(at, len(self.order) - 1)] - self.ptr[example]

    def _keys(self, example: np.ndarray, first: Any, head: Any, modifier: Any) -> np.ndarray:
        return ((example * self.base + first + 1) * self.base + head) * self.base + modifier + 1
