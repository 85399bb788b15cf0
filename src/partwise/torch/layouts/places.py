"""Which parts the entries of a score tensor score, by runs where they are long: a run is copied without an index."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.core.arrays import ranges

_LONG = 32  # entries of a run, on average, for which a slice is copied sooner than they are looked up


class Places(NamedTuple):
    """Parts and the entries of a flattened tensor that score them, each once.

    Attributes
    ----------
    part, entry : int64 arrays (n,)
        One part and its entry each, or the first ones of runs.
    lengths : int64 array (n,), or None where there are no runs
        Parts of each run.
    """

    part: np.ndarray
    entry: np.ndarray
    lengths: np.ndarray | None = None

    @classmethod
    def of(cls, part: np.ndarray, entry: np.ndarray) -> Places:
        """Of pairs, one by one; as runs where they make long ones."""
        begins = np.append(True, (np.diff(part) != 1) | (np.diff(entry) != 1))[: len(part)]
        first = np.flatnonzero(begins)
        if len(first) * _LONG > len(part):
            return cls(part, entry)
        return cls(part[first], entry[first], np.diff(np.append(first, len(part))))

    @classmethod
    def runs(cls, part: np.ndarray, entry: np.ndarray, lengths: np.ndarray) -> Places:
        """Of runs; one by one where they are short."""
        found = cls(part, entry, lengths)
        return found if len(part) * _LONG <= lengths.sum() else cls(*found.pairs())

    def pairs(self) -> tuple[np.ndarray, np.ndarray]:
        """All parts and their entries, int64 (n_parts,) each."""
        if self.lengths is None:
            return self.part, self.entry
        return ranges(self.part, self.lengths), ranges(self.entry, self.lengths)

    def to_parts(self, scores: np.ndarray, parts: np.ndarray) -> None:
        """Write the entries of `scores`, flattened, to their parts."""
        if self.lengths is None:
            parts[self.part] = scores[self.entry]
            return
        for part, entry, n in zip(
            self.part.tolist(), self.entry.tolist(), self.lengths.tolist(), strict=True
        ):
            parts[part : part + n] = scores[entry : entry + n]

    def to_entries(self, parts: np.ndarray, size: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Values of the parts in an array of the tensor's size, 0 where an entry scores none."""
        result = np.zeros(int(np.prod(size)), dtype)
        if self.lengths is None:
            result[self.entry] = parts[self.part]
        else:
            for part, entry, n in zip(
                self.part.tolist(), self.entry.tolist(), self.lengths.tolist(), strict=True
            ):
                result[entry : entry + n] = parts[part : part + n]
        return result.reshape(size)
