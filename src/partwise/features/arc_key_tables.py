# mypy: ignore-errors
"""Open tables of features of arcs and of triples in compiled code: keys of true ones are counted, of any looked up."""

from __future__ import annotations

from typing import Any

from partwise.compiled.dispatch import chosen_by_type, entry, fragment, inner
from partwise.core.arc_triples import ArcTriples
from partwise.core.arcs import Arcs
from partwise.features.arc_keys import arc_keys, read_sentence
from partwise.features.triple_keys import triple_keys


@chosen_by_type
def keys_of(parts: Any, program: Any, words: Any, sentence: int, number: int, work: Any) -> int:
    """Write the keys of an arc or a triple to ``work.keys``; returns how many."""
    raise TypeError


@keys_of.register(Arcs)
@inner
def keys_of_arc(parts, program, words, sentence, number, work):
    begin = words.sentence_ptr[sentence]
    return arc_keys(program, words, begin, parts.head[number], parts.modifier[number], work)


@keys_of.register(ArcTriples)
@inner
def keys_of_triple(parts, program, words, sentence, number, work):
    length = words.sentence_ptr[sentence + 1] - words.sentence_ptr[sentence]
    return triple_keys(program, length, parts.first[number], parts.head[number], parts.modifier[number], work)


@fragment
def mixed(key):
    """Spread a key over 64 bits, of which the highest are the best."""
    first = key * 0x1E3779B97F4A7C15
    return (first ^ (first >> 32)) * 0x2545F4914F6CDD1D


@entry
def count_keys(program, words, parts, first, n_parts, table, work, n_found):
    """Count keys of parts (arcs or triples) in an open table of (key, count) pairs until it is half full.

    Returns the part it came to and the number of distinct keys.
    """
    shift, mask = 64 - bits_of(len(table)), len(table) - 1
    sentence, part, ptr = 0, first, parts[0]
    while part < n_parts:
        while ptr[sentence + 1] <= part:
            sentence += 1
        read_sentence(program, words, sentence, work)
        while part < min(ptr[sentence + 1], n_parts):
            if 2 * (n_found + len(work.keys)) > len(table):
                return part, n_found
            n_keys = keys_of(parts, program, words, sentence, part, work)
            for k in range(n_keys):
                key = work.keys[k]
                slot = (mixed(key) >> shift) & mask
                while table[slot, 1] > 0 and table[slot, 0] != key:
                    slot = (slot + 1) & mask
                n_found += table[slot, 1] == 0
                table[slot, 0] = key
                table[slot, 1] += 1
            part += 1
    return part, n_found


@inner
def bits_of(size):
    """The exponent of a power of two."""
    bits = 0
    while (1 << bits) < size:
        bits += 1
    return bits


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


@entry
def fill_table(keys, numbers, marks):
    """Number the keys in an open table: at a slot the key's number, and a mark of 7 of its bits plus 1; 0 is empty."""
    shift, mask = 64 - bits_of(len(numbers)), len(numbers) - 1
    for k in range(len(keys)):
        spread = mixed(keys[k])
        slot = (spread >> shift) & mask
        while marks[slot] > 0:
            slot = (slot + 1) & mask
        numbers[slot], marks[slot] = k, ((spread >> (shift - 7)) & 127) + 1


@entry
def find_rows(program, words, parts, first, n_parts, keys, numbers, marks, work, row_ptr, ids, n_written):
    """Look up the features of parts `first` to `n_parts` - 1 until there may be no more room in `ids`.

    Returns the part it came to and the number of ids written so far.
    """
    sentence, part, ptr = 0, first, parts[0]
    while part < n_parts:
        while ptr[sentence + 1] <= part:
            sentence += 1
        read_sentence(program, words, sentence, work)
        while part < min(ptr[sentence + 1], n_parts):
            if n_written + len(work.keys) > len(ids):
                return part, n_written
            n_keys = keys_of(parts, program, words, sentence, part, work)
            n_written = find_keys(n_keys, keys, numbers, marks, work, ids, n_written)
            row_ptr[part + 1] = n_written
            part += 1
    return part, n_written


@inner
def find_keys(n_keys, keys, numbers, marks, work, ids, n_written):
    """Look up the keys in ``work.keys`` and write the numbers of those known.

    The marks are read for all keys before any is compared, so that the loads overlap.
    """
    shift, mask = 64 - bits_of(len(numbers)), len(numbers) - 1
    n_likely = 0
    for k in range(n_keys):
        spread = mixed(work.keys[k])
        work.spreads[n_likely], work.keys[n_likely] = spread, work.keys[k]
        n_likely += marks[(spread >> shift) & mask] > 0
    for k in range(n_likely):
        key, spread = work.keys[k], work.spreads[k]
        slot, mark = (spread >> shift) & mask, ((spread >> (shift - 7)) & 127) + 1
        while marks[slot] > 0:
            if marks[slot] == mark and keys[numbers[slot]] == key:
                ids[n_written] = numbers[slot]
                n_written += 1
                break
            slot = (slot + 1) & mask
    return n_written
