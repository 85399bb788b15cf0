"""What a fitted classifier answers, from the scores of all classes."""

from __future__ import annotations

from typing import Any

import numpy as np

from partwise.core.losses import Loss
from partwise.estimators.probabilities import Probabilities
from partwise.estimators.protocol import available_if


def has_probabilities(estimator: Any) -> bool:
    if Loss.of(estimator.loss).is_hard:
        raise AttributeError(
            f"loss={estimator.loss!r} has beta = inf and so no probabilities: use decision_function, or "
            "train with 'log', 'softmax_margin' or Loss(beta, gamma) with a finite beta"
        )
    return True


class ClassPredictions(Probabilities):
    """Predictions of an estimator that has `classes_`, `loss` and `_scores`."""

    classes_: np.ndarray
    loss: str | Loss

    def _scores(self, X: Any) -> np.ndarray:
        """Scores of all classes, (n, n_classes)."""
        raise NotImplementedError

    def decision_function(self, X: Any) -> np.ndarray:
        """Scores, (n, n_classes); for two classes their difference, (n,), above 0 for the second."""
        scores = self._scores(X)
        return scores[:, 1] - scores[:, 0] if scores.shape[1] == 2 else scores

    def predict(self, X: Any) -> np.ndarray:
        """The best class of every example, (n,)."""
        scores = self._scores(X)
        return self.classes_[scores.argmax(axis=1)]

    @available_if(has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Class probabilities ∝ exp(β · score), (n, n_classes); not there for β = ∞ (hinge, perceptron)."""
        return np.exp(self.predict_log_proba(X))

    @available_if(has_probabilities)
    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Logarithms of the class probabilities, (n, n_classes)."""
        scores = self._sharpness() * self._scores(X)
        scores -= scores.max(axis=1, keepdims=True)
        return scores - np.log(np.exp(scores).sum(axis=1, keepdims=True))
