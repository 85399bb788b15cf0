"""What a structure answers inside compiled code; one file per structure implements these.

All take the structure's specification, the example's length, and a flat vector of part scores (with
``simd.LANES`` entries of slack behind it); `work` is the structure's workspace, which only grows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.kernels.dispatch import structure_kernel


@structure_kernel
def expectations(specification: Any, length: int, scores: np.ndarray, counts: np.ndarray, work: Any) -> float:
    """Return log Σ_y exp(score of y) and write its gradient, the expected part counts."""
    raise TypeError


@structure_kernel
def log_partition(specification: Any, length: int, scores: np.ndarray, work: Any) -> float:
    """Return log Σ_y exp(score of y)."""
    raise TypeError


@structure_kernel
def best(specification: Any, length: int, scores: np.ndarray, counts: np.ndarray, work: Any) -> float:
    """Return max_y (score of y) and write the part counts of a maximiser."""
    raise TypeError
