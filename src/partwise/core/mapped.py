"""Memory-mapped arrays that are read before they are needed and released afterwards."""

from __future__ import annotations

import contextlib
import ctypes
import math
import mmap
import os
import sys
import tempfile
from typing import Any

import numpy as np

from partwise.core.memory_limits import memory_limits
from partwise.errors import InputError

_HAS_ADVICE = hasattr(os, "posix_fadvise")
_READ_AHEAD = 2**17  # Bytes of one request to read: of a larger request, Linux may read the beginning only.
_FAULT_AROUND = max(2**16, mmap.PAGESIZE)  # Bytes that Linux maps around a page that is touched.
_CAN_POPULATE = sys.platform == "linux"
_POPULATE_READ, _POPULATE_WRITE = 22, 23  # arguments of madvise, since Linux 5.14
_WAIT, _BEGIN_WRITING = 1, 2  # flags of sync_file_range


def _find_sync_file_range() -> Any:
    """The system's function, which Python does not offer; None if the system has none."""
    if sys.platform != "linux":
        return None
    found = getattr(ctypes.CDLL(None), "sync_file_range", None)
    if found is not None:
        found.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return found


_sync_file_range = _find_sync_file_range()


class MappedArray:
    """An array in a file.

    Parameters
    ----------
    descriptor : int
        An open file. This object closes it.
    dtype, shape
        The type and shape of the array. The file must be that large.
    writable : bool
        Whether changes reach the file.

    Attributes
    ----------
    array : ndarray
        Its flags say that it can be written, because compiled code is made for such arrays. Writing to the array of a
        file that is not `writable` ends the process.
    """

    def __init__(self, descriptor: int, dtype: Any, shape: tuple[int, ...], writable: bool = False):
        self.descriptor, self.is_writable, dtype = descriptor, writable, np.dtype(dtype)
        self.row_bytes = dtype.itemsize * math.prod(shape[1:])
        self.n_bytes = self.row_bytes * shape[0]
        self._map = None
        if not self.n_bytes:
            self.array = np.zeros(shape, dtype)
            return
        access = mmap.ACCESS_WRITE if writable else mmap.ACCESS_READ
        self._map = mmap.mmap(descriptor, self.n_bytes, access=access)
        self.array = np.asarray(_Region(self._map, dtype, shape))

    def __del__(self) -> None:
        with contextlib.suppress(OSError):
            os.close(self.descriptor)

    def handed_over(self) -> np.ndarray:
        """The array, which the caller must keep alive from now on."""
        array, self.array = self.array, np.zeros((0, *self.array.shape[1:]), self.array.dtype)
        return array

    def read_what_is_told(self) -> None:
        """Turn off the system's own read-ahead: :meth:`fetch` and :meth:`enter` request what is needed."""
        if self._map is not None and hasattr(mmap, "MADV_RANDOM"):
            self._map.madvise(mmap.MADV_RANDOM)

    def fetch(self, first: int, last: int) -> None:
        """Start to read the rows first … last − 1 from disk, without waiting."""
        begin, size = self._pages(first, last)
        for at in range(begin, begin + size, _READ_AHEAD) if _HAS_ADVICE else ():
            piece = min(_READ_AHEAD, begin + size - at)
            os.posix_fadvise(self.descriptor, at, piece, os.POSIX_FADV_WILLNEED)

    def enter(self, first: int, last: int, to_change: bool = False) -> None:
        """Map rows into the process in one call, which is far cheaper than one fault per page."""
        begin, size = self._pages(first, last)
        if size > 0 and self._map is not None and _CAN_POPULATE:
            with contextlib.suppress(OSError):  # Linux before 5.14
                self._map.madvise(_POPULATE_WRITE if to_change else _POPULATE_READ, begin, size)

    def leave(self, first: int, last: int) -> None:
        """Unmap rows from the process, and start to write changes to disk."""
        begin, size = self._pages(first, last, _FAULT_AROUND)
        if size > 0 and self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED, begin, size)
            if self.is_writable and _sync_file_range is not None:
                _sync_file_range(self.descriptor, begin, size, _BEGIN_WRITING)

    def drop(self, first: int, last: int) -> None:
        """Drop rows from the system's page cache after their changes are written."""
        begin, size = self._pages(first, last)
        if size > 0 and _HAS_ADVICE:
            if self.is_writable and _sync_file_range is not None:
                _sync_file_range(self.descriptor, begin, size, _WAIT)
            os.posix_fadvise(self.descriptor, begin, size, os.POSIX_FADV_DONTNEED)

    def _pages(self, first: int, last: int, unit: int = mmap.PAGESIZE) -> tuple[int, int]:
        """Begin and size in bytes of the pages, or larger units, that hold the rows first … last − 1."""
        begin = first * self.row_bytes // unit * unit
        return begin, min(-(-last * self.row_bytes // unit) * unit, self.n_bytes) - begin


class _Region:
    """Tells NumPy the address of a map. The array keeps this object alive, which keeps the map alive."""

    def __init__(self, region: mmap.mmap, dtype: np.dtype, shape: tuple[int, ...]):
        self._map = region
        address = np.frombuffer(region, np.uint8).ctypes.data
        self.__array_interface__ = {
            "shape": shape, "typestr": dtype.str, "data": (address, False), "version": 3,
        }  # fmt: skip


def zeros_on_disk(folder: str | os.PathLike[str], n: int, dtype: Any) -> MappedArray:
    """An array (n,) of zeros in a nameless file of `folder`, which disappears when nothing uses it."""
    size = n * np.dtype(dtype).itemsize
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as handle:
            if hasattr(os, "posix_fallocate") and size:
                # On a full disk, a file with holes would end the process later. This raises an error now.
                os.posix_fallocate(handle.fileno(), 0, size)
            else:
                handle.truncate(size)
            return MappedArray(os.dup(handle.fileno()), dtype, (n,), writable=True)
    except OSError as error:
        raise InputError(
            f"cannot keep {size / 1e6:,.0f} MB of state here: {error.strerror or error}", os.fspath(folder)
        ) from None


def memory_there_is() -> int:
    """Bytes that this process may use: the free memory, or a smaller memory limit."""
    found = memory_limits()
    with contextlib.suppress(OSError, ValueError, StopIteration):
        with open("/proc/meminfo", encoding="ascii") as lines:
            line = next(each for each in lines if each.startswith("MemAvailable:"))
        found.append(1024 * int(line.split()[1]))
    return min(found, default=2**32)
