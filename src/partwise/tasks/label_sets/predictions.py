"""What a fitted classifier with many labels answers: labels chosen together, probabilities, margins."""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.core.losses import Loss
from partwise.core.scorer import Scorer
from partwise.estimators.base import n_threads
from partwise.estimators.model import Excluded, LinearModel
from partwise.estimators.probabilities import Probabilities
from partwise.estimators.protocol import available_if
from partwise.tasks.classes.predictions import has_probabilities
from partwise.tasks.label_sets.structure import LABELS, label_shapes


class MultilabelPredictions(Probabilities):
    """Predictions of an estimator that has `classes_`, `pairs_`, `_model`, `_matrix` and `_rows`."""

    classes_: np.ndarray
    _single: bool
    pairs_: list[tuple[int, int]]
    loss: Any
    n_jobs: int | None
    _model: LinearModel
    _loss: Loss
    _matrix: Any
    _rows: Any

    def predict(self, X: Any) -> np.ndarray:
        """The labels of every example that score best together, (n, n_labels) of 0 and 1.

        Where `y` was one column in training, the class of every example, (n,). To have the fewest labels wrong, one by
        one, take ``predict_proba(X) > 0.5`` instead.
        """
        scorer = self._scorer(X)
        codes, _ = self._model.best(scorer, None, n_threads(self.n_jobs))
        if self._single:
            return self.classes_[np.minimum(codes, len(self.classes_) - 1)]
        return codes.reshape(scorer.n_examples, -1)

    @available_if(has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability that each label is there, (n, n_labels); not there for β = ∞ (hinge, perceptron).

        Where `y` was one column in training, of both classes, (n, 2).
        """
        scorer = self._scorer(X)
        counts, _ = self._model.counts(scorer, self._sharpness(), n_jobs=n_threads(self.n_jobs))
        states = counts.reshape(scorer.n_examples, -1, 2)
        if self._single:
            return states[:, 0, : len(self.classes_)] / states[:, 0, : len(self.classes_)].sum(
                axis=1, keepdims=True
            )
        return states[:, :, 1]

    @available_if(has_probabilities)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def decision_function(self, X: Any) -> np.ndarray:
        """Margins, (n, n_labels): the best score of all labellings with a label, less the best of those without.

        Above 0 where `predict` gives the label. Where `y` was one column in training, (n,).
        """
        scorer = self._scorer(X)
        n_labels = self._model.structure.kinds[0].width // 2
        margins = np.stack([self._margin(scorer, label) for label in range(n_labels)], axis=1)
        return margins[:, 0] if self._single else margins

    def _margin(self, scorer: Scorer, label: int) -> np.ndarray:
        ptr = np.arange(scorer.n_examples + 1)
        with_label, without = (
            self._model.best(scorer, Excluded(ptr, np.full(scorer.n_examples, part)), n_threads(self.n_jobs))[
                1
            ]
            for part in (2 * label, 2 * label + 1)
        )
        return with_label - without

    def _scorer(self, X: Any) -> Scorer:
        X = self._matrix(X)
        structure, maps = self._model.structure, self._model.maps
        n_labels = structure.kinds[0].width // 2
        shapes = label_shapes(structure, n_labels, self.pairs_, X.shape[0])
        return Scorer.build(structure, shapes, {LABELS: self._rows(X, maps[LABELS])})
