"""Training on labels that are known in part: block-coordinate ascent on the labels and their completions.

The certificate is that of the mixtures. With fixed completions q̄ the problem is convex. Its dual at the mixture ᾱ is at
least D = Σ c_i (h_i / β + γ cost_i) − ‖v‖² / (2 l2), and

    gap = [ P_q̄(w) − D ] + Σ c_i KL(q̄_i ‖ q_i(w)) / β

(with the mixture of entropies for H(q̄), which only increases it) is zero only if F is stationary: w is optimal for
these completions, and they are the model's own. It says nothing about other local optima.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from partwise.compiled.examples import Batch, Scratch
from partwise.core.partial import PartialProblem
from partwise.core.problem import Problem
from partwise.solvers.base import (
    Certificate,
    Memory,
    Solver,
    StepInfo,
    check_precision,
    state_type,
    vectors_bytes,
)  # fmt: skip
from partwise.solvers.dual.acceleration import Acceleration, unaccelerated
from partwise.solvers.dual.mixtures_pass import MixturePoint, mixtures_pass
from partwise.solvers.needs import Needs
from partwise.solvers.sampling import due_chunks, expected_gap, note_visits, points_averaged
from partwise.solvers.threads import Threads

_ACCELERATION = Acceleration(may_hold=False)
_FIRST_STEP = 0.1  # share of the model in an example's mixture at its first visit
_FLOOR = 0.1  # share of the mean gap that a visit may lose by updating old completions
_THRESHOLD = 2e-8  # in single precision, rows whose expected counts moved less are not scattered


class MixtureState(NamedTuple):
    """A :class:`MixturePoint`, times of visits (see `sampling.py`), the mean of v over a pass, and the fields of
    `acceleration.py`, as in :class:`EGState`."""

    balance: np.ndarray
    completion: np.ndarray
    v: np.ndarray
    entropy: np.ndarray
    completed_entropy: np.ndarray
    cost: np.ndarray
    gap: np.ndarray
    step: np.ndarray
    visited: np.ndarray
    norm: np.ndarray
    seen: np.ndarray
    waited: np.ndarray
    clock: np.ndarray
    average: np.ndarray
    rounds: np.ndarray
    holds: np.ndarray
    since: np.ndarray
    recent: np.ndarray
    anchor: np.ndarray
    previous: np.ndarray

    def point(self) -> MixturePoint:
        return MixturePoint(*self[:10])


@dataclass(frozen=True)
class MixtureAscent(Solver):
    """Mixes the model and its completions of unknown labels into the mixtures of every example.

    Parameters
    ----------
    precision : {"auto", "single", "double"}
        Precision of the state; "auto" follows `tol`. Certificates are always in double precision.
    """

    precision: Literal["auto", "single", "double"] = "auto"
    name = "mixtures"
    needs = Needs(loss="smooth", features=True, partial=True)

    def check(self, problem: Problem) -> None:
        check_precision(self.precision)

    def memory_needed(self, problem: Problem) -> Memory:
        size = np.dtype(state_type(self.precision)).itemsize
        return Memory(2 * size * problem.n_parts, vectors_bytes(problem))

    def init(self, problem: Problem, random: np.random.Generator) -> MixtureState:
        assert isinstance(problem, PartialProblem)
        kind, n = state_type(self.precision), problem.n_examples
        completion: np.ndarray = np.zeros(problem.n_parts, kind)
        known = np.repeat(problem.gaps.hidden == 0, np.diff(problem.batch.gold_ptr))
        amount = problem.batch.gold_amount
        np.add.at(completion, problem.gold_indices()[known], amount[known] if amount.size else 1)
        v: np.ndarray = np.zeros(problem.n_weights, kind)
        return MixtureState(
            balance=np.zeros(problem.n_parts, kind),
            completion=completion,
            v=v,
            entropy=np.zeros(n),
            completed_entropy=np.zeros(n),
            cost=np.zeros(n),
            gap=np.full(n, np.nan),
            step=np.full(n, _FIRST_STEP),
            visited=np.zeros(n, np.uint8),
            norm=np.zeros(1),
            seen=np.full(n, -1.0),
            waited=np.ones(n),
            clock=np.zeros(1),
            average=v.copy(),
            **unaccelerated(0 if problem.l1 else problem.n_weights, kind),
        )

    def step(
        self, problem: Any, state: MixtureState, random: np.random.Generator
    ) -> tuple[MixtureState, StepInfo]:
        point, threshold = state.point(), _THRESHOLD if state.v.dtype == np.float32 else 0.0
        loss, weight = problem.loss, problem.batch.example_weight
        pull = _ACCELERATION.begin(problem, state)
        l2 = problem.l2 if pull is None else pull.l2

        def run(batch: Batch, here: np.ndarray, own: MixturePoint, scratch: Scratch) -> None:
            mixtures_pass(
                batch, here, problem.gaps, own, loss.beta, loss.gamma, l2, floor, threshold, scratch
            )

        visits, averaged, average_at = 0, 0, 1.0 / points_averaged(problem)
        with Threads(problem) as threads:
            for here in due_chunks(state, problem, random):
                floor = _FLOOR * float(np.nan_to_num(state.gap).mean())
                threads.visit(here, point, run)
                note_visits(here, state.seen, state.waited, state.clock)
                visits += len(here)
                if visits >= (averaged + 1) * average_at * problem.n_examples:
                    averaged += 1
                    state.average[:] += (state.v - state.average) * np.float32(1.0 / averaged)
        apart = _ACCELERATION.end(problem, state, pull) if pull is not None else 0.0
        expected = expected_gap(state.gap, state.seen, state.waited, float(state.clock[0]))
        gap = float(weight @ expected) + apart
        _ACCELERATION.watch(problem, state, gap)
        return state, StepInfo(visits / problem.n_examples, self._value(problem, state), gap)

    def _value(self, problem: Problem, state: MixtureState) -> float:
        """S, as visits keep it."""
        loss = problem.loss
        value = loss.inverse_beta * (state.entropy - state.completed_entropy) + loss.gamma * state.cost
        return float(problem.batch.example_weight @ value - state.norm[0] / (2.0 * problem.l2))

    def carry_over(self, problem: Problem, state: MixtureState, changed: Set[str]) -> MixtureState:
        """Mixtures stay, unless labels have changed; gaps start again."""
        if "true labels" in changed:
            return self.init(problem, np.random.default_rng(0))
        self._refresh(problem, state)
        state.average[:] = state.v
        state.gap[:] = np.nan
        _ACCELERATION.forget(state)
        return state

    def _refresh(self, problem: Any, state: MixtureState) -> np.ndarray:
        """Recompute everything that follows from the mixtures in double precision; returns v unrounded."""
        v, cost = problem.at_balance(state.balance)
        state.v[:], state.cost[:] = v, cost
        state.norm[0] = problem.squared_norm(v)
        return v

    def certificate(self, problem: Any, state: MixtureState) -> tuple[MixtureState, Certificate]:
        kept = self._value(problem, state)
        v = self._refresh(problem, state)
        drift = abs(kept - self._value(problem, state))
        weights = problem.weights_at(state.average.astype(np.float64) if state.clock[0] > 0 else v)
        total, agreeing, met = problem.sums(weights, state.completion)
        loss, penalty = problem.loss, problem.penalty(weights)
        spread, completed = (loss.inverse_beta * each for each in (state.entropy, state.completed_entropy))
        # Completions of examples without a visit are free: take those of the weights.
        own = (total - met - spread - loss.gamma * state.cost) + (agreeing - met - completed)
        own = np.where((state.visited == 0) & (problem.gaps.hidden > 0), total - agreeing, own)
        weight = problem.batch.example_weight
        gap = float(weight @ own) + penalty + problem.squared_norm(v) / (2.0 * problem.l2)
        primal = float(weight @ (total - agreeing)) + penalty
        return state, Certificate(primal, primal - gap, weights, drift)
