"""Arrays that lie in files: mapped into memory, brought in before they are needed and let go afterwards."""

from __future__ import annotations

import contextlib
import math
import mmap
import os
import tempfile
from typing import Any

import numpy as np

from partwise.errors import InputError

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

_HAS_ADVICE = hasattr(os, "posix_fadvise")


class MappedArray:
    """An array in a file.

    Parameters
    ----------
    descriptor : int
        An open file, which is closed with this object.
    dtype, shape
        Of the array; the file must be that large.
    writable : bool
        Whether changes reach the file.

    Attributes
    ----------
    array : ndarray
        Says that it may be written to, because compiled code is made for such arrays; of a file that is not
        `writable` its pages may not, and writing to them ends the process.
    """

    def __init__(self, descriptor: int, dtype: Any, shape: tuple[int, ...], writable: bool = False):
        self.descriptor, dtype = descriptor, np.dtype(dtype)
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

    def fetch(self, first: int, last: int) -> None:
        """Have the rows first … last − 1 read from the disk, without waiting for them."""
        begin, size = self._pages(first, last)
        if size and _HAS_ADVICE:
            os.posix_fadvise(self.descriptor, begin, size, os.POSIX_FADV_WILLNEED)

    def release(self, first: int, last: int) -> None:
        """Take rows out of the process's memory; they are read again when they are touched."""
        begin, size = self._pages(first, last)
        if size and self._map is not None and hasattr(mmap, "MADV_DONTNEED"):
            self._map.madvise(mmap.MADV_DONTNEED, begin, size)
        self.drop(first, last)

    def drop(self, first: int, last: int) -> None:
        """Take what was released out of the system's memory, too; what was changed begins to be written."""
        begin, size = self._pages(first, last)
        if size and _HAS_ADVICE:
            os.posix_fadvise(self.descriptor, begin, size, os.POSIX_FADV_DONTNEED)

    def _pages(self, first: int, last: int) -> tuple[int, int]:
        """Begin and size in bytes of the pages that hold some rows."""
        begin = first * self.row_bytes // mmap.PAGESIZE * mmap.PAGESIZE
        return begin, min(last * self.row_bytes, self.n_bytes) - begin


class _Region:
    """Tells NumPy where a map lies; the array holds this, and this the map."""

    def __init__(self, region: mmap.mmap, dtype: np.dtype, shape: tuple[int, ...]):
        self._map = region
        address = np.frombuffer(region, np.uint8).ctypes.data
        self.__array_interface__ = {
            "shape": shape, "typestr": dtype.str, "data": (address, False), "version": 3,
        }  # fmt: skip


def zeros_on_disk(folder: str | os.PathLike[str], n: int, dtype: Any) -> MappedArray:
    """An array (n,) of zeros in a file of `folder` that has no name, and goes when nobody uses it any more."""
    size = n * np.dtype(dtype).itemsize
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as handle:
            if hasattr(os, "posix_fallocate") and size:
                # A file with holes would end the process where the disk is full, and not raise here.
                os.posix_fallocate(handle.fileno(), 0, size)
            else:
                handle.truncate(size)
            return MappedArray(os.dup(handle.fileno()), dtype, (n,), writable=True)
    except OSError as error:
        raise InputError(
            f"cannot keep {size / 1e6:,.0f} MB of state here: {error.strerror or error}", os.fspath(folder)
        ) from None


def memory_there_is() -> int:
    """Bytes that this process may take: what is free, or what the limits of its container and of itself leave."""
    found = [2**62]
    with contextlib.suppress(OSError, ValueError, StopIteration):
        with open("/proc/meminfo", encoding="ascii") as lines:
            line = next(each for each in lines if each.startswith("MemAvailable:"))
        found.append(1024 * int(line.split()[1]))
    for path in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as limit:
            found.append(int(limit.read()))
    if resource is not None:
        limits = [resource.getrlimit(kind)[0] for kind in (resource.RLIMIT_AS, resource.RLIMIT_DATA)]
        found += [limit for limit in limits if limit != resource.RLIM_INFINITY]
    if len(found) == 1:
        found.append(2**32)
    return min(found)
