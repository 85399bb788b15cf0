"""Sequences for the commands: files read whole for training and scoring, streams for prediction."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np

from partwise.data import (
    FORMATS,
    decode,
    detect_format,
    open_binary,
    read_text,
    readable,
    unix_newlines,
)
from partwise.data.conll import Columns, parse_conll, stream_sequences, whole_lines, write_predictions
from partwise.data.crfsuite_format import parse_crfsuite
from partwise.data.jsonl import parse_jsonl
from partwise.data.tagged import parse_tagged
from partwise.errors import InputError
from partwise.tasks.data_options import DataOptions

_BATCH_LINES = 1000


@dataclass
class SequenceFile:
    """Sequences as an estimator takes them.

    Attributes
    ----------
    x : Columns or list of sequences
    y : list of lists of labels, or None
        As `fit` takes it: None where `x` carries the labels itself, or where there are none.
    weights : ndarray (n_sequences,) or None
    options : DataOptions
        As the file turned out to be.
    is_columns : bool
        Whether features are to be made by a template.
    """

    x: Any
    y: list[list[Any]] | None
    weights: np.ndarray | None
    options: DataOptions
    is_columns: bool

    @property
    def n_sequences(self) -> int:
        return self.x.n_sequences if isinstance(self.x, Columns) else len(self.x)

    @property
    def has_labels(self) -> bool:
        return self.y is not None or (isinstance(self.x, Columns) and self.x.labels is not None)

    def labels(self) -> Iterable[Any]:
        """All labels one after another."""
        carried = self.x.labels if isinstance(self.x, Columns) else None
        return chain.from_iterable(self.y or []) if carried is None else carried

    def label_sequences(self) -> list[list[Any]]:
        """The labels as one list per sequence."""
        return self.x.label_sequences() if isinstance(self.x, Columns) else self.y or []


def read_sequences(path: str, options: DataOptions) -> SequenceFile:
    """Read a labelled file.

    Parameters
    ----------
    options : DataOptions
        With format "auto" and no columns for a file seen for the first time; else what training found.
    """
    if options.format not in ("auto", *FORMATS):
        raise InputError(f"format {options.format!r} is not one of auto, {', '.join(FORMATS)}", path)
    if isinstance(options.label_column, str):
        raise InputError(f"label column {options.label_column!r} is not a number", path)
    settings: dict[str, Any] = {
        "separator": options.separator,
        "label_column": options.label_column,
        "comment": options.comment,
    }
    has_settings = settings != {"separator": None, "label_column": -1, "comment": None}
    if has_settings and options.format not in ("auto", "conll"):
        raise InputError(
            f"separator, label column and comment belong to columns, not {options.format!r}", path
        )
    text = read_text(path)
    form = options.format
    if form == "auto":
        form = "conll" if has_settings else detect_format(text)
    with told_how_it_was_read(form, path):
        return _parsed(text, path, replace(options, format=form), settings)


def _parsed(text: str, path: str, options: DataOptions, settings: dict[str, Any]) -> SequenceFile:
    """Text of a known format."""
    form = options.format
    if form in ("conll", "tagged"):
        data = parse_conll(text, path=path, **settings) if form == "conll" else parse_tagged(text, path=path)
        _check_columns(data, options, path)
        return SequenceFile(data, None, None, replace(options, n_columns=len(data.columns)), True)
    if form == "jsonl":
        found = parse_jsonl(text, path=path)
        tokens = all(isinstance(item, str) for sequence in found.inputs for item in sequence)
        return SequenceFile(found.inputs, found.labels, None, replace(options, n_columns=int(tokens)), tokens)
    items = parse_crfsuite(text, path=path)
    return SequenceFile(
        items.feature_sequences(), items.label_sequences(), items.sequence_weights, options, False
    )


def _check_columns(data: Columns, options: DataOptions, path: object) -> None:
    if options.n_columns and len(data.columns) != options.n_columns:
        known = f"the model was trained on {options.n_columns} and a label"
        raise InputError(f"{len(data.columns)} columns and a label; {known}", path)


@dataclass
class PredictionBatch:
    """Some sequences of a stream, and how predictions are written next to them.

    Attributes
    ----------
    x : Columns or list of sequences
    tokens : list of list
        What names the tokens in JSON output.
    others : list of dict
        Per sequence what else is known of it, where the stream is JSON lines.
    """

    x: Any
    tokens: list[list[Any]]
    source: Any
    format: str
    others: list[dict[str, Any]] = field(default_factory=list)

    def write(self, handle: Any, columns: Sequence[Sequence[Sequence[str]]]) -> None:
        """Write the text with columns appended; ``columns[c][i][t]`` belongs to token t of sequence i.

        Tagged text has room for one: where there are more, it is written as columns with tabs.
        """
        flat = [[value for sequence in column for value in sequence] for column in columns]
        if self.format == "conll":
            write_predictions(handle, self.source, *flat)
            return
        lines: list[str] = []
        rows = list(zip(*flat, strict=True))
        place = 0
        for sequence in self.tokens:
            here = rows[place : place + len(sequence)]
            place += len(sequence)
            if self.format == "tagged" and len(columns) == 1:
                pairs = zip(sequence, here, strict=True)
                words = (f"{word.replace('/', chr(92) + '/')}/{label}" for word, (label,) in pairs)
                lines.append(" ".join(words) + "\n")
            else:
                if self.format == "tagged":
                    here = [(word, *row) for word, row in zip(sequence, here, strict=True)]
                lines.extend("\t".join(row) + "\n" for row in here)
                lines.append("\n")
        handle.write("".join(lines))
        handle.flush()


def stream_predictions(path: str, options: DataOptions) -> Iterator[PredictionBatch]:
    """Read a file, or standard input for "-", in batches of whole sequences."""
    with open_binary(path) as source:
        handle, options = _settled(source, path, options)
        with told_how_it_was_read(options.format, path):
            yield from _batches(handle, path, options)


@contextmanager
def told_how_it_was_read(form: str, path: object) -> Iterator[None]:
    """Errors in lines of text with the format, which was guessed or is that of the training data."""
    try:
        yield
    except InputError as error:
        if error.line is None:
            raise
        raise InputError(
            f"{error.message} (read as {form}; --format chooses another)", path, error.line
        ) from None


def _batches(handle: Any, path: str, options: DataOptions) -> Iterator[PredictionBatch]:
    if options.format == "conll":
        yield from _conll_batches(handle, path, options)
    elif options.format == "crfsuite":
        yield from _crfsuite_batches(handle, path)
    else:
        number = 1
        for block in whole_lines(handle, _BATCH_LINES, path):
            text = unix_newlines(decode(block, path, number).removeprefix("\ufeff"))
            yield _tagged_batch(text) if options.format == "tagged" else _json_batch(text, path, number)
            number += block.count(b"\n")


def _settled(handle: Any, path: str, options: DataOptions) -> tuple[Any, DataOptions]:
    """The format, found by looking if it is not known, and what to read on from."""
    if options.format in FORMATS:
        return handle, options
    if options.format != "auto":
        raise InputError(f"format {options.format!r} is not one of auto, {', '.join(FORMATS)}", path)
    if path == "-":
        return handle, replace(options, format="conll")
    with readable(path):
        data = handle.read()
    text = decode(data, path).removeprefix("\ufeff")
    return io.BytesIO(data), replace(options, format=detect_format(text[:100_000]))


def _conll_batches(handle: Any, path: str, options: DataOptions) -> Iterator[PredictionBatch]:
    stream = stream_sequences(handle, path=path, separator=options.separator, comment=options.comment)
    for batch in stream:
        columns = batch.columns
        width = len(columns.columns)
        if columns.n_tokens and options.n_columns and width != options.n_columns:
            if width != options.n_columns + 1:
                first = batch.lines[int(batch.token_lines[0])].strip()
                needed = f"the model needs {options.n_columns}, with or without a label"
                raise InputError(f"{width} columns in {first!r:.60}; {needed}", path)
            label = options.label_column if isinstance(options.label_column, int) else -1
            inputs = [column for place, column in enumerate(columns.columns) if place != label % width]
            columns = replace(columns, columns=inputs)
        tokens = columns.column_sequences() if columns.columns else []
        yield PredictionBatch(columns, tokens, batch, "conll")


def _tagged_batch(text: str) -> PredictionBatch:
    r"""One sentence a line; tags are taken off a line on which every word has one."""
    sequences = []
    for line in text.split("\n"):
        fields = line.split()
        parts = [field.rpartition("/") for field in fields]
        if fields and all(word and tag and not word.endswith("\\") for word, _, tag in parts):
            fields = [word for word, _, _ in parts]
        if fields:
            sequences.append([field.replace("\\/", "/") for field in fields])
    return PredictionBatch(sequences, sequences, None, "tagged")


def _json_batch(text: str, path: str, number: int) -> PredictionBatch:
    if not text.strip():
        return PredictionBatch([], [], None, "jsonl")
    with lines_from(number, path):
        data = parse_jsonl(text)
    return PredictionBatch(data.inputs, data.inputs, None, "jsonl", data.others)


def _crfsuite_batches(handle: Any, path: str) -> Iterator[PredictionBatch]:
    number = 1
    block: list[bytes] = []
    while True:
        with readable(path):
            line = handle.readline()
        block.append(line)
        if line and (len(block) < _BATCH_LINES or line.strip()):
            continue
        text = decode(b"".join(block), path, number)
        if text.strip():
            with lines_from(number, path):
                data = parse_crfsuite(text)
            sequences = data.feature_sequences()
            yield PredictionBatch(sequences, sequences, None, "crfsuite")
        if not line:
            return
        number += len(block)
        block = []


@contextmanager
def lines_from(number: int, path: str) -> Iterator[None]:
    """Errors of a parser that sees only a part of the file, with the line in the whole file."""
    try:
        yield
    except InputError as error:
        raise InputError(str(error), path, (error.line or 1) + number - 1) from None


def check_kind(estimator: Any, x: Any, path: object) -> None:
    """Refuse data of another kind than a model was trained on, in words that say what it needs."""
    kind = estimator._encoder.kind
    if kind == "matrix":
        raise InputError("this model labels matrices of numbers; it can only be used from Python", path)
    first = None if isinstance(x, Columns) else next((item for sequence in x for item in sequence), None)
    is_columns = isinstance(x, Columns) or isinstance(first, str)
    if kind == "columns" and not is_columns and first is not None:
        raise InputError("the model makes its features by a template; this file has ready-made ones", path)
    if kind == "attributes" and is_columns:
        raise InputError("the model was trained on ready-made features; this file has strings", path)
