"""Rows of numbers with their classes in batches, encoded to a folder without ever holding all of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from partwise.core.maps import FeatureMap, Pairs
from partwise.core.rows import AttributeRows
from partwise.errors import InputError
from partwise.estimators.checks import is_sparse
from partwise.estimators.matrices import DENSE_ABOVE, check_finite, split_storage
from partwise.estimators.on_disk.rows import map_arrays, placed, told, write_dense_rows, write_rows
from partwise.features.streamed import InternedStrings, NumberFile, RowFile, Tell
from partwise.storage.folder import FolderWriter, writing_folder
from partwise.tasks.classes.data import is_ordered, merged, with_always_on


class ClassBatch(NamedTuple):
    """Some rows, at least one.

    Attributes
    ----------
    x : float64 array or CSR matrix, shape (n, d)
        All batches are of one kind; those that are sparse may have different numbers of columns.
    labels : list of str, int or bool, length n
    """

    x: Any
    labels: list[Any]


class WrittenClasses(NamedTuple):
    """What was encoded."""

    n_examples: int
    n_labels: int
    n_features: int
    n_weights: int
    storage: str


def encode_classes(
    batches: Iterable[ClassBatch],
    path: str | os.PathLike[str],
    pairs: Pairs,
    read_labels: Callable[[list[Any]], list[Any]],
    header: Callable[[], Mapping[str, Any]],
    tell: Tell,
) -> WrittenClasses:
    """Encode rows to the folder `path`, whole or not at all, for a classifier with intercepts.

    Parameters
    ----------
    pairs : {"all", "observed"}
        As of a `Classifier`.
    read_labels : callable
        The classes that distinct labels stand for; several may stand for one.
    header : callable
        Called at the end, for more entries of the header.
    tell : callable
        Hears what is done, and at how many rows.
    """
    with writing_folder(path) as writer:
        corpus = _Corpus(writer.scratch())
        for batch in batches:
            corpus.add(batch)
            tell("reading rows", corpus.n_examples)
        if not corpus.n_examples:
            raise InputError("there are no rows to train on")
        source, weights = corpus.source(read_labels)
        labels = writer.array("labels", np.int32)
        for codes in source.codes():
            labels.write(codes)
        feature_map = _write_rows(writer, source, pairs, tell)
        corpus.close()
        own = {
            "task": "classify",
            "parameters": {"fit_intercept": True, "pairs": pairs},
            "labels": source.classes,
            "n_examples": labels.n,
            "n_features": source.n_features,
            "storage": source.storage,
        }
        arrays = map_arrays("node", feature_map) | ({} if weights is None else {"weights": weights})
        writer.finish({**header(), **own}, arrays)
    sizes = labels.n, len(source.classes), source.n_features, feature_map.n_weights
    return WrittenClasses(*sizes, source.storage)


class _Source(NamedTuple):
    """All rows, as training in memory would order them.

    Attributes
    ----------
    classes : list
        In the order of their numbers.
    storage : {"dense", "sparse"}
    matrices : callable
        Gives float64 arrays (n, n_features), or sparse rows.
    codes : callable
        Gives the numbers of the classes of each.
    """

    classes: list[Any]
    n_features: int
    storage: str
    matrices: Callable[[], Iterable[Any]]
    codes: Callable[[], Iterable[np.ndarray]]

    def dense(self) -> Iterator[np.ndarray]:
        """Rows with the attribute that all have, float32."""
        for matrix in self.matrices():
            _, dense = with_always_on(None, split_storage(matrix, "dense")[1], self.n_features)
            assert dense is not None
            yield dense

    def sparse(self) -> Iterator[AttributeRows]:
        for matrix in self.matrices():
            own = matrix if isinstance(matrix, AttributeRows) else split_storage(matrix, "sparse")[0]
            rows, _ = with_always_on(own, None, self.n_features)
            assert rows is not None
            yield rows


class _Corpus:
    """All that was read: rows in files of numbers, sparse or dense, and labels."""

    def __init__(self, scratch: Path):
        self._labels = InternedStrings(scratch / "labels")
        self._sparse, self._dense = RowFile(scratch), NumberFile(scratch / "dense", np.float64)
        self._ends = [0]
        self._is_sparse, self.n_features, self._n_nonzero = True, 0, 0

    @property
    def n_examples(self) -> int:
        return self._ends[-1]

    def add(self, batch: ClassBatch) -> None:
        self._is_sparse = is_sparse(batch.x)
        check_finite(batch.x.data if self._is_sparse else batch.x, "X")
        if self._is_sparse:
            rows, _ = split_storage(batch.x, "sparse")
            assert rows is not None
            self._sparse.append(rows)
        else:
            self._dense.append(batch.x.reshape(-1))
            self._n_nonzero += int(np.count_nonzero(batch.x))
        self._labels.add(batch.labels)
        self.n_features = max(self.n_features, batch.x.shape[1])
        self._ends.append(self._ends[-1] + batch.x.shape[0])

    def source(self, read_labels: Callable[[list[Any]], list[Any]]) -> tuple[_Source, np.ndarray | None]:
        """The rows, and their weights if not all of them are 1: small data are merged as in memory."""
        found = read_labels(self._labels.strings())
        classes = sorted(set(found))
        number = {each: k for k, each in enumerate(classes)}
        renumbered = np.array([number[each] for each in found], np.int32)

        def codes() -> Iterator[np.ndarray]:
            for first, last in pairwise(self._ends):
                yield renumbered[self._labels.numbers.read(first, last)]

        if not is_ordered(self.n_examples, self.n_features):
            return self._of(classes, self._n_nonzero, self.n_examples, self._matrices, codes), None
        own = np.concatenate(list(codes())).astype(np.int64)
        X, table, weights = merged(self._whole(), own[:, None], np.ones(self.n_examples))
        n_nonzero = 0 if self._is_sparse else int(np.count_nonzero(X))
        source = self._of(classes, n_nonzero, len(weights), lambda: [X], lambda: [table[:, 0]])
        return source, None if (weights == 1.0).all() else weights

    def _of(self, classes: list[Any], n_nonzero: int, n_rows: int, matrices: Any, codes: Any) -> _Source:
        is_dense = n_nonzero > DENSE_ABOVE * n_rows * self.n_features
        return _Source(classes, self.n_features, "dense" if is_dense else "sparse", matrices, codes)

    def _matrices(self) -> Iterator[Any]:
        if self._is_sparse:
            yield from self._sparse
            return
        width = self.n_features
        for first, last in pairwise(self._ends):
            yield self._dense.read(first * width, last * width).reshape(-1, width)

    def _whole(self) -> Any:
        if not self._is_sparse:
            return np.concatenate(list(self._matrices()))
        from scipy import sparse

        shape = self.n_features
        rows = [
            sparse.csr_matrix((r.values, r.ids, r.row_ptr), (len(r.row_ptr) - 1, shape)) for r in self._sparse
        ]
        return sparse.vstack(rows, format="csr")

    def close(self) -> None:
        for each in (self._labels.numbers, self._sparse, self._dense):
            each.close()


def _write_rows(writer: FolderWriter, source: _Source, pairs: Pairs, tell: Tell) -> FeatureMap:
    """The rows, and where their weights lie."""
    width, n_attributes = len(source.classes), source.n_features + 1
    if source.storage == "dense":
        feature_map = FeatureMap.build(width, 0, n_attributes)
        write_dense_rows(writer, "node", feature_map, source.dense(), tell)
        return feature_map

    def labelled() -> Iterator[tuple[AttributeRows, np.ndarray]]:
        return zip(told(source.sparse(), "placing weights", tell), source.codes(), strict=True)

    feature_map = placed(n_attributes, width, pairs, labelled)
    write_rows(writer, "node", feature_map, told(source.sparse(), "writing rows", tell))
    return feature_map
