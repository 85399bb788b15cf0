"""Labelled sequences in batches, encoded to a folder without ever holding all of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from partwise.core.arrays import after_the_first
from partwise.core.rows import AttributeRows
from partwise.errors import InputError
from partwise.estimators.encoders import AttributeEncoder, ColumnEncoder, encoder_state, read_template
from partwise.estimators.on_disk.rows import map_arrays, placed, told, write_rows
from partwise.features.streamed import (
    InternedStrings,
    StreamedAttributes,
    StreamedColumns,
    StreamedExtractor,
    Tell,
)
from partwise.storage.folder import FolderWriter, writing_folder


class SequenceBatch(NamedTuple):
    """Some labelled sequences, none of them empty.

    Attributes
    ----------
    x : list of list of str, or list of sequences
        Columns, each flat over all tokens; or sequences of ready-made attributes.
    is_columns : bool
        Which of them.
    labels : list of str, length lengths.sum()
    lengths : int64 array, shape (n,)
    weights : float64 array, shape (n,), or None
    """

    x: list[Any]
    is_columns: bool
    labels: list[str]
    lengths: np.ndarray
    weights: np.ndarray | None = None


class Written(NamedTuple):
    """What was encoded."""

    n_examples: int
    n_positions: int
    n_labels: int
    n_attributes: int
    n_weights: int
    template: str | None


def encode_sequences(
    batches: Iterable[SequenceBatch],
    path: str | os.PathLike[str],
    choose_template: Callable[[Mapping[str, int], int], str],
    parameters: Mapping[str, Any],
    header: Callable[[], Mapping[str, Any]],
    tell: Tell,
) -> Written:
    """Encode sequences to the folder `path`, whole or not at all.

    Parameters
    ----------
    choose_template : callable
        Names a template from how often each label occurs and the number of columns.
    parameters : dict
        `min_count`, `hash_size` and `pairs`, as of a `SequenceLabeler`.
    header : callable
        Called at the end, for more entries of the header.
    tell : callable
        Hears what is done, and at how many positions.
    """
    with writing_folder(path) as writer:
        corpus = _Corpus(writer.scratch())
        for batch in batches:
            corpus.add(batch)
            tell("reading", corpus.n_positions)
        corpus.check()
        template = None
        if isinstance(corpus.data, StreamedColumns):
            template = choose_template(corpus.label_counts(), len(corpus.data.columns))
        source = _learnt(corpus, template, parameters, tell)
        n_weights, arrays = _write(writer, corpus, source, parameters["pairs"], tell)
        encoder, encoder_arrays = encoder_state(source.encoder)
        arrays |= encoder_arrays
        corpus.close()
        own = {
            "task": "sequence",
            "parameters": {"template": template, **parameters},
            "labels": corpus.names(),
            "encoder": encoder,
            "n_examples": len(corpus.lengths),
        }
        writer.finish({**header(), **own}, arrays)
    sizes = len(corpus.lengths), corpus.n_positions, len(corpus.names()), source.encoder.n_attributes
    return Written(*sizes, n_weights, template)


class _Corpus:
    """All that was read: attributes or columns, labels, weights."""

    data: StreamedColumns | StreamedAttributes

    def __init__(self, scratch: Path):
        self.scratch, self.n_positions = scratch, 0
        self._labels = InternedStrings(scratch / "labels")
        self._counts = np.zeros(0, np.int64)
        self._weights: list[np.ndarray] = []
        self._has_weights = False

    def add(self, batch: SequenceBatch) -> None:
        if not hasattr(self, "data"):
            if batch.is_columns:
                self.data = StreamedColumns(self.scratch, len(batch.x))
            else:
                self.data = StreamedAttributes(self.scratch)
        if batch.is_columns != isinstance(self.data, StreamedColumns):
            raise InputError("some sequences are of strings, others of ready-made attributes")
        self.data.add(batch.x, batch.lengths)
        self._labels.add(batch.labels)
        self.n_positions += len(batch.labels)
        self._has_weights |= batch.weights is not None
        self._weights.append(np.ones(len(batch.lengths)) if batch.weights is None else batch.weights)

    def check(self) -> None:
        if not self.n_positions:
            raise InputError("there are no positions to train on")
        if (weights := self.weights()) is not None and not weights.any():
            raise InputError("the weights of all sequences are zero")

    @property
    def lengths(self) -> np.ndarray:
        return self.data.batches.lengths()

    def weights(self) -> np.ndarray | None:
        return np.concatenate(self._weights) if self._has_weights else None

    def names(self) -> list[str]:
        """The labels in the order of their numbers."""
        return sorted(self._labels.strings())

    def codes(self) -> Iterator[np.ndarray]:
        """The number of the label of each position, batch after batch."""
        place = {name: k for k, name in enumerate(self.names())}
        renumbered = np.array([place[name] for name in self._labels.strings()], np.int32)
        for first, last, _ in self.data.batches:
            yield renumbered[self._labels.numbers.read(first, last)]

    def label_counts(self) -> dict[str, int]:
        counts = np.zeros(len(self.names()), np.int64)
        for codes in self.codes():
            counts += np.bincount(codes, minlength=len(counts))
        return dict(zip(self.names(), counts.tolist(), strict=True))

    def close(self) -> None:
        self.data.close()
        self._labels.numbers.close()


class _Source:
    """An encoder, and the rows of each kind batch by batch."""

    def __init__(self, encoder: Any, node: Any, edge: StreamedExtractor | None = None):
        self.encoder, self._node, self._edge = encoder, node, edge

    def rows(self, kind: str) -> Iterator[AttributeRows]:
        if kind == "node" or self._edge is None:
            yield from self._node.rows()
            return
        for rows in self._edge.rows():
            (own,) = self.encoder.edge_rows(rows)
            yield own.sparse


def _learnt(corpus: _Corpus, template: str | None, parameters: Mapping[str, Any], tell: Tell) -> _Source:
    """The vocabulary of all that was read."""
    min_count, hash_size = parameters["min_count"], parameters["hash_size"]
    if isinstance(corpus.data, StreamedAttributes):
        corpus.data.learn(min_count, hash_size)
        return _Source(AttributeEncoder(corpus.data.vocabulary), corpus.data)
    encoder = ColumnEncoder(read_template(template))
    streams = [
        StreamedExtractor(each, corpus.data) for each in (encoder.node, encoder.edge) if each is not None
    ]
    for stream in streams:
        stream.learn(min_count, hash_size, tell)
    return _Source(encoder, *streams)


def _write(
    writer: FolderWriter, corpus: _Corpus, source: _Source, pairs: Any, tell: Tell
) -> tuple[int, dict[str, np.ndarray]]:
    """Labels and rows; returns the number of weights, and the arrays that are to be written at the end."""
    label_file, n_labels = writer.array("labels", np.int32), len(corpus.names())
    for codes in corpus.codes():
        label_file.write(codes)
    arrays: dict[str, np.ndarray] = {"lengths": corpus.lengths}
    if (weights := corpus.weights()) is not None:
        arrays["weights"] = weights
    n_weights = 0
    for kind, width, n_attributes in _kinds(source.encoder, n_labels):
        always = None
        if kind == "edge" and source.encoder.always:
            always = (n_attributes - 1) * width + np.arange(width)
        labelled = partial(_labelled_rows, corpus, source, kind, n_labels, tell)
        feature_map = placed(n_attributes, width, pairs, labelled, always)
        n_weights += feature_map.n_weights
        arrays |= map_arrays(kind, feature_map)
        write_rows(writer, kind, feature_map, told(source.rows(kind), f"writing {kind}s", tell))
    return n_weights, arrays


def _kinds(encoder: Any, n_labels: int) -> Iterator[tuple[str, int, int]]:
    """Name, width and number of attributes of each kind of rows."""
    yield "node", n_labels, encoder.n_attributes
    if not encoder.tied:
        yield "edge", n_labels**2, encoder.n_edge_attributes


def _labelled_rows(
    corpus: _Corpus, source: _Source, kind: str, n_labels: int, tell: Tell
) -> Iterator[tuple[AttributeRows, np.ndarray]]:
    """The rows of a kind with their labels, batch after batch."""
    rows = told(source.rows(kind), f"placing weights of {kind}s", tell)
    for each, codes, (_, _, lengths) in zip(rows, corpus.codes(), corpus.data.batches, strict=True):
        yield each, codes if kind == "node" else _edge_labels(codes, lengths, n_labels)


def _edge_labels(codes: np.ndarray, lengths: np.ndarray, n_labels: int) -> np.ndarray:
    """The pair of labels of every two neighbours."""
    at = after_the_first(lengths)
    return codes[at - 1].astype(np.int64) * n_labels + codes[at]
