"""Segments whose scores are sums over positions plus a score of label and length: sequences of any length."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from partwise.compiled.simd import LANES
from partwise.core.arrays import block_of, offsets, positions, ranges, untouched
from partwise.core.randomness import random_generator
from partwise.errors import InputError
from partwise.structures.checks import (
    checked_count,
    checked_samples,
    checked_scores,
    require_possible,
    room_for_best,
)
from partwise.structures.contract import PartLists, RowKind, Shapes
from partwise.structures.packed import Packed
from partwise.structures.segments.factors import (
    FACTORED,
    FactoredSpecification,
    FactoredWorkspace,
    factored_workspace,
)
from partwise.structures.segments.parts import SemiMarkovParts, _segments
from partwise.structures.segments.tags import segments_of_tags


class FactoredMarginals(NamedTuple):
    """Expected counts of segments whose scores have factors.

    Attributes
    ----------
    position : ndarray (n, L)
        Probability that a position lies in a segment of a label.
    begin : ndarray (n, L)
        Probability that a segment of a label begins at a position.
    duration : ndarray (max_length, L)
        Expected numbers of segments by length − 1 and label.
    transition : ndarray (L, L)
        Expected numbers of neighbours.
    """

    position: np.ndarray
    begin: np.ndarray
    duration: np.ndarray
    transition: np.ndarray


class FactoredSemiMarkov(SemiMarkovParts):
    """Segmentations in which a segment of label j from position s to t scores

        begin(s, j) + Σ_{s ≤ r ≤ t} position(r, j) + duration(t − s, j)

    and neighbours score transition(i, j). Time is n·(D·L + L²) for D = max_length, and memory n·L + D·L.

    Parameters are those of :class:`~partwise.structures.SemiMarkov`, whose methods take the same scores by name.

    Parts of a sequence of n positions, in this order: 2·L for every position, "the label begins here" and "the label
    continues here"; D·L durations by [length − 1, label]; L×L transitions. The last two are shared by all sequences.
    """

    oracle = FACTORED

    def __init__(self, n_labels: int, max_length: Any, **masks: Any):
        super().__init__(n_labels, max_length, tokens=True, **masks)
        L = self.n_labels
        self.kinds = (
            RowKind("token", 2 * L),
            RowKind("duration", self.max_length * L, tied=True),
            RowKind("transition", L**2, tied=True),
        )

    def __repr__(self) -> str:
        return f"FactoredSemiMarkov({self.n_labels}, {self.max_length})"

    # -- for solvers ------------------------------------------------------------------------------

    def specification(self) -> FactoredSpecification:  # type: ignore[override]
        found = self._specification(False)
        return FactoredSpecification(
            found.n_labels, found.stride, found.max_length, found.too_long, found.allowed, found.allowed_start,
            found.allowed_end,
        )  # fmt: skip

    def workspace(self, shapes: Shapes, specification: Any = None) -> FactoredWorkspace:  # type: ignore[override]
        return factored_workspace(specification or self.specification(), int(shapes.lengths.max(initial=1)))

    def row_counts(self, shapes: Shapes) -> tuple[np.ndarray, ...]:
        return (shapes.lengths,)

    def most_parts(self, shapes: Shapes) -> np.ndarray:
        return 3 * shapes.lengths - 1

    def most_tied(self, shapes: Shapes) -> np.ndarray:
        return 2 * shapes.lengths - 1

    def row_choices(self, shapes: Shapes) -> np.ndarray | None:
        return None

    def table_cells(self, shapes: Shapes) -> float:
        return float(shapes.lengths.sum()) * self.n_labels * (self.max_length + self.n_labels)

    def sums_effort(self, shapes: Shapes) -> float:
        return 1.5 * self.table_cells(shapes)

    def encode_all(self, labels: Any, shapes: Shapes) -> PartLists:
        """Parts of positions, then of durations, then of transitions, each from left to right."""
        tags, lengths, L = self.check_gold(labels, shapes), shapes.lengths, self.n_labels
        example, position = block_of(offsets(lengths)), positions(lengths)
        begins, sizes = _segments(tags)
        owner, label, first = example[begins], tags[begins] // 2, 2 * lengths * L
        inner = np.flatnonzero(owner[1:] == owner[:-1])
        edge = first + self.max_length * L
        parts = [
            (2 * position + tags % 2) * L + tags // 2,
            first[owner] + (sizes - 1) * L + label,
            edge[owner[inner]] + label[inner] * L + label[inner + 1],
        ]
        whose = np.concatenate([example, owner, owner[inner]])
        ptr = offsets(np.bincount(whose, minlength=len(lengths)))
        return PartLists(ptr, np.concatenate(parts)[np.argsort(whose, kind="stable")])

    def decode_all(self, found: PartLists, shapes: Shapes) -> np.ndarray:
        """Tags of all positions, int64 (lengths.sum(),), from the parts of positions, which come first."""
        part = found.part[ranges(found.ptr[:-1], shapes.lengths)]
        return 2 * (part % self.n_labels) + part // self.n_labels % 2

    def part_costs(self, labels: Any, shapes: Shapes, cost: Any) -> np.ndarray:
        """The parts of a position have its cost."""
        tags, part_ptr = self.check_gold(labels, shapes), offsets(self.n_parts(shapes))
        result = untouched(int(part_ptr[-1]), np.float32)  # tied parts cost nothing
        own = np.concatenate([cost[:, 0::2], cost[:, 1::2]], axis=1)
        result[ranges(part_ptr[:-1], 2 * shapes.lengths * self.n_labels)] = own[tags].ravel()
        return result

    def kbest_parts(self, shape: np.ndarray, scores: np.ndarray, k: int) -> list[np.ndarray]:
        shapes, flat = self.shapes(shape[:1]), np.append(scores, np.zeros(LANES))
        packed = Packed(self, self.specification(), shapes, np.array([0, len(scores)]), flat, True)
        [(tags, _)] = self.kbest_tags(packed, k)
        return [self.encode_all(each, shapes).part for each in tags]

    # -- for users --------------------------------------------------------------------------------

    def log_partition(self, *scores: Any, **named: Any) -> Any:
        """log Σ_y exp(score of y): a float, or float64 (n,) for a list; −inf if nothing is possible."""
        return self._pack(*scores, **named).log_partition()

    def marginals(self, *scores: Any, **named: Any) -> Any:
        """:class:`FactoredMarginals`, or a list of them."""
        packed = self._pack(*scores, **named)
        counts = packed.expectations()[1]
        results = [self._shaped(counts[a:b]) for a, b in pairwise(packed.part_ptr.tolist())]
        return results[0] if packed.single else results

    def _shaped(self, counts: np.ndarray) -> FactoredMarginals:
        L, n_table = self.n_labels, self.max_length * self.n_labels
        tokens = counts[: -n_table - L * L].reshape(-1, 2, L)
        table, transition = np.split(counts[len(counts) - n_table - L * L :], [n_table])
        return FactoredMarginals(tokens.sum(1), tokens[:, 0], table.reshape(-1, L), transition.reshape(L, L))

    def argmax(self, *scores: Any, **named: Any) -> Any:
        """A best segmentation, int64 (k, 3), or a list of them."""
        packed = self._pack(*scores, **named)
        tags = packed.best()
        found = [segments_of_tags(tags[a:b]) for a, b in pairwise(offsets(packed.lengths).tolist())]
        return found[0] if packed.single else found

    def loss_augmented_argmax(self, *scores: Any, y: Any, cost: float = 1.0, **named: Any) -> Any:
        """A segmentation with the largest score plus `cost` for every position that `y` tags otherwise."""
        from partwise.structures.segments.tags import tags_of_segments

        packed, per_position = self._pack(*scores, **named), float(checked_scores(cost, "cost", ()))
        truths = [y] if packed.single else list(y)
        tags = [tags_of_segments(each, self.n_labels) for each in truths]
        if [len(each) for each in tags] != packed.lengths.tolist():
            raise InputError("y must cover as many positions as position_scores has rows")
        costs = self.part_costs(np.concatenate(tags), packed.shapes, self.checked_cost("hamming"))
        flat = packed.scores.copy()
        flat[: len(costs)] += per_position * costs
        best = packed._replace(scores=flat).best()
        found = [segments_of_tags(best[a:b]) for a, b in pairwise(offsets(packed.lengths).tolist())]
        return found[0] if packed.single else found

    def kbest(self, *scores: Any, k: int = 5, **named: Any) -> Any:
        """The k best segmentations: a list of ((m, 3) array, score), best first, or a list of such lists."""
        k, packed = checked_count(k, "k"), self._pack(*scores, **named)
        found = self.kbest_tags(packed, k)
        require_possible(np.array([0.0 if len(values) else -np.inf for _, values in found]), packed.single)
        results = [
            [(segments_of_tags(t), float(v)) for t, v in zip(tags, values, strict=True)]
            for tags, values in found
        ]
        return results[0] if packed.single else results

    def sample(self, *scores: Any, n_samples: int = 1, random_state: Any = None, **named: Any) -> Any:
        """Segmentations drawn with probability ∝ exp(score): a list of n_samples arrays, or a list of such lists."""
        n_samples, generator = checked_samples(n_samples), random_generator(random_state)
        packed = self._pack(*scores, **named)
        drawn = self.sample_tags(packed, n_samples, generator)
        results = [[segments_of_tags(each) for each in tags] for tags in drawn]
        return results[0] if packed.single else results

    def entropy(self, *scores: Any, **named: Any) -> Any:
        """Entropy in nats: a float, or float64 (n,). For scores of size s the error is about 1e-16·(s·n)²."""
        return self._pack(*scores, **named).entropy()

    def score(
        self, y: Any, position_scores: Any, duration_scores: Any, transition_scores: Any, begin_scores: Any = None
    ) -> float:  # fmt: skip
        """Score of one segmentation of one sequence, −inf if a mask forbids it."""
        segments, own = np.asarray(y).tolist(), np.asarray(position_scores, float)
        table, between = np.asarray(duration_scores, float), np.asarray(transition_scores, float)
        total = sum(own[a : b + 1, j].sum() + table[b - a, j] for a, b, j in segments)
        total += sum(between[before, after] for (_, _, before), (_, _, after) in pairwise(segments))
        if begin_scores is not None:
            total += sum(np.asarray(begin_scores, float)[a, j] for a, _, j in segments)
        return float(total) if self.is_allowed(y) else -np.inf

    def indicators(self, y: Any) -> FactoredMarginals:  # type: ignore[override]
        segments = np.asarray(y).tolist()
        n, L = segments[-1][1] + 1, self.n_labels
        found = FactoredMarginals(
            np.zeros((n, L)), np.zeros((n, L)), np.zeros((self.max_length, L)), np.zeros((L, L))
        )
        for first, last, label in segments:
            found.position[first : last + 1, label] = 1.0
            found.begin[first, label] = 1.0
            found.duration[last - first, label] += 1.0
        for (_, _, before), (_, _, after) in pairwise(segments):
            found.transition[before, after] += 1.0
        return found

    # -- on packed scores -------------------------------------------------------------------------

    def kbest_tags(self, packed: Packed, k: int) -> list[tuple[np.ndarray, np.ndarray]]:
        """Tags (m, n) and scores (m,) of the m ≤ k best segmentations of every sequence."""
        from partwise.structures.segments.factors import best_factored

        room, results = packed.room(), []
        for first, length in zip(packed.part_ptr[:-1].tolist(), packed.lengths.tolist(), strict=True):
            n_numbers = 4 * (length + 1) * packed.specification.stride + length
            n_best = room_for_best(k, self.log_count(length), n_numbers)
            tags, values = np.zeros((n_best, length), np.int64), np.empty(n_best)
            found = best_factored(packed.specification, length, packed.scores[first:], room, tags, values)
            results.append((tags[:found], values[:found]))
        return results

    def sample_tags(self, packed: Packed, n_samples: int, generator: np.random.Generator) -> list[np.ndarray]:
        """Tags (n_samples, n) of segmentations of every sequence; raises if none is possible."""
        from partwise.structures.segments.factors import sample_factored

        room, results, totals = packed.room(), [], np.zeros(len(packed.lengths))
        bounds = zip(packed.part_ptr[:-1].tolist(), packed.lengths.tolist(), strict=True)
        for i, (first, length) in enumerate(bounds):
            tags, uniforms = (
                np.zeros((n_samples, length), np.int64),
                generator.random((n_samples, 2 * length)),
            )
            scores = packed.scores[first:]
            totals[i] = sample_factored(packed.specification, length, scores, room, uniforms, tags)
            results.append(tags)
        require_possible(totals, packed.single)
        return results

    def _pack(
        self, position_scores: Any, duration_scores: Any, transition_scores: Any, begin_scores: Any = None
    ) -> Packed:  # fmt: skip
        L, name = self.n_labels, "position_scores"
        single = _is_single(position_scores)
        given = [position_scores] if single else list(position_scores)
        begins: Sequence[Any] = [None] * len(given)
        if begin_scores is not None:
            begins = [begin_scores] if single else list(begin_scores)
        if len(begins) != len(given):
            raise InputError(f"begin_scores has {len(begins)} sequences, position_scores has {len(given)}")
        table = checked_scores(duration_scores, "duration_scores", (self.max_length, L)).ravel()
        between = checked_scores(transition_scores, "transition_scores", (L, L)).ravel()
        pieces: list[np.ndarray] = []
        lengths = []
        for i, (own, begin) in enumerate(zip(given, begins, strict=True)):
            where = "" if single else f"[{i}]"
            rows = checked_scores(own, name + where, (None, L))
            if not len(rows):
                raise InputError(f"{name}{where} has no positions; a sequence needs at least one")
            tokens = np.repeat(rows[:, None], 2, axis=1)
            if begin is not None:
                tokens[:, 0] += checked_scores(begin, f"begin_scores{where}", rows.shape)
            pieces += [tokens.ravel(), table, between]
            lengths.append(len(rows))
        shapes = self.shapes(lengths)
        flat = np.concatenate([*pieces, np.zeros(LANES)])
        return Packed(self, self.specification(), shapes, offsets(self.n_parts(shapes)), flat, single)


def _is_single(position_scores: Any) -> bool:
    if isinstance(position_scores, list | tuple):
        return len(position_scores) > 0 and np.ndim(position_scores[0]) < 2
    return np.ndim(position_scores) != 3
