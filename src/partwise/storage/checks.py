"""Checks on what a model file claims, so that a damaged or hostile one cannot reach compiled code."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from partwise.errors import InputError


def expect_array(
    arrays: Mapping[str, np.ndarray],
    name: str,
    dtype: Any,
    *,
    shape: Sequence[int | None] | None = None,
    ndim: int = 1,
    low: float | None = None,
    high: float | None = None,
) -> np.ndarray:
    """The array of that name, after checking it.

    Parameters
    ----------
    dtype : dtype or tuple of dtypes
        What it may be.
    shape : sequence of int or None
        Its shape, None for any size; without it only `ndim` is checked.
    low, high : number
        Its entries lie in low ≤ entry < high. Floating-point entries must be finite in any case.
    """
    array = arrays.get(name)
    if array is None:
        raise InputError(f"array {name!r} is missing")
    kinds = [np.dtype(kind) for kind in (dtype if isinstance(dtype, tuple) else (dtype,))]
    if array.dtype not in kinds:
        raise InputError(f"array {name!r} is of type {array.dtype}, not {' or '.join(map(str, kinds))}")
    wanted = tuple(shape) if shape is not None else (None,) * ndim
    fits = array.ndim == len(wanted) and all(
        size is None or size == found for size, found in zip(wanted, array.shape, strict=True)
    )
    if not fits:
        raise InputError(f"array {name!r} has shape {array.shape}, not {wanted}".replace("None", "any"))
    expect_within(array, name, low, high)
    return array


def expect_within(array: np.ndarray, name: str, low: float | None = None, high: float | None = None) -> None:
    """Raise unless all entries are finite and low ≤ entry < high."""
    if array.size == 0:
        return
    if array.dtype.kind == "f" and not np.isfinite(array).all():
        raise InputError(f"array {name!r} holds values that are not finite")
    if low is not None and array.min() < low:
        raise InputError(f"array {name!r} holds {array.min()}, below {low}")
    if high is not None and array.max() >= high:
        raise InputError(f"array {name!r} holds {array.max()}, not below {high}")


def expect_offsets(arrays: Mapping[str, np.ndarray], name: str, n_blocks: int | None, end: int) -> np.ndarray:
    """An offset vector: starts with 0, never descends, ends at `end`."""
    size = None if n_blocks is None else n_blocks + 1
    ptr = expect_array(arrays, name, (np.int64, np.int32), shape=(size,))
    if len(ptr) == 0 or ptr[0] != 0 or ptr[-1] != end or (ptr[1:] < ptr[:-1]).any():
        raise InputError(f"array {name!r} must start with 0, never descend, and end at {end}")
    return ptr


def expect_number(
    header: Mapping[str, Any],
    name: str,
    low: float = -math.inf,
    high: float = math.inf,
    *,
    whole: bool = False,
) -> Any:
    """The header's number of that name, in low ≤ number ≤ high."""
    value = header.get(name)
    right_type = isinstance(value, int) if whole else isinstance(value, (int, float))
    if not right_type or isinstance(value, bool) or not (low <= value <= high):  # type: ignore[operator]
        kind = "a whole number" if whole else "a number"
        raise InputError(f"header entry {name!r} is {value!r:.40}, not {kind} from {low:g} to {high:g}")
    return value


def expect_text(header: Mapping[str, Any], name: str, choices: Sequence[str] | None = None) -> str:
    """The header's string of that name, one of `choices` if given."""
    value = header.get(name)
    if not isinstance(value, str):
        raise InputError(f"header entry {name!r} is {value!r:.40}, not a string")
    if choices is not None and value not in choices:
        raise InputError(f"header entry {name!r} is {value!r:.40}, not one of {', '.join(choices)}")
    return value


def expect_texts(header: Mapping[str, Any], name: str, distinct: bool = False) -> list[str]:
    """The header's list of strings of that name."""
    value = header.get(name)
    if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
        raise InputError(f"header entry {name!r} is not a list of strings")
    if distinct and len(set(value)) != len(value):
        raise InputError(f"header entry {name!r} holds a string twice")
    return value


_PARAMETERS: dict[str, tuple[type, ...]] = {
    "l2": (int, float, str), "cv": (int, type(None)), "l2s": (list, type(None)), "tol": (int, float),
    "max_passes": (int, float), "solver": (str,), "loss": (dict,),
    "time_limit": (int, float, type(None)), "certificate_every": (int, float, type(None)),
    "memory_limit": (int, float, str, type(None)),
    "random_state": (int, type(None)), "n_jobs": (int, type(None)), "verbose": (int,),
    "callback": (type(None),), "engine": (type(None),), "pairs": (str,), "cost": (str, list, dict),
    "transitions": (str,), "scheme": (str, type(None)), "order": (int,),
    "template": (str, dict, type(None)), "min_count": (int,), "hash_size": (int, type(None)),
    "kernel": (str,), "gamma": (int, float, str), "degree": (int, float), "coef0": (int, float),
    "kernel_params": (type(None),), "precision": (str,), "cache_mb": (int, float),
    "support_tol": (int, float), "edges": (str,), "inference": (str,),
    "graph": (str, list), "classes": (list, dict, type(None)),
    "warm_start": (bool,), "fit_intercept": (bool,), "class_weight": (str, list, type(None)),
    "structure": (str,), "single_root": (bool, str), "labelled": (bool,), "templates": (str, list),
    "relation_templates": (str, list), "prune": (int, str, type(None)), "non_projective": (str,),
    "direction": (str,), "horizontal": (int, type(None)), "vertical": (int,), "functions": (bool,),
    "word_templates": (str, list), "span_templates": (str, list), "split_templates": (str, list, type(None)),
    "rule_templates": (str, list, type(None)), "rule_threshold": (int, float, str, type(None)),
    "algorithm": (str, type(None)), "c1": (int, float, type(None)), "c2": (int, float, type(None)),
    "min_freq": (int, float, type(None)), "all_possible_states": (bool, type(None)),
    "all_possible_transitions": (bool, type(None)), "max_iterations": (int, float, type(None)),
    "model_filename": (str, type(None)),
}  # fmt: skip


_KINDS = {
    int: "a whole number", float: "a number", str: "a string", bool: "True or False", list: "a list",
    dict: "a dict", type(None): "None",
}  # fmt: skip


def expect_parameters(parameters: Mapping[str, Any]) -> None:
    """Raise unless parameters, as plain values, are of the types that estimators take."""
    for name, value in parameters.items():
        kinds = _PARAMETERS.get(name, (object,))
        is_number_for_flag = isinstance(value, bool) and bool not in kinds and object not in kinds
        if not isinstance(value, kinds) or is_number_for_flag:
            words = [_KINDS[kind] for kind in kinds if kind is not int or float not in kinds]
            raise InputError(f"{name:.40} must be {' or '.join(words)}, not {value!r:.40}")
        if isinstance(value, int) and not _is_float(value):
            raise InputError(f"{name:.40} is too large a number")
    for name in ("l2", "tol", "max_passes"):
        if name == "l2" and parameters.get(name) == "cv":
            continue
        if isinstance(parameters.get(name), str) or not 0 < parameters.get(name, 1.0) < math.inf:
            raise InputError(f"{name} must be a finite number > 0, not {parameters[name]!r:.40}")


def expect_header(header: Mapping[str, Any]) -> None:
    """Check what all estimators' headers share: parameters of the right types, and the training record."""
    parameters, record, labels = (header.get(name) for name in ("parameters", "record", "labels"))
    if not isinstance(parameters, dict) or not isinstance(record, dict) or not isinstance(labels, list):
        raise InputError("parameters, labels or training record are missing")
    expect_parameters(parameters)
    for name in ("objective", "dual_objective", "duality_gap", "n_passes"):
        if isinstance(record.get(name), bool) or not _is_float(record.get(name)):
            raise InputError(f"the training record's {name} is {record.get(name)!r:.40}, not a number")
    expect_text(record, "stop_reason")
    if not isinstance(record.get("converged"), bool):
        raise InputError("the training record does not say whether it converged")
    history = record.get("history")
    if not isinstance(history, list) or not all(map(_is_record, history)):
        raise InputError("the history of the training is damaged")


def _is_record(record: Any) -> bool:
    """Whether a record maps names to numbers, with at least those that curves are drawn from, and may say what kind
    of certificate it holds."""
    return (
        isinstance(record, dict)
        and record.keys() >= {"passes", "primal", "dual", "gap"}
        and all(_is_float(value) for name, value in record.items() if name != "kind")
        and record.get("kind", "exact") in ("exact", "relaxation", "approximate", "local", "sampled")
    )


def _is_float(value: Any) -> bool:
    """Whether a number, of whatever size in JSON, is one that a float can be: finite, infinite or nan."""
    return isinstance(value, float) or (isinstance(value, int) and abs(value) < 2**1000)
