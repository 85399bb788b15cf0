"""`KernelClassifier`: kernel logistic regression, multiclass kernel SVM, and all losses between."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from partwise.errors import InputError
from partwise.estimators.checks import as_checked, is_sparse
from partwise.estimators.kernel_base import KernelData, KernelEstimator
from partwise.estimators.protocol import ClassifierProtocol
from partwise.mercer.functions import check_square
from partwise.storage.checks import expect_texts
from partwise.structures import Multiclass
from partwise.tasks.classes.data import ClassData, read_matrix, set_feature_names, stored_classes
from partwise.tasks.classes.predictions import ClassPredictions

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(eq=False, repr=False, kw_only=True)
class KernelClassifier(ClassPredictions, ClassifierProtocol, KernelEstimator):
    """Classes scored by kernel functions, with the certificate of its training; weights are never formed.

    Parameters
    ----------
    loss : {"log", "hinge", "softmax_margin", "perceptron"} or Loss
        "hinge" is the multiclass SVM of Crammer and Singer, "log" kernel logistic regression.
    l2 : float or "cv"
        Strength of the regulariser. For two classes, "hinge" has the objective of scikit-learn's
        ``SVC(C=2 / l2)`` without its intercept. "cv" chooses it by cross-validation.
    kernel : str or callable
        "linear", "poly", "rbf" or another kernel of ``sklearn.metrics.pairwise``; "precomputed" if X is the kernel
        matrix, (n, n) to fit and (n_new, n) to predict; or a function of two matrices that returns the matrix of
        their kernel values.
    class_weight : None, "balanced" or dict
        Multiplies the weight of every example of a class.
    cost : "hamming" or ndarray (n_classes, n_classes)
        Cost [true, predicted], for losses with γ > 0.

    Attributes
    ----------
    classes_ : ndarray (n_classes,)
    dual_coef_ : ndarray (n_support, n_classes)

    Examples
    --------
    >>> from partwise import KernelClassifier
    >>> X, y = [[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]], [0, 0, 1, 1]
    >>> KernelClassifier(gamma=2.0, l2=0.1).fit(X, y).predict(X)
    array([0, 0, 1, 1])
    """

    class_weight: Any = None

    _task = "classes"
    _accepts_sparse = True

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train.

        Parameters
        ----------
        X : array_like or sparse matrix (n, d); sparse ones are made dense
        y : array_like (n,)
        sample_weight : array_like (n,), optional
        """
        return super().fit(X, y, sample_weight)

    def _read(self, X: Any, y: Any, sample_weight: Any) -> KernelData:
        is_precomputed = self._is_precomputed()
        if is_precomputed:
            X = check_square(as_checked(X))
            X = X.toarray() if is_sparse(X) else X
        data = ClassData.read(self, X, y, sample_weight)
        if (data.codes < 0).any():
            raise InputError("y: a KernelClassifier needs every class; sets and None are not possible here")
        if is_sparse(data.X):
            data = replace(data, X=data.X.toarray())
        distinct = data if is_precomputed else data.in_order()
        function, kept = self._kernel_function(distinct.X, distinct.weights), None
        data = data.weighted(self.class_weight)
        if is_precomputed:  # examples of weight zero are gone from the rows
            kept = np.arange(len(X)) if sample_weight is None else np.flatnonzero(sample_weight)
            data = replace(data, X=data.X[:, kept])
        elif not self._has_folds:
            data = data.in_order()
        self.classes_ = data.classes
        lengths, structure = np.ones(len(data.codes), np.int64), Multiclass(len(data.classes))
        return KernelData(
            data.X,
            data.codes,
            lengths,
            data.weights,
            structure,
            function,
            None,
            kept,
            len(X) if is_precomputed else 0,
        )

    def _scores(self, X: Any) -> np.ndarray:
        """Scores of all classes, (n, n_classes)."""
        self._require_fitted()
        X = read_matrix(self, X)
        X = X.toarray() if is_sparse(X) else X
        return self._support.scores(X, np.ones(len(X), np.int64))[0]

    def _model_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        header, arrays = super()._model_state()
        return header | {"feature_names": list(getattr(self, "feature_names_in_", []))}, arrays

    def _set_model_state(self, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        self.classes_ = stored_classes(self._set_support(header, arrays, edges=False))
        if header.get("feature_names"):
            set_feature_names(self, expect_texts(header, "feature_names"))
