"""Selections: which items of a sequence are taken, any number of them.

An example of n items has these parts, in this order:

- n parts of kind "item", one row each: used where the item is selected;
- n − 1 parts of kind "pair", one row for each pair of neighbours: used where both are selected;
- one part of kind "selected", tied: used once for every selected item.

A labelling uses as many parts as its selection needs, and the empty selection uses none.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product
from typing import Any, NamedTuple

import numpy as np

from partwise.compiled.boundary import Reals
from partwise.compiled.dispatch import inner
from partwise.compiled.oracles import Oracle
from partwise.compiled.simd import LANES
from partwise.core.arrays import offsets, positions
from partwise.errors import InputError
from partwise.structures.checks import checked_count, checked_labels, checked_scores
from partwise.structures.contract import PartLists, PositionLabels, RowKind, Shapes
from partwise.structures.packed import Packed
from partwise.structures.semirings import LOGS, MAXIMA, plus, times

# -- compiled -----------------------------------------------------------------------------------------


class SelectionSpecification(NamedTuple):
    """All that an example needs to know is its own length."""


class SelectionWorkspace(NamedTuple):
    """Sums (or maxima) over the selections among the items up to each, without it and with it; logarithms."""

    without: Reals
    within: Reals


@inner
def _share(a, b):  # type: ignore
    """eᵇ / (eᵃ + eᵇ); `a` is finite, `b` may be −inf."""
    if b > a:
        return 1.0 / (1.0 + math.exp(a - b))
    odds = math.exp(b - a)
    return odds / (1.0 + odds)


@inner
def fill(semiring, n, scores, work):  # type: ignore
    """From left to right: sums (``LOGS``) or maxima (``MAXIMA``) in `work`. Returns that of all."""
    without, within = work.without, work.within
    without[0], within[0] = semiring.one, scores[0] + scores[2 * n - 1]
    for t in range(1, n):
        own = scores[t] + scores[2 * n - 1]
        with_pair = times(semiring, within[t - 1], scores[n + t - 1])
        without[t] = plus(semiring, without[t - 1], within[t - 1])
        within[t] = times(semiring, own, plus(semiring, without[t - 1], with_pair))
    return plus(semiring, without[n - 1], within[n - 1])


@inner
def selection_log_partition(specification, shape, scores, work):  # type: ignore
    return fill(LOGS, shape[0], scores, work)


@inner
def selection_expectations(specification, shape, scores, counts, work):  # type: ignore
    """From right to left: an item's probability follows from its neighbour's and the sums in `work`."""
    n = shape[0]
    total = fill(LOGS, n, scores, work)
    without, within = work.without, work.within
    probability = _share(without[n - 1], within[n - 1])
    counts[n - 1], counts[2 * n - 1] = probability, probability
    for t in range(n - 2, -1, -1):
        both = probability * _share(without[t], within[t] + scores[n + t])
        probability = both + (1.0 - probability) * _share(without[t], within[t])
        counts[t], counts[n + t] = probability, both
        counts[2 * n - 1] += probability
    return total


@inner
def selection_best(specification, shape, scores, counts, work):  # type: ignore
    """From right to left: whether an item is selected follows from its neighbour and the maxima in `work`."""
    n = shape[0]
    best = fill(MAXIMA, n, scores, work)
    without, within = work.without, work.within
    counts[2 * n - 1] = 0.0
    selected = within[n - 1] > without[n - 1]
    for t in range(n - 1, -1, -1):
        counts[t] = 1.0 if selected else 0.0
        counts[2 * n - 1] += counts[t]
        if t > 0:
            before = within[t - 1] + (scores[n + t - 1] if selected else 0.0) > without[t - 1]
            counts[n + t - 1] = 1.0 if selected and before else 0.0
            selected = before
    return best


SELECTION = Oracle(
    "selection",
    SelectionSpecification,
    SelectionWorkspace,
    selection_expectations,
    selection_log_partition,
    selection_best,
)


# -- the structure ------------------------------------------------------------------------------------


class SelectionMarginals(NamedTuple):
    """Probabilities that items (n,) are selected, and that two neighbours (n - 1,) both are."""

    item: np.ndarray
    pair: np.ndarray


class Selection(PositionLabels):
    """Any subset of a sequence of items, such as the highlighted words or the sentences of a summary.

    A corpus' labels are 0 or 1 for every item of every example, int64 (lengths.sum(),). Costs are "hamming", the
    items wrongly taken and wrongly left out, or a matrix [true, predicted], where 1 stands for selected.

    Notes
    -----
    All methods take, for one sequence, `item_scores` (n,), `pair_scores` (n - 1,), which count where both neighbours
    are selected, and `selected_score`, a number that counts once for every selected item. For many sequences the
    first two are lists of such arrays, and the last is one number for all or a list; results are then lists, or
    arrays of numbers. A selection is a bool array (n,); 0 and 1 are read as well. Scores may be −inf; the empty
    selection scores 0 and is always possible.

    Examples
    --------
    >>> Selection().argmax([1.0, -0.5, 1.0], [0.0, 0.0])
    array([ True, False,  True])
    """

    kinds = (RowKind("item", 1), RowKind("pair", 1), RowKind("selected", 1, tied=True))
    oracle = SELECTION
    n_labels = 2

    def __repr__(self) -> str:
        return "Selection()"

    # -- what solvers need ------------------------------------------------------------------------

    def specification(self) -> SelectionSpecification:
        return SelectionSpecification()

    def workspace(self, shapes: Shapes, specification: Any = None) -> SelectionWorkspace:
        longest = int(shapes.lengths.max(initial=1))
        return SelectionWorkspace(np.zeros(longest), np.zeros(longest))

    def row_counts(self, shapes: Shapes) -> tuple[np.ndarray, ...]:
        return shapes.lengths, shapes.lengths - 1

    def most_parts(self, shapes: Shapes) -> np.ndarray:
        return 3 * shapes.lengths - 1

    def most_tied(self, shapes: Shapes) -> np.ndarray:
        return shapes.lengths

    def encode_all(self, labels: Any, shapes: Shapes) -> PartLists:
        """Item parts, pair parts, then "selected" as often as there are items; all in ascending order."""
        selected, lengths = self.check_gold(labels, shapes) == 1, shapes.lengths
        position, example = positions(lengths), np.repeat(np.arange(len(lengths)), lengths)
        both = np.zeros(len(selected), bool)  # the item and the one before it
        both[1:] = selected[1:] & selected[:-1] & (position[1:] > 0)
        n = lengths[example]
        part = np.concatenate([position[selected], (n + position - 1)[both], (2 * n - 1)[selected]])
        owner = np.concatenate([example[selected], example[both], example[selected]])
        ptr = offsets(np.bincount(owner, minlength=len(lengths)))
        return PartLists(ptr, part[np.argsort(owner, kind="stable")])

    def decode_all(self, found: PartLists, shapes: Shapes) -> np.ndarray:
        """Flat 0 and 1, int64 (lengths.sum(),)."""
        lengths = shapes.lengths
        example = np.repeat(np.arange(len(lengths)), np.diff(found.ptr))
        is_item = found.part < lengths[example]
        labels = np.zeros(int(lengths.sum()), np.int64)
        labels[(offsets(lengths)[example] + found.part)[is_item]] = 1
        return labels

    def part_costs(self, labels: Any, shapes: Shapes, cost: Any) -> np.ndarray:
        """An item has no part for being left out: where it is true, its part takes that cost off instead."""
        labels, lengths = self.check_gold(labels, shapes), shapes.lengths
        part_ptr = offsets(self.n_parts(shapes))
        result = np.zeros(int(part_ptr[-1]), np.float32)
        at = np.repeat(part_ptr[:-1], lengths) + positions(lengths)
        result[at] = cost[labels, 1] - cost[labels, 0]
        return result

    def kbest_parts(self, shape: np.ndarray, scores: np.ndarray, k: int) -> list[np.ndarray]:
        n = int(shape[0])
        found = self.kbest(scores[:n], scores[n : 2 * n - 1], scores[2 * n - 1], k)
        return [self.encode(y) for y, _ in found]

    # -- what users call --------------------------------------------------------------------------

    def log_partition(self, item_scores: Any, pair_scores: Any, selected_score: Any = 0.0) -> Any:
        """log Σ_y exp(score of y): a float, or float64 (n,) for a list."""
        return self._pack(item_scores, pair_scores, selected_score).log_partition()

    def marginals(self, item_scores: Any, pair_scores: Any, selected_score: Any = 0.0) -> Any:
        """A :class:`SelectionMarginals`, or a list of them."""
        packed = self._pack(item_scores, pair_scores, selected_score)
        _, counts = packed.expectations()
        results = []
        for first, n in zip(packed.part_ptr[:-1].tolist(), packed.lengths.tolist(), strict=True):
            item, pair = counts[first : first + n], counts[first + n : first + 2 * n - 1]
            results.append(SelectionMarginals(item, pair))
        return results[0] if packed.single else results

    def argmax(self, item_scores: Any, pair_scores: Any, selected_score: Any = 0.0) -> Any:
        """A best selection, bool (n,), or a list of them."""
        packed = self._pack(item_scores, pair_scores, selected_score)
        selections = np.split(packed.best() == 1, offsets(packed.lengths)[1:-1])
        return selections[0] if packed.single else selections[: len(packed.lengths)]

    def loss_augmented_argmax(
        self, item_scores: Any, pair_scores: Any, selected_score: Any = 0.0, *, y: Any, cost: float = 1.0
    ) -> Any:
        """A selection with the largest score plus `cost` for every item on which it differs from `y`."""
        examples, single = self._read(item_scores, pair_scores, selected_score)
        truths = [_selection(each) for each in ([y] if single else y)]
        if [len(truth) for truth in truths] != [len(items) for items, _, _ in examples]:
            raise InputError("y must have as many labels as item_scores has numbers")
        per_item = float(checked_scores(cost, "cost", ()))
        items = [
            items + per_item * (1.0 - 2.0 * truth)
            for (items, _, _), truth in zip(examples, truths, strict=True)
        ]
        pairs, selected = [each[1] for each in examples], [each[2] for each in examples]
        found = self.argmax(items, pairs, selected)
        return found[0] if single else found

    def kbest(self, item_scores: Any, pair_scores: Any, selected_score: Any = 0.0, k: int = 5) -> Any:
        """The k best selections: a list of (bool (n,), score), best first, or a list of such lists."""
        chain, nodes, edges, single = self._as_chain(item_scores, pair_scores, selected_score)
        found = [[(y == 1, score) for y, score in each] for each in chain.kbest(nodes, edges, k)]
        return found[0] if single else found

    def sample(
        self,
        item_scores: Any,
        pair_scores: Any,
        selected_score: Any = 0.0,
        n_samples: int = 1,
        random_state: Any = None,
    ) -> Any:
        """Selections drawn with probability ∝ exp(score): bool (n_samples, n), or a list of those."""
        chain, nodes, edges, single = self._as_chain(item_scores, pair_scores, selected_score)
        drawn = [labels == 1 for labels in chain.sample(nodes, edges, n_samples, random_state)]
        return drawn[0] if single else drawn

    def entropy(self, item_scores: Any, pair_scores: Any, selected_score: Any = 0.0) -> Any:
        """Entropy in nats: a float, or float64 (n,) for a list."""
        return self._pack(item_scores, pair_scores, selected_score).entropy()

    def log_count(self, length: Any) -> Any:
        """length · log 2: a float, or float64 (n,) for many lengths."""
        count = np.asarray(length) * np.log(2.0)
        return float(count) if count.ndim == 0 else count

    def encode(self, y: Any) -> np.ndarray:
        """Part numbers of one selection, with repetition."""
        selected = _selection(y)
        return self.encode_all(selected, self.shapes([len(selected)])).part

    def decode(self, parts: Any, length: int | None = None) -> np.ndarray:
        """The selection, bool (n,), with these parts; the empty one does not tell its `length`."""
        parts = np.asarray(parts, np.int64)
        if length is None:
            if not parts.size:
                raise InputError("parts are those of the empty selection: length must be given")
            length = (int(parts.max()) + 1) // 2  # the largest is that of "selected", 2n - 1
        found = PartLists(np.array([0, len(parts)]), parts)
        return self.decode_all(found, self.shapes([checked_count(length, "length")])) == 1

    # -- what enumeration needs -------------------------------------------------------------------

    def labellings(self, length: int) -> Iterator[np.ndarray]:
        for y in product((False, True), repeat=length):
            yield np.array(y)

    def score(self, y: Any, item_scores: Any, pair_scores: Any, selected_score: Any = 0.0) -> float:
        selected = _selection(y)
        items = np.asarray(item_scores)[selected]
        pairs = np.asarray(pair_scores)[selected[1:] & selected[:-1]]
        return float(items.sum() + pairs.sum() + np.full(len(items), selected_score).sum())

    def indicators(self, y: Any) -> SelectionMarginals:
        selected = _selection(y)
        return SelectionMarginals(selected * 1.0, (selected[1:] & selected[:-1]) * 1.0)

    # -- reading scores ---------------------------------------------------------------------------

    def _read(
        self, item_scores: Any, pair_scores: Any, selected_score: Any
    ) -> tuple[list[tuple[np.ndarray, np.ndarray, float]], bool]:
        """Items, pairs and the shared score of every example, checked; whether one was given, not a list."""
        single = _is_single(item_scores)
        items, pairs = ([item_scores], [pair_scores]) if single else (list(item_scores), list(pair_scores))
        shared = np.full(len(items), selected_score) if np.ndim(selected_score) == 0 else selected_score
        if len(pairs) != len(items) or len(shared) != len(items):
            raise InputError(
                f"item_scores has {len(items)} sequences, pair_scores {len(pairs)}, selected_score {len(shared)}"
            )
        examples = []
        for i, (item, pair, selected) in enumerate(zip(items, pairs, shared, strict=True)):
            where = "" if single else f"[{i}]"
            own = checked_scores(item, f"item_scores{where}", (None,))
            if not len(own):
                raise InputError(f"item_scores{where} has no items; a sequence needs at least one")
            between = checked_scores(pair, f"pair_scores{where}", (len(own) - 1,))
            examples.append((own, between, float(checked_scores(selected, f"selected_score{where}", ()))))
        return examples, single

    def _pack(self, item_scores: Any, pair_scores: Any, selected_score: Any) -> Packed:
        examples, single = self._read(item_scores, pair_scores, selected_score)
        shapes = self.shapes([len(items) for items, _, _ in examples])
        pieces = [np.append(np.concatenate([items, pairs]), shared) for items, pairs, shared in examples]
        flat, part_ptr = np.concatenate([*pieces, np.zeros(LANES)]), offsets(self.n_parts(shapes))
        return Packed(self, self.specification(), shapes, part_ptr, flat, single)

    def _as_chain(self, item_scores: Any, pair_scores: Any, selected_score: Any) -> tuple[Any, ...]:
        """The same scores as those of chains with two labels, whose ranking and drawing serve here as well."""
        from partwise.structures.chain.chain import Chain

        examples, single = self._read(item_scores, pair_scores, selected_score)
        nodes = [np.column_stack([np.zeros(len(items)), items + shared]) for items, _, shared in examples]
        edges = [np.zeros((len(pairs), 2, 2)) for _, pairs, _ in examples]
        for edge, (_, pairs, _) in zip(edges, examples, strict=True):
            edge[:, 1, 1] = pairs
        return Chain(2, tied=False), nodes, edges, single


def _is_single(item_scores: Any) -> bool:
    """Whether these are the scores of one sequence, not a list of such."""
    if isinstance(item_scores, list | tuple):
        return len(item_scores) > 0 and np.ndim(item_scores[0]) == 0
    return np.ndim(item_scores) < 2


def _selection(y: Any) -> np.ndarray:
    """`y` as bool (n,)."""
    array = np.asarray(y)
    return checked_labels(array * 1 if array.dtype == bool else array, "y", 2) == 1
