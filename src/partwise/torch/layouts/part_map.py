"""The parts that the entries of a score tensor score."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.core.arrays import ranges

_LONG = 32  # Mean entries of a run from which copying slices is faster than an index.


class PartMap(NamedTuple):
    """Parts, each once, and the entries of a flattened tensor that score them, as blocks of one width or as runs.

    Attributes
    ----------
    part, entry : int64 arrays (n,)
        The first part, and its entry, of blocks or of runs.
    width : int
        Number of parts of each block.
    lengths : int64 array (n,), or None
        Number of parts of each run; None for blocks.
    repeated : bool
        Whether an entry may score several parts. Then every part has its own pair.
    """

    part: np.ndarray
    entry: np.ndarray
    width: int = 1
    lengths: np.ndarray | None = None
    repeated: bool = False

    @classmethod
    def of(cls, part: np.ndarray, entry: np.ndarray) -> PartMap:
        """A map of single pairs, stored as runs if these are long."""
        begins = np.append(True, (np.diff(part) != 1) | (np.diff(entry) != 1))[: len(part)]
        first = np.flatnonzero(begins)
        if len(first) * _LONG > len(part):
            return cls(part, entry)
        return cls(part[first], entry[first], lengths=np.diff(np.append(first, len(part))))

    @classmethod
    def runs(cls, part: np.ndarray, entry: np.ndarray, lengths: np.ndarray) -> PartMap:
        """A map of runs, stored as single pairs if the runs are short."""
        found = cls(part, entry, lengths=lengths)
        return found if len(part) * _LONG <= lengths.sum() else cls(*found.pairs())

    @property
    def n_bytes(self) -> int:
        return self.part.nbytes + self.entry.nbytes + (0 if self.lengths is None else self.lengths.nbytes)

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """All parts and their entries, int64 (n_parts,) each."""
        if self.lengths is not None:
            return ranges(self.part, self.lengths), ranges(self.entry, self.lengths)
        if self.width == 1:
            return self.part, self.entry
        within = np.arange(self.width)
        return (self.part[:, None] + within).ravel(), (self.entry[:, None] + within).ravel()

    def to_parts(self, scores: np.ndarray, parts: np.ndarray) -> None:
        """Write the entries of `scores`, flattened, to their parts."""
        self._copy(scores, self.entry, parts, self.part)

    def to_entries(self, parts: np.ndarray, size: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Values of the parts in an array of the tensor's size. An entry that scores several parts gets their sum."""
        if self.repeated:
            found = np.bincount(self.entry, parts[self.part], int(np.prod(size)))
            return found.reshape(size).astype(dtype, copy=False)
        result = np.zeros(int(np.prod(size)), dtype)
        self._copy(parts, self.part, result, self.entry)
        return result.reshape(size)

    def _copy(self, source: np.ndarray, begins: np.ndarray, target: np.ndarray, into: np.ndarray) -> None:
        if self.lengths is not None:
            for a, b, n in zip(begins.tolist(), into.tolist(), self.lengths.tolist(), strict=True):
                target[b : b + n] = source[a : a + n]
        elif self.width == 1 or not len(begins):
            target[into] = source[begins]
        else:
            _windows(target, self.width)[into] = _windows(source, self.width)[begins]


def _windows(array: np.ndarray, width: int) -> np.ndarray:
    """All windows of `width` entries, (n − width + 1, width), without a copy."""
    step = array.strides[0]
    shape = (len(array) - width + 1, width)
    return np.lib.stride_tricks.as_strided(array, shape, (step, step))
