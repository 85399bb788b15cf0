"""Sequences and their segments as they came, checked: triples, or labels in a chunk scheme."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from partwise.core.arrays import offsets
from partwise.data.conll import Columns
from partwise.errors import InputError
from partwise.estimators.checks import check_ordered, check_targets, training_weights
from partwise.estimators.labels import in_order, is_label
from partwise.features.segments import Spans
from partwise.scoring.metrics import chunks
from partwise.tasks.sequences.data import check_positions, read_sequences

Segment = tuple[int, int, Any]
COVERED = 0.999  # the share of segments that max_length="auto" leaves whole


@dataclass(frozen=True)
class SegmentData:
    """Sequences with their true segments.

    Attributes
    ----------
    X : list of sequences, 3-D array or Columns
    lengths : int64 array, shape (n_sequences,)
    segments : list of lists of (first, last, label)
        In order; `last` is included, and positions between segments lie outside.
    sample_weight : float64 array, shape (n_sequences,), or None
    """

    X: Any
    lengths: np.ndarray
    segments: list[list[Segment]]
    sample_weight: np.ndarray | None

    @classmethod
    def read(cls, X: Any, y: Any, sample_weight: Any) -> SegmentData:
        if y is None and isinstance(X, Columns) and X.labels is not None:
            y = X.label_sequences()
        elif X is not None:
            check_targets(y, "SegmentLabeler")
        X, lengths = read_sequences(X, y, "SegmentLabeler")
        segments = read_segments(y, lengths)
        check_positions(lengths)
        return cls(X, lengths, segments, training_weights(sample_weight, lengths > 0))

    def weights(self) -> np.ndarray | None:
        """Of the sequences that have positions."""
        return None if self.sample_weight is None else self.sample_weight[self.lengths > 0]

    def labels(self) -> list[Any]:
        """The labels that occur: sorted, or in order of first occurrence where they do not sort."""
        distinct = dict.fromkeys(label for each in self.segments for _, _, label in each)
        if not distinct:
            raise InputError("y has no segments at all; at least one sequence must have one")
        return in_order(distinct)

    def has_outside(self) -> bool:
        """Whether some position lies in no segment."""
        covered = sum(last - first + 1 for each in self.segments for first, last, _ in each)
        return covered < int(self.lengths.sum())

    def usual_length(self) -> int:
        """The smallest length that `COVERED` of the segments do not exceed."""
        sizes = np.sort([last - first + 1 for each in self.segments for first, last, _ in each])
        return int(sizes[int(np.ceil(COVERED * len(sizes))) - 1])


class Gold(NamedTuple):
    """True segments as numbers, flat over all positions.

    Attributes
    ----------
    tags : int64 array, shape (n_positions,)
        As ``SemiMarkov`` reads them.
    n_cut : int
        Segments that were longer than possible and cut into pieces.
    """

    tags: np.ndarray
    n_cut: int

    def spans(self, lengths: np.ndarray) -> Spans:
        """Where the segments lie."""
        first = np.flatnonzero(self.tags % 2 == 0)
        ptr = offsets(lengths)
        sentence = np.searchsorted(ptr, first, side="right") - 1
        return Spans(ptr[sentence], ptr[sentence + 1], first, np.append(first[1:], len(self.tags)))


def gold_of(data: SegmentData, labels: Sequence[Any], outside: bool, max_length: int) -> Gold:
    """Numbers of true segments.

    Positions outside are segments of one position, labelled 0. A segment longer than `max_length` is cut into pieces
    of that length and a rest, all with its label: the model cannot have it whole.
    """
    index = {label: k + outside for k, label in enumerate(labels)}
    tags, n_cut = np.zeros(int(data.lengths.sum()), np.int64), 0
    for begin, segments in zip(offsets(data.lengths).tolist(), data.segments, strict=False):
        for first, last, label in segments:
            code = 2 * index[label]
            tags[begin + first : begin + last + 1] = code + 1
            tags[begin + first : begin + last + 1 : max_length] = code
            n_cut += last - first >= max_length
    return Gold(tags, n_cut)


# -- reading y ------------------------------------------------------------------------------------


def read_segments(y: Any, lengths: np.ndarray, name: str = "y") -> list[list[Segment]]:
    """Segments of every sequence, from triples (first, last, label) or labels such as B-NP, I-NP and O."""
    check_ordered(y, name, "a list with the segments or the labels of every sequence")
    sequences = list(y)
    if len(sequences) != len(lengths):
        raise InputError(f"{name} has {len(sequences)} sequences, but X has {len(lengths)}")
    result = []
    for i, (each, length) in enumerate(zip(sequences, lengths.tolist(), strict=True)):
        check_ordered(each, f"{name}[{i}]", "a list of segments (first, last, label), or of labels")
        items = each.tolist() if isinstance(each, np.ndarray) else list(each)
        if items and all(isinstance(item, str) for item in items):
            result.append(_from_labels(items, length, f"{name}[{i}]"))
        else:
            result.append(_checked_segments(items, length, f"{name}[{i}]"))
    return result


def labels_of(segments: list[list[Segment]]) -> set[Any]:
    """All labels of some segments."""
    return {label for own in segments for _, _, label in own}


def _from_labels(labels: list[str], length: int, name: str) -> list[Segment]:
    if len(labels) != length:
        raise InputError(f"{name} has {len(labels)} labels, but its sequence has {length} positions")
    for t, label in enumerate(labels):
        prefix, hyphen, kind = label.partition("-")
        if prefix not in ("O", "B", "I", "E", "S", "L", "U") or (hyphen and not kind):
            raise InputError(
                f"{name}[{t}] is {label!r:.40}; labels of segments are O, and B-type, I-type and so on, or give "
                "segments as triples (first, last, label)"
            )
    return [(start, end - 1, kind) for kind, start, end in chunks(labels)]


def _checked_segments(items: list[Any], length: int, name: str) -> list[Segment]:
    found = []
    for k, item in enumerate(items):
        if isinstance(item, (set, frozenset, dict)):
            raise InputError(
                f"{name}[{k}] is {item!r:.60}; a SegmentLabeler needs one label: a SequenceLabeler takes sets and votes"
            )
        triple = tuple(item) if isinstance(item, (tuple, list, np.ndarray)) else ()
        whole = len(triple) == 3 and all(_is_whole(each) for each in triple[:2])
        if not whole:
            raise InputError(f"{name}[{k}] is {item!r:.60}; a segment is a triple (first, last, label)")
        first, last, label = int(triple[0]), int(triple[1]), triple[2]
        if not 0 <= first <= last < length:
            raise InputError(
                f"{name}[{k}] is {item!r:.60}; first and last are positions from 0 to {length - 1}, both included"
            )
        label = label.item() if isinstance(label, np.generic) else label
        if label is None or not isinstance(label, Hashable) or not is_label(label):
            raise InputError(f"{name}[{k}]: {label!r:.60} cannot be a label")
        found.append((first, last, label))
    found.sort(key=lambda segment: segment[0])
    for before, after in pairwise(found):
        if after[0] <= before[1]:
            raise InputError(f"{name}: segments {before!r:.60} and {after!r:.60} overlap")
    return found


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


# -- and back -------------------------------------------------------------------------------------


def iob2(segments: Sequence[Segment], length: int) -> list[str]:
    """Labels of positions: O, B-label and I-label; a label that is the empty string has bare prefixes."""
    labels = ["O"] * length
    for first, last, label in segments:
        kind = f"-{label}" if label != "" else ""
        labels[first : last + 1] = [f"B{kind}", *[f"I{kind}"] * (last - first)]
    return labels
