"""Proximal points with momentum around the visits of online EG (Lin, Mairal, Harchaoui 2015, "Catalyst").

The more examples compete for a weight, the shorter are the steps that still gain, and the more passes block-coordinate
ascent takes. So visits work on P(w) + Σ_j (κ_j / 2) (w_j − z_j)² instead, whose dual needs far fewer, and z follows:

    w_j = (v_j + κ_j z_j) / (l2 + κ_j),   z ← w + θ (w − w_before)

*Held* weights are those of frequent attributes, where steps are short (`rescaled.py`); those of rare ones are as
free as before. Where l2 is weak and the gap falls slowly all the same, all weights have one κ = ratio · l2, with the
θ of the paper, (1 − √q) / (1 + √q) for q = l2 / (l2 + κ).

Visits see other values, l2 + κ in place of l2 and v + κ z in place of v, and are otherwise the same. Between passes
v is that of α again, so that certificates are those of the problem itself.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np

from partwise.core.problem import Problem
from partwise.solvers.dual.rescaled import rescaled

if TYPE_CHECKING:
    from partwise.solvers.dual.mixtures import MixtureState
    from partwise.solvers.dual.potentials import EGState

_WATCHED = 5  # passes over which the fall of the gap is measured
_FIRST_PASSES = 2  # before which steps say nothing of what they will be
_SHORT_STEP = 0.57  # of β: their mean after these passes, below which examples compete
_ALL = slice(None)


def unaccelerated(n_weights: int, dtype: Any) -> dict[str, np.ndarray]:
    """The parts of a state before anything has begun, with room for `n_weights`."""
    return {
        "rounds": np.zeros(1, np.int64),
        "holds": np.zeros(1, np.int64),
        "since": np.full(1, -1, np.int64),
        "recent": np.full(_WATCHED, np.nan),
        "anchor": np.zeros(n_weights, dtype),
        "previous": np.zeros(n_weights, dtype),
    }


class Pull(NamedTuple):
    """What the visits of a pass work on, and how they see weights.

    Attributes
    ----------
    problem, l2 : Problem, float
    where : slice or ndarray of int64
        Weights with a κ.
    root, kappa : float or ndarray of float64
        What values are multiplied by, and κ, of these.
    """

    problem: Problem
    l2: float
    where: Any
    root: Any
    kappa: Any


class Acceleration(NamedTuple):
    """Held weights follow with `momentum` after every pass.

    The ratio of all weights grows like the passes so far to the power of 3/2, from `rest` after `rest` of them, to at
    most `largest`, and z follows every `every` passes.
    That begins after `rest` passes, as soon as the gap falls more slowly than it would then. The more passes a run
    takes, the more it gains from a larger ratio. Without `may_hold`, no weights are held.
    """

    rest: int = 10
    every: int = 2
    largest: float = 300.0
    momentum: float = 0.5
    may_hold: bool = True

    def begin(self, problem: Problem, state: EGState | MixtureState) -> Pull | None:
        """What to visit in the next pass, None for the problem itself; v is made to include κ z."""
        pull = self._pull(problem, state)
        if pull is not None:
            _see(state, pull.where, pull.root * (state.v[pull.where] + pull.kappa * state.anchor[pull.where]))
        return pull

    def _pull(self, problem: Problem, state: EGState | MixtureState) -> Pull | None:
        l2 = problem.l2
        if not len(state.anchor):
            return None
        if state.since[0] >= 0:
            kappa = self._ratio(state) * l2
            return Pull(problem, l2 + kappa, _ALL, 1.0, kappa)
        others = rescaled(problem) if state.holds[0] else None
        if others is None:
            return None
        return Pull(others.problem, l2, others.held, others.root, l2 * (others.root**-2.0 - 1.0))

    def _ratio(self, state: EGState | MixtureState) -> float:
        rounds = float(state.rounds[0])
        return min(rounds * math.sqrt(max(rounds / self.rest, 1.0)), self.largest)

    def end(self, problem: Problem, state: EGState | MixtureState, pull: Pull) -> float:
        """v, its mean and its norm as they are without κ z; by how much w and v / l2 being apart widens the gap."""
        where, l2 = pull.where, problem.l2
        weights = pull.root * state.v[where].astype(np.float64) / pull.l2
        state.average[where] *= pull.root * (l2 / pull.l2)
        _see(state, where, state.v[where] / pull.root - pull.kappa * state.anchor[where])
        apart = weights - state.v[where] / l2
        if state.since[0] < 0:
            self._follow(state, where, state.average[where] / l2, self.momentum)
        elif (state.rounds[0] - state.since[0]) % self.every == self.every - 1:
            root = math.sqrt(l2 / pull.l2)
            self._follow(state, where, weights, (1.0 - root) / (1.0 + root))
        return 0.5 * l2 * float(apart @ apart)

    def _follow(
        self, state: EGState | MixtureState, where: Any, weights: np.ndarray, momentum: float
    ) -> None:
        state.anchor[where] = weights + momentum * (weights - state.previous[where])
        state.previous[where] = weights

    def watch(self, problem: Problem, state: EGState | MixtureState, gap: float) -> None:
        """Count a pass that ended with an estimate of the gap; hold where steps are short, and begin with all weights
        where the gap's fall has become slow."""
        state.rounds[0] += 1
        before, state.recent[:-1], state.recent[-1] = float(state.recent[0]), state.recent[1:].copy(), gap
        if not len(state.anchor) or state.since[0] >= 0:
            return
        if self.may_hold and state.rounds[0] == _FIRST_PASSES:
            competes = (
                not cast("EGState", state).code.size and state.step.mean() < _SHORT_STEP * problem.loss.beta
            )
            state.holds[0] = competes and rescaled(problem) is not None
            self.lead_from(state, state.average / problem.l2)
        if state.rounds[0] < self.rest:
            return
        by_round = 1.0 - 1.0 / math.sqrt(1.0 + self._ratio(state))
        if gap > before * by_round ** (_WATCHED / self.every):
            state.since[0] = state.rounds[0]
            self.lead_from(state, (state.average if state.holds[0] else state.v) / problem.l2)

    def lead_from(self, state: EGState | MixtureState, weights: np.ndarray) -> None:
        """Let z be `weights`, the model's own."""
        if len(state.anchor):
            state.anchor[:] = state.previous[:] = weights

    def forget(self, state: EGState | MixtureState) -> None:
        """The problem has changed, and what z was following has moved away."""
        state.since[0], state.recent[:] = -1, np.nan
        state.anchor[:] = state.previous


def _see(state: EGState | MixtureState, where: Any, v: Any) -> None:
    """Change v and its squared norm."""
    before = state.v[where].astype(np.float64)
    state.v[where] = v
    after = state.v[where].astype(np.float64)
    state.norm[0] += float(after @ after) - float(before @ before)
