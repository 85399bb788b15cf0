# mypy: ignore-errors
"""Keys of features of rows that look at several words, in compiled code, and open tables that count and find them.

The fields of a template are the digits of one integer, so the key of a row is a sum

    key(row) = base + Σ part of the word at each place + part of the relations  (+ digits of fields with several values)

The part of a word depends on the word alone and is computed once per word. A part without a value is ABSENT, which
makes the sum negative. Keys are below 2^62, so a sum of two absent parts does not overflow.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from partwise.compiled.dispatch import chosen_by_type, entry, fragment, inner
from partwise.core.arc_triples import ArcTriples
from partwise.core.arcs import Arcs

ABSENT = -(2**62)
N_DISTANCES = 7
NOWHERE = -1000  # outside the sentence, however far one looks from there


class Program(NamedTuple):
    """Templates as numbers; the first `n_simple` have one value per field.

    Attributes
    ----------
    n_simple : int
    base : int64 (n_templates,)
    piece_ptr : int64 (n_places, n_templates + 1)
        Fields of each place: those of template t are ``piece_ptr[place, t]`` to ``piece_ptr[place, t + 1]``.
    piece_source, piece_offset, piece_stride : int64 (n_pieces,)
        The row of the codes, the distance from the place, and the worth of the digit.
    relation_part : int64 (n_numbers, n_templates)
        By the number of a row's relations: direction and binned distance, or binned length.
    learnt_stride : int64 (n_templates,)
        Worth of a relation whose values are learnt (the shape of a span); 0 if the template has none.
    feature_stride : int64 (2, n_templates)
        Worth of one morphological feature of the first two places; 0 if the template has none.
    between_stride, between_source : int64 (n_templates,)
        Worth and source of the words between the first two places; the stride is 0 if the template has none.
    root_code, outside_code : int64 (n_sources,)
        Codes of the root and of places outside the sentence, -1 for no value.
    """

    n_simple: int
    base: np.ndarray
    piece_ptr: np.ndarray
    piece_source: np.ndarray
    piece_offset: np.ndarray
    piece_stride: np.ndarray
    relation_part: np.ndarray
    learnt_stride: np.ndarray
    feature_stride: np.ndarray
    between_stride: np.ndarray
    between_source: np.ndarray
    root_code: np.ndarray
    outside_code: np.ndarray


class WordCodes(NamedTuple):
    """Codes of the words of some sentences.

    Attributes
    ----------
    sentence_ptr : int64 (n_sentences + 1,)
    codes : int32 (n_sources, n_words)
        -1 for no value, or one that was not seen in training.
    feature_ptr : int64 (n_words + 1,)
    feature_code : int32 (feature_ptr[-1],)
        The morphological features of each word, each once.
    """

    sentence_ptr: np.ndarray
    codes: np.ndarray
    feature_ptr: np.ndarray
    feature_code: np.ndarray


class SpanRows(NamedTuple):
    """Words, spans or splits of sentences.

    Attributes
    ----------
    row_ptr : int64 (n_sentences + 1,)
    first, last, split : int32 (n_rows,)
        Words within the sentence, counted from 0; a split lies behind its word.
    shape : int32 (n_rows,)
        -1 for no value.
    """

    row_ptr: np.ndarray
    first: np.ndarray
    last: np.ndarray
    split: np.ndarray
    shape: np.ndarray


class Workspace(NamedTuple):
    """Memory for one sentence and one row.

    Attributes
    ----------
    part : int64 (n_places, longest + 2, n_templates)
        Parts of the keys: of the root, of every word, and of a place that holds nobody.
    n_distinct : int64 (n_sources,)
    distinct : int64 (n_sources, most)
        Distinct codes of a sentence, of the sources that fields between two words use.
    n_before : int32 (n_sources, most, longest + 1)
        How often each occurs up to a word.
    keys, spreads : int64 (most_keys,)
        Keys of one row, and their spread bits (`mixed`).
    """

    part: np.ndarray
    n_distinct: np.ndarray
    distinct: np.ndarray
    n_before: np.ndarray
    keys: np.ndarray
    spreads: np.ndarray


# -- parts of words ------------------------------------------------------------------------------


@fragment
def code_of(program, words, begin, length, source, place):
    """The code of a place; the root is at 0 and the first word at 1."""
    if place < 0 or place > length:
        return program.outside_code[source]
    if place == 0:
        return program.root_code[source]
    return np.int64(words.codes[source, begin + place - 1])


@inner
def read_sentence(program, words, sentence, work):
    """Compute the parts of the keys of a sentence's words."""
    begin = words.sentence_ptr[sentence]
    length = words.sentence_ptr[sentence + 1] - begin
    for side in range(program.piece_ptr.shape[0]):
        for row in range(length + 2):
            place = row if row <= length else NOWHERE
            for t in range(len(program.base)):
                total = program.base[t] if side == 0 else np.int64(0)
                for piece in range(program.piece_ptr[side, t], program.piece_ptr[side, t + 1]):
                    at = place + program.piece_offset[piece]
                    code = code_of(program, words, begin, length, program.piece_source[piece], at)
                    if code < 0:
                        total = np.int64(ABSENT)
                        break
                    total += code * program.piece_stride[piece]
                work.part[side, row, t] = total
    work.n_distinct[:] = -1
    for t in range(program.n_simple, len(program.base)):
        if program.between_stride[t] > 0 and work.n_distinct[program.between_source[t]] < 0:
            read_distinct(words, begin, length, program.between_source[t], work)


@inner
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


# -- keys of rows --------------------------------------------------------------------------------


@chosen_by_type
def keys_of(rows: Any, program: Any, words: Any, sentence: int, number: int, work: Any) -> int:
    """Write the keys of a row to ``work.keys``; returns how many."""
    raise TypeError


@fragment
def distance_number(distance):
    """The number of a distance's bin: 1, 2, 3, 4, 5, 6 to 10, more."""
    return distance - 1 if distance <= 5 else (5 if distance <= 10 else 6)


@fragment
def length_number(length):
    """The number of a length's bin: 1, 2, 3, 4, 5, 6 to 10, 11 to 20, more."""
    return length - 1 if length <= 5 else (5 if length <= 10 else (6 if length <= 20 else 7))


@keys_of.register(Arcs)
@inner
def arc_keys(arcs, program, words, sentence, number, work):
    begin, head, modifier = words.sentence_ptr[sentence], arcs.head[number], arcs.modifier[number]
    distance = distance_number(abs(head - modifier))
    head_part, modifier_part = work.part[0, head], work.part[1, modifier]
    relation_part = program.relation_part[distance if head < modifier else N_DISTANCES + distance]
    keys, n_keys = work.keys, 0
    for t in range(program.n_simple):
        key = head_part[t] + modifier_part[t] + relation_part[t]
        keys[n_keys] = key
        n_keys += key >= 0
    for t in range(program.n_simple, len(program.base)):
        key = head_part[t] + modifier_part[t] + relation_part[t]
        if key >= 0:
            n_keys = several_keys(program, words, begin, head, modifier, t, key, work, n_keys)
    return n_keys


@inner
def several_keys(program, words, begin, head, modifier, t, key, work, n_keys):
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
def triple_number(first, head, modifier):
    """Directions from the first word to the head and on to the modifier, and the distance of first word and modifier.

    A word that is missing (below 0) counts as standing where the head does.
    """
    a, b = (head if first < 0 else first), (head if modifier < 0 else modifier)
    leftwards, back = a > head, (a > head if modifier < 0 else b < head)
    return (2 * leftwards + back) * N_DISTANCES + distance_number(abs(a - b))


@keys_of.register(ArcTriples)
@inner
def triple_keys(triples, program, words, sentence, number, work):
    nobody = words.sentence_ptr[sentence + 1] - words.sentence_ptr[sentence] + 1
    first, head, modifier = triples.first[number], triples.head[number], triples.modifier[number]
    head_part = work.part[0, head]
    modifier_part = work.part[1, nobody if modifier < 0 else modifier]
    first_part = work.part[2, nobody if first < 0 else first]
    relation_part = program.relation_part[triple_number(first, head, modifier)]
    keys, n_keys = work.keys, 0
    for t in range(len(program.base)):
        key = head_part[t] + modifier_part[t]
        if key >= 0:
            key += first_part[t] + relation_part[t]
            keys[n_keys] = key
            n_keys += key >= 0
    return n_keys


@keys_of.register(SpanRows)
@inner
def span_keys(spans, program, words, sentence, number, work):
    first_part = work.part[0, spans.first[number] + 1]
    last_part, split_part = work.part[1, spans.last[number] + 1], work.part[2, spans.split[number] + 1]
    length = np.int64(spans.last[number]) - spans.first[number] + 1
    length_part, shape = program.relation_part[length_number(length)], np.int64(spans.shape[number])
    keys, n_keys = work.keys, 0
    for t in range(len(program.base)):
        key = first_part[t] + last_part[t]
        if key >= 0:
            key += split_part[t] + length_part[t]
            if program.learnt_stride[t] > 0:
                key = key + shape * program.learnt_stride[t] if shape >= 0 else np.int64(-1)
            keys[n_keys] = key
            n_keys += key >= 0
    return n_keys


# -- tables --------------------------------------------------------------------------------------


@fragment
def mixed(key):
    """Spread a key over 64 bits, of which the highest are the best."""
    first = key * 0x1E3779B97F4A7C15
    return (first ^ (first >> 32)) * 0x2545F4914F6CDD1D


@inner
def bits_of(size):
    """The exponent of a power of two."""
    bits = 0
    while (1 << bits) < size:
        bits += 1
    return bits


@entry
def count_keys(program, words, rows, first, n_rows, table, work, n_found):
    """Count keys of rows in an open table of (key, count) pairs until it is half full.

    Returns the row that comes next and the number of distinct keys.
    """
    shift, mask = 64 - bits_of(len(table)), len(table) - 1
    sentence, row, ptr = 0, first, rows[0]
    while row < n_rows:
        while ptr[sentence + 1] <= row:
            sentence += 1
        read_sentence(program, words, sentence, work)
        while row < min(ptr[sentence + 1], n_rows):
            if 2 * (n_found + len(work.keys)) > len(table):
                return row, n_found
            n_keys = keys_of(rows, program, words, sentence, row, work)
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
    """Number the keys in an open table. A slot holds the key's number and a mark: 7 of its bits plus 1; 0 is empty."""
    shift, mask = 64 - bits_of(len(numbers)), len(numbers) - 1
    for k in range(len(keys)):
        spread = mixed(keys[k])
        slot = (spread >> shift) & mask
        while marks[slot] > 0:
            slot = (slot + 1) & mask
        numbers[slot], marks[slot] = k, ((spread >> (shift - 7)) & 127) + 1


@entry
def find_rows(program, words, rows, first, n_rows, keys, numbers, marks, work, row_ptr, ids, n_written):
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
            n_written = find_keys(n_keys, keys, numbers, marks, work, ids, n_written)
            row_ptr[row + 1] = n_written
            row += 1
    return row, n_written


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
