"""CoNLL column files: read whole into flat columns, or streamed with predictions appended."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, BinaryIO, TextIO, TypeVar

import numpy as np

from partwise.data import decode, read_text, readable, unix_newlines
from partwise.errors import InputError

Item = TypeVar("Item")

_DOCUMENT_START = "-DOCSTART-"
_READ_SIZE = 1 << 18
_IS_SPACE = np.zeros(256, dtype=bool)
_IS_SPACE[[ord(character) for character in " \t\r\n"]] = True
_FIELD = re.compile(r"[^ \t\r\n]+")
# str.split() also cuts at these, but in a corpus they are parts of words ("10\u00a0000").
_SPACES_IN_WORDS = (
    "\x0b\x0c\x1c\x1d\x1e\x1f\x85\xa0\u1680\u2000\u2001\u2002\u2003\u2004\u2005\u2006\u2007"
    "\u2008\u2009\u200a\u2028\u2029\u202f\u205f\u3000"
)


@dataclass
class Columns:
    """Sequences of tokens as flat columns.

    Attributes
    ----------
    columns : list of list of str, each (n_tokens,)
        The input columns in file order; the label column is not among them.
    labels : list of str (n_tokens,), or None
        The label column; None if the file was read without one.
    sequence_ptr : ndarray of int64 (n_sequences + 1,)
        Tokens of sequence i are ``sequence_ptr[i]:sequence_ptr[i + 1]``.
    document_ptr : ndarray of int64 (n_documents + 1,)
        Sequences of document d are ``document_ptr[d]:document_ptr[d + 1]``; a file without
        -DOCSTART- lines is one document.
    """

    columns: list[list[str]]
    labels: list[str] | None
    sequence_ptr: np.ndarray
    document_ptr: np.ndarray

    @property
    def n_tokens(self) -> int:
        return int(self.sequence_ptr[-1])

    @property
    def n_sequences(self) -> int:
        return len(self.sequence_ptr) - 1

    @property
    def lengths(self) -> np.ndarray:
        """Tokens per sequence, int64 (n_sequences,)."""
        return np.diff(self.sequence_ptr)

    def split(self, flat: Sequence[Item]) -> list[Sequence[Item]]:
        """Cut a flat sequence over all tokens into one slice per sequence."""
        if len(flat) != self.n_tokens:
            raise InputError(f"{len(flat)} values for {self.n_tokens} tokens")
        ptr = self.sequence_ptr.tolist()
        return [flat[start:end] for start, end in pairwise(ptr)]

    def column_sequences(self, column: int = 0) -> list[list[str]]:
        """One column, by default the words, as one list per sequence."""
        return [list(part) for part in self.split(self.columns[column])]

    def label_sequences(self) -> list[list[str]]:
        """The labels as one list per sequence."""
        if self.labels is None:
            raise InputError("these sequences were read without a label column")
        return [list(part) for part in self.split(self.labels)]

    def row_sequences(self) -> list[list[tuple[str, ...]]]:
        """The input columns of every token as a tuple, one list of tuples per sequence."""
        return [list(part) for part in self.split(list(zip(*self.columns, strict=True)))]


@dataclass
class StreamBatch:
    """Some sequences of a stream and the text they came from.

    Attributes
    ----------
    columns : Columns
        The sequences; none if the text holds only comments or blank lines.
    lines : list of str
        The original lines with their line ends, byte order mark, comments and blank lines.
    token_lines : ndarray of int64 (n_tokens,)
        For each token its index in `lines`.
    separator : str or None
        The explicit separator the stream is read with.
    """

    columns: Columns
    lines: list[str]
    token_lines: np.ndarray
    separator: str | None


def read_conll(
    path: str | os.PathLike[str],
    *,
    separator: str | None = None,
    label_column: int | None = -1,
    comment: str | None = None,
) -> Columns:
    """Read a column file: one token per row, blank lines between sequences.

    Parameters
    ----------
    path : str or path
        UTF-8 text, plain or gzipped; "-" is standard input.
    separator : str or None
        The separator of columns; None is any run of spaces and tabs.
    label_column : int or None
        Index of the label column, negative from the right; None when there is none.
    comment : str or None
        Lines that start with this are skipped. None by default, since "#" is also a word.

    Returns
    -------
    Columns
    """
    text = read_text(path)
    return parse_conll(text, path=path, separator=separator, label_column=label_column, comment=comment)


def parse_conll(
    text: str,
    *,
    path: object = None,
    separator: str | None = None,
    label_column: int | None = -1,
    comment: str | None = None,
) -> Columns:
    """Like `read_conll`, from a string; `path` is only named in errors."""
    columns, _ = _Cutter(path, separator, label_column, comment).cut(unix_newlines(text))
    if columns.n_tokens == 0:
        raise InputError("no tokens in this file" if text else "this file is empty", path)
    return columns


def stream_sequences(
    handle: BinaryIO,
    *,
    path: object = "<stream>",
    separator: str | None = None,
    label_column: int | None = None,
    comment: str | None = None,
    batch_size: int = 1000,
) -> Iterator[StreamBatch]:
    """Read a column file as it arrives.

    Parameters
    ----------
    handle : binary file
        From `open_binary`, or any object with ``read1`` or ``read``.
    path : object
        The name of the file in errors.
    separator, label_column, comment
        As in `read_conll`, but by default no column is the label.
    batch_size : int
        The most sequences in one batch.

    Yields
    ------
    StreamBatch
        Whole sequences: those that could be read to their end without waiting.
    """
    cutter = _Cutter(path, separator, label_column, comment)
    first_line = 1
    for block in whole_sequences(handle, batch_size, path):
        text = decode(block, path, first_line)
        columns, token_lines = cutter.cut(unix_newlines(text.removeprefix("\ufeff")), first_line)
        lines = [line + "\n" for line in text.split("\n")]
        lines[-1] = lines[-1][:-1]
        yield StreamBatch(columns, lines, token_lines, separator)
        first_line += len(lines) - 1


def write_predictions(
    handle: TextIO, batch: StreamBatch, labels: Sequence[str | None], *more: Sequence[str | None]
) -> None:
    """Write a batch's text with columns appended to its token rows, and O to -DOCSTART- lines.

    All other text stays unchanged.

    Parameters
    ----------
    handle : text file
        Where to write; flushed, so that an interactive reader sees the answer.
    batch : StreamBatch
        From `stream_sequences`.
    labels, *more : sequence of str (n_tokens,)
        The columns to append, flat over the batch's tokens. None is left out: its row is shorter.
    """
    columns = (labels, *more)
    for column in columns:
        if len(column) != len(batch.token_lines):
            raise InputError(f"{len(column)} predictions for {len(batch.token_lines)} tokens")
    lines = list(batch.lines)
    for index, *values in zip(batch.token_lines.tolist(), *columns, strict=True):
        own = [value for value in values if value is not None]
        lines[index] = _appended(lines[index], own, batch.separator)
    for index, line in enumerate(lines):  # Scripts that read the output count columns on these lines, too.
        if line.startswith(_DOCUMENT_START) and line.split(batch.separator, 1)[0].strip() == _DOCUMENT_START:
            lines[index] = _appended(line, ["O"] * len(columns), batch.separator)
    handle.write("".join(lines))
    handle.flush()


def _appended(line: str, values: Sequence[str], separator: str | None) -> str:
    """The line with more columns, separated as its own columns are."""
    row = line.rstrip("\r\n")
    between = separator or ("\t" if "\t" in row else " ")
    joint = "" if separator is None and row.endswith((" ", "\t")) else between
    return row + joint + between.join(values) + line[len(row) :]


def whole_lines(handle: Any, batch_size: int, path: object) -> Iterator[bytes]:
    """Cut a byte stream after line ends, whenever data arrive or `batch_size` lines are complete."""
    for lines, is_last in _arriving_lines(handle, path):
        for first in range(0, len(lines), batch_size):
            block = b"\n".join(lines[first : first + batch_size])
            if block or not is_last:
                yield block if is_last else block + b"\n"


def whole_sequences(handle: Any, batch_size: int, path: object) -> Iterator[bytes]:
    """Cut a byte stream after blank lines, whenever data arrive or a batch is full."""
    lines: list[bytes] = []
    n_complete = complete_end = 0
    in_sequence = False
    for finished, is_last in _arriving_lines(handle, path):
        if is_last:
            remainder = b"\n".join([*lines, *finished])
            if remainder:
                yield remainder
            return
        for line in finished:
            lines.append(line)
            if line.strip(b" \t\r"):
                in_sequence = True
            elif in_sequence:
                in_sequence, complete_end, n_complete = False, len(lines), n_complete + 1
                if n_complete == batch_size:
                    yield b"\n".join(lines) + b"\n"
                    lines, n_complete, complete_end = [], 0, 0
        if complete_end:
            yield b"\n".join(lines[:complete_end]) + b"\n"
            lines, n_complete, complete_end = lines[complete_end:], 0, 0


def _arriving_lines(handle: Any, path: object) -> Iterator[tuple[list[bytes], bool]]:
    """Yield the lines that each read completes; at the end, marked by True, the rest without a line end."""
    read_available = getattr(handle, "read1", handle.read)
    unfinished: list[bytes] = []
    while True:
        with readable(path):
            chunk = read_available(_READ_SIZE)
        if not chunk:
            break
        unfinished.append(chunk)
        if b"\n" in chunk:
            *finished, rest = b"".join(unfinished).split(b"\n")
            unfinished = [rest]
            yield finished, False
    yield [b"".join(unfinished)], True


class _Cutter:
    """Cuts text into columns; every row must be as wide as the first row of the file."""

    def __init__(self, path: object, separator: str | None, label_column: int | None, comment: str | None):
        if separator == "" or (separator is not None and "\n" in separator):
            raise InputError(f"separator={separator!r} cannot separate columns; give for example '\\t'")
        if comment == "":
            raise InputError("comment='' would skip every line; give a prefix such as '#', or None")
        self.path = path
        self.separator = separator
        self.label_column = label_column
        self.comment = comment
        self.width = 0
        self.width_line = 0

    def cut(self, text: str, first_line: int = 1) -> tuple[Columns, np.ndarray]:
        """Return the columns and each token's line, counted from 0 within `text`."""
        text, comments, document_starts = self._blank_out(text)
        counts, fields = self._fields(text)
        token_lines = np.flatnonzero(counts)
        self._check_width(text, counts, token_lines, first_line)
        is_break = counts == 0
        is_break[comments] = False
        breaks_before = np.cumsum(is_break)[token_lines]
        first_tokens = np.flatnonzero(np.diff(breaks_before, prepend=-1)) if len(token_lines) else token_lines
        sequence_ptr = np.append(first_tokens, len(token_lines)).astype(np.int64)
        document_ptr = np.searchsorted(token_lines[first_tokens], document_starts)
        document_ptr = np.unique(np.concatenate([[0], document_ptr, [len(first_tokens)]])).astype(np.int64)
        width = self.width
        columns = [fields[column::width] for column in range(width)]
        labels = columns.pop(self.label_column) if self.label_column is not None and columns else None
        return Columns(columns, labels, sequence_ptr, document_ptr), token_lines

    def _blank_out(self, text: str) -> tuple[str, list[int], list[int]]:
        """Empty comment and document lines, so that line numbers stay; return where they were."""
        comments: list[int] = []
        document_starts: list[int] = []
        if _DOCUMENT_START in text or (self.comment is not None and self.comment in text):
            lines = text.split("\n")
            for index, line in enumerate(lines):
                if self.comment is not None and line.startswith(self.comment):
                    comments.append(index)
                    lines[index] = ""
                elif line.startswith(_DOCUMENT_START) and self._first_field(line) == _DOCUMENT_START:
                    document_starts.append(index)
                    lines[index] = ""
            text = "\n".join(lines)
        return text, comments, document_starts

    def _first_field(self, line: str) -> str:
        return line.split(self.separator, 1)[0].strip()

    def _fields(self, text: str) -> tuple[np.ndarray, list[str]]:
        """Return the number of fields on each line and all fields, row after row."""
        if self.separator is None:
            cut_only_at_spaces = any(character in text for character in _SPACES_IN_WORDS)
            return _count_fields(text), _FIELD.findall(text) if cut_only_at_spaces else text.split()
        separator = self.separator
        rows = [line if line.strip(" \t\r") else "" for line in text.split("\n")]
        counts = np.array([line.count(separator) + 1 if line else 0 for line in rows])
        return counts, separator.join(filter(None, rows)).split(separator) if counts.any() else []

    def _check_width(self, text: str, counts: np.ndarray, token_lines: np.ndarray, first_line: int) -> None:
        if not len(token_lines):
            return
        if not self.width:
            self.width, self.width_line = int(counts[token_lines[0]]), first_line + int(token_lines[0])
            self._check_label_column()
        ragged = np.flatnonzero(counts[token_lines] != self.width)
        if len(ragged):
            index = int(token_lines[ragged[0]])
            message = f"{_plural(counts[index])}, but line {self.width_line} has {self.width}"
            if self.comment is None and "\n#" in f"\n{text}":
                message += (
                    " (are lines that start with '#' comments? then give comment='#', or --comment '#')"
                )
            raise InputError(message, self.path, first_line + index)

    def _check_label_column(self) -> None:
        label_column = self.label_column
        if label_column is None:
            return
        if not -self.width <= label_column < self.width:
            message = f"no label column {label_column}: this row has {_plural(self.width)}"
            raise InputError(message, self.path, self.width_line)
        if self.width == 1:
            message = "no label column: this row has 1 column, and a word and a label are needed"
            raise InputError(message, self.path, self.width_line)


def _count_fields(text: str) -> np.ndarray:
    """Count the whitespace-separated fields on each line, int64 (n_lines,)."""
    data = np.frombuffer(f"\n{text}\n".encode(), dtype=np.uint8)
    is_space = _IS_SPACE[data]
    field_starts = np.flatnonzero(is_space[:-1] > is_space[1:]) + 1
    return np.diff(np.searchsorted(field_starts, np.flatnonzero(data == ord("\n"))))


def _plural(n_columns: int) -> str:
    return f"{n_columns} column" + ("" if n_columns == 1 else "s")
