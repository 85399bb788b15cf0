"""Labelled sequences for `partwise encode`: batches of a file that is never held whole."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from partwise.data import FORMATS, decode, detect_format, open_binary, readable, unix_newlines
from partwise.data.conll import Columns, stream_sequences, whole_lines, whole_sequences
from partwise.data.crfsuite_format import parse_crfsuite
from partwise.data.jsonl import parse_jsonl
from partwise.data.tagged import parse_tagged
from partwise.errors import InputError
from partwise.tasks.data_options import DataOptions
from partwise.tasks.sequences.encoding import SequenceBatch
from partwise.tasks.sequences.reading import lines_from, told_how_it_was_read

_LOOKED_AT = 1 << 18  # bytes, to tell the format by
_LINES, _SEQUENCES = 2000, 2000  # of a batch


class LabelledStream:
    """A file of labelled sequences.

    Attributes
    ----------
    options : DataOptions
        As the file turned out to be, once it was read.
    """

    def __init__(self, path: str, options: DataOptions):
        if options.format not in ("auto", *FORMATS):
            raise InputError(f"format {options.format!r} is not one of auto, {', '.join(FORMATS)}", path)
        self.path, self.options = path, options
        defaults = DataOptions(options.format)
        has_settings = replace(options, n_columns=0) != defaults
        if has_settings and options.format not in ("auto", "conll"):
            raise InputError(
                f"separator, label column and comment belong to columns, not {options.format!r}", path
            )
        self._is_columns = has_settings

    def __iter__(self) -> Iterator[SequenceBatch]:
        """Batches of whole sequences, none of them empty."""
        with open_binary(self.path) as source:
            handle = self._settled(source)
            with told_how_it_was_read(self.options.format, self.path):
                for batch in self._batches(handle):
                    if len(batch.lengths):
                        self.options = replace(
                            self.options, n_columns=len(batch.x) if batch.is_columns else 0
                        )
                        yield batch

    def _settled(self, source: Any) -> Any:
        """What to read on from, once the format is known."""
        if self.options.format != "auto":
            return source
        with readable(self.path):
            head = source.read(_LOOKED_AT)
        form = "conll"
        if not self._is_columns:
            # The last line may have been cut within a letter.
            whole = head if len(head) < _LOOKED_AT else head[: head.rfind(b"\n") + 1]
            form = detect_format(unix_newlines(decode(whole, self.path).removeprefix("\ufeff")))
        self.options = replace(self.options, format=form)
        return io.BufferedReader(_Rejoined(head, source))

    def _batches(self, handle: Any) -> Iterator[SequenceBatch]:
        form, path = self.options.format, self.path
        if form == "conll":
            own = self.options
            settings = {"separator": own.separator, "label_column": own.label_column, "comment": own.comment}
            for batch in stream_sequences(handle, path=path, batch_size=_SEQUENCES, **settings):  # type: ignore[arg-type]
                yield _of_columns(batch.columns)
            return
        number = 1
        cut = whole_sequences if form == "crfsuite" else whole_lines
        for block in cut(handle, _SEQUENCES if form == "crfsuite" else _LINES, path):
            text = unix_newlines(decode(block, path, number).removeprefix("\ufeff"))
            if text.strip():
                with lines_from(number, path):
                    yield _PARSERS[form](text)
            number += block.count(b"\n")


class _Rejoined(io.RawIOBase):
    """What was read already, and then the rest."""

    def __init__(self, head: bytes, rest: Any):
        self._head, self._rest = io.BytesIO(head), rest

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._head.read(len(buffer)) or getattr(self._rest, "read1", self._rest.read)(len(buffer))
        buffer[: len(data)] = data
        return len(data)


def _of_columns(data: Columns) -> SequenceBatch:
    assert data.labels is not None or not data.n_tokens
    return SequenceBatch(list(data.columns), True, data.labels or [], data.lengths)


def _of_json(text: str) -> SequenceBatch:
    found = parse_jsonl(text)
    labels = found.labels or [[None] * len(each) for each in found.inputs]
    if any(label is None for each in labels for label in each):
        raise InputError("a label is missing; data with unobserved labels are trained on in memory")
    kept = [k for k, each in enumerate(found.inputs) if len(each)]
    inputs: list[Any] = [found.inputs[k] for k in kept]
    flat = [str(label) for k in kept for label in labels[k]]
    lengths = np.array([len(each) for each in inputs], np.int64)
    if all(isinstance(item, str) for sequence in inputs for item in sequence):
        return SequenceBatch([list(chain.from_iterable(inputs))], True, flat, lengths)
    return SequenceBatch(inputs, False, flat, lengths)


def _of_crfsuite(text: str) -> SequenceBatch:
    items = parse_crfsuite(text)
    sequences, weights = items.feature_sequences(), items.sequence_weights
    lengths = np.array([len(each) for each in sequences], np.int64)
    return SequenceBatch(sequences, False, list(items.labels), lengths, weights)


_PARSERS = {
    "tagged": lambda text: _of_columns(parse_tagged(text)),
    "jsonl": _of_json,
    "crfsuite": _of_crfsuite,
}
