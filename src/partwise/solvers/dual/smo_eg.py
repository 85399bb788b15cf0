"""`smo-eg`: SMO first, then online exponentiated gradient (Bartlett, Collins, Taskar, McAllester 2004, §6).

EG needs potentials θ, and SMO has marginals. The logarithms of the conditional probabilities of these marginals are
such potentials, exactly. They differ from position to position, also if transitions are tied and θ would have one block
for all positions. So EG sees tied chains untied, as SMO does.
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

FLOOR = 1e-6  # share of the uniform distribution in the point at which EG takes over
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

    Both see tied chains untied. Marginals are kept exactly, which takes n·L² numbers each for θ and μ of a sentence of
    n positions and L labels. (One tied block of potentials could keep only the sums of the transitions over positions,
    and finding it takes a search.)

    Parameters
    ----------
    smo_passes : int
        Number of passes of SMO.
    smo : SMO
        The settings of SMO.
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
        """Marginals of SMO stay. Potentials of EG point to another optimum, and turning them back takes longer than a
        new start with SMO."""
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
    """Fill in the fields that EG needs besides marginals; marginals are smoothed."""
    point = state.point()
    point.theta[:], point.visited[:] = smoothed_potentials(problem, state.mu), 1
    refresh(problem, point)
    point.step[:] = _EG._initial_step(problem, point, random)


def smoothed_potentials(problem: Problem, mu: np.ndarray) -> np.ndarray:
    """Finite potentials with marginals (1 − ε) μ + ε·uniform, ε = FLOOR; see also `conditional_potentials`.

    EG cannot give mass to parts without mass. The mixture is consistent, since it has the marginals of a mixture of
    distributions, and zero only for masked parts.
    """
    uniform = np.zeros(problem.n_parts)
    problem.at_potentials(np.zeros(problem.n_parts), np.ones(problem.n_examples, np.uint8), uniform)
    theta = conditional_potentials(problem, (1.0 - FLOOR) * mu + FLOOR * uniform)
    theta[theta == -np.inf] = 0.0  # masked parts: any finite number, since EG computes with it
    return theta
