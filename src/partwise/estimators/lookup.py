"""Attributes of tokens to numbers, faster than one by one: dicts with the same keys are looked up by one plan.

Reading what users give is most of the time of tagging, so the loops over a token's attributes run inside
``map``: prefixes ``key:`` are made once per set of keys, strings glued to them, and the names looked up.
"""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from itertools import compress, repeat
from math import isfinite
from operator import add
from typing import Any

import numpy as np

from partwise.features.vocabulary import AttributeRows, without_duplicates

_NUMBERS = frozenset({bool, int, float, np.float64, np.float32, np.int64, np.bool_})
_READABLE = _NUMBERS | {str}
_MOST_PLANS = 10_000


class AttributeLookup:
    """Encodes tokens under a fixed vocabulary.

    Parameters
    ----------
    index : mapping of str to int
        The number of every known attribute.
    """

    def __init__(self, index: Mapping[str, int]):
        self._find = dict(index).get
        self._prefixes: dict[tuple[Any, ...], list[str]] = {}
        self._plans: dict[tuple[Any, ...], tuple[list[str], list[bool], list[tuple[Any, int]]]] = {}

    def rows(self, sequences: Sequence[Sequence[Any]]) -> AttributeRows | None:
        """Rows of all tokens; None where one of them is of no simple kind, or wrong."""
        ids, ends = array("i"), array("q", [0])
        unusual: list[tuple[int, float]] = []
        extend, end_row, find, unknown = ids.extend, ends.append, self._find, repeat(-1)
        try:
            for sequence in sequences:
                for token in sequence:
                    if type(token) is dict:
                        kinds = set(map(type, token.values()))
                        if len(kinds) == 1 and str in kinds:
                            names = map(add, self._prefixes_of(token), token.values())
                            extend(map(find, names, unknown))
                        elif not self._add(token, kinds, ids, unusual):
                            return None
                    elif isinstance(token, (list, tuple, set, frozenset)):
                        extend(map(find, token, unknown))
                    else:
                        return None
                    end_row(len(ids))
        except TypeError:
            return None
        return _known_rows(ids, ends, unusual)

    def _prefixes_of(self, token: dict[Any, Any]) -> list[str]:
        keys = tuple(token)
        prefixes = self._prefixes.get(keys)
        if prefixes is None:
            prefixes = [f"{key}:" for key in keys]
            if len(self._prefixes) < _MOST_PLANS:
                self._prefixes[keys] = prefixes
        return prefixes

    def _add(
        self, token: dict[Any, Any], kinds: set[type], ids: array[int], unusual: list[tuple[int, float]]
    ) -> bool:
        """Add a token that holds numbers; False where it holds something else."""
        if not kinds <= _READABLE:
            return False
        values: list[Any] = list(token.values())
        if str not in kinds:
            if set(values) == {1}:
                ids.extend(map(self._find, token, repeat(-1)))
                return True
            return self._add_numbers(zip(token, values, strict=True), ids, unusual)
        prefixes, is_string, numbers = self._plan(token, values)
        ids.extend(map(self._find, map(add, prefixes, compress(values, is_string)), repeat(-1)))
        return self._add_numbers(((key, values[k]) for key, k in numbers), ids, unusual)

    def _plan(
        self, token: dict[Any, Any], values: list[Any]
    ) -> tuple[list[str], list[bool], list[tuple[Any, int]]]:
        """Prefixes of the entries that are strings, which those are, and keys and places of the others."""
        shape = (*token, *map(type, values))
        plan = self._plans.get(shape)
        if plan is None:
            is_string = [type(value) is str for value in values]
            prefixes = [f"{key}:" for key, chosen in zip(token, is_string, strict=True) if chosen]
            numbers = [(key, k) for k, key in enumerate(token) if not is_string[k]]
            plan = prefixes, is_string, numbers
            if len(self._plans) < _MOST_PLANS:
                self._plans[shape] = plan
        return plan

    def _add_numbers(self, items: Any, ids: array[int], unusual: list[tuple[int, float]]) -> bool:
        for key, value in items:
            if value:
                if value != 1:
                    if not isfinite(value):
                        return False
                    unusual.append((len(ids), float(value)))
                ids.append(self._find(key, -1))
        return True


def _known_rows(ids: array[int], ends: array[int], unusual: list[tuple[int, float]]) -> AttributeRows:
    """Without what is not in the vocabulary, and nothing twice in a row."""
    numbers, row_ptr, values = np.array(ids, np.int32), np.array(ends, np.int64), None
    if unusual:
        values = np.ones(len(numbers))
        where, what = zip(*unusual, strict=True)
        values[list(where)] = what
    known = numbers >= 0
    if not known.all():
        row_ptr = np.concatenate([[0], np.cumsum(known)])[row_ptr]
        numbers, values = numbers[known], None if values is None else values[known]
    return without_duplicates(AttributeRows(row_ptr, numbers, values))
