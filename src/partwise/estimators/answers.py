"""What commands and pages ask an estimator, so that neither has to know which class it is of."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

if TYPE_CHECKING:
    from partwise.core.problem import Problem
    from partwise.solvers import Solver


class Answers:
    """Answers of a linear model with classes; estimators that are something else give their own.

    Attributes
    ----------
    _task : {"sequences", "segments", "classes", "dependencies", "constituents", "graphs"} or None
        Which files hold its data; None where no file format does.
    _has_weights : bool
        Whether there are `coef_` and `top_features`.
    """

    _task: ClassVar[str | None] = None
    _has_weights: ClassVar[bool] = True
    classes_: np.ndarray
    n_features_in_: int
    coef_: Any
    solver: Any
    tol: float
    memory_limit: float | str | None

    def _known_labels(self) -> list[Any]:
        """The labels of training, in the order of their numbers."""
        return self.classes_.tolist()

    def _alone(self, x: Any) -> Any:
        """X with one example."""
        return [x]

    def _labels_in(self, X: Any, y: Any) -> set[Any]:
        """The labels of labelled data, if they are plain ones."""
        return set()

    def _shown_settings(self) -> dict[str, Any]:
        """Parameters worth showing beside loss, l2, solver and tol, by the words that name them."""
        return {}

    def _shown_sizes(self) -> dict[str, Any]:
        """How large the fitted model is, by the words that name its sizes."""
        return {
            "classes": len(self.classes_),
            "features": int(self.n_features_in_),
            "non-zero weights": int(np.count_nonzero(self.coef_)),
        }

    def _shown_transitions(self, n: int, label: Any = None) -> list[tuple[Any, Any, float]]:
        """The `n` largest weights (before, after, weight) of labels that follow each other, of one label if given."""
        return []

    def _scorer_during_fit(
        self, problem: Problem, encoder: Any, X: Any, y: Any
    ) -> Callable[[np.ndarray], float] | None:
        """What scores labelled data at the weights of the moment; None where that is not possible.

        Parameters
        ----------
        problem, encoder
            As the method `begin` of a callback gets them.
        X, y
            As for `fit`.

        Returns
        -------
        callable (weights) to float
            Weights are those of a ``partwise.solvers.Progress``.
        """
        return None

    @property
    def _score_name(self) -> str:
        """What `_score_of_labels` is called."""
        return "accuracy"

    def _score_of_labels(self, problem: Problem, true: Any, predicted: Any) -> float:
        """The score that fits the task, from 0 to 1, of the labels of a problem's examples.

        Parameters
        ----------
        true, predicted
            As the structure has them: here flat arrays of numbers, of which the share that is equal counts.
        """
        return float(np.mean(true == predicted))

    def _before_training(self, problem: Problem, solver: Solver) -> list[str]:
        """Lines to print before training, such as the size of the problem."""
        return []

    def _training_facts(self) -> dict[str, Any]:
        """What training did with the data besides, as JSON values."""
        return {}

    def _training_notes(self) -> list[str]:
        """The same in a sentence each."""
        return []
