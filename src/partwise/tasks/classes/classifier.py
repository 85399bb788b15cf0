"""`Classifier`: logistic regression, multiclass SVM, and all losses between, trained in the dual."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from partwise.core.losses import Loss
from partwise.core.maps import FeatureMap
from partwise.core.problem import Problem
from partwise.core.rows import RowData
from partwise.estimators.alternatives import LabelLists
from partwise.estimators.base import Training
from partwise.estimators.encoders import AttributeEncoder
from partwise.estimators.gaps import check_loss_for_gaps, with_gaps
from partwise.estimators.labels import classes_array
from partwise.estimators.matrices import split_storage, storage_for
from partwise.estimators.model import Pairs
from partwise.estimators.on_disk.dataset import EncodedDataset
from partwise.estimators.protocol import ClassifierProtocol
from partwise.estimators.saving import stored_labels
from partwise.estimators.warm_start import WarmStarting
from partwise.storage.checks import expect_array
from partwise.structures import Multiclass
from partwise.structures.multiclass.softmax import MULTICLASS
from partwise.tasks.classes.data import (
    ClassData,
    MatrixInput,
    class_factors,
    read_attributes,
    scores_of,
    stored_classes,
    with_always_on,
)
from partwise.tasks.classes.dataset import EncodedClasses
from partwise.tasks.classes.predictions import ClassExplanations, ClassPredictions

if TYPE_CHECKING:
    from typing_extensions import Self

    from partwise.solvers import Solution


@dataclass(eq=False, repr=False, kw_only=True)
class Classifier(ClassPredictions, MatrixInput, ClassExplanations, ClassifierProtocol, WarmStarting):
    """Linear classifier for any loss of the family, with the certificate of its training.

    Parameters
    ----------
    loss : {"log", "hinge", "softmax_margin", "perceptron"} or Loss
        "log" is multinomial logistic regression, "hinge" the multiclass SVM of Crammer and Singer.
    l2 : float or "cv"
        Strength of the regulariser (l2/2)‖w‖². The C of scikit-learn's LogisticRegression is 1 / l2 with three
        classes or more and 2 / l2 with two. "cv" chooses it by cross-validation.
    fit_intercept : bool
        Give every class an intercept. It is the weight of an attribute that is always 1 and is regularised
        like all others, as in liblinear.
    class_weight : None, "balanced" or dict
        Multiplies the weight of every example of a class.
    pairs : {"all", "observed"}
        "observed" gives weights only to (attribute, class) pairs seen in training; for sparse input.
    cost : "hamming" or ndarray (n_classes, n_classes)
        Cost [true, predicted], for losses with γ > 0.
    min_count, hash_size
        For X given as dicts.

    Attributes
    ----------
    classes_ : ndarray (n_classes,)
    coef_ : ndarray (n_classes, n_features)
        One row per class, for two classes too; rounded to single precision when training ends.
    intercept_ : ndarray (n_classes,)
    n_features_in_ : int
    feature_names_in_ : ndarray, where X has column names

    Notes
    -----
    Values are stored in single precision. Up to a million numbers, equal examples are merged and the rest
    brought into a fixed order, so that the result does not depend on the order of the data.

    Examples
    --------
    >>> from partwise import Classifier
    >>> Classifier().fit([[0.0], [1.0], [2.0], [3.0]], [0, 0, 1, 1]).predict([[0.5], [2.5]])
    array([0, 1])
    """

    fit_intercept: bool = True
    class_weight: Any = None
    pairs: Literal["observed", "all"] = "all"
    cost: str | np.ndarray = "hamming"
    min_count: int = 1
    hash_size: int | None = None

    _task = "classes"
    _accepts_sparse = True

    # -- training -------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train.

        Parameters
        ----------
        X : array_like or sparse matrix (n, d), list of n dicts or lists of strings, or EncodedDataset
            The last is a dataset on disk, from ``partwise.open_dataset``, which has its own y.
        y : array_like (n,)
            In a list, a set of classes says that the class is one of these (finite β only), a dict {class: weight}
            is a distribution over classes, and None beside them says nothing.
        sample_weight : array_like (n,), optional
        """
        return super().fit(X, y, sample_weight)

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Add examples to those trained on so far, and train on all of them.

        Examples seen before go on from their dual variables; a call costs a pass or two over all the data.

        Parameters
        ----------
        X, y, sample_weight
            As for `fit`, of the new examples only; matrices, not dicts.
        classes : array_like
            All classes there will ever be, for the first call; by default those of its `y`.
        """

        def read(previous: Training | None) -> ClassData:
            self._begin_compiling(MULTICLASS)
            known = classes if previous is None else previous.data.classes
            data = ClassData.read(self, X, y, sample_weight, known, reset=previous is None)
            return data.weighted(self.class_weight)

        return self._partial_fit(read)

    def _read(self, X: Any, y: Any, sample_weight: Any) -> ClassData | EncodedClasses:
        self._begin_compiling(MULTICLASS)
        if isinstance(X, EncodedDataset):
            X.check_use(self, "classify", y, sample_weight)
            assert isinstance(X, EncodedClasses)
            return X
        data = ClassData.read(self, X, y, sample_weight).weighted(self.class_weight)
        return data if self._has_folds else data.in_order()

    def _build(self, data: ClassData | EncodedClasses) -> tuple[Problem, AttributeEncoder | None]:
        if isinstance(data, EncodedClasses):
            return self._build_on_disk(data), None
        n, n_features = data.X.shape
        storage = storage_for(data.X)
        rows, dense = split_storage(data.X, storage)
        if self.fit_intercept:
            rows, dense = with_always_on(rows, dense, n_features)
        width = n_features + int(bool(self.fit_intercept))
        n_dense, n_attributes = (width, 0) if storage == "dense" else (0, width)
        check_loss_for_gaps(Loss.of(self.loss), data.codes)
        seen, labels = rows, data.codes
        if data.sets and rows is not None:
            seen, labels = LabelLists.of(data.codes, data.sets).rows(rows)
        feature_map = FeatureMap.build(len(data.classes), n_attributes, n_dense, seen, labels, self.pairs)
        problem = self._bound(
            Multiclass(len(data.classes)),
            data.completed(),
            np.ones(n, np.int64),
            {"node": RowData(feature_map, rows, dense)},
            cost=self.cost,
            example_weight=data.weights,
        )
        self.classes_ = data.classes
        return with_gaps(problem, data.codes, data.sets, self.cost), data.encoder

    def _build_on_disk(self, data: EncodedClasses) -> Problem:
        from partwise.estimators.on_disk.problem import problem_on_disk

        is_text = isinstance(data.labels[0], str)
        self.classes_ = np.array(data.labels) if is_text else classes_array(data.labels)
        self.n_features_in_ = data.n_features
        self.__dict__.pop("feature_names_in_", None)
        weights = data.weights
        if self.class_weight is not None:
            factors = class_factors(self.class_weight, self.classes_, data.class_counts())
            weights = data.weights_by_class(factors)
        return problem_on_disk(self, data, Multiclass(len(data.labels)), weights)

    def _take_weights(self, solution: Solution, encoder: Any, data: Any) -> None:
        self._encoder = encoder
        feature_map = solution.problem.scorer.maps["node"]
        n_features = feature_map.n_dense + len(feature_map.start) - int(bool(self.fit_intercept))
        self._set_weights(Pairs.of(feature_map, solution.weights), n_features)

    def _set_weights(self, pairs: Pairs, n_features: int) -> None:
        table = np.zeros((len(self.classes_), n_features + 1))
        table[pairs.label, pairs.attribute] = pairs.weight
        self.coef_ = np.ascontiguousarray(table[:, :n_features])
        self.intercept_ = table[:, n_features].copy()

    # -- prediction -----------------------------------------------------------------------------

    def _scores(self, X: Any) -> np.ndarray:
        """Scores of all classes, (n, n_classes)."""
        self._require_fitted()
        if self._encoder is not None:
            return scores_of(read_attributes(self._encoder, X), self.coef_) + self.intercept_
        return np.asarray(self._matrix(X) @ self.coef_.T) + self.intercept_

    # -- model files ----------------------------------------------------------------------------

    def _model_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        table = np.column_stack([self.coef_, self.intercept_]).T
        attribute, label = np.nonzero(table)
        pairs = Pairs(attribute, label, table[attribute, label].astype(np.float32))
        return {"structure": {"name": "multiclass"}, **self._input_state()}, pairs.state("node", len(table))

    def _set_model_state(self, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        self.classes_ = stored_classes(stored_labels(header))
        self._set_input_state(header)
        expect_array(arrays, "node_weight", np.float32)
        n_features = self.n_features_in_
        pairs = Pairs.from_state(arrays, "node", n_features + 1, len(self.classes_))
        self._set_weights(pairs, n_features)
