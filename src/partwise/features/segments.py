"""Features of segments: the engine's features, for spans of words whose length and words are values themselves.

A vocabulary has the features of true segments. In model files, a feature is a template and a list of codes: a length,
the code of a string, or for ``all`` the codes of every position.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from partwise.core.arrays import offsets, positions, ranges
from partwise.core.rows import AttributeRows
from partwise.errors import InputError
from partwise.features import presets
from partwise.features.engine import Features, hashes_of, window_codes
from partwise.features.keys.counter import KeyCounter
from partwise.features.keys.records import SpanRows, WordCodes
from partwise.features.templates import ALL, ANY, Combination, Field, Kind, bind, parse_text, read_file
from partwise.features.vocabulary import check_vocabulary_settings, numbering

PRESETS = presets.SEGMENTS
OUTSIDE = "_B"  # the value of all positions outside the sentence
SEGMENTS = Kind(
    name="segment",
    parameter="segment_template",
    places=("first", "last"),
    examples="word[first-1], word[last], all(word), any(word) or length",
    relations={"length": ()},
    several=ANY,
    reserved=(OUTSIDE,),
    reserved_are_strings=True,
    n_places=3,
)
# Model files with longer segments are not loaded: every length up to the longest takes memory.
LONGEST = 100_000


class Spans(NamedTuple):
    """Segments of a corpus by positions over all of it: int64 arrays (n,), `end` and `last` not included.

    Attributes
    ----------
    begin, end : bounds of the sentence.
    first, last : bounds of the segment.
    """

    begin: np.ndarray
    end: np.ndarray
    first: np.ndarray
    last: np.ndarray


def all_spans(lengths: np.ndarray, max_length: int) -> Spans:
    """Every segment of at most `max_length` positions, ordered by sentence, start and length."""
    ptr = offsets(lengths)
    end = np.repeat(ptr[1:], lengths)
    n_here = np.minimum(max_length, end - np.arange(ptr[-1]))
    first = np.repeat(np.arange(ptr[-1]), n_here)
    return Spans(
        np.repeat(np.repeat(ptr[:-1], lengths), n_here),
        np.repeat(end, n_here),
        first,
        first + positions(n_here) + 1,
    )


def read_segment_template(template: str | Path) -> tuple[str, tuple[Combination, ...]]:
    """The text and the templates of a preset's name, a file, or a text with a bracket, a line break or "length"."""
    if not isinstance(template, (str, Path)):
        raise InputError(f"segment_template must be a preset's name, a path or a text, not {template!r:.60}")
    text, path = str(template), None
    if template in PRESETS:
        text = PRESETS[str(template)]
    elif isinstance(template, Path) or not any(each in template for each in "\n(["):
        text, path = read_file(template, "segment template", PRESETS), template
    return text, parse_text(text, SEGMENTS, path, "all(word)")


class SegmentFeatures(Features):
    """Numbers the features that templates make of segments.

    Parameters
    ----------
    template : str or path
        See ``partwise.features.templates``.
    column_names : tuple of str
        Names of the columns; empty for the default names.

    Attributes
    ----------
    n_attributes : int
    text : str
        The templates as they were written.
    """

    kind = SEGMENTS

    def __init__(self, template: Any, column_names: tuple[str, ...] = ()):
        super().__init__()
        self.text, self._templates = read_segment_template(template)
        self.column_names, self.n_columns = tuple(column_names), 0
        self._bound: tuple[Combination, ...] = ()
        self._longest = 1
        self._prepare(())

    def _bind(self, n_columns: int) -> None:
        """Templates and sources for data of so many columns."""
        self.n_columns = n_columns
        self._bound = bind(self._templates, n_columns, self.column_names, "segment template")
        self._prepare(self._bound)

    def _relations(self) -> dict[str, np.ndarray]:
        """Lengths up to the longest that was learnt; longer segments have no feature of their length."""
        return {"length": np.append(np.arange(self._longest), -1)}

    def _relation_names(self) -> dict[str, list[str]]:
        return {"length": [str(k + 1) for k in range(self._longest)]}

    def _column(self, data: Sequence[Sequence[str]], column: int) -> Sequence[str] | None:
        return data[column] if data else None

    # -- learning and encoding -------------------------------------------------------------------

    def fit(self, columns: Sequence[Sequence[str]], true: Spans, min_count: int = 1) -> SegmentFeatures:
        """Learn the features of true segments that occur at least `min_count` times.

        Parameters
        ----------
        columns : sequence of flat lists of str, each of length n_tokens
        """
        check_vocabulary_settings(min_count, None)
        self._bind(len(columns))
        self._longest = int((true.last - true.first).max(initial=1))
        words, rows = self._words_and_rows(columns, true, grow=True)
        self._learn_windows(words, rows)
        self._compile_segments()
        counter = KeyCounter(self._compiled)
        counter.add(words, rows._replace(window=self._window_codes(words, rows)))
        keys, counts = counter.found()
        self._learn(keys[numbering(counts, np.arange(len(keys)), min_count)[0]])
        return self

    def transform(self, columns: Sequence[Sequence[str]], spans: Spans) -> AttributeRows:
        """Rows of segments; features that are not in the vocabulary are dropped."""
        if self._sources and columns and len(columns) != self.n_columns:
            raise InputError(
                f"the data has {len(columns)} columns; the features were made of {self.n_columns}"
            )
        words, rows = self._words_and_rows(columns, spans, grow=False)
        return self._find(words, rows._replace(window=self._window_codes(words, rows)))

    def _words_and_rows(
        self, columns: Sequence[Sequence[str]], spans: Spans, grow: bool
    ) -> tuple[WordCodes, SpanRows]:
        """Codes of words, and segments within their sentences. Words between two sentences with segments count as a
        sentence without."""
        n_words = len(columns[0]) if columns else int(spans.end.max(initial=0))
        starts = np.flatnonzero(np.diff(spans.begin, prepend=-1))
        ptr = np.unique(np.concatenate([[0, n_words], spans.begin[starts], spans.end[starts]]))
        ptr = ptr if n_words else np.zeros(1, np.int64)
        row_ptr = np.searchsorted(spans.begin, ptr) if n_words else np.zeros(1, np.int64)
        first, last = (
            (spans.first - spans.begin).astype(np.int32),
            (spans.last - spans.begin - 1).astype(np.int32),
        )
        none = np.zeros((0, 0), np.int64)
        rows = SpanRows(row_ptr, first, last, np.zeros(len(first), np.int32), none)
        interned = self._interned(columns)
        return self._codes(interned, self._lookups(interned, self._spaces, grow), ptr), rows

    def _compile_segments(self) -> None:
        sizes = {name: len(space) for name, space in self._spaces.items()}
        self._compile(self._bound, sizes, np.zeros((len(sizes), 2), np.int64))
        self._fill_window_tables()

    def names(self, ids: Any = None) -> list[str]:
        """The feature behind each number, as ``all(word)=New York``."""
        return super().names(ids) if self.n_attributes else []

    # -- lists of codes --------------------------------------------------------------------------

    def _blocks(
        self, template_of: np.ndarray, ptr: np.ndarray
    ) -> Iterator[tuple[Field, np.ndarray, np.ndarray, np.ndarray]]:
        """Where the lists of features have the codes of each field: the field, the features of its template, the
        begins and the numbers of codes."""
        for t, template in enumerate(self._bound):
            own = np.flatnonzero(template_of == t)
            n_all = sum(field.place == ALL for field in template.fields)
            length = (np.diff(ptr)[own] - len(template.fields) + n_all) // max(n_all, 1)
            at = ptr[:-1][own].copy()
            for field in template.fields:
                size = length if field.place == ALL else np.ones(len(own), np.int64)
                yield field, own, at.copy(), size
                at += size

    def _of_words(self, field: Field) -> str | None:
        """The source whose codes lists have for a field; None for lengths."""
        if field.source in self._windows:
            return self._windows[field.source].of.source
        return field.source if field.source in self._spaces else None

    def _lists(self, ids: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Template, offsets and codes of the lists of features."""
        group_of, template_of = self.template_of(ids), np.zeros(len(ids), np.int64)
        sizes, digits = np.zeros(len(ids), np.int64), {}
        lists = {name: window_codes(self._spaces[name]) for name in self._windows}
        lengths = {name: np.array([len(each) for each in own], np.int64) for name, own in lists.items()}
        for group, combination in enumerate(self._compiled.combinations):
            own = np.flatnonzero(group_of == group)
            template = self._bound.index(combination)
            template_of[own] = template
            digits[template] = [codes for _, codes in self._digits(group, ids[own])]
            for field, codes in zip(combination.fields, digits[template], strict=True):
                sizes[own] += lengths[field.source][codes] if field.source in lists else 1
        ptr = offsets(sizes)
        codes = np.empty(ptr[-1], np.int64)
        of_fields = (each for t in range(len(self._bound)) for each in digits[t])
        flat = {name: np.array([code for each in own for code in each]) for name, own in lists.items()}
        for (field, _, at, size), found in zip(self._blocks(template_of, ptr), of_fields, strict=True):
            if (name := field.source) in lists:
                codes[ranges(at, size)] = flat[name][ranges(offsets(lengths[name])[:-1][found], size)]
            else:
                codes[at] = found + (self._of_words(field) is None)  # the first length is 1
        return template_of, ptr, codes

    def _take(self, template_of: np.ndarray, ptr: np.ndarray, codes: np.ndarray) -> None:
        """Take the vocabulary from lists of codes."""
        blocks = list(self._blocks(template_of, ptr))
        self._longest = max(
            (int(codes[at].max(initial=1)) for field, _, at, _ in blocks if self._of_words(field) is None),
            default=1,
        )
        digits = [codes[at] - (self._of_words(field) is None) for field, _, at, _ in blocks]
        for name in self._windows:
            mine = [k for k, block in enumerate(blocks) if block[0].source == name]
            at, size = (np.concatenate([blocks[k][column] for k in mine]) for column in (2, 3))
            flat, own_ptr = codes[ranges(at, size)], offsets(size)
            _, first, number = np.unique(hashes_of(flat, own_ptr), return_index=True, return_inverse=True)
            lists = [flat[a:b].tolist() for a, b in zip(own_ptr[first], own_ptr[first + 1], strict=True)]
            self._spaces[name] = {" ".join(map(str, each)): k for k, each in enumerate(lists)}
            ends = offsets([len(blocks[k][1]) for k in mine])
            for k, low, high in zip(mine, ends[:-1], ends[1:], strict=True):
                digits[k] = number[low:high]
        self._compile_segments()
        keys, block = np.zeros(len(template_of), np.int64), 0
        for template in self._bound:
            group = self._compiled.combinations.index(template)
            own = blocks[block][1]
            keys[own] = self._compiled.group_base[group]
            for stride in self._compiled.strides[group]:
                keys[own] += digits[block] * stride
                block += 1
        self._learn(keys)

    def keep(self, ids: np.ndarray) -> SegmentFeatures:
        """The same with only these features, and without strings that none of them uses."""
        template_of, ptr, codes = self._lists(ids)
        kept = copy(self)
        kept._spaces = dict(self._spaces)
        for name in self._spaces.keys() - self._windows.keys():
            mine = [block for block in self._blocks(template_of, ptr) if self._of_words(block[0]) == name]
            where = np.concatenate([ranges(at, size) for _, _, at, size in mine])
            used, codes_and_outside = np.unique(np.append(codes[where], 0), return_inverse=True)
            codes[where] = codes_and_outside[:-1]
            strings = list(self._spaces[name])
            kept._spaces[name] = {strings[code]: k for k, code in enumerate(used.tolist())}
        kept._take(template_of, ptr, codes)
        return kept

    # -- files -----------------------------------------------------------------------------------

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """All that a model file must hold: JSON values, and arrays."""
        header = {
            "template": self.text,
            "column_names": list(self.column_names),
            "n_columns": self.n_columns,
            "strings": [list(space) for name, space in self._spaces.items() if name not in self._windows],
        }
        none = np.zeros(0, np.int64), np.zeros(1, np.int64), np.zeros(0, np.int64)
        lists = self._lists(np.arange(self.n_attributes)) if self.n_attributes else none
        arrays = dict(zip(("template_of", "code_ptr", "codes"), lists, strict=True))
        return header, {name: array.astype(np.uint32) for name, array in arrays.items()}

    @classmethod
    def from_state(cls, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> SegmentFeatures:
        """Rebuild from what `state` returned; raises if its parts do not fit together."""
        features = cls(
            header["template"] + "\n", tuple(header["column_names"])
        )  # The line break makes it a text, not the name of a preset.
        features.text = header["template"]
        features._bind(int(header["n_columns"]))
        names = [name for name in features._spaces if name not in features._windows]
        if len(header["strings"]) != len(names):
            raise InputError("the strings of the segments' features are missing")
        for name, own in zip(names, header["strings"], strict=True):
            features._spaces[name] = dict(zip(own, count(), strict=False))
        vocabulary = arrays["template_of"], arrays["code_ptr"], arrays["codes"]
        features._check_codes(*vocabulary)
        features._take(*vocabulary)
        return features

    def _check_codes(self, template_of: np.ndarray, ptr: np.ndarray, codes: np.ndarray) -> None:
        """Raise if lists of codes do not fit their templates, or name strings that do not exist."""
        if template_of.max(initial=0) >= max(len(self._bound), 1):
            raise InputError("the features of segments name templates that are missing")
        for t, template in enumerate(self._bound):
            sizes = np.diff(ptr)[template_of == t]
            n_all = sum(field.place == ALL for field in template.fields)
            rest = sizes - len(template.fields) + n_all
            wrong = (rest < n_all) | (rest % max(n_all, 1) != 0) if n_all else rest != 0
            if wrong.any():
                raise InputError("the features of segments do not fit their templates")
        for field, _, at, size in self._blocks(template_of, ptr):
            name = self._of_words(field)
            low, high = (1, LONGEST) if name is None else (0, len(self._spaces[name]))
            found = codes[ranges(at, size)]
            if not low <= found.min(initial=low) <= found.max(initial=low) < max(high, 1):
                raise InputError("the features of segments name strings that are missing")
