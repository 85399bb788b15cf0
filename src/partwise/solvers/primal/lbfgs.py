"""Limited-memory quasi-Newton on the primal, for smooth losses: `lbfgs`.

Steps are preconditioned by the curvature of dense or few attributes (`curvature.py`). The dual point is a mixture of
the α_i = p_i of the last points. Entropy is concave and v is linear, so D of the mixture is at least the mixture of the
linear parts − ‖v of the mixture‖² / (2 l2). Gradients in different directions cancel, and the bound needs no further
pass. It takes as long as some steps of small problems, so it is computed when the next step promises a gain below the
tolerance. With an l1 term, steps are those of `proximal.py`.
"""

from __future__ import annotations

import math
from collections.abc import Set
from dataclasses import dataclass, replace
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.linalg.lapack import dtrtrs

from partwise.core.problem import Problem
from partwise.core.products import on_own_thread
from partwise.errors import InputError
from partwise.solvers.base import Certificate, Memory, StepInfo, vectors_bytes
from partwise.solvers.needs import Needs
from partwise.solvers.primal.curvature import Curvature, is_worthwhile
from partwise.solvers.primal.gradient import BatchGradient, current_point
from partwise.solvers.primal.kronecker import pieces_at
from partwise.solvers.primal.line_search import LineSearch, Point, SparseLineSearch, pseudo_gradient
from partwise.solvers.primal.mixture_bound import mixture_bound
from partwise.solvers.primal.proximal import proximal_direction
from partwise.solvers.work_model import overlap_decides, passes_expected, stiffness

_STEPS_BETWEEN_LOOKS = 10  # steps before the curvature is computed again, if it was computed at zero weights
_STEPS_BETWEEN_CLOSE_LOOKS = 25  # the same if it was computed at other weights
_FAR = 0.4  # relative gap at the weights of a weaker l2 above which zero is a better start
_NEAR = 0.01  # relative decrease of P by a step below which the curvature is worth computing again
_FEWEST_PAIRS = 3  # of the form that takes less memory
_OF_FITTED = 4.0  # evaluations then, in those forecast: 25 to 40 for 10
_FITTED = 0.15  # share of P(0) below which P is after the first step if dense classes hardly overlap


class LBFGSState(NamedTuple):
    """The current point, and the last moves with the changes of the gradient.

    Attributes
    ----------
    weights, gradient : ndarray (n_weights,)
    value : ndarray (3,)
        P, the best D so far, and the part of D at this point that is linear in α; nan until they are computed.
    decrease : ndarray (1,)
        Decrease of P by the last step, relative to P.
    moves, changes : ndarray (memory, n_weights)
        Pair k lies in row k mod memory.
    linear : ndarray (memory,)
        The part of D that is linear in α, at the point where a move begins.
    along : ndarray (memory, memory)
        Inner products of moves with changes.
    n_pairs, n_steps : ndarray (1,) of int64
        Pairs stored so far, and steps made.
    looked, anchor : ndarray (1,) of int64, ndarray (n_weights,)
        Number of steps at which the curvature was computed last, −1 for never, and the weights then.
    direction : ndarray (n_weights,)
        Direction of the next step; zero before the first.
    of_l2 : ndarray (1,)
        The l2 of all these values; nan until something is computed.
    """

    weights: np.ndarray
    gradient: np.ndarray
    value: np.ndarray
    decrease: np.ndarray
    moves: np.ndarray
    changes: np.ndarray
    linear: np.ndarray
    along: np.ndarray
    n_pairs: np.ndarray
    n_steps: np.ndarray
    looked: np.ndarray
    anchor: np.ndarray
    direction: np.ndarray
    of_l2: np.ndarray


@dataclass(frozen=True)
class LBFGS(BatchGradient):
    """Limited-memory BFGS (Nocedal 1980; Byrd et al. 1995); starts at zero.

    Parameters
    ----------
    memory : int
        Number of pairs kept; each takes two vectors of weights.
    preconditioner : {"auto", None}
        "auto": the curvature of dense or few attributes at once, and of others when steps are short. None: the plain
        method, whose first estimate of the inverse Hessian is a multiple of the identity.
    """

    memory: int = 10
    preconditioner: Literal["auto"] | None = "auto"
    name = "lbfgs"
    needs = Needs(loss="smooth", partial=True)

    def check(self, problem: Problem) -> None:
        if not isinstance(self.memory, int) or self.memory < 1:
            raise InputError(f"memory must be an integer of at least 1, not {self.memory!r}")
        if self.preconditioner not in ("auto", None):
            raise InputError(f"preconditioner must be 'auto' or None, not {self.preconditioner!r:.40}")

    def memory_needed(self, problem: Problem) -> Memory:
        """Vectors of the pairs; with an l1 term, also their products with the curvature."""
        return Memory(weights=vectors_bytes(problem, (8 if problem.l1 else 2) * self.memory))

    def leaner(self, problem: Problem) -> LBFGS | None:
        """With fewer pairs."""
        return replace(self, memory=_FEWEST_PAIRS) if self.memory > _FEWEST_PAIRS else None

    def init(self, problem: Problem, random: np.random.Generator) -> LBFGSState:
        moves, changes = np.zeros((2, self.memory, problem.n_weights))
        weights, gradient, anchor, direction = np.zeros((4, problem.n_weights))
        n_pairs, n_steps = np.zeros((2, 1), np.int64)
        return LBFGSState(
            weights, gradient, np.full(3, np.nan), np.full(1, np.inf), moves, changes, np.zeros(self.memory),
            np.zeros((self.memory, self.memory)), n_pairs, n_steps, np.full(1, -1), anchor, direction,
            np.full(1, np.nan),
        )  # fmt: skip

    def carry_over(self, problem: Problem, state: LBFGSState, changed: Set[str]) -> LBFGSState:
        """If only l2 has changed, everything stays useful: v and the linear part of D do not depend on l2.

        If the weights are far too large for the new l2, start at zero: P hardly bends there.
        """
        if changed != {"l2"} or np.isnan(state.value).any():
            fresh: LBFGSState = super().carry_over(problem, state, changed)
            return fresh
        more = problem.l2 - float(state.of_l2[0])
        image = state.of_l2[0] * state.weights - state.gradient
        dual = float(state.value[2]) - problem.squared_norm(image) / (2.0 * problem.l2)
        value = float(state.value[0]) + 0.5 * more * problem.inner(state.weights, state.weights)
        if more > 0.0 and value - dual > _FAR * abs(value):
            return self.init(problem, np.random.default_rng(0))
        state.changes[:] += more * state.moves
        for row in range(self.memory):
            state.along[row] += more * problem.inners(state.moves, state.moves[row])
        state.gradient[:] += more * state.weights
        state.value[:2], state.of_l2[0] = (value, dual), problem.l2
        state.decrease[0], state.looked[0] = np.inf, -1
        self._aim(problem, state)
        return state

    def from_weights(
        self, problem: Problem, weights: np.ndarray, random: np.random.Generator, before: Any = None
    ) -> LBFGSState:
        """Goes on from the state before if it had these weights."""
        if before is not None and np.array_equal(before.weights, weights):
            found: LBFGSState = before
            return found
        return self.init(problem, random)._replace(weights=weights.copy())

    def grown(
        self, problem: Problem, old: Problem, state: LBFGSState, random: np.random.Generator
    ) -> LBFGSState:
        """Weights stay."""
        return self.from_weights(problem, state.weights, random)

    def passes_expected(self, problem: Problem) -> float:
        return passes_expected(problem, "lbfgs")

    def gives_way(self, problem: Problem, state: LBFGSState) -> float:
        """Above 1 if dense classes hardly overlap, as the first step from zero tells: few examples bend P then.

        An example bends P by p (1 − p), which is less than its loss −log p. So the share of P(0) that is left also
        bounds the stiffness that is left.
        """
        if state.n_steps[0] != 1 or state.anchor.any() or not overlap_decides(problem):
            return 1.0
        left = 1.0 / (1.0 + float(state.decrease[0]))
        return _OF_FITTED if left < _FITTED and left * stiffness(problem) < 1.0 else 1.0

    def step(
        self, problem: Problem, state: LBFGSState, random: np.random.Generator
    ) -> tuple[LBFGSState, StepInfo]:
        with on_own_thread():
            return self._step(problem, state)

    def _step(self, problem: Problem, state: LBFGSState) -> tuple[LBFGSState, StepInfo]:
        point, passes = current_point(problem, state)
        if passes:
            value = np.array([point.value, point.dual, _linear_part(problem, point)])
            state = state._replace(gradient=point.gradient, value=value, of_l2=np.array([problem.l2]))
        looks = self._looks_at_curvature(problem, state)
        if looks:
            state.anchor[:], state.looked[0] = point.weights, state.n_steps[0]
        if looks or passes:
            self._aim(problem, state)
        passes += looks
        state.n_steps[0] += 1
        slope = _slope(problem, point)
        if not problem.inner(state.direction, slope) < 0:
            return state, self._told(problem, state, max(passes, 1))
        line = (SparseLineSearch if problem.l1 else LineSearch)(problem, point, state.direction)
        new = line.search(0.9, None)
        passes += line.evaluations
        if new is None:
            state.n_pairs[0] = 0
        else:
            self._remember(problem, state, point, new)
            state.decrease[0] = (point.value - new.value) / max(abs(new.value), 1e-300)
            state = self._at(problem, state, new)
        self._aim(problem, state)
        return state, self._told(problem, state, passes)

    def _looks_at_curvature(self, problem: Problem, state: LBFGSState) -> bool:
        if self.preconditioner is None or not problem.has_features:
            return False
        if problem.l1 and not is_worthwhile(problem):
            return False
        waited = int(state.n_steps[0] - max(state.looked[0], 0))
        if state.looked[0] < 0 and (is_worthwhile(problem) or (waited == 0 and state.weights.any())):
            return True
        wait = _STEPS_BETWEEN_CLOSE_LOOKS if state.anchor.any() else _STEPS_BETWEEN_LOOKS
        return bool(waited >= wait and state.decrease[0] < _NEAR)

    def _aim(self, problem: Problem, state: LBFGSState) -> None:
        """Find the direction of the next step."""
        shape = _curvature_at(problem, state.anchor) if state.looked[0] >= 0 else None
        if problem.l1:
            rows = self._rows(state)
            pairs = state.moves[rows], state.changes[rows]
            state.direction[:] = proximal_direction(problem, _point(state), *pairs, shape)
        else:
            state.direction[:] = self._direction(problem, state.gradient, state, shape)

    def _told(self, problem: Problem, state: LBFGSState, passes: int) -> StepInfo:
        """The report of a step; the gap is estimated by the gain of the next step if no bound is better."""
        value, dual, _ = (float(number) for number in state.value)
        gap = value - dual
        if _is_mixed(problem) and state.n_pairs[0]:
            gap = min(gap, max(-0.5 * problem.inner(state.direction, _slope(problem, _point(state))), 0.0))
        return StepInfo(float(passes), value - gap, gap)

    def certificate(self, problem: Problem, state: LBFGSState) -> tuple[LBFGSState, Certificate]:
        """P of the weights and D of the best mixture, in double precision, without a further pass."""
        if not np.isnan(state.value).any() and (_is_mixed(problem) or problem.l1):
            with on_own_thread():
                state.value[1] = max(float(state.value[1]), self._mixed_dual(problem, state))
        _, found = super().certificate(problem, state)
        return state, found

    def _remember(self, problem: Problem, state: LBFGSState, point: Point, new: Point) -> None:
        move, change = new.weights - point.weights, new.gradient - point.gradient
        if problem.inner(move, change) > 1e-12 * problem.inner(change, change):
            row = int(state.n_pairs[0]) % self.memory
            state.moves[row], state.changes[row], state.linear[row] = move, change, state.value[2]
            state.along[row] = problem.inners(state.changes, move)
            state.along[:, row] = problem.inners(state.moves, change)
            state.n_pairs[0] += 1
        else:  # kept moves must follow each other
            state.n_pairs[0] = 0

    def _at(self, problem: Problem, state: LBFGSState, point: Point) -> LBFGSState:
        """The state at `point`, with the best bound of its points so far."""
        dual = point.dual
        if problem.certified != "local":  # with partial labels, other points have other completions
            dual = max(float(state.value[1]), dual)
        value = np.array([point.value, dual, _linear_part(problem, point)])
        return state._replace(weights=point.weights, gradient=point.gradient, value=value)

    def _rows(self, state: LBFGSState) -> list[int]:
        """Rows of the pairs, the oldest first."""
        n_pairs = int(state.n_pairs[0])
        return [k % self.memory for k in range(max(0, n_pairs - self.memory), n_pairs)]

    def _mixed_dual(self, problem: Problem, state: LBFGSState) -> float:
        """The best bound of a mixture of the α of this point and of the points at which the moves began."""
        rows = self._rows(state) if _is_mixed(problem) else []
        if not (rows or problem.l1):
            return -math.inf
        images = np.empty((len(rows) + 1, len(state.weights)))
        images[-1] = _image(problem, _point(state))
        for k in reversed(range(len(rows))):
            images[k] = images[k + 1] - (problem.l2 * state.moves[rows[k]] - state.changes[rows[k]])
        parts = np.append(state.linear[rows], state.value[2])
        return mixture_bound(problem, images, parts, float(state.value[0] - state.value[1]))

    def _direction(
        self, problem: Problem, gradient: np.ndarray, state: LBFGSState, shape: Curvature | None
    ) -> np.ndarray:
        """−H g with `shape` as preconditioner; without one, the first step has length one.

        The two loops of Nocedal 1980 as two triangular systems, in the inner products of moves with changes.
        """
        rows = self._rows(state)
        if not rows:
            if shape is not None:
                return -shape(gradient)
            return -gradient / max(math.sqrt(max(problem.inner(gradient, gradient), 0.0)), 1e-300)
        moves, changes = state.moves[: len(rows)], state.changes[: len(rows)]
        later = np.triu(state.along[np.ix_(rows, rows)])  # a pair with itself and those after it
        own, share, back = later.diagonal(), np.empty(len(rows)), np.empty(len(rows))
        share[rows], _ = dtrtrs(later, -problem.inners(moves, gradient)[rows])
        direction = -gradient - share @ changes
        last_change = shaped = changes[rows[-1]]
        if shape is not None:
            direction, shaped = shape(direction), shape(last_change)
        direction *= own[-1] / problem.inner(last_change, shaped)
        right = own * share[rows] - problem.inners(changes, direction)[rows]
        back[rows], _ = dtrtrs(later, right, trans=1)
        direction += back @ moves
        return direction


def history_bytes(n_weights: int) -> int:
    """Bytes of the pairs that L-BFGS keeps."""
    return 2 * 8 * LBFGS().memory * n_weights


def _is_mixed(problem: Problem) -> bool:
    """Whether the bounds of mixtures hold for the problem."""
    return problem.has_features and problem.certified != "local"


def _point(state: LBFGSState) -> Point:
    return Point(state.weights, state.gradient, float(state.value[0]), float(state.value[1]))


def _slope(problem: Problem, point: Point) -> np.ndarray:
    return pseudo_gradient(point, problem.l1) if problem.l1 else point.gradient


def _image(problem: Problem, point: Point) -> np.ndarray:
    """v(p(w)) from the gradient l2·w − v."""
    return problem.l2 * point.weights - point.gradient


def _linear_part(problem: Problem, point: Point) -> float:
    """D without its quadratic term."""
    return point.dual + problem.squared_norm(_image(problem, point)) / (2.0 * problem.l2)


def _curvature_at(problem: Problem, anchor: np.ndarray) -> Any:
    """The curvature at `anchor`, kept until another anchor is asked for; with an l1 term, the matrix itself."""
    last = problem.kept("curvature", dict)
    of = problem.l2, problem.l1, problem.loss
    if last.get("of") != of or not np.array_equal(last["anchor"], anchor):
        found = (pieces_at if problem.l1 else Curvature)(problem, anchor)
        last.update(of=of, anchor=anchor.copy(), curvature=found)
    return last["curvature"]
