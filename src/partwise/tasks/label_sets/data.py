"""Examples and their labels as a classifier with many labels reads them: checked, and as 0 and 1."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from partwise.errors import InputError
from partwise.estimators.checks import check_ordered, check_targets, is_sparse, refuse_masked
from partwise.estimators.encoders import AttributeEncoder
from partwise.tasks.classes.data import example_weights, merged, read_examples


@dataclass(frozen=True)
class MultilabelData:
    """Examples with their labels.

    Attributes
    ----------
    X : float64 array or CSR matrix, shape (n, d)
    y : int64 array of 0 and 1, shape (n, n_labels)
    weights : float64 array, shape (n,)
    classes : array, shape (n_labels,), or (2,) or (1,) where `single`
    single : bool
        Whether `y` is one column, of two classes.
    encoder : AttributeEncoder or None
        Where X came as dicts or lists of strings.
    names : list of str or None
        The names of the labels, if the columns of `y` have names.
    """

    X: Any
    y: np.ndarray
    weights: np.ndarray
    classes: np.ndarray
    single: bool
    encoder: AttributeEncoder | None
    names: list[str] | None = None

    @classmethod
    def read(cls, estimator: Any, X: Any, y: Any, sample_weight: Any) -> MultilabelData:
        check_targets(y, "MultilabelClassifier")
        refuse_masked(y, "y")
        names = None if getattr(y, "columns", None) is None else [str(name) for name in y.columns]
        X, y, encoder = read_examples(estimator, X, y, multi_output=True)
        codes, classes, single = indicators(y)
        if len(codes) != X.shape[0]:
            raise InputError(f"y has {len(codes)} rows for {X.shape[0]} examples")
        weights = example_weights(sample_weight, X)
        if not weights.any():
            raise InputError("sample_weight is zero for all examples")
        kept = weights > 0
        if not kept.all():
            X, codes, weights = X[kept], codes[kept], weights[kept]
        return cls(X, codes, weights, classes, single, encoder, names)

    def in_order(self) -> MultilabelData:
        """Equal examples merged and the rest sorted, where that is cheap."""
        X, y, weights = merged(self.X, self.y, self.weights)
        return replace(self, X=X, y=y, weights=weights)


def indicators(y: Any) -> tuple[np.ndarray, np.ndarray, bool]:
    """Labels as int64 (n, n_labels) of 0 and 1; their numbers, or the classes of a single one; whether it is one.

    Parameters
    ----------
    y : array_like or sparse matrix (n, n_labels) of 0 and 1, or array_like (n,) of two classes
    """
    from sklearn.utils import column_or_1d
    from sklearn.utils.multiclass import check_classification_targets, type_of_target

    if is_sparse(y):
        y = y.toarray()
    check_ordered(y, "y", "a matrix (n, n_labels) of 0 and 1")
    try:
        y = np.asarray(y)
    except ValueError:
        raise InputError(
            "y has rows of different lengths; it must be a matrix (n, n_labels) of 0 and 1"
        ) from None
    if y.ndim == 1 or (y.ndim == 2 and y.shape[1] == 1):
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        classes, codes = np.unique(y, return_inverse=True)
        if len(classes) > 2:
            kind = type_of_target(y)
            raise InputError(
                f"Only binary classification is supported for y of one axis. The type of the target is {kind}: "
                "give one column of 0 and 1 a label"
            )
        return codes.astype(np.int64).reshape(-1, 1), classes, True
    if y.ndim != 2 or y.shape[1] == 0:
        raise InputError(f"y has shape {y.shape}; it must be (n, n_labels)")
    if y.dtype.kind not in "biuf" or not np.isin(y, (0, 1)).all():
        raise InputError("y must be a matrix of 0 and 1, a column for every label")
    return y.astype(np.int64), np.arange(y.shape[1]), False
