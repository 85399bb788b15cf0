"""Dev data for a path: how they are scored at weights that are no estimator's yet."""

from __future__ import annotations

from copy import copy
from typing import Any, NamedTuple

from partwise.core.problem import Problem
from partwise.data.conll import Columns
from partwise.estimators.labels import warn_of_unknown
from partwise.estimators.regularization_path.folds import Score
from partwise.solvers import Solution, Solver


class Prepared(NamedTuple):
    """An estimator that has read its data and not been trained, with what becoming a model takes besides a solution."""

    estimator: Any
    encoder: Any
    source: Any

    def at(self, solver: Solver, solution: Solution) -> Any:
        """The estimator fitted at a value of l2."""
        fitted = copy(self.estimator)
        fitted.__dict__.pop("_follow", None)
        with_l2(fitted, solution.problem.l2)
        fitted._become(solver, solution, self.encoder, self.source)
        return fitted


def with_l2(estimator: Any, l2: float) -> Any:
    """The estimator with this parameter set; CRFsuite's c2 is half of it."""
    own = "l2" in estimator.get_params(deep=False)
    return estimator.set_params(**({"l2": float(l2)} if own else {"c2": 0.5 * float(l2)}))


def dev_score(prepared: Prepared, problem: Problem, X: Any, y: Any) -> Score:
    """The score of the task on labelled data; warns of labels that training does not have."""
    estimator = prepared.estimator
    if y is None and isinstance(X, Columns) and X.labels is not None:
        y = [list(labels) for labels in X.split(X.labels)]
    _warn_of_unknown(estimator, X, y)
    by_weights = estimator._scorer_during_fit(problem, prepared.encoder, X, y)

    def score(solver: Solver, solution: Solution) -> float:
        if by_weights is not None:
            return by_weights(solution.weights)
        return prepared.at(solver, solution).score(X, y)

    return score


def n_examples(X: Any) -> int:
    """How many examples dev data have."""
    for name in ("n_sentences", "n_sequences"):
        if hasattr(X, name):
            return int(getattr(X, name))
    for name in ("graphs", "trees"):
        if hasattr(X, name):
            return len(getattr(X, name))
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _warn_of_unknown(estimator: Any, X: Any, y: Any) -> None:
    """One line on labels of dev data that can never be predicted."""
    found = estimator._labels_in(X, y)
    known = estimator._known_labels() if found else []
    if known:
        warn_of_unknown(found, known, "dev data have")
