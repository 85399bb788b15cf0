"""The parts of semi-Markov chains, for solvers: masks and the encoding of true segmentations. No inference."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from partwise.core.arrays import block_of, locate, offsets, positions, ranges, untouched
from partwise.errors import InputError
from partwise.structures.checks import checked_count, checked_mask
from partwise.structures.contract import PartLists, RowKind, Shapes, Structure
from partwise.structures.costs import cost_matrix
from partwise.structures.segments.forward_backward import (
    SEMI_MARKOV,
    SemiMarkovSpecification,
    SemiMarkovWorkspace,
    semi_markov_specification,
    semi_markov_workspace,
)
from partwise.structures.segments.scores import n_segments
from partwise.structures.segments.tags import segments_of_tags, tags_of_segments

_LONGEST = 2**31 - 1  # positions of a segment: lengths must fit into 32 bits


class SegmentMarginals(NamedTuple):
    """Probabilities of segments (n, max_length, L), and expected numbers of transitions (L, L)."""

    segment: np.ndarray
    transition: np.ndarray


class SemiMarkovParts(Structure):
    """Parts of semi-Markov chains: `scores.py` lists them, and `SemiMarkov` documents the arguments.

    The labels of all examples are one flat int64 array over all positions, the tags of `tags.py`.
    """

    oracle = SEMI_MARKOV
    slows_when_sharp = True

    def __init__(
        self,
        n_labels: int,
        max_length: int | ArrayLike,
        *,
        tokens: bool = False,
        allowed: ArrayLike | None = None,
        allowed_start: ArrayLike | None = None,
        allowed_end: ArrayLike | None = None,
    ):
        self.n_labels, self.tokens = checked_count(n_labels, "n_labels"), bool(tokens)
        self.label_lengths = _label_lengths(max_length, self.n_labels)
        self.max_length = int(self.label_lengths.max())
        square = (self.n_labels, self.n_labels)
        self.allowed = checked_mask(allowed, "allowed", square)
        self.allowed_start = checked_mask(allowed_start, "allowed_start", square[:1])
        self.allowed_end = checked_mask(allowed_end, "allowed_end", square[:1])
        own = (RowKind("segment", self.n_labels), RowKind("token", 2 * self.n_labels))
        self.kinds = (*own[: 1 + self.tokens], RowKind("transition", self.n_labels**2, tied=True))

    def __repr__(self) -> str:
        return f"SemiMarkov({self.n_labels}, {self.max_length}, tokens={self.tokens})"

    # -- sizes ------------------------------------------------------------------------------------

    def table_cells(self, shapes: Shapes) -> float:
        return float(self.n_parts(shapes).sum())

    def specification(self) -> SemiMarkovSpecification:
        return self._specification(self.tokens)

    def _specification(self, tokens: bool) -> SemiMarkovSpecification:
        masks = self.allowed, self.allowed_start, self.allowed_end
        return semi_markov_specification(self.n_labels, tokens, self.label_lengths, *masks)

    def workspace(self, shapes: Shapes, specification: Any = None) -> SemiMarkovWorkspace:
        longest = int(shapes.lengths.max(initial=1))
        return semi_markov_workspace(specification or self.specification(), longest)

    def row_counts(self, shapes: Shapes) -> tuple[np.ndarray, ...]:
        lengths = shapes.lengths
        return (n_segments(lengths, self.max_length), lengths)[: 1 + self.tokens]

    def most_parts(self, shapes: Shapes) -> np.ndarray:
        return (2 + self.tokens) * shapes.lengths - 1

    def most_tied(self, shapes: Shapes) -> np.ndarray:
        return shapes.lengths - 1

    def row_choices(self, shapes: Shapes) -> np.ndarray | None:
        """A segmentation uses at most one of the segments with the same start."""
        return None if self.tokens else np.repeat(np.arange(shapes.lengths.sum()), self.n_starting(shapes))

    def n_starting(self, shapes: Shapes) -> np.ndarray:
        """Segments that begin at each position of each example, int64 (lengths.sum(),)."""
        lengths = shapes.lengths
        return np.minimum(self.max_length, np.repeat(lengths, lengths) - positions(lengths))

    # -- labels -----------------------------------------------------------------------------------

    def encode_all(self, labels: Any, shapes: Shapes) -> PartLists:
        """Parts of segments, then of positions, then of transitions, each from left to right."""
        tags, lengths = self.check_gold(labels, shapes), shapes.lengths
        example, position, n_labels = block_of(offsets(lengths)), positions(lengths), self.n_labels
        begins, sizes = _segments(tags)
        owner, label = example[begins], tags[begins] // 2
        n_rows = n_segments(lengths, self.max_length)
        row = offsets(self.n_starting(shapes))[begins] - offsets(n_rows)[owner] + sizes - 1
        parts, owners = [row * n_labels + label], [owner]
        first = n_rows * n_labels
        if self.tokens:
            parts.append(first[example] + (2 * position + tags % 2) * n_labels + tags // 2)
            owners.append(example)
            first = first + 2 * lengths * n_labels
        inner = np.flatnonzero(owner[1:] == owner[:-1])
        parts.append(first[owner[inner]] + label[inner] * n_labels + label[inner + 1])
        owners.append(owner[inner])
        whose = np.concatenate(owners)
        ptr = offsets(np.bincount(whose, minlength=len(lengths)))
        return PartLists(ptr, np.concatenate(parts)[np.argsort(whose, kind="stable")])

    def check_gold(self, labels: Any, shapes: Shapes) -> np.ndarray:
        """The tags as int64; raises :class:`InputError` at the first that is not a tag, or that a mask forbids."""
        tags, lengths = np.asarray(labels, np.int64), shapes.lengths
        if len(tags) != lengths.sum():
            raise InputError(f"labels has {len(tags)} entries, but lengths add up to {lengths.sum()}")
        if lengths.size and lengths.min() < 1:
            raise InputError(f"lengths: example {int(lengths.argmin())} has no positions")
        first = positions(lengths) == 0
        before = np.append(0, tags[:-1])
        wrong = (tags < 0) | (tags >= 2 * self.n_labels)
        wrong |= (tags % 2 == 1) & (first | (before // 2 != tags // 2))
        _refuse(wrong, tags, lengths, "continues no segment, or is no tag")
        begins, sizes = _segments(tags)
        label, at_first = tags[begins] // 2, first[begins]
        at_end = np.append(at_first[1:], True)
        _refuse(
            _at(begins, sizes > self.label_lengths[label], tags), tags, lengths, "is too long (max_length)"
        )
        if self.allowed_start is not None:
            forbidden = at_first & ~self.allowed_start[label]
            _refuse(_at(begins, forbidden, tags), tags, lengths, "may not stand first (allowed_start)")
        if self.allowed is not None:
            forbidden = ~at_first & ~self.allowed[np.append(0, label[:-1]), label]
            _refuse(_at(begins, forbidden, tags), tags, lengths, "may not follow the one before (allowed)")
        if self.allowed_end is not None:
            forbidden = at_end & ~self.allowed_end[label]
            _refuse(_at(begins, forbidden, tags), tags, lengths, "may not stand last (allowed_end)")
        return tags

    def decode_all(self, found: PartLists, shapes: Shapes) -> np.ndarray:
        """Tags of all positions, int64 (lengths.sum(),), from the parts of segments."""
        lengths, starting = shapes.lengths, offsets(self.n_starting(shapes))
        n_rows, example = n_segments(lengths, self.max_length), block_of(found.ptr)
        own = found.part < n_rows[example] * self.n_labels
        part, example = found.part[own], example[own]
        row = offsets(n_rows)[example] + part // self.n_labels
        start = np.searchsorted(starting, row, side="right") - 1
        tags = np.repeat(2 * (part % self.n_labels) + 1, row - starting[start] + 1)
        tags[offsets(row - starting[start] + 1)[:-1]] -= 1
        return tags

    def checked_cost(self, cost: Any) -> Any:
        """ "hamming" counts positions with a wrong tag; a matrix gives the cost [true tag, predicted tag]."""
        return cost_matrix(cost, 2 * self.n_labels).astype(np.float32)

    def part_costs(self, labels: Any, shapes: Shapes, cost: Any) -> np.ndarray:
        """The part of a segment has the costs of all its positions."""
        tags, n_starting = self.check_gold(labels, shapes), self.n_starting(shapes)
        first, part_ptr = offsets(n_starting), offsets(self.n_parts(shapes))
        rows = np.zeros((first[-1], self.n_labels), np.float32)
        for k in range(self.max_length):
            start = np.flatnonzero(n_starting > k)
            own = cost[tags[start + k], (k > 0) :: 2]
            rows[first[start] + k] = own + (rows[first[start] + k - 1] if k else 0.0)
        result = untouched(int(part_ptr[-1]), np.float32)  # tied parts cost nothing
        sizes = n_segments(shapes.lengths, self.max_length) * self.n_labels
        result[ranges(part_ptr[:-1], sizes)] = rows.ravel()
        return result

    def encode(self, y: ArrayLike) -> np.ndarray:
        """Part numbers of one segmentation."""
        tags = tags_of_segments(y, self.n_labels)
        return self.encode_all(tags, self.shapes([len(tags)])).part

    def decode(self, parts: Any, length: int | None = None) -> np.ndarray:
        """The segmentation (k, 3) with these parts, of a sentence of this `length`, which the parts do not tell."""
        if length is None:
            raise InputError("length must be given: equal parts mean different segments in other sentences")
        found = np.sort(np.asarray(parts, np.int64))
        shapes = self.shapes([checked_count(length, "length")])
        return segments_of_tags(self.decode_all(PartLists(np.array([0, len(found)]), found), shapes))

    # -- counting and enumeration -----------------------------------------------------------------

    def log_count(self, length: Any) -> Any:
        """Log of the number of segmentations the masks allow: a float, or float64 (n,) for many lengths."""
        lengths = np.asarray(length, np.int64)
        if lengths.size and lengths.min() < 1:
            raise InputError("length must be at least 1")
        n_labels, longest = self.n_labels, int(lengths.max(initial=0))
        everywhere = np.ones(n_labels, bool)
        starts = everywhere if self.allowed_start is None else self.allowed_start
        ends = everywhere if self.allowed_end is None else self.allowed_end
        follows = np.ones((n_labels, n_labels)) if self.allowed is None else self.allowed.astype(float)
        # Ways to reach the boundary before each position and continue with each label, divided by exp(scale).
        entering, scale = np.zeros((longest + 1, n_labels)), np.zeros(longest + 1)
        entering[0], table = starts, np.full(longest + 1, -np.inf)
        for end in range(1, longest + 1):
            k = np.arange(1, min(self.max_length, end) + 1)
            fits = k[:, None] <= self.label_lengths
            top = scale[end - k].max()
            ways = (entering[end - k] * np.exp(scale[end - k] - top)[:, None] * fits).sum(axis=0)
            with np.errstate(divide="ignore"):
                table[end] = top + np.log(ways @ ends)
            entering[end] = ways @ follows
            largest = entering[end].max()
            scale[end] = top + np.log(largest or 1.0)
            entering[end] /= largest or 1.0
        return float(table[lengths]) if lengths.ndim == 0 else table[lengths]

    def is_allowed(self, y: Any) -> bool:
        """Whether the masks allow a segmentation."""
        segments = np.asarray(y)
        label = segments[:, 2]
        return (
            bool((segments[:, 1] - segments[:, 0] < self.label_lengths[label]).all())
            and (self.allowed_start is None or bool(self.allowed_start[label[0]]))
            and (self.allowed_end is None or bool(self.allowed_end[label[-1]]))
            and (self.allowed is None or bool(self.allowed[label[:-1], label[1:]].all()))
        )

    def labellings(self, length: int) -> Iterator[np.ndarray]:
        """Every allowed segmentation (k, 3): shorter first segments first."""
        for segments in self._segmentations(0, length):
            y = np.array(segments, np.int64)
            if self.is_allowed(y):
                yield y

    def _segmentations(self, start: int, length: int) -> Iterator[list[tuple[int, int, int]]]:
        if start == length:
            yield []
        for last in range(start, min(start + self.max_length, length)):
            for rest in self._segmentations(last + 1, length):
                for label in range(self.n_labels):
                    yield [(start, last, label), *rest]

    def indicators(self, y: Any) -> SegmentMarginals:
        segments = np.asarray(y).tolist()
        segment = np.zeros((segments[-1][1] + 1, self.max_length, self.n_labels))
        transition = np.zeros((self.n_labels, self.n_labels))
        for first, last, label in segments:
            segment[first, last - first, label] = 1.0
        for (_, _, before), (_, _, after) in pairwise(segments):
            transition[before, after] += 1.0
        return SegmentMarginals(segment, transition)


def _label_lengths(max_length: Any, n_labels: int) -> np.ndarray:
    """The longest segment of every label, int64 (n_labels,)."""
    if np.ndim(max_length) == 0:
        return np.full(n_labels, checked_count(max_length, "max_length", most=_LONGEST))
    given = list(max_length)
    if len(given) != n_labels:
        raise InputError(f"max_length has {len(given)} entries, expected one for each of {n_labels} labels")
    checked = (checked_count(each, f"max_length[{j}]", most=_LONGEST) for j, each in enumerate(given))
    return np.array(list(checked), np.int64)


def _segments(tags: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """First positions and lengths of all segments; the first position of every example begins a segment."""
    begins = np.flatnonzero(tags % 2 == 0)
    return begins, np.diff(begins, append=len(tags))


def _at(begins: np.ndarray, wrong: np.ndarray, tags: np.ndarray) -> np.ndarray:
    """Which positions begin a segment that is wrong."""
    result = np.zeros(len(tags), bool)
    result[begins[wrong]] = True
    return result


def _refuse(wrong: np.ndarray, tags: np.ndarray, lengths: np.ndarray, why: str) -> None:
    if wrong.any():
        at = int(wrong.argmax())
        example, position = locate(at, lengths)
        raise InputError(f"labels: example {example}, position {position}: label {tags[at] // 2} {why}")
