"""Small helpers over flat arrays with offsets."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike


def offsets(sizes: ArrayLike) -> np.ndarray:
    """Where consecutive blocks of these sizes start, and where the last one ends: int64 (n + 1,)."""
    sizes = np.asarray(sizes, np.int64)
    result = np.zeros(len(sizes) + 1, np.int64)
    np.cumsum(sizes, out=result[1:])
    return result


def positions(lengths: np.ndarray) -> np.ndarray:
    """0, 1, … within each example, flat over all: int64 (lengths.sum(),)."""
    starts = offsets(lengths)
    return np.arange(starts[-1]) - np.repeat(starts[:-1], lengths)


def locate(index: int, lengths: np.ndarray) -> tuple[int, int]:
    """Example and position within it of an index into a flat array over all positions."""
    starts = offsets(lengths)
    example = int(np.searchsorted(starts, index, side="right")) - 1
    return example, index - int(starts[example])
