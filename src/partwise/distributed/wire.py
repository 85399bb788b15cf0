"""Vectors of weights as messages between driver and workers: sparse if that is smaller."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Packed(NamedTuple):
    """A vector of `size` numbers: `value` itself, or `value` at the indices `at` and zero elsewhere."""

    size: int
    at: np.ndarray | None
    value: np.ndarray

    @property
    def nbytes(self) -> int:
        return self.value.nbytes + (0 if self.at is None else self.at.nbytes)

    def add_to(self, target: np.ndarray) -> None:
        """target += the vector; the same operations in the same order on every machine."""
        if self.at is None:
            target += self.value
        else:
            target[self.at] += self.value

    def put_into(self, target: np.ndarray) -> None:
        """Write the vector's numbers to their indices in `target`; the other numbers stay."""
        target[slice(None) if self.at is None else self.at] = self.value

    def whole(self) -> np.ndarray:
        """The vector, (size,)."""
        if self.at is None:
            return self.value
        found = np.zeros(self.size, self.value.dtype)
        found[self.at] = self.value
        return found


def packed(vector: np.ndarray) -> Packed:
    """The vector in the smaller of both forms; no number changes."""
    return _at(vector, np.flatnonzero(vector))


def what_changed(before: np.ndarray, now: np.ndarray) -> Packed:
    """The numbers of `now` that differ from `before`, with their indices."""
    return _at(now, np.flatnonzero(now != before))


def _at(vector: np.ndarray, indices: np.ndarray) -> Packed:
    index = np.int32 if vector.size <= np.iinfo(np.int32).max else np.int64
    if len(indices) * (np.dtype(index).itemsize + vector.itemsize) < vector.nbytes:
        return Packed(vector.size, indices.astype(index), vector[indices])
    return Packed(vector.size, None, vector)
