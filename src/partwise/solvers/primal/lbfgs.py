"""Limited-memory quasi-Newton on the primal, for smooth losses: `lbfgs`.

Its steps start from the curvature of dense or few attributes (`curvature.py`), and its dual point is a mixture of the
α_i = p_i of its last points. Entropy is concave and v linear, so that D of the mixture is at least the mixture of what
is linear in α, less ‖v of the mixture‖² / (2 l2): gradients that point here and there cancel, and a bound follows from
what is there already. With an l1 term steps are those of `proximal.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from partwise.core.problem import Problem
from partwise.core.products import on_own_thread
from partwise.errors import InputError
from partwise.solvers.base import StepInfo
from partwise.solvers.needs import Needs
from partwise.solvers.primal.curvature import Curvature, is_worthwhile
from partwise.solvers.primal.gradient import BatchGradient, current_point
from partwise.solvers.primal.kronecker import pieces_at
from partwise.solvers.primal.mixture_bound import mixture_bound
from partwise.solvers.primal.proximal import proximal_direction
from partwise.solvers.primal.ray import Point, Ray, SparseRay, pseudo_gradient

_STEPS_BETWEEN_LOOKS = 10  # at the curvature
_NEAR = 0.02  # relative decrease of P by a step below which it is worth another look


class LBFGSState(NamedTuple):
    """The current point, and the last moves with the changes of the gradient along them.

    Attributes
    ----------
    weights, gradient : ndarray (n_weights,)
    value : ndarray (3,)
        P, the best D so far, and the part of D at this point that is linear in α; nan until they are computed.
    decrease : ndarray (1,)
        Of P by the last step, relative to P.
    moves, changes : ndarray (memory, n_weights)
        Pair k lies in row k mod memory.
    linear : ndarray (memory,)
        The part of D that is linear in α, at the point where a move begins.
    n_pairs, n_steps : ndarray (1,) of int64
        Pairs stored so far, and steps made.
    looked, anchor : ndarray (1,) of int64, ndarray (n_weights,)
        Steps made when the curvature was looked at last, and where; −1 for never.
    """

    weights: np.ndarray
    gradient: np.ndarray
    value: np.ndarray
    decrease: np.ndarray
    moves: np.ndarray
    changes: np.ndarray
    linear: np.ndarray
    n_pairs: np.ndarray
    n_steps: np.ndarray
    looked: np.ndarray
    anchor: np.ndarray


@dataclass(frozen=True)
class LBFGS(BatchGradient):
    """Limited-memory BFGS (Nocedal 1980), preconditioned where attributes are dense or few; starts at zero.

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
        moves, changes = np.zeros((2, self.memory, problem.n_weights))
        weights, gradient, anchor = np.zeros((3, problem.n_weights))
        n_pairs, n_steps = np.zeros((2, 1), np.int64)
        return LBFGSState(
            weights, gradient, np.full(3, np.nan), np.full(1, np.inf), moves, changes, np.zeros(self.memory),
            n_pairs, n_steps, np.full(1, -1), anchor,
        )  # fmt: skip

    def step(
        self, problem: Problem, state: LBFGSState, random: np.random.Generator
    ) -> tuple[LBFGSState, StepInfo]:
        with on_own_thread():
            return self._step(problem, state)

    def _step(self, problem: Problem, state: LBFGSState) -> tuple[LBFGSState, StepInfo]:
        point, passes = current_point(problem, state)
        if passes:
            state = state._replace(value=np.array([point.value, point.dual, _linear_part(problem, point)]))
        shape: Any = None
        if is_worthwhile(problem):
            waited = int(state.n_steps[0] - state.looked[0])
            if state.looked[0] < 0 or (waited >= _STEPS_BETWEEN_LOOKS and state.decrease[0] < _NEAR):
                state.anchor[:], state.looked[0] = point.weights, state.n_steps[0]
                passes += 1
            shape = _curvature_at(problem, state.anchor)
        slope = pseudo_gradient(point, problem.l1) if problem.l1 else point.gradient
        if problem.l1:
            rows = self._rows(state)
            direction = proximal_direction(problem, point, state.moves[rows], state.changes[rows], shape)
        else:
            direction = self._direction(problem, slope, state, shape)
        state.n_steps[0] += 1
        if not problem.inner(direction, slope) < 0:
            return self._at(problem, state, point, float(state.value[2]), max(passes, 1))
        ray = (SparseRay if problem.l1 else Ray)(problem, point, direction)
        new = ray.search(0.9, None)
        passes += ray.evaluations
        if new is None:
            state.n_pairs[0] = 0
            return self._at(problem, state, point, float(state.value[2]), passes)
        self._remember(problem, state, point, new)
        state.decrease[0] = (point.value - new.value) / max(abs(new.value), 1e-300)
        return self._at(problem, state, new, _linear_part(problem, new), passes)

    def _remember(self, problem: Problem, state: LBFGSState, point: Point, new: Point) -> None:
        move, change = new.weights - point.weights, new.gradient - point.gradient
        if problem.inner(move, change) > 1e-12 * problem.inner(change, change):
            row = int(state.n_pairs[0]) % self.memory
            state.moves[row], state.changes[row], state.linear[row] = move, change, state.value[2]
            state.n_pairs[0] += 1
        else:  # the moves that are kept must lead to one another
            state.n_pairs[0] = 0

    def _at(
        self, problem: Problem, state: LBFGSState, point: Point, linear: float, passes: int
    ) -> tuple[LBFGSState, StepInfo]:
        """The state at `point`, with the best bound that is known there."""
        dual = max(point.dual, self._mixed_dual(problem, state, point, linear))
        if problem.certified != "local":
            dual = max(dual, float(state.value[1]))
        value = np.array([point.value, dual, linear])
        state = state._replace(weights=point.weights, gradient=point.gradient, value=value)
        return state, StepInfo(float(passes), dual, point.value - dual)

    def _rows(self, state: LBFGSState) -> list[int]:
        """Where the pairs lie, the oldest first."""
        n_pairs = int(state.n_pairs[0])
        return [k % self.memory for k in range(max(0, n_pairs - self.memory), n_pairs)]

    def _mixed_dual(self, problem: Problem, state: LBFGSState, point: Point, linear: float) -> float:
        """The best bound of a mixture of the α of this point and of those where the moves began."""
        rows = self._rows(state)
        if problem.certified == "local":  # bounds of other points are of other completions
            rows = []
        if not problem.has_features or not (rows or problem.l1):
            return -math.inf
        images = np.empty((len(rows) + 1, len(point.weights)))
        images[-1] = _image(problem, point)
        for k in reversed(range(len(rows))):
            images[k] = images[k + 1] - (problem.l2 * state.moves[rows[k]] - state.changes[rows[k]])
        parts = np.append(state.linear[rows], linear)
        return mixture_bound(problem, images, parts, point.value - point.dual)

    def _direction(
        self, problem: Problem, gradient: np.ndarray, state: LBFGSState, shape: Curvature | None
    ) -> np.ndarray:
        """−H g by the two-loop recursion, from the inverse of `shape`; without one, a first step of length one."""
        rows, inner = self._rows(state), problem.inner
        if not rows:
            if shape is not None:
                return -shape(gradient)
            return -gradient / max(math.sqrt(max(inner(gradient, gradient), 0.0)), 1e-300)
        direction, shares = -gradient, {}
        for k in reversed(rows):
            shares[k] = inner(state.moves[k], direction) / inner(state.moves[k], state.changes[k])
            direction -= shares[k] * state.changes[k]
        last_move, last_change = state.moves[rows[-1]], state.changes[rows[-1]]
        shaped = last_change
        if shape is not None:
            direction, shaped = shape(direction), shape(last_change)
        direction *= inner(last_move, last_change) / inner(last_change, shaped)
        for k in rows:
            share = inner(state.changes[k], direction) / inner(state.moves[k], state.changes[k])
            direction += (shares[k] - share) * state.moves[k]
        return direction


def _image(problem: Problem, point: Point) -> np.ndarray:
    """v(p(w)) from the gradient l2·w − v."""
    return problem.l2 * point.weights - point.gradient


def _linear_part(problem: Problem, point: Point) -> float:
    """D without its quadratic term."""
    return point.dual + problem.squared_norm(_image(problem, point)) / (2.0 * problem.l2)


def _curvature_at(problem: Problem, anchor: np.ndarray) -> Any:
    """Computed once for as long as nobody asks for another place; the matrix itself where there is an l1 term."""
    last = problem.kept("curvature", dict)
    of = problem.l2, problem.l1, problem.loss
    if last.get("of") != of or not np.array_equal(last["anchor"], anchor):
        found = (pieces_at if problem.l1 else Curvature)(problem, anchor)
        last.update(of=of, anchor=anchor.copy(), curvature=found)
    return last["curvature"]
