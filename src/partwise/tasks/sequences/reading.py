"""Files of sequences for the command line: read whole for training and scoring, as a stream for prediction."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np

from partwise.data import decode, detect_format, open_binary, parse, read_text, readable, unix_newlines
from partwise.data.conll import (
    Columns,
    stream_sequences,
    whole_lines,
    whole_sequences,
    write_predictions,
)
from partwise.data.crfsuite_format import parse_crfsuite
from partwise.data.jsonl import JsonSequences, parse_jsonl
from partwise.data.running_text import Splitter
from partwise.data.tagged import as_tagged, words_of_lines
from partwise.errors import InputError
from partwise.report.output import write_text
from partwise.tasks.options import DataOptions

# A column is not one of labels if it has more values than this, each in fewer tokens than that on average. Words have
# about 10 tokens each in 100,000; the largest sets of tags have hundreds of tokens for each tag.
_MANY_LABELS, _FEWEST_TOKENS = 1000, 20

# Bytes by which the format is detected: 256 kB hold the 50 lines that detection looks at.
_LOOKED_AT = 1 << 18
_AT_ONCE = 1000  # lines, or sequences, of a batch: enough to keep all threads busy


@dataclass
class SequenceFile:
    """A file of sequences, as an estimator takes them.

    Attributes
    ----------
    x : Columns or list of sequences
    y : list of lists of labels, or None
        As `fit` takes it: None where `x` carries the labels itself, or where there are none.
    weights : ndarray (n_sequences,) or None
    options : DataOptions
        How the file was read.
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

    def every_label(self) -> Iterable[Any]:
        """All labels one after another, those of sets and distributions one by one."""
        for label in self.labels():
            if label is None or isinstance(label, str):
                yield label
            else:
                yield from label

    def with_alternatives(self, separator: str | None, path: object) -> SequenceFile:
        """With labels that contain `separator` as sets of possible labels; the same file if there is none."""
        if separator is None:
            return self
        if not separator:
            raise InputError("--alternatives must be the text between labels, such as |")
        y = [[_alternatives(label, separator, path) for label in own] for own in self.label_sequences()]
        if not isinstance(self.x, Columns):
            return replace(self, y=y)
        labels: Any = list(chain.from_iterable(y))
        return replace(self, x=replace(self.x, labels=labels))

    def label_sequences(self) -> list[list[Any]]:
        """The labels as one list per sequence."""
        return self.x.label_sequences() if isinstance(self.x, Columns) else self.y or []


def _alternatives(label: Any, separator: str, path: object) -> Any:
    """A label, or the set of those that are written side by side."""
    if not isinstance(label, str) or separator not in label:
        return label
    found = label.split(separator)
    if "" in found:
        raise InputError(
            f"the label {label!r:.60} has nothing on one side of {separator!r} (--alternatives)", path
        )
    return found[0] if len(set(found)) == 1 else frozenset(found)


def read_sequences(path: str, options: DataOptions) -> SequenceFile:
    """Read a whole file, with labels or without.

    Parameters
    ----------
    options : DataOptions
        With format "auto" and no columns for a file seen for the first time; else what training found.
    """
    if isinstance(options.label_column, str):
        raise InputError(f"label column {options.label_column!r} is not a number", path)
    settings = column_settings(options, path)
    text = read_text(path)
    form = options.format
    if form == "auto":
        form = "conll" if settings else detect_format(text)
    options = replace(options, format=form)
    with told_how_it_was_read(form, path):
        data = parse(text, form, path=path, **settings)
        if isinstance(data, Columns):
            _check_columns(data, options, path)
            return SequenceFile(data, None, None, replace(options, n_columns=len(data.columns)), True)
        if isinstance(data, JsonSequences):
            are_tokens = all(isinstance(item, str) for sequence in data.inputs for item in sequence)
            found = replace(options, n_columns=int(are_tokens))
            return SequenceFile(data.inputs, data.labels, None, found, are_tokens)
        return SequenceFile(
            data.feature_sequences(), data.label_sequences(), data.sequence_weights, options, False
        )


def column_settings(options: DataOptions, path: str) -> dict[str, Any]:
    """The options that only columns have; none if all are at their defaults."""
    names = ("separator", "label_column", "comment")
    found = {name: getattr(options, name) for name in names}
    if found == {name: getattr(DataOptions("auto"), name) for name in names}:
        return {}
    if options.format not in ("auto", "conll"):
        raise InputError(
            f"separator, label column and comment belong to columns, not {options.format!r}", path
        )
    return found


def _check_columns(data: Columns, options: DataOptions, path: object) -> None:
    if options.n_columns and len(data.columns) != options.n_columns:
        known = f"the model was trained on {options.n_columns} and a label"
        raise InputError(f"{len(data.columns)} columns and a label; {known}", path)


def check_label_column(data: SequenceFile, path: str) -> None:
    """Raise if the labels look like words: training would need weights for all pairs of them."""
    columns = data.x
    if not isinstance(columns, Columns) or not columns.labels:
        return
    n_labels = len(set(data.every_label()))
    if n_labels <= _MANY_LABELS or columns.n_tokens >= _FEWEST_TOKENS * n_labels:
        return
    place = int(data.options.label_column) % (len(columns.columns) + 1)
    sizes = [(len(set(own)), i + (i >= place)) for i, own in enumerate(columns.columns)]
    fewest, other = min(((n, i) for n, i in sizes if n > 1), default=(n_labels, place))
    hint = f"; column {other} has {fewest:,}: --label-column {other}" if fewest < n_labels / 10 else ""
    words = f"column {place} has {n_labels:,} different labels in {columns.n_tokens:,} tokens"
    raise InputError(f"{words}, so it does not hold labels (columns are counted from 0){hint}", path)


@dataclass
class PredictionBatch:
    """Some sequences of a stream, and how predictions are written next to them.

    Attributes
    ----------
    x : Columns or list of sequences
    tokens : list of list
        The tokens as JSON output shows them.
    source : StreamBatch or None
        The lines of columns.
    others : list of dict
        The other entries of each JSON line.
    """

    x: Any
    tokens: list[list[Any]]
    source: Any
    format: str
    others: list[dict[str, Any]] = field(default_factory=list)

    def write(self, handle: Any, columns: Sequence[Sequence[Sequence[str | None]]]) -> None:
        """Write the text with columns appended; ``columns[c][i][t]`` belongs to token t of sequence i.

        None is left out: its row is shorter. Tagged text has room for one: where there are more, it is written as
        columns with tabs.
        """
        flat = [[value for sequence in column for value in sequence] for column in columns]
        if self.format == "conll":
            write_predictions(handle, self.source, *flat)
            return
        lines: list[str] = []
        rows = [tuple(value for value in row if value is not None) for row in zip(*flat, strict=True)]
        place = 0
        for sequence in self.tokens:
            here = rows[place : place + len(sequence)]
            place += len(sequence)
            if self.format == "tagged" and len(columns) == 1:
                pairs = zip(sequence, here, strict=True)
                lines.append(" ".join(as_tagged(word, label) for word, (label,) in pairs) + "\n")
            else:
                if self.format == "tagged":
                    here = [(word, *row) for word, row in zip(sequence, here, strict=True)]
                lines.extend("\t".join(row) + "\n" for row in here)
                lines.append("\n")
        write_text(handle, "".join(lines))


def stream_predictions(path: str, options: DataOptions) -> Iterator[PredictionBatch]:
    """Read a file, or standard input for "-", in batches of whole sequences."""
    with open_binary(path) as source:
        handle, options = settled(source, path, options, is_columns=path == "-")
        with told_how_it_was_read(options.format, path):
            if options.format == "conll":
                yield from _conll_batches(handle, path, options)
            else:
                yield from parsed_blocks(handle, options.format, path, _BATCHES[options.format])


def stream_text(path: str, splitter: Splitter) -> Iterator[PredictionBatch]:
    """Read running text in batches of whole sentences.

    Each has its text, the place of its first character in the whole text, and the places of its tokens in its own.
    """
    first = number = 0
    with open_binary(path) as handle:
        for block in whole_lines(handle, _AT_ONCE, path):
            text = decode(block, path, number + 1)
            number += block.count(b"\n")
            sentences = splitter.sentences(text)
            tokens = [[token.text for token in sentence] for sentence in sentences]
            others = [
                {
                    "text": text[begin : sentence[-1].end],
                    "start": first + begin,
                    "offsets": [[token.start - begin, token.end - begin] for token in sentence],
                }
                for sentence in sentences
                for begin in [sentence[0].start]
            ]
            yield PredictionBatch(tokens, tokens, None, "jsonl", others)
            first += len(text)


@contextmanager
def told_how_it_was_read(form: str, path: object) -> Iterator[None]:
    """Errors in lines of text name the format, which was detected or is that of the training data."""
    try:
        yield
    except InputError as error:
        if error.line is None:
            raise
        raise InputError(
            f"{error.message} (read as {form}; --format chooses another)", path, error.line
        ) from None


def parsed_blocks(handle: Any, form: str, path: str, parse_block: Callable[[str], Any]) -> Iterator[Any]:
    """Parse a stream in blocks of whole lines, or of whole sequences if these are separated by blank lines."""
    number, cut = 1, whole_sequences if form == "crfsuite" else whole_lines
    for block in cut(handle, _AT_ONCE, path):
        text = unix_newlines(decode(block, path, number).removeprefix("\ufeff"))
        if text.strip():
            with lines_from(number, path):
                parsed = parse_block(text)
            yield parsed
        number += block.count(b"\n")


def settled(source: Any, path: str, options: DataOptions, is_columns: bool) -> tuple[Any, DataOptions]:
    """A stream from its beginning, and the format, which is detected by its first bytes if it is not known.

    Parameters
    ----------
    is_columns : bool
        Whether it holds columns, whatever it looks like.
    """
    if options.format != "auto":
        return source, options
    if is_columns:
        return source, replace(options, format="conll")
    with readable(path):
        head = source.read(_LOOKED_AT)
    # The last line may have been cut within a letter.
    whole = head if len(head) < _LOOKED_AT else head[: head.rfind(b"\n") + 1]
    form = detect_format(unix_newlines(decode(whole, path).removeprefix("\ufeff")))
    return io.BufferedReader(_Rejoined(head, source)), replace(options, format=form)


class _Rejoined(io.RawIOBase):
    """The bytes that were read already, and then the rest."""

    def __init__(self, head: bytes, rest: Any):
        self._head, self._rest = io.BytesIO(head), rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._head.read(len(buffer)) or getattr(self._rest, "read1", self._rest.read)(len(buffer))
        buffer[: len(data)] = data
        return len(data)


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
    """One sentence a line, with or without tags."""
    sequences = words_of_lines(text)
    return PredictionBatch(sequences, sequences, None, "tagged")


def _json_batch(text: str) -> PredictionBatch:
    data = parse_jsonl(text)
    return PredictionBatch(data.inputs, data.inputs, None, "jsonl", data.others)


def _crfsuite_batch(text: str) -> PredictionBatch:
    sequences = parse_crfsuite(text).feature_sequences()
    return PredictionBatch(sequences, sequences, None, "crfsuite")


_BATCHES = {"tagged": _tagged_batch, "jsonl": _json_batch, "crfsuite": _crfsuite_batch}


@contextmanager
def lines_from(number: int, path: str) -> Iterator[None]:
    """Errors of a parser that sees only a part of the file name the line in the whole file."""
    try:
        yield
    except InputError as error:
        raise InputError(str(error), path, (error.line or 1) + number - 1) from None


def check_kind(estimator: Any, x: Any, path: object) -> None:
    """Raise if the model was trained on data of another kind; the message says what the model needs."""
    kind = estimator._encoder.kind
    if kind == "matrix":
        raise InputError("this model labels matrices of numbers; it can only be used from Python", path)
    first = None if isinstance(x, Columns) else next((item for sequence in x for item in sequence), None)
    is_columns = isinstance(x, Columns) or isinstance(first, str)
    if kind == "columns" and not is_columns and first is not None:
        raise InputError("the model makes its features by a template; this file has ready-made ones", path)
    if kind == "attributes" and is_columns:
        raise InputError("the model was trained on ready-made features; this file has strings", path)
