"""Costs of wrong labels."""

from __future__ import annotations

import numpy as np

from partwise.errors import InputError


def cost_matrix(cost: str | np.ndarray, n_labels: int) -> np.ndarray:
    """Cost of predicting label j if i is true.

    Parameters
    ----------
    cost : "hamming", "zero_one" or ndarray (n_labels, n_labels)
        Hamming counts wrong labels; for plain classes it is the 0-1 cost. A matrix [true, predicted]
        must be finite, non-negative, and zero on the diagonal.

    Returns
    -------
    ndarray (n_labels, n_labels) of float64
    """
    if isinstance(cost, str):
        if cost not in ("hamming", "zero_one"):
            raise InputError(
                f"cost must be 'hamming', 'zero_one' or a matrix [true, predicted], not {cost!r}"
            )
        return 1.0 - np.eye(n_labels)
    matrix = np.asarray(cost, np.float64)
    if matrix.shape != (n_labels, n_labels):
        raise InputError(f"cost has shape {matrix.shape}; {n_labels} labels need ({n_labels}, {n_labels})")
    if not np.isfinite(matrix).all() or (matrix < 0).any() or np.diag(matrix).any():
        raise InputError("cost must be finite and non-negative, with zeros on the diagonal")
    return matrix
