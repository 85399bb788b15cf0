# mypy: ignore-errors
"""Keys of features in compiled code, for rows of every kind.

The fields of a template are the digits of one integer, so the key of a row is a sum

    key(row) = base + Σ part of the word at each place + part of the relations  (+ digits of fields with several values)

The part of a word depends on the word alone and is computed once per word. A part without a value is ABSENT, which
makes the sum negative. Keys are below 2^62, so a sum of two absent parts does not overflow.

Places are counted from 1 in a sentence; 0 is the root of a dependency tree, or the place before the first word.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.compiled.dispatch import chosen_by_type, fragment, inner
from partwise.core.arc_triples import ArcTriples
from partwise.core.arcs import Arcs
from partwise.features.keys.records import RuleRows, SpanRows, TokenRows

ABSENT = -(2**62)
NOWHERE = -1000  # outside the sentence, however far one looks from there


# -- parts of words ------------------------------------------------------------------------------


@fragment
def code_of(program, words, begin, length, source, place):
    """The code of a place, which may lie outside the sentence."""
    if 1 <= place <= length:
        return np.int64(words.codes[source, begin + place - 1])
    reach = program.outside_code.shape[1] // 2
    if place < 1:
        return program.outside_code[source, min(-place, reach - 1)]
    return program.outside_code[source, reach + min(place - length, reach) - 1]


@inner
def write_parts(program, words, begin, length, side, place, out):
    """The part that the word at a place adds to the key of every template."""
    for t in range(len(program.base)):
        total = program.base[t] if side == 0 else np.int64(0)
        for piece in range(program.piece_ptr[side, t], program.piece_ptr[side, t + 1]):
            at = place + program.piece_offset[piece]
            code = code_of(program, words, begin, length, program.piece_source[piece], at)
            if code < 0:
                total = np.int64(ABSENT)
                break
            total += code * program.piece_stride[piece]
        out[t] = total


@inner
def read_sentence(program, words, sentence, work):
    """Compute the parts of the keys of a sentence's words."""
    begin = words.sentence_ptr[sentence]
    length = words.sentence_ptr[sentence + 1] - begin
    for side in range(work.part.shape[0]):
        for row in range(length + 2):
            place = row if row <= length else NOWHERE
            write_parts(program, words, begin, length, side, place, work.part[side, row])
    work.n_distinct[:] = -1
    for t in range(program.n_simple, len(program.base)):
        if program.several_stride[t] > 0 and work.n_distinct[program.several_source[t]] < 0:
            read_distinct(words, begin, length, program.several_source[t], work)


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


@keys_of.register(TokenRows)
@inner
def token_keys(tokens, program, words, sentence, number, work):
    begin = words.sentence_ptr[sentence]
    length = words.sentence_ptr[sentence + 1] - begin
    place = number - tokens.row_ptr[sentence] + tokens.skip + 1
    keys, n_keys = work.keys, 0
    write_parts(program, words, begin, length, 0, place, keys)
    relation_part = program.relation_part[(place == 1) + 2 * (place == length)]
    for t in range(len(program.base)):
        key = keys[t] + relation_part[t]
        keys[n_keys] = key
        n_keys += key >= 0
    return n_keys


@keys_of.register(Arcs)
@inner
def arc_keys(arcs, program, words, sentence, number, work):
    begin, head, modifier = words.sentence_ptr[sentence], arcs.head[number], arcs.modifier[number]
    furthest = len(program.relation_part) // 2
    distance = min(abs(head - modifier), furthest) - 1
    head_part, modifier_part = work.part[0, head], work.part[1, modifier]
    relation_part = program.relation_part[distance if head < modifier else furthest + distance]
    keys, n_keys = work.keys, 0
    for t in range(program.n_simple):
        key = head_part[t] + modifier_part[t] + relation_part[t]
        keys[n_keys] = key
        n_keys += key >= 0
    low, high = min(head, modifier), max(head, modifier) - 1
    for t in range(program.n_simple, len(program.base)):
        key = head_part[t] + modifier_part[t] + relation_part[t]
        if key >= 0:
            n_keys = several_keys(program, words, begin, head, modifier, low, high, t, key, work, n_keys)
    return n_keys


@inner
def several_keys(program, words, begin, first, second, low, high, t, key, work, n_keys):
    """Write the keys of a template whose fields have several values: features of the words at two places, and distinct
    values of the words after `low`, up to `high`."""
    first_stride, second_stride = program.feature_stride[0, t], program.feature_stride[1, t]
    a_begin, a_end = np.int64(0), np.int64(first_stride == 0)
    b_begin, b_end = np.int64(0), np.int64(second_stride == 0)
    if first_stride > 0 and first > 0:
        a_begin, a_end = words.feature_ptr[begin + first - 1], words.feature_ptr[begin + first]
    if second_stride > 0:
        b_begin, b_end = words.feature_ptr[begin + second - 1], words.feature_ptr[begin + second]
    stride, source = program.several_stride[t], program.several_source[t]
    for a in range(a_begin, a_end):
        key_a = key + (words.feature_code[a] * first_stride if first_stride > 0 else 0)
        for b in range(b_begin, b_end):
            key_b = key_a + (words.feature_code[b] * second_stride if second_stride > 0 else 0)
            if stride == 0:
                work.keys[n_keys] = key_b
                n_keys += 1
                continue
            for k in range(work.n_distinct[source]):
                if work.n_before[source, k, high] > work.n_before[source, k, low]:
                    work.keys[n_keys] = key_b + work.distinct[source, k] * stride
                    n_keys += 1
    return n_keys


@fragment
def triple_number(first, head, modifier, furthest):
    """Directions from the first word to the head and on to the modifier, and the distance of first word and modifier.

    A word that is missing (below 0) counts as standing where the head does.
    """
    a, b = (head if first < 0 else first), (head if modifier < 0 else modifier)
    leftwards, back = a > head, (a > head if modifier < 0 else b < head)
    return (2 * leftwards + back) * furthest + min(abs(a - b), furthest) - 1


@keys_of.register(ArcTriples)
@inner
def triple_keys(triples, program, words, sentence, number, work):
    nobody = words.sentence_ptr[sentence + 1] - words.sentence_ptr[sentence] + 1
    first, head, modifier = triples.first[number], triples.head[number], triples.modifier[number]
    head_part = work.part[0, head]
    modifier_part = work.part[1, nobody if modifier < 0 else modifier]
    first_part = work.part[2, nobody if first < 0 else first]
    furthest = len(program.relation_part) // 4
    relation_part = program.relation_part[triple_number(first, head, modifier, furthest)]
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
    length = spans.last[number] - spans.first[number]
    return place_keys(
        spans, program, words, sentence, number, min(length, len(program.relation_part) - 1), work
    )


@keys_of.register(RuleRows)
@inner
def rule_keys(rules, program, words, sentence, number, work):
    """Relations are numbered by rule, then by length."""
    furthest = (len(program.relation_part) - 1) // rules.n_rules
    length = min(rules.last[number] - rules.first[number], furthest - 1)
    relation = np.int64(rules.rule[number]) * furthest + length
    return place_keys(rules, program, words, sentence, number, relation, work)


@inner
def place_keys(spans, program, words, sentence, number, relation, work):
    """Keys of a row with a first and a last word and a split; `relation` is the number of its relations."""
    begin, first = words.sentence_ptr[sentence], np.int64(spans.first[number]) + 1
    last = np.int64(spans.last[number]) + 1
    first_part, last_part, split_part = (
        work.part[0, first],
        work.part[1, last],
        work.part[2, spans.split[number] + 1],
    )
    relation_part = program.relation_part[relation]
    keys, n_keys = work.keys, 0
    for t in range(len(program.base)):
        key = first_part[t] + last_part[t]
        if key < 0:
            continue
        key += split_part[t] + relation_part[t]
        for k in range(program.window_ptr[t], program.window_ptr[t + 1]):
            code = spans.window[program.window_row[k], number]
            key = key + code * program.window_stride[k] if code >= 0 else np.int64(ABSENT)
        if t < program.n_simple:
            keys[n_keys] = key
            n_keys += key >= 0
        elif key >= 0:
            n_keys = several_keys(program, words, begin, first, last, first - 1, last, t, key, work, n_keys)
    return n_keys
