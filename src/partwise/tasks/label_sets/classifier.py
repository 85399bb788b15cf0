"""`MultilabelClassifier`: which of several labels an example has, all of them chosen together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from partwise.core.losses import Loss
from partwise.core.maps import FeatureMap
from partwise.core.problem import Problem
from partwise.core.rows import RowData
from partwise.errors import InputError
from partwise.estimators.checks import check_choice
from partwise.estimators.encoded import KindSize, OwnRows
from partwise.estimators.encoders import AttributeEncoder
from partwise.estimators.explain import Explanations
from partwise.estimators.linear import LinearEstimator
from partwise.estimators.matrices import split_storage, storage_for
from partwise.estimators.model import LinearModel, Pairs
from partwise.estimators.protocol import ClassifierProtocol
from partwise.estimators.saving import stored_labels, stored_part
from partwise.storage.checks import expect_text, expect_texts
from partwise.tasks.classes.data import MatrixInput, with_always_on
from partwise.tasks.label_sets.data import MultilabelData
from partwise.tasks.label_sets.predictions import MultilabelPredictions
from partwise.tasks.label_sets.structure import (
    LABELS,
    checked_pairs,
    chosen_pairs,
    label_shapes,
    label_structure,
)

if TYPE_CHECKING:
    from typing_extensions import Self

    from partwise.solvers import Solution

_AUTO_LIMIT = 2**18  # entries of tables, every pass and for every example; messages are cheaper than more


@dataclass(eq=False, repr=False, kw_only=True)
class MultilabelClassifier(
    MultilabelPredictions, MatrixInput, Explanations, ClassifierProtocol, LinearEstimator
):
    """Conditional random field, or max-margin Markov network, over the labels of an example.

    Every label has a linear score, and so has every pair of labels that are joined in a graph over them: which
    labels occur together is learnt along with the rest.

    Parameters
    ----------
    l2 : float or "cv"
        Strength of the regulariser (l2/2)‖w‖². With graph="none" and loss="log" every label is a logistic
        regression of its own, with scikit-learn's C = 2 / l2. "cv" chooses it by cross-validation.
    graph : {"full", "tree", "none"} or list of pairs
        Which pairs of labels have weights: all; those of the tree with the most mutual information in the training
        labels (Chow and Liu, 1968); none; or those given.
    inference : {"auto", "exact", "tree-reweighted"}
        As in :class:`~partwise.GraphLabeler`. "auto" is exact for trees, and for
        the full graph up to 18 labels.
    fit_intercept : bool
        Give every label an intercept, regularised like all weights.
    min_count, hash_size
        For X given as dicts or lists of strings.

    Attributes
    ----------
    classes_ : ndarray (n_labels,)
        The numbers of the labels; the two classes where `y` is one column.
    pairs_ : list of (int, int)
        The pairs of labels that have weights.
    coef_ : ndarray (n_labels, n_features)
        What a feature adds to the score of a label being there, above that of its not being there.
    intercept_ : ndarray (n_labels,)
    pair_coef_ : ndarray (n_pairs, 2, 2)
        Scores of the pairs, by whether the first and the second label is there.
    inference_ : {"exact", "tree-reweighted"}
    n_features_in_ : int

    Examples
    --------
    >>> from partwise import MultilabelClassifier
    >>> Y = [[0, 0], [0, 0], [1, 1], [1, 1]]
    >>> MultilabelClassifier().fit([[0.0], [1.0], [2.0], [3.0]], Y).predict([[0.5], [2.5]])
    array([[0, 0],
           [1, 1]])
    """

    _task = "label_sets"
    _accepts_sparse = True
    graph: Any = "full"
    inference: Literal["auto", "exact", "tree-reweighted"] = "auto"
    fit_intercept: bool = True
    min_count: int = 1
    hash_size: int | None = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_label = True
        tags.classifier_tags.multi_class = False
        return tags

    # -- training -------------------------------------------------------------------------------

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Train.

        Parameters
        ----------
        X : array_like or sparse matrix (n, d), or list of n dicts or lists of strings
        y : array_like or sparse matrix (n, n_labels) of 0 and 1
            One column, or array_like (n,), of two classes is one label, and predictions then have one axis. If columns
            have names (pandas), the names are kept for :meth:`top_features`, the command line and reports.
        sample_weight : array_like (n,), optional
        """
        return super().fit(X, y, sample_weight)

    def _check_parameters(self) -> Loss:
        check_choice("inference", self.inference, ("auto", "exact", "tree-reweighted"))
        return super()._check_parameters()

    def _read(self, X: Any, y: Any, sample_weight: Any) -> MultilabelData:
        data = MultilabelData.read(self, X, y, sample_weight)
        return data if self._has_folds else data.in_order()

    def _build(self, data: MultilabelData) -> tuple[Problem, AttributeEncoder | None]:
        n, n_labels = data.y.shape
        self.classes_, self._single, self._encoder = data.classes, data.single, data.encoder
        self._label_names = data.names
        self.pairs_ = chosen_pairs(self.graph, data.y)
        structure, shapes, self._why_inference = self._shaped(n_labels, n)
        self.inference_ = "exact" if structure.exactness == "exact" else "tree-reweighted"
        if self._why_inference and self.verbose:
            print(self._training_notes()[0])
        self._begin_compiling(structure.oracle)
        self._storage = storage_for(data.X)
        size = self._size(data.X.shape[1])
        feature_map = FeatureMap.build(2 * n_labels, size.n_sparse, size.n_dense)
        rows = RowData(feature_map, *self._own_rows(data.X))
        problem = self._bound(structure, data.y.ravel(), shapes, {LABELS: rows}, example_weight=data.weights)
        return problem, data.encoder

    def _take_weights(self, solution: Solution, encoder: Any, data: MultilabelData) -> None:
        problem = solution.problem
        whole = LinearModel(problem.structure, problem.scorer.maps, solution.weights)
        pairs = [Pairs.of(whole.maps[LABELS], whole.weights_of(LABELS))]
        size = self._size(data.X.shape[1])
        tied = whole.tied_weights.astype(np.float32)
        self._set_model(LinearModel.assemble(problem.structure, [size], pairs, tied))

    def _shaped(self, n_labels: int, n: int) -> tuple[Any, Any, str]:
        """Structure, shapes of n examples, and why "auto" did not choose exact inference, if so."""
        names = ["exact", "tree-reweighted"] if self.inference == "auto" else [self.inference]
        why = ""
        for name in names:
            limit = {"table_limit": _AUTO_LIMIT} if name == "exact" and self.inference == "auto" else {}
            structure = label_structure(n_labels, self.pairs_, name, **limit)
            try:
                return structure, label_shapes(structure, n_labels, self.pairs_, n), why
            except InputError as error:
                why = str(error).removeprefix("graph: ").split("; use")[0]
        raise InputError(f"{why}: use inference='auto' or graph='tree'")

    def _size(self, n_features: int) -> KindSize:
        """Dense and sparse attributes, the intercept's counted."""
        width = n_features + int(bool(self.fit_intercept))
        return KindSize(width, 0) if self._storage == "dense" else KindSize(0, width)

    def _own_rows(self, X: Any) -> OwnRows:
        rows, dense = split_storage(X, self._storage)
        if self.fit_intercept:
            rows, dense = with_always_on(rows, dense, X.shape[1])
        return OwnRows(rows, dense)

    def _set_model(self, model: LinearModel) -> None:
        """The model, and its weights as users read them."""
        self._model, self._loss = model, Loss.of(self.loss)
        n_labels = model.structure.kinds[0].width // 2
        attribute, entry, index = model.maps[LABELS].pairs()
        table = np.zeros((sum(self._size(self.n_features_in_)), n_labels, 2))
        table.reshape(len(table), -1)[attribute, entry] = model.weights_of(LABELS)[index]
        difference = table[:, :, 1] - table[:, :, 0]
        self.coef_ = np.ascontiguousarray(difference[: self.n_features_in_].T)
        self.intercept_ = difference[-1].copy() if self.fit_intercept else np.zeros(n_labels)
        self.pair_coef_ = model.tied_weights.reshape(-1, 2, 2)

    # -- model files ----------------------------------------------------------------------------

    def _model_state(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        structure = {
            "name": "labels",
            "single": self._single,
            "inference": self.inference_,
            "pairs": self.pairs_,
        }
        header: dict[str, Any] = {
            "structure": structure,
            "why_inference": self._why_inference,
            "storage": self._storage,
            "label_names": self._label_names,
        }
        return header | self._input_state(), self._model.state([self._size(self.n_features_in_)])

    def _set_model_state(self, header: Mapping[str, Any], arrays: Mapping[str, np.ndarray]) -> None:
        labels, shape = stored_labels(header), stored_part(header, "structure")
        single = shape.get("single")
        if not isinstance(single, bool) or len(labels) > (2 if single else 2**20):
            raise InputError("the structure does not fit the labels")
        self._single = single
        n_labels = 1 if self._single else len(labels)
        self.classes_ = np.array(labels) if self._single else np.arange(n_labels)
        self.pairs_ = checked_pairs(shape.get("pairs"), n_labels)
        self.inference_ = expect_text(shape, "inference", ("exact", "tree-reweighted"))
        self._why_inference = expect_text(header, "why_inference")
        self._storage = expect_text(header, "storage", ("dense", "sparse"))
        self._set_input_state(header)
        self._label_names = None
        if header.get("label_names") is not None:  # older files have none
            self._label_names = expect_texts(header, "label_names")
            if len(self._label_names) != n_labels:
                raise InputError("the names of the labels do not fit their number")
        structure = label_structure(n_labels, self.pairs_, self.inference_)
        size = self._size(self.n_features_in_)
        self._set_model(LinearModel.from_state(structure, [size], arrays))

    # -- weights --------------------------------------------------------------------------------

    def _score_of_labels(self, problem: Problem, true: np.ndarray, predicted: np.ndarray) -> float:
        """Share of examples whose labels are all right."""
        right = (true == predicted).reshape(problem.n_examples, -1)
        return float(right.all(axis=1).mean())

    def _known_labels(self) -> list[Any]:
        return list(range(len(self.coef_))) if self._label_names is None else list(self._label_names)

    def _labels_in(self, X: Any, y: Any) -> set[Any]:
        return {label for own in getattr(y, "sets", ()) for label in own}

    def _shown_settings(self) -> dict[str, Any]:
        graph = self.graph if isinstance(self.graph, str) else "given"
        return {"graph": graph, "inference": self.inference_}

    def _shown_sizes(self) -> dict[str, Any]:
        return {
            "labels": len(self.coef_),
            "pairs of labels": len(self.pairs_),
            "features": int(self.n_features_in_),
            "non-zero weights": int(np.count_nonzero(self._model.weights)),
        }

    def _shown_transitions(self, n: int, label: Any = None) -> list[tuple[Any, Any, float]]:
        """Pairs of labels with what their being there together adds, over each being there alone."""
        labels = self._known_labels()
        found = [
            (labels[a], labels[b], float(w[1, 1] + w[0, 0] - w[0, 1] - w[1, 0]))
            for (a, b), w in zip(self.pairs_, self.pair_coef_, strict=True)
        ]
        own = [each for each in found if label is None or label in each[:2]]
        return sorted(own, key=lambda each: -abs(each[2]))[:n]

    def _training_notes(self) -> list[str]:
        if not self._why_inference:
            return []
        return [f"{self.inference_} inference, as exact inference does not fit: {self._why_inference}"]
