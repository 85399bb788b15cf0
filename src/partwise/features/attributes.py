"""Sparse integer attributes of token columns by a template. No string is made per attribute.

Every column is interned once, and the functions of a template run on distinct strings only. The codes of a
combination's fields are the digits of one integer key. A hash table numbers the keys:

    strings --intern--> codes --mixed radix--> keys --table--> attribute numbers

Combinations that share attributes (see ``Combination``) form a *group* with one table. Fields in the same
place of a group take their codes from one *space* of distinct strings; a *source* is a column and the
functions applied to it. Names are made from the keys, and only when asked for.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any, Literal

import numpy as np

from partwise.core.arrays import offsets
from partwise.core.rows import AttributeRows
from partwise.errors import InputError
from partwise.features.attribute_keys import add_digit, add_hash, count_rows, fill, look_up, number_keys, pack
from partwise.features.crfpp import parse_crfpp
from partwise.features.templates import Field, Template, parse_template
from partwise.features.vocabulary import check_vocabulary_settings, numbering, stable_hash, without_duplicates

__all__ = ["AttributeExtractor", "AttributeRows"]

# Keys of a group stay below this limit, so that sums do not overflow and -1 can mean absent.
KEY_LIMIT = 2**62


class Plan:
    """A template compiled for data of ``n_columns`` columns."""

    def __init__(self, template: Template, part: str, n_columns: int):
        bound = template.bind(n_columns)
        self.n_columns = n_columns
        self.combinations = bound.nodes if part == "node" else bound.edges
        reach = max((abs(f.offset) for c in self.combinations for f in c.fields), default=0)
        self.reach = reach if template.boundary == "symbol" else 0
        self.symbols = [f"_B{sign}{k}" for sign in "-+" for k in range(1, self.reach + 1)]
        by_pieces: dict[tuple[str, ...], list[int]] = {}
        for kind, combination in enumerate(self.combinations):
            by_pieces.setdefault(combination.pieces, []).append(kind)
        self.groups = list(by_pieces.values())
        self.sources: dict[Field, int] = {}  # a field with offset 0 stands for its column and functions
        for combination in self.combinations:
            for field in combination.fields:
                self.sources.setdefault(_source(field), len(self.sources))
        self.space_of = self._assign_spaces()

    def _assign_spaces(self) -> list[int]:
        """The space of each source: one for all sources that meet in the same place of a group."""
        label = list(range(len(self.sources)))
        for members in self.groups:
            for fields in zip(*(self.combinations[kind].fields for kind in members), strict=True):
                met = {label[self.sources[_source(field)]] for field in fields}
                label = [min(met) if each in met else each for each in label]
        dense = {each: k for k, each in enumerate(dict.fromkeys(label))}
        return [dense[each] for each in label]

    def empty_spaces(self) -> list[dict[str, int]]:
        """One space for each label, with the boundary symbols first."""
        return [
            dict(zip(self.symbols, count(), strict=False)) for _ in range(max(self.space_of, default=-1) + 1)
        ]

    def space(self, group: int, place: int) -> int:
        """The space of one place of a group."""
        field = self.combinations[self.groups[group][0]].fields[place]
        return self.space_of[self.sources[_source(field)]]

    def encode(
        self, columns: Sequence[Sequence[str]], spaces: list[dict[str, int]], grow: bool
    ) -> np.ndarray:
        """Codes of every source, int32, shape (n_sources, n_tokens); -1 for unknown or absent values.

        With ``grow``, unknown strings are added to their spaces.
        """
        used = sorted({int(field.column) for field in self.sources})
        interned = {column: intern(columns[column], column) for column in used}
        lookups = self.lookups({column: strings for column, (strings, _) in interned.items()}, spaces, grow)
        return self.codes({column: codes for column, (_, codes) in interned.items()}, lookups)

    def lookups(
        self, strings: Mapping[int, Sequence[str]], spaces: list[dict[str, int]], grow: bool
    ) -> list[np.ndarray]:
        """The codes of the distinct strings of each source's column, int32."""
        found = []
        for field, source in self.sources.items():
            space, distinct = spaces[self.space_of[source]], strings[int(field.column)]
            values = [field.value(string) for string in distinct] if field.functions else distinct
            if grow:
                for value in values:
                    if value is not None:
                        space.setdefault(value, len(space))
            found.append(np.array([space.get(value, -1) for value in values], dtype=np.int32))  # type: ignore[arg-type]
        return found

    def codes(self, tokens: Mapping[int, np.ndarray], lookups: list[np.ndarray]) -> np.ndarray:
        """Codes of every source, int32, shape (n_sources, n_tokens), of columns given as numbers of strings."""
        n_tokens = max(map(len, tokens.values()), default=0)
        codes = np.empty((len(self.sources), n_tokens), dtype=np.int32)
        for field, source in self.sources.items():
            codes[source] = lookups[source][tokens[int(field.column)]]
        return codes


def _source(field: Field) -> Field:
    return Field(field.column, 0, field.functions)


def intern(column: Sequence[str], number: int) -> tuple[list[str], np.ndarray]:
    """The distinct strings of a column, and for every token the index of its string."""
    index: defaultdict[str, int] = defaultdict(count().__next__)
    codes = np.fromiter(map(index.__getitem__, column), dtype=np.int32, count=len(column))
    if wrong := [each for each in index if not isinstance(each, str)]:
        raise InputError(f"column {number} holds {wrong[0]!r:.60}, which is not a string")
    return list(index), codes


class AttributeExtractor:
    """Attributes of every token (or edge) of a corpus, by a template.

    Parameters
    ----------
    template : Template
    part : "node" or "edge"
        The combinations to use. Node rows are the tokens. Edge rows are the tokens that have a token
        before them in their sequence.

    Attributes
    ----------
    n_attributes : int
    """

    plan: Plan

    def __init__(self, template: Template, part: Literal["node", "edge"] = "node"):
        self.template = template
        self.part = part
        self.n_attributes = 0
        self._hash_size: int | None = None
        self.spaces: list[dict[str, int]] = []
        self._squeezed: dict[tuple[int, int], np.ndarray] = {}
        self._keys = self._group_of = np.empty(0, dtype=np.int64)
        self._tables: list[np.ndarray] = []

    def fit_transform(
        self,
        columns: Sequence[Sequence[str]],
        sequence_ptr: np.ndarray,
        min_count: int = 1,
        hash_size: int | None = None,
    ) -> AttributeRows:
        """Learn the vocabulary from tokens and encode them.

        Parameters
        ----------
        columns : sequence of flat lists of str, each of length n_tokens
        sequence_ptr : int64 array, shape (n_sequences + 1,)
            Offsets of the sequences.
        min_count : int
            Attributes with fewer occurrences are dropped.
        hash_size : int or None
            If given, no vocabulary: attributes are hashed to this many numbers.

        Returns
        -------
        AttributeRows
            Numbers run from the most frequent attribute down, ties by first occurrence.
        """
        plan = self.begin(len(columns), min_count, hash_size)
        if hash_size is not None:
            return self.transform(columns, sequence_ptr)
        sequence_ptr = self.check_columns(columns, sequence_ptr)
        codes = plan.encode(columns, self.spaces, grow=True)
        numbers = np.empty((len(plan.combinations), sequence_ptr[-1]), dtype=np.int32)
        found, n_found = [], 0
        for group, members in enumerate(plan.groups):
            keys = self.group_keys(group, codes, sequence_ptr, grow=True)
            counter = KeyCounter()
            counter.add(keys, members, numbers)
            found.append(counter.found)
            for kind in members if n_found else ():
                numbers[kind] += np.where(numbers[kind] < 0, 0, np.int32(n_found))
            n_found += found[-1].shape[1]
        renumbered = self.learn(found, min_count)
        for row in numbers:
            row[:] = renumbered[row]
        return self._rows(numbers, sequence_ptr)

    def transform(self, columns: Sequence[Sequence[str]], sequence_ptr: np.ndarray) -> AttributeRows:
        """Encode tokens; attributes that are not in the vocabulary are dropped.

        Parameters and result are those of ``fit_transform``.
        """
        sequence_ptr = self.check_columns(columns, sequence_ptr)
        if sequence_ptr[-1] == 0:  # no tokens, and perhaps no columns to read them from
            return AttributeRows(np.zeros(1, np.int64), np.zeros(0, np.int32), None)
        if self._hash_size is None:
            codes = self.plan.encode(columns, self.spaces, grow=False)
            return self.rows_of(codes, sequence_ptr)
        spaces = self.plan.empty_spaces()
        codes = self.plan.encode(columns, spaces, grow=True)
        return self.rows_of(codes, sequence_ptr, hashes_of(spaces))

    def rows_of(
        self, codes: np.ndarray, sequence_ptr: np.ndarray, hashes: list[np.ndarray] | None = None
    ) -> AttributeRows:
        """Rows of tokens whose sources have these codes. If there is no vocabulary, `hashes` are those of the
        strings."""
        plan = self.plan
        numbers = np.empty((len(plan.combinations), sequence_ptr[-1]), dtype=np.int32)
        if hashes is None:
            for group, members in enumerate(plan.groups):
                for kind, keys in zip(members, self.group_keys(group, codes, sequence_ptr), strict=True):
                    look_up(keys, self._tables[group], numbers[kind])
            return self._rows(numbers, sequence_ptr)
        for kind in range(len(plan.combinations)):
            keys = self._hashed_keys(kind, codes, hashes, sequence_ptr)
            numbers[kind] = np.where(keys < 0, -1, keys % self._hash_size)
        return self._rows(numbers, sequence_ptr)

    @property
    def n_columns(self) -> int:
        """How many columns the data must have."""
        return self.plan.n_columns

    @property
    def column_names(self) -> list[str]:
        """The names of the columns in templates."""
        names = list(self.template.column_names or ("word", "pos"))[: self.n_columns]
        return names + [f"col{k}" for k in range(len(names), self.n_columns)]

    def names(self) -> list[str]:
        """The attribute behind each number; ``#number`` when they are hashed."""
        if self._hash_size is not None:
            return [f"#{k}" for k in range(self._hash_size)]
        names = [""] * self.n_attributes
        strings = [list(space) for space in self.spaces]
        for group, members in enumerate(self.plan.groups if self.n_attributes else ()):
            combination = self.plan.combinations[members[0]]
            ids = np.flatnonzero(self._group_of == group)
            keys, values = self._keys[ids], []
            for place in reversed(range(len(combination.fields))):
                known = strings[self.plan.space(group, place)]
                keys, digits = np.divmod(keys, len(known))
                values.append([known[digit] for digit in digits])
                if (group, place) in self._squeezed:
                    keys = self._squeezed[group, place][keys]
            rows = zip(*reversed(values), strict=True) if values else iter([()] * len(ids))
            for number, row in zip(ids, rows, strict=True):
                names[number] = combination.attribute(row)
        return names

    def state(self) -> dict[str, Any]:
        """All that a model file must hold: arrays, and plain JSON values."""
        places = sorted(self._squeezed)
        return {
            "template": self.template.text,
            "template_syntax": self.template.syntax,
            "column_names": list(self.template.column_names),
            "part": self.part,
            "n_columns": self.plan.n_columns,
            "hash_size": self._hash_size or 0,
            "strings": [list(space) for space in self.spaces],
            "keys": self._keys,
            "group_of": self._group_of.astype(np.int32),
            "squeezed_places": np.array(places, dtype=np.int32).reshape(-1, 2),
            "squeezed_ptr": offsets([len(self._squeezed[each]) for each in places]),
            "squeezed_keys": np.concatenate([np.empty(0, np.int64), *(self._squeezed[p] for p in places)]),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> AttributeExtractor:
        """Rebuild from what ``state`` returned."""
        if state["template_syntax"] == "crf++":
            template = parse_crfpp(state["template"])
        else:
            template = parse_template(state["template"], state["column_names"])
        extractor = cls(template, state["part"])
        extractor.plan = Plan(template, state["part"], int(state["n_columns"]))
        extractor._hash_size = int(state["hash_size"]) or None
        extractor.spaces = [dict(zip(strings, count(), strict=False)) for strings in state["strings"]]
        pieces = np.split(np.array(state["squeezed_keys"], dtype=np.int64), state["squeezed_ptr"][1:-1])
        places = np.array(state["squeezed_places"]).reshape(-1, 2)
        extractor._squeezed = {(int(g), int(p)): keys for (g, p), keys in zip(places, pieces, strict=False)}
        extractor._learn(np.array(state["keys"], np.int64), np.array(state["group_of"], np.int64))
        return extractor

    def begin(self, n_columns: int, min_count: int, hash_size: int | None) -> Plan:
        """Forget the vocabulary and prepare for data of so many columns."""
        check_vocabulary_settings(min_count, hash_size)
        self.plan = plan = Plan(self.template, self.part, n_columns)
        self._hash_size, self.spaces, self._squeezed = hash_size, plan.empty_spaces(), {}
        self.n_attributes = hash_size or 0
        return plan

    def learn(self, found: list[np.ndarray], min_count: int) -> np.ndarray:
        """Take the vocabulary from the keys counted for every group; returns the number of each key."""
        group_of = np.repeat(np.arange(len(found)), [each.shape[1] for each in found])
        _, distinct, counts, first = np.concatenate([np.empty((4, 0), dtype=np.int64), *found], axis=1)
        order, renumbered = numbering(counts, first, min_count)
        self._learn(distinct[order], group_of[order])
        return renumbered

    def _learn(self, keys: np.ndarray, group_of: np.ndarray) -> None:
        """Take the vocabulary: the key of each attribute and its group."""
        self._keys, self._group_of = keys, group_of
        self.n_attributes = self._hash_size or len(keys)
        self._tables = []
        for group in range(len(self.plan.groups)):
            ids = np.flatnonzero(group_of == group)
            self._tables.append(_table(keys[ids], 2 ** (2 * len(ids) + 1).bit_length(), ids))

    def check_columns(self, columns: Sequence[Sequence[str]], sequence_ptr: np.ndarray) -> np.ndarray:
        if not hasattr(self, "plan"):
            raise InputError("the vocabulary is not learnt yet; call fit_transform first")
        ptr = np.array(sequence_ptr, dtype=np.int64)
        needed = 1 + max((int(source.column) for source in self.plan.sources), default=-1)
        if len(columns) < needed and ptr[-1] > 0:
            raise InputError(f"the data has {len(columns)} columns; the template needs {needed}")
        if ptr.ndim != 1 or len(ptr) == 0 or ptr[0] != 0 or (np.diff(ptr) < 0).any():
            raise InputError("sequence_ptr must start with 0 and never descend")
        if any(len(column) != ptr[-1] for column in columns):
            lengths = ", ".join(str(len(column)) for column in columns)
            raise InputError(f"sequence_ptr ends at {ptr[-1]}, but the columns have lengths {lengths}")
        return ptr

    def _start(self, kind: int, ptr: np.ndarray, start: int) -> np.ndarray:
        """Keys before the first digit: ``start`` at the tokens that have this kind of attribute, else -1."""
        where = self.plan.combinations[kind].where
        begins, ends = ptr[:-1][ptr[:-1] < ptr[1:]], ptr[1:][ptr[:-1] < ptr[1:]]
        keys = np.full(ptr[-1], start if where == "all" else -1, dtype=np.int64)
        if where != "all":
            keys[begins if where == "first" else ends - 1] = start
        if self.part == "edge":
            keys[begins] = -1
        return keys

    def group_keys(
        self, group: int, codes: np.ndarray, ptr: np.ndarray, grow: bool = False, n_places: int | None = None
    ) -> np.ndarray:
        """Keys of a group's members, int64, shape (n_members, n_tokens); -1 where absent or unknown.

        With `n_places`, only the digits of the first places are in the keys.
        """
        plan, members, size = self.plan, self.plan.groups[group], 1
        keys = np.stack([self._start(kind, ptr, 0) for kind in members])
        for place in range(len(plan.combinations[members[0]].fields) if n_places is None else n_places):
            radix = len(self.spaces[plan.space(group, place)])
            if grow and size * radix > KEY_LIMIT:
                self.squeeze(group, place, np.unique(keys[keys >= 0]))
            if (group, place) in self._squeezed:
                keys = _squeeze(keys, self._squeezed[group, place])
                size = len(self._squeezed[group, place])
            for kind, row in zip(members, keys, strict=True):
                field = plan.combinations[kind].fields[place]
                add_digit(row, codes[plan.sources[_source(field)]], ptr, field.offset, plan.reach, radix)
            size *= radix
        return keys

    def squeeze(self, group: int, place: int, known: np.ndarray) -> None:
        """Before this place of a group is added, replace keys by their index in `known`, which is sorted."""
        self._squeezed[group, place] = known

    def _hashed_keys(
        self, kind: int, codes: np.ndarray, hashes: list[np.ndarray], ptr: np.ndarray
    ) -> np.ndarray:
        """Keys that depend only on the attribute's strings."""
        plan, combination = self.plan, self.plan.combinations[kind]
        keys = self._start(kind, ptr, stable_hash("\x1f".join(combination.pieces)))
        for field in combination.fields:
            source = plan.sources[_source(field)]
            add_hash(keys, codes[source], ptr, field.offset, plan.reach, hashes[plan.space_of[source]])
        return keys

    def _rows(self, numbers: np.ndarray, ptr: np.ndarray) -> AttributeRows:
        """Make rows of the numbers of every kind at every token; -1 is none."""
        row_ptr = np.zeros(numbers.shape[1] + 1, dtype=np.int64)
        count_rows(numbers, row_ptr)
        row_ptr = np.cumsum(row_ptr)
        ids = np.empty(row_ptr[-1], dtype=np.int32)
        pack(numbers, ids)
        if self.part == "edge":  # The first token of a sequence is no edge. Its row is empty.
            row_ptr = np.delete(row_ptr, ptr[:-1][ptr[:-1] < ptr[1:]])
        rows = AttributeRows(row_ptr, ids)
        distinct = self._hash_size is None and len(self.plan.groups) == len(numbers)
        return rows if distinct else without_duplicates(rows)


class KeyCounter:
    """Counts the keys of a group, of all tokens at once or batch by batch.

    Attributes
    ----------
    found : int64 array, shape (4, n_distinct)
        Columns of distinct keys: unused, the key, its occurrences, its first position.
    """

    def __init__(self) -> None:
        self._found = np.zeros((4, 1), dtype=np.int64)
        self._table = _table(self._found[1, :0], 1024)

    def add(self, keys: np.ndarray, members: list[int], numbers: np.ndarray, first_token: int = 0) -> None:
        """Count the keys (n_members, n_tokens) of a group's `members`, and number them in their rows of `numbers`.

        `first_token` is the number of tokens in earlier batches.
        """
        n_found, capacity = int(self._found[0, 0]), self._found.shape[1]
        if n_found + keys.size >= capacity:
            wider = np.zeros((4, max(n_found + keys.size + 1, 2 * n_found)), dtype=np.int64)
            wider[:, : n_found + 1] = self._found[:, : n_found + 1]
            self._found = wider
        room = self._found
        for kind, row in zip(members, keys, strict=True):
            reached = 0
            while (reached := number_keys(row, reached, self._table, room, numbers, kind, first_token)) < len(
                row
            ):
                self._table = _table(room[1, : room[0, 0]], 4 * len(self._table))

    @property
    def found(self) -> np.ndarray:
        return self._found[:, : self._found[0, 0]]


def hashes_of(spaces: list[dict[str, int]]) -> list[np.ndarray]:
    """Hashes of all strings of all spaces, int64."""
    return [np.array([stable_hash(string) for string in space], dtype=np.int64) for space in spaces]


def _table(keys: np.ndarray, capacity: int, numbers: np.ndarray | None = None) -> np.ndarray:
    """A hash table of (key, number) pairs for ``attribute_keys.find_slot``; the capacity is a power of two."""
    table = np.full((capacity, 2), -1, dtype=np.int64)
    fill(table, keys, np.arange(len(keys)) if numbers is None else numbers)
    return table


def _squeeze(keys: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Replace keys by their index in the known ones, so that more digits fit."""
    if len(known) == 0:
        return np.full_like(keys, -1)
    places = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.where(known[places] == keys, places, -1)
