# mypy: ignore-errors
"""What a structure answers inside compiled code; one file per structure implements these.

All take the structure's specification, the example's layout (its length
first), and a flat vector of part scores (with
``simd.LANES`` entries of slack behind it); `work` is the structure's workspace, which only grows.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.compiled.dispatch import kernel, structure_kernel


@structure_kernel
def expectations(
    specification: Any, layout: np.ndarray, scores: np.ndarray, counts: np.ndarray, work: Any
) -> float:
    """Return log Σ_y exp(score of y) and write its gradient, the expected part counts."""
    raise TypeError


@structure_kernel
def log_partition(specification: Any, layout: np.ndarray, scores: np.ndarray, work: Any) -> float:
    """Return log Σ_y exp(score of y)."""
    raise TypeError


@structure_kernel
def best(specification: Any, layout: np.ndarray, scores: np.ndarray, counts: np.ndarray, work: Any) -> float:
    """Return max_y (score of y) and write the part counts of a maximiser."""
    raise TypeError


@structure_kernel
def labelling(specification: Any, layout: np.ndarray, counts: np.ndarray, labels: np.ndarray) -> None:
    """Write the labels, one a position, of the labelling whose part counts these are."""
    raise TypeError


@kernel
def largest_nodes(length, width, counts, labels):  # type: ignore
    """The largest of the first parts, `width` for each position: what most structures register."""
    for t in range(length):
        label = 0
        for j in range(1, width):
            if counts[t * width + j] > counts[t * width + label]:
                label = j
        labels[t] = label
