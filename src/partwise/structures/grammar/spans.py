"""Shapes of sentences: ``[n, m, first, last, …]``, the m spans of two or more words that may be constituents.

Lists of anchored rules may follow (`anchoring.py`).
"""

from __future__ import annotations

import numpy as np

from partwise.core.arrays import block_of, offsets, positions, ranges
from partwise.errors import InputError
from partwise.structures.contract import Shapes


def all_spans(lengths: np.ndarray) -> Shapes:
    """Shapes with every span."""
    every = {int(n): _spans_of_length(int(n)) for n in np.unique(lengths)}
    spans = [every[int(n)] for n in lengths]
    first = np.concatenate([*(each[0] for each in spans), np.zeros(0, np.int64)])
    last = np.concatenate([*(each[1] for each in spans), np.zeros(0, np.int64)])
    return _shapes_of(lengths, offsets([len(each[0]) for each in spans]), first, last)


def some_spans(lengths: np.ndarray, ptr: np.ndarray, first: np.ndarray, last: np.ndarray) -> Shapes:
    """Shapes with these spans, in any order within an example."""
    if len(ptr) != len(lengths) + 1 or ptr[-1] != len(first) or len(first) != len(last):
        raise InputError("spans: span_ptr, first and last do not belong together")
    example = block_of(ptr)
    wrong = np.flatnonzero((first < 0) | (last <= first) | (last >= lengths[example]))
    if wrong.size:
        k = int(wrong[0])
        raise InputError(
            f"spans: example {example[k]} has the span {first[k]} … {last[k]}; it must have two or more of "
            f"the words 0 … {lengths[example[k]] - 1}"
        )
    order = np.lexsort((first, last - first, example))
    first, last = first[order], last[order]
    same = (np.diff(first) == 0) & (np.diff(last) == 0) & (np.diff(example) == 0)
    if same.any():
        raise InputError(f"spans: example {example[int(same.argmax())]} has a span twice")
    return _shapes_of(lengths, ptr, first, last)


def spans_of(shapes: Shapes) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All spans, single words first: their offsets (n + 1,), first and last words."""
    counts, lengths = shapes.lengths + shapes.values[shapes.ptr[:-1] + 1], shapes.lengths
    ptr = offsets(counts)
    first, last = np.empty(ptr[-1], np.int64), np.empty(ptr[-1], np.int64)
    words = ranges(ptr[:-1], lengths)
    first[words] = last[words] = positions(lengths)
    listed, others = ranges(shapes.ptr[:-1] + 2, 2 * (counts - lengths)), np.ones(ptr[-1], bool)
    others[words] = False
    pairs = shapes.values[listed].reshape(-1, 2)
    first[others], last[others] = pairs.T
    return ptr, first, last


def _spans_of_length(n: int) -> tuple[np.ndarray, np.ndarray]:
    """First and last words of all spans of two or more words, in order of length and first word."""
    counts = np.arange(n - 1, 0, -1)
    first = positions(counts)
    return first, first + np.repeat(np.arange(1, n), counts)


def _shapes_of(lengths: np.ndarray, span_ptr: np.ndarray, first: np.ndarray, last: np.ndarray) -> Shapes:
    """Spans as compiled code reads them."""
    counts = np.diff(span_ptr)
    ptr = offsets(2 + 2 * counts)
    values = np.empty(ptr[-1], np.int32)
    values[ptr[:-1]], values[ptr[:-1] + 1] = lengths, counts
    values[ranges(ptr[:-1] + 2, 2 * counts)] = np.stack([first, last], axis=1).ravel()
    return Shapes(ptr, values)
