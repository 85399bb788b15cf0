"""`l2="cv"`: the value with the best mean score on held-out folds."""

from __future__ import annotations

from copy import copy
from typing import Any

import numpy as np

from partwise.core.problem import Problem
from partwise.estimators.base import n_threads
from partwise.estimators.regularization_path.folds import Lane, fold_lanes
from partwise.estimators.regularization_path.run import PathRun
from partwise.estimators.regularization_path.values import (
    N_VALUES,
    START,
    STOP,
    checked_values,
    spaced_values,
)
from partwise.solvers import Solution, Solver


def choose_l2(estimator: Any, problem: Problem, encoder: Any, source: Any) -> tuple[Solver, Solution]:
    """Follow a path on all examples and on the folds; sets `l2_`, `l2s_` and `scores_`, returns the best solution."""
    given = estimator.l2s
    values = spaced_values(START, STOP, N_VALUES) if given is None else checked_values(given)
    run = PathRun([], values, n_threads=n_threads(estimator.n_jobs), time_limit=estimator.time_limit)
    run.lanes = cross_validated(estimator, problem, estimator.cv, run)
    if estimator.verbose:
        run.tell = _print_last
    run.follow()
    if not run.points:
        raise KeyboardInterrupt
    set_choice(estimator, run)
    point = run.points[run.best()]
    return point.solver, point.solution


def cross_validated(estimator: Any, problem: Problem, cv: Any, run: PathRun) -> list[Lane]:
    """All examples, and the folds; a callback stops all of them."""
    whole = copy(estimator)
    whole.verbose = 0
    return [Lane(whole, problem), *fold_lanes(estimator, problem, cv, lambda _: run.stopping)]


def set_choice(estimator: Any, run: PathRun) -> None:
    """The fitted attributes that tell what was chosen from what."""
    estimator.l2_ = run.points[run.best()].l2
    estimator.l2s_ = np.array([point.l2 for point in run.points])
    estimator.scores_ = run.scores().T.copy()


def _print_last(run: PathRun) -> None:
    point = run.points[-1]
    print(f"l2 {point.l2:<10.4g} mean score {point.score:.4f}  {point.solution.passes:.1f} passes")
