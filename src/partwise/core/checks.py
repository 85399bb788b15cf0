"""Checks of numbers that users pass: l2, l1, tolerances and weights of examples."""

from __future__ import annotations

import sys

import numpy as np

from partwise.errors import InputError


def check_positive(name: str, value: float) -> None:
    """Raise unless `value` is a finite number > 0."""
    if not isinstance(value, (int, float, np.floating, np.integer)) or not (0 < value <= sys.float_info.max):
        raise InputError(f"{name} must be a finite number > 0, not {value!r:.60}")


def check_not_negative(name: str, value: float) -> None:
    """Raise unless `value` is a finite number ≥ 0."""
    if not isinstance(value, (int, float, np.floating, np.integer)) or not (0 <= value <= sys.float_info.max):
        raise InputError(f"{name} must be a finite number >= 0, not {value!r:.60}")


def checked_weights(weights: np.ndarray | None, n_examples: int) -> np.ndarray:
    """Weights of examples, float64 (n_examples,); None means 1 each."""
    if weights is None:
        return np.ones(n_examples)
    result = np.ascontiguousarray(weights, np.float64)
    if result.shape != (n_examples,):
        raise InputError(
            f"sample_weight has shape {result.shape}; {n_examples} examples need ({n_examples},)"
        )
    if not np.isfinite(result).all() or (result < 0).any():
        raise InputError("sample_weight must be finite and non-negative")
    return result
