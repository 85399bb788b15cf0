"""Word lists (gazetteers) in templates of tokens: `gazetteer: cities cities.txt` makes a column ``cities``.

The column is B at the first word of an entry of the list and I at its other words. Elsewhere it has no value. From left
to right, the longest entry counts. Model files hold the lists, so that predictions need no other file.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from partwise.core.arrays import block_of
from partwise.features.engine import Features, Interned, intern
from partwise.features.keys.records import WordCodes
from partwise.features.templates import Gazetteer

MARKS = ("B", "I")


class Matcher:
    """Finds the entries of a gazetteer in sentences.

    Attributes
    ----------
    ignores_case : bool
    numbers : dict of str to int
        The words of entries.
    starting : dict of int to list of tuples of int
        Entries by their first word, the longest first.
    """

    def __init__(self, gazetteer: Gazetteer):
        self.ignores_case = all(entry == entry.lower() for entry in gazetteer.entries)
        self.numbers: dict[str, int] = {}
        found: dict[int, set[tuple[int, ...]]] = {}
        for entry in gazetteer.entries:
            own = tuple(self.numbers.setdefault(word, len(self.numbers)) for word in entry.split())
            found.setdefault(own[0], set()).add(own)
        self.starting = {first: sorted(own, key=lambda each: -len(each)) for first, own in found.items()}

    def marks(self, words: Interned, sentence_ptr: np.ndarray) -> np.ndarray:
        """The index in `MARKS` for every word, int8 (n_words,); −1 outside of entries."""
        strings = [word.lower() for word in words.strings] if self.ignores_case else words.strings
        number_of = np.array([*(self.numbers.get(word, -1) for word in strings), -1], np.int64)
        numbers = number_of[words.string_of]
        found, busy = np.full(len(numbers), -1, np.int8), 0
        ends = np.asarray(sentence_ptr)[1:][block_of(np.asarray(sentence_ptr))]
        for t in np.flatnonzero(np.isin(numbers, list(self.starting))).tolist():
            if t < busy:
                continue
            for entry in self.starting[int(numbers[t])]:
                busy = t + len(entry)
                if busy <= ends[t] and tuple(numbers[t:busy].tolist()) == entry:
                    found[t], found[t + 1 : busy] = 0, 1
                    break
            else:
                busy = t + 1
        return found


class GazetteerSources(Features):
    """Fields of gazetteers among those of columns. Words are looked up in the first column."""

    _matchers: Mapping[str, Matcher]

    def _column(self, data: Any, column: Any) -> Sequence[str] | None:
        return None if column in self._matchers else super()._column(data, column)

    @property
    def uses_gazetteers(self) -> bool:
        """Whether a template has a field of a gazetteer."""
        return any(source.column in self._matchers for source in self._sources.values())

    def _interned(self, data: Any) -> dict[Any, Interned]:
        found = super()._interned(data)
        if self.uses_gazetteers and 0 not in found:
            found[0] = intern(data[0], 0)
        return found

    def _add_marks(self, spaces: Mapping[str, dict[str, int]]) -> None:
        """Give the values of gazetteers their codes."""
        for name, source in self._sources.items():
            if source.column in self._matchers:
                for mark in MARKS:
                    spaces[name].setdefault(mark, len(spaces[name]))

    def _codes(
        self, columns: Mapping[Any, Interned], lookups: Mapping[str, Any], sentence_ptr: np.ndarray
    ) -> WordCodes:
        words = super()._codes(columns, lookups, sentence_ptr)
        for row, (name, source) in enumerate(self._sources.items()):
            if source.column in self._matchers:
                codes = np.array([*(self._spaces[name].get(mark, -1) for mark in MARKS), -1], np.int32)
                words.codes[row] = codes[self._matchers[str(source.column)].marks(columns[0], sentence_ptr)]
        return words


def matchers_of(gazetteers: Iterable[Gazetteer]) -> dict[str, Matcher]:
    """A matcher for each gazetteer, by its name."""
    return {each.name: Matcher(each) for each in gazetteers}
