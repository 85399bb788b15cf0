"""`PerPosition`: a scikit-learn transformer applied to every position of sequences of vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.base import BaseEstimator, TransformerMixin, clone
from sklearn.exceptions import NotFittedError

from partwise.estimators.encoders import as_sequences
from partwise.estimators.labels import split
from partwise.estimators.matrices import stack


class PerPosition(TransformerMixin, BaseEstimator):
    """Fit a transformer to all positions of all sequences together, and transform sequence by sequence.

    With ``sklearn.kernel_approximation`` it is the way out where a kernel matrix would be too large:
    ``make_pipeline(PerPosition(Nystroem(n_components=1000)), SequenceLabeler(loss="hinge"))``.

    Parameters
    ----------
    transformer : estimator with fit and transform
    """

    def __init__(self, transformer: Any):
        self.transformer = transformer

    def fit(self, X: Any, y: Any = None) -> PerPosition:
        """`X` is a list of (length, d) matrices; `y` is not used."""
        self.transformer_ = clone(self.transformer).fit(_dense(stack(as_sequences(X))[0]))
        return self

    def transform(self, X: Any) -> list[np.ndarray]:
        """A list of (length, n_components) matrices."""
        if not hasattr(self, "transformer_"):
            raise NotFittedError("this PerPosition is not fitted yet; call fit first")
        matrix, lengths = stack(as_sequences(X))
        if not len(matrix):
            return [np.zeros((0, 0)) for _ in lengths]
        return split(np.asarray(self.transformer_.transform(_dense(matrix))), lengths)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "transformer_")


def _dense(matrix: Any) -> np.ndarray:
    return matrix.toarray() if sparse.issparse(matrix) else matrix
