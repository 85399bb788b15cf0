# mypy: ignore-errors
"""One example from coded attributes to its answer, in a single call of compiled code."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.compiled.boundary import (
    IntegerMatrix,
    Integers,
    Reals,
    ShortIntegers,
    Singles,
    address_of,
    array_at,
    call_address,
    load_record,
    row_address,
)
from partwise.compiled.dispatch import inner
from partwise.compiled.kernels import Addressed
from partwise.core.attribute_codes import read_rows

_LARGEST = float(np.finfo(np.float32).max)  # The largest value of an attribute.


class KindRoom(NamedTuple):
    """Room for the rows of one kind, which compiled code fills; `KindRows` has views of the same arrays.

    Attributes
    ----------
    start, count : int32 array (n_attributes,)
        Of the kind's feature map.
    row_ptr, ids, values, words : arrays
        Rows as `read_rows` writes them.
    wide_ptr, wide_start, wide_value, narrow_ptr, narrow_start, narrow_count, narrow_value : arrays
        See :class:`~partwise.compiled.rows.KindRows`.
    """

    start: ShortIntegers
    count: ShortIntegers
    row_ptr: Integers
    ids: ShortIntegers
    values: Reals
    words: ShortIntegers
    wide_ptr: Integers
    wide_start: ShortIntegers
    wide_value: Singles
    narrow_ptr: Integers
    narrow_start: ShortIntegers
    narrow_count: ShortIntegers
    narrow_value: Singles


class Frame(NamedTuple):
    """All that compiled code needs to answer examples of one shape.

    Attributes
    ----------
    score, answer, specification, work : int
        Addresses of compiled functions and of packed records.
    plain_rows, valued_rows : int
        Addresses of the packed :class:`~partwise.compiled.rows.Rows`, for attributes that all have the value 1 and for
        others.
    kinds : int64 array (n_kinds, n_words)
        A packed :class:`KindRoom` for each kind of rows that is not tied.
    n_rows : int64 array (n_kinds,)
    weights : float64 array (n_weights,)
    shape : int32 array
    n_parts, width : int
        Parts of the example, and of a row of the first kind.
    scores, counts, row : float64 array
        As in :class:`~partwise.compiled.examples.Scratch`.
    labels : int64 array (most rows,)
        The part of each row of the first kind that the best labelling has, counted within the row.
    """

    score: int
    answer: int
    specification: int
    work: int
    plain_rows: int
    valued_rows: int
    kinds: IntegerMatrix
    n_rows: Integers
    weights: Reals
    shape: ShortIntegers
    n_parts: int
    width: int
    scores: Reals
    counts: Reals
    row: Reals
    labels: Integers


@inner
def _lay_out(kind, n_rows):
    """Entries of wide and of narrow attributes, as `FeatureMap` lays them out.

    Returns 0 if all values are 1, 1 if not, and 2 if single precision does not hold one of them.
    """
    n_wide, n_narrow, found = 0, 0, 0
    kind.wide_ptr[0], kind.narrow_ptr[0] = 0, 0
    for row in range(n_rows):
        for k in range(kind.row_ptr[row], kind.row_ptr[row + 1]):
            number, value = kind.ids[k], kind.values[k]
            count = kind.count[number]
            if value != 1.0:
                found = max(found, 1 if abs(value) <= _LARGEST else 2)
            if count == 0:
                kind.wide_start[n_wide], kind.wide_value[n_wide] = kind.start[number], value
                n_wide += 1
            elif count > 0:
                kind.narrow_start[n_narrow], kind.narrow_value[n_narrow] = kind.start[number], value
                kind.narrow_count[n_narrow] = count
                n_narrow += 1
        kind.wide_ptr[row + 1], kind.narrow_ptr[row + 1] = n_wide, n_narrow
    return found


@inner
def _score(frame, codes, scale):
    """Write scale · (part scores) of the example; False if a value is too large."""
    at, found = 0, 0
    for k in range(frame.n_rows.size):
        kind = load_record(KindRoom, row_address(frame.kinds, k))
        at = read_rows(codes, at, frame.n_rows[k], kind.row_ptr, kind.ids, kind.values, kind.words)
        found = max(found, _lay_out(kind, frame.n_rows[k]))
    if found == 2:
        return False
    call_address(
        frame.score,
        (
            frame.valued_rows if found == 1 else frame.plain_rows,
            0,
            address_of(frame.weights, 0),
            frame.weights.size,
            scale,
            address_of(frame.scores, 0),
            frame.n_parts,
            address_of(frame.row, 0),
            frame.row.size,
            -1,
        ),
    )
    return True


@inner
def _ask(frame):
    """The answer for the part scores; writes part counts."""
    return call_address(
        frame.answer,
        (
            frame.specification,
            frame.work,
            address_of(frame.shape, 0),
            frame.shape.size,
            address_of(frame.scores, 0),
            address_of(frame.counts, 0),
            frame.n_parts,
            1,
        ),
    )


def one_best(address, codes, n_codes, scale):
    """The score of the best labelling, which is written to `labels`; NaN if a value is too large."""
    frame = load_record(Frame, address)
    if not _score(frame, array_at(np.int32, codes, n_codes), scale):
        return np.nan
    value = _ask(frame)
    if value > -np.inf:
        for row in range(frame.n_rows[0]):
            first = row * frame.width
            for j in range(frame.width):
                if frame.counts[first + j] > 0.5:
                    frame.labels[row] = j
    return value


def one_sums(address, codes, n_codes, scale):
    """The log-partition at scale · scores; writes expected part counts to `counts`. NaN if a value is too large."""
    frame = load_record(Frame, address)
    if not _score(frame, array_at(np.int32, codes, n_codes), scale):
        return np.nan
    return _ask(frame)


def compiled_pass(name: str) -> Addressed:
    """One of the passes above as a compile task."""
    return Addressed({"best": one_best, "sums": one_sums}[name], "iiid")
