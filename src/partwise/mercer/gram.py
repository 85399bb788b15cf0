"""Kernel matrices in blocks of rows. The first rows stay in memory; rows beyond the memory limit are recomputed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from partwise.mercer.functions import KernelFunction, check_is_kernel, check_square

_SHARE_AT_WORK = 0.25  # Share of the memory limit for rows that are recomputed and for temporary arrays.
_MOST_ROWS = 1024  # Rows that are recomputed at a time: more would not make the products faster.


class Gram:
    """The symmetric matrix k(x_s, x_t) of n points, used through its products and rows.

    Parameters
    ----------
    n : int
    compute : callable
        ``compute(rows, columns)`` returns a block. None for `columns` means all columns.
    megabytes : float
        The memory limit for kept and recomputed rows together.
    dtype : dtype
        float32 or float64.

    Attributes
    ----------
    n_kept : int
        Number of rows in memory, the first ones.
    n_computed : int
        Number of rows computed so far, for measurements.
    """

    def __init__(
        self,
        n: int,
        compute: Callable[[np.ndarray, np.ndarray | None], np.ndarray],
        megabytes: float,
        dtype: Any,
    ):
        self.n, self.dtype, self._compute = n, np.dtype(dtype), compute
        budget, row = megabytes * 2**20, n * self.dtype.itemsize
        self.n_kept, self.n_computed = int(min(n, (1.0 - _SHARE_AT_WORK) * budget // max(row, 1))), 0
        # A kernel function needs about three matrices of this size: the values and two temporary ones.
        self.rows_at_work = int(np.clip(_SHARE_AT_WORK * budget / (3 * max(row, 1)), 1, _MOST_ROWS))
        self._kept = np.empty((self.n_kept, n), self.dtype)
        for first, last in self._pieces(0, self.n_kept):
            self._kept[first:last] = self._computed(np.arange(first, last))

    @classmethod
    def of_points(cls, function: KernelFunction, points: np.ndarray, megabytes: float) -> Gram:
        """The kernel matrix of the rows of `points`, or `points` itself if it is precomputed."""
        n = len(points)
        if function.is_precomputed:
            check_square(points)
            whole = np.ascontiguousarray(points, function.dtype)

            def block(rows: np.ndarray, columns: np.ndarray | None) -> np.ndarray:
                return whole[rows] if columns is None else whole[np.ix_(rows, columns)]

            check_is_kernel(block, n, function.dtype)
            gram = cls(n, block, 0.0, function.dtype)
            gram._kept, gram.n_kept = whole, n
            return gram
        points = np.ascontiguousarray(points, function.dtype)

        def compute(rows: np.ndarray, columns: np.ndarray | None) -> np.ndarray:
            return function.between(points[rows], points if columns is None else points[columns])

        check_is_kernel(compute, n, function.dtype)
        return cls(n, compute, megabytes, function.dtype)

    @classmethod
    def of_neighbours(cls, gram: Gram, second: np.ndarray, megabytes: float) -> Gram:
        """1 + k(x_{s−1}, x_{t−1}) k(x_s, x_t) over the positions `second`, the second ones of pairs of neighbours."""

        def compute(rows: np.ndarray, columns: np.ndarray | None) -> np.ndarray:
            across = second if columns is None else second[columns]
            here = gram.rows(second[rows])[:, across]
            here *= gram.rows(second[rows] - 1)[:, across - 1]
            here += 1
            return here

        return cls(len(second), compute, megabytes, gram.dtype)

    @property
    def kept(self) -> np.ndarray:
        """The rows in memory, (n_kept, n), not copied."""
        return self._kept

    def diagonal(self) -> np.ndarray:
        """k(x_t, x_t), (n,) of float64."""
        result = np.zeros(self.n)
        for first, last in self._pieces(0, self.n):
            rows = np.arange(first, last)
            if last <= self.n_kept:
                result[rows] = self._kept[rows, rows]
            else:
                result[rows] = np.diag(self._compute(rows, rows))
        return result

    def multiply(self, vectors: np.ndarray) -> np.ndarray:
        """K @ vectors, (n, width) of float64."""
        vectors = np.ascontiguousarray(vectors, self.dtype)
        result = np.empty(vectors.shape)
        result[: self.n_kept] = self._kept @ vectors
        for first, last in self._pieces(self.n_kept, self.n):
            result[first:last] = self._computed(np.arange(first, last)) @ vectors
        return result

    def rows(self, rows: np.ndarray) -> np.ndarray:
        """K[rows], a copy of shape (len(rows), n)."""
        if self.n_kept == self.n:
            return self._kept[rows]
        result = np.empty((len(rows), self.n), self.dtype)
        kept = rows < self.n_kept
        result[kept] = self._kept[rows[kept]]
        missing = np.flatnonzero(~kept)
        for first, last in self._pieces(0, len(missing)):
            here = missing[first:last]
            result[here] = self._computed(rows[here])
        return result

    def _computed(self, rows: np.ndarray) -> np.ndarray:
        self.n_computed += len(rows)
        return self._compute(rows, None)

    def _pieces(self, first: int, last: int) -> Iterator[tuple[int, int]]:
        for start in range(first, last, self.rows_at_work):
            yield start, min(start + self.rows_at_work, last)
