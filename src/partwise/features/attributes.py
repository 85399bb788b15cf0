"""Token columns to sparse integer attributes through a template, without a string per attribute.

Every column is interned once and the functions of a template run on distinct strings only. The codes of a
combination's fields are the digits of one integer key, and a hash table numbers the keys:

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

KEY_LIMIT = 2**62  # keys of a group stay below, so that a key of -1 can mean absent


class _Plan:
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
        """Codes of every source, int32, shape (n_sources, n_tokens); -1 where unknown or without value.

        With ``grow``, unknown strings are added to their spaces instead.
        """
        codes = np.empty((len(self.sources), len(columns[0]) if columns else 0), dtype=np.int32)
        interned: dict[object, tuple[list[str], np.ndarray]] = {}
        for field, source in self.sources.items():
            column, space = int(field.column), spaces[self.space_of[source]]
            if column not in interned:
                interned[column] = _intern(columns[column], column)
            strings, token_codes = interned[column]
            values = [field.value(string) for string in strings] if field.functions else strings
            if grow:
                for value in values:
                    if value is not None:
                        space.setdefault(value, len(space))
            lookup = np.array([space.get(value, -1) for value in values], dtype=np.int32)  # type: ignore[arg-type]
            codes[source] = lookup[token_codes]
        return codes


def _source(field: Field) -> Field:
    return Field(field.column, 0, field.functions)


def _intern(column: Sequence[str], number: int) -> tuple[list[str], np.ndarray]:
    """The distinct strings of a column, and for every token which of them it is."""
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
        Which of the template's combinations. Node rows are the tokens; edge rows are the tokens that have
        another before them in their sequence.

    Attributes
    ----------
    n_attributes : int
    """

    _plan: _Plan

    def __init__(self, template: Template, part: Literal["node", "edge"] = "node"):
        self.template = template
        self.part = part
        self.n_attributes = 0
        self._hash_size: int | None = None
        self._spaces: list[dict[str, int]] = []
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
        """Learn the vocabulary and encode the tokens it is learnt from.

        Parameters
        ----------
        columns : sequence of flat lists of str, each of length n_tokens
        sequence_ptr : int64 array, shape (n_sequences + 1,)
            Where each sequence begins and the last one ends.
        min_count : int
            Attributes with fewer occurrences are dropped.
        hash_size : int or None
            If given, no vocabulary: attributes are hashed to this many numbers.

        Returns
        -------
        AttributeRows
            Numbers run from the most frequent attribute down, ties by first occurrence.
        """
        check_vocabulary_settings(min_count, hash_size)
        self._plan = plan = _Plan(self.template, self.part, len(columns))
        self._hash_size, self._spaces, self._squeezed = hash_size, plan.empty_spaces(), {}
        if hash_size is not None:
            self.n_attributes = hash_size
            return self.transform(columns, sequence_ptr)
        sequence_ptr = self._checked(columns, sequence_ptr)
        codes = plan.encode(columns, self._spaces, grow=True)
        numbers = np.empty((len(plan.combinations), sequence_ptr[-1]), dtype=np.int32)
        found, n_found = [np.empty((4, 0), dtype=np.int64)], 0
        for group, members in enumerate(plan.groups):
            keys = self._group_keys(group, codes, sequence_ptr, grow=True)
            found.append(_number_group(group, keys, members, numbers))
            for kind in members if n_found else ():
                numbers[kind] += np.where(numbers[kind] < 0, 0, np.int32(n_found))
            n_found += found[-1].shape[1]
        group_of, distinct, counts, first = np.concatenate(found, axis=1)
        order, renumbered = numbering(counts, first, min_count)
        self._learn(distinct[order], group_of[order])
        for row in numbers:
            row[:] = renumbered[row]
        return self._rows(numbers, sequence_ptr)

    def transform(self, columns: Sequence[Sequence[str]], sequence_ptr: np.ndarray) -> AttributeRows:
        """Encode tokens; attributes that are not in the vocabulary are dropped.

        Parameters and result are those of ``fit_transform``.
        """
        sequence_ptr = self._checked(columns, sequence_ptr)
        if sequence_ptr[-1] == 0:  # no tokens, and perhaps no columns to read them from
            return AttributeRows(np.zeros(1, np.int64), np.zeros(0, np.int32), None)
        plan, hash_size = self._plan, self._hash_size
        numbers = np.empty((len(plan.combinations), sequence_ptr[-1]), dtype=np.int32)
        if hash_size is None:
            codes = plan.encode(columns, self._spaces, grow=False)
            for group, members in enumerate(plan.groups):
                for kind, keys in zip(members, self._group_keys(group, codes, sequence_ptr), strict=True):
                    look_up(keys, self._tables[group], numbers[kind])
            return self._rows(numbers, sequence_ptr)
        spaces = plan.empty_spaces()
        codes = plan.encode(columns, spaces, grow=True)
        hashes = [np.array([stable_hash(string) for string in space], dtype=np.int64) for space in spaces]
        for kind in range(len(plan.combinations)):
            keys = self._hashed_keys(kind, codes, hashes, sequence_ptr)
            numbers[kind] = np.where(keys < 0, -1, keys % hash_size)
        return self._rows(numbers, sequence_ptr)

    @property
    def n_columns(self) -> int:
        """How many columns the data must have."""
        return self._plan.n_columns

    @property
    def column_names(self) -> list[str]:
        """What templates call them."""
        names = list(self.template.column_names or ("word", "pos"))[: self.n_columns]
        return names + [f"col{k}" for k in range(len(names), self.n_columns)]

    def names(self) -> list[str]:
        """The attribute behind each number; ``#number`` when they are hashed."""
        if self._hash_size is not None:
            return [f"#{k}" for k in range(self._hash_size)]
        names = [""] * self.n_attributes
        strings = [list(space) for space in self._spaces]
        for group, members in enumerate(self._plan.groups if self.n_attributes else ()):
            combination = self._plan.combinations[members[0]]
            ids = np.flatnonzero(self._group_of == group)
            keys, values = self._keys[ids], []
            for place in reversed(range(len(combination.fields))):
                known = strings[self._plan.space(group, place)]
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
            "n_columns": self._plan.n_columns,
            "hash_size": self._hash_size or 0,
            "strings": [list(space) for space in self._spaces],
            "keys": self._keys,
            "group_of": self._group_of.astype(np.int32),
            "squeezed_places": np.array(places, dtype=np.int32).reshape(-1, 2),
            "squeezed_ptr": offsets([len(self._squeezed[each]) for each in places]),
            "squeezed_keys": np.concatenate([np.empty(0, np.int64), *(self._squeezed[p] for p in places)]),
        }

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> AttributeExtractor:
        """Rebuild from what ``state`` gave."""
        if state["template_syntax"] == "crf++":
            template = parse_crfpp(state["template"])
        else:
            template = parse_template(state["template"], state["column_names"])
        extractor = cls(template, state["part"])
        extractor._plan = _Plan(template, state["part"], int(state["n_columns"]))
        extractor._hash_size = int(state["hash_size"]) or None
        extractor._spaces = [dict(zip(strings, count(), strict=False)) for strings in state["strings"]]
        pieces = np.split(np.array(state["squeezed_keys"], dtype=np.int64), state["squeezed_ptr"][1:-1])
        places = np.array(state["squeezed_places"]).reshape(-1, 2)
        extractor._squeezed = {(int(g), int(p)): keys for (g, p), keys in zip(places, pieces, strict=False)}
        extractor._learn(np.array(state["keys"], np.int64), np.array(state["group_of"], np.int64))
        return extractor

    def _learn(self, keys: np.ndarray, group_of: np.ndarray) -> None:
        """Take the vocabulary: the key of each attribute and the group it is a key of."""
        self._keys, self._group_of = keys, group_of
        self.n_attributes = self._hash_size or len(keys)
        self._tables = []
        for group in range(len(self._plan.groups)):
            ids = np.flatnonzero(group_of == group)
            self._tables.append(_table(keys[ids], 2 ** (2 * len(ids) + 1).bit_length(), ids))

    def _checked(self, columns: Sequence[Sequence[str]], sequence_ptr: np.ndarray) -> np.ndarray:
        if not hasattr(self, "_plan"):
            raise InputError("the vocabulary is not learnt yet; call fit_transform first")
        ptr = np.array(sequence_ptr, dtype=np.int64)
        needed = 1 + max((int(source.column) for source in self._plan.sources), default=-1)
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
        where = self._plan.combinations[kind].where
        begins, ends = ptr[:-1][ptr[:-1] < ptr[1:]], ptr[1:][ptr[:-1] < ptr[1:]]
        keys = np.full(ptr[-1], start if where == "all" else -1, dtype=np.int64)
        if where != "all":
            keys[begins if where == "first" else ends - 1] = start
        if self.part == "edge":
            keys[begins] = -1
        return keys

    def _group_keys(self, group: int, codes: np.ndarray, ptr: np.ndarray, grow: bool = False) -> np.ndarray:
        """Keys of a group's members, int64, shape (n_members, n_tokens); -1 where absent or unknown."""
        plan, members, size = self._plan, self._plan.groups[group], 1
        keys = np.stack([self._start(kind, ptr, 0) for kind in members])
        for place in range(len(plan.combinations[members[0]].fields)):
            radix = len(self._spaces[plan.space(group, place)])
            if grow and size * radix > KEY_LIMIT:
                self._squeezed[group, place] = np.unique(keys[keys >= 0])
            if (group, place) in self._squeezed:
                keys = _squeeze(keys, self._squeezed[group, place])
                size = len(self._squeezed[group, place])
            for kind, row in zip(members, keys, strict=True):
                field = plan.combinations[kind].fields[place]
                add_digit(row, codes[plan.sources[_source(field)]], ptr, field.offset, plan.reach, radix)
            size *= radix
        return keys

    def _hashed_keys(
        self, kind: int, codes: np.ndarray, hashes: list[np.ndarray], ptr: np.ndarray
    ) -> np.ndarray:
        """Keys that depend on nothing but the attribute's strings."""
        plan, combination = self._plan, self._plan.combinations[kind]
        keys = self._start(kind, ptr, stable_hash("\x1f".join(combination.pieces)))
        for field in combination.fields:
            source = plan.sources[_source(field)]
            add_hash(keys, codes[source], ptr, field.offset, plan.reach, hashes[plan.space_of[source]])
        return keys

    def _rows(self, numbers: np.ndarray, ptr: np.ndarray) -> AttributeRows:
        """Numbers of every kind at every token, -1 for none, to rows."""
        row_ptr = np.zeros(numbers.shape[1] + 1, dtype=np.int64)
        count_rows(numbers, row_ptr)
        row_ptr = np.cumsum(row_ptr)
        ids = np.empty(row_ptr[-1], dtype=np.int32)
        pack(numbers, ids)
        if self.part == "edge":  # the first token of a sequence has an empty row, and is no edge
            row_ptr = np.delete(row_ptr, ptr[:-1][ptr[:-1] < ptr[1:]])
        rows = AttributeRows(row_ptr, ids)
        distinct = self._hash_size is None and len(self._plan.groups) == len(numbers)
        return rows if distinct else without_duplicates(rows)


def _number_group(group: int, keys: np.ndarray, members: list[int], numbers: np.ndarray) -> np.ndarray:
    """Number a group's keys in the rows ``members`` of ``numbers``.

    Returns one column per distinct key: the group, the key, its occurrences, its first place.
    """
    found = np.empty((4, keys.size + 1), dtype=np.int64)
    found[0, 0] = 0
    table = _table(found[1, :0], 1024)
    for kind, row in zip(members, keys, strict=True):
        reached = 0
        while (reached := number_keys(row, reached, table, found, numbers, kind)) < len(row):
            table = _table(found[1, : found[0, 0]], 4 * len(table))
    n_found = found[0, 0]
    found[0, :n_found] = group
    return found[:, :n_found]


def _table(keys: np.ndarray, capacity: int, numbers: np.ndarray | None = None) -> np.ndarray:
    """A hash table of (key, number) pairs for ``attribute_keys.find_slot``; the capacity is a power of two."""
    table = np.full((capacity, 2), -1, dtype=np.int64)
    fill(table, keys, np.arange(len(keys)) if numbers is None else numbers)
    return table


def _squeeze(keys: np.ndarray, known: np.ndarray) -> np.ndarray:
    """Replace keys by their places among the known ones, so that more digits fit behind them."""
    if len(known) == 0:
        return np.full_like(keys, -1)
    places = np.minimum(np.searchsorted(known, keys), len(known) - 1)
    return np.where(known[places] == keys, places, -1)
