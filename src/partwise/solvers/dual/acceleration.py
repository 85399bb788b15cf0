"""Weak l2: proximal points with momentum around the visits of online EG (Lin, Mairal, Harchaoui 2015, "Catalyst").

The weaker l2, the more examples compete for the same weights, and the more passes block-coordinate ascent takes. So
visits work on P(w) + (κ/2) ‖w − z‖² instead, whose dual needs far fewer, and z follows:

    w = (v + κ z) / (l2 + κ),   z ← w + θ (w − w_before),   θ = (1 − √q) / (1 + √q),   q = l2 / (l2 + κ)

Visits see l2 + κ in place of l2 and v + κ z in place of v, and are otherwise the same. Between passes v is that of α
again, so that certificates are those of the problem itself.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from partwise.core.problem import Problem

if TYPE_CHECKING:
    from partwise.solvers.dual.mixtures import MixtureState
    from partwise.solvers.dual.potentials import EGState

_WATCHED = 5  # passes over which the fall of the gap is measured


def unaccelerated(n_weights: int, dtype: Any) -> dict[str, np.ndarray]:
    """The parts of a state before anything has begun, with room for `n_weights`."""
    return {
        "rounds": np.zeros(1, np.int64),
        "since": np.full(1, -1, np.int64),
        "recent": np.full(_WATCHED, np.nan),
        "anchor": np.zeros(n_weights, dtype),
        "previous": np.zeros(n_weights, dtype),
    }


class Acceleration(NamedTuple):
    """κ / l2 is the number of passes so far, at most `largest`; z follows every `every` passes.

    It begins after `rest` passes, as soon as the gap falls more slowly than it would then. The more passes a run takes,
    the more it gains from a larger κ.
    """

    rest: int = 10
    every: int = 2
    largest: float = 300.0

    def begin(self, problem: Problem, state: EGState | MixtureState) -> float:
        """κ of the next pass, 0 for none; v is made to include κ z."""
        if not len(state.anchor) or state.since[0] < 0:
            return 0.0
        pull = self._ratio(state) * problem.l2
        state.v[:] += state.anchor * state.v.dtype.type(pull)
        return pull

    def _ratio(self, state: EGState | MixtureState) -> float:
        return min(float(state.rounds[0]), self.largest)

    def end(self, problem: Problem, state: EGState | MixtureState, pull: float) -> float:
        """v, its mean and its norm as they are without κ z; by how much w and v / l2 being apart widens the gap."""
        l2, number = problem.l2, state.v.dtype.type
        weights = state.v / number(l2 + pull)
        state.average[:] *= number(l2 / (l2 + pull))
        state.v[:] -= state.anchor * number(pull)
        state.norm[0] = problem.squared_norm(state.v.astype(np.float64))
        apart = (weights - state.v / number(l2)).astype(np.float64)
        if (state.rounds[0] - state.since[0]) % self.every == self.every - 1:
            root = math.sqrt(l2 / (l2 + pull))
            momentum = number((1.0 - root) / (1.0 + root))
            state.anchor[:] = weights + momentum * (weights - state.previous)
            state.previous[:] = weights
        return 0.5 * l2 * float(apart @ apart)

    def watch(self, problem: Problem, state: EGState | MixtureState, gap: float) -> None:
        """Count a pass that ended with an estimate of the gap, and begin where its fall has become slow."""
        state.rounds[0] += 1
        before, state.recent[:-1], state.recent[-1] = float(state.recent[0]), state.recent[1:].copy(), gap
        if not len(state.anchor) or state.since[0] >= 0 or state.rounds[0] < self.rest:
            return
        by_round = 1.0 - 1.0 / math.sqrt(1.0 + self._ratio(state))
        if gap > before * by_round ** (_WATCHED / self.every):
            state.since[0] = state.rounds[0]
            state.anchor[:] = state.v / state.v.dtype.type(problem.l2)
            state.previous[:] = state.anchor

    def forget(self, state: EGState | MixtureState) -> None:
        """The problem has changed, and what z was following has moved away."""
        state.since[0], state.recent[:] = -1, np.nan
