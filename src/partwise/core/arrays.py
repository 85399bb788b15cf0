"""Small helpers over flat arrays with offsets."""

from __future__ import annotations

import mmap
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

# Bytes of an array from which NumPy asks for large pages, which take memory as a whole.
_LARGE_PAGES_FROM = 2**22


def offsets(sizes: ArrayLike) -> np.ndarray:
    """Offsets of consecutive blocks of these sizes, and the end of the last one: int64 (n + 1,)."""
    sizes = np.asarray(sizes)
    result = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, dtype=np.int64, out=result[1:])
    return result


def untouched(size: int, dtype: Any) -> np.ndarray:
    """Zeros (size,) that take memory page by page, when a page is first written."""
    n_bytes = size * np.dtype(dtype).itemsize
    if n_bytes < _LARGE_PAGES_FROM or not hasattr(mmap, "MADV_NOHUGEPAGE"):
        return np.zeros(size, dtype)
    pages = mmap.mmap(-1, n_bytes, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    pages.madvise(mmap.MADV_NOHUGEPAGE)
    return np.frombuffer(pages, dtype)


def positions(lengths: np.ndarray) -> np.ndarray:
    """0, 1, … within each example, flat over all: int64 (lengths.sum(),)."""
    starts = offsets(lengths)
    return np.arange(starts[-1]) - np.repeat(starts[:-1], lengths)


def ranges(starts: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """The numbers starts[i] … starts[i] + sizes[i] − 1 for every i, one range after another: int64 (sizes.sum(),)."""
    ptr = offsets(sizes)
    return np.arange(ptr[-1]) + np.repeat(starts - ptr[:-1], sizes)


def block_of(ptr: np.ndarray) -> np.ndarray:
    """The index of the block of every entry, int64 (ptr[-1] - ptr[0],)."""
    return np.repeat(np.arange(len(ptr) - 1), np.diff(ptr))


def after_the_first(lengths: np.ndarray) -> np.ndarray:
    """Indices, in a flat array over all positions, of all positions except the first of every example."""
    return np.flatnonzero(positions(lengths) > 0)


def locate(index: int, lengths: np.ndarray) -> tuple[int, int]:
    """The example, and the position within it, of an index into a flat array over all positions."""
    starts = offsets(lengths)
    example = int(np.searchsorted(starts, index, side="right")) - 1
    return example, index - int(starts[example])
