"""`smo-eg`: SMO first, then online exponentiated gradient (Bartlett, Collins, Taskar, McAllester 2004, §6).

EG needs potentials θ where SMO has marginals. The logarithms of conditional probabilities read off the marginals are
such potentials, exactly. Those of a chain differ from position to position, also where transitions are tied and θ
would have one block for all of them; so EG sees tied chains untied, as SMO does.
"""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from partwise.core.problem import Problem
from partwise.errors import InputError
from partwise.solvers.base import Certificate, Memory, Solver, StepInfo, vectors_bytes
from partwise.solvers.dual.acceleration import unaccelerated
from partwise.solvers.dual.coded import no_codes
from partwise.solvers.dual.exponentiated_gradient import ExponentiatedGradient
from partwise.solvers.dual.potentials import EGState, refresh
from partwise.solvers.dual.smo import SMO, SMOState, conditional_potentials
from partwise.solvers.dual.untied import untied

FLOOR = 1e-6  # share of the uniform distribution in the point where EG takes over
_EG = ExponentiatedGradient("gap", acceleration=None, precision="double")


class HybridState(NamedTuple):
    """An :class:`EGState` of the untied problem, its μ under the name of SMO's.

    While SMO is at work, ``passes`` is below its share, and potentials, step sizes and entropies are zero.
    """

    theta: np.ndarray
    marginals: np.ndarray
    v: np.ndarray
    entropy: np.ndarray
    cost: np.ndarray
    gap: np.ndarray
    step: np.ndarray
    visited: np.ndarray
    norm: np.ndarray
    seen: np.ndarray
    waited: np.ndarray
    clock: np.ndarray
    average: np.ndarray
    n_averaged: np.ndarray
    passes: np.ndarray
    step_l2: np.ndarray
    beta: np.ndarray

    def smo_state(self) -> SMOState:
        return SMOState(*(getattr(self, name) for name in SMOState._fields))

    def eg_state(self) -> EGState:
        return EGState(*self, **{**unaccelerated(0, np.float64), **no_codes()})


@dataclass(frozen=True)
class SMOThenEG(Solver):
    """`smo` for the first passes, then online EG, by gaps, from SMO's marginals.

    Tied chains stay untied in both: the marginals are kept exactly, at the cost of n·L² numbers for θ and
    for μ of a sentence of n positions and L labels. (One tied block of potentials can keep no more than the sums of
    the transitions over positions, and only after a search for it.)

    Parameters
    ----------
    smo_passes : int
        Passes of SMO.
    smo : SMO
        Its settings.
    """

    smo_passes: int = 5
    smo: SMO = field(default_factory=SMO)
    name = "smo-eg"
    needs = SMO.needs

    def check(self, problem: Problem) -> None:
        self.smo.check(problem)
        if isinstance(self.smo_passes, bool) or not isinstance(self.smo_passes, int) or self.smo_passes < 1:
            raise InputError(f"smo_passes must be an integer of at least 1, not {self.smo_passes!r}")

    def memory_needed(self, problem: Problem) -> Memory:
        return Memory(3 * 8 * problem.n_parts, vectors_bytes(problem))

    def init(self, problem: Problem, random: np.random.Generator) -> HybridState:
        start, n = self.smo.init(problem, random), problem.n_examples
        entropy, step = np.zeros((2, n))
        return HybridState(
            theta=np.zeros(len(start.marginals)),
            entropy=entropy,
            step=step,
            visited=np.zeros(n, np.uint8),
            passes=np.zeros(1),
            step_l2=np.array([problem.l2]),
            beta=np.array([np.inf]),
            **start._asdict(),
        )

    def carry_over(self, problem: Problem, state: HybridState, changed: Set[str]) -> HybridState:
        """Marginals of SMO stay; potentials of EG have grown towards another optimum, and take longer to turn back
        than SMO takes to begin again."""
        if state.passes[0] < self.smo_passes:
            self.smo.carry_over(problem, state.smo_state(), changed)
            return state
        return self.init(problem, np.random.default_rng(0))

    def step(
        self, problem: Problem, state: HybridState, random: np.random.Generator
    ) -> tuple[HybridState, StepInfo]:
        view = untied(problem)
        if state.passes[0] >= self.smo_passes:
            return state, _EG.step(view, state.eg_state(), random)[1]
        _, info = self.smo.step(problem, state.smo_state(), random)
        state.passes[0] += info.passes
        if state.passes[0] >= self.smo_passes:
            _hand_over(view, state.eg_state(), random)
        return state, info

    def certificate(self, problem: Problem, state: HybridState) -> tuple[HybridState, Certificate]:
        if state.passes[0] < self.smo_passes:
            return state, self.smo.certificate(problem, state.smo_state())[1]
        _, certificate = _EG.certificate(untied(problem), state.eg_state())
        return state, replace(certificate, weights=certificate.weights[: problem.n_weights].copy())


def _hand_over(problem: Problem, state: EGState, random: np.random.Generator) -> None:
    """Fill in what EG needs besides marginals; those are smoothed."""
    point = state.point()
    point.theta[:], point.visited[:] = smoothed_potentials(problem, state.mu), 1
    refresh(problem, point)
    point.step[:] = _EG._initial_step(problem, point, random)


def smoothed_potentials(problem: Problem, mu: np.ndarray) -> np.ndarray:
    """Finite potentials with marginals (1 − ε) μ + ε·uniform, ε = FLOOR; see also `conditional_potentials`.

    EG cannot give mass to what has none. The mixture has the marginals of a mixture of distributions, so it is
    consistent, and zero only where a mask is.
    """
    uniform = np.zeros(problem.n_parts)
    problem.at_potentials(np.zeros(problem.n_parts), np.ones(problem.n_examples, np.uint8), uniform)
    theta = conditional_potentials(problem, (1.0 - FLOOR) * mu + FLOOR * uniform)
    theta[theta == -np.inf] = 0.0  # masked: no matter what it is, but EG computes with it
    return theta
