"""The engine of all features: words, values, integer keys, a vocabulary.

    columns --functions--> values --numbered--> codes --digits of templates--> keys --open table--> feature numbers

Functions run once per distinct string. No string is made per feature: names are made from the keys, and only when
asked for. `attributes.py` (tokens), `segments.py`, `arcs.py` and `spans.py` say which rows and columns there are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from itertools import count
from typing import Any, ClassVar, NamedTuple

import numpy as np

from partwise.core.arrays import offsets
from partwise.core.rows import AttributeRows
from partwise.errors import InputError
from partwise.features.functions import FUNCTIONS
from partwise.features.keys import (
    Program,
    Table,
    WordCodes,
    Workspace,
    fill_table,
    find_rows,
    look_up,
    move_counts,
    number_rows,
    window_keys,
)
from partwise.features.program import Compiled, compile_templates
from partwise.features.templates import ALL, RELATION, Combination, Field, Kind, parse_list
from partwise.features.vocabulary import check_vocabulary_settings, numbering

# Memory is reserved for the features of this many rows before any is known.
_FIRST_ROWS = 10_000
# While keys are counted, at most this many of the lowest have a place of their own: 16 MB.
_MOST_DIRECT = 2**21
# More morphological features of one word than this are not looked at: pairs of them are features of arcs.
MOST_FEATS = 30
NO_VALUE = "_"


class Interned(NamedTuple):
    """A column: its distinct strings, and for every word the index of its string."""

    strings: Sequence[str]
    string_of: np.ndarray


class Source(NamedTuple):
    """A value of words, or of all words of a row.

    Attributes
    ----------
    field : Field
        One of the fields that use it.
    column : str or int
        The column of the data.
    """

    field: Field
    column: str | int


class Window(NamedTuple):
    """The values of all words of a row, joined to one value. It is numbered by the codes of the words: "12 7 12".

    Attributes
    ----------
    of : Field
        The value of each word.
    longest : int
        Rows of more words have no value.
    joint : str
        Between the words in names.
    """

    of: Field
    longest: int = 2**31
    joint: str = " "


class Features:
    """Numbers the features that templates make of rows.

    Attributes
    ----------
    n_attributes : int
        Features that have a number; the most frequent come first.
    """

    kind: Kind
    subject: ClassVar[str] = "features"  # of messages
    # This many times the number of features, the lowest keys are found without a search; each takes 4 bytes. It pays if
    # most rows have most of their features.
    direct_keys: ClassVar[int] = 4
    _compiled: Compiled

    def __init__(self) -> None:
        self.n_attributes = 0

    # -- what subclasses say ---------------------------------------------------------------------

    def _column(self, data: Any, column: Any) -> Sequence[str] | None:
        """A column of all words; None if the data have no such column."""
        found: Sequence[str] = data[column]
        return found

    def _relations(self) -> dict[str, np.ndarray]:
        """For each number of a row's relations, the value of each relation; -1 for none."""
        return {}

    def _window(self, field: Field) -> Window | None:
        """What a field of all words of a row looks at."""
        return Window(Field(field.column, 0, field.functions)) if field.place == ALL else None

    # -- values of words -------------------------------------------------------------------------

    def _source(self, field: Field) -> Source:
        if self.kind.columns is None or self._window(field) is not None:
            return Source(field, field.column)
        return Source(field, self.kind.columns[str(field.column)].data)

    def _values(
        self, source: Source, strings: Sequence[str], known: dict[Any, Sequence[str | None]]
    ) -> Sequence[str | None]:
        """The values of distinct strings of a column, None for no value.

        Sources that begin with the same functions share what these return, by way of `known`.
        """
        column = None if self.kind.columns is None else self.kind.columns[str(source.field.column)].value
        done: tuple[Any, ...] = (source.column, column)
        found: Sequence[str | None] = strings
        if column is not None:
            if done not in known:
                known[done] = list(map(column, strings))
            found = known[done]
        for name, argument in source.field.functions:
            function, done = FUNCTIONS[name], (*done, name, argument)
            if done not in known:
                known[done] = [None if each is None else function(each, argument) for each in found]
            found = known[done]
        return found

    def _prepare(self, combinations: Iterable[Combination]) -> None:
        """Sources in the order of their first use, each with an empty space of values."""
        self._windows: dict[str, Window] = {}
        self._sources: dict[str, Source] = {}
        for field in (field for each in combinations for field in each.fields):
            if (window := self._window(field)) is not None:
                self._sources.setdefault(window.of.source, self._source(window.of))
                self._windows[field.source] = window
            if window is not None or field.place != RELATION:
                self._sources.setdefault(field.source, self._source(field))
        self._spaces = self._empty_spaces() | {name: {} for name in self._windows}

    def _empty_spaces(self) -> dict[str, dict[str, int]]:
        """The codes of each source's values; sources may share them."""
        return {name: self._empty_space() for name in self._sources}

    def _empty_space(self) -> dict[str, int]:
        reserved = self.kind.reserved if self.kind.reserved_are_strings else ()
        return dict(zip(reserved, count(), strict=False))

    @property
    def _first_code(self) -> int:
        """The code of a space's first string."""
        return 0 if self.kind.reserved_are_strings else len(self.kind.reserved)

    def _interned(self, data: Any) -> dict[Any, Interned]:
        """The columns of the data that sources use."""
        used = dict.fromkeys(
            source.column for name, source in self._sources.items() if name not in self._windows
        )
        columns = {column: self._column(data, column) for column in used}
        return {column: intern(strings, column) for column, strings in columns.items() if strings is not None}

    def _lookups(
        self, columns: Mapping[Any, Interned], spaces: Mapping[str, dict[str, int]], grow: bool
    ) -> dict[str, Any]:
        """For each source, the codes of its column's distinct strings; with `grow`, new values get a code."""
        found: dict[str, Any] = {}
        known: dict[Any, Sequence[str | None]] = {}
        for name, source in self._sources.items():
            if source.column not in columns or name in self._windows:
                continue
            space, first = spaces[name], self._first_code
            strings = columns[source.column].strings
            if name == "feat":
                lists = [feats(string) for string in strings]
                values: Sequence[str | None] = [each for some in lists for each in some]
            else:
                values = self._values(source, strings, known)
            if grow:
                for value in values:
                    if value is not None and value not in space:
                        space[value] = first + len(space)
            if name == "feat":
                found[name] = [[space[each] for each in some if each in space] for some in lists]
            else:
                found[name] = np.array([space.get(value, -1) for value in values], np.int32)  # type: ignore[arg-type]
        return found

    def _codes(
        self, columns: Mapping[Any, Interned], lookups: Mapping[str, Any], sentence_ptr: np.ndarray
    ) -> WordCodes:
        """Codes of all words, -1 if a word has no value or one not seen in training."""
        n_words = int(sentence_ptr[-1])
        codes = np.empty((len(self._sources), n_words), np.int32)
        feature_ptr, feature_code = np.zeros(n_words + 1, np.int64), np.zeros(0, np.int32)
        for row, (name, source) in enumerate(self._sources.items()):
            if name not in lookups:
                codes[row] = -1
            elif name == "feat":
                feats_of, string_of = lookups[name], columns[source.column].string_of
                feature_ptr = offsets(np.array([len(each) for each in feats_of], np.int64)[string_of])
                feature_code = np.array([code for k in string_of for code in feats_of[k]], np.int32)
                codes[row] = -1
            else:
                lookups[name].take(columns[source.column].string_of, out=codes[row])
        return WordCodes(sentence_ptr, codes, feature_ptr, feature_code)

    # -- values of all words of a row ------------------------------------------------------------

    def _window_keys(self, words: WordCodes, rows: Any) -> np.ndarray:
        """Hashes of the words of rows, int64 (n_windows, n_rows)."""
        found = np.empty((len(self._windows), int(rows.row_ptr[-1])), np.int64)
        if self._windows:
            index = {name: row for row, name in enumerate(self._sources)}
            sources = np.array([index[w.of.source] for w in self._windows.values()], np.int64)
            longest = np.array([w.longest for w in self._windows.values()], np.int64)
            window_keys(
                words.codes, sources, longest, words.sentence_ptr, rows.row_ptr, rows.first, rows.last, found
            )
        return found

    def _learn_windows(self, words: WordCodes, rows: Any) -> None:
        """Number what all words of these rows are together, in the order of first occurrence."""
        if not self._windows:
            return
        start = words.sentence_ptr[:-1].repeat(np.diff(rows.row_ptr))
        found = self._window_keys(words, rows)
        for (name, window), keys in zip(self._windows.items(), found, strict=True):
            distinct, first = np.unique(keys, return_index=True)
            codes, space = words.codes[self._row_of(window.of)], self._spaces[name]
            for row in np.sort(first[distinct >= 0]).tolist():
                low, high = start[row] + rows.first[row], start[row] + rows.last[row] + 1
                space[" ".join(map(str, codes[low:high].tolist()))] = self._first_code + len(space)
        self._fill_window_tables()

    def _row_of(self, field: Field) -> int:
        """The row of a field's source among the codes."""
        return list(self._sources).index(field.source)

    def _fill_window_tables(self) -> None:
        """Tables from hashes of words to the number of what they are together."""
        self._window_tables = []
        for name in self._windows:
            lists = window_codes(self._spaces[name])
            flat = np.array([code for each in lists for code in each], np.int32)
            self._window_tables.append(_table(hashes_of(flat, offsets([len(each) for each in lists])), 0))

    def _window_codes(self, words: WordCodes, rows: Any) -> np.ndarray:
        """Codes of all words of rows together, int64 (n_windows, n_rows)."""
        found = self._window_keys(words, rows)
        for keys, table in zip(found, self._window_tables, strict=True):
            look_up(keys, table)
        if self._first_code:
            found += np.where(found < 0, 0, self._first_code)
        return found

    # -- learning --------------------------------------------------------------------------------

    def _compile(
        self, combinations: Sequence[Combination], sizes: Mapping[str, int], outside: np.ndarray
    ) -> None:
        """Compile templates, given the number of codes of each source and its codes outside the sentence."""
        self._compiled = compile_templates(
            combinations, self.kind, sizes, list(self._windows), self._relations(), outside
        )

    def _learn(self, keys: np.ndarray) -> None:
        """Take the vocabulary: the key of every feature."""
        if len(keys) >= 2**31:
            raise InputError(f"{len(keys)} {self.subject} are more than 2^31: use a higher min_count")
        self.n_attributes = len(keys)
        self._table = _table(keys, min(self._compiled.size, self.direct_keys * len(keys)))

    @property
    def _keys(self) -> np.ndarray:
        return self._table.keys

    # -- encoding --------------------------------------------------------------------------------

    def _find(self, words: WordCodes, rows: Any) -> AttributeRows:
        """The known features of rows."""
        work = workspace_for(self._compiled.program, words)
        n_rows, most_keys = int(rows[0][-1]), len(work.keys)
        row_ptr = np.zeros(n_rows + 1, np.int64)
        ids, n_written, row = np.empty(min(n_rows, _FIRST_ROWS) * most_keys, np.int32), 0, 0
        while True:
            row, n_written = find_rows(
                self._compiled.program, words, rows, row, n_rows, self._table, work, row_ptr, ids, n_written
            )
            if row == n_rows:
                break
            _grow(ids, n_written, row, n_rows, most_keys)
        ids.resize(n_written, refcheck=False)
        return AttributeRows(row_ptr, ids)

    # -- names, smaller vocabularies -------------------------------------------------------------

    def names(self, ids: Iterable[int] | None = None) -> list[str]:
        """What the features of these numbers (or all) stand for: ``head.form=dog & direction=right``."""
        numbers = np.arange(self.n_attributes) if ids is None else np.fromiter(ids, np.int64)
        strings = {name: list(self._shown(name)) for name in self._sources}
        strings |= self._relation_names()
        names, group_of = [""] * len(numbers), self.template_of(numbers)
        for group in np.unique(group_of).tolist():
            member = self._compiled.group_of.index(group)
            combination, own = self._compiled.combinations[member], np.flatnonzero(group_of == group)
            columns = [
                [strings[source][digit] for digit in digits.tolist()]
                for source, digits in self._digits(group, numbers[own])
            ]
            values = zip(*columns, strict=True) if columns else iter([()] * len(own))
            for at, row in zip(own.tolist(), values, strict=True):
                names[at] = combination.attribute(row)
        return names

    def _relation_names(self) -> dict[str, list[str]]:
        """The names of each relation's values."""
        return {name: list(values) for name, values in self.kind.relations.items() if values}

    def _strings(self, source: str) -> Sequence[str]:
        """The values of a source by their codes."""
        reserved = () if self.kind.reserved_are_strings else self.kind.reserved
        return [*reserved, *self._spaces[source]]

    def _shown(self, source: str) -> Sequence[str]:
        """The values of a source by their codes, as names have them."""
        if source not in self._windows:
            return self._strings(source)
        window, own = self._windows[source], self._strings(self._windows[source].of.source)
        lists = window_codes(self._spaces[source])
        return [""] * self._first_code + [window.joint.join([own[code] for code in each]) for each in lists]

    def _digits(self, group: int, ids: np.ndarray) -> list[tuple[str, np.ndarray]]:
        """The source and the codes of each field of features of one group."""
        member = self._compiled.group_of.index(group)
        keys = self._keys[ids] - self._compiled.group_base[group]
        fields = self._compiled.combinations[member].fields
        worth = zip(fields, self._compiled.strides[member], self._compiled.sizes[member], strict=True)
        return [(field.source, keys // stride % size) for field, stride, size in worth]

    def template_of(self, ids: np.ndarray) -> np.ndarray:
        """The index of each feature's template, int64. Templates that share features have one index."""
        return self._compiled.group_of_keys(self._keys[ids])

    def keep(self, ids: np.ndarray) -> Any:
        """The same with only these features, renumbered in the order given."""
        smaller = copy(self)
        smaller._learn(np.ascontiguousarray(self._keys[ids]))
        return smaller


class KeyCounter:
    """Counts the keys of rows, of all at once or batch by batch, and numbers them in the order of first occurrence."""

    def __init__(self, compiled: Compiled) -> None:
        self._program, self._size = compiled.program, compiled.size
        self._n_found = 0
        # Both hold (number + 1) * 2^32 + occurrences: of the lowest keys, and of others beside the key.
        self._direct = np.zeros(0, np.int64)
        self._table = np.zeros((2**12, 2), np.int64)

    def add(self, words: WordCodes, rows: Any, with_ids: bool = False) -> AttributeRows:
        """Count the keys of rows; returns the rows of their numbers, empty without `with_ids`."""
        work = workspace_for(self._program, words)
        n_rows, most_keys, row, n_written = int(rows[0][-1]), len(work.keys), 0, 0
        if not len(self._direct):
            self._direct = np.zeros(min(self._size, 8 * n_rows + 1024, _MOST_DIRECT), np.int64)
        row_ptr = np.zeros(n_rows * with_ids + 1, np.int64)
        ids = np.empty(with_ids * min(n_rows, _FIRST_ROWS) * most_keys, np.int32)
        while True:
            row, self._n_found, n_written = number_rows(
                self._program, words, rows, row, n_rows, self._direct, self._table, work, self._n_found, row_ptr,
                ids, n_written,
            )  # fmt: skip
            if row == n_rows:
                break
            if 2 * (self._n_found + most_keys) > len(self._table):
                larger = np.zeros((1 << (4 * (self._n_found + most_keys)).bit_length(), 2), np.int64)
                move_counts(self._table, larger)
                self._table = larger
            else:
                _grow(ids, n_written, row, n_rows, most_keys)
        ids.resize(n_written, refcheck=False)
        return AttributeRows(row_ptr, ids)

    def found(self) -> tuple[np.ndarray, np.ndarray]:
        """The distinct keys in the order of their numbers, and how often each occurs, int64."""
        low, others = np.flatnonzero(self._direct), self._table[self._table[:, 1] > 0]
        all_keys, both = np.append(low, others[:, 0]), np.append(self._direct[low], others[:, 1])
        keys, counts = np.empty((2, len(both)), np.int64)
        keys[(both >> 32) - 1], counts[(both >> 32) - 1] = all_keys, both & 0xFFFFFFFF
        return keys, counts


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


def intern(column: Sequence[str], name: object) -> Interned:
    """The distinct strings of a column, and for every word the index of its string."""
    index: defaultdict[str, int] = defaultdict(count().__next__)
    string_of = np.fromiter(map(index.__getitem__, column), dtype=np.int32, count=len(column))
    if wrong := [each for each in index if not isinstance(each, str)]:
        raise InputError(f"column {name} holds {wrong[0]!r:.60}, which is not a string")
    return Interned(list(index), string_of)


def feats(string: str) -> list[str]:
    """The morphological features in ``Case=Nom|Number=Sing``, each once."""
    return [] if string == NO_VALUE else list(dict.fromkeys(string.split("|")))[:MOST_FEATS]


def window_codes(values: Iterable[str]) -> list[list[int]]:
    """The codes of the words in what all words of rows are together."""
    return [list(map(int, value.split())) for value in values]


def hashes_of(codes: np.ndarray, ptr: np.ndarray) -> np.ndarray:
    """Hashes of lists of codes, one after another, as those of all words of a row."""
    keys, row_ptr = np.empty((1, len(ptr) - 1), np.int64), np.arange(len(ptr))
    first, last = np.zeros(len(ptr) - 1, np.int32), (np.diff(ptr) - 1).astype(np.int32)
    codes = np.ascontiguousarray(codes, np.int32)[None]
    window_keys(codes, np.zeros(1, np.int64), np.full(1, 2**31), ptr, row_ptr, first, last, keys)
    return keys[0]


def _table(keys: np.ndarray, n_direct: int) -> Table:
    """A table in which compiled code finds keys, those below `n_direct` without a search."""
    n_searched = int((keys >= n_direct).sum())
    size = 1 << max(2 * n_searched, 128).bit_length()
    table = Table(keys, np.full(n_direct, -1, np.int32), np.empty(size, np.int32), np.zeros(size, np.uint8))
    fill_table(table)
    return table


def _grow(ids: np.ndarray, n_written: int, row: int, n_rows: int, most_keys: int) -> None:
    """Make room for the ids of more rows. The same array grows: no second copy in memory."""
    expected = int(1.1 * n_written / max(row, 1) * n_rows)
    size = min(max(expected, len(ids) + _FIRST_ROWS * most_keys), n_rows * most_keys)
    ids.resize(size, refcheck=False)


def workspace_for(program: Program, words: WordCodes) -> Workspace:
    """Memory for the longest sentence and for all keys that a row can have."""
    n_templates, n_sources = len(program.base), len(words.codes)
    n_places = len(program.piece_ptr)
    longest = int(np.diff(words.sentence_ptr).max(initial=0))
    looked_at = np.unique(program.several_source[program.several_stride > 0])
    most = min(longest, int(words.codes[looked_at].max(initial=0)) + 1) if len(looked_at) else 0
    most_feats = int(np.diff(words.feature_ptr).max(initial=0))
    most_keys = program.n_simple + sum(
        (most_feats if program.feature_stride[0, t] else 1)
        * (most_feats if program.feature_stride[1, t] else 1)
        * (most if program.several_stride[t] else 1)
        for t in range(program.n_simple, n_templates)
    )
    return Workspace(
        part=np.empty((n_places if n_places > 1 else 0, longest + 2, n_templates), np.int64),
        n_distinct=np.zeros(n_sources, np.int64),
        distinct=np.zeros((n_sources, most), np.int64),
        n_before=np.zeros((n_sources, most, longest + 1), np.int32),
        keys=np.empty(most_keys + 1, np.int64),
        spreads=np.empty(most_keys + 1, np.int64),
        numbers=np.empty(most_keys + 1, np.int64),
    )
