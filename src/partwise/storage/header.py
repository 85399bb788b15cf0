"""Headers of model files as JSON: inf and nan are spelled out, long lists of strings become arrays."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from partwise.errors import InputError

_LONG_LIST = 32
_STRINGS, _LENGTHS = "strings.{}", "string_lengths.{}"


def plain(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """JSON values for what a header may hold; long lists of strings move to `arrays`."""
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return {"$number": str(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(inner, arrays) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        if len(value) >= _LONG_LIST and all(type(inner) is str for inner in value):
            return {"$strings": _pack(value, arrays)}
        return [plain(inner, arrays) for inner in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise InputError(f"a model file's header cannot hold {value!r:.60}")


def _pack(strings: list[str] | tuple[str, ...], arrays: dict[str, np.ndarray]) -> int:
    number = sum(name.startswith(_STRINGS.format("")) for name in arrays)
    lengths = np.fromiter(map(len, strings), np.int64, len(strings))
    narrow = next(kind for kind in (np.uint8, np.uint16, np.int64) if lengths.max() <= np.iinfo(kind).max)
    arrays[_STRINGS.format(number)] = np.frombuffer(
        "".join(strings).encode("utf-8", "surrogatepass"), np.uint8
    )
    arrays[_LENGTHS.format(number)] = lengths.astype(narrow)
    return number


def restored(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """Undo `plain`; a list of strings leaves `arrays`, so that a file cannot name one a million times."""
    if isinstance(value, list):
        return [restored(inner, arrays) for inner in value]
    if not isinstance(value, dict):
        return value
    if value.keys() == {"$number"} and value["$number"] in ("inf", "-inf", "nan"):
        return float(value["$number"])
    if value.keys() == {"$strings"} and type(value["$strings"]) is int:
        return _unpack(value["$strings"], arrays)
    return {key: restored(inner, arrays) for key, inner in value.items()}


def _unpack(number: int, arrays: dict[str, np.ndarray]) -> list[str]:
    what = f"list of strings {number}"
    data, lengths = arrays.pop(_STRINGS.format(number), None), arrays.pop(_LENGTHS.format(number), None)
    if data is None or lengths is None or data.dtype != np.uint8 or data.ndim != 1 or lengths.ndim != 1:
        raise InputError(f"damaged model file: {what} is missing")
    text = data.tobytes().decode("utf-8", "surrogatepass")
    if lengths.dtype.kind not in "iu" or (lengths.size and int(lengths.min()) < 0):
        raise InputError(f"damaged model file: {what} has wrong lengths")
    # Summed as floats first, so that hostile lengths cannot wrap around to the right total.
    if lengths.sum(dtype=np.float64) != len(text):
        raise InputError(f"damaged model file: {what} has wrong lengths")
    ends = np.cumsum(lengths, dtype=np.int64).tolist()
    return [text[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def is_packed(name: str) -> bool:
    """Whether an array of a model file is part of its header."""
    return name.startswith((_STRINGS.format(""), _LENGTHS.format("")))
