"""Features of segments by templates: a vocabulary of the features of true segments, and rows of any segments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np

from partwise.core.arrays import block_of, offsets, positions, ranges
from partwise.core.rows import AttributeRows
from partwise.errors import InputError
from partwise.features.attributes import _table, intern
from partwise.features.segment_keys import (
    ALL,
    SegmentProgram,
    Spans,
    find_rows,
    keys_from_codes,
    list_codes,
    list_keys,
)
from partwise.features.segment_templates import OUTSIDE, SegmentTemplate, bind, read_segment_template
from partwise.features.templates import Field
from partwise.features.vocabulary import check_vocabulary_settings, numbering

_PLACES = ("length", "first", "last", "all", "any")
_ROWS_AT_ONCE = 100_000


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


class SegmentFeatures:
    """Numbers the features that templates make of segments.

    Parameters
    ----------
    template : str or path
        See ``partwise.features.segment_templates``.
    column_names : tuple of str
        Names of the columns; empty for the default names.

    Attributes
    ----------
    n_attributes : int
    text : str
        The templates as they were written.
    """

    def __init__(self, template: Any, column_names: tuple[str, ...] = ()):
        self.text, self._templates = read_segment_template(template)
        self.column_names, self.n_columns = tuple(column_names), 0
        self._spaces: list[dict[str, int]] = []
        self._learn(np.zeros(0, np.int64), np.zeros(1, np.int64), np.zeros(0, np.int64))

    # -- learning and encoding --------------------------------------------------------------------

    def fit(self, columns: Sequence[Sequence[str]], true: Spans, min_count: int = 1) -> SegmentFeatures:
        """Learn the features of true segments that occur at least `min_count` times.

        Parameters
        ----------
        columns : sequence of flat lists of str, each of length n_tokens
        """
        check_vocabulary_settings(min_count, None)
        self._bind(len(columns))
        self._spaces = [{OUTSIDE: 0} for _ in self._sources]
        codes = self._encode(columns, grow=True)
        n, longest = len(true.first), int((true.last - true.first).max(initial=1))
        keys = np.empty(n * self._most_keys(longest), np.int64)
        row_ptr, origin = np.zeros(n + 1, np.int64), np.empty((len(keys), 2), np.int64)
        n_keys = list_keys(self._program, codes, true, row_ptr, keys, origin)
        _, first, counts = np.unique(keys[:n_keys], return_index=True, return_counts=True)
        chosen = first[numbering(counts, first, min_count)[0]]
        rows = block_of(row_ptr)[chosen]
        ptr, chosen_origin = np.zeros(len(rows) + 1, np.int64), np.ascontiguousarray(origin[chosen])
        list_codes(self._program, codes, true, rows, chosen_origin, ptr, np.zeros(0, np.int64))
        listed = np.empty(ptr[-1], np.int64)
        list_codes(self._program, codes, true, rows, chosen_origin, ptr, listed)
        self._learn(chosen_origin[:, 0].copy(), ptr, listed)
        return self

    def transform(self, columns: Sequence[Sequence[str]], spans: Spans) -> AttributeRows:
        """Rows of segments; features that are not in the vocabulary are dropped."""
        if self._sources and columns and len(columns) != self.n_columns:
            raise InputError(
                f"the data has {len(columns)} columns; the features were made of {self.n_columns}"
            )
        n, codes = len(spans.first), self._encode(columns, grow=False)
        longest = int((spans.last - spans.first).max(initial=1))
        keys = np.empty(self._most_keys(longest), np.int64)
        row_ptr, pieces = np.zeros(n + 1, np.int64), [np.zeros(0, np.int32)]
        ids, nothing = np.empty(min(n, _ROWS_AT_ONCE) * len(keys), np.int32), np.zeros((0, 2), np.int64)
        for begin in range(0, n, _ROWS_AT_ONCE):
            some = Spans(*(each[begin : begin + _ROWS_AT_ONCE] for each in spans))
            own_ptr = np.zeros(len(some.first) + 1, np.int64)
            written = find_rows(self._program, codes, some, self._lookup, keys, nothing, own_ptr, ids)
            row_ptr[begin + 1 : begin + len(own_ptr)] = row_ptr[begin] + own_ptr[1:]
            pieces.append(ids[:written].copy())
        return AttributeRows(row_ptr, np.concatenate(pieces))

    def _bind(self, n_columns: int) -> None:
        """Templates and sources for data of so many columns."""
        self.n_columns = n_columns
        self._bound: tuple[SegmentTemplate, ...] = bind(self._templates, n_columns, self.column_names)
        self._sources: dict[Field, int] = {}
        fields = [field for template in self._bound for field in template.fields]
        for field in fields:
            if field.place != "length":
                self._sources.setdefault(field.source, len(self._sources))
        self._program = SegmentProgram(
            offsets([len(template.fields) for template in self._bound]),
            np.array([_PLACES.index(field.place) for field in fields], np.int64),
            np.array([self._sources.get(field.source, 0) for field in fields], np.int64),
            np.array([field.offset for field in fields], np.int64),
        )

    def _encode(self, columns: Sequence[Sequence[str]], grow: bool) -> np.ndarray:
        """Codes of every source, int32 (n_sources, n_tokens); -1 for unknown or absent values."""
        codes = np.full((max(len(self._sources), 1), len(columns[0]) if columns else 0), -1, np.int32)
        interned: dict[int, tuple[list[str], np.ndarray]] = {}
        for source, row in self._sources.items():
            column, space = int(source.column), self._spaces[row]
            if column not in interned:
                interned[column] = intern(columns[column], column)
            strings, token_codes = interned[column]
            values = [source.value(string) for string in strings]
            if grow:
                for value in values:
                    if value is not None:
                        space.setdefault(value, len(space))
            known = np.array([-1 if value is None else space.get(value, -1) for value in values], np.int32)
            codes[row] = known[token_codes]
        return codes

    def _most_keys(self, longest: int) -> int:
        """The most features that a segment of this length can have."""
        has_any = [any(field.place == "any" for field in template.fields) for template in self._bound]
        return sum(longest if each else 1 for each in has_any)

    def _learn(self, template_of: np.ndarray, code_ptr: np.ndarray, codes: np.ndarray) -> None:
        """Take the vocabulary: template and list of codes of every feature."""
        self._template_of, self._code_ptr, self._codes = template_of, code_ptr, codes
        self.n_attributes = len(template_of)
        keys = np.empty(self.n_attributes, np.int64)
        keys_from_codes(template_of, code_ptr, codes, keys)
        self._lookup = _table(keys, 2 ** (2 * len(keys) + 1).bit_length())

    # -- names, smaller vocabularies, files -------------------------------------------------------

    def names(self) -> list[str]:
        """The feature behind each number, as ``all(word)=New York``."""
        strings, names = [list(space) for space in self._spaces], []
        lists = np.split(self._codes, self._code_ptr[1:-1]) if self.n_attributes else []
        for template_number, listed in zip(self._template_of.tolist(), lists, strict=True):
            template = self._bound[template_number]
            values, left = [], listed.tolist()
            n_all = sum(field.place == "all" for field in template.fields)
            length = (len(left) - len(template.fields) + n_all) // max(n_all, 1)
            for field in template.fields:
                if field.place == "length":
                    values.append(str(left.pop(0)))
                    continue
                known = strings[self._sources[field.source]]
                size = length if field.place == "all" else 1
                values.append(" ".join(known[code] for code in left[:size]))
                left = left[size:]
            names.append(f"{self._written(template)}={'|'.join(values)}")
        return names

    def _written(self, template: SegmentTemplate) -> str:
        """The template as its author wrote it, with names of columns."""
        return next(each.text() for each in self._templates if each.line == template.line)

    def keep(self, ids: np.ndarray) -> SegmentFeatures:
        """The same with only these features, and without strings that none of them uses."""
        kept = SegmentFeatures.__new__(SegmentFeatures)
        kept.__dict__.update(self.__dict__)
        sizes = np.diff(self._code_ptr)[ids]
        template_of, codes = self._template_of[ids], self._codes[ranges(self._code_ptr[:-1][ids], sizes)]
        space_of = self._space_of_codes(template_of, offsets(sizes))
        kept._spaces = []
        for row, space in enumerate(self._spaces):
            own = space_of == row
            used = np.union1d([0], codes[own])
            strings = list(space)
            kept._spaces.append({strings[code]: k for k, code in enumerate(used.tolist())})
            codes[own] = np.searchsorted(used, codes[own])
        kept._learn(template_of, offsets(sizes), codes)
        return kept

    def _space_of_codes(self, template_of: np.ndarray, ptr: np.ndarray) -> np.ndarray:
        """The source of every code in lists of codes, int64; -1 for lengths."""
        result = np.full(ptr[-1], -1, np.int64)
        program = self._program
        for t in range(len(self._bound)):
            own = np.flatnonzero(template_of == t)
            fields = range(int(program.field_ptr[t]), int(program.field_ptr[t + 1]))
            n_all = sum(int(program.place[f] == ALL) for f in fields)
            length = (np.diff(ptr)[own] - len(fields) + n_all) // max(n_all, 1)
            at = ptr[:-1][own].copy()
            for f in fields:
                size = length if program.place[f] == ALL else np.ones(len(own), np.int64)
                result[ranges(at, size)] = program.source[f] if program.place[f] else -1
                at += size
        return result

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """All that a model file must hold: JSON values, and arrays."""
        header = {
            "template": self.text,
            "column_names": list(self.column_names),
            "n_columns": self.n_columns,
            "strings": [list(space) for space in self._spaces],
        }
        arrays = {"template_of": self._template_of, "code_ptr": self._code_ptr, "codes": self._codes}
        return header, {name: array.astype(np.uint32) for name, array in arrays.items()}

    @classmethod
    def from_state(cls, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> SegmentFeatures:
        """Rebuild from what `state` returned; raises if its parts do not fit together."""
        features = cls(
            header["template"] + "\n", tuple(header["column_names"])
        )  # The line break makes it a text, not the name of a preset.
        features.text = header["template"]
        features._bind(int(header["n_columns"]))
        if len(header["strings"]) != len(features._sources):
            raise InputError("the strings of the segments' features are missing")
        features._spaces = [dict(zip(space, count(), strict=False)) for space in header["strings"]]
        vocabulary = arrays["template_of"], arrays["code_ptr"], arrays["codes"]
        features._check_codes(*vocabulary)
        features._learn(*vocabulary)
        return features

    def _check_codes(self, template_of: np.ndarray, ptr: np.ndarray, codes: np.ndarray) -> None:
        """Raise if lists of codes do not fit their templates, or name strings that do not exist."""
        if template_of.max(initial=0) >= max(len(self._bound), 1):
            raise InputError("the features of segments name templates that are missing")
        for t, template in enumerate(self._bound):
            sizes = np.diff(ptr)[template_of == t]
            n_all = sum(field.place == "all" for field in template.fields)
            rest = sizes - len(template.fields) + n_all
            wrong = (rest < n_all) | (rest % max(n_all, 1) != 0) if n_all else rest != 0
            if wrong.any():
                raise InputError("the features of segments do not fit their templates")
        space_of = self._space_of_codes(template_of, ptr)
        limits = np.array([*(len(space) for space in self._spaces), 2**31], np.int64)
        if (codes >= limits[space_of]).any():
            raise InputError("the features of segments name strings that are missing")
