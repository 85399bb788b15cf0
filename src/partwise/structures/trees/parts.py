"""Dependency trees for solvers: candidate arcs, the encoding of heads and relations, and costs."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from partwise.core.arcs import Arcs, all_arcs, checked_arcs
from partwise.core.arrays import block_of, locate, offsets, positions, ranges
from partwise.core.tree_checks import find_fault
from partwise.errors import InputError
from partwise.structures.checks import checked_count, checked_scores
from partwise.structures.contract import PartLists, RowKind, Shapes, Structure


class LabelledHeads(NamedTuple):
    """A labelled tree: `heads` (n,), 0 for the root, and `relations` (n,)."""

    heads: np.ndarray
    relations: np.ndarray


class TreeMarginals(NamedTuple):
    """Probabilities of arcs, `arc` (n + 1, n + 1), and of arcs with a relation, `relation` (n + 1, n + 1, R)."""

    arc: np.ndarray
    relation: np.ndarray


class TreeParts(Structure):
    """Parts of trees: one per candidate arc, then `n_relations` per candidate arc if there are several.

    An example's shape is ``[n, head, modifier, head, modifier, …]``, in order of modifier and head. In a flat array of
    labels, the code of a word is its head, or head · n_relations + relation.
    """

    slows_when_sharp = True
    projective = False
    order = 1  # The largest number of arcs that one part scores.
    n_facts = 1  # Numbers of a shape before its arcs. The first is the length.

    def __init__(self, *, single_root: bool = True, n_relations: int = 1):
        self.single_root = bool(single_root)
        self.n_relations = checked_count(n_relations, "n_relations")
        self.kinds = (RowKind("arc", 1), RowKind("relation", self.n_relations))[: 1 + self.labelled]

    def __repr__(self) -> str:
        labelled = f", n_relations={self.n_relations}" if self.labelled else ""
        return f"{type(self).__name__}(single_root={self.single_root}{labelled})"

    @property
    def labelled(self) -> bool:
        return self.n_relations > 1

    # Shapes.

    def table_cells(self, shapes: Shapes) -> float:
        return float((shapes.lengths.astype(np.float64) ** 3).sum())

    def shapes(self, lengths: Any) -> Shapes:
        """Shapes with all arcs: n heads for each of n words."""
        lengths = np.asarray(lengths, np.int64)
        return self._shapes_of(lengths, all_arcs(lengths))

    def arc_shapes(self, lengths: Any, arc_ptr: Any, head: Any, modifier: Any) -> Shapes:
        """Shapes with the candidate arcs that remain after pruning.

        Parameters
        ----------
        lengths : array_like of int (n,)
        arc_ptr : array_like of int (n + 1,)
            First arc of each example.
        head, modifier : array_like of int (arc_ptr[n],)
            In order of modifier and head within each example. Head 0 is the root.
        """
        lengths = np.asarray(lengths, np.int64)
        arcs = checked_arcs(lengths, Arcs(arc_ptr, head, modifier))
        keys = _keys(arcs.sentence, arcs.modifier, arcs.head, lengths)
        unordered = np.diff(keys) <= 0
        if unordered.any():
            example = arcs.sentence[int(unordered.argmax())]
            raise InputError(f"arcs: those of example {example} are not in order of modifier and head")
        return self._shapes_of(lengths, arcs)

    def _shapes_of(self, lengths: np.ndarray, arcs: Arcs) -> Shapes:
        """Shapes of arcs for compiled code."""
        ptr = offsets(self.n_facts + 2 * np.diff(arcs.arc_ptr))
        values = np.empty(ptr[-1], np.int32)
        values[ptr[:-1, None] + np.arange(self.n_facts)] = self._facts(lengths, arcs)
        values[self._is_arc(ptr)] = np.stack([arcs.head, arcs.modifier], axis=1).ravel()
        return Shapes(ptr, values)

    def _facts(self, lengths: np.ndarray, arcs: Arcs) -> np.ndarray:
        """The numbers before the arcs of each shape, (n, n_facts)."""
        return lengths[:, None]

    def _is_arc(self, ptr: np.ndarray) -> np.ndarray:
        """Whether each number of the shapes belongs to an arc."""
        is_arc = np.ones(ptr[-1], bool)
        is_arc[ptr[:-1, None] + np.arange(self.n_facts)] = False
        return is_arc

    def arcs_of(self, shapes: Shapes) -> Arcs:
        """The candidate arcs of all examples."""
        pairs = shapes.values[self._is_arc(shapes.ptr)].reshape(-1, 2)
        return Arcs(offsets(self.n_arcs(shapes)), pairs[:, 0], pairs[:, 1])

    def n_arcs(self, shapes: Shapes) -> np.ndarray:
        """Candidate arcs of each example, int64 (n,)."""
        return (np.diff(shapes.ptr) - self.n_facts) // 2

    def row_counts(self, shapes: Shapes) -> tuple[np.ndarray, ...]:
        return (self.n_arcs(shapes),) * len(self.kinds)

    def most_parts(self, shapes: Shapes) -> np.ndarray:
        return shapes.lengths * len(self.kinds)

    def row_choices(self, shapes: Shapes) -> np.ndarray | None:
        """The modifier of each arc, counted over the corpus."""
        arcs = self.arcs_of(shapes)
        return offsets(shapes.lengths)[:-1][arcs.sentence] + arcs.modifier - 1

    def _arc_of_words(self, labels: np.ndarray, shapes: Shapes) -> tuple[np.ndarray, np.ndarray]:
        """For each word, the number of the arc from its head within the corpus, and whether the arc is a candidate."""
        lengths, arcs = shapes.lengths, self.arcs_of(shapes)
        example, head = block_of(offsets(lengths)), labels // self.n_relations
        known = _keys(arcs.sentence, arcs.modifier, arcs.head, lengths)
        wanted = _keys(example, positions(lengths) + 1, head, lengths)
        at = np.searchsorted(known, wanted)
        return at, np.append(known, -1)[at] == wanted

    # Labels.

    def check_gold(self, labels: np.ndarray, shapes: Shapes) -> None:
        """Raise :class:`InputError` at the first word whose head is impossible, by itself or with other heads."""
        labels, lengths = np.asarray(labels, np.int64), shapes.lengths
        if len(labels) != lengths.sum():
            raise InputError(f"labels has {len(labels)} entries, but lengths add up to {lengths.sum()}")
        if lengths.size and lengths.min() < 1:
            raise InputError(f"lengths: example {int(lengths.argmin())} has no positions")
        heads = labels // self.n_relations
        fault = find_fault(heads, offsets(lengths), single_root=self.single_root, projective=self.projective)
        if fault is not None:
            example, position = locate(fault.word, lengths)
            raise InputError(
                f"labels: example {example}, position {position}: word {position + 1} {fault.what}"
            )

    def encode_all(self, labels: Any, shapes: Shapes) -> PartLists:
        """Arc parts of an example in order of position, then its relation parts."""
        self.check_gold(labels, shapes)
        return self.parts_of_trees(labels, shapes)

    def parts_of_trees(self, labels: Any, shapes: Shapes) -> PartLists:
        """As :meth:`encode_all`, for labels that are known to be trees. Their arcs must be candidates."""
        labels, lengths = np.asarray(labels, np.int64), shapes.lengths
        n_arcs = self.n_arcs(shapes)
        arc, is_candidate = self._arc_of_words(labels, shapes)
        if not is_candidate.all():
            word = int((~is_candidate).argmax())
            example, position = locate(word, lengths)
            raise InputError(
                f"labels: example {example}, position {position}: the arc {labels[word] // self.n_relations} → "
                f"{position + 1} is not among the example's candidate arcs (pruning removed it)"
            )
        own_arc = arc - np.repeat(offsets(n_arcs)[:-1], lengths)
        if not self.labelled:
            return PartLists(offsets(lengths), own_arc)
        gold_ptr = offsets(2 * lengths)
        at = ranges(gold_ptr[:-1], lengths)
        parts = np.empty(gold_ptr[-1], np.int64)
        parts[at] = own_arc
        first = np.repeat(n_arcs, lengths)
        parts[at + np.repeat(lengths, lengths)] = (
            first + own_arc * self.n_relations + labels % self.n_relations
        )
        return PartLists(gold_ptr, parts)

    def decode_all(self, found: PartLists, shapes: Shapes) -> np.ndarray:
        """Codes of all words. Parts are one arc for each word, then the arcs' relations."""
        lengths, arcs, n_arcs = shapes.lengths, self.arcs_of(shapes), self.n_arcs(shapes)
        at = ranges(found.ptr[:-1], lengths)
        codes = arcs.head[found.part[at] + np.repeat(arcs.arc_ptr[:-1], lengths)].astype(np.int64)
        codes *= self.n_relations
        if self.labelled:
            codes += (
                found.part[at + np.repeat(lengths, lengths)] - np.repeat(n_arcs, lengths)
            ) % self.n_relations
        return codes

    def codes(self, y: Any) -> np.ndarray:
        """The flat labels (n,) of one labelling: heads, or heads · n_relations + relations."""
        if not self.labelled:
            return _checked_heads(y, "y")
        if len(y) != 2 or np.ndim(y[0]) != 1:
            raise InputError("y must be a pair of heads and relations if n_relations is above 1")
        heads, relations = _checked_heads(y[0], "y[0]"), np.asarray(y[1], np.int64)
        if relations.shape != heads.shape or (relations.size and relations.min() < 0):
            raise InputError(f"y has {len(heads)} heads and relations of shape {relations.shape}")
        if relations.size and relations.max() >= self.n_relations:
            raise InputError(f"y holds relation {relations.max()}; they run from 0 to {self.n_relations - 1}")
        return heads * self.n_relations + relations

    def from_codes(self, codes: np.ndarray) -> Any:
        """The labelling of flat labels (n,)."""
        if not self.labelled:
            return codes
        return LabelledHeads(codes // self.n_relations, codes % self.n_relations)

    def encode(self, y: Any) -> np.ndarray:
        """Part numbers of one labelling among all arcs: n arcs, then n relations."""
        labels = self.codes(y)
        return self.encode_all(labels, self.shapes([len(labels)])).part

    def decode(self, parts: ArrayLike) -> Any:
        """The labelling of part numbers from :meth:`encode`."""
        array = np.asarray(parts, np.int64)
        n = len(array) // (2 if self.labelled else 1)
        head = array[:n] - np.arange(n) * n
        if len(array) % max(n, 1) or np.any((head < 0) | (head >= n)):
            raise InputError("parts must begin with one arc part for each word, in order")
        codes = (head + (head > np.arange(n))) * self.n_relations
        if self.labelled:
            codes += (array[n:] - n * n) % self.n_relations
        return self.from_codes(codes)

    # Costs.

    def checked_cost(self, cost: Any) -> str:
        """The cost by name. "heads" (or "hamming"): wrong heads. "labelled": words with a wrong head or relation."""
        names = ("hamming", "heads", "labelled") if self.labelled else ("hamming", "heads")
        if not isinstance(cost, str) or cost not in names:
            raise InputError(f"cost must be one of {', '.join(map(repr, names))} for {self!r}, not {cost!r}")
        return cost

    def part_costs(self, labels: np.ndarray, shapes: Shapes, cost: Any) -> np.ndarray:
        """1 for arcs from wrong heads. If `cost` is "labelled", also 1 for the true head with a wrong relation."""
        labels, arcs = np.asarray(labels, np.int64), self.arcs_of(shapes)
        part_ptr, first_arc, n_arcs = offsets(self.n_parts(shapes)), arcs.arc_ptr[:-1], self.n_arcs(shapes)
        true_arc = self._arc_of_words(labels, shapes)[0]
        arc_part = np.arange(len(arcs.head)) + np.repeat(part_ptr[:-1] - first_arc, n_arcs)
        result = np.zeros(int(part_ptr[-1]), np.float32)
        result[arc_part] = 1.0
        result[arc_part[true_arc]] = 0.0
        if cost == "labelled":
            example = block_of(offsets(shapes.lengths))
            within = true_arc - first_arc[example]
            first = part_ptr[:-1][example] + n_arcs[example] + within * self.n_relations
            result[first[:, None] + np.arange(self.n_relations)] = 1.0
            result[first + labels % self.n_relations] = 0.0
        return result

    def add_costs(self, n: int, arcs: np.ndarray, relations: np.ndarray, y: Any, cost: Any) -> None:
        """Add the cost of every arc, and of wrong relations of true arcs, in place."""
        codes = self.codes(y)
        if len(codes) != n:
            raise InputError(f"y has {len(codes)} heads for {n} words")
        heads, words = codes // self.n_relations, np.arange(1, n + 1)
        if np.ndim(cost):
            arcs += checked_scores(cost, "cost", (n + 1, n + 1))
            return
        number = float(checked_scores(cost, "cost", ()))
        kept = arcs[heads, words].copy()
        arcs += number
        arcs[heads, words] = kept
        if self.labelled:
            true = relations[heads, words, codes % self.n_relations].copy()
            relations[heads, words] += number
            relations[heads, words, codes % self.n_relations] = true

    # Enumeration.

    def labellings(self, length: int) -> Iterator[Any]:
        """Every tree, with every assignment of relations."""
        relations = np.indices((self.n_relations,) * length).reshape(length, -1).T
        for heads in _all_trees(length, self.single_root, self.projective):
            if not self.labelled:
                yield heads
            else:
                for assignment in relations:
                    yield LabelledHeads(heads, assignment)

    def score(self, y: Any, arc_scores: ArrayLike, relation_scores: ArrayLike | None = None) -> float:
        """Score of one labelling, summed arc by arc."""
        codes, arcs = self.codes(y), np.asarray(arc_scores, float)
        total = 0.0
        for m, code in enumerate(codes.tolist(), start=1):
            total += arcs[code // self.n_relations, m]
            if self.labelled:
                total += np.asarray(relation_scores, float)[
                    code // self.n_relations, m, code % self.n_relations
                ]
        return float(total)

    def indicators(self, y: Any) -> Any:
        codes = self.codes(y)
        size, words = len(codes) + 1, np.arange(1, len(codes) + 1)
        arc, relation = np.zeros((size, size)), np.zeros((size, size, self.n_relations))
        arc[codes // self.n_relations, words] = 1.0
        relation[codes // self.n_relations, words, codes % self.n_relations] = 1.0
        return TreeMarginals(arc, relation) if self.labelled else arc


def _checked_heads(y: Any, name: str) -> np.ndarray:
    heads = np.asarray(y)
    if heads.ndim != 1 or (heads.size and heads.dtype.kind not in "iu"):
        raise InputError(f"{name} must be a sequence of integer heads, 0 for the root")
    if heads.size and (heads.min() < 0 or heads.max() > len(heads)):
        raise InputError(f"{name} holds head {heads.max()}; heads run from 0 (the root) to {len(heads)}")
    return heads.astype(np.int64)


def _keys(example: np.ndarray, modifier: np.ndarray, head: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Keys that sort arcs by example, modifier and head, int64 (n_arcs,)."""
    base = int(lengths.max(initial=0)) + 1
    return (example * base + modifier) * base + head


@lru_cache(maxsize=32)
def _all_trees(n: int, single_root: bool, projective: bool) -> np.ndarray:
    """All trees of n words, (n_trees, n), by checking all choices of heads."""
    choices = np.indices((n,) * n).reshape(n, -1).T
    heads = choices + (choices > np.arange(n))
    nodes = np.hstack([np.zeros((len(heads), 1), np.int64), heads])
    above = nodes
    for _ in range(n):
        above = np.take_along_axis(nodes, above, axis=1)
    keep = (above == 0).all(axis=1)
    if single_root:
        keep &= (heads == 0).sum(axis=1) == 1
    heads = heads[keep]
    if projective:
        words = np.arange(1, n + 1)
        low, high = np.minimum(heads, words), np.maximum(heads, words)
        left, right = low[:, :, None], high[:, :, None]
        inside = (left < low[:, None]) & (low[:, None] < right) & (right < high[:, None])
        heads = heads[~inside.any(axis=(1, 2))]
    return heads
