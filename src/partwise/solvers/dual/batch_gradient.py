"""Batch exponentiated gradient: `eg-batch`, and `eg-primal` which keeps no dual variables.

All examples move at once from the same weights (Collins et al. 2008, Figure 1). With one η for all examples, the
potentials are a weighted mean of past scores. So one vector of weights and two numbers replace them (Bartlett et al.
2004, appendix C, here for the whole loss family):

    θ_i = score_i(u) + κ γ e_i + ρ θ_i⁰,
    u ← (1 − η/β) u + η w,   κ ← (1 − η/β) κ + η,   ρ ← (1 − η/β) ρ.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from partwise.core.bounds import bartlett_batch_step, safe_batch_step
from partwise.core.evaluation import Evaluation
from partwise.core.problem import Problem
from partwise.errors import InputError
from partwise.solvers.base import Certificate, Memory, Solver, StepInfo, vectors_bytes
from partwise.solvers.dual.potentials import GOLD_POTENTIAL, starting_point
from partwise.solvers.needs import Needs

_FIRST_GROWTH, _GROWTH = 2.0, 1.05  # factors on η after a success: until the first failure, and later
_MAX_HALVINGS = 60


class BatchState(NamedTuple):
    """Potentials of all parts, v(α), the dual value; the step size and the factor on it after a success."""

    theta: np.ndarray
    v: np.ndarray
    dual: np.ndarray
    step: np.ndarray


class PrimalState(NamedTuple):
    """The vector u, the numbers (κ, ρ), v(α), the dual value; the step size and the factor on it after a success."""

    u: np.ndarray
    scales: np.ndarray
    v: np.ndarray
    dual: np.ndarray
    step: np.ndarray


@dataclass(frozen=True)
class _BatchSettings(Solver):
    """The settings of both.

    Parameters
    ----------
    step_rule : {"adaptive", "safe", "bartlett"}
        Halve η until the dual improves, then × 1.05, after doubling it until a first step fails; or the bound that
        guarantees improvement (Collins et al. 2008, Theorem 1); or, for β = ∞, 0.4 / (B + λ) (Bartlett et al. 2004,
        Theorem 1).
    start : {"smoothed", "uniform"}
        α near the true labels, or uniform.
    """

    step_rule: Literal["adaptive", "safe", "bartlett"] = "adaptive"
    start: Literal["smoothed", "uniform"] = "smoothed"
    needs = Needs()

    def check(self, problem: Problem) -> None:
        if self.step_rule not in ("adaptive", "safe", "bartlett"):
            raise InputError(f"step_rule must be adaptive, safe or bartlett, not {self.step_rule!r}")
        if self.step_rule == "bartlett" and not problem.loss.is_hard:
            raise InputError("step_rule='bartlett' needs a loss with beta = inf: use 'safe'")
        if self.start not in ("smoothed", "uniform"):
            raise InputError(f"start must be smoothed or uniform, not {self.start!r}")

    def _first_step(self, problem: Problem) -> np.ndarray:
        if self.step_rule == "bartlett":
            return np.array([bartlett_batch_step(problem), 1.0])
        step = safe_batch_step(problem)
        if self.step_rule == "safe":
            return np.array([step, 1.0])
        step = problem.n_examples * step if problem.loss.is_hard else 0.5 * problem.loss.beta
        return np.array([step, _FIRST_GROWTH])

    def _search(self, problem: Problem, state: Any, move: Any) -> tuple[Any, StepInfo]:
        """Try `move(η)` → (new state, its dual) with halved η until the dual does not fall."""
        (step, growth), old = state.step.tolist(), float(state.dual[0])
        slack = 1e-13 * (1.0 + abs(old))
        for tried in range(1, _MAX_HALVINGS + 1):
            new, dual = move(step)
            if self.step_rule != "adaptive" or dual >= old - slack:
                new.dual[0], new.step[:] = dual, (min(step * growth, problem.loss.beta), growth)
                return new, StepInfo(float(tried), dual)
            step, growth = 0.5 * step, _GROWTH
        state.step[:] = step, growth
        return state, StepInfo(float(tried), old)

    def _carried(self, problem: Problem, state: Any, exact: Evaluation) -> Any:
        """The state with the values of its point on `problem`."""
        step = self._first_step(problem)
        if self.step_rule == "adaptive":
            step[0] = min(float(state.step[0]), problem.loss.beta)
        return state._replace(v=exact.v, dual=np.array([problem.dual(exact)]), step=step)


@dataclass(frozen=True)
class BatchEG(_BatchSettings):
    """`eg-batch`: it stores potentials of every part."""

    name = "eg-batch"

    def memory_needed(self, problem: Problem) -> Memory:
        return Memory(4 * 8 * problem.n_parts, vectors_bytes(problem))

    def init(self, problem: Problem, random: np.random.Generator) -> BatchState:
        point = starting_point(problem, self.start, np.float64)
        dual = problem.dual(_as_evaluation(problem, point.theta))
        return BatchState(point.theta, point.v, np.array([dual]), self._first_step(problem))

    def carry_over(self, problem: Problem, state: BatchState, changed: Set[str]) -> BatchState:
        carried: BatchState = self._carried(problem, state, _as_evaluation(problem, state.theta))
        return carried

    def step(
        self, problem: Problem, state: BatchState, random: np.random.Generator
    ) -> tuple[BatchState, StepInfo]:
        target = problem.scores(problem.weights_at(state.v))
        if problem.batch.cost.size:
            target += problem.loss.gamma * problem.batch.cost
        target -= problem.loss.inverse_beta * state.theta

        def move(step: float) -> tuple[BatchState, float]:
            theta = state.theta + step * target
            exact = _as_evaluation(problem, theta)
            return BatchState(theta, exact.v, np.zeros(1), np.zeros(2)), problem.dual(exact)

        return self._search(problem, state, move)

    def certificate(self, problem: Problem, state: BatchState) -> tuple[BatchState, Certificate]:
        exact = _as_evaluation(problem, state.theta)
        return state, _certify(problem, exact, float(state.dual[0]))


@dataclass(frozen=True)
class PrimalEG(_BatchSettings):
    """`eg-primal`: the same iterates in memory of O(weights + parts of one example)."""

    name = "eg-primal"
    shards = "sums"

    def init(self, problem: Problem, random: np.random.Generator) -> PrimalState:
        gold = GOLD_POTENTIAL if self.start == "smoothed" else 0.0
        scales = np.array([0.0, gold])
        exact = _from_vector(problem, np.zeros(problem.n_weights), scales)
        dual = np.array([problem.dual(exact)])
        return PrimalState(np.zeros(problem.n_weights), scales, exact.v, dual, self._first_step(problem))

    def carry_over(self, problem: Problem, state: PrimalState, changed: Set[str]) -> PrimalState:
        carried: PrimalState = self._carried(problem, state, _from_vector(problem, state.u, state.scales))
        return carried

    def step(
        self, problem: Problem, state: PrimalState, random: np.random.Generator
    ) -> tuple[PrimalState, StepInfo]:
        weights = problem.weights_at(state.v)

        def move(step: float) -> tuple[PrimalState, float]:
            keep = 1.0 - step * problem.loss.inverse_beta
            u = keep * state.u + step * weights
            scales = keep * state.scales + np.array([step, 0.0])
            exact = _from_vector(problem, u, scales)
            return PrimalState(u, scales, exact.v, np.zeros(1), np.zeros(2)), problem.dual(exact)

        return self._search(problem, state, move)

    def certificate(self, problem: Problem, state: PrimalState) -> tuple[PrimalState, Certificate]:
        exact = _from_vector(problem, state.u, state.scales)
        return state, _certify(problem, exact, float(state.dual[0]))


def _as_evaluation(problem: Problem, theta: np.ndarray) -> Evaluation:
    return problem.at_potentials(theta, np.ones(problem.n_examples, np.uint8))


def _from_vector(problem: Problem, u: np.ndarray, scales: np.ndarray) -> Evaluation:
    return problem.at_weights(u, 1.0, float(scales[0]) * problem.loss.gamma, float(scales[1]))


def _certify(problem: Problem, exact: Evaluation, kept: float) -> Certificate:
    """Primal at w(α) against the recomputed dual."""
    weights, dual = problem.weights_at(exact.v), problem.dual(exact)
    return Certificate(problem.primal(weights), dual, weights, abs(dual - kept))
