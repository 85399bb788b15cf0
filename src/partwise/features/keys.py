# mypy: ignore-errors
"""Keys of features in compiled code, and open tables that count and find them; for rows of every kind.

The fields of a template are the digits of one integer, so the key of a row is a sum

    key(row) = base + Σ part of the word at each place + part of the relations  (+ digits of fields with several values)

The part of a word depends on the word alone and is computed once per word. A part without a value is ABSENT, which
makes the sum negative. Keys are below 2^62, so a sum of two absent parts does not overflow.

Places are counted from 1 in a sentence; 0 is the root of a dependency tree, or the place before the first word.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple

import numpy as np

from partwise.compiled.boundary import IntegerMatrix, Integers, ShortIntegers
from partwise.compiled.dispatch import chosen_by_type, entry, fragment, inner
from partwise.core.arc_triples import ArcTriples
from partwise.core.arcs import Arcs

ABSENT = -(2**62)
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
        By the number of a row's relations, such as direction and distance, or length.
    window_ptr : int64 (n_templates + 1,)
    window_row, window_stride : int64 (n_windows,)
        Values of all words of a span together: the row of ``SpanRows.window`` and the worth of the digit.
    feature_stride : int64 (2, n_templates)
        Worth of one morphological feature of the first two places; 0 if the template has none.
    several_stride, several_source : int64 (n_templates,)
        Worth and source of several words, each distinct value a feature; the stride is 0 if the template has none.
    outside_code : int64 (n_sources, 2 * reach)
        Codes of the places 1, 2 … before the first word, then of those behind the last; -1 for no value. Places
        further outside have the code of the last one.
    """

    n_simple: int
    base: Integers
    piece_ptr: IntegerMatrix
    piece_source: Integers
    piece_offset: Integers
    piece_stride: Integers
    relation_part: IntegerMatrix
    window_ptr: Integers
    window_row: Integers
    window_stride: Integers
    feature_stride: IntegerMatrix
    several_stride: Integers
    several_source: Integers
    outside_code: IntegerMatrix


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


class TokenRows(NamedTuple):
    """Every word of the sentences as a row, but for the first `skip` ones of each.

    Attributes
    ----------
    row_ptr : int64 (n_sentences + 1,)
    skip : int
    """

    row_ptr: np.ndarray
    skip: int


class SpanRows(NamedTuple):
    """Words, spans, splits or segments of sentences.

    Attributes
    ----------
    row_ptr : int64 (n_sentences + 1,)
    first, last, split : int32 (n_rows,)
        Words within the sentence, counted from 0; a split lies behind its word.
    window : int64 (n_windows, n_rows)
        Codes of all words of the row together; -1 for no value.
    """

    row_ptr: np.ndarray
    first: np.ndarray
    last: np.ndarray
    split: np.ndarray
    window: np.ndarray


class Table(NamedTuple):
    """Keys, and how to find them.

    Attributes
    ----------
    keys : int64 (n_keys,)
    direct : int32
        The numbers of the lowest keys, -1 for none.
    numbers, marks : int32 and uint8 (a power of two,)
        All others in an open table. A slot holds the key's number and a mark: 7 of its bits plus 1; 0 is empty.
    """

    keys: Integers
    direct: ShortIntegers
    numbers: ShortIntegers
    marks: Annotated[np.ndarray, np.uint8, 1]


class Workspace(NamedTuple):
    """Memory for one sentence and one row.

    Attributes
    ----------
    part : int64 (n_places, longest + 2, n_templates)
        Parts of the keys: of the root, of every word, and of a place that holds nobody. Rows of one word need none.
    n_distinct : int64 (n_sources,)
    distinct : int64 (n_sources, most)
        Distinct codes of a sentence, of the sources that fields of several words use.
    n_before : int32 (n_sources, most, longest + 1)
        How often each occurs up to a word.
    keys, spreads, numbers : int64 (most_keys,)
        Keys of one row, their spread bits (`mixed`) and their numbers.
    """

    part: Annotated[np.ndarray, np.int64, 3]
    n_distinct: Integers
    distinct: IntegerMatrix
    n_before: Annotated[np.ndarray, np.int32, 3]
    keys: Integers
    spreads: Integers
    numbers: Integers


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
    begin, first = words.sentence_ptr[sentence], np.int64(spans.first[number]) + 1
    last = np.int64(spans.last[number]) + 1
    first_part, last_part, split_part = (
        work.part[0, first],
        work.part[1, last],
        work.part[2, spans.split[number] + 1],
    )
    length_part = program.relation_part[min(last - first + 1, len(program.relation_part)) - 1]
    keys, n_keys = work.keys, 0
    for t in range(len(program.base)):
        key = first_part[t] + last_part[t]
        if key < 0:
            continue
        key += split_part[t] + length_part[t]
        for k in range(program.window_ptr[t], program.window_ptr[t + 1]):
            code = spans.window[program.window_row[k], number]
            key = key + code * program.window_stride[k] if code >= 0 else np.int64(ABSENT)
        if t < program.n_simple:
            keys[n_keys] = key
            n_keys += key >= 0
        elif key >= 0:
            n_keys = several_keys(program, words, begin, first, last, first - 1, last, t, key, work, n_keys)
    return n_keys


# -- all words of a span together ----------------------------------------------------------------


@entry
def window_keys(codes, sources, longest, sentence_ptr, row_ptr, first, last, keys):
    """Hash the codes of all words of every row, int64 (n_windows, n_rows); -1 if one has no value or they are too many.

    A row that is the one before it and one word more goes on from there.
    """
    for w in range(len(sources)):
        source = sources[w]
        for s in range(len(sentence_ptr) - 1):
            begin, previous, reached, key = sentence_ptr[s], np.int64(-1), np.int64(-1), np.int64(0)
            for row in range(row_ptr[s], row_ptr[s + 1]):
                if first[row] != previous or last[row] < reached:
                    previous, reached, key = np.int64(first[row]), np.int64(first[row]) - 1, np.int64(1)
                while reached < last[row]:
                    reached += 1
                    code = np.int64(codes[source, begin + reached])
                    if code < 0 or reached - previous >= longest[w]:
                        key = np.int64(-1)
                    elif key >= 0:
                        mixed_key = product(key ^ (code + 1), 0x1E3779B97F4A7C15) & 0x3FFFFFFFFFFFFFFF
                        key = mixed_key ^ (mixed_key >> 31)
                keys[w, row] = key


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


# -- tables --------------------------------------------------------------------------------------


@fragment
def product(a, b):
    """The lowest 64 bits of a product.

    LLVM takes it that products of signed numbers do not overflow. It then tells their sign from those of the factors,
    and shifts of the same product give other bits in another place of the code.
    """
    return np.int64(np.uint64(a) * np.uint64(b))


@fragment
def mixed(key):
    """Spread a key over 64 bits, of which the highest are the best."""
    first = product(key, 0x1E3779B97F4A7C15)
    return product(first ^ (first >> 32), 0x2545F4914F6CDD1D)


@inner
def bits_of(size):
    """The exponent of a power of two."""
    bits = 0
    while (1 << bits) < size:
        bits += 1
    return bits


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


# -- hashes of tokens ----------------------------------------------------------------------------


@entry
def hash_rows(program, words, tokens, seeds, hash_ptr, hashes, size, row_ptr, ids):
    """Hash the features of tokens to `size` numbers by their strings alone; returns how many were written.

    The hashes of source k's strings begin at ``hash_ptr[k]``.
    """
    n_written = 0
    for sentence in range(len(tokens.row_ptr) - 1):
        begin = words.sentence_ptr[sentence]
        length = words.sentence_ptr[sentence + 1] - begin
        for row in range(tokens.row_ptr[sentence], tokens.row_ptr[sentence + 1]):
            place = row - tokens.row_ptr[sentence] + tokens.skip + 1
            relation_part = program.relation_part[(place == 1) + 2 * (place == length)]
            for t in range(len(program.base)):
                key = seeds[t] if relation_part[t] >= 0 else np.int64(-1)
                for piece in range(program.piece_ptr[0, t], program.piece_ptr[0, t + 1]):
                    at, source = place + program.piece_offset[piece], program.piece_source[piece]
                    code = code_of(program, words, begin, length, source, at)
                    if key >= 0 and code >= 0:
                        mixed_key = product(key ^ hashes[hash_ptr[source] + code], 0x2545F4914F6CDD1D)
                        key = (mixed_key ^ (mixed_key >> 29)) & 0x7FFFFFFFFFFFFFFF
                    else:
                        key = np.int64(-1)
                if key >= 0:
                    ids[n_written] = key % size
                    n_written += 1
            row_ptr[row + 1] = n_written
    return n_written
