"""Dual ascent on shards that talk once a round: CoCoA+ (see `shard.py`), accelerated (see `cocoa.py`)."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from partwise.core.problem import Problem
from partwise.distributed import cocoa
from partwise.distributed.cluster import Cluster
from partwise.solvers.base import BlockAscent, Certificate, Solver, StepInfo, state_type
from partwise.solvers.dual.hard import add_to_average
from partwise.solvers.needs import Needs


class AscentState(NamedTuple):
    """The state of the driver; everything else is with the shards.

    `v`, its mean `average` (empty for smooth losses) and the weights `anchor` and `previous` (empty if nothing is
    accelerated) are in double precision. `dual` is D and its linear part. `place` is the run, the round and the seed.
    """

    v: np.ndarray
    average: np.ndarray
    n_averaged: np.ndarray
    anchor: np.ndarray
    previous: np.ndarray
    dual: np.ndarray
    place: np.ndarray


@dataclass(frozen=True)
class ShardedAscent(Solver):
    """A solver that visits examples, at work on every shard; shards exchange weights between rounds.

    Parameters
    ----------
    inner : Solver
    n_shards : int
    passes_a_round : int
        Passes over each shard's examples between two exchanges.
    snapshot_every : int
        Rounds between two snapshots of all shards.
    """

    inner: BlockAscent
    n_shards: int
    passes_a_round: int = 1
    snapshot_every: int = 5
    cluster: Cluster = field(default=None, repr=False, compare=False)  # type: ignore[assignment]

    @property
    def name(self) -> str:
        return self.inner.name

    @property
    def needs(self) -> Needs:
        return self.inner.needs

    def check(self, problem: Problem) -> None:
        self.inner.check(problem)

    def init(self, problem: Problem, random: np.random.Generator) -> AscentState:
        run, seed = (int(each) for each in random.integers(2**62, size=2))
        is_hard, n_weights = problem.loss.is_hard, problem.n_weights
        n_accelerated = 0 if problem.l1 or self.n_shards == 1 else n_weights
        return AscentState(
            v=np.zeros(n_weights),
            average=np.zeros(n_weights if is_hard else 0),
            n_averaged=np.zeros(1),
            anchor=np.zeros(n_accelerated),
            previous=np.zeros(n_accelerated),
            dual=np.zeros(2),
            place=np.array([run, 0, seed]),
        )

    def carry_over(self, problem: Problem, state: AscentState, changed: Set[str]) -> AscentState:
        """Start again: the shards of another problem are gone."""
        return self.init(problem, np.random.default_rng(int(state.place[2])))

    # -- rounds ---------------------------------------------------------------------------------------

    def step(
        self, problem: Problem, state: AscentState, random: np.random.Generator
    ) -> tuple[AscentState, StepInfo]:
        state = self._ready(problem, state)
        cluster, round_id = self.cluster, int(state.place[1]) + 1
        pull = self._pull(problem, state)
        replies = cluster.run_round(round_id, pull, self.passes_a_round)
        total = np.zeros(problem.n_weights)
        for reply in replies:
            reply.change.add_to(total)
        state = state._replace(v=state.v + total, place=state.place.copy(), dual=state.dual.copy())
        state.place[1] = round_id
        if cluster.stale:
            state = self._settled(problem, state)
        else:
            linear = sum(reply.linear for reply in replies)
            state.dual[:] = linear - problem.squared_norm(state.v) / (2.0 * problem.l2), linear
        state = self._accelerated(problem, state, pull)
        if problem.loss.is_hard:
            add_to_average(state.average, state.n_averaged, state.v)
        if cluster.folder is None:
            self.keep(state)
        visits = sum(reply.visits for reply in replies)
        gap = sum(reply.gap for reply in replies)
        return state, StepInfo(max(visits, 1.0) / problem.n_examples, float(state.dual[0]), gap)

    def keep(self, state: AscentState) -> bool:
        """Keep the states of the shards, if that is due; whether a run can go on from here.

        The driver calls it before it saves its own state. Certificates change the states of the shards, too.
        """
        return int(state.place[1]) % self.snapshot_every == 0 and self.cluster.snapshot()

    def _pull(self, problem: Problem, state: AscentState) -> float:
        """κ of the next round."""
        return cocoa.pull(problem.l2, int(state.place[1])) if len(state.anchor) else 0.0

    def _accelerated(self, problem: Problem, state: AscentState, pull: float) -> AscentState:
        """z of the next round."""
        if not len(state.anchor):
            return state
        if cocoa.begins(int(state.place[1])):
            return state._replace(anchor=state.v / problem.l2, previous=state.v / problem.l2)
        if not pull:
            return state
        weights = (state.v + pull * state.anchor) / (problem.l2 + pull)
        momentum = cocoa.momentum(problem.l2, pull)
        return state._replace(anchor=weights + momentum * (weights - state.previous), previous=weights)

    def _ready(self, problem: Problem, state: AscentState) -> AscentState:
        """Bring the shards to the round of the state, or v to the shards' α; workers then hold v + κ z."""
        run, at_round, seed = (int(each) for each in state.place)
        if self.cluster.place != (run, at_round):
            self.cluster.begin(run, at_round, seed)
        if self.cluster.stale:
            state = self._settled(problem, state)
        pull = self._pull(problem, state)
        start = state.v + pull * state.anchor if pull else state.v
        self.cluster.pool.hold("v", start.astype(state_type(getattr(self.inner, "precision", "double"))))
        return state

    def _settled(self, problem: Problem, state: AscentState) -> AscentState:
        """The state with the exact v and dual of the shards' own α."""
        v, linear = self.cluster.settle()
        dual = linear - problem.squared_norm(v) / (2.0 * problem.l2)
        return state._replace(v=v, dual=np.array([dual, linear]))

    # -- certificate ----------------------------------------------------------------------------------

    def certificate(self, problem: Problem, state: AscentState) -> tuple[AscentState, Certificate]:
        """P of the weights, or of their mean if that is better, against D of the shards' α."""
        state = self._ready(problem, state)
        kept = float(state.dual[0])
        state = self._settled(problem, state)
        dual, found = float(state.dual[0]), []
        is_accelerated = self._pull(problem, state) > 0.0
        candidates = [state.previous if is_accelerated else problem.weights_at(state.v)]
        if problem.loss.is_hard and state.n_averaged[0]:
            candidates.insert(0, problem.weights_at(state.average))
        for weights in candidates:  # the weights of α come last: gaps must belong to them
            primal = self.cluster.losses(weights) + problem.penalty(weights)
            found.append(Certificate(primal, dual, weights, abs(kept - dual)))
        return state, min(found, key=lambda each: each.primal)
