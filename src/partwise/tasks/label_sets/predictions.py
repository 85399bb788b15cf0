"""What a fitted classifier with many labels answers: labels chosen together, probabilities, margins."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from partwise.errors import InputError
from partwise.estimators.encoded import Encoded
from partwise.estimators.explain import INTERCEPT, Use
from partwise.estimators.model import Excluded
from partwise.estimators.predictions import Predictions, Query
from partwise.estimators.protocol import available_if
from partwise.tasks.classes.predictions import has_probabilities
from partwise.tasks.label_sets.structure import LABELS, PAIRS, label_shapes


class MultilabelPredictions(Predictions):
    """Predictions of an estimator that has `classes_`, `pairs_`, `_matrix` and `_own_rows`."""

    classes_: np.ndarray
    _single: bool
    pairs_: list[tuple[int, int]]
    loss: Any
    _matrix: Any
    _own_rows: Any
    _names: Any
    _known_labels: Any
    _words = ("example", "set of labels")
    _probability_method = "predict_proba"
    _merges = True

    def predict(self, X: Any) -> np.ndarray:
        """The labels of every example that score best together, (n, n_labels) of 0 and 1.

        Where `y` was one column in training, the class of every example, (n,). To have the fewest labels wrong, one by
        one, take ``predict_proba(X) > 0.5`` instead.
        """
        [query] = self._queries(X)
        codes, _ = query.best()
        if self._single:
            return self.classes_[np.minimum(codes, len(self.classes_) - 1)]
        return codes.reshape(len(query.lengths), -1)

    @available_if(has_probabilities)
    def predict_proba(self, X: Any) -> np.ndarray:
        """Probability that each label is there, (n, n_labels); not there for β = ∞ (hinge, perceptron).

        Where `y` was one column in training, of both classes, (n, 2).
        """
        [query] = self._queries(X)
        states = self._counts(query).reshape(len(query.lengths), -1, 2)
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
        [query] = self._queries(X)
        n_labels = self._model.structure.kinds[0].width // 2
        margins = np.stack([self._margin(query, label) for label in range(n_labels)], axis=1)
        return margins[:, 0] if self._single else margins

    def _margin(self, query: Query, label: int) -> np.ndarray:
        n = len(query.lengths)
        excluded = (Excluded(np.arange(n + 1), np.full(n, part)) for part in (2 * label, 2 * label + 1))
        with_label, without = (self._model.best(query.scorer, own, query.n_jobs)[1] for own in excluded)
        return with_label - without

    # -- examples and labellings ----------------------------------------------------------------

    def _source(self, X: Any) -> Any:
        return self._matrix(X)

    def _encode(self, source: Any, encoder: Any, structure: Any) -> Encoded:
        n, n_labels = source.shape[0], structure.kinds[0].width // 2
        shapes = label_shapes(structure, n_labels, self.pairs_, n)
        return Encoded(np.ones(n, np.int64), (self._own_rows(source),), shapes)

    def _labelling(self, codes: np.ndarray, query: Query, i: int) -> list[int]:
        return codes.tolist()

    # -- explanations ---------------------------------------------------------------------------

    def _given(self, query: Query, y: Any, name: str) -> tuple[list[Any], np.ndarray]:
        """The columns of `y`, or its one class."""
        shown, n_labels = np.ravel(y).tolist(), self._model.structure.kinds[0].width // 2
        known = self.classes_.tolist() if self._single else [0, 1]
        if len(shown) != n_labels or any(each not in known for each in shown):
            raise InputError(
                f"{name} is {y!r:.60}; it must have {n_labels} of {' and '.join(map(str, known))}"
            )
        return shown, np.array([known.index(each) for each in shown])

    def _uses(self, query: Query, labels: np.ndarray) -> Iterator[Use]:
        """Positions are the numbers of labels, their labels 0 and 1; a pair stands at its second label."""
        states, names = labels.tolist(), self._known_labels()
        for k, state in enumerate(states):
            yield Use(LABELS, 0, 2 * k + state, k, state)
        for p, (a, b) in enumerate(self.pairs_):
            both = states[a], states[b]
            yield Use(PAIRS, 0, 4 * p + 2 * both[0] + both[1], b, both, f"(pair with {names[a]})")

    def _attributes(self, kind: str, ids: list[int]) -> list[str]:
        names = [*self._names(), INTERCEPT]
        return [""] * len(ids) if kind == PAIRS else [names[k] for k in ids]
