"""The engine for features of rows that look at several words: templates, values, integer keys, a vocabulary.

    words --values--> codes --template digits--> keys --open table--> feature numbers

No string is made per feature. Names are made from the keys, and only when asked for. `arcs.py` and `spans.py` say which
rows and values there are.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from copy import copy
from itertools import count
from typing import Any, ClassVar

import numpy as np

from partwise.core.arrays import offsets
from partwise.core.rows import AttributeRows
from partwise.errors import InputError
from partwise.features import functions
from partwise.features.place_keys import (
    Program,
    WordCodes,
    Workspace,
    count_keys,
    fill_table,
    find_rows,
    move_counts,
)
from partwise.features.place_templates import (
    RELATION,
    Compiled,
    Language,
    checked_templates,
    compile_templates,
    functions_of,
    parse_template,
)
from partwise.features.vocabulary import check_vocabulary_settings

# Memory is reserved for the features of this many rows before any is known.
_FIRST_ROWS = 10_000
# More morphological features of one word than this are not looked at: pairs of them are features of arcs.
MOST_FEATS = 30
NO_VALUE = "_"


class PlaceFeatures:
    """Numbers the features of rows by templates.

    Parameters
    ----------
    templates : str or list of str
        A named set or templates, see `partwise.features.place_templates`. Templates with a field that the training
        data have no values for are left out.
    min_count : int
        Features with fewer occurrences in training are dropped.

    Attributes
    ----------
    n_attributes : int
        Features that have a number; the most frequent come first.
    used_templates : list of str
    """

    language: Language
    subject: ClassVar[str]  # of messages about damaged files
    _compiled: Compiled

    def __init__(self, templates: str | Sequence[str], min_count: int = 1):
        self.templates = checked_templates(templates, self.language)
        check_vocabulary_settings(min_count, None)
        self.min_count = min_count
        self.used_templates: list[str] = []
        self.n_attributes = 0

    # -- what subclasses say ---------------------------------------------------------------------

    def _column(self, data: Any, value: str) -> Sequence[str] | None:
        """The strings that a value of all words is made from; None if the data have no such column."""
        raise NotImplementedError

    def _learnt_relation(self, data: Any, rows: Any) -> Iterable[str | None]:
        """The values of the relation that is learnt from data, one per row."""
        return ()

    # -- learning --------------------------------------------------------------------------------

    def _fit(self, data: Any, rows: Any) -> None:
        """Learn which features these rows have."""
        strings: dict[str, list[str]] = {}
        for source in self._sources():
            values = self._distinct(data, rows, source)
            if values:
                strings[source] = values
        self._adopt(strings)
        keys, counts = _count(self._compiled.program, self._word_codes(data), self._compiled_rows(data, rows))
        kept = counts >= self.min_count
        keys, counts = keys[kept], counts[kept]
        self._learn(keys[np.lexsort((keys, -counts))])

    def _sources(self) -> list[str]:
        """Values of words and learnt relations that templates use, in the order of their first use."""
        fields = (field for text in self.templates for field in parse_template(text, self.language))
        fixed = {name for name, values in self.language.relations.items() if values}
        return list(dict.fromkeys(f.source for f in fields if f.place != RELATION or f.source not in fixed))

    def _distinct(self, data: Any, rows: Any, source: str) -> list[str]:
        """The distinct values of a source, in the order of their first occurrence."""
        if source in self.language.relations:
            found: Iterable[str | None] = self._learnt_relation(data, rows)
        else:
            column = self._column(data, functions_of(source)[1])
            strings = dict.fromkeys(column or ())
            if source == "feat":
                found = (each for string in strings for each in feats(string))
            else:
                found = (value_of(string, source) for string in strings)
        return [value for value in dict.fromkeys(found) if value is not None]

    def _adopt(self, strings: dict[str, list[str]]) -> None:
        """Take the distinct values of every source, and compile the templates that need no others."""
        n_reserved = len(self.language.reserved)
        self._spaces = {
            source: dict(zip(values, count(n_reserved), strict=False)) for source, values in strings.items()
        }
        known = strings.keys() | {name for name, values in self.language.relations.items() if values}
        used = [
            text
            for text in self.templates
            if all(field.source in known for field in parse_template(text, self.language))
        ]
        if not used:
            raise InputError(
                f"no {self.language.name} template is left: the data have no values for any of them"
            )
        sizes = [len(values) + n_reserved for values in strings.values()]
        self._compiled = compile_templates(used, self.language, list(strings), sizes)
        self.used_templates = self._compiled.texts

    def _learn(self, keys: np.ndarray) -> None:
        if len(keys) >= 2**31:
            raise InputError(f"{len(keys)} {self.subject} are more than 2^31: use a higher min_count")
        self._keys = keys
        self.n_attributes = len(keys)
        size = 1 << max(2 * len(keys), 128).bit_length()
        self._numbers, self._marks = np.empty(size, np.int32), np.zeros(size, np.uint8)
        fill_table(keys, self._numbers, self._marks)

    # -- encoding --------------------------------------------------------------------------------

    def _rows(self, data: Any, rows: Any) -> AttributeRows:
        """The known features of rows."""
        if not hasattr(self, "_keys"):
            raise InputError("the features are not learnt yet; call fit first")
        words, rows = self._word_codes(data), self._compiled_rows(data, rows)
        work = _workspace(self._compiled.program, words)
        n_rows, most_keys = len(rows[1]), len(work.keys)
        row_ptr = np.zeros(n_rows + 1, np.int64)
        ids, n_written, row = np.empty(min(n_rows, _FIRST_ROWS) * most_keys, np.int32), 0, 0
        table = self._keys, self._numbers, self._marks
        while True:
            row, n_written = find_rows(
                self._compiled.program, words, rows, row, n_rows, *table, work, row_ptr, ids, n_written
            )
            if row == n_rows:
                break
            # The same array grows: no second copy in memory.
            expected = int(1.1 * n_written / max(row, 1) * n_rows)
            size = min(max(expected, len(ids) + _FIRST_ROWS * most_keys), n_rows * most_keys)
            ids.resize(size, refcheck=False)
        ids.resize(n_written, refcheck=False)
        return AttributeRows(row_ptr, ids)

    def _compiled_rows(self, data: Any, rows: Any) -> Any:
        """Rows as compiled code reads them."""
        return rows

    def _word_codes(self, data: Any) -> WordCodes:
        """Codes of all words, -1 if a word has no value or one not seen in training."""
        sentence_ptr = np.ascontiguousarray(data.sentence_ptr, np.int64)
        n_words = int(sentence_ptr[-1])
        codes = np.full((len(self._spaces), n_words), -1, np.int32)
        feature_ptr, feature_code = np.zeros(n_words + 1, np.int64), np.zeros(0, np.int32)
        for row, (source, space) in enumerate(self._spaces.items()):
            if source in self.language.relations:
                continue
            column = self._column(data, functions_of(source)[1])
            if column is None:
                continue
            strings, string_of = interned(column)
            if source == "feat":
                known = [[space[each] for each in feats(string) if each in space] for string in strings]
                lengths = np.array([len(each) for each in known], np.int64)
                feature_ptr = offsets(lengths[string_of])
                feature_code = np.array([code for k in string_of for code in known[k]], np.int32)
            else:
                values = [value_of(string, source) for string in strings]
                found = np.array([-1 if each is None else space.get(each, -1) for each in values], np.int32)
                codes[row] = found[string_of]
        return WordCodes(sentence_ptr, codes, feature_ptr, feature_code)

    # -- names, smaller vocabularies, files ------------------------------------------------------

    def names(self, ids: Iterable[int] | None = None) -> list[str]:
        """What the features of these numbers (or all) stand for: ``head.form=dog & direction=right``."""
        numbers = np.arange(self.n_attributes) if ids is None else np.fromiter(ids, np.int64)
        strings: dict[str, Sequence[str]] = {
            source: [*self.language.reserved, *space] for source, space in self._spaces.items()
        }
        strings |= {name: values for name, values in self.language.relations.items() if values}
        templates = self.template_of(numbers).tolist()
        keys = self._keys[numbers].tolist()
        return [self._name(template, key, strings) for template, key in zip(templates, keys, strict=True)]

    def _name(self, template: int, key: int, strings: Mapping[str, Sequence[str]]) -> str:
        key -= int(self._compiled.program.base[template])
        shown = []
        fields, strides = self._compiled.fields[template], self._compiled.strides[template]
        for field, stride in reversed(list(zip(fields, strides, strict=True))):
            code, key = divmod(key, stride)
            shown.append(f"{field}={strings[field.source][code]}")
        return " & ".join(reversed(shown))

    def template_of(self, ids: np.ndarray) -> np.ndarray:
        """The index in `used_templates` of each feature's template, int64."""
        return np.searchsorted(self._compiled.program.base, self._keys[ids], side="right") - 1

    def keep(self, ids: np.ndarray) -> Any:
        """The same with only these features, renumbered in the order given."""
        smaller = copy(self)
        smaller._learn(np.ascontiguousarray(self._keys[ids]))
        return smaller

    def state(self) -> dict[str, Any]:
        """All that a model file must hold: an array of keys, and plain JSON values."""
        return {
            "templates": self.used_templates,
            "min_count": self.min_count,
            "sources": list(self._spaces),
            "strings": [list(space) for space in self._spaces.values()],
            "keys": self._keys,
        }

    def _set_state(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` returned."""
        strings = dict(zip(state["sources"], state["strings"], strict=True))
        self._adopt({source: list(values) for source, values in strings.items()})
        keys = np.ascontiguousarray(state["keys"], np.int64)
        if self.used_templates != list(state["templates"]):
            raise InputError(f"damaged {self.subject}: templates and sources do not fit together")
        if keys.ndim != 1 or (len(keys) and not 0 <= keys.min() <= keys.max() < self._compiled.size):
            raise InputError(f"damaged {self.subject}: keys out of range")
        self._learn(keys)


def value_of(string: str, source: str) -> str | None:
    """What a source is for a word with this string in its column; None if it has no value."""
    calls, value = functions_of(source)
    if value in ("lemma", "tag", "coarse", "feats") and string == NO_VALUE:
        return None
    if value == "lower":
        string = string.lower()
    elif value.startswith(("prefix", "suffix")):
        length = int(value[6:])
        if len(string) <= length:
            return None
        string = string[:length] if value.startswith("prefix") else string[-length:]
    return functions.apply(calls, string)


def feats(string: str) -> list[str]:
    """The morphological features in ``Case=Nom|Number=Sing``, each once."""
    return [] if string == NO_VALUE else list(dict.fromkeys(string.split("|")))[:MOST_FEATS]


def interned(column: Sequence[str]) -> tuple[list[str], np.ndarray]:
    """The distinct strings of a column, and for every word the index of its string."""
    index: defaultdict[str, int] = defaultdict(count().__next__)
    string_of = np.fromiter(map(index.__getitem__, column), dtype=np.int64, count=len(column))
    return list(index), string_of


def _workspace(program: Program, words: WordCodes) -> Workspace:
    """Memory for the longest sentence and for all keys that a row can have."""
    n_templates, n_sources = len(program.base), len(words.codes)
    longest = int(np.diff(words.sentence_ptr).max(initial=0))
    looked_at = np.unique(program.between_source[program.between_stride > 0])
    most = min(longest, int(words.codes[looked_at].max(initial=0)) + 1) if len(looked_at) else 0
    most_feats = int(np.diff(words.feature_ptr).max(initial=0))
    most_keys = program.n_simple + sum(
        (most_feats if program.feature_stride[0, t] else 1)
        * (most_feats if program.feature_stride[1, t] else 1)
        * (most if program.between_stride[t] else 1)
        for t in range(program.n_simple, n_templates)
    )
    return Workspace(
        part=np.empty((len(program.piece_ptr), longest + 2, n_templates), np.int64),
        n_distinct=np.zeros(n_sources, np.int64),
        distinct=np.zeros((n_sources, most), np.int64),
        n_before=np.zeros((n_sources, most, longest + 1), np.int32),
        keys=np.empty(most_keys + 1, np.int64),
        spreads=np.empty(most_keys + 1, np.int64),
    )


def _count(program: Program, words: WordCodes, rows: Any) -> tuple[np.ndarray, np.ndarray]:
    """The distinct keys of rows and how often each occurs."""
    work = _workspace(program, words)
    table = np.zeros((1 << max(4 * len(work.keys), 2**16).bit_length(), 2), np.int64)
    row, n_found, n_rows = 0, 0, len(rows[1])
    while True:
        row, n_found = count_keys(program, words, rows, row, n_rows, table, work, n_found)
        if row == n_rows:
            break
        larger = np.zeros((4 * len(table), 2), np.int64)
        move_counts(table, larger)
        table = larger
    found = table[:, 1] > 0
    return table[found, 0], table[found, 1]
