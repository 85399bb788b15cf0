"""Problems that are followed along a path of l2: all examples, and those of the folds, which share its rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from partwise.compiled.clock import working_time
from partwise.core.problem import Problem
from partwise.errors import InputError
from partwise.estimators.model import LinearModel
from partwise.solvers import Solution, Solver, WarmStart

Score = Callable[[Solver, Solution], float]
_LOOSER = 10.0  # times the tolerance: models of folds are there to rank values of l2, and are dropped


@dataclass
class Lane:
    """One problem along the path.

    Attributes
    ----------
    estimator : StructuredEstimator
        Whose settings solve it.
    problem : Problem
        At any l2.
    score : callable (solver, solution) to float, or None
        What the value of l2 is judged by.
    before : WarmStart or None
        The solution at the value before.
    cpu_seconds : float
        Of the last value.
    """

    estimator: Any
    problem: Problem
    score: Score | None = None
    before: WarmStart | None = field(default=None, repr=False)
    cpu_seconds: float = 0.0

    def advance(self, l2: float) -> tuple[Solver, Solution, float]:
        """Solve at the next value; returns the score too, nan without one."""
        cpu = working_time()[1]
        problem = self.problem.with_l2(l2)
        solver = self.estimator._solver_for(problem)
        solution = self.estimator._solve(problem, solver, self.before)
        self.cpu_seconds = working_time()[1] - cpu
        self.before = WarmStart(solution.problem, solution.state)
        score = float("nan") if self.score is None else float(self.score(solver, solution))
        return solver, solution, score


def fold_lanes(estimator: Any, problem: Problem, cv: Any, callback: Callable[[Any], bool]) -> list[Lane]:
    """A lane for every fold: trained on the others, scored on its own examples."""
    lanes = []
    for train, test in folds(estimator, problem, cv):
        own = copy(estimator)
        own.callback, own.verbose, own.tol = callback, 0, min(_LOOSER * estimator.tol, 0.5)
        shard = problem.shard(train)
        shard.scorer.n_jobs = 1  # folds have threads of their own
        lanes.append(Lane(own, shard, held_out_score(estimator, problem, test)))
    return lanes


def folds(estimator: Any, problem: Problem, cv: Any) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Examples to train on and to score, as scikit-learn's `check_cv` reads `cv`: stratified for classes."""
    from sklearn.model_selection import check_cv

    n, is_classes = problem.n_examples, problem.structure.n_classes > 0
    if isinstance(cv, (int, np.integer)) and not 2 <= cv <= n:
        raise InputError(f"cv={cv} needs 2 to {n} folds, the number of training examples")
    codes = problem.gold.part if is_classes else np.zeros(n, np.int64)
    try:
        found = list(check_cv(cv, codes, classifier=is_classes).split(np.zeros((n, 1)), codes))
        pairs = [(np.asarray(train), np.asarray(test)) for train, test in found]
    except (TypeError, ValueError, AttributeError) as error:
        raise InputError(f"cv={cv!r:.60} makes no folds of {n} examples: {error}") from None
    if not pairs:
        raise InputError(f"cv={cv!r:.60} makes no folds")
    for pair in pairs:
        for part in pair:
            if part.ndim != 1 or part.dtype.kind not in "iu" or not part.size:
                raise InputError(
                    f"cv={cv!r:.60} must make folds of whole numbers, and of one example or more"
                )
            if part.min() < 0 or part.max() >= n:
                raise InputError(f"cv={cv!r:.60} makes a fold with examples that are not there")
        yield np.sort(pair[0]).astype(np.int64), np.sort(pair[1]).astype(np.int64)


def held_out_score(estimator: Any, problem: Problem, examples: np.ndarray) -> Score:
    """The score of the task on some of a problem's own examples, whose rows are there already."""
    shard = problem.shard(examples)
    true = problem.structure.decode_all(shard.gold, shard.scorer.shapes)

    def score(solver: Solver, solution: Solution) -> float:
        model = LinearModel(problem.structure, problem.scorer.maps, problem.scoring(solution.weights))
        predicted, _ = model.best(shard.scorer, None, 1)
        if predicted is None:
            return float("nan")
        return estimator._score_of_labels(shard, true, predicted)

    return score
