"""What a fitted classifier answers, from the scores of all classes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from partwise.core.losses import Loss
from partwise.errors import InputError
from partwise.estimators.conformal import ConformalAnswers, ConformalSets, Truths, within
from partwise.estimators.explain import INTERCEPT, Contribution, Explanations
from partwise.estimators.probabilities import Probabilities
from partwise.estimators.protocol import available_if


def has_probabilities(estimator: Any) -> bool:
    if Loss.of(estimator.loss).is_hard:
        raise AttributeError(
            f"loss={estimator.loss!r} has beta = inf and so no probabilities: use decision_function, or "
            "train with 'log', 'softmax_margin' or Loss(beta, gamma) with a finite beta"
        )
    return True


class ClassPredictions(ConformalAnswers, Probabilities):
    """Predictions of an estimator that has `classes_`, `loss` and `_scores`."""

    classes_: np.ndarray
    loss: str | Loss
    _probability_method = "predict_proba"
    _set_kinds = ("classes",)

    def _scores(self, X: Any) -> np.ndarray:
        """Scores of all classes, (n, n_classes)."""
        raise NotImplementedError

    def _labels_in(self, X: Any, y: Any) -> set[Any]:
        return set() if y is None else set(np.asarray(y).tolist())

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

    # -- sets with guaranteed coverage ------------------------------------------------------------

    def _set_names(self, on: str) -> list[Any]:
        self._require_fitted()  # type: ignore[attr-defined]
        return self.classes_.tolist()

    def _set_truths(self, X: Any, y: Any, on: str, k: int) -> Truths:
        self._sharpness()
        p, truth = self.predict_proba(X), list(y)
        if len(truth) != len(p):
            raise InputError(f"X has {len(p)} examples, y has {len(truth)}")
        index = {label: k for k, label in enumerate(self.classes_.tolist())}
        kind = np.array([index.get(label, -1) for label in np.asarray(truth, object).tolist()], np.int64)
        own = p[np.arange(len(p)), kind]
        # The probability of better classes; of equally probable ones, the first in order is better.
        better = (p > own[:, None]) | ((p == own[:, None]) & (np.arange(p.shape[1]) < kind[:, None]))
        score = np.where(kind >= 0, (p * better).sum(axis=1), np.inf)
        return Truths(score, np.arange(len(p)), kind)

    def _sets(self, X: Any, sets: ConformalSets) -> list[list[Any]]:
        p, labels = self.predict_proba(X), self.classes_.tolist()
        quantile, found = np.array([sets.quantiles[group] for group in sets.groups]), []
        order = np.argsort(-p, axis=1, kind="stable")
        for row, own in zip(p, order, strict=True):
            kept = own[within(row[own], quantile[own])]
            found.append([(labels[k], float(row[k])) for k in kept.tolist()])
        return found


class ClassExplanations(Explanations):
    """Explanations of an estimator that has `coef_`, `intercept_`, `classes_`, `_matrix` and `_scores`.

    The one position of an explanation is the example. A class called "runner-up" cannot be asked for.
    """

    classes_: np.ndarray
    coef_: np.ndarray
    intercept_: np.ndarray
    _matrix: Any
    _names: Any
    _scores: Any
    _words = ("example", "class")
    _has_text_labellings = _merges = True

    def _require_model(self) -> None:
        self._require_fitted()  # type: ignore[attr-defined]

    def _queries(self, X: Any) -> Iterator[Any]:
        yield self._matrix(X)

    def _given(self, query: Any, y: Any, name: str) -> tuple[list[Any], int]:
        labels = self.classes_.tolist()
        if y not in labels:
            raise InputError(f"{name}: label {y!r:.60} was not in training")
        return [labels[labels.index(y)]], labels.index(y)

    def _ranked(self, X: Any, k: int) -> list[list[tuple[Any, float]]]:
        [scores] = self._scores(X)
        order = np.argsort(-scores, kind="stable")[:k]
        return [list(zip(self.classes_[order].tolist(), scores[order].tolist(), strict=True))]

    def _terms(self, query: Any, labels: int) -> list[Contribution]:
        row = query.todense() if hasattr(query, "todense") else query
        values, weights = np.asarray(row, np.float64).reshape(-1), self.coef_[labels]
        label, constant, names = self.classes_.tolist()[labels], float(self.intercept_[labels]), self._names()
        terms = [Contribution(0, INTERCEPT, label, 1.0, constant, constant)]
        for k in np.flatnonzero(values).tolist():
            value, weight = float(values[k]), float(weights[k])
            terms.append(Contribution(0, names[k], label, value, weight, weight * value))
        return terms
