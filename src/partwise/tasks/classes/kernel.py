"""`KernelClassifier`: kernel logistic regression, multiclass kernel SVM, and all losses between."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from partwise.core.losses import Loss
from partwise.errors import InputError
from partwise.estimators.checks import as_checked, is_sparse
from partwise.estimators.kernel_base import KernelEstimator
from partwise.estimators.labels import classes_array
from partwise.estimators.protocol import ClassifierProtocol
from partwise.mercer.functions import PRECOMPUTED, check_square
from partwise.structures import Multiclass
from partwise.tasks.classes.data import ClassData, read_matrix
from partwise.tasks.classes.predictions import ClassPredictions

if TYPE_CHECKING:
    from partwise.estimators.kernel_base import KernelSource
    from partwise.solvers import Progress, Solution, Solver


class KernelClassifier(ClassPredictions, ClassifierProtocol, KernelEstimator):
    """Classes scored by kernel functions, with the certificate of its training; weights are never formed.

    Parameters
    ----------
    loss : {"log", "hinge", "softmax_margin", "perceptron"} or Loss
        "hinge" is the multiclass SVM of Crammer and Singer, "log" kernel logistic regression.
    l2 : float or "cv"
        Strength of the regulariser. For two classes, "hinge" has the objective of scikit-learn's
        ``SVC(C=2 / l2)`` without its intercept.
        "cv" chooses it by cross-validation.
    solver : str or Solver
        "auto", an "eg" solver, "bcfw" or "excessive-gap".
    tol, max_passes, random_state, n_jobs, verbose, time_limit, memory_limit, callback, certificate_every
        As in :class:`~partwise.SequenceLabeler`.
    kernel : str or callable
        "linear", "poly", "rbf" or another kernel of ``sklearn.metrics.pairwise``; "precomputed", and X is then the
        kernel matrix, (n, n) to fit and (n_new, n) to predict; or a function of two matrices that returns the
        matrix of their kernel values.
    gamma, degree, coef0
        Parameters of named kernels, as in scikit-learn's ``SVC``.
    kernel_params : dict or None
        Further parameters of a named kernel.
    class_weight : None, "balanced" or dict
    cost : "hamming" or ndarray (n_classes, n_classes)
    precision : {"double", "single"}
        Of the kernel matrix; single takes half the memory and time, and gives gaps down to about 1e-5.
    cache_mb : float
        Megabytes for the kernel matrix; rows beyond are computed anew whenever they are needed.
    support_tol : float
        Training points are dropped while that changes no score by more than this (a margin is 1).
    cv : int or splitter
        Folds for ``l2="cv"``, as in scikit-learn; they are trained in `n_jobs` threads.
    l2s : array_like or None
        Values that ``l2="cv"`` tries; None is nine from 100 to 0.1. Afterwards there are ``l2_``, ``l2s_`` and
        ``scores_`` (n_folds, n_values).

    Attributes
    ----------
    classes_ : ndarray (n_classes,)
    support_vectors_ : ndarray (n_support, n_features)
        With a precomputed kernel there is ``support_`` instead, the numbers of the training points.
    dual_coef_ : ndarray (n_support, n_classes)
    score_error_ : float
        Bound on the change of scores by what was dropped, for points with k(x, x) as in training.
    n_features_in_ : int
    objective_, dual_objective_, duality_gap_, converged_, stop_reason_, n_passes_, history_
        The certificate, before anything was dropped.

    Examples
    --------
    >>> from partwise import KernelClassifier
    >>> X, y = [[0.0, 0.0], [1.0, 1.0], [0.0, 1.0], [1.0, 0.0]], [0, 0, 1, 1]
    >>> KernelClassifier(gamma=2.0, l2=0.1).fit(X, y).predict(X)
    array([0, 0, 1, 1])
    """

    def __init__(
        self,
        loss: str | Loss = "hinge",
        l2: float | Literal["cv"] = 1.0,
        solver: str | Solver = "auto",
        tol: float = 1e-3,
        max_passes: float = 1000,
        random_state: Any = 0,
        n_jobs: int | None = 1,
        verbose: int = 0,
        *,
        kernel: Any = "rbf",
        gamma: Any = "scale",
        degree: float = 3,
        coef0: float = 0.0,
        kernel_params: dict[str, Any] | None = None,
        class_weight: Any = None,
        cost: str | np.ndarray = "hamming",
        precision: str = "double",
        cache_mb: float = 1000.0,
        support_tol: float = 1e-4,
        time_limit: float | None = None,
        memory_limit: float | str | None = None,
        callback: Callable[[Progress], bool | None] | None = None,
        certificate_every: float | None = None,
        cv: Any = 5,
        l2s: Any = None,
    ):
        self.loss = loss
        self.l2 = l2
        self.solver = solver
        self.tol = tol
        self.max_passes = max_passes
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose
        self.kernel = kernel
        self.gamma = gamma
        self.degree = degree
        self.coef0 = coef0
        self.kernel_params = kernel_params
        self.class_weight = class_weight
        self.cost = cost
        self.precision = precision
        self.cache_mb = cache_mb
        self.support_tol = support_tol
        self.time_limit = time_limit
        self.memory_limit = memory_limit
        self.callback = callback
        self.certificate_every = certificate_every
        self.cv = cv
        self.l2s = l2s

    _task = "classes"

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.pairwise = self._is_precomputed()
        return tags

    def _is_precomputed(self) -> bool:
        return isinstance(self.kernel, str) and self.kernel == PRECOMPUTED

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> KernelClassifier:
        """Train.

        Parameters
        ----------
        X : array_like or sparse matrix (n, d); sparse ones are made dense
        y : array_like (n,)
        sample_weight : array_like (n,), optional
        """
        with self._refitting():
            self._fit(X, y, sample_weight)
        self._warn_unless_converged()
        return self

    def _fit(self, X: Any, y: Any, sample_weight: Any) -> None:
        self._check_parameters()
        if self._is_precomputed():
            X = check_square(as_checked(X))
            X = X.toarray() if is_sparse(X) else X
        data = ClassData.read(self, X, y, sample_weight)
        if is_sparse(data.X):
            data = replace(data, X=data.X.toarray())
        distinct = data if self._is_precomputed() else data.in_order()
        function, used = self._kernel_function(distinct.X, distinct.weights), None
        data = data.weighted(self.class_weight)
        if self._is_precomputed():  # examples of weight zero are gone from the rows
            used = np.arange(len(X)) if sample_weight is None else np.flatnonzero(sample_weight)
            data = replace(data, X=data.X[:, used])
        else:
            data = data if self._has_folds else data.in_order()
        self.classes_ = data.classes
        lengths = np.ones(len(data.codes), np.int64)
        self._used = None if used is None else (used, len(X))
        self._train(Multiclass(len(data.classes)), function, data.X, data.codes, lengths, None, data.weights)

    def _become(self, solver: Solver, solution: Solution, encoder: None, source: KernelSource) -> None:
        super()._become(solver, solution, encoder, source)
        if self._used is not None:
            used, n_features = self._used
            self._support = replace(self._support, points=used[self._support.points], n_features=n_features)

    def _scores(self, X: Any) -> np.ndarray:
        """Scores of all classes, (n, n_classes)."""
        self._require_fitted()
        X = read_matrix(self, X)
        X = X.toarray() if is_sparse(X) else X
        return self._support.scores(X, np.ones(len(X), np.int64))[0]

    def _state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        header, arrays = self._kernel_state(self.classes_.tolist())
        header["feature_names"] = list(getattr(self, "feature_names_in_", []))
        return header, arrays

    @classmethod
    def _from_state(cls, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> KernelClassifier:
        estimator, labels = cls._from_kernel_state(header, arrays, edges=False)
        only_texts = all(isinstance(label, str) for label in labels)
        estimator.classes_ = np.array(labels) if only_texts else classes_array(labels)
        names = header.get("feature_names") or []
        if not isinstance(names, list) or (names and len(names) != estimator.n_features_in_):
            raise InputError("the feature names do not fit the number of features")
        if names:
            estimator.feature_names_in_ = np.array([str(name) for name in names], object)
        return estimator
