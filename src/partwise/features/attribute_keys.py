# mypy: ignore-errors
"""Keys of attributes in compiled code: packed, hashed, numbered in an open table, and laid out in rows."""

from __future__ import annotations

import numpy as np

from partwise.compiled.dispatch import entry, inner


@inner
def code_at(codes, place, begin, end, reach):
    """The code at a place that may lie outside its sequence; symbols are coded -1, -2 ... then +1, +2 ..."""
    if begin <= place < end:
        return np.int64(codes[place])
    if reach == 0:
        return np.int64(-1)
    return np.int64(begin - place - 1 if place < begin else reach + place - end)


@entry
def add_digit(keys, codes, ptr, offset, reach, radix):
    for s in range(len(ptr) - 1):
        for t in range(ptr[s], ptr[s + 1]):
            code = code_at(codes, t + offset, ptr[s], ptr[s + 1], reach)
            keys[t] = keys[t] * radix + code if keys[t] >= 0 and code >= 0 else -1


@entry
def add_hash(keys, codes, ptr, offset, reach, hashes):
    for s in range(len(ptr) - 1):
        for t in range(ptr[s], ptr[s + 1]):
            code = code_at(codes, t + offset, ptr[s], ptr[s + 1], reach)
            if keys[t] < 0 or code < 0:
                keys[t] = -1
            else:
                mixed = (keys[t] ^ hashes[code]) * 0x2545F4914F6CDD1D
                keys[t] = (mixed ^ (mixed >> 29)) & 0x7FFFFFFFFFFFFFFF


@inner
def find_slot(key, table):
    """Where a key is in an open-addressing table of (key, number) pairs, or would be put."""
    mask = len(table) - 1
    slot = ((key * 0x1E3779B97F4A7C15) >> 30) & mask
    while table[slot, 1] >= 0 and table[slot, 0] != key:
        slot = (slot + 1) & mask
    return slot


@entry
def fill(table, keys, numbers):
    for k in range(len(keys)):
        slot = find_slot(keys[k], table)
        table[slot, 0], table[slot, 1] = keys[k], numbers[k]


@entry
def number_keys(keys, begin, table, found, numbers, kind, first_token):
    """Number keys by first occurrence until the table is half full; return the token it came to.

    ``found[0, 0]`` counts the distinct keys; below it, one column per key: key, occurrences, first place. Places
    count from `first_token`.
    """
    for t in range(begin, len(keys)):
        if keys[t] < 0:
            numbers[kind, t] = -1
            continue
        slot = find_slot(keys[t], table)
        number, place = table[slot, 1], (first_token + t) * len(numbers) + kind
        if number < 0:
            number = found[0, 0]
            if 2 * number >= len(table):
                return t
            found[0, 0] += 1
            table[slot, 0], table[slot, 1] = keys[t], number
            found[1, number], found[2, number], found[3, number] = keys[t], 0, place
        found[2, number] += 1
        found[3, number] = min(found[3, number], place)
        numbers[kind, t] = number
    return len(keys)


@entry
def look_up(keys, table, numbers):
    for t in range(len(keys)):
        numbers[t] = -1 if keys[t] < 0 else table[find_slot(keys[t], table), 1]


@entry
def count_rows(numbers, row_ptr):
    for kind in range(len(numbers)):
        for t in range(len(row_ptr) - 1):
            row_ptr[t + 1] += numbers[kind, t] >= 0


@entry
def pack(numbers, ids):
    """Write the entries of an array (n_kinds, n_tokens) that are not -1, token by token."""
    n_written = 0
    for t in range(numbers.shape[1]):
        for kind in range(len(numbers)):
            if numbers[kind, t] >= 0:
                ids[n_written] = numbers[kind, t]
                n_written += 1
