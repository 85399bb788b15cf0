"""What templates of spans look at: sentences as columns, the places of rows, and codes of all values."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from partwise.core.arrays import offsets, positions
from partwise.core.word_classes import word_class
from partwise.features.arc_values import interned, value
from partwise.features.span_keys import SpanRows

LONGEST_SHAPE = 8
_UNKNOWN = -1


class Sentences(NamedTuple):
    """Words of some sentences.

    Attributes
    ----------
    forms : list of str, (n_words,)
    tags : list of str (n_words,), or None
    sentence_ptr : int64 (n_sentences + 1,)
    """

    forms: list[str]
    tags: list[str] | None
    sentence_ptr: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        return np.diff(self.sentence_ptr)


class Places(NamedTuple):
    """Rows of some sentences: words, spans or splits.

    Attributes
    ----------
    row_ptr : int64 (n_sentences + 1,)
    first, last, split : int32 (n_rows,)
        Within the sentence, from 0; `split` is the last word of the left part, 0 where there is none.
    """

    row_ptr: np.ndarray
    first: np.ndarray
    last: np.ndarray
    split: np.ndarray

    @classmethod
    def of_words(cls, lengths: np.ndarray) -> Places:
        """Every word as a row."""
        place = positions(lengths).astype(np.int32)
        return cls(offsets(lengths), place, place, np.zeros(len(place), np.int32))


def source_values(sentences: Sentences, source: str) -> tuple[list[str | None], np.ndarray]:
    """The distinct values of a field of words, None for no value, and for every word which of them it has."""
    if source == "tag":
        strings, places = interned(sentences.tags or [])
        return list(strings), places
    if source == "class":
        starts = set(sentences.sentence_ptr[:-1].tolist())
        classes = [word_class(form, t in starts) for t, form in enumerate(sentences.forms)]
        found, places = interned(classes)
        return list(found), places
    strings, places = interned(sentences.forms)
    return [value(string, source) for string in strings], places


def word_codes(sentences: Sentences, spaces: Mapping[str, Mapping[str, int]]) -> np.ndarray:
    """Codes of all words in each field, int32 (n_fields, n_words), -1 where there is none."""
    n_words = int(sentences.sentence_ptr[-1])
    codes = np.full((len(spaces), n_words), _UNKNOWN, np.int32)
    for row, (source, space) in enumerate(spaces.items()):
        if source != "shape" and (source != "tag" or sentences.tags is not None):
            values, places = source_values(sentences, source)
            known = [_UNKNOWN if each is None else space.get(each, _UNKNOWN) for each in values]
            codes[row] = np.array(known, np.int32)[places]
    return codes


def shape_strings(sentences: Sentences, places: Places) -> list[str | None]:
    """What the words of every row look like, a character a word; None for rows of more than `LONGEST_SHAPE` words."""
    known = {form: _look(form) for form in dict.fromkeys(sentences.forms)}
    looks = "".join([known[form] for form in sentences.forms])
    begins = sentences.sentence_ptr.tolist()
    result: list[str | None] = []
    first, last = places.first.tolist(), places.last.tolist()
    for i, (low, high) in enumerate(pairwise(places.row_ptr.tolist())):
        begin = begins[i]
        for row in range(low, high):
            short = last[row] - first[row] < LONGEST_SHAPE
            result.append(looks[begin + first[row] : begin + last[row] + 1] if short else None)
    return result


def _look(form: str) -> str:
    """One character for a word: X capitals, x letters, 9 digits, else its first character."""
    if any(character.isdigit() for character in form):
        return "9"
    if form[:1].isalpha():
        return "X" if form[0].isupper() else "x"
    return form[0] if form else " "


def span_rows(sentences: Sentences, places: Places, spaces: Mapping[str, Mapping[str, int]]) -> SpanRows:
    """What compiled code reads."""
    shape = np.full(len(places.first), _UNKNOWN, np.int32)
    if "shape" in spaces:
        space = spaces["shape"]
        strings = shape_strings(sentences, places)
        shape = np.array(
            [_UNKNOWN if each is None else space.get(each, _UNKNOWN) for each in strings], np.int32
        )
    return SpanRows(
        np.ascontiguousarray(places.row_ptr, np.int64),
        np.ascontiguousarray(sentences.sentence_ptr, np.int64),
        np.ascontiguousarray(places.first, np.int32),
        np.ascontiguousarray(places.last, np.int32),
        np.ascontiguousarray(places.split, np.int32),
        shape.reshape(-1),
        word_codes(sentences, spaces),
    )
