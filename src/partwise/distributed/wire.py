"""Vectors of weights on their way between driver and workers: sparse where that is smaller."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np


class Packed(NamedTuple):
    """A vector of `size` numbers: all of `value`, or `value` at the places `at` and zero elsewhere."""

    size: int
    at: np.ndarray | None
    value: np.ndarray

    @property
    def nbytes(self) -> int:
        return self.value.nbytes + (0 if self.at is None else self.at.nbytes)

    def add_to(self, target: np.ndarray) -> None:
        """target += the vector; the same operations in the same order wherever it is done."""
        if self.at is None:
            target += self.value
        else:
            target[self.at] += self.value

    def put_into(self, target: np.ndarray) -> None:
        """Write the vector's numbers to their places in `target`; the others stay."""
        target[slice(None) if self.at is None else self.at] = self.value

    def whole(self) -> np.ndarray:
        """The vector, (size,)."""
        if self.at is None:
            return self.value
        found = np.zeros(self.size, self.value.dtype)
        found[self.at] = self.value
        return found


def packed(vector: np.ndarray) -> Packed:
    """The smaller of the two ways; no number is changed."""
    return _at(vector, np.flatnonzero(vector))


def what_changed(before: np.ndarray, now: np.ndarray) -> Packed:
    """The numbers of `now` that are others than `before`, to be put into their places."""
    return _at(now, np.flatnonzero(now != before))


def _at(vector: np.ndarray, places: np.ndarray) -> Packed:
    index = np.int32 if vector.size <= np.iinfo(np.int32).max else np.int64
    if len(places) * (np.dtype(index).itemsize + vector.itemsize) < vector.nbytes:
        return Packed(vector.size, places.astype(index), vector[places])
    return Packed(vector.size, None, vector)
