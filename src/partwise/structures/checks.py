"""Checks of arguments that users pass to structures: scores, labels, counts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from partwise.core.memory_limits import machine_bytes
from partwise.errors import InputError

_COUNTED = 30.0  # logarithm of the number of labellings above which `k` is taken to be smaller


def require_possible(log_totals: np.ndarray, single: bool) -> None:
    """Raise if a best score or log-partition is −inf."""
    if np.any(log_totals == -np.inf):
        where = "" if single else f" in sequence {int(np.argmax(log_totals == -np.inf))}"
        raise InputError(f"scores{where}: every labelling scores −inf or is masked out")


def is_single(scores: Any) -> bool:
    """Whether these are the scores of one example, a matrix, and not of a list of examples."""
    if isinstance(scores, np.ndarray):
        return scores.ndim != 3
    if not isinstance(scores, list | tuple):
        return True
    return len(scores) > 0 and np.ndim(scores[0]) < 2


def checked_scores(values: Any, name: str, shape: tuple[int | None, ...]) -> np.ndarray:
    """`values` as float64, without NaN or +inf, of this shape; None stands for any size."""
    try:
        array = real_array(values)
    except (TypeError, ValueError, OverflowError):
        raise InputError(f"{name} must be an array of real numbers of shape {shape_text(shape)}") from None
    fits = array.ndim == len(shape) and all(
        s is None or s == n for s, n in zip(shape, array.shape, strict=True)
    )
    if not fits:
        raise InputError(f"{name} has shape {np.shape(values)}, expected {shape_text(shape)}")
    if not (array < np.inf).all():
        raise InputError(f"{name} contains NaN or +inf; scores may be any number or −inf")
    return array


def real_array(values: Any) -> np.ndarray:
    """`values` as a float64 array. TypeError for complex numbers, whose imaginary part would be lost."""
    array = np.asarray(values)
    if array.dtype.kind == "c":
        raise TypeError("complex numbers")
    return np.asarray(array, np.float64, order="C")


def shape_text(shape: Sequence[int | None]) -> str:
    words = ["length" if size is None else str(size) for size in shape]
    return "(" + ", ".join(words) + ("," if len(words) == 1 else "") + ")"


def checked_count(value: Any, name: str, most: float = np.inf) -> int:
    """`value` as an int from 1 to `most`."""
    if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
        raise InputError(f"{name} must be an integer of at least 1, not {value!r:.40}")
    if value > most:
        raise InputError(f"{name} may be {int(most):,} at the most, not {value!r:.40}")
    return int(value)


def checked_samples(n_samples: Any, length: int = 1) -> int:
    """`n_samples`, if that many labellings of `length` positions fit in the machine's memory."""
    most = machine_bytes() / (8 * max(length, 1))
    return checked_count(n_samples, "n_samples", most=min(most, 2**31 - 1))


def room_for_best(k: int, log_count: float, n_numbers: float) -> int:
    """How many labellings a list of the k best holds: `k`, or all there are.

    Raises if the lists do not fit in the machine's memory.

    Parameters
    ----------
    log_count : float
        Logarithm of the number of labellings.
    n_numbers : float
        Numbers of 8 bytes that are kept for each of the k.
    """
    room = k if log_count > _COUNTED else max(1, min(k, round(np.exp(log_count))))
    if 8 * n_numbers * room > machine_bytes():
        raise InputError(
            f"k={k:,} best labellings take {8e-9 * n_numbers * room:,.1f} GB of memory: ask for fewer"
        )
    return room


def checked_labels(y: Any, name: str, n_labels: int) -> np.ndarray:
    """`y` as int64 labels below `n_labels`, one axis."""
    array = np.asarray(y)
    if array.ndim != 1 or (array.size and array.dtype.kind not in "iu"):
        raise InputError(f"{name} must be a sequence of integer labels")
    if array.size and (array.min() < 0 or array.max() >= n_labels):
        raise InputError(f"{name} holds label {array.max()}; labels run from 0 to {n_labels - 1}")
    return np.ascontiguousarray(array, np.int64)


def checked_mask(mask: Any, name: str, shape: tuple[int, ...]) -> np.ndarray | None:
    """`mask` as bool of this shape; None stays None and allows everything."""
    if mask is None:
        return None
    array = np.asarray(mask)
    if array.shape != shape:
        raise InputError(f"{name} has shape {array.shape}, expected {shape_text(shape)}")
    if not np.isin(array, (0, 1)).all():
        raise InputError(f"{name} must hold booleans: True where a label is allowed")
    return array.astype(bool)
