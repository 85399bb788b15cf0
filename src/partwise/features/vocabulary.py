"""Attributes that users made, as dicts or lists of strings per token, encoded as sparse rows of numbers."""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from itertools import count
from math import inf
from typing import Any

import numpy as np

from partwise.compiled.dispatch import entry
from partwise.core.arrays import offsets
from partwise.core.rows import AttributeRows
from partwise.errors import InputError

# The largest value of an attribute: values are stored in single precision.
LARGEST_VALUE = float(np.finfo(np.float32).max)
# The most characters of a string that a vocabulary learns: all of them go into the header of a model file.
LONGEST_STRING = 100_000


def stable_hash(string: str) -> int:
    """A 63-bit hash of a string that is the same in every process."""
    return (
        int.from_bytes(blake2b(string.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "big") >> 1
    )


def check_strings(strings: Iterable[str]) -> None:
    """Raise at a string that is too long to be learnt."""
    for string in strings:
        if len(string) > LONGEST_STRING:
            raise InputError(
                f"the string {string!r:.40}… has {len(string):,} characters; attributes and labels have "
                f"{LONGEST_STRING:,} at the most: is this a text without spaces or line ends?"
            )


def numbering(counts: np.ndarray, first: np.ndarray, min_count: int) -> tuple[np.ndarray, np.ndarray]:
    """Number attributes by descending frequency, ties by first occurrence.

    The weights of frequent attributes then share cache lines.

    Parameters
    ----------
    counts, first : int64 arrays, shape (n,)
        Occurrences of each candidate, and a number that orders their first ones.
    min_count : int
        Candidates with fewer occurrences are dropped.

    Returns
    -------
    order : int64 array, shape (n_kept,)
        The candidate that gets each number.
    renumbered : int32 array, shape (n + 1,)
        The number of each candidate, -1 if dropped; the last entry is -1, so that -1 maps to itself.
    """
    kept = np.flatnonzero(counts >= min_count)
    order = kept[np.lexsort((first[kept], -counts[kept]))]
    renumbered = np.full(len(counts) + 1, -1, dtype=np.int32)
    renumbered[order] = np.arange(len(order), dtype=np.int32)
    return order, renumbered


def check_vocabulary_settings(min_count: int, hash_size: int | None) -> None:
    """Raise at invalid settings of a vocabulary."""
    if not _is_whole(min_count) or min_count < 1:
        raise InputError(f"min_count is {min_count!r:.60}; it must be an integer of at least 1")
    if hash_size is not None and not (_is_whole(hash_size) and 1 <= hash_size < 2**31):
        raise InputError(f"hash_size is {hash_size!r:.60}; it must be None or an integer from 1 to 2^31 - 1")
    if hash_size is not None and min_count > 1:
        raise InputError("min_count needs a vocabulary and cannot be combined with hash_size")


def _is_whole(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def without_duplicates(rows: AttributeRows) -> AttributeRows:
    """Merge entries of a row that have the same number, and add their values."""
    return check_sums(_merged(rows))


def check_sums(rows: AttributeRows) -> AttributeRows:
    """Raise if the sum of the values of an attribute named twice is too large; returns the rows."""
    if rows.values is not None and np.abs(rows.values).max(initial=0.0) > LARGEST_VALUE:
        at = int(np.searchsorted(rows.row_ptr, np.argmax(np.abs(rows.values)), side="right")) - 1
        raise InputError(
            f"token {at} of all: the values of an attribute named twice add up to more than {LARGEST_VALUE:.4g}, "
            "the largest that single precision holds"
        )
    return rows


def _merged(rows: AttributeRows) -> AttributeRows:
    if rows.values is not None and (rows.values == 1.0).all():
        rows = rows._replace(values=None)
    values = np.ones(len(rows.ids)) if rows.values is None else rows.values.copy()
    ids, row_ptr = rows.ids.copy(), rows.row_ptr.copy()
    n_entries = _merge(row_ptr, ids, values)
    if n_entries == len(rows.ids):
        return rows
    return AttributeRows(row_ptr, ids[:n_entries].copy(), values[:n_entries].copy())


@entry
def _merge(row_ptr: np.ndarray, ids: np.ndarray, values: np.ndarray) -> int:
    """Merge duplicates in place. Rows are short, so comparing all pairs is faster than sorting."""
    written, begin = 0, 0
    for row in range(len(row_ptr) - 1):
        end, row_begin = row_ptr[row + 1], written
        for k in range(begin, end):
            place = row_begin
            while place < written and ids[place] != ids[k]:
                place += 1
            if place < written:
                values[place] += values[k]
            else:
                ids[written], values[written] = ids[k], values[k]
                written += 1
        row_ptr[row], begin = row_begin, end
    row_ptr[-1] = written
    return written


class _Known(dict[str, int]):
    """From attribute to number; -1 for unknown attributes."""

    def __missing__(self, attribute: str) -> int:
        if isinstance(attribute, str):
            return -1
        raise InputError(f"the attribute {attribute!r:.60} is not a string")


class _Hashed(dict[str, int]):
    """From attribute to hash bucket; computed once per attribute."""

    def __init__(self, size: int):
        self.size = size

    def __missing__(self, attribute: str) -> int:
        self[attribute] = bucket = stable_hash(attribute) % self.size
        return bucket


class DictVocabulary:
    """Numbers the attributes of tokens given as dicts or lists of strings, as python-crfsuite reads them.

    A token is a list of strings, each an attribute, or a dict. In a dict a string makes the attribute ``key:value``, a
    number the attribute ``key`` with that value, True the value 1, False and 0 nothing. A list, set or dict is a group
    whose names start with ``key:``. Values of an attribute that a token names twice are added.
    """

    def __init__(self) -> None:
        self.n_attributes = 0
        self._hash_size: int | None = None
        self._index = _Known()

    def fit_transform(
        self, sequences: Iterable[Sequence[Any]], min_count: int = 1, hash_size: int | None = None
    ) -> AttributeRows:
        """Learn the vocabulary from sequences and encode them.

        Parameters
        ----------
        sequences : iterable of sequences of tokens
        min_count : int
            Attributes with fewer occurrences are dropped.
        hash_size : int or None
            If given, no vocabulary: attributes are hashed to this many numbers.

        Returns
        -------
        AttributeRows
            One row per token, all sequences one after the other.
        """
        check_vocabulary_settings(min_count, hash_size)
        if hash_size is not None:
            self.learn_hashed(hash_size)
            return self.transform(sequences)
        index: defaultdict[str, int] = defaultdict(count().__next__)
        rows = read_attributes(sequences, index)
        counts = np.bincount(rows.ids, minlength=len(index))
        return renumbered_rows(rows, self.learn(index, counts, min_count))

    def learn(self, index: Mapping[str, int], counts: np.ndarray, min_count: int) -> np.ndarray:
        """Take the vocabulary from attributes in order of first occurrence and how often each occurs, int64 (n,).

        Returns what :func:`renumbered_rows` needs to bring rows numbered by `index` to its numbers.
        """
        order, renumbered = numbering(counts, np.arange(len(index)), min_count)
        names = list(index)
        if wrong := [name for name in names if not isinstance(name, str)]:
            raise InputError(f"the attribute {wrong[0]!r:.60} is not a string")
        check_strings(names)
        self._hash_size = None
        self._index = _Known(zip([names[k] for k in order], range(len(order)), strict=True))
        self.n_attributes = len(order)
        return renumbered

    def learn_hashed(self, hash_size: int) -> None:
        """Hash attributes instead of learning a vocabulary."""
        self._hash_size, self.n_attributes = hash_size, hash_size

    def buckets(self, index: Mapping[str, int]) -> np.ndarray:
        """The hash buckets of the attributes in `index`, int32 (n,)."""
        hashed = _Hashed(self.n_attributes)
        return np.fromiter((hashed[name] for name in index), np.int32, len(index))

    def transform(self, sequences: Iterable[Sequence[Any]]) -> AttributeRows:
        """Encode sequences; attributes that are not in the vocabulary are dropped."""
        index = self._index if self._hash_size is None else _Hashed(self._hash_size)
        return without_duplicates(only_known(read_attributes(sequences, index)))

    @property
    def is_hashed(self) -> bool:
        """Whether attributes are hashed, without a vocabulary."""
        return self._hash_size is not None

    @property
    def index(self) -> Mapping[str, int]:
        """The number of every known attribute."""
        return self._index

    def names(self) -> list[str]:
        """The attribute behind each number; ``#number`` when they are hashed."""
        return list(self._index) if self._hash_size is None else [f"#{k}" for k in range(self._hash_size)]

    def state(self) -> dict[str, Any]:
        """All that a model file must hold: plain JSON values."""
        return {"names": list(self._index), "hash_size": self._hash_size or 0}

    @classmethod
    def from_state(cls, state: Mapping[str, Any]) -> DictVocabulary:
        """Rebuild from what ``state`` returned."""
        vocabulary = cls()
        vocabulary._hash_size = int(state["hash_size"]) or None
        vocabulary._index = _Known(zip(state["names"], count()))
        vocabulary.n_attributes = vocabulary._hash_size or len(vocabulary._index)
        return vocabulary


def renumbered_rows(rows: AttributeRows, renumbered: np.ndarray) -> AttributeRows:
    """Rows in the numbers of a vocabulary, without unknown attributes and without duplicates."""
    return without_duplicates(only_known(rows._replace(ids=renumbered[rows.ids])))


def read_attributes(
    sequences: Iterable[Sequence[Any]], index: Mapping[str, int], first: int = 0
) -> AttributeRows:
    """Look up every attribute; duplicates and -1 are kept. Errors count sequences from `first`."""
    ids, ends = array("i"), array("q", [0])
    unusual: list[tuple[int, float]] = []  # Entries with a value other than 1.
    append, extend, end_row, find = ids.append, ids.extend, ends.append, index.__getitem__
    for n, sequence in enumerate(sequences, first):
        for position, token in enumerate(sequence):
            try:
                if type(token) is dict or isinstance(token, Mapping):
                    for key, value in token.items():
                        if type(value) is str:
                            append(find(f"{key}:{value}"))
                        elif value is True or (type(value) is float and value == 1.0):
                            append(find(key))
                        elif value is not False:
                            _add(key, value, ids, unusual, find)
                elif isinstance(token, str):
                    raise InputError(
                        "a token is a string; it must be a dict or a list of strings, or give a template such as "
                        "template='ner', which makes features of words"
                    )
                else:
                    extend(map(find, token))
            except InputError as error:
                raise InputError(f"sequence {n}, position {position}: {error}") from None
            except RecursionError:
                raise InputError(f"sequence {n}, position {position}: the token contains itself") from None
            except (TypeError, AttributeError):
                message = f"cannot read the token {token!r:.80}; it must be a dict or a list of strings"
                raise InputError(f"sequence {n}, position {position}: {message}") from None
            end_row(len(ids))
    row_ptr = np.array(ends, dtype=np.int64)
    values = None
    if unusual:
        values = np.ones(len(ids))
        where, what = zip(*unusual, strict=True)
        values[list(where)] = what
    return AttributeRows(row_ptr, np.array(ids, dtype=np.int32), values)


def _add(key: str, value: Any, ids: array[int], unusual: list[tuple[int, float]], find: Any) -> None:
    """Add the attributes of a dict's entry, of any type that python-crfsuite knows."""
    if isinstance(value, str):
        ids.append(find(f"{key}:{value}"))
    elif isinstance(value, Mapping):
        for inner_key, inner in value.items():
            _add(f"{key}:{inner_key}", inner, ids, unusual, find)
    elif isinstance(value, (list, tuple, set, frozenset)):
        ids.extend([find(f"{key}:{inner}") for inner in value])
    else:
        try:
            number = float(value)
        except (TypeError, ValueError):
            raise InputError(f"{key!r} has the value {value!r:.60}, neither a number nor strings") from None
        except OverflowError:
            number = inf
        if not abs(number) <= LARGEST_VALUE:
            raise InputError(
                f"{key!r} has the value {number:g}; values must be finite, and at most {LARGEST_VALUE:.4g} in size"
            )
        if number != 1.0 and number != 0.0:
            unusual.append((len(ids), number))
        if number != 0.0:
            ids.append(find(key))


def only_known(rows: AttributeRows) -> AttributeRows:
    """Drop the entries numbered -1."""
    known = rows.ids >= 0
    if known.all():
        return rows
    row_ptr = offsets(known)[rows.row_ptr]
    return AttributeRows(row_ptr, rows.ids[known], None if rows.values is None else rows.values[known])
