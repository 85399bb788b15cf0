"""The common part of batch gradient methods on the primal, for smooth losses, and nonlinear conjugate gradient: `cg`.

One evaluation gives P(w), its gradient l2·w − v(p(w)) and, with α_i = p_i(w), the dual. Their difference is
‖∇P‖² / (2 l2). So every step has a certificate at no extra cost.
"""

from __future__ import annotations

import math
from collections.abc import Set
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from partwise.core.problem import Problem
from partwise.solvers.base import Certificate, Solver, StepInfo
from partwise.solvers.needs import Needs
from partwise.solvers.primal.line_search import LineSearch, Point, evaluate


class CGState(NamedTuple):
    """The current point and the last search direction.

    Attributes
    ----------
    weights, gradient, direction : ndarray (n_weights,)
        `direction` is zero if the next one starts again from the gradient.
    value : ndarray (2,)
        P and D; nan until they are computed.
    previous : ndarray (1,)
        P one step before; nan where there is none.
    """

    weights: np.ndarray
    gradient: np.ndarray
    value: np.ndarray
    direction: np.ndarray
    previous: np.ndarray


class BatchGradient(Solver):
    """Batch methods that start at zero and certify from their state."""

    shards = "sums"
    runs_on_gpu = True

    def carry_over(self, problem: Problem, state: Any, changed: Set[str]) -> Any:
        """The weights stay; values computed there are forgotten."""
        fresh = self.init(problem, np.random.default_rng(0))
        return fresh._replace(weights=state.weights)

    def certificate(self, problem: Problem, state: Any) -> tuple[object, Certificate]:
        """From the evaluation of the state's weights, in double precision, without a further pass."""
        point, _ = current_point(problem, state)
        return state, Certificate(point.value, point.dual, point.weights)


@dataclass(frozen=True)
class ConjugateGradient(BatchGradient):
    """Nonlinear conjugate gradient, Polak–Ribière+, restarted when it no longer descends."""

    name = "cg"
    needs = Needs(loss="smooth", ridge=True, partial=True)

    def init(self, problem: Problem, random: np.random.Generator) -> CGState:
        weights, gradient, direction = np.zeros((3, problem.n_weights))
        return CGState(weights, gradient, np.full(2, np.nan), direction, np.full(1, np.nan))

    def step(self, problem: Problem, state: CGState, random: np.random.Generator) -> tuple[CGState, StepInfo]:
        point, passes = current_point(problem, state)
        direction, before = state.direction, float(state.previous[0])
        norm = problem.inner(point.gradient, point.gradient)
        fresh = passes > 0 or not problem.inner(direction, point.gradient) < -1e-3 * norm
        if fresh:
            direction = -point.gradient
            before = point.value + 0.5 * math.sqrt(max(norm, 0.0))  # makes the first move about one long
        if norm <= 0.0:
            return _stay(state, point, passes)
        line = LineSearch(problem, point, direction)
        new = line.search(0.4, before)
        passes += line.evaluations
        if new is None:
            return _stay(state._replace(direction=np.zeros_like(direction)), point, passes)
        # Polak–Ribière+: a negative factor means starting afresh.
        factor = max(0.0, problem.inner(new.gradient, new.gradient - point.gradient) / norm)
        state = state._replace(direction=factor * direction - new.gradient, previous=np.array([point.value]))
        return _go(state, new, passes)


def current_point(problem: Problem, state: Any) -> tuple[Point, int]:
    """The state's point, evaluated now if it was not yet, and the passes that took."""
    if not np.isnan(state.value).any():
        return Point(state.weights, state.gradient, float(state.value[0]), float(state.value[1])), 0
    return evaluate(problem, state.weights), 1


def _go(state, point: Point, passes: int):  # type: ignore[no-untyped-def]
    """The state moved to `point`."""
    value = np.array([point.value, point.dual])
    moved = state._replace(weights=point.weights, gradient=point.gradient, value=value)
    return moved, StepInfo(float(passes), point.dual, point.value - point.dual)


def _stay(state, point: Point, passes: int):  # type: ignore[no-untyped-def]
    """No descent is left at this precision: the same point, at the price of at least a pass."""
    return _go(state, point, max(passes, 1))
