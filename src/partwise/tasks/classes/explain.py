"""Why a classifier chose a class: the terms of its score, or of its lead over another class."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from partwise.errors import InputError
from partwise.estimators.explain import INTERCEPT, Contribution, Explanations


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
