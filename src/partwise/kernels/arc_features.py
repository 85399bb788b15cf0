"""Keys of arc features in compiled code: summed from parts of head, modifier and distance, counted and looked up.

A template's fields are the digits of one integer, so its key is a sum

    key(h, m) = base + head part(h) + modifier part(m) + distance part(h, m)  (+ digits of fields with several values)

and the parts are computed once a word instead of once an arc. A part without a value is ABSENT, which makes the sum
negative; keys are below 2^62.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.kernels.dispatch import fragment, kernel

ABSENT = -(2**62)
N_DISTANCES = 7


class ArcProgram(NamedTuple):
    """Templates as numbers; the first `n_simple` have one value a field.

    Attributes
    ----------
    n_simple : int
    base : int64 (n_templates,)
    piece_ptr : int64 (2, n_templates + 1)
        Fields of the head (row 0) and of the modifier (row 1): those of template t are ``piece_ptr[side, t]`` to
        ``piece_ptr[side, t + 1]``.
    piece_source, piece_offset, piece_stride : int64 (n_pieces,)
        The row of the codes, how many words further to look, and the worth of the digit.
    distance_part : int64 (2 * N_DISTANCES, n_templates)
        By direction and binned distance.
    feature_stride : int64 (2, n_templates)
        Worth of one morphological feature of the head and of the modifier; 0 where the template has none.
    between_stride, between_source : int64 (n_templates,)
        Worth and place of the words between; the stride is 0 where the template has none.
    root_code, outside_code : int64 (n_sources,)
        Codes of the root and of places outside the sentence, -1 for no value.
    """

    n_simple: int
    base: np.ndarray
    piece_ptr: np.ndarray
    piece_source: np.ndarray
    piece_offset: np.ndarray
    piece_stride: np.ndarray
    distance_part: np.ndarray
    feature_stride: np.ndarray
    between_stride: np.ndarray
    between_source: np.ndarray
    root_code: np.ndarray
    outside_code: np.ndarray


class WordCodes(NamedTuple):
    """Codes of the words of a corpus.

    Attributes
    ----------
    sentence_ptr : int64 (n_sentences + 1,)
    codes : int32 (n_sources, n_words)
        -1 for no value, or one that was not seen in training.
    feature_ptr : int64 (n_words + 1,)
    feature_code : int32 (feature_ptr[-1],)
        The morphological features of each word, none twice.
    """

    sentence_ptr: np.ndarray
    codes: np.ndarray
    feature_ptr: np.ndarray
    feature_code: np.ndarray


class ArcWork(NamedTuple):
    """Room for one sentence and one arc.

    Attributes
    ----------
    part : int64 (2, longest + 1, n_templates)
        Parts of the keys of every word as head and as modifier.
    n_distinct : int64 (n_sources,)
    distinct : int64 (n_sources, most)
        Distinct codes of a sentence, of the sources that are looked at between words.
    n_before : int32 (n_sources, most, longest + 1)
        How often each occurs up to a word.
    keys, spreads : int64 (most_keys,)
        Keys of one arc, and what `mixed` makes of them.
    """

    part: np.ndarray
    n_distinct: np.ndarray
    distinct: np.ndarray
    n_before: np.ndarray
    keys: np.ndarray
    spreads: np.ndarray


@fragment
def code_of(program, words, begin, length, source, place):
    """The code of a place counted from the root at 0."""
    if place < 0 or place > length:
        return program.outside_code[source]
    if place == 0:
        return program.root_code[source]
    return np.int64(words.codes[source, begin + place - 1])


@kernel
def read_sentence(program, words, sentence, work):
    """Compute the parts of the keys of a sentence's words."""
    begin = words.sentence_ptr[sentence]
    length = words.sentence_ptr[sentence + 1] - begin
    for side in range(2):
        for place in range(length + 1):
            for t in range(len(program.base)):
                total = program.base[t] if side == 0 else np.int64(0)
                for piece in range(program.piece_ptr[side, t], program.piece_ptr[side, t + 1]):
                    at = place + program.piece_offset[piece]
                    code = code_of(program, words, begin, length, program.piece_source[piece], at)
                    if code < 0:
                        total = np.int64(ABSENT)
                        break
                    total += code * program.piece_stride[piece]
                work.part[side, place, t] = total
    work.n_distinct[:] = -1
    for t in range(program.n_simple, len(program.base)):
        if program.between_stride[t] > 0 and work.n_distinct[program.between_source[t]] < 0:
            read_distinct(words, begin, length, program.between_source[t], work)


@kernel
def read_distinct(words, begin, length, source, work):
    """List the distinct codes of a sentence and count them up to each word."""
    n_distinct = 0
    for place in range(1, length + 1):
        code = words.codes[source, begin + place - 1]
        known = code < 0
        for k in range(n_distinct):
            known = known or work.distinct[source, k] == code
        if not known:
            work.distinct[source, n_distinct] = code
            n_distinct += 1
    for k in range(n_distinct):
        n_before = 0
        work.n_before[source, k, 0] = 0
        for place in range(1, length + 1):
            n_before += words.codes[source, begin + place - 1] == work.distinct[source, k]
            work.n_before[source, k, place] = n_before
    work.n_distinct[source] = n_distinct


@fragment
def distance_number(head, modifier):
    """Direction and binned distance as one number: 1, 2, 3, 4, 5, 6 to 10, more."""
    distance = abs(head - modifier)
    bin_number = distance - 1 if distance <= 5 else (5 if distance <= 10 else 6)
    return bin_number if head < modifier else N_DISTANCES + bin_number


@kernel
def arc_keys(program, words, begin, head, modifier, work):
    """Write the keys of an arc to ``work.keys``; returns how many."""
    head_part, modifier_part = work.part[0, head], work.part[1, modifier]
    distance_part = program.distance_part[distance_number(head, modifier)]
    keys, n_keys = work.keys, 0
    for t in range(program.n_simple):
        key = head_part[t] + modifier_part[t] + distance_part[t]
        keys[n_keys] = key
        n_keys += key >= 0
    for t in range(program.n_simple, len(program.base)):
        key = head_part[t] + modifier_part[t] + distance_part[t]
        if key >= 0:
            n_keys = many_keys(program, words, begin, head, modifier, t, key, work, n_keys)
    return n_keys


@kernel
def many_keys(program, words, begin, head, modifier, t, key, work, n_keys):
    """Write the keys of a template whose fields have several values."""
    first_stride, second_stride = program.feature_stride[0, t], program.feature_stride[1, t]
    first, first_end = np.int64(0), np.int64(first_stride == 0)
    second, second_end = np.int64(0), np.int64(second_stride == 0)
    if first_stride > 0 and head > 0:
        first, first_end = words.feature_ptr[begin + head - 1], words.feature_ptr[begin + head]
    if second_stride > 0:
        second, second_end = words.feature_ptr[begin + modifier - 1], words.feature_ptr[begin + modifier]
    between_stride, source = program.between_stride[t], program.between_source[t]
    low, high = min(head, modifier), max(head, modifier) - 1
    for a in range(first, first_end):
        key_a = key + (words.feature_code[a] * first_stride if first_stride > 0 else 0)
        for b in range(second, second_end):
            key_b = key_a + (words.feature_code[b] * second_stride if second_stride > 0 else 0)
            if between_stride == 0:
                work.keys[n_keys] = key_b
                n_keys += 1
                continue
            for k in range(work.n_distinct[source]):
                if work.n_before[source, k, high] > work.n_before[source, k, low]:
                    work.keys[n_keys] = key_b + work.distinct[source, k] * between_stride
                    n_keys += 1
    return n_keys


@fragment
def mixed(key):
    """Spread a key over 64 bits, of which the highest are the best."""
    first = key * 0x1E3779B97F4A7C15
    return (first ^ (first >> 32)) * 0x2545F4914F6CDD1D


@kernel
def count_keys(program, words, arcs, first_arc, n_arcs, table, work, n_found):
    """Count keys of arcs in an open table of (key, count) pairs until it is half full.

    Returns the arc it came to and the number of distinct keys.
    """
    shift, mask = 64 - bits_of(len(table)), len(table) - 1
    sentence = np.searchsorted(arcs.arc_ptr, first_arc, side="right") - 1
    arc = first_arc
    while arc < n_arcs:
        while arcs.arc_ptr[sentence + 1] <= arc:
            sentence += 1
        read_sentence(program, words, sentence, work)
        begin = words.sentence_ptr[sentence]
        while arc < min(arcs.arc_ptr[sentence + 1], n_arcs):
            if 2 * (n_found + len(work.keys)) > len(table):
                return arc, n_found
            n_keys = arc_keys(program, words, begin, arcs.head[arc], arcs.modifier[arc], work)
            for k in range(n_keys):
                key = work.keys[k]
                slot = (mixed(key) >> shift) & mask
                while table[slot, 1] > 0 and table[slot, 0] != key:
                    slot = (slot + 1) & mask
                n_found += table[slot, 1] == 0
                table[slot, 0] = key
                table[slot, 1] += 1
            arc += 1
    return arc, n_found


@kernel
def bits_of(size):
    """The exponent of a power of two."""
    bits = 0
    while (1 << bits) < size:
        bits += 1
    return bits


@kernel
def move_counts(old, table):
    """Put the entries of a table of counts into a larger one."""
    shift, mask = 64 - bits_of(len(table)), len(table) - 1
    for k in range(len(old)):
        if old[k, 1] > 0:
            slot = (mixed(old[k, 0]) >> shift) & mask
            while table[slot, 1] > 0:
                slot = (slot + 1) & mask
            table[slot, 0], table[slot, 1] = old[k, 0], old[k, 1]


@kernel
def fill_table(keys, numbers, marks):
    """Number the keys in an open table: at a slot the key's number, and a mark of 7 of its bits plus 1; 0 is empty."""
    shift, mask = 64 - bits_of(len(numbers)), len(numbers) - 1
    for k in range(len(keys)):
        spread = mixed(keys[k])
        slot = (spread >> shift) & mask
        while marks[slot] > 0:
            slot = (slot + 1) & mask
        numbers[slot], marks[slot] = k, ((spread >> (shift - 7)) & 127) + 1


@kernel
def find_rows(program, words, arcs, first_arc, n_arcs, keys, numbers, marks, work, row_ptr, ids, n_written):
    """Look up the features of arcs `first_arc` to `n_arcs` - 1 until there may be no more room in `ids`.

    Returns the arc it came to and the number of ids written so far.
    """
    sentence = np.searchsorted(arcs.arc_ptr, first_arc, side="right") - 1
    arc = first_arc
    while arc < n_arcs:
        while arcs.arc_ptr[sentence + 1] <= arc:
            sentence += 1
        read_sentence(program, words, sentence, work)
        begin = words.sentence_ptr[sentence]
        while arc < min(arcs.arc_ptr[sentence + 1], n_arcs):
            if n_written + len(work.keys) > len(ids):
                return arc, n_written
            n_keys = arc_keys(program, words, begin, arcs.head[arc], arcs.modifier[arc], work)
            n_written = find_keys(n_keys, keys, numbers, marks, work, ids, n_written)
            row_ptr[arc + 1] = n_written
            arc += 1
    return arc, n_written


@kernel
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
