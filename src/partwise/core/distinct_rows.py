"""Equal dense rows, such as word embeddings: scores are computed once for each distinct row."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_SAMPLE = 2048  # Consecutive rows that decide whether it pays to look for equal rows.
_MOST_OF_SAMPLE = 0.7  # Largest share of distinct rows in the sample: with more, a search would not pay.
_MOST = 0.5  # Largest share of distinct rows of all: with more, the saved products cost less than the indirection.
_CHUNK = 4096  # Rows that are hashed or compared at a time, which bounds the memory for it.


class DistinctRows(NamedTuple):
    """The distinct rows of a matrix.

    Attributes
    ----------
    row : int64 array, shape (n_distinct,)
        One row of each group of equal rows.
    group : int32 array, shape (n_rows,)
        The group of each row.
    """

    row: np.ndarray
    group: np.ndarray


def distinct_rows_of(dense: np.ndarray) -> DistinctRows | None:
    """The distinct rows of a float32 matrix (n_rows, n_columns); None if too many rows are distinct."""
    n_rows = len(dense)
    begin = max(0, (n_rows - _SAMPLE) // 2)
    sample = _hashes(dense[begin : begin + _SAMPLE])
    if not n_rows or len(np.unique(sample)) > _MOST_OF_SAMPLE * len(sample):
        return None
    _, row, group = np.unique(_hashes(dense), return_index=True, return_inverse=True)
    if len(row) > _MOST * n_rows or not _are_equal(dense, row, group):
        return None
    return DistinctRows(row, group.astype(np.int32))


def _hashes(dense: np.ndarray) -> np.ndarray:
    """A hash of each row, uint64 (n_rows,)."""
    factor = np.random.default_rng(0).integers(1 << 62, size=dense.shape[1]).astype(np.uint64) * 2 + 1
    bits, result = dense.view(np.uint32), np.empty(len(dense), np.uint64)
    for first in range(0, len(dense), _CHUNK):
        result[first : first + _CHUNK] = bits[first : first + _CHUNK] @ factor
    return result


def _are_equal(dense: np.ndarray, row: np.ndarray, group: np.ndarray) -> bool:
    """Whether all rows of each group are equal: rows of equal hashes might differ."""
    return all(
        np.array_equal(dense[first : first + _CHUNK], dense[row[group[first : first + _CHUNK]]])
        for first in range(0, len(dense), _CHUNK)
    )
