# mypy: ignore-errors
"""Attributes of the tokens of one sentence by a template, in one call of compiled code.

The engine makes arrays for every call, which is right for many sentences. Here every word of a column has a piece of
bytes with the codes of all its values. Python joins the pieces, and compiled code finds the attributes.
"""

from __future__ import annotations

from collections.abc import Sequence
from ctypes import CFUNCTYPE, PYFUNCTYPE, c_char_p, c_double, c_int64
from functools import cache, partial
from typing import Annotated, Any, NamedTuple

import numpy as np

from partwise.compiled.background_compile import obtain
from partwise.compiled.boundary import (
    Integers,
    ShortIntegers,
    array_address,
    array_at,
    load_record,
    pack,
)
from partwise.compiled.kernels import IS_OFF, Addressed
from partwise.core.attribute_codes import END_WORD, UnusualError
from partwise.core.pool import Pool
from partwise.features.attributes import AttributeExtractor
from partwise.features.keys.records import Program, Table, TokenRows, WordCodes, Workspace
from partwise.features.keys.rows import token_keys
from partwise.features.keys.tables import find_keys, search_keys
from partwise.features.keys.workspace import workspace

_LONGEST = 1000  # Words of sentences that are encoded here, which bounds the memory that is kept.
_MOST_REMEMBERED = (
    100_000  # Words whose codes are kept for a column, 100 to 200 bytes each; with more, none is kept.
)
_LONG = 256  # Words from which other threads may run meanwhile, see `_LONG` in ``core/one_example.py``.


class SentenceRoom(NamedTuple):
    """All that compiled code needs to encode a sentence.

    Attributes
    ----------
    program, table, work : int
        Addresses of packed records, see ``features/keys/records.py``.
    skip : int
        Words at the beginning that have no row.
    always : int
        An attribute that every row has; -1 for none.
    sources : int64 array (n_sources,)
        The sources in the order of the data's columns.
    column_ptr : int64 array (n_columns + 1,)
        Offsets of each column's sources.
    codes : int32 array (n_sources, longest)
    ptr : int64 array (2,)
        Room for offsets.
    found : int32 array
        Coded attributes, see ``core/attribute_codes.py``.
    """

    program: int
    table: int
    work: int
    skip: int
    always: int
    sources: Integers
    column_ptr: Integers
    codes: Annotated[np.ndarray, np.int32, 2]
    ptr: Integers
    found: ShortIntegers


def encode_sentence(address, words, n_words):
    """Write the coded attributes of a sentence to `found`; returns how many words of it were written."""
    room = load_record(SentenceRoom, address)
    program, table, work = (
        load_record(Program, room.program),
        load_record(Table, room.table),
        load_record(Workspace, room.work),
    )
    pieces = array_at(np.int32, words, n_words * room.sources.size)
    at = 0
    for column in range(room.column_ptr.size - 1):
        for word in range(n_words):
            for k in range(room.column_ptr[column], room.column_ptr[column + 1]):
                room.codes[room.sources[k], word] = pieces[at]
                at += 1
    room.ptr[0], room.ptr[1] = 0, n_words
    sentence = WordCodes(room.ptr, room.codes, room.ptr, room.found)
    rows, n_written = TokenRows(room.ptr, room.skip), 0
    for row in range(n_words - room.skip):
        n_keys = token_keys(rows, program, sentence, 0, row, work)
        if len(table.direct) > 0:
            n_written = find_keys(n_keys, table, work, room.found, n_written)
        else:
            n_written = search_keys(n_keys, table, work, room.found, n_written)
        if room.always >= 0:
            room.found[n_written] = room.always
            n_written += 1
        room.found[n_written] = END_WORD
        n_written += 1
    return float(n_written)


def compiled_pass(name: str) -> Addressed:
    """The pass above as a compile task."""
    return Addressed(encode_sentence, "iii")


class _Words(dict[str, bytes]):
    """The codes of the words of a column for some sources."""

    def __init__(self, extractor: AttributeExtractor, sources: list[str]):
        self._extractor, self._sources = extractor, sources

    def __missing__(self, word: Any) -> bytes:
        if type(word) is not str:
            raise UnusualError
        if len(self) >= _MOST_REMEMBERED:
            self.clear()
        codes = self[word] = self._extractor.codes_of(word, self._sources).tobytes()
        return codes


class SentenceEncoder:
    """Encodes one sentence at a time; threads may share it.

    Parameters
    ----------
    extractor : AttributeExtractor
        With a vocabulary that `is_plain`.
    always : int
        An attribute that every row has; -1 for none.
    """

    def __init__(self, extractor: AttributeExtractor, always: int = -1):
        by_column = extractor.sources_by_column()
        self._words = {column: _Words(extractor, names) for column, names in by_column.items()}
        self._rooms = Pool(partial(_Room, extractor, always))

    def codes(self, columns: Sequence[Sequence[str]]) -> bytes:
        """Coded attributes of a sentence's rows; IndexError, TypeError or UnusualError if it is of no simple kind."""
        n_words = len(columns[0])
        if n_words > _LONGEST:
            raise UnusualError
        pieces: list[bytes] = []
        for column, words in self._words.items():
            pieces += map(words.__getitem__, columns[column])
        room = self._rooms.take()
        found = room.encode(b"".join(pieces), n_words)
        self._rooms.give_back(room)
        return found


class _Room:
    """Memory for sentences, for one thread."""

    def __init__(self, extractor: AttributeExtractor, always: int):
        by_column = extractor.sources_by_column().values()
        sources = [extractor.source_names.index(name) for names in by_column for name in names]
        program, table = extractor.program, extractor.table
        codes, none = np.zeros((len(sources), _LONGEST), np.int32), np.zeros(1, np.int64)
        work = workspace(program, WordCodes(none, codes[:, :0], none, np.zeros(0, np.int32)))
        records = [pack(each) for each in (program, table, work)]
        self._found = np.zeros(_LONGEST * (len(work.keys) + 2), np.int32)
        room = SentenceRoom(
            *map(array_address, records),
            skip=int(extractor.part == "edge"),
            always=always,
            sources=np.array(sources, np.int64),
            column_ptr=np.cumsum([0, *map(len, by_column)]),
            codes=codes,
            ptr=np.zeros(2, np.int64),
            found=self._found,
        )
        self._packed = pack(room)
        self._held, self._address = (records, program, table, work, room), array_address(self._packed)

    def encode(self, pieces: bytes, n_words: int) -> bytes:
        n_written = _compiled(n_words > _LONG)(self._address, pieces, n_words)
        return self._found[: int(n_written)].tobytes()


@cache
def _compiled(is_long: bool) -> Any:
    """`encode_sentence` as a function of an address, bytes and a number. Other threads may run during long calls."""
    compiled = obtain(f"{__name__}:compiled_pass:sentence")
    if IS_OFF:
        return lambda room, pieces, n: compiled.__wrapped__(room, np.frombuffer(pieces, np.int32), n)
    return (CFUNCTYPE if is_long else PYFUNCTYPE)(c_double, c_int64, c_char_p, c_int64)(compiled.address)
