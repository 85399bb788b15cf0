"""Numeric input, dense or sparse: one matrix, or one (length, d) matrix per sequence, to rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from partwise.core.arrays import offsets
from partwise.core.rows import AttributeRows
from partwise.data.frames import is_frame, is_numeric
from partwise.errors import InputError
from partwise.estimators.checks import checked_csr, is_sparse, refuse_masked
from partwise.estimators.encoded import Encoded, KindSize, ListedNames, OwnRows
from partwise.storage.checks import expect_number, expect_text, expect_texts

DENSE_ABOVE = 0.5  # share of nonzeros from which dense loops beat sparse ones


def looks_like_matrix(X: Any) -> bool:
    """Whether the first token, or the first sequence as a whole, is numeric."""
    if hasattr(X, "dtype"):
        return X.dtype.kind in "biufc"
    for sequence in X:
        if is_frame(sequence):
            return all(is_numeric(each) for each in X if is_frame(each))
        if is_sparse(sequence):
            return True
        if isinstance(sequence, np.ndarray) and sequence.dtype != object:
            return sequence.dtype.kind in "biufcmM"
        for token in sequence:
            first = next(iter(token), None) if isinstance(token, (list, tuple, np.ndarray)) else token
            return isinstance(first, (int, float, complex, np.number))
    return False


class MatrixEncoder(ListedNames):
    """Sequences given as (length, d) matrices; columns are attributes, dense or sparse as the data is."""

    kind = "matrix"
    tied = True

    def __init__(self) -> None:
        self.n_columns = 0
        self.storage = "dense"
        self.column_names: list[str] | None = None

    @property
    def n_dense(self) -> int:
        return self.n_columns if self.storage == "dense" else 0

    @property
    def n_attributes(self) -> int:
        return 0 if self.storage == "dense" else self.n_columns

    def fit_transform(self, X: Any, min_count: int = 1, hash_size: int | None = None) -> Encoded:
        if hash_size is not None or min_count != 1:
            raise InputError("min_count and hash_size are for named attributes; X is numeric")
        matrix, lengths = stack(X)
        self.n_columns = matrix.shape[1]
        self.storage = storage_for(matrix)
        self.column_names = _column_names(X)
        return self._encoded(matrix, lengths)

    def transform(self, X: Any) -> Encoded:
        matrix, lengths = stack(X)
        if not lengths.sum():
            matrix = np.zeros((0, self.n_columns))
        if matrix.shape[1] != self.n_columns:
            raise InputError(f"X has {matrix.shape[1]} features, but training had {self.n_columns}")
        return self._encoded(matrix, lengths)

    def _encoded(self, matrix: Any, lengths: np.ndarray) -> Encoded:
        rows, dense = split_storage(matrix, self.storage)
        return Encoded(lengths, (OwnRows(rows, dense),))

    def names(self, kind: str = "node") -> list[str]:
        return self.column_names or [f"x{k}" for k in range(self.n_columns)]

    @property
    def sizes(self) -> tuple[KindSize, ...]:
        return (KindSize(self.n_dense, self.n_attributes),)

    def keep(self, used: list[np.ndarray]) -> tuple[MatrixEncoder, list[np.ndarray]]:
        """All columns stay."""
        return self, [np.arange(self.n_attributes)]

    def state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        names = self.column_names
        return {"n_columns": self.n_columns, "storage": self.storage, "column_names": names or []}, {}

    @classmethod
    def from_state(cls, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> MatrixEncoder:
        encoder = cls()
        encoder.n_columns = expect_number(header, "n_columns", 0, 2**31 - 1, whole=True)
        encoder.storage = expect_text(header, "storage", ("dense", "sparse"))
        names = expect_texts(header, "column_names")
        if names and len(names) != encoder.n_columns:
            raise InputError("the column names do not fit the number of columns")
        encoder.column_names = names or None
        return encoder


def stack(X: Any) -> tuple[Any, np.ndarray]:
    """All positions in one matrix (float64, or CSR), and the lengths of the sequences."""
    if hasattr(X, "ndim") and (X.ndim != 3 or is_sparse(X)):
        raise InputError(
            f"X has shape {X.shape}; a sequence labeler reads one (length, d) matrix per sequence: "
            "put a single sequence into a list, [X]"
        )
    matrices = [_as_matrix(each, i) for i, each in enumerate(X)]
    lengths = np.array([each.shape[0] for each in matrices], np.int64)
    matrices = [each for each in matrices if each.shape[0]]
    if not matrices:
        return np.zeros((0, 0)), lengths
    width = matrices[0].shape[1]
    for i, each in enumerate(matrices):
        if each.shape[1] != width:
            raise InputError(
                f"X: a sequence has {each.shape[1]} columns, but the first one has {width} (matrix {i})"
            )
    if any(map(is_sparse, matrices)):
        from scipy import sparse

        matrix = sparse.vstack(matrices, format="csr")
        check_finite(matrix.data, "X")
        return matrix, lengths
    matrix = np.concatenate(matrices)
    check_finite(matrix, "X")
    return matrix, lengths


def check_finite(values: np.ndarray, name: str) -> None:
    """Raise at NaN, infinity, and what is too large for single precision."""
    if not np.isfinite(values).all():
        raise InputError(f"Input {name} contains NaN or infinity")
    if values.size and max(-values.min(), values.max()) > np.finfo(np.float32).max:
        raise InputError(f"Input {name} contains a value too large for dtype('float32')")


def storage_for(matrix: Any) -> str:
    """Dense loops or sparse ones, whichever this matrix is better off with."""
    if is_sparse(matrix):
        return "sparse"
    n_nonzero = np.count_nonzero(matrix)
    return "dense" if n_nonzero > DENSE_ABOVE * matrix.size else "sparse"


def split_storage(matrix: Any, storage: str) -> tuple[AttributeRows | None, np.ndarray | None]:
    """The matrix as sparse rows or as a dense float32 array; the other is None."""
    if storage == "dense":
        dense = matrix.toarray() if is_sparse(matrix) else matrix
        return None, np.ascontiguousarray(dense, np.float32)
    if not is_sparse(matrix):
        row, column = np.nonzero(matrix)
        row_ptr = offsets(np.bincount(row, minlength=len(matrix)))
        return AttributeRows(row_ptr, column.astype(np.int32), matrix[row, column].astype(np.float64)), None
    compressed = matrix.tocsr()
    if not compressed.has_canonical_format:
        compressed = compressed.copy() if compressed is matrix else compressed
        compressed.sum_duplicates()
    values = compressed.data.astype(np.float64)
    ids = compressed.indices.astype(np.int32)
    return AttributeRows(compressed.indptr.astype(np.int64), ids, values), None


def _as_matrix(sequence: Any, i: int) -> Any:
    if is_sparse(sequence):
        return checked_csr(sequence, f"X[{i}]").astype(np.float64)
    refuse_masked(sequence, f"X[{i}]")
    try:
        array = np.asarray(sequence)
        is_text = array.dtype == object and any(isinstance(each, (str, bytes)) for each in array.flat)
        if array.dtype.kind not in "biufO" or is_text:
            raise TypeError  # NumPy would read strings, dates and the real part of complex numbers
        array = array.astype(np.float64, copy=False)
    except (TypeError, ValueError, OverflowError):
        raise InputError(
            f"X[{i}] is {sequence!r:.60}; it must be a (length, d) matrix of real numbers"
        ) from None
    if array.ndim == 1 and array.size == 0:
        return array.reshape(0, 0)
    if array.ndim != 2:
        raise InputError(f"X[{i}] has shape {array.shape}; each sequence must be a (length, d) matrix")
    return array


def _column_names(X: Any) -> list[str] | None:
    """Names of the first data frame's columns, if they are strings."""
    if hasattr(X, "ndim"):
        return None
    names = getattr(next(iter(X), None), "columns", None)
    if names is None or not all(isinstance(name, str) for name in names):
        return None
    return [str(name) for name in names]
