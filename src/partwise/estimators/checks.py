"""What users may give: checks of sizes and kinds that estimators make before any work."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence, Set
from typing import Any

import numpy as np

from partwise.core.losses import LARGEST_SIZE
from partwise.errors import InputError


def is_sparse(X: Any) -> bool:
    """Whether X is a SciPy matrix; before anybody has imported SciPy there are none."""
    sparse = sys.modules.get("scipy.sparse")
    return sparse is not None and sparse.issparse(X)


def check_choice(name: str, value: Any, choices: Sequence[str]) -> None:
    """Raise unless `value` is one of the choices."""
    if not isinstance(value, str) or value not in choices:
        raise InputError(f"{name} must be {' or '.join(map(repr, choices))}, not {value!r:.60}")


def check_cost(cost: Any) -> None:
    """Raise at a matrix of costs, or one of several by name, that is none of numbers of a usable size; names of costs
    are left to the structure."""
    for each in cost.values() if isinstance(cost, Mapping) else [cost]:
        if not isinstance(each, str):
            real_numbers(each, "cost")


def real_numbers(values: Any, name: str) -> np.ndarray:
    """A float64 array of numbers from 0 to `LARGEST_SIZE` in absolute value, nothing in it masked."""
    refuse_masked(values, name)
    try:
        array = np.asarray(values)
        if array.dtype.kind not in "biufO":
            raise TypeError
        array = array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} is {values!r:.60}; it must be an array of real numbers") from None
    if array.size and np.nanmax(np.abs(array), initial=0.0) > LARGEST_SIZE:
        at = ", ".join(map(str, np.argwhere(np.abs(array) > LARGEST_SIZE)[0].tolist()))
        largest = f"{np.nanmax(np.abs(array)):g}"
        raise InputError(
            f"{name}[{at}] has the size {largest}, and objectives computed from more than {LARGEST_SIZE:g} "
            "are not reliable: scale it down"
        )
    return array


def check_targets(y: Any, estimator: str) -> None:
    """Raise if y is missing; scikit-learn's own checks look for these words."""
    if y is None:
        raise InputError(f"a {estimator} requires y to be passed, but the target y is None")


def checked_weights(sample_weight: Any, n: int, examples: str = "sequences") -> np.ndarray:
    """Finite weights ≥ 0, float64 (n,); all 1 for None."""
    if sample_weight is None:
        return np.ones(n)
    weights = real_numbers(sample_weight, "sample_weight")
    if weights.shape != (n,):
        raise InputError(f"sample_weight has shape {weights.shape}, but X has {n} {examples}")
    wrong = ~np.isfinite(weights) | (weights < 0)
    if wrong.any():
        at = int(np.argmax(wrong))
        raise InputError(f"sample_weight[{at}] is {weights[at]}; weights are finite and >= 0")
    return weights


def training_weights(sample_weight: Any, used: np.ndarray, examples: str = "sequences") -> np.ndarray | None:
    """Checked weights of all examples, or None.

    Parameters
    ----------
    used : bool array, shape (n_examples,)
        False for examples without positions: at least one other weight must not be zero.
    """
    if sample_weight is None:
        return None
    weights = checked_weights(sample_weight, len(used), examples)
    if not weights[used].any():
        raise InputError(f"sample_weight is zero for all {examples}")
    return weights


def refuse_masked(values: Any, name: str) -> None:
    """Raise at an array with masked entries, whose values are not meant to be read."""
    if np.ma.isMaskedArray(values) and np.ma.is_masked(values):
        raise InputError(f"{name} has masked entries; fill them in, or leave them out")


def check_ordered(values: Any, name: str, what: str) -> None:
    """Raise unless `values` can be read one after another, in an order that means something."""
    kind = type(values).__name__
    if isinstance(values, (str, bytes, Mapping)) or not _is_iterable(values):
        raise InputError(f"{name} is {kind}; it must be {what}, not {values!r:.60}")
    if isinstance(values, (Set, set)) and not hasattr(values, "mapping"):  # views of dicts have an order
        raise InputError(f"{name} is {kind}, which has no order; it must be {what}")
    refuse_masked(values, name)


def _is_iterable(values: Any) -> bool:
    return isinstance(values, Iterable) and not (hasattr(values, "ndim") and values.ndim == 0)


def checked_csr(matrix: Any, name: str) -> Any:
    """A sparse matrix as CSR, its indices checked: compiled code does not look where it reads.

    Parameters
    ----------
    matrix : sparse matrix or array of any format
        It is left as it is, and what it claims of itself (sorted, no duplicates) is found out anew.
    """
    if matrix.ndim != 2:
        raise InputError(f"{name} has {matrix.ndim} axes; a sparse matrix has two")
    if matrix.dtype.kind not in "biuf":
        raise InputError(f"{name} is a sparse matrix of {matrix.dtype}; its entries must be real numbers")
    if max(matrix.shape) >= 2**31 - 1:
        raise InputError(f"{name} has shape {matrix.shape}; at most 2^31 - 2 rows and columns are possible")
    try:
        if matrix.format in ("csr", "csc", "bsr"):
            parts = (matrix.data, matrix.indices, matrix.indptr)
            matrix = type(matrix)(parts, shape=matrix.shape)
            matrix.check_format(full_check=True)
        elif matrix.format == "coo":
            _check_coordinates(matrix)
        compressed = matrix.tocsr()
        compressed.check_format(full_check=True)
    except (ValueError, TypeError, IndexError, OverflowError) as error:
        raise InputError(f"{name} is a damaged sparse matrix: {error}") from None
    return compressed


def _check_coordinates(matrix: Any) -> None:
    for places, size, what in zip((matrix.row, matrix.col), matrix.shape, ("row", "column"), strict=True):
        if len(places) != len(matrix.data):
            raise ValueError(f"{len(matrix.data)} entries have {len(places)} {what} indices")
        if len(places) and not 0 <= places.min() <= places.max() < size:
            raise ValueError(f"{what} indices must be from 0 to {size - 1}")


def as_checked(X: Any) -> Any:
    """X with its indices checked if it is sparse, and refused if entries are masked; else as it is."""
    if is_sparse(X):
        return checked_csr(X, "X")
    refuse_masked(X, "X")
    return X
