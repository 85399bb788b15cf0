"""Features of a kind with columns of its own: arcs, siblings, grandparents, words, spans and splits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np

from partwise.core.rows import AttributeRows
from partwise.errors import InputError
from partwise.features.engine import Features
from partwise.features.keys.counter import KeyCounter
from partwise.features.keys.records import WordCodes
from partwise.features.templates import Field, parse_list
from partwise.features.vocabulary import check_vocabulary_settings, numbering


class ListedFeatures(Features):
    """Features of a kind with columns of its own, whose templates come as a list.

    Parameters
    ----------
    templates : str or list of str
        A named set or templates, see `partwise.features.templates`. Templates with a field that the training data
        have no values for are left out.
    min_count : int
        Features with fewer occurrences in training are dropped.

    Attributes
    ----------
    n_attributes : int
        Features that have a number; the most frequent come first.
    used_templates : list of str
    """

    def __init__(self, templates: str | Sequence[str], min_count: int = 1):
        super().__init__()
        check_vocabulary_settings(min_count, None)
        self._parsed = parse_list(templates, self.kind)
        self.templates, self.min_count = list(self._parsed), min_count
        self.used_templates: list[str] = []

    def _coded_rows(self, words: WordCodes, rows: Any) -> Any:
        """Rows as compiled code reads them."""
        return rows

    def _fit(self, data: Any, rows: Any) -> None:
        """Learn which features these rows have."""
        self._prepare(each for some in self._parsed.values() for each in some)
        columns = self._interned(data)
        lookups = self._lookups(columns, self._spaces, grow=True)
        words = self._codes(columns, lookups, np.ascontiguousarray(data.sentence_ptr, np.int64))
        if self._windows:
            self._learn_windows(words, rows)
        self._adopt({name: space for name, space in self._spaces.items() if space})
        words = self._words(data)
        counter = KeyCounter(self._compiled)
        counter.add(words, self._coded_rows(words, rows))
        keys, counts = counter.found()
        ties = self._compiled.in_files(keys)
        self._learn(keys[numbering(counts, ties, self.min_count)[0]])

    def _adopt(self, spaces: Mapping[str, dict[str, int]]) -> None:
        """Take the values of every source, and compile the templates that need no others."""
        self._spaces = dict(spaces)
        self._sources = {name: self._sources[name] for name in spaces}
        self._windows = {name: window for name, window in self._windows.items() if name in spaces}
        known = spaces.keys() | {name for name, values in self.kind.relations.items() if values}
        used = {
            text: some
            for text, some in self._parsed.items()
            if all(field.source in known for each in some for field in each.fields)
        }
        if not used:
            raise InputError(f"no {self.kind.name} template is left: the data have no values for any of them")
        sizes = {name: len(space) + self._first_code for name, space in self._spaces.items()}
        self._compile([each for some in used.values() for each in some], sizes, self._outside())
        self._fill_window_tables()
        # Those with several values come last, as in the program.
        self.used_templates = sorted(used, key=lambda text: any(each.has_several for each in used[text]))

    def _outside(self) -> np.ndarray:
        """The first place before a sentence is the root if the kind has one; all others are outside."""
        plain = [
            not source.field.functions and name not in self._windows and self._has_outside(source.field)
            for name, source in self._sources.items()
        ]
        codes = np.array([len(self.kind.reserved) - 1, 0, 0, 0], np.int64)
        return np.where(np.array(plain, bool)[:, None], codes, -1)

    def _has_outside(self, field: Field) -> bool:
        assert self.kind.columns is not None
        return self.kind.columns[str(field.column)].outside

    def _words(self, data: Any) -> WordCodes:
        columns = self._interned(data)
        lookups = self._lookups(columns, self._spaces, grow=False)
        return self._codes(columns, lookups, np.ascontiguousarray(data.sentence_ptr, np.int64))

    def _rows(self, data: Any, rows: Any) -> AttributeRows:
        """The known features of rows."""
        if not hasattr(self, "_table"):
            raise InputError("the features are not learnt yet; call fit first")
        words = self._words(data)
        return self._find(words, self._coded_rows(words, rows))

    def state(self) -> dict[str, Any]:
        """All that a model file must hold: an array of keys, and plain JSON values."""
        return {
            "templates": self.used_templates,
            "min_count": self.min_count,
            "sources": list(self._spaces),
            "strings": [list(space) for space in self._spaces.values()],
            "keys": self._compiled.in_files(self._keys),
        }

    def _set_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` returned."""
        self._prepare(each for some in self._parsed.values() for each in some)
        strings = dict(zip(state["sources"], state["strings"], strict=True))
        first = self._first_code
        spaces = {
            name: dict(zip(strings[name], count(first), strict=False))
            for name in self._sources
            if name in strings
        }
        if any(window.of.source not in spaces for window in self._windows.values()):
            raise InputError(f"damaged {self.subject}: templates and sources do not fit together")
        self._adopt(spaces)
        keys = np.ascontiguousarray(state["keys"], np.int64)
        if self.used_templates != list(state["templates"]):
            raise InputError(f"damaged {self.subject}: templates and sources do not fit together")
        if keys.ndim != 1 or (len(keys) and not 0 <= keys.min() <= keys.max() < self._compiled.size):
            raise InputError(f"damaged {self.subject}: keys out of range")
        self._learn(self._compiled.from_files(keys))
