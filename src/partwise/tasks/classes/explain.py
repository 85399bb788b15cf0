"""Why a classifier chose a class: the terms of its score, or of its lead over another class."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from partwise.errors import InputError
from partwise.estimators.explain import Contribution, Explanation
from partwise.tasks.classes.data import read_attributes, read_matrix

_INTERCEPT = "(intercept)"


class ClassExplanations:
    """Explanations of an estimator that has `coef_`, `intercept_`, `classes_`, `_encoder` and `_scores`."""

    classes_: np.ndarray
    coef_: np.ndarray
    intercept_: np.ndarray
    _encoder: Any

    def explain(self, x: Any, y: Any = None, against: Any = None) -> Explanation:
        """Contributions to the score of a class for one example; they add up to it.

        Parameters
        ----------
        x : one example, as a row of X
        y : class, optional
            By default the best one.
        against : "runner-up" or class, optional
            Explain the lead over the second best class (the best other than `y`), or over a given one. A positive
            contribution speaks for `y`. A class called "runner-up" cannot be asked for.

        Returns
        -------
        Explanation
            Its one position is the example.
        """
        classifier: Any = self
        X = [x] if self._encoder is not None else _row(x)
        scores, labels = classifier._scores(X)[0], self.classes_.tolist()
        own = int(scores.argmax()) if y is None else _number(labels, y, "y")
        if against is None:
            other = None
        elif isinstance(against, str) and against == "runner-up":
            if len(labels) < 2:
                raise InputError("there is no other class to compare with")
            other = max((k for k in range(len(labels)) if k != own), key=lambda k: scores[k])
        else:
            other = _number(labels, against, "against")
        weights, constant = self.coef_[own], float(self.intercept_[own])
        if other is not None:
            weights, constant = weights - self.coef_[other], constant - float(self.intercept_[other])
        values, names = self._values(X), classifier._names()
        terms = [Contribution(0, _INTERCEPT, labels[own], 1.0, constant, constant)] if constant else []
        for k in np.flatnonzero(values * weights).tolist():
            value, weight = float(values[k]), float(weights[k])
            terms.append(Contribution(0, names[k], labels[own], value, weight, weight * value))
        compared = None if other is None else [labels[other]]
        return Explanation([labels[own]], compared, math.fsum(term.contribution for term in terms), terms)

    def _values(self, X: Any) -> np.ndarray:
        """The features of the one example, float64 (n_features,)."""
        if self._encoder is not None:
            X = read_attributes(self._encoder, X, self.coef_.shape[1])
        else:
            X = read_matrix(self, X)
        return np.asarray(X.todense() if hasattr(X, "todense") else X, np.float64).reshape(-1)


def _row(x: Any) -> Any:
    """One example as a matrix of one row."""
    if hasattr(x, "iloc") or getattr(x, "ndim", 1) == 2:
        return x
    return [x]


def _number(labels: list[Any], label: Any, name: str) -> int:
    if label not in labels:
        raise InputError(f"{name}: label {label!r:.60} was not in training")
    return labels.index(label)
