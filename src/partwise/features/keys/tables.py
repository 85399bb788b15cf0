# mypy: ignore-errors
"""Open tables in compiled code: they count the keys of rows, and find the numbers of known keys."""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import entry, inner
from partwise.features.keys.hashes import mixed
from partwise.features.keys.rows import keys_of, read_sentence


@inner
def bits_of(size):
    """The exponent of a power of two."""
    bits = 0
    while (1 << bits) < size:
        bits += 1
    return bits


# -- counting keys ---------------------------------------------------------------------------------


@entry
def number_rows(program, words, rows, first, n_rows, direct, table, work, n_found, row_ptr, ids, n_written):
    """Number the keys of rows in the order of their first occurrence, and write the numbers to `ids` if it has room.

    A count is (number + 1) * 2^32 + occurrences: ``direct[key]`` for the lowest keys; for others, `table` is open and
    holds (key, count). Returns when all rows are done, the table is half full or `ids` is full: the row that comes
    next, the number of distinct keys and of ids written. Nothing is written to an empty `ids`.
    """
    shift, mask = 64 - bits_of(len(table)), len(table) - 1
    sentence, row, ptr = 0, first, rows[0]
    while row < n_rows:
        while ptr[sentence + 1] <= row:
            sentence += 1
        read_sentence(program, words, sentence, work)
        while row < min(ptr[sentence + 1], n_rows):
            is_full = len(ids) > 0 and n_written + len(work.keys) > len(ids)
            if is_full or 2 * (n_found + len(work.keys)) > len(table):
                return row, n_found, n_written
            n_keys = keys_of(rows, program, words, sentence, row, work)
            for k in range(n_keys):
                key = work.keys[k]
                if key < len(direct):
                    count = direct[key] + 1
                    if count == 1:
                        n_found += 1
                        count += n_found << 32
                    direct[key] = count
                else:
                    slot = (mixed(key) >> shift) & mask
                    while table[slot, 1] > 0 and table[slot, 0] != key:
                        slot = (slot + 1) & mask
                    count = table[slot, 1] + 1
                    if count == 1:
                        n_found += 1
                        count += n_found << 32
                        table[slot, 0] = key
                    table[slot, 1] = count
                if len(ids) > 0:
                    ids[n_written] = (count >> 32) - 1
                    n_written += 1
            row += 1
            if len(ids) > 0:
                row_ptr[row] = n_written
    return row, n_found, n_written


@entry
def move_counts(old, table):
    """Put the entries of a table of counts into a larger one."""
    shift, mask = 64 - bits_of(len(table)), len(table) - 1
    for k in range(len(old)):
        if old[k, 1] > 0:
            slot = (mixed(old[k, 0]) >> shift) & mask
            while table[slot, 1] > 0:
                slot = (slot + 1) & mask
            table[slot, 0], table[slot, 1] = old[k, 0], old[k, 1]


# -- finding keys ----------------------------------------------------------------------------------


@entry
def fill_table(table):
    """Number the keys of a table."""
    direct, numbers, marks = table.direct, table.numbers, table.marks
    shift, mask = 64 - bits_of(len(numbers)), len(numbers) - 1
    for k in range(len(table.keys)):
        key = table.keys[k]
        if key < len(direct):
            direct[key] = k
            continue
        spread = mixed(key)
        slot = (spread >> shift) & mask
        while marks[slot] > 0:
            slot = (slot + 1) & mask
        numbers[slot], marks[slot] = k, ((spread >> (shift - 7)) & 127) + 1


@entry
def find_rows(program, words, rows, first, n_rows, table, work, row_ptr, ids, n_written):
    """Look up the features of rows `first` to `n_rows` - 1 as long as `ids` surely has room for another row.

    Returns the row that comes next and the number of ids written so far.
    """
    sentence, row, ptr = 0, first, rows[0]
    while row < n_rows:
        while ptr[sentence + 1] <= row:
            sentence += 1
        read_sentence(program, words, sentence, work)
        while row < min(ptr[sentence + 1], n_rows):
            if n_written + len(work.keys) > len(ids):
                return row, n_written
            n_keys = keys_of(rows, program, words, sentence, row, work)
            if len(table.direct) > 0:
                n_written = find_keys(n_keys, table, work, ids, n_written)
            else:
                n_written = search_keys(n_keys, table, work, ids, n_written)
            row_ptr[row + 1] = n_written
            row += 1
    return row, n_written


@inner
def find_keys(n_keys, table, work, ids, n_written):
    """Look up the keys in ``work.keys`` and write the numbers of those known.

    Each step is done for all keys before the next one, so that the loads from memory overlap.
    """
    keys, direct, numbers, marks = table.keys, table.direct, table.numbers, table.marks
    own, spreads, found = work.keys, work.spreads, work.numbers
    shift, mask = 64 - bits_of(len(numbers)), len(numbers) - 1
    n_likely = 0
    for k in range(n_keys):
        key = own[k]
        if key < len(direct):
            number = np.int64(direct[key])
        else:
            spread = mixed(key)
            spreads[n_likely], own[n_likely] = spread, key
            number = np.int64(-2) if marks[(spread >> shift) & mask] > 0 else np.int64(-1)
        found[n_likely] = number
        n_likely += number != -1
    for k in range(n_likely):
        if found[k] < 0:
            slot, mark = (spreads[k] >> shift) & mask, ((spreads[k] >> (shift - 7)) & 127) + 1
            while marks[slot] != mark and marks[slot] > 0:
                slot = (slot + 1) & mask
            spreads[k] = slot
            found[k] = np.int64(-2) - numbers[slot] if marks[slot] > 0 else np.int64(-1)
    for k in range(n_likely):
        number = found[k]
        if number < -1:
            number = np.int64(-2) - number
            if keys[number] != own[k]:
                number = next_number(table, own[k], spreads[k])
        ids[n_written] = number
        n_written += number >= 0
    return n_written


@inner
def search_keys(n_keys, table, work, ids, n_written):
    """`find_keys` in two steps, for a table without direct keys, most of whose keys are not known."""
    keys, numbers, marks = table.keys, table.numbers, table.marks
    own, spreads = work.keys, work.spreads
    shift, mask = 64 - bits_of(len(numbers)), len(numbers) - 1
    n_likely = 0
    for k in range(n_keys):
        key = own[k]
        spread = mixed(key)
        spreads[n_likely] = spread
        own[n_likely] = key
        n_likely += marks[(spread >> shift) & mask] > 0
    for k in range(n_likely):
        key, spread = own[k], spreads[k]
        slot, mark = (spread >> shift) & mask, ((spread >> (shift - 7)) & 127) + 1
        while marks[slot] > 0:
            if marks[slot] == mark and keys[numbers[slot]] == key:
                ids[n_written] = numbers[slot]
                n_written += 1
                break
            slot = (slot + 1) & mask
    return n_written


@inner
def next_number(table, key, slot):
    """The number of a key that lies behind a slot with the same mark; -1 if the table has not got it."""
    marks, mask = table.marks, len(table.marks) - 1
    mark = marks[slot]
    slot = (slot + 1) & mask
    while marks[slot] > 0:
        if marks[slot] == mark and table.keys[table.numbers[slot]] == key:
            return np.int64(table.numbers[slot])
        slot = (slot + 1) & mask
    return np.int64(-1)


@entry
def look_up(found, table):
    """Replace keys by their numbers, -1 for those that the table has not; it has no direct ones."""
    numbers, marks = table.numbers, table.marks
    shift, mask = 64 - bits_of(len(numbers)), len(numbers) - 1
    for k in range(len(found)):
        key, number = found[k], np.int64(-1)
        spread = mixed(key)
        slot, mark = (spread >> shift) & mask, ((spread >> (shift - 7)) & 127) + 1
        while key >= 0 and number < 0 and marks[slot] > 0:
            if marks[slot] == mark and table.keys[numbers[slot]] == key:
                number = np.int64(numbers[slot])
            slot = (slot + 1) & mask
        found[k] = number
