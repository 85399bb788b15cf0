"""`smo`: factored SMO on marginals, for β = ∞ (Taskar, Guestrin, Koller 2004)."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple

import numpy as np

from partwise.compiled.examples import Batch, Scratch
from partwise.core.problem import Problem
from partwise.errors import InputError
from partwise.solvers.base import Certificate, Memory, Solver, StepInfo, vectors_bytes
from partwise.solvers.dual.hard import (
    add_to_average,
    forget_averages,
    hard_certificate,
    hard_dual,
    settle,
)
from partwise.solvers.dual.smo_pass import MarginalPoint, log_conditionals, smo_pass
from partwise.solvers.dual.untied import untied
from partwise.solvers.needs import Needs
from partwise.solvers.sampling import due_chunks, expected_gap, note_exact, note_visits
from partwise.solvers.threads import Threads


class SMOState(NamedTuple):
    """A :class:`MarginalPoint` of the untied problem, times of visits (see `sampling.py`), and the weighted mean of v
    with its number of points."""

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
class SMO(Solver):
    """Moves mass between two labellings of one example at a time, in the space of marginals; no step size.

    After a first pass over all examples, those with the largest expected gaps come first (`sampling.py`).

    Parameters
    ----------
    mass : {"marginals", "entropy"}
        The mass that a labelling can give. "marginals": the least marginal among the parts that it loses, all that the
        marginals of a chain allow. "entropy": its probability under the distribution of largest entropy with these
        marginals. That can be tiny, and then SMO stalls, as in Bartlett et al. (2004, Figure 4).

    Notes
    -----
    Steps change marginals of neighbours at single positions. A chain with tied transitions has parts for their sums
    only, so it is seen untied (``untied.py``): the state holds n·L² numbers for a sentence of n positions and L labels,
    while states of other solvers hold n·L + L².
    """

    mass: Literal["marginals", "entropy"] = "marginals"
    name = "smo"
    needs = Needs(loss="hard", features=True, first_order=True, whole_labels=True, exact=True, ridge=True)

    def check(self, problem: Problem) -> None:
        if self.mass not in ("marginals", "entropy"):
            raise InputError(f"mass must be marginals or entropy, not {self.mass!r}")

    def memory_needed(self, problem: Problem) -> Memory:
        return Memory(8 * problem.n_parts, vectors_bytes(problem))

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

    def carry_over(self, problem: Problem, state: SMOState, changed: Set[str]) -> SMOState:
        """Marginals stay."""
        settle(untied(problem), state.marginals, state.point())
        forget_averages(state)
        return state

    def step(
        self, problem: Problem, state: SMOState, random: np.random.Generator
    ) -> tuple[SMOState, StepInfo]:
        view, point, weight = untied(problem), state.point(), problem.batch.example_weight
        entropic, visits = self.mass == "entropy", 0

        def run(batch: Batch, order: np.ndarray, own: MarginalPoint, scratch: Scratch) -> None:
            smo_pass(batch, order, n_labels_of(view), own, view.loss.gamma, view.l2, entropic, scratch)

        with Threads(view, ("sums", "best")) as threads:
            for here in due_chunks(state, problem, random):
                threads.visit(here, point, run)
                note_visits(here, state.seen, state.waited, state.clock)
                visits += len(here)
                add_to_average(state.average, state.n_averaged, point.v)
        gap = expected_gap(point.gap, state.seen, state.waited, float(state.clock[0]))
        return state, StepInfo(visits / len(weight), hard_dual(view, point), float(weight @ gap))

    def certificate(self, problem: Problem, state: SMOState) -> tuple[SMOState, Certificate]:
        """Marginals are made consistent again first, through their conditionals."""
        view, point = untied(problem), state.point()
        kept = hard_dual(view, point)
        theta = conditional_potentials(view, point.mu)
        exact = view.at_potentials(theta, np.ones(view.n_examples, np.uint8), point.mu)
        point.v[:], point.cost[:], point.norm[0] = exact.v, exact.cost, exact.v @ exact.v
        average = state.average if state.n_averaged[0] else None
        found = hard_certificate(view, point.mu, point, point.v, kept, average)
        note_exact(state.seen, state.waited, state.clock)
        return state, replace(found, weights=found.weights[: problem.n_weights].copy())


def n_labels_of(problem: Problem) -> int:
    """The number of labels of a position."""
    return problem.structure.kinds[0].width


def gold_marginals(problem: Problem) -> np.ndarray:
    """The marginals of the true labels, (n_parts,)."""
    mu = np.zeros(problem.n_parts)
    mu[problem.gold_indices()] = 1.0
    return mu


def conditional_potentials(problem: Problem, mu: np.ndarray) -> np.ndarray:
    """θ (n_parts,) that has the marginals `mu`: logarithms of conditionals, −inf where there is no mass.

    `problem` must be one of classes or of untied chains.
    """
    batch, theta = problem.batch, np.zeros(problem.n_parts)
    log_conditionals(problem.lengths, batch.part_ptr, n_labels_of(problem), mu, theta)
    return theta
