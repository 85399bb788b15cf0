"""Features of words, spans and splits of sentences for constituency parsing, numbered by templates."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, ClassVar, NamedTuple

import numpy as np

from partwise.core.arrays import offsets, positions
from partwise.core.rows import AttributeRows
from partwise.core.word_classes import word_class
from partwise.errors import InputError
from partwise.features import place_presets
from partwise.features.place_features import PlaceFeatures
from partwise.features.place_keys import SpanRows
from partwise.features.place_templates import Language

LENGTHS = ("1", "2", "3", "4", "5", "6-10", "11-20", "21+")
# Spans of more words have no shape: few of them look alike.
LONGEST_SHAPE = 8


def _language(name: str, places: tuple[str, ...], presets: Sequence[str], examples: str) -> Language:
    values = ("form", "lower", "tag", "class")
    return Language(
        name=name,
        parameter=f"{name}_templates",
        places=places,
        values=values,
        has_affixes=True,
        relations={} if name == "word" else {"length": LENGTHS, "shape": ()},
        presets={"default": presets},
        examples=examples,
        reserved=("<outside>",),
        reserved_values=values,
        n_places=3,
    )


LANGUAGES = {
    "word": _language("word", ("word",), place_presets.WORDS, "word.form, word-1.tag, word.suffix3"),
    "span": _language("span", ("first", "last"), place_presets.SPANS, "first.tag, last+1.form, length, shape"),
    "split": _language(
        "split", ("first", "last", "split"), place_presets.SPLITS, "first.tag, split.form, split+1.tag, length"
    ),
}  # fmt: skip


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
        Within the sentence, from 0; `split` is the last word of the left part, 0 if there is none.
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


class SpanFeatures(PlaceFeatures):
    """Numbers the features of words, of spans or of splits by templates.

    Values of a word are form, lower, tag, class (case, digits, ending; see `partwise.core.word_classes`), prefixN and
    suffixN. The shape of a span is one character per word, such as "Xx,x". Labels and rules need no field: every
    feature has a weight for each of them.

    Parameters
    ----------
    what : {"word", "span", "split"}
    templates : "default" or list of str
        See `partwise.features.place_templates`. Templates with a field that the training sentences have no values for
        are left out.
    min_count : int
        Features with fewer occurrences in training are dropped.

    Attributes
    ----------
    n_attributes : int
        Features that have a number; the most frequent come first.
    used_templates : list of str
    """

    subject: ClassVar[str] = "features of spans"

    def __init__(self, what: str, templates: str | Sequence[str] = "default", min_count: int = 1):
        if what not in LANGUAGES:
            raise InputError(f"{what!r:.40} is not one of {', '.join(LANGUAGES)}")
        self.what, self.language = what, LANGUAGES[what]
        super().__init__(templates, min_count)

    def fit(self, sentences: Sentences, places: Places) -> SpanFeatures:
        """Learn which features the rows at these places, those of true trees, have."""
        self._fit(sentences, places)
        return self

    def transform(self, sentences: Sentences, places: Places) -> AttributeRows:
        """The known features of rows."""
        return self._rows(sentences, places)

    def _column(self, data: Sentences, value: str) -> Sequence[str] | None:
        if value == "class":
            starts = set(data.sentence_ptr[:-1].tolist())
            return [word_class(form, t in starts) for t, form in enumerate(data.forms)]
        return data.tags if value == "tag" else data.forms

    def _learnt_relation(self, data: Sentences, rows: Places) -> Iterable[str | None]:
        return shapes(data, rows)

    def _compiled_rows(self, data: Sentences, rows: Places) -> SpanRows:
        shape = np.full(len(rows.first), -1, np.int32)
        space = self._spaces.get("shape")
        if space is not None:
            found = shapes(data, rows)
            shape = np.array([-1 if each is None else space.get(each, -1) for each in found], np.int32)
        first, last, split = (np.ascontiguousarray(each, np.int32) for each in rows[1:])
        return SpanRows(np.ascontiguousarray(rows.row_ptr, np.int64), first, last, split, shape)

    def state(self) -> dict[str, Any]:
        return super().state() | {"what": self.what}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> SpanFeatures:
        """Rebuild from what `state` returned."""
        features = cls(state["what"], state["templates"], int(state["min_count"]))
        features._set_state(state)
        return features


def shapes(sentences: Sentences, places: Places) -> list[str | None]:
    """What the words of every row look like, a character per word; None for rows of more than `LONGEST_SHAPE` words."""
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
    """One character for a word: X for a capital, x for a letter, 9 if it has digits, else its first character."""
    if any(character.isdigit() for character in form):
        return "9"
    if form[:1].isalpha():
        return "X" if form[0].isupper() else "x"
    return form[0] if form else " "
