"""Inference for second-order trees: the methods of `projective.py` and `spanning.py`."""

from __future__ import annotations

from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np

from partwise.compiled.simd import LANES
from partwise.core.arcs import Arcs
from partwise.core.arrays import offsets
from partwise.core.randomness import random_generator
from partwise.errors import InputError
from partwise.structures.checks import (
    checked_count,
    checked_samples,
    checked_scores,
    is_single,
    require_possible,
)
from partwise.structures.contract import Shapes
from partwise.structures.packed import Packed
from partwise.structures.second_order.kbest import best_labellings
from partwise.structures.second_order.parts import SecondOrderMarginals, SecondOrderParts
from partwise.structures.trees.parts import LabelledHeads


class SecondOrderTrees(SecondOrderParts):
    """Inference for trees over the words 1 … n and the root 0 that score pairs of arcs.

    All methods take, for one sentence of n words,

    - `arc_scores` (n + 1, n + 1) by [head, modifier]. −inf prunes an arc. The time depends on the remaining arcs;
    - `sibling_scores` (n + 1, n + 1, n + 1) by [head, inner sibling, modifier]: a score for every modifier of a head
      and the next modifier on the same side, towards the head. [h, h, m] is for the modifier m next to h, [h, m, h] for
      the modifier furthest from h, on either side;
    - `grandparent_scores` (n + 1, n + 1, n + 1) by [grandparent, head, modifier];
    - if `n_relations` R is above 1, `relation_scores` (n + 1, n + 1, R) by [head, modifier, relation].

    For many sentences pass lists of such arrays. Results are then lists, or arrays of numbers. A tree is an array of
    heads (n,). With relations it is a pair ``(heads, relations)`` of such arrays.
    """

    first_order: type  # The structure of the same trees without siblings and grandparents.

    def log_partition(
        self, arc_scores: Any, sibling_scores: Any, grandparent_scores: Any, relation_scores: Any = None
    ) -> Any:
        """log Σ exp(score of a tree): a float, or float64 (n,) for a list. −inf if no tree is possible."""
        return self._pack(arc_scores, sibling_scores, grandparent_scores, relation_scores).log_partition()

    def marginals(
        self, arc_scores: Any, sibling_scores: Any, grandparent_scores: Any, relation_scores: Any = None
    ) -> Any:
        """Probabilities of parts: SecondOrderMarginals, or a list of them."""
        packed = self._pack(arc_scores, sibling_scores, grandparent_scores, relation_scores)
        _, counts = packed.expectations()
        results = [self._dense(packed, i, counts) for i in range(len(packed.lengths))]
        return results[0] if packed.single else results

    def entropy(
        self, arc_scores: Any, sibling_scores: Any, grandparent_scores: Any, relation_scores: Any = None
    ) -> Any:
        """Entropy in nats: a float, or float64 (n,)."""
        return self._pack(arc_scores, sibling_scores, grandparent_scores, relation_scores).entropy()

    def argmax(
        self, arc_scores: Any, sibling_scores: Any, grandparent_scores: Any, relation_scores: Any = None
    ) -> Any:
        """A best tree, or a list of them."""
        packed = self._pack(arc_scores, sibling_scores, grandparent_scores, relation_scores)
        codes = np.split(packed.best(), offsets(packed.lengths)[1:-1]) if len(packed.lengths) else []
        trees = [self.from_codes(own) for own in codes]
        return trees[0] if packed.single else trees

    def loss_augmented_argmax(
        self,
        arc_scores: Any,
        sibling_scores: Any,
        grandparent_scores: Any,
        relation_scores: Any = None,
        y: Any = None,
        cost: float = 1.0,
    ) -> Any:
        """A tree with the largest score plus `cost` for each word whose head or relation differs from `y`."""
        single = is_single(arc_scores)
        if y is None:
            raise InputError("y, the true tree, is missing")
        sentences = self._sentences(arc_scores, sibling_scores, grandparent_scores, relation_scores)
        trees = [y] if single else list(y)
        if len(trees) != len(sentences):
            raise InputError(f"y has {len(trees)} trees for {len(sentences)} sentences")
        for scores, tree in zip(sentences, trees, strict=True):
            self.add_costs(len(scores[0]) - 1, scores[0], scores[3], tree, cost)
        arcs, siblings, grandparents, relations = (list(map(itemgetter(k), sentences)) for k in range(4))
        found = self.argmax(arcs, siblings, grandparents, relations if self.labelled else None)
        return found[0] if single else found

    def kbest(
        self,
        arc_scores: Any,
        sibling_scores: Any,
        grandparent_scores: Any,
        relation_scores: Any = None,
        k: int = 5,
    ) -> Any:
        """The k best trees: a list of (tree, score), best first, or a list of such lists."""
        packed = self._pack(arc_scores, sibling_scores, grandparent_scores, relation_scores)
        results = self.kbest_of(packed, checked_count(k, "k"))
        return results[0] if packed.single else results

    def kbest_of(self, packed: Packed, k: int) -> list[list[tuple[Any, float]]]:
        """The k best trees of each sentence, from scores of candidate parts."""
        results = []
        for i in range(len(packed.lengths)):
            found = best_labellings(only(packed, i), k)
            if not found:
                require_possible(np.where(np.arange(len(packed.lengths)) == i, -np.inf, 0.0), packed.single)
            results.append([(self.from_codes(codes), value) for codes, value in found])
        return results

    def sample(
        self,
        arc_scores: Any,
        sibling_scores: Any,
        grandparent_scores: Any,
        relation_scores: Any = None,
        n_samples: int = 1,
        random_state: Any = None,
    ) -> Any:
        """Trees drawn with probability ∝ exp(score).

        Returns
        -------
        ndarray (n_samples, n) of heads, or a list of n_samples pairs of heads and relations
            Or a list of these.
        """
        from partwise.structures.trees.samples import sample_relations

        n_samples, generator = checked_samples(n_samples), random_generator(random_state)
        scores = self._sentences(arc_scores, sibling_scores, grandparent_scores, relation_scores)
        packed = self._pack(arc_scores, sibling_scores, grandparent_scores, relation_scores)
        results: list[Any] = []
        for i, (_, _, _, relations) in enumerate(scores):
            n = int(packed.lengths[i])
            heads = np.zeros((n_samples, n), np.int64)
            value = self._sample_heads(only(packed, i), heads, generator)
            require_possible(np.where(np.arange(len(scores)) == i, value, 0.0), packed.single)
            if self.labelled:
                labels, uniforms = np.empty_like(heads), generator.random(heads.shape)
                flat = np.append(relations.ravel(), np.zeros(LANES))
                sample_relations(n, flat, self.n_relations, uniforms, heads, labels)
                results.append([LabelledHeads(*pair) for pair in zip(heads, labels, strict=True)])
            else:
                results.append(heads)
        return results[0] if packed.single else results

    def kbest_parts(self, shape: np.ndarray, scores: np.ndarray, k: int) -> list[np.ndarray]:
        shapes = Shapes(np.array([0, len(shape)]), np.asarray(shape, np.int32))
        flat = np.append(scores, np.zeros(LANES))
        packed = Packed(self, self.specification(), shapes, np.array([0, len(scores)]), flat, True)
        return [self.parts_of_trees(codes, shapes).part for codes, _ in best_labellings(packed, k)]

    def log_count(self, length: Any) -> Any:
        """Log of the number of trees, with relations: a float, or float64 (n,) for many lengths."""
        same: Any = self.first_order(single_root=self.single_root, n_relations=self.n_relations)
        return same.log_count(length)

    # Shared by the methods above.

    def _sample_heads(self, packed: Packed, heads: np.ndarray, generator: Any) -> float:
        """Fill `heads` (n_samples, n) of one sentence. Returns −inf if no tree is possible."""
        raise NotImplementedError

    def _sentences(
        self, arc_scores: Any, sibling_scores: Any, grandparent_scores: Any, relation_scores: Any
    ) -> list[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
        """Copies of the scores of each sentence, checked."""
        names = ["arc_scores", "sibling_scores", "grandparent_scores"]
        values = [arc_scores, sibling_scores, grandparent_scores]
        if self.labelled:
            if relation_scores is None:
                raise InputError(f"relation_scores are missing: n_relations is {self.n_relations}")
            names, values = [*names, "relation_scores"], [*values, relation_scores]
        elif relation_scores is not None:
            raise InputError("relation_scores are given, but n_relations is 1")
        single = is_single(arc_scores)
        lists = [[each] if single else list(each) for each in values]
        if len({len(each) for each in lists}) > 1:
            sizes = ", ".join(f"{name} {len(each)}" for name, each in zip(names, lists, strict=True))
            raise InputError(f"numbers of sentences differ: {sizes}")
        result = []
        for i, own in enumerate(zip(*lists, strict=True)):
            size = len(own[0])
            if size < 2:
                raise InputError(f"{names[0]} must have n + 1 rows for n ≥ 1 words, not {size}")
            shapes = [(size,) * 2, (size,) * 3, (size,) * 3, (size, size, self.n_relations)]
            checked = [
                checked_scores(each, name if single else f"{name}[{i}]", shape).copy()
                for each, name, shape in zip(own, names, shapes, strict=False)
            ]
            if not self.labelled:
                checked.append(np.zeros((size, size, 1)))
            result.append((checked[0], checked[1], checked[2], checked[3]))
        return result

    def _pack(
        self, arc_scores: Any, sibling_scores: Any, grandparent_scores: Any, relation_scores: Any
    ) -> Packed:
        sentences = self._sentences(arc_scores, sibling_scores, grandparent_scores, relation_scores)
        found = [_possible_arcs(arcs) for arcs, _, _, _ in sentences]
        arcs = Arcs(
            offsets([len(head) for head, _ in found]),
            np.concatenate([np.zeros(0, np.int32), *(head for head, _ in found)]),
            np.concatenate([np.zeros(0, np.int32), *(modifier for _, modifier in found)]),
        )
        shapes = self.arc_shapes([len(own[0]) - 1 for own in sentences], *arcs)
        part_ptr = offsets(self.n_parts(shapes))
        packed = Packed(
            self,
            self.specification(),
            shapes,
            part_ptr,
            np.zeros(part_ptr[-1] + LANES),
            is_single(arc_scores),
        )
        for i, own in enumerate(sentences):
            for block, array in zip(self._blocks(packed, i), own, strict=True):
                packed.scores[block.parts] = array[block.entries]
        return packed

    def _dense(self, packed: Packed, i: int, counts: np.ndarray) -> SecondOrderMarginals:
        """The counts of one sentence as arrays."""
        size = int(packed.lengths[i]) + 1
        arrays = [np.zeros((size,) * 2), np.zeros((size,) * 3), np.zeros((size,) * 3)]
        arrays.append(np.zeros((size, size, self.n_relations if self.labelled else 0)))
        for block, array in zip(self._blocks(packed, i), arrays, strict=True):
            if array.size:
                array[block.entries] = counts[block.parts]
        return SecondOrderMarginals(*arrays)

    def _blocks(self, packed: Packed, i: int) -> list[_Block]:
        """The arcs, siblings, grandparents and relations of a sentence in flat and in dense arrays."""
        arcs = self.arcs_of(packed.shapes.take(np.array([i])))
        siblings, grandparents = self.triples(arcs)
        first, n_arcs = int(packed.part_ptr[i]), len(arcs.head)
        n_relations = self.n_relations if self.labelled else 0
        sizes = [n_arcs, n_arcs * n_relations, len(siblings.head), len(grandparents.head)]
        starts = first + offsets(sizes)
        arc, relation, sibling, grandparent = (slice(int(starts[k]), int(starts[k + 1])) for k in range(4))
        nobody = siblings.head
        return [
            _Block(arc, (arcs.head, arcs.modifier)),
            _Block(
                sibling,
                (
                    siblings.head,
                    np.where(siblings.first < 0, nobody, siblings.first),
                    np.where(siblings.modifier < 0, nobody, siblings.modifier),
                ),
            ),
            _Block(grandparent, (grandparents.first, grandparents.head, grandparents.modifier)),
            _Block(
                relation,
                (
                    np.repeat(arcs.head, n_relations),
                    np.repeat(arcs.modifier, n_relations),
                    np.tile(np.arange(n_relations), n_arcs),
                ),
            ),
        ]


class _Block(NamedTuple):
    """A range of parts, and their entries in a dense array."""

    parts: slice
    entries: tuple[np.ndarray, ...]


def _possible_arcs(arc_scores: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Heads and modifiers of the allowed arcs, in order of modifier and head."""
    possible = np.isfinite(arc_scores.T)
    possible[0] = False
    np.fill_diagonal(possible, False)
    modifier, head = np.nonzero(possible)
    return head.astype(np.int32), modifier.astype(np.int32)


def only(packed: Packed, i: int) -> Packed:
    """Sentence `i` by itself."""
    first, last = int(packed.part_ptr[i]), int(packed.part_ptr[i + 1])
    return packed._replace(
        shapes=packed.shapes.take(np.array([i])),
        part_ptr=np.array([0, last - first]),
        scores=packed.scores[first : last + LANES].copy(),
        single=True,
    )
