"""Labelled sequences for `partwise encode`, read in batches: the file is never held in memory as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from partwise.data import open_binary
from partwise.data.conll import Columns, stream_sequences
from partwise.data.crfsuite_format import parse_crfsuite
from partwise.data.jsonl import parse_jsonl
from partwise.data.tagged import parse_tagged
from partwise.errors import InputError
from partwise.tasks.options import DataOptions
from partwise.tasks.sequences.encoding import SequenceBatch
from partwise.tasks.sequences.reading import column_settings, parsed_blocks, settled, told_how_it_was_read


class LabelledStream:
    """A file of labelled sequences.

    Attributes
    ----------
    options : DataOptions
        How the file was read, once it was.
    """

    def __init__(self, path: str, options: DataOptions):
        self.path, self.options = path, options
        self._is_columns = bool(column_settings(options, path))  # which only columns have

    def __iter__(self) -> Iterator[SequenceBatch]:
        """Batches of whole sequences, none of them empty."""
        with open_binary(self.path) as source:
            handle, self.options = settled(source, self.path, self.options, self._is_columns)
            with told_how_it_was_read(self.options.format, self.path):
                for batch in self._batches(handle):
                    if len(batch.lengths):
                        self.options = replace(
                            self.options, n_columns=len(batch.x) if batch.is_columns else 0
                        )
                        yield batch

    def _batches(self, handle: Any) -> Iterator[SequenceBatch]:
        own, path = self.options, self.path
        if own.format != "conll":
            yield from parsed_blocks(handle, own.format, path, _PARSERS[own.format])
            return
        for batch in stream_sequences(
            handle,
            path=path,
            separator=own.separator,
            label_column=own.label_column,  # type: ignore[arg-type]
            comment=own.comment,
        ):
            yield _of_columns(batch.columns)


def _of_columns(data: Columns) -> SequenceBatch:
    assert data.labels is not None or not data.n_tokens
    return SequenceBatch(list(data.columns), True, data.labels or [], data.lengths)


def _of_json(text: str) -> SequenceBatch:
    found = parse_jsonl(text)
    labels = found.labels or [[None] * len(each) for each in found.inputs]
    if not all(isinstance(label, str) for each in labels for label in each):
        raise InputError(
            "a label is missing, or there are several; data with unobserved labels are trained on in memory"
        )
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
