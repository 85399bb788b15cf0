"""A cache of the rows of graphs, for later graphs of the same form."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock

import numpy as np

# The cache holds at most so many integers of 32 bits: 40 MB.
_MOST_INTEGERS = 10_000_000


class RowCache:
    """Rows of integers by key. The least recently used rows are dropped first."""

    def __init__(self, most_integers: int = _MOST_INTEGERS):
        self.most_integers = most_integers
        self._rows: OrderedDict[Hashable, np.ndarray] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], np.ndarray]) -> np.ndarray:
        """The row of `key`, made if it is not cached."""
        with self._lock:
            row = self._rows.get(key)
            if row is not None:
                self._rows.move_to_end(key)
                return row
        row = make()
        with self._lock:
            if key not in self._rows and len(row) <= self.most_integers:
                self._rows[key] = row
                self._size += len(row)
                while self._size > self.most_integers:
                    self._size -= len(self._rows.popitem(last=False)[1])
        return row
