"""One shard of the examples: its problem, its part of the dual state, and its answers.

A round of CoCoA+ (Ma, Smith, Jaggi, Jordan, Richtárik, Takáč 2015) needs no code of its own. With n_k examples and
their weights c_i, shard k is to climb

    Σ_i c_i (H(α_i)/β + γ cost_i) − ‖v + σ′ Δ_k‖² / (2 σ′ l2),      Δ_k = A(α_new − α),

and σ′ times this is the dual of the same examples with weights σ′ c_i, started at v: any solver that visits examples
takes a step on it. It ends at some u, and Δ_k = (u − v) / σ′.
"""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import numpy as np

from partwise.core.problem import Problem
from partwise.distributed.split import with_weights
from partwise.distributed.wire import Packed, packed
from partwise.solvers.base import BlockAscent
from partwise.solvers.checkpoint import state_like


class RoundReply(NamedTuple):
    """The result of a shard's round.

    Attributes
    ----------
    change : Packed
        Δ_k.
    linear : float
        The part of D that does not depend on v.
    gap : float
        Estimate of Σ c_i g_i; nan if there is none.
    visits : float
        Visits of examples, where every step size tried counts.
    seconds : float
        Processor time.
    """

    change: Packed
    linear: float
    gap: float
    visits: float
    seconds: float


class Sums(NamedTuple):
    """Sums of a shard: v, and the weighted entropy, cost, log-partition and true score."""

    v: np.ndarray
    numbers: np.ndarray


class Shard:
    """Some examples and their dual state; `solver` is None if shards only evaluate.

    A request for a round that was answered before gets the same answer again and changes nothing.
    """

    def __init__(self, number: int, problem: Problem, solver: BlockAscent | None, seed: int):
        self.number, self.problem, self.solver, self.seed = number, problem, solver, seed
        self.inflated = with_weights(problem, problem.example_weight.copy())
        self.state: Any = None
        self.answered: tuple[int, RoundReply | None] = 0, None
        if solver is not None and problem.n_examples:
            self.state = solver.init(problem, self._random(0))

    def _random(self, round_id: int) -> np.random.Generator:
        """A stream of its own for every shard and round, independent of earlier requests."""
        return np.random.default_rng([self.seed, self.number, round_id])

    def is_at_zero(self) -> bool:
        """Whether v of the state is zero."""
        return self.state is None or not self.state.v.any()

    def run_round(self, v: np.ndarray, round_id: int, sigma: float, pull: float, n_passes: int) -> RoundReply:
        """`n_passes` steps of the solver from the common `v` (n_weights,), for l2 + `pull`."""
        if self.answered[0] == round_id and self.answered[1] is not None:
            return self.answered[1]
        if self.state is None:
            return RoundReply(packed(np.zeros(len(v), np.float32)), 0.0, 0.0, 0.0, 0.0)
        assert self.solver is not None
        begun, random = time.process_time(), self._random(round_id)
        self.inflated.example_weight[:] = sigma * self.problem.example_weight
        self.inflated.l2 = self.problem.l2 + pull
        before = v.astype(self.state.v.dtype)
        self.state.v[:], self.state.norm[0] = before, self.problem.squared_norm(v.astype(np.float64))
        passes = 0.0
        for _ in range(n_passes):
            self.state, info = self.solver.step(self.inflated, self.state, random)
            passes += info.passes
        change = (self.state.v - before) / before.dtype.type(sigma)
        reply = RoundReply(
            packed(change),
            self.solver.linear_part(self.problem, self.state),
            info.estimated_gap / sigma,
            passes * self.problem.n_examples,
            time.process_time() - begun,
        )
        self.answered = round_id, reply
        return reply

    def settle(self, n_weights: int) -> tuple[Packed, float]:
        """The exact v of the shard's α in double precision, and the exact linear part of its dual."""
        if self.state is None or self.solver is None:
            return packed(np.zeros(n_weights)), 0.0
        v = self.solver.exact_v(self.problem, self.state)
        return packed(v), self.solver.linear_part(self.problem, self.state)

    def losses(self, weights: np.ndarray) -> float:
        """Σ_i c_i ℓ_i at `weights`; gaps of the state are brought up to date."""
        if not self.problem.n_examples:
            return 0.0
        if self.state is not None and self.solver is not None:
            return self.solver.exact_losses(self.problem, self.state, weights)
        return float(self.problem.example_weight @ self.problem.losses(weights)[0])

    def evaluate(self, weights: np.ndarray, settings: tuple[Any, ...]) -> Sums:
        """The sums of `Problem.at_weights`."""
        if not self.problem.n_examples:
            return Sums(np.zeros(len(weights)), np.zeros(4))
        point = self.problem.at_weights(weights, *settings)
        each = point.entropy, point.cost, point.log_total, point.gold
        numbers = [float(self.problem.example_weight @ one) if one.size else 0.0 for one in each]
        return Sums(point.v, np.array(numbers))

    def snapshot(self) -> dict[str, np.ndarray]:
        """Everything that a shard needs to go on from here, except v, which the driver sends."""
        return {} if self.state is None else {n: np.asarray(a) for n, a in self.state._asdict().items()}

    def restore(self, arrays: dict[str, np.ndarray]) -> None:
        """Go back to a snapshot; ValueError if it does not belong to this shard."""
        self.answered = 0, None
        if self.state is not None:
            self.state = state_like(self.state, {name: array.copy() for name, array in arrays.items()})
