"""Attributes of tokens to numbers, faster than one by one: one small table for every key of the dicts.

Reading what users give is most of the time of tagging, and most of that is memory: a vocabulary of all names
does not fit the processor's caches, the few tag sets and frequent words under one key do. So every key has a
table from its values to numbers, filled as they occur, and a token's attributes go through one ``map``.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from operator import getitem
from threading import Lock
from typing import Any

import numpy as np

from partwise.core.arrays import offsets
from partwise.core.rows import AttributeRows
from partwise.features.vocabulary import LARGEST_VALUE, without_duplicates

_NUMBERS = frozenset({bool, int, float, np.float64, np.float32, np.int64, np.bool_})
_MOST_PLANS = 1000
_MOST_REMEMBERED = 1_000_000


class _UnusualError(Exception):
    """A token that is not of a simple kind."""


class _Names(dict[str, int]):
    """Numbers of attributes, -1 for strings that are none."""

    def __missing__(self, name: Any) -> int:
        if type(name) is str:
            return -1
        raise _UnusualError


class _Entries:
    """What is written while tokens are read: numbers, where rows end, and the values that are not 1."""

    def __init__(self) -> None:
        self.ids, self.ends = array("i"), array("q", [0])
        self.values: list[tuple[int, float]] = []

    def note(self, value: Any) -> None:
        """Say that the number written next has this value."""
        if not -LARGEST_VALUE <= value <= LARGEST_VALUE:
            raise _UnusualError
        self.values.append((len(self.ids), float(value)))


class _Table(dict[Any, int]):
    """Numbers of the values under one key, -1 for those not in the vocabulary."""

    def __init__(self, key: Any, lookup: AttributeLookup):
        self.key, self.prefix, self.lookup = key, f"{key}:", lookup

    def __missing__(self, value: Any) -> int:
        if type(value) is str:
            number = self[value] = self.lookup.find(self.prefix + value)
            return number
        if type(value) not in _NUMBERS:
            raise _UnusualError
        if value == 0 or value == 1:
            number = self[value] = self.lookup.find(self.key) if value else -1
            return number
        self.lookup.entries.note(value)  # it is different every time, so there is no use in remembering it
        return self.lookup.find(self.key)


class AttributeLookup:
    """Encodes tokens under a fixed vocabulary.

    Parameters
    ----------
    index : mapping of str to int
        The number of every known attribute.
    """

    def __init__(self, index: Mapping[str, int]):
        self.find = _Names(index).__getitem__
        self.entries = _Entries()
        self._lock = Lock()
        self._forget()

    def _forget(self) -> None:
        self._tables: dict[Any, _Table] = {}
        self._plans: dict[tuple[Any, ...], list[_Table]] = {}

    def rows(self, sequences: Sequence[Sequence[Any]]) -> AttributeRows | None:
        """Rows of all tokens; None where one of them is of no simple kind, or wrong."""
        with self._lock:
            if sum(map(len, self._tables.values())) > _MOST_REMEMBERED:
                self._forget()
            entries = self.entries = _Entries()
            try:
                self._read(sequences, entries)
            except (TypeError, _UnusualError):
                return None
        return _known_rows(entries)

    def _read(self, sequences: Sequence[Sequence[Any]], entries: _Entries) -> None:
        ids, extend, end_row, find_plan = (
            entries.ids,
            entries.ids.extend,
            entries.ends.append,
            self._plans.get,
        )
        for sequence in sequences:
            for token in sequence:
                if type(token) is dict:
                    keys = tuple(token)
                    plan = find_plan(keys) or self._plan(keys)
                    if plan is not None:
                        extend(map(getitem, plan, token.values()))
                    else:
                        self._add(token, entries)
                elif isinstance(token, (list, tuple, set, frozenset)):
                    extend(map(self.find, token))
                else:
                    raise _UnusualError
                end_row(len(ids))

    def _plan(self, keys: tuple[Any, ...]) -> list[_Table] | None:
        """The tables of these keys; None where there are too many kinds of tokens to make any."""
        if len(self._plans) >= _MOST_PLANS:
            return None
        for key in keys:
            if key not in self._tables:
                self._tables[key] = _Table(key, self)
        plan = self._plans[keys] = [self._tables[key] for key in keys]
        return plan

    def _add(self, token: dict[Any, Any], entries: _Entries) -> None:
        """Add a token entry by entry: its names are mostly keys, not values."""
        if set(map(type, token.values())) <= _NUMBERS and set(token.values()) == {1}:
            entries.ids.extend(map(self.find, token))
            return
        for key, value in token.items():
            if type(value) is str:
                entries.ids.append(self.find(f"{key}:{value}"))
            elif type(value) not in _NUMBERS:
                raise _UnusualError
            elif value:
                if value != 1:
                    entries.note(value)
                entries.ids.append(self.find(key))


def _known_rows(entries: _Entries) -> AttributeRows:
    """Without what is not in the vocabulary, and nothing twice in a row."""
    numbers, row_ptr, values = np.array(entries.ids, np.int32), np.array(entries.ends, np.int64), None
    if entries.values:
        values = np.ones(len(numbers))
        where, what = zip(*entries.values, strict=True)
        values[list(where)] = what
    known = numbers >= 0
    if not known.all():
        row_ptr = offsets(known)[row_ptr]
        numbers, values = numbers[known], None if values is None else values[known]
    return without_duplicates(AttributeRows(row_ptr, numbers, values))
