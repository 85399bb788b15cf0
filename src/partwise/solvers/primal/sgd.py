"""Stochastic (sub)gradient descent on the primal, for every loss: `sgd` (Collins et al. 2008, §7.1.3)."""

from __future__ import annotations

import math
from collections.abc import Set
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from partwise.core.problem import Problem
from partwise.core.time_limit import is_out_of_time
from partwise.errors import InputError
from partwise.solvers.base import Certificate, Solver, StepInfo, evaluate_model, primal_certificate
from partwise.solvers.needs import Needs
from partwise.solvers.primal.sgd_pass import sample_loss, sgd_pass
from partwise.solvers.sampling import shuffled_chunks

_SAMPLE = 1000  # examples in a trial of η₀
_RATIO = math.sqrt(10.0)  # of η₀ in one trial and the next
_TELLING = 0.01  # relative improvement of a trial over the one before, below which both count as equal
_FIRST_TRIAL, _MAX_TRIALS = 0.1, 16  # the first η₀ tried, and how many are tried at most


class SGDState(NamedTuple):
    """Weights as scale · direction, where the schedule of step sizes stands, and for β = ∞ a dual point.

    Attributes
    ----------
    direction : ndarray (n_weights,)
    scale : ndarray (1,)
    n_updates : ndarray (1,) of int64
    initial_step : ndarray (1,)
        η₀; nan until it is chosen.
    v : ndarray (n_weights,)
        v(α) of the mean over passes of the maximisers met; empty for finite β.
    cost : ndarray (1,)
        Its Σ_r μ_r e_r, summed over examples.
    n_passes : ndarray (1,) of int64
        Whole passes in that mean.
    """

    direction: np.ndarray
    scale: np.ndarray
    n_updates: np.ndarray
    initial_step: np.ndarray
    v: np.ndarray
    cost: np.ndarray
    n_passes: np.ndarray


@dataclass(frozen=True)
class SGD(Solver):
    """w ← w − η (∇ℓ_i(w) + (l2/n) w) with η = η₀/(1 + k/n) after k updates, in a new order every pass.

    Parameters
    ----------
    initial_step : float or "search"
        η₀. "search" tries steps √10 apart from w = 0 on a sample of the data, and takes that with the lowest
        objective; the trials count as passes.

    Notes
    -----
    The certificate takes α_i = p_i(w). For β = ∞ that is a single label, whose dual value stays far from
    the optimum; there α_i is a mean over the maximisers met on i, one a pass, later passes weighing more.
    Only its image v(α) is kept, so this dual value is summed up along the way, not recomputed.
    """

    initial_step: float | Literal["search"] = "search"
    name = "sgd"
    needs = Needs(features=True, ridge=True)

    def check(self, problem: Problem) -> None:
        if self.initial_step == "search":
            return
        if not isinstance(self.initial_step, (int, float)) or not 0 < self.initial_step < math.inf:
            raise InputError(f"initial_step must be > 0 or 'search', not {self.initial_step!r}")
        if not _is_stable(problem, self.initial_step):
            raise InputError(
                f"initial_step={self.initial_step!r} is too large: it must be below n_examples / l2 = "
                f"{problem.n_examples / problem.l2:g}, or the weights change sign at every update"
            )

    def init(self, problem: Problem, random: np.random.Generator) -> SGDState:
        step = math.nan if self.initial_step == "search" else float(self.initial_step)
        return SGDState(
            direction=np.zeros(problem.n_weights),
            scale=np.ones(1),
            n_updates=np.zeros(1, np.int64),
            initial_step=np.array([step]),
            v=np.zeros(problem.n_weights if problem.loss.is_hard else 0),
            cost=np.zeros(1),
            n_passes=np.zeros(1, np.int64),
        )

    def carry_over(self, problem: Problem, state: SGDState, changed: Set[str]) -> SGDState:
        """The weights stay. The schedule starts again: its late steps would hardly move them."""
        fresh = self.init(problem, np.random.default_rng(0))
        return fresh._replace(direction=state.direction, scale=state.scale)

    def step(
        self, problem: Problem, state: SGDState, random: np.random.Generator
    ) -> tuple[SGDState, StepInfo]:
        passes = 1.0
        if math.isnan(state.initial_step[0]):
            state.initial_step[0], trial_passes = _search_step(problem, random)
            passes += trial_passes
        v, cost = np.zeros_like(state.v), 0.0
        for here in shuffled_chunks(problem, random):
            cost += _visit_all(problem, state, here, v)
        state.n_passes[0] += 1
        share = 2.0 / (1.0 + state.n_passes[0])  # weighs pass t by t
        state.v[:] += share * (v - state.v)
        state.cost[0] += share * (cost - state.cost[0])
        return state, StepInfo(passes)

    def weights(self, problem: Problem, state: SGDState) -> np.ndarray:
        found: np.ndarray = state.scale[0] * state.direction
        return found

    def certificate(self, problem: Problem, state: SGDState) -> tuple[SGDState, Certificate]:
        weights = state.scale[0] * state.direction
        if not problem.loss.is_hard or state.n_passes[0] == 0:
            return state, primal_certificate(problem, weights, evaluate_model(problem, weights))
        dual = problem.loss.gamma * float(state.cost[0]) - float(state.v @ state.v) / (2.0 * problem.l2)
        return state, Certificate(problem.primal(weights), dual, weights)


def _is_stable(problem: Problem, step: float) -> bool:
    """Whether 1 − η l2/n stays positive."""
    return step * problem.l2 < problem.n_examples


def _visit_all(problem: Problem, state: SGDState, order: np.ndarray, v: np.ndarray) -> float:
    """Update on every example of `order`; add v of the labels found to `v` unless it is empty; return their cost."""
    state.scale[0], cost = sgd_pass(
        problem.batch, order, state.direction, float(state.scale[0]), int(state.n_updates[0]),
        float(state.initial_step[0]), problem.l2, *_loss_settings(problem), v,
        problem.scratch(np.float64),
    )  # fmt: skip
    state.n_updates[0] += len(order)
    return float(cost)


def _loss_settings(problem: Problem) -> tuple[float, float, bool]:
    """β (1 if it is infinite), γ, and whether to take the mode."""
    loss = problem.loss
    return 1.0 if loss.is_hard else loss.beta, loss.gamma, loss.is_hard


def _search_step(problem: Problem, random: np.random.Generator) -> tuple[float, float]:
    """The η₀ with the lowest objective after one pass over a sample from w = 0, and the passes of the search.

    Goes down from the first trial while the objective falls, or else up.
    """
    sample = random.permutation(problem.n_examples)[:_SAMPLE]
    start = min(_FIRST_TRIAL, 0.5 * problem.n_examples / problem.l2)
    best_step, best_value = start, _value_after(problem, sample, start)
    n_trials = 1
    for ratio in (1.0 / _RATIO, _RATIO):
        step = best_step * ratio
        while n_trials < _MAX_TRIALS and _is_stable(problem, step) and not is_out_of_time():
            value = _value_after(problem, sample, step)
            n_trials += 1
            # If all trials are worse than P(0), smaller steps look better only because they move less.
            if not value < best_value - _TELLING * abs(best_value):
                break
            best_step, best_value, step = step, value, step * ratio
        if best_step < start:
            break
    if problem.loss.is_hard:  # steps of less than half of 1/strong convexity need too many passes
        best_step = max(best_step, 0.5 / problem.l2)
    # A trial visits the sample twice: to learn and to be evaluated.
    return best_step, 2.0 * n_trials * len(sample) / problem.n_examples


def _value_after(problem: Problem, sample: np.ndarray, step: float) -> float:
    """The objective of the sample, with its share of the regulariser, after one pass over it."""
    state = SGD(step).init(problem, np.random.default_rng(0))
    _visit_all(problem, state, sample, np.zeros(0))
    weights = state.scale[0] * state.direction
    loss = sample_loss(problem.batch, sample, weights, *_loss_settings(problem), problem.scratch(np.float64))
    return float(loss + 0.5 * problem.l2 * len(sample) / problem.n_examples * (weights @ weights))
