"""Plain classes: one part per label, a softmax."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from partwise.compiled.simd import LANES
from partwise.core.randomness import random_generator
from partwise.structures.checks import (
    checked_count,
    checked_labels,
    checked_samples,
    checked_scores,
    require_possible,
)
from partwise.structures.contract import PartLists, PositionLabels, RowKind, Shapes
from partwise.structures.multiclass.softmax import (
    MULTICLASS,
    MulticlassSpecification,
    multiclass_specification,
    multiclass_workspace,
)
from partwise.structures.packed import Packed

_A_PART = 10.0  # nanoseconds that the softmax takes for one class


class Multiclass(PositionLabels):
    """One of `n_labels` classes.

    Scores are (n_labels,) for one example, or (n, n_labels) for many. Answers have the first axis if scores have it.

    Examples
    --------
    >>> Multiclass(3).marginals([0.0, 0.0, -np.inf])
    array([0.5, 0.5, 0. ])
    """

    def __init__(self, n_labels: int):
        self.n_labels = checked_count(n_labels, "n_labels")
        self.kinds = (RowKind("node", self.n_labels),)
        self.oracle = MULTICLASS

    def __repr__(self) -> str:
        return f"Multiclass({self.n_labels})"

    def log_partition(self, scores: Any) -> Any:
        """log Σ exp(scores): a float or (n,)."""
        return self._pack(scores).log_partition()

    def marginals(self, scores: Any) -> np.ndarray:
        """Class probabilities, the shape of `scores`."""
        packed = self._pack(scores)
        return packed.expectations()[1].reshape(np.shape(scores))

    def argmax(self, scores: Any) -> Any:
        """The best class: an int or int64 (n,)."""
        packed = self._pack(scores)
        labels = packed.best()
        return int(labels[0]) if packed.single else labels

    def loss_augmented_argmax(self, scores: Any, y: Any, cost: Any = 1.0) -> Any:
        """The best class when every class but `y` gains `cost`.

        Parameters
        ----------
        scores : array_like (n_labels,) or (n, n_labels)
        y : int or array_like (n,)
        cost : float or array_like, the shape of `scores`
            A number is the cost of any wrong class; an array gives the cost of each.
        """
        array = self._checked(scores)
        labels = checked_labels(np.atleast_1d(y), "y", self.n_labels)
        rows = np.atleast_2d(array)
        checked_scores(labels, "y", (len(rows),))
        if np.ndim(cost):
            costs = checked_scores(cost, "cost", array.shape).reshape(rows.shape)
        else:
            costs = np.full(rows.shape, float(checked_scores(cost, "cost", ())))
            costs[np.arange(len(rows)), labels] = 0.0
        return self.argmax((rows + costs).reshape(array.shape))

    def kbest(self, scores: Any, k: int = 5) -> Any:
        """(class, score) pairs, best first; a list of such lists for many examples."""
        array, k = self._checked(scores), checked_count(k, "k")
        if array.ndim == 2:
            return [self.kbest(row, k) for row in array]
        require_possible(array.max(keepdims=True), single=True)
        order = np.argsort(-array, kind="stable")[:k]
        return [(int(label), float(array[label])) for label in order if array[label] > -np.inf]

    def sample(self, scores: Any, n_samples: int = 1, random_state: Any = None) -> np.ndarray:
        """Classes drawn from the softmax: int64 (n_samples,) or (n, n_samples)."""
        n_samples = checked_samples(n_samples)
        probabilities = np.atleast_2d(self.marginals(scores))
        uniforms = random_generator(random_state).random((len(probabilities), n_samples))
        labels = np.empty((len(probabilities), n_samples), np.int64)
        for row, cumulative in enumerate(probabilities.cumsum(axis=1)):
            labels[row] = np.searchsorted(cumulative, uniforms[row] * cumulative[-1], side="right")
        return labels[0] if np.ndim(scores) == 1 else labels

    def entropy(self, scores: Any) -> Any:
        """Entropy of the softmax in nats: a float or (n,)."""
        return self._pack(scores).entropy()

    def log_count(self, length: Any = 1) -> Any:
        """log n_labels; the contract asks for `length`, which does not matter."""
        count = np.full(np.shape(length), np.log(self.n_labels))
        return float(count) if count.ndim == 0 else count

    def encode(self, y: Any) -> np.ndarray:
        """The class itself: int64 (1,)."""
        return checked_labels(np.atleast_1d(y), "y", self.n_labels)

    def decode(self, parts: Any) -> int:
        return int(checked_labels(parts, "parts", self.n_labels)[0])

    def labellings(self, length: int = 1) -> Iterator[int]:
        return iter(range(self.n_labels))

    def score(self, y: Any, scores: Any) -> float:
        """Score of class `y`."""
        return float(self._checked(scores)[y])

    def indicators(self, y: Any) -> np.ndarray:
        return (np.arange(self.n_labels) == y).astype(float)

    def kbest_parts(self, shape: np.ndarray, scores: np.ndarray, k: int) -> list[np.ndarray]:
        return [self.encode(label) for label, _ in self.kbest(scores, k)]

    def specification(self) -> MulticlassSpecification:
        return multiclass_specification(self.n_labels)

    @property
    def n_classes(self) -> int:
        return self.n_labels

    @property
    def is_first_order(self) -> bool:
        return True

    def sums_effort(self, shapes: Shapes) -> float:
        return _A_PART * float(self.n_parts(shapes).sum())

    def workspace(self, shapes: Shapes, specification: Any = None) -> Any:
        return multiclass_workspace(self.specification())

    def row_counts(self, shapes: Shapes) -> tuple[np.ndarray, ...]:
        return (shapes.lengths,)

    def most_parts(self, shapes: Shapes) -> np.ndarray:
        return shapes.lengths

    def encode_all(self, labels: Any, shapes: Shapes) -> PartLists:
        return PartLists(np.arange(len(shapes.ptr)), self.check_gold(labels, shapes))

    def _checked(self, scores: Any) -> np.ndarray:
        shape = (None, self.n_labels) if np.ndim(scores) == 2 else (self.n_labels,)
        return checked_scores(scores, "scores", shape)

    def _pack(self, scores: Any) -> Packed:
        array = self._checked(scores)
        n = len(array) if array.ndim == 2 else 1
        flat = np.concatenate([array.ravel(), np.zeros(LANES)])
        part_ptr = np.arange(n + 1) * self.n_labels
        return Packed(self, self.specification(), self.shapes(np.ones(n)), part_ptr, flat, array.ndim == 1)
