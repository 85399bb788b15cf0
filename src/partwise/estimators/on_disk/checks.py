"""Everything in a dataset that compiled code takes on trust, checked in one pass over its files."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from hashlib import blake2b

import numpy as np

from partwise.core.mapped import MappedArray
from partwise.core.maps import FeatureMap, row_stride
from partwise.core.streamed import RowsOnDisk
from partwise.errors import InputError
from partwise.storage.checks import expect_array
from partwise.storage.folder import Folder

_AT_ONCE = 1 << 20  # entries
Tell = Callable[[str, int], None]


class Verifier:
    """Maps the arrays of a folder, and compares checksums while what they hold is checked."""

    def __init__(self, folder: Folder, tell: Tell):
        self.folder, self._tell, self._done = folder, tell, 0

    def mapped(self, name: str, dtype: type, n: int | None = None, *width: int) -> MappedArray:
        """An array (n,) or (n, width), not read yet."""
        stored = self.folder.arrays.get(name)
        if stored is None:
            raise InputError(f"array {name!r} is missing")
        if stored.dtype != np.dtype(dtype):
            raise InputError(f"array {name!r} is of type {stored.dtype}, not {np.dtype(dtype)}")
        wanted = (stored.shape[0] if n is None else n, *width)
        if stored.shape != wanted:
            raise InputError(f"array {name!r} has shape {stored.shape}, not {wanted}")
        return MappedArray(self.folder.open(name), dtype, stored.shape)

    def blocks(self, names: list[str], arrays: list[MappedArray]) -> Iterator[tuple[np.ndarray, ...]]:
        """Arrays of one length, a piece at a time; compares their checksums at the end."""
        digests = [blake2b(digest_size=16) for _ in arrays]
        n = len(arrays[0].array)
        at_once = max(_AT_ONCE // max(arrays[0].array[0].size, 1), 1) if n else 1
        for first in range(0, n, at_once):
            last = min(first + at_once, n)
            pieces = tuple(each.array[first:last] for each in arrays)
            for digest, piece in zip(digests, pieces, strict=True):
                digest.update(piece.reshape(-1).view(np.uint8).data)
            yield pieces
            for each in arrays:
                each.leave(first, last)
                each.drop(first, last)
            self._done += sum(piece.nbytes for piece in pieces)
            self._tell("checking megabytes", self._done >> 20)
        for name, digest in zip(names, digests, strict=True):
            if digest.hexdigest() != self.folder.arrays[name].checksum:
                raise InputError(f"the checksum of array {name!r} does not match its contents")

    def within(self, name: str, array: MappedArray, low: int, high: int) -> None:
        """All entries lie in low ≤ entry < high."""
        for (piece,) in self.blocks([name], [array]):
            if piece.min() < low or piece.max() >= high:
                raise InputError(f"array {name!r} holds numbers outside of {low} to {high - 1}")

    def offsets(self, name: str, array: MappedArray, end: int) -> None:
        """Starts with 0, never descends, ends at `end`."""
        before = 0
        ptr = array.array
        if len(ptr) == 0 or ptr[0] != 0 or ptr[-1] != end:
            raise InputError(f"array {name!r} must start with 0 and end at {end}")
        for (piece,) in self.blocks([name], [array]):
            if piece[0] < before or (piece[1:] < piece[:-1]).any():
                raise InputError(f"array {name!r} must never descend")
            before = int(piece[-1])

    def finite(self, name: str, array: MappedArray) -> None:
        for (piece,) in self.blocks([name], [array]):
            if not np.isfinite(piece).all():
                raise InputError(f"array {name!r} holds values that are not finite")

    # -- rows and their weights -----------------------------------------------------------------

    def rows(self, kind: str, width: int, n_attributes: int, n_rows: int, n_dense: int = 0) -> RowsOnDisk:
        """The rows of a kind, whose entries all lie where they may."""
        feature_map = self._feature_map(kind, width, n_attributes, n_dense)
        arrays = self._entries(kind, feature_map, "wide", n_rows)
        arrays |= self._entries(kind, feature_map, "narrow", n_rows)
        if n_dense:
            arrays["dense"] = self.mapped(f"{kind}.dense", np.float32, n_rows, n_dense)
            self.finite(f"{kind}.dense", arrays["dense"])
        return RowsOnDisk(feature_map, arrays)

    def _entries(self, kind: str, feature_map: FeatureMap, way: str, n_rows: int) -> dict[str, MappedArray]:
        start = self.mapped(f"{kind}.{way}_start", np.int32)
        n = len(start.array)
        value = self.mapped(f"{kind}.{way}_value", np.float32)
        ptr = self.mapped(f"{kind}.{way}_ptr", np.int64, n_rows + 1)
        found = {f"{way}_ptr": ptr, f"{way}_start": start, f"{way}_value": value}
        if len(value.array) not in (0, n):
            raise InputError(f"array '{kind}.{way}_value' has {len(value.array)} entries, not {n}")
        if way == "wide":
            self.within(f"{kind}.wide_start", start, 0, feature_map.narrow_first - feature_map.stride + 1)
        else:
            found["narrow_count"] = count = self.mapped(f"{kind}.narrow_count", np.int32, n)
            low, high = feature_map.narrow_first, feature_map.n_weights
            for starts, counts in self.blocks(
                [f"{kind}.narrow_start", f"{kind}.narrow_count"], [start, count]
            ):
                ends = starts.astype(np.int64) + counts
                if starts.min() < low or counts.min() < 1 or ends.max() > high:
                    raise InputError(f"array '{kind}.narrow_start' names weights that are not there")
        self.finite(f"{kind}.{way}_value", value)
        self.offsets(f"{kind}.{way}_ptr", ptr, n)
        return found

    def _feature_map(self, kind: str, width: int, n_attributes: int, n_dense: int) -> FeatureMap:
        """Where the weights of a kind lie, in memory."""
        arrays = {
            name: self.folder.read(name)
            for name in (f"{kind}.{part}" for part in ("start", "count", "narrow_label", "mask"))
            if name in self.folder.arrays
        }
        stride = row_stride(width)
        labels = expect_array(arrays, f"{kind}.narrow_label", np.int32, low=0, high=width)
        start = expect_array(arrays, f"{kind}.start", np.int32, shape=(n_attributes,), low=0)
        count = expect_array(arrays, f"{kind}.count", np.int32, shape=(n_attributes,), low=-1, high=width + 1)
        n_wide = int((count == 0).sum())
        first = (n_dense + n_wide) * stride
        mask = expect_array(arrays, f"{kind}.mask", np.float32, low=0, high=1.5)
        if len(mask) not in (0, first) or first + len(labels) >= 2**31:
            raise InputError(f"array '{kind}.mask' does not fit the attributes")
        wide, narrow = count == 0, count > 0
        weights = np.where(wide, stride, np.maximum(count, 0)).astype(np.int64)
        in_order = np.concatenate(
            [each[np.argsort(start[each])] for each in map(np.flatnonzero, (wide, narrow))]
        )
        ends = n_dense * stride + np.cumsum(weights[in_order])
        # Every weight belongs to one attribute.
        if (start[in_order] + weights[in_order] != ends).any() or (ends[-1:] != first + len(labels)).any():
            raise InputError(f"arrays '{kind}.start' and '{kind}.count' do not name every weight once")
        return FeatureMap(width, n_dense, start, count, first, labels, mask, first + len(labels))


def expect_entries(header: Mapping[str, object], *names: str) -> list[object]:
    """Entries of a header, all of which must be there."""
    missing = [name for name in names if name not in header]
    if missing:
        raise InputError(f"its header does not say {missing[0]!r}")
    return [header[name] for name in names]
