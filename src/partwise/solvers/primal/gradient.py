"""Batch gradient methods on the primal, for smooth losses: `lbfgs` and `cg`.

One evaluation gives P(w), its gradient l2·w − v(p(w)) and, with α_i = p_i(w), the dual; their difference is
‖∇P‖² / (2 l2). So every step is certified, for nothing. An l1 term, which has no gradient at zero, is left out of it:
`lbfgs` then looks for its steps within an orthant.
"""

from __future__ import annotations

import math
from collections.abc import Set
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from partwise.core.problem import Problem
from partwise.errors import InputError
from partwise.solvers.base import Certificate, StepInfo
from partwise.solvers.needs import Needs
from partwise.solvers.primal.ray import OrthantRay, Point, Ray, evaluate, pseudo_gradient


class LBFGSState(NamedTuple):
    """The current point, and the last moves with the changes of the gradient along them.

    Attributes
    ----------
    weights, gradient : ndarray (n_weights,)
    value : ndarray (2,)
        P and D; nan until they are computed.
    moves, changes : ndarray (memory, n_weights)
        Pair k lies in row k mod memory.
    n_pairs : ndarray (1,) of int64
        Pairs stored so far.
    """

    weights: np.ndarray
    gradient: np.ndarray
    value: np.ndarray
    moves: np.ndarray
    changes: np.ndarray
    n_pairs: np.ndarray


class CGState(NamedTuple):
    """The current point and the last search direction.

    Attributes
    ----------
    weights, gradient, direction : ndarray (n_weights,)
        `direction` is zero where the next one starts afresh.
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


class _Gradient:
    """What both do: start at zero, certify from what the state holds."""

    name = ""

    def check(self, problem: Problem) -> None:
        """There are no settings."""

    def carry_over(self, problem: Problem, state: Any, changed: Set[str]) -> Any:
        """The weights stay; what was computed at them is forgotten."""
        fresh = self.init(problem, np.random.default_rng(0))
        return fresh._replace(weights=state.weights)

    def init(self, problem: Problem, random: np.random.Generator) -> Any:
        raise NotImplementedError

    def certificate(self, problem: Problem, state: LBFGSState | CGState) -> tuple[object, Certificate]:
        """From the evaluation of the state's own weights, in double precision: no further pass."""
        point, _ = _current(problem, state)
        return state, Certificate(point.value, point.dual, point.weights)


@dataclass(frozen=True)
class LBFGS(_Gradient):
    """Limited-memory BFGS (Nocedal 1980), with an l1 term within orthants (Andrew and Gao 2007); starts at zero.

    Parameters
    ----------
    memory : int
        Pairs kept; each costs two vectors of weights.
    """

    memory: int = 10
    name = "lbfgs"
    needs = Needs(loss="smooth", partial=True)

    def check(self, problem: Problem) -> None:
        if not isinstance(self.memory, int) or self.memory < 1:
            raise InputError(f"memory must be an integer of at least 1, not {self.memory!r}")

    def init(self, problem: Problem, random: np.random.Generator) -> LBFGSState:
        pairs = np.zeros((2, self.memory, problem.n_weights))
        unknown = np.full(2, np.nan)
        weights, gradient = np.zeros((2, problem.n_weights))
        return LBFGSState(weights, gradient, unknown, pairs[0], pairs[1], np.zeros(1, np.int64))

    def step(
        self, problem: Problem, state: LBFGSState, random: np.random.Generator
    ) -> tuple[LBFGSState, StepInfo]:
        point, passes = _current(problem, state)
        slope = pseudo_gradient(point, problem.l1) if problem.l1 else point.gradient
        direction = self._direction(problem, slope, state)
        if problem.l1:  # where the curvature says otherwise than the slope, an entry waits
            direction = np.where(direction * slope < 0.0, direction, 0.0)
        if not problem.inner(direction, slope) < 0:
            return _stay(state, point, passes)
        ray = OrthantRay(problem, point, direction, slope) if problem.l1 else Ray(problem, point, direction)
        new = ray.search(0.9, None)
        passes += ray.evaluations
        if new is None:
            state.n_pairs[0] = 0
            return _stay(state, point, passes)
        move, change = new.weights - point.weights, new.gradient - point.gradient
        if problem.inner(move, change) > 1e-12 * problem.inner(change, change):
            row = int(state.n_pairs[0]) % self.memory
            state.moves[row], state.changes[row] = move, change
            state.n_pairs[0] += 1
        return _go(state, new, passes)

    def _direction(self, problem: Problem, gradient: np.ndarray, state: LBFGSState) -> np.ndarray:
        """−H g by the two-loop recursion; a first step of length one."""
        n_pairs, inner = int(state.n_pairs[0]), problem.inner
        if n_pairs == 0:
            return -gradient / max(math.sqrt(max(inner(gradient, gradient), 0.0)), 1e-300)
        rows = [k % self.memory for k in range(max(0, n_pairs - self.memory), n_pairs)]
        direction, shares = -gradient, {}
        for k in reversed(rows):
            shares[k] = inner(state.moves[k], direction) / inner(state.moves[k], state.changes[k])
            direction -= shares[k] * state.changes[k]
        last_move, last_change = state.moves[rows[-1]], state.changes[rows[-1]]
        direction *= inner(last_move, last_change) / inner(last_change, last_change)
        for k in rows:
            share = inner(state.changes[k], direction) / inner(state.moves[k], state.changes[k])
            direction += (shares[k] - share) * state.moves[k]
        return direction


@dataclass(frozen=True)
class ConjugateGradient(_Gradient):
    """Nonlinear conjugate gradient, Polak–Ribière+, restarted where it no longer descends."""

    name = "cg"
    needs = Needs(loss="smooth", ridge=True, partial=True)

    def init(self, problem: Problem, random: np.random.Generator) -> CGState:
        weights, gradient, direction = np.zeros((3, problem.n_weights))
        return CGState(weights, gradient, np.full(2, np.nan), direction, np.full(1, np.nan))

    def step(self, problem: Problem, state: CGState, random: np.random.Generator) -> tuple[CGState, StepInfo]:
        point, passes = _current(problem, state)
        direction, before = state.direction, float(state.previous[0])
        norm = problem.inner(point.gradient, point.gradient)
        fresh = passes > 0 or not problem.inner(direction, point.gradient) < -1e-3 * norm
        if fresh:
            direction = -point.gradient
            before = point.value + 0.5 * math.sqrt(max(norm, 0.0))  # makes the first move about one long
        if norm <= 0.0:
            return _stay(state, point, passes)
        ray = Ray(problem, point, direction)
        new = ray.search(0.4, before)
        passes += ray.evaluations
        if new is None:
            return _stay(state._replace(direction=np.zeros_like(direction)), point, passes)
        # Polak–Ribière+: a negative factor means starting afresh.
        factor = max(0.0, problem.inner(new.gradient, new.gradient - point.gradient) / norm)
        state = state._replace(direction=factor * direction - new.gradient, previous=np.array([point.value]))
        return _go(state, new, passes)


def _current(problem: Problem, state: LBFGSState | CGState) -> tuple[Point, int]:
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
