"""Attributes of tokens to numbers, faster than one by one: one small table for every key of the dicts.

Reading what users give is most of the time of tagging, and most of that is memory: a vocabulary of all names does not
fit the processor's caches, the few tag sets and frequent words under one key do. So every key has a table from its
values to codes, filled as they occur, and a token's attributes go through one ``map``. Codes are pieces of bytes that
are joined (``core/attribute_codes.py``), since Python joins bytes faster than it converts numbers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from partwise.core.attribute_codes import END, NOTHING, UnusualError, code_of, coded_rows, valued_code_of
from partwise.core.rows import AttributeRows
from partwise.features.vocabulary import LARGEST_VALUE, check_sums

_LISTS = frozenset({list, tuple, set, frozenset})
_NUMBERS = frozenset({bool, int, float, np.float64, np.float32, np.int64, np.bool_})
_MOST_PLANS = (
    1000  # Lists of keys whose tables are remembered: tokens whose names are keys have no two alike.
)
_MOST_REMEMBERED = (
    200_000  # Codes in all tables, which take about 150 bytes each; with more, all are forgotten.
)

_look_up = dict.__getitem__  # quicker within `map` than operator.getitem


class _Names(dict[str, bytes]):
    """Codes of attributes that are named in full."""

    def __init__(self, lookup: AttributeLookup):
        self.lookup = lookup

    def __missing__(self, name: Any) -> bytes:
        if type(name) is not str:
            raise UnusualError
        self.lookup.n_remembered += 1
        code = self[name] = self.lookup.code(name)
        return code


class _Table(dict[Any, bytes]):
    """Codes of the values under one key."""

    def __init__(self, key: str, lookup: AttributeLookup):
        self.key, self.lookup = key, lookup

    def __missing__(self, value: Any) -> bytes:
        code = self.code(value)
        if type(value) is str or value in (0, 1):  # other numbers are different every time
            self.lookup.n_remembered += 1
            self[value] = code
        return code

    def code(self, value: Any) -> bytes:
        if type(value) is str:
            return self.lookup.code(f"{self.key}:{value}")
        if type(value) not in _NUMBERS or not -LARGEST_VALUE <= value <= LARGEST_VALUE:
            raise UnusualError
        return self.lookup.code(self.key, float(value)) if value else NOTHING


class AttributeLookup:
    """Encodes tokens under a fixed vocabulary. Threads may share it.

    Parameters
    ----------
    index : mapping of str to int
        The number of every known attribute.
    """

    def __init__(self, index: Mapping[str, int]):
        self._index = index
        self._forget()

    def _forget(self) -> None:
        self.n_remembered = 0
        self._names = _Names(self)
        self._tables: dict[str, _Table] = {}
        self._plans: dict[tuple[Any, ...], list[_Table]] = {}

    def code(self, name: str, value: float = 1.0) -> bytes:
        """The code of an attribute, by its whole name."""
        number = self._index.get(name)
        if number is None:
            return NOTHING
        return code_of(number) if value == 1.0 else valued_code_of(number, value)

    def rows(self, sequences: Sequence[Sequence[Any]]) -> AttributeRows | None:
        """Rows of all tokens; None where one of them is of no simple kind, or wrong."""
        try:
            codes = b"".join(map(self.codes, sequences))
        except UnusualError:
            return None
        return check_sums(coded_rows(codes, sum(map(len, sequences))))

    def codes(self, sequence: Sequence[Any]) -> bytes:
        """The tokens of one sequence; UnusualError where one of them is of no simple kind, or wrong."""
        try:
            return b"".join(self._pieces(sequence))
        except TypeError:
            raise UnusualError from None

    def _pieces(self, sequence: Sequence[Any]) -> list[bytes]:
        if self.n_remembered > _MOST_REMEMBERED:
            self._forget()
        name, plans = self._names.__getitem__, self._plans
        found: list[bytes] = []
        if set(map(type, sequence)) <= _LISTS:
            for token in sequence:
                found += map(name, token)
                found.append(END)
            return found
        last, plan = None, None  # most tokens have the keys of the token before
        for token in sequence:
            if type(token) is dict:
                keys = [*token]
                if keys != last:
                    last, plan = keys, plans.get(tuple(keys)) or self._plan(keys)
                found += self._of_dict(token) if plan is None else map(_look_up, plan, token.values())
            elif isinstance(token, (list, tuple, set, frozenset)):
                found += map(name, token)
            else:
                raise UnusualError
            found.append(END)
        return found

    def _plan(self, keys: list[Any]) -> list[_Table] | None:
        """The tables of these keys; None where there are too many kinds of tokens to make any."""
        if set(map(type, keys)) - {str}:
            raise UnusualError
        if len(self._plans) >= _MOST_PLANS:
            return None
        plan = [self._tables.setdefault(key, _Table(key, self)) for key in keys]
        self._plans[tuple(keys)] = plan
        return plan

    def _of_dict(self, token: dict[Any, Any]) -> list[bytes]:
        """The attributes of a token whose names are mostly keys, not values."""
        if set(map(type, token.values())) <= _NUMBERS and set(token.values()) == {1}:
            return [*map(self._names.__getitem__, token)]
        return [_Table(key, self).code(value) for key, value in token.items()]
