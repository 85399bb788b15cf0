"""CQDB, the "constant quark database" in CRFsuite's model files: names by number, and numbers by name.

A database starts with six 32-bit words: the letters CQDB, its size, flags, a mark of the byte order, and the length
and the place of the list of names. References (place, number of slots) to 256 hash tables follow, and then the records:
number, length, and name with a zero byte at its end. The tables come next. A slot holds a hash and the place of a
record. The last part lists the places of the records by number. Places count bytes from the start of the database.

A name belongs to table ``hash % 256``, in the first free slot from ``(hash >> 8) % slots`` on. The hash is Bob
Jenkins's lookup3 (hashlittle) of the name with its zero byte.
"""

from __future__ import annotations

import numpy as np

from partwise.errors import InputError

_N_TABLES = 256
_HEADER = 24
_FIRST_RECORD = _HEADER + 8 * _N_TABLES
_BYTE_ORDER = 0x62445371
_BYTES_OF_WORD = np.array([1, 1 << 8, 1 << 16, 1 << 24], np.int64)


def words_at(data: np.ndarray, places: np.ndarray, what: str) -> np.ndarray:
    """The unsigned 32-bit words that begin at these places, as int64; an error if one is not within the data.

    Parameters
    ----------
    data : uint8 array, shape (n,)
    places : int64 array, shape (k,)
        They need not be multiples of four.
    what : str
        What the words are, for the error.
    """
    if places.size and not (places.min() >= 0 and places.max() <= len(data) - 4):
        raise InputError(f"{what} lie outside the file")
    found = np.zeros(len(places), np.int64)
    for k, factor in enumerate(_BYTES_OF_WORD.tolist()):
        found += data[places + k] * np.int64(factor)
    return found


def words(data: np.ndarray, first: int, n: int, what: str) -> np.ndarray:
    """`n` words in a row."""
    if not 0 <= first <= len(data) - 4 * n:
        raise InputError(f"{what} lie outside the file")
    return np.frombuffer(data[first : first + 4 * n].tobytes(), "<u4").astype(np.int64)


def read_names(data: np.ndarray, begin: int, n: int, what: str, encoding: str) -> list[str]:
    """The names with the numbers 0 … n − 1 of the database that begins at `begin`.

    Bytes that are not of the encoding become lone surrogates, as in names of files.
    """
    if not 0 <= begin <= len(data) - _FIRST_RECORD:
        raise InputError(f"the names of {what} lie outside the file")
    own = data[begin:]
    _, size, _, byte_order, _, places_at = words(own, 0, 6, "").tolist()
    if own[:4].tobytes() != b"CQDB" or byte_order != _BYTE_ORDER or size > len(own):
        raise InputError(f"the names of {what} are no database, or end too early")
    own = own[:size]
    if n == 0:
        return []
    places = words(own, places_at, n, f"the places of {what}")
    if places.min() < _FIRST_RECORD:
        raise InputError(f"the names of {what} have gaps")
    numbers = words_at(own, places, f"the numbers of {what}")
    lengths = words_at(own, places + 4, f"the lengths of {what}")
    if (numbers != np.arange(n)).any():
        raise InputError(f"the numbers of {what} are not 0 to {n - 1:,}")
    # Overlapping records could ask for far more memory than the file takes.
    if lengths.min() < 1 or lengths.sum() > size or (places + 8 + lengths > size).any():
        raise InputError(f"the names of {what} lie outside the file")
    whole, starts = own.tobytes(), (places + 8).tolist()
    ends = (places + 8 + lengths - 1).tolist()
    if own[places + 8 + lengths - 1].any():
        raise InputError(f"a name of {what} has no end")
    pieces = [whole[first:last] for first, last in zip(starts, ends, strict=True)]
    names = b"\0".join(pieces).decode(encoding, "surrogateescape").split("\0")
    if len(names) != n or len(set(names)) != n:
        raise InputError(f"a name of {what} is there twice, or has no end")
    return names


def packed_names(names: list[bytes]) -> bytes:
    """A database of names, numbered as they come; no name holds a zero byte."""
    lengths = np.fromiter(map(len, names), np.int64, len(names)) + 1
    ends = _FIRST_RECORD + np.cumsum(lengths + 8)
    places = ends - lengths - 8
    parts = []
    for number, name in enumerate(names):
        parts += [number.to_bytes(4, "little"), (len(name) + 1).to_bytes(4, "little"), name, b"\0"]
    records = b"".join(parts)
    references, tables = _tables(_hashes(names), places, _FIRST_RECORD + len(records))
    places_at = _FIRST_RECORD + len(records) + len(tables)
    size = places_at + 4 * len(names)
    numbers = [size, 0, _BYTE_ORDER, len(names), places_at if names else 0]
    front = b"CQDB" + np.array(numbers, "<u4").tobytes()
    return b"".join([front, references, records, tables, places.astype("<u4").tobytes()])


def _tables(hashes: np.ndarray, places: np.ndarray, first: int) -> tuple[bytes, bytes]:
    """References to the hash tables, and the tables, the first of which begins at `first`."""
    references, tables = np.zeros((_N_TABLES, 2), np.int64), []
    order = np.argsort(hashes % _N_TABLES, kind="stable")
    ends = np.cumsum(np.bincount(hashes % _N_TABLES, minlength=_N_TABLES))
    for table, own in enumerate(np.split(order, ends[:-1])):
        if not own.size:
            continue
        slots = np.zeros((2 * len(own), 2), np.int64)
        chosen = _slots((hashes[own] >> 8) % len(slots), len(slots))
        slots[chosen, 0], slots[chosen, 1] = hashes[own], places[own]
        references[table] = first, len(slots)
        tables.append(slots.astype("<u4").tobytes())
        first += len(tables[-1])
    return references.astype("<u4").tobytes(), b"".join(tables)


def _slots(home: np.ndarray, n_slots: int) -> np.ndarray:
    """A slot for each entry, such that no slot between its home and its own is free, (n_entries,)."""
    order = np.argsort(home, kind="stable")
    rank = np.arange(len(home))
    slot = np.maximum.accumulate(home[order] - rank) + rank
    used = np.zeros(n_slots, bool)
    used[slot[slot < n_slots]] = True
    beyond = slot >= n_slots  # these go on at the first slot
    slot[beyond] = np.flatnonzero(~used)[: beyond.sum()]
    chosen = np.empty(len(home), np.int64)
    chosen[order] = slot
    return chosen


def _hashes(names: list[bytes]) -> np.ndarray:
    """lookup3 of names with a zero byte at their ends: uint32 values as int64, (n_names,)."""
    lengths = np.fromiter(map(len, names), np.int64, len(names)) + 1
    starts = np.cumsum(lengths) - lengths
    text = np.frombuffer(b"\0".join([*names, b"\0" * 13]), np.uint8)
    state = np.repeat((0xDEADBEEF + lengths).astype(np.uint32)[None, :], 3, axis=0)
    going = np.arange(len(names))
    block = 0
    while going.size:
        left = lengths[going] - block
        last = left <= 12
        bytes_of = text[(starts[going] + block)[:, None] + np.arange(12)]
        bytes_of = np.where(np.arange(12) < left[:, None], bytes_of, np.uint8(0))
        own = state[:, going] + np.ascontiguousarray(bytes_of).view("<u4").T.astype(np.uint32)
        state[:, going[last]] = _final(*own[:, last])
        state[:, going[~last]] = _mix(*own[:, ~last])
        going, block = going[~last], block + 12
    return state[2].astype(np.int64)


def _turned(x: np.ndarray, by: int) -> np.ndarray:
    return (x << np.uint32(by)) | (x >> np.uint32(32 - by))


def _mix(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, ...]:
    for by in (4, 6, 8, 16, 19, 4):
        a = (a - c) ^ _turned(c, by)
        a, b, c = b, c + b, a
    return a, b, c


def _final(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> tuple[np.ndarray, ...]:
    for by in (14, 11, 25, 16, 4, 14, 24):
        c = (c ^ b) - _turned(b, by)
        a, b, c = b, c, a
    return c, a, b
