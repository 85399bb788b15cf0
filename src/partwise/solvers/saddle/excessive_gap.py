"""`excessive-gap`: accelerated max-margin training (Zhang, Saha and Vishwanathan 2011, Algorithm 2).

With d(α) = Σ_i c_i (log|Y_i| − H(α_i)), c_i the weights of the examples, and P_μ(w) the primal whose maxima
are smoothed by μ d, the iterates keep the *excessive gap condition* P_μ(w) ≤ D(α). Hence
P(w) − D(α) ≤ μ Σ_i c_i log|Y_i|, and μ falls like 1/k²:

    a ∝ exp((s_w + γ e) / μ),   α̂ = (1−τ) α + τ a,   w ← (1−τ) w + τ w(α̂)
    α̃ ∝ a exp( τ/((1−τ)μ) (s_{w(α̂)} + γ e) ),   α ← (1−τ) α + τ α̃,   μ ← (1−τ) μ

a and α̃ have potentials that are scores of one weight vector plus a multiple of the cost, and α enters w(α)
and D(α) linearly, through v(α) and its expected cost. So nothing is stored per part or per example: an
iteration is two passes over the data, each from one weight vector to one sum of features.
"""

from __future__ import annotations

import math
from collections.abc import Set
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from partwise.core.bounds import dual_smoothness
from partwise.core.checks import check_positive
from partwise.core.problem import Problem
from partwise.errors import InputError
from partwise.solvers.base import Certificate, Solver, StepInfo
from partwise.solvers.needs import Needs

_SHRINK, _BACK_OFF = 0.9, 1.5  # factors on the trial L after a success and after a failure
_FIRST_GUESS = 2.0**-20  # the first trial μ, as a share of the bound
_ROUNDING = 1e-12  # relative error that the excessive gap condition allows for


class ExcessiveGapState(NamedTuple):
    """Attributes
    ----------
    weights, v, smoothed_v : ndarray (n_weights,)
        w_k, v(α_k) and v(a_k).
    cost : ndarray (2,)
        Σ_i c_i Σ_r μ_r e_r of α_k and of a_k.
    mu, smoothness, iteration : ndarray (1,)
        μ_k; the last L that worked; k, which is 0 before the first step.
    log_count : ndarray (1,)
        Σ_i c_i log|Y_i|.
    """

    weights: np.ndarray
    v: np.ndarray
    smoothed_v: np.ndarray
    cost: np.ndarray
    mu: np.ndarray
    smoothness: np.ndarray
    iteration: np.ndarray
    log_count: np.ndarray


class _Smoothed(NamedTuple):
    """P_μ(w), and v, cost and d of the distribution a that attains it."""

    value: float
    v: np.ndarray
    cost: float
    distance: float


@dataclass(frozen=True)
class ExcessiveGap(Solver):
    """For β = ∞. Streams over the examples; memory does not grow with their number.

    Parameters
    ----------
    rule : {"adaptive", "fixed"}
        "adaptive" finds L by trial: it shrinks L after every step, tests P_μ(w) ≤ D(α), and repeats the step with a
        larger L if the test fails. "fixed" takes the steps of the paper, which need no test.
    smoothness : float or None
        L, which bounds the curvature of the dual against d; by default `bounds.dual_smoothness`. The adaptive
        rule never goes beyond it, so that P(w) − D(α) ≤ 6 L Σ_i c_i log|Y_i| / ((k+1)(k+2)) holds for both.
    """

    rule: Literal["adaptive", "fixed"] = "adaptive"
    smoothness: float | None = None
    name = "excessive-gap"
    needs = Needs(loss="hard", ridge=True)

    def check(self, problem: Problem) -> None:
        if self.rule not in ("adaptive", "fixed"):
            raise InputError(f"rule must be adaptive or fixed, not {self.rule!r}")
        if self.smoothness is not None:
            check_positive("smoothness", self.smoothness)

    def init(self, problem: Problem, random: np.random.Generator) -> ExcessiveGapState:
        """α at the true labels and w = 0; nothing is computed yet."""
        weights, v, smoothed_v = np.zeros((3, problem.n_weights))
        mu, smoothness, log_count = np.full((3, 1), np.nan)
        return ExcessiveGapState(weights, v, smoothed_v, np.zeros(2), mu, smoothness, np.zeros(1), log_count)

    def carry_over(self, problem: Problem, state: ExcessiveGapState, changed: Set[str]) -> ExcessiveGapState:
        """Start again: the condition holds for the old problem only."""
        return self.init(problem, np.random.default_rng(0))

    def step(
        self, problem: Problem, state: ExcessiveGapState, random: np.random.Generator
    ) -> tuple[ExcessiveGapState, StepInfo]:
        if state.iteration[0] == 0:
            return self._start(problem)
        bound, passes = self._bound(problem), 0
        smoothness = float(state.smoothness[0])
        while True:
            tau, mu = self._step_size(state, smoothness)
            new, smoothed = self._move(problem, state, tau, mu)
            passes += 2
            dual = _dual(problem, new)
            if self.rule == "fixed" or not smoothness < bound or _holds(smoothed.value, dual):
                break
            smoothness = min(_BACK_OFF * smoothness, bound)
        new.smoothness[0] = bound if self.rule == "fixed" else max(_SHRINK * smoothness, 1e-300)
        return new, StepInfo(float(passes), dual, _estimated_gap(new, smoothed, dual))

    def _start(self, problem: Problem) -> tuple[ExcessiveGapState, StepInfo]:
        """α_0 uniform, w_1 = w(α_0), α_1 = a(w_1): the first μ for which the condition holds."""
        uniform = problem.at_weights(np.zeros(problem.n_weights), 1.0)
        log_count = float(problem.batch.example_weight @ uniform.log_total)
        weights, bound, passes = uniform.v / problem.l2, self._bound(problem), 1
        mu = bound if self.rule == "fixed" else _FIRST_GUESS * bound
        while True:
            smoothed = _smoothed(problem, weights, mu, log_count)
            passes += 1
            dual = problem.loss.gamma * smoothed.cost - problem.inner(smoothed.v, smoothed.v) / (
                2.0 * problem.l2
            )
            if not mu < bound or _holds(smoothed.value, dual):
                break
            mu = min(4.0 * mu, bound)
        one = [np.array([number]) for number in (mu, mu, 1.0, log_count)]
        cost = np.array([smoothed.cost, smoothed.cost])
        state = ExcessiveGapState(weights, smoothed.v.copy(), smoothed.v, cost, *one)
        return state, StepInfo(float(passes), dual, _estimated_gap(state, smoothed, dual))

    def _bound(self, problem: Problem) -> float:
        return dual_smoothness(problem) if self.smoothness is None else self.smoothness

    def _step_size(self, state: ExcessiveGapState, smoothness: float) -> tuple[float, float]:
        """τ and the next μ; the condition carries over as long as (1−τ) μ ≥ τ² L (paper, equation 14)."""
        mu = float(state.mu[0])
        if self.rule == "fixed":
            tau = 2.0 / (float(state.iteration[0]) + 3.0)
        else:
            ratio = mu / smoothness
            tau = 2.0 / (1.0 + math.sqrt(1.0 + 4.0 / ratio))
        return tau, (1.0 - tau) * mu

    def _move(
        self, problem: Problem, state: ExcessiveGapState, tau: float, mu: float
    ) -> tuple[ExcessiveGapState, _Smoothed]:
        middle = ((1.0 - tau) * state.v + tau * state.smoothed_v) / problem.l2  # w(α̂)
        pull = tau / mu
        inverse = 1.0 / float(state.mu[0])
        target = problem.at_weights(
            inverse * state.weights + pull * middle, 1.0, problem.loss.gamma * (inverse + pull)
        )
        weights = (1.0 - tau) * state.weights + tau * middle
        smoothed = _smoothed(problem, weights, mu, float(state.log_count[0]))
        target_cost = float(problem.batch.example_weight @ target.cost)
        cost = np.array([(1.0 - tau) * state.cost[0] + tau * target_cost, smoothed.cost])
        new = state._replace(
            weights=weights,
            v=(1.0 - tau) * state.v + tau * target.v,
            smoothed_v=smoothed.v,
            cost=cost,
            mu=np.array([mu]),
            iteration=state.iteration + 1.0,
            smoothness=state.smoothness.copy(),
        )
        return new, smoothed

    def certificate(
        self, problem: Problem, state: ExcessiveGapState
    ) -> tuple[ExcessiveGapState, Certificate]:
        """P(w_k), which takes a pass, and D(α_k) from v(α_k) and its cost."""
        return state, Certificate(problem.primal(state.weights), _dual(problem, state), state.weights)


def _smoothed(problem: Problem, weights: np.ndarray, mu: float, log_count: float) -> _Smoothed:
    """P_μ(w) = (l2/2) ‖w‖² + Σ_i c_i ( μ log Σ_y exp((s_w + γ e)(y) / μ) − s_w(true) − μ log|Y_i| )."""
    point, weight = (
        problem.at_weights(weights, 1.0 / mu, problem.loss.gamma / mu),
        problem.batch.example_weight,
    )
    losses = mu * float(weight @ (point.log_total - point.gold))
    value = 0.5 * problem.l2 * problem.inner(weights, weights) + losses - mu * log_count
    distance = log_count - float(weight @ point.entropy)
    return _Smoothed(value, point.v, float(weight @ point.cost), distance)


def _holds(smoothed: float, dual: float) -> bool:
    return smoothed <= dual + _ROUNDING * (abs(smoothed) + abs(dual))


def _dual(problem: Problem, state: ExcessiveGapState) -> float:
    cost = problem.loss.gamma * float(state.cost[0])
    return cost - problem.inner(state.v, state.v) / (2.0 * problem.l2)


def _estimated_gap(state: ExcessiveGapState, smoothed: _Smoothed, dual: float) -> float:
    """P(w) lies between P_μ(w) + μ d(a) and P_μ(w) + μ max d; the first is close once a is nearly hard."""
    mu, largest = float(state.mu[0]), float(state.log_count[0])
    low, high = smoothed.value + mu * smoothed.distance - dual, smoothed.value + mu * largest - dual
    return max(low, 0.1 * high, 0.0)
