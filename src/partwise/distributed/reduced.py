"""A problem whose passes over all examples are answered by shards: for solvers that need sums and nothing else."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from partwise.core.problem import Evaluation, Problem
from partwise.distributed.cluster import Cluster
from partwise.distributed.split import deal


@dataclass
class ReducedProblem(Problem):
    """The same problem; what is asked of all examples at some weights is asked of the shards.

    Of values that examples have each, only the weighted sum of a shard travels. It stands at one of the shard's
    examples, divided by its weight, and all others are zero: whoever adds up by weight finds the sum.
    """

    visits_read_rows = False

    cluster: Cluster = field(default=None, repr=False, compare=False)  # type: ignore[assignment]
    places: Any = field(default=None, repr=False, compare=False)

    @classmethod
    def of(cls, problem: Problem, cluster: Cluster) -> ReducedProblem:
        found = cls(*problem._parts()[:7])
        weight = problem.example_weight
        shards = deal(problem, cluster.n_shards)
        found.places = np.array([own[np.argmax(weight[own])] if len(own) else -1 for own in shards])
        found.cluster = cluster
        return found

    def _begun(self) -> Cluster:
        if self.cluster.place[0] < 0:
            self.cluster.begin(0, 0, 0)
        return self.cluster

    def _placed(self, sums: np.ndarray) -> np.ndarray:
        """Values (n_examples,) whose weighted sum is that of `sums` (n_shards,)."""
        values, has_examples = np.zeros(self.n_examples), self.places >= 0
        at = self.places[has_examples]
        weight = self.example_weight[at]
        values[at] = np.where(weight > 0.0, sums[has_examples] / np.where(weight > 0.0, weight, 1.0), 0.0)
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
        sums = self._begun().evaluate(self.scoring(weights), settings)
        v = np.zeros(self.n_weights)
        for each in sums:
            v += each.v
        entropy, cost, log_total, gold = np.array([each.numbers for each in sums]).T
        return Evaluation(v, *map(self._placed, (entropy, cost, log_total, gold)))

    def primal(self, weights: np.ndarray) -> float:
        return self._begun().losses(self.scoring(weights)) + self.penalty(weights)
