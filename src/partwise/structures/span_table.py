"""Labelled spans of some examples with their probabilities, as flat arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.core.arrays import offsets


class SpanTable(NamedTuple):
    """Labelled spans of some examples.

    Attributes
    ----------
    example, first, last : int64 arrays, shape (n_spans,)
        Positions are counted within the example, and `last` is included.
    kind : int64 array, shape (n_spans,)
        The type of each span.
    probability : float64 array, shape (n_spans,)
    """

    example: np.ndarray
    first: np.ndarray
    last: np.ndarray
    kind: np.ndarray
    probability: np.ndarray

    @classmethod
    def of(
        cls,
        example: np.ndarray,
        first: np.ndarray,
        last: np.ndarray,
        kind: np.ndarray,
        probability: np.ndarray,
    ) -> SpanTable:
        """Sorted by example, first position, last position and type."""
        order = np.lexsort((kind, last, first, example))
        return cls(example[order], first[order], last[order], kind[order], probability[order])

    @classmethod
    def empty(cls) -> SpanTable:
        nothing = np.zeros(0, np.int64)
        return cls(nothing, nothing, nothing, nothing, np.zeros(0))

    def take(self, which: np.ndarray) -> SpanTable:
        """Some of the spans, by a mask or by their numbers."""
        return SpanTable(*(column[which] for column in self))

    def by_example(self, n_examples: int) -> np.ndarray:
        """Offsets of the spans of each example, int64 (n_examples + 1,), if they are sorted by example."""
        return offsets(np.bincount(self.example, minlength=n_examples))
