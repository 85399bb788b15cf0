"""`bcfw`: block-coordinate Frank–Wolfe for β = ∞ (Lacoste-Julien et al. 2013; gaps as in Osokin et al. 2016)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from partwise.errors import InputError
from partwise.kernels.examples import Scratch
from partwise.kernels.frank_wolfe_pass import MixturePoint, frank_wolfe_pass, mixture_pass
from partwise.problem import Problem
from partwise.solvers.base import Certificate, StepInfo
from partwise.solvers.exponentiated_gradient import draw_by_gap


class MixtureState(NamedTuple):
    """A :class:`MixturePoint`, the weighted mean of v so far, and how many points went into it."""

    mu: np.ndarray
    v: np.ndarray
    cost: np.ndarray
    gap: np.ndarray
    norm: np.ndarray
    average: np.ndarray
    averaged: np.ndarray

    def point(self) -> MixturePoint:
        return MixturePoint(*self[:5])


@dataclass(frozen=True)
class BlockFrankWolfe:
    """One loss-augmented argmax and an exact line search per visit; no step size at all.

    Parameters
    ----------
    order : {"gap", "permuted", "random", "cyclic"}
        Which example next; "gap" draws mostly in proportion to the last known gaps.
    """

    order: Literal["gap", "permuted", "random", "cyclic"] = "gap"
    name = "bcfw"

    def check(self, problem: Problem) -> None:
        if not problem.loss.is_hard:
            raise InputError(
                f"solver 'bcfw' is for beta = inf and loss={problem.loss.name!r} has beta = {problem.loss.beta:g}: "
                "use an 'eg' solver"
            )
        if self.order not in ("gap", "permuted", "random", "cyclic"):
            raise InputError(f"order must be gap, permuted, random or cyclic, not {self.order!r}")

    def init(self, problem: Problem, random: np.random.Generator) -> MixtureState:
        batch, n = problem.batch, problem.n_examples
        mu = np.zeros(problem.n_parts, np.float32)
        gold = np.repeat(batch.part_ptr[:-1], np.diff(batch.gold_ptr)) + batch.gold_part
        np.add.at(mu, gold, 1)
        zeros = np.zeros(problem.n_weights, np.float32)
        return MixtureState(
            mu, zeros, np.zeros(n), np.full(n, np.nan), np.zeros(1), zeros.copy(), np.zeros(1)
        )

    def step(
        self, problem: Problem, state: MixtureState, random: np.random.Generator
    ) -> tuple[MixtureState, StepInfo]:
        point, scratch = state.point(), problem.scratch(np.float32)
        for here in self._chunks(problem, point, random):
            frank_wolfe_pass(problem.batch, here, point, problem.loss.gamma, problem.l2, scratch)
            state.averaged[0] += 1.0
            state.average[:] += (point.v - state.average) * np.float32(2.0 / (state.averaged[0] + 1.0))
        gap = float(problem.batch.example_weight @ point.gap)
        return state, StepInfo(1.0, self._dual(problem, point), gap)

    def _chunks(
        self, problem: Problem, point: MixturePoint, random: np.random.Generator
    ) -> Iterator[np.ndarray]:
        n = problem.n_examples
        chunk = max(1, n // 10)
        unknown = np.isnan(point.gap).any()
        if self.order == "random":
            order = random.integers(n, size=n)
        else:
            order = np.arange(n) if self.order == "cyclic" else random.permutation(n)
        for first in range(0, n, chunk):
            if self.order == "gap" and not unknown:
                yield draw_by_gap(
                    point.gap, problem.batch.example_weight, min(chunk, n - first), random
                )
            else:
                yield order[first : first + chunk]

    def _dual(self, problem: Problem, point: MixturePoint) -> float:
        cost = problem.loss.gamma * (problem.batch.example_weight @ point.cost)
        return float(cost - point.norm[0] / (2.0 * problem.l2))

    def certificate(
        self, problem: Problem, state: MixtureState
    ) -> tuple[MixtureState, Certificate]:
        point = state.point()
        kept = self._dual(problem, point)

        def work(first: int, last: int, scratch: Scratch, v: np.ndarray) -> None:
            mixture_pass(problem.batch, first, last, point.mu, v, point.cost, scratch)

        v = problem.over_examples(np.float64, work)
        point.v[:], point.norm[0] = v, v @ v
        dual = self._dual(problem, point)
        candidates = [v / problem.l2]
        if state.averaged[0]:
            candidates.insert(0, state.average.astype(np.float64) / problem.l2)
        best_primal, best_weights = np.inf, candidates[0]
        for weights in candidates:
            loss, inner = problem.losses(weights, point.mu)
            primal = float(
                problem.batch.example_weight @ loss + 0.5 * problem.l2 * (weights @ weights)
            )
            if primal < best_primal:
                best_primal, best_weights = primal, weights
        point.gap[:] = np.maximum(loss - inner, 0.0)  # at w(α), the last candidate
        return state, Certificate(best_primal, dual, best_weights, abs(kept - dual))
