# mypy: ignore-errors
"""Keys of arc features in compiled code, summed from parts of head, modifier and distance.

A template's fields are the digits of one integer, so its key is a sum

    key(h, m) = base + head part(h) + modifier part(m) + distance part(h, m)  (+ digits of fields with several values)

and the parts are computed once a word instead of once an arc. A part without a value is ABSENT, which makes the sum
negative; keys are below 2^62.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from partwise.compiled.dispatch import fragment, inner

ABSENT = -(2**62)
N_DISTANCES = 7
NOWHERE = -1000  # outside the sentence, however far one looks from there


class ArcProgram(NamedTuple):
    """Templates as numbers; the first `n_simple` have one value a field.

    Attributes
    ----------
    n_simple : int
    base : int64 (n_templates,)
    piece_ptr : int64 (n_sides, n_templates + 1)
        Fields of the head (row 0), of the modifier (row 1) and perhaps of a third word: those of template t are
        ``piece_ptr[side, t]`` to ``piece_ptr[side, t + 1]``.
    piece_source, piece_offset, piece_stride : int64 (n_pieces,)
        The row of the codes, how many words further to look, and the worth of the digit.
    distance_part : int64 (n_directions * N_DISTANCES, n_templates)
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
    part : int64 (n_sides, longest + 2, n_templates)
        Parts of the keys of every word as head, as modifier and perhaps as a third; behind them those of nobody.
    n_distinct : int64 (n_sources,)
    distinct : int64 (n_sources, most)
        Distinct codes of a sentence, of the sources that are looked at between words.
    n_before : int32 (n_sources, most, longest + 1)
        How often each occurs up to a word.
    keys, spreads : int64 (most_keys,)
        Keys of one arc, and what `arc_tables.mixed` makes of them.
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


@fragment
def binned(distance):
    """The number of a distance's bin: 1, 2, 3, 4, 5, 6 to 10, more."""
    return distance - 1 if distance <= 5 else (5 if distance <= 10 else 6)


@fragment
def distance_number(head, modifier):
    """Direction and binned distance as one number."""
    bin_number = binned(abs(head - modifier))
    return bin_number if head < modifier else N_DISTANCES + bin_number


@inner
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


@inner
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
