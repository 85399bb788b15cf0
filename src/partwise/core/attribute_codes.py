# mypy: ignore-errors
"""Attributes of rows as one run of bytes, which Python joins from ready pieces and compiled code reads.

The bytes are 32-bit words. A number from 0 on is an attribute. ``END`` closes a row. An attribute whose value is not 1
has three words before it: a mark and the double-precision value.
"""

from __future__ import annotations

from struct import pack

import numpy as np

from partwise.compiled.dispatch import entry, inner
from partwise.core.rows import AttributeRows

END_WORD, _VALUE = -1, -2
END = pack("=i", END_WORD)
NOTHING = b""  # stands for an attribute that has no number


class UnusualError(Exception):
    """An example that is not of a simple kind, or wrong: it has to be read by code that takes longer."""


def code_of(number: int) -> bytes:
    """An attribute with value 1."""
    return pack("=i", number)


def valued_code_of(number: int, value: float) -> bytes:
    """An attribute with a value."""
    return pack("=idi", _VALUE, value, number)


def coded_rows(codes: bytes, n_rows: int) -> AttributeRows:
    """The rows in `codes`. The values of an attribute named twice in a row are added."""
    words = np.frombuffer(codes, np.int32)
    row_ptr, ids, values = (
        np.zeros(n_rows + 1, np.int64),
        np.empty(len(words), np.int32),
        np.empty(len(words) + 1),
    )
    _read_all(words, row_ptr, ids, values, values.view(np.int32))
    n_entries = row_ptr[-1]
    values = values[:n_entries]
    return AttributeRows(row_ptr, ids[:n_entries].copy(), None if (values == 1.0).all() else values.copy())


@entry
def _read_all(codes, row_ptr, ids, values, words):
    read_rows(codes, 0, row_ptr.size - 1, row_ptr, ids, values, words)


@inner
def read_rows(codes, at, n_rows, row_ptr, ids, values, words):
    """Read `n_rows` rows from ``codes[at:]``; returns the place behind them.

    Rows are short: a mask of 64 bits shows that most attributes are new, and the others are compared with all before.
    `words` is `values` as 32-bit words. `values` has one more entry than there are attributes.
    """
    n_written, row_ptr[0] = 0, 0
    for row in range(n_rows):
        begin, value, seen = n_written, 1.0, np.uint64(0)
        while at < codes.size and codes[at] != END_WORD:
            if codes[at] == _VALUE:
                words[2 * n_written], words[2 * n_written + 1] = codes[at + 1], codes[at + 2]
                value = values[n_written]
                at += 3
            place, bit = n_written, np.uint64(1) << np.uint64(codes[at] & 63)
            if seen & bit:
                place = begin
                while place < n_written and ids[place] != codes[at]:
                    place += 1
            seen |= bit
            if place == n_written:
                ids[place], values[place] = codes[at], 0.0
                n_written += 1
            values[place] += value
            value = 1.0
            at += 1
        at += 1
        row_ptr[row + 1] = n_written
    return at
