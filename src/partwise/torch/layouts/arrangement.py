"""The parts of a batch's examples as compiled code reads them, with a cache for batches of the same form."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Any, NamedTuple

import numpy as np

from partwise.structures.contract import PartLists, Shapes, Structure
from partwise.torch.layouts.part_map import PartMap


class Arrangement(NamedTuple):
    """Parts of the examples of a batch, as compiled code reads them.

    Attributes
    ----------
    structure : Structure
        The structure whose parts the scores are, for example a chain with tied transitions or with its own edges.
    specification : NamedTuple
    shapes : Shapes
    part_ptr : int64 array, shape (B + 1,)
    maps : tuple of PartMap
        For every score tensor, the parts that its entries score. Parts that no entry scores are 0.
    """

    structure: Structure
    specification: Any
    shapes: Shapes
    part_ptr: np.ndarray
    maps: tuple[PartMap, ...]

    def to_tensors(
        self, values: np.ndarray, sizes: tuple[tuple[int, ...], ...], dtype: Any = np.float64
    ) -> list[np.ndarray]:
        """Values of all parts as arrays of the tensors' sizes, summed if an entry scores several."""
        return [
            own.to_entries(values, size, np.dtype(dtype)) for own, size in zip(self.maps, sizes, strict=True)
        ]

    def counts_of(self, found: PartLists) -> np.ndarray:
        """How often labellings use each part, float64 (part_ptr[B],)."""
        part = found.part + np.repeat(self.part_ptr[:-1], np.diff(found.ptr))
        amounts = found.amount if len(found.amount) else None
        return np.bincount(part, amounts, int(self.part_ptr[-1])).astype(np.float64)

    @property
    def n_bytes(self) -> int:
        """Bytes of the maps, which take most of the memory."""
        return sum(each.n_bytes for each in self.maps) + self.part_ptr.nbytes


class ArrangementCache:
    """Arrangements of the last batches, up to a number of bytes. In training, many batches have the same form."""

    def __init__(self, most_bytes: int):
        self.most_bytes, self.n_bytes = most_bytes, 0
        self.found: OrderedDict[Any, Arrangement] = OrderedDict()
        self.lock = Lock()

    def get(self, key: Any, make: Callable[[], Arrangement]) -> Arrangement:
        with self.lock:
            if key in self.found:
                self.found.move_to_end(key)
                return self.found[key]
        made = make()
        with self.lock:
            if key not in self.found:
                self.found[key] = made
                self.n_bytes += made.n_bytes
            while self.n_bytes > self.most_bytes and len(self.found) > 1:
                self.n_bytes -= self.found.popitem(last=False)[1].n_bytes
        return made


# Bounds the cache to 64 MiB, enough for some dozens of batch forms.
CACHE = ArrangementCache(1 << 26)
