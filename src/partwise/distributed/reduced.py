"""A problem whose sums over all examples are added up from shards, for solvers that need only such sums."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from partwise.core.evaluation import Evaluation
from partwise.core.problem import Problem
from partwise.distributed.cluster import Cluster


@dataclass
class ReducedProblem(Problem):
    """The same problem; shards evaluate their examples at given weights.

    Only the weighted sum over a shard is sent of a value that each example has. It is written to one of the shard's
    examples, divided by the weight of this example; the values of the others are zero. So the weighted sum over all
    examples is right.
    """

    visits_read_rows = False

    cluster: Cluster = field(default=None, repr=False, compare=False)  # type: ignore[assignment]
    holders: Any = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, problem: Problem, cluster: Cluster) -> ReducedProblem:
        found = cls(*problem._parts()[:7])
        weight = problem.example_weight
        found.holders = np.array([own[np.argmax(weight[own])] for own in cluster.shards])
        found.cluster = cluster
        return found

    def _ready_cluster(self) -> Cluster:
        if self.cluster.place[0] < 0:
            self.cluster.begin(0, 0, 0)
        return self.cluster

    def _spread(self, sums: np.ndarray) -> np.ndarray:
        """Values (n_examples,) whose weighted sum is that of `sums` (n_shards,)."""
        values, weight = np.zeros(self.n_examples), self.example_weight[self.holders]
        values[self.holders] = np.where(weight > 0.0, sums / np.where(weight > 0.0, weight, 1.0), 0.0)
        return values

    def at_weights(
        self,
        weights: np.ndarray,
        scale: float,
        cost_scale: float = 0.0,
        gold_scale: float = 0.0,
        hard: bool = False,
    ) -> Evaluation:
        settings: tuple[Any, ...] = scale, cost_scale, gold_scale, hard
        sums = self._ready_cluster().evaluate(self.scoring(weights), settings)
        v = np.zeros(self.n_weights)
        for each in sums:
            v += each.v
        entropy, cost, log_total, gold = np.array([each.numbers for each in sums]).T
        return Evaluation(v, *map(self._spread, (entropy, cost, log_total, gold)))

    def primal(self, weights: np.ndarray) -> float:
        return self._ready_cluster().losses(self.scoring(weights)) + self.penalty(weights)
