"""Attributes of corpora larger than memory: read once, numbered as in memory, returned in batches.

Reading writes files of integers: the number of each string for token columns, the number of each attribute for
ready-made attributes, both by first occurrence. The strings stay in memory, as a vocabulary does. After reading, the
vocabulary is learnt from the numbers, and rows follow batch by batch.
"""

from __future__ import annotations

from array import array
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import numpy as np

from partwise.core.arrays import offsets
from partwise.core.rows import AttributeRows
from partwise.features.attributes import AttributeExtractor
from partwise.features.engine import Interned
from partwise.features.vocabulary import (
    DictVocabulary,
    check_vocabulary_settings,
    read_attributes,
    renumbered_rows,
)

Tell = Callable[[str, int], None]  # The step, and the number of positions done.


class NumberFile:
    """A file of integers: appended to, and read back in pieces."""

    def __init__(self, path: Path, dtype: Any):
        self.path, self.dtype, self.n = path, np.dtype(dtype), 0
        self._handle = open(path, "w+b")  # noqa: SIM115  closed by `close`

    def append(self, numbers: np.ndarray) -> None:
        self._handle.write(np.ascontiguousarray(numbers, self.dtype).data)
        self.n += len(numbers)

    def read(self, first: int, last: int) -> np.ndarray:
        self._handle.flush()
        return np.fromfile(self.path, self.dtype, last - first, offset=first * self.dtype.itemsize)

    def close(self) -> None:
        self._handle.close()


class RowFile:
    """A file of rows of sparse attributes: appended and read back batch by batch."""

    def __init__(self, folder: Path):
        self._sizes, self._ids = NumberFile(folder / "sizes", np.int32), NumberFile(folder / "ids", np.int32)
        self._values = NumberFile(folder / "values", np.float64)
        self._batches: list[tuple[int, int, bool]] = []  # Rows, entries, and whether any value is not 1.

    def append(self, rows: AttributeRows) -> None:
        self._sizes.append(np.diff(rows.row_ptr))
        self._ids.append(rows.ids)
        if rows.values is not None:
            self._values.append(rows.values)
        self._batches.append((len(rows.row_ptr) - 1, len(rows.ids), rows.values is not None))

    def __iter__(self) -> Iterator[AttributeRows]:
        row = at = valued = 0
        for n_rows, n_entries, has_values in self._batches:
            values = self._values.read(valued, valued + n_entries) if has_values else None
            row_ptr = offsets(self._sizes.read(row, row + n_rows))
            yield AttributeRows(row_ptr, self._ids.read(at, at + n_entries), values)
            row, at, valued = row + n_rows, at + n_entries, valued + n_entries * has_values

    def close(self) -> None:
        for each in (self._sizes, self._ids, self._values):
            each.close()


class InternedStrings:
    """A column: its distinct strings in memory, and the index of each position's string on disk."""

    def __init__(self, path: Path):
        self._index: defaultdict[str, int] = defaultdict(count().__next__)
        self.numbers = NumberFile(path, np.int32)

    def add(self, strings: Sequence[str]) -> None:
        self.numbers.append(np.fromiter(map(self._index.__getitem__, strings), np.int32, len(strings)))

    def strings(self) -> list[str]:
        return list(self._index)


class Batches:
    """The lengths of sequences, batch by batch."""

    def __init__(self) -> None:
        self._lengths: list[np.ndarray] = []
        self.token_ptr = array("q", [0])

    def add(self, lengths: np.ndarray) -> None:
        self._lengths.append(lengths)
        self.token_ptr.append(self.token_ptr[-1] + int(lengths.sum()))

    def lengths(self) -> np.ndarray:
        """Of all sequences, int64 (n_sequences,)."""
        return np.concatenate([np.zeros(0, np.int64), *self._lengths])

    def __iter__(self) -> Iterator[tuple[int, int, np.ndarray]]:
        """First and last position of each batch, and the lengths of its sequences."""
        for (first, last), lengths in zip(pairwise(self.token_ptr), self._lengths, strict=True):
            yield first, last, lengths


class StreamedColumns:
    """Columns of tokens, batch after batch.

    Parameters
    ----------
    folder : path
        Folder for files of integers.
    n_columns : int
    """

    def __init__(self, folder: Path, n_columns: int):
        self.columns = [InternedStrings(folder / f"column{k}") for k in range(n_columns)]
        self.batches = Batches()

    def add(self, columns: Sequence[Sequence[str]], lengths: np.ndarray) -> None:
        for interned, column in zip(self.columns, columns, strict=True):
            interned.add(column)
        self.batches.add(lengths)

    def strings(self) -> dict[int, Interned]:
        """The distinct strings of every column, without tokens."""
        none = np.zeros(0, np.int32)
        return {k: Interned(each.strings(), none) for k, each in enumerate(self.columns)}

    def tokens(self) -> Iterator[tuple[dict[int, Interned], np.ndarray]]:
        """Yield each batch's columns and its offsets of sequences."""
        strings = self.strings()
        for first, last, lengths in self.batches:
            numbers = (each.numbers.read(first, last) for each in self.columns)
            columns = zip(strings.items(), numbers, strict=True)
            yield {k: Interned(own.strings, each) for (k, own), each in columns}, offsets(lengths)

    def close(self) -> None:
        for each in self.columns:
            each.numbers.close()


class StreamedExtractor:
    """An :class:`AttributeExtractor` for columns that come in batches."""

    def __init__(self, extractor: AttributeExtractor, data: StreamedColumns):
        self.extractor, self.data = extractor, data
        self._lookups: dict[str, Any] = {}

    def learn(self, min_count: int, hash_size: int | None, tell: Tell) -> None:
        """Learn the vocabulary that ``AttributeExtractor.fit_transform`` learns from all batches together."""
        extractor, columns = self.extractor, self.data.strings()
        extractor.begin(len(columns), min_count, hash_size)
        extractor.check_columns([each.strings[:1] for each in columns.values()], np.array([0, 1]))
        self._lookups = extractor.learn_strings(columns)
        if hash_size is not None:
            return
        extractor.learn_joints(self._lookups, self.data.tokens)
        counter, n_tokens = extractor.counter(), 0
        for batch, ptr in self.data.tokens():
            extractor.count(counter, batch, self._lookups, ptr)
            n_tokens += int(ptr[-1])
            tell("counting attributes", n_tokens)
        extractor.learn_counts(counter, min_count)

    def rows(self) -> Iterator[AttributeRows]:
        """Yield the rows of each batch."""
        for batch, ptr in self.data.tokens():
            yield self.extractor.rows_of(batch, self._lookups, ptr)


class StreamedAttributes:
    """Ready-made attributes of tokens in batches; numbered as by ``DictVocabulary.fit_transform``."""

    def __init__(self, folder: Path):
        self.vocabulary = DictVocabulary()
        self.batches = Batches()
        self._index: defaultdict[str, int] = defaultdict(count().__next__)
        self._rows = RowFile(folder)
        self._counts, self._n_sequences = np.zeros(0, np.int64), 0
        self._renumbered = np.zeros(0, np.int32)

    def add(self, sequences: Sequence[Any], lengths: np.ndarray) -> None:
        rows = read_attributes(sequences, self._index, self._n_sequences)
        self._rows.append(rows)
        counts = np.bincount(rows.ids, minlength=len(self._index))
        counts[: len(self._counts)] += self._counts
        self._counts, self._n_sequences = counts, self._n_sequences + len(sequences)
        self.batches.add(lengths)

    def learn(self, min_count: int, hash_size: int | None) -> None:
        """Learn the vocabulary of all batches."""
        check_vocabulary_settings(min_count, hash_size)
        if hash_size is None:
            self._renumbered = self.vocabulary.learn(self._index, self._counts, min_count)
        else:
            self.vocabulary.learn_hashed(hash_size)
            self._renumbered = self.vocabulary.buckets(self._index)

    def rows(self) -> Iterator[AttributeRows]:
        """Yield the rows of each batch."""
        for rows in self._rows:
            yield renumbered_rows(rows, self._renumbered)

    def close(self) -> None:
        self._rows.close()
