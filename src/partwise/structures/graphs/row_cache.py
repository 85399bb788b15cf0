"""What has been worked out for graphs, kept for the next graph of the same form."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock

import numpy as np

_MOST_INTEGERS = 10_000_000  # 40 MB


class RowCache:
    """Rows of integers by key; those not used for the longest time go when there are too many."""

    def __init__(self, most_integers: int = _MOST_INTEGERS):
        self.most_integers = most_integers
        self._rows: OrderedDict[Hashable, np.ndarray] = OrderedDict()
        self._size = 0
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], np.ndarray]) -> np.ndarray:
        """The row of `key`, made where it is not there."""
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
