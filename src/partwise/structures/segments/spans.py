"""Probabilities of segments of some sequences, asked for as spans of a chain are (`structures/chain/spans.py`)."""

from __future__ import annotations

import numpy as np

from partwise.core.arrays import block_of, offsets, positions
from partwise.structures.span_table import SpanTable


class SegmentSpans:
    """Segments and their probabilities.

    Parameters
    ----------
    lengths : int64 array, shape (n_examples,)
    max_length : int
        The most positions of a segment.
    marginals : float64 array, shape (n_rows, n_labels)
        A row for each first position and each number of positions that fits.
    n_outside : int
        How many of the first labels are no types: 1 if label 0 stands for "outside".
    """

    def __init__(self, lengths: np.ndarray, max_length: int, marginals: np.ndarray, n_outside: int):
        self._marginals = marginals[:, n_outside:]
        self._max_length, self._position_ptr = max_length, offsets(lengths)
        left = np.repeat(lengths, lengths) - positions(lengths)
        self._row_ptr = offsets(np.minimum(left, max_length))

    def expected(self) -> np.ndarray:
        """Expected number of segments of each label, float64 (n_examples, n_kinds)."""
        totals = np.concatenate([np.zeros_like(self._marginals[:1]), np.cumsum(self._marginals, axis=0)])
        totals = totals if len(self._marginals) else np.zeros((1, self._marginals.shape[1]))
        return np.maximum(np.diff(totals[self._row_ptr[self._position_ptr]], axis=0), 0.0)

    def candidates(self, threshold: float) -> SpanTable:
        """All segments with a probability of at least `threshold`."""
        row, kind = np.nonzero(self._marginals >= threshold)
        at = block_of(self._row_ptr)[row]
        example = np.searchsorted(self._position_ptr, at, side="right") - 1
        first = at - self._position_ptr[example]
        p = np.minimum(self._marginals[row, kind], 1.0)
        return SpanTable.of(example, first, first + row - self._row_ptr[at], kind, p)

    def probability(self, spans: SpanTable) -> np.ndarray:
        """Probability of each of some spans, float64 (n_spans,); 0 if longer than segments may be, or of type −1."""
        row = self._row_ptr[self._position_ptr[spans.example] + spans.first] + spans.last - spans.first
        possible = (spans.last - spans.first < self._max_length) & (spans.kind >= 0)
        p = np.zeros(len(row))
        p[possible] = np.minimum(self._marginals[row[possible], spans.kind[possible]], 1.0)
        return p
