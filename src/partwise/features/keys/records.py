"""What compiled code reads and writes: templates as numbers, words as codes, rows, tables, and memory to work in."""

from __future__ import annotations

from typing import Annotated, NamedTuple

import numpy as np

from partwise.compiled.boundary import IntegerMatrix, Integers, ShortIntegers


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


class RuleRows(NamedTuple):
    """Anchored rules of sentences: fields as of :class:`SpanRows`, then

    Attributes
    ----------
    rule : int32 (n_rows,)
        The number of each rule.
    n_rules : int
    """

    row_ptr: np.ndarray
    first: np.ndarray
    last: np.ndarray
    split: np.ndarray
    window: np.ndarray
    rule: np.ndarray
    n_rules: int


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
