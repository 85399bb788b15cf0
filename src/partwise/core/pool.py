"""Objects that serve one thread at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Pool(Generic[T]):
    """Objects that serve one thread at a time. As many are made as are ever in use at once.

    Parameters
    ----------
    make : callable
        Makes another one.
    """

    def __init__(self, make: Callable[[], T]):
        self._make = make
        self._free: deque[T] = deque()

    def take(self) -> T:
        """One that nobody uses. Give it back afterwards; after an exception, do not."""
        try:
            return self._free.pop()
        except IndexError:
            return self._make()

    def give_back(self, one: T) -> None:
        self._free.append(one)

    def __reduce__(self) -> tuple[type[Pool[T]], tuple[Callable[[], T]]]:
        """Copies and other processes make their own."""
        return Pool, (self._make,)
