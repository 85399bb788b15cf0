"""Features of words, spans, splits and anchored rules of sentences for constituency parsing, numbered by templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Any, ClassVar, NamedTuple

import numpy as np

from partwise.core.arrays import offsets, positions
from partwise.core.rows import AttributeRows
from partwise.core.word_classes import word_class
from partwise.errors import InputError
from partwise.features import presets as sets
from partwise.features.engine import Window
from partwise.features.keys.records import SpanRows, WordCodes
from partwise.features.listed import ListedFeatures
from partwise.features.templates import ANY, RELATION, Column, Field, Kind, affixes

LENGTHS = ("1", "2", "3", "4", "5", "6-10", "11-20", "21+")
_OF_LENGTH = np.array(
    [0, 1, 2, 3, 4, *[5] * 5, *[6] * 10, 7]
)  # by length from 1; the last for all longer ones
# Spans of more words have no shape: few of them look alike.
LONGEST_SHAPE = 8


def look(form: str) -> str:
    """One character for a word: X for a capital, x for a letter, 9 if it has digits, else its first character."""
    if any(character.isdigit() for character in form):
        return "9"
    if form[:1].isalpha():
        return "X" if form[0].isupper() else "x"
    return form[0] if form else " "


def _kind(name: str, places: tuple[str, ...], preset: Sequence[str], examples: str) -> Kind:
    return Kind(
        name=name,
        parameter=f"{'rule' if name == 'anchored' else name}_templates",
        places=places,
        examples=examples,
        columns={
            "form": Column("form"),
            "lower": Column("form", str.lower),
            "tag": Column("tag"),
            "class": Column("class"),
            "look": Column("form", look),
            **affixes("form"),
        },
        relations={} if name == "word" else {"length": LENGTHS, "shape": ()},
        several=ANY,
        presets={"default": preset},
        reserved=("<outside>",),
        n_places=3,
    )


LANGUAGES = {
    "word": _kind("word", ("word",), sets.WORDS, "word.form, word-1.tag, word.suffix3"),
    "span": _kind("span", ("first", "last"), sets.SPANS, "first.tag, last+1.form, length, shape"),
    "split": _kind(
        "split", ("first", "last", "split"), sets.SPLITS, "first.tag, split.form, split+1.tag, length"
    ),
    "anchored": _kind(
        "anchored", ("first", "last", "split"), sets.RULES, "rule, parent, first.tag, split+1.form, length"
    ),
}
# Relations of anchored rules; their values are those of a grammar.
OF_RULES = ("rule", "parent", "left", "right")
LANGUAGES["anchored"] = replace(
    LANGUAGES["anchored"], relations={**LANGUAGES["anchored"].relations, **dict.fromkeys(OF_RULES, ())}
)


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
    """Rows of some sentences: words, spans, splits or anchored rules.

    Attributes
    ----------
    row_ptr : int64 (n_sentences + 1,)
    first, last, split : int32 (n_rows,)
        Within the sentence, from 0; `split` is the last word of the left part, 0 if there is none.
    rule : int32 (n_rows,), or None
        The number of the rule.
    """

    row_ptr: np.ndarray
    first: np.ndarray
    last: np.ndarray
    split: np.ndarray
    rule: np.ndarray | None = None

    @classmethod
    def of_words(cls, lengths: np.ndarray) -> Places:
        """Every word as a row."""
        place = positions(lengths).astype(np.int32)
        return cls(offsets(lengths), place, place, np.zeros(len(place), np.int32))


class SpanFeatures(ListedFeatures):
    """Numbers the features of words, of spans or of splits by templates.

    Values of a word are form, lower, tag, class (case, digits, ending; see `partwise.core.word_classes`), prefixN and
    suffixN. The shape of a span is one character per word, such as "Xx,x". Labels and rules need no field: every
    feature has a weight for each of them.

    Parameters
    ----------
    what : {"word", "span", "split"}
    templates : "default" or list of str
        See `partwise.features.templates`. Templates with a field that the training sentences have no values for
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
        self.what, self.kind = what, LANGUAGES[what]
        super().__init__(templates, min_count)

    def fit(self, sentences: Sentences, places: Places) -> SpanFeatures:
        """Learn which features the rows at these places, those of true trees, have."""
        self._fit(sentences, self._span_rows(places))
        return self

    def transform(self, sentences: Sentences, places: Places) -> AttributeRows:
        """The known features of rows."""
        return self._rows(sentences, self._span_rows(places))

    def _column(self, data: Sentences, column: str) -> Sequence[str] | None:
        if column == "class":
            starts = set(data.sentence_ptr[:-1].tolist())
            return [word_class(form, t in starts) for t, form in enumerate(data.forms)]
        return data.tags if column == "tag" else data.forms

    def _relations(self) -> dict[str, np.ndarray]:
        return {"length": _OF_LENGTH} if "length" in self.kind.relations else {}

    def _window(self, field: Field) -> Window | None:
        """The shape of a span is how all its words look."""
        if field.place == RELATION and field.column == "shape":
            return Window(Field("look"), LONGEST_SHAPE, joint="")
        return super()._window(field)

    def _span_rows(self, rows: Places) -> SpanRows:
        """Rows as compiled code reads them, without what all words of each are together."""
        first, last, split = (np.ascontiguousarray(each, np.int32) for each in rows[1:4])
        return SpanRows(
            np.ascontiguousarray(rows.row_ptr, np.int64), first, last, split, np.zeros((0, 0), np.int64)
        )

    def _coded_rows(self, words: WordCodes, rows: SpanRows) -> SpanRows:
        return rows._replace(window=self._window_codes(words, rows))

    def state(self) -> dict[str, Any]:
        state = super().state()
        shapes = {"shape": list(self._shown("shape"))[self._first_code :]} if "shape" in self._spaces else {}
        strings = {**dict(zip(state["sources"], state["strings"], strict=True)), **shapes}
        return {**state, "strings": list(strings.values()), "what": self.what}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> SpanFeatures:
        """Rebuild from what `state` returned."""
        features = cls(state["what"], state["templates"], int(state["min_count"]))
        features._restore(state)
        return features

    def _restore(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` returned."""
        strings = dict(zip(state["sources"], state["strings"], strict=True))
        if "shape" in strings:
            looks = strings["look"] if "look" in strings else list(dict.fromkeys("".join(strings["shape"])))
            codes = dict(zip(looks, map(str, count(self._first_code)), strict=False))
            if not codes.keys() >= set("".join(strings["shape"])):
                raise InputError("damaged features of spans: shapes of unknown words")
            shapes = [" ".join(codes[each] for each in shape) for shape in strings["shape"]]
            strings |= {"look": looks, "shape": shapes}
        self._set_state({**state, "sources": list(strings), "strings": list(strings.values())})
