"""Rows with classes for `partwise encode`, read in batches: the file is never held in memory as a whole."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from partwise.data import open_binary, readable
from partwise.errors import InputError
from partwise.tasks.classes.encoding import ClassBatch
from partwise.tasks.classes.reading import (
    NO_ARCHIVE,
    check_matrix,
    check_npz,
    first_lines,
    settled,
    text_batches,
)
from partwise.tasks.options import STANDARD, DataOptions

_NUMBERS = 1 << 20  # numbers of a batch of a matrix: 8 MB


class LabelledRows:
    """A file of rows, each with its class.

    Attributes
    ----------
    options : DataOptions
        How the file was read, once it was.
    """

    def __init__(self, path: str, options: DataOptions):
        self.path, self.options = path, options

    def __iter__(self) -> Iterator[ClassBatch]:
        """Batches, none of them empty."""
        with open_binary(self.path) as handle, readable(self.path):
            first = first_lines(handle, self.options)
            self.options = settled(b"".join(first), self.path, self.options)
            if self.options.format != "npz":
                yield from self._text(chain(first, handle))
                return
        yield from self._npz()

    def _text(self, lines: Iterator[bytes]) -> Iterator[ClassBatch]:
        is_empty = True
        for found in text_batches(lines, self.path, self.options, labelled=True):
            is_empty = False
            if found.y is not None:
                known = max(self.options.n_columns, found.options.n_columns)
                self.options = replace(found.options, n_columns=known)
                yield ClassBatch(found.x, found.y.tolist())
        if not self.options.n_columns:
            raise InputError("this file is empty" if is_empty else "no rows in this file", self.path)

    def _npz(self) -> Iterator[ClassBatch]:
        """Read y at once, and x row by row."""
        if self.path == STANDARD or not zipfile.is_zipfile(self.path):
            raise InputError(
                "an npz file is encoded from the disk, and must not be gzipped besides", self.path
            )
        try:
            with zipfile.ZipFile(self.path) as file:
                members = {name.removesuffix(".npy").lower(): name for name in file.namelist()}
                check_npz(members, True, self.path)
                with file.open(members["y"]) as member:
                    y = np.lib.format.read_array(member, allow_pickle=False)
                with file.open(members["x"]) as member:
                    yield from self._matrix(member, y)
        except InputError:
            raise
        except (*NO_ARCHIVE, MemoryError) as error:
            raise InputError(f"cannot be read as npz ({error!s:.80})", self.path) from None

    def _matrix(self, member: Any, y: np.ndarray) -> Iterator[ClassBatch]:
        """Batches of the rows of x."""
        shape, by_columns, dtype = _npy_header(member)
        check_matrix(shape, dtype, y, self.path)
        if by_columns:
            raise InputError("x is stored column by column: save np.ascontiguousarray(x)", self.path)
        self.options = replace(self.options, n_columns=shape[1])
        at_once = max(_NUMBERS // shape[1], 1)
        for first in range(0, shape[0], at_once):
            n_rows = min(at_once, shape[0] - first)
            data = member.read(n_rows * shape[1] * dtype.itemsize)
            x = np.frombuffer(data, dtype).reshape(n_rows, shape[1])
            if not np.isfinite(x).all():
                raise InputError("x must be a matrix of finite numbers", self.path)
            yield ClassBatch(x.astype(np.float64), y[first : first + n_rows].tolist())


def _npy_header(member: Any) -> tuple[tuple[int, ...], bool, np.dtype]:
    """Shape, Fortran order and type of an array in NumPy's format."""
    version = np.lib.format.read_magic(member)
    if version == (1, 0):
        return np.lib.format.read_array_header_1_0(member)
    return np.lib.format.read_array_header_2_0(member)
