# mypy: ignore-errors
"""Keys of features of spans in compiled code, summed from parts of first word, last word, split, length and shape.

A template's fields are the digits of one integer, so its key is a sum

    key(i, j, m) = base + first part(i) + last part(j) + split part(m) + length(j - i) + shape(i, j)

and the parts of words are computed once a word. A part without a value is ABSENT, which makes the sum negative; keys
are below 2^60, so that four such parts do not overflow.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.compiled.dispatch import entry, fragment, inner
from partwise.features.arc_key_tables import bits_of, find_keys, mixed

ABSENT = -(2**60)
N_LENGTHS = 8


class SpanProgram(NamedTuple):
    """Templates as numbers.

    Attributes
    ----------
    base : int64 (n_templates,)
    piece_ptr : int64 (3, n_templates + 1)
        Fields of the first word (row 0), the last one (row 1) and the one before the split (row 2): those of template t
        are ``piece_ptr[side, t]`` to ``piece_ptr[side, t + 1]``.
    piece_source, piece_offset, piece_stride : int64 (n_pieces,)
        The row of the codes, how many words further to look, and the worth of the digit.
    length_stride, shape_stride : int64 (n_templates,)
        0 where the template has no such field.
    outside_code : int64 (n_sources,)
        Code of places outside the sentence, -1 for no value.
    """

    base: np.ndarray
    piece_ptr: np.ndarray
    piece_source: np.ndarray
    piece_offset: np.ndarray
    piece_stride: np.ndarray
    length_stride: np.ndarray
    shape_stride: np.ndarray
    outside_code: np.ndarray


class SpanRows(NamedTuple):
    """Words, spans or splits of sentences, and the codes of all words.

    Attributes
    ----------
    row_ptr, sentence_ptr : int64 (n_sentences + 1,)
    first, last, split : int32 (n_rows,)
        Words within the sentence, counted from 0; a split lies behind its word.
    shape : int32 (n_rows,)
        -1 for no value.
    codes : int32 (n_sources, n_words)
        -1 for no value, or one that was not seen in training.
    """

    row_ptr: np.ndarray
    sentence_ptr: np.ndarray
    first: np.ndarray
    last: np.ndarray
    split: np.ndarray
    shape: np.ndarray
    codes: np.ndarray


class SpanWork(NamedTuple):
    """Room for one sentence and one row.

    Attributes
    ----------
    part : int64 (3, longest, n_templates)
    keys, spreads : int64 (n_templates + 1,)
    """

    part: np.ndarray
    keys: np.ndarray
    spreads: np.ndarray


@inner
def read_words(program, rows, sentence, work):
    """Compute the parts of the keys of a sentence's words."""
    begin = rows.sentence_ptr[sentence]
    length = rows.sentence_ptr[sentence + 1] - begin
    for side in range(3):
        for place in range(length):
            for t in range(len(program.base)):
                total = program.base[t] if side == 0 else np.int64(0)
                for piece in range(program.piece_ptr[side, t], program.piece_ptr[side, t + 1]):
                    source = program.piece_source[piece]
                    at = place + program.piece_offset[piece]
                    code = program.outside_code[source]
                    if 0 <= at < length:
                        code = np.int64(rows.codes[source, begin + at])
                    if code < 0:
                        total = np.int64(ABSENT)
                        break
                    total += code * program.piece_stride[piece]
                work.part[side, place, t] = total


@fragment
def length_number(length):
    """Binned length: 1, 2, 3, 4, 5, 6 to 10, 11 to 20, more."""
    return length - 1 if length <= 5 else (5 if length <= 10 else (6 if length <= 20 else 7))


@inner
def row_keys(program, rows, row, work):
    """Write the keys of a row to ``work.keys``; returns how many."""
    first, last, split = (
        work.part[0, rows.first[row]],
        work.part[1, rows.last[row]],
        work.part[2, rows.split[row]],
    )
    length, shape = np.int64(length_number(rows.last[row] - rows.first[row] + 1)), np.int64(rows.shape[row])
    keys, n_keys = work.keys, 0
    for t in range(len(program.base)):
        key = first[t] + last[t] + split[t] + length * program.length_stride[t]
        if program.shape_stride[t] > 0:
            key += shape * program.shape_stride[t] if shape >= 0 else np.int64(ABSENT)
        keys[n_keys] = key
        n_keys += key >= 0
    return n_keys


@entry
def count_row_keys(program, rows, first_row, n_rows, table, work, n_found):
    """Count keys of rows in an open table of (key, count) pairs until it is half full.

    Returns the row it came to and the number of distinct keys.
    """
    shift, mask = 64 - bits_of(len(table)), len(table) - 1
    sentence, row = 0, first_row
    while row < n_rows:
        while rows.row_ptr[sentence + 1] <= row:
            sentence += 1
        read_words(program, rows, sentence, work)
        while row < min(rows.row_ptr[sentence + 1], n_rows):
            if 2 * (n_found + len(work.keys)) > len(table):
                return row, n_found
            n_keys = row_keys(program, rows, row, work)
            for k in range(n_keys):
                key = work.keys[k]
                slot = (mixed(key) >> shift) & mask
                while table[slot, 1] > 0 and table[slot, 0] != key:
                    slot = (slot + 1) & mask
                n_found += table[slot, 1] == 0
                table[slot, 0] = key
                table[slot, 1] += 1
            row += 1
    return row, n_found


@entry
def find_row_keys(program, rows, first_row, n_rows, keys, numbers, marks, work, row_ptr, ids, n_written):
    """Look up the features of rows `first_row` to `n_rows` - 1 until there may be no more room in `ids`.

    Returns the row it came to and the number of ids written so far.
    """
    sentence, row = 0, first_row
    while row < n_rows:
        while rows.row_ptr[sentence + 1] <= row:
            sentence += 1
        read_words(program, rows, sentence, work)
        while row < min(rows.row_ptr[sentence + 1], n_rows):
            if n_written + len(work.keys) > len(ids):
                return row, n_written
            n_keys = row_keys(program, rows, row, work)
            n_written = find_keys(n_keys, keys, numbers, marks, work, ids, n_written)
            row_ptr[row + 1] = n_written
            row += 1
    return row, n_written
