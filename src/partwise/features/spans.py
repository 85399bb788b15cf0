"""Features of words, spans and splits of sentences, numbered without a string per feature."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from itertools import count
from typing import Any

import numpy as np

from partwise.core.rows import AttributeRows
from partwise.errors import InputError
from partwise.features.arc_key_tables import fill_table, move_counts
from partwise.features.span_keys import SpanRows, SpanWork, count_row_keys, find_row_keys
from partwise.features.span_templates import (
    LENGTHS,
    N_RESERVED,
    CompiledSpans,
    SpanPiece,
    compile_span_templates,
    parse_span_template,
    span_templates,
)
from partwise.features.span_values import Places, Sentences, shape_strings, source_values, span_rows
from partwise.features.vocabulary import check_vocabulary_settings

KINDS = ("word", "span", "split")
_FIRST_ROWS = 10_000  # room is made for their features before anything is known


class SpanFeatures:
    """Numbers the features of words, of spans or of splits by templates.

    Parameters
    ----------
    what : {"word", "span", "split"}
    templates : "default" or list of str
        See `partwise.features.span_templates`. Templates with a field that the training sentences have no values for
        are left out.
    min_count : int
        Features with fewer occurrences in training are dropped.

    Attributes
    ----------
    n_attributes : int
        Features that have a number; the most frequent come first.
    used_templates : list of str
    """

    _compiled: CompiledSpans

    def __init__(self, what: str, templates: str | Sequence[str] = "default", min_count: int = 1):
        if what not in KINDS:
            raise InputError(f"{what!r:.40} is not one of {', '.join(KINDS)}")
        self.what = what
        self.templates = span_templates(templates, what)
        check_vocabulary_settings(min_count, None)
        self.min_count = min_count
        self.used_templates: list[str] = []
        self.n_attributes = 0

    def fit(self, sentences: Sentences, places: Places) -> SpanFeatures:
        """Learn which features the rows at these places, those of true trees, have."""
        strings: dict[str, list[str]] = {}
        for source in dict.fromkeys(piece.source for pieces in self._parsed() for piece in pieces):
            if source == "shape":
                values: Iterable[str | None] = dict.fromkeys(shape_strings(sentences, places))
            elif source == "length" or (source == "tag" and sentences.tags is None):
                continue
            else:
                values = dict.fromkeys(source_values(sentences, source)[0])
            strings[source] = [each for each in values if each is not None]
        self._adopt({source: values for source, values in strings.items() if values})
        keys, counts = _count(self._compiled, span_rows(sentences, places, self._spaces))
        kept = counts >= self.min_count
        keys, counts = keys[kept], counts[kept]
        self._learn(keys[np.lexsort((keys, -counts))])
        return self

    def transform(self, sentences: Sentences, places: Places) -> AttributeRows:
        """The known features of rows."""
        if not hasattr(self, "_keys"):
            raise InputError("the features are not learnt yet; call fit first")
        rows = span_rows(sentences, places, self._spaces)
        work = _work(self._compiled, rows)
        n_rows, room = len(places.first), len(work.keys)
        row_ptr = np.zeros(n_rows + 1, np.int64)
        ids, n_written, row = np.empty(min(n_rows, _FIRST_ROWS) * room, np.int32), 0, 0
        table = self._keys, self._numbers, self._marks
        while True:
            row, n_written = find_row_keys(
                self._compiled.program, rows, row, n_rows, *table, work, row_ptr, ids, n_written
            )
            if row == n_rows:
                break
            expected = int(1.1 * n_written / max(row, 1) * n_rows)  # the same array grows: no second copy
            ids.resize(min(max(expected, len(ids) + _FIRST_ROWS * room), n_rows * room), refcheck=False)
        ids.resize(n_written, refcheck=False)
        return AttributeRows(row_ptr, ids)

    def names(self, ids: Iterable[int] | None = None) -> list[str]:
        """What the features of these numbers (or all) stand for: ``first.form=the & last.tag=NN``."""
        numbers = np.arange(self.n_attributes) if ids is None else np.fromiter(ids, np.int64)
        keys = self._keys[numbers]
        strings = {source: ["<outside>", *space] for source, space in self._spaces.items()}
        strings["length"] = list(LENGTHS)
        kinds = np.searchsorted(self._compiled.program.base, keys, side="right") - 1
        return [
            self._name(kind, key, strings) for kind, key in zip(kinds.tolist(), keys.tolist(), strict=True)
        ]

    def keep(self, ids: np.ndarray) -> SpanFeatures:
        """The same with only these features, renumbered in the order given."""
        smaller = copy(self)
        smaller._learn(np.ascontiguousarray(self._keys[ids]))
        return smaller

    def state(self) -> dict[str, Any]:
        """All that a model file must hold: an array of keys, and plain JSON values."""
        return {
            "what": self.what,
            "templates": self.used_templates,
            "min_count": self.min_count,
            "sources": list(self._spaces),
            "strings": [list(space) for space in self._spaces.values()],
            "keys": self._keys,
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> SpanFeatures:
        """Rebuild from what `state` gave."""
        features = cls(state["what"], state["templates"], int(state["min_count"]))
        strings = dict(zip(state["sources"], state["strings"], strict=True))
        features._adopt({source: list(values) for source, values in strings.items()})
        keys = np.ascontiguousarray(state["keys"], np.int64)
        if features.used_templates != list(state["templates"]):
            raise InputError("damaged features of spans: templates and sources do not fit together")
        if keys.ndim != 1 or (len(keys) and not 0 <= keys.min() <= keys.max() < features._compiled.size):
            raise InputError("damaged features of spans: keys out of range")
        features._learn(keys)
        return features

    def _parsed(self) -> list[list[SpanPiece]]:
        return [parse_span_template(text, self.what) for text in self.templates]

    def _adopt(self, strings: dict[str, list[str]]) -> None:
        """Take the distinct values of every source, and compile the templates that need no others."""
        self._spaces = {
            source: dict(zip(values, count(N_RESERVED), strict=False)) for source, values in strings.items()
        }
        known = {*strings, "length"}
        used = [
            (text, pieces)
            for text, pieces in zip(self.templates, self._parsed(), strict=True)
            if all(piece.source in known for piece in pieces)
        ]
        if not used:
            raise InputError(f"no {self.what} template is left: the sentences have no values for any of them")
        self.used_templates = [text for text, _ in used]
        sizes = [len(values) + N_RESERVED for values in strings.values()]
        self._compiled = compile_span_templates([pieces for _, pieces in used], list(strings), sizes)

    def _learn(self, keys: np.ndarray) -> None:
        if len(keys) >= 2**31:
            raise InputError(f"{len(keys)} features of spans are more than 2^31: use a higher min_count")
        self._keys = keys
        self.n_attributes = len(keys)
        size = 1 << max(2 * len(keys), 128).bit_length()
        self._numbers, self._marks = np.empty(size, np.int32), np.zeros(size, np.uint8)
        fill_table(keys, self._numbers, self._marks)

    def _name(self, kind: int, key: int, strings: Mapping[str, Sequence[str]]) -> str:
        key -= int(self._compiled.program.base[kind])
        shown = []
        pieces, strides = self._compiled.pieces[kind], self._compiled.strides[kind]
        for piece, stride in reversed(list(zip(pieces, strides, strict=True))):
            code, key = divmod(key, stride)
            shown.append(f"{piece}={strings[piece.source][code]}")
        return " & ".join(reversed(shown))


def _work(compiled: CompiledSpans, rows: SpanRows) -> SpanWork:
    """Room for the longest sentence and for all keys a row can have."""
    n_templates, longest = len(compiled.program.base), int(np.diff(rows.sentence_ptr).max(initial=0))
    return SpanWork(
        np.empty((3, longest, n_templates), np.int64),
        np.empty(n_templates + 1, np.int64),
        np.empty(n_templates + 1, np.int64),
    )


def _count(compiled: CompiledSpans, rows: SpanRows) -> tuple[np.ndarray, np.ndarray]:
    """The distinct keys of the rows and how often each occurs."""
    work, n_rows = _work(compiled, rows), len(rows.first)
    table = np.zeros((1 << max(4 * len(work.keys), 2**16).bit_length(), 2), np.int64)
    row, n_found = 0, 0
    while True:
        row, n_found = count_row_keys(compiled.program, rows, row, n_rows, table, work, n_found)
        if row == n_rows:
            break
        larger = np.zeros((4 * len(table), 2), np.int64)
        move_counts(table, larger)
        table = larger
    found = table[:, 1] > 0
    return table[found, 0], table[found, 1]
