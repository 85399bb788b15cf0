"""Counts the keys of rows, to choose which become features."""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.core.rows import AttributeRows
from partwise.features.keys.program import Compiled
from partwise.features.keys.records import WordCodes
from partwise.features.keys.tables import move_counts, number_rows
from partwise.features.keys.workspace import FIRST_ROWS, grow, workspace

# While keys are counted, at most this many of the lowest have a place of their own: 16 MB.
_MOST_DIRECT = 2**21


class KeyCounter:
    """Counts the keys of rows, of all at once or batch by batch, and numbers them in the order of first occurrence."""

    def __init__(self, compiled: Compiled) -> None:
        self._program, self._size = compiled.program, compiled.size
        self._n_found = 0
        # Both hold (number + 1) * 2^32 + occurrences: of the lowest keys, and of others beside the key.
        self._direct = np.zeros(0, np.int64)
        self._table = np.zeros((2**12, 2), np.int64)

    def add(self, words: WordCodes, rows: Any, with_ids: bool = False) -> AttributeRows:
        """Count the keys of rows; returns the rows of their numbers, empty without `with_ids`."""
        work = workspace(self._program, words)
        n_rows, most_keys, row, n_written = int(rows[0][-1]), len(work.keys), 0, 0
        if not len(self._direct):
            self._direct = np.zeros(min(self._size, 8 * n_rows + 1024, _MOST_DIRECT), np.int64)
        row_ptr = np.zeros(n_rows * with_ids + 1, np.int64)
        ids = np.empty(with_ids * min(n_rows, FIRST_ROWS) * most_keys, np.int32)
        while True:
            row, self._n_found, n_written = number_rows(
                self._program, words, rows, row, n_rows, self._direct, self._table, work, self._n_found, row_ptr,
                ids, n_written,
            )  # fmt: skip
            if row == n_rows:
                break
            if 2 * (self._n_found + most_keys) > len(self._table):
                larger = np.zeros((1 << (4 * (self._n_found + most_keys)).bit_length(), 2), np.int64)
                move_counts(self._table, larger)
                self._table = larger
            else:
                grow(ids, n_written, row, n_rows, most_keys)
        ids.resize(n_written, refcheck=False)
        return AttributeRows(row_ptr, ids)

    def found(self) -> tuple[np.ndarray, np.ndarray]:
        """The distinct keys in the order of their numbers, and how often each occurs, int64."""
        low, others = np.flatnonzero(self._direct), self._table[self._table[:, 1] > 0]
        all_keys, both = np.append(low, others[:, 0]), np.append(self._direct[low], others[:, 1])
        keys, counts = np.empty((2, len(both)), np.int64)
        keys[(both >> 32) - 1], counts[(both >> 32) - 1] = all_keys, both & 0xFFFFFFFF
        return keys, counts
