"""Examples and classes as a classifier reads them: checked, weighted, and in an order of their own."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from partwise.core.rows import AttributeRows
from partwise.data.frames import as_dicts, is_frame, is_numeric, is_series
from partwise.errors import InputError
from partwise.estimators.alternatives import NONE, Alternatives
from partwise.estimators.checks import (
    as_checked,
    check_ordered,
    check_targets,
    is_sparse,
    real_numbers,
    refuse_masked,
)
from partwise.estimators.encoded import Encoded
from partwise.estimators.encoders import AttributeEncoder
from partwise.estimators.labels import checked_classes, classes_array, encode_labels, is_label, known_labels
from partwise.estimators.matrices import check_finite
from partwise.features.vocabulary import check_vocabulary_settings
from partwise.storage.checks import expect_number, expect_texts
from partwise.tasks.classes.several import row_name, several_classes, with_repeated

_SORTED_UP_TO = 1_000_000  # numbers; ordering more costs more than it is worth


class MatrixInput:
    """Examples as rows of a matrix, for estimators with `_encoder`, if X came as dicts or lists of strings."""

    _encoder: AttributeEncoder | None
    _known_labels: Any
    coef_: np.ndarray
    n_features_in_: int
    feature_names_in_: np.ndarray

    def _matrix(self, X: Any) -> Any:
        """New examples as a float64 array or CSR matrix (n, n_features)."""
        self._require_fitted()  # type: ignore[attr-defined]
        if self._encoder is not None:
            return as_matrix(read_attributes(self._encoder, X), self.n_features_in_)
        return read_matrix(self, X)

    def _alone(self, x: Any) -> Any:
        """One example as X."""
        is_matrix = hasattr(x, "iloc") or getattr(x, "ndim", 1) == 2
        return x if is_matrix and self._encoder is None else [x]

    def _names(self) -> list[str]:
        """Names of the features."""
        if self._encoder is not None:
            return self._encoder.names()
        names = getattr(self, "feature_names_in_", None)
        return [f"x{k}" for k in range(self.n_features_in_)] if names is None else list(names)

    def top_features(self, n: int = 10, label: Any = None) -> list[tuple[str, Any, float]]:
        """The `n` largest weights by size: (feature, label, weight), of one label if given."""
        self._require_fitted()  # type: ignore[attr-defined]
        labels, names = self._known_labels(), self._names()
        if label is not None and label not in labels:
            raise InputError(f"label {label!r:.60} was not in training{known_labels(labels)}")
        rows = range(len(labels)) if label is None else [labels.index(label)]
        table = self.coef_[list(rows)]
        order = np.argsort(-np.abs(table), axis=None, kind="stable")[:n]
        places = zip(*np.unravel_index(order, table.shape), strict=True)
        return [(names[j], labels[rows[i]], float(table[i, j])) for i, j in places if table[i, j]]

    def _input_state(self) -> dict[str, Any]:
        """Entries of a model file's header."""
        return {
            "n_features": int(self.n_features_in_),
            "feature_names": list(getattr(self, "feature_names_in_", [])),
            "encoder": None if self._encoder is None else self._encoder.state()[0],
        }

    def _set_input_state(self, header: Mapping[str, Any]) -> None:
        self.n_features_in_ = expect_number(header, "n_features", 0, 2**31 - 2, whole=True)
        self._encoder = None
        if header.get("encoder") is not None:
            self._encoder = AttributeEncoder.from_state(header["encoder"], {})
            if self._encoder.n_attributes != self.n_features_in_:
                raise InputError("the vocabulary does not fit the number of weights")
        set_feature_names(self, expect_texts(header, "feature_names"))


def set_feature_names(estimator: Any, names: list[str]) -> None:
    """Names of columns, if a model file has them."""
    if names and len(names) != estimator.n_features_in_:
        raise InputError("the feature names do not fit the number of features")
    if names:
        estimator.feature_names_in_ = np.array(names, object)


def stored_classes(labels: list[Any]) -> np.ndarray:
    """Classes of a model file as training has them: texts as an array of texts."""
    return np.array(labels) if all(isinstance(label, str) for label in labels) else classes_array(labels)


@dataclass(frozen=True)
class ClassData:
    """Examples with their classes.

    Attributes
    ----------
    X : float64 array or CSR matrix, shape (n, d)
    codes : int64 array, shape (n,)
    weights : float64 array, shape (n,)
    classes : array, shape (n_classes,)
    encoder : AttributeEncoder or None
        Where X came as dicts or lists of strings.
    sets : Alternatives
        Examples with a set of possible classes, whose codes are −1.
    """

    X: Any
    codes: np.ndarray
    weights: np.ndarray
    classes: np.ndarray
    encoder: AttributeEncoder | None
    sets: Alternatives = NONE

    @classmethod
    def read(
        cls, estimator: Any, X: Any, y: Any, sample_weight: Any, classes: Any = None, reset: bool = True
    ) -> ClassData:
        """Check everything; examples of weight zero are left out."""
        from sklearn.utils.multiclass import check_classification_targets

        targets, y = several_classes(y)
        if targets is not None and getattr(estimator, "_is_followed", False):
            raise InputError("l2 can be chosen where all classes are known; y has sets or dicts of them")
        X, y, encoder = read_examples(estimator, X, y, reset)
        y = _checked_targets(y)
        if len(y) != X.shape[0]:
            raise InputError(f"y has {len(y)} classes for {X.shape[0]} examples")
        check_classification_targets(y)
        weights = example_weights(sample_weight, X)
        known, codes = np.unique(y, return_inverse=True)
        if classes is not None:
            checked_classes(classes)
            wanted = np.unique(classes)
            if not np.isin(known, wanted).all():
                raise InputError(
                    f"y has the classes {np.setdiff1d(known, wanted)}, which are not among `classes`"
                )
            codes, known = np.searchsorted(wanted, known)[codes], wanted
        codes, sets = codes.astype(np.int64), NONE
        if targets is not None:
            if classes is None:
                known = np.unique([label for label in targets.every_label() if label is not None])
            labels = known.tolist()
            codes = encode_labels(targets.labels, labels, np.ones(len(y), np.int64))
            sets, shares = targets.numbered(labels, row_name)
            X, codes, weights, sets = with_repeated(X, codes, weights, sets, shares)
        kept = weights > 0
        if not kept.all():
            X, codes, weights, sets = X[kept], codes[kept], weights[kept], sets.kept(kept)
        return cls(X, codes, weights, known, encoder, sets)

    def weighted(self, class_weight: Any) -> ClassData:
        """With the weight of every class multiplied in."""
        if class_weight is None:
            return self
        if (self.codes < 0).any():
            raise InputError(
                "class_weight needs all classes, and y has sets of them, or None: use sample_weight"
            )
        counts = np.bincount(self.codes, minlength=len(self.classes))
        factors = class_factors(class_weight, self.classes, counts)
        if not (self.weights * factors[self.codes]).any():
            raise InputError("class_weight leaves no example with a weight above zero")
        return replace(self, weights=self.weights * factors[self.codes])

    def in_order(self) -> ClassData:
        """Equal examples merged and the rest sorted, where that is cheap."""
        if self.sets:
            return self
        X, codes, weights = merged(self.X, self.codes[:, None], self.weights)
        return replace(self, X=X, codes=codes[:, 0], weights=weights)

    def with_more(self, other: ClassData) -> ClassData:
        """Both, one after the other."""
        if self.encoder is not None or other.encoder is not None:
            raise InputError("partial_fit reads matrices only; call fit with all the dicts instead")
        both = [self.X, other.X]
        return replace(
            self,
            X=_stacked_sparse(both) if any(map(is_sparse, both)) else np.concatenate(both),
            codes=np.concatenate([self.codes, other.codes]),
            weights=np.concatenate([self.weights, other.weights]),
            sets=self.sets.with_more(other.sets, len(self.codes)),
        )

    def completed(self) -> np.ndarray:
        """Codes with a possible class in place of those that are not known."""
        codes = self.codes.copy()
        codes[self.sets.at] = self.sets.label[self.sets.ptr[:-1]]
        return np.maximum(codes, 0)


def read_examples(
    estimator: Any, X: Any, y: Any, reset: bool = True, multi_output: bool = False
) -> tuple[Any, Any, AttributeEncoder | None]:
    """Training data checked: X as a float64 array or CSR matrix, y, and the encoder of dicts or lists of strings.

    Parameters
    ----------
    reset : bool
        Whether the estimator learns from X what features there are.
    multi_output : bool
        Whether y may have several columns.
    """
    from sklearn.utils.validation import validate_data

    check_vocabulary_settings(getattr(estimator, "min_count", 1), getattr(estimator, "hash_size", None))
    X = as_examples(X)
    if is_attributes(X):
        return _from_attributes(estimator, X, y, reset)
    check_targets(y, type(estimator).__name__)
    refuse_masked(y, "y")
    y = y.toarray() if multi_output and is_sparse(y) else y
    options: dict[str, Any] = {"accept_sparse": "csr", "dtype": np.float64, "reset": reset}
    X, y = validate_data(estimator, as_checked(X), y, multi_output=multi_output, **options)
    check_finite(X.data if is_sparse(X) else X, "X")
    return X, y, None


def example_weights(sample_weight: Any, X: Any) -> np.ndarray:
    """Weights of all examples, float64 (n,), none of them negative."""
    from sklearn.utils.validation import _check_sample_weight

    if sample_weight is not None:
        weights = real_numbers(sample_weight, "sample_weight")
        sample_weight = weights if weights.ndim else float(weights)
    return _check_sample_weight(sample_weight, X, dtype=np.float64, ensure_non_negative=True)


def class_factors(class_weight: Any, classes: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """What the weights of the examples of each class are multiplied by, (n_classes,).

    Parameters
    ----------
    counts : array, shape (n_classes,)
        Examples of each class.
    """
    from sklearn.utils.class_weight import compute_class_weight

    present, factors = counts > 0, np.ones(len(classes))
    if isinstance(class_weight, str) and class_weight == "balanced":
        factors[present] = counts.sum() / (present.sum() * counts[present])
        return factors
    found = compute_class_weight(class_weight, classes=classes[present], y=classes[present])
    factors[present] = real_numbers(found, "class_weight")
    return factors


def merged(X: Any, codes: np.ndarray, weights: np.ndarray) -> tuple[Any, np.ndarray, np.ndarray]:
    """Equal examples merged and the rest sorted, so that their order does not matter; large data as they are.

    Parameters
    ----------
    X : float64 array or CSR matrix, shape (n, d)
    codes : int64 array, shape (n, k)
        What is known of each example.
    weights : float64 array, shape (n,)
    """
    n = X.shape[0]
    if not is_ordered(*X.shape):
        return X, codes, weights
    table = X.toarray() if is_sparse(X) else X
    order = np.lexsort((*table.T[::-1], *codes.T[::-1]))
    table, codes = table[order], codes[order]
    first = np.ones(n, bool)
    first[1:] = (codes[1:] != codes[:-1]).any(axis=1) | (table[1:] != table[:-1]).any(axis=1)
    return X[order[first]], codes[first], np.add.reduceat(weights[order], np.flatnonzero(first))


def is_ordered(n: int, d: int) -> bool:
    """Whether examples of that number and size are merged and sorted."""
    return n * d <= _SORTED_UP_TO and n >= 2


def _stacked_sparse(matrices: list[Any]) -> Any:
    from scipy import sparse

    return sparse.vstack([sparse.csr_matrix(each) for each in matrices], format="csr")


def _valid_rows(estimator: Any, X: Any) -> Any:
    """New examples for a fitted estimator, as a float64 array or CSR matrix (n, n_features_in_).

    What is plainly right, as the command line's arrays are, does not need scikit-learn's checks, and so not its
    import, which takes longer than a prediction.
    """
    plain = None if hasattr(estimator, "feature_names_in_") else _plain_numbers(X)
    if plain is not None and plain.shape[1] == estimator.n_features_in_ and np.isfinite(plain).all():
        return plain
    from sklearn.utils.validation import validate_data

    return validate_data(estimator, X, accept_sparse="csr", dtype=np.float64, reset=False)


def _plain_numbers(X: Any) -> np.ndarray | None:
    """An array or lists of numbers as a float64 array with two axes; None if X is something else."""
    if type(X) not in (np.ndarray, list, tuple):
        return None
    with suppress(ValueError):  # rows of several lengths
        array = np.asarray(X)
        if array.ndim == 2 and len(array) and array.dtype.kind in "biuf":
            return np.asarray(array, np.float64)
    return None


def _checked_targets(y: Any) -> np.ndarray:
    """One label an example, (n,), none of them missing."""
    check_ordered(y, "y", "a list of classes, one per example")
    from sklearn.utils.validation import column_or_1d

    y = column_or_1d(y)
    for k, label in enumerate(y.tolist() if y.dtype == object else ()):
        if label is None or not isinstance(label, Hashable) or not is_label(label):
            raise InputError(f"y[{k}] is {label!r:.60}, which cannot be a class")
    return y


def as_examples(X: Any) -> Any:
    """Generators, arrays of objects and Series as lists, and a DataFrame with more than numbers as one of dicts;
    all else as it is."""
    if is_series(X):
        return X.tolist()
    if is_frame(X) and not is_numeric(X):
        return as_dicts(X)
    if isinstance(X, Iterator) or (isinstance(X, np.ndarray) and X.ndim == 1 and X.dtype == object):
        return list(X)
    if isinstance(X, np.ndarray) and X.dtype.kind in "mM":
        raise InputError(f"X holds {X.dtype}; its entries must be real numbers")
    return X


def read_attributes(encoder: AttributeEncoder, X: Any) -> Encoded:
    """New examples for a classifier of dicts or lists of strings."""
    X = as_dicts(X) if is_frame(X) else as_examples(X)
    if not is_attributes(X):
        raise InputError("X must be a list of dicts or of lists of strings, as in training")
    return encoder.transform([[x] for x in X])


def scores_of(encoded: Encoded, coef: np.ndarray) -> np.ndarray:
    """Products of sparse rows with weights (n_classes, n_attributes), float64 (n_rows, n_classes); without SciPy."""
    rows = encoded.own[0].sparse
    assert rows is not None
    filled = np.flatnonzero(np.diff(rows.row_ptr))
    scores = np.zeros((len(rows.row_ptr) - 1, len(coef)))
    if len(filled):
        values = 1.0 if rows.values is None else rows.values
        for weights, column in zip(coef, scores.T, strict=True):
            column[filled] = np.add.reduceat(weights.take(rows.ids) * values, rows.row_ptr[filled])
    return scores


def read_matrix(estimator: Any, X: Any) -> Any:
    """New examples for a fitted classifier: a float64 array or CSR matrix (n, n_features)."""
    X = as_examples(X)
    if is_attributes(X):
        raise InputError("X must be a matrix of numbers, as in training, not dicts or lists of strings")
    X = _valid_rows(estimator, as_checked(X))
    check_finite(X.data if is_sparse(X) else X, "X")
    return X


def is_attributes(X: Any) -> bool:
    """Whether X is a list of dicts or of lists of strings."""
    if not isinstance(X, (list, tuple)) or not X:
        return False
    first = X[0]
    return isinstance(first, Mapping) or (
        isinstance(first, (list, tuple)) and len(first) > 0 and isinstance(first[0], str)
    )


def _from_attributes(estimator: Any, X: Any, y: Any, reset: bool) -> tuple[Any, Any, AttributeEncoder]:
    if not reset:
        raise InputError("partial_fit reads matrices only; call fit with all the dicts instead")
    encoder = AttributeEncoder()
    encoded = encoder.fit_transform([[x] for x in X], estimator.min_count, estimator.hash_size)
    estimator.n_features_in_ = encoder.n_attributes
    estimator.__dict__.pop("feature_names_in_", None)
    return as_matrix(encoded, encoder.n_attributes), y, encoder


def as_matrix(encoded: Encoded, n_attributes: int) -> Any:
    """Sparse rows as a CSR matrix (n_rows, n_attributes)."""
    from scipy import sparse

    rows = encoded.own[0].sparse
    assert rows is not None
    values = np.ones(len(rows.ids)) if rows.values is None else rows.values
    return sparse.csr_matrix((values, rows.ids, rows.row_ptr), shape=(len(rows.row_ptr) - 1, n_attributes))


def with_always_on(
    rows: AttributeRows | None, dense: np.ndarray | None, attribute: int
) -> tuple[AttributeRows | None, np.ndarray | None]:
    """One more attribute, the last, that is 1 in every row."""
    if dense is not None:
        dense = np.column_stack([dense, np.ones(len(dense), np.float32)])
    if rows is not None:
        ends = rows.row_ptr[1:]
        values = np.ones(len(rows.ids)) if rows.values is None else rows.values
        rows = AttributeRows(
            rows.row_ptr + np.arange(len(rows.row_ptr)),
            np.insert(rows.ids, ends, attribute).astype(np.int32),
            np.insert(values, ends, 1.0),
        )
    return rows, dense
