"""`smo`: factored SMO on marginals, for β = ∞ (Taskar, Guestrin, Koller 2004)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from partwise.errors import InputError
from partwise.kernels.smo_pass import MarginalPoint, log_conditionals, smo_pass
from partwise.problem import Problem
from partwise.solvers.base import Certificate, StepInfo
from partwise.solvers.sampling import expected_gap, most_due, note_exact, note_visits
from partwise.solvers.untied import untied
from partwise.structures.chain import Chain
from partwise.structures.multiclass import Multiclass


class SMOState(NamedTuple):
    """A :class:`MarginalPoint` of the untied problem, when examples were visited (see `sampling.py`), the weighted
    mean of v so far, and its number of points."""

    marginals: np.ndarray
    v: np.ndarray
    cost: np.ndarray
    gap: np.ndarray
    norm: np.ndarray
    seen: np.ndarray
    waited: np.ndarray
    clock: np.ndarray
    average: np.ndarray
    n_averaged: np.ndarray

    def point(self) -> MarginalPoint:
        return MarginalPoint(*self[:5])


@dataclass(frozen=True)
class SMO:
    """Moves mass between two labellings of one example at a time, in the space of marginals; no step size.

    After a first pass over all examples, those come next whose last visits let expect the largest gaps.

    Parameters
    ----------
    mass : {"marginals", "entropy"}
        What a labelling has to give: the least marginal among the parts it loses, which is all that marginals of
        a chain allow; or what the distribution of largest entropy with these marginals puts on it. That can be
        next to nothing, and SMO then gets stuck, as Bartlett et al. (2004, Figure 4) saw theirs do.

    Notes
    -----
    Steps change marginals of neighbours at single positions. A chain with tied transitions has parts for their
    sums only, so it is seen as one without (``untied.py``): the state holds n·L² numbers for a sentence of n
    positions and L labels, where those of other solvers hold n·L + L².
    """

    mass: Literal["marginals", "entropy"] = "marginals"
    name = "smo"

    def check(self, problem: Problem) -> None:
        require_marginals(problem, self.name)
        if self.mass not in ("marginals", "entropy"):
            raise InputError(f"mass must be marginals or entropy, not {self.mass!r}")

    def init(self, problem: Problem, random: np.random.Generator) -> SMOState:
        view, n = untied(problem), problem.n_examples
        v, average = np.zeros((2, view.n_weights))
        return SMOState(
            marginals=gold_marginals(view),
            v=v,
            cost=np.zeros(n),
            gap=np.full(n, np.nan),
            norm=np.zeros(1),
            seen=np.full(n, -1.0),
            waited=np.ones(n),
            clock=np.zeros(1),
            average=average,
            n_averaged=np.zeros(1),
        )

    def step(
        self, problem: Problem, state: SMOState, random: np.random.Generator
    ) -> tuple[SMOState, StepInfo]:
        view, point, weight = untied(problem), state.point(), problem.batch.example_weight
        scratch, entropic, visits = view.scratch(np.float64), self.mass == "entropy", 0
        for here in _chunks(state, weight, random):
            smo_pass(view.batch, here, point, view.loss.gamma, view.l2, entropic, scratch)
            note_visits(here, state.seen, state.waited, state.clock)
            visits += len(here)
            state.n_averaged[0] += 1.0
            state.average[:] += (point.v - state.average) * (8.0 / (state.n_averaged[0] + 7.0))
        gap = expected_gap(point.gap, state.seen, state.waited, float(state.clock[0]))
        return state, StepInfo(visits / len(weight), _dual(view, point), float(weight @ gap))

    def certificate(self, problem: Problem, state: SMOState) -> tuple[SMOState, Certificate]:
        """Marginals are made consistent again on the way, by way of their conditionals."""
        view, point = untied(problem), state.point()
        kept = _dual(view, point)
        theta = conditional_potentials(view, point.mu)
        exact = view.at_potentials(theta, np.ones(view.n_examples, np.uint8), point.mu)
        point.v[:], point.cost[:], point.norm[0] = exact.v, exact.cost, exact.v @ exact.v
        dual = _dual(view, point)
        candidates = [point.v / view.l2]
        if state.n_averaged[0]:
            candidates.insert(0, state.average / view.l2)
        best_primal, best_weights = np.inf, candidates[0]
        for weights in candidates:
            loss, inner = view.losses(weights, point.mu)
            primal = float(view.batch.example_weight @ loss + 0.5 * view.l2 * (weights @ weights))
            if primal < best_primal:
                best_primal, best_weights = primal, weights
        point.gap[:] = np.maximum(loss - inner, 0.0)  # at w(α), the last candidate
        note_exact(state.seen, state.waited, state.clock)
        weights = best_weights[: problem.n_weights].copy()
        return state, Certificate(best_primal, dual, weights, abs(kept - dual))


def _chunks(state: SMOState, weight: np.ndarray, random: np.random.Generator) -> Iterator[np.ndarray]:
    """About as many visits as there are examples, a tenth at a time."""
    n = len(weight)
    chunk, order = max(1, n // 10), random.permutation(n)
    by_gap = not np.isnan(state.gap).any()
    for first in range(0, n, chunk):
        here = order[first : first + chunk]
        if by_gap:
            expected = expected_gap(state.gap, state.seen, state.waited, float(state.clock[0]))
            here = most_due(expected * weight, len(here), random)
        yield here


def require_marginals(problem: Problem, name: str) -> None:
    """For solvers that keep nothing but marginals: β = ∞, and parts whose marginals say all."""
    if not problem.loss.is_hard:
        raise InputError(
            f"solver {name!r} is for beta = inf and loss={problem.loss.name!r} has "
            f"beta = {problem.loss.beta:g}: use an 'eg' solver"
        )
    structure = problem.structure
    if not isinstance(structure, Multiclass) and not (isinstance(structure, Chain) and structure.order == 1):
        raise InputError(
            f"solver {name!r} keeps marginals of classes, or of neighbours in chains of order 1; other "
            "structures have other parts: use 'bcfw' or an 'eg' solver"
        )


def gold_marginals(problem: Problem) -> np.ndarray:
    """Those of the true labels, (n_parts,)."""
    batch, mu = problem.batch, np.zeros(problem.n_parts)
    mu[np.repeat(batch.part_ptr[:-1], np.diff(batch.gold_ptr)) + batch.gold_part] = 1.0
    return mu


def conditional_potentials(problem: Problem, mu: np.ndarray) -> np.ndarray:
    """θ (n_parts,) that has the marginals `mu`: logarithms of conditionals, −inf where there is no mass.

    `problem` must be one of classes or of untied chains.
    """
    batch, theta = problem.batch, np.zeros(problem.n_parts)
    log_conditionals(batch.length, batch.part_ptr, problem.structure.n_labels, mu, theta)
    return theta


def _dual(problem: Problem, point: MarginalPoint) -> float:
    cost = problem.loss.gamma * (problem.batch.example_weight @ point.cost)
    return float(cost - point.norm[0] / (2.0 * problem.l2))
