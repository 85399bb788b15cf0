"""Dense rows that are equal, as the embeddings of a text's words are: one of each is enough to compute scores from."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

_SAMPLE = 2048  # rows that follow each other, of which
_MOST_OF_SAMPLE = 0.7  # may be distinct
_MOST = 0.5  # share of all rows that may be distinct
_CHUNK = 4096  # rows


class DistinctRows(NamedTuple):
    """The distinct rows of a matrix.

    Attributes
    ----------
    row : int64 array, shape (n_distinct,)
        A row of each kind.
    place : int32 array, shape (n_rows,)
        Which of them each row is equal to.
    """

    row: np.ndarray
    place: np.ndarray


def distinct_rows_of(dense: np.ndarray) -> DistinctRows | None:
    """The distinct rows of a float32 matrix (n_rows, n_columns); None where they are too many to be of use."""
    n_rows = len(dense)
    begin = max(0, (n_rows - _SAMPLE) // 2)
    sample = _hashes(dense[begin : begin + _SAMPLE])
    if not n_rows or len(np.unique(sample)) > _MOST_OF_SAMPLE * len(sample):
        return None
    _, row, place = np.unique(_hashes(dense), return_index=True, return_inverse=True)
    if len(row) > _MOST * n_rows or not _are_equal(dense, row, place):
        return None
    return DistinctRows(row, place.astype(np.int32))


def _hashes(dense: np.ndarray) -> np.ndarray:
    """A number for each row, the same for equal rows, (n_rows,)."""
    factor = np.random.default_rng(0).integers(1 << 62, size=dense.shape[1]).astype(np.uint64) * 2 + 1
    bits, result = dense.view(np.uint32), np.empty(len(dense), np.uint64)
    for first in range(0, len(dense), _CHUNK):
        result[first : first + _CHUNK] = bits[first : first + _CHUNK] @ factor
    return result


def _are_equal(dense: np.ndarray, row: np.ndarray, place: np.ndarray) -> bool:
    """Whether all rows are what they are taken for."""
    return all(
        np.array_equal(dense[first : first + _CHUNK], dense[row[place[first : first + _CHUNK]]])
        for first in range(0, len(dense), _CHUNK)
    )
