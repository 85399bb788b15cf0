"""Segmentations in two forms: rows (first, last, label), and one tag per position.

The tag is 2·label at the first position of a segment and 2·label + 1 at all others, as the prefixes B and I of names.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.errors import InputError


def tags_of_segments(segments: Any, n_labels: int, name: str = "y") -> np.ndarray:
    """Tags, int64 (n,), of segments (k, 3) that cover all positions from 0 on, in order."""
    array = np.asarray(segments)
    if array.ndim != 2 or array.shape[1:] != (3,) or array.dtype.kind not in "iu" or not len(array):
        raise InputError(f"{name} must be a list of segments (first, last, label), whole numbers")
    first, last, label = np.ascontiguousarray(array.T, np.int64)
    wrong = (first != np.append(0, last[:-1] + 1)) | (last < first)
    if wrong.any():
        at = int(wrong.argmax())
        raise InputError(
            f"{name}[{at}] is {tuple(array[at].tolist())}; a segment begins behind the one before, and covers "
            "first to last, both included"
        )
    if label.min() < 0 or label.max() >= n_labels:
        raise InputError(f"{name} holds label {label.max()}; labels run from 0 to {n_labels - 1}")
    tags = np.repeat(2 * label + 1, last - first + 1)
    tags[first] -= 1
    return tags


def segments_of_tags(tags: np.ndarray) -> np.ndarray:
    """Segments (k, 3) of the tags of one sentence."""
    first = np.flatnonzero(tags % 2 == 0)
    last = np.append(first[1:], len(tags)) - 1
    return np.column_stack([first, last, tags[first] // 2])
