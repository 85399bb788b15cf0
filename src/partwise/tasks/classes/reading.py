"""Files of rows with classes: libsvm, tables (CSV, TSV) with a label column, and npz files with x and y."""

from __future__ import annotations

import csv
import io
import math
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice
from typing import Any

import numpy as np

from partwise.core.arrays import offsets
from partwise.data import decode, open_binary, readable, unix_newlines
from partwise.errors import InputError
from partwise.tasks.options import DataOptions

FORMATS = ("libsvm", "csv", "npz")
_LIBSVM_LINE = re.compile(r"\s*(\S+(?<!:)\s+)?\d+:\S+")
_LARGEST_INDEX = 2**31 - 2  # of a libsvm column: SciPy stores indices in 32 bits
ZIP_MAGICS = (b"PK\x03\x04", b"PK\x05\x06")  # the second opens an archive without files
_LARGEST_LABEL = 2**63  # libsvm classes must fit in 64-bit integers
# The exceptions that NumPy raises for files that are not npz.
NO_ARCHIVE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, NotImplementedError, zlib.error)
_BATCH = 5000  # lines that are read and predicted at a time


@dataclass
class ClassFile:
    """A file of rows of numbers, with their classes if they are known.

    Attributes
    ----------
    x : ndarray or CSR matrix (n_rows, n_features)
    y : ndarray (n_rows,) or None
    options : DataOptions
        As the file turned out to be.
    lines : list of str
        The text it was read from, line by line; empty for npz.
    row_lines : list of int
        For each row its index in `lines`.
    names_line : int or None
        Index of the line that names the columns.
    labels : list of str
        The label of each row of a libsvm file, as it is written; "" if a row has none.
    """

    x: Any
    y: np.ndarray | None
    options: DataOptions
    lines: Sequence[str] = ()
    row_lines: Sequence[int] = ()
    names_line: int | None = None
    labels: Sequence[str] = ()


def read_classes(path: str, options: DataOptions) -> ClassFile:
    """Read a whole file, every row of which must have a class.

    Parameters
    ----------
    options : DataOptions
        With format "auto" for a file seen for the first time; else what training found.
    """
    with open_binary(path) as handle, readable(path):
        data = handle.read()
    options = settled(data, path, options)
    if options.format == "npz":
        return _read_npz(data, path, options, labelled=True)
    text = unix_newlines(decode(data, path).removeprefix("\ufeff"))
    if not text.strip():
        raise InputError("no rows in this file" if text else "this file is empty", path)
    found = reader_of(path, options, labelled=True).rows(text.split("\n"), 1)
    if found.y is None:
        raise InputError("no rows of numbers in this file", path)
    return replace(found, y=np.array(classes_of(options.format, found.y.tolist())))


def stream_classes(path: str, options: DataOptions) -> Iterator[ClassFile]:
    """Read a file in batches of rows, with or without classes; its lines are kept."""
    with open_binary(path) as handle, readable(path):
        first = first_lines(handle, options)
        options = settled(b"".join(first), path, options)
        if options.format == "npz":
            yield _read_npz(b"".join([*first, handle.read()]), path, options, labelled=False)
            return
        yield from text_batches(chain(first, handle), path, options, labelled=False)


def text_batches(
    lines: Iterator[bytes], path: str, options: DataOptions, labelled: bool
) -> Iterator[ClassFile]:
    """The rows of a text file batch by batch."""
    reader, number = reader_of(path, options, labelled), 1
    while block := list(islice(lines, _BATCH)):
        text = unix_newlines(decode(b"".join(block), path, number).removeprefix("\ufeff"))
        yield reader.rows(text.split("\n")[: len(block)], number)
        number += len(block)


def first_lines(handle: Any, options: DataOptions) -> list[bytes]:
    """The lines up to the first with data, by which the format is detected; none if the format is known."""
    lines: list[bytes] = []
    if options.format == "auto":
        for line in handle:
            lines.append(line)
            if line.strip() and not line.startswith(b"#"):
                break
    return lines


def settled(data: bytes, path: str, options: DataOptions) -> DataOptions:
    """Detect the format, if it is not known, by the first bytes and the first line with data."""
    if options.format != "auto":
        if options.format not in FORMATS:
            raise InputError(f"format {options.format!r} is not one of auto, {', '.join(FORMATS)}", path)
        return options
    if data.startswith(ZIP_MAGICS):
        return replace(options, format="npz")
    text = data.decode("utf-8", "replace").removeprefix("\ufeff")
    lines = (line for line in text.split("\n") if line.strip() and not line.startswith("#"))
    first = next(lines, "")
    return replace(options, format="libsvm" if _LIBSVM_LINE.match(first) else "csv")


def reader_of(path: str, options: DataOptions, labelled: bool) -> LibsvmReader | TableReader:
    """The reader of a text file. If `labelled`, every row must have a class."""
    return (LibsvmReader if options.format == "libsvm" else TableReader)(path, options, labelled)


class LibsvmReader:
    """``label index:value …``; an index is the number of its column, even if a file counts from 1."""

    def __init__(self, path: str, options: DataOptions, labelled: bool):
        self.path, self.options, self.labelled = path, options, labelled

    def rows(self, lines: Sequence[str], first_line: int) -> ClassFile:
        from scipy.sparse import csr_matrix

        labels: list[str] = []
        columns: list[int] = []
        values: list[float] = []
        kept, ends = [], [0]
        for number, line in enumerate(lines, first_line):
            fields = line.partition("#")[0].split()
            if not fields:
                continue
            label = "" if ":" in fields[0] else fields.pop(0)
            if not label and self.labelled:
                raise InputError("no class: a row is 'class index:value index:value …'", self.path, number)
            row = dict(self._entry(field, number) for field in fields if not field.startswith("qid:"))
            columns.extend(row)
            values.extend(row.values())
            ends.append(len(columns))
            labels.append(label)
            kept.append(number - first_line)
        known = self.options.n_columns
        n_columns = known or max(columns, default=0) + 1
        indices, data = np.array(columns, np.int64), np.array(values, np.float64)
        seen = indices < n_columns
        indptr = offsets(seen)[ends]
        x = csr_matrix((data[seen], indices[seen], indptr), shape=(len(labels), n_columns))
        y = None if not all(labels) or not labels else np.array(labels)
        found = replace(self.options, n_columns=n_columns)
        return ClassFile(x, y, found, lines, kept, labels=labels)

    def _entry(self, field: str, number: int) -> tuple[int, float]:
        index, colon, value = field.partition(":")
        if not colon or not index.isascii() or not index.isdigit() or int(index[:12]) > _LARGEST_INDEX:
            raise InputError(f"{field!r:.40} is not index:value", self.path, number)
        return int(index), finite_number(value, self.path, number)


class TableReader:
    """Rows of numbers with one column of classes; the first row may name the columns."""

    def __init__(self, path: str, options: DataOptions, labelled: bool):
        self.path, self.options, self.labelled = path, options, labelled
        self.fresh = options.n_columns == 0
        self.separator = options.separator
        self.width = 0

    def rows(self, lines: Sequence[str], first_line: int) -> ClassFile:
        if self.separator is None:
            first = next((line for line in lines if line.strip()), "")
            self.separator = next((each for each in "\t,;" if each in first), ",")
        y: list[str] = []
        x: list[list[float]] = []
        kept: list[int] = []
        names_line = None
        for number, line in enumerate(lines, first_line):
            if not line.strip() or (self.options.comment and line.startswith(self.options.comment)):
                continue
            cells = self._cells(line, number)
            if not self.width and self._start(cells, number):
                names_line = number - first_line
                continue
            if len(cells) != self.width:
                raise InputError(
                    f"{len(cells)} columns, but the first row has {self.width}", self.path, number
                )
            if self.column is not None:
                y.append(cells.pop(self.column).strip())
            x.append([finite_number(cell, self.path, number) for cell in cells])
            kept.append(number - first_line)
        if self.labelled and "" in y:
            raise InputError("this row has no class", self.path, first_line + kept[y.index("")])
        matrix = np.array(x).reshape(len(x), self.options.n_columns)
        return ClassFile(matrix, np.array(y) if y else None, self.options, lines, kept, names_line)

    def _cells(self, line: str, number: int) -> list[str]:
        try:
            return next(csv.reader([line], delimiter=self.separator or ",", strict=False))
        except csv.Error as error:
            raise InputError(f"cannot be read as a row of cells ({error})", self.path, number) from None

    def _start(self, cells: list[str], number: int) -> bool:
        """Learn the columns from the first row; True if it names the columns."""
        if len(self.separator or "") != 1:
            raise InputError(f"separator {self.separator!r} must be one character", self.path)
        self.width, wanted = len(cells), self.options.n_columns
        if not self.fresh and not (wanted + self.labelled <= self.width <= wanted + 1):
            message = f"{self.width} columns; the model needs {wanted} numbers"
            raise InputError(
                f"{message} {'and' if self.labelled else 'with or without'} a class", self.path, number
            )
        self.column = self._label_column(cells, number)
        inputs = [cell for place, cell in enumerate(cells) if place != self.column]
        named = isinstance(self.options.label_column, str) or any(_number(cell) is None for cell in inputs)
        if self.fresh:
            self.options = replace(
                self.options,
                separator=self.separator,
                n_columns=len(inputs),
                header=named,
                label_column=self._place(),
            )
        return named

    def _place(self) -> int:
        assert self.column is not None
        return self.column

    def _label_column(self, cells: list[str], number: int) -> int | None:
        wanted = self.options.label_column
        if not self.fresh and len(cells) == self.options.n_columns and not self.labelled:
            return None
        if isinstance(wanted, str):
            names = [cell.strip() for cell in cells]
            if wanted not in names:
                raise InputError(
                    f"no column {wanted!r}; there are {', '.join(names):.200}", self.path, number
                )
            return names.index(wanted)
        if not -len(cells) <= wanted < len(cells) or len(cells) < 2:
            columns = "1 column" if len(cells) == 1 else f"{len(cells)} columns"
            raise InputError(f"no label column {wanted}: this row has {columns}", self.path, number)
        return wanted % len(cells)


def _read_npz(data: bytes, path: str, options: DataOptions, labelled: bool) -> ClassFile:
    if not data.startswith(ZIP_MAGICS):
        raise InputError("this is no npz file" if data else "this file is empty", path)
    try:
        with np.load(io.BytesIO(data), allow_pickle=False) as file:
            found = {name.lower(): file[name] for name in file.files}
    except NO_ARCHIVE as error:
        raise InputError(f"cannot be read as npz ({error!s:.80})", path) from None
    check_npz(found, labelled, path)
    x, y = found["x"], found.get("y")
    check_matrix(x.shape, x.dtype, y, path)
    if not np.isfinite(x).all():
        raise InputError("x must be a matrix of finite numbers", path)
    if options.n_columns and x.shape[1] != options.n_columns:
        raise InputError(f"x has {x.shape[1]} columns; the model needs {options.n_columns}", path)
    return ClassFile(np.asarray(x, np.float64), y, replace(options, n_columns=x.shape[1]))


def check_npz(found: Mapping[str, Any], labelled: bool, path: str) -> None:
    """Raise unless an npz file has the arrays it must have."""
    if "x" not in found or (labelled and "y" not in found):
        raise InputError(f"an npz file needs arrays x and y; this one has {', '.join(found) or 'none'}", path)


def check_matrix(shape: tuple[int, ...], dtype: np.dtype, y: np.ndarray | None, path: str) -> None:
    """Raise unless x, of this shape and type, is a matrix of numbers, and y fits it."""
    if len(shape) != 2 or dtype.kind not in "fiub":
        raise InputError(f"x must be a matrix of finite numbers, not {dtype} of shape {shape}", path)
    if y is not None and (y.ndim != 1 or len(y) != shape[0] or y.dtype.kind not in "iuUb"):
        raise InputError(f"y must hold one whole number or string for each of the {shape[0]} rows", path)
    if not math.prod(shape):
        raise InputError(f"x has no numbers: its shape is {shape}", path)


def finite_number(text: str, path: object, line: int) -> float:
    """A finite number, or an error with file and line."""
    value = _number(text)
    if value is None or not math.isfinite(value):
        raise InputError(f"{text.strip()!r:.40} is not a finite number", path, line)
    return value


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def classes_of(format: str, labels: list[str]) -> list[int] | list[str]:
    """Labels as classes. In libsvm files, they are integers if all labels are integers that fit in 64 bits."""
    values = [_number(label) for label in labels] if format == "libsvm" else []
    whole = [int(v) for v in values if v is not None and abs(v) < _LARGEST_LABEL and v == int(v)]
    return whole if len(whole) == len(labels) else labels
